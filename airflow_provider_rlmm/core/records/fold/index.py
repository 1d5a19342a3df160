# SPDX-License-Identifier: Apache-2.0
"""
Finds positions by key, many at once: open addressing in a numpy array; and runs of elements that lie side by side.

The index holds positions and bits of hashes. A hash says where to look; whether a position is the right one is decided by
comparing the whole keys, which lie in the columns that the positions point into.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from airflow_provider_rlmm.core.records.decoding.layout import Array

_SMALLEST_BITS = 8
_LARGEST_LOAD = 0.5  # fuller ones need many more looks for the last few keys
_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))
_HALF = np.uint64(32)
_ABOVE_POSITION = np.uint64(33)  # a hash's upper 31 bits and a position make one number, which is not below zero
_FREE, _USED = np.uint8(0), np.uint8(1)

Same = Callable[[Array, Array], Array]
"""Tells for (numbers of keys that are looked for, positions) whether the keys at the positions are the same."""


def hash_of(high: Array, low: Array, code: Array) -> Array:
    """Return 64 mixed bits per key, an id of twice 64 bits and a further number; the highest bits are the best."""
    mixed: Array = high * _MIX[0]
    mixed ^= low
    mixed += code.astype(np.int64, copy=False).view(np.uint64)
    mixed *= _MIX[1]
    return mixed


class HashIndex:
    """
    Positions by the hash of their key.

    A byte per slot, zero where the slot is free, holds bits of a hash: the slots of other keys are mostly passed without
    a look at the positions, which take four times the memory, and at the keys.

    :param expected: how many positions to make room for.
    :param load: how much of the slots may be in use.
    """

    def __init__(self, expected: int, load: float = _LARGEST_LOAD) -> None:
        bits = _SMALLEST_BITS
        while expected > load * (1 << bits):
            bits += 1
        self._bits = bits
        self._tags = np.zeros(1 << bits, np.uint8)
        self._positions = np.zeros(1 << bits, np.int32)
        self._room = int(load * (1 << bits))
        self._used = 0

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return int(self._tags.nbytes + self._positions.nbytes)

    def has_room(self, more: int) -> bool:
        """Tell whether so many more positions can be inserted; if not, build a larger index."""
        return self._used + more <= self._room

    def guess(self, hashes: Array) -> Array:
        """Return a position for each key's hash, which is likely to be its own if it is here; there has to be one."""
        positions: Array = self._positions.take(self._first_slots(hashes)).astype(np.int64)
        return positions

    def find(self, hashes: Array, same: Same) -> Array:
        """Return the position of each key by its hash, -1 for those that are not here; ``same`` compares whole keys."""
        found = np.full(hashes.size, -1, np.int64)
        left, slot, tag = np.arange(hashes.size), self._first_slots(hashes), _tags(hashes)
        while left.size:
            seen = self._tags.take(slot)
            alike = np.flatnonzero(seen == tag)
            asked, candidate = left.take(alike), self._positions.take(slot.take(alike)).astype(np.int64)
            equal = same(asked, candidate)
            on = (seen != tag) & (seen != _FREE)
            if equal.all():
                found[asked] = candidate
            else:
                right = np.flatnonzero(equal)
                found[asked.take(right)] = candidate.take(right)
                on[alike.take(np.flatnonzero(~equal))] = True
            going_on = np.flatnonzero(on)
            left, slot, tag = left.take(going_on), slot.take(going_on) + 1 & self._mask, tag.take(going_on)
        return found

    def insert(self, hashes: Array, positions: Array) -> None:
        """Add the hashes of keys that are not here yet, and their positions, all different."""
        was_empty = not self._used
        self._used += positions.size
        if was_empty:
            self._fill(hashes, positions)
        else:
            self._place(self._first_slots(hashes), _tags(hashes), positions.astype(np.int32))

    def _fill(self, hashes: Array, positions: Array) -> None:
        """Place all keys of an empty index: in order, each comes to lie at its slot or right behind the one before."""
        entries = hashes >> _ABOVE_POSITION
        entries <<= _HALF
        entries = entries.view(np.int64)
        entries |= positions
        entries.sort()
        number = np.arange(entries.size)
        slot = entries >> 63 - self._bits
        slot -= number
        np.maximum.accumulate(slot, out=slot)
        slot += number
        del number
        behind = int(np.searchsorted(slot, self._tags.size))
        sorted_positions = entries.astype(np.int32)
        self._positions[slot[:behind]] = sorted_positions[:behind]
        entries >>= 32
        tag = entries.astype(np.uint8)
        tag |= _USED
        self._tags[slot[:behind]] = tag[:behind]
        self._place(np.zeros(entries.size - behind, np.int64), tag[behind:], sorted_positions[behind:])

    def _place(self, slot: Array, tag: Array, left: Array) -> None:
        while left.size:
            free = np.flatnonzero(self._tags.take(slot) == _FREE)
            self._positions[slot.take(free)] = left.take(free)
            at_home = self._positions.take(slot) == left
            placed, homeless = np.flatnonzero(at_home), np.flatnonzero(~at_home)
            self._tags[slot.take(placed)] = tag.take(placed)
            left, slot, tag = left.take(homeless), slot.take(homeless) + 1 & self._mask, tag.take(homeless)

    @property
    def _mask(self) -> int:
        return self._tags.size - 1

    def _first_slots(self, hashes: Array) -> Array:
        slots: Array = (hashes >> np.uint64(64 - self._bits)).view(np.int64)
        return slots


def _tags(hashes: Array) -> Array:
    tags: Array = (hashes >> _ABOVE_POSITION).astype(np.uint8) | _USED
    return tags


def starts_of(counts: Array) -> Array:
    """Return where each of several runs begins if they lie one after the other."""
    counts = counts.astype(np.int64)
    starts: Array = np.cumsum(counts)
    starts -= counts
    return starts


def spread(at: Array, count: Array) -> tuple[Array, Array]:
    """Return the positions of all elements of runs that begin there, and for each the number of its run."""
    owner = np.arange(count.size)
    positions = at.astype(np.int64)
    if (count != 1).any():
        starts = starts_of(count)
        owner = _owners(starts, count)
        positions -= starts
        positions = positions.take(owner)
        positions += np.arange(owner.size)
    return positions, owner


def _owners(starts: Array, count: Array) -> Array:
    """Return ``np.repeat(np.arange(count.size), count)``, which takes twice the time where no run is empty."""
    if count.min() <= 0:
        return np.repeat(np.arange(count.size), count)
    begins = np.zeros(int(starts[-1] + count[-1]), np.int64)
    begins[starts[1:]] = 1
    owners: Array = np.cumsum(begins)
    return owners
