# SPDX-License-Identifier: Apache-2.0
"""Two sensors for one topic id: one waits in the triggerer, one in its worker slot."""

from __future__ import annotations

from airflow.sdk import DAG, Param

from airflow_provider_rlmm.sensors.remote_log_gone import RemoteLogGoneSensor

with DAG(
    "wait_until_gone",
    schedule=None,
    params={"topic": Param("", type="string"), "topic_id": Param("", type="string")},
):
    for task_id, deferrable in (("deferred", True), ("poking", False)):
        RemoteLogGoneSensor(
            task_id=task_id,
            topic="{{ params.topic }}",
            topic_id="{{ params.topic_id }}",
            rlmm_conn_id="rlmm_up",
            poke_interval=5,
            deferrable=deferrable,
        )
