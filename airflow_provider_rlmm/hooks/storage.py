# SPDX-License-Identifier: Apache-2.0
"""The remote storage of a cluster, as an Airflow connection describes it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from airflow.providers.common.compat.sdk import AirflowNotFoundException
from airflow.sdk import BaseHook, Connection

from airflow_provider_rlmm.connection_ids import DEFAULT_CONN_ID
from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.runs.storage_access import StorageAccess, StorageSource
from airflow_provider_rlmm.core.storage.credentials import StoreAccess
from airflow_provider_rlmm.core.storage.logins.login import with_login
from airflow_provider_rlmm.hooks.bucket_settings import bucket_inspector
from airflow_provider_rlmm.hooks.connection import RlmmConnection, RlmmHook, naming_connection
from airflow_provider_rlmm.hooks.stores.access import store_access

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.storage.hidden_copies import BucketInspector

__all__ = ["RemoteStorageHook"]


class RemoteStorageHook(StorageAccess, RlmmHook):
    """
    Opens the remote storage that a connection of type ``rlmm`` (:class:`.RlmmHook`) names.

    The credentials are those of the connection that ``storage_conn_id`` names.

    :param rlmm_conn_id: id of the connection.
    """

    hook_name = "Kafka Remote Log Storage"
    # They say more than those of any access: which Airflow connections lead there.
    get_connection_settings = RlmmHook.get_connection_settings

    def __init__(self, rlmm_conn_id: str = DEFAULT_CONN_ID) -> None:
        RlmmHook.__init__(self, rlmm_conn_id)
        settings = self.get_connection_settings
        StorageAccess.__init__(self, StorageSource(settings=settings, open_store=partial(_open_store, settings)))


def _open_store(read: Callable[[], RlmmConnection], uri: str) -> tuple[StoreAccess, BucketInspector | None]:
    """Return what opens the store, by the connection that ``storage_conn_id`` names."""
    settings = read()
    if settings.storage_conn_id is None:
        return with_login(uri, {}), None
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
