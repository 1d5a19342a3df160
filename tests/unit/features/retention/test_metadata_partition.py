# SPDX-License-Identifier: Apache-2.0
"""What a Spark task makes of its records, without Spark: the function goes from Arrow batches to Arrow batches."""

from __future__ import annotations

import hashlib
import random
import weakref
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from airflow_provider_rlmm.core.generations.folding import Folding
from airflow_provider_rlmm.core.world.cluster_state import ClusterState, ListedTopic
from airflow_provider_rlmm.features.retention.rules import EvaluationLimits
from airflow_provider_rlmm.features.retention.spark.columns import KINDS, QUARANTINED, SEGMENT, UNRESOLVED
from airflow_provider_rlmm.features.retention.spark.executor import frame_rows, judging, metadata_partition
from airflow_provider_rlmm.features.retention.spark.executor import rows as rows_module
from airflow_provider_rlmm.features.retention.spark.executor.frame_rows import segment_rows
from airflow_provider_rlmm.features.retention.spark.executor.judging import Evaluation
from airflow_provider_rlmm.features.retention.spark.executor.metadata_partition import GenerationOrder, evaluate_batches
from airflow_provider_rlmm.features.retention.spark.executor.rows import SCHEMA
from airflow_provider_rlmm.features.retention.spark.task_report import TaskReport
from tests.examples import examples
from tests.spark.events import Segment, Topic, random_topic
from tests.spark.plain_evaluation import COPIED, COPYING, DELETED, DELETING
from tests.unit.features.retention.reference import expected_rows, in_order

NOW, MIN_AGE, PARTITIONS = 1_800_000_000_000, 100_000, 5
LIMITS = EvaluationLimits(NOW, MIN_AGE, allow_low_min_age=True)
FOREVER = ListedTopic(UUID(int=1), "forever", -1, -1, {0: 0, 1: 0, 2: 0})
TIMED = ListedTopic(UUID(int=2), "timed", 4_000, -1, {0: 0, 1: 0})
SIZED = ListedTopic(UUID(int=3), "sized", -1, 3_000, {0: 0, 1: 0, 2: 0})
TRIMMED = ListedTopic(UUID(int=4), "trimmed", -1, 2_000, {0: 300, 1: 200, 2: 400})
CLUSTER = ClusterState("cluster", NOW - 600, (FOREVER, TIMED, SIZED, TRIMMED))
DEAD = (UUID(int=90).bytes, "dead")
RECORDS = pa.schema({"metadata_partition": "int32", "offset": "int64", "key": "binary", "value": "binary"})

Record = tuple[int, int, bytes | None, bytes | None]
Rows = dict[str, list[dict[str, Any]]]

EVALUATION = Evaluation(PARTITIONS, CLUSTER, LIMITS)
ENDS = dict.fromkeys(range(PARTITIONS), 1_000_000)


def batches_of(records: Iterable[Record], largest_batch: int = 1_000) -> list[pa.RecordBatch]:
    """Batches in the order of a task that reads one partition after the other."""
    rows = sorted(records, key=lambda record: record[:2])
    table = pa.table([[row[i] for row in rows] for i in range(4)], schema=RECORDS)
    # A record was appended some time, and later ones later.
    table = table.append_column("timestamp_ms", pa.array([NOW - 10**9 + row[1] for row in rows], pa.int64()))
    return table.to_batches(largest_batch)


def evaluated(records: Iterable[Record], largest_batch: int = 1_000) -> Rows:
    return found(batches_of(records, largest_batch))[0]


def found(batches: Iterable[pa.RecordBatch]) -> tuple[Rows, list[TaskReport]]:
    """The rows by kind, and what was told of them."""
    with TemporaryDirectory() as folder:
        reports = told(batches, GenerationOrder(folder, 1, ENDS))
        return rows_of(folder, reports), reports


def told(batches: Iterable[pa.RecordBatch], order: GenerationOrder, attempt: str = "attempt") -> list[TaskReport]:
    rows = [row for batch in evaluate_batches(iter(batches), EVALUATION, order, attempt) for row in batch.to_pylist()]
    return [TaskReport.from_json(row["told"]) for row in rows]


def rows_of(folder: str, reports: Iterable[TaskReport]) -> Rows:
    by_kind: Rows = {SEGMENT: [], UNRESOLVED: [], QUARANTINED: []}
    for report in reports:
        for batch in segment_rows(folder, (report.metadata_partition, report.part), PARTITIONS, KINDS):
            assert batch.schema == SCHEMA
            for row in batch.to_pylist():
                by_kind[row["kind"]].append(row)
    return by_kind


def without_keys(topic: Topic) -> list[Record]:
    return [(partition, offset, None, value) for partition, offset, value in topic.records]


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "largest_batch"), [(1, 100_000), (2, 7), (3, 97), (4, 1)])
def test_the_rows_are_those_of_the_scalar_rules(seed: int, largest_batch: int) -> None:
    names = [(topic.topic_id.bytes, topic.name) for topic in CLUSTER.topics]
    topic = random_topic(seed, [*names, DEAD], NOW, MIN_AGE, examples(600), PARTITIONS)
    rows = evaluated(without_keys(topic), largest_batch)
    expected = expected_rows(topic.records, PARTITIONS, CLUSTER, LIMITS)
    segments = [{name: row[name] for name in expected.segments[0]} for row in rows[SEGMENT]]
    assert segments == in_order(expected.segments), "also in the order of the walk"
    key = ("metadata_partition", "topic_id", "topic", "partition", "segment_id", "event_offset")
    assert sorted(tuple(row[name] for name in key) for row in rows[UNRESOLVED]) == sorted(expected.unresolved)
    assert [(row["metadata_partition"], row["event_offset"]) for row in rows[QUARANTINED]] == expected.quarantined
    assert len({row["reason"] for row in segments}) > 2


@pytest.mark.slow
@pytest.mark.parametrize(("rows_at_once", "judged_at_once"), [(1, 1), (7, 5), (50, 1_000_000)])
def test_rows_that_are_made_a_few_at_a_time_are_those_that_are_made_at_once(
    rows_at_once: int, judged_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [(topic.topic_id.bytes, topic.name) for topic in CLUSTER.topics]
    records = without_keys(random_topic(6, [*names, DEAD], NOW, MIN_AGE, examples(600), PARTITIONS))
    expected, told_at_once = found(batches_of(records))
    for module in (rows_module, frame_rows):
        monkeypatch.setattr(module, "ROWS_AT_ONCE", rows_at_once)
    monkeypatch.setattr(judging, "_JUDGED_AT_ONCE", judged_at_once)
    rows, reports = found(batches_of(records))
    assert rows == expected
    assert all(rows.values())
    assert [replace(r.part, rows=None, state=None) for r in reports] == [
        replace(r.part, rows=None, state=None) for r in told_at_once
    ]


def test_the_state_of_one_metadata_partition_is_gone_before_the_next_one_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alive: list[weakref.ref[Folding]] = []

    class Watched(Folding):
        def __init__(self, *arguments: Any) -> None:
            assert [one() for one in alive] == [None] * len(alive)
            super().__init__(*arguments)
            alive.append(weakref.ref(self))

    monkeypatch.setattr(metadata_partition, "Folding", Watched)
    topic = random_topic(5, [DEAD, (FOREVER.topic_id.bytes, FOREVER.name)], NOW, MIN_AGE, 60, PARTITIONS)
    told(batches_of(without_keys(topic)), GenerationOrder(str(tmp_path), 1, ENDS))
    assert len(alive) > 2


def test_what_is_told_is_what_the_files_hold(tmp_path: Path) -> None:
    topic = random_topic(5, [(SIZED.topic_id.bytes, SIZED.name), DEAD], NOW, MIN_AGE, 300, PARTITIONS)
    reports = told(batches_of(without_keys(topic)), GenerationOrder(str(tmp_path), 1, ENDS))
    rows = rows_of(str(tmp_path), reports)
    assert [report.metadata_partition for report in reports] == sorted({partition for partition, _, _ in topic.records})
    for report in reports:
        number, part = report.metadata_partition, report.part
        mine = {kind: [r for r in rows[kind] if r["metadata_partition"] == number] for kind in rows}
        offsets = [offset for partition, offset, _ in topic.records if partition == number]
        assert (report.records, report.in_order, report.refused) == (len(offsets), True, None)
        assert (part.next_offset, part.segments) == (ENDS[number], len(mine[SEGMENT]))
        assert part.bytes == sum(segment["segment_size_in_bytes"] for segment in mine[SEGMENT])
        assert (part.unresolved, part.quarantined) == (len(mine[UNRESOLVED]), len(mine[QUARANTINED]))
        assert [anchor.offset for anchor in part.anchors] == offsets[-16:]
        sizes = Counter((r["topic_id"], r["topic"], r["partition"]) for r in mine[SEGMENT])
        assert (report.user_partitions, report.largest_user_partition) == (len(sizes), max(sizes.values(), default=0))
        for file in (part.rows, part.state):
            assert file is not None
            data = (tmp_path / file.name).read_bytes()
            assert (file.bytes, file.sha256) == (len(data), hashlib.sha256(data).hexdigest())
        assert report.versions["pyarrow"] == pa.__version__
        assert set(report.milliseconds) == {"load", "fold", "evaluate", "write", "wait"}


def segment(number: int, topic: ListedTopic = FOREVER, **fields: Any) -> Segment:
    return Segment(topic.topic_id.bytes, topic.name, 0, number.to_bytes(16, "big"), **fields)


def test_a_record_with_a_key_is_applied_and_one_in_the_wrong_place_is_not() -> None:
    s = segment(1)
    home, other = s.metadata_partition(PARTITIONS), (s.metadata_partition(PARTITIONS) + 1) % PARTITIONS
    rows = evaluated(
        [
            (home, 0, None, s.add(1)),
            (home, 1, b"key", s.update(2, COPIED)),
            (other, 0, None, s.update(3, DELETING)),
            (other, 1, b"key", s.update(3, DELETING)),
        ]
    )
    assert [row["state"] for row in rows[SEGMENT]] == [COPIED]
    assert [(row["metadata_partition"], row["event_offset"]) for row in rows[QUARANTINED]] == [(other, 0), (other, 1)]
    assert all(row["error"].startswith("MISROUTED: ") for row in rows[QUARANTINED])


def test_what_is_unfinished_below_the_end_of_a_deletion_stays() -> None:
    s = Segment(*DEAD, 0, bytes(16))
    topic = Topic(PARTITIONS)
    topic.put_home(s, s.add(1), *(s.partition_delete(2, state) for state in range(3)))
    (row,) = evaluated(without_keys(topic))[SEGMENT]
    assert (row["state"], row["listed"], row["may_be_orphaned"], row["exact"]) == (COPYING, False, True, True)


@pytest.mark.parametrize("doubt", ["an update to COPYING", "an add that is COPIED", "an update before the add"])
def test_a_segment_that_is_not_certain_is_told_and_never_to_go(doubt: str) -> None:
    for make in (lambda n, **f: Segment(*DEAD, 0, n.to_bytes(16, "big"), **f), lambda n, **f: segment(n, TIMED, **f)):
        s, certain = make(1), make(2, start_offset=10, end_offset=19)
        events = {
            "an update to COPYING": [s.add(1), s.update(2, COPYING)],
            "an add that is COPIED": [s.add(1), s.add(2, state=COPIED)],
            "an update before the add": [s.update(1, DELETING), s.add(2)],
        }[doubt]
        topic = Topic(PARTITIONS)
        topic.put_home(s, *events, certain.add(1))
        rows = evaluated(without_keys(topic))
        assert [row["segment_id"] for row in rows[UNRESOLVED]] == [s.segment_id]
        to_go = {row["segment_id"]: row["reason"] or row["may_be_orphaned"] for row in rows[SEGMENT]}
        assert (bool(to_go[s.segment_id]), bool(to_go[certain.segment_id])) == (False, True)


def test_updates_after_the_end_of_a_segment_are_no_doubt() -> None:
    s = segment(1)
    topic = Topic(PARTITIONS)
    topic.put_home(s, s.add(1), s.update(2, DELETING), s.update(3, DELETED), s.update(4, COPIED))
    rows = evaluated(without_keys(topic))
    assert (rows[SEGMENT], rows[UNRESOLVED]) == ([], [])


def test_nothing_is_exact_beside_a_record_that_cannot_be_applied() -> None:
    s = Segment(*DEAD, 0, bytes(16))
    home = s.metadata_partition(PARTITIONS)
    other = (home + 1) % PARTITIONS
    (alone,) = evaluated([(home, 0, None, s.add(1)), (other, 0, None, b"garbage")])[SEGMENT]
    assert (alone["may_be_orphaned"], alone["exact"]) == (True, True), "another metadata partition says nothing of it"
    for offsets in ((0, 1), (1, 0)):
        records = [(home, offsets[0], None, s.add(1)), (home, offsets[1], None, b"garbage")]
        (beside,) = evaluated(records, largest_batch=1)[SEGMENT]
        assert (beside["may_be_orphaned"], beside["exact"]) == (True, False)


def test_a_metadata_partition_in_pieces_or_out_of_order_shows_in_what_is_told(tmp_path: Path) -> None:
    order = GenerationOrder(str(tmp_path), 1, ENDS)
    s, later = segment(1), segment(2)
    home = s.metadata_partition(PARTITIONS)
    other = (home + 1) % PARTITIONS
    records = [(home, 0, None, s.add(1)), (other, 0, None, b""), (home, 1, None, later.add(1))]
    pieces = [batch for record in records for batch in batches_of([record])]
    assert [report.metadata_partition for report in told(pieces, order)] == [home, other, home]
    for places in ([0, 2], [2, 0]):
        reports = told((pieces[place] for place in places), order)
        assert [report.in_order for report in reports] == [places == [0, 2]]


def test_no_records_are_no_rows() -> None:
    empty = pa.RecordBatch.from_pylist([], RECORDS)
    assert found([])[1] == found([empty, empty])[1] == []


@pytest.mark.slow
def test_one_user_partition_of_many_batches_is_walked_as_one() -> None:
    segments = [segment(n, SIZED, start_offset=10 * n, end_offset=10 * n + 9, size=1_000) for n in range(2_000)]
    random.Random(0).shuffle(segments)
    topic = Topic(PARTITIONS)
    for s in segments:
        topic.put_home(s, s.add(NOW), s.update(NOW, COPIED))
    rows = evaluated(without_keys(topic), largest_batch=101)[SEGMENT]
    assert [row["start_offset"] for row in rows] == [10 * n for n in range(2_000)]
    assert [row["reason"] for row in rows] == ["RETENTION_BYTES"] * 1_997 + [None] * 3
