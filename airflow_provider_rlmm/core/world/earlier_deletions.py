# SPDX-License-Identifier: Apache-2.0
"""
What earlier runs have deleted, by the audit log: the evidence that a segment without objects is gone, not away.

A DELETE_SEGMENT_STARTED of ours says that its objects were listed before. It does not say that they were deleted: a folder
may have been renamed right before, and be away until it is mounted again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from airflow_provider_rlmm.core.records.history import UserPartitionHistory
from airflow_provider_rlmm.core.records.records import OWN_BROKER_ID, RemoteLogSegmentId, RemoteLogSegmentMetadata
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.core.world.audit import NO_RECORD, DeletionRecord, DeletionSource, nothing_on_record


def was_started_by_us(history: UserPartitionHistory, metadata: RemoteLogSegmentMetadata) -> bool:
    """
    Tell whether a segment is one that a run of ours began to delete after its copy was finished.

    :param history: of its user partition.
    :param metadata: the segment.
    """
    segment_id = metadata.remote_log_segment_id.id
    return (
        metadata.state is RemoteLogSegmentState.DELETE_SEGMENT_STARTED
        and segment_id in history.copied
        and history.started_by.get(segment_id) == OWN_BROKER_ID
    )


@dataclass(slots=True)
class EarlierDeletions:
    """
    The audit log, read when it is first asked, for all segments that may have to be asked about.

    :param source: reads the audit log.
    :param histories: of all user partitions of the run.
    """

    source: DeletionSource = nothing_on_record
    histories: Callable[[], Iterable[UserPartitionHistory]] = tuple
    _asked: frozenset[RemoteLogSegmentId] = field(default=frozenset(), init=False)
    _record: DeletionRecord = field(default=NO_RECORD, init=False)

    @property
    def unread(self) -> str | None:
        """Why some of the audit log says nothing, ``None`` where all that was asked for was read."""
        return "; ".join(self._record.unread) or None

    def names(self, metadata: RemoteLogSegmentMetadata) -> bool:
        """
        Tell whether a run has deleted, or may have deleted, objects of a segment.

        :param metadata: the segment, in the state DELETE_SEGMENT_STARTED.
        """
        segment_id = metadata.remote_log_segment_id
        if segment_id not in self._asked:
            started = [m for h in self.histories() for m in h.unfinished() if was_started_by_us(h, m)]
            since_ms = min(m.event_timestamp_ms for m in (metadata, *started))
            self._asked = frozenset({segment_id, *(m.remote_log_segment_id for m in started)})
            self._record = self.source(self._asked, since_ms)
        return segment_id in self._record.deleted

    def forget(self) -> None:
        """Have it read anew: other runs may have gone on."""
        self._asked = frozenset()
