# SPDX-License-Identifier: Apache-2.0
"""The command in a process of its own, and brokers that refuse, say nothing, or advertise where nobody listens."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dev.broker import LocalKafka, free_ports

pytestmark = pytest.mark.integration

_WAITED_S = 15.0
"""How long a command waits for a broker that says nothing."""


@pytest.fixture
def closed() -> str:
    return f"127.0.0.1:{free_ports(1)[0]}"


@pytest.fixture
def silent() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


class BehindAnotherAddress(LocalKafka):
    """A broker with a second listener, of which it advertises an address where nobody listens."""

    def __init__(self, advertised: str) -> None:
        super().__init__()
        self.outside = f"127.0.0.1:{free_ports(1)[0]}"
        self._advertised = advertised

    def _default_properties(self) -> dict[str, str]:
        properties = super()._default_properties()
        return properties | {
            "listeners": f"{properties['listeners']},OUTSIDE://{self.outside}",
            "advertised.listeners": f"{properties['advertised.listeners']},OUTSIDE://{self._advertised}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,OUTSIDE:PLAINTEXT",
        }


def topics_of(home: Path, *addresses: str) -> tuple[str, float]:
    """Return what ``rlmm topics`` says on standard error, and how many seconds it took, from start to end."""
    command = [str(Path(sys.executable).with_name("rlmm")), "topics", "--bootstrap-server", ",".join(addresses)]
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    started = time.monotonic()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 3, done.stderr
    return done.stderr, time.monotonic() - started


def test_where_every_address_refuses_nobody_waits(tmp_path, closed):
    said, took_s = topics_of(tmp_path, closed, "no-such-host.invalid:9092")

    assert "none of 2 addresses answers" in said
    assert "Connection refused" in said
    assert "Failed to resolve 'no-such-host.invalid:9092'" in said
    assert took_s < _WAITED_S


def test_a_silent_address_is_named_while_it_is_waited_for(tmp_path, closed, silent):
    said, took_s = topics_of(tmp_path, closed, silent)

    cluster, first, last = said.splitlines()
    assert cluster.startswith(f"rlmm: cluster at {closed},{silent}; ")
    assert first.startswith("rlmm: no answer for 4 s from ")
    assert f"{silent}, which takes connections and says nothing" in first
    assert f"{closed}, which refuses connections" in first
    assert last.startswith("rlmm: none of 2 addresses answers")
    assert took_s >= _WAITED_S


def test_advertised_addresses_where_nobody_listens_are_named_while_they_are_waited_for(tmp_path, closed):
    with BehindAnotherAddress(closed) as kafka:
        said, _ = topics_of(tmp_path, kafka.outside)

    cluster, *waiting = said.splitlines()
    assert cluster.startswith(f"rlmm: cluster at {kafka.outside}; ")
    assert waiting
    for line in waiting:
        assert kafka.outside in line
        assert f"_TRANSPORT: {closed}/1: Connect to ipv4#{closed} failed: Connection refused" in line
