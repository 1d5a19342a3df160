# SPDX-License-Identifier: Apache-2.0
"""
The documents that the pages show, read from the work folder with care: whoever can write there chooses what lies there.

A local document is a regular file below the work folder once all links are followed. It is opened component by component and
without waiting, so a link that is put in the way meanwhile leads nowhere, and a named pipe keeps nobody waiting.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any

from airflow_provider_rlmm.errors import DocumentError
from airflow_provider_rlmm.file_systems import local_path, read_file
from airflow_provider_rlmm.policy import strict_json
from airflow_provider_rlmm.quoting import in_quotes

MAX_DOCUMENT_BYTES = 32 * 2**20
"""A dry run's report of the largest cleanup allowed by default names 200,000 events, about 20 MB."""

_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def read_json_object(work_uri: str, name: str, file: str, *, max_bytes: int = MAX_DOCUMENT_BYTES) -> dict[str, Any]:
    """
    Read a JSON object below the work folder.

    :param work_uri: the work folder, a path or a URI.
    :param name: of the plan, report or diagnosis: one step below it.
    :param file: its file.
    :param max_bytes: the largest file that is read.
    :raises FileNotFoundError: if there is none.
    :raises ConfigurationError: if the work folder's URI is not understood.
    :raises DocumentError: if it is no regular file below the work folder, too large, unreadable or no JSON object.
    """
    what = f"{file} of {name}"
    folder = local_path(work_uri)
    try:
        if folder is not None:
            data = _read_local(what, folder, (name, file), max_bytes)
        else:
            data = read_file(f"{work_uri}/{name}/{file}", max_bytes).to_pybytes()
    except FileNotFoundError:
        raise
    except OSError as e:
        if e.errno == errno.EFBIG:
            raise DocumentError(f"{what} has more than {max_bytes} bytes, and no page shows that many") from None
        # Its text may hold paths and addresses.
        reason = os.strerror(e.errno) if e.errno else "the store does not give it out"
        raise DocumentError(f"{what} cannot be read: {reason}") from None
    try:
        document = strict_json.parse_object(data.decode())
        json.dumps(document, allow_nan=False)
    except ValueError as e:
        raise DocumentError(f"{what} is not JSON, or not a JSON object ({in_quotes(str(e))})") from None
    return document


def _read_local(what: str, folder: Path, steps: tuple[str, ...], max_bytes: int) -> bytes:
    root = Path(os.path.realpath(folder))
    resolved = Path(os.path.realpath(root.joinpath(*steps)))
    if not resolved.is_relative_to(root) or resolved == root:
        raise DocumentError(f"{what} is a link that leads out of the work folder")
    descriptor = _open_below(root, resolved.relative_to(root).parts)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            kind = _KINDS.get(stat.S_IFMT(status.st_mode), "something else")
            raise DocumentError(f"{what} is {kind}, not a file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            # What the file says of its size may not hold any more.
            data = file.read(max_bytes + 1)
        if len(data) > max_bytes:
            raise OSError(errno.EFBIG, "too large")
        return data
    finally:
        os.close(descriptor)


def _open_below(root: Path, steps: tuple[str, ...]) -> int:
    """Open a file; none of the steps to it may be a link any more. Opening a pipe does not wait for its writer."""
    directory = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for step in steps[:-1]:
            inner = os.open(step, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
            os.close(directory)
            directory = inner
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC
        return os.open(steps[-1], flags, dir_fd=directory)
    finally:
        os.close(directory)
