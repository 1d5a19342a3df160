# SPDX-License-Identifier: Apache-2.0
"""
Local files that are there whole or not at all, however their writer ends, and after a power failure, too.

A file is written beside the place that it is to have, brought to the disk and given its name. What a killed process leaves
there is removed by the next one that writes the same file.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import IO, Final
from uuid import uuid4

LEFTOVER: Final = re.compile(r"\..+\.[0-9a-f]{32}\.part")
"""Names of files that are being written, or were left by a killed writer."""

FULL_ERRNOS: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
"""What a folder answers that has no room left, or whose user has none."""

_NO_HARD_LINKS: Final = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


@contextmanager
def beside(path: Path) -> Iterator[tuple[IO[bytes], Path]]:
    """
    Open a file beside another one; while the block lasts no other process has it, afterwards it is gone.

    :param path: the other one, whose place it may take; directories are made, and are durable as the file is.
    :raises OSError: if it cannot be made.
    """
    with telling_of_full_disks(path):
        _make_folder(path.parent)
        _remove_leftovers(path)
        file, temporary = _open_beside(path)
        with file:
            try:
                yield file, temporary
            finally:
                # While it is still locked: afterwards another writer would take it for a leftover.
                temporary.unlink(missing_ok=True)
        # The new name is durable once the directory is.
        _sync_folder(path.parent)


@contextmanager
def telling_of_full_disks(path: Path) -> Iterator[None]:
    """
    Name the file and what helps where the disk is full: a write does not know its path, and a passing file's is of no use.

    :param path: of the file that is written in the block.
    :raises OSError: that one, in the place of another one.
    """
    try:
        yield
    except OSError as e:
        if e.errno not in FULL_ERRNOS:
            raise
        words = f"{os.strerror(e.errno)}: make room there, or choose a folder on another disk, then run again"
        raise OSError(e.errno, words, str(path)) from e


def _make_folder(folder: Path) -> None:
    """Make a folder and those above it: a file is lost with any of them that a power failure takes back."""
    for made in reversed([f for f in (folder, *folder.parents) if not f.exists()]):
        made.mkdir(exist_ok=True)
        _sync_folder(made.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _open_beside(path: Path) -> tuple[IO[bytes], Path]:
    while True:
        # A name of its own for each writer: two at once must not write into one file.
        temporary = path.with_name(f".{path.name}.{uuid4().hex}.part")
        file = temporary.open("xb")
        # Before it is locked another writer may take it for a leftover.
        if _lock(file.fileno()) and os.fstat(file.fileno()).st_nlink:
            return file, temporary
        file.close()


def _remove_leftovers(path: Path) -> None:
    """Remove what killed writers of a file left beside it: a living one holds a lock, which ends with its process."""
    for leftover in path.parent.glob(f".{escape(path.name)}.*.part"):
        # It lives, another writer removes it too, or it cannot be opened or locked: then it is left.
        with suppress(OSError), os.fdopen(os.open(leftover, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW), "rb") as file:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            leftover.unlink()


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        # A file system without locks: no other process can lock and remove it either.
        return True
    return True


def flush(file: IO[bytes]) -> None:
    """
    Bring what was written to the disk.

    :param file: a file of :func:`beside`.
    """
    file.flush()
    os.fsync(file.fileno())


def create_beside(path: Path, data: bytes) -> None:
    """
    Write a file where there is none yet.

    :param path: of the file; directories are made.
    :param data: its bytes.
    :raises FileExistsError: if there is one.
    :raises OSError: if it cannot be written.
    """
    with beside(path) as (file, temporary):
        file.write(data)
        flush(file)
        try:
            # A rename would replace an older file; a link does not.
            path.hardlink_to(temporary)
        except OSError as e:
            if e.errno not in _NO_HARD_LINKS:
                raise
            _create_in_place(path, data)


def _create_in_place(path: Path, data: bytes) -> None:
    """Create a file where the file system has no hard links (SMB, mounted buckets): alone, if not in one step."""
    with path.open("xb") as file:
        try:
            file.write(data)
            flush(file)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
