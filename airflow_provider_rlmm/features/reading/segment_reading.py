# SPDX-License-Identifier: Apache-2.0
"""
Reads the record batches of one remote log segment, part by part, and believes none that does not fit.

The checksum of a batch covers neither its first offset nor its leader epoch, and nothing covers an index. So offsets have to
ascend within the range of the segment, leader epochs have to be the lineage's, and reading begins where an index says only if
the batches there are those that it names. A batch behind a gap in the offsets (a topic that once was compacted has some) is
held back until the batch after it is seen: a first offset that was damaged upwards would overlap that one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from airflow_provider_rlmm.core.base.errors import (
    DamagedObjectError,
    RecordsTooLargeError,
    UnsupportedMessageFormatError,
)
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata
from airflow_provider_rlmm.core.segments.indexes.offset_index import OffsetIndex
from airflow_provider_rlmm.core.segments.lineage import LeaderEpochCheckpoint
from airflow_provider_rlmm.core.segments.record_batches.batch_sizes import size_of_first_batch
from airflow_provider_rlmm.core.segments.record_batches.headers import BatchHeaders
from airflow_provider_rlmm.features.reading.fetching import SegmentFetcher
from airflow_provider_rlmm.features.reading.read_ahead import LogPart, ReadAhead


class IndexDisagreesError(DamagedObjectError):
    """Raised when what lies where an index says is not what it says: one of them is damaged, or of another segment."""


@dataclass(frozen=True, slots=True)
class ChunkSizes:
    """How much is fetched at once."""

    first_bytes: int  # by the first request: many reads want a few records only
    chunk_bytes: int  # by every request in the end
    most_bytes: int  # of a single record batch: what has more is refused before it is fetched
    # Whether the log has to reach the end of the range: where no record confirms what the metadata say of its last offset.
    to_the_end: bool = False


@dataclass(frozen=True, slots=True)
class SegmentPart:
    """Some record batches of a segment, whose checksums are right."""

    data: bytes  # the batches, and what follows them
    headers: BatchHeaders  # their headers


def _nothing() -> None: ...


class SegmentReading:
    """
    One pass over a segment.

    :param fetcher: fetches.
    :param metadata: the segment.
    :param lineage: the leader epochs that its batches were written in.
    :param sizes: how much is fetched at once.
    :param ahead: fetches each next part ahead; ``None`` where nothing is.
    :param at_the_end: called once no more is likely to be fetched.
    """

    def __init__(
        self,
        fetcher: SegmentFetcher,
        metadata: RemoteLogSegmentMetadata,
        lineage: LeaderEpochCheckpoint,
        sizes: ChunkSizes,
        ahead: ReadAhead | None = None,
        at_the_end: Callable[[], object] = _nothing,
    ) -> None:
        self._fetcher = fetcher
        self._metadata = metadata
        self._sizes = sizes
        self._ahead = ahead
        self._at_the_end = at_the_end
        self._location = fetcher.location(metadata)
        self._epochs = np.array([epoch for epoch, _ in lineage.entries], np.int64)
        self._epoch_starts = np.array([start for _, start in lineage.entries], np.int64)

    def parts(self, index: OffsetIndex, start_offset: int, end_offset: int) -> Iterator[SegmentPart]:
        """
        Yield the batches that may hold offsets of a range, and perhaps some before and after.

        :param index: the segment's.
        :param start_offset: first wanted offset, inclusive.
        :param end_offset: last wanted offset, exclusive; all of it in leader epochs that segment and lineage share.
        :raises DamagedObjectError: if the log or the index cannot be what a broker has written.
        :raises UnsupportedMessageFormatError: if a batch is older than message format v2.
        :raises RecordsTooLargeError: if a batch is larger than the settings allow.
        :raises StorageError: if the log is missing, or the storage refuses, or does not answer in time.
        """
        begin = index.lookup(start_offset)
        likely_end = self._position_behind(index, end_offset)
        before = self._metadata.start_offset - 1
        last_offset = None if begin else before
        try:
            for part in self._walk(begin, likely_end, last_offset):
                headers = part.headers
                headers.verify_checksums(part.data)
                self._require_offsets(headers, before if last_offset is None else last_offset, end_offset)
                if begin:
                    self._require_entry(index, begin, headers, first=last_offset is None)
                last_offset = int(headers.last_offset[-1])
                yield part
                if last_offset >= end_offset - 1:
                    self._end()
                    return
            if self._sizes.to_the_end:
                reached = before if last_offset is None else last_offset
                raise self._damaged(
                    self._metadata.segment_size_in_bytes,
                    f"its last batch ends in offset {reached}, and it is said to hold offset {end_offset - 1}",
                )
        except (DamagedObjectError, UnsupportedMessageFormatError, RecordsTooLargeError) as e:
            if begin and last_offset is None:
                raise IndexDisagreesError(f"{e}; the offset index led there", self._location, begin) from e
            raise

    def _walk(self, begin: int, likely_end: int, last_offset: int | None) -> Iterator[SegmentPart]:
        """Yield the batches from a position on, without a look at what they are; the last offset before it may be known."""
        size, at = self._metadata.segment_size_in_bytes, begin
        wanted, rest = self._sizes.first_bytes, b""
        while at + len(rest) < size:
            fetched = at + len(rest)
            end = max(self._end_of_part(fetched, likely_end, wanted), min(size, fetched + self._missing(rest, at)))
            data = rest + self._fetched(fetched, end)
            wanted = min(2 * wanted, self._sizes.chunk_bytes)
            # Many reads want a few records only: not before the caller has come back for more.
            at_once = self._ahead is not None and self._ahead.has_begun
            if at_once:
                self._fetch_ahead(end, likely_end, wanted)
            headers, consumed = BatchHeaders.find(data, location=self._location, position=at)
            if end == size:
                if consumed != len(data):
                    raise self._damaged(at + consumed, "its last batch is cut")
            elif len(headers) and _follows_a_gap(headers, last_offset):
                headers, consumed = headers[:-1], int(headers.position[-1])
            if len(headers):
                last_offset = int(headers.last_offset[-1])
                yield SegmentPart(data, headers)
            if not at_once:
                self._fetch_ahead(end, likely_end, wanted)
            at, rest = at + consumed, data[consumed:]

    def first_part(self, index: OffsetIndex, start_offset: int, end_offset: int) -> LogPart:
        """
        Fetch what :meth:`parts` begins with.

        :param index: the segment's.
        :param start_offset: first wanted offset, inclusive.
        :param end_offset: last wanted offset, exclusive.
        :raises StorageError: if the log is missing, or the storage refuses, or does not answer in time.
        """
        begin = index.lookup(start_offset)
        end = self._end_of_part(begin, self._position_behind(index, end_offset), self._sizes.first_bytes)
        return LogPart(begin, self._fetcher.log(self._metadata, begin, end))

    def _end_of_part(self, begin: int, likely_end: int, wanted: int) -> int:
        # Up to where the range ends, but some bytes at least: a batch begins before it is known how long it is.
        behind = max(likely_end - begin, 0) or wanted
        return min(self._metadata.segment_size_in_bytes, begin + min(wanted, behind))

    def _fetched(self, begin: int, end: int) -> bytes:
        """Return some bytes of the log, those that were fetched ahead among them."""
        part = None if self._ahead is None else self._ahead.take(self._metadata, begin)
        if part is None:
            return self._fetcher.log(self._metadata, begin, end)
        reached = begin + len(part.data)
        # The rest of a batch that is larger than a part.
        return part.data if reached >= end else part.data + self._fetcher.log(self._metadata, reached, end)

    def _fetch_ahead(self, begin: int, likely_end: int, wanted: int) -> None:
        """Fetch what is likely to be wanted next, of this segment or behind it."""
        if self._ahead is None:
            return
        if begin >= min(likely_end, self._metadata.segment_size_in_bytes):
            self._end()
            return
        end, log, metadata = self._end_of_part(begin, likely_end, wanted), self._fetcher.log, self._metadata
        self._ahead.begin(metadata, lambda: LogPart(begin, log(metadata, begin, end)))

    def _end(self) -> None:
        """Say once that nothing more of this segment is likely to be fetched."""
        at_the_end, self._at_the_end = self._at_the_end, _nothing
        at_the_end()

    def _missing(self, rest: bytes, at: int) -> int:
        """Return how many bytes more the batch needs that has begun, 0 where that is not known."""
        size = size_of_first_batch(rest, location=self._location, position=at)
        if size is None:
            return 0
        if at + size > self._metadata.segment_size_in_bytes:
            raise self._damaged(at, f"a batch of {size} bytes reaches beyond its end")
        if size > self._sizes.most_bytes:
            raise RecordsTooLargeError(
                f"{self._location}: the batch at byte {at} has {size:,} bytes, and {self._sizes.most_bytes:,} are allowed: "
                "raise max_decompressed_bytes"
            )
        return max(size - len(rest), 0)

    def _position_behind(self, index: OffsetIndex, end_offset: int) -> int:
        """Return a position up to which all of a range is likely to lie."""
        # The batch of the first entry at or above the end may hold the last wanted record.
        entry = int(np.searchsorted(index.relative_offset, end_offset - index.base_offset)) + 1
        return int(index.position[entry]) if entry < len(index) else self._metadata.segment_size_in_bytes

    def _require_entry(self, index: OffsetIndex, begin: int, headers: BatchHeaders, *, first: bool) -> None:
        """Compare the batches with the entry that led to them: it names the last offset of one of those that begin there."""
        offset = index.base_offset + int(index.relative_offset[np.searchsorted(index.position, begin)])
        named = (headers.base_offset <= offset) & (offset <= headers.last_offset)
        if (first and headers.base_offset[0] > offset) or (headers.last_offset[named] != offset).any():
            raise IndexDisagreesError(
                f"{self._location} and its offset index disagree at byte {begin}: a batch that ends in offset {offset} lies "
                f"there or behind, says the index, and the batches from {headers.base_offset[0]} on say otherwise",
                self._location,
                begin,
            )

    def _require_offsets(self, headers: BatchHeaders, last_offset: int, end_offset: int) -> None:
        """Compare offsets and leader epochs with what the metadata and the lineage say."""
        metadata, base_offset = self._metadata, headers.base_offset
        # Within a part they ascend.
        self._require(
            headers,
            base_offset > last_offset,
            f"its first offset is not above {last_offset}, where what is before ends",
        )
        known = headers.last_offset <= metadata.end_offset
        self._require(headers, known, f"its last offset is above {metadata.end_offset}, where the segment ends")
        entry = np.searchsorted(self._epoch_starts, base_offset, side="right") - 1
        epoch = self._epochs[np.maximum(entry, 0)]
        # Before the lineage begins it is not known; behind the range the leaders may be others.
        same = (epoch == headers.leader_epoch) | (entry < 0) | (base_offset >= end_offset)
        self._require(headers, same, "its leader epoch is not the one in which the lineage has its offset")

    def _require(self, headers: BatchHeaders, ok: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], why: str) -> None:
        if not ok.all():
            row = int(np.argmin(ok))
            raise headers.damaged(
                int(headers.position[row]),
                f"{why}: offsets {headers.base_offset[row]} to {headers.last_offset[row]}, leader epoch "
                f"{headers.leader_epoch[row]}",
            )

    def _damaged(self, position: int, why: str) -> DamagedObjectError:
        return DamagedObjectError(f"{self._location} is damaged at byte {position}: {why}", self._location, position)


def _follows_a_gap(headers: BatchHeaders, last_offset: int | None) -> bool:
    """Tell whether the last batch does not begin right behind the one before it, as far as that is known."""
    before = int(headers.last_offset[-2]) if len(headers) > 1 else last_offset
    return before is not None and int(headers.base_offset[-1]) != before + 1
