# SPDX-License-Identifier: Apache-2.0
"""
Writing an object chunk by chunk, so that a quota holds within it, and a copy can be cancelled within it.

Of an object that is not written to its end nothing stays: what was sent of it is taken back. Only a process that is killed
leaves something behind: in a folder the beginning of the file, under its own name, in a bucket the parts of an unfinished
upload, which no listing shows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from airflow_provider_rlmm.core.base.errors import LogDirectoryError

if TYPE_CHECKING:
    from obstore.store import ObjectStore

CHUNK_BYTES: Final = 4 * 2**20
"""Bytes that are sent at once: a copy can be cancelled after so many, and a quota is kept by so many."""

ObjectContent = bytes | Path | Iterator[bytes]
"""What becomes an object: bytes, those of a file, or chunks one after the other."""

BeforeChunk = Callable[[int], object]
"""Called with the bytes of a chunk before it is sent. It may wait, and cancels the copy by raising."""

_PART_BYTES: Final = 8 * 2**20
"""Bytes of a part of a multipart upload: with 10,000 parts at most, a segment of 2 GiB is far from the end."""

_PARTS_AT_ONCE: Final = 4


class ObjectWriter(Protocol):
    """An object while it is written."""

    def write(self, data: bytes) -> None:
        """
        Send the next bytes.

        :param data: they.
        """

    def close(self) -> None:
        """Complete the object; only now does it take the place of an older one."""

    def abort(self) -> None:
        """Take back what was sent."""


class StoreWriter:
    """
    Writes an object of a store; a large one in parts, some of them at once.

    :param store: the store.
    :param key: key of the object.
    """

    def __init__(self, store: ObjectStore, key: str) -> None:
        import obstore

        self._file: Any = obstore.open_writer(store, key, buffer_size=_PART_BYTES, max_concurrency=_PARTS_AT_ONCE)

    def write(self, data: bytes) -> None:
        """See :class:`ObjectWriter`."""
        self._file.write(data)

    def close(self) -> None:
        """See :class:`ObjectWriter`."""
        self._file.close()

    def abort(self) -> None:
        """See :class:`ObjectWriter`: leaving it by an error is how obstore is told."""
        self._file.__exit__(GeneratorExit, None, None)


def chunks_of(source: ObjectContent, size: int = CHUNK_BYTES) -> Generator[bytes, None, None]:
    """
    Yield what is to be copied, in chunks.

    :param source: bytes, a file of a broker's log directory, or chunks that the caller makes.
    :param size: bytes of each chunk but the last; chunks of the caller are as they come.
    :raises LogDirectoryError: if the file cannot be read, or is changed meanwhile.
    """
    if isinstance(source, bytes):
        yield from (source[at : at + size] for at in range(0, len(source), size))
        return
    if not isinstance(source, Path):
        yield from source
        return
    try:
        with source.open("rb", buffering=0) as file:
            left = os.fstat(file.fileno()).st_size
            while chunk := file.read(size):
                left -= len(chunk)
                yield chunk
    except OSError as e:
        raise LogDirectoryError(f"cannot read {source}: {e.strerror}; look at the disk of the broker") from e
    if left:
        raise LogDirectoryError(
            f"{source} was written to while it was copied: copy from a snapshot of the log directory"
        )
