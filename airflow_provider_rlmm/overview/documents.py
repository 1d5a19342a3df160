# SPDX-License-Identifier: Apache-2.0
"""
The documents that the pages show, read from the work folder with care: any program that can write there chooses what lies
there.

A local document is a regular file below the work folder once all links are followed. It is opened component by component and
without waiting, so a link that is put in the way meanwhile leads nowhere, and a named pipe keeps no reader waiting.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Protocol, TypeVar

from airflow_provider_rlmm.core.base import strict_json
from airflow_provider_rlmm.core.base.errors import DocumentError
from airflow_provider_rlmm.core.base.file_systems import local_path, open_object, read_file
from airflow_provider_rlmm.core.base.quoting import in_quotes
from airflow_provider_rlmm.core.base.work_folder import cluster_folder

MAX_DOCUMENT_BYTES = 32 * 2**20
"""A dry run's report of the largest cleanup allowed by default names 200,000 events, about 20 MB."""

_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def read_json_object(
    work_uri: str,
    name: str,
    file: str,
    *,
    max_bytes: int = MAX_DOCUMENT_BYTES,
    before_parsing: Callable[[int], None] = lambda _: None,
) -> dict[str, Any]:
    """
    Read a JSON object below the work folder.

    :param work_uri: the work folder, a path or a URI.
    :param name: of the plan, report or diagnosis: one step below it.
    :param file: its file.
    :param max_bytes: the largest file that is read.
    :param before_parsing: is told how many bytes it has, and may raise.
    :raises FileNotFoundError: if there is none.
    :raises ConfigurationError: if the work folder's URI is not understood.
    :raises DocumentError: if it is no regular file below the work folder, too large, unreadable or no JSON object.
    """
    data = read_bytes(work_uri, name, file, max_bytes=max_bytes)
    before_parsing(len(data))
    try:
        document = strict_json.parse_object(data.decode())
        json.dumps(document, allow_nan=False)
    except ValueError as e:
        raise DocumentError(f"{file} of {name} is not JSON, or not a JSON object ({in_quotes(str(e))})") from None
    return document


class OfACluster(Protocol):
    """A document that says whose it is."""

    @property
    def cluster_id(self) -> str:
        """Id of the cluster."""


D = TypeVar("D", bound=OfACluster)


def document_of_cluster(
    work_uri: str, folder: str, file: str, read: Callable[[str], D], *, max_bytes: int, what_to_do: str
) -> D | None:
    """
    Read a document in the folder of a cluster, ``None`` if there is none.

    :param work_uri: the work folder, a path or a URI.
    :param folder: of the cluster.
    :param file: its file.
    :param read: makes the document of its text.
    :param max_bytes: the largest file that is read.
    :param what_to_do: where it is no text.
    :raises ConfigurationError: if the work folder's URI is not understood.
    :raises DocumentError: if it cannot be read, or is of another cluster.
    """
    try:
        data = read_bytes(work_uri, folder, file, max_bytes=max_bytes)
    except FileNotFoundError:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise DocumentError(f"{file} of {folder} is no text; {what_to_do}") from None
    found = read(text)
    if cluster_folder(found.cluster_id) != folder:
        raise DocumentError(f"{file} of {folder} is of another cluster, {found.cluster_id}")
    return found


def read_bytes(work_uri: str, *steps: str, max_bytes: int) -> bytes:
    """
    Read a file below the work folder.

    :param work_uri: the work folder, a path or a URI.
    :param steps: from there to the file; none of them has a slash.
    :param max_bytes: the largest file that is read.
    :raises FileNotFoundError: if there is none.
    :raises ConfigurationError: if the work folder's URI is not understood.
    :raises DocumentError: if it is no regular file below the work folder, too large or unreadable.
    """
    what = _named(steps)
    with _told(what, max_bytes):
        if local_path(work_uri) is None:
            return bytes(read_file("/".join((work_uri, *steps)), max_bytes).to_pybytes())
        with opened(work_uri, *steps) as file:
            # What the file says of its size may not hold any more.
            data = file.read(max_bytes + 1)
        if len(data) > max_bytes:
            raise OSError(errno.EFBIG, "too large")
        return data


@contextmanager
def opened(work_uri: str, *steps: str) -> Iterator[IO[bytes]]:
    """
    Open a file below the work folder of which only parts are to be read.

    :param work_uri: the work folder, a path or a URI.
    :param steps: from there to the file; none of them has a slash.
    :raises FileNotFoundError: if there is none.
    :raises ConfigurationError: if the work folder's URI is not understood.
    :raises DocumentError: if it is no regular file below the work folder, or unreadable.
    """
    folder, what = local_path(work_uri), _named(steps)
    if folder is None:
        with _told(what), open_object("/".join((work_uri, *steps))) as file:
            yield file
        return
    root = Path(os.path.realpath(folder))
    resolved = Path(os.path.realpath(root.joinpath(*steps)))
    if not resolved.is_relative_to(root) or resolved == root:
        raise DocumentError(f"{what} is a link that leads out of the work folder")
    with _told(what):
        descriptor = _open_below(root, resolved.relative_to(root).parts)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                kind = _KINDS.get(stat.S_IFMT(status.st_mode), "something else")
                raise DocumentError(f"{what} is {kind}, not a file")
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                yield file
        finally:
            os.close(descriptor)


def _named(steps: tuple[str, ...]) -> str:
    return f"{steps[-1]} of {'/'.join(steps[:-1])}"


@contextmanager
def _told(what: str, max_bytes: int = 0) -> Iterator[None]:
    """Say of errors which document they are about, without paths and addresses."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as e:
        if e.errno == errno.EFBIG:
            raise DocumentError(f"{what} has more than {max_bytes} bytes, and no page shows that many") from None
        reason = os.strerror(e.errno) if e.errno else "the store does not give it out"
        raise DocumentError(f"{what} cannot be read: {reason}") from None


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
