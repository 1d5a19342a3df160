# SPDX-License-Identifier: Apache-2.0
"""`rlmm retention` over the in-process log, an in-memory store and leaders that answer as they are told."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from airflow_provider_rlmm.cli.main import run
from airflow_provider_rlmm.core.base.clock import ProvenClock, TimeProof, system_clock
from airflow_provider_rlmm.core.log.answers import CopyConfigs, NotTold
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.core.runs.access import RemoteLogAccess
from airflow_provider_rlmm.core.runs.storage_access import StorageAccess
from airflow_provider_rlmm.core.storage.index_type import IndexType
from tests.tiered_orders import METADATA_PARTITIONS, ORDERS, START_MS, TieredOrders, batches
from tests.unit.features.retention.in_process_leaders import InProcessLeaders

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
        self.leaders = InProcessLeaders()
        for tip in ORDERS:
            self.lead(tip.partition)
            self.serve(tip.partition, 89, 0)

    def lead(
        self,
        partition: int,
        configs: CopyConfigs = FOREVER,
        start: int = 0,
        end: int = 120,
        leader_epoch: int | None = None,
    ) -> None:
        self.leaders.lead(ORDERS[partition], configs, start, end, leader_epoch)

    def serve(self, partition: int, offset: int, leader_epoch: int) -> None:
        """Serve one record and no other."""
        self.leaders.records[ORDERS[partition]] = {offset: leader_epoch}


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
        (RemoteLogAccess, "open_leaders", nullcontext(fake.leaders)),
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
    assert "1 segment is being copied" in row["why"][0]


Change = Callable[[Led], None]


def deletes_the_index(world: Led) -> None:
    world.storage.delete_object(world.storage.layout.index_key(world.segments[2], IndexType.LEADER_EPOCH))


def empties_the_topic(world: Led) -> None:
    for metadata in world.segments[:3]:
        for state in (RemoteLogSegmentState.DELETE_SEGMENT_STARTED,):
            world.update(metadata, state)


UNRESOLVED: dict[str, Change] = {
    "it has no leader": lambda world: world.leaders.looks.update({("orders", 1): NotTold("it has no leader")}),
    "remote.storage.enable is off": lambda world: world.lead(0, replace(FOREVER, remote_storage_enable=False)),
    "the leader's record at offset 89 is of epoch 1": lambda world: world.serve(0, 89, 1),
    "the leader's record at offset 90 is of epoch 2": lambda world: world.serve(0, 90, 2),
    "serves no record from there on": lambda world: world.leaders.records.update({ORDERS[0]: {}}),
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


def test_any_record_of_the_epoch_behind_a_segment_confirms_its_lineage(
    world: Led, capsys: pytest.CaptureFixture[str]
) -> None:
    world.serve(0, 87, 0)
    world.lead(0, replace(FOREVER, retention_ms=0))
    (row,) = asked(capsys, "0")
    assert (row["certainty"], row["segments"], row["undecided_segments"]) == ("at least", 2, 1)


def test_where_the_newest_segment_is_not_confirmed_an_older_one_tells_of_what_lies_before(
    world: Led, capsys: pytest.CaptureFixture[str]
) -> None:
    world.serve(0, 59, 0)
    world.lead(0, replace(FOREVER, retention_ms=0))
    (row,) = asked(capsys, "0")
    assert (row["certainty"], row["segments"], row["undecided_segments"]) == ("at least", 2, 1)
    assert "the newest segment is" in row["why"][0]


def test_what_changes_while_it_is_looked_at_is_not_resolved(world: Led, capsys: pytest.CaptureFixture[str]) -> None:
    changes: dict[str, Callable[[int], None]] = {
        "when its leader was asked again": lambda n: world.leaders.change(ORDERS[0], log_start_offset=n),
        "its settings have changed": lambda n: world.leaders.change(
            ORDERS[0], configs=replace(FOREVER, retention_ms=n)
        ),
        "its leader has changed": lambda n: world.leaders.change(ORDERS[0], leader_epoch=n),
        "it has no leader": lambda n: world.leaders.looks.update({("orders", 0): NotTold("it has no leader")}),
        "the topic was made anew": lambda n: world.leaders.change(
            ORDERS[0], topic_id_partition=replace(ORDERS[0], topic_id=UUID(int=n))
        ),
    }
    for number, (why, change) in enumerate(changes.items()):
        # What is kept of an earlier leader is none of this one's.
        world.lead(0, leader_epoch=100 * number)
        world.serve(0, 89, 0)
        looks: list[str] = []
        # The last look of each moment; another leader is asked for its lineage, which takes one look more.
        last = {3, 6} if why == "its leader has changed" else {3, 5}

        def before(
            question: str,
            change: Callable[[int], None] = change,
            looks: list[str] = looks,
            last: set[int] = last,
        ) -> None:
            looks += [question] * (question == "look")
            if question == "look" and len(looks) in last:
                change(len(looks))

        world.leaders.before = before
        (row,) = asked(capsys, "0", code=4)
        assert row["certainty"] == "unresolved"
        assert why in row["why"][0], why


def test_what_has_changed_is_looked_at_once_more(world: Led, capsys: pytest.CaptureFixture[str]) -> None:
    world.lead(0, replace(FOREVER, retention_ms=50_000), leader_epoch=0)
    looks: list[str] = []

    def before(question: str) -> None:
        looks.extend([question] * (question == "look"))
        # Between the two looks of the first moment.
        if question == "look" and len(looks) == 3:
            world.leaders.change(ORDERS[0], log_start_offset=30)

    world.leaders.before = before
    (row,) = asked(capsys, "0")
    assert (row["certainty"], row["log_start_offset"], row["segments"]) == ("all", 30, 1)
    assert len(looks) == 5, "two for the lineage and the moment, one after it, and two more"


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


@pytest.mark.parametrize(
    ("topic", "said"),
    [("payments", "has no topic 'payments'"), ("ordrs", "did you mean 'orders'?"), ("empty", "names no segment")],
)
def test_a_topic_without_segments_has_a_line(
    world: Led, capsys: pytest.CaptureFixture[str], topic: str, said: str
) -> None:
    empty = replace(ORDERS[0], topic="empty", topic_id=UUID(int=5))
    world.leaders.lead(empty, FOREVER, 0, 0)
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
    assert "partition 0: 1 segment" in printed
    assert "seen due since 2023-11-14 22:15:00 UTC" in printed
    assert "move the leadership to another broker" in printed
    world.update(world.segments[0], RemoteLogSegmentState.DELETE_SEGMENT_STARTED)
    assert overdue(capsys, code=4) == 1, "that somebody has begun is not the end of it"
    world.update(world.segments[0], RemoteLogSegmentState.DELETE_SEGMENT_FINISHED)
    assert overdue(capsys) == 0


def test_a_leader_that_has_stopped_copying_needs_a_person(world: Led, capsys: pytest.CaptureFixture[str]) -> None:
    world.lead(0, replace(FOREVER, local_retention_ms=HOUR_MS), end=200)
    assert run(["retention", "orders", "0"]) == 0
    world.now_ms += HOUR_MS // 4 + MINUTE_MS
    capsys.readouterr()
    assert run(["retention", "orders", "0"]) == 4
    said = " ".join(capsys.readouterr().out.split())
    assert "orders, partition 0: its leader has stopped copying: 110 offsets wait behind offset 90" in said
    assert re.search("none was copied for 1[67] min", said)
    assert "move the leadership to another broker, or restart it" in said
    (row,) = asked(capsys, "0", code=4)
    assert (row["hanging"]["copied_to"], row["hanging"]["waiting_offsets"]) == (90, 110)
    assert run(["retention", "--json"]) == 4
    topics = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [[one["partition"] for one in topic["hanging"]] for topic in topics if topic["topic"] == "orders"] == [[0]]
    world.lead(0, replace(FOREVER, local_retention_ms=HOUR_MS), end=180)
    assert run(["retention", "orders", "0"]) == 0


BY_THE_HOUR = replace(FOREVER, local_retention_ms=HOUR_MS, segment_ms=HOUR_MS)


def test_a_leader_that_hangs_where_little_is_written_is_told_by_times(
    world: Led, capsys: pytest.CaptureFixture[str]
) -> None:
    world.now_ms += 8 * HOUR_MS
    world.lead(0, BY_THE_HOUR, end=100)
    world.leaders.times_ms[ORDERS[0]] = {90: world.now_ms - 3 * HOUR_MS, 99: world.now_ms - MINUTE_MS}
    assert run(["retention", "orders", "0"]) == 0
    world.now_ms += HOUR_MS // 4 + MINUTE_MS
    assert "10 offsets wait behind offset 90, the times of records show a closed" in hanging(capsys, "orders", "0")
    world.leaders.times_ms[ORDERS[0]] = NotTold("its leader is away")
    assert "10 offsets wait behind offset 90, and none" in hanging(capsys, "orders", "0"), (
        "who does not answer has not copied"
    )
    world.leaders.times_ms[ORDERS[0]] = {90: world.now_ms - MINUTE_MS}
    assert run(["retention", "orders", "0"]) == 0


def hanging(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert run(["retention", *arguments]) == 4
    return " ".join(capsys.readouterr().out.split())


NEW = TopicIdPartition(UUID(int=4_321), "new", 0)


def test_a_leader_that_has_never_copied_anything_is_told_in_a_later_run(
    world: Led, capsys: pytest.CaptureFixture[str]
) -> None:
    world.leaders.lead(NEW, BY_THE_HOUR, 0, 20)
    world.leaders.times_ms[NEW] = {0: world.now_ms - 3 * HOUR_MS, 19: world.now_ms}
    assert run(["retention"]) == 0
    assert "new" not in capsys.readouterr().out, "a topic without copies has nothing to delete"
    assert run(["retention", "new"]) == 1
    world.now_ms += HOUR_MS // 4 + MINUTE_MS
    said = hanging(capsys)
    assert (
        "new, partition 0: its leader has stopped copying: 20 offsets wait from offset 0 on, of which no copy" in said
    )
    assert "partition 0" in hanging(capsys, "new")
    world.leaders.times_ms[NEW] = NotTold("its leader is away")
    assert "new, partition 0" in hanging(capsys, "new"), "who does not answer has not copied"


@pytest.mark.parametrize("change", [{"remote_storage_enable": False}, {"remote_log_copy_disable": True}])
def test_a_leader_that_is_not_to_copy_is_not_asked_for_times(
    world: Led, change: dict[str, bool], capsys: pytest.CaptureFixture[str]
) -> None:
    world.leaders.lead(NEW, replace(BY_THE_HOUR, **change), 0, 20)
    assert run(["retention"]) == 0
    assert NEW not in world.leaders.asked_times


def test_a_leader_without_copies_that_tells_nothing_needs_a_person(
    world: Led, capsys: pytest.CaptureFixture[str]
) -> None:
    world.leaders.lead(NEW, BY_THE_HOUR, 0, 20)
    looks = world.leaders.looks

    def lose(question: str) -> None:
        if question == "look":
            looks[NEW.topic, 0] = NotTold("it has no leader")

    world.leaders.before = lose
    assert run(["retention"]) == 4
    assert "it has no leader" in capsys.readouterr().out


def test_a_clock_of_this_machine_that_runs_ahead_makes_nothing_overdue(
    world: Led, capsys: pytest.CaptureFixture[str]
) -> None:
    world.lead(0, replace(FOREVER, retention_ms=50_000))
    world.proven, world.passed_ms = False, NOW_MS
    assert overdue(capsys) == 0
    world.now_ms += 7 * HOUR_MS
    assert overdue(capsys) == 0
    world.passed_ms = NOW_MS + 7 * HOUR_MS
    assert overdue(capsys, code=4) == 1
    world.passed_ms = None
    assert overdue(capsys) is None, "nobody says which time has passed"


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
    world.lead(0, replace(FOREVER, retention_ms=50_000))
    world.interval_ms = None
    assert overdue(capsys) is None
    assert run(["retention", "orders", "0"]) == 0
    assert (
        "it cannot be told whether anything is overdue, or its leaders copy: no broker tells remote.log.manager"
        in " ".join(capsys.readouterr().out.split())
    )
    world.interval_ms = "30000"
    assert overdue(capsys) == 0
    (remembered,) = tmp_path.glob("work/*/retention/*.json")
    remembered.write_text(remembered.read_text().replace("segments", "sediments").replace("since_ms", "sinks"))
    assert overdue(capsys) is None


def whole(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> list[dict[str, Any]]:
    """Ask for all topics."""
    assert run(["retention", *arguments, "--json"]) == code
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_all_topics_have_their_sums(world: Led, capsys: pytest.CaptureFixture[str]) -> None:
    payments = replace(ORDERS[0], topic="payments", topic_id=UUID(int=78))
    world.copy(payments, batches(0))
    world.leaders.lead(payments, replace(FOREVER, retention_bytes=0), 0, 120)
    world.leaders.records[payments] = {29: 0}
    without = replace(ORDERS[0], topic="local", topic_id=UUID(int=79))
    world.leaders.lead(without, replace(FOREVER, remote_storage_enable=False), 0, 120)
    for tip in ORDERS:
        world.lead(tip.partition, replace(FOREVER, retention_ms=50_000))
    orders, of_payments = whole(capsys)
    assert (orders["topic"], orders["all"], orders["at_least"], orders["unresolved"]) == ("orders", 2, 0, 0)
    size = world.segments[0].segment_size_in_bytes
    assert orders["by_reason"] == {"RETENTION_MS": {"segments": 2, "bytes": 2 * size}}
    assert (orders["segments"], orders["bytes"], orders["kept_segments"]) == (2, 2 * size, 4)
    assert orders["next_due_ms"] == START_MS + 59_000 + 50_000
    assert (of_payments["topic"], of_payments["at_least"], of_payments["segments"]) == ("payments", 1, 1)
    assert run(["retention"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "3 segments, " in printed
    assert "RETENTION_MS 2 segments" in printed


def test_one_partition_that_nobody_can_tell_leaves_the_others(world: Led, capsys: pytest.CaptureFixture[str]) -> None:
    world.serve(1, 89, 7)
    world.lead(0, replace(FOREVER, retention_ms=50_000))
    (orders,) = whole(capsys, code=4)
    assert (orders["all"], orders["unresolved"], orders["segments"]) == (1, 1, 1)
    (why,) = orders["why_unresolved"]
    assert why["partitions"] == [1]
    assert "of epoch 7" in why["why"]
    assert run(["retention"]) == 4
    assert "orders, unresolved, partition 1: the newest segment" in " ".join(capsys.readouterr().out.split())


def test_segments_as_json_have_what_is_not_told_beside_them(world: Led, capsys: pytest.CaptureFixture[str]) -> None:
    world.serve(1, 89, 7)
    world.interval_ms = None
    for arguments in (["orders"], []):
        assert run(["retention", *arguments, "--segments", "--json"]) == 4
        said = " ".join(capsys.readouterr().err.split())
        assert "of epoch 7" in said
        assert "is overdue, or its leaders copy: no broker tells remote.log.manager" in said


def test_a_topic_that_may_not_be_described_is_told_as_such(world: Led, capsys: pytest.CaptureFixture[str]) -> None:
    world.leaders.not_told["hidden"] = "TOPIC_AUTHORIZATION_FAILED"
    assert [row["unresolved"] for row in whole(capsys, code=4)] == [0]
    assert run(["retention"]) == 4
    assert "nothing is told of topic hidden: TOPIC_AUTHORIZATION_FAILED" in " ".join(capsys.readouterr().out.split())
    assert run(["retention", "hidden"]) == 1


def test_what_is_overdue_comes_first(world: Led, capsys: pytest.CaptureFixture[str]) -> None:
    world.lead(0, replace(FOREVER, retention_ms=50_000))
    payments = replace(ORDERS[0], topic="payments", topic_id=UUID(int=78))
    world.copy(payments, batches(0, padding=1_000))
    world.leaders.records[payments] = {29: 0}
    world.leaders.lead(payments, replace(FOREVER, retention_ms=10), 0, 120, 0)
    whole(capsys)
    world.update(world.segments[-1], RemoteLogSegmentState.DELETE_SEGMENT_STARTED)
    world.update(world.segments[-1], RemoteLogSegmentState.DELETE_SEGMENT_FINISHED)
    world.now_ms += 6 * HOUR_MS + MINUTE_MS
    orders, of_payments = whole(capsys, code=4)
    assert (orders["topic"], orders["overdue_segments"], of_payments["overdue_segments"]) == ("orders", 1, 0)
    (late,) = orders["overdue"]
    assert (late["partition"], late["leader"], late["segments"]) == (0, 7, 1)
    assert "in the log of broker 7, its leader" in late["what_to_do"]
    assert run(["retention"]) == 4
    assert capsys.readouterr().out.startswith("needs a person: orders, partition 0: 1 segment")


def test_what_is_due_is_forgotten_with_its_topic(
    world: Led, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    world.lead(0, replace(FOREVER, retention_ms=50_000))
    whole(capsys)
    assert len(list(tmp_path.glob("work/*/retention/*.json"))) == 1
    world.leaders.looks.clear()
    world.leaders.not_told["orders"] = "TOPIC_AUTHORIZATION_FAILED"
    assert whole(capsys, code=4) == []
    assert len(list(tmp_path.glob("work/*/retention/*.json"))) == 1, "it is hidden, and may be there"
    world.leaders.not_told.clear()
    assert whole(capsys) == []
    assert not list(tmp_path.glob("work/*/retention/*.json"))


def test_a_metadata_partition_that_has_lost_its_beginning_tells_nothing_for_certain(
    world: Led, capsys: pytest.CaptureFixture[str]
) -> None:
    for tip in ORDERS:
        world.lead(tip.partition, replace(FOREVER, retention_ms=0))
    number = metadata_partition_for(ORDERS[0], METADATA_PARTITIONS)
    world.log.truncate(number, 1)
    first, second = asked(capsys, code=4)
    assert (first["certainty"], first["segments"]) == ("unresolved", 0)
    assert f"metadata partition {number} begins at offset 1" in first["why"][0]
    assert (second["certainty"], second["segments"]) == ("all", 3)


def test_a_record_that_cannot_be_applied_leaves_the_user_partitions_of_others(
    world: Led, capsys: pytest.CaptureFixture[str]
) -> None:
    world.log.append(metadata_partition_for(ORDERS[1], METADATA_PARTITIONS), b"\xff")
    first, second = asked(capsys, code=4)
    assert (first["certainty"], second["certainty"]) == ("all", "unresolved")
    assert "cannot be applied: look at the record" in second["why"][0]


def test_a_lineage_is_confirmed_once_while_its_leader_leads(world: Led, capsys: pytest.CaptureFixture[str]) -> None:
    fetched: list[UUID] = []
    fetch_index = world.storage.fetch_index

    def counted(metadata: Any, index_type: Any) -> bytes:
        fetched.append(metadata.remote_log_segment_id.id)
        return bytes(fetch_index(metadata, index_type))

    world.storage.fetch_index = counted
    for tip in ORDERS:
        world.lead(tip.partition, replace(FOREVER, retention_ms=50_000), leader_epoch=0)
    before = whole(capsys)
    assert (len(fetched), len(world.leaders.asked)) == (2, 4)
    # What is copied meanwhile is of the same epoch: the lineage is the whole one still.
    world.copy(ORDERS[0], batches(90))
    (again,) = whole(capsys)
    assert (len(fetched), len(world.leaders.asked)) == (2, 4)
    assert (again["all"], again["kept_segments"]) == (2, before[0]["kept_segments"] + 1)
    # Another leader has to say so itself, and does not.
    world.lead(1, replace(FOREVER, retention_ms=50_000), leader_epoch=1)
    world.serve(1, 89, 1)
    (changed,) = whole(capsys, code=4)
    assert (changed["all"], changed["unresolved"]) == (1, 1)
    assert set(world.leaders.asked[4:]) == {ORDERS[1]}


def test_a_lineage_that_ends_before_the_leaders_epoch_is_looked_up_where_a_newer_segment_tells_more(
    world: Led, capsys: pytest.CaptureFixture[str]
) -> None:
    world.lead(0, replace(FOREVER, retention_ms=0), leader_epoch=1, end=130)
    (row,) = asked(capsys, "0")
    asked_before = len(world.leaders.asked)
    asked(capsys, "0")
    assert len(world.leaders.asked) == asked_before, "nothing newer would tell more"
    world.copy(ORDERS[0], batches(90, leader_epoch=1), leader_epochs=((0, 0), (1, 90)))
    world.serve(0, 119, 1)
    (row,) = asked(capsys, "0")
    assert len(world.leaders.asked) > asked_before
    assert (row["certainty"], row["segments"], row["kept_segments"]) == ("all", 3, 1)


def test_lineages_that_cannot_be_read_are_asked_for_anew(
    world: Led, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for tip in ORDERS:
        world.lead(tip.partition, leader_epoch=0)
    whole(capsys)
    (kept,) = tmp_path.glob("work/*/leader-lineages.json")
    good = kept.read_text()
    for damaged in (good.replace('"end_offset": 89', '"end_offset": 88'), "{}", ""):
        kept.write_text(damaged)
        before = len(world.leaders.asked)
        assert whole(capsys)[0]["all"] == 2
        assert len(world.leaders.asked) == before + 4
        assert kept.read_text() == good


def test_what_dangles_and_what_is_not_tiered_any_more_have_sums_of_their_own(
    world: Led, capsys: pytest.CaptureFixture[str]
) -> None:
    begun = world.copy(ORDERS[0], batches(90), finished=False)
    once = replace(ORDERS[0], topic="once-tiered", topic_id=UUID(int=78))
    left = world.copy(once, batches(0))
    world.leaders.lead(once, replace(FOREVER, remote_storage_enable=False), 0, 120)
    for hours, dangling in ((71, 0), (73, 1)):
        world.now_ms = START_MS + hours * HOUR_MS
        rows = {row["topic"]: row for row in whole(capsys, code=4)}
        assert rows["orders"]["dangling_segments"] == dangling
        assert rows["orders"]["dangling_bytes"] == dangling * begun.segment_size_in_bytes
        assert (rows["once-tiered"]["not_tiered_segments"], rows["once-tiered"]["segments"]) == (1, 0)
        assert rows["once-tiered"]["not_tiered_bytes"] == left.segment_size_in_bytes
        assert rows["orders"]["not_tiered_segments"] == 0
    assert run(["retention"]) == 4
    printed = " ".join(capsys.readouterr().out.split())
    assert "of 1 topic dangle" in printed
    assert "of 1 topic stay" in printed
