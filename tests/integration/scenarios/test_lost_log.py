# SPDX-License-Identifier: Apache-2.0
"""
``__remote_log_metadata`` lost its last third between two runs, or was deleted and made anew, on a real broker.

What was copied before has no record any more. Runs do nothing there and say what to type; nothing living goes, and nothing is
declared deleted while objects lie there.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from airflow.sdk.exceptions import AirflowFailException
from confluent_kafka import Consumer, TopicPartition

from airflow_provider_rlmm.cli import main as command
from airflow_provider_rlmm.cli.exit_codes import ExitCode
from airflow_provider_rlmm.core.base.errors import MetadataTopicReplacedError
from airflow_provider_rlmm.core.log import floored_log
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.runs import cleaner_session
from airflow_provider_rlmm.operators.cleaner import MarkDeletedPartitionsOperator
from dev import formatter, tiering
from dev.broker import METADATA_TOPIC, LocalKafka, await_condition
from dev.roots import expected_root_of
from tests.integration.kafka_topics import TIMEOUT_S, admin_of
from tests.integration.operators import connect, context

pytestmark = [pytest.mark.integration, pytest.mark.scenarios]

LIVING, GONE, CLEANED = "living", "gone", "cleaned"
SEGMENTS = 4
OBJECTS = 5
"""Of each segment: its log, three indexes, the leader epochs."""
AT_ONCE = ("--min-absence-ms", "0", "--override", "short_min_absence", "--max-share", "1")
SCRUB = ("scrub", *AT_ONCE, "--min-unreferenced-ms", "0", "--override", "short_unreferenced_wait")
CLEAN = ("clean", *AT_ONCE)


@dataclass
class World:
    """
    :param kafka: a broker whose metadata topic has one partition.
    :param work: the work folder.
    :param capsys: what commands print.
    """

    kafka: LocalKafka
    work: Path
    capsys: pytest.CaptureFixture[str]

    def run(self, *arguments: str, real: bool = True, confirm: tuple[str, ...] = ()) -> tuple[int, str]:
        """Run a command as somebody types it; return its exit code and all that it said."""
        self.capsys.readouterr()
        where = (
            "--bootstrap-server", self.kafka.bootstrap_servers, "--storage", self.kafka.remote_dir.as_uri(),
            "--expected-root", expected_root_of(self.kafka.remote_dir), "--work-dir", str(self.work),
        )  # fmt: skip
        leave = ("--execute",) if real else ()
        code = command.run([*arguments, *where, "--cluster-id", self.kafka.cluster_id, *leave, *confirm])
        said = self.capsys.readouterr()
        return code, said.out + said.err

    @property
    def objects(self) -> set[str]:
        return set(self.kafka.remote_objects())

    @property
    def events(self) -> list[str]:
        """What this package has written, as Kafka's own formatter prints it."""
        return [line for line in formatter.formatter_lines(self.kafka) if "brokerId=-1" in line]

    @property
    def end(self) -> int:
        """Where the metadata topic ends, exclusive."""
        with Consumer(self.kafka.client_config(group_id="unused")) as consumer:
            return int(consumer.get_watermark_offsets(TopicPartition(METADATA_TOPIC, 0), timeout=TIMEOUT_S)[1])

    def copied(self, topic: str) -> UUID:
        """Create a topic whose segments are copied; return its id."""
        topic_id = tiering.create_tiered_topic(self.kafka, topic, 1)
        tiering.produce_until_remote(self.kafka, topic, SEGMENTS)
        return topic_id

    def cut(self) -> tuple[int, int]:
        """Have the metadata topic lose its last third while the broker is down; return its end before and after."""
        before = self.end
        self.kafka.stop()
        keep = before * 2 // 3
        cut_off(self.kafka.log_dir / f"{METADATA_TOPIC}-0", keep)
        (self.kafka.log_dir / ".kafka_cleanshutdown").unlink(missing_ok=True)
        self.kafka.start()
        assert self.end == keep
        return before, keep

    def grow(self, end: int) -> None:
        """Have the broker copy more of the living topic until the metadata topic ends there, or little behind."""
        # Each copy is begun and finished: two records.
        segments = -(-(end - self.end) // 2)
        records = {0: segments * tiering.RECORDS_PER_SEGMENT}
        tiering.produce(self.kafka, LIVING, records, tiering.SEGMENT_BYTES, TIMEOUT_S)
        await_condition(lambda: self.end >= end, f"the metadata topic ends at offset {end}", TIMEOUT_S, interval=0.2)
        quiet(self)


def quiet(world: World) -> None:
    """Wait until the broker has nothing to copy for a while."""
    ends: list[int] = []

    def holds_still() -> bool:
        ends.append(world.end)
        return len(ends) > 4 and len(set(ends[-4:])) == 1

    await_condition(holds_still, "the metadata topic holds still", TIMEOUT_S, interval=1)


def cut_off(folder: Path, end: int) -> None:
    """Cut a partition's log off at an offset, whole batches of records; the broker makes its indexes anew."""
    (path,) = folder.glob("*.log")
    data, at = path.read_bytes(), 0
    while at < len(data) and struct.unpack_from(">q", data, at)[0] < end:
        at += 12 + struct.unpack_from(">i", data, at + 8)[0]
    path.write_bytes(data[:at])
    for index in (*folder.glob("*.index"), *folder.glob("*.timeindex"), *folder.glob("*.snapshot")):
        index.unlink()


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[World]:
    # A broker that is alone either has its log or has lost it.
    monkeypatch.setattr(floored_log, "CATCH_UP_S", 2.0)
    with LocalKafka(tmp_path / "cluster", metadata_partitions=1) as kafka:
        yield World(kafka, tmp_path / "work", capsys)


def lost_by(world: World, *topics: str) -> tuple[UUID, int]:
    """
    Have the topics copied, the last of which loses records; a run before has read them all.

    :return: id of the deleted topic, and up to where the log was read.
    """
    for topic in topics:
        world.copied(topic)
    gone = tiering.provoke_scenario_b(world.kafka, GONE)
    quiet(world)
    code, text = world.run(*SCRUB, real=False)
    assert code in (ExitCode.DONE, ExitCode.NEEDS_A_PERSON), text
    assert len(world.objects) == SEGMENTS * OBJECTS * len(topics)
    before, _ = world.cut()
    return gone, before


def still_refused(world: World, name: str, *arguments: str) -> None:
    """See two runs of a command, dry and for real, do nothing and say what to type."""
    objects, events = world.objects, world.events
    for real in (False, True, True):
        code, text = world.run(*arguments, real=real)
        assert (code, f"--confirm-lost-records {name}" in text) == (ExitCode.NEEDS_A_PERSON, True), text
        assert "needs a person: LOST_RECORDS" in text
        assert (world.objects, world.events) == (objects, events)


def confirmed(world: World, name: str, gone: UUID) -> None:
    """See runs go on once somebody has confirmed the loss, and delete only what the log still names whole."""
    orphans = tiering.remote_files(world.kafka, gone)
    others = world.objects - orphans
    code, text = world.run(*CLEAN, confirm=("--confirm-lost-records", name))
    assert code == ExitCode.NEEDS_A_PERSON, "it is in doubt, and nobody has acknowledged that"
    code, text = world.run(*CLEAN)
    assert (code, "as was confirmed" in text) == (ExitCode.NEEDS_A_PERSON, True), text
    assert world.run(*SCRUB)[0] == ExitCode.NEEDS_A_PERSON
    assert world.objects - orphans == others
    left = tiering.remote_files(world.kafka, gone)
    assert left in (set(), orphans)
    assert any("DELETE_PARTITION_FINISHED" in line for line in world.events) is (not left)


def test_a_scrub_deletes_nothing_of_a_living_topic_whose_records_are_lost(world: World) -> None:
    gone, read_until = lost_by(world, GONE, LIVING)
    still_refused(world, f"0@{read_until}", *SCRUB)
    confirmed(world, f"0@{read_until}", gone)


def test_a_cleanup_deletes_nothing_of_a_topic_of_which_it_does_not_know_all(world: World) -> None:
    gone, read_until = lost_by(world, LIVING, GONE)
    orphans = tiering.remote_files(world.kafka, gone)
    still_refused(world, f"0@{read_until}", *CLEAN)
    confirmed(world, f"0@{read_until}", gone)
    assert tiering.remote_files(world.kafka, gone) == orphans


def test_a_log_that_has_grown_again_is_not_the_one_that_was_read(world: World) -> None:
    gone, read_until = lost_by(world, GONE, LIVING)
    world.grow(read_until + 1)
    still_refused(world, f"0@{read_until}", *SCRUB)
    still_refused(world, f"0@{read_until}", *CLEAN)
    confirmed(world, f"0@{read_until}", gone)


def test_a_log_that_is_catching_up_is_no_loss_and_the_command_may_be_tried_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, read_until = lost_by(world, GONE, LIVING)
    objects, events = world.objects, world.events
    waits: list[float] = []

    def grow_a_little(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 1:
            world.grow(world.end + 1)

    monkeypatch.setattr(cleaner_session, "floored", partial(cleaner_session.floored, sleep=grow_a_little))
    code, text = world.run(*CLEAN)
    assert (code, "still catching up" in text) == (ExitCode.UNAVAILABLE, True), text
    assert world.end < read_until
    assert objects <= world.objects
    assert world.events == events


@pytest.fixture
def made_anew(world: World) -> tuple[World, str, set[str]]:
    """A cluster on which a run has cleaned something, and whose metadata topic was deleted and made anew since."""
    world.copied(LIVING)
    world.copied(CLEANED)
    tiering.provoke_scenario_b(world.kafka, CLEANED)
    quiet(world)
    assert world.run(*CLEAN)[0] == ExitCode.DONE
    assert len(world.objects) == SEGMENTS * OBJECTS
    old = tiering.topic_ids(world.kafka)[METADATA_TOPIC]
    admin = admin_of(world.kafka)
    admin.delete_topics([METADATA_TOPIC])[METADATA_TOPIC].result(TIMEOUT_S)
    # The broker makes it anew as it starts.
    world.kafka.restart()
    await_condition(
        lambda: tiering.topic_ids(world.kafka).get(METADATA_TOPIC, old) != old, "the topic is made anew", TIMEOUT_S
    )
    world.grow(2 * SEGMENTS)
    return world, kafka_uuid_str(tiering.topic_ids(world.kafka)[METADATA_TOPIC]), world.objects


@pytest.mark.parametrize("work", ["work", "another"])
def test_a_metadata_topic_that_was_made_anew_is_refused_until_its_new_id_is_confirmed(
    made_anew: tuple[World, str, set[str]],
    work: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, new_id, objects = made_anew
    world.work = tmp_path / work
    (tmp_path / "disk").mkdir()
    what_to_type = f"--confirm-metadata-topic-id {new_id}"
    runs: list[tuple[Callable[..., Any], int]] = [
        (partial(world.run, *arguments, real=real), ExitCode.FAILED if real else ExitCode.NEEDS_A_PERSON)
        for arguments in (SCRUB, CLEAN)
        for real in (False, True)
    ]
    runs.append((partial(world.run, "copy", str(tmp_path / "disk"), LIVING), ExitCode.FAILED))
    for run, expected in (*runs, *runs):
        code, text = run()
        assert (code, what_to_type in text) == (expected, True), text
        assert (world.objects, world.events) == (objects, [])
    connect(monkeypatch, world.kafka, expected_root=expected_root_of(world.kafka.remote_dir))
    monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", str(world.work))
    # A task names what its DAG takes, and no option.
    in_airflow = f'the parameter "confirm_metadata_topic_id": "{new_id}" of the cleaner\'s'
    with pytest.raises((MetadataTopicReplacedError, AirflowFailException), match=in_airflow):
        MarkDeletedPartitionsOperator(task_id="mark", dry_run_only=False).execute(context("run"))
    code, _ = world.run(*CLEAN, confirm=("--confirm-metadata-topic-id", new_id))
    assert code == ExitCode.DONE
    code, text = world.run(*SCRUB)
    assert (code, "UNNAMED_OBJECTS" in text) == (ExitCode.NEEDS_A_PERSON, True), text
    assert world.objects == objects, "the old objects of the living topic stay"
    world.work = tmp_path / "a third one"
    assert world.run(*CLEAN)[0] == ExitCode.DONE, "the stamp has the new id"
    (stamp,) = (world.kafka.remote_dir / "airflow-provider-rlmm").rglob("*.json")
    named = json.loads(stamp.read_bytes())
    assert (named["metadata_topic_id"], len(named["former_metadata_topics"])) == (new_id, 1)
