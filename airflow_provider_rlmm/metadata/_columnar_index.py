# SPDX-License-Identifier: Apache-2.0
"""
Finds positions by key, many at once: open addressing in a numpy array.

The index holds positions and bits of hashes. A hash says where to look; whether a position is the right one is decided by
comparing the whole keys, which lie in the columns that the positions point into.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from airflow_provider_rlmm.metadata._columnar_layout import Array

_SMALLEST_BITS = 8
_LARGEST_LOAD = 0.5  # fuller ones need many more looks for the last few keys
_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x165667B19E3779F9))
_HALF = np.uint64(32)
_ENTRY_BITS = 63
_POSITION = np.int64(0xFFFFFFFF)  # of a slot: the position; above it are bits of the hash
_LARGEST = np.uint64(_POSITION)

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

    A slot holds 31 bits of a hash above the position: most slots of other keys are passed without a look at their keys.

    :param expected: how many positions to make room for.
    """

    def __init__(self, expected: int) -> None:
        bits = _SMALLEST_BITS
        while expected > _LARGEST_LOAD * (1 << bits):
            bits += 1
        self._slots = np.full(1 << bits, -1, dtype=np.int64)
        self._shift = _ENTRY_BITS - bits
        self._mask = (1 << bits) - 1
        self._used = 0

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return int(self._slots.nbytes)

    def has_room(self, more: int) -> bool:
        """
        Tell whether ``more`` positions can be inserted; if not, make a larger index.

        :param more: how many.
        """
        return self._used + more <= _LARGEST_LOAD * self._slots.size

    def enlarged(self, expected: int) -> HashIndex:
        """
        Return a larger index of the same positions.

        :param expected: how many positions to make room for.
        """
        larger = HashIndex(expected)
        larger._fill(self._slots.take(np.flatnonzero(self._slots >= 0)))
        return larger

    def find(self, hashes: Array, same: Same) -> Array:
        """
        Return the position of each key, -1 for those that are not here.

        :param hashes: their hashes.
        :param same: compares whole keys.
        """
        wanted = _tags(hashes)
        slot = wanted >> self._shift
        # Below zero: a free slot; with the bits of the hash gone, a position; with other bits left, another key's.
        seen = self._slots.take(slot) ^ wanted
        asked = np.flatnonzero(seen.view(np.uint64) <= _LARGEST)
        if asked.size == seen.size and same(asked, seen).all():
            return seen
        found = np.full(hashes.size, -1, np.int64)
        others = np.flatnonzero(seen > _POSITION)
        candidate = seen.take(asked)
        while True:
            equal = same(asked, candidate)
            if not equal.all():
                wrong = np.flatnonzero(~equal)
                others = np.sort(np.concatenate([others, asked.take(wrong)]))
                right = np.flatnonzero(equal)
                asked, candidate = asked.take(right), candidate.take(right)
            found[asked] = candidate
            if not others.size:
                return found
            following = slot.take(others) + 1 & self._mask
            slot[others] = following
            seen = self._slots.take(following) ^ wanted.take(others)
            at = np.flatnonzero(seen.view(np.uint64) <= _LARGEST)
            asked, candidate = others.take(at), seen.take(at)
            others = others.take(np.flatnonzero(seen > _POSITION))

    def insert(self, hashes: Array, positions: Array) -> None:
        """
        Add keys that are not here yet.

        :param hashes: their hashes.
        :param positions: their positions, all different.
        """
        entries = _tags(hashes) | positions
        if self._used:
            self._used += entries.size
            self._place(entries, entries >> self._shift)
        else:
            self._fill(entries)

    def _fill(self, entries: Array) -> None:
        """Place all entries of an empty index: in order, each comes to lie at its slot or right behind the one before."""
        self._used = entries.size
        entries.sort()
        number = np.arange(entries.size)
        slot = np.maximum.accumulate((entries >> self._shift) - number) + number
        behind = int(np.searchsorted(slot, self._slots.size))
        self._slots[slot[:behind]] = entries[:behind]
        self._place(entries[behind:], np.zeros(entries.size - behind, np.int64))

    def _place(self, left: Array, slot: Array) -> None:
        while left.size:
            free = np.flatnonzero(self._slots.take(slot) < 0)
            self._slots[slot.take(free)] = left.take(free)
            homeless = np.flatnonzero(self._slots.take(slot) != left)
            left, slot = left.take(homeless), slot.take(homeless) + 1 & self._mask


def _tags(hashes: Array) -> Array:
    """Return the upper 31 bits of hashes, where a slot has them."""
    tags: Array = (hashes >> np.uint64(1)).view(np.int64)
    tags &= ~_POSITION
    return tags
