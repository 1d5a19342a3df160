# SPDX-License-Identifier: Apache-2.0
"""Opening files that a broker wrote, and nothing that was put in their place."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO, Final

from airflow_provider_rlmm.core.base.errors import LogDirectoryError

MAX_INDEX_BYTES: Final = 1024 * 1024 * 1024
"""The largest index that is read: a hundred times of what a broker makes by default."""


def open_regular(path: Path) -> BinaryIO:
    """
    Open a file for reading; a symbolic link is not followed, a pipe is not waited for.

    :raises LogDirectoryError: if it is no regular file.
    :raises OSError: if it cannot be opened.
    """
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise LogDirectoryError(f"{path} is no regular file: a broker does not make such a thing")
    return file


def read_index(path: Path) -> bytes:
    """
    Read an index or a producer snapshot.

    :raises LogDirectoryError: if it cannot be read, or is larger than any that a broker makes.
    """
    try:
        with open_regular(path) as file:
            data = file.read(MAX_INDEX_BYTES + 1)
    except OSError as e:
        raise LogDirectoryError(f"{path} cannot be read: {e.strerror}") from e
    if len(data) > MAX_INDEX_BYTES:
        raise LogDirectoryError(f"{path} is larger than {MAX_INDEX_BYTES} bytes: no broker makes such an index")
    return data
