# SPDX-License-Identifier: Apache-2.0
"""Opens a store of obstore from a URI and options, says where it lies, and keeps secrets out of every text about it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from airflow_provider_rlmm.core.base.errors import ConfigurationError, StorageRootError
from airflow_provider_rlmm.core.base.store_uris import StoreUri, read_store_uri
from airflow_provider_rlmm.core.storage.deadline import Deadline, PanicError
from airflow_provider_rlmm.core.storage.secret_texts import safe_text, secrets_in
from airflow_provider_rlmm.core.storage.stamps import Location

if TYPE_CHECKING:
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

    from airflow_provider_rlmm.core.storage.credentials import StoreCredentials


# Enough to ride out a hiccup; a store that throttles for longer has to be seen by the caller, not waited for.
_RETRY: Final[RetryConfig] = {
    "max_retries": 3,
    "retry_timeout": timedelta(seconds=30),
    "backoff": {"init_backoff": timedelta(milliseconds=200), "max_backoff": timedelta(seconds=5), "base": 2},
}
_CLIENT: Final[ClientConfig] = {"connect_timeout": timedelta(seconds=5), "timeout": timedelta(seconds=30)}

_CLIENT_OPTIONS: Final = frozenset(
    {
        "allow_http", "allow_invalid_certificates", "connect_timeout", "default_content_type", "http1_only",
        "http2_keep_alive_interval", "http2_keep_alive_timeout", "http2_keep_alive_while_idle", "http2_only",
        "pool_idle_timeout", "pool_max_idle_per_host", "proxy_ca_certificate", "proxy_excludes", "proxy_url",
        "randomize_addresses", "read_timeout", "root_certificate", "timeout", "user_agent",
    }
)  # fmt: skip
"""Options of the HTTP client: obstore 0.12 panics where it finds one among a store's own options."""

_STORE_PREFIX: Final = re.compile(r"(aws|s3|google|gcs|azure)_")
"""What people write before the name of an option, a client's too: ``AWS_ALLOW_HTTP``."""

_ACCOUNT: Final = re.compile(r"(azure_)?(storage_)?account_name", re.I)
_ENDPOINT: Final = re.compile(r"(azure_)?(storage_)?endpoint", re.I)

_S3_ENDPOINT: Final = re.compile(r"(aws_)?endpoint(_url)?", re.I)

_DIRECTORY_BUCKET: Final = re.compile(r"--x-s3(\.|$)")
"""What the names of S3's directory buckets end with, and no other may."""

_SCHEMES: Final = {"S3Store": "s3", "GCSStore": "gs", "AzureStore": "az", "MemoryStore": "memory", "HTTPStore": "http"}
_FROM_ENVIRONMENT: Final[Mapping[str, Sequence[str]]] = {
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "az": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
    "az account": ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_ACCOUNT_NAME"),
}
"""Where obstore takes an address from that no option gives."""


def open_store(
    uri: str, options: Mapping[str, str] | None = None, credentials: StoreCredentials | None = None
) -> ObjectStore:
    """
    Open the object store at a URI; it makes no call, except that a local folder must exist.

    :param uri: ``file:///folder``, or one that :func:`~airflow_provider_rlmm.core.base.store_uris.read_store_uri` reads:
        the storage root.
    :param options: obstore's configuration keys for the store, for example ``aws_region``; they never reach a message. Those
        of its HTTP client may be in any case and with a store's prefix.
    :param credentials: asked for the store's credentials whenever a request needs new ones.
    :raises ConfigurationError: if the URI or an option is not usable.
    :raises StorageRootError: if a local folder does not exist; it is never created.
    :raises StorageUnavailableError: if the file system does not answer.
    """
    scheme = _checked_scheme(uri)
    given = options or {}
    if scheme == "file":
        if given or credentials:
            raise ConfigurationError(f"a file:// storage takes no options, but {sorted(given)} are set")
        return _open_local(uri)
    from obstore.exceptions import BaseError
    from obstore.store import MemoryStore, from_url

    if scheme == "memory":
        return MemoryStore()
    where = read_store_uri(uri)
    if _DIRECTORY_BUCKET.search(urlsplit(where.uri).netloc):
        raise ConfigurationError(
            f"the storage at {uri} is a directory bucket (S3 Express One Zone): it lists objects in no order, and nothing "
            "here was tried on one; use a general purpose bucket"
        )
    if where.kind == "s3":
        endpoint_of_s3(given)
    client: Any = _client_options(given)
    # The keys differ per store; obstore checks them itself.
    config: Any = with_account(where, {key: value for key, value in given.items() if _client_option(key) is None})
    provider: Any = {} if credentials is None else {"credential_provider": credentials}
    client = _CLIENT | client
    try:
        return Deadline().call(
            f"open {uri}",
            lambda: from_url(where.uri, config=config or None, client_options=client, retry_config=_RETRY, **provider),
        )
    except (BaseError, ValueError, TypeError, PanicError) as e:
        raise ConfigurationError(f"cannot open the storage at {uri}: {safe_text(e, secrets_in(given))}") from None


def endpoint_of_s3(options: Mapping[str, str]) -> str:
    """
    Return the address that obstore asks instead of AWS's own, empty where none is named.

    :param options: obstore's for the store.
    :raises ConfigurationError: if two are named: obstore takes ``AWS_ENDPOINT_URL_S3`` before any option, and of two others
        in the environment whichever it finds last.
    """
    first, *others = _FROM_ENVIRONMENT["s3"]
    told = {name: os.environ[name] for name in (first, *others) if os.environ.get(name)}
    found = {key: value for key, value in options.items() if _S3_ENDPOINT.fullmatch(key)}
    if first in told:
        found[first] = told[first]
    found = found or told
    if len({value.rstrip("/") for value in found.values()}) > 1:
        raise ConfigurationError(f"{' and '.join(found)} name different endpoints of S3: keep one of them")
    return next(iter(found.values()), "")


def with_account(where: StoreUri, options: Mapping[str, str]) -> Mapping[str, str]:
    """
    Add the storage account that an Azure URI names, and its address: an option must not lead to another one.

    :param where: of any kind of store.
    :param options: obstore's for the store.
    :raises ConfigurationError: if an option names another account.
    """
    named = {key: value for key, value in options.items() if _ACCOUNT.fullmatch(key)}
    if not where.account:
        return options
    if any(value != where.account for value in named.values()):
        raise ConfigurationError(
            f"the storage URI names the storage account {where.account!r}, and {', '.join(sorted(named))} another one"
        )
    addressed = any(_ENDPOINT.fullmatch(key) for key in options)
    address = {"endpoint": where.endpoint} if where.endpoint and not addressed else {}
    return {**address, **({} if named else {"account_name": where.account}), **options}


def _client_options(options: Mapping[str, str]) -> Mapping[str, str]:
    """Return the options of the HTTP client under obstore's own names; two spellings of one must not disagree."""
    found: dict[str, str] = {}
    spelled: dict[str, str] = {}
    for key, value in options.items():
        name = _client_option(key)
        if name is None:
            continue
        if found.setdefault(name, value) != value:
            raise ConfigurationError(f"the storage options {spelled[name]} and {key} are one and disagree; keep {name}")
        spelled[name] = key
    return found


def is_client_option(key: str) -> bool:
    """
    Tell whether an option is one of obstore's HTTP client.

    :param key: in any case, with or without a store's prefix.
    """
    return _client_option(key) is not None


def _client_option(key: str) -> str | None:
    name = key.lower()
    return next((n for n in (name, _STORE_PREFIX.sub("", name, count=1)) if n in _CLIENT_OPTIONS), None)


def location_of(store: ObjectStore, prefix: str) -> Location:
    """
    Say where a prefix of a store lies; of a local folder the file system is asked.

    :param store: the store.
    :param prefix: empty, or ending in ``/``.
    """
    from obstore.store import LocalStore

    if isinstance(store, LocalStore):
        return _local_location((store.prefix or Path("/")) / prefix)
    scheme = _SCHEMES.get(type(store).__name__, type(store).__name__.lower())
    config: Mapping[str, Any] = getattr(store, "config", None) or {}
    address = config.get("endpoint") or config.get("base_url") or _environment(scheme) or getattr(store, "url", "")
    account = config.get("account_name") or _environment(f"{scheme} account")
    return Location(
        scheme,
        endpoint="@".join(part for part in (account, _plain_address(str(address))) if part),
        bucket=str(config.get("bucket") or config.get("container_name") or ""),
        prefix="/".join(part for part in (str(getattr(store, "prefix", None) or ""), prefix) if part).strip("/"),
    )


def _local_location(path: Path) -> Location:
    try:
        return Location("file", prefix=str(path), device=_file_system(path), inode=path.stat().st_ino)
    except FileNotFoundError:
        return Location("file", prefix=str(path))


def _file_system(path: Path) -> int | None:
    """
    Return what identifies the file system as long as it lives, on every machine that mounts it.

    A device number does not: network mounts get any number that is free, disks change theirs at a restart. File systems with
    an id of their own give it; the number is the second choice, and no choice where there is no device.
    """
    if file_system_id := os.statvfs(path).f_fsid:
        return file_system_id
    device = path.stat().st_dev
    return device if os.major(device) else None


def _environment(what: str) -> str:
    return next((os.environ[name] for name in _FROM_ENVIRONMENT.get(what, ()) if os.environ.get(name)), "")


def _plain_address(address: str) -> str:
    try:
        parts = urlsplit(address)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.hostname}{port}{parts.path.rstrip('/')}" if parts.hostname else ""


def _checked_scheme(uri: str) -> str:
    try:
        parts = urlsplit(uri)
    except ValueError:
        raise ConfigurationError("the storage URI cannot be parsed") from None
    # Only Azure's container@account is no credential. Where a secret holds a "/", the parts do not show it.
    before_at = uri.rpartition("@")[0].partition("://")[2]
    azure = parts.scheme in {"abfs", "abfss", "wasb", "wasbs"}
    harmless = parts.scheme == "file" or (azure and ":" not in before_at)
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
    if not Deadline().call(f"open {root}", root.is_dir):
        raise StorageRootError(f"the storage root {root} does not exist or is no folder; it is never created here")
    return Deadline().call(f"open {root}", lambda: LocalStore(root))
