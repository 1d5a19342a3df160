# SPDX-License-Identifier: Apache-2.0
"""Access to a cluster of the tests, without brokers, login and Airflow."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any

from airflow_provider_rlmm.core.base.clock import ProvenClock, TimeProof, system_clock
from airflow_provider_rlmm.core.runs.access import RemoteLogAccess, RemoteLogSource
from airflow_provider_rlmm.core.runs.settings import RemoteLogSettings
from airflow_provider_rlmm.core.runs.storage_access import StorageAccess, StorageSource
from airflow_provider_rlmm.core.world.kill_switch import StopSource, never_stopped
from tests.builders import CLUSTER_ID, Cluster


def refuse(*_: Any) -> Any:
    """Fail a test that asks for a client or a store that nobody opens there."""
    raise AssertionError("nothing asks for clients or opens a store here")


def source_of(
    read: Callable[[], RemoteLogSettings],
    storage: Callable[[], Any],
    *,
    open_store: Callable[[str], Any] = refuse,
    read_stop: StopSource = never_stopped,
) -> RemoteLogSource:
    """
    Return the source of an access that nobody has a login for.

    :param read: returns the settings, as a connection would say them.
    :param storage: returns the storage that is open.
    :param open_store: returns what opens a store, for those who open it themselves.
    :param read_stop: reads the kill switch.
    """
    return RemoteLogSource(
        settings=read,
        read_settings=read,
        read_client_config=refuse,
        login_owner=lambda: "nobody",
        stop_switch="the switch of the test",
        read_stop=read_stop,
        storage=lambda: OpenStorage(StorageSource(settings=read, open_store=open_store), storage),
    )


class OpenStorage(StorageAccess):
    """
    Hands out a storage that is open.

    :param source: of the settings.
    :param storage: returns the storage.
    """

    def __init__(self, source: StorageSource, storage: Callable[[], Any]) -> None:
        super().__init__(source)
        self._storage = storage

    def get_storage_manager(self) -> Any:
        return self._storage()


class ClusterAccess(RemoteLogAccess):
    """
    Opens a cluster of the tests: its log, its topics and its offset store.

    :param cluster: the cluster, or a simulated one.
    :param cluster_id: its id.
    :param source: of the settings and the storage.
    :param clock: returns the proven clock.
    """

    def __init__(
        self, cluster: Any, cluster_id: str, source: RemoteLogSource, clock: Callable[[], ProvenClock]
    ) -> None:
        super().__init__(source)
        self._opened, self._cluster_id, self._clock = cluster, cluster_id, clock

    def get_cluster(self, request_timeout_s: float = 15.0) -> Any:
        return SimpleNamespace(cluster_id=self._cluster_id)

    def get_event_log(self) -> AbstractContextManager[Any]:
        return nullcontext(self._opened.log)

    def get_cluster_topics(self) -> Any:
        topics = self._opened.topics
        topics.describe_metadata_topic = lambda name: SimpleNamespace(authorized_operations=None)
        return topics

    def get_offset_store(self) -> Any:
        return self._opened.offsets

    def get_proven_clock(self, log: Any, **_: Any) -> ProvenClock:
        return self._clock()

    def check_layout(self) -> str:
        return "brokers are not asked"


def access_of(cluster: Cluster, settings: RemoteLogSettings) -> ClusterAccess:
    """
    Return what opens a cluster of the tests for the steps of a feature.

    :param cluster: the cluster; its clock is proven.
    :param settings: as a connection would say them.
    """

    def clock() -> ProvenClock:
        return ProvenClock(lambda: TimeProof(cluster.now_ms, system_clock(), "a test", proven=True))

    return ClusterAccess(cluster, CLUSTER_ID, source_of(lambda: settings, lambda: cluster.storage), clock)
