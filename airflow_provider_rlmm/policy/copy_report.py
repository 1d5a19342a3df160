# SPDX-License-Identifier: Apache-2.0
"""What a copier did with one user partition, what it left, and whether somebody has to look at it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_rlmm.metadata.records import (
    RemoteLogSegmentMetadata,
    TopicIdPartition,
    kafka_uuid_str,
)
from airflow_provider_rlmm.policy.copying import LocalSegment
from airflow_provider_rlmm.quoting import name_in_text


def hole_ahead(topic: str, partition: int, expiring: Sequence[LocalSegment]) -> str | None:
    """
    Say what must not be done before the leader has deleted what was left out, ``None`` where nothing was.

    Brokers go on from the *highest* copied offset and local retention deletes what lies below it. So segments that were left
    out, as they were about to expire, are lost where somebody has them live on.

    :param topic: name of the topic.
    :param partition: of the topic.
    :param expiring: the segments that were left out, ascending.
    """
    if not expiring:
        return None
    first, last = expiring[0].base_offset, expiring[-1].end_offset
    return (
        f"{len(expiring)} segments, offsets {first}..{last}, are about to expire by retention.ms and are not copied: do not "
        "enable copying, and do not raise retention.ms or retention.bytes, before the log start offset of "
        f"{name_in_text(topic)}-{partition} is at least {last + 1} (kafka-get-offsets.sh --time earliest tells it); then run "
        "this again"
    )


@dataclass(frozen=True, slots=True)
class CopyReport:
    """
    The end of a copier's run on one user partition.

    :param topic_id_partition: the user partition.
    :param copied: the segments that were copied, as they were announced, ascending.
    :param taken_back: copies of ours that were begun and taken back, by this run or one before.
    :param expiring: segments that were left out, as the leader is about to delete them: see :func:`hole_ahead`.
    :param remote_end: the first offset that brokers cannot read from remote storage, at the end of the run.
    :param stopped_by: why the run ended before all that may be copied was, and what must wait for the leader; ``None`` where
        nothing is left to do.
    :param needs_person: whether somebody has to do something, or to leave something alone.
    """

    topic_id_partition: TopicIdPartition
    copied: tuple[RemoteLogSegmentMetadata, ...]
    taken_back: tuple[RemoteLogSegmentMetadata, ...]
    expiring: tuple[LocalSegment, ...]
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


def _segment(metadata: RemoteLogSegmentMetadata) -> Mapping[str, Any]:
    return {
        "segment_id": kafka_uuid_str(metadata.remote_log_segment_id.id),
        "start_offset": metadata.start_offset,
        "end_offset": metadata.end_offset,
        "segment_size_in_bytes": metadata.segment_size_in_bytes,
    }
