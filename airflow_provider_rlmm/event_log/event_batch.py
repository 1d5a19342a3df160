# SPDX-License-Identifier: Apache-2.0
"""The shape in which every metadata event log hands out what it reads."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from airflow_provider_rlmm.errors import OffsetOutOfRangeError

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 10_000
"""Most rows of one batch: large enough that the cost per batch does not count, a few MiB at most."""


@cache
def event_schema() -> pa.Schema:
    """Return the schema of a batch: ``offset`` and ``timestamp_ms`` int64, ``key`` and ``value`` nullable binary."""
    import pyarrow as pa

    return pa.schema(
        [
            pa.field("offset", pa.int64(), nullable=False),
            pa.field("timestamp_ms", pa.int64(), nullable=False),
            pa.field("key", pa.binary()),
            pa.field("value", pa.binary()),
        ]
    )


def event_batch(
    offsets: Sequence[int], timestamps_ms: Sequence[int], keys: Sequence[bytes | None], values: Sequence[bytes | None]
) -> pa.RecordBatch:
    """
    Build one batch from columns of equal length.

    :param offsets: offsets, ascending.
    :param timestamps_ms: ms since the epoch.
    :param keys: null for every record that Kafka or this package wrote.
    :param values: null for a tombstone.
    """
    import pyarrow as pa

    schema = event_schema()
    columns = zip((offsets, timestamps_ms, keys, values), schema, strict=True)
    return pa.RecordBatch.from_arrays([pa.array(column, field.type) for column, field in columns], schema=schema)


def subscription_batch(metadata_partition: int, batch: pa.RecordBatch) -> pa.RecordBatch:
    """
    Put the metadata partition in front of a batch: ``metadata_partition`` int32.

    :param metadata_partition: where all of its records lie.
    :param batch: what :func:`event_batch` made.
    """
    import pyarrow as pa

    partitions = pa.repeat(pa.scalar(metadata_partition, pa.int32()), batch.num_rows)
    return batch.add_column(0, pa.field("metadata_partition", pa.int32(), nullable=False), partitions)


def require_range(metadata_partition: int, wanted: tuple[int, int], held: tuple[int, int]) -> None:
    """
    Refuse to read a range that the log no longer has whole.

    Both ends of a range were held once: who reads it was told of them. Skipping what is gone would look like a shorter
    history.

    :param metadata_partition: which partition.
    :param wanted: first offset, inclusive, and last offset, exclusive.
    :param held: beginning offset and high watermark as of now.
    :raises OffsetOutOfRangeError: naming the partition and the offsets, and what happened.
    """
    (start, end), (begin, high) = wanted, held
    if start < min(begin, end):
        raise OffsetOutOfRangeError(
            f"metadata partition {metadata_partition} is to be read from offset {start} and begins at {begin}: the records "
            "before that were deleted; nothing more is done on this metadata partition in this run",
            metadata_partition,
            start,
        )
    if end > high:
        raise OffsetOutOfRangeError(
            f"metadata partition {metadata_partition} is to be read up to offset {end} and its high watermark is {high}: "
            "the log has lost records (an unclean election does that); nothing more is done on this metadata partition in "
            "this run",
            metadata_partition,
            end,
        )
