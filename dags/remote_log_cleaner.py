# SPDX-License-Identifier: Apache-2.0
"""The DAG remote_log_cleaner of each connection that ``[rlmm] connections`` names."""

from __future__ import annotations

from airflow_provider_rlmm.dag_factory.cleaner import remote_log_cleaner
from airflow_provider_rlmm.settings import connections

dags = [remote_log_cleaner(conn_id) for conn_id in connections()]
