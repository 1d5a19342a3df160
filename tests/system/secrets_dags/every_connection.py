# SPDX-License-Identifier: Apache-2.0
"""Operators of all kinds with every connection of the test; most of them fail, each in its own way."""

from __future__ import annotations

import json
import os

from airflow.sdk import DAG

from airflow_provider_rlmm.notifications.configured import of_tasks, on_failure
from airflow_provider_rlmm.operators.check import CheckRemoteLogCleanupOperator
from airflow_provider_rlmm.operators.metadata import ReadRemoteLogMetadataOperator
from airflow_provider_rlmm.operators.retention import SegmentRetentionOperator
from airflow_provider_rlmm.operators.scrub import RemoteStorageScrubOperator

with DAG("every_connection", schedule=None, on_failure_callback=on_failure(), default_args=of_tasks()):
    for conn_id in json.loads(os.environ["RLMM_TEST_KAFKA"]):
        CheckRemoteLogCleanupOperator(task_id=f"check_{conn_id}", rlmm_conn_id=conn_id)
        SegmentRetentionOperator(
            task_id=f"evaluate_{conn_id}",
            rlmm_conn_id=conn_id,
            jars="{{ var.value.rlmm_spark_jars }}",
            conf={"spark.driver.memory": "600m"},
        )
    for conn_id in json.loads(os.environ["RLMM_TEST_STORES"]):
        CheckRemoteLogCleanupOperator(task_id=f"check_{conn_id}", rlmm_conn_id=conn_id)
        RemoteStorageScrubOperator(task_id=f"scrub_{conn_id}", rlmm_conn_id=conn_id)
    # By the credentials of the environment.
    ReadRemoteLogMetadataOperator(task_id="read", rlmm_conn_id="rlmm_good", output_uri="s3://bucket/read")
