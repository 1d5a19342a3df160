# SPDX-License-Identifier: Apache-2.0
"""
Where the batches of a log begin: each has its size in its header, so that one leads to the next.

With batches of a single record, a step in Python from one to the next costs as much as what else is done with it. So small
ones are followed in step, from many places at once where a batch seems to begin. Such a place counts only if the batches
before it lead there: what is found is what one step after the other finds, errors included.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from airflow_provider_rlmm.core.base.errors import DamagedObjectError, UnsupportedMessageFormatError
from airflow_provider_rlmm.core.records.decoding.layout import gather

Array = npt.NDArray[Any]
Data = bytes | bytearray | memoryview

HEADER_BYTES: Final = 61
"""Size of a batch's header; its records follow."""

_LENGTH_AT: Final = 8
_BEFORE_LENGTH: Final = 12  # base offset and length: what the length does not count
_LEAST_LENGTH: Final = HEADER_BYTES - _BEFORE_LENGTH
_MARK: Final = slice(12, 17)  # leader epoch and magic: in most logs all batches have them in common
_UP_TO_MAGIC: Final = 17
_MAGIC: Final = 2
_LEAST_LEGACY_BYTES: Final = 14  # what the length of a batch of format v0 is at least
_LENGTH_AND_MAGIC: Final = struct.Struct(">i4xb")
_OFFSET_AND_LENGTH: Final = struct.Struct(">qi")
_IN_STEP: Final = np.dtype([("length", ">i4"), ("leader_epoch", ">i4"), ("magic", "i1")])

_STEPS: Final = 32  # batches of the first one's size from one place to the next
_MOST_STEPS: Final = 4 * _STEPS  # where a place is far from the next one, the plain loop goes on
_LEAST_PLACES: Final = 16  # with fewer, a step costs more than the plain loop


def batch_positions(data: Data, *, location: str, position: int) -> Array:
    """
    Return where the batches in a part of a log segment begin, and the byte behind the last one that is whole.

    :param data: a part of the segment that begins where a batch begins.
    :param location: key or path of the segment, for messages.
    :param position: where in the segment ``data`` begins, in bytes.
    :raises DamagedObjectError: no batch begins where one must.
    :raises UnsupportedMessageFormatError: a batch of message format v0 or v1.
    """
    runs = _Runs(data, _likely_batches(data))
    at, last = 0, len(data) - _UP_TO_MAGIC
    single: list[int] = []
    length_and_magic = _LENGTH_AND_MAGIC.unpack_from
    while at <= last:
        if (behind := runs.follow(at)) > at:
            at = behind
            continue
        length, magic = length_and_magic(data, at + _LENGTH_AT)
        if magic != _MAGIC or length < _LEAST_LENGTH:
            _checked_size(length, magic, location, position + at)
        single.append(at)
        at += length + _BEFORE_LENGTH
    found = np.sort(np.concatenate([np.array(single, np.int64), runs.followed()]))
    # One that is cut is not among the batches, and ends what is found.
    return found if at > len(data) else np.append(found, at)


def size_of_first_batch(data: Data, *, location: str, position: int) -> int | None:
    """
    Return how many bytes a part of a segment must have for its first batch to be whole.

    :param data: a part of the segment that begins where a batch begins.
    :param location: key or path of the segment, for messages.
    :param position: where in the segment ``data`` begins, in bytes.
    :return: size in bytes, header included; nothing if ``data`` has less than the 17 bytes that tell.
    :raises DamagedObjectError: no batch begins there.
    :raises UnsupportedMessageFormatError: a batch of message format v0 or v1.
    """
    if len(data) < _UP_TO_MAGIC:
        return None
    length, magic = _LENGTH_AND_MAGIC.unpack_from(data, _LENGTH_AT)
    return _checked_size(length, magic, location, position)


def damaged_batch(location: str, position: int, reason: str) -> DamagedObjectError:
    """
    Return the error that says of a batch that it is damaged.

    :param location: key or path of the segment.
    :param position: where in the segment it begins, in bytes.
    :param reason: what is wrong with it.
    """
    return DamagedObjectError(
        f"{location}: the record batch at byte {position} is damaged: {reason}", location, position
    )


def _likely_batches(data: Data) -> list[int]:
    """Return places some batches apart where one seems to begin, ascending; none where the first batch is large."""
    if len(data) < _UP_TO_MAGIC:
        return []
    offset, length = _OFFSET_AND_LENGTH.unpack_from(data)
    stride = (length + _BEFORE_LENGTH) * _STEPS
    if length < _LEAST_LENGTH or stride * _LEAST_PLACES > len(data):
        return []
    raw = data if isinstance(data, bytes) else bytes(data)
    mark, places, at = raw[_MARK], [0], stride
    while (at := raw.find(mark, at + _MARK.start) - _MARK.start) >= 0:
        other_offset, other_length = _OFFSET_AND_LENGTH.unpack_from(raw, at)
        if offset < other_offset < offset + len(raw) and other_length >= _LEAST_LENGTH:
            places.append(at)
            at += stride
        else:
            at += 1
    return places


class _Runs:
    """
    Batches that lead from one place to the next, or beyond it.

    :param data: what they lie in.
    :param places: where they begin, ascending.
    """

    def __init__(self, data: Data, places: list[int]) -> None:
        self._place = {at: number for number, at in enumerate(places)}
        self._positions, self._behind = _in_step(np.frombuffer(data, np.uint8), np.array(places, np.int64))
        self._is_followed = np.zeros(len(places), bool)

    def follow(self, at: int) -> int:
        """Return the byte behind the batches that begin at a position, the position itself where none are known."""
        number = self._place.get(at)
        if number is None:
            return at
        self._is_followed[number] = True
        return int(self._behind[number])

    def followed(self) -> Array:
        """Return where the batches begin that were followed."""
        positions = self._positions[:, self._is_followed]
        followed: Array = positions[positions >= 0]
        return followed


def _in_step(data: Array, places: Array) -> tuple[Array, Array]:
    """
    Take a step from each place, then another from all that have not reached the next place, and so on.

    :return: where the batches begin, a row for each step and -1 where a place has no more; and where each place has led to.
    """
    ends = np.append(places[1:], data.size - _UP_TO_MAGIC + 1)
    at = places.copy()
    steps: list[Array] = []
    active = np.arange(places.size)
    while active.size and len(steps) < _MOST_STEPS:
        header = gather(data, _IN_STEP, at[active] + _LENGTH_AT)
        length = header["length"].astype(np.int64)
        good = (header["magic"] == _MAGIC) & (length >= _LEAST_LENGTH)
        active = active[good]
        step = np.full(places.size, -1)
        step[active] = at[active]
        steps.append(step)
        at[active] += length[good] + _BEFORE_LENGTH
        active = active[at[active] < ends[active]]
    return np.array(steps, np.int64).reshape(len(steps), places.size), at


def _checked_size(length: int, magic: int, location: str, position: int) -> int:
    if magic in (0, 1) and length >= _LEAST_LEGACY_BYTES:
        raise UnsupportedMessageFormatError(
            f"{location}: the record batch at byte {position} has message format v{magic}, and only v2 is read here, which "
            "Kafka writes since 0.11: read the topic with a consumer, which knows the earlier ones"
        )
    if magic != _MAGIC:
        raise damaged_batch(location, position, f"no message format has the number {magic}")
    if length < _LEAST_LENGTH:
        raise damaged_batch(location, position, f"{length} bytes are too few for a batch")
    return length + _BEFORE_LENGTH
