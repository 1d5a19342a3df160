# SPDX-License-Identifier: Apache-2.0
"""
Publishes single events on a person's word, under the conditions of the marker and of the cleaner, storage included.

The write guard sees the log and the cluster alone. What it cannot see is whether absence was observed long enough ago and
whether objects are left, and it is objects that no program finds any more once an event says that they are gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any, TypeVar
from uuid import UUID

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.clock import Clock, system_clock
from airflow_provider_rlmm.core.base.errors import (
    ConfigurationError,
    EventByHandRefusedError,
    PublishFailedError,
    PublishOutcomeUnknownError,
)
from airflow_provider_rlmm.core.base.quoting import list_in_quotes, printable
from airflow_provider_rlmm.core.base.values import refused, spelled_integer
from airflow_provider_rlmm.core.log.protocol import Acked, ClusterTopics, MetadataLogReader, ProvenLook, Unknown
from airflow_provider_rlmm.core.log.snapshot import SnapshotStore
from airflow_provider_rlmm.core.log.write_guard import GuardedPublisher, WritableEvent
from airflow_provider_rlmm.core.plans.guards import CleanerLimits, check_cluster
from airflow_provider_rlmm.core.plans.refusals import Refusal
from airflow_provider_rlmm.core.records.history import UserPartitionHistory
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import (
    OWN_BROKER_ID,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
    kafka_uuid_str,
    parse_kafka_uuid,
    topic_id_partition_of,
)
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState, RemotePartitionDeleteState
from airflow_provider_rlmm.core.storage.remote_storage import RemoteStorageManager
from airflow_provider_rlmm.core.storage.root import UNKNOWN_ROOT, RootExpectation
from airflow_provider_rlmm.core.world.absence import Observation, refusal_of
from airflow_provider_rlmm.core.world.audit import DeletionSource, nothing_on_record
from airflow_provider_rlmm.core.world.cluster_look import look
from airflow_provider_rlmm.core.world.current_root import NOTHING_RECORDED, PlaceLedger
from airflow_provider_rlmm.core.world.earlier_deletions import EarlierDeletions
from airflow_provider_rlmm.core.world.effects import describe_event, subject_of
from airflow_provider_rlmm.core.world.hold import HoldSource, nothing_held
from airflow_provider_rlmm.core.world.replay import Belief, MetadataPartitionReplay
from airflow_provider_rlmm.core.world.root_proof import ProvenRoot, prove_root
from airflow_provider_rlmm.core.world.topic_view import TopicReplay
from airflow_provider_rlmm.core.world.unseen import UnseenDecision, UnseenVerdict, decide_unseen
from airflow_provider_rlmm.core.world.wholeness import Doubt, incompleteness
from airflow_provider_rlmm.features.cleanup.eligibility import as_unseen
from airflow_provider_rlmm.features.cleanup.marker import due_observation

EVENTS_BY_HAND = "events_by_hand"
"""The override in :data:`~airflow_provider_rlmm.core.plans.limits.OVERRIDES` that these events need."""

S = TypeVar("S", RemotePartitionDeleteState, RemoteLogSegmentState)

_MARKED = RemotePartitionDeleteState.DELETE_PARTITION_MARKED
_OVERRIDDEN = (
    RemotePartitionDeleteState.DELETE_PARTITION_STARTED,
    RemotePartitionDeleteState.DELETE_PARTITION_FINISHED,
    RemoteLogSegmentState.DELETE_SEGMENT_FINISHED,
)


def _require_override(events: Iterable[WritableEvent], limits: CleanerLimits) -> None:
    """Refuse a list of events before the first is written, if one of them needs the override and it is not given."""
    for event in events:
        if any(event.state is state for state in _OVERRIDDEN) and EVENTS_BY_HAND not in limits.overrides:
            raise EventByHandRefusedError(
                f"{event.state.name} of {topic_id_partition_of(event)} by hand needs the override {EVENTS_BY_HAND!r} and "
                "expected_cluster_id in the rlmm connection; the remote log cleaner needs neither: let it do this"
            )


def needs_storage(events: Iterable[WritableEvent]) -> bool:
    """Tell whether remote storage has to be asked about some of the events."""
    return any(event.state is not _MARKED for event in events)


@dataclass(slots=True)
class _StorageWitness:
    """
    Remote storage as a witness. Its root must be the cluster's and up to date before a listing says anything: in a copy of
    the root, or an old one, nothing would be left to see.
    """

    storage: RemoteStorageManager | None  # remote storage, ``None`` where there is none to ask
    prove: Callable[[RemoteStorageManager], ProvenRoot]  # proves its root, should that be needed
    overrides: frozenset[str]  # overrides in force
    deletions: EarlierDeletions  # what earlier runs have deleted
    _proof: ProvenRoot | None = field(default=None, init=False)

    def listed(self, tip: TopicIdPartition) -> frozenset[UUID]:
        """Return the ids of the segments of a user partition of which storage lists an object now."""
        storage, _ = self._proven(tip)
        return frozenset(storage.list_log_segments(tip))

    def root_shown(self, tip: TopicIdPartition) -> bool:
        """Tell whether something of this cluster was seen at every place of the storage root."""
        _, proof = self._proven(tip)
        return proof.shown

    def decide_unseen(
        self, history: UserPartitionHistory, metadata: RemoteLogSegmentMetadata, *, copied_is_known: bool
    ) -> UnseenDecision:
        """Tell by the cleaner's rule whether a segment may be finished of which no listing shows an object."""
        storage, proof = self._proven(history.topic_id_partition)
        unseen = as_unseen(history, metadata, proof, storage, self.deletions, copied_is_known=copied_is_known)
        return decide_unseen(unseen, self.overrides)

    def _proven(self, tip: TopicIdPartition) -> tuple[RemoteStorageManager, ProvenRoot]:
        if self.storage is None:
            raise EventByHandRefusedError(f"{tip}: there is no remote storage to ask")
        if self._proof is None:
            self._proof = self.prove(self.storage)
        if not self._proof.check.verified:
            raise EventByHandRefusedError(f"{tip}: the storage root is not verified, {self._proof.check.reason}")
        return self.storage, self._proof


@dataclass(frozen=True, slots=True)
class _Standing:
    """What is known about the user partition of an event right before it is written."""

    history: UserPartitionHistory  # its history, replayed up to the high watermark
    observation: Observation  # the latest look at its topic id
    now_ms: int  # a time after that look, ms since the epoch
    limits: CleanerLimits  # limits of destructive work
    held: Refusal | None  # why it must not be touched, ``None`` where nothing holds it
    doubt: Doubt | None  # why more may have been said about it than was read, ``None`` where nothing suggests it
    storage: _StorageWitness  # remote storage, asked where that is needed
    listed: Callable[[], frozenset[UUID]]  # its segments of which storage lists an object: one listing
    copied_is_known: bool  # whether no record is missing that may have said that a segment was copied

    def check(self, event: WritableEvent) -> None:
        """Refuse an event that marker and cleaner would not write now, and say why and what to do."""
        obstacle = self._obstacle(event)
        if obstacle is not None:
            raise EventByHandRefusedError(f"{event.state.name} of {subject_of(event)} is not written: {obstacle}")

    def _obstacle(self, event: WritableEvent) -> str | None:
        if self.held is not None:
            return f"{self.held.why}; {self.held.what_to_do}"
        due = due_observation(self.history, self.observation, self.now_ms)
        if isinstance(event, RemotePartitionDeleteMetadata):
            if due is not None and event.state is due.state:
                return None
            if event.state is _MARKED:
                return self._why_no_observation_is_due()
        if (refusal := refusal_of(self.history, self.observation, self.now_ms, self.limits)) is not None:
            return f"{refusal.why}; {refusal.what_to_do}"
        if (refusal := self._incompleteness()) is not None:
            return f"{refusal.why}; {refusal.what_to_do}"
        if isinstance(event, RemotePartitionDeleteMetadata):
            started = event.state is RemotePartitionDeleteState.DELETE_PARTITION_STARTED
            return None if started else self._obstacle_to_finish()
        return self._obstacle_of_segment(event)

    def _why_no_observation_is_due(self) -> str:
        if self.history.deletion_under_way():
            return "its deletion is under way and the observation stands: the marker would write nothing"
        if not self.history.unfinished():
            return "no segment of it is unfinished: the marker would write nothing"
        return self.observation.reason

    def _incompleteness(self) -> Refusal | None:
        if self.doubt is None:
            return None
        tip = self.history.topic_id_partition
        return incompleteness(self.history, self.listed(), self.doubt, root_shown=self.storage.root_shown(tip))

    def _obstacle_to_finish(self) -> str | None:
        obstacle = self.history.obstacle_to_finish()
        if obstacle is not None:
            return obstacle
        unfinished = {segment.remote_log_segment_id.id for segment in self.history.unfinished()}
        left = self.listed() - (self.history.known_segments - unfinished)
        if left:
            return (
                f"storage lists objects of {number_of(len(left), 'segment')} that the log does not call finished, one "
                f"of them is {kafka_uuid_str(min(left))}; reconcile storage and metadata first"
            )
        return None

    def _obstacle_of_segment(self, event: RemoteLogSegmentMetadataUpdate) -> str | None:
        listed = event.remote_log_segment_id.id in self.listed()
        if event.state is RemoteLogSegmentState.DELETE_SEGMENT_STARTED:
            unseen = "storage lists no object of it; let the remote log cleaner decide what that means"
            return None if listed else unseen
        if listed:
            return "storage still lists objects of it; let the remote log cleaner delete them"
        metadata = self.history.cache.segment(event.remote_log_segment_id)
        if metadata is None:
            return "the log knows no such segment that is not finished"
        decision = self.storage.decide_unseen(self.history, metadata, copied_is_known=self.copied_is_known)
        if decision.verdict is UnseenVerdict.MAY_FINISH:
            return None
        override = f"; the override {decision.override!r} settles it" if decision.override else ""
        return f"{decision.why}{override}; the remote log cleaner finishes what it deletes itself"


@dataclass(frozen=True, slots=True)
class _Judge:
    """Judges each event by what log, cluster and storage say right before it is written."""

    log: MetadataLogReader
    topics: ClusterTopics
    limits: CleanerLimits
    hold: HoldSource
    clock: Clock
    witness: _StorageWitness

    def allowed(
        self, given: WritableEvent, replay: MetadataPartitionReplay
    ) -> tuple[WritableEvent, Belief[MetadataPartitionReplay]]:
        """
        Return an event as it may be written now, and what that rests on.

        :param given: the event, with any time.
        :param replay: of its metadata partition; it is brought up to the high watermark.
        :raises EventByHandRefusedError: if marker or cleaner would not write it now.
        """
        tip = topic_id_partition_of(given)
        listed = cache(partial(self.witness.listed, tip))
        event, proof = self._judged(given, replay, listed)
        if event.state is not RemotePartitionDeleteState.DELETE_PARTITION_FINISHED:
            return event, Belief(replay, proof)
        # Listed first, read on then: what an object belongs to was in the log before the object was there.
        read_until = replay.end
        event, proof = self._judged(given, replay, listed)
        if (news := replay.first_quarantined(tip, self.limits.allowed_quarantine, read_until)) is not None:
            raise EventByHandRefusedError(
                f"{event.state.name} of {subject_of(event)} is not written: {news} cannot be applied, and came after storage "
                "was listed; try again"
            )
        return event, Belief(replay, proof, frozenset({tip}))

    def _judged(
        self, given: WritableEvent, replay: MetadataPartitionReplay, listed: Callable[[], frozenset[UUID]]
    ) -> tuple[WritableEvent, ProvenLook]:
        tip = topic_id_partition_of(given)
        replay.advance()
        names = replay.names({tip.topic_id})[tip.topic_id] | {tip.topic}
        seen = look(self.topics, self.log, {tip.topic_id: names})
        # The time is taken after the look: an observation must not claim to be older than it is.
        event = replace(given, event_timestamp_ms=self.clock())
        _Standing(
            replay.histories.get(tip) or UserPartitionHistory(tip),
            seen.observations[tip.topic_id],
            event.event_timestamp_ms,
            self.limits,
            self.hold().refusal_of(tip, names),
            replay.doubt_about(tip, self.limits.allowed_quarantine),
            self.witness,
            listed,
            replay.copied_is_known,
        ).check(event)
        return event, seen.proof


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
            return RemotePartitionDeleteMetadata(
                tip, _state(RemotePartitionDeleteState, raw["state"]), now_ms, OWN_BROKER_ID
            )
        segment_id = RemoteLogSegmentId(tip, parse_kafka_uuid(raw["segment_id"]))
        custom = bytes.fromhex(raw["custom_metadata"]) if raw.get("custom_metadata") is not None else None
        state = _state(RemoteLogSegmentState, raw["state"])
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        why = repr(e)
        if missing := sorted(set(EVENT_FIELDS) - raw.keys()):
            why = f"it lacks {missing}"
        elif isinstance(e, ConfigurationError):
            why = str(e)
        shown = printable(repr(dict(raw)))
        raise ConfigurationError(f"event {shown} cannot be read: {why}; needed are {EVENT_FIELDS}") from e
    return RemoteLogSegmentMetadataUpdate(segment_id, now_ms, custom, state, OWN_BROKER_ID)


def _state(kind: type[S], name: object) -> S:
    if not isinstance(name, str) or name not in kind.__members__:
        raise refused("state", name, f"one of {', '.join(kind.__members__)}")
    return kind[name]


def publish_events(
    events: Sequence[WritableEvent],
    *,
    log: MetadataLogReader,
    publisher: GuardedPublisher,
    topics: ClusterTopics,
    limits: CleanerLimits,
    storage: RemoteStorageManager | None = None,
    root: RootExpectation = UNKNOWN_ROOT,
    ledger: PlaceLedger = NOTHING_RECORDED,
    hold: HoldSource = nothing_held,
    expected_cluster_id: str | None = None,
    clock: Clock = system_clock,
    snapshots: SnapshotStore | None = None,
    deletions: DeletionSource = nothing_on_record,
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
    :param ledger: since when it is known; without one ``root`` must name every place.
    :param hold: what is never touched, asked before every event.
    :param expected_cluster_id: refuse any other cluster; an override needs it.
    :param clock: time.
    :param snapshots: where a snapshot of the topic may lie; it only tells which topics the log names.
    :param deletions: what runs have deleted, by the audit log: without it a copied segment whose objects are gone, and whose
        deletion this package began, is missing.
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
    _require_override(events, limits)

    def prove(asked: RemoteStorageManager) -> ProvenRoot:
        topic = TopicReplay(log, topics, clock, snapshots)
        return prove_root(
            topic, asked, cluster_id=cluster_id, expectation=root, overrides=limits.overrides, ledger=ledger
        )

    witness = _StorageWitness(storage, prove, limits.overrides, EarlierDeletions(deletions))
    judge = _Judge(log, topics, limits, hold, clock, witness)
    replays: dict[int, MetadataPartitionReplay] = {}
    offsets = []
    for given in events:
        tip = topic_id_partition_of(given)
        metadata_partition = metadata_partition_for(tip, log.partition_count)
        if metadata_partition not in replays:
            wanted = frozenset(topic_id_partition_of(e).topic_id for e in events)
            replays[metadata_partition] = MetadataPartitionReplay(log, metadata_partition, wanted)
        event, belief = judge.allowed(given, replays[metadata_partition])
        (outcome,) = publisher.publish([event], belief)
        if isinstance(outcome, Unknown):
            raise PublishOutcomeUnknownError(f"{describe_event(event)}: {outcome.reason}; read the topic back first")
        if not isinstance(outcome, Acked):
            raise PublishFailedError(f"{describe_event(event)} was not written: {outcome.reason}")
        offsets.append(outcome.offset)
    return offsets
