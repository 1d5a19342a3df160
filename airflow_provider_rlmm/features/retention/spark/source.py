# SPDX-License-Identifier: Apache-2.0
"""Reading ``__remote_log_metadata`` with Spark's own Kafka connector: a bounded range, one task per metadata partition."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from airflow_provider_rlmm.core.base.errors import (
    ConfigurationError,
    EventLogUnavailableError,
    MetadataTopicNotFoundError,
)
from airflow_provider_rlmm.core.plans.refusals import Refusal, RefusalKind
from airflow_provider_rlmm.core.records.era import PLAIN_ERA, LogEra
from airflow_provider_rlmm.features.retention.spark.cluster import SparkCluster, describe_topics, topic_era
from airflow_provider_rlmm.features.retention.spark.java_client import (
    API_TIMEOUT_MS,
    java_settings,
    jvm_of,
    kafka_errors,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CONSUMER_PROPERTIES = {
    # By default a consumer that asks for a topic which is just being deleted makes it anew.
    "allow.auto.create.topics": "false",
    # Brokers read what was not committed, so it must reach us.
    "isolation.level": "read_uncommitted",
}
"""For every consumer of the metadata topic, over the client properties."""

THROUGHPUT_PROPERTIES = {
    "max.poll.records": "20000",
    "fetch.max.bytes": str(16 * 2**20),
    "max.partition.fetch.bytes": str(16 * 2**20),
    "fetch.max.wait.ms": "10",
}
"""For the consumers that read the topic, unless the client properties say otherwise: each reads one metadata partition."""

logger = logging.getLogger(__name__)

_POLL_MS = 500
_SPLITTING = ("minpartitions", "maxrecordsperpartition")


@dataclass(frozen=True, slots=True)
class TopicRange:
    """What of a topic is read."""

    topic: str  # the metadata topic
    topic_id: UUID  # its id when the reading began
    begin: Mapping[int, int]  # metadata partition → first offset there is, inclusive
    end: Mapping[int, int]  # metadata partition → high watermark when the reading began, exclusive
    era: LogEra = PLAIN_ERA  # of the log, as the topic's configuration shows it

    @property
    def num_partitions(self) -> int:
        """Number of metadata partitions, which decides where the events of a user partition lie."""
        return len(self.end)

    @property
    def offsets(self) -> int:
        """Number of offsets in the range."""
        return sum(self.end.values()) - sum(self.begin.values())

    def lost_beginnings(self) -> tuple[Refusal, ...]:
        """Return one refusal per metadata partition that has lost its first records: what they said is not known."""
        return tuple(
            Refusal(
                what=f"metadata partition {partition}",
                why=f"it begins at offset {begin}: the records before it are gone, and it is not known what they named",
                what_to_do="let the doctor say which topics it concerns; find out who deleted records of the metadata topic",
                kind=RefusalKind.LOST_RECORDS,
                metadata_partition=partition,
            )
            for partition, begin in sorted(self.begin.items())
            if begin > 0
        )


def find_range(spark: SparkSession, cluster: SparkCluster, topic: str) -> TopicRange:
    """
    Ask the brokers for the range of offsets to read.

    Spark does not report what it took for "latest"; a fixed range says how far a plan has read, also where a task is tried
    again. The topic is never created by being looked up.

    :param spark: the session; its classpath holds Spark's Kafka connector and with it Kafka's own client.
    :param cluster: what :func:`~airflow_provider_rlmm.features.retention.spark.cluster.verify_spark_cluster` returned.
    :param topic: the metadata topic.
    :raises MetadataTopicNotFoundError: if the topic does not exist.
    :raises EventLogUnavailableError: if the brokers do not answer in time.
    :raises EventLogAccessError: if authentication fails or an ACL forbids it.
    """
    topic_id, _ = describe_topics(spark, cluster, topic, ())
    era = topic_era(spark, cluster, topic)
    with kafka_errors(cluster.properties, topic), _consumer(spark, cluster.properties) as consumer:
        partitions = _topic_partitions(jvm_of(spark), consumer, topic)
        begin, end = consumer.beginningOffsets(partitions), consumer.endOffsets(partitions)
        numbers = {partition.partition(): partition for partition in partitions}
        return TopicRange(
            topic,
            topic_id,
            {number: begin.get(partition) for number, partition in sorted(numbers.items())},
            {number: end.get(partition) for number, partition in sorted(numbers.items())},
            era,
        )


@dataclass(frozen=True, slots=True)
class MetadataReader:
    """Reads a range of the metadata topic."""

    spark: SparkSession  # the session
    cluster: SparkCluster  # the cluster, verified
    topic_range: TopicRange  # what of the topic there is

    def read(self, begins: Mapping[int, int]) -> DataFrame:
        """
        Return the records of metadata partitions, as :func:`read_metadata` does.

        :param begins: metadata partition → first offset to read, inclusive.
        """
        offsets = sum(self.topic_range.end[number] - begin for number, begin in begins.items())
        logger.info("reading %d offsets of %d metadata partitions", offsets, self.topic_range.num_partitions)
        return read_metadata(self.spark, self.cluster, self.topic_range, begins)

    def without_records(self, begins: Mapping[int, int]) -> frozenset[int]:
        """
        Return which metadata partitions hold no record in what is read of them: a consumer of the driver runs through each of
        them to its end. Brokers count offsets that hold none, such as the markers of transactions.

        :param begins: metadata partition → first offset that is read, inclusive; the range says up to where.
        :raises EventLogUnavailableError: if the brokers do not answer, or the consumer does not get on.
        """
        topic, empty = self.topic_range.topic, set[int]()
        with kafka_errors(self.cluster.properties, topic), _consumer(self.spark, self.cluster.properties) as consumer:
            for number, begin in begins.items():
                partition = jvm_of(self.spark).org.apache.kafka.common.TopicPartition(topic, number)
                if not _holds_a_record(self.spark, consumer, partition, begin, self.topic_range.end[number]):
                    empty.add(number)
        return frozenset(empty)


def _holds_a_record(spark: SparkSession, consumer: Any, partition: Any, begin: int, end: int) -> bool:
    """Tell whether there is a record between two offsets, the second exclusive."""
    jvm = jvm_of(spark)
    consumer.assign(jvm.java.util.Collections.singletonList(partition))
    consumer.seek(partition, begin)
    position, deadline = begin, time.monotonic() + API_TIMEOUT_MS / 1000
    while position < end:
        found = consumer.poll(jvm.java.time.Duration.ofMillis(_POLL_MS))
        for record in found.records(partition):
            # What lies behind the range was written since.
            return int(record.offset()) < end
        if (reached := int(consumer.position(partition))) > position:
            position, deadline = reached, time.monotonic() + API_TIMEOUT_MS / 1000
        elif time.monotonic() > deadline:
            raise EventLogUnavailableError(
                f"metadata partition {partition.partition()}: no broker delivers what lies between the offsets {position} "
                f"and {end}; try again"
            )
    return False


@contextmanager
def _consumer(spark: SparkSession, properties: Mapping[str, str]) -> Iterator[Any]:
    """Return a context manager: a consumer of the driver, which belongs to no group."""
    deserializer = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
    deserializers = {"key.deserializer": deserializer, "value.deserializer": deserializer}
    jvm = jvm_of(spark)
    # A record that is gone is an error; by default a consumer would go on at the end, and have seen nothing.
    own = {**CONSUMER_PROPERTIES, **deserializers, "auto.offset.reset": "none"}
    settings = java_settings(jvm, {**properties, **own})
    consumer = jvm.org.apache.kafka.clients.consumer.KafkaConsumer(settings)
    try:
        yield consumer
    finally:
        consumer.close()


def read_metadata(
    spark: SparkSession, cluster: SparkCluster, topic_range: TopicRange, begins: Mapping[int, int]
) -> DataFrame:
    """
    Return the records of the range: ``metadata_partition`` int, ``offset`` long, ``timestamp`` timestamp, ``key`` and
    ``value`` binary.

    A record that is gone before it is read fails the job (``failOnDataLoss``): a plan of half a history would be wrong.

    :param spark: the session.
    :param cluster: what :func:`~airflow_provider_rlmm.features.retention.spark.cluster.verify_spark_cluster` returned.
    :param topic_range: what :func:`find_range` returned.
    :param begins: metadata partition → first offset to read, inclusive.
    :raises ConfigurationError: if a client property would let several tasks read one metadata partition.
    """
    from pyspark.sql import functions as sf

    records = spark.read.format("kafka").options(**reader_options(cluster.properties, topic_range, begins)).load()
    return records.select(sf.col("partition").alias("metadata_partition"), "offset", "timestamp", "key", "value")


def reader_options(properties: Mapping[str, str], topic_range: TopicRange, begins: Mapping[int, int]) -> dict[str, str]:
    """
    Return the options of Spark's Kafka connector.

    :param properties: Kafka client properties.
    :param topic_range: what there is.
    :param begins: metadata partition → first offset to read, inclusive.
    :raises ConfigurationError: if a client property would let several tasks read one metadata partition.
    """
    if splitting := sorted(name for name in properties if name.lower().removeprefix("kafka.") in _SPLITTING):
        raise ConfigurationError(
            f"the Kafka properties hold {splitting}: a metadata partition must be read by one task, in the order of its "
            "offsets; remove them"
        )
    topic = topic_range.topic
    consumer = {**THROUGHPUT_PROPERTIES, **properties, **CONSUMER_PROPERTIES}
    return {
        **{f"kafka.{name}": value for name, value in consumer.items()},
        # Not "subscribe": a partition that is added meanwhile is outside of the range.
        "assign": json.dumps({topic: sorted(topic_range.end)}),
        "startingOffsets": json.dumps({topic: {str(p): o for p, o in begins.items()}}),
        "endingOffsets": json.dumps({topic: {str(p): o for p, o in topic_range.end.items()}}),
        "failOnDataLoss": "true",
    }


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
