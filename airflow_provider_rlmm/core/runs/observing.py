# SPDX-License-Identifier: Apache-2.0
"""What the Spark job is told of the cluster, made in one way by both that start it: the operator, and the command."""

from __future__ import annotations

import logging
from dataclasses import replace

from airflow_provider_rlmm.core.base.clock import system_clock
from airflow_provider_rlmm.core.runs.access import RemoteLogAccess
from airflow_provider_rlmm.core.runs.floors import explained_gaps
from airflow_provider_rlmm.core.world import cluster_look
from airflow_provider_rlmm.core.world.cluster_state import ClusterState

logger = logging.getLogger(__name__)


def observe(access: RemoteLogAccess, work_uri: str) -> ClusterState:
    """
    List the topics of the cluster, the expected one, with what people have said of its metadata topic.

    :param access: what opens the cluster; errors name where its login comes from.
    :param work_uri: the folder of what runs remember.
    :raises ClusterMismatchError: if the settings do not lead to one cluster, the expected one.
    :raises EventLogAccessError: if the metadata topic may not be described, or the configuration of a topic that may be.
    :raises EventLogUnavailableError: if an answer is partial or late.
    """
    access.check_cluster()
    metadata_topic = access.get_connection_settings().metadata_topic
    with access.naming_connection():
        state = cluster_look.observe_cluster(access.get_cluster_topics(), metadata_topic, system_clock)
    topic_id = next(topic.topic_id for topic in state.topics if topic.name == metadata_topic)
    logger.info("cluster %s: %d topics observed", state.cluster_id, len(state.topics))
    return replace(state, explained_gaps=explained_gaps(work_uri, state.cluster_id, topic_id))
