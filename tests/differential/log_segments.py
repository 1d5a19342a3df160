# SPDX-License-Identifier: Apache-2.0
"""The Python end of ``dev/java/peers/LogSegmentPeer.java``."""

from __future__ import annotations

import json
import subprocess
from types import TracebackType
from typing import Any, Self

from dev.peers import SHORT_LIFE, peer_command


class LogSegmentPeer:
    """A JVM with Kafka's classes for logs, indexes and producer snapshots; it ends with the block."""

    def __init__(self) -> None:
        command = peer_command("LogSegmentPeer", options=SHORT_LIFE)
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        code = self._process.wait()
        self._process.stdout.close()
        assert code == 0, f"the JVM ended with {code}; its standard error says why"

    def write(self, seed: int) -> dict[str, Any]:
        """
        Return a random log, and what Kafka reads from it.

        :param seed: the same one gives the same log.
        """
        return self._ask({"do": "write", "seed": seed})

    def read(self, log: bytes) -> dict[str, Any]:
        """
        Return what Kafka reads from a log, up to the first error.

        :param log: its bytes.
        """
        return self._ask({"do": "read", "log": log.hex()})

    def indexes(self, seed: int) -> dict[str, Any]:
        """
        Return random indexes, and what looking something up in them gives.

        :param seed: the same one gives the same indexes.
        """
        return self._ask({"do": "indexes", "seed": seed})

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin
        assert self._process.stdout
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        except BaseException:
            # Interrupted in between, it would answer the next question with this one's answer.
            self._process.kill()
            raise
        return answer
