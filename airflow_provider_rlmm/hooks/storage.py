# SPDX-License-Identifier: Apache-2.0
"""The remote storage of a cluster, as an Airflow connection describes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.providers.common.compat.sdk import AirflowNotFoundException
from airflow.sdk import BaseHook, Connection

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.runs.storage_access import StorageAccess
from airflow_provider_rlmm.core.storage.credentials import StoreAccess
from airflow_provider_rlmm.hooks.bucket_settings import bucket_inspector
from airflow_provider_rlmm.hooks.connection import RlmmConnection, RlmmHook, naming_connection
from airflow_provider_rlmm.hooks.stores.access import store_access

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.storage.hidden_copies import BucketInspector

__all__ = ["RemoteStorageHook"]


class RemoteStorageHook(RlmmHook, StorageAccess):
    """Opens the remote storage that a connection of type ``rlmm`` (:class:`.RlmmHook`) names."""

    hook_name = "Kafka Remote Log Storage"

    def open_store(self, uri: str) -> tuple[StoreAccess, BucketInspector | None]:
        """
        Return what opens the store, by the connection that ``storage_conn_id`` names.

        :param uri: the storage root.
        :raises ConfigurationError: naming the connection and the field, never a value.
        """
        settings = self.get_connection_settings()
        if settings.storage_conn_id is None:
            return StoreAccess(), None
        connection = named_connection(settings, "storage_conn_id", settings.storage_conn_id)
        return store_access(uri, connection), bucket_inspector(uri, connection)


def named_connection(settings: RlmmConnection, field: str, conn_id: str) -> Connection:
    """
    Read a connection that another one names.

    :param settings: the connection that names it.
    :param field: in which field.
    :param conn_id: the named connection.
    :raises ConfigurationError: if it does not exist.
    """
    with naming_connection(settings.conn_id):
        try:
            return BaseHook.get_connection(conn_id)
        except AirflowNotFoundException as e:
            raise _missing(field, conn_id) from e


async def aread_named_connection(settings: RlmmConnection, field: str, conn_id: str) -> Connection:
    """
    Read a connection that another one names, without holding up an event loop; see :func:`named_connection`.

    :param settings: the connection that names it.
    :param field: in which field.
    :param conn_id: the named connection.
    :raises ConfigurationError: if it does not exist.
    """
    with naming_connection(settings.conn_id):
        try:
            return await BaseHook.aget_connection(conn_id)
        except AirflowNotFoundException as e:
            raise _missing(field, conn_id) from e


def _missing(field: str, conn_id: str) -> ConfigurationError:
    return ConfigurationError(f"{field} names {conn_id!r}, which does not exist")
