# SPDX-License-Identifier: Apache-2.0
"""
Looks for and deletes files of a local folder by name.

A listing of a folder costs what lies there, and obstore 0.12 lists all of it whatever the offset says: with 60,000 segments
in a user partition each batch would cost a hundred times what it deletes. No symbolic link is followed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from airflow_provider_rlmm.storage.deletion import Lookup, parent_of
from airflow_provider_rlmm.storage.remote_storage import StoredObject


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

        :param lookup: the keys, all in one folder; one that is not there holds no files.
        :raises OSError: if the folder cannot be read.
        """
        found = []
        try:
            with _opened(self._root, lookup.prefix) as folder:
                for key in lookup.keys:
                    try:
                        status = os.stat(key[len(lookup.prefix) :], dir_fd=folder, follow_symlinks=False)
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
        by_folder: dict[str, list[str]] = {}
        for key in keys:
            by_folder.setdefault(parent_of(key), []).append(key)
        failures: dict[str, str] = {}
        for prefix, inside in by_folder.items():
            try:
                with _opened(self._root, prefix) as folder:
                    failures |= _unlinked(folder, prefix, inside)
            except FileNotFoundError:
                continue
            except OSError as e:
                failures.update(dict.fromkeys(inside, str(e)))
        return failures


def _unlinked(folder: int, prefix: str, keys: Sequence[str]) -> dict[str, str]:
    failures: dict[str, str] = {}
    for key in keys:
        try:
            os.unlink(key[len(prefix) :], dir_fd=folder)
        except FileNotFoundError:
            # Somebody else was faster.
            continue
        except OSError as e:
            failures[key] = str(e)
    return failures


@contextmanager
def _opened(root: Path, prefix: str) -> Iterator[int]:
    """Open a folder below the root, step by step, so that no step is a symbolic link."""
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for name in filter(None, prefix.split("/")):
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = inner
        yield folder
    finally:
        os.close(folder)
