# SPDX-License-Identifier: Apache-2.0
"""
The batches of a log out of any source, chunk by chunk, and on behind what is damaged.

Memory holds a chunk, or a larger batch.
Behind bytes in which no batch can be found the walk goes on where the offset index says that another one begins.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Generator, Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from airflow_provider_rlmm.core.base.errors import DamagedObjectError, UnsupportedMessageFormatError
from airflow_provider_rlmm.core.segments.proof.fields import SegmentSource
from airflow_provider_rlmm.core.segments.proof.findings import DamageKind, Finding, Report
from airflow_provider_rlmm.core.segments.record_batches.batch_sizes import HEADER_BYTES, Data, size_of_first_batch
from airflow_provider_rlmm.core.segments.record_batches.checksums import crc32c
from airflow_provider_rlmm.core.segments.record_batches.headers import BatchHeaders

Array = npt.NDArray[Any]

CHUNK_BYTES: Final = 8 << 20
"""Bytes of a log that are fetched at once."""

MOST_BATCH_BYTES: Final = 128 << 20
"""The largest batch that is believed: Kafka's default limit is 1 MiB, and what claims more would fill the memory."""

LOG: Final = "the log"

_LENGTH_AT: Final = 8
_BEFORE_LENGTH: Final = 12
_MAGIC_AT: Final = 16
_CHECKSUM_AT: Final = 17
_CHECKSUMMED_AT: Final = 21
_LENGTH: Final = struct.Struct(">i")
_CHECKSUM: Final = struct.Struct(">I")
_LEGACY: Final = (0, 1)
_BadBatch = DamagedObjectError | UnsupportedMessageFormatError


class LogWalk:
    """
    One pass over a log.

    :param source: hands out its bytes.
    :param size_in_bytes: what its metadata say; ``None`` where that is not known.
    :param positions: where batches begin, as the offset index says; ascending.
    :param report: takes what is wrong.
    :param chunk_bytes: bytes that are fetched at once.
    :param begin: where in the log the first batch begins that is looked at; not behind its end.
    """

    def __init__(
        self,
        source: SegmentSource,
        size_in_bytes: int | None,
        positions: Array,
        report: Report,
        chunk_bytes: int = CHUNK_BYTES,
        begin: int = 0,
    ) -> None:
        self._source = source
        self._begin = begin
        self._size = size_in_bytes
        self._positions = positions
        self._report = report
        self._chunk_bytes = chunk_bytes
        self.end: int | None = None
        """Size of the log, ``None`` until its end was seen."""
        self.lost_bytes = 0
        """Bytes in which no batch was found."""

    def batches(self) -> Iterator[tuple[Any, BatchHeaders | None]]:
        """
        Yield batches with the data that they lie in; ``None`` where some bytes were left out.

        :raises UnsupportedMessageFormatError: if a batch is whole and older than message format v2.
        :raises RlmmError: if the source does not answer.
        """
        at, rest = self._begin, b""
        while self.end is None or at < self.end:
            fetched = self._fetch(at, rest)
            if fetched is None:
                behind = self._next_position(at + len(rest) + self._chunk_bytes - 1)
                self._leave_out(at, behind)
                at, rest = behind, b""
                yield b"", None
                continue
            data = rest + fetched
            if not data:
                return
            consumed = yield from self._found(data, at)
            at, rest = at + consumed, data[consumed:]

    def _fetch(self, at: int, rest: bytes) -> bytes | None:
        """Return the bytes behind those that are left; ``None`` where what is packed cannot be unpacked."""
        begin = at + len(rest)
        if self.end is not None and begin >= self.end:
            return b""
        stop = begin + max(self._chunk_bytes, self._needed(rest, at) - len(rest))
        if self._size is not None and stop >= self._size:
            # A byte more than there must be tells a log that is too long.
            stop = self._size + 1
        try:
            data = self._source.log(begin, stop)
        except DamagedObjectError as e:
            self._report(Finding(kind=DamageKind.PACKING, position=begin, why=str(e)))
            return None
        if len(data) < stop - begin:
            self._end_at(begin + len(data))
        elif self._size is not None and stop > self._size:
            self._end_at(self._size, longer=True)
            data = data[:-1]
        return data

    def _end_at(self, end: int, *, longer: bool = False) -> None:
        self.end = end
        if self._size is None or (end == self._size and not longer):
            return
        seen = f"more than {end}" if longer else str(end)
        self._report(
            Finding(
                kind=DamageKind.SIZE,
                position=end,
                expected=str(self._size),
                seen=seen,
                why=f"it has {seen} bytes, and the metadata say {self._size}",
            )
        )

    def _needed(self, rest: bytes, at: int) -> int:
        """Return how many bytes the batch has that has begun; no more than can be believed."""
        try:
            size = size_of_first_batch(rest, location=LOG, position=at) or HEADER_BYTES
        except (DamagedObjectError, UnsupportedMessageFormatError):
            return 0
        return size if self._believes(at, size) else 0

    def _believes(self, at: int, size: int) -> bool:
        end = self._size if self.end is None else self.end
        return size <= MOST_BATCH_BYTES and (end is None or at + size <= end)

    def _found(self, data: bytes, at: int) -> Generator[tuple[Any, BatchHeaders | None], None, int]:
        """Yield the batches in some data; return how many bytes are done with, maybe more than there are."""
        done = 0
        while done < len(data):
            view = memoryview(data)[done:] if done else data
            headers, consumed, error = _found_before(view, at + done)
            if headers is not None and len(headers):
                yield view, headers
            done += consumed
            if error is None:
                error = self._why_cut(data[done:], at + done)
            if error is None:
                break
            step = self._report_bad(error, data, done, at)
            yield b"", None
            done += step
        return done

    def _why_cut(self, rest: bytes, at: int) -> _BadBatch | None:
        """Tell why the batch that is not whole cannot become so by what is fetched next; ``None`` where it can."""
        if not rest:
            return None
        is_last = self.end is not None and at + len(rest) >= self.end
        try:
            size = size_of_first_batch(rest, location=LOG, position=at)
        except (DamagedObjectError, UnsupportedMessageFormatError) as e:
            return e
        if is_last or (size is not None and not self._believes(at, size)):
            told = "" if size is None else f" of {size} bytes"
            return DamagedObjectError(f"the batch{told} at byte {at} is cut: the log ends before it does", LOG, at)
        return None

    def _report_bad(self, error: _BadBatch, data: bytes, done: int, at: int) -> int:
        """Report a batch and return how many bytes are left out."""
        rest = memoryview(data)[done:]
        size = _size_if_whole(rest)
        if size is None and _is_legacy(rest):
            raise error
        kind, why = DamageKind.BATCH, str(error)
        if size is not None and isinstance(error, UnsupportedMessageFormatError):
            why = f"the record batch at byte {at + done} has the magic {rest[_MAGIC_AT]}, and the checksum of magic 2"
        self._report(Finding(kind=kind, position=at + done, why=why))
        if size is None:
            size = self._next_position(at + done) - at - done
            self._leave_out(at + done, at + done + size)
        return size

    def _next_position(self, at: int) -> int:
        """Return where another batch begins behind a position, as far as the index says; else where the log ends."""
        row = int(np.searchsorted(self._positions, at, side="right"))
        if row < len(self._positions):
            return int(self._positions[row])
        if self.end is None:
            # Nothing more can be read of it.
            self.end = at if self._size is None else self._size
        return max(self.end, at + 1)

    def _leave_out(self, begin: int, end: int) -> None:
        self.lost_bytes += end - begin


def _found_before(view: Data, position: int) -> tuple[BatchHeaders | None, int, _BadBatch | None]:
    """Return the batches before the first one that is damaged, the bytes that they take, and what is wrong with that one."""
    end, error = len(view), None
    while end:
        try:
            headers, consumed = BatchHeaders.find(view[:end], location=LOG, position=position)
        except (DamagedObjectError, UnsupportedMessageFormatError) as e:
            end, error = _place_of(e, view[:end], position), e
        else:
            return headers, consumed, error
    return None, 0, error


def _place_of(error: _BadBatch, view: Data, position: int) -> int:
    """Return where the batch begins that an error is about."""
    if isinstance(error, DamagedObjectError):
        return error.position - position
    at = 0
    while (size := _size_of_v2(view[at:], position + at)) is not None:
        at += size
    return at


def _size_of_v2(view: Data, position: int) -> int | None:
    try:
        return size_of_first_batch(view, location=LOG, position=position)
    except UnsupportedMessageFormatError:
        return None


def _size_if_whole(view: memoryview) -> int | None:
    """Return the size of a batch whose length and checksum fit each other, ``None`` where they do not."""
    if len(view) < HEADER_BYTES:
        return None
    size = _LENGTH.unpack_from(view, _LENGTH_AT)[0] + _BEFORE_LENGTH
    if not HEADER_BYTES <= size <= len(view):
        return None
    (checksum,) = _CHECKSUM.unpack_from(view, _CHECKSUM_AT)
    return size if crc32c(view[_CHECKSUMMED_AT:size]) == checksum else None


def _is_legacy(view: memoryview) -> bool:
    """Tell whether a batch of message format v0 or v1 is whole (Kafka: ``LegacyRecord``)."""
    if len(view) <= _MAGIC_AT or view[_MAGIC_AT] not in _LEGACY:
        return False
    size = _LENGTH.unpack_from(view, _LENGTH_AT)[0] + _BEFORE_LENGTH
    if not _CHECKSUM_AT < size <= len(view):
        return False
    return bool(zlib.crc32(view[_MAGIC_AT:size]) == _CHECKSUM.unpack_from(view, _BEFORE_LENGTH)[0])
