# SPDX-License-Identifier: Apache-2.0
"""Operators around the Spark job ``segment_retention.py``: what it needs to know of the cluster, and what it found."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_provider_rlmm.clock import system_clock
from airflow_provider_rlmm.hooks.metadata import RemoteLogMetadataHook
from airflow_provider_rlmm.lifecycle.plan_files import file_system, read_summary, write_document
from airflow_provider_rlmm.links.artifacts import PlanLink
from airflow_provider_rlmm.operators.arguments import artifact_name
from airflow_provider_rlmm.settings import artifact_uri

if TYPE_CHECKING:
    from airflow.sdk import Context


class PrepareRetentionPlanOperator(BaseOperator):
    """
    Observe the cluster completely, and lay out what the Spark job reads: cluster state, client properties, Python code.

    The client properties may hold secrets: their file is readable by its owner only and lies on the machine that submits
    the job.

    :param rlmm_conn_id: connection of type ``rlmm``.
    :return: the job's arguments by name, all of them paths, URIs or addresses.
    :raises EventLogAccessError: if a topic may not be described: the listing would not be complete.
    """

    template_fields: Sequence[str] = ("rlmm_conn_id",)
    ui_color = "#cfe3f7"

    def __init__(self, *, rlmm_conn_id: str = "rlmm_default", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.rlmm_conn_id = rlmm_conn_id

    def execute(self, context: Context) -> dict[str, str]:
        """Prepare."""
        from airflow_provider_rlmm.lifecycle.observing import observe_cluster
        from airflow_provider_rlmm.manager.java_client import java_client_properties
        from airflow_provider_rlmm.spark.package import build_py_files

        hook = RemoteLogMetadataHook(self.rlmm_conn_id)
        hook.check_cluster()
        config = hook.get_client_config()
        state = observe_cluster(hook.get_cluster_topics(), system_clock)
        self.log.info("cluster %s: %d topics observed", state.cluster_id, len(state.topics))
        name = artifact_name(context)
        uri = artifact_uri(name)
        # Spark runs spark-submit on this machine: what it only reads here need not be on shared storage.
        local = Path(file_system(uri)[1])
        write_document(str(local), "cluster_state.json", state.to_json())
        properties = local / "client.properties"
        properties.touch(mode=0o600)
        properties.write_text(java_client_properties(config.properties))
        properties.chmod(0o600)
        return {
            "bootstrap_servers": config.bootstrap_servers,
            "topic": hook.get_connection_settings().metadata_topic,
            "cluster_state": str(local / "cluster_state.json"),
            "kafka_properties": str(properties),
            "py_files": str(build_py_files(local)),
            "output": uri,
            "plan_id": name,
        }


class PublishRetentionPlanOperator(BaseOperator):
    """
    Report what the Spark job planned, and emit the counts with the task's outlet assets.

    :return: segments per reason, all segments known, and the plan's directory.
    :raises PlanError: if the job left no plan.
    """

    operator_extra_links = (PlanLink(),)
    ui_color = "#c8e6c9"

    def execute(self, context: Context) -> dict[str, Any]:
        """Publish."""
        name = artifact_name(context)
        uri = artifact_uri(name)
        summary = read_summary(uri)
        PlanLink.persist(context, name)
        counts: dict[str, Any] = {reason.lower(): count.segments for reason, count in summary.by_reason.items()}
        counts |= {"known": summary.known.segments, "unresolved": summary.unresolved, "plan": uri}
        self.log.info("plan %s: %s", name, counts)
        for metadata_partition, records in sorted(summary.quarantined.items()):
            self.log.warning("metadata partition %d: %d records cannot be applied", metadata_partition, records)
        for asset in self.outlets:
            context["outlet_events"][asset].extra = counts
        return counts
