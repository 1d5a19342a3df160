# SPDX-License-Identifier: Apache-2.0
"""The DAG remote_storage_scrub of each connection that ``[rlmm] connections`` names."""

from __future__ import annotations

from airflow_provider_rlmm.dag_factory.scrub import remote_storage_scrub
from airflow_provider_rlmm.settings import connections

dags = [remote_storage_scrub(conn_id) for conn_id in connections()]
