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
   With `what_if` it also says what leaders would delete under other retention settings: `what-if.json` in the folder of the
   run, and in short the XCom `what_if`.
2. **publish** reports the counts and emits the asset `remote_log_plan`. It fails, with the plan published, if a person has to
   look: a topic that may not be described, records that cannot be applied, an incomplete history. The pages show
   from then on how old the remote segments are.

The connection `spark_default` decides where the job runs: with `deploy-mode` client in the task, with `cluster` on a
worker of a standalone Spark cluster, for which the task waits in no worker slot. Spark's Kafka connector comes from
Spark's own folder of jars if it lies there, else from Maven; where no repository can be reached set the variable
`rlmm_spark_jars` to a comma-separated list of jars. What Spark lacks on the worker, such as Java 17, is said in a line
before anything is started.

Executors of a cluster get their Python from `image` or `archives`. What holds for every run, of the schedule too, belongs
into `spark-defaults.conf` on the worker; a parameter wins over it.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, Param

from airflow_provider_rlmm.assets.by_connection import plan_asset
from airflow_provider_rlmm.core.runs.installation_options import RETENTION_SCHEDULE
from airflow_provider_rlmm.dag_factory import params
from airflow_provider_rlmm.dag_factory.schedules import schedule
from airflow_provider_rlmm.dag_factory.shipped import shipped_dag
from airflow_provider_rlmm.features.retention.rules import MIN_AGE
from airflow_provider_rlmm.features.retention.spark.what_if import WHAT_IF
from airflow_provider_rlmm.operators.failing import refuse_unknown_params
from airflow_provider_rlmm.operators.retention import PublishRetentionPlanOperator, SegmentRetentionOperator

__all__ = ["remote_log_retention"]


def remote_log_retention(conn_id: str) -> DAG:
    """
    Build the DAG ``remote_log_retention`` of a connection.

    :param conn_id: connection of type ``rlmm``.
    :raises ConfigurationError: naming the setting, if ``[rlmm] retention_schedule`` is none.
    """
    with shipped_dag(
        "remote_log_retention",
        conn_id,
        schedule=schedule(RETENTION_SCHEDULE, conn_id),
        doc_md=__doc__,
        tags=("spark",),
        params={
            **params.of_connection(conn_id),
            **params.of(MIN_AGE, None),
            **params.of(WHAT_IF, None),
            **_of_spark(),
        },
    ) as dag:
        evaluate = SegmentRetentionOperator(
            task_id="evaluate",
            rlmm_conn_id="{{ params.rlmm_conn_id }}",
            min_age_ms="{{ params.min_age_ms }}",
            jars="{{ var.value.get('rlmm_spark_jars', '') }}",
            packages="{{ params.packages }}",
            kafka_properties_file="{{ params.kafka_properties_file }}",
            store_options_file="{{ params.store_options_file }}",
            spark_files_folder="{{ params.spark_files_folder }}",
            conf={
                "spark.driver.memory": "{{ params.driver_memory }}",
                "spark.executor.memory": "{{ params.executor_memory }}",
                "spark.executor.cores": "{{ params.executor_cores }}",
                "spark.cores.max": "{{ params.max_cores }}",
                "spark.kubernetes.container.image": "{{ params.image }}",
            },
            more_conf="{{ params.conf | tojson }}",
            archives="{{ params.archives }}",
            yarn_queue="{{ params.queue }}",
            what_if="{{ params.what_if | tojson }}",
            pre_execute=refuse_unknown_params,
        )
        publish = PublishRetentionPlanOperator(
            task_id="publish", rlmm_conn_id="{{ params.rlmm_conn_id }}", outlets=[plan_asset(conn_id)]
        )
        evaluate >> publish
    return dag


def _of_spark() -> dict[str, Param]:
    """Return what the Spark job may take; a cluster of several users has other work, so the defaults are small."""
    memory: dict[str, Any] = {"type": "string", "pattern": r"^[1-9][0-9]{0,5}[mg]$", "section": params.SPARK}
    number: dict[str, Any] = {"type": "integer", "minimum": 1, "maximum": 10_000, "section": params.SPARK}
    return {
        "driver_memory": Param("1g", **memory, title="Memory of the driver", description="Such as 512m or 2g"),
        "executor_memory": Param(
            "1g", **memory, title="Memory of an executor", description="Such as 512m or 2g; a local master has none"
        ),
        "executor_cores": Param(
            1, **number, title="Cores of an executor", description="Metadata partitions that it reads at once"
        ),
        "max_cores": Param(
            4,
            **number,
            title="Cores of all executors",
            description="The most that a standalone cluster gives to the job",
        ),
        "packages": Param(
            "",
            type="string",
            title="Packages",
            section=params.SPARK,
            description="Maven coordinates that Spark fetches, separated by commas; empty: Spark's Kafka connector where "
            "nothing else gives it",
        ),
        **_of_a_driver_elsewhere(),
        **_of_its_executors(),
    }


def _of_a_driver_elsewhere() -> dict[str, Param]:
    """Return what lies on the machines of a cluster that runs the driver."""
    return {
        "kafka_properties_file": Param(
            "",
            type="string",
            title="File of Kafka client properties",
            section=params.SPARK,
            description="Cluster mode: Java properties file on the machines of the Spark cluster; needed where the Kafka "
            "connection holds secrets",
        ),
        "store_options_file": Param(
            "",
            type="string",
            title="File of store options",
            section=params.SPARK,
            description="Cluster mode: JSON file on the machines of the Spark cluster with what opens the store of the work "
            "folder; empty: their environment or their role does",
        ),
        "spark_files_folder": Param(
            "",
            type="string",
            title="Folder of the job's code",
            section=params.SPARK,
            description="Cluster mode: folder on the machines of the Spark cluster that rlmm spark-files has written; needed "
            "where the work folder is in an object store",
        ),
    }


def _of_its_executors() -> dict[str, Param]:
    """Return what gives the executors of a cluster their Python, and all else that a cluster wants to be told."""
    return {
        "conf": Param(
            {},
            type="object",
            additionalProperties={"type": ["string", "number", "boolean"]},
            propertyNames={"pattern": r"^spark\."},
            title="Spark's properties",
            section=params.SPARK,
            description="Property → value, such as spark.pyspark.python; they win over memory, cores and image. They are "
            "shown and kept, so no secret belongs here",
        ),
        "archives": Param(
            "",
            type="string",
            title="Archives",
            section=params.SPARK,
            description="Archives that Spark unpacks beside each executor, separated by commas: a Python in "
            "environment.tar.gz#environment is that of spark.pyspark.python=./environment/bin/python",
        ),
        "queue": Param(
            "",
            type="string",
            title="Queue of YARN",
            section=params.SPARK,
            description="Empty: that of the Spark connection",
        ),
        "image": Param(
            "",
            type="string",
            title="Image of the executors",
            section=params.SPARK,
            description="Kubernetes: image with Spark, and with pyspark, pyarrow and numpy in its Python",
        ),
    }
