# SPDX-License-Identifier: Apache-2.0
"""A real librdkafka client meets real certificates of a real TLS server; only Kafka is missing behind it."""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError

from airflow_provider_rlmm.core.base.errors import EventLogAccessError, EventLogError, EventLogUnavailableError
from airflow_provider_rlmm.core.log.kafka.client import KafkaAdmin
from airflow_provider_rlmm.core.log.kafka.client_watch import ClientWatch, explain_tls_refusal, is_tls_refusal
from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
from dev.secured import CertificateAuthority

PAGE = Path(__file__).parents[5] / "docs" / "troubleshooting.md"
DAY = timedelta(days=1)
NOT_VERIFIED = "SSL handshake failed: error:0A000086:SSL routines::certificate verify failed: broker certificate could"


class TlsServer:
    """Shakes hands with whoever comes and says nothing."""

    def __init__(self, key_store: Path, *, client_authority: Path | None = None) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(key_store)
        if client_authority is not None:
            self._context.verify_mode = ssl.CERT_REQUIRED
            self._context.load_verify_locations(client_authority)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._connections: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            try:
                connection.settimeout(5)
                self._connections.append(self._context.wrap_socket(connection, server_side=True))
                self._connections[-1].recv(1)
            except OSError:
                connection.close()

    def close(self) -> None:
        # Closing alone does not wake up who waits for a connection.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in list(self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        # Only now: until its end the thread may still add the connection that it was shaking hands with.
        for connection in self._connections:
            connection.close()


@dataclass(frozen=True)
class Place:
    folder: Path
    authority: CertificateAuthority
    servers: list[TlsServer]

    @property
    def ca(self) -> str:
        return str(self.folder / "ca.pem")

    def pem(self, name: str, content: bytes) -> str:
        (self.folder / name).write_bytes(content)
        return str(self.folder / name)

    def serve(self, address: str = "127.0.0.1", **options: Any) -> int:
        validity = {name: options.pop(name) for name in ("begins", "ends") if name in options}
        key_store = Path(self.pem("broker.pem", self.authority.issue_pem("broker", address, **validity)))
        self.servers.append(TlsServer(key_store, **options))
        return self.servers[-1].port


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    authority = CertificateAuthority.make("test authority")
    made = Place(tmp_path, authority, [])
    made.pem("ca.pem", authority.certificate_pem())
    yield made
    for server in made.servers:
        server.close()


def error_at(address: str, request_timeout_s: float = 20.0, **properties: str) -> EventLogError:
    config = KafkaClientConfig({"bootstrap.servers": address, "security.protocol": "SSL", **properties})
    with contextlib.closing(KafkaAdmin(config, request_timeout_s)) as admin, pytest.raises(EventLogError) as caught:
        admin.cluster_id()
    return caught.value


def wrong_authority(place: Place) -> EventLogError:
    other = place.pem("other.pem", CertificateAuthority.make("somebody else").certificate_pem())
    return error_at(f"127.0.0.1:{place.serve()}", **{"ssl.ca.location": other})


def same_name_other_key(place: Place) -> EventLogError:
    other = CertificateAuthority.make("test authority").certificate_pem().decode()
    return error_at(f"127.0.0.1:{place.serve()}", **{"ssl.ca.pem": other})


def wrong_host(place: Place) -> EventLogError:
    return error_at(f"127.0.0.1:{place.serve('broker.example.com')}", **{"ssl.ca.location": place.ca})


def wrong_address(place: Place) -> EventLogError:
    return error_at(f"localhost:{place.serve('127.0.0.1')}", **{"ssl.ca.location": place.ca})


def expired(place: Place) -> EventLogError:
    port = place.serve(begins=-2 * DAY, ends=-DAY)
    return error_at(f"127.0.0.1:{port}", **{"ssl.ca.location": place.ca})


def not_yet_valid(place: Place) -> EventLogError:
    return error_at(f"127.0.0.1:{place.serve(begins=DAY, ends=2 * DAY)}", **{"ssl.ca.location": place.ca})


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (
            wrong_authority,
            (
                r"the certificate of broker 127.0.0.1:\d+ was not issued by an authority in ssl.ca.location "
                r"\('.*/other.pem'\) \(.*certificate.*\): put the issuing authority's certificate into a PEM file"
            ),
        ),
        (same_name_other_key, r"was not issued by an authority in ssl.ca.pem \(.*\): put the issuing"),
        (
            wrong_host,
            (
                r"the certificate of broker 127.0.0.1:\d+ is for another host \(IP address mismatch.*'127.0.0.1'\): "
                "connect by a name that it holds, in bootstrap.servers and in the brokers' advertised.listeners"
            ),
        ),
        (wrong_address, r"certificate of broker localhost:\d+ is for another host \(Hostname mismatch.*'localhost'\)"),
        (
            expired,
            (
                r"a certificate of broker 127.0.0.1:\d+ has expired: have it renewed there; if it has not, the clock of this "
                r"machine is ahead, it says \d{4}-\d\d-\d\d \d\d:\d\d UTC$"
            ),
        ),
        (
            not_yet_valid,
            r"is not valid yet: the clock of this machine is behind, it says \d{4}-\d\d-\d\d \d\d:\d\d UTC",
        ),
    ],
)
def test_what_is_wrong_with_a_certificate_is_told_apart(
    place: Place, mistake: Callable[[Place], EventLogError], message: str
) -> None:
    error = mistake(place)
    assert type(error) is EventLogAccessError
    with pytest.raises(EventLogAccessError, match=rf"^describing the cluster, brokers \S+: .*{message}"):
        raise error
    assert "credentials" not in str(error)


@pytest.mark.parametrize("mistake", [wrong_authority, wrong_address, expired])
def test_the_page_quotes_it(place: Place, mistake: Callable[[Place], EventLogError]) -> None:
    text = str(mistake(place)).partition(": ")[2]
    text = re.sub(r"(localhost|127\.0\.0\.1):\d+", "broker.example.com:9093", text)
    text = text.replace("localhost", "broker.example.com").replace(str(place.folder / "other.pem"), "/etc/kafka/ca.pem")
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", "2026-01-31 12:00 UTC", text)
    assert f"brokers broker.example.com:9093: {text}\n```" in PAGE.read_text()


def test_a_broker_that_wants_a_certificate(place: Place) -> None:
    port = place.serve(client_authority=Path(place.ca))
    error = error_at(f"127.0.0.1:{port}", **{"ssl.ca.location": place.ca})
    assert type(error) is EventLogAccessError
    assert f"broker 127.0.0.1:{port} refuses this client's certificate, or wants one" in str(error)
    assert "set ssl.certificate.location and ssl.key.location" in str(error)


@pytest.mark.slow
def test_where_the_certificate_is_right_the_network_is_to_blame(place: Place) -> None:
    error = error_at(f"127.0.0.1:{place.serve()}", 1.0, **{"ssl.ca.location": place.ca})
    assert type(error) is EventLogUnavailableError


def test_a_client_that_does_not_look_at_names_is_not_told_about_names(place: Place) -> None:
    text = f"ssl://127.0.0.1:{place.serve('broker.example.com')}/bootstrap: {NOT_VERIFIED}"
    properties = {"ssl.ca.location": place.ca}
    assert "another host" in (explain_tls_refusal(text, properties) or "")
    assert explain_tls_refusal(text, properties | {"ssl.endpoint.identification.algorithm": "none"}) is None


def test_a_folder_of_authorities_is_looked_into(place: Place) -> None:
    text = f"ssl://127.0.0.1:{place.serve()}/bootstrap: {NOT_VERIFIED}"
    folder = place.folder / "authorities"
    folder.mkdir()
    assert f"ssl.ca.location ('{folder}')" in (explain_tls_refusal(text, {"ssl.ca.location": str(folder)}) or "")


@pytest.mark.parametrize("code", [KafkaError._SSL, KafkaError._TRANSPORT])
def test_a_refused_certificate_is_final_under_either_code(code: int) -> None:
    # librdkafka reports the same as one or the other, by chance.
    watch = ClientWatch(KafkaClientConfig({"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SSL"}))
    watch.on_error(KafkaError(code, f"ssl://127.0.0.1:1/bootstrap: {NOT_VERIFIED}"))
    assert watch.access_denied
    error = watch.error("asking", KafkaError(KafkaError._TIMED_OUT, "late"))
    # Nobody answers there any more, so librdkafka's words must do.
    assert type(error) is EventLogAccessError
    assert "certificate verify failed" in str(error)


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        (f"sasl_ssl://b:1/1: {NOT_VERIFIED}", True),
        (
            "ssl://b:1/1: Receive failed: error:0A00045C:SSL routines::tlsv13 alert certificate required: SSL alert",
            True,
        ),
        ("ssl://b:1/1: SSL handshake failed: error:0A000418:SSL routines::tlsv1 alert unknown ca", True),
        ("ssl://b:1/1: SSL handshake failed: Disconnected: connecting to a PLAINTEXT broker listener?", False),
        ("Connect to ipv4#127.0.0.1:1 failed: Connection refused", False),
    ],
)
def test_which_errors_are_about_certificates(text: str, refusal: bool) -> None:
    assert is_tls_refusal(text) is refusal


@pytest.mark.parametrize("text", [NOT_VERIFIED, f"ssl://nowhere.invalid:x/1: {NOT_VERIFIED}"])
def test_what_cannot_be_asked_again_is_not_explained(text: str) -> None:
    assert explain_tls_refusal(text, {}) is None
