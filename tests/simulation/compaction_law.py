# SPDX-License-Identifier: Apache-2.0
"""
The law of the next Kafka's metadata topic, over stories: what keys change, and what compaction takes away.

With nothing to refuse writes, a log with keys is cleaned as the same log without them, event by event. A log that was
compacted is cleaned of no more than that: nothing is finished that would not have been, but for a deletion that somebody
started again behind its end. A plain log drops that start; where its key took the place of the first one, brokers see a
deletion under way, and so do we: it is repeated, over objects that are gone. A marker behind DELETE_PARTITION_FINISHED alike:
in a plain log it does nothing unless segments have appeared since. And where keys name an end offset, a deletion
that ended without a start is uncertain, compacted or not, which a plain log drops: less is cleaned then. Where records
lie wrong and so many do that a plain log proves no partitioner, one that is left proves it no more; where none is left
nobody can tell. With the refusal nothing is written.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from airflow_provider_rlmm.core.base.errors import LogEraError, PartitionerMismatchError, RlmmError
from airflow_provider_rlmm.core.log.in_process import (
    InProcessMetadataEventLog,
    InProcessOffsetStore,
    no_effect_hook,
)
from airflow_provider_rlmm.core.log.write_guard import GuardedPublisher
from airflow_provider_rlmm.core.plans.refusals import RefusalKind
from airflow_provider_rlmm.core.records.era import PLAIN_ERA, era_of_policy, era_of_records
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import (
    RemoteLogMetadata,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadataSnapshot,
    TopicIdPartition,
    topic_id_partition_of,
)
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState as P
from airflow_provider_rlmm.core.storage.root import RootExpectation
from airflow_provider_rlmm.core.world.audit_in_memory import InMemoryAuditLog
from airflow_provider_rlmm.core.world.effects import RealEffects
from airflow_provider_rlmm.core.world.topic_view import TopicReplay
from airflow_provider_rlmm.features.cleanup.cleaner import RemoteLogCleaner
from airflow_provider_rlmm.features.cleanup.marker import DeletedPartitionMarker, RealMarkerEffects
from airflow_provider_rlmm.features.cleanup.planner import CleanupPlanner
from tests.builders import Memory
from tests.roots import KNOWN_FROM_THE_BEGINNING
from tests.simulation.compaction import (
    KeyForm,
    Records,
    compacted,
    event_of,
    events_behind,
    log_of,
    records_of,
    segment_event_of,
    with_keys,
    with_tombstones,
)
from tests.simulation.mistakes import CLOCKS_AHEAD_MS, NAMES
from tests.simulation.roots import CLUSTER_ID
from tests.simulation.runs import draw_process, trouble_of
from tests.simulation.witness import MIN_ABSENCE_MS
from tests.simulation.world import World

_SEGMENT_BEGUN, _SEGMENT_ENDED = S.DELETE_SEGMENT_STARTED, S.DELETE_SEGMENT_FINISHED
_PARTITION_BEGUN, _PARTITION_ENDED = (
    (P.DELETE_PARTITION_MARKED, P.DELETE_PARTITION_STARTED),
    P.DELETE_PARTITION_FINISHED,
)

DELETE, COMPACT = ("delete",), ("compact",)
LONG_MS = 2 * max(CLOCKS_AHEAD_MS)
"""Behind the time of every marker."""


def memory_of(log: InProcessMetadataEventLog) -> Memory:
    """Return what a run remembers that has read all of a log."""
    era = era_of_policy(log.cleanup_policy())
    for number in range(log.partition_count):
        begin, end = log.beginning_offsets()[number], log.high_water_marks()[number]
        for batch in log.read(number, begin, end):
            era = era.or_later(era_of_records(number, batch))
    return Memory(era)


@dataclass
class Outcome:
    """What came of one log, from the mark to the end."""

    planned: set[tuple[UUID, int, UUID]] = field(default_factory=set)  # topic id, partition, segment
    events: list[RemoteLogMetadata] = field(default_factory=list)  # that were written, by metadata partition
    refused: str = ""  # why nothing was, by name
    unproven: set[int] = field(default_factory=set)  # metadata partitions with too many records that lie wrong

    @property
    def finished(self) -> set[Any]:
        """The user partitions that were finished, and the segments whose deletion was finished or begun."""
        return {_about(e) for e in self.events if _is_one_of(e, _SEGMENT_BEGUN, _SEGMENT_ENDED, _PARTITION_ENDED)}

    def said(self) -> list[tuple[Any, ...]]:
        """The events, without the times that a run gave them."""
        return [(_about(event), type(event.state).__name__, int(event.state)) for event in self.events]


def started_behind_their_end(partitions: Sequence[Records]) -> set[Any]:
    """Return the segments and user partitions whose deletion somebody started or marked again after it was finished."""
    ended: set[Any] = set()
    again: set[Any] = set()
    for event in filter(None, (event_of(record) for records in partitions for record in records)):
        if isinstance(event, RemoteLogSegmentMetadataSnapshot):
            continue
        if _is_one_of(event, _SEGMENT_ENDED, _PARTITION_ENDED):
            ended.add(_about(event))
        elif _is_one_of(event, _SEGMENT_BEGUN, *_PARTITION_BEGUN) and _about(event) in ended:
            again.add(_about(event))
    return again


def ended_without_start(partitions: Sequence[Records]) -> bool:
    """Tell whether somebody finished a deletion that nobody had started."""
    started: set[Any] = set()
    for event in filter(None, (segment_event_of(record) for records in partitions for record in records)):
        if event.state is S.DELETE_SEGMENT_STARTED:
            started.add(_about(event))
        elif event.state is S.DELETE_SEGMENT_FINISHED and _about(event) not in started:
            return True
    return False


def lie_wrong(records: Records, metadata_partition: int, partitions: int) -> bool:
    """
    Tell whether any record lies where no broker looks for it.

    :param records: of one metadata partition.
    :param metadata_partition: its number.
    :param partitions: how many there are.
    """
    events = filter(None, (event_of(record, keyed=True) for record in records))
    return any(
        metadata_partition_for(topic_id_partition_of(event), partitions) != metadata_partition for event in events
    )


def _is_one_of(event: Any, *states: S | P) -> bool:
    """Tell whether an event has one of some states; states of segments and of partitions are equal by their numbers."""
    return any(event.state is state for state in states)


def _about(event: Any) -> Any:
    return getattr(event, "remote_log_segment_id", None) or event.topic_id_partition


def _partition_of(about: RemoteLogSegmentId | TopicIdPartition) -> tuple[UUID, int]:
    tip = about.topic_id_partition if isinstance(about, RemoteLogSegmentId) else about
    return tip.topic_id, tip.partition


def _home(topic_id: UUID, partition: int, partitions: int) -> int:
    """Return the metadata partition of a user partition, whatever its topic is called."""
    return metadata_partition_for(TopicIdPartition(topic_id, "", partition), partitions)


class Remains:
    """What a story has left, to be cleaned again and again from the same state."""

    def __init__(self, seed: int) -> None:
        trouble = trouble_of(seed)
        # A topic id has one name. Where somebody gave it another one, compaction takes that word like any other.
        self.world = world = World(seed, replace(trouble, kinds=trouble.kinds - {NAMES}))
        world.draw_root()
        world.draw_rights()
        world.run(draw_process(world))
        world.mount_true()
        world.end_mistakes()
        for part in (world.log, world.topics, world.offsets):
            part.on_effect = part.after_effect = no_effect_hook
        self.ends = list(world.log.high_water_marks().values())
        # A key that somebody made up is no brokers' key: records that share one would take each other's place.
        self.records = [
            [replace(record, key=None) for record in records_of(world.log, number)]
            for number in range(world.log.partition_count)
        ]
        self._objects, self._now_ms = dict(world.mounted), world.now_ms
        self._order = world.lister.getstate()

    def log(
        self, partitions: Sequence[Records], ends: Sequence[int], policy: Collection[str]
    ) -> InProcessMetadataEventLog:
        """Return a log of these records."""
        return log_of(partitions, ends, policy, self.world.clock)

    def clean(self, log: InProcessMetadataEventLog, memory: Memory, wait_ms: int = MIN_ABSENCE_MS) -> Outcome:
        """Mark, wait, plan and clean by a log; then all is as it was."""
        outcome, ends = Outcome(), list(log.high_water_marks().values())
        # A store without an order lists in the same one again: what a listing that ends early has shown decides what waits.
        self.world.lister.setstate(self._order)
        try:
            self._clean(log, GuardedPublisher(log, allow_writes=True, memory=memory), outcome, wait_ms)
        except RlmmError as e:
            outcome.refused = type(e).__name__
        outcome.events = list(events_behind(log, ends))
        self.world.mounted.clear()
        self.world.mounted.update(self._objects)
        self.world.now_ms = self._now_ms
        return outcome

    def _clean(
        self, log: InProcessMetadataEventLog, publisher: GuardedPublisher, outcome: Outcome, wait_ms: int
    ) -> None:
        world, clock = self.world, self.world.clock
        report = DeletedPartitionMarker(
            TopicReplay(log, world.topics, clock), RealMarkerEffects(publisher), clock=clock
        ).mark()
        for refusal in report.refusals:
            if refusal.kind is RefusalKind.MISROUTED and refusal.metadata_partition is not None:
                outcome.unproven.add(refusal.metadata_partition)
        world.now_ms += wait_ms
        plan = CleanupPlanner(TopicReplay(log, world.topics, clock), limits=world.limits, clock=clock).plan(
            "law", expires_in_ms=1
        )
        planned: dict[tuple[UUID, int], set[UUID]] = {}
        for row in plan.rows.to_pylist():
            key = UUID(bytes=row["topic_id"]), row["partition"]
            planned.setdefault(key, set()).add(UUID(bytes=row["segment_id"]))
        outcome.planned = {(*key, segment_id) for key, ids in planned.items() for segment_id in ids}
        for number in sorted(plan.summary.by_metadata_partition):
            storage = world.mount(lambda storage: (no_effect_hook, no_effect_hook))
            effects = RealEffects(publisher, storage, InProcessOffsetStore(), InMemoryAuditLog(beside=world.audit))
            cleaner = RemoteLogCleaner(
                log,
                effects,
                InProcessOffsetStore(),
                world.topics,
                storage,
                limits=world.limits,
                audit=InMemoryAuditLog(beside=world.audit),
                expected_cluster_id=CLUSTER_ID,
                clock=clock,
                root=RootExpectation(world.recorded_roots(), world.expected_root),
                ledger=KNOWN_FROM_THE_BEGINNING,
            )
            try:
                cleaner.clean(number, {key: frozenset(ids) for key, ids in planned.items()}, plan.summary.tails[number])
            except PartitionerMismatchError as e:
                outcome.refused = type(e).__name__
                outcome.unproven.add(number)
            except RlmmError as e:  # one mapped task fails, the others go on
                outcome.refused = type(e).__name__


class Story:
    """One seed: its happenings are what :func:`~tests.simulation.runs.play_many` sums up."""

    def __init__(self, seed: int) -> None:
        self.happened: Counter[str] = Counter()
        drawn, remains = random.Random(seed + 11_000_003), Remains(seed)
        plain = remains.clean(remains.log(remains.records, remains.ends, DELETE), Memory())
        self._again = started_behind_their_end(remains.records)
        self.happened["planned"] += bool(plain.planned)
        for form in KeyForm:
            keyed = [with_keys(records, form) for records in remains.records]
            log = remains.log(keyed, remains.ends, DELETE)
            if form is KeyForm.END_OFFSET and ended_without_start(remains.records):
                self._no_more_with_keys(seed, form, plain, remains.clean(log, Memory()))
            elif form is not KeyForm.SEGMENT:  # nobody has proposed it: its keys name nothing
                self._same(seed, form, plain, remains.clean(log, Memory()))
            self._refused(seed, form, remains, keyed, remains.ends, DELETE)
            self._no_more(seed, form, plain, remains, keyed, drawn)

    def _same(self, seed: int, form: KeyForm, plain: Outcome, keyed: Outcome) -> None:
        where = f"seed {seed}, keys name {form.value}"
        assert keyed.planned == plain.planned, f"{where}: another plan"
        assert keyed.said() == plain.said(), f"{where}: other events"

    def _no_more_with_keys(self, seed: int, form: KeyForm, plain: Outcome, keyed: Outcome) -> None:
        where = f"seed {seed}, keys name {form.value}"
        assert keyed.planned <= plain.planned, f"{where}: planned besides: {keyed.planned - plain.planned}"
        assert keyed.finished <= plain.finished, f"{where}: finished besides: {keyed.finished - plain.finished}"
        self.happened["ended without start"] += 1

    def _no_more(
        self, seed: int, form: KeyForm, plain: Outcome, remains: Remains, keyed: Sequence[Records], drawn: random.Random
    ) -> None:
        # A broker that died before it asked to forget has left what it finished.
        asked = seed % 2 == 0
        whole = [with_tombstones(r, end) if asked else r for r, end in zip(keyed, remains.ends, strict=True)]
        ends = [
            max(end, records[-1].offset + 1 if records else 0) for records, end in zip(whole, remains.ends, strict=True)
        ]
        left = []
        for records, end in zip(whole, ends, strict=True):
            dirty = drawn.choice([end, drawn.randint(0, end)])
            left.append(compacted(records, dirty, drawn.choice([0, drawn.randint(0, dirty)])))
        where = f"seed {seed}, compacted, keys name {form.value}"
        found = remains.clean(remains.log(left, ends, COMPACT), Memory())
        if not (found.planned <= plain.planned and found.finished <= plain.finished):
            plain = self._ever(remains, plain)
        segments = (about for about in self._again if isinstance(about, RemoteLogSegmentId))
        again = {(s.topic_id_partition.topic_id, s.topic_id_partition.partition, s.id) for s in segments}
        # Where none is left of the records that lay wrong nobody can tell that there were any.
        cleared = {number for number in plain.unproven if not lie_wrong(left[number], number, len(left))}
        self.happened["nothing lies wrong any more"] += bool(cleared)
        planned = {row for row in found.planned - plain.planned - again if _home(*row[:2], len(left)) not in cleared}
        finished = {
            about
            for about in found.finished - plain.finished - self._again
            if _home(*_partition_of(about), len(left)) not in cleared
        }
        assert not planned, f"{where}: planned besides: {planned}"
        assert not finished, f"{where}: finished besides: {finished}"
        self.happened["started behind its end"] += bool(self._again & found.finished)
        self.happened[f"{form.value}: planned"] += bool(found.planned)
        self.happened[f"{form.value}: finished"] += bool(found.finished)
        self._refused(seed, form, remains, left, ends, COMPACT)

    def _ever(self, remains: Remains, plain: Outcome) -> Outcome:
        """Return what comes of the plain log now or later: a marker with a time to come makes it wait."""
        waited = remains.clean(remains.log(remains.records, remains.ends, DELETE), Memory(), LONG_MS)
        return Outcome(
            waited.planned | plain.planned,
            [*waited.events, *plain.events],
            unproven=waited.unproven | plain.unproven,
        )

    def _refused(
        self,
        seed: int,
        form: KeyForm,
        remains: Remains,
        partitions: Sequence[Records],
        ends: Sequence[int],
        policy: Collection[str],
    ) -> None:
        """With the refusal nothing is written, unless nothing shows that there are keys."""
        log = remains.log(partitions, ends, policy)
        memory = memory_of(log)
        if memory.era == PLAIN_ERA:
            assert form is KeyForm.SEGMENT or not any(r.key for records in partitions for r in records)
            return
        outcome = remains.clean(log, memory)
        assert not outcome.events, f"seed {seed}, {policy}, keys name {form.value}: {outcome.events[0]} was written"
        self.happened["refused"] += outcome.refused == LogEraError.__name__


def play_law(seed: int) -> Any:
    """Play one seed; see the module."""
    try:
        return Story(seed)
    except Exception as e:
        raise AssertionError(f"seed {seed}: {type(e).__name__}: {e}") from e
