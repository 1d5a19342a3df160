# SPDX-License-Identifier: Apache-2.0
"""
The storage of the simulated cluster: the true root, where its brokers write, and what is mounted in its place.

A root is a local folder: each of its folders has an identity, and one that is renamed, unmounted or replaced gets another.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from airflow_provider_rlmm.core.records.records import RemoteLogSegmentId, TopicIdPartition
from airflow_provider_rlmm.core.storage.in_memory import InMemoryRemoteStorageManager
from airflow_provider_rlmm.core.storage.layout import Layout
from airflow_provider_rlmm.core.storage.layouts import LocalTieredStorageLayout
from airflow_provider_rlmm.core.storage.remote_storage import StoredObject
from airflow_provider_rlmm.core.storage.stamps import OLD_STAMP_KEY, Location, Stamp, stamp_key

CLUSTER_ID = "simulated-cluster-id-1"
STAMP_KEY = stamp_key(CLUSTER_ID, LocalTieredStorageLayout().places[0].name)
STRANGE_KEY = f"{LocalTieredStorageLayout.prefix}strange-0-{'A' * 22}/{0:020d}-{'A' * 21}Q.log"
STRANGE_STAMP = b'{"cluster_id": "another-cluster", "layout": "local-tiered-storage"}'

Objects = dict[str, tuple[bytes, int]]


class _Folders(dict[str, object]):
    """Prefix → identity, as it is at this moment."""

    def __init__(self, identity: Callable[[str], object]) -> None:
        super().__init__()
        self._identity = identity

    def get(self, prefix: str, default: object = None) -> object:
        return self._identity(prefix)


class Roots:
    """What is mounted where."""

    random: random.Random
    lister: random.Random
    happened: Counter[str]
    now_ms: int

    def __init__(self) -> None:
        self.layout = self.chosen_layout()
        self.mounted: Objects = {}
        # A service that lists by key, and says so, or a server that lists as it likes.
        self.lists_by_key = self.lister.random() < 0.5
        self.here = Location("s3" if self.lists_by_key else "memory", bucket="true")
        self.elsewhere = replace(self.here, bucket="copy")
        self.where = self.here
        self.hidden: Objects | None = None
        self.swapped = False
        self.renamed: Objects = {}
        self.renamed_prefixes: set[str] = set()
        self._generation = 0
        self._folders: set[str] = set()
        self._segment_of_stem: dict[str, RemoteLogSegmentId] = {}

    def chosen_layout(self) -> Layout:
        """Return where brokers write."""
        return LocalTieredStorageLayout()

    @property
    def known_layout(self) -> Layout:
        """Where the connection says that they do."""
        return self.layout

    @property
    def stamp_keys(self) -> set[str]:
        """Where stamps of this cluster may lie."""
        return {stamp_key(CLUSTER_ID, place.name) for place in self.known_layout.places}

    def mount(self, hook: Callable[[object], tuple[Any, Any]]) -> InMemoryRemoteStorageManager:
        """Return one task's way to whatever is mounted."""
        storage = InMemoryRemoteStorageManager(self.known_layout, clock=lambda: self.now_ms)
        storage._objects = storage._calls._objects = self.mounted  # type: ignore[attr-defined]
        storage.where, storage.folders = self.where, _Folders(self._identity)
        storage.on_effect, storage.after_effect = hook(storage)
        storage.arrange = self._arranged
        return storage

    def _arranged(self, listed: list[StoredObject]) -> list[StoredObject]:
        if self.lists_by_key:
            return sorted(listed)
        self.lister.shuffle(listed)
        return listed

    def _identity(self, prefix: str) -> object:
        if prefix in self.renamed_prefixes:
            return None
        if not prefix or prefix in self._folders or any(key.startswith(prefix) for key in self.mounted):
            self._folders.add(prefix)
            return self._generation
        return None

    # --- what brokers do -------------------------------------------------------------------------------------------

    def put(self, key: str) -> None:
        """Put an object into the true root, whatever stands in for it."""
        home = self.renamed if key.startswith(tuple(self.renamed_prefixes)) else self._true_root()
        home[key] = b"x" * 10, self.now_ms

    def remove(self, key: str) -> None:
        """Delete an object from the true root."""
        self._true_root().pop(key, None)
        self.renamed.pop(key, None)

    def _true_root(self) -> Objects:
        return self.mounted if self.hidden is None else self.hidden

    # --- what goes wrong ---------------------------------------------------------------------------------------------

    def mount_instead(self, objects: Objects, where: Location | None = None) -> None:
        """Mount another root."""
        self.hidden, self.where = dict(self.mounted), where or self.here
        self._exchange(objects)

    def mount_strange(self) -> None:
        """Mount a root that is empty, or another cluster's."""
        theirs = self.random.random() < 0.5
        objects: Objects = {STRANGE_KEY: (b"x", 0)} if theirs else {}
        if theirs and self.random.random() < 0.5:
            objects[OLD_STAMP_KEY] = STRANGE_STAMP, 0
        self.mount_instead(objects)

    def mount_true(self) -> None:
        """Mount the true root again, every folder where it belongs."""
        if self.hidden is not None:
            self._exchange(self.hidden)
        self.hidden, self.where, self.swapped = None, self.here, False
        self.mounted.update(self.renamed)
        self.renamed.clear()
        self.renamed_prefixes.clear()

    def _exchange(self, objects: Objects) -> None:
        objects = dict(objects)
        self.mounted.clear()
        self.mounted.update(objects)
        self._generation += 1
        self._folders.clear()

    def rename_folder(self, tip: TopicIdPartition) -> None:
        """Let the folder of a partition be somewhere else for a while."""
        prefix = self.layout.partition_prefix(tip)
        if self.hidden is None and prefix not in self.renamed_prefixes:
            self.happened["folder renamed"] += 1
            self.renamed_prefixes.add(prefix)
            for key in [key for key in self.mounted if key.startswith(prefix)]:
                self.renamed[key] = self.mounted.pop(key)

    def excuse(self, keys: list[str]) -> None:
        """Forget objects that nobody of ours can have known of: their folder was away before the task listed it."""
        self.happened["finished below a renamed folder"] += 1
        for key in keys:
            del self.renamed[key]

    # --- what can be seen ----------------------------------------------------------------------------------------------

    @property
    def keys(self) -> set[str]:
        """All keys of the true root, wherever its folders are."""
        return self._true_root().keys() | self.renamed.keys()

    def recorded_roots(self) -> frozenset[str]:
        """Return the root ids that plans and reports have recorded: of all stamps that were ever written to the true root."""
        stamp = self._true_root().get(STAMP_KEY)
        return frozenset([Stamp.from_json(stamp[0]).root_id] if stamp else [])

    def segment_of(self, key: str) -> RemoteLogSegmentId | None:
        return self._segment_of_stem.get(key.rsplit(".", 1)[0])

    def objects_of_segment(self, segment: RemoteLogSegmentId) -> list[str]:
        return sorted(key for key in self.keys if self.segment_of(key) == segment)
