# SPDX-License-Identifier: Apache-2.0
"""The commands on a log that lost records between two runs of one work folder: nothing is deleted, and it is said."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from airflow_provider_rlmm.cli.main import run
from airflow_provider_rlmm.core.base import file_systems
from airflow_provider_rlmm.core.base.clock import HOUR_MS, ProvenClock, TimeProof, system_clock
from airflow_provider_rlmm.core.base.errors import StorageAccessError
from airflow_provider_rlmm.core.log import floored_log
from airflow_provider_rlmm.core.log.floored_log import NOTHING_CONFIRMED
from airflow_provider_rlmm.core.log.floors import FloorFiles
from airflow_provider_rlmm.core.log.in_process import METADATA_TOPIC_ID
from airflow_provider_rlmm.core.log.in_process_topics import InProcessClusterTopics
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.core.runs.access import RemoteLogAccess
from airflow_provider_rlmm.core.runs.connection_check import ConnectionCheck
from airflow_provider_rlmm.core.runs.metadata_topic import NoStamps, why_replaced
from airflow_provider_rlmm.core.runs.storage_access import StorageAccess
from airflow_provider_rlmm.core.storage.stamps import Stamp, is_stamp
from tests.builders import Cluster, add, tip
from tests.roots import the_work_folder_is_older_than_all_copies  # noqa: F401  # a fixture

CLUSTER = "cluster-1"
GONE = tip("gone", 0, 9)
WRITES = ("--execute", "--cluster-id", CLUSTER)
SCRUB = ("scrub", "--max-share", "1", "--storage", "file:///tiered")
CLEAN = ("clean", "--max-share", "1", "--storage", "file:///tiered")


class Topics(InProcessClusterTopics):
    def describe_metadata_topic(self, name: str) -> Any:
        return SimpleNamespace(authorized_operations=None, partition_count=1)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cluster:
    """A living topic of 12 segments, 60 objects; nobody waits, and the test turns the proven clock."""
    fake = Cluster(living_topic=False)
    fake.topics = Topics({"alive": fake.alive.topic_id}, cluster_id=CLUSTER)
    fake.segments(fake.alive, 12)

    def proven(self: Any, log: Any, **_: Any) -> ProvenClock:
        return ProvenClock(lambda: TimeProof(fake.now_ms, system_clock(), "a test", proven=True))

    monkeypatch.setenv("RLMM_BOOTSTRAP_SERVER", "b:9092")
    monkeypatch.setenv("RLMM_WORK_URI", str(tmp_path / "work"))
    monkeypatch.setattr(floored_log, "CATCH_UP_S", 0.0)
    monkeypatch.setattr(RemoteLogAccess, "get_proven_clock", proven)
    monkeypatch.setattr(RemoteLogAccess, "check_cluster", lambda self, *_: CLUSTER)
    monkeypatch.setattr(RemoteLogAccess, "get_cluster", lambda self, *_: SimpleNamespace(answered=["b:9092"]))
    monkeypatch.setattr(file_systems, "modified_ms", lambda uri: fake.now_ms)
    monkeypatch.setattr(RemoteLogAccess, "check_layout", lambda self: "fits")
    for kind, name, value in (
        (RemoteLogAccess, "get_event_log", nullcontext(fake.log)),
        (RemoteLogAccess, "get_cluster_topics", fake.topics),
        (RemoteLogAccess, "get_offset_store", fake.offsets),
        (StorageAccess, "get_storage_manager", fake.storage),
    ):
        monkeypatch.setattr(kind, name, lambda self, value=value: value)
    return fake


def cut(cluster: Cluster) -> None:
    cluster.log.cut_off(0, 14)


def cut_and_grow_again(cluster: Cluster) -> None:
    cut(cluster)
    for number in range(20, 32):
        cluster.log.append(0, serialize(add(cluster.alive, number)))


LOSSES = [cut, cut_and_grow_again]


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = run([*arguments])
    printed = capsys.readouterr()
    return code, printed.out + printed.err


PLAN = ("plan", "--max-share", "1", "--storage", "file:///tiered")


@pytest.mark.parametrize("command", [PLAN, CLEAN, SCRUB], ids=lambda command: str(command[0]))
def test_the_era_of_the_log_is_said_and_a_dry_run_is_red_where_a_real_one_is_refused(
    cluster: Cluster, command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert "The metadata topic is plain: no record" in said(capsys, *command)[1]
    cluster.log.policy = frozenset({"compact"})
    assert "The metadata topic is compacted: its cleanup.policy is compact." in said(capsys, *command)[1]
    assert run([*command, "--json"]) == 4
    era = json.loads(capsys.readouterr().out)["era"]
    assert era["name"] == "compacted"
    assert "its cleanup.policy is compact" in era["why"]


@pytest.mark.slow
@pytest.mark.parametrize("lose", LOSSES)
def test_a_scrub_deletes_nothing_of_a_living_topic_whose_records_are_lost(
    cluster: Cluster, lose: Callable[[Cluster], None], capsys: pytest.CaptureFixture[str]
) -> None:
    keys = set(cluster.storage.keys)
    assert said(capsys, *SCRUB)[0] == 0
    lose(cluster)
    for _ in range(2):
        cluster.now_ms += 80 * HOUR_MS
        code, text = said(capsys, *SCRUB, *WRITES)
        assert code == 4
        assert "--confirm-lost-records 0@24" in text
        assert set(cluster.storage.keys) - {"stamp"} >= keys
    assert cluster.ours() == []


@pytest.mark.slow
@pytest.mark.parametrize("lose", LOSSES)
@pytest.mark.parametrize("execute", [(), WRITES])
def test_a_cleanup_does_nothing_where_records_are_lost(
    cluster: Cluster, lose: Callable[[Cluster], None], execute: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(12, 15):
        cluster.segment(GONE, number)
    assert said(capsys, *CLEAN, *WRITES)[0] == 0
    keys, read = set(cluster.storage.keys), cluster.log.high_water_marks()[0]
    lose(cluster)
    events = cluster.ours()
    cluster.now_ms += 30 * HOUR_MS
    code, text = said(capsys, *CLEAN, *execute)
    assert code == 4
    assert f"--confirm-lost-records 0@{read}" in text
    assert set(cluster.storage.keys) == keys
    assert cluster.ours() == events


@pytest.mark.slow
def test_once_it_is_confirmed_by_name_runs_go_on_and_it_stays_in_doubt(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(12, 15):
        cluster.segment(GONE, number)
    end = cluster.log.high_water_marks()[0]
    whole = tip("whole", 0, 10)
    assert said(capsys, *CLEAN, *WRITES)[0] == 0
    read = cluster.log.high_water_marks()[0]
    # The marker and the last segment of the deleted topic are lost.
    cluster.log.cut_off(0, end - 2)
    cluster.segment(whole, 16)
    code, text = said(capsys, *CLEAN, *WRITES, "--confirm-lost-records", "0@7")
    assert code == 1
    assert f"it would be 0@{read}" in text
    confirmed = ("--confirm-lost-records", f"0@{read}")
    code, _ = said(capsys, *CLEAN, *WRITES, *confirmed)
    assert code == 4, "it is in doubt, and nobody has acknowledged that"
    cluster.now_ms += 30 * HOUR_MS
    code, text = said(capsys, *CLEAN, *WRITES)
    assert code == 4
    assert "as was confirmed" in text
    assert cluster.keys_of(whole) == set(), "what storage shows to be whole is cleaned"
    assert len(cluster.keys_of(GONE)) == 15, "storage holds a segment that the log does not name"
    assert not [line for line in cluster.ours() if line.startswith("DELETE_PARTITION_FINISHED") and "gone" in line]


@pytest.mark.slow
def test_a_gap_whose_cause_is_said_once_puts_nothing_in_doubt(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(12, 15):
        cluster.segment(GONE, number)
    offset = cluster.log.append(0, b"the marker of a transaction")
    cluster.log.remove(0, [offset])
    code, text = said(capsys, *CLEAN, *WRITES)
    assert code == 4
    assert f'--confirm-lost-records "0@{offset}-{offset}=the marker of a transaction"' in text
    cluster.now_ms += 30 * HOUR_MS
    code, text = said(capsys, *CLEAN, *WRITES, "--confirm-lost-records", f"0@{offset}-{offset}=a transaction of ann")
    assert code == 0, text
    assert cluster.keys_of(GONE) == set()
    assert said(capsys, *CLEAN, *WRITES)[0] == 0, "it is on record"


def test_check_says_it(cluster: Cluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ConnectionCheck, "findings", lambda self: [])
    assert said(capsys, *SCRUB)[0] == 0
    cut(cluster)
    assert run(["check", "--json", "--storage", "file:///tiered"]) == 4
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert [f["good"] for f in findings if '"confirm_lost_records": "0@24"' in f["finding"]] == [False]


def test_no_topic_is_archived_where_records_are_lost_or_nobody_knows(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = (
        "archive", "--topic-id", kafka_uuid_str(cluster.alive.topic_id), "--storage", "file:///tiered", "--archive",
        str(tmp_path / "archive"),
    )  # fmt: skip
    assert said(capsys, *SCRUB)[0] == 0
    cut(cluster)
    code, text = said(capsys, *archive)
    assert (code, "was read up to offset 24" in text, "from storage by hand" in text) == (1, True, True)
    (floor,) = (tmp_path / "work").rglob("*.floor.json")
    floor.write_text("damaged")
    code, text = said(capsys, *archive)
    assert (code, f"{floor.name} cannot be read" in text) == (1, True)
    assert not (tmp_path / "archive").exists()


def make_anew(cluster: Cluster) -> str:
    """The metadata topic is deleted and made anew: brokers write to it what they copy from now on."""
    cluster.log.topic_id = cluster.topics.metadata_topic_id = UUID(int=99)
    cluster.log.cut_off(0, 0)
    cluster.segment(cluster.alive, 40)
    return kafka_uuid_str(UUID(int=99))


@pytest.mark.slow
def test_a_metadata_topic_that_was_made_anew_is_refused_until_its_new_id_is_confirmed(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said(capsys, *SCRUB)[0] == 0
    new_id = make_anew(cluster)
    keys = set(cluster.storage.keys)
    for _ in range(2):
        cluster.now_ms += 80 * HOUR_MS
        for command in (SCRUB, CLEAN):
            code, text = said(capsys, *command, *WRITES)
            assert (code, f"--confirm-metadata-topic-id {new_id}" in text) == (1, True)
    assert set(cluster.storage.keys) == keys
    assert cluster.ours() == []
    confirmed = ("--confirm-metadata-topic-id", new_id)
    assert said(capsys, *CLEAN, *confirmed, *WRITES)[0] == 0
    assert said(capsys, *SCRUB, *WRITES)[0] == 4
    assert set(cluster.storage.keys) >= keys, "the old objects of the living topic stay"


@pytest.mark.slow
def test_dry_runs_on_a_metadata_topic_that_was_made_anew_are_red_and_do_not_record_it(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said(capsys, *SCRUB)[0] == 0
    new_id = make_anew(cluster)
    for command in (SCRUB, CLEAN, ("plan", *CLEAN[1:]), SCRUB):
        code, text = said(capsys, *command)
        assert (code, f"--confirm-metadata-topic-id {new_id}" in text) == (4, True)
    said(capsys, *CLEAN, "--confirm-metadata-topic-id", new_id)
    assert said(capsys, *CLEAN, *WRITES)[0] == 1, "a dry run confirms nothing"


@pytest.fixture
def elsewhere(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], None]:
    """Have what comes run with a work folder that knows nothing, as on a new machine."""

    def go() -> None:
        monkeypatch.setenv("RLMM_WORK_URI", str(tmp_path / "another"))

    return go


def stamped_by_a_run(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    """A real run leaves the storage's stamp: something was there to be cleaned."""
    for number in range(12, 14):
        cluster.segment(GONE, number)
    assert said(capsys, *CLEAN, *WRITES)[0] == 0
    cluster.now_ms += 30 * HOUR_MS
    assert said(capsys, *CLEAN, *WRITES)[0] == 0
    assert cluster.keys_of(GONE) == set()


@pytest.mark.slow
def test_another_work_folder_learns_by_the_stamp_that_the_metadata_topic_was_made_anew(
    cluster: Cluster, elsewhere: Callable[[], None], capsys: pytest.CaptureFixture[str]
) -> None:
    stamped_by_a_run(cluster, capsys)
    new_id = make_anew(cluster)
    keys, events = set(cluster.storage.keys), cluster.ours()
    elsewhere()
    for dry_run in (True, False, True, False):
        cluster.now_ms += 80 * HOUR_MS
        for command in (SCRUB, CLEAN):
            code, text = said(capsys, *command, *(() if dry_run else WRITES))
            assert (code, f"--confirm-metadata-topic-id {new_id}" in text) == (4 if dry_run else 1, True)
            assert f"as stamp airflow-provider-rlmm/{CLUSTER}/" in text
    assert set(cluster.storage.keys) == keys
    assert cluster.ours() == events
    confirmed = ("--confirm-metadata-topic-id", new_id)
    assert said(capsys, *CLEAN, *confirmed, *WRITES)[0] == 0
    assert said(capsys, *CLEAN, *WRITES)[0] == 0, "once is enough"
    (stamp,) = (Stamp.from_json(cluster.storage._objects[key][0]) for key in cluster.storage.keys if is_stamp(key))
    assert stamp.metadata_topic_id == UUID(int=99)
    assert [former.topic_id for former in stamp.former_metadata_topics] == [METADATA_TOPIC_ID]
    assert said(capsys, *SCRUB, *WRITES)[0] == 4
    assert set(cluster.storage.keys) >= keys, "the old objects of the living topic stay"


@pytest.mark.slow
def test_a_confirmed_topic_is_known_to_every_other_work_folder(
    cluster: Cluster, elsewhere: Callable[[], None], capsys: pytest.CaptureFixture[str]
) -> None:
    stamped_by_a_run(cluster, capsys)
    new_id = make_anew(cluster)
    assert said(capsys, *SCRUB, *WRITES, "--confirm-metadata-topic-id", new_id)[0] == 4
    elsewhere()
    assert said(capsys, *CLEAN, *WRITES)[0] == 0


@pytest.mark.slow
def test_a_real_run_that_cannot_read_the_stamps_is_refused(
    cluster: Cluster, elsewhere: Callable[[], None], capsys: pytest.CaptureFixture[str]
) -> None:
    stamped_by_a_run(cluster, capsys)
    new_id = make_anew(cluster)
    events = cluster.ours()
    elsewhere()
    denied = StorageAccessError("cannot read airflow-provider-rlmm/: denied")
    asked: list[str] = []

    def deny_once(effect: str, key: str) -> None:
        if effect == "get" and is_stamp(key):
            asked.append(key)
            if len(asked) == 1:
                raise denied

    cluster.storage.on_effect = deny_once
    code, text = said(capsys, *CLEAN, *WRITES)
    assert (code, str(denied) in text, len(asked)) == (1, True, 1)
    code, text = said(capsys, *CLEAN, *WRITES)
    assert (code, f"--confirm-metadata-topic-id {new_id}" in text) == (1, True)
    assert cluster.ours() == events


def test_a_reading_command_that_cannot_read_the_stamps_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Unreadable(NoStamps):
        def named(self) -> Mapping[str, UUID]:
            raise StorageAccessError("cannot read airflow-provider-rlmm/: denied")

    asked = (UUID(int=1), FloorFiles(str(tmp_path)), Unreadable(), NOTHING_CONFIRMED, system_clock)
    assert why_replaced(*asked, dry_run=True) is None
    assert "runs with other work folders have worked with is not known" in caplog.text
    with pytest.raises(StorageAccessError):
        why_replaced(*asked, dry_run=False)


def test_another_id_than_the_new_one_confirms_nothing(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, *SCRUB)[0] == 0
    new_id = make_anew(cluster)
    wrong = kafka_uuid_str(UUID(int=98))
    code, text = said(capsys, *CLEAN, *WRITES, "--confirm-metadata-topic-id", wrong)
    assert (code, f"has id {new_id}, and {wrong} was confirmed" in text) == (1, True)
    assert said(capsys, *CLEAN, *WRITES, "--confirm-metadata-topic-id", "nonsense")[0] == 2
