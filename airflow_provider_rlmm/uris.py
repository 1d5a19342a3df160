# SPDX-License-Identifier: Apache-2.0
"""What a URI in a setting may hold: pure rules, no call. URIs are those of storage roots, work folders and plans."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

from airflow_provider_rlmm.errors import ConfigurationError

# abfss://container@account.dfs.core.windows.net: what stands before the @ is no login there.
_AZURE_CONTAINER = re.compile(r"abfss?://[a-z0-9-]{3,63}@[^@:]+", re.I)


def refuse_secrets_in_uri(what: str, uri: str, instead: str) -> None:
    """
    Refuse a URI that holds credentials, a query or a fragment: URIs are logged, shown and handed to other programs.

    :param what: the setting, for the message. The value is not repeated: whoever put a secret into it must not find it in a
        log.
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
