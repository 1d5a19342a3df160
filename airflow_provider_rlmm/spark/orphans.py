# SPDX-License-Identifier: Apache-2.0
"""The look at the cluster after the metadata topic was read: which of the topic ids that the listing lacks are deleted?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

from airflow_provider_rlmm.errors import ClusterMismatchError
from airflow_provider_rlmm.metadata.records import kafka_uuid_str
from airflow_provider_rlmm.policy.absence import (
    MAX_TOPIC_IDS_ASKED,
    OrphanCandidate,
    OrphanVerdict,
    judge_orphans,
    names_in_doubt,
    not_asked_for,
)
from airflow_provider_rlmm.policy.plan import Count
from airflow_provider_rlmm.spark.cluster import SparkCluster, describe_topics
from airflow_provider_rlmm.spark.source import TopicRange

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def look_for_orphans(
    spark: SparkSession,
    cluster: SparkCluster,
    topic_range: TopicRange,
    segments: DataFrame,
) -> OrphanVerdict:
    """
    Ask the cluster for the names of the topic ids that the metadata topic knows and the listing lacks.

    :param spark: the session.
    :param cluster: what :func:`~airflow_provider_rlmm.spark.cluster.verify_spark_cluster` returned.
    :param topic_range: what was read.
    :param segments: rows of :data:`~airflow_provider_rlmm.spark.segments.SEGMENT_SCHEMA` that are written already: what is
        asked for now must be younger than all of the read.
    :raises ClusterMismatchError: if the metadata topic is no longer the one that was read.
    :raises EventLogAccessError: if not even the metadata topic may be described.
    :raises EventLogUnavailableError: if an answer is missing or late.
    """
    candidates = orphan_candidates(segments)
    asked, beyond = candidates[:MAX_TOPIC_IDS_ASKED], candidates[MAX_TOPIC_IDS_ASKED:]
    topic_id, answers = describe_topics(spark, cluster, topic_range.topic, names_in_doubt(asked))
    if topic_id != topic_range.topic_id:
        raise ClusterMismatchError(
            f"topic {topic_range.topic!r} had id {kafka_uuid_str(topic_range.topic_id)} when it was read and has "
            f"{kafka_uuid_str(topic_id)} now: another cluster has answered, or the topic was replaced; run again"
        )
    verdict = judge_orphans(asked, answers)
    if beyond:
        return OrphanVerdict(verdict.absent, (*verdict.refusals, not_asked_for(len(beyond))))
    return verdict


def orphan_candidates(segments: DataFrame) -> list[OrphanCandidate]:
    """
    Return the topic ids that the listing lacks and that have an older segment which is not finished, in the order of the ids.

    :param segments: rows of :data:`~airflow_provider_rlmm.spark.segments.SEGMENT_SCHEMA`.
    :return: one more than :data:`MAX_TOPIC_IDS_ASKED` at most.
    """
    from pyspark.sql import functions as sf

    # The topic of a later segment may be newer than the listing: that is not in doubt.
    size = sf.when(sf.col("may_be_orphaned"), sf.col("segment_size_in_bytes"))
    found = (
        segments.where("NOT listed")
        .groupBy("topic_id")
        .agg(
            # Names of segments whose state is not certain count: two names are too many wherever they come from.
            sf.min("topic").alias("first_name"),
            sf.max("topic").alias("last_name"),
            sf.count(size).alias("segments"),
            sf.coalesce(sf.sum(size), sf.lit(0)).alias("bytes"),
        )
        .where("segments > 0")
        .orderBy("topic_id")
        .limit(MAX_TOPIC_IDS_ASKED + 1)
    )
    return [_candidate(row.asDict()) for row in found.collect()]


def _candidate(row: Mapping[str, Any]) -> OrphanCandidate:
    names = frozenset((row["first_name"], row["last_name"]))
    return OrphanCandidate(UUID(bytes=bytes(row["topic_id"])), names, Count(row["segments"], row["bytes"]))
