# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from airflow_provider_rlmm.core.records.columnar import ColumnarState, decode
from airflow_provider_rlmm.core.records.deletion import AbsenceObservation, PartitionDeletion
from airflow_provider_rlmm.core.records.fold import digest, tables
from airflow_provider_rlmm.core.records.fold.store import DEAD, TABLES
from airflow_provider_rlmm.core.records.keys import SegmentKey
from airflow_provider_rlmm.core.records.records import COPIER_BROKER_ID
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState, RemotePartitionDeleteState
from tests.unit.core.records.events import PARTITION, copied, deleted, deleting, partition_delete, started, update

OTHER = replace(PARTITION, topic="payments", partition=3)
MARKED = partition_delete(RemotePartitionDeleteState.DELETE_PARTITION_MARKED)
FOREIGN_MARK = replace(MARKED, event_timestamp_ms=3_000, broker_id=COPIER_BROKER_ID)
SAYS_EPOCH = replace(started(2, 100, 199, ((1, 100), (2, 150)), OTHER), broker_leader_epoch=4)
EVENTS = [
    started(3, 200, 299), copied(3), deleting(3), deleted(3),
    started(1, 0, 99, ((0, 0), (1, 50))), update(1, RemoteLogSegmentState.COPY_SEGMENT_FINISHED, b"custom metadata"),
    SAYS_EPOCH, update(2, RemoteLogSegmentState.COPY_SEGMENT_FINISHED, b"", OTHER), copied(9, OTHER), started(5, 400, 450),
    started(6, 300, 350, partition=OTHER), MARKED, FOREIGN_MARK,
]  # fmt: skip


def batch_of(some, first):
    keys = [None if event is not SAYS_EPOCH else key_of(event) for event in some]
    values = list(map(serialize, some))
    return decode(values, keys=keys, offset=range(first, first + len(some)), metadata_partition=4)


def key_of(event):
    segment_id = event.remote_log_segment_id
    tip = segment_id.topic_id_partition
    return bytes(SegmentKey(tip.topic_id, tip.partition, segment_id.id, event.state))


def in_batches(size, events=EVENTS, *, keep_finished=True):
    state = ColumnarState.empty(keep_finished=keep_finished)
    for at in range(0, len(events), size):
        state, _ = state.apply(batch_of(events[at : at + size], at))
    return state


def row_of(store, number, state=None):
    found = store.segments["low"] == np.frombuffer(number.to_bytes(8, "big"), np.uint64)[0]
    [row] = np.flatnonzero(found).tolist()
    assert state is None or store.segments["state"][row] == state
    return row


def after(change, *, keep_finished=True):
    """Return the digest of the state when somebody has changed it."""
    state = in_batches(len(EVENTS), keep_finished=keep_finished)
    change(state._own())
    return state.digest()


def plus(table, column, row):
    """Return what changes one value."""

    def change(store):
        columns = store.tables[table]
        columns.write(column, row, columns[column][row] ^ 1)

    return change


@pytest.mark.parametrize("keep_finished", [True, False])
def test_batches_bytes_and_merging_do_not_matter(keep_finished):
    expected = in_batches(len(EVENTS), keep_finished=keep_finished).digest()
    assert len(bytes.fromhex(expected)) == 32
    for size in (1, 2, 5):
        state = in_batches(size, keep_finished=keep_finished)
        assert state.digest() == expected
        assert ColumnarState.from_ipc(state.to_ipc()).digest() == expected
        assert ColumnarState.merged([state]).digest() == expected


def test_what_keeps_finished_segments_says_something_else():
    digests = {in_batches(9, EVENTS[:at], keep_finished=kept).digest() for at in (0, 13) for kept in (True, False)}
    assert len(digests) == 4
    state = in_batches(9)
    forgotten = ColumnarState.from_ipc(state.to_ipc(forget_finished=True))
    assert forgotten.digest() != state.digest()


def test_a_state_without_anything_has_one_too():
    assert ColumnarState.merged([]).digest() == ColumnarState.empty(keep_finished=True).digest()


def test_pieces_hold_all_of_it(monkeypatch):
    for module in (digest, tables):
        monkeypatch.setattr(module, "PIECE_ROWS", 2)
    assert in_batches(3).digest() == in_batches(7).digest() != in_batches(7, EVENTS[:-1]).digest()
    for row in range(2):
        assert after(plus("partitions", "finished_segments", row)) != after(lambda _: None)
    for number in (1, 2, 3, 5, 6):
        row = row_of(in_batches(len(EVENTS))._own(), number)
        assert after(plus("segments", "end_offset", row)) != after(lambda _: None)


@pytest.mark.parametrize("start", [0, 100])
def test_segments_that_one_offset_added_have_an_order(start):
    adds = [started(1, 0, 99), started(2, start, 199)]
    copies = [copied(1), copied(2)]
    batches = [decode(list(map(serialize, [*some, *copies])), offset=[5, 5, 6, 6]) for some in (adds, adds[::-1])]
    states = [ColumnarState.empty(keep_finished=True).apply(batch)[0] for batch in batches]
    assert states[0]._own().segments["low"].tolist() == states[1]._own().segments["low"].tolist()[::-1]
    assert states[0].digest() == states[1].digest()


def test_what_is_left_of_a_copy_that_has_ended_does_not_matter():
    events = [started(1), copied(1)]
    assert in_batches(1, events).digest() == in_batches(2, events).digest()
    assert in_batches(1, events[:1]).digest() != in_batches(1, events).digest()


LIVING = [
    column for column in TABLES["segments"] if column not in ("epochs_at", "custom_at")
]  # where runs lie says nothing


@pytest.mark.parametrize("keep_finished", [True, False])
@pytest.mark.parametrize("column", LIVING)
def test_every_column_of_a_living_segment_counts(column, keep_finished):
    row = row_of(in_batches(len(EVENTS), keep_finished=keep_finished)._own(), 1, 1)
    changed = after(plus("segments", column, row), keep_finished=keep_finished)
    assert changed != after(lambda _: None, keep_finished=keep_finished)


@pytest.mark.parametrize("column", ["high", "low", "user_partition", "event_offset", "start_offset", "end_offset"])
def test_what_is_asked_of_a_finished_segment_counts(column):
    row = row_of(in_batches(len(EVENTS))._own(), 3, DEAD)
    assert after(plus("segments", column, row)) != after(lambda _: None)


@pytest.mark.parametrize("column", TABLES["partitions"])
def test_every_column_of_a_user_partition_counts(column):
    assert after(plus("partitions", column, 0)) != after(lambda _: None)


@pytest.mark.parametrize(("table", "column"), [(t, c) for t in ("epochs", "custom") for c in TABLES[t]])
def test_what_segments_refer_to_counts(table, column):
    assert after(plus(table, column, 1)) != after(lambda _: None)


def test_the_name_of_a_topic_counts():
    def rename(store):
        store.topics = pa.array(["orders", "payment1"])

    assert after(rename) != after(lambda _: None)


def test_bytes_do_not_move_from_one_segment_to_another():
    digests = set()
    for lengths in ((3, 0), (0, 3), (2, 1), (3, None), (None, 3)):
        customs = [None if length is None else b"x" * length for length in lengths]
        adds = [replace(started(n + 1, 10 * n), custom_metadata=custom) for n, custom in enumerate(customs)]
        digests.add(in_batches(1, adds).digest())
    assert len(digests) == 5


@pytest.mark.parametrize("keep_finished", [True, False])
def test_a_segment_left_out_invented_or_called_finished_is_noticed(keep_finished):
    def leave_out(store):
        store.tables["segments"] = store.segments.taken(np.delete(np.arange(store.segments.size), row_of(store, 5)))
        store.live -= 1

    def invent(store):
        rows = np.append(np.arange(store.segments.size), row_of(store, 5))
        store.tables["segments"] = store.segments.taken(rows)
        store.segments.write("low", rows.size - 1, 77)
        store.live += 1

    def finish(store):
        store.segments.write("state", row_of(store, 5), DEAD)
        store.live -= 1

    def leave_out_a_finished_one(store):
        store.tables["segments"] = store.segments.taken(np.delete(np.arange(store.segments.size), row_of(store, 3)))

    changes = [lambda _: None, leave_out, invent, finish]
    if keep_finished:
        changes.append(leave_out_a_finished_one)
    digests = {after(change, keep_finished=keep_finished) for change in changes}
    # Where finished ones are not kept, one that is called finished is one that is left out.
    assert len(digests) == (5 if keep_finished else 3)


@pytest.mark.parametrize("said", ["offset", "without_add", "for_good", "finished_known", "segment"])
def test_what_is_uncertain_counts(said):
    def change(store):
        [(key, uncertain)] = store.unresolved.items()
        store.unresolved = (
            {(*key[:2], key[2] + 1): uncertain}
            if said == "segment"
            else {key: uncertain._replace(**{said: getattr(uncertain, said) ^ 1})}
        )

    assert after(change) != after(lambda _: None)


def test_what_is_uncertain_and_what_is_deleted_have_an_order():
    def more(order):
        def change(store):
            [(key, uncertain)] = store.unresolved.items()
            several = {key: uncertain, (*key[:2], key[2] + 1): uncertain, (0, *key[1:]): uncertain}
            store.unresolved = dict(list(several.items())[::order])
            [(row, deletion)] = store.deletions.items()
            store.deletions = dict([(row, deletion), (1 - row, PartitionDeletion(delete_state=MARKED.state))][::order])

        return after(change)

    assert more(1) == more(-1) != after(lambda _: None)


def test_every_observation_counts():
    def seen(*observations, state=RemotePartitionDeleteState.DELETE_PARTITION_MARKED, marker=11):
        def change(store):
            [deletion] = store.deletions.values()
            assert [*map(type, deletion.observations)] == [AbsenceObservation] * 2
            deletion.observations = [AbsenceObservation(*observation) for observation in observations]
            deletion.delete_state, deletion.unsettled_marker_offset = state, marker

        return after(change)

    one, two = (11, 4_000, True), (12, 3_000, False)
    digests = [
        after(lambda _: None), seen(one), seen(two), seen(two, one), seen(one, (12, 2_999, False)),
        seen(one, (13, 3_000, False)), seen(one, (12, 3_000, True)), seen(one, two, marker=None),
        seen(one, two, marker=0), seen(one, two, state=RemotePartitionDeleteState.DELETE_PARTITION_STARTED),
    ]  # fmt: skip
    assert len(set(digests)) == len(digests)
    assert seen(one, two) == digests[0]
