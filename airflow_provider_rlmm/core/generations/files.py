# SPDX-License-Identifier: Apache-2.0
"""
The files of a data set of generations, for the Python of executors and driver alike.

URIs are those of :mod:`~airflow_provider_rlmm.core.base.file_systems`. Nothing here replaces a file: each has a name of its
own, and counts only if a manifest names it with its size and hash.
"""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import pyarrow as pa

from airflow_provider_rlmm.core.base.errors import ConfigurationError, SnapshotRefusedError
from airflow_provider_rlmm.core.base.file_systems import read_file, reading_in_order, writing
from airflow_provider_rlmm.core.generations.manifest import GenerationFile

_READ_AT_ONCE = 2**20


class HashedFile:
    """
    A file that is being written, with the hash of what was.

    :param name: below the URI of a folder.
    :param stream: where its bytes go; the caller that has opened it ends it.
    """

    def __init__(self, name: str, stream: IO[bytes]) -> None:
        self.closed = False
        self._name, self._stream = name, stream
        self._size, self._hash = 0, hashlib.sha256()

    def write(self, data: Any) -> int:
        """Append the bytes of a buffer."""
        self._hash.update(data)
        size: int = memoryview(data).nbytes
        self._stream.write(data)
        self._size += size
        return size

    def flush(self) -> None:
        """Do nothing: a file that is not whole counts for nothing."""

    def close(self) -> None:
        """Take no more. Writers of formats close what they write to, after an error too: that does not make it whole."""
        self.closed = True

    def described(self) -> GenerationFile:
        """Return what a manifest says of it."""
        return GenerationFile(self._name, self._size, self._hash.hexdigest())


@contextmanager
def new_file(folder: str, name: str) -> Iterator[HashedFile]:
    """
    Return a file to write to; it is there once the block has ended well, and not at all after an error.

    :param folder: URI of the folder that the name is below; folders are made.
    :param name: of a file that is not there yet.
    :raises ConfigurationError: if the URI is not understood, or this Python lacks what opens it.
    :raises OSError: if it cannot be written.
    """
    with writing(f"{folder}/{name}") as stream:
        file = HashedFile(name, stream)
        try:
            yield file
        finally:
            file.close()


def read_whole(folder: str, file: GenerationFile) -> pa.Buffer:
    """
    Read a file into one buffer.

    :param folder: URI of the folder that its name is below.
    :param file: what its manifest says.
    :raises SnapshotRefusedError: if it cannot be read or is another one.
    """
    uri, data = f"{folder}/{file.name}", None
    try:
        data = read_file(uri, file.bytes)
    except (OSError, ConfigurationError) as e:
        if not isinstance(e, OSError) or e.errno != errno.EFBIG:
            raise SnapshotRefusedError(f"{uri} cannot be read ({next(iter(str(e).splitlines()), '')})") from e
    if data is None or data.size != file.bytes or hashlib.sha256(data).hexdigest() != file.sha256:
        raise SnapshotRefusedError(f"{uri} is not the file that its manifest names: its size or checksum differs")
    return data


@contextmanager
def opened(folder: str, file: GenerationFile) -> Iterator[pa.PythonFile]:
    """
    Return a file to read from one end to the other, by pieces; what was read counts only once the block has ended well.

    :param folder: URI of the folder that its name is below.
    :param file: what its manifest says.
    :raises SnapshotRefusedError: if it cannot be read or is another one: the rest of it is read when the block has ended.
    """
    uri, refused = f"{folder}/{file.name}", None
    try:
        with reading_in_order(uri) as stream:
            reading = _HashedReading(stream, file.bytes)
            try:
                yield pa.PythonFile(reading, "r")
            except SnapshotRefusedError as e:
                refused = e
            while reading.read(_READ_AT_ONCE).size:
                pass
    except (OSError, ConfigurationError) as e:
        raise SnapshotRefusedError(f"{uri} cannot be read ({next(iter(str(e).splitlines()), '')})") from e
    if (reading.size, reading.sha256.hexdigest()) != (file.bytes, file.sha256):
        raise SnapshotRefusedError(
            f"{uri} is not the file that its manifest names: its size or checksum differs"
        ) from refused
    if refused is not None:
        raise refused


class _HashedReading:
    """A stream that is read once, with the hash of what was; one byte behind its end shows that it is longer."""

    closed = False

    def __init__(self, stream: IO[bytes], expected: int) -> None:
        self._stream, self._behind = stream, expected + 1
        self.size, self.sha256 = 0, hashlib.sha256()

    def read(self, size: int) -> pa.Buffer:
        """Return the next bytes, none at the end. No more is made room for than the file has, even if it claims more."""
        buffer = pa.allocate_buffer(min(size, self._behind - self.size))
        data = buffer.slice(0, self._stream.readinto(memoryview(buffer)))  # type: ignore[attr-defined]  # files have it
        self.size += data.size
        self.sha256.update(data)
        return data

    def close(self) -> None:
        """Do nothing: the caller that has opened the stream closes it."""
        self.closed = True
