# SPDX-License-Identifier: Apache-2.0
"""The headers of records, any number of each: found in step over all records, or one by one where few have many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from airflow_provider_rlmm.core.segments.record_batches.varints import read_varint, read_varints

Array = npt.NDArray[Any]

_RECORDS_IN_STEP: Final = 30  # with fewer records at a time, a step costs more than a plain loop over their headers


@dataclass(frozen=True, slots=True)
class Slices:
    """
    Byte strings within data.

    :param at: first byte of each.
    :param length: in bytes; below zero stands for null.
    """

    at: Array
    length: Array


@dataclass(frozen=True, slots=True)
class HeaderSlices:
    """
    The headers of records.

    :param count: number of headers of each record.
    :param key: the keys of all, record by record.
    :param value: the values of all.
    """

    count: Array
    key: Slices
    value: Slices


class RecordHeadersError(ValueError):
    """
    Raised when the headers of a record are not what its size allows.

    :param row: which of the records.
    """

    def __init__(self, row: int) -> None:
        super().__init__("a header that is not within its record")
        self.row = row


def read_headers(data: Array, at: Array, end: Array, count: Array) -> tuple[HeaderSlices, Array]:
    """
    Find the headers of records.

    :param data: bytes of the records.
    :param at: first byte of the first header of each record.
    :param end: the byte behind each record.
    :param count: number of headers of each record; it is not above the bytes that are left for them.
    :return: the headers, and the position behind the last one of each record.
    :raises RecordHeadersError: a header does not lie within its record, or a key is null.
    """
    rows = np.flatnonzero(count)
    behind = at.copy()
    if not rows.size:
        nothing = Slices(np.empty(0, np.int64), np.empty(0, np.int64))
        return HeaderSlices(count, nothing, nothing), behind
    total = int(count[rows].sum())
    read = _in_step if total >= _RECORDS_IN_STEP * int(count.max()) else _one_by_one
    key, value = read(data, rows, behind, end, count)
    return HeaderSlices(count, key, value), behind


def _one_by_one(data: Array, rows: Array, behind: Array, end: Array, count: Array) -> tuple[Slices, Slices]:
    view = memoryview(data.data)
    found: list[tuple[int, int, int, int]] = []
    for row in rows.tolist():
        position, stop = int(behind[row]), int(end[row])
        for _ in range(int(count[row])):
            key_length, key_at = read_varint(view, position, stop)
            value_length, value_at = read_varint(view, key_at + key_length, stop)
            position = value_at + max(value_length, 0)
            if key_at < 0 or key_length < 0 or value_at < 0 or position > stop:
                raise RecordHeadersError(row)
            found.append((key_at, key_length, value_at, value_length))
        behind[row] = position
    key_at, key_length, value_at, value_length = np.array(found, np.int64).T
    return Slices(key_at, key_length), Slices(value_at, value_length)


def _in_step(data: Array, rows: Array, behind: Array, end: Array, count: Array) -> tuple[Slices, Slices]:
    """Take the first header of all records, then the second of all that have one, and so on."""
    position, stop, left = behind[rows], end[rows], count[rows]
    target = np.cumsum(left) - left
    found = np.empty((4, int(left.sum())), np.int64)
    active = np.arange(rows.size)
    step = 0
    while active.size:
        key_length, key_at = read_varints(data, position[active])
        value_length, value_at = read_varints(data, key_at + key_length)
        after = value_at + np.maximum(value_length, 0)
        wrong = (key_at < 0) | (key_length < 0) | (value_at < 0) | (after > stop[active])
        if wrong.any():
            raise RecordHeadersError(int(rows[active[np.argmax(wrong)]]))
        found[:, target[active] + step] = key_at, key_length, value_at, value_length
        position[active] = after
        step += 1
        active = active[left[active] > step]
    behind[rows] = position
    return Slices(found[0], found[1]), Slices(found[2], found[3])
