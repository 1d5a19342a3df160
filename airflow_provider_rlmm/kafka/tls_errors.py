# SPDX-License-Identifier: Apache-2.0
"""
Why a broker's certificate is refused, in words with what to do.

librdkafka says the same of a wrong authority, a wrong host name and an expired certificate, under one of two error codes
(seen with 2.16.0). So the broker is asked once more with Python's TLS, which tells them apart: the same authorities, the same
host name, a handshake and nothing else.
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from airflow_provider_rlmm.quoting import in_quotes, printable

_TIMEOUT_S = 5.0
_ADDRESS = re.compile(r"\b(?:sasl_)?ssl://([^/\s]+)/", re.I)
# OpenSSL's, by number and by name: "SSL routines::certificate verify failed".
_NOT_VERIFIED = re.compile(r"0A000086|certificate verify failed", re.I)
_REFUSES_OURS = re.compile(
    r"alert (certificate required|bad certificate|unsupported certificate|certificate revoked|certificate expired"
    r"|certificate unknown|unknown ca|access denied)"
)
# OpenSSL's X509_V_ERR_….
_NOT_YET_VALID, _EXPIRED, _REVOKED = 9, 10, 23
_WRONG_NAME = frozenset({62, 64})
_WRONG_AUTHORITY = frozenset({2, 7, 18, 19, 20, 21, 24})


def is_tls_refusal(text: str) -> bool:
    """
    Tell whether an error says that one side refused the other's certificate: trying again is pointless.

    :param text: librdkafka's.
    """
    return _NOT_VERIFIED.search(text) is not None or _REFUSES_OURS.search(text) is not None


def explain_tls_refusal(text: str, properties: Mapping[str, Any]) -> str | None:
    """
    Say why the certificate is refused and what to do, ``None`` where that cannot be found out.

    It connects to the broker that the text names, and waits for five seconds at most.

    :param text: librdkafka's, for which :func:`is_tls_refusal` holds.
    :param properties: librdkafka's.
    """
    found = _ADDRESS.search(text)
    if found is None:
        return None
    address = found[1]
    if ours := _REFUSES_OURS.search(text):
        return (
            f"broker {address} refuses this client's certificate, or wants one ({ours[0]}): set ssl.certificate.location and "
            "ssl.key.location to a certificate that an authority of the broker has issued, and its key"
        )
    trust = _Trust(properties)
    error = trust.refusal_of(address)
    return None if error is None else _in_words(address, error, trust)


class _Trust:
    """
    What the client trusts.

    :param properties: librdkafka's.
    """

    def __init__(self, properties: Mapping[str, Any]) -> None:
        self._location = str(properties.get("ssl.ca.location") or "")
        self._pem = str(properties.get("ssl.ca.pem") or "")
        self._any_name = str(properties.get("ssl.endpoint.identification.algorithm", "https")).lower() == "none"

    @property
    def source(self) -> str:
        """Where its authorities are, for messages."""
        if self._location and self._location != "probe":
            return f"ssl.ca.location ({in_quotes(self._location)})"
        return "ssl.ca.pem" if self._pem else "the authorities of this machine"

    def refusal_of(self, address: str) -> ssl.SSLCertVerificationError | None:
        """Return how a handshake ends, ``None`` where the certificate is not what it ends by."""
        host, _, port = address.rpartition(":")
        try:
            with (
                socket.create_connection((host.strip("[]"), int(port)), timeout=_TIMEOUT_S) as connection,
                self._context().wrap_socket(connection, server_hostname=host.strip("[]")),
            ):
                return None
        except ssl.SSLCertVerificationError as error:
            return error
        except (OSError, ValueError):
            return None

    def _context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = not self._any_name
        if self._location and self._location != "probe":
            directory = Path(self._location).is_dir()
            context.load_verify_locations(**{"capath" if directory else "cafile": self._location})
        elif self._pem:
            context.load_verify_locations(cadata=self._pem)
        else:
            context.load_default_certs()
        return context


def _in_words(address: str, error: ssl.SSLCertVerificationError, trust: _Trust) -> str:
    code, said = error.verify_code, printable(str(error.verify_message)).rstrip(".")
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    if code in _WRONG_NAME:
        return (
            f"the certificate of broker {address} is for another host ({said}): connect by a name that it holds, in "
            "bootstrap.servers and in the brokers' advertised.listeners, or have it issued for this one"
        )
    if code == _EXPIRED:
        return (
            f"a certificate of broker {address} has expired: have it renewed there; if it has not, the clock of this machine "
            f"is ahead, it says {now}"
        )
    if code == _NOT_YET_VALID:
        return (
            f"a certificate of broker {address} is not valid yet: the clock of this machine is behind, it says {now}, or the "
            "certificate was issued for later"
        )
    if code in _WRONG_AUTHORITY:
        return (
            f"the certificate of broker {address} was not issued by an authority in {trust.source} ({said}): put the issuing "
            "authority's certificate into a PEM file on every worker, and its path into ssl.ca.location"
        )
    return f"the certificate of broker {address} is refused: {said}"
