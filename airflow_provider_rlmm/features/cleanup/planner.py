# SPDX-License-Identifier: Apache-2.0
"""The planner: finds the marked partitions that may be cleaned now and writes down every segment that would go."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.arrow_arrays import table_of_rows
from airflow_provider_rlmm.core.base.clock import Clock
from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.core.plans.log_refusals import refusals_of_era
from airflow_provider_rlmm.core.plans.plan import MAX_QUARANTINED_LISTED, PlanSummary, Reason, first_refusals
from airflow_provider_rlmm.core.plans.plan_files import plan_schema
from airflow_provider_rlmm.core.plans.refusals import Refusal, RefusalKind
from airflow_provider_rlmm.core.records.history import UserPartitionHistory
from airflow_provider_rlmm.core.records.outcomes import APPLIED_CODES, ErrorCode
from airflow_provider_rlmm.core.records.read_tail import ReadTail
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.core.world.absence import Presence, refusal_of
from airflow_provider_rlmm.core.world.cluster_look import ClusterAnswers, ask
from airflow_provider_rlmm.core.world.hold import HoldSource, nothing_held
from airflow_provider_rlmm.core.world.only import EVERYTHING, Chosen
from airflow_provider_rlmm.core.world.replay import MetadataPartitionView
from airflow_provider_rlmm.core.world.topic_view import TopicReplay
from airflow_provider_rlmm.core.world.wholeness import incomplete_history

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)

_AS_IN_THE_LOG = ("start_offset", "end_offset", "max_timestamp_ms", "event_timestamp_ms", "segment_size_in_bytes")


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan before it is written."""

    summary: PlanSummary  # counts and limits
    rows: pa.Table  # one per segment


@dataclass(frozen=True, slots=True)
class CleanupPlanner:
    """
    :param topic: the metadata topic.
    :param limits: limits of destructive work.
    :param clock: time.
    :param hold: what is never planned.
    """

    topic: TopicReplay
    _: KW_ONLY
    limits: CleanerLimits
    clock: Clock
    hold: HoldSource = nothing_held

    def plan(
        self,
        plan_id: str,
        *,
        expires_in_ms: int,
        chosen: Chosen = EVERYTHING,
        max_segments: int | None = None,
    ) -> Plan:
        """
        Plan the deletion of every settled partition's segments.

        A metadata partition whose partitions have no segment left and only need to be finished is planned with 0.

        :param plan_id: names the plan.
        :param expires_in_ms: for how long it may be applied, ms.
        :param chosen: plan only these user partitions; limits and shares are those of the whole cluster all the same.
        :param max_segments: plan no more than these, and leave the rest for later runs; ``None`` for all.
        :raises EventLogError: if the topic or the cluster cannot be read.
        """
        now = self.clock()
        draft = _Draft(max_segments)
        topic = self.topic
        topic.advance()
        era = topic.log.era
        draft.refuse(refusals_of_era(era))
        seen = self._look()
        # Of living topics nothing is asked but whether they are being deleted.
        living = frozenset(seen.living.values())
        for metadata_partition in range(self.topic.log.partition_count):
            wanted = topic.under_way(metadata_partition) | (topic.unresolved(metadata_partition) - living)
            self._plan_metadata_partition(topic.view(metadata_partition, wanted), chosen, seen, draft)
        summary = PlanSummary(
            plan_id=plan_id,
            cluster_id=self.topic.topics.cluster_id(),
            created_at_ms=now,
            expires_at_ms=now + expires_in_ms,
            read_until=draft.read_until,
            known=draft.known,
            by_reason={Reason.ORPHANED.value: _count(draft.rows)},
            by_metadata_partition=draft.planned,
            quarantined=draft.quarantined,
            unresolved=draft.unresolved,
            refusals=first_refusals([*draft.refusals, *draft.left_for_later()]),
            waiting=draft.waiting,
            left=draft.left,
            hold=self.hold().entries,
            only=chosen.only.narrowed_to,
            era=era.told(),
            tails=draft.tails,
            folded=topic.folded,
        )
        return Plan(summary, draft.to_table())

    def _look(self) -> ClusterAnswers:
        """Look once for all metadata partitions, behind the last record that was read: each asks for every topic."""
        topic = self.topic
        numbers = range(topic.log.partition_count)
        asked = frozenset[UUID]().union(*(topic.under_way(n) | topic.unresolved(n) for n in numbers))
        return ask(topic.topics, topic.log, topic.names_of_any(asked))

    def _plan_metadata_partition(
        self,
        replay: MetadataPartitionView,
        chosen: Chosen,
        seen: ClusterAnswers,
        draft: _Draft,
    ) -> None:
        topic, metadata_partition = self.topic, replay.metadata_partition
        draft.note(replay, topic)
        if replay.is_closed:
            return
        work = [
            h
            for key, h in replay.histories.items()
            if h.deletion_under_way() and chosen.takes(key, topic.names_of(metadata_partition, key.topic_id))
        ]
        incomplete = [h for h in replay.histories.values() if h.without_add and h not in work]
        ids = sorted({h.topic_id_partition.topic_id for h in (*work, *incomplete)})
        if not ids:
            return
        observations = seen.observe({i: topic.names_of(metadata_partition, i) for i in ids}).observations
        draft.refuse(
            incomplete_history(h, metadata_partition)
            for h in incomplete
            if observations[h.topic_id_partition.topic_id].presence is Presence.ABSENT
        )
        before = len(draft.rows)
        cleanable = False
        # Beside a record that cannot be applied it is not certain what a segment has become.
        exact = all(ErrorCode[record.code] in APPLIED_CODES for record in replay.quarantined)
        for history in work:
            observation = observations[history.topic_id_partition.topic_id]
            tip = history.topic_id_partition
            held = self.hold().refusal_of(tip, topic.names_of(metadata_partition, tip.topic_id))
            refusal = held or refusal_of(history, observation, self.clock(), self.limits)
            if refusal is not None:
                draft.refuse([replace(refusal, metadata_partition=metadata_partition)])
                if refusal.kind is RefusalKind.WAITING:
                    draft.wait(history)
                else:
                    draft.leave(metadata_partition, history.unfinished())
                continue
            cleanable |= draft.take(metadata_partition, history.unfinished(), exact=exact)
        if cleanable:
            draft.planned[metadata_partition] = _count(draft.rows[before:])
            logger.info("metadata partition %d: %s planned", metadata_partition, draft.planned[metadata_partition])


class _Draft:
    """A plan that grows metadata partition by metadata partition."""

    def __init__(self, max_segments: int | None = None) -> None:
        self._max_segments = max_segments
        self._not_taken = 0
        self.rows: list[dict[str, Any]] = []
        self.planned: dict[int, Count] = {}
        self.read_until: dict[int, int] = {}
        self.tails: dict[int, ReadTail] = {}
        self.quarantined: dict[int, int] = {}
        self.known = Count(0, 0)
        self.unresolved = 0
        self.refusals: dict[Refusal, None] = {}
        self.waiting = Count(0, 0)
        self.left: dict[int, Count] = {}

    def take(self, metadata_partition: int, segments: Sequence[RemoteLogSegmentMetadata], *, exact: bool) -> bool:
        """Plan the segments of a user partition as far as there is room; tell whether it has work in this run."""
        room = len(segments) if self._max_segments is None else max(0, self._max_segments - len(self.rows))
        self.rows += [_row(metadata_partition, m, exact) for m in segments[:room]]
        self._not_taken += len(segments[room:])
        self.leave(metadata_partition, segments[room:])
        return room > 0 or not segments

    def left_for_later(self) -> list[Refusal]:
        """Say what the limit of this run leaves for later ones."""
        if not self._not_taken or self._max_segments is None:
            return []
        more = number_of(self._not_taken, "more is", "more are")
        why = f"this run takes {number_of(self._max_segments, 'segment')} at most, {more} left for later runs"
        return [Refusal("the plan", why, "nothing: the next run goes on", RefusalKind.NEXT_RUN)]

    def note(self, replay: MetadataPartitionView, topic: TopicReplay) -> None:
        """Note what is known of a metadata partition; ``replay`` has the histories in question, ``topic`` all."""
        number = replay.metadata_partition
        self.read_until[number] = replay.end
        if (tail := topic.tail(number)) is not None:
            self.tails[number] = tail
        listed = sum(r.kind is RefusalKind.QUARANTINED for r in self.refusals)
        found = replay.obstacles()
        records = [o for o in found if o.kind is RefusalKind.QUARANTINED]
        self.refuse(records[: max(0, MAX_QUARANTINED_LISTED - listed)])
        self.refuse(o for o in found if o.kind is not RefusalKind.QUARANTINED)
        if replay.quarantined:
            self.quarantined[number] = replay.quarantined_records
        self.unresolved += topic.count_unresolved(number)
        self.known = Count.sum([self.known, topic.unfinished(number)])

    def refuse(self, refusals: Iterable[Refusal]) -> None:
        """Note refusals; each is noted once."""
        self.refusals |= dict.fromkeys(refusals)

    def wait(self, history: UserPartitionHistory) -> None:
        self.waiting = Count.sum([self.waiting, _sizes(history.unfinished())])

    def leave(self, metadata_partition: int, segments: Sequence[RemoteLogSegmentMetadata]) -> None:
        if segments:
            before = self.left.get(metadata_partition, Count(0, 0))
            self.left[metadata_partition] = Count.sum([before, _sizes(segments)])

    def to_table(self) -> pa.Table:

        return table_of_rows(self.rows, plan_schema())


def sizes_and_ages(rows: pa.Table) -> Iterator[tuple[int, int | None]]:
    """
    Yield of each planned segment its bytes and when its copy had ended, by the clock of the broker that says so, ms since the
    epoch; ``None`` for a segment whose last event is another one, as nothing else tells it.

    :param rows: of a plan.
    """
    columns = (rows[name].to_pylist() for name in ("segment_size_in_bytes", "state", "event_timestamp_ms"))
    copied = int(RemoteLogSegmentState.COPY_SEGMENT_FINISHED)
    for size, state, event_ms in zip(*columns, strict=True):
        yield size, event_ms if state == copied else None


def _count(rows: list[Mapping[str, Any]] | list[dict[str, Any]]) -> Count:
    return Count(len(rows), sum(r["segment_size_in_bytes"] for r in rows))


def _sizes(segments: Sequence[RemoteLogSegmentMetadata]) -> Count:
    return Count(len(segments), sum(m.segment_size_in_bytes for m in segments))


def _row(metadata_partition: int, metadata: RemoteLogSegmentMetadata, exact: bool) -> dict[str, Any]:
    segment_id = metadata.remote_log_segment_id
    return {
        "metadata_partition": metadata_partition,
        "topic_id": segment_id.topic_id_partition.topic_id.bytes,
        "topic": segment_id.topic_id_partition.topic,
        "partition": segment_id.topic_id_partition.partition,
        "segment_id": segment_id.id.bytes,
        "state": int(metadata.state),
        **{name: getattr(metadata, name) for name in _AS_IN_THE_LOG},
        "reason": Reason.ORPHANED.value,
        "exact": exact,
    }
