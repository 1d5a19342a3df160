# SPDX-License-Identifier: Apache-2.0
"""Publishes single events on somebody's word, under the conditions of the marker and of the cleaner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from airflow_provider_rlmm.clock import Clock, system_clock
from airflow_provider_rlmm.errors import (
    ConfigurationError,
    PublishFailedError,
    PublishOutcomeUnknownError,
)
from airflow_provider_rlmm.event_log.protocol import Acked, ClusterTopics, MetadataLogReader, Unknown
from airflow_provider_rlmm.event_log.snapshot import SnapshotStore
from airflow_provider_rlmm.event_log.write_guard import GuardedPublisher, WritableEvent
from airflow_provider_rlmm.lifecycle.by_hand import Standing, StorageWitness, check_override
from airflow_provider_rlmm.lifecycle.cluster_look import look
from airflow_provider_rlmm.lifecycle.effects import describe_event
from airflow_provider_rlmm.lifecycle.replay import MetadataPartitionReplay
from airflow_provider_rlmm.lifecycle.topic_view import TopicReplay
from airflow_provider_rlmm.lifecycle.view import Belief
from airflow_provider_rlmm.metadata.history import UserPartitionHistory
from airflow_provider_rlmm.metadata.partitioner import metadata_partition_for
from airflow_provider_rlmm.metadata.records import (
    OWN_BROKER_ID,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
    parse_kafka_uuid,
    topic_id_partition_of,
)
from airflow_provider_rlmm.metadata.states import RemoteLogSegmentState, RemotePartitionDeleteState
from airflow_provider_rlmm.policy.guards import CleanerLimits, check_cluster
from airflow_provider_rlmm.policy.hold import HoldSource, nothing_held
from airflow_provider_rlmm.policy.values import spelled_integer
from airflow_provider_rlmm.quoting import list_in_quotes, printable
from airflow_provider_rlmm.storage.remote_storage import RemoteStorageManager
from airflow_provider_rlmm.storage.root import UNKNOWN_ROOT, RootExpectation

MAX_PARTITION = 2**31 - 1
EVENT_FIELDS = ("topic_id", "topic", "partition", "state")


def parse_event(raw: Mapping[str, Any], now_ms: int) -> WritableEvent:
    """
    Read an event as a DAG author writes it.

    :param raw: ``topic_id`` and, for a segment event, ``segment_id`` in Kafka's base64 form, ``topic``, ``partition``,
        ``state`` by name, and ``custom_metadata`` in hex where the segment has some.
    :param now_ms: becomes the event's timestamp, ms since the epoch.
    :raises ConfigurationError: if a field is missing, unknown or of the wrong kind.
    """
    if unknown := sorted(raw.keys() - {*EVENT_FIELDS, "segment_id", "custom_metadata"}):
        raise ConfigurationError(
            f"event has unknown fields {list_in_quotes(unknown)}; known are {EVENT_FIELDS}, segment_id and custom_metadata"
        )
    try:
        if not isinstance(raw["topic"], str):
            raise TypeError("topic must be a string")
        partition = spelled_integer("partition", raw["partition"], 0, MAX_PARTITION)
        tip = TopicIdPartition(parse_kafka_uuid(raw["topic_id"]), raw["topic"], partition)
        if "segment_id" not in raw:
            return RemotePartitionDeleteMetadata(tip, RemotePartitionDeleteState[raw["state"]], now_ms, OWN_BROKER_ID)
        segment_id = RemoteLogSegmentId(tip, parse_kafka_uuid(raw["segment_id"]))
        custom = bytes.fromhex(raw["custom_metadata"]) if raw.get("custom_metadata") is not None else None
        state = RemoteLogSegmentState[raw["state"]]
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        shown = printable(repr(dict(raw)))
        raise ConfigurationError(f"event {shown} cannot be read: {e!r}; needed are {EVENT_FIELDS}") from e
    return RemoteLogSegmentMetadataUpdate(segment_id, now_ms, custom, state, OWN_BROKER_ID)


def publish_events(
    events: Sequence[WritableEvent],
    *,
    log: MetadataLogReader,
    publisher: GuardedPublisher,
    topics: ClusterTopics,
    limits: CleanerLimits,
    storage: RemoteStorageManager | None = None,
    root: RootExpectation = UNKNOWN_ROOT,
    hold: HoldSource = nothing_held,
    expected_cluster_id: str | None = None,
    clock: Clock = system_clock,
    snapshots: SnapshotStore | None = None,
) -> list[int]:
    """
    Publish events of any partitions, one after the other in the order given, each judged by a fresh replay, a new look at
    the cluster and, but for DELETE_PARTITION_MARKED, a new listing of storage.

    :param events: the events; :func:`parse_event` makes them. They are written with the time at which they are judged.
    :param log: the metadata event log.
    :param publisher: the write guard around the same log.
    :param topics: the cluster's topics.
    :param limits: limits of destructive work; what starts or finishes a deletion needs the override ``events_by_hand``.
    :param storage: remote storage; it is not needed for markers.
    :param root: what is known about its root.
    :param hold: what is never touched, asked before every event.
    :param expected_cluster_id: refuse any other cluster; an override needs it.
    :param clock: time.
    :param snapshots: where a snapshot of the topic may lie; it only tells which topics the log names.
    :return: the offset of each event in its metadata partition.
    :raises EventByHandRefusedError: if an event lacks the override, before anything is written; or if marker or cleaner
        would not write it now, those before it are written then.
    :raises WriteRefusedError: if the guard refuses an event; those before it are written.
    :raises ClusterMismatchError: if this is another cluster than expected.
    :raises ConfigurationError: if an override is used and no cluster is expected.
    :raises StorageError: if storage does not answer, or its root is not this cluster's as of now.
    :raises PublishFailedError: if the log refused an event.
    :raises PublishOutcomeUnknownError: if it may or may not have been written.
    """
    cluster_id = topics.cluster_id()
    check_cluster(cluster_id, expected_cluster_id, limits.overrides)
    check_override(events, limits)
    open_topic = partial(TopicReplay, log, topics, clock, snapshots)
    witness = StorageWitness(storage, open_topic, cluster_id=cluster_id, expectation=root, overrides=limits.overrides)
    replays: dict[int, MetadataPartitionReplay] = {}
    offsets = []
    for given in events:
        tip = topic_id_partition_of(given)
        metadata_partition = metadata_partition_for(tip, log.partition_count)
        if metadata_partition not in replays:
            wanted = frozenset(topic_id_partition_of(e).topic_id for e in events)
            replays[metadata_partition] = MetadataPartitionReplay(log, metadata_partition, wanted)
        replay = replays[metadata_partition]
        replay.advance()
        names = replay.names({tip.topic_id})[tip.topic_id] | {tip.topic}
        seen = look(topics, log, {tip.topic_id: names})
        # The time is taken after the look: an observation must not claim to be older than it is.
        event = replace(given, event_timestamp_ms=clock())
        Standing(
            replay.histories.get(tip) or UserPartitionHistory(tip),
            seen.observations[tip.topic_id],
            event.event_timestamp_ms,
            limits,
            hold().refusal_of(tip, names),
            replay.doubt_about(tip, limits.allowed_quarantine),
            witness,
        ).check(event)
        # Where there was a doubt, a listing has just shown that the log names all that is there.
        belief = Belief(replay, seen.proof, limits.allowed_quarantine, frozenset({tip}))
        (outcome,) = publisher.publish([event], belief)
        if isinstance(outcome, Unknown):
            raise PublishOutcomeUnknownError(f"{describe_event(event)}: {outcome.reason}; read the topic back first")
        if not isinstance(outcome, Acked):
            raise PublishFailedError(f"{describe_event(event)} was not written: {outcome.reason}")
        offsets.append(outcome.offset)
    return offsets
