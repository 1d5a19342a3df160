# SPDX-License-Identifier: Apache-2.0
"""Files of an archive as streams: written once, whole or not at all, and read back."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Final

from airflow_provider_rlmm.core.base.errors import ArchiveError
from airflow_provider_rlmm.core.base.file_systems import local_path, open_object, replacing
from airflow_provider_rlmm.features.archiving.archive_manifest import ArchivedFile

CHUNK_BYTES: Final = 8 * 2**20


@contextmanager
def reading(uri: str) -> Iterator[IO[bytes]]:
    """
    Open a file of which parts are read.

    :raises ConfigurationError: if the URI is not understood.
    :raises FileNotFoundError: if there is none.
    :raises OSError: if it cannot be read, or is no regular file.
    """
    path = local_path(uri)
    if path is None:
        with open_object(uri) as file:
            yield file
        return
    # Opening a pipe would wait for its other end.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", uri)
        yield file


def describe(folder_uri: str, name: str) -> ArchivedFile:
    """
    Read a file whole, and say what it is.

    :param folder_uri: of the user partition.
    :param name: its path below.
    :raises FileNotFoundError: if there is none.
    :raises OSError: if it cannot be read.
    """
    digest, size = hashlib.sha256(), 0
    with reading(f"{folder_uri}/{name}") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
    return ArchivedFile(name, size, digest.hexdigest())


def _is_there(uri: str) -> bool:
    try:
        with reading(uri):
            return True
    except FileNotFoundError:
        return False


def keep(folder_uri: str, name: str, chunks: Iterable[bytes]) -> ArchivedFile:
    """
    Write a file that never changes, read it back, and compare. One that is there already stays, if it is the same.

    :param folder_uri: of the user partition.
    :param name: its path below.
    :param chunks: its bytes; all of them are taken in any case, so that their maker can check them.
    :raises ArchiveError: if another file has its name, or it does not read back as it was written.
    :raises OSError: if it cannot be written or read.
    """
    uri = f"{folder_uri}/{name}"
    there = _is_there(uri)
    digest, size = hashlib.sha256(), 0
    if there:
        for chunk in chunks:
            digest.update(chunk)
            size += len(chunk)
    else:
        with replacing(uri) as file:
            for chunk in chunks:
                file.write(chunk)
                digest.update(chunk)
                size += len(chunk)
    given, kept = ArchivedFile(name, size, digest.hexdigest()), describe(folder_uri, name)
    if kept != given:
        what = "holds other bytes from before" if there else "does not read back as it was written"
        raise ArchiveError(
            f"{uri} {what}: it has {kept.bytes} bytes with SHA-256 {kept.sha256[:12]}…, storage has {given.bytes} with "
            f"{given.sha256[:12]}…; find out which of them is right, and keep it"
        )
    return kept
