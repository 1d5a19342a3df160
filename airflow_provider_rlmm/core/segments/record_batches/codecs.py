# SPDX-License-Identifier: Apache-2.0
"""Unpacks the records of compressed batches, up to a limit: a batch of a few bytes may otherwise fill any memory."""

from __future__ import annotations

import struct
from typing import Any, Final

import pyarrow as pa

from airflow_provider_rlmm.core.segments.record_batches.batch_sizes import Data
from airflow_provider_rlmm.core.segments.record_batches.headers import Codec

XERIAL_MAGIC: Final = b"\x82SNAPPY\0"
"""What Kafka's own clients begin snappy data with; librdkafka writes raw snappy."""

_XERIAL_HEADER_BYTES: Final = 16  # the magic and two versions
_BLOCK_SIZE: Final = struct.Struct(">i")
_STREAMED: Final = {Codec.GZIP: "gzip", Codec.LZ4: "lz4", Codec.ZSTD: "zstd"}
_FIRST_GUESS: Final = 5  # how many times as large records are unpacked, mostly
_LEAST_READ: Final = 1 << 16
_MAX_SNAPPY_PREAMBLE: Final = 5


class UnpackError(ValueError):
    """Raised when data are not what their codec writes."""


class UnpackedTooLargeError(ValueError):
    """Raised when data are larger than the limit once they are unpacked."""


def decompress(codec: Codec, data: Data, limit_bytes: int) -> Any:
    """
    Unpack the records of one batch.

    :param codec: how they are packed.
    :param data: the records, without the header of the batch.
    :param limit_bytes: how large they may be once unpacked; little more is allocated.
    :return: a buffer with the records: a ``pyarrow.Buffer`` or bytes.
    :raises UnpackError: the data are cut, damaged, or packed in another way.
    :raises UnpackedTooLargeError: they are larger than ``limit_bytes``.
    """
    view = memoryview(data)
    try:
        if codec is Codec.NONE:
            return _within(view, limit_bytes)
        if codec is Codec.SNAPPY:
            return _snappy(view, limit_bytes)
        return _streamed(_STREAMED[codec], view, limit_bytes)
    except (OSError, pa.ArrowException) as error:
        raise UnpackError(f"{codec.name.lower()} data cannot be unpacked: {error}") from error


def _within(unpacked: Any, limit_bytes: int) -> Any:
    if len(unpacked) > limit_bytes:
        raise UnpackedTooLargeError
    return unpacked


def _streamed(name: str, data: memoryview, limit_bytes: int) -> bytes:
    size = max(_LEAST_READ, _FIRST_GUESS * len(data))
    parts: list[bytes] = []
    room = limit_bytes + 1
    with pa.CompressedInputStream(pa.BufferReader(data), name) as stream:
        while room and (part := stream.read(min(size, room))):
            parts.append(part)
            room -= len(part)
            size *= 2
    if not room:
        raise UnpackedTooLargeError
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _snappy(data: memoryview, limit_bytes: int) -> Any:
    if bytes(data[: len(XERIAL_MAGIC)]) != XERIAL_MAGIC:
        return _snappy_block(data, limit_bytes)
    parts: list[Any] = []
    room, at = limit_bytes, _XERIAL_HEADER_BYTES
    while at < len(data):
        if at + _BLOCK_SIZE.size > len(data):
            raise UnpackError("snappy data end within the size of a block")
        (size,) = _BLOCK_SIZE.unpack_from(data, at)
        at += _BLOCK_SIZE.size
        if not 0 <= size <= len(data) - at:
            raise UnpackError(f"a snappy block of {size} bytes where {len(data) - at} are left")
        parts.append(_snappy_block(data[at : at + size], room))
        room -= len(parts[-1])
        at += size
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _snappy_block(data: memoryview, limit_bytes: int) -> Any:
    size = 0
    for index, byte in enumerate(data[:_MAX_SNAPPY_PREAMBLE]):
        size |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            break
    else:
        raise UnpackError("snappy data do not begin with their size")
    if size > limit_bytes:
        raise UnpackedTooLargeError
    return pa.Codec("snappy").decompress(data, decompressed_size=size)
