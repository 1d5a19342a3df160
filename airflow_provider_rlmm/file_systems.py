# SPDX-License-Identifier: Apache-2.0
"""
Files in object stores and local folders, by URI: what plans, reports and snapshots have in common.

URIs are those of :meth:`pyarrow.fs.FileSystem.from_uri`; Spark's ``s3a://`` means ``s3://``, a plain path the local file
system.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from airflow_provider_rlmm.errors import ConfigurationError

if TYPE_CHECKING:
    from pyarrow import fs


def file_system(uri: str) -> tuple[fs.FileSystem, str]:
    """
    Open the file system of a URI.

    :param uri: of a directory or a file.
    :return: the file system, and the path in it without a trailing slash.
    :raises ConfigurationError: if the URI is not understood.
    """
    import pyarrow as pa
    from pyarrow import fs

    try:
        if "://" not in uri:
            return fs.LocalFileSystem(), uri.rstrip("/")
        opened, path = fs.FileSystem.from_uri(uri.replace("s3a://", "s3://", 1))
    except (pa.ArrowInvalid, ValueError) as e:
        raise ConfigurationError(f"{uri!r} is no URI of a directory or file that can be opened: {e}") from e
    return opened, path.rstrip("/")


def replace_file(uri: str, parts: Sequence[Any]) -> None:
    """
    Write a file in the place of an older one; readers see the one or the other, and after a crash there is one of them.

    A local file gets its name by a rename, once its bytes are on the disk. An object store shows an object when the upload
    is complete.

    :param uri: of the file; directories are made.
    :param parts: buffers, written one after the other.
    :raises ConfigurationError: if the URI is not understood.
    :raises OSError: if it cannot be written.
    """
    from pyarrow import fs

    opened, path = file_system(uri)
    if isinstance(opened, fs.LocalFileSystem):
        _replace_local_file(Path(path), parts)
        return
    # By default the extension of the name would decide about a compression.
    with opened.open_output_stream(path, compression=None) as out:
        for part in parts:
            out.write(part)


def read_file(uri: str) -> Any:
    """
    Read a whole file into one Arrow buffer.

    :param uri: of the file.
    :raises ConfigurationError: if the URI is not understood.
    :raises FileNotFoundError: if there is none.
    :raises OSError: if it cannot be read.
    """
    opened, path = file_system(uri)
    with opened.open_input_file(path) as file:
        return file.read_buffer()


def _replace_local_file(path: Path, parts: Sequence[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # A name of its own for each writer: two at once must not write into one file.
    temporary = path.with_name(f".{path.name}.{uuid4().hex}.part")
    try:
        with temporary.open("wb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(FileNotFoundError):
            temporary.unlink()
        raise
    # The rename itself is durable once the directory is.
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
