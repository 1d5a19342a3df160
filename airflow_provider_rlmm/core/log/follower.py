# SPDX-License-Identifier: Apache-2.0
"""
Following the metadata log: the loop of everybody who keeps something current by it.

From where, up to which watermark, what records mean that are gone, whether it is still the same log, when a record counts as
read: each of these questions has its answer here, and what differs between those who follow is said by them in a word
(:class:`Lost`). What runs before this one have read is compared underneath
(:class:`~airflow_provider_rlmm.core.log.floored_log.FlooredLog`).
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.arrow_arrays import array_of
from airflow_provider_rlmm.core.base.errors import EventLogUnavailableError, OffsetOutOfRangeError, TopicInDoubtError
from airflow_provider_rlmm.core.log.event_decoding import decode_records
from airflow_provider_rlmm.core.log.log_tail import LogTail, Tie
from airflow_provider_rlmm.core.log.protocol import MetadataLogReader
from airflow_provider_rlmm.core.records.era import Era
from airflow_provider_rlmm.core.records.lost_records import HistoryGap, holes_of, lost_beginning

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)

ONE_BATCH = 1
"""Rows of a chunk that ends with each batch of the log."""


class Lost(Enum):
    """What it means to a follower that the log does not hold what was to be read."""

    REFUSED = "refused"
    """The log says so by an error, whenever that is: the follower begins where the log does, or at what was read before."""

    RECORDED = "recorded"
    """
    Before the first record it is a gap, which is kept beside what is known. Later it is an error; a log that only ends too
    early may be catching up, and can be read again.
    """

    SKIPPED = "skipped"
    """It is passed over, with a warning: for those who wait for news and conclude nothing."""


@dataclass(slots=True)
class Chunk:
    """Records of some metadata partitions that were not read before, and the offsets at which these go on."""

    # metadata partition → offset at which it goes on, inclusive
    next_offsets: dict[int, int] = field(default_factory=dict)
    # (metadata partition, batch), in the order of the offsets within each partition
    batches: list[tuple[int, pa.RecordBatch]] = field(default_factory=list)
    counts: dict[int, int] = field(default_factory=dict)  # metadata partition → number of records
    gaps: tuple[HistoryGap, ...] = ()  # what was gone before it could be read, where that is recorded
    holes: tuple[HistoryGap, ...] = ()  # offsets that hold no record, and had records before them

    @property
    def rows(self) -> int:
        """Number of records."""
        return sum(self.counts.values())

    def add(self, metadata_partition: int, batch: pa.RecordBatch) -> None:
        """
        Add a batch.

        :param metadata_partition: where all of it lies.
        :param batch: not empty.
        """
        self.batches.append((metadata_partition, batch))
        self.counts[metadata_partition] = self.counts.get(metadata_partition, 0) + batch.num_rows
        self.next_offsets[metadata_partition] = batch.column("offset")[-1].as_py() + 1

    def decode(self, partition_count: int) -> Any:
        """
        Return all records as columns, see :func:`~airflow_provider_rlmm.core.log.event_decoding.decode_records`.

        :param partition_count: number of metadata partitions of the topic.
        """
        if len(self.batches) == 1:
            ((metadata_partition, batch),) = self.batches
            return decode_records(batch, metadata_partition, partition_count)
        import numpy as np
        import pyarrow as pa

        records = pa.Table.from_batches([batch for _, batch in self.batches])
        partitions = [np.full(batch.num_rows, number, dtype=np.int32) for number, batch in self.batches]
        return decode_records(records, array_of(np.concatenate(partitions)), partition_count)


@dataclass(frozen=True, slots=True)
class ReadSoFar:
    """What was read of metadata partitions, from where they begin: another follower goes on from there."""

    positions: Mapping[int, int]  # metadata partition → first offset that was not read, inclusive
    tails: Mapping[int, Sequence[tuple[int, bytes]]]  # see LogFollower
    holes: tuple[HistoryGap, ...]  # see LogFollower


class LogFollower:
    """
    Reads metadata partitions on, each time up to the high watermarks of that moment.

    What counts as read is what was taken (:meth:`take`): until then nothing has moved, so what is kept by the records
    and the positions belong together, after an error too.

    :param log: the log.
    :param positions: metadata partition → first offset that was not read yet, inclusive; no other is read.
    :param lost: what it means that the log does not hold what was to be read.
    :param tails: metadata partition → the last records below its position, as :attr:`LogTail.records` gives them: the log is
        read on only where they are the same.
    :param gaps: what is known to be missing below the positions, at the beginning of the log.
    :param holes: offsets below the positions that held no record.
    """

    def __init__(
        self,
        log: MetadataLogReader,
        positions: Mapping[int, int],
        *,
        lost: Lost = Lost.REFUSED,
        tails: Mapping[int, Sequence[tuple[int, bytes]]] = MappingProxyType({}),
        gaps: tuple[HistoryGap, ...] = (),
        holes: tuple[HistoryGap, ...] = (),
    ) -> None:
        self._log = log
        self._lost = lost
        self.positions = dict(positions)
        """Metadata partition → first offset that was not taken yet, inclusive."""
        self.tails = {number: LogTail(number, tails.get(number, ())) for number in positions}
        """Metadata partition → the last records that were taken."""
        self.gaps = gaps
        """What was gone before it could be read."""
        self.holes = holes
        """
        Offsets that held no record and had records before them, explained or not. No client can tell the marker of a
        transaction from a record that was removed.
        """
        self._begins: Mapping[int, int] = self.positions.copy()
        self._otherwise: str | None = None
        self._or_compacted = False
        self._marks: Mapping[int, int] = {}

    @classmethod
    def from_beginning(
        cls, log: MetadataLogReader, metadata_partitions: Collection[int], read: ReadSoFar | None = None
    ) -> Self:
        """
        Follow metadata partitions from where they begin as of now; a beginning that is lost later is refused.

        :param log: the log.
        :param metadata_partitions: which ones.
        :param read: what another reader has read of them, ``None`` where nothing was.
        """
        begins = log.beginning_offsets()
        begins = {number: begins[number] for number in metadata_partitions}
        if read is None:
            return cls(log, begins)
        holes = tuple(hole for hole in read.holes if hole.metadata_partition in begins)
        follower = cls(log, {number: read.positions[number] for number in begins}, tails=read.tails, holes=holes)
        follower._begins = begins
        return follower

    def read_so_far(self) -> ReadSoFar:
        """Return what was taken, for a follower that goes on from there."""
        return ReadSoFar(
            dict(self.positions), {number: tail.records for number, tail in self.tails.items()}, self.holes
        )

    def require_whole(self, otherwise: str, *, or_compacted: bool = False) -> None:
        """
        Refuse to follow what has lost records, before anything is read.

        :param otherwise: what would come of it, and what to do.
        :param or_compacted: whether a compacted log is followed all the same: the caller then says that not all of it is
            known.
        :raises TopicInDoubtError: naming the first metadata partition that has, and why. Who follows on is told so of records
            that are missing further on as well.
        """
        self._otherwise, self._or_compacted = otherwise, or_compacted
        self._require_all_kept()
        for number, begin in self._begins.items():
            if (lost := lost_beginning(number, begin, self._log.losses.get(number))) is not None:
                raise TopicInDoubtError(f"{lost.why}; {otherwise}{lost.advice}")

    def _require_all_kept(self) -> None:
        if self._or_compacted:
            return
        if self._otherwise is not None and (era := self._log.era).era is Era.COMPACTED:
            raise TopicInDoubtError(
                f"records may be gone from anywhere, as the metadata topic is {era}; {self._otherwise}"
            )

    def open_holes(self) -> tuple[HistoryGap, ...]:
        """Return the offsets that held no record and had records before them, and of which no person has said why."""
        said = self._log.explained_gaps
        found = tuple(h for h in self.holes if not any(h.within(*gap) for gap in said.get(h.metadata_partition, ())))
        # Where the log is compacted every offset may be missing: that is said of the whole log.
        return () if found and self._log.era.era is Era.COMPACTED else found

    def advance(self, apply: Callable[[Any], object], most: int = sys.maxsize) -> None:
        """
        Read on, up to the high watermarks as of now.

        :param apply: takes a batch of one metadata partition, as columns; where it raises, that batch is read again by the
            next call.
        :param most: most offsets to read, the sum over all metadata partitions.
        :raises EventLogUnavailableError: if the log could not be read whole; the next call goes on where this one stopped.
        :raises OffsetOutOfRangeError: if the log has lost records since it was read.
        :raises LogReplacedError: if it is not the log that was read before.
        """
        for chunk in self.chunks(self.ends(most=most), ONE_BATCH):
            if chunk.batches:
                apply(chunk.decode(self._log.partition_count))
            self.take(chunk)

    def ends(self, only: Collection[int] | None = None, most: int = sys.maxsize) -> dict[int, int]:
        """
        Return up to where to read: the high watermarks as of now, as what is above them is not durable yet.

        One that is smaller than what was read is never taken over.

        :param only: these metadata partitions, ``None`` for all that are followed.
        :param most: most offsets to read, the sum over all of them.
        :return: metadata partition → offset, exclusive.
        :raises EventLogUnavailableError: if a log ends before what was read, where it may be read again.
        """
        self._marks = self._log.high_water_marks()
        ends: dict[int, int] = {}
        for number in self.positions:
            if only is None or number in only:
                end = self._end_of(number)
                ends[number] = min(end, self.positions[number] + most)
                most -= ends[number] - self.positions[number]
        return ends

    def _end_of(self, number: int) -> int:
        position, mark = self.positions[number], self._marks[number]
        if mark < position and self._lost is Lost.RECORDED:
            raise EventLogUnavailableError(
                f"metadata partition {number}: its high watermark is {mark}, and "
                f"{number_of(position, 'record was', 'records were')} read already: it "
                "is still catching up, or has lost records and must be replayed anew"
            )
        if mark < position and self._lost is Lost.SKIPPED:
            self._skip(number, "its high watermark is lower")
            return mark
        # Where that is refused the log itself does it: it is asked for what it has lost.
        return max(position, mark)

    def _skip(self, number: int, why: str) -> None:
        logger.warning(
            "metadata partition %d cannot be followed from offset %d on, it is followed from %d on: %s",
            number, self.positions[number], self._marks[number], why,
        )  # fmt: skip
        self.positions[number] = self._marks[number]

    def chunks(self, ends: Mapping[int, int], rows: int) -> Iterator[Chunk]:
        """
        Yield what is to be read, in chunks that may hold several metadata partitions; the last one may hold no record.

        Each has to be taken (:meth:`take`) before the next one is asked for.

        :param ends: as :meth:`ends` returned them.
        :param rows: how many records end a chunk, which is made of whole batches.
        :raises EventLogError: as :meth:`advance`.
        """
        chunk = Chunk()
        for metadata_partition, batch in self.read_on(ends):
            chunk.add(metadata_partition, batch)
            if chunk.rows >= rows:
                self._note_missing(chunk)
                yield chunk
                chunk = Chunk()
        # Not every offset holds a record, the last ones neither.
        chunk.next_offsets |= ends
        self._note_missing(chunk)
        yield chunk

    def take(self, chunk: Chunk) -> None:
        """
        Count a chunk as read: what it says is known by now.

        :param chunk: the last one that :meth:`chunks` yielded.
        """
        for metadata_partition, batch in chunk.batches:
            self.tails[metadata_partition].note(batch)
        self.gaps += chunk.gaps
        self.holes += chunk.holes
        self.positions |= chunk.next_offsets
        self._require_all_kept()
        if self._otherwise is not None and (holes := self.open_holes()):
            raise TopicInDoubtError(f"{holes[0].why}; {self._otherwise}. What to do: {holes[0].what_to_do}")

    def require_tails(self) -> None:
        """
        Refuse a log that does not hold the last records that were taken; nothing new is read.

        :raises OffsetOutOfRangeError: if it does not reach that far, or begins behind it.
        :raises LogReplacedError: if it holds others.
        :raises EventLogUnavailableError: if they could not be read.
        """
        for _ in self.read_on(self.positions):
            raise AssertionError("nothing lies between an offset and itself")

    def read_on(self, ends: Mapping[int, int]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """
        Yield the records that were not read before, once those right before them were seen to be the same; nothing moves.

        :param ends: metadata partition → offset, exclusive.
        :raises EventLogError: as :meth:`advance`.
        """
        ties = self._ties(ends)
        ranges = {number: (tie.start, ends[number]) for number, tie in ties.items()}
        if self._lost is not Lost.REFUSED:
            # The ends were compared; a read that has nothing to yield would only ask a broker for its offsets.
            ranges = {number: (start, end) for number, (start, end) in ranges.items() if start < end}
        try:
            for metadata_partition, batch in self._log.read_many(ranges):
                if (fresh := ties[metadata_partition].take(batch)).num_rows:
                    yield metadata_partition, fresh
        except OffsetOutOfRangeError as e:
            if self._lost is Lost.SKIPPED:
                self._skip(e.metadata_partition, str(e))
            raise
        for tie in ties.values():
            tie.close()

    def _ties(self, ends: Mapping[int, int]) -> dict[int, Tie]:
        begins = self._log.beginning_offsets() if self._lost is Lost.RECORDED else {}
        ties: dict[int, Tie] = {}
        for number, end in sorted(ends.items()):
            start, tail = self.positions[number], self.tails[number]
            if number in begins and not tail.records:
                # What was deleted before it was read becomes a gap.
                start = max(start, min(begins[number], end))
            ties[number] = tail.tie(start, self._may_lack_records)
        return ties

    def _may_lack_records(self) -> bool:
        return self._log.era.era is not Era.PLAIN

    def _note_missing(self, chunk: Chunk) -> None:
        """Note the offsets of a chunk that hold no record: what the log has lost at its beginning, and holes."""
        if self._lost is Lost.SKIPPED:
            return
        reached = [(number, self.positions[number], end) for number, end in chunk.next_offsets.items()]
        missing = [(number, s, end) for number, s, end in reached if end - s > chunk.counts.get(number, 0)]
        if not missing:
            return
        begins: Mapping[int, int] = {}
        if self._lost is Lost.RECORDED:
            begins = self._log.beginning_offsets()
            lost = [(number, s, min(begins[number], end)) for number, s, end in missing]
            chunk.gaps = tuple(HistoryGap(number, s, end) for number, s, end in lost if s < end)
        for number, start, end in missing:
            chunk.holes += holes_of(
                number, max(start, begins.get(number, start)), end, [b for n, b in chunk.batches if n == number]
            )
