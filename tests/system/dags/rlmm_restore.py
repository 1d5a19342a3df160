# SPDX-License-Identifier: Apache-2.0
"""A DAG of somebody who archives topics by their id, and restores them."""

from __future__ import annotations

from airflow.sdk import DAG, Param

from airflow_provider_rlmm.operators.archive import ArchiveRemoteLogOperator, RestoreRemoteLogOperator

PARAMS = {"topic_id": Param(None, type=["null", "string"]), "rlmm_conn_id": Param("rlmm_default", type="string")}
COMMON = {"topic_id": "{{ params.topic_id }}", "rlmm_conn_id": "{{ params.rlmm_conn_id }}"}

with DAG("archive_topic", schedule=None, catchup=False, params=PARAMS):
    ArchiveRemoteLogOperator(task_id="archive", **COMMON)

with DAG("restore_topic", schedule=None, catchup=False, params={**PARAMS, "topic": Param("restored", type="string")}):
    RestoreRemoteLogOperator(task_id="restore", topic="{{ params.topic }}", dry_run_only=False, **COMMON)
