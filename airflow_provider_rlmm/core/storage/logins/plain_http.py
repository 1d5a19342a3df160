# SPDX-License-Identifier: Apache-2.0
"""
Requests that obstore has none for, sent as it would send them: to one address, by the options of its HTTP client.

What a server says is returned to the caller, which understands it. No text of it is in an error, and no answer leads to
another host.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException, HTTPMessage
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, ProxyHandler, Request, build_opener

from airflow_provider_rlmm.core.base.errors import ConfigurationError, StorageUnavailableError
from airflow_provider_rlmm.core.storage.logins.named import is_true, option

_TIMEOUT_S: Final = 30
_MOST_BYTES: Final = 64 << 20
"""Of an answer: a page of 5,000 keys of 1,024 bytes, with their properties, is smaller."""


@dataclass(frozen=True, slots=True)
class Answer:
    """
    What a server has said.

    :param status: of HTTP, such as 200.
    :param headers: found by name in any case.
    :param body: at most 64 MiB.
    """

    status: int
    headers: HTTPMessage
    body: bytes


class PlainHttp:
    """
    Sends single requests, each within 30 seconds of silence, and follows no redirection.

    :param options: of the store, of which those of the HTTP client count.
    :param prefixes: what may come before their names, such as ``azure_``.
    :raises ConfigurationError: if an option cannot be heeded here, or holds no certificates.
    """

    def __init__(self, options: Mapping[str, str], prefixes: tuple[str, ...]) -> None:
        unheeded = option(options, {"proxy_excludes", "proxy_ca_certificate"}, prefixes)
        if unheeded is not None:
            raise ConfigurationError(
                "these requests know no proxy_excludes and no proxy_ca_certificate, which the options name"
            )
        self._allow_http = is_true(option(options, {"allow_http"}, prefixes))
        proxy = option(options, {"proxy_url"}, prefixes)
        # Without one the environment's count, as for obstore.
        proxies = ProxyHandler({"http": proxy, "https": proxy} if proxy else None)
        self._opener = build_opener(proxies, HTTPSHandler(context=_context(options, prefixes)), _NoRedirection())

    def send(self, url: str, headers: Mapping[str, str], form: bytes | None = None) -> Answer:
        """
        Send a request and return the answer, with any status.

        :param url: with scheme, host and query.
        :param headers: such as ``Authorization``.
        :param form: what to post; ``None`` asks by GET.
        :raises ConfigurationError: if the address has no TLS, and the option ``allow_http`` does not allow that.
        :raises StorageUnavailableError: if no server answers, naming the host alone.
        """
        parts = urlsplit(url)
        if parts.scheme != "https" and not (parts.scheme == "http" and self._allow_http):
            raise ConfigurationError(
                "the endpoint does not begin with https://, which is used with the option allow_http=true only"
            )
        request = Request(url, data=form, headers=dict(headers))  # noqa: S310 - the scheme was looked at
        try:
            try:
                response: Any = self._opener.open(request, timeout=_TIMEOUT_S)
            except HTTPError as e:
                response = e
            with response:
                return Answer(response.status, response.headers, response.read(_MOST_BYTES))
        except (OSError, HTTPException, ValueError) as e:
            reason = getattr(e, "reason", e)
            raise StorageUnavailableError(f"{parts.hostname} does not answer: {type(reason).__name__}") from None


class _NoRedirection(HTTPRedirectHandler):
    """Returns a redirection as the answer that it is: another host would be sent the credentials."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _context(options: Mapping[str, str], prefixes: tuple[str, ...]) -> ssl.SSLContext:
    """Return whose certificates are believed: the system's, and those of an option, as the store does it."""
    context = ssl.create_default_context()
    given = option(options, {"root_certificate"}, prefixes)
    if is_true(option(options, {"allow_invalid_certificates"}, prefixes)):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    elif given is not None:
        try:
            context.load_verify_locations(cadata=given)
        except (ssl.SSLError, ValueError):
            raise ConfigurationError("the option root_certificate holds no certificates in PEM") from None
    return context
