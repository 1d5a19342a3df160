# SPDX-License-Identifier: Apache-2.0
"""All that a copier writes: events about a living topic, files of a segment, and their deletion where it is taken back."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_rlmm.core.log.protocol import PublishOutcome
from airflow_provider_rlmm.core.log.write_guard import GuardedPublisher
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata, SegmentEvent
from airflow_provider_rlmm.core.storage.remote_storage import RemoteStorageManager, SegmentDeletion
from airflow_provider_rlmm.core.storage.segment_files import LogSegmentData
from airflow_provider_rlmm.core.storage.uploads import BeforeChunk
from airflow_provider_rlmm.features.copying.copy_replay import CopyBelief


@dataclass(frozen=True, slots=True)
class CopyWriter:
    """
    :param publisher: the write guard around the log that the copier reads.
    :param storage: the remote storage that the copier looks at.
    """

    publisher: GuardedPublisher
    storage: RemoteStorageManager

    def require_copying(self, what: str) -> None:
        """
        Refuse to copy while writes, or copies, are off.

        :param what: what was to be done, for the message.
        :raises WritesNotAllowedError: if ``allow_writes`` or ``allow_copy`` is off.
        """
        self.publisher.require_copying(what)

    def publish(self, event: SegmentEvent, belief: CopyBelief) -> PublishOutcome:
        """
        Publish one event through the write guard.

        :param event: the event.
        :param belief: what it rests on.
        :return: its outcome.
        :raises WriteRefusedError: with the event and the reason.
        :raises ClusterMismatchError: if the leader that was asked is of another cluster.
        """
        return self.publisher.publish_copy(event, belief)

    def copy(self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData, before_chunk: BeforeChunk) -> bytes | None:
        """
        Copy all files of a segment; see :meth:`RemoteStorageManager.copy_log_segment_data`.

        :param metadata: the segment.
        :param data: its local files.
        :param before_chunk: called before each chunk is sent; what it raises cancels the copy.
        :return: custom metadata to publish with COPY_SEGMENT_FINISHED.
        """
        return self.storage.copy_log_segment_data(metadata, data, before_chunk)

    def delete(self, metadata: RemoteLogSegmentMetadata) -> SegmentDeletion:
        """Delete what was copied of a segment."""
        return self.storage.delete_log_segment_data(metadata)
