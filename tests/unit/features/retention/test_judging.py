# SPDX-License-Identifier: Apache-2.0
"""What a task tells of leaders, and which of its rows are certain, case by case; the walk itself is a property's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_rlmm.core.plans.certainty import Certainty
from airflow_provider_rlmm.core.records.lost_records import HistoryGap
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    TopicIdPartition,
)
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as State
from airflow_provider_rlmm.core.world.cluster_state import ClusterState, ListedTopic, ToldLeader
from airflow_provider_rlmm.features.retention.rules import EvaluationLimits
from airflow_provider_rlmm.features.retention.spark.columns import NOT_TIERED
from airflow_provider_rlmm.features.retention.spark.executor.judging import (
    NOBODY_ASKED,
    SHARED_PLACES,
    STALE_LINEAGE,
    UNCERTAIN,
    Evaluation,
)
from airflow_provider_rlmm.features.retention.spark.executor.metadata_partition import GenerationOrder, evaluate_batches
from airflow_provider_rlmm.features.retention.spark.task_report import TaskReport
from tests.spark.events import Segment
from tests.spark.plain_evaluation import COPIED, COPYING, DELETED, DELETING

NOW = 1_800_000_000_000
ORDERS = UUID(int=7)
# Whole: it knows the epoch in which the leader leads. Segments of these tests are of leader epoch 0.
LEADER = ToldLeader(0, 0, 1_000, ((0, 0),), None)
TOPIC = ListedTopic(ORDERS, "orders", 5_000, -1, {0: 0}, tiered=True, leaders={0: LEADER})
ALL, AT_LEAST, UNRESOLVED = (one.value for one in Certainty)

Row = tuple[str | None, bool]


def segment(number: int, age_ms: int = 0, start: int | None = None, size: int = 100) -> Segment:
    start = 10 * number if start is None else start
    return Segment(ORDERS.bytes, "orders", 0, number.to_bytes(16, "big"), start, start + 9, NOW - age_ms, size)


def copied(*segments: Segment) -> list[bytes]:
    return [value for one in segments for value in (one.add(1), one.update(2, COPIED))]


OLD, YOUNG = segment(0, 9_000), segment(1)


class Told:
    """What a task has told of one metadata partition."""

    def __init__(
        self,
        folder: Path,
        values: Iterable[bytes],
        topic: ListedTopic = TOPIC,
        *,
        passed_ms: int | None = NOW,
        begin: int = 0,
        offsets: list[int] | None = None,
        explained: tuple[HistoryGap, ...] = (),
    ) -> None:
        values = list(values)
        offsets = offsets or list(range(begin, begin + len(values)))
        batch = pa.record_batch(
            [
                pa.array([0] * len(values), pa.int32()),
                pa.array(offsets, pa.int64()),
                pa.array([NOW] * len(values), pa.int64()),
                pa.nulls(len(values), pa.binary()),
                pa.array(values, pa.binary()),
            ],
            ["metadata_partition", "offset", "timestamp_ms", "key", "value"],
        )
        state = ClusterState("cluster", NOW, (topic,), explained, passed_ms)
        order = GenerationOrder(str(folder), 1, {0: offsets[-1] + 1}, begins={0: begin})
        evaluation = Evaluation(1, state, EvaluationLimits(NOW))
        (told,) = evaluate_batches(iter([batch]), evaluation, order, "attempt")
        leaders = pa.ipc.open_stream(told["leaders"][0].as_py()).read_all()
        self.leader: dict[str, Any] = next(iter(leaders.to_pylist()), {})
        rows = TaskReport.from_json(told["told"][0].as_py()).part.rows
        assert rows is not None
        found = pq.read_table(folder / rows.name, partitioning=None).to_pylist()
        self.rows: dict[int, Row] = {
            int.from_bytes(row["segment_id"], "big"): (row["reason"], row["exact"])
            for row in found
            if row["kind"] == "segment"
        }

    @property
    def certainty(self) -> tuple[str, str | None]:
        return self.leader["certainty"], self.leader["why"]


def test_what_its_leader_deletes_is_certain(tmp_path: Path) -> None:
    found = Told(tmp_path, copied(OLD, YOUNG))
    assert found.rows == {0: ("RETENTION_MS", True)}
    assert found.leader == {
        "topic_id": ORDERS.bytes, "topic": "orders", "partition": 0, "certainty": ALL, "why": None, "segments": 1,
        "bytes": 100,
    }  # fmt: skip


def test_its_leader_may_delete_more(tmp_path: Path) -> None:
    # Bytes that are only on its disk are not known.
    assert Told(tmp_path, copied(OLD, YOUNG), replace(TOPIC, retention_bytes=900)).certainty == (AT_LEAST, None)
    # A copy may be under way, or given up.
    assert Told(tmp_path, [*copied(OLD, YOUNG), segment(2).add(NOW)]).certainty == (AT_LEAST, None)
    # A segment reaches behind what the lineage knows.
    short = replace(TOPIC, leaders={0: replace(LEADER, known_up_to=(0, 19))})
    assert Told(tmp_path, [*copied(OLD, YOUNG), *copied(segment(2))[:1]], short).certainty == (AT_LEAST, None)
    # By this machine's clock it is due, and no broker's says so.
    for passed_ms in (None, NOW - 6_000):
        found = Told(tmp_path, copied(OLD, YOUNG), passed_ms=passed_ms)
        assert (found.certainty, found.rows) == ((AT_LEAST, None), {})
    # A clock that is behind the brokers' tells less.
    assert Told(tmp_path, copied(segment(0, -9_000)), passed_ms=NOW + 90_000).rows == {}


@pytest.mark.parametrize(
    ("values", "topic", "why"),
    [
        (copied(OLD, YOUNG), replace(TOPIC, leaders={}, untold={0: "it hides"}), "it hides"),
        (copied(OLD, YOUNG), replace(TOPIC, leaders={}), NOBODY_ASKED),
        (copied(OLD, segment(1, 9_000, start=0)), TOPIC, SHARED_PLACES),
        (copied(OLD, YOUNG), replace(TOPIC, leaders={0: replace(LEADER, known_up_to=(0, 9))}), STALE_LINEAGE),
        ([*copied(OLD, YOUNG), segment(5).update(3, COPIED)], TOPIC, UNCERTAIN),
        ([*copied(OLD, YOUNG), b"garbage"], TOPIC, "records of metadata partition 0 cannot be applied"),
    ],
    ids=["untold", "not asked", "shared place", "stale", "uncertain", "bad record"],
)
def test_where_nothing_is_told_the_rows_are_estimates(
    tmp_path: Path, values: list[bytes], topic: ListedTopic, why: str
) -> None:
    found = Told(tmp_path, values, topic)
    assert found.certainty == (UNRESOLVED, why)
    assert (found.leader["segments"], found.leader["bytes"]) == (0, 0)
    assert found.rows[0] == ("RETENTION_MS", False)
    assert not any(exact for _, exact in found.rows.values())


def test_a_finished_segment_may_have_taken_the_place_of_another(tmp_path: Path) -> None:
    later = replace(segment(8, 9_000, start=0), end_offset=4)
    finished = [*copied(later), later.update(3, DELETING), later.update(4, DELETED)]
    assert Told(tmp_path, [*copied(OLD, YOUNG), *finished]).certainty == (UNRESOLVED, SHARED_PLACES)
    # It was gone before the other one came.
    assert Told(tmp_path, [*finished, *copied(OLD, YOUNG)]).certainty == (ALL, None)
    # It lay elsewhere.
    elsewhere = segment(8, start=500)
    gone = [*copied(elsewhere), elsewhere.update(3, DELETING), elsewhere.update(4, DELETED)]
    assert Told(tmp_path, [*copied(OLD, YOUNG), *gone]).certainty == (ALL, None)


def test_nothing_is_told_of_a_log_that_has_lost_records(tmp_path: Path) -> None:
    lost = "metadata partition 0 has lost records, or holds none at some offsets"
    assert Told(tmp_path, copied(OLD, YOUNG), begin=5).certainty == (UNRESOLVED, lost)
    gap = [0, 1, 2, 7]
    assert Told(tmp_path, copied(OLD, YOUNG), offsets=gap).certainty == (UNRESOLVED, lost)
    explained = (HistoryGap(0, 3, 7),)
    assert Told(tmp_path, copied(OLD, YOUNG), offsets=gap, explained=explained).certainty == (ALL, None)


def test_what_was_begun_days_ago_dangles_unless_its_leader_takes_it_up_again(tmp_path: Path) -> None:
    deleting = [*copied(OLD), OLD.update(3, DELETING)]
    assert Told(tmp_path, deleting).rows == {0: ("DELETION_RETRIED", True)}
    behind_one_that_stays = [*copied(segment(0)), *copied(segment(1)), segment(1).update(3, DELETING)]
    assert Told(tmp_path, behind_one_that_stays).rows == {1: ("DANGLING", False)}
    assert Told(tmp_path, [segment(3).add(1, COPYING)]).rows == {3: ("DANGLING", False)}


def of_epochs(number: int, start: int, *leader_epochs: tuple[int, int]) -> list[bytes]:
    """Return the records of a copied segment, which is old."""
    segment_id = RemoteLogSegmentId(TopicIdPartition(ORDERS, "orders", 0), UUID(int=number))
    added = RemoteLogSegmentMetadata(
        segment_id, start, start + 9, NOW - 9_000, 1, 1, 100, None, State.COPY_SEGMENT_STARTED, leader_epochs
    )
    update = RemoteLogSegmentMetadataUpdate(segment_id, 2, None, State.COPY_SEGMENT_FINISHED, 1)
    return [serialize(added), serialize(update)]


@pytest.mark.parametrize(
    "places",
    [
        # Of two with one start offset the epochs say which one is visited first.
        [(0, 1), (0, 0), (10, 10)],
        # The list of the epoch is in order, and says nothing wrong of any other segment.
        [(0, 0), (10, 12), (20, 20)],
    ],
)
def test_of_segments_that_no_leader_writes_nothing_is_told(tmp_path: Path, places: list[tuple[int, int]]) -> None:
    values = [value for n, (start, listed) in enumerate(places) for value in of_epochs(n + 1, start, (0, listed))]
    assert Told(tmp_path, values).certainty == (UNRESOLVED, SHARED_PLACES)


def test_what_lies_below_the_log_start_in_a_later_epoch_stays(tmp_path: Path) -> None:
    """A copy of a leader that lost its election: the epoch of that number begins later in the log."""
    lineage = ToldLeader(5, 20, 1_000, ((0, 20), (5, 50)), None)
    topic = replace(TOPIC, retention_ms=-1, leaders={0: lineage})
    found = Told(tmp_path, [*of_epochs(1, 0, (0, 0)), *of_epochs(2, 10, (5, 10)), *of_epochs(3, 50, (5, 50))], topic)
    assert (found.certainty, found.rows) == ((ALL, None), {1: ("LOG_START_OFFSET", True)})


def test_of_a_topic_that_is_not_tiered_any_more_no_leader_deletes_anything(tmp_path: Path) -> None:
    found = Told(tmp_path, copied(OLD, YOUNG), replace(TOPIC, tiered=False, leaders={}))
    assert found.rows == {}
    assert (found.certainty, found.leader["segments"], found.leader["bytes"]) == ((NOT_TIERED, None), 2, 200)
