# SPDX-License-Identifier: Apache-2.0
"""
What stands between a scrub's plan and the objects in it that no record names: the whole rule of their class once more, right
before they go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.clock import Clock
from airflow_provider_rlmm.core.base.quoting import in_quotes
from airflow_provider_rlmm.core.log.protocol import ClusterTopics, MetadataLogReader
from airflow_provider_rlmm.core.storage.remote_storage import RemoteStorageManager
from airflow_provider_rlmm.features.scrub.comparison import scrub
from airflow_provider_rlmm.features.scrub.scrub_reading import ScrubReading
from airflow_provider_rlmm.features.scrub.scrub_table import ScrubTable
from airflow_provider_rlmm.features.scrub.unnamed import BARRING, UNNAMED, Kept, are_unnamed, that_bar, why_kept
from airflow_provider_rlmm.features.scrub.unnamed_objects import UnnamedGroups, with_observations

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(slots=True)
class UnnamedGuard:
    """
    Says of each object that no record names whether it may go now.

    :param log: the log.
    :param topics: the cluster.
    :param storage: remote storage, listed only.
    :param clock: time.
    :param min_absence_ms: how long ago the topic must have been marked as deleted, ms.
    :param barred: why none of them goes any more; ``None`` where nothing stands against it.
    """

    log: MetadataLogReader
    topics: ClusterTopics
    storage: RemoteStorageManager
    clock: Clock
    min_absence_ms: int
    barred: str | None = None

    def begin(self, planned: ScrubTable) -> None:
        """
        Compare all of storage with the log once more, if anything is to go that no record names: the scrub may be hours old.

        :param planned: a plan's table.
        :raises StorageError: if storage is not the one that was proved.
        :raises EventLogError: if the log or the cluster cannot be read.
        """
        import pyarrow.compute as pc

        if not any(pc.any(are_unnamed(rows)).as_py() for rows in planned.tables()):
            return
        found = scrub(self.log, self.topics, self.storage, known=(), clock=self.clock)
        if found.incomplete:
            folder = in_quotes(min(found.incomplete))
            self.barred = (
                f"folder {folder} cannot be listed whole: objects of living topics may be in it that no record names"
            )
        for kind, rows in found.tables():
            if kind in BARRING and self.barred is None:
                self._note(rows)

    def judge(self, classified: pa.Table, reading: ScrubReading) -> pa.Table:
        """
        Look at the cluster for the topic ids of objects that no record names.

        :param classified: objects that were listed before the log was read, with their classes.
        :param reading: the log, read after the listing.
        :return: the same, with what the look showed.
        :raises ClusterMismatchError: if another cluster answers.
        :raises EventLogError: if the cluster cannot be asked.
        """
        groups = UnnamedGroups()
        groups.note(classified)
        rows = with_observations(classified, groups.observed(reading, self.topics, self.log))
        self._note(rows)
        return rows

    def why_kept(self, row: Mapping[str, Any]) -> Kept | None:
        """
        Return why an object stays, ``None`` where it may go.

        :param row: of what :meth:`judge` returned.
        """
        if row["class"] not in UNNAMED:
            return None
        return why_kept(
            row["class"],
            presence=row["presence"],
            marked_ms=row["marked_ms"],
            last_modified_ms=row["last_modified_ms"],
            now_ms=self.clock(),
            min_absence_ms=self.min_absence_ms,
        )

    def _note(self, rows: pa.Table) -> None:
        if self.barred is None and (bars := that_bar(rows)).num_rows:
            first = bars.slice(0, 1).to_pylist()[0]
            self.barred = (
                f"{number_of(bars.num_rows, 'object is', 'objects are')} there, {in_quotes(first['key'])} among "
                f"them: {first['why']}"
            )
