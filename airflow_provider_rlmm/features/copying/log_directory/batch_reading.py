# SPDX-License-Identifier: Apache-2.0
"""A log file's record batches, chunk by chunk: memory is bounded by the chunk, or by a batch that is larger."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from airflow_provider_rlmm.core.base.errors import DamagedObjectError, LogDirectoryError
from airflow_provider_rlmm.core.segments.record_batches.batch_sizes import HEADER_BYTES, size_of_first_batch
from airflow_provider_rlmm.core.segments.record_batches.headers import BatchHeaders
from airflow_provider_rlmm.features.copying.log_directory.regular_files import open_regular

CHUNK_BYTES: Final = 8 * 1024 * 1024


class BatchChunk(NamedTuple):
    """
    Some batches of a log file.

    :param data: their bytes, and maybe the beginning of the next one; the next chunk is read into the same memory.
    :param headers: their headers.
    :param position: where in the file ``data`` begins, in bytes.
    """

    data: memoryview
    headers: BatchHeaders
    position: int


def read_batches(path: Path, *, position: int = 0, chunk_bytes: int = CHUNK_BYTES) -> Iterator[BatchChunk]:
    """
    Read the batches of a log file up to its end, none twice and none left out.

    :param path: the file.
    :param position: where the first one begins, in bytes.
    :param chunk_bytes: how much is read at once.
    :raises DamagedObjectError: if no batch begins where one must, or the last one is cut.
    :raises LogDirectoryError: if the file cannot be read.
    """
    try:
        with open_regular(path) as file:
            file.seek(position)
            yield from _chunks(file, path, position, chunk_bytes)
    except OSError as e:
        raise LogDirectoryError(f"{path} cannot be read: {e.strerror}") from e


def _chunks(file: BinaryIO, path: Path, position: int, chunk_bytes: int) -> Iterator[BatchChunk]:
    size = os.fstat(file.fileno()).st_size
    buffer, rest = bytearray(), b""
    while position < size:
        # What a damaged batch says of its size must not make this read, or reserve, more than there is.
        needed = size_of_first_batch(rest, location=str(path), position=position) or HEADER_BYTES
        wanted = min(max(chunk_bytes, needed), size - position)
        if len(buffer) < wanted:
            buffer = bytearray(wanted)
        buffer[: len(rest)] = rest
        view = memoryview(buffer)
        read = 0 if position + needed > size else file.readinto(view[len(rest) : wanted])  # type: ignore[attr-defined]
        if not read:
            raise DamagedObjectError(
                f"{path}: the record batch at byte {position} is cut: the file ends {size - position} bytes behind its"
                " beginning",
                str(path),
                position,
            )
        data = view[: len(rest) + read]
        headers, consumed = BatchHeaders.find(data, location=str(path), position=position)
        if consumed:
            yield BatchChunk(data, headers, position)
        rest = bytes(data[consumed:])
        position += consumed
