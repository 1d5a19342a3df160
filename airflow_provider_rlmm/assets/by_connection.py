# SPDX-License-Identifier: Apache-2.0
"""What the DAGs of a connection emit, under names that no other connection has."""

from __future__ import annotations

from airflow.sdk import Asset

from airflow_provider_rlmm.connection_ids import of_connection


def cleanup_asset(conn_id: str) -> Asset:
    """
    Return the asset that a real cleanup which succeeded emits.

    :param conn_id: connection of type ``rlmm``.
    """
    return Asset(of_connection("remote_log_cleanup", conn_id))


def plan_asset(conn_id: str) -> Asset:
    """
    Return the asset that a published plan of ``remote_log_retention`` emits.

    :param conn_id: connection of type ``rlmm``.
    """
    return Asset(of_connection("remote_log_plan", conn_id))
