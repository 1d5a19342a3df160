# SPDX-License-Identifier: Apache-2.0
"""
### Remote log doctor

Looks whether all is well, and changes nothing. Its five tasks wait for nothing, and each of them fails by itself:

- **check** looks at everything that the connection names: cluster, topic, rights, layout, storage.
- **doctor** reads the metadata topic and says what is wrong with its records, before a broker or a cleaner stumbles over it.
- **survey** writes down what there is, living and gone, for the pages and the metrics.
- **leaders** asks which segments of living topics their leaders delete next, and fails where a leader is stuck: segments that
  were due hours ago, in an earlier run, are still there, or it has stopped copying.
- **alarm** fails where no run of the cleaner has ended green for `[rlmm] alarm_after_days` (2). Where the connection's
  `scheduled_runs` is `real`, dry runs do not count.

A red run needs a person. A critical finding of the doctor and a stuck leader can be acknowledged (Airflow variable
`rlmm_acknowledgements`).
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param

from airflow_provider_rlmm.core.runs.installation_options import DOCTOR_SCHEDULE
from airflow_provider_rlmm.dag_factory import params
from airflow_provider_rlmm.dag_factory.schedules import schedule
from airflow_provider_rlmm.dag_factory.shipped import shipped_dag
from airflow_provider_rlmm.features.doctor.rules import MAX_COPY, MIN_AGE
from airflow_provider_rlmm.operators.connection_check import RemoteLogCheckOperator
from airflow_provider_rlmm.operators.dead_man import RemoteLogDeadManOperator
from airflow_provider_rlmm.operators.doctor import RemoteLogMetadataDoctorOperator
from airflow_provider_rlmm.operators.failing import refuse_unknown_params
from airflow_provider_rlmm.operators.leader_retention import LeaderRetentionOperator
from airflow_provider_rlmm.operators.survey import SurveyRemoteLogOperator

__all__ = ["remote_log_doctor"]


def remote_log_doctor(conn_id: str) -> DAG:
    """
    Build the DAG ``remote_log_doctor`` of a connection.

    :param conn_id: connection of type ``rlmm``.
    :raises ConfigurationError: naming the setting, if ``[rlmm] doctor_schedule`` is none.
    """
    with shipped_dag(
        "remote_log_doctor",
        conn_id,
        schedule=schedule(DOCTOR_SCHEDULE, conn_id),
        doc_md=__doc__,
        params=_params(conn_id),
    ) as dag:
        # A task that others waited for could fail in a run that ends green.
        RemoteLogCheckOperator(
            task_id="check",
            rlmm_conn_id="{{ params.rlmm_conn_id }}",
            pre_execute=refuse_unknown_params,
            execution_timeout=timedelta(hours=1),
        )
        RemoteLogMetadataDoctorOperator(
            task_id="doctor",
            rlmm_conn_id="{{ params.rlmm_conn_id }}",
            min_age_ms="{{ params.min_age_ms }}",
            max_copy_ms="{{ params.max_copy_ms }}",
            execution_timeout=timedelta(hours=6),
        )
        SurveyRemoteLogOperator(
            task_id="survey",
            rlmm_conn_id="{{ params.rlmm_conn_id }}",
            dry_run_only=True,
            execution_timeout=timedelta(hours=6),
        )
        LeaderRetentionOperator(
            task_id="leaders", rlmm_conn_id="{{ params.rlmm_conn_id }}", execution_timeout=timedelta(hours=6)
        )
        RemoteLogDeadManOperator(
            task_id="alarm", rlmm_conn_id="{{ params.rlmm_conn_id }}", execution_timeout=timedelta(hours=1)
        )
    return dag


def _params(conn_id: str) -> dict[str, Param]:
    return {
        **params.of_connection(conn_id),
        **params.of(MIN_AGE, params.PROTECTIONS),
        **params.of(MAX_COPY, params.PROTECTIONS),
    }
