# SPDX-License-Identifier: Apache-2.0
"""All of a topic up to a time, as soon as it is in remote storage, without a broker that serves it."""

from __future__ import annotations

from airflow.sdk import DAG, Param

from airflow_provider_rlmm.operators.remote_log import RemoteLogReadOperator
from airflow_provider_rlmm.sensors.remote_log_copied import RemoteLogCopiedSensor

with DAG(
    "read_a_topic",
    schedule=None,
    params={"up_to": Param("", type="string"), "output": Param("", type="string")},
    render_template_as_native_obj=True,
):
    copied = RemoteLogCopiedSensor(
        task_id="copied",
        topic="payments",
        up_to="{{ params.up_to }}",
        rlmm_conn_id="rlmm_reading",
        poke_interval=5,
        deferrable=True,
    )
    read = RemoteLogReadOperator(
        task_id="read",
        topic="payments",
        end_offsets="{{ ti.xcom_pull(task_ids='copied')['end_offsets'] }}",
        output_uri="{{ params.output }}",
        rlmm_conn_id="rlmm_reading",
    )
    copied >> read
