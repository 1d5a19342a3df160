# SPDX-License-Identifier: Apache-2.0
"""Reading ``__remote_log_metadata`` with Spark's own Kafka connector: a bounded range, the same for every pass over it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_rlmm.errors import (
    ConfigurationError,
    EventLogAccessError,
    EventLogError,
    EventLogUnavailableError,
    MetadataTopicNotFoundError,
)
from airflow_provider_rlmm.spark.properties import BOOTSTRAP_SERVERS, redact

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

API_TIMEOUT_MS = 30_000
"""How long the brokers may take to answer before the job gives up, unless the client properties say otherwise."""


@dataclass(frozen=True, slots=True)
class TopicRange:
    """
    What of a topic is read.

    :param topic: the metadata topic.
    :param begin: metadata partition → first offset there is, inclusive.
    :param end: metadata partition → high watermark when the reading began, exclusive.
    """

    topic: str
    begin: Mapping[int, int]
    end: Mapping[int, int]

    @property
    def num_partitions(self) -> int:
        """Number of metadata partitions, which decides where the events of a user partition lie."""
        return len(self.end)

    @property
    def offsets(self) -> int:
        """Number of offsets in the range."""
        return sum(self.end.values()) - sum(self.begin.values())


def find_range(spark: SparkSession, properties: Mapping[str, str], topic: str) -> TopicRange:
    """
    Ask the brokers for the range of offsets to read.

    Spark would resolve "latest" again for each pass over the topic, and does not report what it took; a fixed range makes
    all passes see the same records. The topic is never created by being looked up.

    :param spark: the session; its classpath holds Spark's Kafka connector and with it Kafka's own client.
    :param properties: Kafka client properties, with ``bootstrap.servers``.
    :param topic: the metadata topic.
    :raises MetadataTopicNotFoundError: if the topic does not exist.
    :raises EventLogUnavailableError: if the brokers do not answer in time.
    :raises EventLogAccessError: if authentication fails or an ACL forbids it.
    :raises ConfigurationError: if the connector is not on the classpath or a client property is not valid.
    """
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # py4j has no type information

    jvm = _jvm(spark)
    settings = jvm.java.util.HashMap()
    for name, value in {"default.api.timeout.ms": str(API_TIMEOUT_MS), **properties}.items():
        settings.put(name, value)
    deserializer = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
    for name, value in (("key", deserializer), ("value", deserializer)):
        settings.put(f"{name}.deserializer", value)
    settings.put("allow.auto.create.topics", "false")
    try:
        consumer = jvm.org.apache.kafka.clients.consumer.KafkaConsumer(settings)
        try:
            partitions = _topic_partitions(jvm, consumer, topic)
            begin, end = consumer.beginningOffsets(partitions), consumer.endOffsets(partitions)
            numbers = {partition.partition(): partition for partition in partitions}
            return TopicRange(
                topic,
                {number: begin.get(partition) for number, partition in sorted(numbers.items())},
                {number: end.get(partition) for number, partition in sorted(numbers.items())},
            )
        finally:
            consumer.close()
    except Py4JJavaError as e:
        raise _kafka_error(e.java_exception, properties, topic) from None
    except TypeError as e:
        # py4j takes a class that it cannot load for a package, which cannot be called.
        raise ConfigurationError(
            "Kafka's client is not on the classpath of the Spark driver; pass the Kafka connector with --packages or --jars"
        ) from e


def read_metadata(spark: SparkSession, properties: Mapping[str, str], topic_range: TopicRange) -> DataFrame:
    """
    Return the records of the range: ``metadata_partition`` int, ``offset`` long, ``key`` and ``value`` binary.

    A record that is gone before it is read fails the job (``failOnDataLoss``): a plan of half a history would be wrong.

    :param spark: the session.
    :param properties: Kafka client properties, with ``bootstrap.servers``.
    :param topic_range: what :func:`find_range` returned.
    """
    from pyspark.sql import functions as sf

    topic = topic_range.topic
    options = {
        **{f"kafka.{name}": value for name, value in properties.items()},
        # Not "subscribe": a partition that is added meanwhile is outside of the range.
        "assign": json.dumps({topic: sorted(topic_range.end)}),
        "startingOffsets": json.dumps({topic: {str(p): o for p, o in topic_range.begin.items()}}),
        "endingOffsets": json.dumps({topic: {str(p): o for p, o in topic_range.end.items()}}),
        "failOnDataLoss": "true",
    }
    records = spark.read.format("kafka").options(**options).load()
    return records.select(sf.col("partition").alias("metadata_partition"), "offset", "key", "value")


def _jvm(spark: SparkSession) -> Any:
    """Return the gateway to the driver's JVM; a Spark Connect session has none."""
    return spark._jvm


def _topic_partitions(jvm: Any, consumer: Any, topic: str) -> Any:
    infos = consumer.partitionsFor(topic)
    if not infos:
        raise MetadataTopicNotFoundError(
            f"topic {topic!r} does not exist on this cluster, or this principal may not see it; "
            "check the bootstrap servers, the topic's name and the ACLs"
        )
    partitions = jvm.java.util.ArrayList()
    for info in infos:
        partitions.add(jvm.org.apache.kafka.common.TopicPartition(topic, info.partition()))
    return partitions


def _kafka_error(exception: Any, properties: Mapping[str, str], topic: str) -> EventLogError | ConfigurationError:
    """Return the error of this package that says what a Kafka exception, or what caused it, means."""
    servers = properties.get(BOOTSTRAP_SERVERS, "")
    chain = []
    while exception is not None:
        chain.append((str(exception.getClass().getName()).rpartition(".")[2], str(exception.getMessage())))
        exception = exception.getCause()
    names = " ".join(name for name, _ in chain)
    said = redact(": ".join(chain[-1]), properties)
    if "Authentication" in names or "Authorization" in names:
        return EventLogAccessError(f"no access to topic {topic!r} at {servers}: {said}")
    if "UnknownTopic" in names or "InvalidTopic" in names:
        return MetadataTopicNotFoundError(f"topic {topic!r} does not exist at {servers}: {said}")
    if "Config" in names or "FailedToConstruct" in names or chain[0][1].startswith("Failed to construct"):
        return ConfigurationError(f"Kafka's client refuses its properties for {servers}: {said}")
    return EventLogUnavailableError(f"no answer about topic {topic!r} from {servers}: {said}")
