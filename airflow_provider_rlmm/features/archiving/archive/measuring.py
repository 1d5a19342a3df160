# SPDX-License-Identifier: Apache-2.0
"""Reads the records of a source once, before the first of them is written anywhere, and says what they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_rlmm.features.archiving.archive.content import WITH_OFFSETS, WITHOUT_OFFSETS, ContentDigest
from airflow_provider_rlmm.features.archiving.archive.old_offsets import first_with_header
from airflow_provider_rlmm.features.archiving.restore_rules import OFFSET_HEADER_BYTES, RecordsToRestore
from airflow_provider_rlmm.features.archiving.restore_source import SourceLog


def measure(log: SourceLog, begin: int = 0, *, offset_header: bool = False) -> RecordsToRestore:
    """
    Return what is to be restored of a user partition: its committed records.

    :param log: the user partition, as its source has it, with what is decided of its transactions.
    :param begin: the offset that the first record gets.
    :param offset_header: whether each record gets a header with the offset that it had.
    :raises RemoteLogError: if its records cannot be read.
    """
    digest, with_offsets = ContentDigest(WITHOUT_OFFSETS), ContentDigest(WITH_OFFSETS)
    has_header: int | None = None
    total = largest = 0
    without_time = differs_from = last_offset = new_last = None
    oldest = newest = 0
    for batch in log.read():
        if not batch.num_rows:
            continue
        offsets = np.asarray(batch.column("offset"))
        moved = offsets - (begin + digest.count + np.arange(batch.num_rows))
        if differs_from is None and moved.any():
            differs_from = int(offsets[moved != 0][0])
        last_offset = int(offsets[-1])
        new_last = last_offset - int(moved[-1])
        times, sizes = np.asarray(batch.column("timestamp")), _sizes(batch)
        if without_time is None and (times <= 0).any():
            without_time = int(offsets[times <= 0][0])
        low, high = int(times.min()), int(times.max())
        oldest, newest = (min(oldest, low), max(newest, high)) if digest.count else (low, high)
        total, largest = total + int(sizes.sum()), max(largest, int(sizes.max()))
        digest.update(batch)
        if offset_header:
            with_offsets.update(batch)
            has_header = first_with_header(batch) if has_header is None else has_header
    if offset_header and digest.count:
        total, largest = total + digest.count * OFFSET_HEADER_BYTES, largest + OFFSET_HEADER_BYTES
    all_records = sum(scanned.records for scanned in log.scanned)
    return RecordsToRestore(
        log.partition, digest.count, total, largest, oldest, newest, without_time, digest.hexdigest(),
        all_records - digest.count, log.gaps, log.first_offset, log.end_offset, differs_from, last_offset, new_last,
        log.undecided, with_offsets.hexdigest() if offset_header else None, has_header,
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
