# SPDX-License-Identifier: Apache-2.0
"""
The files of a data set of generations, for the Python of executors and driver alike: by pyarrow, which both have.

URIs are those of :mod:`~airflow_provider_rlmm.core.base.file_systems`; credentials come from the environment or the role
of the machine. Nothing here replaces a file: each has a name of its own, and counts only if a manifest names it with its
size and hash.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.fs as pafs

from airflow_provider_rlmm.core.base.errors import ConfigurationError, SnapshotRefusedError
from airflow_provider_rlmm.core.base.file_systems import local_path
from airflow_provider_rlmm.features.retention.spark.generation import GenerationFile

_WITH_FOLDERS = ("local", "hdfs")
"""In an object store a folder that is made is an object more."""


def located(uri: str) -> tuple[pafs.FileSystem, str]:
    """
    Return the file system of a path or URI, and the path there.

    :raises ConfigurationError: if it is not understood.
    """
    scheme = urlsplit(uri).scheme
    if scheme in ("s3", "s3a"):
        return _s3(), uri.partition("://")[2]
    if scheme in ("hdfs", "viewfs", "gs", "abfs", "abfss"):
        found: tuple[pafs.FileSystem, str] = pafs.FileSystem.from_uri(uri)
        return found
    path = local_path(uri)
    if path is None:
        raise ConfigurationError(
            f"{uri} is of a scheme that pyarrow cannot open; name Azure's stores by abfs:// or abfss://"
        )
    return pafs.LocalFileSystem(), str(path.absolute())


def _s3() -> pafs.FileSystem:
    """Return S3 as the environment names it; pyarrow alone would ask Amazon for the bucket's region."""
    endpoint = urlsplit(os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", ""))
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if not endpoint.netloc:
        return pafs.S3FileSystem(region=region)
    return pafs.S3FileSystem(region=region, endpoint_override=endpoint.netloc, scheme=endpoint.scheme)


class HashedFile:
    """A file that is being written below the URI of a folder, with the hash of what was."""

    closed = False

    def __init__(self, folder: str, name: str) -> None:
        self._name, self._size, self._hash = name, 0, hashlib.sha256()
        files, path = located(f"{folder}/{name}")
        if files.type_name in _WITH_FOLDERS:
            files.create_dir(path.rpartition("/")[0])
        self._stream = files.open_output_stream(path)

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
        """Bring it to an end."""
        if not self.closed:
            self.closed = True
            self._stream.close()

    def described(self) -> GenerationFile:
        """Return what a manifest says of it."""
        return GenerationFile(self._name, self._size, self._hash.hexdigest())


@contextmanager
def new_file(folder: str, name: str) -> Iterator[HashedFile]:
    """
    Return a file to write to, which is closed at the end; after an error it is removed, if that can be done.

    :param folder: URI of the folder that the name is below; folders are made.
    :param name: of a file that is not there yet.
    """
    file = HashedFile(folder, name)
    try:
        yield file
    except BaseException:
        with suppress(OSError):
            file.close()
        with suppress(OSError):
            files, path = located(f"{folder}/{name}")
            files.delete_file(path)
        raise
    finally:
        file.close()


def read_whole(folder: str, file: GenerationFile) -> pa.Buffer:
    """
    Read a file into one buffer.

    :param folder: URI of the folder that its name is below.
    :param file: what its manifest says.
    :raises SnapshotRefusedError: if it cannot be read or is another one.
    """
    uri = f"{folder}/{file.name}"
    try:
        files, path = located(uri)
        with files.open_input_file(path) as stream:
            size = stream.size()
            data = stream.read_buffer(file.bytes) if size == file.bytes else None
    except OSError as e:
        raise SnapshotRefusedError(f"{uri} cannot be read ({next(iter(str(e).splitlines()), '')})") from e
    if data is None or data.size != file.bytes or hashlib.sha256(data).hexdigest() != file.sha256:
        raise SnapshotRefusedError(f"{uri} is not the file that its manifest names: its size or checksum differs")
    return data
