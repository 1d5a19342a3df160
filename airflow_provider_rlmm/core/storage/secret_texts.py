# SPDX-License-Identifier: Apache-2.0
"""Texts of stores without the secrets that opened them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from airflow_provider_rlmm.core.base.redaction import without_stores_secrets

_MAX_REASON_LENGTH: Final = 500
_STRUCTURED: Final = re.compile(r"[^\s\"'{}:,]{6,}")
_USER_INFO: Final = re.compile(r"(?<=://)[^/\s@]*@")
_QUERY: Final = re.compile(r"(?<=[\w/.~%-])\?[^\s)\"'<]+")
"""What follows an address; the declaration of an XML document, with a ``?`` at both ends, is none."""

_PUBLIC_OPTION: Final = re.compile(
    r"(region|endpoint|endpoint_url|bucket|bucket_name|account_name|container_name|skip_signature|request_payer|allow_http"
    r"|conditional_put|virtual_hosted_style_request|root_certificate|proxy_ca_certificate)$",
    re.I,
)


def is_public_option(name: str, value: str) -> bool:
    """
    Tell whether the value of a store's option may be shown.

    :param name: of the option.
    :param value: an address that holds a login may not.
    """
    return _PUBLIC_OPTION.search(name) is not None and _USER_INFO.search(value) is None


def secrets_in(options: Mapping[str, str]) -> tuple[str, ...]:
    """
    Return the texts that must not appear anywhere.

    :param options: options of a store.
    """
    # Very short ones are settings, and would garble every message. Of a value with a structure of its own, such as a key
    # file, any part may be quoted.
    values = [value for key, value in options.items() if not is_public_option(key, value)]
    parts = {part for value in values for part in (value, *_STRUCTURED.findall(value)) if len(part) > 5}
    return tuple(parts)


def safe_text(error: Exception, secrets: Iterable[str]) -> str:
    """
    Return what an error of obstore or of a provider says, without secrets.

    :param error: the error.
    :param secrets: of :func:`secrets_in`, or those that credentials have given so far.
    """
    # What follows the first blank line is a dump of obstore's internals.
    text = str(error).partition("\n\n")[0] or type(error).__name__
    safe = without_stores_secrets(text, secrets)
    return _QUERY.sub("?***", _USER_INFO.sub("***@", safe))[:_MAX_REASON_LENGTH]


def one_line(secrets: Iterable[str], error: Exception) -> str:
    """
    Return what an error of obstore says on one line, without secrets.

    :param secrets: as :func:`safe_text` takes them; they are looked at when the error is told.
    :param error: the error.
    """
    return " ".join(safe_text(error, secrets).split())
