# SPDX-License-Identifier: Apache-2.0
"""What a Spark task makes of its records, without Spark: the function goes from Arrow batches to Arrow batches."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from airflow_provider_rlmm.policy.cluster_state import ClusterState, ListedTopic
from airflow_provider_rlmm.policy.retention import EvaluationLimits
from airflow_provider_rlmm.spark.columns import METADATA_PARTITION, QUARANTINED, SEGMENT, UNRESOLVED
from airflow_provider_rlmm.spark.executor.metadata_partition import SCHEMA, Evaluation, evaluate_batches
from tests.spark.events import Segment, Topic, random_topic
from tests.spark.plain_evaluation import COPIED, COPYING, DELETED, DELETING
from tests.unit.spark.reference import expected_rows, in_order

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


def evaluated(records: Iterable[Record], largest_batch: int = 1_000) -> Rows:
    """The rows by kind, from batches of any size in the order of a task that reads one partition after the other."""
    rows = sorted(records, key=lambda record: record[:2])
    table = pa.table([[row[i] for row in rows] for i in range(4)], schema=RECORDS)
    return found(table.to_batches(largest_batch))


def found(batches: Iterable[pa.RecordBatch]) -> Rows:
    by_kind: Rows = {SEGMENT: [], UNRESOLVED: [], QUARANTINED: [], METADATA_PARTITION: []}
    for batch in evaluate_batches(iter(batches), Evaluation(PARTITIONS, CLUSTER, LIMITS)):
        assert batch.schema == SCHEMA
        for row in batch.to_pylist():
            by_kind[row["kind"]].append(row)
    return by_kind


def without_keys(topic: Topic) -> list[Record]:
    return [(partition, offset, None, value) for partition, offset, value in topic.records]


@pytest.mark.parametrize(("seed", "largest_batch"), [(1, 100_000), (2, 7), (3, 97), (4, 1)])
def test_the_rows_are_those_of_the_scalar_rules(seed: int, largest_batch: int) -> None:
    names = [(topic.topic_id.bytes, topic.name) for topic in CLUSTER.topics]
    topic = random_topic(seed, [*names, DEAD], NOW, MIN_AGE, 600, PARTITIONS)
    rows = evaluated(without_keys(topic), largest_batch)
    expected = expected_rows(topic.records, PARTITIONS, CLUSTER, LIMITS)
    segments = [{name: row[name] for name in expected.segments[0]} for row in rows[SEGMENT]]
    assert segments == in_order(expected.segments), "also in the order of the walk"
    key = ("metadata_partition", "topic_id", "topic", "partition", "segment_id", "event_offset")
    assert sorted(tuple(row[name] for name in key) for row in rows[UNRESOLVED]) == sorted(expected.unresolved)
    assert [(row["metadata_partition"], row["event_offset"]) for row in rows[QUARANTINED]] == expected.quarantined
    assert len({row["reason"] for row in segments}) > 2


def test_totals_are_those_of_the_rows() -> None:
    topic = random_topic(5, [(SIZED.topic_id.bytes, SIZED.name), DEAD], NOW, MIN_AGE, 300, PARTITIONS)
    rows = evaluated(without_keys(topic))
    numbers = [row["metadata_partition"] for row in rows[METADATA_PARTITION]]
    assert numbers == sorted({partition for partition, _, _ in topic.records})
    for row in rows[METADATA_PARTITION]:
        number, totals = row["metadata_partition"], row["totals"]
        mine = {kind: [r for r in rows[kind] if r["metadata_partition"] == number] for kind in rows}
        offsets = [offset for partition, offset, _ in topic.records if partition == number]
        assert totals == {
            "records": len(offsets),
            "first_offset": 0,
            "last_offset": max(offsets),
            "in_order": True,
            "segments": len(mine[SEGMENT]),
            "bytes": sum(segment["segment_size_in_bytes"] for segment in mine[SEGMENT]),
            "unresolved": len(mine[UNRESOLVED]),
            "quarantined": len(mine[QUARANTINED]),
        }


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


def test_a_metadata_partition_in_pieces_or_out_of_order_shows_in_its_totals() -> None:
    s, later = segment(1), segment(2)
    home = s.metadata_partition(PARTITIONS)
    other = (home + 1) % PARTITIONS
    records = [(home, 0, None, s.add(1)), (other, 0, None, b""), (home, 1, None, later.add(1))]
    pieces = [pa.RecordBatch.from_pylist([dict(zip(RECORDS.names, r, strict=True))], RECORDS) for r in records]
    assert [row["metadata_partition"] for row in found(pieces)[METADATA_PARTITION]] == [home, other, home]
    for order in ([0, 1], [1, 0]):
        rows = found(pieces[place] for place in (order[0] * 2, order[1] * 2))
        assert [row["totals"]["in_order"] for row in rows[METADATA_PARTITION]] == [order == [0, 1]]


def test_no_records_are_no_rows() -> None:
    empty = pa.RecordBatch.from_pylist([], RECORDS)
    assert found([]) == found([empty, empty]) == {SEGMENT: [], UNRESOLVED: [], QUARANTINED: [], METADATA_PARTITION: []}


def test_one_user_partition_of_many_batches_is_walked_as_one() -> None:
    segments = [segment(n, SIZED, start_offset=10 * n, end_offset=10 * n + 9, size=1_000) for n in range(2_000)]
    random.Random(0).shuffle(segments)
    topic = Topic(PARTITIONS)
    for s in segments:
        topic.put_home(s, s.add(NOW), s.update(NOW, COPIED))
    rows = evaluated(without_keys(topic), largest_batch=101)[SEGMENT]
    assert [row["start_offset"] for row in rows] == [10 * n for n in range(2_000)]
    assert [row["reason"] for row in rows] == ["RETENTION_BYTES"] * 1_997 + [None] * 3
