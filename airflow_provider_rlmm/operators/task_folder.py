# SPDX-License-Identifier: Apache-2.0
"""Files for the child process of one try of a task: a folder that is not left behind, and a secret that is in no file."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_DRAIN_BYTES = 65_536


@contextmanager
def task_folder(prefix: str) -> Iterator[Path]:
    """
    Make a temporary folder that only this user can enter; it is removed after the block.

    A try that is killed cannot clean up. Its folder is no longer locked then, so the next try on this machine removes it.

    :param prefix: of the folder's name; folders of this prefix are taken for those of earlier tries.
    """
    parent = Path(tempfile.gettempdir())
    _remove_left_behind(parent, prefix)
    folder, lock = _locked_folder(parent, prefix)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


@contextmanager
def handed_over(path: Path, text: str) -> Iterator[None]:
    """
    Let a child process read a text once, under a file name, while it is never in a file: a kill leaves nothing to find.

    :param path: becomes a named pipe that only this user can open; it is gone when the text was read, or after the block.
    :param text: what the reader gets.
    """
    os.mkfifo(path, 0o600)
    writer = threading.Thread(
        target=_write_once, args=(path, text.encode()), name=f"writer of {path.name}", daemon=True
    )
    writer.start()
    try:
        yield
    finally:
        _release(path, writer)
        path.unlink(missing_ok=True)


def _write_once(path: Path, data: bytes) -> None:
    # Opening waits for a reader; one that goes away early is its own affair.
    with suppress(FileNotFoundError, BrokenPipeError):
        pipe = os.open(path, os.O_WRONLY)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(pipe, rest) :]
        finally:
            os.close(pipe)
            path.unlink(missing_ok=True)


def _release(path: Path, writer: threading.Thread) -> None:
    """End a writer that no program has read from: it waits in ``open``, or for room in the pipe."""
    with suppress(FileNotFoundError):
        reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            while writer.is_alive():
                with suppress(BlockingIOError):
                    os.read(reader, _DRAIN_BYTES)
                writer.join(0.01)
        finally:
            os.close(reader)
    writer.join()


def _locked_folder(parent: Path, prefix: str) -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Another task that starts at this moment may have taken the folder, not locked yet, for one left behind.
        if folder.exists():
            return folder, lock
        os.close(lock)


def _remove_left_behind(parent: Path, prefix: str) -> None:
    for folder in parent.glob(f"{prefix}*"):
        with suppress(OSError):
            _remove_if_unlocked(folder)


def _remove_if_unlocked(folder: Path) -> None:
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        found = os.fstat(lock)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            return
        # Raises where the try that made it still runs.
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)
