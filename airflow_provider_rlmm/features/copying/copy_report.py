# SPDX-License-Identifier: Apache-2.0
"""What a copier did with one user partition, what it left, and whether a person has to look at it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentMetadata,
    TopicIdPartition,
    kafka_uuid_str,
)
from airflow_provider_rlmm.features.copying.rules import CopyHole, LocalSegment


@dataclass(frozen=True, slots=True)
class CopyReport:
    """
    The end of a copier's run on one user partition.

    :param topic_id_partition: the user partition.
    :param copied: the segments that were copied, as they were announced, ascending.
    :param taken_back: copies of ours that were begun and taken back, by this run or one before.
    :param expiring: segments that were left out, as the leader is about to delete them: see
        :func:`~airflow_provider_rlmm.features.copying.copy_hole.hole_ahead`.
    :param hole: offsets that brokers would pass over now, ``None`` where there are none.
    :param remote_end: the first offset that brokers cannot read from remote storage, at the end of the run.
    :param stopped_by: why the run ended before all that may be copied was, and what must wait for the leader; ``None`` where
        nothing is left to do.
    :param needs_person: whether a person has to do something, or to leave something alone.
    """

    topic_id_partition: TopicIdPartition
    copied: tuple[RemoteLogSegmentMetadata, ...]
    taken_back: tuple[RemoteLogSegmentMetadata, ...]
    expiring: tuple[LocalSegment, ...]
    hole: CopyHole | None
    remote_end: int
    stopped_by: str | None
    needs_person: bool

    @property
    def copied_bytes(self) -> int:
        """Bytes of the logs that were copied, without indexes."""
        return sum(metadata.segment_size_in_bytes for metadata in self.copied)

    def to_json(self) -> Mapping[str, Any]:
        """Return the report as a document."""
        tip = self.topic_id_partition
        return {
            "topic": tip.topic,
            "topic_id": kafka_uuid_str(tip.topic_id),
            "partition": tip.partition,
            "copied": [_segment(metadata) for metadata in self.copied],
            "copied_bytes": self.copied_bytes,
            "taken_back": [_segment(metadata) for metadata in self.taken_back],
            "expiring": expiring_json(self.expiring),
            "hole": hole_json(self.hole),
            "remote_end": self.remote_end,
            "stopped_by": self.stopped_by,
            "needs_person": self.needs_person,
        }


def expiring_json(expiring: Sequence[LocalSegment]) -> Sequence[Mapping[str, int]]:
    """
    Return the segments that were left out as plain JSON types.

    :param expiring: the segments, ascending.
    """
    return [{"start_offset": s.base_offset, "end_offset": s.end_offset} for s in expiring]


def hole_json(hole: CopyHole | None) -> Mapping[str, int] | None:
    """
    Return what brokers would pass over as plain JSON types.

    :param hole: the offsets, ``None`` where there are none.
    """
    return None if hole is None else {"start_offset": hole.start_offset, "end_offset": hole.end_offset}


def _segment(metadata: RemoteLogSegmentMetadata) -> Mapping[str, Any]:
    return {
        "segment_id": kafka_uuid_str(metadata.remote_log_segment_id.id),
        "start_offset": metadata.start_offset,
        "end_offset": metadata.end_offset,
        "segment_size_in_bytes": metadata.segment_size_in_bytes,
    }
