# SPDX-License-Identifier: Apache-2.0
"""
The checksums (CRC-32C) of many small batches, compared all at once.

A call for each batch of a single record costs as much as all else that is done with it. But the checksum of a whole follows
from those of its parts: one call computes that of all batches, from the first to the last, and a few steps over arrays what
it must be if each batch is right. Damage to one batch is always seen. Damage to several at once goes unseen as rarely as
damage to one goes unseen by its own checksum: once in four thousand million.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import google_crc32c
import numpy as np
import numpy.typing as npt

from airflow_provider_rlmm.core.records.decoding.layout import gather
from airflow_provider_rlmm.core.segments.record_batches.batch_sizes import Data

Array = npt.NDArray[Any]

_POLYNOMIAL: Final = np.uint32(0x82F63B78)
_ALL_ONES: Final = np.uint32(0xFFFFFFFF)
_LEVELS: Final = 3  # bytes of a distance

MOST_BYTES: Final = 1 << (8 * _LEVELS)
"""How many bytes all batches must be smaller than."""


def crc32c(data: Data) -> int:
    """
    Return a checksum.

    :param data: of which bytes.
    """
    # It takes no memoryview, and of an array no copy.
    return int(google_crc32c.value(np.frombuffer(data, np.uint8)))


def all_agree(data: Data, begin: Array, end: Array, checksum: Array) -> bool:
    """
    Tell whether all checksums are those of their bytes.

    :param data: what the batches lie in, side by side, from the first to the last fewer than :data:`MOST_BYTES`.
    :param begin: where the bytes of each begin that its checksum covers.
    :param end: the byte behind each batch. As many bytes as are not covered lie between it and the next beginning.
    :param checksum: of each.
    """
    checksum = checksum.astype(np.uint32)
    uncovered = int(begin[1] - end[0])
    between = gather(np.frombuffer(data, np.uint8), np.dtype((np.void, uncovered)), end[:-1])
    columns = np.ascontiguousarray(between.view(np.uint8).reshape(-1, uncovered).T)
    up_to_next = _continued(checksum[:-1], columns)
    moved = _followed_by_zeros(up_to_next, end[-1] - begin[1:])
    expected = int(np.bitwise_xor.reduce(moved) ^ checksum[-1])
    return crc32c(memoryview(data)[int(begin[0]) : int(end[-1])]) == expected


def _continued(checksum: Array, columns: Array) -> Array:
    """Return the checksums of what these are of and some bytes more: the first of each, then the second, and so on."""
    table = _of_a_byte()
    register = checksum ^ _ALL_ONES
    for column in columns:
        register = table.take(register.astype(np.uint8) ^ column) ^ (register >> 8)
    return register ^ _ALL_ONES


def _followed_by_zeros(checksum: Array, zeros: Array) -> Array:
    """Return what checksums contribute to that of a whole of which so many bytes follow."""
    for level, tables in enumerate(_of_zeros()):
        checksum = _looked_up(tables, ((zeros >> (8 * level)) & 0xFF) << 10, checksum)
    return checksum


def _looked_up(tables: Array, table: Array | int, register: Array) -> Array:
    """Bring together what a table has for each of the four bytes of a register; it begins at an index of the tables."""
    found: Array = tables.take(table + (register & 0xFF))
    for byte in range(1, 4):
        found ^= tables.take(table + (256 * byte) + ((register >> (8 * byte)) & 0xFF))
    return found


@cache
def _of_a_byte() -> Array:
    """Return what each byte makes of an empty register."""
    register: Array = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        register = (register >> 1) ^ np.where(register & 1, _POLYNOMIAL, np.uint32(0))
    return register


@cache
def _of_zeros() -> Array:
    """
    Return what zeros make of a register: a table for each byte of their number, for each value of it, for each byte of the
    register.
    """
    unchanged = (np.arange(256, dtype=np.uint32)[None, :] << (8 * np.arange(4, dtype=np.uint32))[:, None]).ravel()
    by_one = _of_a_byte()[unchanged & 0xFF] ^ (unchanged >> 8)
    found = np.empty((_LEVELS, 256, unchanged.size), np.uint32)
    for tables in found:
        tables[0] = unchanged
        for value in range(1, 256):
            tables[value] = _looked_up(by_one, 0, tables[value - 1])
        by_one = _looked_up(by_one, 0, tables[255])
    return found.reshape(_LEVELS, -1)
