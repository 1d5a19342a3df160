# SPDX-License-Identifier: Apache-2.0
"""Addresses where nobody listens, and such as take a connection and say nothing, as real clients and sockets meet them."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Iterator
from threading import Event

import pytest
from confluent_kafka import KafkaError

from airflow_provider_rlmm.core.base.errors import EventLogUnavailableError
from airflow_provider_rlmm.core.log.kafka import client, listening
from airflow_provider_rlmm.core.log.kafka.client import KafkaAdmin, is_error
from airflow_provider_rlmm.core.log.kafka.client_watch import ClientWatch
from airflow_provider_rlmm.core.log.kafka.cluster import verify_cluster
from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
from airflow_provider_rlmm.core.log.kafka.listening import Listening, look_at, waiting_logger

NOBODY = "127.0.0.1:1"
FOR_EVER_S = 3_600.0
A_MOMENT_S = 1.5
LOGIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "alice",
    "sasl.password": "hunter2",
}


def config_of(*addresses: str) -> KafkaClientConfig:
    return KafkaClientConfig({"bootstrap.servers": ",".join(addresses), **LOGIN})


@pytest.fixture
def silent() -> Iterator[str]:
    """An address whose connections nobody ever takes from the system, which has taken them."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(listening, "SAY_AFTER_S", 0.0)
    monkeypatch.setattr(client, "SAY_AFTER_S", 0.0)


@pytest.fixture
def said(caplog):
    caplog.set_level(logging.INFO, waiting_logger.name)
    return lambda: [record.getMessage() for record in caplog.records if record.name == waiting_logger.name]


class TestOneLook:
    @pytest.mark.parametrize("address", [NOBODY, f"SASL_SSL://{NOBODY}"])
    def test_a_closed_port_is_nobodys(self, address):
        assert look_at([address])[address] == listening.Look(True, "refuses connections: no broker listens there")

    def test_who_takes_a_connection_may_be_anybody(self, silent):
        look = look_at([silent])[silent]

        assert not look.no_listener
        assert look.text == "takes connections"

    @pytest.mark.parametrize(
        ("error", "no_listener", "text"),
        [
            (socket.gaierror(socket.EAI_NONAME, "unknown"), True, "is no host that is known: unknown"),
            (socket.gaierror(socket.EAI_AGAIN, "try again"), False, "cannot be looked up: try again"),
            (UnicodeError("label too long"), True, "is no name that a host can have"),
        ],
    )
    def test_a_name_that_nobody_has_is_an_answer_and_a_silent_name_server_is_none(
        self, monkeypatch, error, no_listener, text
    ):
        def refuse(*_, **__):
            raise error

        monkeypatch.setattr(socket, "getaddrinfo", refuse)

        assert look_at(["broker:9092"])["broker:9092"] == listening.Look(no_listener, text)

    @pytest.mark.parametrize(
        ("other", "text"),
        [
            (TimeoutError("timed out"), "takes no connection within 1 s"),
            (OSError(113, "No route to host"), "cannot be reached: No route to host"),
        ],
    )
    def test_a_host_of_two_addresses_is_nobodys_only_if_both_refuse(self, monkeypatch, other, text):
        def refuse(*_, **__):
            raise ExceptionGroup("both", [other, ConnectionRefusedError(111, "Connection refused")])

        monkeypatch.setattr(socket, "create_connection", refuse)
        look = look_at(["broker:9092"])["broker:9092"]

        assert not look.no_listener
        assert look.text.startswith(text)

    def test_a_look_that_does_not_end_is_not_waited_for(self, monkeypatch):
        monkeypatch.setattr(listening, "_LOOK_S", 0.05)
        is_over = Event()
        monkeypatch.setattr(listening, "_look_at", lambda _: is_over.wait(5))
        started = time.monotonic()

        assert not look_at(["a:1", "b:1"])["b:1"].no_listener
        assert time.monotonic() - started < 4
        is_over.set()


class TestAsking:
    """Here an hour is the time limit: what ends does so by itself."""

    def test_where_every_address_refuses_it_is_given_up(self):
        with pytest.raises(EventLogUnavailableError) as caught:
            verify_cluster(config_of(NOBODY, "127.0.0.1:2"), request_timeout_s=FOR_EVER_S, listening=Listening())

        text = str(caught.value)
        assert "none of 2 addresses answers" in text
        for address in (NOBODY, "127.0.0.1:2"):
            assert f"Connect to ipv4#{address} failed: Connection refused" in text
        assert "hunter2" not in text

    @pytest.mark.slow
    def test_one_silent_address_is_waited_for(self, silent, said, at_once):
        started = time.monotonic()
        with pytest.raises(EventLogUnavailableError, match="none of 2 addresses answers"):
            verify_cluster(config_of(NOBODY, silent), request_timeout_s=A_MOMENT_S, listening=Listening())

        assert time.monotonic() - started >= A_MOMENT_S
        (line,) = said()
        assert f"{silent}, which takes connections and says nothing" in line
        assert f"{NOBODY}, which refuses connections" in line

    @pytest.mark.slow
    def test_a_task_waits_for_a_broker_that_restarts_and_says_nothing(self, said, at_once):
        started = time.monotonic()
        with pytest.raises(EventLogUnavailableError, match=r"brokers 127\.0\.0\.1:1: no answer came"):
            verify_cluster(config_of(NOBODY), request_timeout_s=A_MOMENT_S)

        assert time.monotonic() - started >= A_MOMENT_S
        assert said() == []


class TestWaiting:
    def watch(self, *codes: int) -> ClientWatch:
        watch = ClientWatch(config_of("broker:9092"))
        for code in codes:
            watch.on_error(KafkaError(code, "as hunter2 says"))
        return watch

    def test_it_is_said_once_and_without_a_secret(self, said, at_once, silent):
        of_a_terminal = Listening()
        unanswered = {silent: self.watch(), NOBODY: self.watch(KafkaError._AUTHENTICATION)}

        assert [of_a_terminal.is_useless(unanswered) for _ in range(2)] == [False, False]
        (line,) = said()
        assert "which refuses this client (_AUTHENTICATION: as *** says)" in line
        assert "hunter2" not in line

    def test_a_silent_address_beside_one_that_refuses_is_not_even_looked_at(self, monkeypatch):
        monkeypatch.setattr(listening, "look_at", lambda _: pytest.fail("nothing is reported of one of them"))

        assert not Listening().is_useless({NOBODY: self.watch(KafkaError._TRANSPORT), "broker:9092": self.watch()})

    def test_a_refused_login_is_no_reason_to_wait_for_where_nobody_listens(self):
        unanswered = {"broker:9092": self.watch(KafkaError._AUTHENTICATION), NOBODY: self.watch(KafkaError._TRANSPORT)}

        assert Listening().is_useless(unanswered)

    def test_looks_are_a_second_apart(self, monkeypatch, silent):
        looks = []
        monkeypatch.setattr(listening, "look_at", lambda waiting: looks.append(waiting) or look_at(waiting))
        of_a_terminal = Listening()

        for _ in range(5):
            of_a_terminal.is_useless({silent: self.watch(KafkaError._TRANSPORT)})

        assert len(looks) == 1


@pytest.mark.slow
def test_a_later_request_without_an_answer_says_for_whom_it_waits(silent, said, at_once):
    outcome = KafkaAdmin(config_of(silent), 0.5).describe_topics(["orders"])["orders"]

    assert is_error(outcome, "_TIMED_OUT")

    assert said() == [f"describing topic 'orders': no answer for 0 s from brokers {silent}"]
