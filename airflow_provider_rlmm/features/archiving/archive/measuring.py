# SPDX-License-Identifier: Apache-2.0
"""Reads the records of an archive once, before the first of them is written anywhere, and says what they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_rlmm.core.segments.read_range import ReadIsolation
from airflow_provider_rlmm.features.archiving.archive.content import WITHOUT_OFFSETS, ContentDigest
from airflow_provider_rlmm.features.archiving.archive.reading import ArchivedLog
from airflow_provider_rlmm.features.archiving.restore_rules import RecordsToRestore


def measure(log: ArchivedLog) -> RecordsToRestore:
    """
    Return what is to be restored of a user partition: its committed records.

    :param log: the archived user partition.
    :raises RemoteLogError: if its records cannot be read.
    """
    digest = ContentDigest(WITHOUT_OFFSETS)
    total = largest = 0
    without_time: int | None = None
    oldest = newest = 0
    for batch in log.stream().read(ReadIsolation.READ_COMMITTED):
        if not batch.num_rows:
            continue
        times, sizes = np.asarray(batch.column("timestamp")), _sizes(batch)
        if without_time is None and (times <= 0).any():
            without_time = int(np.asarray(batch.column("offset"))[times <= 0][0])
        low, high = int(times.min()), int(times.max())
        oldest, newest = (min(oldest, low), max(newest, high)) if digest.count else (low, high)
        total, largest = total + int(sizes.sum()), max(largest, int(sizes.max()))
        digest.update(batch)
    everything = log.stream()
    all_records = sum(batch.num_rows for batch in everything.read(ReadIsolation.READ_UNCOMMITTED))
    return RecordsToRestore(
        log.partition, digest.count, total, largest, oldest, newest, without_time, digest.hexdigest(),
        all_records - digest.count, everything.gaps, everything.first_offset,
    )  # fmt: skip


def _sizes(batch: pa.RecordBatch) -> Any:
    """Return the size of each record's key, value and headers, in bytes."""
    sizes = np.zeros(batch.num_rows, np.int64)
    for name in ("key", "value"):
        sizes += np.asarray(pc.binary_length(batch.column(name)).fill_null(0))
    headers = batch.column("headers")
    entries = headers.flatten()
    if len(entries):
        parts = [np.asarray(pc.binary_length(entries.field(name)).fill_null(0)) for name in ("key", "value")]
        sizes += np.bincount(np.asarray(pc.list_parent_indices(headers)), parts[0] + parts[1], batch.num_rows).astype(
            "i8"
        )
    return sizes
