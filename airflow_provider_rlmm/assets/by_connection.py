# SPDX-License-Identifier: Apache-2.0
"""What the DAGs of a connection emit, under names and URIs that no other connection has."""

from __future__ import annotations

from urllib.parse import quote

from airflow.sdk import Asset

from airflow_provider_rlmm.connection_ids import of_connection

__all__ = ["cleanup_asset", "plan_asset"]


def cleanup_asset(conn_id: str) -> Asset:
    """
    Return the asset that a real cleanup which succeeded emits: ``remote_log_cleanup``, for a ``schedule``.

    :param conn_id: connection of type ``rlmm``.
    """
    return Asset(of_connection("remote_log_cleanup", conn_id), uri_of("cleanup", conn_id))


def plan_asset(conn_id: str) -> Asset:
    """
    Return the asset that a published plan of ``remote_log_retention`` emits: ``remote_log_plan``, for a ``schedule``.

    :param conn_id: connection of type ``rlmm``.
    """
    return Asset(of_connection("remote_log_plan", conn_id), uri_of("plan", conn_id))


def uri_of(what: str, conn_id: str) -> str:
    """
    Return the URI of an asset of a connection; no two share one.

    :param what: the asset emits.
    :param conn_id: connection of type ``rlmm``: a connection is for one cluster.
    """
    return f"rlmm://{quote(conn_id, safe='')}/{what}"
