# SPDX-License-Identifier: Apache-2.0
"""
The metadata log beside what any run of a work folder has read of it, so that a log that has lost records since is known.

A log that lost its end has the same topic id and begins at the same offset; only who has read it before can tell. So each
run remembers the last records that it read of each metadata partition, before it changes anything, and the next one
compares (:meth:`FlooredLog.open`). What was lost is :attr:`FlooredLog.losses`: every holder of the log can ask it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Self
from uuid import UUID

from airflow_provider_rlmm.core.base.arrow_arrays import at_least
from airflow_provider_rlmm.core.base.errors import (
    EventLogAccessError,
    FloorError,
    LogBehindError,
    LogReplacedError,
    LostRecordsError,
)
from airflow_provider_rlmm.core.log.floors import ConfirmedLoss, ExplainedGap, Floor, FloorStore
from airflow_provider_rlmm.core.log.log_tail import LogTail, is_same_tail
from airflow_provider_rlmm.core.log.protocol import EventStream, MetadataLogReader, SubscriptionHandle
from airflow_provider_rlmm.core.records.era import PLAIN_ERA, Era, LogEra, era_of_policy, era_of_records, not_known
from airflow_provider_rlmm.core.records.lost_records import (
    NOTHING_LOST,
    HistoryGap,
    LostRecords,
    explained_gap,
    lost_records_named,
)
from airflow_provider_rlmm.core.records.read_tail import digests

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)

CATCH_UP_S = 60.0
"""For how long a metadata partition that ends below its floor is asked again before that is a loss, seconds."""

_ASK_AGAIN_S = 2.0


@dataclass(frozen=True, slots=True)
class Confirmation:
    """
    What a person says about lost records.

    :param names: of losses, such as ``3@24``, and of offsets that hold no record with their causes, such as
        ``3@17-18=a transaction``.
    :param by: who says it.
    :param metadata_topic_id: the id of the metadata topic that was made anew, ``None`` where none is confirmed.
    """

    names: tuple[str, ...] = ()
    by: str = "unknown"
    metadata_topic_id: UUID | None = None


NOTHING_CONFIRMED = Confirmation()


class FlooredLog:
    """
    A log, and what earlier runs have read of it: a :class:`~airflow_provider_rlmm.core.log.protocol.MetadataLogReader`.

    All that is read through it raises the floor of its metadata partition, at the latest when :meth:`keep` is called.

    :param log: the log itself.
    :param store: where floors are remembered; ``None`` where that cannot be done, and nothing is.
    :param floors: the floor of each metadata partition that has one and still fits.
    :param generations: metadata partition → generation of the floors that it gets; 0 where there is none.
    :param losses: what was lost, confirmed or not.
    :param fixed: metadata partitions whose floors stay as they are.
    :param era: the era of the log, as its configuration and earlier runs show it.
    :param kept_era: the era that is remembered already.
    :param explained: offsets that hold no record and of which a person has said why.
    """

    def __init__(
        self,
        log: MetadataLogReader,
        store: FloorStore | None,
        floors: Collection[Floor] = (),
        generations: Mapping[int, int] = MappingProxyType({}),
        losses: Mapping[int, LostRecords] = NOTHING_LOST,
        fixed: Collection[int] = (),
        era: LogEra = PLAIN_ERA,
        kept_era: Era = Era.PLAIN,
        explained: Iterable[HistoryGap] = (),
    ) -> None:
        self.log = log
        self.losses = losses
        """See :class:`~airflow_provider_rlmm.core.log.protocol.MetadataLogReader`."""
        self.explained_gaps: dict[int, list[tuple[int, int]]] = {}
        """See :class:`~airflow_provider_rlmm.core.log.protocol.MetadataLogReader`."""
        for gap in explained:
            self.explained_gaps.setdefault(gap.metadata_partition, []).append((gap.start, gap.end))
        self.era = era
        """The era of the log; keys that are read raise it."""
        self._kept_era = kept_era
        self._store = store
        self._generations = generations
        self._fixed = frozenset(fixed) | {number for number, lost in losses.items() if lost.is_open}
        self._tails = {f.metadata_partition: LogTail(f.metadata_partition, f.records) for f in floors}
        self._kept = {f.metadata_partition: f.end for f in floors}
        self._begun: set[int] = set()

    @classmethod
    def open(
        cls,
        log: MetadataLogReader,
        store: FloorStore,
        *,
        dry_run: bool,
        confirmation: Confirmation = NOTHING_CONFIRMED,
        clock: Callable[[], int],
        sleep: Callable[[float], object] = time.sleep,
    ) -> Self:
        """
        Compare a log with what earlier runs have read of it.

        :param log: the log.
        :param store: where floors are remembered.
        :param dry_run: whether nothing will be changed: then what cannot be read or written is said, and a confirmation is
            not recorded.
        :param confirmation: which losses a person has confirmed.
        :param clock: time.
        :param sleep: waits for seconds, while the log may be catching up.
        :raises FloorError: if what was read before is not known, and the run is for real.
        :raises LogBehindError: if the log ends below what was read of it, and is growing.
        :raises LostRecordsError: if the confirmation names what is not lost.
        :raises ConfigurationError: if it can name nothing that is.
        :raises EventLogAccessError: if its configuration may not be described, and the run is for real.
        :raises EventLogError: if the log cannot be read.
        """
        topic_id, now = log.topic_id, _era_of(log, dry_run=dry_run)
        try:
            confirmed, floors = store.confirmed(topic_id), store.floors(topic_id)
            before, explained = store.era(topic_id), store.explained(topic_id)
        except FloorError as e:
            if not dry_run:
                raise
            logger.warning("what earlier runs have read of the metadata topic is not known, nothing is compared: %s", e)
            return cls(log, None, era=now)
        era = now.or_later(before)
        if era.era is not Era.PLAIN:
            logger.warning("the metadata topic is %s: a real run would write nothing", era)
        lost = _lost(log, floors, sleep, may_lack=era.era is not Era.PLAIN)
        known = {loss.metadata_partition: loss for loss in confirmed}
        said = _required(confirmation, lost, known)
        generations = {number: loss.generation + 1 for number, loss in known.items()}
        for loss in said:
            number = loss.metadata_partition
            word = ConfirmedLoss(
                topic_id, number, generations.get(number, 0), loss.read_until, loss.end, clock(), confirmation.by
            )
            if dry_run:
                logger.warning("%s. A real run would record the confirmation", loss.why)
            else:
                store.confirm(word)
                logger.warning("confirmed by %s: %s", confirmation.by, loss.why)
            known[number], generations[number] = word, word.generation + 1
            del lost[number]
        losses = {number: loss.as_lost() for number, loss in known.items()} | lost
        for loss in lost.values():
            logger.error("%s. What to do: %s", loss.why, loss.what_to_do)
        gone = lost.keys() | {loss.metadata_partition for loss in said}
        # What was only said raises no floor: the old one still counts.
        fixed = [loss.metadata_partition for loss in said] if dry_run else []
        floors = [f for f in floors if f.metadata_partition not in gone]
        for said_gap in _explained_now(log, confirmation, clock):
            if dry_run:
                logger.warning("%s. A real run would record this", said_gap)
            elif said_gap.gap not in explained:
                store.explain(said_gap)
                logger.warning("%s", said_gap)
            explained.append(said_gap.gap)
        return cls(log, store, floors, generations, losses, fixed, era, before.era, explained)

    @property
    def partition_count(self) -> int:
        """See :class:`~airflow_provider_rlmm.core.log.protocol.MetadataLogReader`."""
        return self.log.partition_count

    @property
    def topic_id(self) -> UUID:
        """See :class:`~airflow_provider_rlmm.core.log.protocol.MetadataLogReader`."""
        return self.log.topic_id

    def cleanup_policy(self) -> frozenset[str]:
        """See :class:`~airflow_provider_rlmm.core.log.protocol.MetadataTopic`."""
        return self.log.cleanup_policy()

    def read(self, metadata_partition: int, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """See :class:`~airflow_provider_rlmm.core.log.protocol.MetadataLogReader`."""
        batches = self.log.read(metadata_partition, start, end)
        return (self._noted(metadata_partition, start, batch) for batch in batches)

    def read_many(self, ranges: Mapping[int, tuple[int, int]]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """See :class:`~airflow_provider_rlmm.core.log.protocol.MetadataLogReader`."""
        found = self.log.read_many(ranges)
        return ((number, self._noted(number, ranges[number][0], batch)) for number, batch in found)

    def subscribe(self, assignment: Mapping[int, int]) -> tuple[EventStream, SubscriptionHandle]:
        """See :class:`~airflow_provider_rlmm.core.log.protocol.MetadataLogReader`; what is followed raises no floor."""
        return self.log.subscribe(assignment)

    def beginning_offsets(self) -> Mapping[int, int]:
        """See :class:`~airflow_provider_rlmm.core.log.protocol.MetadataLogReader`."""
        return self.log.beginning_offsets()

    def high_water_marks(self) -> Mapping[int, int]:
        """See :class:`~airflow_provider_rlmm.core.log.protocol.MetadataLogReader`."""
        return self.log.high_water_marks()

    def _noted(self, number: int, start: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Compare a batch with what is remembered of the same offsets, and remember its last records and its keys."""
        if self.era.era is Era.PLAIN:
            self.era = self.era.or_later(era_of_records(number, batch))
        if not batch.num_rows or number in self._fixed:
            return batch
        offsets = batch.column("offset")
        tail, begin, last = self._tails.get(number), offsets[0].as_py(), offsets[-1].as_py()
        if tail is not None and tail.records and start <= tail.records[-1][0]:
            remembered = tail.records
            first, end = remembered[0][0], remembered[-1][0] + 1
            if begin < end and last >= first:
                _require_same(number, remembered, batch, may_lack=self.era.era is not Era.PLAIN)
            if last < end:
                return batch
            fresh = batch if begin >= end else _between(batch, end, last + 1)
        else:
            if tail is None or not tail.records or start > tail.records[-1][0] + 1:
                # Records that were not read lie between: what is remembered has to be a whole range.
                tail = self._tails[number] = LogTail(number)
            fresh = batch
        tail.note(fresh)
        return batch

    def keep(self, *, all_of_it: bool = False) -> None:
        """
        Remember what was read, if this was not done yet.

        :param all_of_it: also what was read since it was done first: at the end of a run.
        :raises FloorError: if that cannot be done.
        """
        if self._store is None:
            return
        if self.era.era > self._kept_era:
            self._store.keep_era(self.topic_id, self.era)
            self._kept_era = self.era.era
        for number, tail in self._tails.items():
            if not tail.records or (number in self._begun and not all_of_it):
                continue
            floor = Floor(self.topic_id, number, self._generations.get(number, 0), tail.records)
            if floor.end > self._kept.get(number, 0):
                self._store.keep(floor)
                self._kept[number] = floor.end
            self._begun.add(number)

    def require_unbroken(self, metadata_partitions: Collection[int]) -> None:
        """
        Refuse to change anything in metadata partitions that have lost records, unless a person has confirmed it.

        :raises LostRecordsError: naming the first of them, and what to do.
        """
        for number in sorted(metadata_partitions):
            lost = self.losses.get(number)
            if lost is not None and lost.is_open:
                raise LostRecordsError(f"{lost.why}: nothing is done there. What to do: {lost.what_to_do}")


def _era_of(log: MetadataLogReader, *, dry_run: bool) -> LogEra:
    """Return the era that the configuration of the topic shows."""
    try:
        return era_of_policy(log.cleanup_policy())
    except EventLogAccessError as e:
        if not dry_run:
            raise
        logger.warning("whether the metadata topic may be compacted is not known, a real run would end here: %s", e)
        return not_known(e)


def _lost(
    log: MetadataLogReader, floors: Sequence[Floor], sleep: Callable[[float], object], *, may_lack: bool
) -> dict[int, LostRecords]:
    """
    Return the metadata partitions that do not hold what was read of them. Where a log cleaner may have taken the newest
    record it is not known whether they do, and that counts as a loss.
    """
    if not floors:
        return {}
    begins, ends = log.beginning_offsets(), _ends(log, floors, sleep)
    # Where the log begins behind a floor nothing can be compared: that is a lost beginning, and said as such.
    ranges: dict[int, tuple[int, int]] = {}
    for floor in floors:
        number = floor.metadata_partition
        start, end = max(floor.first, begins[number]), min(floor.end, ends[number])
        known = ranges.get(number, (start, end))
        ranges[number] = (min(start, known[0]), max(end, known[1]))
    held: dict[int, dict[int, bytes]] = {number: {} for number in ranges}
    for number, batch in log.read_many({n: (s, e) for n, (s, e) in ranges.items() if s < e}):
        held[number].update(digests(batch))
    lost = {}
    for floor in floors:
        number = floor.metadata_partition
        there = sorted((o, d) for o, d in held[number].items() if o >= floor.first and o < floor.end)
        remembered = [(o, d) for o, d in floor.records if o >= begins[number] and o < ends[number]]
        if ends[number] < floor.end or not is_same_tail(remembered, there, lambda: may_lack):
            lost[number] = LostRecords(number, floor.end, ends[number])
    return lost


def _ends(log: MetadataLogReader, floors: Sequence[Floor], sleep: Callable[[float], object]) -> Mapping[int, int]:
    """Return where the metadata partitions end, once those that may be catching up had their time."""
    first = ends = log.high_water_marks()
    waited = 0.0
    while (behind := [f for f in floors if ends[f.metadata_partition] < f.end]) and waited < CATCH_UP_S:
        if not waited:
            logger.warning(
                "metadata partitions %s end before what an earlier run has read of them: asking again for %.0f s",
                sorted({f.metadata_partition for f in behind}),
                CATCH_UP_S,
            )
        sleep(_ASK_AGAIN_S)
        waited += _ASK_AGAIN_S
        ends = log.high_water_marks()
    for floor in behind:
        number = floor.metadata_partition
        if ends[number] != first[number]:
            raise LogBehindError(
                f"metadata partition {number} was read up to offset {floor.end} by an earlier run; it ends at offset "
                f"{ends[number]}, and ended at {first[number]} {waited:.0f} s ago: it is still catching up; try again"
            )
    return ends


def _required(
    confirmation: Confirmation, lost: Mapping[int, LostRecords], known: Mapping[int, ConfirmedLoss]
) -> list[LostRecords]:
    """Return the losses that are confirmed now; what was confirmed by the same name before needs nothing more."""
    by_name = {loss.name: loss for loss in lost.values()}
    before = {loss.as_lost().name for loss in known.values()}
    found = []
    for name in lost_records_named("confirm_lost_records", confirmation.names):
        if explained_gap(name) is not None:
            continue
        if name in by_name:
            found.append(by_name[name])
        elif name not in before:
            right = (
                ", ".join(sorted(by_name))
                or "nothing: no metadata partition has lost what earlier runs have read of it"
            )
            raise LostRecordsError(f"{name} names no records that are lost and not confirmed; it would be {right}")
    return found


def _explained_now(
    log: MetadataLogReader, confirmation: Confirmation, clock: Callable[[], int]
) -> Iterator[ExplainedGap]:
    """Yield what a person says now of offsets that hold no record; refuse what is said of others."""
    for gap, cause in filter(None, map(explained_gap, confirmation.names)):
        number = gap.metadata_partition
        begin, end = (offsets.get(number, 0) for offsets in (log.beginning_offsets(), log.high_water_marks()))
        if not begin <= gap.start < gap.end <= end:
            raise LostRecordsError(f"{gap.name}: metadata partition {number} has offsets {begin} to {end - 1}")
        for batch in log.read(number, gap.start, gap.end):
            offset = batch.column("offset")[0].as_py()
            raise LostRecordsError(f"{gap.name}: offset {offset} holds a record, so nothing is missing there")
        yield ExplainedGap(log.topic_id, gap, cause, clock(), confirmation.by)


def _between(batch: pa.RecordBatch, start: int, end: int) -> pa.RecordBatch:
    import pyarrow.compute as pc

    offsets = batch.column("offset")
    return batch.filter(pc.and_(at_least(offsets, start), pc.invert(at_least(offsets, end))))


def _require_same(
    number: int, remembered: Sequence[tuple[int, bytes]], batch: pa.RecordBatch, *, may_lack: bool
) -> None:
    """Refuse a batch that has other records at the offsets that are remembered, but for what a log cleaner may have taken."""
    first, last = batch.column("offset")[0].as_py(), batch.column("offset")[-1].as_py()
    expected = [(o, d) for o, d in remembered if first <= o <= last]
    there = digests(_between(batch, remembered[0][0], remembered[-1][0] + 1))
    if not is_same_tail(expected, there, lambda: may_lack):
        raise LogReplacedError(
            f"metadata partition {number}: offsets {remembered[0][0]} to {remembered[-1][0]} hold other records than when "
            "they were read before: the log lost its end and has grown again; nothing more is done on this metadata "
            "partition in this run"
        )
