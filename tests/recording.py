# SPDX-License-Identifier: Apache-2.0
"""Everything that a run changes, as seen from outside of the package: records, objects, stamps, committed offsets, files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from airflow_provider_rlmm.core.base.clock import ProvenClock, TimeProof, system_clock
from airflow_provider_rlmm.core.runs.access import RemoteLogAccess, RemoteLogSource
from airflow_provider_rlmm.core.runs.settings import RemoteLogSettings
from airflow_provider_rlmm.core.runs.storage_access import StorageAccess, StorageSource
from tests.builders import CLUSTER_ID, Cluster

SEEN = {"list", "get", "head", "read", "committed", "high_water_marks", "beginning_offsets"}
"""Effects that change nothing; one that is not among them, and unknown here, counts as a change."""


class Recorder:
    """
    :param work: the work folder.
    :param fakes: logs, stores and offset stores whose hooks tell of their effects; hooks that a test has set go on.
    """

    def __init__(self, work: Path, *fakes: Any) -> None:
        self._work, self._before = work, _files(work)
        self._effects: list[str] = []
        for fake in fakes:
            fake.on_effect = self._noting(type(fake).__name__, fake.on_effect)

    def _noting(self, who: str, before: Callable[[str, Any], Any] | None) -> Callable[[str, Any], Any]:
        def note(effect: str, detail: Any) -> Any:
            if effect not in SEEN:
                self._effects.append(f"{who}: {effect} {detail if isinstance(detail, str) else ''}".strip())
            return before(effect, detail) if before is not None else None

        return note

    def effects(self) -> list[str]:
        """Return what was changed in the log, in storage and in the consumer group, in order."""
        return self._effects

    def files(self) -> set[str]:
        """Return which files of the work folder are new, other than before, or gone; paths below it."""
        after = _files(self._work)
        return {name for name in after.keys() | self._before if after.get(name) != self._before.get(name)}


def _files(folder: Path) -> dict[str, str]:
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in folder.rglob("*")
        if file.is_file()
    }


def source_of(
    read: Callable[[], RemoteLogSettings],
    storage: Callable[[], Any],
    read_stop: Callable[[], str | None] = lambda: None,
) -> RemoteLogSource:
    """
    Return the source of an access that opens a cluster of the tests: nothing asks for its login.

    :param read: returns the settings, as a connection would say them.
    :param storage: returns the storage that its storage access hands out.
    :param read_stop: reads the kill switch.
    """

    def refuse(*_: Any) -> Any:
        raise AssertionError("nothing asks for clients or opens a store here")

    return RemoteLogSource(
        settings=read,
        read_settings=read,
        read_client_config=refuse,
        login_owner=lambda: "nobody",
        stop_switch="the switch of the test",
        read_stop=read_stop,
        storage=lambda: _OpenStorage(StorageSource(settings=read, open_store=refuse), storage),
    )


class _OpenStorage(StorageAccess):
    def __init__(self, source: StorageSource, storage: Callable[[], Any]) -> None:
        super().__init__(source)
        self._storage = storage

    def get_storage_manager(self) -> Any:
        return self._storage()


class StepAccess(RemoteLogAccess):
    """
    Opens a cluster of the tests for the steps of a feature, without Airflow.

    :param cluster: the cluster.
    :param settings: as a connection would say them.
    """

    def __init__(self, cluster: Cluster, settings: RemoteLogSettings) -> None:
        super().__init__(source_of(lambda: self.settings, lambda: self.cluster.storage))
        self.cluster, self.settings = cluster, settings

    def get_cluster(self, request_timeout_s: float = 15.0) -> Any:
        return SimpleNamespace(cluster_id=CLUSTER_ID)

    def get_event_log(self) -> AbstractContextManager[Any]:
        return nullcontext(self.cluster.log)

    def get_cluster_topics(self) -> Any:
        topics: Any = self.cluster.topics
        topics.describe_metadata_topic = lambda name: SimpleNamespace(authorized_operations=None)
        return topics

    def get_offset_store(self) -> Any:
        return self.cluster.offsets

    def get_proven_clock(self, log: Any, **_: Any) -> ProvenClock:
        return ProvenClock(lambda: TimeProof(self.cluster.now_ms, system_clock(), "a test", proven=True))

    def check_layout(self) -> str:
        return "brokers are not asked"
