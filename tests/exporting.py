# SPDX-License-Identifier: Apache-2.0
"""An export of the small tiered topic on a local disk, with a session that leads there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from airflow_provider_rlmm.core.log.known_segments import PartitionSegments
from airflow_provider_rlmm.core.log.topic_state import ignore_progress
from airflow_provider_rlmm.core.runs.access import RemoteLogAccess
from airflow_provider_rlmm.core.runs.cleaner_session import CleanerSession
from airflow_provider_rlmm.core.runs.settings import RemoteLogSettings
from airflow_provider_rlmm.core.storage.credentials import StoreAccess
from airflow_provider_rlmm.core.storage.layouts import LocalTieredStorageLayout
from airflow_provider_rlmm.core.storage.object_store import ObjectStoreRemoteStorageManager
from airflow_provider_rlmm.features.reading.cutting import TopicInPieces, cut_into_pieces
from airflow_provider_rlmm.features.reading.export_steps import Export, plan_export
from airflow_provider_rlmm.features.reading.reader import RemoteLogReader
from tests.access import source_of
from tests.tiered_orders import ORDERS, START_MS, TieredOrders


class Exported:
    """A world on a local disk, and a session that leads there."""

    def __init__(self, folder: Path) -> None:
        (folder / "storage").mkdir()
        self.folder = folder
        self.uri = (folder / "storage").as_uri()
        self.storage = ObjectStoreRemoteStorageManager(self.uri, LocalTieredStorageLayout())
        self.world = TieredOrders(self.storage, segments=5)
        self.options: dict[str, str] = {}

    def session(self) -> CleanerSession:
        settings = RemoteLogSettings(storage_uri=self.uri)
        access = RemoteLogAccess(
            source_of(lambda: settings, lambda: self.storage, open_store=lambda uri: (StoreAccess(self.options), None))
        )
        log: Any = self.world.log
        return CleanerSession(
            access, access.get_storage(), str(self.folder / "work"), "cluster-1", log, self.world.topics, lambda: START_MS,
            lambda: None, lambda: None, ignore_progress,  # type: ignore[arg-type,return-value]
        )  # fmt: skip

    def plan(self, **arguments: Any) -> Export:
        return plan_export(self.cut(**arguments), str(self.folder / "out"))

    def cut(self, **arguments: Any) -> TopicInPieces:
        return cut_into_pieces(self.session(), "orders", **{"piece_bytes": 1, **arguments})

    def as_read(self, partition: int, start: int, end: int) -> pa.Table:
        """What the reader says of a range, in this process."""
        tip = ORDERS[partition]
        reader = RemoteLogReader(PartitionSegments(self.world.log, [tip]), self.storage)
        return pa.Table.from_batches(reader.read(tip, start, end))

    def files(self) -> list[str]:
        return sorted(file.name for file in (self.folder / "out").iterdir())
