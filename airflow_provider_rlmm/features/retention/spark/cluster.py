# SPDX-License-Identifier: Apache-2.0
"""
Which cluster answers the job, and what it says about topics: Kafka's own Admin API in the driver's JVM.

Nothing here can create a topic: Kafka's Admin client describes without the leave to create
(``MetadataRequest.allow_auto_topic_creation`` is false, ``DescribeTopicPartitions`` has no such leave).
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.errors import (
    ClusterMismatchError,
    EventLogAccessError,
    MetadataTopicNotFoundError,
    RlmmError,
    TopicIdMissingError,
)
from airflow_provider_rlmm.core.records.era import LogEra, era_of_policy, not_known, policy_of
from airflow_provider_rlmm.core.records.records import parse_kafka_uuid
from airflow_provider_rlmm.core.records.topic_answers import NoTopic, TopicAnswer
from airflow_provider_rlmm.features.retention.spark.java_client import (
    BOOTSTRAP_SERVERS,
    causes,
    java_settings,
    jvm_of,
    kafka_errors,
    require_connector,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

CHUNK = 500
"""Topics in one describe, beside the metadata topic."""

DESCRIBE_ALL = "DESCRIBE on every topic"

_NO_ID = UUID(int=0)
_ANSWERS = {
    "UnknownTopicOrPartitionException": NoTopic.UNKNOWN,
    "TopicAuthorizationException": NoTopic.DENIED,
}


@dataclass(frozen=True, slots=True)
class SparkCluster:
    """The cluster that a job asks and reads."""

    cluster_id: str  # its id
    # Kafka client properties whose ``bootstrap.servers`` are the addresses that the cluster itself gives to its
    # clients: none of them begins at an address that was not asked for its cluster.
    properties: Mapping[str, str]


def verify_spark_cluster(
    spark: SparkSession, properties: Mapping[str, str], topic: str, expected: str | None
) -> SparkCluster:
    """
    Ask each bootstrap address alone for its cluster: a list may name two, and each client chooses for itself among it.

    An address that does not answer is left out: no client begins there.

    :param spark: the session; its classpath holds Spark's Kafka connector.
    :param properties: Kafka client properties, with ``bootstrap.servers``.
    :param topic: the metadata topic, for messages.
    :param expected: id of the cluster that was listed, ``None`` where any will do, if it is one.
    :raises ClusterMismatchError: if an address belongs to another cluster than the one that is expected, or than others do.
    :raises EventLogUnavailableError: if no address answers in time.
    :raises EventLogAccessError: if an address refuses the login.
    :raises ConfigurationError: if the connector is not on the classpath or a client property is not valid.
    """
    require_connector(spark)
    addresses = [a.strip() for a in properties[BOOTSTRAP_SERVERS].split(",") if a.strip()]
    found: dict[str, tuple[str, list[str]]] = {}
    failures: list[RlmmError] = []
    with ExitStack() as admins:
        asked = {}
        for address in addresses:
            alone = {**properties, BOOTSTRAP_SERVERS: address}
            with _noting(failures, alone, topic):
                asked[address] = admins.enter_context(admin_of(spark, alone)).describeCluster()
        for address, answer in asked.items():
            with _noting(failures, {**properties, BOOTSTRAP_SERVERS: address}, topic):
                nodes = jvm_of(spark).java.util.ArrayList(answer.nodes().get())
                found[address] = str(answer.clusterId().get()), [_address(node) for node in nodes]
    for failure in failures:
        # A broker that refuses a login is there and cannot be asked.
        if not found or isinstance(failure, EventLogAccessError):
            raise failure
        logger.warning("a bootstrap server is left out: %s", failure)
    cluster_id = one_cluster({address: cluster_id for address, (cluster_id, _) in found.items()}, expected)
    advertised = sorted({server for _, servers in found.values() for server in servers})
    return SparkCluster(cluster_id, {**properties, BOOTSTRAP_SERVERS: ",".join(advertised)})


def one_cluster(found: Mapping[str, str], expected: str | None) -> str:
    """
    Return the id of the one cluster that addresses belong to.

    :param found: address → id of its cluster; one or more.
    :param expected: id of the cluster that was listed, ``None`` where any will do.
    :raises ClusterMismatchError: if there is another.
    """
    if expected is None:
        if len({*found.values()}) > 1:
            raise ClusterMismatchError(
                f"the bootstrap servers belong to different clusters: {dict(found)}; name the brokers of one cluster only"
            )
        return next(iter(found.values()))
    if others := {address: cluster_id for address, cluster_id in found.items() if cluster_id != expected}:
        raise ClusterMismatchError(
            f"cluster {expected!r} is expected, but {others} answer for another cluster; name the brokers of one cluster "
            "only in the Kafka connection, then run again"
        )
    return expected


def describe_topics(
    spark: SparkSession, cluster: SparkCluster, metadata_topic: str, names: Collection[str]
) -> tuple[UUID, dict[str, TopicAnswer]]:
    """
    Ask for topics by name, and for the metadata topic in each of the same requests: its id says who has answered.

    :param spark: the session.
    :param cluster: what :func:`verify_spark_cluster` returned.
    :param metadata_topic: name of the metadata topic.
    :param names: names that Kafka allows.
    :return: the metadata topic's id, and per name the topic's id or why there is none.
    :raises ClusterMismatchError: if two requests found different metadata topics.
    :raises MetadataTopicNotFoundError: if there is no metadata topic.
    :raises TopicIdMissingError: if the cluster gives a topic no id.
    :raises EventLogAccessError: if the metadata topic may not be described.
    :raises EventLogUnavailableError: if an answer is missing or late.
    """
    ordered = sorted({*names} - {metadata_topic})
    answers: dict[str, TopicAnswer] = {}
    witnesses: set[UUID] = set()
    with kafka_errors(cluster.properties, metadata_topic), admin_of(spark, cluster.properties) as admin:
        for start in range(0, len(ordered) or 1, CHUNK):
            asked = [metadata_topic, *ordered[start : start + CHUNK]]
            described = _describe(jvm_of(spark), admin, asked)
            witnesses.add(_metadata_topic_id(metadata_topic, described.pop(metadata_topic), cluster))
            answers.update(described)
    if len(witnesses) > 1:
        raise ClusterMismatchError(
            f"topic {metadata_topic!r} has {number_of(len(witnesses), 'id')} in the answers to one look: these "
            "brokers are of different "
            "clusters, or the topic was replaced; name the brokers of one cluster only, then run again"
        )
    return witnesses.pop(), answers


def topic_era(spark: SparkSession, cluster: SparkCluster, metadata_topic: str) -> LogEra:
    """
    Return the era that the configuration of the metadata topic shows; where it may not be described that is not known.

    :param spark: the session.
    :param cluster: what :func:`verify_spark_cluster` returned.
    :param metadata_topic: name of the metadata topic.
    :raises EventLogUnavailableError: if the brokers do not answer in time.
    """
    jvm = jvm_of(spark)
    config = jvm.org.apache.kafka.common.config
    resource = config.ConfigResource(config.ConfigResource.Type.TOPIC, metadata_topic)
    try:
        with kafka_errors(cluster.properties, metadata_topic), admin_of(spark, cluster.properties) as admin:
            asked = jvm.java.util.Collections.singleton(resource)
            entry = admin.describeConfigs(asked).all().get().get(resource).get("cleanup.policy")
    except EventLogAccessError as e:
        logger.warning("whether the metadata topic may be compacted is not known: %s", e)
        return not_known(e)
    return era_of_policy(policy_of(str(entry.value())))


def _metadata_topic_id(topic: str, answer: TopicAnswer, cluster: SparkCluster) -> UUID:
    if answer is NoTopic.DENIED:
        raise EventLogAccessError(
            f"no access to topic {topic!r} of cluster {cluster.cluster_id!r}: the principal needs {DESCRIBE_ALL}"
        )
    if answer is NoTopic.UNKNOWN:
        raise MetadataTopicNotFoundError(
            f"topic {topic!r} does not exist on cluster {cluster.cluster_id!r}; it is never created here"
        )
    return answer


def _describe(jvm: Any, admin: Any, names: Collection[str]) -> dict[str, TopicAnswer]:
    asked = jvm.java.util.ArrayList()
    for name in names:
        asked.add(name)
    futures = admin.describeTopics(jvm.org.apache.kafka.common.TopicCollection.ofTopicNames(asked)).topicNameValues()
    return {name: _answer(name, futures.get(name)) for name in names}


def _answer(name: str, future: Any) -> TopicAnswer:
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # py4j has no type information

    try:
        topic_id = parse_kafka_uuid(future.get().topicId().toString())
    except Py4JJavaError as e:
        for kind, _ in causes(e.java_exception):
            if kind in _ANSWERS:
                return _ANSWERS[kind]
        raise
    if topic_id == _NO_ID:
        raise TopicIdMissingError(
            f"the cluster gives topic {name!r} no id; everything here goes by ids, and where there is tiered storage there "
            "are ids"
        )
    return topic_id


def _address(node: Any) -> str:
    host = str(node.host())
    return f"[{host}]:{node.port()}" if ":" in host else f"{host}:{node.port()}"


@contextmanager
def _noting(failures: list[RlmmError], properties: Mapping[str, str], topic: str) -> Iterator[None]:
    """Keep the failure of one address from ending the questions to the others."""
    try:
        with kafka_errors(properties, topic):
            yield
    except RlmmError as e:
        failures.append(e)


@contextmanager
def admin_of(spark: SparkSession, properties: Mapping[str, str]) -> Iterator[Any]:
    """Return Kafka's Admin client in the driver's JVM; it is closed when the block ends."""
    jvm = jvm_of(spark)
    admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(java_settings(jvm, properties))
    try:
        yield admin
    finally:
        # A call that still waits for an answer is not waited for.
        admin.close(jvm.java.time.Duration.ZERO)
