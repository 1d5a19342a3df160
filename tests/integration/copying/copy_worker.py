# SPDX-License-Identifier: Apache-2.0
"""A copier in a process of its own, which ends or pauses at one of its steps as a test wants it to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from uuid import UUID

from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.features.copying.rules import CopyLimits
from tests.integration.copying.our_copier import OurCopier


@dataclass(frozen=True)
class Order:
    """
    What the process is to do.

    :param disk: the disk that it copies from.
    :param topic: with :attr:`topic_id`, the user partition 0 of this topic.
    :param at: number of the step at which it gets :attr:`signal`, from 1 on.
    :param signal: of its own to itself.
    :param steps: which steps count, by the beginning of their names; empty for all.
    """

    bootstrap_servers: str
    cluster_id: str
    remote_dir: str
    disk: str
    topic: str
    topic_id: str
    at: int
    signal: int
    steps: str = ""
    lease_ms: int = 3_600_000

    def start(self) -> subprocess.Popen[str]:
        """Start a process that does it; what it prints last is the end of its run, in words."""
        command = [sys.executable, "-m", __spec__.name, json.dumps(asdict(self))]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3])


class _Steps:
    def __init__(self, order: Order) -> None:
        self._order = order
        self._count = 0

    def __call__(self, step: str) -> None:
        self._count += step.startswith(self._order.steps)
        if self._count == self._order.at:
            self._count += 1
            os.kill(os.getpid(), self._order.signal)


def main(text: str) -> None:
    order = Order(**json.loads(text))
    copier = OurCopier(
        order.bootstrap_servers,
        order.cluster_id,
        Path(order.remote_dir),
        CopyLimits(lease_ms=order.lease_ms),
        _Steps(order),
    )
    report = copier.copy(Path(order.disk), TopicIdPartition(UUID(order.topic_id), order.topic, 0))
    sys.stdout.write(f"{report.stopped_by}\n")


if __name__ == "__main__":
    # A signal of its own ends it as a power failure would.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    main(sys.argv[1])
