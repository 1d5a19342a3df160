# SPDX-License-Identifier: Apache-2.0
"""The look at the cluster after the metadata topic was read: which of the topic ids that the listing lacks are deleted?"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any
from uuid import UUID

from airflow_provider_rlmm.core.base.errors import ClusterMismatchError
from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.world.absence import (
    MAX_TOPIC_IDS_ASKED,
    OrphanCandidate,
    OrphanVerdict,
    judge_orphans,
    names_in_doubt,
    not_asked_for,
)
from airflow_provider_rlmm.features.retention.spark.cluster import SparkCluster, describe_topics
from airflow_provider_rlmm.features.retention.spark.source import TopicRange

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


def look_for_orphans(
    spark: SparkSession,
    cluster: SparkCluster,
    topic_range: TopicRange,
    unlisted: pa.Table,
) -> OrphanVerdict:
    """
    Ask the cluster for the names of the topic ids that the metadata topic knows and the listing lacks.

    :param spark: the session.
    :param cluster: what :func:`~airflow_provider_rlmm.features.retention.spark.cluster.verify_spark_cluster` returned.
    :param topic_range: what was read.
    :param unlisted: what the tasks told when they had read, by
        :data:`~airflow_provider_rlmm.features.retention.spark.columns.UNLISTED_COLUMNS`: what is asked for now must be
        younger than all of the read.
    :raises ClusterMismatchError: if the metadata topic is no longer the one that was read.
    :raises EventLogAccessError: if not even the metadata topic may be described.
    :raises EventLogUnavailableError: if an answer is missing or late.
    """
    candidates = orphan_candidates(unlisted)
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


def orphan_candidates(unlisted: pa.Table) -> list[OrphanCandidate]:
    """
    Return the topic ids that the listing lacks and that have an older segment which is not finished, in the order of the ids.

    The topic of a later segment may be newer than the listing: that is not in doubt.

    :param unlisted: what the tasks told, by :data:`~airflow_provider_rlmm.features.retention.spark.columns.UNLISTED_COLUMNS`.
    """
    found: defaultdict[bytes, list[dict[str, Any]]] = defaultdict(list)
    for row in unlisted.to_pylist():
        found[row["topic_id"]].append(row)
    candidates = (
        OrphanCandidate(
            UUID(bytes=topic_id),
            frozenset(row["topic"] for row in rows),
            Count.sum(Count(row["segments"], row["bytes"] or 0) for row in rows),
        )
        for topic_id, rows in sorted(found.items())
    )
    return [candidate for candidate in candidates if candidate.count.segments]
