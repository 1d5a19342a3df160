# SPDX-License-Identifier: Apache-2.0
"""
### Remote log retention

Computes with Spark which remote log segments are orphaned, dangling, or past `retention.ms`, `retention.bytes` or the log
start offset. It changes nothing on the cluster: its result is a plan, from which `remote_log_cleaner` can take its
orphaned work (parameter `source_plan`).

1. **evaluate** lists every topic of the cluster with its limits, then runs the Spark job `segment_retention.py` over the
   metadata topic. What it has read is kept below the work folder (`segments-<cluster id>`), so the next run reads only what
   is new. A topic counts as deleted only if the cluster says so when it is asked for its name after that; the principal needs
   DESCRIBE on every topic.
2. **publish** reports the counts and emits the asset `remote_log_plan`. It fails, with the plan published, if somebody has to
   look: a topic that may not be described, records that cannot be applied, an incomplete history.

The connection `spark_default` decides where the job runs (client mode). Spark's Kafka connector comes from Spark's own folder
of jars if it lies there, else from Maven; where no repository can be reached set the variable `rlmm_spark_jars` to a
comma-separated list of jars. What Spark lacks on the worker, such as Java 17, is said in a line before anything is started.
"""

from __future__ import annotations

from airflow.sdk import DAG, Param

from airflow_provider_rlmm.assets.by_connection import plan_asset
from airflow_provider_rlmm.dag_factory import params
from airflow_provider_rlmm.dag_factory.schedules import schedule
from airflow_provider_rlmm.notifications.configured import of_tasks, on_failure
from airflow_provider_rlmm.operators.failing import refuse_unknown_params
from airflow_provider_rlmm.operators.retention import PublishRetentionPlanOperator, SegmentRetentionOperator
from airflow_provider_rlmm.policy.retention import MIN_AGE_FLOOR_MS
from airflow_provider_rlmm.settings import of_connection


def remote_log_retention(conn_id: str) -> DAG:
    """
    Build the DAG ``remote_log_retention`` of a connection.

    :param conn_id: connection of type ``rlmm``.
    :raises ConfigurationError: naming the setting, if ``[rlmm] retention_schedule`` is none.
    """
    with DAG(
        dag_id=of_connection("remote_log_retention", conn_id),
        schedule=schedule("retention", "none", conn_id),
        catchup=False,
        max_active_runs=1,
        on_failure_callback=on_failure(),
        default_args=of_tasks(),
        doc_md=__doc__,
        tags=["kafka", "tiered-storage", "rlmm", "spark"],
        params={
            **params.of_connection(conn_id),
            "min_age_ms": Param(
                "72 h",
                **params.DURATION | {"minimum": MIN_AGE_FLOOR_MS},
                title="Age of unfinished work",
                description="Age from which unfinished work dangles, such as 72 h, 24 h or more; a number is ms",
            ),
        },
    ) as dag:
        evaluate = SegmentRetentionOperator(
            task_id="evaluate",
            rlmm_conn_id="{{ params.rlmm_conn_id }}",
            min_age_ms="{{ params.min_age_ms }}",
            jars="{{ var.value.get('rlmm_spark_jars', '') }}",
            pre_execute=refuse_unknown_params,
        )
        publish = PublishRetentionPlanOperator(
            task_id="publish", rlmm_conn_id="{{ params.rlmm_conn_id }}", outlets=[plan_asset(conn_id)]
        )
        evaluate >> publish
    return dag
