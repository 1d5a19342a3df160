# SPDX-License-Identifier: Apache-2.0
"""A cluster that answers a :class:`KafkaLeaders` in the place of librdkafka, and counts what it is asked."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import OffsetSpec

from airflow_provider_rlmm.core.base.errors import EventLogUnavailableError
from airflow_provider_rlmm.core.log.kafka.client import METADATA_TOPIC
from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
from airflow_provider_rlmm.core.log.kafka.leaders import KafkaLeaders

METADATA_TOPIC_ID = UUID(int=1)
SETTINGS = {
    "remote.storage.enable": "true",
    "remote.log.copy.disable": "false",
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "segment.ms": "604800000",
}
_LEADERS = "airflow_provider_rlmm.core.log.kafka.leaders"


class AskedCluster:
    """
    The cluster; all is set by attributes, at any time. Broker n leads the user partitions n, n + 3, n + 6 and so on.

    :param monkeypatch: puts it into the place of the clients.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        config = KafkaClientConfig({"bootstrap.servers": "b:9092", "client.rack": "near"})
        self.leaders = KafkaLeaders(config, "cluster-1", METADATA_TOPIC_ID, request_timeout_s=3.0)
        self.described: dict[str, Any] = {METADATA_TOPIC: self.description(METADATA_TOPIC_ID, 1)}
        self.configs: dict[str, Any] = {}
        self.offsets: dict[tuple[str, int], Any] = {}
        """Log start, end and leader epoch, or an error; where there is none it begins at 0 and ends at 100, in epoch 0."""
        self.times: dict[tuple[str, int], Any] = {}
        """The record with the latest timestamp, offset and ms, or an error; where there is none the log is empty."""
        self.silent: set[int] = set()
        """Numbers of the chunks of user partitions of which nobody tells offsets."""
        self.records: dict[tuple[str, int], Sequence[tuple[int, int | None]]] = {}
        """Offset and leader epoch of what is served; who has no entry is silent."""
        self.errors: dict[tuple[str, int], KafkaError] = {}
        self.requests: Counter[str] = Counter()
        self.asked_for: list[str] = []
        self.asked_offsets: set[tuple[str, int]] = set()
        self.assigned: list[int] = []
        """How many user partitions each assignment has."""
        self.consumer = _Consumer(self)
        self.properties: Mapping[str, Any] = {}
        admin = self.leaders._admin
        monkeypatch.setattr(admin, "describe_topics", self._describe)
        monkeypatch.setattr(admin, "describe_configs", self._describe_configs)
        monkeypatch.setattr(admin, "list_offsets", self._list_offsets)
        monkeypatch.setattr(admin, "require_cluster", lambda *_: None)
        monkeypatch.setattr(self.leaders._topics, "topic_names", lambda: frozenset(self.described))
        monkeypatch.setattr("airflow_provider_rlmm.core.log.kafka.leader_clients.open_client", self._open)

    def description(self, topic_id: UUID, partitions: int, *, leaderless: Collection[int] = ()) -> Any:
        """Return a description of a topic."""
        return SimpleNamespace(
            topic_id=base64.b64encode(topic_id.bytes).decode(),
            partitions=[
                SimpleNamespace(id=n, leader=None if n in leaderless else SimpleNamespace(id=n % 3))
                for n in range(partitions)
            ],
        )

    def create(self, topic: str, topic_id: UUID, partitions: int) -> None:
        """Create a topic, tiered and kept for ever."""
        self.described[topic] = self.description(topic_id, partitions)
        self.configs[topic] = dict(SETTINGS)

    def stop_time(self, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
        """Let time pass only where somebody waits."""
        clock = SimpleNamespace(now=0.0)

        def sleep(seconds: float) -> None:
            clock.now += seconds

        time = SimpleNamespace(monotonic=lambda: clock.now, sleep=sleep)
        monkeypatch.setattr(f"{_LEADERS}.time", time)
        self.consumer.sleep = sleep
        return clock

    def _describe(self, names: Sequence[str]) -> dict[str, Any]:
        assert len(names) <= 501
        self.requests["describe"] += 1
        unknown = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
        return {name: self.described.get(name, unknown) for name in names}

    def _describe_configs(self, names: Sequence[str]) -> dict[str, Any]:
        assert len(names) <= 500
        self.requests["configs"] += 1
        found = {name: self.configs.get(name, KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)) for name in names}
        return {
            name: one
            if isinstance(one, KafkaError)
            else {setting: SimpleNamespace(value=value) for setting, value in one.items()}
            for name, one in found.items()
        }

    def _list_offsets(self, partitions: Sequence[tuple[str, int]], spec: Any) -> dict[tuple[str, int], Any]:
        assert len(partitions) <= 500
        if isinstance(spec, Mapping):
            return self._list_times(spec)
        chunk, earliest = self.requests["offsets"] // 2, spec is OffsetSpec.earliest()
        if chunk in self.silent:
            self.requests["offsets"] += 2
            raise EventLogUnavailableError("no answer")
        self.requests["offsets"] += 1
        self.asked_for.append("earliest" if earliest else "latest")
        self.asked_offsets.update(partitions)
        return {key: self._offset(key, earliest) for key in partitions}

    def _list_times(self, specs: Mapping[tuple[str, int], Any]) -> dict[tuple[str, int], Any]:
        self.requests["times"] += 1
        if self.requests["times"] - 1 in self.silent:
            raise EventLogUnavailableError("no answer")
        return {key: self._time(self.times.get(key, (-1, -1)), spec) for key, spec in specs.items()}

    @staticmethod
    def _time(told: Any, spec: Any) -> Any:
        if isinstance(told, KafkaError):
            return told
        offset, timestamp_ms = told
        if spec is not OffsetSpec.max_timestamp() and timestamp_ms < spec._value:
            offset = timestamp_ms = -1
        return SimpleNamespace(offset=offset, timestamp=timestamp_ms)

    def _offset(self, key: tuple[str, int], earliest: bool) -> Any:
        told = self.offsets.get(key, (0, 100, 0))
        if isinstance(told, KafkaError):
            return told
        start, end, epoch = told
        return SimpleNamespace(offset=start if earliest else end, leader_epoch=0 if earliest else epoch)

    def _open(self, factory: object, properties: Mapping[str, Any], watch: object) -> Any:
        self.properties = properties
        return self.consumer


class _Consumer:
    """Serves each user partition the first record from the offset on that it is assigned at, or its end."""

    def __init__(self, cluster: AskedCluster) -> None:
        self._cluster = cluster
        self._waiting: list[Any] = []
        self.assigned: dict[tuple[str, int], int] = {}
        self.closed = False
        self.sleep: Any = lambda _: None

    def assign(self, partitions: Sequence[Any]) -> None:
        self._cluster.assigned.append(len(partitions))
        self.assigned = {(p.topic, p.partition): p.offset for p in partitions}
        self._waiting = [m for key, offset in self.assigned.items() for m in self._messages(key, offset)]

    def _messages(self, key: tuple[str, int], begin: int) -> list[Any]:
        if (error := self._cluster.errors.get(key)) is not None:
            return [_message(key, error=error)]
        if key not in self._cluster.records:
            return []
        served = [_message(key, offset, epoch) for offset, epoch in self._cluster.records[key] if offset >= begin]
        return served or [_message(key, error=KafkaError(KafkaError._PARTITION_EOF))]

    def consume(self, count: int, timeout: float) -> list[Any]:
        if not self._waiting and timeout:
            self.sleep(timeout)
        found, self._waiting = self._waiting[:count], self._waiting[count:]
        return found

    def incremental_unassign(self, partitions: Sequence[Any]) -> None:
        for partition in partitions:
            del self.assigned[partition.topic, partition.partition]

    def unassign(self) -> None:
        self.assigned, self._waiting = {}, []

    def close(self) -> None:
        self.closed = True


def _message(key: tuple[str, int], offset: int = 0, epoch: int | None = None, error: KafkaError | None = None) -> Any:
    fields = {
        "topic": key[0], "partition": key[1], "offset": offset, "leader_epoch": epoch, "error": error
    }  # fmt: skip
    return SimpleNamespace(**{name: (lambda value=value: value) for name, value in fields.items()})
