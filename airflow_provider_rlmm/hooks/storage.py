# SPDX-License-Identifier: Apache-2.0
"""The remote storage of a cluster, as an Airflow connection describes it."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from airflow.sdk import BaseHook, Connection

from airflow_provider_rlmm.errors import ConfigurationError
from airflow_provider_rlmm.hooks.bucket_settings import bucket_inspector
from airflow_provider_rlmm.hooks.connection import RlmmConnection, RlmmHook, extra_of, naming_connection

if TYPE_CHECKING:
    from airflow_provider_rlmm.storage.object_store import ObjectStoreRemoteStorageManager
    from airflow_provider_rlmm.storage.root import RootExpectation

_CREDENTIALS = {
    "s3": ("aws_access_key_id", "aws_secret_access_key"),
    "az": ("azure_storage_account_name", "azure_storage_account_key"),
}
"""Scheme of the storage URI → the store's options that the connection's login and password are."""


class RemoteStorageHook(RlmmHook):
    """Opens the remote storage that a connection of type ``rlmm`` (:class:`.RlmmHook`) names."""

    hook_name = "Kafka Remote Log Storage"

    def get_storage_manager(self) -> ObjectStoreRemoteStorageManager:
        """
        Open the storage; apart from looking at a local folder this makes no call.

        :raises ConfigurationError: if the connection, the layout or the store's options are not usable.
        :raises StorageRootError: if a local folder does not exist.
        """
        from airflow_provider_rlmm.storage.layouts import layout_named
        from airflow_provider_rlmm.storage.object_store import ObjectStoreRemoteStorageManager

        settings = self.get_connection_settings()
        uri = settings.required_storage_uri()
        options: dict[str, str] = {}
        inspector = None
        if settings.storage_conn_id is not None:
            connection = named_connection(settings, "storage_conn_id", settings.storage_conn_id)
            options = store_options(uri, connection)
            inspector = bucket_inspector(uri, connection)
        layout = layout_named(settings.layout, settings.layout_options)
        return ObjectStoreRemoteStorageManager(uri, layout, options=options, inspector=inspector)

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


def store_options(uri: str, connection: Connection) -> dict[str, str]:
    """
    Turn a storage connection into the options of a store.

    :param uri: storage root; its scheme says what login and password mean.
    :param connection: login, password, and extra as a JSON object of the store's own option names.
    :return: option → value; extra wins over login and password.
    :raises ConfigurationError: naming the connection and the field, never a value.
    """
    with naming_connection(connection.conn_id):
        scheme = uri.partition("://")[0]
        options: dict[str, str] = {}
        if connection.login or connection.password:
            if scheme not in _CREDENTIALS:
                raise ConfigurationError(
                    f"login and password mean nothing to a {scheme}:// store; put its options into extra"
                )
            login, password = _CREDENTIALS[scheme]
            options = {k: v for k, v in ((login, connection.login), (password, connection.password)) if v}
        for name, value in extra_of(connection).items():
            if not isinstance(value, str | bool | int):
                raise ConfigurationError(f"{name} in extra must be text, a number or a boolean")
            options[name] = str(value).lower() if isinstance(value, bool) else str(value)
        return options
