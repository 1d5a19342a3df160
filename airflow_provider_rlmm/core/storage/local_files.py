# SPDX-License-Identifier: Apache-2.0
"""
Looks for, writes and deletes files of a local folder by name.

A listing of a folder costs what lies there, and obstore 0.12 lists all of it from any offset: with 60,000 segments
in a user partition each batch would cost a hundred times what it deletes. No symbolic link is followed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from airflow_provider_rlmm.core.storage.deletion import Lookup, parent_of
from airflow_provider_rlmm.core.storage.remote_storage import StoredObject


class LocalFiles:
    """
    The files of a local folder.

    :param root: the storage root.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def find(self, lookup: Lookup) -> list[StoredObject]:
        """
        Return those of the keys that are files now.

        :param lookup: the keys; a folder that is not there holds no files.
        :raises OSError: if a folder cannot be read.
        """
        return [stored for prefix, keys in _by_folder(lookup.keys).items() for stored in self._find(prefix, keys)]

    def _find(self, prefix: str, keys: Sequence[str]) -> list[StoredObject]:
        found = []
        try:
            with _opened(self._root, prefix) as folder:
                for key in keys:
                    try:
                        status = os.stat(key[len(prefix) :], dir_fd=folder, follow_symlinks=False)
                    except FileNotFoundError:
                        continue
                    if not stat.S_ISDIR(status.st_mode):
                        found.append(StoredObject(key, status.st_size, status.st_mtime_ns // 1_000_000))
        except FileNotFoundError:
            return []
        return found

    def delete(self, keys: Sequence[str]) -> Mapping[str, str]:
        """
        Delete files; one that fails does not stop the others, and a missing one is no failure.

        :param keys: of any folders.
        :return: key → why it was not deleted.
        """
        failures: dict[str, str] = {}
        for prefix, inside in _by_folder(keys).items():
            try:
                with _opened(self._root, prefix) as folder:
                    failures |= _unlinked(folder, prefix, inside)
            except FileNotFoundError:
                continue
            except OSError as e:
                failures.update(dict.fromkeys(inside, str(e)))
        return failures

    def create(self, key: str) -> LocalWriter:
        """
        Begin a file, in the place of an older one, in folders that are made where they are missing.

        :raises OSError: if it cannot be written, or a folder on the way is a symbolic link.
        """
        return LocalWriter(self._root, key)


class LocalWriter:
    """
    Writes a file below its own name: what a killed process leaves is a file of its segment, and goes with it.

    A broker that reads that a copy is finished may delete the only other one, so the file is on the disk when it is closed.

    :param root: the storage root.
    :param key: the file's.
    """

    def __init__(self, root: Path, key: str) -> None:
        prefix = parent_of(key)
        self._name = key[len(prefix) :]
        self._opened = ExitStack()
        with ExitStack() as opened:
            self._folder = opened.enter_context(_opened(root, prefix, create=True))
            # An older one may have other names, in backups: its bytes stay as they are.
            with suppress(FileNotFoundError):
                os.unlink(self._name, dir_fd=self._folder)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            self._file = os.open(self._name, flags, 0o666, dir_fd=self._folder)
            opened.callback(os.close, self._file)
            self._opened = opened.pop_all()

    def write(self, data: bytes) -> None:
        """See :class:`~airflow_provider_rlmm.core.storage.uploads.ObjectWriter`."""
        left = memoryview(data)
        while left:
            left = left[os.write(self._file, left) :]
        if hasattr(os, "posix_fadvise"):
            # No program reads it here soon. It goes to the disk at once, and drives nothing out of memory that others read.
            os.posix_fadvise(self._file, 0, 0, os.POSIX_FADV_DONTNEED)

    def close(self) -> None:
        """See :class:`~airflow_provider_rlmm.core.storage.uploads.ObjectWriter`."""
        os.fsync(self._file)
        os.fsync(self._folder)
        self._opened.close()

    def abort(self) -> None:
        """See :class:`~airflow_provider_rlmm.core.storage.uploads.ObjectWriter`."""
        with self._opened, suppress(FileNotFoundError):
            there = os.stat(self._name, dir_fd=self._folder, follow_symlinks=False)
            # Another process may have begun it anew.
            if os.path.samestat(there, os.fstat(self._file)):
                os.unlink(self._name, dir_fd=self._folder)


def _by_folder(keys: Iterable[str]) -> dict[str, list[str]]:
    by_folder: dict[str, list[str]] = {}
    for key in keys:
        by_folder.setdefault(parent_of(key), []).append(key)
    return by_folder


def _unlinked(folder: int, prefix: str, keys: Sequence[str]) -> dict[str, str]:
    failures: dict[str, str] = {}
    for key in keys:
        try:
            os.unlink(key[len(prefix) :], dir_fd=folder)
        except FileNotFoundError:
            # Another process was faster.
            continue
        except OSError as e:
            failures[key] = str(e)
    return failures


@contextmanager
def _opened(root: Path, prefix: str, *, create: bool = False) -> Iterator[int]:
    """Open a folder below the root, step by step, so that no step is a symbolic link; make what is missing, if asked to."""
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for name in filter(None, prefix.split("/")):
            if create:
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=folder)
                    os.fsync(folder)
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = inner
        yield folder
    finally:
        os.close(folder)
