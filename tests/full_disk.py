# SPDX-License-Identifier: Apache-2.0
"""A disk below the local remote storage that fills up."""

from __future__ import annotations

import errno
import os

import pytest


def leave_room(monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    """
    Let a local storage write some bytes more, and none behind them.

    :param monkeypatch: what takes it back.
    :param room: how many bytes.
    """
    write = os.write

    def until_it_is_full(file: int, content: memoryview) -> int:
        nonlocal room
        if not room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = write(file, content[:room])
        room -= written
        return written

    monkeypatch.setattr("airflow_provider_rlmm.core.storage.local_files.os.write", until_it_is_full)
