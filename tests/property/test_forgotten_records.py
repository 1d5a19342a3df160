# SPDX-License-Identifier: Apache-2.0
"""What the log cleaner was asked to forget is judged where it lies in the log, wherever batches end."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from airflow_provider_rlmm.core.log import in_process
from airflow_provider_rlmm.core.records.columnar import ColumnarState, decode
from airflow_provider_rlmm.core.records.keys import OffsetKey, RecordKey, SegmentKey
from airflow_provider_rlmm.core.records.records import SegmentEvent, TopicIdPartition
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from tests.contracts.folds import key_of_row, metadata_partition_replay, scalar
from tests.examples import examples
from tests.property.record_keys import segment_key
from tests.property.written_topics import Record as WrittenRecord
from tests.property.written_topics import WrittenTopic
from tests.unit.core.records import events

TIPS = [events.PARTITION, replace(events.PARTITION, partition=3), replace(events.PARTITION, topic="renamed")]
Record = SegmentEvent | RecordKey
"""A key is of a record without a value."""


def records(random: Random, size: int) -> list[Record]:
    """Few segments, of which many end at one offset: a copy that failed, its keys, and the copy after it."""
    ends = {}
    return [_record(random, random.choice(TIPS), random.randint(1, 4), ends) for _ in range(size)]


def _record(
    random: Random, tip: TopicIdPartition, number: int, ends: dict[tuple[TopicIdPartition, int], int]
) -> Record:
    what = random.random()
    if what < 0.3:
        ends[tip, number] = end = random.choice([98, 99])
        return replace(events.started(number, 0, end, partition=tip), broker_leader_epoch=random.choice([-1, 4, 5]))
    if what < 0.7:
        state = random.choice([*list(S)[1:], S.DELETE_SEGMENT_STARTED, S.DELETE_SEGMENT_FINISHED])
        return events.update(number, state, partition=tip)
    if what < 0.85:
        return SegmentKey(tip.topic_id, tip.partition, events.segment_id(number).id, random.choice(list(S)))
    end = ends.get((tip, number), 97)
    return OffsetKey(
        tip.topic_id, tip.topic, tip.partition, end, random.choice([4, 5]), is_update=random.random() < 0.5
    )


def decoded(some: list[Record], first: int):
    return decode(
        [_written(r).value for r in some],
        keys=[_written(r).key for r in some],
        metadata_partition=[0] * len(some),
        offset=range(first, first + len(some)),
        num_partitions=1,
    )


def folded(some: list[Record], random: Random, largest: int, *, keep_finished: bool) -> ColumnarState:
    state, at = ColumnarState.empty(keep_finished=keep_finished), 0
    while at < len(some):
        size = random.randint(1, largest)
        state, _ = state.apply(decoded(some[at : at + size], at))
        at += size
    return state


def written(some: list[Record]) -> WrittenTopic:
    return WrittenTopic([[_written(record) for record in some]])


def _written(record: Record) -> WrittenRecord:
    is_key = isinstance(record, RecordKey)
    return WrittenRecord(None, bytes(record)) if is_key else WrittenRecord(serialize(record), segment_key(record))


def unresolved(state: ColumnarState) -> list[dict]:
    return sorted(state.unresolved.to_pylist(), key=repr)


@pytest.mark.slow
@given(st.integers(0, 2**32), st.integers(1, 40), st.sampled_from([3, 8, 40]))
@settings(max_examples=examples(150), deadline=None)
@example(seed=0, size=40, largest=40)
def test_where_batches_end_makes_no_segment_uncertain_and_none_certain(seed, size, largest):
    random = Random(seed)
    some = records(random, size)
    state, other = (folded(some, random, most, keep_finished=True) for most in (largest, 8))
    assert {key_of_row(row): row["offset"] for row in unresolved(state)} == scalar(written(some)).unresolved
    assert unresolved(state) == unresolved(other)
    assert state.digest() == other.digest()
    state, other = (folded(some, random, most, keep_finished=False) for most in (largest, 8))
    assert unresolved(state) == unresolved(other)
    assert state.digest() == other.digest()


@pytest.mark.slow
@given(st.integers(0, 2**32), st.integers(1, 40), st.sampled_from([2, 5, 40]))
@settings(max_examples=examples(80), deadline=None)
def test_a_replay_makes_uncertain_what_one_record_after_the_other_does(seed, size, rows):
    topic = written(records(Random(seed), size))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(in_process, "BATCH_ROWS", rows)
        assert metadata_partition_replay(topic, Random(seed)).unresolved == scalar(topic).unresolved
