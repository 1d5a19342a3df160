# SPDX-License-Identifier: Apache-2.0
"""Runs of elements that lie side by side in a column: what numpy has no function for, or a slow one."""

from __future__ import annotations

import numpy as np

from airflow_provider_rlmm.metadata.columnar.decoding.layout import Array


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
