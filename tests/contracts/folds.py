# SPDX-License-Identifier: Apache-2.0
"""
What everybody who replays the metadata topic makes of the same records, told in the same words.

``scalar`` is the reference: Kafka's rules, one event after the other, by the serde, the cache and the histories. The others
read the same log in their own way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from random import Random
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

import pyarrow as pa

from airflow_provider_rlmm.core.base.errors import InvalidStateTransitionError
from airflow_provider_rlmm.core.log.in_process import InProcessMetadataEventLog
from airflow_provider_rlmm.core.log.in_process_topics import InProcessClusterTopics
from airflow_provider_rlmm.core.log.snapshot import Snapshot
from airflow_provider_rlmm.core.log.topic_histories import TopicHistories
from airflow_provider_rlmm.core.log.topic_state import TopicState
from airflow_provider_rlmm.core.records.cache import RemoteLogMetadataCache
from airflow_provider_rlmm.core.records.columnar import ColumnarState, decode
from airflow_provider_rlmm.core.records.deletion import PartitionDeletion
from airflow_provider_rlmm.core.records.history import UserPartitionHistory
from airflow_provider_rlmm.core.records.outcomes import APPLIED_CODES, ErrorCode, EventFate
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import (
    OWN_BROKER_ID,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataSnapshot,
    RemotePartitionDeleteMetadata,
    SegmentEvent,
    TopicIdPartition,
    topic_id_partition_of,
)
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState, RemotePartitionDeleteState
from airflow_provider_rlmm.core.world.cluster_state import ClusterState, ListedTopic
from airflow_provider_rlmm.core.world.replay import MetadataPartitionReplay
from airflow_provider_rlmm.core.world.topic_view import TopicReplay
from airflow_provider_rlmm.features.retention.rules import EvaluationLimits
from airflow_provider_rlmm.features.retention.spark.columns import KINDS, QUARANTINED, SEGMENT, UNRESOLVED
from airflow_provider_rlmm.features.retention.spark.executor.frame_rows import segment_rows
from airflow_provider_rlmm.features.retention.spark.executor.judging import Evaluation
from airflow_provider_rlmm.features.retention.spark.executor.metadata_partition import GenerationOrder, evaluate_batches
from airflow_provider_rlmm.features.retention.spark.task_report import TaskReport
from airflow_provider_rlmm.library.consumer_task import ConsumerTask
from airflow_provider_rlmm.library.metadata_store import RemotePartitionMetadataStore
from airflow_provider_rlmm.library.resumption import Resumption
from tests.property import record_keys
from tests.property.written_topics import NOW_MS, Record, WrittenTopic

SegmentKey = tuple[int, TopicIdPartition, UUID]
"""Metadata partition, user partition, segment id."""
Place = tuple[int, int]
"""Metadata partition, offset."""

FACTS = ("state", "start_offset", "end_offset", "max_timestamp_ms", "event_timestamp_ms", "segment_size_in_bytes")
FORGOTTEN = ErrorCode.FORGOTTEN.name
_UNREADABLE = {ErrorCode.MALFORMED, ErrorCode.NEWER_VERSION, ErrorCode.UNKNOWN_API_KEY}
MIN_AGE_MS = 100_000
LIMITS = EvaluationLimits(NOW_MS, MIN_AGE_MS, allow_low_min_age=True)


@dataclass
class Told:
    """
    What a fold tells.

    :ivar live: the segments that are not finished, and what is known of them.
    :ivar unresolved: the segments that are not certain, and where the event lies that says so.
    :ivar quarantined: the records that are not good, those with a key among them; ``UNREADABLE`` is one code for all that
        only a decoder tells apart.
    :ivar deletions: the deletions under way; ``None`` where the fold does not tell.
    :ivar offsets: where each live segment was added, and where its last event lies; ``None`` where the fold does not tell.
    """

    live: dict[SegmentKey, tuple[Any, ...]] = field(default_factory=dict)
    unresolved: dict[SegmentKey, int] = field(default_factory=dict)
    quarantined: dict[Place, str] = field(default_factory=dict)
    deletions: dict[TopicIdPartition, tuple[Any, ...]] | None = None
    offsets: dict[SegmentKey, tuple[int, int]] | None = None


@dataclass
class ToldByScalar(Told):
    """
    :ivar histories: by metadata partition.
    :ivar fates: of the events that were not simply applied.
    :ivar finished: segments that were finished at some time.
    :ivar forgotten: the records that ask the log cleaner to forget.
    """

    histories: dict[int, dict[TopicIdPartition, UserPartitionHistory]] = field(default_factory=dict)
    fates: dict[Place, EventFate] = field(default_factory=dict)
    finished: set[SegmentKey] = field(default_factory=set)
    forgotten: set[Place] = field(default_factory=set)


def code_name(code: str) -> str:
    """As the reference names it."""
    return "UNREADABLE" if ErrorCode[code] in _UNREADABLE else code


def facts(segment: RemoteLogSegmentMetadata) -> tuple[Any, ...]:
    return (*(getattr(segment, name) for name in FACTS), segment.segment_leader_epochs)


def facts_of_row(row: dict[str, Any]) -> tuple[Any, ...]:
    epochs = tuple((epoch["leader_epoch"], epoch["start_offset"]) for epoch in row["segment_leader_epochs"])
    return (*(row[name] for name in FACTS), epochs)


def key_of_row(row: dict[str, Any]) -> SegmentKey:
    tip = TopicIdPartition(UUID(bytes=row["topic_id"]), row["topic"], row["partition"])
    return row["metadata_partition"], tip, UUID(bytes=row["segment_id"])


# -- the reference -----------------------------------------------------------------------------------------------------


def scalar(topic: WrittenTopic, _: Random | None = None) -> ToldByScalar:
    told = ToldByScalar(deletions={}, offsets={})
    caches: dict[TopicIdPartition, RemoteLogMetadataCache] = {}
    ended: set[TopicIdPartition] = set()
    for number, offset, record in topic.left():
        code, event = judged(record, number, topic.partition_count)
        histories = told.histories.setdefault(number, {})
        if code == FORGOTTEN:
            record_keys.forget(histories.values(), record.key, offset)
            told.forgotten.add((number, offset))
        elif code:
            told.quarantined[number, offset] = code
        if event is None:
            continue
        tip = topic_id_partition_of(event)
        history = histories.setdefault(tip, UserPartitionHistory(tip))
        _bound(histories, event, record.timestamp_ms)
        if isinstance(event, RemotePartitionDeleteMetadata):
            history.apply_partition_event(event, offset, record.timestamp_ms)
            if event.state is RemotePartitionDeleteState.DELETE_PARTITION_FINISHED:
                ended.add(tip)
        else:
            fate = _applied(told, caches.setdefault(tip, RemoteLogMetadataCache()), (number, offset), event)
            if tip in ended:
                told.fates[number, offset] = EventFate.AFTER_FINISHED
            elif not fate.applied:
                told.fates[number, offset] = fate
            history.apply_segment_event(event, offset)
    for number, histories in told.histories.items():
        _tell_histories(told, number, histories)
    return told


def judged(
    record: Record, metadata_partition: int, partition_count: int
) -> tuple[str, SegmentEvent | RemotePartitionDeleteMetadata | None]:
    """What a record is, and the event that is applied of it."""
    code, event = record_keys.judged(record.value, record.key, metadata_partition, partition_count)
    applied = None if code not in APPLIED_CODES or isinstance(event, RemoteLogSegmentMetadataSnapshot) else event
    return ("" if code is ErrorCode.GOOD else code_name(code.name)), applied


def _bound(
    histories: dict[TopicIdPartition, UserPartitionHistory],
    event: SegmentEvent | RemotePartitionDeleteMetadata,
    record_ms: int,
) -> None:
    """Let an event that can be relied on say by when all before it was written."""
    time_ms = max(event.event_timestamp_ms, record_ms)
    of_a_broker = not isinstance(event, RemotePartitionDeleteMetadata) and event.broker_id >= 0
    if time_ms >= 0 and (event.broker_id == OWN_BROKER_ID or of_a_broker):
        for history in histories.values():
            history.bound_observations(time_ms)


def _applied(told: ToldByScalar, cache: RemoteLogMetadataCache, place: Place, event: SegmentEvent) -> EventFate:
    """Apply a segment event to a cache, and note where the segment's events lie."""
    assert told.offsets is not None
    number, offset = place
    key = number, event.remote_log_segment_id.topic_id_partition, event.remote_log_segment_id.id
    was_alive = cache.segment(event.remote_log_segment_id) is not None
    try:
        if isinstance(event, RemoteLogSegmentMetadata):
            fate = cache.add_copy_in_progress_segment(event)
        else:
            fate = cache.update_remote_log_segment_metadata(event)
    except InvalidStateTransitionError:
        return EventFate.THROWN
    if fate.applied:
        added, _ = told.offsets[key] if was_alive else (offset, offset)
        told.offsets[key] = added, offset
        if cache.segment(event.remote_log_segment_id) is None:
            told.finished.add(key)
            del told.offsets[key]
    return fate


def _tell_histories(told: Told, number: int, histories: dict[TopicIdPartition, UserPartitionHistory]) -> None:
    if told.deletions is None:
        told.deletions = {}
    for tip, history in histories.items():
        _tell_segments(told, number, history)
        if history.deletion_under_way():
            told.deletions[tip] = deletion_of(history)


def _tell_segments(told: Told, number: int, history: UserPartitionHistory) -> None:
    tip = history.topic_id_partition
    for segment in history.unfinished():
        told.live[number, tip, segment.remote_log_segment_id.id] = facts(segment)
    told.unresolved |= {(number, tip, segment_id): offset for segment_id, offset in history.without_add.items()}


def deletion_of(deletion: PartitionDeletion) -> tuple[Any, ...]:
    return deletion.delete_state, tuple(deletion.observations), deletion.unsettled_marker_offset


# -- the others --------------------------------------------------------------------------------------------------------


def tell_state(told: Told, state: ColumnarState) -> None:
    told.offsets = {}
    for row in state.segments.to_pylist():
        told.live[key_of_row(row)] = facts_of_row(row)
        told.offsets[key_of_row(row)] = row["added_offset"], row["event_offset"]
    told.unresolved = {key_of_row(row): row["offset"] for row in state.unresolved.to_pylist()}
    told.deletions = {tip: deletion_of(deletion) for tip, deletion in state.deletions_under_way().items()}


def columnar(topic: WrittenTopic, random: Random, *, keep_finished: bool = True) -> Told:
    """In batches of any size, metadata partitions in turns; sometimes written and read in between."""
    state, told = columnar_state(topic, random, keep_finished=keep_finished)
    tell_state(told, state)
    return told


def columnar_state(topic: WrittenTopic, random: Random, *, keep_finished: bool) -> tuple[ColumnarState, Told]:
    state, told = ColumnarState.empty(keep_finished=keep_finished), Told()
    largest = random.choice([3, 10, 50, 1_000])
    positions = {number: topic.begin(number) for number in range(topic.partition_count)}
    while waiting := [n for n, at in positions.items() if at < len(topic.partitions[n])]:
        number = random.choice(waiting)
        start = positions[number]
        records = topic.partitions[number][start : start + random.randint(1, largest)]
        positions[number] += len(records)
        decoded = decode(
            [record.value for record in records],
            keys=[record.key for record in records],
            metadata_partition=number,
            offset=range(start, positions[number]),
            timestamp_ms=[record.timestamp_ms for record in records],
            num_partitions=topic.partition_count,
        )
        state, report = state.apply(decoded)
        told.quarantined |= {
            (row["metadata_partition"], row["offset"]): code_name(ErrorCode(row["error_code"]).name)
            for row in report.quarantined.to_pylist()
        }
        if random.random() < 0.2:
            state = ColumnarState.from_ipc(state.to_ipc())
    return state, told


def topic_state(topic: WrittenTopic, random: Random) -> Told:
    """The whole topic in one state, from the log."""
    log = topic.log()
    state = TopicState(log, InProcessClusterTopics(), clock=lambda: NOW_MS, chunk_rows=random.choice([3, 20, 1_000]))
    state.advance()
    told = Told(quarantined=_quarantine(state.quarantined))
    tell_state(told, state.state)
    return told


def _quarantine(records: list[Any]) -> dict[Place, str]:
    return {(q.metadata_partition, q.offset): code_name(q.code) for q in records}


def metadata_partition_replay(topic: WrittenTopic, _: Random) -> Told:
    """As the cleaner looks at the partitions that it is about to touch."""
    told, log = Told(), topic.log()
    for number in range(topic.partition_count):
        replay = MetadataPartitionReplay(log, number)
        replay.advance()
        _tell_histories(told, number, replay.histories)
        told.quarantined |= _quarantine(replay.quarantined)
    return told


def topic_replay(topic: WrittenTopic, _: Random) -> Told:
    """As marker and planner look at the whole topic."""
    told, log = Told(), topic.log()
    replay = TopicReplay(log, InProcessClusterTopics(), lambda: NOW_MS)
    replay.advance()
    named = {tip.topic_id for tip in named_by(topic)}
    for number in range(topic.partition_count):
        view = replay.view(number, named)
        _tell_histories(told, number, view.histories)
        told.quarantined |= _quarantine(view.quarantined)
    return told


def named_by(topic: WrittenTopic) -> set[TopicIdPartition]:
    """The user partitions that the events of a topic are about."""
    events = (judged(record, number, topic.partition_count)[1] for number, _, record in topic.left())
    return {topic_id_partition_of(event) for event in events if event is not None}


def followed(
    log: InProcessMetadataEventLog, snapshot: Snapshot | None, tips: Collection[TopicIdPartition]
) -> RemotePartitionMetadataStore:
    """What the library's consumer has read of some user partitions."""
    store = RemotePartitionMetadataStore()
    resumption = Resumption(snapshot, log) if snapshot else None
    task = ConsumerTask(log, store, clock=lambda: NOW_MS, resumption=resumption)
    store.assign(tips)
    while task.step(0.0):
        pass
    assert not task.liveness().failures_in_a_row
    return store


def library(topic: WrittenTopic, _: Random) -> Told:
    """As the library's manager follows all user partitions."""
    told, tips = Told(), named_by(topic)
    store = followed(topic.log(), None, tips)
    for tip in tips:
        with store.reading(tip) as view:
            _tell_segments(told, view.metadata_partition, view.history)
    return told


def topic_histories(topic: WrittenTopic, random: Random) -> Told:
    """As who reads segments keeps the histories of one topic, while another one reads all of it."""
    told, log = Told(), topic.log()
    kept = [TopicHistories(name, None) for name in {tip.topic for tip in named_by(topic)}]
    state = TopicState(log, InProcessClusterTopics(), clock=lambda: NOW_MS, chunk_rows=random.choice([3, 20, 1_000]))
    state.advance(on_applied=lambda decoded, _: [histories.take(decoded) for histories in kept])
    for history in (history for histories in kept for history in histories.histories.values()):
        _tell_segments(told, metadata_partition_for(history.topic_id_partition, topic.partition_count), history)
    return told


def spark_rows(topic: WrittenTopic, random: Random, cluster: ClusterState) -> list[dict[str, Any]]:
    """What a task makes of all metadata partitions, one after the other."""
    names = ("metadata_partition", "offset", "timestamp_ms", "key", "value")
    schema = pa.schema(dict(zip(names, ("int32", "int64", "int64", "binary", "binary"), strict=True)))
    records = [(number, offset, r.timestamp_ms, r.key, r.value) for number, offset, r in topic.left()]
    table = pa.table([[record[i] for record in records] for i in range(len(names))], schema=schema)
    batches = table.to_batches(random.choice([3, 13, 1_000]))
    evaluation = Evaluation(topic.partition_count, cluster, LIMITS)
    ends = {number: len(records) for number, records in enumerate(topic.partitions)}
    with TemporaryDirectory() as folder:
        told = evaluate_batches(iter(batches), evaluation, GenerationOrder(folder, 1, ends), "attempt")
        reports = [TaskReport.from_json(row["told"]) for batch in told for row in batch.to_pylist()]
        known = [(report.metadata_partition, report.part) for report in reports]
        tables = (segment_rows(folder, numbered, topic.partition_count, KINDS) for numbered in known)
        return [row for batches in tables for batch in batches for row in batch.to_pylist()]


def spark(topic: WrittenTopic, random: Random) -> Told:
    told = Told(offsets={})
    assert told.offsets is not None
    for row in spark_rows(topic, random, listing([])):
        if row["kind"] == SEGMENT:
            told.live[key_of_row(row)] = facts_of_row(row)
            told.offsets[key_of_row(row)] = row["added_offset"], row["event_offset"]
        elif row["kind"] == UNRESOLVED:
            told.unresolved[key_of_row(row)] = row["event_offset"]
        elif row["kind"] == QUARANTINED:
            place = row["metadata_partition"], row["event_offset"]
            told.quarantined[place] = code_name(row["error"].partition(":")[0])
    return told


def listing(topics: list[ListedTopic]) -> ClusterState:
    return ClusterState("cluster", NOW_MS, tuple(topics))


def columnar_that_forgets(topic: WrittenTopic, random: Random) -> Told:
    """Without its finished segments."""
    return columnar(topic, random, keep_finished=False)


FOLDS: dict[str, Callable[[WrittenTopic, Random], Told]] = {
    "columnar": columnar,
    "columnar that forgets": columnar_that_forgets,
    "topic state": topic_state,
    "replay of a metadata partition": metadata_partition_replay,
    "replay of the topic": topic_replay,
    "library": library,
    "topic histories": topic_histories,
    "spark": spark,
}
"""Everybody who must tell what the reference tells."""

FORGETFUL = ("columnar that forgets", "topic state")
"""To these an update that comes after its segment was finished looks like one without its add."""
SILENT_ABOUT_KEYS = ("spark",)
"""These apply records with a key, and do not tell them."""
SILENT_ABOUT_BAD_RECORDS = ("library", "topic histories")
"""These leave it to others to tell the records that are not good."""

STARTED = (RemoteLogSegmentState.COPY_SEGMENT_STARTED, RemoteLogSegmentState.DELETE_SEGMENT_STARTED)
