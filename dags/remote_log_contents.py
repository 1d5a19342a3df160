# SPDX-License-Identifier: Apache-2.0
"""The DAG remote_log_contents of each connection that ``[rlmm] connections`` names."""

from __future__ import annotations

from airflow_provider_rlmm.dag_factory.contents import remote_log_contents
from airflow_provider_rlmm.settings import connections

dags = [remote_log_contents(conn_id) for conn_id in connections()]
