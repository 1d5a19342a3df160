# SPDX-License-Identifier: Apache-2.0
"""What `rlmm retention` tells, beside what a real leader deletes next: its lineage is fetched from its objects."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer

from airflow_provider_rlmm.cli.main import run
from airflow_provider_rlmm.core.log.answers import PartitionLook
from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
from airflow_provider_rlmm.core.log.kafka.leaders import KafkaLeaders
from airflow_provider_rlmm.core.records.records import TopicIdPartition, kafka_uuid_str
from airflow_provider_rlmm.core.storage.object_store import ObjectStoreRemoteStorageManager
from airflow_provider_rlmm.features.retention.overdue import DueSegments
from dev import tiering
from dev.broker import METADATA_TOPIC, await_condition
from dev.faults import FaultyKafka
from tests.integration.leading import (
    HOUR_MS,
    PASS_MS,
    VALUE,
    Ask,
    Leading,
    all_copied,
    asking,
    copied,
    deleted_of,
    deleted_until_quiet,
    ids,
    leading_of,
    say,
    write,
)

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

SEGMENTS = 6


@pytest.fixture(scope="module")
def leading() -> Iterator[Leading]:
    with (
        FaultyKafka(properties={"remote.log.manager.task.interval.ms": str(PASS_MS)}) as kafka,
        leading_of(kafka, kafka.faults) as found,
    ):
        yield found


@pytest.fixture
def ask(leading: Leading, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Ask:
    return asking(leading.kafka, monkeypatch, capsys, tmp_path / "work")


def restart(leading: Leading) -> None:
    """Begin another leader epoch; consumers that were there learn of the broker a moment later."""
    leading.kafka.stop()
    leading.kafka.start()

    def served() -> bool:
        try:
            leading.tail.catch_up()
        except KafkaException:
            return False
        return True

    await_condition(served, "the metadata topic is served again", 60)


def test_by_time_all_that_is_told_goes_and_nothing_else(leading: Leading, ask: Ask) -> None:
    topic_id = tiering.create_tiered_topic(leading.kafka, "timed", 1)
    write(leading, "timed", [3 * HOUR_MS] * 3 + [0] * 4)
    before = copied(leading, "timed", topic_id, SEGMENTS)
    assert ask("timed")[0]["segments"] == 0
    leading.set("timed", retention_ms=str(2 * HOUR_MS))
    told = ask("timed", "0", "--segments")
    assert {row["reason"] for row in told} == {"RETENTION_MS"}
    assert {row["certainty"] for row in told} == {"all"}
    assert sorted(row["end_offset"] for row in told) == sorted(before.values())[:3]
    assert deleted_of(leading, topic_id, before, 3) == ids(told)
    # The leader rolls its newest segment at its own time: while that is copied, nobody can say "all".
    row = await_condition(
        lambda: row if (row := ask("timed")[0])["certainty"] == "all" else None, "no copy is under way", 60
    )
    assert row["segments"] == 0
    assert row["next_due_ms"] > time.time() * 1000 + HOUR_MS


@pytest.mark.rare
def test_what_lies_below_the_log_start_goes_and_nothing_else(leading: Leading, ask: Ask) -> None:
    topic_id = tiering.create_tiered_topic(leading.kafka, "trimmed", 1)
    write(leading, "trimmed", [0] * (SEGMENTS + 1))
    before = copied(leading, "trimmed", topic_id, SEGMENTS)
    second = sorted(before.values())[1]
    leading.cut("trimmed", second + 2)
    told = ask("trimmed", "0", "--segments")
    assert [(row["reason"], row["certainty"]) for row in told] == [("LOG_START_OFFSET", "all")] * 2
    assert deleted_of(leading, topic_id, before, 2) == ids(told)


@pytest.mark.rare
def test_by_size_the_leader_deletes_at_least_what_is_told(leading: Leading, ask: Ask) -> None:
    topic_id = tiering.create_tiered_topic(leading.kafka, "sized", 1)
    write(leading, "sized", [0] * (SEGMENTS + 1))
    before = copied(leading, "sized", topic_id, SEGMENTS)
    # The active segment is only on the disk: its bytes count for the leader.
    write(leading, "sized", [0])
    leading.set("sized", retention_bytes=str(4 * tiering.SEGMENT_BYTES))
    told = ask("sized", "0", "--segments")
    assert {(row["reason"], row["certainty"]) for row in told} == {("RETENTION_BYTES", "at least")}
    assert deleted_of(leading, topic_id, before, len(told)) >= ids(told) != set()


@pytest.mark.rare
def test_after_a_leader_change_the_lineage_has_several_epochs(leading: Leading, ask: Ask) -> None:
    topic_id = tiering.create_tiered_topic(leading.kafka, "restarted", 1)
    write(leading, "restarted", [3 * HOUR_MS] * 3)
    copied(leading, "restarted", topic_id, 2)
    restart(leading)
    write(leading, "restarted", [3 * HOUR_MS, 0, 0, 0])
    before = copied(leading, "restarted", topic_id, SEGMENTS)
    leading.set("restarted", retention_ms=str(2 * HOUR_MS))
    told = ask("restarted", "0", "--segments")
    assert {(row["reason"], row["certainty"]) for row in told} == {("RETENTION_MS", "all")}
    assert deleted_of(leading, topic_id, before, len(told)) == ids(told) != set()


@pytest.mark.rare
def test_what_is_copied_and_still_on_the_disk_goes_likewise(leading: Leading, ask: Ask) -> None:
    forever = {"local.retention.ms": "-2", "local.retention.bytes": "-2"}
    topic_id = tiering.create_tiered_topic(leading.kafka, "kept-on-disk", 1, **forever)
    write(leading, "kept-on-disk", [3 * HOUR_MS] * 3 + [0] * 4)
    before = copied(leading, "kept-on-disk", topic_id, SEGMENTS)
    leading.set("kept-on-disk", retention_ms=str(2 * HOUR_MS))
    told = ask("kept-on-disk", "0", "--segments")
    assert {(row["reason"], row["certainty"]) for row in told} == {("RETENTION_MS", "all")}
    assert deleted_of(leading, topic_id, before, len(told)) == ids(told) != set()


@pytest.mark.rare
def test_the_segment_that_holds_the_log_start_stays(leading: Leading, ask: Ask) -> None:
    topic_id = tiering.create_tiered_topic(leading.kafka, "cut", 1)
    write(leading, "cut", [0] * (SEGMENTS + 1))
    before = copied(leading, "cut", topic_id, SEGMENTS)
    inside = sorted(before.values())[2] - 1
    leading.cut("cut", inside)
    told = ask("cut", "0", "--segments")
    assert sorted(row["end_offset"] for row in told) == sorted(before.values())[:2]
    assert deleted_of(leading, topic_id, before, 2) == ids(told)
    (row,) = ask("cut")
    assert (row["certainty"], row["segments"], row["log_start_offset"]) == ("all", 0, inside)


@pytest.mark.rare
def test_each_partition_has_its_own_leader(leading: Leading, ask: Ask) -> None:
    topic_id = tiering.create_tiered_topic(leading.kafka, "two", 2)
    for partition, old in ((0, 2), (1, 4)):
        write(leading, "two", [3 * HOUR_MS] * old + [0] * 4, partition)
    before = {p: copied(leading, "two", topic_id, 5, p) for p in (0, 1)}
    leading.set("two", retention_ms=str(2 * HOUR_MS))
    told = ask("two", "--segments")
    assert {p: sum(row["partition"] == p for row in told) for p in (0, 1)} == {0: 2, 1: 4}
    gone = deleted_of(leading, topic_id, before[0], 2) | deleted_of(leading, topic_id, before[1], 4, 1)
    assert gone == ids(told)


@pytest.mark.rare
def test_a_deletion_that_failed_is_tried_again(leading: Leading, ask: Ask) -> None:
    topic_id = tiering.create_tiered_topic(leading.kafka, "failing", 1)
    write(leading, "failing", [3 * HOUR_MS] * 3 + [0] * 4)
    before = copied(leading, "failing", topic_id, SEGMENTS)
    leading.faults.fail("delete")
    try:
        leading.set("failing", retention_ms=str(2 * HOUR_MS))
        begun = deleted_of(leading, topic_id, before, 1)
        told = ask("failing", "0", "--segments")
        by_reason = {
            reason: ids([row for row in told if row["reason"] == reason]) for reason in {row["reason"] for row in told}
        }
        assert by_reason["DELETION_RETRIED"] == begun
        assert len(ids(told)) == 3
    finally:
        leading.faults.heal()
    assert deleted_of(leading, topic_id, before, 3) == ids(told)
    assert ask("failing")[0]["segments"] == 0


@pytest.mark.rare
def test_time_and_size_together_take_at_least_what_is_told(leading: Leading, ask: Ask) -> None:
    topic_id = tiering.create_tiered_topic(leading.kafka, "both", 1)
    write(leading, "both", [3 * HOUR_MS] * 2 + [0] * 6)
    before = copied(leading, "both", topic_id, SEGMENTS + 1)
    leading.set("both", retention_ms=str(2 * HOUR_MS), retention_bytes=str(4 * tiering.SEGMENT_BYTES))
    told = ask("both", "0", "--segments")
    assert [row["reason"] for row in told] == ["RETENTION_MS"] * 2 + ["RETENTION_BYTES"] * (len(told) - 2)
    assert deleted_of(leading, topic_id, before, len(told)) >= ids(told)


@pytest.mark.rare
def test_an_old_leader_counts_what_lies_below_the_log_start(
    leading: Leading, ask: Ask, request: pytest.FixtureRequest
) -> None:
    """It has found all segments valid once, and does not look again (`isAllSegmentsValid`)."""
    topic_id = tiering.create_tiered_topic(leading.kafka, "old", 1)
    write(leading, "old", [0] * 7)
    before = all_copied(leading, "old", topic_id)
    leading.set("old", retention_bytes=str(int(5.5 * tiering.SEGMENT_BYTES)))
    deleted_until_quiet(leading, topic_id, before, 1, PASS_MS)
    before = leading.segments(topic_id)
    # With the next segment there is one too many; without those below the log start there are fewer than may be.
    write(leading, "old", [0])
    leading.cut("old", sorted(before.values())[1] + 1)
    told = ask("old", "0", "--segments")
    assert [(row["reason"], row["certainty"]) for row in told] == [("LOG_START_OFFSET", "at least")] * 2
    gone = deleted_until_quiet(leading, topic_id, before, 2, PASS_MS)
    say(request, "an old leader, after its log start was moved", ids(told), gone)
    assert ids(told) < gone


@pytest.mark.rare
def test_transactions_open_and_aborted_change_nothing(leading: Leading, ask: Ask) -> None:
    topic_id = tiering.create_tiered_topic(leading.kafka, "transacted", 1)
    for name, end in (("aborted", "abort"), ("committed", "commit")):
        with_transaction(leading, "transacted", name, [3 * HOUR_MS] * 2, end)
    all_copied(leading, "transacted", topic_id)
    write(leading, "transacted", [0] * 2)
    all_copied(leading, "transacted", topic_id)
    open_one = with_transaction(leading, "transacted", "open", [3 * HOUR_MS] * 2, None)
    before = leading.segments(topic_id)
    # A marker is of now: the segments before the first one are old enough.
    leading.set("transacted", retention_ms=str(2 * HOUR_MS))
    told = ask("transacted", "0", "--segments")
    assert {(row["reason"], row["certainty"]) for row in told} == {("RETENTION_MS", "all")}
    assert deleted_until_quiet(leading, topic_id, before, len(told), PASS_MS) == ids(told) != set()
    open_one.abort_transaction(30)


def with_transaction(leading: Leading, topic: str, name: str, ages_ms: list[int], end: str | None) -> Producer:
    """Fill a segment for each age in a transaction that is committed, aborted, or left open."""
    now_ms = int(time.time() * 1000)
    producer = Producer(leading.kafka.client_config(linger_ms=0, batch_num_messages=1, transactional_id=name))
    producer.init_transactions(60)
    producer.begin_transaction()
    for age_ms in ages_ms:
        for _ in range(tiering.RECORDS_PER_SEGMENT):
            producer.produce(topic, VALUE, b"0", 0, timestamp=now_ms - age_ms)
    assert producer.flush(120) == 0
    if end == "commit":
        producer.commit_transaction(60)
    elif end == "abort":
        producer.abort_transaction(60)
    return producer


@pytest.mark.rare
def test_all_topics_are_told_and_hardly_anything_is_asked_again(
    leading: Leading, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic_id = tiering.create_tiered_topic(leading.kafka, "of-all", 2)
    for partition in (0, 1):
        write(leading, "of-all", [3 * HOUR_MS] * 2 + [0] * 4, partition)
        copied(leading, "of-all", topic_id, 5, partition)
    fetched: list[Any] = []
    fetch_index = ObjectStoreRemoteStorageManager.fetch_index

    def counted(self: Any, metadata: Any, index_type: Any) -> bytes:
        fetched.append(metadata)
        return fetch_index(self, metadata, index_type)

    monkeypatch.setattr(ObjectStoreRemoteStorageManager, "fetch_index", counted)
    before = {row["topic"]: row for row in ask()}
    assert {row["unresolved"] for row in before.values()} == {0}
    assert (before["of-all"]["all"], before["of-all"]["segments"]) == (2, 0)
    assert fetched
    leading.set("of-all", retention_ms=str(2 * HOUR_MS))
    fetched.clear()
    after = {row["topic"]: row for row in ask()}
    assert (after["of-all"]["all"], after["of-all"]["by_reason"]["RETENTION_MS"]["segments"]) == (2, 4)
    assert not fetched, "each leader leads still"


@pytest.mark.rare
def test_a_leader_tells_its_own_epoch_before_it_has_written_anything(leading: Leading) -> None:
    topic_id = tiering.create_tiered_topic(leading.kafka, "idle", 1)
    write(leading, "idle", [0])
    tip = TopicIdPartition(topic_id, "idle", 0)
    metadata_topic_id = tiering.topic_ids(leading.kafka)[METADATA_TOPIC]
    config = KafkaClientConfig(leading.kafka.client_config())
    epochs = []
    for _ in range(2):
        with KafkaLeaders(config, leading.kafka.cluster_id, metadata_topic_id) as leaders:
            look = leaders.look([tip])[tip]
            assert isinstance(look, PartitionLook)
            assert look.leader_epoch is not None
            epochs.append(look.leader_epoch)
        restart(leading)
    assert epochs[0] < epochs[1]


@pytest.mark.rare
def test_a_leader_that_does_not_get_on_is_named_hours_later(
    leading: Leading, ask: Ask, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    topic_id = tiering.create_tiered_topic(leading.kafka, "stuck", 1)
    write(leading, "stuck", [3 * HOUR_MS] * 2 + [0] * 4)
    before = copied(leading, "stuck", topic_id, 5)
    leading.faults.fail("delete")
    try:
        leading.set("stuck", retention_ms=str(2 * HOUR_MS))
        deleted_of(leading, topic_id, before, 1)
        (row,) = ask("stuck")
        assert (row["overdue_segments"], row["segments"]) == (0, 2)
        # Let seven hours pass.
        (document,) = (tmp_path / "work").glob(f"cluster-*/retention/{kafka_uuid_str(topic_id)}.json")
        due = DueSegments.from_json(document.read_text())
        earlier = {
            p: replace(one, since_ms={segment: ms - 7 * HOUR_MS for segment, ms in one.since_ms.items()})
            for p, one in due.partitions.items()
        }
        document.write_text(replace(due, partitions=earlier).to_json())
        assert run(["retention", "stuck", "--json"]) == 4
        printed = capsys.readouterr()
        late = json.loads(printed.out)["overdue"]
        assert (late["partition"], late["segments"]) == (0, 2)
        assert f"in the log of broker {late['leader']}, its leader" in printed.err
    finally:
        leading.faults.heal()
    deleted_of(leading, topic_id, before, 2)
    await_condition(lambda: ask("stuck")[0]["segments"] == 0, "the leader gets on", 60)
    assert ask("stuck")[0]["overdue_segments"] == 0


@pytest.mark.rare
def test_a_leader_that_cannot_copy_is_told_by_the_times_of_its_records(
    leading: Leading, ask: Ask, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Little is written: one record in a segment that time has closed, one in the active segment."""
    by_the_hour = {"segment.ms": str(HOUR_MS), "local.retention.ms": str(HOUR_MS)}
    # The times of its copies show which time has passed.
    other_id = tiering.create_tiered_topic(leading.kafka, "not-hanging", 1)
    write(leading, "not-hanging", [0] * 2)
    copied(leading, "not-hanging", other_id, 1)
    leading.faults.fail("copy")
    try:
        topic_id = tiering.create_tiered_topic(leading.kafka, "hanging", 2, **by_the_hour)
        produce_aged(leading, "hanging", 0, 5 * HOUR_MS, 0)
        produce_aged(leading, "hanging", 1, HOUR_MS // 2)
        # It begins its copy, fails, and takes it back, again and again.
        await_condition(lambda: run(["retention", "hanging", "0"]) == 0, "a copy was begun", 60)
        capsys.readouterr()
        assert ask("hanging", "0")[0]["hanging"] is None
        (document,) = (tmp_path / "work").glob(f"cluster-*/retention/{kafka_uuid_str(topic_id)}.json")
        due = DueSegments.from_json(document.read_text())
        assert due.partitions.keys() == {0}, "what waits in an active segment is nothing to remember"
        waiting = due.partitions[0].waiting
        assert waiting is not None
        earlier = replace(due.partitions[0], waiting=replace(waiting, since_ms=waiting.since_ms - HOUR_MS))
        document.write_text(replace(due, partitions={0: earlier}).to_json())
        (row,) = ask("hanging", "0", code=4)
        assert (row["hanging"]["copied_to"], row["hanging"]["waiting_offsets"]) == (0, 2)
    finally:
        leading.faults.heal()
    copied(leading, "hanging", topic_id, 1)
    await_condition(lambda: ask("hanging", "0")[0]["hanging"] is None, "the leader gets on", 60)


@pytest.mark.rare
def test_an_idle_leader_closes_its_active_segment_at_the_end_of_local_retention(leading: Leading) -> None:
    """That is what an idle user partition is judged by: nothing is appended any more, and its segment is copied."""
    hours = {"segment.ms": str(100 * HOUR_MS), "local.retention.ms": str(2 * HOUR_MS)}
    topic_id = tiering.create_tiered_topic(leading.kafka, "idle-and-old", 2, **hours)
    produce_aged(leading, "idle-and-old", 1, HOUR_MS)
    produce_aged(leading, "idle-and-old", 0, 3 * HOUR_MS)
    copied(leading, "idle-and-old", topic_id, 1)
    assert leading.segments(topic_id, 1) == {}, "its record is younger than local retention"


def produce_aged(leading: Leading, topic: str, partition: int, *ages_ms: int) -> None:
    """Write a record for each age, each a batch of its own."""
    now_ms = int(time.time() * 1000)
    producer = Producer(leading.kafka.client_config(linger_ms=0, batch_num_messages=1))
    for age_ms in ages_ms:
        producer.produce(topic, b"x", b"0", partition, timestamp=now_ms - age_ms)
        assert producer.flush(60) == 0
