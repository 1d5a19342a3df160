# SPDX-License-Identifier: Apache-2.0
"""
What the last batches of a segment's log and the ends of its indexes prove, where no manifest says it.

Nothing protects an index, and a batch's checksum covers neither its first offset nor its leader epoch. So each is believed
only where another one bears it out: the offset index leads to a batch that ends where it says, the time index names a batch
that has its time, and the checkpoint has the leader epochs of the batches that were read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from airflow_provider_rlmm.core.base.errors import (
    DamagedObjectError,
    RemoteObjectNotFoundError,
    UnsupportedMessageFormatError,
)
from airflow_provider_rlmm.core.storage.layout import Layout
from airflow_provider_rlmm.features.recovery.file_suffixes import FileSuffixes
from airflow_provider_rlmm.features.recovery.log_batches import ChangedError, batches_in
from airflow_provider_rlmm.features.recovery.rules import IndexedSegment, ListedSegment, Said, Unread
from airflow_provider_rlmm.features.recovery.segment_reads import Fetch

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.segments.indexes.time_index import TimestampOffset
    from airflow_provider_rlmm.core.segments.lineage import LeaderEpochCheckpoint
    from airflow_provider_rlmm.core.segments.record_batches.headers import BatchHeaders

MAX_CHECKPOINT_BYTES: Final = 2**20
"""The largest checkpoint that is read: more than 30,000 leader epochs."""

_OFFSET_ENTRY: Final = 8
_TIME_ENTRY: Final = 12


class Indexes:
    """
    A :class:`~airflow_provider_rlmm.features.recovery.segment_reads.Witness` of layouts with an object for each file.

    :param suffixes: which object is which file.
    """

    def __init__(self, suffixes: FileSuffixes) -> None:
        self._suffixes = suffixes

    @property
    def reads(self) -> str:
        """See :class:`~airflow_provider_rlmm.features.recovery.segment_reads.Witness`."""
        return repr(self._suffixes)

    def asks(self, listed: ListedSegment, layout: Layout) -> bool:
        """See :class:`~airflow_provider_rlmm.features.recovery.segment_reads.Witness`."""
        return listed.is_complete(layout)

    def read(self, listed: ListedSegment, fetch: Fetch) -> Said:
        """See :class:`~airflow_provider_rlmm.features.recovery.segment_reads.Witness`."""
        if len(listed.readings) != 1:
            return Unread("its keys can be read as those of several topics, and it has no manifest", damaged=False)
        (reading,) = listed.readings
        if missing := [suffix for suffix in self._suffixes.needed if suffix not in listed.sizes]:
            return Unread(f"it lacks {', '.join(missing)}, without which nothing is proved of it", damaged=True)
        assert reading.start_offset is not None  # noqa: S101 # layouts whose keys name none have no catalogue
        try:
            return self._proved(listed, reading.start_offset, fetch)
        except RemoteObjectNotFoundError as e:
            return Unread(f"an object of it was listed and is gone: {e}", damaged=False)
        except (DamagedObjectError, UnsupportedMessageFormatError) as e:
            return Unread(f"{e}; damaged, or packed or encrypted in a way that is not known here", damaged=True)
        except ChangedError as e:
            return Unread(str(e), damaged=False)

    def _proved(self, listed: ListedSegment, start: int, fetch: Fetch) -> IndexedSegment:
        from airflow_provider_rlmm.core.segments.indexes.offset_index import OffsetIndex
        from airflow_provider_rlmm.core.segments.indexes.time_index import TimeIndex
        from airflow_provider_rlmm.core.segments.lineage import LeaderEpochCheckpoint

        names, sizes = self._suffixes, listed.sizes
        key = listed.stem + names.leader_epoch
        if sizes[names.leader_epoch] > MAX_CHECKPOINT_BYTES:
            raise DamagedObjectError(f"{key} is larger than a checkpoint can be", key, MAX_CHECKPOINT_BYTES)
        checkpoint = LeaderEpochCheckpoint.parse(_to_the_end(listed, names.leader_epoch, 0, fetch), location=key)
        key = listed.stem + names.offset
        entries = OffsetIndex.parse(_last(listed, names.offset, _OFFSET_ENTRY, fetch), base_offset=start, location=key)
        key = listed.stem + names.timestamp
        times = TimeIndex.parse(_last(listed, names.timestamp, _TIME_ENTRY, fetch), base_offset=start, location=key)
        begin = int(entries.position[0]) if len(entries) else 0
        ends_in = start + int(entries.relative_offset[0]) if len(entries) else None
        end = _End(start, checkpoint, begin, ends_in, times.last() if len(times) else None)
        for headers in batches_in(listed, names.log, begin, fetch):
            end.take(headers)
        end.finish(listed.stem + names.log)
        transactions = None if names.transaction is None else sizes.get(names.transaction)
        return IndexedSegment(
            end.reaches,
            _epochs(checkpoint, start, end, listed.stem + names.leader_epoch),
            sizes[names.log],
            end.newest_ms,
            end.is_newest,
            # Where it is missing it cannot be told whether it was lost.
            None if transactions is None else transactions == 0,
        )


class _End:
    """
    The last batches of a log, from where the offset index leads to.

    :param start: first offset of the segment.
    :param checkpoint: its leader epochs.
    :param begin: where in the log the first batch begins that is read, bytes.
    :param entry: the offset in which a batch there or behind ends, as the offset index says; ``None`` without entries.
    :param newest: the last entry of the time index, ``None`` where it has none.
    """

    def __init__(
        self,
        start: int,
        checkpoint: LeaderEpochCheckpoint,
        begin: int,
        entry: int | None,
        newest: TimestampOffset | None,
    ) -> None:
        self._start = start
        self._checkpoint = checkpoint
        # Behind the beginning of a log the index says where offsets go on.
        self._is_led = begin > 0
        self._awaited = entry
        self._newest = newest
        self.reaches = start - 1
        """The last offset that is proved, inclusive: a first offset has no checksum, so the gap before it is left out."""
        self.last = start - 1
        """The last offset as the last batch says it, inclusive."""
        self.newest_ms = -1
        """The largest timestamp of the batches that were read, ms since the epoch."""
        self.is_newest = begin == 0  # all batches are read then
        """Whether that is the largest of the segment: the time index says so, and its batch bears it out."""

    def take(self, headers: BatchHeaders) -> None:
        """
        Take note of batches.

        :param headers: of batches whose checksums are right, in their order.
        :raises DamagedObjectError: if they are not what the indexes say.
        """
        for row in range(len(headers)):
            base, last, at = int(headers.base_offset[row]), int(headers.last_offset[row]), int(headers.position[row])
            if self._is_led:
                self.reaches = self.last = max(base, self._start) - 1
                self._is_led = False
            if base <= self.last:
                raise headers.damaged(at, f"it begins with offset {base}, and those before it reach to {self.last}")
            epoch = int(headers.leader_epoch[row])
            if self._checkpoint.epoch_for_offset(base) != epoch:
                raise headers.damaged(at, f"its leader epoch {epoch} is not the one that the checkpoint has at {base}")
            self._meet(headers, at, base, last)
            self._note_time(headers, at, base, last, int(headers.max_timestamp_ms[row]))
            self.reaches = last if base == self.last + 1 else self.reaches + 1 + last - base
            self.last = last

    def _meet(self, headers: BatchHeaders, at: int, base: int, last: int) -> None:
        """Compare a batch with the entry that led here: it names the last offset of one of the batches there."""
        if self._awaited is None or last < self._awaited:
            return
        if last != self._awaited:
            raise headers.damaged(
                at, f"it ends in offset {last}, and the offset index names a batch that ends in {self._awaited}"
            )
        self._awaited = None

    def _note_time(self, headers: BatchHeaders, at: int, base: int, last: int, newest_ms: int) -> None:
        self.newest_ms = max(self.newest_ms, newest_ms)
        if self._newest is not None and base <= self._newest.offset <= last:
            if newest_ms != self._newest.timestamp_ms:
                said = self._newest.timestamp_ms
                raise headers.damaged(at, f"its largest timestamp is {newest_ms}, and the time index says {said}")
            self.is_newest = True

    def finish(self, location: str) -> None:
        """
        Take note that no more batches follow.

        :param location: key of the log, for messages.
        :raises DamagedObjectError: if the indexes know more.
        """
        if self.last < self._start or self._awaited is not None:
            raise DamagedObjectError(
                f"{location} ends in offset {self.last}, before what the offset index names", location, 0
            )
        if self._newest is not None and (
            self._newest.offset > self.last or (self.newest_ms > self._newest.timestamp_ms)
        ):
            raise DamagedObjectError(
                f"{location} ends in offset {self.last} and has the timestamp {self.newest_ms}, and its time index ends with "
                f"offset {self._newest.offset} and timestamp {self._newest.timestamp_ms}",
                location,
                0,
            )


def _epochs(checkpoint: LeaderEpochCheckpoint, start: int, end: _End, location: str) -> tuple[tuple[int, int], ...]:
    """Return the leader epochs of the segment, the first of which begins with it."""
    entries = checkpoint.entries
    if entries[0][1] > start or entries[-1][1] > end.last:
        raise DamagedObjectError(
            f"{location} has leader epochs from offset {entries[0][1]} to {entries[-1][1]}, and the log has the offsets from "
            f"{start} to {end.last}",
            location,
            0,
        )
    return checkpoint.in_range(start, end.reaches + 1).entries


def _last(listed: ListedSegment, suffix: str, entry: int, fetch: Fetch) -> bytes:
    """Return the last entry of an index; nothing of one without entries."""
    size = listed.sizes[suffix]
    if size % entry:
        raise DamagedObjectError(
            f"{listed.stem}{suffix} has {size} bytes, no multiple of {entry}", listed.stem + suffix, size
        )
    return _to_the_end(listed, suffix, size - entry, fetch) if size else b""


def _to_the_end(listed: ListedSegment, suffix: str, begin: int, fetch: Fetch) -> bytes:
    """Return an object from a position on."""
    key, size = listed.stem + suffix, listed.sizes[suffix]
    data = fetch(key, begin, size)
    if len(data) != size - begin:
        raise ChangedError(f"{key} was listed with {size} bytes and read with {begin + len(data)}")
    return data
