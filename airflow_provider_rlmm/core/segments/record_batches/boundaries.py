# SPDX-License-Identifier: Apache-2.0
"""Where the records of batches begin and end: each has its size before it, so that one leads to the next."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from airflow_provider_rlmm.core.segments.record_batches.headers import LEAST_RECORD_BYTES
from airflow_provider_rlmm.core.segments.record_batches.varints import VARINT_BYTES, read_varints

Array = npt.NDArray[Any]

_BATCHES_IN_STEP: Final = 180  # with fewer batches at a time, a step costs more than a plain loop over their records
_MORE: Final = 0x80
_BITS: Final = 7
_NOWHERE: Final = 1 << 62  # behind any data, and it stays there


class RecordsDoNotFitError(ValueError):
    """
    Raised when the records of a batch do not fill it exactly.

    :param row: which of the batches.
    """

    def __init__(self, row: int) -> None:
        super().__init__("its records do not fill it exactly")
        self.row = row


def find_records(data: Array, at: Array, end: Array, count: Array) -> tuple[Array, Array]:
    """
    Find the records of some batches.

    :param data: bytes of all batches' records.
    :param at: first byte of the first record of each batch.
    :param end: the byte behind the last record of each batch.
    :param count: number of records of each batch, at least one.
    :return: of each record, in the order of the batches, where it begins behind its size, and the byte behind it.
    :raises RecordsDoNotFitError: the records of a batch do not fill it exactly, or one has a size below zero.
    """
    too_many = count > (end - at) // LEAST_RECORD_BYTES
    if too_many.any():
        raise RecordsDoNotFitError(int(np.argmax(too_many)))
    if count.size >= _BATCHES_IN_STEP and int(count.sum()) >= _BATCHES_IN_STEP * int(count.max()):
        size_at, behind = _in_step(data, at, count)
    else:
        size_at, behind = _one_by_one(data, at, end, count)
    wrong = behind != end
    if wrong.any():
        raise RecordsDoNotFitError(int(np.argmax(wrong)))
    # A size below zero is an odd number on the wire, and was taken for one that is not below.
    odd = (data.take(size_at) & 1) != 0
    if odd.any():
        raise RecordsDoNotFitError(int(np.repeat(np.arange(count.size), count)[np.argmax(odd)]))
    _, first = read_varints(data, size_at)
    body_end = np.empty_like(size_at)
    body_end[:-1] = size_at[1:]
    body_end[np.cumsum(count) - 1] = end
    return first, body_end


def _one_by_one(data: Array, at: Array, end: Array, count: Array) -> tuple[Array, Array]:
    raw = data.data
    size_at: list[int] = []
    add = size_at.append
    for row, (start, stop, records) in enumerate(zip(at.tolist(), end.tolist(), count.tolist(), strict=True)):
        position = start
        try:
            for _ in range(records):
                add(position)
                low = raw[position]
                if low < _MORE:
                    position += (low >> 1) + 1
                elif (high := raw[position + 1]) < _MORE:
                    position += ((low & 0x7F) >> 1) + (high << 6) + 2
                else:
                    position += _longer_size(raw, position)
        except IndexError as error:
            raise RecordsDoNotFitError(row) from error
        if position != stop:
            raise RecordsDoNotFitError(row)
    return np.array(size_at, np.int64), end


def _longer_size(raw: memoryview, position: int) -> int:
    """Return how many bytes a record takes, its size included."""
    size = 0
    for index in range(VARINT_BYTES):
        byte = raw[position + index]
        size |= (byte & (_MORE - 1)) << _BITS * index
        if byte < _MORE:
            return ((size & 0xFFFFFFFF) >> 1) + index + 1
    raise IndexError


def _in_step(data: Array, at: Array, count: Array) -> tuple[Array, Array]:
    """Take the first record of all batches, then the second of all that have one, and so on."""
    size_at = np.empty(int(count.sum()), np.int64)
    # The longest batches come first: those that still have records are always the foremost.
    order = np.argsort(-count, kind="stable")
    position = at[order]
    row = (np.cumsum(count) - count)[order]
    have_more = np.searchsorted(-count[order], -np.arange(int(count.max())), side="left")
    for step, batches in enumerate(have_more.tolist()):
        current = position[:batches]
        size_at[row[:batches] + step] = current
        size, body = read_varints(data, current)
        np.add(body, np.maximum(size, 0), out=current)
        current[body < 0] = _NOWHERE
    behind = np.empty_like(position)
    behind[order] = position
    return size_at, behind
