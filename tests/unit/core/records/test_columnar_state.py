# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest

from airflow_provider_rlmm.core.base.errors import MetadataError
from airflow_provider_rlmm.core.records.columnar import ColumnarState, ErrorCode, decode
from airflow_provider_rlmm.core.records.fold import events, steps, store
from airflow_provider_rlmm.core.records.keys import SegmentKey
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentId, TopicIdPartition
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState, RemotePartitionDeleteState
from tests.record_limits import ADD, MOST_TAGS, tags, with_section
from tests.unit.core.records.events import (
    PARTITION,
    copied,
    deleted,
    deleting,
    partition_delete,
    segment_id,
    started,
    update,
)
from tests.unit.core.records.recorded import FORMATTED, REAL, REAL_VALUES, parse_formatted

OTHER = replace(PARTITION, partition=3)
MARKED = partition_delete(RemotePartitionDeleteState.DELETE_PARTITION_MARKED)
FINISHED = partition_delete(RemotePartitionDeleteState.DELETE_PARTITION_FINISHED)


def apply(*history, state=None, **carried):
    values = [event if event is None or isinstance(event, bytes) else serialize(event) for event in history]
    return (state or ColumnarState.empty()).apply(decode(values, **carried))


def tables(state):
    return [state.segments, state.unresolved, state.user_partitions, state.partition_deletes]


def test_the_empty_state_has_empty_tables():
    assert [table.num_rows for table in tables(ColumnarState.empty())] == [0, 0, 0, 0]
    assert ColumnarState.empty().segments.schema.names[:5] == [
        "metadata_partition", "topic_id", "topic", "partition", "segment_id",
    ]  # fmt: skip


def test_segments_and_epochs_after_some_events():
    epochs = ((0, 0), (1, 60))
    state, report = apply(
        started(1, 0, 99, epochs), copied(1), started(2, 100, 199, ((1, 100),)), copied(2), deleting(2),
        started(3, 0, 9, partition=OTHER), started(4, epochs=((9, 0),)), copied(4), deleting(4), deleted(4), MARKED,
        metadata_partition=2,
    )  # fmt: skip
    assert report.applied == 11
    assert [report.quarantined.num_rows, report.dropped.num_rows, report.would_end_consumer.num_rows] == [0, 0, 0]
    segments = state.segments.to_pylist()
    assert [(row["segment_id"], row["partition"], row["state"]) for row in segments] == [
        (segment_id(1).id.bytes, 2, RemoteLogSegmentState.COPY_SEGMENT_FINISHED),
        (segment_id(2).id.bytes, 2, RemoteLogSegmentState.DELETE_SEGMENT_STARTED),
        (segment_id(3).id.bytes, 3, RemoteLogSegmentState.COPY_SEGMENT_STARTED),
    ]
    assert segments[0] == {
        "metadata_partition": 2,
        "topic_id": PARTITION.topic_id.bytes,
        "topic": "orders",
        "partition": 2,
        "segment_id": segment_id(1).id.bytes,
        "start_offset": 0,
        "end_offset": 99,
        "max_timestamp_ms": 1_000,
        "broker_id": 7,
        "event_timestamp_ms": 3_000,
        "segment_size_in_bytes": 4_096,
        "custom_metadata": None,
        "state": RemoteLogSegmentState.COPY_SEGMENT_FINISHED,
        "segment_leader_epochs": [{"leader_epoch": e, "start_offset": s} for e, s in epochs],
        "txn_idx_empty": False,
        "broker_leader_epoch": None,
        "added_offset": 0,
        "event_offset": 1,
    }
    assert state.partition_deletes.to_pylist() == [
        {
            "metadata_partition": 2,
            "topic_id": PARTITION.topic_id.bytes,
            "topic": "orders",
            "partition": 2,
            "state": RemotePartitionDeleteState.DELETE_PARTITION_MARKED,
            "offset": 10,
            "event_timestamp_ms": 4_000,
            "broker_id": -1,
            "was_finished": False,
        }
    ]


@pytest.mark.slow
def test_events_in_one_batch_or_in_many_make_the_same_state():
    at_once, _ = ColumnarState.empty().apply(decode(REAL_VALUES))
    one_by_one = ColumnarState.empty()
    for value in REAL_VALUES:
        one_by_one, _ = one_by_one.apply(decode([value]))
        one_by_one = ColumnarState.from_ipc(one_by_one.to_ipc())
    assert tables(one_by_one) == tables(at_once)


def test_the_real_topic_leaves_the_segments_that_kafka_prints_as_unfinished():
    last_state = {}
    for line in FORMATTED:
        printed = parse_formatted(line)
        last_state[printed["segment_id"]] = printed["state"]
    partitions = [record["partition"] for record in REAL]
    state, report = ColumnarState.empty().apply(decode(REAL_VALUES, metadata_partition=partitions, num_partitions=5))
    assert report.applied == len(REAL_VALUES)
    rows = state.segments.to_pylist()
    found = {row["segment_id"]: row["state"] for row in rows}
    assert found == {key: value for key, value in last_state.items() if value != 3}
    assert {row["metadata_partition"] for row in rows} <= set(partitions)


def test_what_kafka_drops_is_reported():
    state, report = apply(started(1), deleted(1), copied(2), deleting(2), offset=[10, 11, 12, 13])
    assert state.segments.num_rows == report.applied == 1
    dropped = report.dropped.to_pylist()
    assert [row["offset"] for row in dropped] == [11, 12, 13]
    assert "does not allow" in dropped[0]["reason"]
    assert "not known" in dropped[1]["reason"]
    assert report.would_end_consumer.num_rows == report.quarantined.num_rows == 0


def test_refused_values_are_quarantined_and_would_end_a_consumer():
    state, report = apply(None, b"", started(1), b"garbage", b"\1\t\0", offset=range(5))
    assert state.segments.num_rows == report.applied == 1
    for table in (report.quarantined, report.would_end_consumer):
        assert table.column("offset").to_pylist() == [0, 1, 3, 4]
    reasons = report.quarantined.column("reason").to_pylist()
    assert reasons[0] == "TOMBSTONE: the value is null"
    assert reasons[3] == "UNKNOWN_API_KEY: api key 9 is unknown"


def test_keyed_records_are_quarantined_and_applied_misrouted_ones_are_not_applied():
    batch = decode([serialize(started(1))], keys=[b"key"])
    state, report = ColumnarState.empty().apply(batch)
    assert (state.segments.num_rows, report.applied) == (1, 1)
    assert report.quarantined.column("error_code").to_pylist() == [ErrorCode.KEYED]
    assert report.would_end_consumer.num_rows == 0
    partitions = {
        decode([serialize(started(1))], metadata_partition=p, num_partitions=2)["error_code"][0].as_py(): p
        for p in (0, 1)
    }
    batch = decode([serialize(started(1))], metadata_partition=partitions[ErrorCode.MISROUTED], num_partitions=2)
    state, report = ColumnarState.empty().apply(batch)
    assert (state.segments.num_rows, report.applied, report.would_end_consumer.num_rows) == (0, 0, 0)
    assert report.quarantined.column("error_code").to_pylist() == [ErrorCode.MISROUTED]


def test_what_newer_kafkas_refuse_is_quarantined_and_applied():
    many = with_section("segment", tags(MOST_TAGS + 1))
    state, report = ColumnarState.empty().apply(decode([many]))
    assert (state.segments.num_rows, report.applied, report.would_end_consumer.num_rows) == (1, 1, 0)
    assert report.quarantined.column("error_code").to_pylist() == [ErrorCode.BEYOND_LIMITS]
    partitions = {
        decode([serialize(ADD)], metadata_partition=p, num_partitions=2)["error_code"][0].as_py(): p for p in (0, 1)
    }
    batch = decode([many], metadata_partition=partitions[ErrorCode.MISROUTED], num_partitions=2)
    assert "; 10001 tagged fields of a segment; Kafka 4.4" in batch["error"][0].as_py()
    assert ColumnarState.empty().apply(batch)[1].applied == 0


@pytest.mark.parametrize(
    "bad",
    [
        started(1, state=RemoteLogSegmentState.COPY_SEGMENT_FINISHED),
        update(2, RemoteLogSegmentState.COPY_SEGMENT_STARTED),
    ],
)
def test_steps_that_throw_in_kafka_would_end_a_consumer(bad):
    state, report = apply(started(2), bad)
    assert report.would_end_consumer.column("segment_id").to_pylist() == [bad.remote_log_segment_id.id.bytes]
    assert "COPY_SEGMENT" in report.would_end_consumer.column("reason")[0].as_py()
    assert state.segments.column("segment_id").to_pylist() == [segment_id(2).id.bytes]
    assert (report.applied, report.dropped.num_rows, report.quarantined.num_rows) == (1, 0, 0)


def test_what_is_unfinished_below_finished_stays_and_later_events_are_reported():
    state, report = apply(started(1), copied(1), started(3, 100, 199), MARKED, FINISHED)
    assert report.would_end_consumer.num_rows == 0
    assert state.partition_deletes.column("state").to_pylist() == [RemotePartitionDeleteState.DELETE_PARTITION_FINISHED]
    state, report = apply(deleting(1), started(2), FINISHED, state=ColumnarState.from_ipc(state.to_ipc()))
    assert ["DELETE_PARTITION_FINISHED" in reason for reason in report.would_end_consumer["reason"].to_pylist()] == [
        True
    ] * 2
    assert (report.applied, report.dropped.num_rows) == (3, 0)
    found = zip(
        state.segments.column("segment_id").to_pylist(), state.segments.column("state").to_pylist(), strict=True
    )
    assert {(raw[-1], number) for raw, number in found} == {(1, 2), (2, 0), (3, 0)}


def test_a_segment_that_appears_after_finished_is_seen():
    state, report = apply(MARKED, FINISHED, started(2), MARKED, copied(2))
    assert state.segments.column("segment_id").to_pylist() == [segment_id(2).id.bytes]
    # A broker that serves the partition has no cache for it any more, whatever marker followed.
    assert report.would_end_consumer.num_rows == 2
    assert report.applied == 5
    assert state.partition_deletes.column("state").to_pylist() == [RemotePartitionDeleteState.DELETE_PARTITION_MARKED]


def test_what_ends_a_consumer_is_reported_once():
    state, _ = apply(MARKED, FINISHED)
    _, report = apply(
        started(1, state=RemoteLogSegmentState.COPY_SEGMENT_FINISHED), state=ColumnarState.from_ipc(state.to_ipc())
    )
    assert report.would_end_consumer.num_rows == 1


def test_a_segment_that_is_announced_again_is_what_the_last_announcement_says():
    later = replace(started(1, 50, 99, ((3, 50), (4, 70))), event_timestamp_ms=9_000)
    for batches in (([started(1), later],), ([started(1)], [later])):
        state = ColumnarState.empty()
        for number, batch in enumerate(batches):
            state, _ = apply(*batch, state=state, offset=[number * 10 + n for n in range(len(batch))])
        [row] = state.segments.to_pylist()
        assert (row["start_offset"], row["event_timestamp_ms"], row["added_offset"]) == (50, 9_000, 0)
        assert row["segment_leader_epochs"] == [
            {"leader_epoch": 3, "start_offset": 50},
            {"leader_epoch": 4, "start_offset": 70},
        ]


def test_a_segment_that_lives_again_begins_anew():
    history = [started(1), copied(1), deleting(1), deleted(1)]
    for keep_finished in (True, False):
        state, _ = apply(*history, state=ColumnarState.empty(keep_finished=keep_finished), offset=range(4))
        assert state.finished_segments.num_rows == keep_finished
        state, report = apply(started(1, 5), copied(1), state=state, offset=[4, 5])
        [row] = state.segments.to_pylist()
        assert (report.applied, row["start_offset"], row["added_offset"], row["event_offset"]) == (2, 5, 4, 5)
        assert (state.finished_segments.num_rows, state.unresolved.num_rows) == (0, 0)


def test_user_partitions_of_which_only_dropped_events_are_known():
    state, report = apply(copied(1), metadata_partition=4)
    assert (report.applied, state.segments.num_rows) == (0, 0)
    key = {"metadata_partition": 4, "topic_id": PARTITION.topic_id.bytes, "topic": "orders", "partition": 2}
    assert state.user_partitions.to_pylist() == [
        {
            **key, "first_offset": 0, "last_foreign_offset": 0, "finished_segments": 0, "was_finished": False,
            "copying_offset": None, "copying_segment_id": None, "copying_event_timestamp_ms": None,
        }
    ]  # fmt: skip
    assert state.unresolved.to_pylist() == [
        {**key, "segment_id": segment_id(1).id.bytes, "offset": 0, "without_add": True, "maybe_finished": False}
    ]


def test_a_state_survives_as_bytes():
    state, _ = apply(
        started(1, 0, 99, ((0, 0), (3, 50))), update(1, RemoteLogSegmentState.COPY_SEGMENT_FINISHED, b"\0\xff"),
        started(2, 0, 40), copied(2), started(4), copied(4), deleting(4), deleted(4), started(3, partition=OTHER),
        MARKED, metadata_partition=4,
    )  # fmt: skip
    again = ColumnarState.from_ipc(state.to_ipc())
    assert tables(again) == tables(state)
    after = [apply(copied(3, OTHER), started(9, 41, 500), copied(9), FINISHED, state=s)[0] for s in (state, again)]
    assert tables(after[0]) == tables(after[1])
    assert after[0].segments.num_rows == 4


def _stream(table):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


@pytest.mark.slow
def test_a_thousand_announcements_of_one_segment_are_no_burden():
    """Each of them replaces the one before, whatever its leader epochs."""
    history = [started(1, 0, 99, ((0, 0), (1, number % 90))) for number in range(20_000)]
    state, report = apply(*history)
    assert report.applied == len(history)
    assert state.segments.column("segment_leader_epochs").to_pylist()[0][1]["start_offset"] == 19_999 % 90
    state, _ = apply(*history, state=state)
    assert len(state.to_ipc()) < 20_000


def test_other_bytes_are_no_state():
    good = ColumnarState.empty().to_ipc()
    for data in (b"", b"garbage", good[: len(good) // 2], _stream(pa.table({"a": [1]}))):
        with pytest.raises(MetadataError, match="not a columnar state"):
            ColumnarState.from_ipc(data)


def test_keys_whose_hashes_agree_are_compared_to_the_end(monkeypatch):
    for module in (events, steps, store):
        monkeypatch.setattr(module, "hash_of", lambda high, low, code: np.zeros(high.size, np.uint64))
    id_ = PARTITION.topic_id.int
    partitions = [
        PARTITION,
        OTHER,
        replace(PARTITION, topic="renamed"),
        replace(PARTITION, topic_id=UUID(int=id_ ^ 1)),
        replace(PARTITION, topic_id=UUID(int=id_ ^ 1 << 127)),
    ]
    # Ids that agree in one half.
    keys = [(number, partition) for partition in partitions for number in (1, 2, 1 << 127 | 1)]
    state, _ = apply(*(started(number, partition=partition) for number, partition in keys))
    state, report = apply(
        *(copied(*key) for key in keys[::2]), *(started(7, partition=p) for p in partitions), state=state
    )
    assert report.dropped.num_rows == 0
    expected = {(segment_id(*key), RemoteLogSegmentState(number % 2 == 0)) for number, key in enumerate(keys)}
    expected |= {(segment_id(7, partition), RemoteLogSegmentState.COPY_SEGMENT_STARTED) for partition in partitions}
    assert {
        (
            RemoteLogSegmentId(
                TopicIdPartition(UUID(bytes=row["topic_id"]), row["topic"], row["partition"]),
                UUID(bytes=row["segment_id"]),
            ),
            row["state"],
        )
        for row in state.segments.to_pylist()
    } == expected
    assert state.segments.num_rows == len(expected)


def key_of(event):
    return bytes(SegmentKey(PARTITION.topic_id, PARTITION.partition, event.remote_log_segment_id.id, event.state))


def test_an_update_that_says_another_end_or_epoch_than_its_add_is_told_and_applied():
    add = replace(started(1), broker_leader_epoch=4)
    updates = [
        replace(copied(1), end_offset=99, broker_leader_epoch=4),
        replace(deleting(1), end_offset=98, broker_leader_epoch=4),
        replace(deleting(1), end_offset=99, broker_leader_epoch=5),
        deleting(1),
    ]
    keys = [key_of(event) for event in updates]
    batch = decode([serialize(event) for event in (add, *updates)], keys=[key_of(add), *keys], offset=range(5))
    state, report = ColumnarState.empty().apply(batch)
    assert report.misnamed.column("offset").to_pylist() == [2, 3]
    [segment] = state.segments.to_pylist()
    assert (segment["broker_leader_epoch"], segment["state"]) == (4, RemoteLogSegmentState.DELETE_SEGMENT_STARTED)
    again = ColumnarState.from_ipc(state.to_ipc())
    assert again.segments.to_pylist() == [segment]


def test_what_is_to_be_forgotten_is_neither_believed_nor_quarantined():
    batch = decode([serialize(started(1)), None], keys=[None, key_of(copied(1))], offset=range(2))
    state, report = ColumnarState.empty().apply(batch)
    assert (report.applied, report.quarantined.num_rows, report.would_end_consumer.num_rows) == (1, 0, 0)
    assert state.segments.num_rows == 1
