# SPDX-License-Identifier: Apache-2.0
"""The remote storage of a cluster, as settings describe it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_rlmm.core.runs.settings import RemoteLogSettings

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.storage.credentials import StoreAccess
    from airflow_provider_rlmm.core.storage.hidden_copies import BucketInspector
    from airflow_provider_rlmm.core.storage.object_store import ObjectStoreRemoteStorageManager
    from airflow_provider_rlmm.core.storage.root import RootExpectation


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageSource:
    """
    Where settings and credentials of a storage come from; nothing is read before it is asked for.

    :param settings: see :meth:`StorageAccess.get_connection_settings`.
    :param open_store: see :meth:`StorageAccess.open_store`.
    """

    settings: Callable[[], RemoteLogSettings]
    open_store: Callable[[str], tuple[StoreAccess, BucketInspector | None]]


class StorageAccess:
    """
    Opens the storage that settings name.

    :param source: where settings and credentials come from.
    """

    def __init__(self, source: StorageSource) -> None:
        self._storage_source = source

    def get_connection_settings(self) -> RemoteLogSettings:
        """
        Return the settings, read once.

        :raises ConfigurationError: naming the field.
        """
        return self._storage_source.settings()

    def open_store(self, uri: str) -> tuple[StoreAccess, BucketInspector | None]:
        """
        Return what opens the store, and what reads the settings of its bucket where anybody can.

        :raises ConfigurationError: naming the field, never a value.
        """
        return self._storage_source.open_store(uri)

    def get_storage_manager(self) -> ObjectStoreRemoteStorageManager:
        """
        Open the storage; apart from looking at a local folder, and assuming a role that a connection names, this makes no
        call.

        :raises ConfigurationError: if the settings, the layout or the store's options are not usable.
        :raises StorageAccessError: if the role may not be assumed.
        :raises StorageRootError: if a local folder does not exist.
        :raises StorageUnavailableError: if the server that gives the role does not answer.
        """
        from airflow_provider_rlmm.core.storage.layouts import layout_named
        from airflow_provider_rlmm.core.storage.object_store import ObjectStoreRemoteStorageManager

        settings = self.get_connection_settings()
        uri = settings.required_storage_uri()
        access, inspector = self.open_store(uri)
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
        from airflow_provider_rlmm.core.storage.root import MOVE_STAMP, RootExpectation

        expected_root = self.get_connection_settings().expected_root
        return RootExpectation(frozenset(recorded), expected_root, MOVE_STAMP in overrides)
