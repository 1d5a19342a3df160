# SPDX-License-Identifier: Apache-2.0
"""
What lies on the brokers' disks, out of what ``kafka-log-dirs.sh --describe`` prints: no client of Python may ask for it.

Source: ``org.apache.kafka.tools.LogDirsCommand``; sentences, then one line of JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_rlmm.core.base.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class LogDirectories:
    """
    What brokers say of their disks.

    :param brokers: those that have answered.
    :param sizes: (broker, topic, partition) → bytes of the log, copies that are remote as well included.
    :param troubled: brokers of which a log directory is offline: what they say is not all.
    """

    brokers: frozenset[int]
    sizes: Mapping[tuple[int, str, int], int]
    troubled: frozenset[int]

    @property
    def topics(self) -> frozenset[str]:
        """Every topic of which a broker has a replica, also where the login may not describe it."""
        return frozenset(topic for _, topic, _ in self.sizes)

    def bytes_of(self, topic: str, replicas: tuple[tuple[int, ...], ...]) -> int | str:
        """
        Return the bytes of all replicas of a topic, or why they are not known.

        :param topic: its name.
        :param replicas: of each partition the brokers that have one.
        """
        wanted = [(broker, topic, partition) for partition, brokers in enumerate(replicas) for broker in brokers]
        if troubled := sorted({broker for broker, _, _ in wanted if broker in self.troubled}):
            return f"broker {troubled[0]} has a log directory that is offline"
        for broker, _, partition in wanted:
            if (broker, topic, partition) not in self.sizes:
                return f"broker {broker} has not told of partition {partition}"
        return sum(self.sizes[replica] for replica in wanted)


def read_log_directories(text: str, name: str) -> LogDirectories:
    """
    Read what the tool has printed.

    :param text: all of it, or its line of JSON.
    :param name: of the file, for messages.
    :raises ConfigurationError: if it is not what the tool prints.
    """
    lines = [line for line in text.splitlines() if line.startswith("{")]
    try:
        (line,) = lines
        brokers = json.loads(line)["brokers"]
        offline = {int(b["broker"]) for b in brokers for d in b["logDirs"] if d["error"]}
        sizes: dict[tuple[int, str, int], int] = {}
        for replica, size in _replicas(brokers):
            sizes[replica] = sizes.get(replica, 0) + size
        return LogDirectories(frozenset(int(b["broker"]) for b in brokers), sizes, frozenset(offline))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ConfigurationError(
            f"{name} is not what 'kafka-log-dirs.sh --describe' prints: save its whole output, of all brokers and topics"
        ) from None


def _replicas(brokers: Any) -> Iterator[tuple[tuple[int, str, int], int]]:
    for broker in brokers:
        for directory in broker["logDirs"]:
            for replica in directory["partitions"]:
                topic, _, partition = replica["partition"].rpartition("-")
                # A replica that moves to another directory counts where it comes from only.
                if not replica["isFuture"]:
                    yield (int(broker["broker"]), topic, int(partition)), int(replica["size"])
