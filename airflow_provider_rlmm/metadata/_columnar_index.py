# SPDX-License-Identifier: Apache-2.0
"""
Finds positions by key, many at once: open addressing in a numpy array.

The index holds positions only. A hash says where to look; whether a position is the right one is decided by comparing
the whole keys, which lie in the columns that the positions point into.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from airflow_provider_rlmm.metadata._columnar_layout import Array

_SMALLEST_BITS = 8
_LARGEST_LOAD = 0.35  # fuller ones need many more looks for the last few keys
_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x165667B19E3779F9))
_HALF = np.uint64(32)

Same = Callable[[Array, Array], Array]
"""Tells for (numbers of keys that are looked for, positions) whether the keys at the positions are the same."""


def hash_of(high: Array, low: Array, code: Array) -> Array:
    """
    Return 64 well mixed bits per key.

    :param high: 64 bits of an id.
    :param low: the other 64.
    :param code: a further number.
    """
    mixed: Array = high * _MIX[0]
    mixed ^= low
    mixed *= _MIX[1]
    mixed ^= code.astype(np.uint64) * _MIX[2]
    mixed ^= mixed >> _HALF
    mixed *= _MIX[0]
    return mixed


def hash_of_number(number: Array) -> Array:
    """
    Return 64 mixed bits per number; the highest are the best.

    :param number: 64-bit numbers.
    """
    mixed: Array = number.view(np.uint64) * _MIX[0]
    mixed ^= mixed >> _HALF
    mixed *= _MIX[1]
    return mixed


class HashIndex:
    """
    Positions by the hash of their key.

    :param expected: how many positions to make room for.
    """

    def __init__(self, expected: int) -> None:
        bits = _SMALLEST_BITS
        while expected > _LARGEST_LOAD * (1 << bits):
            bits += 1
        self._slots = np.full(1 << bits, -1, dtype=np.int32)
        self._shift = np.uint64(64 - bits)
        self._mask = (1 << bits) - 1
        self._used = 0

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return int(self._slots.nbytes)

    def has_room(self, more: int) -> bool:
        """
        Tell whether ``more`` positions can be inserted; if not, build a larger index.

        :param more: how many.
        """
        return self._used + more <= _LARGEST_LOAD * self._slots.size

    def find(self, hashes: Array, same: Same) -> Array:
        """
        Return the position of each key, -1 for those that are not here.

        :param hashes: their hashes.
        :param same: compares whole keys.
        """
        slot = (hashes >> self._shift).astype(np.int64)
        found = self._slots.take(slot).astype(np.int64)
        asked = np.flatnonzero(found >= 0)
        candidate = found.take(asked)
        while asked.size:
            wrong = np.flatnonzero(~same(asked, candidate))
            asked = asked.take(wrong)
            following = slot.take(asked) + 1 & self._mask
            slot[asked] = following
            candidate = self._slots.take(following).astype(np.int64)
            found[asked] = candidate
            occupied = np.flatnonzero(candidate >= 0)
            if occupied.size != asked.size:
                asked, candidate = asked.take(occupied), candidate.take(occupied)
        return found

    def insert(self, hashes: Array, positions: Array) -> None:
        """
        Add keys that are not here yet.

        :param hashes: their hashes.
        :param positions: their positions, all different.
        """
        self._used += positions.size
        slot = (hashes >> self._shift).astype(np.int64)
        left = positions.astype(np.int32)
        while left.size:
            free = np.flatnonzero(self._slots.take(slot) < 0)
            self._slots[slot.take(free)] = left.take(free)
            homeless = np.flatnonzero(self._slots.take(slot) != left)
            left, slot = left.take(homeless), slot.take(homeless) + 1 & self._mask
