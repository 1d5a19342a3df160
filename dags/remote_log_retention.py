# SPDX-License-Identifier: Apache-2.0
"""
### Remote log retention

Computes with Spark which remote log segments are orphaned, dangling, or past `retention.ms`, `retention.bytes` or the log
start offset. It changes nothing on the cluster: its result is a plan, from which `remote_log_cleaner` can take its
orphaned work (parameter `source_plan`).

1. **prepare** lists every topic of the cluster with its limits.
2. **evaluate** runs the Spark job `segment_retention.py` over the whole metadata topic.
3. **publish** reports the counts and emits the asset `remote_log_plan`.

The connection `spark_default` decides where the job runs. Its Kafka connector comes from Maven by default; set the variable
`rlmm_spark_jars` to a comma-separated list of jars where executors have no access to a repository.
"""

from __future__ import annotations

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, Asset, Param

from airflow_provider_rlmm.operators.retention import PrepareRetentionPlanOperator, PublishRetentionPlanOperator
from airflow_provider_rlmm.resources import spark_job_path
from airflow_provider_rlmm.spark.package import kafka_connector_coordinates

PREPARED = "ti.xcom_pull(task_ids='prepare')"

with DAG(
    dag_id="remote_log_retention",
    schedule=None,
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    tags=["kafka", "tiered-storage", "rlmm", "spark"],
    params={
        "rlmm_conn_id": Param("rlmm_default", type="string", description="Connection of type rlmm"),
        "min_age_ms": Param(
            259_200_000, type="integer", minimum=86_400_000, description="Age from which unfinished work dangles, ms"
        ),
    },
) as dag:
    prepare = PrepareRetentionPlanOperator(task_id="prepare", rlmm_conn_id="{{ params.rlmm_conn_id }}")
    evaluate = SparkSubmitOperator(
        task_id="evaluate",
        conn_id="spark_default",
        application=spark_job_path("segment_retention.py"),
        name="rlmm-segment-retention",
        jars="{{ var.value.get('rlmm_spark_jars', '') }}",
        packages="{{ '' if var.value.get('rlmm_spark_jars', '') else '" + kafka_connector_coordinates() + "' }}",
        py_files=f"{{{{ {PREPARED}['py_files'] }}}}",
        application_args=[
            "--bootstrap-servers",
            f"{{{{ {PREPARED}['bootstrap_servers'] }}}}",
            "--topic",
            f"{{{{ {PREPARED}['topic'] }}}}",
            "--kafka-properties",
            f"{{{{ {PREPARED}['kafka_properties'] }}}}",
            "--cluster-state",
            f"{{{{ {PREPARED}['cluster_state'] }}}}",
            "--output",
            f"{{{{ {PREPARED}['output'] }}}}",
            "--plan-id",
            f"{{{{ {PREPARED}['plan_id'] }}}}",
            "--min-age-ms",
            "{{ params.min_age_ms }}",
        ],
    )
    publish = PublishRetentionPlanOperator(task_id="publish", outlets=[Asset("remote_log_plan")])
    prepare >> evaluate >> publish
