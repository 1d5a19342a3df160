# SPDX-License-Identifier: Apache-2.0
"""The Python end of ``dev/java/peers/MetadataReplay.java``."""

from __future__ import annotations

import json
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from dev.peers import SHORT_LIFE, peer_command

Probe = tuple[int, int]
"""A leader epoch and an offset."""

Partition = tuple[str, str, int]
"""A user partition: topic id in hex, topic, number."""


@dataclass(frozen=True, slots=True)
class KafkaAnswer:
    """
    What Kafka made of a batch.

    :param outcomes: one character per value; the Java program says which.
    :param thrown: what would end a broker's consumer, by row.
    :param partitions: what the caches answer then, by user partition.
    """

    outcomes: str
    thrown: dict[int, str]
    partitions: dict[Partition, dict[str, Any]]


class KafkaReplay:
    """
    A JVM with Kafka's serde and store of metadata; it ends with the block.

    :param kafka_version: another Kafka than the one of ``dev/pom.xml``.
    """

    def __init__(self, kafka_version: str | None = None) -> None:
        command = peer_command("MetadataReplay", options=SHORT_LIFE, kafka_version=kafka_version)
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

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

    def forget(self) -> None:
        """Begin with an empty topic."""
        self._send(struct.pack(">i", -1))

    def apply(self, values: Sequence[bytes | None], probes: Sequence[Probe]) -> KafkaAnswer:
        """
        Apply values, then ask.

        :param values: in the order of the topic.
        :param probes: what to look up in each user partition.
        """
        request = bytearray(struct.pack(">i", len(values)))
        for value in values:
            request += struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value
        request += struct.pack(">i", len(probes))
        for probe in probes:
            request += struct.pack(">iq", *probe)
        try:
            self._send(request)
            assert self._process.stdout
            answer = json.loads(self._process.stdout.readline())
        except BaseException:
            # Interrupted in between, it would answer the next question with this one's answer.
            self._process.kill()
            raise
        return KafkaAnswer(
            answer["outcomes"],
            {int(row): text for row, text in answer["thrown"].items()},
            {tuple(answers.pop("partition")): answers for answers in answer["partitions"]},
        )

    def _send(self, data: bytes | bytearray) -> None:
        assert self._process.stdin
        self._process.stdin.write(data)
        self._process.stdin.flush()
