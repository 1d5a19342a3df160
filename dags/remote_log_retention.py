# SPDX-License-Identifier: Apache-2.0
"""The DAG remote_log_retention of each connection that ``[rlmm] connections`` names."""

from __future__ import annotations

from airflow_provider_rlmm.dag_factory.retention import remote_log_retention
from airflow_provider_rlmm.settings import connections

dags = [remote_log_retention(conn_id) for conn_id in connections()]
