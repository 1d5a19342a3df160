# SPDX-License-Identifier: Apache-2.0
"""
Whether a running broker holds a disk: by the lock that it keeps on ``.lock`` as long as it runs (Kafka: ``FileLock``).

A clean shutdown removes the file; a broker that died leaves it, without the lock. Locks are of one machine: a process that
looks at a disk over the network, or at a copy, sees no lock of the broker's.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from airflow_provider_rlmm.core.base.errors import LogDirectoryError

LOCK_FILE: Final = ".lock"


@contextmanager
def kept_from_brokers(disk: Path) -> Iterator[None]:
    """
    Keep brokers from starting on a disk during the block, where the file that they lock is there; it is not made.

    At the end it looks again: where the file was missing, a broker may have started meanwhile. Do not nest two of these
    for one disk: the end of the inner one gives up the lock of the outer one, as POSIX has it.

    :param disk: one of a broker's ``log.dirs``.
    :raises LogDirectoryError: if a broker holds the disk, has taken it meanwhile, or may have done so.
    """
    lock = _locked(disk)
    try:
        yield
        if lock is None:
            lock = _locked(disk)
            if lock is not None:
                raise LogDirectoryError(f"{disk}: a broker has started on it meanwhile: stop it, then try again")
    finally:
        if lock is not None:
            os.close(lock)


def _locked(disk: Path) -> int | None:
    """A descriptor that shares the lock, ``None`` where there is no file to lock."""
    path = disk / LOCK_FILE
    try:
        # For reading, so that it works on a disk that is mounted read-only; shared locks exclude a broker's all the same.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as e:
        raise LogDirectoryError(
            f"{path} cannot be opened ({e.strerror}): it cannot be told whether a broker holds the disk; this process needs"
            " to be allowed to read it"
        ) from e
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as e:
        os.close(descriptor)
        if e.errno in (errno.EACCES, errno.EAGAIN):
            raise LogDirectoryError(
                f"{disk} is held by a running broker, which appends to its segments and deletes them: stop it and take a"
                " snapshot of the disk, or take a snapshot of the file system"
            ) from e
        raise LogDirectoryError(
            f"{path} cannot be locked ({e.strerror}): it cannot be told whether a broker holds the disk; take a snapshot"
            " of it on a file system that knows locks"
        ) from e
    return descriptor
