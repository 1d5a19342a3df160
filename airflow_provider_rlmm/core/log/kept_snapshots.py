# SPDX-License-Identifier: Apache-2.0
"""
Earlier snapshots of the metadata topic, kept for the day on which cluster or topic is lost.

The newest snapshot goes on with each task, and one of a poorer log would take its place. So once a day a copy of it stays,
and where a second place is named it is copied there, too: the work folder may be lost on the same day.
"""

from __future__ import annotations

import logging
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from airflow_provider_rlmm.core.base.clock import DAY_MS
from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.base.file_systems import (
    file_sizes,
    list_files,
    reading_in_order,
    remove_file,
    replacing,
)
from airflow_provider_rlmm.core.base.work_folder import SNAPSHOT_SUFFIX
from airflow_provider_rlmm.core.log.snapshot import Snapshot
from airflow_provider_rlmm.core.log.snapshot_file import SnapshotFile

_NAME: Final = re.compile(r"(?P<time>[0-9]{15})\.(?P<topic>[0-9a-f-]{36})" + re.escape(SNAPSHOT_SUFFIX))

_COPIED_AT_ONCE: Final = 2**20

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class KeptSnapshots:
    """
    A :class:`~airflow_provider_rlmm.core.log.snapshot.SnapshotStore` that is a file, and keeps earlier ones beside it.

    :param current: the file of the newest one.
    :param folder: URI of the folder of earlier ones.
    :param topic_id: of the metadata topic; those of another one stay as they are.
    :param keep: how many earlier ones stay, one of a day; 0 keeps none, and removes none.
    :param second: URI of a second folder for the earlier ones, in which as many stay; ``None`` for none.
    """

    current: SnapshotFile
    folder: str
    topic_id: UUID
    keep: int
    second: str | None = None

    def __str__(self) -> str:
        return str(self.current)

    @property
    def uri(self) -> str:
        """Of the newest one."""
        return self.current.uri

    def read(self) -> Snapshot:
        """See :class:`~airflow_provider_rlmm.core.log.snapshot.SnapshotStore`."""
        return self.current.read()

    def write(self, snapshot: Snapshot) -> None:
        """
        See :class:`~airflow_provider_rlmm.core.log.snapshot.SnapshotStore`; where no copy of it can be kept the log says so.

        :raises ConfigurationError: if the URI is not understood.
        """
        self.current.write(snapshot)
        if not self.keep:
            return
        try:
            self._keep(snapshot)
        except (OSError, ConfigurationError) as e:
            logger.warning("no earlier snapshot of the metadata topic is kept in %s: %s", self.folder, e)
        try:
            self.copy_to_second()
        except (OSError, ConfigurationError) as e:
            logger.error("the second place of snapshots, %s, lacks some of them: %s", self.second, e)

    def copy_to_second(self) -> None:
        """
        Copy the earlier ones that the second place lacks, and leave as many there as here; those of other topics and other
        files stay.

        :raises ConfigurationError: if a URI is not understood.
        :raises OSError: if a place cannot be read or written.
        """
        if self.second is None or not self.keep:
            return
        here, there = self._mine(file_sizes(self.folder)), self._mine(file_sizes(self.second))
        wanted = sorted({*here, *there})[-self.keep :]
        for name in wanted:
            if name in here and here[name] != there.get(name):
                _copy(f"{self.folder}/{name}", f"{self.second}/{name}")
        for name in sorted(there.keys() - set(wanted)):
            remove_file(f"{self.second}/{name}")

    def _mine(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Return the files that are earlier snapshots of this topic, with their sizes."""
        found = {name: _NAME.fullmatch(name) for name in sizes}
        return {name: sizes[name] for name, match in found.items() if match and match["topic"] == str(self.topic_id)}

    def _keep(self, snapshot: Snapshot) -> None:
        now_ms, times = snapshot.created_at_ms, self._times()
        # A clock that was put back must not end it.
        if not times or abs(now_ms - times[-1]) >= DAY_MS:
            SnapshotFile(self._uri(now_ms)).write(snapshot)
            times = sorted({*times, now_ms})
        for time_ms in times[: -self.keep]:
            remove_file(self._uri(time_ms))

    def _times(self) -> list[int]:
        """Return of which times there are, ascending."""
        found = map(_NAME.fullmatch, list_files(self.folder))
        return sorted(int(name["time"]) for name in found if name and name["topic"] == str(self.topic_id))

    def _uri(self, time_ms: int) -> str:
        return f"{self.folder}/{time_ms:015d}.{self.topic_id}{SNAPSHOT_SUFFIX}"


def _copy(source: str, target: str) -> None:
    """Copy a file, unless another task has just removed it as the oldest."""
    with suppress(FileNotFoundError), reading_in_order(source) as found, replacing(target) as copy:
        shutil.copyfileobj(found, copy, _COPIED_AT_ONCE)
