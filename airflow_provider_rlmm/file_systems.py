# SPDX-License-Identifier: Apache-2.0
"""
Files in object stores and local folders, by URI: what plans, reports and snapshots have in common.

URIs are those of :meth:`pyarrow.fs.FileSystem.from_uri`; Spark's ``s3a://`` means ``s3://``, a plain path the local file
system.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
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
    :raises OSError: if it cannot be written; an older file is still there, whole.
    """
    from pyarrow import fs

    opened, path = file_system(uri)
    if isinstance(opened, fs.LocalFileSystem):
        with _beside(Path(path), parts) as temporary:
            temporary.replace(path)
        return
    _upload(opened, path, parts)


def create_file(uri: str, parts: Sequence[Any]) -> None:
    """
    Write a file where there is none yet, whole or not at all.

    Locally the operating system sees to it that one of two that create it at once fails. In an object store the look before
    and the look after do: the one that finds another's bytes fails, at worst both do.

    :param uri: of the file; directories are made.
    :param parts: buffers, written one after the other.
    :raises ConfigurationError: if the URI is not understood.
    :raises FileExistsError: if there is one.
    :raises OSError: if it cannot be written.
    """
    from pyarrow import fs

    opened, path = file_system(uri)
    if isinstance(opened, fs.LocalFileSystem):
        with _beside(Path(path), parts) as temporary:
            # A rename would replace; a link does not.
            os.link(temporary, path)
        return
    if opened.get_file_info(path).type != fs.FileType.NotFound:
        raise FileExistsError(errno.EEXIST, "it exists already", uri)
    _upload(opened, path, parts)
    if bytes(read_file(uri)) != b"".join(parts):
        raise FileExistsError(errno.EEXIST, "another writer created it at the same time", uri)


def remove_file(uri: str) -> None:
    """
    Remove a file, if there is one.

    :param uri: of the file.
    :raises ConfigurationError: if the URI is not understood.
    :raises OSError: if it cannot be removed.
    """
    opened, path = file_system(uri)
    with suppress(FileNotFoundError):
        opened.delete_file(path)


def read_file(uri: str, max_bytes: int | None = None) -> Any:
    """
    Read a whole file into one Arrow buffer.

    :param uri: of the file.
    :param max_bytes: a larger one is refused before it is read; ``None`` for any size.
    :raises ConfigurationError: if the URI is not understood.
    :raises FileNotFoundError: if there is none.
    :raises OSError: if it cannot be read, or is too large.
    """
    opened, path = file_system(uri)
    with opened.open_input_file(path) as file:
        size = file.size()
        if max_bytes is not None and size > max_bytes:
            raise OSError(errno.EFBIG, f"it has {size} bytes, at most {max_bytes} are expected", uri)
        return file.read_buffer(size)


def _upload(opened: fs.FileSystem, path: str, parts: Sequence[Any]) -> None:
    # By default the extension of the name would decide about a compression.
    with opened.open_output_stream(path, compression=None) as out:
        for part in parts:
            out.write(part)


@contextmanager
def _beside(path: Path, parts: Sequence[Any]) -> Iterator[Path]:
    """Write a file beside a local one, for the caller to give it that name; in the end nothing is left beside."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # A name of its own for each writer: two at once must not write into one file.
    temporary = path.with_name(f".{path.name}.{uuid4().hex}.part")
    try:
        with temporary.open("wb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)
    # The new name is durable once the directory is.
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
