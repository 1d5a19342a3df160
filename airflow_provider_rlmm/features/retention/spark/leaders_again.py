# SPDX-License-Identifier: Apache-2.0
"""
The second look at the leaders, after the metadata topic was read: what they told before holds where they say the same.

Kafka's own Admin API in the driver's JVM is asked, as for everything that the job asks of the cluster.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_rlmm.core.base.errors import EventLogError
from airflow_provider_rlmm.core.plans.certainty import Certainty
from airflow_provider_rlmm.core.records.era import Era, LogEra
from airflow_provider_rlmm.core.records.topic_answers import NoTopic
from airflow_provider_rlmm.core.world.cluster_state import ClusterState, ListedTopic
from airflow_provider_rlmm.features.retention.spark.cluster import SparkCluster, admin_of, describe_topics
from airflow_provider_rlmm.features.retention.spark.java_client import jvm_of, kafka_errors

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

PartitionKey = tuple[bytes, int]
"""The 16 bytes of a topic id, and the number of a user partition."""

ASKED_AT_ONCE: Final = 5_000
"""User partitions whose offsets one request asks for."""

MADE_ANEW: Final = "when its leader was asked again there was another topic of this name, or none"
LEADS_ANEW: Final = "its leader has changed while the metadata topic was read"
BEGINS_ELSEWHERE: Final = "its log began elsewhere when its leader was asked again"
SET_ANEW: Final = "its settings have changed while the metadata topic was read"
NOT_AGAIN: Final = "its leader has not answered when it was asked again"

COMPACTED: Final = "the metadata topic is compacted: records may be gone from anywhere"

_OFFSETS = re.compile(
    r"([A-Za-z0-9._-]+)-(\d+)=ListOffsetsResultInfo"
    r"\(offset=(-?\d+), timestamp=-?\d+, leaderEpoch=Optional(?:\.empty|\[(\d+)\])\)"
)
_TOLD = frozenset({Certainty.ALL.value, Certainty.AT_LEAST.value})
_SETTINGS = {"retention.ms": "retention_ms", "retention.bytes": "retention_bytes"}
_TIERED = "remote.storage.enable"


def changed_leaders(
    spark: SparkSession, cluster: SparkCluster, metadata_topic: str, state: ClusterState, leaders: pa.Table, era: LogEra
) -> dict[PartitionKey, str]:
    """
    Ask the leaders again of which anything is told; return those that do not say what they said before, with the reason.

    Of a compacted log nothing is believed: what is absent there proves nothing.

    :param spark: the session.
    :param cluster: what :func:`~airflow_provider_rlmm.features.retention.spark.cluster.verify_spark_cluster` returned.
    :param metadata_topic: name of the metadata topic.
    :param state: what they said before it was read.
    :param leaders: what the tasks told, by :data:`~airflow_provider_rlmm.features.retention.spark.columns.LEADER_COLUMNS`.
    :param era: of the log that was read.
    """
    wanted = told_partitions(state, leaders)
    if not wanted:
        return {}
    if era.era is Era.COMPACTED:
        return _all_of(wanted, COMPACTED)
    try:
        return compare(wanted, *_ask(spark, cluster, metadata_topic, wanted))
    except EventLogError as e:
        logger.warning("leaders could not be asked again, nothing is told for certain: %s", e)
        return _all_of(wanted, NOT_AGAIN)


def _all_of(wanted: Iterable[tuple[ListedTopic, Sequence[int]]], why: str) -> dict[PartitionKey, str]:
    return {(topic.topic_id.bytes, number): why for topic, numbers in wanted for number in numbers}


def told_partitions(state: ClusterState, leaders: pa.Table) -> list[tuple[ListedTopic, list[int]]]:
    """
    Return the topics, and their user partitions, of whose leaders something is told.

    :param state: the listing.
    :param leaders: what the tasks told.
    """
    told: dict[bytes, list[int]] = {}
    for row in leaders.select(["topic_id", "partition", "certainty"]).to_pylist():
        if row["certainty"] in _TOLD:
            told.setdefault(row["topic_id"], []).append(row["partition"])
    return [(topic, sorted(told[topic.topic_id.bytes])) for topic in state.topics if topic.topic_id.bytes in told]


def compare(
    wanted: Iterable[tuple[ListedTopic, Sequence[int]]],
    same_topics: Collection[str],
    settings: Mapping[str, Mapping[str, str]],
    offsets: Mapping[tuple[str, int], tuple[int, int | None]],
) -> dict[PartitionKey, str]:
    """
    Return the user partitions whose leaders do not say what they said before, with the reason.

    :param wanted: topics as they were listed, and the user partitions that are asked about.
    :param same_topics: names that still have the id they had.
    :param settings: topic → Kafka's name of a setting → its value, now.
    :param offsets: topic and user partition → log start offset, and the epoch in which its leader leads, now.
    """

    def why(topic: ListedTopic, number: int) -> str | None:
        if topic.name not in same_topics:
            return MADE_ANEW
        now, before = settings.get(topic.name, {}), topic.leaders[number]
        expected = {name: str(getattr(topic, field)) for name, field in _SETTINGS.items()} | {_TIERED: "true"}
        if {name: now.get(name) for name in expected} != expected:
            return SET_ANEW
        if (answer := offsets.get((topic.name, number))) is None:
            return NOT_AGAIN
        log_start_offset, leader_epoch = answer
        if leader_epoch != before.leader_epoch:
            return LEADS_ANEW
        return None if log_start_offset == before.log_start_offset else BEGINS_ELSEWHERE

    found = {(topic.topic_id.bytes, n): why(topic, n) for topic, numbers in wanted for n in numbers}
    return {key: reason for key, reason in found.items() if reason is not None}


def read_offsets(text: str) -> dict[tuple[str, int], tuple[int, int | None]]:
    """
    Read Java's words for a map of ``ListOffsetsResultInfo``: one call of the JVM, where asking each costs half a dozen.

    What is not understood is not there, and then not told.

    :param text: as ``Map.toString`` has it.
    """
    return {
        (name, int(number)): (int(offset), int(epoch) if epoch else None)
        for name, number, offset, epoch in _OFFSETS.findall(text)
    }


def _ask(
    spark: SparkSession,
    cluster: SparkCluster,
    metadata_topic: str,
    wanted: Sequence[tuple[ListedTopic, Sequence[int]]],
) -> tuple[set[str], dict[str, dict[str, str]], dict[tuple[str, int], tuple[int, int | None]]]:
    names = [topic.name for topic, _ in wanted]
    _, answers = describe_topics(spark, cluster, metadata_topic, names)
    same = {topic.name for topic, _ in wanted if answers.get(topic.name, NoTopic.UNKNOWN) == topic.topic_id}
    keys = [(topic.name, number) for topic, numbers in wanted if topic.name in same for number in numbers]
    with kafka_errors(cluster.properties, metadata_topic), admin_of(spark, cluster.properties) as admin:
        jvm = jvm_of(spark)
        settings = {name: _settings(jvm, admin, name) for name in sorted(same)}
        offsets: dict[tuple[str, int], tuple[int, int | None]] = {}
        for start in range(0, len(keys), ASKED_AT_ONCE):
            offsets |= _offsets(jvm, admin, keys[start : start + ASKED_AT_ONCE])
    return same, settings, offsets


def _settings(jvm: Any, admin: Any, name: str) -> dict[str, str]:
    config = jvm.org.apache.kafka.common.config
    resource = config.ConfigResource(config.ConfigResource.Type.TOPIC, name)
    described = admin.describeConfigs(jvm.java.util.Collections.singleton(resource)).all().get().get(resource)
    entries = ((setting, described.get(setting)) for setting in (*_SETTINGS, _TIERED))
    return {setting: str(entry.value()) for setting, entry in entries if entry is not None}


def _offsets(jvm: Any, admin: Any, keys: Iterable[tuple[str, int]]) -> dict[tuple[str, int], tuple[int, int | None]]:
    """Return the log start offset, and the epoch with the end: that is the one in which the leader leads."""
    spec = jvm.org.apache.kafka.clients.admin.OffsetSpec
    starts, ends = jvm.java.util.HashMap(), jvm.java.util.HashMap()
    earliest, latest = spec.earliest(), spec.latest()
    for name, number in keys:
        partition = jvm.org.apache.kafka.common.TopicPartition(name, number)
        starts.put(partition, earliest)
        ends.put(partition, latest)
    begun = read_offsets(str(admin.listOffsets(starts).all().get().toString()))
    ended = read_offsets(str(admin.listOffsets(ends).all().get().toString()))
    return {key: (offset, ended[key][1]) for key, (offset, _) in begun.items() if key in ended}
