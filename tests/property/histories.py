# SPDX-License-Identifier: Apache-2.0
"""Random histories of user partitions, and a model that applies them event by event to scalar histories."""

from __future__ import annotations

import random
from uuid import UUID

from airflow_provider_rlmm.core.base.errors import InvalidStateTransitionError
from airflow_provider_rlmm.core.records.cache import RemoteLogMetadataCache
from airflow_provider_rlmm.core.records.columnar import ErrorCode, iter_events
from airflow_provider_rlmm.core.records.history import UserPartitionHistory
from airflow_provider_rlmm.core.records.outcomes import EventFate
from airflow_provider_rlmm.core.records.records import (
    COPIER_BROKER_ID,
    OWN_BROKER_ID,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
)
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState

TOPIC_IDS = [UUID(int=number << 64 | number * 7_919) for number in (1, 2, 3)]
# One id with two names, too: keys are compared in full.
PARTITIONS = [
    TopicIdPartition(TOPIC_IDS[0], "orders", 0),
    TopicIdPartition(TOPIC_IDS[0], "orders", 1),
    TopicIdPartition(TOPIC_IDS[0], "renamed", 0),
    TopicIdPartition(TOPIC_IDS[1], "b", 0),
    TopicIdPartition(TOPIC_IDS[2], "é" * 8, 3),
]
TABLES = ("segments", "finished_segments", "unresolved", "user_partitions", "partition_deletes")
MAX_OFFSET = 2**63 - 1
EDGES = (0, 1, 2**31 - 1, 2**31, MAX_OFFSET - 1, MAX_OFFSET)
# Nothing checks where leader epochs begin: the last offset of the epoch before wraps around.
EPOCH_EDGES = (*EDGES, -(2**63), -(2**63) + 1, -(2**63) + 2, -1)


class Histories:
    """Copies and deletes segments as a leader does, and now and then (``wild``) does anything."""

    def __init__(self, seed: int, wild: float) -> None:
        self.random = random.Random(seed)
        self._wild = wild
        self._at_edge = self.random.choice([0.05, 0.05, 0.5])
        self._deleting = self.random.choice([0.01, 0.1, 0.4])
        self._numbers = 0
        self._next_offset = dict.fromkeys(PARTITIONS, 0)
        self._leader_epoch = dict.fromkeys(PARTITIONS, 0)
        self._segments = {partition: [] for partition in PARTITIONS}

    def values(self, count: int) -> list[bytes | None]:
        values = []
        while len(values) < count:
            partition = self.random.choice(PARTITIONS)
            if self.random.random() >= self._wild:
                values += map(serialize, self._next(partition))
            elif self.random.random() < 0.05:
                values.append(self.random.choice([None, b"", b"junk", b"\1\t\0", *values]))
            else:
                values.append(serialize(self._anything(partition)))
        return values[:count]

    def _next(self, partition):
        segments = self._segments[partition]
        if self.random.random() < self._deleting:
            return [self._deletion(partition, self.random.choice(list(RemotePartitionDeleteState)))]
        if not segments or self.random.random() < 0.4:
            if segments and self.random.random() < 0.1:
                return [self._copy(partition, *self.random.choice(segments)[2:])]  # a new leader copies it again
            start = self._next_offset[partition]
            end = start + self.random.randrange(1, 30)
            epoch = self._leader_epoch[partition]
            epochs = ((epoch, start),)
            if self.random.random() < 0.33:
                self._leader_epoch[partition] += 1
                epochs += ((epoch + 1, self._or_edge(self.random.randint(start, end), EPOCH_EDGES)),)
            self._next_offset[partition] = end + 1
            return [self._copy(partition, start, end, epochs)]
        segment = self.random.choice(segments) if self.random.random() < 0.3 else min(segments)
        segment[0] += 1
        if segment[0] == S.DELETE_SEGMENT_FINISHED:
            segments.remove(segment)
        return [self._update(partition, segment[1], S(segment[0]))] * (2 if self.random.random() < 0.05 else 1)

    def _copy(self, partition, start, end, epochs):
        self._numbers += 1
        self._segments[partition].append([0, self._numbers, start, end, epochs])
        return self._add(partition, self._numbers, start, end, epochs, S.COPY_SEGMENT_STARTED)

    def _anything(self, partition):
        number = self.random.randint(1, 5) if self.random.random() < 0.5 else self.random.randint(1, self._numbers + 2)
        what = self.random.random()
        if what < 0.1:
            state = self.random.choice(list(RemotePartitionDeleteState))
            return self._deletion(partition, state)
        if what < 0.6:
            return self._update(partition, number, self.random.choice(list(S)))
        start = self._or_edge(self.random.randrange(self._next_offset[partition] + 10), EDGES)
        end = max(start, self._or_edge(min(start + 20, MAX_OFFSET), EDGES))
        starts = sorted(self.random.randint(start, end) for _ in range(self.random.randint(1, 3)))
        starts = [self._or_edge(offset, EPOCH_EDGES) for offset in starts]
        epochs = zip(sorted(self.random.sample(range(4), len(starts))), starts, strict=True)
        state = self.random.choice([S.COPY_SEGMENT_STARTED] * 9 + [S.DELETE_SEGMENT_STARTED])
        return self._add(partition, number, start, end, tuple(epochs), state)

    def _deletion(self, partition, state):
        broker_id = self.random.choice([OWN_BROKER_ID, OWN_BROKER_ID, 5, COPIER_BROKER_ID])
        return RemotePartitionDeleteMetadata(partition, state, self.random.choice([-1, *range(99)]), broker_id)

    def _broker_id(self):
        return self.random.choice([OWN_BROKER_ID, OWN_BROKER_ID, 0, 3, COPIER_BROKER_ID])

    def _or_edge(self, offset, edges):
        return self.random.choice(edges) if self.random.random() < self._at_edge else offset

    def _add(self, partition, number, start, end, epochs, state):
        custom = self.random.choice([None, None, b"", b"m", b"m" * 40])
        return RemoteLogSegmentMetadata(
            _id(partition, number), start, end, self.random.randrange(99), self._broker_id(),
            self.random.choice([-1, *range(99)]), self.random.randrange(99), custom, state, epochs,
            self.random.random() < 0.5,
        )  # fmt: skip

    def _update(self, partition, number, state):
        custom = self.random.choice([None, None, b"", b"u" * 20])
        return RemoteLogSegmentMetadataUpdate(
            _id(partition, number), self.random.choice([-1, *range(99)]), custom, state, self._broker_id()
        )


def short_history(random: random.Random) -> list[bytes]:
    """Few segments of one user partition that share few epochs and fewer offsets, many at an edge; most steps are legal."""
    offsets = random.sample([*EDGES, 9, 10, 19], random.randint(1, 4))
    starts_of_epochs = random.sample([*EPOCH_EDGES, 10], random.randint(1, 3))
    last_state, values = {}, []
    while len(values) < random.randint(5, 16):
        segment = _id(PARTITIONS[0], random.randint(1, 4))
        state = last_state.get(segment)
        if state is None:
            start, end = sorted(random.choices(offsets, k=2))
            epochs = sorted(random.sample(range(3), random.randint(1, 3)))
            starts = [start if random.random() < 0.5 else random.choice(starts_of_epochs) for _ in epochs]
            last_state[segment], pairs = S.COPY_SEGMENT_STARTED, tuple(zip(epochs, starts, strict=True))
            event = RemoteLogSegmentMetadata(
                segment, start, end, 0, 0, 0, 0, None, S.COPY_SEGMENT_STARTED, pairs, txn_idx_empty=False
            )
        else:
            state = S(state + 1) if random.random() < 0.9 else random.choice(list(S)[1:])
            last_state[segment] = None if state is S.DELETE_SEGMENT_FINISHED else state
            event = RemoteLogSegmentMetadataUpdate(segment, 0, None, state, 0)
        values.append(serialize(event))
    return values


def _id(partition, number):
    return RemoteLogSegmentId(partition, UUID(int=number << (64 if number % 2 else 0)))


class Model:
    """What a state must answer: one scalar history per user partition, one event after the other."""

    def __init__(self) -> None:
        self.histories = {}
        self.deletes = {}
        self.places = {}
        self.finished = set()
        self.finished_segments = {}
        self.finished_counts = {}
        self.alive = set()
        self.copying = {}
        self.without_add = set()
        self.applied = 0
        self._caches = {}
        self._events = 0

    def apply(self, batch) -> dict[str, list]:
        """Return (row, fate, reason) by table of the report."""
        self.applied = 0
        report = {"quarantined": [], "dropped": [], "would_end_consumer": [], "deletions": []}
        columns = batch.to_pydict()
        nothing = [None] * batch.num_rows
        partitions, times_ms = columns.get("metadata_partition", nothing), columns.get("timestamp_ms", nothing)
        for row, event in enumerate(iter_events(batch)):
            code = ErrorCode(columns["error_code"][row])
            reason = f"{code.name}: {columns['error'][row]}"
            if code:
                report["quarantined"].append((row, EventFate.BAD_RECORD, reason))
            if code not in (ErrorCode.GOOD, ErrorCode.KEYED, ErrorCode.MISROUTED):
                report["would_end_consumer"].append((row, EventFate.BAD_RECORD, reason))
            if code in (ErrorCode.GOOD, ErrorCode.KEYED):
                offset = columns["offset"][row] if "offset" in columns else self._events
                self._events += 1
                record_ms = -1 if times_ms[row] is None else times_ms[row]
                self._event(row, event, partitions[row], offset, record_ms, report)
        return report

    def _event(self, row, event, metadata_partition, offset, record_ms, report):
        time_ms = max(event.event_timestamp_ms, record_ms)
        is_deletion = isinstance(event, RemotePartitionDeleteMetadata)
        if time_ms >= 0 and (event.broker_id == OWN_BROKER_ID or (not is_deletion and event.broker_id >= 0)):
            for history in self.histories.values():
                history.bound_observations(time_ms)
        partition = event.topic_id_partition if is_deletion else event.remote_log_segment_id.topic_id_partition
        history = self.histories.setdefault(partition, UserPartitionHistory(partition))
        _, first_offset = self.places.get(partition, (None, offset))
        self.places[partition] = metadata_partition, first_offset
        if is_deletion:
            before, _ = self.deletes.get(partition, (None, None))
            report["deletions"].append((row, before and before.state))
            self.deletes[partition] = event, offset
            self.applied += 1
            history.apply_partition_event(event, offset, record_ms)
            if event.state is RemotePartitionDeleteState.DELETE_PARTITION_FINISHED:
                self.finished.add(partition)
        else:
            if partition in self.finished:
                report["would_end_consumer"].append((row, EventFate.AFTER_FINISHED, EventFate.AFTER_FINISHED.reason))
            self._segment_event(row, event, partition, offset, report)
            is_known = event.remote_log_segment_id.id in history.known_segments
            history.apply_segment_event(event, offset)
            if not is_known and not isinstance(event, RemoteLogSegmentMetadata):
                self.without_add.add(event.remote_log_segment_id)
            if event.remote_log_segment_id.id not in history.without_add:
                self.without_add.discard(event.remote_log_segment_id)

    def _segment_event(self, row, event, partition, offset, report):
        cache = self._caches.setdefault(partition, RemoteLogMetadataCache())
        try:
            if isinstance(event, RemoteLogSegmentMetadata):
                outcome = cache.add_copy_in_progress_segment(event)
            else:
                outcome = cache.update_remote_log_segment_metadata(event)
        except InvalidStateTransitionError as e:
            if partition not in self.finished:
                report["would_end_consumer"].append((row, EventFate.THROWN, str(e)))
            return
        self.applied += outcome.applied
        if not outcome.applied:
            report["dropped"].append((row, outcome, outcome.reason))
            return
        added, _ = self.places.get(event.remote_log_segment_id, (offset, None))
        opens = isinstance(event, RemoteLogSegmentMetadata) and event.remote_log_segment_id not in self.alive
        self.places[event.remote_log_segment_id] = (offset if opens else added), offset
        if event.state is S.COPY_SEGMENT_STARTED:
            begun = (offset, event.remote_log_segment_id.id.bytes, event.event_timestamp_ms)
            self.copying.setdefault(partition, begun)
        elif event.state is S.COPY_SEGMENT_FINISHED:
            self.copying.pop(partition, None)
        if event.state is S.DELETE_SEGMENT_FINISHED:
            self.finished_segments[event.remote_log_segment_id] = offset
            self.finished_counts[partition] = self.finished_counts.get(partition, 0) + 1
            self.alive.discard(event.remote_log_segment_id)
        else:
            self.finished_segments.pop(event.remote_log_segment_id, None)
            self.alive.add(event.remote_log_segment_id)

    def tables(self) -> dict[str, list[tuple]]:
        """Return the rows of each table of a state that keeps finished segments; those of a user partition in any order."""
        tables = {name: [] for name in TABLES}
        for partition, history in self.histories.items():
            metadata_partition, first_offset = self.places[partition]
            key = (metadata_partition, partition.topic_id.bytes, partition.topic, partition.partition)
            tables["segments"] += [
                (*key, *_segment(segment), *self.places[segment.remote_log_segment_id])
                for segment in history.unfinished()
            ]
            tables["unresolved"] += [
                (*key, i.bytes, offset, RemoteLogSegmentId(partition, i) in self.without_add, False)
                for i, offset in history.without_add.items()
            ]
            tables["finished_segments"] += [
                (*key, i.id.bytes, offset)
                for i, offset in self.finished_segments.items()
                if i.topic_id_partition == partition
            ]
            finished = self.finished_counts.get(partition, 0), partition in self.finished
            copying = self.copying.get(partition, (None, None, None))
            tables["user_partitions"].append((*key, first_offset, history.last_foreign_offset, *finished, *copying))
            if partition in self.deletes:
                event, offset = self.deletes[partition]
                said = event.state, offset, event.event_timestamp_ms, event.broker_id
                tables["partition_deletes"].append((*key, *said, partition in self.finished))
        return {name: sorted(rows, key=repr) for name, rows in tables.items()}

    def deletions(self):
        """Return the deletions that began and are not finished."""
        return {
            partition: (history.delete_state, history.observations, history.unsettled_marker_offset)
            for partition, history in self.histories.items()
            if history.deletion_under_way()
        }


def _segment(segment):
    epochs = [{"leader_epoch": epoch, "start_offset": start} for epoch, start in segment.segment_leader_epochs]
    return (
        segment.remote_log_segment_id.id.bytes, segment.start_offset, segment.end_offset, segment.max_timestamp_ms,
        segment.broker_id, segment.event_timestamp_ms, segment.segment_size_in_bytes, segment.custom_metadata,
        segment.state, epochs, segment.txn_idx_empty, None,
    )  # fmt: skip
