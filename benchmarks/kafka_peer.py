# SPDX-License-Identifier: Apache-2.0
"""The Python end of ``dev/java/peers/ReplayBenchmark.java``."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from dev.peers import peer_command

JVM_OPTIONS = ("-Xms4g", "-Xmx4g", "-XX:+UseSerialGC")
"""One thread measures one thread: a concurrent collector would work on the other core."""


class KafkaPeer:
    """
    A JVM with Kafka's classes that stays warm; it ends with the block.

    :param options: the JVM's.
    """

    def __init__(self, options: tuple[str, ...] = JVM_OPTIONS) -> None:
        self._process = subprocess.Popen(
            peer_command("ReplayBenchmark", options=options), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def load(self, path: Path) -> None:
        """
        Read values.

        :param path: a file of :func:`benchmarks.workload.write`.
        """
        self._ask("load", str(path))

    def decode(self) -> float:
        """Deserialize the values; seconds."""
        return self._ask("decode")[0] / 1e9

    def replay(self) -> tuple[float, int]:
        """Deserialize the values into caches; seconds, live segments."""
        nanoseconds, live = self._ask("replay")
        return nanoseconds / 1e9, live

    def memory(self) -> tuple[int, int]:
        """What the caches hold after that; bytes on the heap, live segments."""
        size, live = self._ask("memory")
        return size, live

    def topic(self, bootstrap_servers: str, topic: str) -> tuple[float, int, int]:
        """
        Consume a topic into caches.

        :param bootstrap_servers: the broker.
        :param topic: all its partitions are read to the end.
        :return: seconds, records, live segments.
        """
        nanoseconds, records, live = self._ask("topic", bootstrap_servers, topic)
        return nanoseconds / 1e9, records, live

    def _ask(self, *words: str) -> list[int]:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(" ".join(words) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().split()
        if not answer:
            raise RuntimeError(f"the JVM ended at {words[0]}; its standard error says why")
        return [int(number) for number in answer]
