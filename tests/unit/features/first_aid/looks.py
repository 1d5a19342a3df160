# SPDX-License-Identifier: Apache-2.0
"""Tiered topics as brokers tell them, and a look that is what a test says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from airflow_provider_rlmm.core.log.tiered_topics import TieredLook, TieredTopic, ToldSetting

DEFAULTS = {
    "remote.storage.enable": "true",
    "remote.log.copy.disable": "false",
    "local.retention.ms": "-2",
    "local.retention.bytes": "-2",
    "retention.ms": "604800000",
    "retention.bytes": "-1",
    "segment.bytes": "1000",
}


def settings(own: Mapping[str, str | None] | None = None) -> dict[str, ToldSetting]:
    """Return the settings of a topic; those that are named are set for it, the others are the brokers'."""
    told = {name: ToldSetting(value, name == "remote.storage.enable") for name, value in DEFAULTS.items()}
    return told | {name: ToldSetting(value, True) for name, value in (own or {}).items()}


def topic(
    name: str, own: Mapping[str, str | None] | None = None, replicas: tuple[tuple[int, ...], ...] = ((1, 2),)
) -> TieredTopic:
    return TieredTopic(name, UUID(int=1), settings(own), replicas)


@dataclass
class Look:
    """A cluster of two brokers that answers this."""

    tiered: tuple[TieredTopic, ...] = ()
    others: frozenset[str] = frozenset({"__remote_log_metadata"})
    not_told: Mapping[str, str] = field(default_factory=dict)

    def look(self) -> TieredLook:
        names = {t.topic for t in self.tiered} | self.others | self.not_told.keys()
        return TieredLook("cluster-1", frozenset({1, 2}), frozenset(names), self.tiered, self.not_told)

    def close(self) -> None:
        """Nothing is open."""


def printed(brokers: Mapping[int, Mapping[str, int]], offline: frozenset[int] = frozenset()) -> str:
    """Return what Kafka's tool prints of brokers, each with the bytes of its replicas."""

    def directory(broker: int, replicas: Mapping[str, int]) -> dict[str, Any]:
        told = [{"partition": p, "size": size, "offsetLag": 0, "isFuture": False} for p, size in replicas.items()]
        error = "org.apache.kafka.common.errors.KafkaStorageException" if broker in offline else None
        return {"logDir": "/d", "error": error, "partitions": told}

    document = {
        "version": 1,
        "brokers": [{"broker": b, "logDirs": [directory(b, replicas)]} for b, replicas in brokers.items()],
    }
    said = "Querying brokers for log directories information\nReceived log directory information from brokers 1,2\n"
    return f"{said}{json.dumps(document)}\n"
