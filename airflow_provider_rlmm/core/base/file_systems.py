# SPDX-License-Identifier: Apache-2.0
"""
Files in object stores and local folders, by URI: what plans, reports and snapshots have in common.

A URI is a path, a ``file://`` one, or an object store's: ``s3://`` (Spark's ``s3a://`` means the same), ``gs://``, ``az://``,
``abfs://``. obstore reaches object stores, as it does the remote storage; endpoint, region and credentials come from the
environment (such as ``AWS_ACCESS_KEY_ID``, ``AWS_ENDPOINT_URL``) or the role of the machine, unless the caller says otherwise
(:mod:`~airflow_provider_rlmm.core.base.object_stores`).

What is written replaces the old whole or not at all. A local file is written beside the old one, brought to the disk
and given its name; an object store shows an object once all of it has arrived. What a killed process leaves beside a local
file is removed by the next one that writes the same file.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import IO, Any, Final
from urllib.parse import unquote, urlsplit

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.base.local_writing import (
    LEFTOVER,
    beside,
    create_beside,
    flush,
    telling_of_full_disks,
)
from airflow_provider_rlmm.core.base.object_stores import create_object, move_object, object_at, upload, written_object
from airflow_provider_rlmm.core.base.quoting import in_quotes

ONE_PUT: Final = 16 * 2**20
"""Up to this size an object is written by a single request, above it in parts that appear together; bytes."""

_SCHEMES: Final = ("s3", "s3a", "gs", "az", "abfs", "abfss")


def local_path(uri: str) -> Path | None:
    """
    Return the path that a URI means on this machine, ``None`` for one of an object store.

    :param uri: of a directory or a file.
    :raises ConfigurationError: if the URI is not understood.
    """
    if "://" not in uri:
        return Path(uri)
    parts = urlsplit(uri)
    if parts.scheme in _SCHEMES and parts.netloc:
        return None
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or parts.query or parts.fragment:
        raise ConfigurationError(
            f"{in_quotes(uri)} is no URI of a directory or file that can be opened: give a path, or a URI that begins with "
            f"file:///, {', '.join(f'{scheme}://' for scheme in _SCHEMES)}"
        )
    return Path(unquote(parts.path))


def absolute(uri: str) -> str:
    """
    Return the URI by which another process finds the same folder, from any folder of its own; without a slash at the end.

    :param uri: a path or a URI.
    :raises ConfigurationError: if it is not understood.
    """
    path = local_path(uri)
    return uri.rstrip("/") if path is None else path.absolute().as_uri()


def replace_file(uri: str, parts: Sequence[Any]) -> None:
    """
    Write a file in the place of an older one; readers see the one or the other, and after a crash there is one of them.

    :param uri: of the file; directories are made.
    :param parts: buffers, written one after the other.
    :raises ConfigurationError: if the URI is not understood.
    :raises OSError: if it cannot be written; an older file is still there, whole.
    """
    with replacing(uri) as file:
        file.writelines(parts)


@contextmanager
def replacing(uri: str) -> Iterator[IO[bytes]]:
    """
    Return a file to write to, which takes the place of the older one at the end, unless an error ends the block.

    :param uri: of the file; directories are made.
    :raises ConfigurationError: if the URI is not understood.
    :raises OSError: if it cannot be written; an older file is still there, whole.
    """
    path = local_path(uri)
    if path is None:
        with SpooledTemporaryFile(max_size=ONE_PUT) as spool:
            yield spool
            upload(uri, spool, in_parts=spool.seek(0, os.SEEK_END) > ONE_PUT)
        return
    with beside(path) as (file, temporary):
        yield file
        flush(file)
        temporary.replace(path)


@contextmanager
def writing(uri: str) -> Iterator[IO[bytes]]:
    """
    Return a file to write to, which is there once the block has ended well, and not at all after an error.

    What is kept in memory does not grow with it. A local one is seen while it is written and is not brought to the disk, so
    this is for what counts only together with a hash, under a name that no other writer takes.

    :param uri: of the file; directories are made.
    :raises ConfigurationError: if the URI is not understood.
    :raises OSError: if it cannot be written.
    """
    path = local_path(uri)
    if path is None:
        with written_object(uri) as stream:
            yield stream
        return
    with telling_of_full_disks(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("wb")
        try:
            with file:
                yield file
        except BaseException:
            path.unlink(missing_ok=True)
            raise


def move_file(folder: str, source: str, target: str) -> None:
    """
    Give a file another name, in the place of an older one. In an object store the store copies it.

    :param folder: URI of a folder.
    :param source: name below it.
    :param target: name below it, in a folder that is there.
    :raises ConfigurationError: if the URI is not understood.
    :raises FileNotFoundError: if there is no such file.
    :raises OSError: if it cannot be moved.
    """
    path = local_path(folder)
    if path is None:
        move_object(folder, source, target)
    else:
        (path / source).replace(path / target)


def create_file(uri: str, parts: Sequence[Any]) -> None:
    """
    Write a file where there is none yet, whole or not at all: of two that do so at once one fails.

    :param uri: of the file; directories are made.
    :param parts: buffers, written one after the other.
    :raises ConfigurationError: if the URI is not understood, or its store writes over what is there.
    :raises FileExistsError: if there is one with other bytes.
    :raises OSError: if it cannot be written.
    """
    path, data = local_path(uri), b"".join(parts)
    try:
        if path is None:
            create_object(uri, data)
        else:
            create_beside(path, data)
    except FileExistsError:
        # The answer to a call that did write may be lost, and the same call made again finds its own file.
        if not _holds(uri, data):
            raise


def remove_file(uri: str) -> None:
    """
    Remove a file, if there is one.

    :raises ConfigurationError: if the URI is not understood.
    :raises OSError: if it cannot be removed.
    """
    path = local_path(uri)
    if path is not None:
        path.unlink(missing_ok=True)
        return
    with suppress(FileNotFoundError), object_at(uri) as (store, name):
        store.delete(name)


def list_files(uri: str) -> list[str]:
    """
    Return the names of the files directly below a folder, sorted; none where there is no folder.

    What a writer is still writing, or a killed one left, is no file.

    :raises ConfigurationError: if the URI is not understood.
    :raises OSError: if it cannot be listed.
    """
    return _listed(uri)[0]


def list_folders(uri: str) -> list[str]:
    """
    Return the names of the folders directly below a folder, sorted; none where there is no folder. Links are left out.

    :raises ConfigurationError: if the URI is not understood.
    :raises OSError: if it cannot be listed.
    """
    return _listed(uri)[1]


def files_below(uri: str) -> list[str]:
    """
    Return the names of the files in a folder and in those below it, as they follow its URI, sorted; none where there is none.

    What a writer is still writing, or a killed one left, is no file. Links are left out.

    :raises ConfigurationError: if the URI is not understood.
    :raises OSError: if it cannot be listed.
    """
    path, found = local_path(uri), list[str]()
    if path is None:
        with suppress(FileNotFoundError), object_at(f"{uri.rstrip('/')}/") as (store, _):
            found = [entry["path"] for page in store.list() for entry in page]
    else:

        def refuse(error: OSError) -> None:
            if not isinstance(error, FileNotFoundError):
                raise error

        for folder, _, names in os.walk(path, onerror=refuse):
            found += [
                (Path(folder) / n).relative_to(path).as_posix() for n in names if not Path(folder, n).is_symlink()
            ]
    return sorted(name for name in found if not LEFTOVER.fullmatch(name.rpartition("/")[2]))


def folder_in_words(uri: str) -> str:
    """Name a folder and say whether it is there: a wrong one looks like an empty system. It never fails."""
    try:
        path = local_path(uri)
        if path is not None and not path.is_dir():
            return f"{uri}, which {'is no folder' if path.exists() else 'does not exist'}"
        files, folders = _listed(uri)
    except (ConfigurationError, OSError) as e:
        return f"{uri}, which cannot be read ({type(e).__name__})"
    return uri if files or folders else f"{uri}, which is empty"


def file_sizes(uri: str) -> dict[str, int]:
    """
    Return the files directly below a folder with their sizes in bytes; none where there is no folder.

    :raises ConfigurationError: if the URI is not understood.
    :raises OSError: if it cannot be listed.
    """
    path = local_path(uri)
    try:
        if path is None:
            with object_at(f"{uri.rstrip('/')}/") as (store, _):
                return {entry["path"]: entry["size"] for entry in store.list_with_delimiter()["objects"]}
        with os.scandir(path) as entries:
            files = [entry for entry in entries if entry.is_file(follow_symlinks=False)]
            return {entry.name: entry.stat(follow_symlinks=False).st_size for entry in files}
    except FileNotFoundError:
        return {}


def remove_folder(uri: str) -> None:
    """
    Remove a folder with all that is in it, if there is one. Links are removed, what they lead to is not.

    :param uri: of the folder; a link is refused.
    :raises ConfigurationError: if the URI is not understood.
    :raises OSError: if something of it cannot be removed.
    """
    path = local_path(uri)
    if path is not None:
        with suppress(FileNotFoundError):
            shutil.rmtree(path)
        return
    with object_at(f"{uri.rstrip('/')}/") as (store, _):
        for found in store.list():  # in pages of what one request deletes
            store.delete([entry["path"] for entry in found])


def _listed(uri: str) -> tuple[list[str], list[str]]:
    """Return the names of files and folders directly below a folder."""
    path = local_path(uri)
    try:
        if path is None:
            with object_at(f"{uri.rstrip('/')}/") as (store, _):
                found = store.list_with_delimiter()
            files, folders = [entry["path"] for entry in found["objects"]], list(found["common_prefixes"])
        else:
            with os.scandir(path) as entries:
                known = [(e.name, e.is_file(follow_symlinks=False), e.is_dir(follow_symlinks=False)) for e in entries]
            files, folders = [n for n, is_file, _ in known if is_file], [n for n, _, is_dir in known if is_dir]
    except FileNotFoundError:
        return [], []
    return sorted(name for name in files if not LEFTOVER.fullmatch(name)), sorted(folders)


def read_file(uri: str, max_bytes: int | None = None) -> Any:
    """
    Read a whole file into one Arrow buffer.

    :param uri: of the file.
    :param max_bytes: a larger one is refused before it is read; ``None`` for any size.
    :raises ConfigurationError: if the URI is not understood.
    :raises FileNotFoundError: if there is none.
    :raises OSError: if it cannot be read, is larger, or is no regular file.
    """
    import pyarrow as pa

    path = local_path(uri)
    if path is None:
        with object_at(uri) as (store, name):
            answer = store.get(name)
            _check_size(uri, answer.meta["size"], max_bytes)
            return pa.py_buffer(answer.bytes())
    with _open_regular(uri, path) as file:
        size = os.fstat(file.fileno()).st_size
        _check_size(uri, size, max_bytes)
        buffer = pa.allocate_buffer(size)
        return buffer.slice(0, file.readinto(memoryview(buffer)))


@contextmanager
def reading_in_order(uri: str) -> Iterator[IO[bytes]]:
    """
    Open a file that is read from its beginning to its end by pieces: an object is fetched by one request.

    :param uri: of the file.
    :raises ConfigurationError: if the URI is not understood.
    :raises FileNotFoundError: if there is none.
    :raises OSError: if it cannot be read, or is no regular file.
    """
    path = local_path(uri)
    if path is None:
        from airflow_provider_rlmm.core.base.object_parts import in_order

        with object_at(uri) as (store, name):
            yield in_order(store.get(name))
        return
    with _open_regular(uri, path) as file:
        yield file


def _open_regular(uri: str, path: Path) -> BufferedReader:
    # Opening a pipe would wait for its other end.
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is no regular file", uri)
    return file


@contextmanager
def open_object(uri: str) -> Iterator[IO[bytes]]:
    """
    Open an object of which only parts are to be read: nothing is fetched before it is asked for.

    :param uri: of the object, in an object store.
    :raises ConfigurationError: if the URI is not understood.
    :raises FileNotFoundError: if there is none.
    :raises OSError: if it cannot be read.
    """
    import obstore

    from airflow_provider_rlmm.core.base.object_parts import in_parts

    with object_at(uri) as (store, name):
        yield in_parts(obstore.open_reader(store, name))


def modified_ms(uri: str) -> int:
    """
    Return when a file was written last, by the clock of its store; ms since the epoch.

    :raises ConfigurationError: if the URI is not understood.
    :raises OSError: if it cannot be told.
    """
    path = local_path(uri)
    if path is not None:
        return path.stat().st_mtime_ns // 1_000_000
    with object_at(uri) as (store, name):
        return round(store.head(name)["last_modified"].timestamp() * 1000)


def _holds(uri: str, data: bytes) -> bool:
    try:
        return bool(read_file(uri, len(data)).to_pybytes() == data)
    except OSError:
        return False


def _check_size(uri: str, size: int, max_bytes: int | None) -> None:
    if max_bytes is not None and size > max_bytes:
        raise OSError(errno.EFBIG, f"it has {size} bytes, at most {max_bytes} are expected", uri)
