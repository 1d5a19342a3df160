# SPDX-License-Identifier: Apache-2.0
"""The asset ``remote_log_markers``: it changes when another program than this package marks partitions as deleted."""

from __future__ import annotations

from airflow.sdk import Asset, AssetWatcher

from airflow_provider_rlmm.assets.by_connection import uri_of
from airflow_provider_rlmm.connection_ids import of_connection
from airflow_provider_rlmm.triggers.markers import RemoteLogMarkersTrigger

__all__ = ["markers_asset"]


def markers_asset(conn_id: str) -> Asset:
    """
    Return the asset of the markers that others write, with the watcher that follows the metadata topic: for a ``schedule``.

    A triggerer must run. Airflow starts the watcher when a DAG that is scheduled by the asset is not paused.

    :param conn_id: connection of type ``rlmm``.
    """
    name = of_connection("remote_log_markers", conn_id)
    return Asset(
        name, uri_of("markers", conn_id), watchers=[AssetWatcher(name=name, trigger=RemoteLogMarkersTrigger(conn_id))]
    )
