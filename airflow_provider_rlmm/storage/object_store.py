# SPDX-License-Identifier: Apache-2.0
"""
Remote storage on obstore: local folders, S3, Google Cloud Storage, Azure.

What obstore 0.12 does: a bulk delete stops at the first object that fails, after the ten or so that are in flight; on
local storage, Google Cloud Storage and Azure a missing object is such a failure, on S3 it is a success. The listing of a
local root that has vanished is empty, and writing to it creates it again. So what is left of a failed call is tried
again in smaller ones, only listings are believed, and the root is looked at around them.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from airflow_provider_rlmm.errors import (
    RemoteObjectNotFoundError,
    StorageAccessError,
    StorageError,
    StorageRootError,
    StorageUnavailableError,
)
from airflow_provider_rlmm.storage.credentials import StoreCredentials
from airflow_provider_rlmm.storage.deadline import Deadline, PanicError
from airflow_provider_rlmm.storage.deletion import parent_of
from airflow_provider_rlmm.storage.layout_storage import DeleteCalls, LayoutRemoteStorageManager
from airflow_provider_rlmm.storage.layouts import Layout
from airflow_provider_rlmm.storage.opening import location_of, open_store, safe_text, secrets_in
from airflow_provider_rlmm.storage.remote_storage import StoredObject
from airflow_provider_rlmm.storage.root import Location

if TYPE_CHECKING:
    from obstore import OffsetRange
    from obstore.store import ObjectStore

_LIST_CHUNK: Final = 1_000
_DELETE_CHUNKS: Final = (1_000, 100, 10, 1)
"""Objects per delete call, first what one DeleteObjects request of S3 takes, then less where a call was cut short."""

_MAX_REFUSED_DELETE_CALLS: Final = 100
"""Delete calls that may fail for another reason than a missing object; what is left then is for the next run."""

_STATUS: Final = re.compile(r"status code: (\d{3})\b")
_SLOWEST_COPY: Final = 2**20
"""Bytes per second below which a copy counts as hanging."""


class ObjectStoreRemoteStorageManager(LayoutRemoteStorageManager):
    """
    Remote storage on any store of obstore.

    :param store: the storage root: a URI (see :func:`~airflow_provider_rlmm.storage.opening.open_store`) or an open store.
    :param layout: where the objects of a segment lie.
    :param options: options for a URI.
    :param credentials: credentials for a URI.
    :param deadline: ends calls that do not return.
    """

    def __init__(
        self,
        store: str | ObjectStore,
        layout: Layout,
        *,
        options: Mapping[str, str] | None = None,
        credentials: StoreCredentials | None = None,
        deadline: Deadline | None = None,
    ) -> None:
        opened = open_store(store, options, credentials) if isinstance(store, str) else store
        secrets = secrets_in(options or {}) if credentials is None else credentials.secrets
        super().__init__(_ObstoreCalls(opened, secrets, deadline or Deadline()), layout)
        self._name = store if isinstance(store, str) else type(store).__name__

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r}, {self._layout.name!r})"


class _ObstoreCalls:
    """The calls to a store, with obstore's errors translated."""

    def __init__(self, store: ObjectStore, secrets: Iterable[str], deadline: Deadline) -> None:
        from obstore.store import LocalStore

        self._store = store
        self._secrets = secrets
        self._deadline = deadline
        self._local_root = store.prefix if isinstance(store, LocalStore) else None

    def identities(self, prefixes: Sequence[str] = ()) -> Sequence[object]:
        root = self._local_root
        if root is None:
            # Elsewhere there is nothing to be unmounted: listing a bucket that does not exist is an error.
            return [None] * (1 + len(prefixes))
        what = f"look at {', '.join(prefixes) or 'the storage root'}"
        with self._translated(what, StorageRootError):
            return self._deadline.call(what, lambda: [_root_identity(root), *(_identity(root, p) for p in prefixes)])

    def location(self, prefix: str) -> Location:
        what = f"look at {prefix or 'the storage root'}"
        with self._translated(what, StorageRootError):
            return self._deadline.call(what, lambda: location_of(self._store, prefix))

    def objects(self, prefix: str, after: str | None = None) -> Iterator[StoredObject]:
        what = f"list {prefix or 'the storage root'}"
        with self._translated(what, StorageRootError):
            chunks = self._deadline.call(
                what, lambda: iter(self._store.list(prefix or None, offset=after, chunk_size=_LIST_CHUNK))
            )
            while (chunk := self._deadline.call(what, lambda: next(chunks, None))) is not None:
                for meta in chunk:
                    yield StoredObject(meta["path"], meta["size"], round(meta["last_modified"].timestamp() * 1000))

    def directories(self, prefix: str) -> Sequence[str]:
        what = f"list {prefix}"
        with self._translated(what, StorageRootError):
            return self._deadline.call(what, lambda: self._store.list_with_delimiter(prefix)["common_prefixes"])

    def delete(self, keys: Sequence[str]) -> DeleteCalls:
        failures: dict[str, str] = {}
        sent: set[str] = set()
        calls = refusals = 0
        left = list(keys)
        for size in _DELETE_CHUNKS:
            cut_short: list[str] = []
            for chunk in (left[i : i + size] for i in range(0, len(left), size)):
                if refusals >= _MAX_REFUSED_DELETE_CALLS:
                    break
                calls += 1
                sent.update(chunk)
                try:
                    refused, is_cut_short = self._delete_chunk(chunk)
                except StorageUnavailableError as e:
                    # No later call would be made, and what this one does in the end is for later listings to tell.
                    return DeleteCalls(failures | dict.fromkeys(chunk, str(e)), calls, sent)
                if refused is not None:
                    refusals += 1
                    failures.update(dict.fromkeys(chunk, refused))
                if is_cut_short:
                    cut_short += chunk
            if not cut_short or size == 1:
                break
            calls += len({parent_of(key) for key in cut_short})
            left = self._still_listed(cut_short)
        return DeleteCalls(failures, calls, sent)

    def _delete_chunk(self, chunk: Sequence[str]) -> tuple[str | None, bool]:
        """Return why the store refused, ``None`` where it did not, and whether it may have stopped in between."""
        from obstore.exceptions import BaseError, PermissionDeniedError

        try:
            self._deadline.call(f"delete {len(chunk)} objects, {chunk[0]} first", lambda: self._store.delete(chunk))
        except FileNotFoundError:
            # Somebody else was faster with one of them.
            return None, True
        except (BaseError, OSError, ValueError, PanicError) as e:
            # A store that throttles or does not answer is not asked for every object of the chunk again.
            cut_short = self._local_root is not None or isinstance(e, PermissionDeniedError)
            return safe_text(e, self._secrets), cut_short
        return None, False

    def _still_listed(self, keys: Sequence[str]) -> list[str]:
        try:
            listed = {stored.key for parent in {parent_of(key) for key in keys} for stored in self.objects(parent)}
        except StorageError:
            # Part of the deletion has been done: whether the store answers is for the caller's own listing to tell.
            return []
        return [key for key in keys if key in listed]

    def put(self, key: str, data: bytes | Path) -> None:
        what = f"write {key}"
        with self._translated(what, StorageRootError):
            size = data.stat().st_size if isinstance(data, Path) else len(data)
            self._deadline.call(what, lambda: self._store.put(key, data), extra_s=size / _SLOWEST_COPY)

    def put_if_absent(self, key: str, data: bytes, *, replace: bool = False) -> bool:
        from obstore.exceptions import AlreadyExistsError

        what = f"write {key}"
        with self._translated(what, StorageRootError):
            try:
                self._deadline.call(what, lambda: self._store.put(key, data, mode="overwrite" if replace else "create"))
            except AlreadyExistsError:
                return False
        return True

    def get(self, key: str, start: int = 0, end: int | None = None) -> bytes:
        what = f"read {key}"
        with self._translated(what, RemoteObjectNotFoundError):
            if start == 0 and end is None:
                return self._deadline.call(what, lambda: bytes(self._store.get(key).bytes()))
            wanted: OffsetRange | tuple[int, int] = {"offset": start} if end is None else (start, end + 1)
            try:
                return self._deadline.call(what, lambda: bytes(self._store.get(key, options={"range": wanted}).bytes()))
            except StorageError:
                raise
            except Exception:
                # Stores refuse a range that begins at the end of an object or behind it.
                if self._deadline.call(what, lambda: self._store.head(key))["size"] <= start:
                    return b""
                raise

    @contextmanager
    def _translated(self, action: str, missing: type[StorageError]) -> Iterator[None]:
        """Raise obstore's errors as ours. They may hold URLs and secrets, so the originals are cut off."""
        from obstore.exceptions import BaseError

        try:
            yield
        except (BaseError, OSError, ValueError, PanicError) as e:
            text = safe_text(e, self._secrets)
            raise _error_class(e, missing)(f"cannot {action}: {text}") from None


def _root_identity(root: Path) -> object:
    if not root.is_dir():
        raise StorageRootError(f"the storage root {root} does not exist; it is never created here")
    status = root.stat()
    return status.st_dev, status.st_ino


def _identity(root: Path, prefix: str) -> object:
    """Return device and inode of a folder below the root, without following a symbolic link on the way to it."""
    path, status = root, root.stat()
    for name in filter(None, prefix.split("/")):
        path /= name
        try:
            status = path.lstat()
        except FileNotFoundError:
            return None
        if stat.S_ISLNK(status.st_mode):
            raise StorageRootError(
                f"{path} is a symbolic link: what is deleted behind it may belong to somebody else, so nothing is listed or "
                "deleted through it; put the folder itself there, or mount it"
            )
    return status.st_dev, status.st_ino


def _error_class(error: Exception, missing: type[StorageError]) -> type[StorageError]:
    from obstore.exceptions import PermissionDeniedError, UnauthenticatedError

    # A failing listing is a generic error to obstore, whatever the store's answer was.
    answer = _STATUS.search(str(error))
    status = answer[1] if answer else ""
    if isinstance(error, FileNotFoundError) or status == "404":
        return missing
    if isinstance(error, (PermissionDeniedError, UnauthenticatedError)) or status in {"401", "403"}:
        return StorageAccessError
    return StorageUnavailableError
