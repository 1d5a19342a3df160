# SPDX-License-Identifier: Apache-2.0
"""`rlmm retention` over the in-process log, an in-memory store and leaders that answer as they are told."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from airflow_provider_rlmm.cli.main import run
from airflow_provider_rlmm.core.base.clock import ProvenClock, TimeProof, system_clock
from airflow_provider_rlmm.core.log.answers import CopyConfigs, LeaderOffsets, LeaderRecord
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.core.runs.access import RemoteLogAccess
from airflow_provider_rlmm.core.runs.storage_access import StorageAccess
from airflow_provider_rlmm.core.storage.index_type import IndexType
from tests.tiered_orders import ORDERS, START_MS, TieredOrders, batches
from tests.unit.features.copying.in_process_leader import InProcessLeader

NOW_MS = START_MS + 100_000
"""The newest records of the three segments are 71, 41 and 11 s old then."""

FOREVER = CopyConfigs(True, False, frozenset({"delete"}), -1, -1)


class Led(TieredOrders):
    """The topic of orders, and its leaders."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms, self.proven = NOW_MS, True
        self.passed_ms: int | None = None
        self.interval_ms: str | None = "30000"
        self.leader = InProcessLeader(UUID(int=99))
        for tip in ORDERS:
            self.lead(tip.partition)
            self.serve(tip.partition, 89, 0)

    def lead(self, partition: int, configs: CopyConfigs = FOREVER, start: int = 0, end: int = 120) -> None:
        self.leader.lead(ORDERS[partition], configs, LeaderOffsets(start, end, end))

    def serve(self, partition: int, offset: int, leader_epoch: int) -> None:
        """Serve one record and no other."""
        self.leader.records[ORDERS[partition]] = {offset: LeaderRecord(offset, leader_epoch, START_MS, None, None)}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Led:
    def proven(self: Any, log: Any, **_: Any) -> ProvenClock:
        return ProvenClock(
            lambda: TimeProof(fake.now_ms, system_clock(), "a test", fake.proven, not_before_ms=fake.passed_ms)
        )

    fake = Led()
    monkeypatch.setattr(fake.topics, "broker_setting", lambda name: {1: fake.interval_ms})
    monkeypatch.setenv("RLMM_BOOTSTRAP_SERVER", "b:9092")
    monkeypatch.setenv("RLMM_WORK_URI", str(tmp_path / "work"))
    monkeypatch.setattr(RemoteLogAccess, "get_proven_clock", proven)
    monkeypatch.setattr(RemoteLogAccess, "check_cluster", lambda self, *_: "cluster-1")
    for kind, name, value in (
        (RemoteLogAccess, "get_event_log", nullcontext(fake.log)),
        (RemoteLogAccess, "get_cluster_topics", fake.topics),
        (RemoteLogAccess, "open_leader", nullcontext(fake.leader)),
        (StorageAccess, "get_storage_manager", fake.storage),
    ):
        monkeypatch.setattr(kind, name, lambda self, *_, value=value: value)
    return fake


def asked(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> list[dict[str, Any]]:
    assert run(["retention", "orders", *arguments, "--json"]) == code
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_topic_that_is_kept_for_ever_loses_nothing(world: Led, capsys: pytest.CaptureFixture[str]) -> None:
    for row in asked(capsys):
        assert (row["certainty"], row["why"], row["segments"], row["kept_segments"]) == ("all", [], 0, 3)
        assert row["next_due_ms"] is None


def test_what_is_too_old_goes_and_the_next_one_is_told(world: Led, capsys: pytest.CaptureFixture[str]) -> None:
    world.lead(1, replace(FOREVER, retention_ms=50_000))
    (row,) = asked(capsys, "1")
    assert (row["certainty"], row["segments"], row["kept_segments"]) == ("all", 1, 2)
    assert row["by_reason"] == {"RETENTION_MS": {"segments": 1, "bytes": row["bytes"]}}
    assert row["next_due_ms"] == START_MS + 59_000 + 50_000, "its newest record, and retention.ms"
    (segment,) = asked(capsys, "1", "--segments")
    first = world.segments[3]
    assert segment["segment_id"] == str(first.remote_log_segment_id.id)
    assert (segment["start_offset"], segment["end_offset"], segment["bytes"]) == (0, 29, first.segment_size_in_bytes)
    assert (segment["reason"], segment["exact"]) == ("RETENTION_MS", True)


def test_what_lies_below_the_log_start_goes(world: Led, capsys: pytest.CaptureFixture[str]) -> None:
    world.lead(0, start=60)
    (row,) = asked(capsys, "0")
    assert (row["certainty"], row["log_start_offset"], row["by_reason"]["LOG_START_OFFSET"]["segments"]) == (
        "all",
        60,
        2,
    )


def test_bytes_are_at_least_what_is_told(world: Led, capsys: pytest.CaptureFixture[str]) -> None:
    size = world.segments[0].segment_size_in_bytes
    world.lead(0, replace(FOREVER, retention_bytes=2 * size))
    (row,) = asked(capsys, "0")
    assert (row["certainty"], row["by_reason"]["RETENTION_BYTES"]) == ("at least", {"segments": 1, "bytes": size})
    assert "only on the leader's disk" in row["why"][0]


def test_a_copy_under_way_may_stop_the_leader(world: Led, capsys: pytest.CaptureFixture[str]) -> None:
    world.copy(ORDERS[0], batches(90), finished=False)
    world.lead(0, replace(FOREVER, retention_ms=0))
    (row,) = asked(capsys, "0")
    assert (row["certainty"], row["segments"]) == ("at least", 3)
    assert "1 segments are being copied" in row["why"][0]


Change = Callable[[Led], None]


def deletes_the_index(world: Led) -> None:
    world.storage.delete_object(world.storage.layout.index_key(world.segments[2], IndexType.LEADER_EPOCH))


def empties_the_topic(world: Led) -> None:
    for metadata in world.segments[:3]:
        for state in (RemoteLogSegmentState.DELETE_SEGMENT_STARTED,):
            world.update(metadata, state)


UNRESOLVED: dict[str, Change] = {
    "it has no leader": lambda world: world.leader.answers.pop(("orders", 1)) and None,
    "remote.storage.enable is off": lambda world: world.lead(0, replace(FOREVER, remote_storage_enable=False)),
    "the leader's record at offset 89 is of epoch 1": lambda world: world.serve(0, 89, 1),
    "the leader's record at offset 90 is of epoch 2": lambda world: world.serve(0, 90, 2),
    "serves no record at the offsets 89 to 91": lambda world: world.serve(0, 87, 0),
    "no segment of it is copied": empties_the_topic,
}


@pytest.mark.parametrize("why", UNRESOLVED)
def test_what_nobody_can_tell_is_said_and_no_segment_with_it(
    world: Led, capsys: pytest.CaptureFixture[str], why: str
) -> None:
    for tip in ORDERS:
        world.lead(tip.partition, replace(FOREVER, retention_ms=0))
    UNRESOLVED[why](world)
    rows = asked(capsys, code=4)
    (unresolved,) = [row for row in rows if row["certainty"] == "unresolved"]
    assert why in unresolved["why"][0]
    assert unresolved["segments"] == 0
    assert [row["segments"] for row in rows if row is not unresolved] == [3], "the other partition is told all the same"


def test_a_record_behind_the_marker_of_a_transaction_confirms_the_lineage(
    world: Led, capsys: pytest.CaptureFixture[str]
) -> None:
    world.serve(0, 91, 0)
    assert asked(capsys, "0")[0]["certainty"] == "all"


def test_where_the_newest_segment_is_not_confirmed_an_older_one_tells_of_what_lies_before(
    world: Led, capsys: pytest.CaptureFixture[str]
) -> None:
    world.serve(0, 59, 0)
    world.lead(0, replace(FOREVER, retention_ms=0))
    (row,) = asked(capsys, "0")
    assert (row["certainty"], row["segments"], row["undecided_segments"]) == ("at least", 2, 1)
    assert "1 newest segments" in row["why"][0]


def test_what_changes_while_it_is_looked_at_is_not_resolved(world: Led, capsys: pytest.CaptureFixture[str]) -> None:
    changes: dict[str, Callable[[], None]] = {
        "at 30 when its leader was asked again": lambda: world.lead(0, start=30),
        "its settings have changed": lambda: world.lead(0, replace(FOREVER, retention_ms=5)),
        "its leader was gone": lambda: world.leader.answers.clear(),
    }
    for why, change in changes.items():
        world.lead(0)
        questions: list[str] = []

        def before(question: str, change: Callable[[], None] = change, asked: list[str] = questions) -> None:
            asked.append(question)
            # For the topic's id, for the first look, and for the second.
            if asked.count("ask") == 3:
                change()

        world.leader.before = before
        (row,) = asked(capsys, "0", code=4)
        assert row["certainty"] == "unresolved"
        assert why in row["why"][0]


def test_what_another_leader_has_made_void_is_not_counted(world: Led, capsys: pytest.CaptureFixture[str]) -> None:
    """Epoch 1 has written offsets 90 to 119 anew, and its copy is the newest: the one of epoch 0 is of another lineage."""
    void = world.copy(ORDERS[0], batches(90))
    world.copy(ORDERS[0], batches(90, leader_epoch=1), leader_epochs=((0, 0), (1, 90)))
    world.serve(0, 119, 1)
    size = world.segments[0].segment_size_in_bytes
    world.lead(0, replace(FOREVER, retention_bytes=4 * size), end=130)
    (row,) = asked(capsys, "0")
    assert (row["segments"], row["kept_segments"], row["foreign_segments"]) == (0, 4, 1)
    assert void.remote_log_segment_id.id.int not in {
        UUID(s["segment_id"]).int for s in asked(capsys, "0", "--segments")
    }


def test_people_are_told_why(world: Led, capsys: pytest.CaptureFixture[str]) -> None:
    world.serve(1, 89, 7)
    assert run(["retention", "orders"]) == 4
    printed = " ".join(capsys.readouterr().out.split())
    assert "partition 1, unresolved: the newest segment ends at offset 89 in leader epoch 0" in printed


@pytest.mark.parametrize(("topic", "said"), [("payments", "has no topic 'payments'"), ("empty", "names no segment")])
def test_a_topic_without_segments_has_a_line(
    world: Led, capsys: pytest.CaptureFixture[str], topic: str, said: str
) -> None:
    empty = replace(ORDERS[0], topic="empty", topic_id=UUID(int=5))
    world.leader.lead(empty, FOREVER, LeaderOffsets(0, 0, 0))
    assert run(["retention", topic]) == 1
    assert said in " ".join(capsys.readouterr().err.split())


def test_without_a_brokers_clock_what_is_due_by_a_time_that_has_passed_is_told(
    world: Led, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second segment is due since 91 s after the start by retention.ms, the first since 61 s."""
    world.lead(0, replace(FOREVER, retention_ms=32_000))
    world.proven = False
    for passed_ms, told, certainty in (
        (START_MS + 95_000, 2, "all"),
        (START_MS + 70_000, 1, "at least"),
        (None, 0, "at least"),
        (START_MS + 500_000, 2, "all"),
    ):
        world.passed_ms = passed_ms
        (row,) = asked(capsys, "0")
        assert (row["segments"], row["certainty"]) == (told, certainty), passed_ms
        assert any("due by this machine's clock" in why for why in row["why"]) == (told < 2)


HOUR_MS, MINUTE_MS = 3_600_000, 60_000


def overdue(capsys: pytest.CaptureFixture[str], code: int = 0) -> int | None:
    (row,) = asked(capsys, "0", code=code)
    found: int | None = row["overdue_segments"]
    return found


def test_what_was_due_six_hours_ago_is_overdue(world: Led, capsys: pytest.CaptureFixture[str]) -> None:
    world.lead(0, replace(FOREVER, retention_ms=50_000))
    assert overdue(capsys) == 0
    world.now_ms += 6 * HOUR_MS - MINUTE_MS
    assert overdue(capsys) == 0
    world.now_ms += 2 * MINUTE_MS
    assert overdue(capsys, code=4) == 1, "the two others are due since this morning only"
    assert run(["retention", "orders", "0"]) == 4
    printed = " ".join(capsys.readouterr().out.split())
    assert "partition 0: 1 segments" in printed
    assert "seen due since 2023-11-14 22:15:00 UTC" in printed
    assert "move the leadership to another broker" in printed
    world.update(world.segments[0], RemoteLogSegmentState.DELETE_SEGMENT_STARTED)
    assert overdue(capsys, code=4) == 1, "that somebody has begun is not the end of it"
    world.update(world.segments[0], RemoteLogSegmentState.DELETE_SEGMENT_FINISHED)
    assert overdue(capsys) == 0


def test_other_settings_begin_anew(world: Led, capsys: pytest.CaptureFixture[str]) -> None:
    world.lead(0, replace(FOREVER, retention_ms=50_000))
    assert overdue(capsys) == 0
    world.now_ms += 7 * HOUR_MS
    world.lead(0, replace(FOREVER, retention_ms=49_000))
    assert overdue(capsys) == 0
    world.now_ms += 7 * HOUR_MS
    assert overdue(capsys, code=4) == 3


def test_a_leader_has_time_for_three_passes(world: Led, capsys: pytest.CaptureFixture[str]) -> None:
    world.interval_ms = str(4 * HOUR_MS)
    world.lead(0, replace(FOREVER, retention_ms=50_000))
    assert overdue(capsys) == 0
    world.now_ms += 11 * HOUR_MS
    assert overdue(capsys) == 0
    world.now_ms += HOUR_MS + MINUTE_MS
    assert overdue(capsys, code=4) == 1


def test_what_is_not_resolved_is_not_forgotten(world: Led, capsys: pytest.CaptureFixture[str]) -> None:
    world.lead(0, replace(FOREVER, retention_ms=50_000))
    assert overdue(capsys) == 0
    world.serve(0, 89, 5)
    world.now_ms += 3 * HOUR_MS
    assert overdue(capsys, code=4) == 0
    world.serve(0, 89, 0)
    world.now_ms += 3 * HOUR_MS + MINUTE_MS
    assert overdue(capsys, code=4) == 1


def test_where_nobody_can_judge_it_is_said(world: Led, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    world.interval_ms = None
    assert overdue(capsys) is None
    assert run(["retention", "orders", "0"]) == 0
    assert "nobody can tell whether anything is overdue: no broker tells remote.log.manager" in " ".join(
        capsys.readouterr().out.split()
    )
    world.interval_ms = "30000"
    assert overdue(capsys) == 0
    (remembered,) = tmp_path.glob("work/*/retention/*.json")
    remembered.write_text(remembered.read_text().replace("segments", "sediments").replace("since_ms", "sinks"))
    assert overdue(capsys) is None
