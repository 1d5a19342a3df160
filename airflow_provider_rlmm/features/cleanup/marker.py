# SPDX-License-Identifier: Apache-2.0
"""
The marker: finds topic ids that are gone from the cluster while their remote segments are not, and writes
DELETE_PARTITION_MARKED for their partitions. KIP-405 gives this role to the controller; in Kafka no component plays it.

A marker deletes nothing. It is the record of the first observation of absence.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, astuple, dataclass, replace
from functools import partial
from typing import ClassVar, Protocol
from uuid import UUID

from airflow_provider_rlmm.core.base.clock import Clock
from airflow_provider_rlmm.core.base.errors import PartitionerMismatchError
from airflow_provider_rlmm.core.log.protocol import Acked, MetadataTopic, PublishOutcome
from airflow_provider_rlmm.core.log.write_guard import GuardedPublisher, check_events
from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.core.plans.log_refusals import refusal_of_lost
from airflow_provider_rlmm.core.plans.refusals import Refusal, RefusalKind
from airflow_provider_rlmm.core.records.history import UserPartitionHistory
from airflow_provider_rlmm.core.records.records import (
    OWN_BROKER_ID,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
    kafka_uuid_str,
)
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState
from airflow_provider_rlmm.core.world.absence import PRESENCE_KINDS, Observation, Presence, first_observation
from airflow_provider_rlmm.core.world.cluster_look import ClusterAnswers, ask
from airflow_provider_rlmm.core.world.diskless import DISKLESS_ADVICE
from airflow_provider_rlmm.core.world.effects import describe_event
from airflow_provider_rlmm.core.world.gate import Gate
from airflow_provider_rlmm.core.world.hold import HoldSource, nothing_held
from airflow_provider_rlmm.core.world.only import EVERYTHING, Chosen
from airflow_provider_rlmm.core.world.replay import Belief, MetadataPartitionReplay, MetadataPartitionView
from airflow_provider_rlmm.core.world.topic_view import TopicReplay
from airflow_provider_rlmm.features.cleanup.questions import MARKER
from airflow_provider_rlmm.features.cleanup.reports import MarkedTopic

PRESENCE_ADVICE = {
    Presence.PRESENT: "nothing, if the topic is meant to exist; otherwise delete the topic first",
    Presence.AMBIGUOUS: "look at the records of this topic id",
    Presence.DENIED: "give the principal DESCRIBE on every topic, then run again",
    Presence.DISKLESS: DISKLESS_ADVICE,
}

ROUTING_ADVICE = "compare the metadata topic's partition count with the brokers' configuration; the others were marked"

CONTRADICTION_ADVICE = (
    "remove {known_from}, so that the next run reads the whole metadata topic, and find out who has changed it"
)
FORGOTTEN_ADVICE = (
    "compare storage and metadata: no run marks what the log does not name any more; then remove {known_from}, so "
    "that the next run goes by what the log still holds"
)
MOST_NAMED = 5
"""Most user partitions that a refusal names one by one."""

_STARTED = RemotePartitionDeleteState.DELETE_PARTITION_STARTED

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MarkReport:
    """
    What the marker did.

    :param marked: events written (in a dry run: that would have been), in words.
    :param already_marked: partitions whose observation stands.
    :param refusals: what was not marked, and why.
    :param dry_run: whether nothing was written.
    :param topics: of what was marked, those that store most first.
    :param records_read: records of the metadata topic that were read for it, those twice that were read once more before
        something was written; an earlier task's snapshot spares the others.
    """

    marked: tuple[str, ...]
    already_marked: int
    refusals: tuple[Refusal, ...]
    dry_run: bool
    topics: tuple[MarkedTopic, ...] = ()
    records_read: int = 0


class MarkerEffects(Protocol):
    """What :class:`DeletedPartitionMarker` does, or says."""

    is_dry: ClassVar[bool]

    def publish(
        self, events: Sequence[RemotePartitionDeleteMetadata], belief: Belief[MetadataPartitionView]
    ) -> list[PublishOutcome]:
        """
        Publish through the write guard; one outcome per event.

        :param events: markers of one metadata partition.
        :param belief: what they rest on.
        :raises UnsafeEventError: if one could harm a broker or is not ours to write.
        :raises PartitionerMismatchError: if our partitioner is not proven there.
        """


@dataclass(frozen=True, slots=True)
class RealMarkerEffects:
    """Markers are written."""

    publisher: GuardedPublisher  # the write guard
    is_dry: ClassVar[bool] = False

    def publish(
        self, events: Sequence[RemotePartitionDeleteMetadata], belief: Belief[MetadataPartitionView]
    ) -> list[PublishOutcome]:
        """See :class:`MarkerEffects`."""
        return self.publisher.publish(events, belief)


@dataclass(frozen=True, slots=True)
class DryRunMarkerEffects:
    """Markers pass the same guard, and are only said."""

    log: MetadataTopic  # the log, for its id and its partition count only
    is_dry: ClassVar[bool] = True

    def publish(
        self, events: Sequence[RemotePartitionDeleteMetadata], belief: Belief[MetadataPartitionView]
    ) -> list[PublishOutcome]:
        """See :class:`MarkerEffects`."""
        if events:
            check_events(events, belief, self.log)
        return [Acked(-1) for _ in events]


@dataclass(frozen=True, slots=True)
class _Decision:
    """What is due in a metadata partition, by what is known of it and by one look at the cluster."""

    belief: Belief[MetadataPartitionView]  # what it rests on
    observations: Mapping[UUID, Observation]  # what the look has shown, by topic id
    events: tuple[RemotePartitionDeleteMetadata, ...]  # what is due
    standing: int  # number of user partitions whose observation stands
    refusals: tuple[Refusal, ...]  # what is left, and why
    read_anew: int = 0  # records that were read for it a second time

    def due_by(
        self, replay: MetadataPartitionView, event: RemotePartitionDeleteMetadata
    ) -> RemotePartitionDeleteMetadata | None:
        """Return what another replay would have called due in an event's place, by the same look at the same time."""
        tip = event.topic_id_partition
        history = replay.histories.get(tip)
        if history is None:
            return None
        return due_observation(history, self.observations[tip.topic_id], event.event_timestamp_ms)


@dataclass(frozen=True, slots=True)
class DeletedPartitionMarker:
    """
    :param topic: the metadata topic.
    :param effects: what writes, or only says it.
    :param clock: time.
    :param hold: what is never touched, as of now: it is not marked; a marker that it has stays.
    """

    topic: TopicReplay
    effects: MarkerEffects
    _: KW_ONLY
    clock: Clock
    hold: HoldSource = nothing_held

    def mark(self, chosen: Chosen = EVERYTHING) -> MarkReport:
        """
        Mark the partitions of every absent topic id that still has unfinished segments.

        The metadata is read before the cluster is looked at: a topic that is created in between then cannot look
        orphaned, as its records were not read. Where an earlier task has left what it has read, that only says where there
        may be something to write: such a metadata partition is read from its beginning before anything is written there.

        :param chosen: mark only these user partitions.
        :raises EventLogError: if the topic or the cluster cannot be read; what was marked before stays marked.
        """
        marked: list[RemotePartitionDeleteMetadata] = []
        stored: dict[UUID, list[Count]] = {}
        already = read_anew = 0
        refusals: list[Refusal] = []
        topic = self.topic
        topic.advance()
        wanted = self._wanted(chosen, refusals)
        for metadata_partition, gone, seen in self._gone(wanted):
            decided = self._due(metadata_partition, gone, chosen, seen)
            found = [*decided.refusals]
            try:
                done, standing = self._publish(decided, found), decided.standing
            except PartitionerMismatchError as e:
                done, standing = [], 0
                found.append(
                    Refusal(f"metadata partition {metadata_partition}", str(e), ROUTING_ADVICE, RefusalKind.MISROUTED)
                )
            refusals += [replace(r, metadata_partition=metadata_partition) for r in found]
            marked += done
            for tip in (event.topic_id_partition for event in done):
                segments = decided.belief.replay.histories[tip].unfinished()
                size = sum(m.segment_size_in_bytes for m in segments)
                stored.setdefault(tip.topic_id, []).append(Count(len(segments), size))
            already += standing
            read_anew += decided.read_anew
        return MarkReport(
            tuple(map(describe_event, marked)),
            already,
            tuple(refusals),
            self.effects.is_dry,
            _by_topic(stored, topic.names_of_any),
            topic.records_read + read_anew,
        )

    def _wanted(self, chosen: Chosen, refusals: list[Refusal]) -> dict[int, frozenset[UUID]]:
        """Return by metadata partition the topics that may have to be marked, and refuse those whose records are lost."""
        topic, wanted = self.topic, {}
        for metadata_partition in range(topic.log.partition_count):
            lost = topic.log.losses.get(metadata_partition)
            if lost is not None and lost.is_open:
                refusals += {refusal_of_lost(lost)}.difference(refusals)
                continue
            topic_ids = topic.with_segments(metadata_partition) | topic.under_way(metadata_partition)
            if topic_ids := chosen.among(topic_ids, partial(topic.names_of, metadata_partition)):
                wanted[metadata_partition] = topic_ids
        return wanted

    def _gone(self, wanted: Mapping[int, frozenset[UUID]]) -> Iterator[tuple[int, frozenset[UUID], ClusterAnswers]]:
        """
        Yield the metadata partitions with topics that are not among the living, with these topics and the look.

        One look serves all metadata partitions: each asks for every topic of the cluster.
        """
        if not wanted:
            return
        topic = self.topic
        seen = ask(topic.topics, topic.log, topic.names_of_any(frozenset[UUID]().union(*wanted.values())))
        living = frozenset(seen.living.values())
        for metadata_partition, topic_ids in wanted.items():
            if gone := topic_ids - living:
                yield metadata_partition, gone, seen

    def _due(
        self,
        metadata_partition: int,
        gone: frozenset[UUID],
        chosen: Chosen,
        seen: ClusterAnswers,
    ) -> _Decision:
        """
        Decide what is due in a metadata partition, and where something is, decide again right before it is written.

        :param metadata_partition: which one.
        :param gone: its topics that are not among the living.
        :param chosen: as :meth:`mark` takes it.
        :param seen: the look at the cluster that all metadata partitions share.
        """
        topic, names = self.topic, self._names(metadata_partition, gone)
        decided = self._decide(topic.view(metadata_partition, gone), names, chosen, seen)
        if not decided.events:
            return decided
        # What others have written meanwhile counts, what was read is still there, and a topic may have come back.
        topic.advance({metadata_partition})
        names = self._names(metadata_partition, gone)
        decided = self._decide(topic.view(metadata_partition, gone), names, chosen, self._ask(names))
        if decided.events and topic.known_from is not None:
            decided = self._decide_by_the_log(decided, gone, chosen, topic.known_from)
        return decided

    def _names(self, metadata_partition: int, topic_ids: frozenset[UUID]) -> dict[UUID, frozenset[str]]:
        return {topic_id: self.topic.names_of(metadata_partition, topic_id) for topic_id in topic_ids}

    def _ask(self, names: Mapping[UUID, frozenset[str]]) -> ClusterAnswers:
        return ask(self.topic.topics, self.topic.log, (name for known in names.values() for name in known))

    def _decide(
        self,
        replay: MetadataPartitionView,
        names: Mapping[UUID, frozenset[str]],
        chosen: Chosen,
        answers: ClusterAnswers,
    ) -> _Decision:
        """Decide what is due by a look at the cluster and by what was known of a metadata partition before it."""
        now_ms = self.clock()
        refusals: list[Refusal] = []
        work = [
            h
            for h in replay.histories.values()
            if _needs_observation(h, now_ms)
            and chosen.takes(h.topic_id_partition, names[h.topic_id_partition.topic_id])
        ]
        work = self._not_held(work, names, refusals)
        seen = answers.observe(names)
        refusals += _presence_refusals(work, seen.observations)
        looked_at = ((h, seen.observations[h.topic_id_partition.topic_id]) for h in work)
        # The time is taken after the look: an observation must not claim to be older than it is.
        events = [e for h, o in looked_at if (e := due_observation(h, o, self.clock())) is not None]
        standing = sum(1 for h in work if _observation_stands(h, now_ms))
        return _Decision(Belief(replay, seen.proof), seen.observations, tuple(events), standing, tuple(refusals))

    def _decide_by_the_log(
        self,
        decided: _Decision,
        topic_ids: frozenset[UUID],
        chosen: Chosen,
        known_from: str,
    ) -> _Decision:
        """
        Decide anew by the log itself, read from its beginning (I14).

        :param decided: what is due by what an earlier task has left.
        :param topic_ids: the topics that it is about.
        :param chosen: as :meth:`mark` takes it.
        :param known_from: where the earlier task has left it.
        """
        known = decided.belief.replay
        number = known.metadata_partition
        logger.info(
            "metadata partition %d: %d markers are due by what %s says; it is read from its beginning before any is written",
            number, len(decided.events), known_from,
        )  # fmt: skip
        replay = MetadataPartitionReplay(self.topic.log, number, topic_ids)
        # What was written since contradicts neither: the two are compared where both end.
        replay.advance(known.end)
        contradicted = [e.topic_id_partition for e in decided.events if decided.due_by(replay, e) != e]
        replay.advance()
        names = replay.names({tip.topic_id for tip in replay.histories})
        anew = self._decide(replay, names, chosen, self._ask(names))
        refusals = anew.refusals
        if contradicted:
            refusals = (_contradiction(replay, contradicted, known_from), *refusals)
        return replace(anew, refusals=refusals, read_anew=replay.records_read)

    def _publish(self, decided: _Decision, refusals: list[Refusal]) -> list[RemotePartitionDeleteMetadata]:
        """Write what is due, or say it; return what was written, and add to the refusals what was not."""
        done = []
        outcomes = self.effects.publish(decided.events, decided.belief)
        for event, outcome in zip(decided.events, outcomes, strict=True):
            if isinstance(outcome, Acked):
                done.append(event)
                logger.info("%s%s", "would write " if self.effects.is_dry else "", describe_event(event))
            else:
                topic, kind = event.topic_id_partition.topic, RefusalKind.NEXT_RUN
                refusals.append(
                    Refusal(describe_event(event), outcome.reason, "run the marker again", kind, topic=topic)
                )
        return done

    def _not_held(
        self, work: Sequence[UserPartitionHistory], names: Mapping[UUID, frozenset[str]], refusals: list[Refusal]
    ) -> list[UserPartitionHistory]:
        """Leave out what is held, and say so."""
        gate = Gate(MARKER, is_dry=self.effects.is_dry, clock=self.clock, hold_source=self.hold)
        hold, free = gate.hold(), []
        for history in work:
            tip = history.topic_id_partition
            if (held := hold.refusal_of(tip, names[tip.topic_id])) is None:
                free.append(history)
            else:
                refusals.append(held)
        return free


def due_observation(
    history: UserPartitionHistory, observation: Observation, now_ms: int
) -> RemotePartitionDeleteMetadata | None:
    """
    Return the event that records an observation of absence, ``None`` where none is due.

    :param history: of the user partition.
    :param observation: the latest look at its topic id.
    :param now_ms: a time after that look; becomes the event's timestamp, ms since the epoch.
    """
    if observation.presence is not Presence.ABSENT:
        return None
    if _observation_stands(history, now_ms):
        return None
    if not _needs_observation(history, now_ms):
        return None
    # After DELETE_PARTITION_STARTED Kafka's table allows no marker: repeating the start records the observation.
    started = history.delete_state == _STARTED
    state = _STARTED if started else RemotePartitionDeleteState.DELETE_PARTITION_MARKED
    return RemotePartitionDeleteMetadata(history.topic_id_partition, state, now_ms, OWN_BROKER_ID)


def _by_topic(
    stored: Mapping[UUID, Sequence[Count]], names_of: Callable[[Collection[UUID]], Iterable[str]]
) -> tuple[MarkedTopic, ...]:
    """Return what is stored of user partitions by topic, the largest first."""
    found = (
        MarkedTopic(
            ", ".join(sorted(names_of([topic_id]))), kafka_uuid_str(topic_id), len(parts), *astuple(Count.sum(parts))
        )
        for topic_id, parts in stored.items()
    )
    return tuple(sorted(found, key=lambda topic: (-topic.bytes, topic.topic, topic.topic_id)))


def _observation_stands(history: UserPartitionHistory, now_ms: int) -> bool:
    """Tell whether a deletion is under way and its absence need not be observed anew."""
    return history.deletion_under_way() and first_observation(history.observations, now_ms) is not None


def _needs_observation(history: UserPartitionHistory, now_ms: int) -> bool:
    """Tell whether there is something to delete, or a deletion under way of which no observation stands."""
    voided = history.deletion_under_way() and not _observation_stands(history, now_ms)
    # A leader may delete the last segment itself after the marker: without a new observation it could never be finished.
    return voided or bool(history.unfinished())


def _presence_refusals(work: Iterable[UserPartitionHistory], observations: Mapping[UUID, Observation]) -> list[Refusal]:
    return [
        Refusal(
            str(h.topic_id_partition),
            observations[h.topic_id_partition.topic_id].reason,
            PRESENCE_ADVICE[presence],
            PRESENCE_KINDS[presence],
            topic=h.topic_id_partition.topic,
        )
        for h in work
        if (presence := observations[h.topic_id_partition.topic_id].presence) is not Presence.ABSENT
    ]


def _contradiction(replay: MetadataPartitionView, tips: Sequence[TopicIdPartition], known_from: str) -> Refusal:
    """
    Return what is said where the log does not show what an earlier task has left.

    :param replay: the log, read from its beginning.
    :param tips: the user partitions that would have been marked, or marked otherwise.
    :param known_from: where the earlier task has left it.
    """
    number, named = replay.metadata_partition, sorted(map(str, tips))
    more = f" and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
    why = (
        f"{known_from}, which an earlier task has left, does not agree with the log about {', '.join(named[:MOST_NAMED])}"
        f"{more}: they are marked as the log says, or not at all"
    )
    what, offset, kind, advice = f"metadata partition {number}", None, RefusalKind.OTHER, CONTRADICTION_ADVICE
    if (lost := replay.lost_beginning) is not None or not replay.copied_is_known:
        # The earlier task has read what can no longer be read.
        kind, advice = RefusalKind.LOST_RECORDS, FORGOTTEN_ADVICE
        if lost is not None:
            why, offset = f"{why}; {lost.why}", lost.offset
    return Refusal(what, why, advice.format(known_from=known_from), kind, number, offset)
