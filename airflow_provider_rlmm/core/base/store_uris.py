# SPDX-License-Identifier: Apache-2.0
"""URIs of object stores as users, Hadoop and Azure spell them, and as obstore takes them; and what no URI may hold."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.base.quoting import in_quotes

_KINDS: Final = {
    **dict.fromkeys(("s3", "s3a", "s3n"), "s3"),
    **dict.fromkeys(("gs", "gcs"), "gs"),
    **dict.fromkeys(("az", "azure", "adl", "abfs", "abfss", "wasb", "wasbs"), "az"),
}
"""Scheme → kind of store, which is also the scheme that obstore takes."""

_HOSTS: Final = {
    "s3": (".amazonaws.com", ".r2.cloudflarestorage.com"),
    "az": (".core.windows.net", ".fabric.microsoft.com"),
}
"""Kind of store → how the host of an ``https://`` URI ends that obstore takes for one of it."""

_AT_ACCOUNT: Final = ("abfs", "abfss", "wasb", "wasbs")
_PUBLIC_CLOUD: Final = "core.windows.net"
# abfss://container@account.dfs.core.windows.net: what stands before the @ is no login there.
_AZURE_CONTAINER: Final = re.compile(r"(abfs|wasb)s?://[a-z0-9-]{3,63}@[^@:]+", re.I)


@dataclass(frozen=True, slots=True)
class StoreUri:
    """
    Where a store lies.

    :param kind: ``s3``, ``gs``, ``az``; of any other URI its scheme.
    :param uri: the URI as obstore takes it.
    :param account: Azure's storage account, empty where the URI names none.
    :param endpoint: the address of that account where it is not in Azure's public cloud, else empty.
    """

    kind: str
    uri: str
    account: str = ""
    endpoint: str = ""


def read_store_uri(uri: str) -> StoreUri:
    """
    Read the URI of a store: ``s3://``, ``s3a://``, ``s3n://``; ``gs://``, ``gcs://``; ``az://container/…``,
    ``abfss://container@account.dfs.core.windows.net/…``, ``wasbs://container@account.blob.core.windows.net/…``, also without
    the last ``s``; ``https://`` with a host of S3 or Azure.

    :param uri: with a scheme.
    :raises ConfigurationError: if Azure's part before the path is no ``container@account.host``.
    """
    parts = urlsplit(uri)
    kind = _KINDS.get(parts.scheme, parts.scheme)
    if parts.scheme == "https":
        host = (parts.hostname or "").lower()
        return StoreUri(next((k for k, ends in _HOSTS.items() if host.endswith(ends)), kind), uri)
    if parts.scheme not in _KINDS:
        return StoreUri(kind, uri)
    container, at, host = parts.netloc.partition("@")
    if not at or parts.scheme not in _AT_ACCOUNT:
        return StoreUri(kind, f"{kind}://{uri.partition('://')[2]}")
    account, _, rest = host.partition(".")
    service, _, cloud = rest.partition(".")
    if cloud == "fabric.microsoft.com":
        return StoreUri(kind, uri)
    if not (container and account and cloud) or service not in ("dfs", "blob"):
        raise ConfigurationError(
            f"the storage URI {in_quotes(uri)} names no storage account: write "
            f"{parts.scheme}://container@account.dfs.core.windows.net/folder, or az://container/folder"
        )
    endpoint = "" if cloud == _PUBLIC_CLOUD else f"https://{account}.blob.{cloud}"
    return StoreUri(kind, f"{kind}://{container}{parts.path}", account, endpoint)


def refuse_secrets_in_uri(what: str, uri: str, instead: str) -> None:
    """
    Refuse a URI that holds credentials, a query or a fragment: URIs are logged, shown and handed to other programs.

    :param what: the setting, for the message. The value is not repeated: a person who put a secret into it must not find it
        in a log.
    :param uri: with or without a scheme.
    :param instead: what to do, for the message.
    :raises ConfigurationError: naming the setting.
    """
    if not uri.isprintable():
        raise ConfigurationError(f"{what} holds a line break, a control character or a mark of direction: remove it")
    if _holds_secrets(uri):
        raise ConfigurationError(f"{what} must hold neither credentials nor a query or fragment; {instead}")


def _holds_secrets(uri: str) -> bool:
    if "?" in uri or "#" in uri:
        return True
    try:
        parts = urlsplit(uri)
        _ = parts.port
    except ValueError:
        # Not a number behind the colon: the half of a login whose password has a slash.
        return True
    if "@" in parts.netloc:
        return _AZURE_CONTAINER.fullmatch(f"{parts.scheme}://{parts.netloc}") is None
    return ":" in parts.netloc and "@" in parts.path


def is_below(uri: str, root: str) -> bool:
    """
    Tell whether a URI of an object store lies below another, or is the same.

    :param uri: with a scheme; one that walks (``..``), or hides that it does, lies nowhere.
    :param root: with a scheme.
    """
    inner, outer = urlsplit(_usual_scheme(uri)), urlsplit(_usual_scheme(root))
    if (inner.scheme, inner.netloc) != (outer.scheme, outer.netloc) or not inner.scheme:
        return False
    path, above = (unquote(parts.path).removeprefix("/").rstrip("/").split("/") for parts in (inner, outer))
    if any(step in {".", ".."} for step in path):
        return False
    return above == [""] or path[: len(above)] == above


def _usual_scheme(uri: str) -> str:
    # Hadoop's name of the same thing.
    return uri.replace("s3a://", "s3://", 1) if uri.startswith("s3a://") else uri
