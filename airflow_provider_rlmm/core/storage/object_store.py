# SPDX-License-Identifier: Apache-2.0
"""
Remote storage on obstore: local folders, S3, Google Cloud Storage, Azure.

What obstore 0.12 does: on Google Cloud Storage and Azure a missing object is a failure of the deletion, on S3 it is a
success. The listing of a local root that has vanished is empty, and writing to it creates it again. So what is left of a
failed deletion is tried again (:mod:`~airflow_provider_rlmm.core.storage.bulk_delete`), only listings are believed, and
the root is looked at around them. Local files are deleted without it
(:mod:`~airflow_provider_rlmm.core.storage.local_files`).
"""

from __future__ import annotations

import logging
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final, TypeVar

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.ahead import ahead
from airflow_provider_rlmm.core.base.errors import (
    ArchivedObjectError,
    RemoteObjectNotFoundError,
    StorageAccessError,
    StorageError,
    StorageFullError,
    StorageRootError,
    StorageUnavailableError,
)
from airflow_provider_rlmm.core.base.local_writing import FULL_ERRNOS
from airflow_provider_rlmm.core.storage.answers import (
    blob_remedy_of,
    is_archived,
    is_busy,
    is_full,
    key_of_refusal,
    knows_no_bulk_deletion,
    remedy_of,
    status_of,
)
from airflow_provider_rlmm.core.storage.bulk_delete import BulkDeletion, Refused
from airflow_provider_rlmm.core.storage.credentials import StoreCredentials
from airflow_provider_rlmm.core.storage.deadline import Deadline, PanicError
from airflow_provider_rlmm.core.storage.deletion import Lookup, parent_of
from airflow_provider_rlmm.core.storage.hidden_copies import BucketInspector
from airflow_provider_rlmm.core.storage.layout import Layout
from airflow_provider_rlmm.core.storage.layout_storage import LayoutRemoteStorageManager
from airflow_provider_rlmm.core.storage.local_files import LocalFiles
from airflow_provider_rlmm.core.storage.object_calls import DeleteCalls
from airflow_provider_rlmm.core.storage.opening import location_of, open_store
from airflow_provider_rlmm.core.storage.pace import KEYS_PER_SECOND, OF_S3, Pace, read_keys_per_second
from airflow_provider_rlmm.core.storage.remote_storage import StoredObject
from airflow_provider_rlmm.core.storage.rights import right_for
from airflow_provider_rlmm.core.storage.secret_texts import safe_text, secrets_in
from airflow_provider_rlmm.core.storage.stamps import Location
from airflow_provider_rlmm.core.storage.uploads import BeforeChunk, ObjectContent, ObjectWriter, StoreWriter, chunks_of

if TYPE_CHECKING:
    from obstore import ObjectMeta, OffsetRange
    from obstore.store import ObjectStore

logger = logging.getLogger(__name__)

T = TypeVar("T")

_LIST_CHUNK: Final = 1_000
_KEYS_PER_REQUEST: Final[Mapping[str, int]] = {"GCSStore": 1, "AzureStore": 256}
"""Objects that one HTTP request of obstore deletes, where it is not what one call is given."""

_WITHOUT_BULK: Final = "aws_disable_bulk_delete"
"""Option of obstore: some gateways that speak S3 know no request that deletes many objects."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
"""A time is cut off here as it is where a file is looked for by name: two looks at one object must say the same."""

_SLOWEST_COPY: Final = 2**20
"""Bytes per second below which a copy counts as hanging."""

_UNDER_WAY: Final = 64 * 2**20
"""Bytes of an object that may still be under way when the last chunk was taken."""

_LISTINGS_AT_ONCE: Final = 8
"""S3 answers some thousand requests a second for each prefix, and each after some ten milliseconds."""

_DELETIONS_AT_ONCE: Final = 4
"""Requests of up to a thousand objects each."""

_FILES_PER_CALL: Final = 250
"""Files that one call deletes at most: a batch of 500 segments is enough for all that are made at once."""

_FILE_CALLS_AT_ONCE: Final = 4
"""
A network mount answers each deletion late, and a disk that is told of freed blocks waits for it; eight at once gained nothing
over four.
"""

_SLOWEST_FILES: Final = 100
"""Files per second below which looking for them, or deleting them, counts as hanging."""


class ObjectStoreRemoteStorageManager(LayoutRemoteStorageManager):
    """
    Remote storage on any store of obstore.

    :param store: the storage root: a URI (see :func:`~airflow_provider_rlmm.core.storage.opening.open_store`) or an open
        store.
    :param layout: where the objects of a segment lie.
    :param options: options for a URI, :data:`~airflow_provider_rlmm.core.storage.pace.KEYS_PER_SECOND` among them.
    :param credentials: credentials for a URI.
    :param deadline: ends calls that do not return.
    :param pace: how fast objects are deleted; as the store allows without it.
    :param inspector: reads the settings of the bucket.
    """

    def __init__(
        self,
        store: str | ObjectStore,
        layout: Layout,
        *,
        options: Mapping[str, str] | None = None,
        credentials: StoreCredentials | None = None,
        deadline: Deadline | None = None,
        pace: Pace | None = None,
        inspector: BucketInspector | None = None,
    ) -> None:
        of_store = dict(options or {})
        # A folder has no pace: there the option is refused as every other one.
        is_folder = isinstance(store, str) and store.startswith("file:")
        keys_per_second = None if is_folder else of_store.pop(KEYS_PER_SECOND, None)
        opened = open_store(store, of_store, credentials) if isinstance(store, str) else store
        secrets = secrets_in(of_store) if credentials is None else credentials.secrets
        without_bulk = None
        if isinstance(store, str) and type(opened).__name__ == "S3Store":
            without_bulk = partial(open_store, store, {**of_store, _WITHOUT_BULK: "true"}, credentials)
        if pace is None:
            pace = Pace(most=_most_of(opened, keys_per_second))
        calls = _ObstoreCalls(opened, secrets, deadline or Deadline(), pace, without_bulk)
        super().__init__(calls, layout, inspector)
        self._name = store if isinstance(store, str) else type(store).__name__

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r}, {self._layout.name!r})"


def _most_of(store: ObjectStore, keys_per_second: str | None) -> float | None:
    """Return how many objects are deleted in a second at most, ``None`` for as many as the store takes."""
    if keys_per_second is not None:
        return read_keys_per_second(keys_per_second)
    if type(store).__name__ != "S3Store" or location_of(store, "").endpoint:
        # What a server of one's own takes is not known: it says so itself.
        return None
    return OF_S3


class _ObstoreCalls:
    """The calls to a store, with obstore's errors translated."""

    def __init__(
        self,
        store: ObjectStore,
        secrets: Iterable[str],
        deadline: Deadline,
        pace: Pace,
        without_bulk: Callable[[], ObjectStore] | None = None,
    ) -> None:
        from obstore.store import LocalStore

        self.requests = 0
        self._lock = Lock()
        self._pace = pace
        self._without_bulk = without_bulk
        self._keys_per_request = _KEYS_PER_REQUEST.get(type(store).__name__, _LIST_CHUNK)
        self._store = store
        self._secrets = secrets
        self._deadline = deadline
        self._local_root = store.prefix if isinstance(store, LocalStore) else None
        self._files = LocalFiles(self._local_root) if self._local_root else None
        # A disk answers at once.
        self.listings_at_once = 1 if self._files else _LISTINGS_AT_ONCE
        # For the others obstore makes several requests of one call.
        self._deletions_at_once = _DELETIONS_AT_ONCE if type(store).__name__ == "S3Store" else 1

    def _count(self, requests: int) -> None:
        # Folders are listed by several threads.
        with self._lock:
            self.requests += requests

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
            # A listing without objects is a request, too.
            self._count(1)
            for number in count():
                chunk = self._deadline.call(what, lambda: next(chunks, None))
                if chunk is None:
                    break
                self._count(number > 0)
                yield from map(_stored, chunk)

    def by_name(self, lookup: Lookup) -> Sequence[StoredObject] | None:
        files = self._files
        if files is None:
            return None
        what = f"look for the objects of {number_of(len(lookup.stems), 'segment')} in {lookup.prefix or 'the storage root'}"
        self._count(1)
        with self._translated(what, StorageRootError):
            return self._deadline.call(what, lambda: files.find(lookup), len(lookup.keys) / _SLOWEST_FILES)

    def level(self, prefix: str) -> tuple[Sequence[str], Sequence[StoredObject]]:
        what = f"list {prefix or 'the storage root'}"
        with self._translated(what, StorageRootError):
            listed = self._deadline.call(what, lambda: self._store.list_with_delimiter(prefix or None))
            return listed["common_prefixes"], [_stored(meta) for meta in listed["objects"]]

    def delete(self, keys: Sequence[str]) -> DeleteCalls:
        if self._files is not None:
            return self._delete_files(self._files, keys)
        return BulkDeletion(self._delete_chunk, self._still_listed, self._pace, self._deletions_at_once).delete(keys)

    def _delete_files(self, files: LocalFiles, keys: Sequence[str]) -> DeleteCalls:
        parts = [keys[first : first + _FILES_PER_CALL] for first in range(0, len(keys), _FILES_PER_CALL)]
        self._count(len(parts))
        at_once = min(_FILE_CALLS_AT_ONCE, len(parts))
        failures: dict[str, str] = {}
        for failed in ahead(partial(self._delete_part, files), parts, at_once, "rlmm deletion"):
            failures |= failed
        return DeleteCalls(failures, frozenset(keys))

    def _delete_part(self, files: LocalFiles, keys: Sequence[str]) -> Mapping[str, str]:
        what = f"delete {number_of(len(keys), 'object')}, {keys[0]} first"
        try:
            return self._deadline.call(what, lambda: files.delete(keys), len(keys) / _SLOWEST_FILES)
        except StorageUnavailableError as e:
            # What the call does in the end is for later listings to tell.
            return dict.fromkeys(keys, str(e))

    def _delete_chunk(self, chunk: Sequence[str]) -> Refused | None:
        """Make one request; return what the store refused, ``None`` where it did all."""
        from obstore.exceptions import BaseError, PermissionDeniedError

        self._count(-(-len(chunk) // self._keys_per_request))
        store = self._store
        try:
            self._deadline.call(
                f"delete {number_of(len(chunk), 'object')}, {chunk[0]} first", lambda: store.delete(chunk)
            )
        except FileNotFoundError:
            # Another program was faster with one of them.
            return Refused("", cut_short=True)
        except (BaseError, OSError, ValueError, PanicError) as e:
            why = safe_text(e, self._secrets)
            if knows_no_bulk_deletion(str(e)) and self._gives_up_bulk(store, why):
                return self._delete_chunk(chunk)
            if is_busy(str(e)):
                return Refused(why, busy=True)
            if (remedy := blob_remedy_of(str(e))) is not None:
                why = f"{why}; {remedy}"
            return Refused(why, key_of_refusal(str(e), chunk), cut_short=isinstance(e, PermissionDeniedError))
        return None

    def _gives_up_bulk(self, used: ObjectStore, why: str) -> bool:
        """Delete one by one from here on; tell whether that is something else than what was used."""
        with self._lock:
            if self._without_bulk is not None:
                logger.warning("The store knows no bulk deletion, so a request is made for each object: %s", why)
                self._store, self._without_bulk, self._keys_per_request = self._without_bulk(), None, 1
            return self._store is not used

    def _still_listed(self, keys: Sequence[str]) -> list[str]:
        try:
            listed = {stored.key for parent in {parent_of(key) for key in keys} for stored in self.objects(parent)}
        except StorageError:
            # Part of the deletion has been done: whether the store answers is for the caller's own listing to tell.
            return []
        return [key for key in keys if key in listed]

    def version(self, key: str) -> str | None:
        what = f"look at {key}"
        with self._translated(what, RemoteObjectNotFoundError):
            return self._deadline.call(what, lambda: self._store.head(key))["version"]

    def remove_folder(self, prefix: str) -> bool:
        root, what = self._local_root, f"remove the empty folder {prefix}"
        if root is None:
            return False

        def remove() -> bool:
            _identity(root, prefix)
            try:
                (root / prefix).rmdir()
            except OSError:
                # Not empty, or another program's to remove.
                return False
            return True

        with self._translated(what, StorageRootError):
            return self._deadline.call(what, remove)

    def put(self, key: str, data: ObjectContent, before_chunk: BeforeChunk | None = None) -> None:
        what = f"write {key}"
        writer = self._made(what, lambda: self._writer(key))
        try:
            with closing(chunks_of(data)) as chunks:
                while chunk := self._deadline.call(f"read what is to be written as {key}", lambda: next(chunks, b"")):
                    if before_chunk is not None:
                        before_chunk(len(chunk))
                    self._made(what, partial(writer.write, chunk), len(chunk) / _SLOWEST_COPY)
            # What was sent before may still be under way.
            self._made(what, writer.close, _UNDER_WAY / _SLOWEST_COPY)
        except BaseException:
            with suppress(StorageError):
                self._made(f"take back {key}", writer.abort)
            raise

    def _writer(self, key: str) -> ObjectWriter:
        return StoreWriter(self._store, key) if self._files is None else self._files.create(key)

    def _made(self, what: str, call: Callable[[], T], extra_s: float = 0.0) -> T:
        with self._translated(what, StorageRootError):
            return self._deadline.call(what, call, extra_s)

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
            kind = _error_class(e, missing)
            remedy = self._remedy(action, e) if kind is StorageAccessError else None
            if kind is ArchivedObjectError:
                remedy = "it lies in an archive tier: have the store restore it first"
            if kind is StorageFullError:
                remedy = "make room in the storage, then run again"
            raise kind(f"cannot {action}: {text}{'' if remedy is None else f'; {remedy}'}") from None

    def _remedy(self, action: str, error: Exception) -> str | None:
        """Return what helps where the store has refused who asks."""
        from obstore.exceptions import PermissionDeniedError

        text = str(error)
        forbidden = isinstance(error, PermissionDeniedError) or status_of(text) == "403"
        return remedy_of(text) or (right_for(type(self._store).__name__, action) if forbidden else None)


def _stored(meta: ObjectMeta) -> StoredObject:
    return StoredObject(meta["path"], meta["size"], (meta["last_modified"] - _EPOCH) // _MILLISECOND)


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
                f"{path} is a symbolic link: what is deleted behind it may belong to others, so nothing is listed or "
                "deleted through it; put the folder itself there, or mount it"
            )
    return status.st_dev, status.st_ino


def _error_class(error: Exception, missing: type[StorageError]) -> type[StorageError]:
    from obstore.exceptions import PermissionDeniedError, UnauthenticatedError

    if (isinstance(error, OSError) and error.errno in FULL_ERRNOS) or is_full(str(error)):
        return StorageFullError
    if is_archived(str(error)):
        return ArchivedObjectError
    # A failing listing is a generic error to obstore, for every answer of the store.
    status = status_of(str(error))
    if isinstance(error, FileNotFoundError) or status == "404":
        return missing
    refused = (PermissionDeniedError, UnauthenticatedError, PermissionError)
    if isinstance(error, refused) or status in {"401", "403"} or remedy_of(str(error)) is not None:
        return StorageAccessError
    return StorageUnavailableError
