# SPDX-License-Identifier: Apache-2.0
"""The record batches of a log that lies in storage as it lay on the broker's disk, a part of it in memory at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from airflow_provider_rlmm.core.base.errors import DamagedObjectError, UnsupportedMessageFormatError
from airflow_provider_rlmm.features.recovery.rules import ListedSegment
from airflow_provider_rlmm.features.recovery.segment_reads import Fetch

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.segments.record_batches.headers import BatchHeaders

PART_BYTES: Final = 2**20
"""How much of a log is fetched at once."""

MOST_BATCH_BYTES: Final = 16 * 2**20
"""The largest batch that is read; Kafka's ``message.max.bytes`` is 1 MiB where nobody has set it."""


class ChangedError(Exception):
    """Raised when an object is not as it was listed."""


def batches_in(listed: ListedSegment, suffix: str, begin: int, fetch: Fetch) -> Iterator[BatchHeaders]:
    """
    Yield the batches of a log from a position on, up to its end; their checksums are right.

    :param listed: the segment.
    :param suffix: of the object that is its log, as it lay on the broker's disk.
    :param begin: where a batch begins, bytes.
    :param fetch: reads an object.
    :raises DamagedObjectError: if it cannot be what a broker has written.
    :raises UnsupportedMessageFormatError: if a batch is older than message format v2, or larger than is read.
    :raises ChangedError: if it is not as large as it was listed.
    """
    from airflow_provider_rlmm.core.segments.record_batches.batch_sizes import size_of_first_batch
    from airflow_provider_rlmm.core.segments.record_batches.headers import BatchHeaders

    key, size = listed.stem + suffix, listed.sizes[suffix]
    at, wanted = begin, PART_BYTES
    if begin >= size:
        raise DamagedObjectError(f"{key} has {size} bytes, and its records must begin before byte {begin}", key, begin)
    while at < size:
        behind = min(at + wanted, size)
        # What has grown since is told from what is whole.
        data = fetch(key, at, behind if behind == size else behind - 1)
        if len(data) != behind - at:
            raise ChangedError(f"{key} was listed with {size} bytes and read with {at + len(data)}")
        headers, consumed = BatchHeaders.find(data, location=key, position=at)
        if consumed:
            headers.verify_checksums(data)
            yield headers
            at, wanted = at + consumed, PART_BYTES
            continue
        first = size_of_first_batch(data, location=key, position=at)
        if first is None or at + first > size:
            raise DamagedObjectError(f"{key} ends in the middle of the record batch at byte {at}", key, at)
        if first > MOST_BATCH_BYTES:
            raise UnsupportedMessageFormatError(
                f"{key} has a batch of {first:,} bytes, and {MOST_BATCH_BYTES:,} are read"
            )
        wanted = first
