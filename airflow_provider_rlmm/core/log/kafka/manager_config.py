# SPDX-License-Identifier: Apache-2.0
"""
The configuration of the topic-based manager under the names and with the defaults of Kafka's
``TopicBasedRemoteLogMetadataManagerConfig``, checked once and before any client is opened.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.log.kafka.config import ALIASES, KafkaClientConfig, check_property, is_known_property

PREFIX = "remote.log.metadata."
TOPIC_NUM_PARTITIONS = f"{PREFIX}topic.num.partitions"
TOPIC_REPLICATION_FACTOR = f"{PREFIX}topic.replication.factor"
TOPIC_RETENTION_MS = f"{PREFIX}topic.retention.ms"
TOPIC_MIN_ISR = f"{PREFIX}topic.min.isr"

_SHORT, _INT, _LONG = 2**15 - 1, 2**31 - 1, 2**63 - 1
# Kafka's name → its range, both ends inclusive.
_RANGES = {
    TOPIC_NUM_PARTITIONS: (1, _INT),
    TOPIC_REPLICATION_FACTOR: (1, _SHORT),
    TOPIC_RETENTION_MS: (-1, _LONG),
    TOPIC_MIN_ISR: (1, _SHORT),
    f"{PREFIX}consume.wait.ms": (0, _LONG),
    f"{PREFIX}initialization.retry.max.timeout.ms": (0, _LONG),
    f"{PREFIX}initialization.retry.interval.ms": (0, _LONG),
}
_CLIENT_PREFIXES = tuple(f"{PREFIX}{kind}." for kind in ("common.client", "producer", "consumer", "admin"))
_BROKER_ID = "broker.id"
# What a broker adds to the properties of its manager, and what means nothing outside of a broker.
_OF_THE_BROKER = frozenset({_BROKER_ID, "log.dir", "cluster.id"})

# Java's names in librdkafka's words, only where the values mean the same: PEM texts, times in ms.
_RENAMED = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "request.timeout.ms": "socket.timeout.ms",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.truststore.certificates": "ssl.ca.pem",
}
_PEM = "ssl.certificate.location and ssl.key.location, both PEM files"
_REPLACED = {
    "buffer.memory": "queue.buffering.max.kbytes",
    "max.request.size": "message.max.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "sasl.client.callback.handler.class": "oauth_cb in the Kafka connection",
    "sasl.jaas.config": "sasl.username and sasl.password",
    "sasl.login.callback.handler.class": "oauth_cb in the Kafka connection",
    "sasl.login.class": "oauth_cb in the Kafka connection",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "ssl.keystore.type": f"{_PEM}, or ssl.keystore.location, a PKCS#12 file",
    "ssl.truststore.location": "ssl.ca.location, a PEM file",
    "ssl.truststore.password": "ssl.ca.location, a PEM file without a password",
    "ssl.truststore.type": "ssl.ca.location, a PEM file",
}
_WITHOUT_COUNTERPART = frozenset(
    {
        "auto.include.jmx.reporter", "default.api.timeout.ms", "exclude.internal.topics", "interceptor.classes",
        "key.deserializer", "key.serializer", "max.block.ms", "max.poll.records", "metric.reporters",
        "metrics.num.samples", "metrics.recording.level", "metrics.sample.window.ms", "partitioner.class",
        "security.providers", "ssl.enabled.protocols", "ssl.engine.factory.class", "ssl.keymanager.algorithm",
        "ssl.protocol", "ssl.provider", "ssl.secure.random.implementation", "ssl.trustmanager.algorithm",
        "value.deserializer", "value.serializer",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TopicBasedRemoteLogMetadataManagerConfig:
    """
    Settings of the topic-based manager (Kafka: the class of the same name). It shows no secret.

    :param client: properties of its producer, consumers and admin clients.
    :param topic_num_partitions: metadata partitions of a topic that has to be created; an existing topic's count wins.
    :param topic_replication_factor: replicas of a topic that has to be created.
    :param topic_retention_ms: retention of a topic that has to be created, ms; -1 for ever. Less than the longest
        retention of the tiered topics loses metadata of data that still exist.
    :param topic_min_isr: replicas that must acknowledge a write to a topic that has to be created.
    :param consume_wait_ms: time to wait until a published event has been consumed, ms.
    :param initialization_retry_max_timeout_ms: time for initialization with all its attempts, ms.
    :param initialization_retry_interval_ms: bound of the first wait between two attempts, ms.
    :raises ConfigurationError: naming the property that is out of range.
    """

    client: KafkaClientConfig
    topic_num_partitions: int = 50
    topic_replication_factor: int = 3
    topic_retention_ms: int = -1
    topic_min_isr: int = 2
    consume_wait_ms: int = 120_000
    initialization_retry_max_timeout_ms: int = 120_000
    initialization_retry_interval_ms: int = 100

    def __post_init__(self) -> None:
        for name, (low, high) in _RANGES.items():
            object.__setattr__(self, _field(name), _number(name, self.value_of(name), low, high))
        if self.topic_retention_ms == 0:
            raise ConfigurationError(f"{TOPIC_RETENTION_MS} must be -1 (for ever) or above 0, not 0")

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, Any], connection: Mapping[str, Any] | None = None
    ) -> TopicBasedRemoteLogMetadataManagerConfig:
        """
        Read Kafka's properties.

        :param properties: Kafka's names, as a broker hands them to its manager: without ``rlmm.config.`` in front. Client
            properties stand behind ``remote.log.metadata.common.client.``, ``.producer.``, ``.consumer.`` or ``.admin.``,
            the specific ones win; their names may be those of the Java clients or librdkafka's. ``broker.id`` becomes
            part of the clients' ids.
        :param connection: librdkafka's properties of an Airflow connection, for all clients; the prefixed ones win.
        :raises ConfigurationError: naming the property that is unknown, out of range, not translatable, or set to a value
            that would break the guarantees of the event log.
        """
        numbers: dict[str, Any] = {}
        clients: dict[str, dict[str, Any]] = {prefix: {} for prefix in _CLIENT_PREFIXES}
        for given_name, value in properties.items():
            prefix = next((p for p in _CLIENT_PREFIXES if given_name.startswith(p)), None)
            if prefix is not None and given_name != prefix:
                clients[prefix][_client_property(given_name, prefix, value)] = value
            elif given_name in _RANGES:
                numbers[_field(given_name)] = value
            elif given_name not in _OF_THE_BROKER:
                raise _unknown(given_name)
        return cls(_client_config(clients, connection or {}, properties.get(_BROKER_ID)), **numbers)

    def value_of(self, name: str) -> Any:
        """
        Return a setting.

        :param name: Kafka's name, such as ``remote.log.metadata.topic.num.partitions``.
        :raises ConfigurationError: if there is no such setting.
        """
        if name not in _RANGES:
            raise _unknown(name)
        return getattr(self, _field(name))


def _field(name: str) -> str:
    return name.removeprefix(PREFIX).replace(".", "_")


def _unknown(name: str) -> ConfigurationError:
    return ConfigurationError(
        f"{name} is no property of the topic-based manager; known are {', '.join(sorted(_RANGES))} and client properties "
        f"behind {', '.join(_CLIENT_PREFIXES)}"
    )


def _client_property(given_name: str, prefix: str, value: Any) -> str:
    """Return librdkafka's name of a prefixed property, once its value is known to do no harm."""
    name = _librdkafka_name(given_name, given_name.removeprefix(prefix))
    name = ALIASES.get(name, name)
    if name == "client.id":
        raise ConfigurationError(f"{given_name} cannot be set: the clients' ids are made of {_BROKER_ID}")
    check_property(given_name, name, value)
    if not is_known_property(name):
        raise ConfigurationError(
            f"{given_name} is no property: neither Kafka's Java clients nor librdkafka know {name}"
        )
    return name


def _librdkafka_name(given_name: str, name: str) -> str:
    """Translate the name of a property of Kafka's Java clients; names that both have, and librdkafka's own, stay."""
    if name in _REPLACED:
        raise ConfigurationError(
            f"{given_name} is for Java clients and cannot be translated: use {_REPLACED[name]} instead"
        )
    if name in _WITHOUT_COUNTERPART:
        raise ConfigurationError(f"{given_name} is for Java clients, librdkafka has nothing like it: remove it")
    return _RENAMED.get(name, name)


def _client_config(
    clients: Mapping[str, Mapping[str, Any]], connection: Mapping[str, Any], broker_id: Any
) -> KafkaClientConfig:
    common, producer, consumer, admin = (clients[prefix] for prefix in _CLIENT_PREFIXES)
    common = {**{ALIASES.get(name, name): value for name, value in connection.items()}, **common}
    if broker_id is not None:
        common["client.id"] = str(broker_id)
    if not str(common.get("bootstrap.servers") or "").strip():
        raise ConfigurationError(
            f"{_CLIENT_PREFIXES[0]}bootstrap.servers is required: a comma-separated list of host:port"
        )
    return KafkaClientConfig(common, producer, consumer, admin)


def _number(name: str, value: Any, low: int, high: int) -> int:
    """Read a whole number, given as such or as text, and check its range."""
    try:
        number = int(value.strip()) if isinstance(value, str) else value
    except ValueError:
        number = None
    if isinstance(number, bool) or not isinstance(number, int) or not low <= number <= high:
        raise ConfigurationError(f"{name} must be a whole number from {low} to {high}")
    return number
