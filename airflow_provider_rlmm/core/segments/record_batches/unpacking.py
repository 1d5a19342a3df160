# SPDX-License-Identifier: Apache-2.0
"""Brings the records of batches together as plain bytes: as they lie where none is compressed, unpacked where one is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from airflow_provider_rlmm.core.base.errors import RecordsTooLargeError, UnsupportedMessageFormatError
from airflow_provider_rlmm.core.segments.record_batches.batch_sizes import HEADER_BYTES, Data
from airflow_provider_rlmm.core.segments.record_batches.codecs import UnpackedTooLargeError, UnpackError, decompress
from airflow_provider_rlmm.core.segments.record_batches.headers import BatchHeaders, Codec

Array = npt.NDArray[Any]

_MOST_BYTES: Final = (1 << 31) - 1  # Arrow's offsets of a column of bytes


@dataclass(frozen=True, slots=True)
class Unpacked:
    """
    Some batches and their records.

    :param headers: the batches, those without any record left out.
    :param data: a buffer with the records of all.
    :param at: first byte in it of each batch's records.
    :param end: the byte behind each batch's records.
    """

    headers: BatchHeaders
    data: Any
    at: Array
    end: Array


def unpack(data: Data, headers: BatchHeaders, limit_bytes: int, part_bytes: int) -> Iterator[Unpacked]:
    """
    Yield the records of batches in parts.

    :param data: what the headers were found in.
    :param headers: the batches.
    :param limit_bytes: how many bytes the records of one batch may have.
    :param part_bytes: how many bytes the records of a part have at most, if they are of more batches than one.
    :raises DamagedObjectError: a batch cannot be unpacked.
    :raises UnsupportedMessageFormatError: a batch has a codec that is not known.
    :raises RecordsTooLargeError: the records of a single batch have more bytes.
    """
    limit = min(limit_bytes, _MOST_BYTES)
    part = min(part_bytes, limit)
    headers = headers[headers.record_count > 0]
    compressed = headers.codec != Codec.NONE
    if compressed.any():
        yield from _compressed(memoryview(data), headers, limit, part)
    elif len(headers):
        yield from _plain(memoryview(data), headers, limit, part)


def _plain(data: memoryview, headers: BatchHeaders, limit: int, part_bytes: int) -> Iterator[Unpacked]:
    at = headers.position + HEADER_BYTES
    end = headers.position + headers.size_in_bytes
    too_large = end - at > limit
    if too_large.any():
        raise _too_large(headers, int(np.argmax(too_large)), limit)
    first = 0
    while first < len(headers):
        # What lies between the batches counts: columns refer to positions within the data at first.
        after = max(int(np.searchsorted(end, at[first] + part_bytes, side="right")), first + 1)
        part, base = slice(first, after), int(at[first])
        yield Unpacked(headers[part], data[base : int(end[after - 1])], at[part] - base, end[part] - base)
        first = after


def _compressed(data: memoryview, headers: BatchHeaders, limit: int, part_bytes: int) -> Iterator[Unpacked]:
    first, parts, size = 0, list[Any](), 0
    for row in range(len(headers)):
        part = _records_of(data, headers, row, limit)
        if parts and size + len(part) > part_bytes:
            yield _joined(headers[first:row], parts)
            first, parts, size = row, [], 0
        parts.append(part)
        size += len(part)
    yield _joined(headers[first:], parts)


def _joined(headers: BatchHeaders, parts: list[Any]) -> Unpacked:
    end = np.cumsum(np.array([len(part) for part in parts], np.int64))
    return Unpacked(headers, parts[0] if len(parts) == 1 else b"".join(parts), np.append(0, end[:-1]), end)


def _records_of(data: memoryview, headers: BatchHeaders, row: int, limit: int) -> Any:
    position, number = int(headers.position[row]), int(headers.codec[row])
    try:
        codec = Codec(number)
    except ValueError as error:
        raise UnsupportedMessageFormatError(
            f"{headers.location}: the record batch at byte {headers.data_position + position} has the codec {number}, and "
            f"the last one that Kafka 4.3 knows is {int(max(Codec))}: it was written by a newer Kafka"
        ) from error
    packed = data[position + HEADER_BYTES : position + int(headers.size_in_bytes[row])]
    try:
        return decompress(codec, packed, limit)
    except UnpackError as error:
        raise headers.damaged(position, str(error)) from error
    except UnpackedTooLargeError as error:
        raise _too_large(headers, row, limit) from error


def _too_large(headers: BatchHeaders, row: int, limit: int) -> RecordsTooLargeError:
    return RecordsTooLargeError(
        f"{headers.location}: the records of the batch at byte {headers.data_position + int(headers.position[row])}, offsets "
        f"{headers.base_offset[row]} to {headers.last_offset[row]}, have more than max_decompressed_bytes = {limit:,} "
        "bytes: allow more"
    )
