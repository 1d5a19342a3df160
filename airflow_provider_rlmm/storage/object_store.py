# SPDX-License-Identifier: Apache-2.0
"""
Remote storage on obstore: local folders, S3, Google Cloud Storage, Azure.

What obstore 0.12 does: a bulk delete stops at the first object that fails, after the ten or so that are in flight; on
local storage and on Google Cloud Storage a missing object is such a failure, on S3 it is a success. The listing of a
local root that has vanished is empty, and writing to it creates it again. So what is left of a failed call is tried
again in smaller ones, only listings are believed, and the root is looked at around them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from airflow_provider_rlmm.errors import (
    ConfigurationError,
    RemoteObjectNotFoundError,
    StorageAccessError,
    StorageError,
    StorageRootError,
    StorageUnavailableError,
)
from airflow_provider_rlmm.storage.layout_storage import DeleteCalls, LayoutRemoteStorageManager
from airflow_provider_rlmm.storage.layouts import Layout
from airflow_provider_rlmm.storage.remote_storage import StoredObject

if TYPE_CHECKING:
    from obstore import OffsetRange
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

_LIST_CHUNK: Final = 1_000
_DELETE_CHUNKS: Final = (1_000, 100, 10, 1)
"""Objects per delete call, first what one DeleteObjects request of S3 takes, then less where a call was cut short."""

_MAX_REFUSED_DELETE_CALLS: Final = 100
"""Delete calls that may fail for another reason than a missing object; what is left then is for the next run."""

_MAX_REASON_LENGTH: Final = 500

# Enough to ride out a hiccup; a store that throttles for longer has to be seen by the caller, not waited for.
_RETRY: Final[RetryConfig] = {
    "max_retries": 3,
    "retry_timeout": timedelta(seconds=30),
    "backoff": {"init_backoff": timedelta(milliseconds=200), "max_backoff": timedelta(seconds=5), "base": 2},
}
_CLIENT: Final[ClientConfig] = {"connect_timeout": timedelta(seconds=5), "timeout": timedelta(seconds=30)}

_CLIENT_OPTIONS: Final = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "default_content_type",
        "http1_only",
        "http2_keep_alive_interval",
        "http2_keep_alive_timeout",
        "http2_keep_alive_while_idle",
        "http2_only",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_ca_certificate",
        "proxy_excludes",
        "proxy_url",
        "randomize_addresses",
        "read_timeout",
        "root_certificate",
        "timeout",
        "user_agent",
    }
)
"""Options of the HTTP client: obstore 0.12 panics where it finds one among a store's own options."""

_PUBLIC_OPTION: Final = re.compile(
    r"(region|endpoint|endpoint_url|bucket|bucket_name|container_name|skip_signature|request_payer|allow_http)$", re.I
)
_STATUS: Final = re.compile(r"status code: (\d{3})\b")
_STRUCTURED: Final = re.compile(r"[^\s\"'{}:,]{6,}")
_USER_INFO: Final = re.compile(r"(?<=://)[^/\s@]*@")
_QUERY: Final = re.compile(r"\?[^\s)\"']+")


def open_store(uri: str, options: Mapping[str, str] | None = None) -> ObjectStore:
    """
    Open the object store at a URI; it makes no call, except that a local folder must exist.

    :param uri: ``file:///folder``, ``s3://bucket/prefix``, ``gs://…``, ``az://…``: the storage root.
    :param options: obstore's configuration keys for the store, for example ``aws_region``; they never reach a message.
    :raises ConfigurationError: if the URI or an option is not usable.
    :raises StorageRootError: if a local folder does not exist; it is never created.
    """
    scheme = _checked_scheme(uri)
    if scheme == "file":
        if options:
            raise ConfigurationError(f"a file:// storage takes no options, but {sorted(options)} are set")
        return _open_local(uri)
    from obstore.exceptions import BaseError
    from obstore.store import MemoryStore, from_url

    if scheme == "memory":
        return MemoryStore()
    try:
        # The keys differ per store; obstore checks them itself.
        config: Any = {key: value for key, value in (options or {}).items() if key not in _CLIENT_OPTIONS}
        client: Any = {key: value for key, value in (options or {}).items() if key in _CLIENT_OPTIONS}
        return from_url(uri, config=config or None, client_options=_CLIENT | client, retry_config=_RETRY)
    except (BaseError, ValueError, TypeError) as e:
        text = _safe_text(e, _secrets(options or {}))
        raise ConfigurationError(f"cannot open the storage at {uri}: {text}") from None


class ObjectStoreRemoteStorageManager(LayoutRemoteStorageManager):
    """
    Remote storage on any store of obstore.

    :param store: the storage root: a URI (see :func:`open_store`) or an open store.
    :param layout: where the objects of a segment lie.
    :param options: options for a URI.
    """

    def __init__(self, store: str | ObjectStore, layout: Layout, *, options: Mapping[str, str] | None = None) -> None:
        opened = open_store(store, options) if isinstance(store, str) else store
        super().__init__(_ObstoreCalls(opened, layout.prefix, _secrets(options or {})), layout)
        self._name = store if isinstance(store, str) else type(store).__name__

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r}, {self._layout.name!r})"


@dataclass(frozen=True, slots=True)
class _ChunkAnswer:
    refused: str | None
    cut_short: bool


class _ObstoreCalls:
    """The calls to a store, with obstore's errors translated."""

    def __init__(self, store: ObjectStore, prefix: str, secrets: Sequence[str]) -> None:
        from obstore.store import LocalStore

        self._store = store
        self._secrets = secrets
        self._local_roots: tuple[Path, ...] = ()
        if isinstance(store, LocalStore) and store.prefix is not None:
            # Either of the two may be a mount point.
            self._local_roots = (store.prefix, store.prefix / prefix)

    def root_identity(self) -> object:
        if not self._local_roots:
            # Elsewhere there is nothing to be unmounted: listing a bucket that does not exist is an error.
            return None
        if not self._local_roots[0].is_dir():
            raise StorageRootError(f"the storage root {self._local_roots[0]} does not exist; it is never created here")
        return [(s.st_dev, s.st_ino) for s in (path.stat() for path in self._local_roots if path.exists())]

    def objects(self, prefix: str, after: str | None = None) -> Iterator[StoredObject]:
        with self._translated(f"list {prefix or 'the storage root'}", StorageRootError):
            for chunk in self._store.list(prefix or None, offset=after, chunk_size=_LIST_CHUNK):
                for meta in chunk:
                    yield StoredObject(meta["path"], meta["size"], round(meta["last_modified"].timestamp() * 1000))

    def directories(self, prefix: str) -> Sequence[str]:
        with self._translated(f"list {prefix}", StorageRootError):
            return self._store.list_with_delimiter(prefix)["common_prefixes"]

    def delete(self, keys: Sequence[str]) -> DeleteCalls:
        failures: dict[str, str] = {}
        calls = refusals = 0
        left = list(keys)
        for size in _DELETE_CHUNKS:
            cut_short: list[str] = []
            for chunk in (left[i : i + size] for i in range(0, len(left), size)):
                if refusals >= _MAX_REFUSED_DELETE_CALLS:
                    break
                calls += 1
                answer = self._delete_chunk(chunk)
                if answer.refused is not None:
                    refusals += 1
                    failures.update(dict.fromkeys(chunk, answer.refused))
                if answer.cut_short:
                    cut_short += chunk
            if not cut_short or size == 1:
                break
            calls += len(_parents(cut_short))
            left = self._still_listed(cut_short)
        return DeleteCalls(failures, calls)

    def _delete_chunk(self, chunk: Sequence[str]) -> _ChunkAnswer:
        from obstore.exceptions import BaseError, PermissionDeniedError

        try:
            self._store.delete(chunk)
        except FileNotFoundError:
            # Somebody else was faster with one of them.
            return _ChunkAnswer(None, cut_short=True)
        except (BaseError, OSError, ValueError) as e:
            # A store that throttles or does not answer is not asked for every object of the chunk again.
            cut_short = bool(self._local_roots) or isinstance(e, PermissionDeniedError)
            return _ChunkAnswer(_safe_text(e, self._secrets), cut_short)
        return _ChunkAnswer(None, cut_short=False)

    def _still_listed(self, keys: Sequence[str]) -> list[str]:
        try:
            listed = {stored.key for parent in _parents(keys) for stored in self.objects(parent)}
        except StorageError:
            # Part of the deletion has been done: whether the store answers is for the caller's own listing to tell.
            return []
        return [key for key in keys if key in listed]

    def put(self, key: str, data: bytes | Path) -> None:
        with self._translated(f"write {key}", StorageRootError):
            self._store.put(key, data)

    def get(self, key: str, start: int = 0, end: int | None = None) -> bytes:
        with self._translated(f"read {key}", RemoteObjectNotFoundError):
            if start == 0 and end is None:
                return bytes(self._store.get(key).bytes())
            wanted: OffsetRange | tuple[int, int] = {"offset": start} if end is None else (start, end + 1)
            try:
                return bytes(self._store.get(key, options={"range": wanted}).bytes())
            except Exception:
                # Stores refuse a range that begins at the end of an object or behind it.
                if self._store.head(key)["size"] <= start:
                    return b""
                raise

    @contextmanager
    def _translated(self, action: str, missing: type[StorageError]) -> Iterator[None]:
        """Raise obstore's errors as ours. They may hold URLs and secrets, so the originals are cut off."""
        from obstore.exceptions import BaseError

        try:
            yield
        except (BaseError, OSError, ValueError) as e:
            text = _safe_text(e, self._secrets)
            raise _error_class(e, missing)(f"cannot {action}: {text}") from None


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


def _parents(keys: Sequence[str]) -> set[str]:
    return {key[: key.rindex("/") + 1] for key in keys}


def _checked_scheme(uri: str) -> str:
    try:
        parts = urlsplit(uri)
    except ValueError:
        raise ConfigurationError("the storage URI cannot be parsed") from None
    # Only Azure's container@account is no credential. Where a secret holds a "/", the parts do not show it.
    before_at = uri.rpartition("@")[0].partition("://")[2]
    harmless = parts.scheme == "file" or (parts.scheme in {"abfs", "abfss"} and ":" not in before_at)
    if parts.query or (before_at and not harmless):
        raise ConfigurationError("the storage URI holds credentials or a query: they belong into the storage options")
    if not parts.scheme:
        raise ConfigurationError(f"the storage URI {uri!r} names no scheme; for a local folder write file:///folder")
    return parts.scheme


def _open_local(uri: str) -> ObjectStore:
    from obstore.store import LocalStore

    parts = urlsplit(uri)
    if parts.netloc not in {"", "localhost"} or parts.fragment or not parts.path:
        raise ConfigurationError(f"the storage URI {uri!r} names no local folder; write file:///folder")
    root = Path(unquote(parts.path))
    if not root.is_dir():
        raise StorageRootError(f"the storage root {root} does not exist or is no folder; it is never created here")
    return LocalStore(root)


def _secrets(options: Mapping[str, str]) -> tuple[str, ...]:
    # Longest first: one value may be part of another. Very short ones are settings, and would garble every message. Of a
    # value with a structure of its own, such as a key file, any part may be quoted.
    values = [value for key, value in options.items() if not _PUBLIC_OPTION.search(key)]
    parts = {part for value in values for part in (value, *_STRUCTURED.findall(value)) if len(part) > 5}
    return tuple(sorted(parts, key=len, reverse=True))


def _safe_text(error: Exception, secrets: Sequence[str]) -> str:
    # What follows the first blank line is a dump of obstore's internals.
    text = str(error).partition("\n\n")[0] or type(error).__name__
    for secret in secrets:
        text = text.replace(secret, "***")
    return _QUERY.sub("?***", _USER_INFO.sub("***@", text))[:_MAX_REASON_LENGTH]
