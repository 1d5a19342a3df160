# SPDX-License-Identifier: Apache-2.0
"""Where restored records come from: an archive, or what a catalogue names of a bucket. Both are read by one reader."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

from airflow_provider_rlmm.core.segments.read_range import OffsetRange, ReadIsolation

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_rlmm.core.records.records import TopicIdPartition
    from airflow_provider_rlmm.core.segments.lineage import LeaderEpochCheckpoint
    from airflow_provider_rlmm.features.reading.reader import RemoteLogReader
    from airflow_provider_rlmm.features.reading.undecided import OpenTransaction, ScannedRange


@dataclass(frozen=True, slots=True)
class SourceLog:
    """
    The records of one user partition, as often as they are asked for.

    :param tip: the user partition that they are of.
    :param reader: reads them.
    :param lineage: by which they are read.
    :param ranges: which of them, without a gap in each, by offset.
    :param scanned: what each range has; none before :meth:`deciding`.
    :param keep_undecided: whether records of transactions without an end marker are restored.
    """

    tip: TopicIdPartition
    reader: RemoteLogReader
    lineage: LeaderEpochCheckpoint
    ranges: tuple[OffsetRange, ...]
    scanned: tuple[ScannedRange, ...] = ()
    keep_undecided: bool = False

    @property
    def partition(self) -> int:
        """The user partition."""
        return self.tip.partition

    @property
    def first_offset(self) -> int | None:
        """The first offset, ``None`` where there is none."""
        return self.ranges[0].start if self.ranges else None

    @property
    def end_offset(self) -> int | None:
        """The end, exclusive, ``None`` where there is none."""
        return self.ranges[-1].end if self.ranges else None

    @property
    def log_bytes(self) -> int:
        """Bytes of the logs of all segments that serve it."""
        spans = (
            span for offsets in self.ranges for span in self.reader.spans(self.tip, offsets, leader_epochs=self.lineage)
        )
        return sum(span.metadata.segment_size_in_bytes for span in spans)

    @property
    def gaps(self) -> tuple[tuple[int, int], ...]:
        """Offsets between the first and the last that the source does not hold: first and last of each gap."""
        return tuple((before.end, after.start - 1) for before, after in pairwise(self.ranges))

    def deciding(self, *, keep_undecided: bool) -> SourceLog:
        """
        Return the same, with what is decided of transactions without an end marker.

        :param keep_undecided: whether their records are restored; they count as aborted otherwise.
        :raises RlmmError: if the log cannot be read, or contradicts its producer snapshot.
        """
        scanned = tuple(self.reader.scan(self.tip, offsets, self.lineage) for offsets in self.ranges)
        return replace(self, scanned=scanned, keep_undecided=keep_undecided)

    @property
    def undecided(self) -> tuple[OpenTransaction, ...]:
        """The transactions without an end marker, by first offset."""
        return tuple(found for scanned in self.scanned for found in scanned.undecided)

    def read(self) -> Iterator[pa.RecordBatch]:
        """
        Yield the records that are restored, by offset: those of committed transactions, and all without one.

        :raises RlmmError: if they cannot be read.
        """
        from airflow_provider_rlmm.features.reading.undecided import Decided

        for offsets, found in zip(self.ranges, self.scanned, strict=True):
            yield from self.reader.read(
                self.tip, offsets.start, offsets.end, isolation=ReadIsolation.READ_COMMITTED, leader_epochs=self.lineage,
                decided=Decided(found.undecided, self.keep_undecided),
            )  # fmt: skip


class RestoreSource(Protocol):
    """A topic whose records can be restored."""

    @property
    def kind(self) -> str:
        """What it is, in a word: ``archive`` or ``catalogue``."""

    @property
    def sha256(self) -> str:
        """Of what names its files, lower-case hex: of another one it is another source."""

    @property
    def start(self) -> str:
        """From where on it is restored, in words."""

    @property
    def cluster_id(self) -> str:
        """The cluster that the records are of."""

    @property
    def topic(self) -> str:
        """Its name, as data only."""

    @property
    def missing(self) -> Sequence[str]:
        """What it lacks, each a sentence; none where it is whole."""

    @property
    def said(self) -> Sequence[str]:
        """What was decided about how it is read, and what it cannot hold, each a sentence; once it was opened."""

    def open(self) -> Sequence[SourceLog]:
        """
        Look at all of it that can be looked at before a record is read, and return it by user partition.

        :raises RlmmError: if something is not as it was written, or is not there.
        """
