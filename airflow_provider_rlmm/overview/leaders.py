# SPDX-License-Identifier: Apache-2.0
"""What the leaders of a cluster delete next, as it was told last."""

from __future__ import annotations

from airflow_provider_rlmm.core.base.errors import ConfigurationError, DocumentError
from airflow_provider_rlmm.core.base.work_folder import cluster_folder
from airflow_provider_rlmm.features.doctor.living_leaders import RememberedLeaders, RememberedPartition
from airflow_provider_rlmm.features.retention.leader_document import (
    LEADER_RETENTION_DOCUMENT,
    MAX_BYTES,
    ReportedLeaders,
)
from airflow_provider_rlmm.overview.documents import document_of_cluster


def leaders_of(work_uri: str, folder: str) -> ReportedLeaders | None:
    """
    Return what was told last of a cluster, ``None`` if they were not asked.

    :param work_uri: the work folder.
    :param folder: of the cluster.
    :raises DocumentError: if it cannot be read, or is of another cluster.
    """
    return document_of_cluster(
        work_uri,
        folder,
        LEADER_RETENTION_DOCUMENT,
        ReportedLeaders.from_json,
        max_bytes=MAX_BYTES,
        what_to_do="ask the leaders anew",
    )


def remembered_leaders(work_uri: str, cluster_id: str) -> RememberedLeaders:
    """
    Return what was told last of a cluster, as the doctor has it.

    :param work_uri: the work folder.
    :param cluster_id: the cluster.
    """
    try:
        found = leaders_of(work_uri, cluster_folder(cluster_id))
    except (DocumentError, ConfigurationError, OSError) as e:
        return RememberedLeaders(why_not=str(e))
    if found is None:
        return RememberedLeaders()
    overdue = [
        RememberedPartition(o.topic, o.topic_id, o.partition, o.segments, o.bytes, o.since_ms, o.what_to_do)
        for o in found.listed_overdue
    ]
    hanging = [
        (
            RememberedPartition(h.topic, h.topic_id, h.partition, 0, 0, h.since_ms, h.what_to_do),
            h.in_words(found.asked_at_ms),
        )
        for h in found.listed_hanging
    ]
    leaked = [
        RememberedPartition(one.topic, one.topic_id, one.partition, one.segments, one.bytes)
        for one in found.listed_leaked
    ]
    return RememberedLeaders(
        asked_at_ms=found.asked_at_ms,
        overdue=overdue,
        overdue_partitions=found.overdue_partitions,
        hanging=hanging,
        hanging_partitions=found.hanging_partitions or 0,
        leaked=leaked,
        leaked_partitions=found.leaked_partitions,
        partitions=found.partitions,
        unresolved=found.unresolved,
        not_judged=found.not_judged,
        hidden_topics=found.not_told,
    )
