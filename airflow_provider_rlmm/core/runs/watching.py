# SPDX-License-Identifier: Apache-2.0
"""Waiting for what others write to the metadata topic: the steps that block, for a thread."""

from __future__ import annotations

import logging
from contextlib import ExitStack, suppress
from uuid import UUID

from airflow_provider_rlmm.core.log.deletion_follower import DeletionEvent, DeletionFollower
from airflow_provider_rlmm.core.log.protocol import MetadataLogReader
from airflow_provider_rlmm.core.log.watching import WatchPosition
from airflow_provider_rlmm.core.runs.access import RemoteLogAccess

logger = logging.getLogger(__name__)


class DeletionWatch:
    """
    Follows the partition-delete events of one cluster. Every call blocks, each for a few request time-outs at most.

    Nothing is replayed and nothing is held but offsets, so it costs a question for the high watermarks per look, and the
    reading of what is new.

    :param access: what opens the cluster; its settings and client properties are read when it is first used.
    :param position: where to go on; ``None`` begins at the end of the log.
    """

    def __init__(self, access: RemoteLogAccess, position: WatchPosition | None = None) -> None:
        self._access = access
        self._wanted = position
        self._opened = ExitStack()
        self._topic_id: UUID | None = None
        self._follower: DeletionFollower | None = None
        self._cluster_id = ""
        self.began_anew: str | None = None
        """Why the given position was not taken and the log is followed from its end on, ``None`` where it was taken."""

    def look(self) -> list[DeletionEvent]:
        """
        Return the partition-delete events that came since the last look, or since the position.

        :raises EventLogError: if the log cannot be read; what came meanwhile is returned by a later look.
        :raises ClusterMismatchError: if the settings do not lead to one cluster, the expected one.
        :raises ConfigurationError: if they cannot be used.
        """
        follower = self._follower or self._open()
        with self._access.naming_connection():
            return follower.advance()

    @property
    def is_behind(self) -> bool:
        """Whether there is more to read at once."""
        return self._follower is None or self._follower.is_behind

    @property
    def position(self) -> WatchPosition | None:
        """How far the log was read, the given position where it was not opened yet."""
        if self._follower is None or self._topic_id is None:
            return self._wanted
        return WatchPosition(self._cluster_id, self._topic_id, dict(self._follower.offsets))

    def close(self) -> None:
        """Close the clients; the next look opens others and goes on where the last one stopped."""
        self._wanted, self._follower = self.position, None
        # Nothing is written here, so nothing can be lost that an error would have to tell of.
        with suppress(Exception):
            self._opened.close()

    def _open(self) -> DeletionFollower:
        self._cluster_id = self._access.check_cluster()
        try:
            log = self._opened.enter_context(self._access.get_event_log())
            offsets = self._offsets(log)
            self._topic_id, self._follower = log.topic_id, DeletionFollower(log, offsets)
        except BaseException:
            self.close()
            raise
        return self._follower

    def _offsets(self, log: MetadataLogReader) -> dict[int, int]:
        self.began_anew = None
        with self._access.naming_connection():
            if self._wanted is not None:
                self.began_anew = self._wanted.why_not(self._cluster_id, log.topic_id, log.partition_count)
                if self.began_anew is None:
                    return dict(self._wanted.offsets)
                logger.warning("the log is followed from its end on, not from where it was left: %s", self.began_anew)
            return dict(log.high_water_marks())
