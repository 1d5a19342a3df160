# SPDX-License-Identifier: Apache-2.0
"""What Airflow tells systems around it, received on this machine: metrics, messages, lineage."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from dev.patience import Patience

T = TypeVar("T")


class StatsdListener:
    """Keeps the last value of each series, and what counters add up to, as a StatsD server does."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.settimeout(0.2)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="statsd", daemon=True)
        self.port: int = self._socket.getsockname()[1]
        self.names: set[str] = set()
        """Of all that came, with their tags."""
        self.gauges: dict[str, float] = {}
        self.counters: dict[str, float] = {}

    def __enter__(self) -> StatsdListener:
        self._thread.start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        self._socket.close()

    def _listen(self) -> None:
        while not self._ended.is_set():
            try:
                datagram = self._socket.recv(65_536)
            except TimeoutError:
                continue
            for line in datagram.decode().splitlines():
                name, _, said = line.partition(":")
                value, kind, *tags = said.split("|")
                self.names.add(" ".join([name, *tags]))
                if kind == "g":
                    self.gauges[name] = float(value)
                elif kind == "c":
                    self.counters[name] = self.counters.get(name, 0) + float(value)


def awaited(ask: Callable[[], T], timeout: float = 60.0) -> T:
    """Return the first answer that is something; the last one when the time is over."""
    patience = Patience(timeout)
    while not (answer := ask()) and not patience.over():
        time.sleep(0.2)
    return answer


def lineage_events(file: Path, dag_id: str, run_id: str) -> list[dict[str, Any]]:
    """Return the events of the tasks of a run."""
    lines = file.read_text().splitlines() if file.exists() else []
    events = [json.loads(line) for line in lines if run_id in line]
    return [event for event in events if event["job"]["name"].startswith(f"{dag_id}.")]
