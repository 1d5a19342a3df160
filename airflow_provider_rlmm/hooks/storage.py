# SPDX-License-Identifier: Apache-2.0
"""The remote storage of a cluster, as an Airflow connection describes it."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from airflow.sdk import BaseHook, Connection

from airflow_provider_rlmm.errors import ConfigurationError
from airflow_provider_rlmm.hooks.bucket_settings import bucket_inspector
from airflow_provider_rlmm.hooks.connection import RlmmConnection, RlmmHook, naming_connection
from airflow_provider_rlmm.hooks.stores import store_access
from airflow_provider_rlmm.storage.credentials import StoreAccess

if TYPE_CHECKING:
    from airflow_provider_rlmm.storage.object_store import ObjectStoreRemoteStorageManager
    from airflow_provider_rlmm.storage.root import RootExpectation


class RemoteStorageHook(RlmmHook):
    """Opens the remote storage that a connection of type ``rlmm`` (:class:`.RlmmHook`) names."""

    hook_name = "Kafka Remote Log Storage"

    def get_storage_manager(self) -> ObjectStoreRemoteStorageManager:
        """
        Open the storage; apart from looking at a local folder, and assuming a role that the connection names, this makes no
        call.

        :raises ConfigurationError: if the connection, the layout or the store's options are not usable.
        :raises StorageAccessError: if the role may not be assumed.
        :raises StorageRootError: if a local folder does not exist.
        :raises StorageUnavailableError: if whoever gives the role does not answer.
        """
        from airflow_provider_rlmm.storage.layouts import layout_named
        from airflow_provider_rlmm.storage.object_store import ObjectStoreRemoteStorageManager

        settings = self.get_connection_settings()
        uri = settings.required_storage_uri()
        access, inspector = StoreAccess(), None
        if settings.storage_conn_id is not None:
            connection = named_connection(settings, "storage_conn_id", settings.storage_conn_id)
            access, inspector = store_access(uri, connection), bucket_inspector(uri, connection)
        layout = layout_named(settings.layout, settings.layout_options)
        return ObjectStoreRemoteStorageManager(
            uri, layout, options=access.options, credentials=access.credentials, inspector=inspector
        )

    def root_expectation(
        self, overrides: Collection[str] = (), recorded: Collection[str] = frozenset()
    ) -> RootExpectation:
        """
        Return what is known about the storage root before it is looked at.

        :param overrides: overrides in force.
        :param recorded: root ids that earlier plans and reports of the cluster recorded.
        """
        from airflow_provider_rlmm.storage.root import MOVE_STAMP, RootExpectation

        expected_root = self.get_connection_settings().expected_root
        return RootExpectation(frozenset(recorded), expected_root, MOVE_STAMP in overrides)


def named_connection(settings: RlmmConnection, field: str, conn_id: str) -> Connection:
    """
    Read a connection that another one names.

    :param settings: the connection that names it.
    :param field: in which field.
    :param conn_id: the named connection.
    :raises ConfigurationError: if it does not exist.
    """
    from airflow.sdk.exceptions import AirflowNotFoundException

    with naming_connection(settings.conn_id):
        try:
            return BaseHook.get_connection(conn_id)
        except AirflowNotFoundException as e:
            raise ConfigurationError(f"{field} names {conn_id!r}, which does not exist") from e
