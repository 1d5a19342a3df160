# SPDX-License-Identifier: Apache-2.0
"""
Single objects of object stores by URI, through obstore: opened, written in parts, created once, given another name.

Endpoint, region and credentials come from the environment or the role of the machine, unless :func:`open_stores_by` has said
who opens stores in this process. That an object is written only where there is none is asked by a conditional request
(``If-None-Match: *``). Some gateways take no notice of it, so it is tried once for each place before it is believed.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from importlib.util import find_spec
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from airflow_provider_rlmm.core.base.errors import ConfigurationError, StorageError
from airflow_provider_rlmm.core.base.quoting import in_quotes
from airflow_provider_rlmm.core.base.redaction import without_stores_secrets

if TYPE_CHECKING:
    from obstore.store import ObjectStore, RetryConfig

_RETRY: Final[RetryConfig] = {"max_retries": 3, "retry_timeout": timedelta(minutes=1)}
_PART: Final = 8 * 2**20
_PARTS_AT_ONCE: Final = 2
"""Together they bound what a writer keeps in memory, with input of any size; a part of S3 has 5 MiB at least."""

_ADDRESSES: Final = (
    "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT", "AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT",
)  # fmt: skip
_proven: Final[set[tuple[str, ...]]] = set()
"""Places that have refused to write over an object."""


class OpenedStore(NamedTuple):
    """An object store, and what may be told of its errors."""

    store: ObjectStore
    tell: Callable[[Exception], str]  # returns an error's text on one line, without secrets


_openers: list[Callable[[str], OpenedStore | None]] = []


def open_stores_by(opener: Callable[[str], OpenedStore | None]) -> None:
    """
    Have object stores opened by code that knows their credentials.

    :param opener: takes the URI of a folder; ``None`` from it leaves a store to the environment. It raises
        :class:`ConfigurationError` or :class:`StorageError`.
    """
    _openers[:] = [opener]


def require_client(uri: str) -> None:
    """
    Refuse to go on where object stores cannot be opened; to be asked before work that ends in one.

    :param uri: of an object store.
    :raises ConfigurationError: saying which Python lacks what.
    """
    if find_spec("obstore") is None:
        raise ConfigurationError(
            f"{sys.executable} has no obstore, which opens {uri}: install obstore 0.12 in this Python, or bring it along in "
            "the archive or the image of Spark's driver and executors"
        )


@contextmanager
def object_at(uri: str) -> Iterator[tuple[ObjectStore, str]]:
    """
    Open an object's store; its errors become those of a file, on one line: obstore's go on with their insides.

    :param uri: of the object, or of a folder with a slash at its end.
    :return: the store of the folder, and the name of the object there.
    :raises ConfigurationError: if the URI cannot be opened, or obstore is not installed.
    :raises FileNotFoundError: if there is no such object.
    :raises FileExistsError: if there is one, and must not be.
    :raises OSError: if the store refuses, or does not answer.
    """
    require_client(uri)
    from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError

    folder, _, name = uri.rpartition("/")
    try:
        found = next((opened for opener in _openers if (opened := opener(folder))), None)
        store, tell = found or _from_environment(folder)
    except ConfigurationError:
        raise
    except StorageError as e:
        raise OSError(f"{e}: {uri}") from None
    except (BaseError, ValueError) as e:
        raise ConfigurationError(f"{in_quotes(uri)} is no URI that can be opened: {_first_line(e)}") from None
    try:
        yield store, unquote(name)
    except (FileNotFoundError, NotFoundError):
        raise FileNotFoundError(errno.ENOENT, "there is no such object", uri) from None
    except AlreadyExistsError:
        raise FileExistsError(errno.EEXIST, "there is an object already", uri) from None
    except BaseError as e:
        raise OSError(f"{tell(e)}: {uri}") from None
    except OSError as e:
        # What obstore's readers and writers raise has no number.
        if e.errno is not None:
            raise
        raise OSError(f"{tell(e)}: {uri}") from None


def upload(uri: str, file: Any, *, in_parts: bool) -> None:
    """
    Write an object in the place of an older one.

    :param uri: of the object.
    :param file: what is read from its beginning.
    :param in_parts: whether it is sent in parts, which appear together.
    :raises OSError: as :func:`object_at`.
    """
    file.seek(0)
    with object_at(uri) as (store, name):
        store.put(name, file, mode="overwrite", use_multipart=in_parts)


def create_object(uri: str, data: bytes) -> None:
    """
    Write an object where there is none: of two that do so at once one fails.

    :param uri: of the object.
    :param data: its bytes.
    :raises ConfigurationError: if the store writes over what is there all the same; the object is removed then.
    :raises FileExistsError: if there is one.
    :raises OSError: as :func:`object_at`.
    """
    from obstore.exceptions import AlreadyExistsError

    with object_at(uri) as (store, name):
        place = _place_of(uri, store)
        try:
            store.put(name, data, mode="create", use_multipart=False)
        except AlreadyExistsError:
            _proven.add(place)
            raise
        if place not in _proven:
            _require_refusal(uri, store, name, data)
            _proven.add(place)


def _require_refusal(uri: str, store: ObjectStore, name: str, data: bytes) -> None:
    """Write what was just created once more: the same bytes, so no right but to write is needed and nothing is left over."""
    from obstore.exceptions import AlreadyExistsError, BaseError

    # Twice: between the first time and this one another process may have removed it.
    for _ in range(2):
        try:
            store.put(name, data, mode="create", use_multipart=False)
        except AlreadyExistsError:
            return
    with suppress(BaseError):
        store.delete(name)
    raise ConfigurationError(
        f"the object store writes over {uri}, though it was told to write only where there is no object (If-None-Match: *): "
        "of two runs at once neither would notice the other; take a store, or a version of its gateway, that keeps to "
        "conditional writes"
    )


def _place_of(uri: str, store: ObjectStore) -> tuple[str, ...]:
    parts, config = urlsplit(uri), getattr(store, "config", None) or {}
    given = (str(config.get(name, "")) for name in ("endpoint", "base_url"))
    return (parts.scheme, parts.netloc, *given, *(os.environ.get(name, "") for name in _ADDRESSES))


def move_object(folder: str, source: str, target: str) -> None:
    """
    Give an object another name, in the place of an older one; the store copies it, so no byte of it comes here.

    :param folder: URI of a folder.
    :param source: name below it.
    :param target: name below it.
    :raises FileNotFoundError: if there is no such object.
    :raises OSError: as :func:`object_at`.
    """
    with object_at(f"{folder}/") as (store, _):
        store.copy(source, target, overwrite=True)
        store.delete(source)


@contextmanager
def written_object(uri: str) -> Iterator[IO[bytes]]:
    """
    Return a file to write to: an object, which is there once the block has ended well, and not at all after an error.

    It is sent in parts while it is written: what is kept in memory does not grow with it.

    :param uri: of the object.
    :raises OSError: as :func:`object_at`.
    """
    import obstore

    with (
        object_at(uri) as (store, name),
        obstore.open_writer(store, name, buffer_size=_PART, max_concurrency=_PARTS_AT_ONCE) as writer,
    ):
        yield _InPieces(writer)  # type: ignore[misc]  # as much of a file as is written to


class _InPieces:
    """Hands on no more than a part at a time: of a larger buffer obstore would send all parts at once."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        for begin in range(0, view.nbytes, _PART):
            self._writer.write(view[begin : begin + _PART])
        return view.nbytes


def _from_environment(uri: str) -> OpenedStore:
    from obstore.store import from_url

    # Client options would replace those of the environment (AWS_ALLOW_HTTP), so obstore's own time-outs of 30 s hold.
    return OpenedStore(from_url(uri, retry_config=_RETRY), _first_line)


def _first_line(error: Exception) -> str:
    return next(iter(without_stores_secrets(str(error)).splitlines()), type(error).__name__)
