# SPDX-License-Identifier: Apache-2.0
"""What was copied of a user partition, as remote storage and the metadata topic have it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from uuid import UUID

from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
from airflow_provider_rlmm.core.log.kafka.event_log import KafkaMetadataLogReader
from airflow_provider_rlmm.core.records.records import (
    COPIER_BROKER_ID,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    TopicIdPartition,
    kafka_uuid_str,
)
from airflow_provider_rlmm.core.records.serde import deserialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from dev.broker import LocalKafka, await_condition
from dev.formatter import formatter_lines
from tests.integration.copying.writing import alter_topic
from tests.scrub import scrub

SegmentEvents = Sequence[RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate]


@dataclass(frozen=True)
class Copies:
    """
    The copied segments of one user partition.

    :param segments: those in state COPY_SEGMENT_FINISHED, by start offset.
    :param objects: start offset and suffix → content, of every object of the user partition.
    """

    segments: tuple[RemoteLogSegmentMetadata, ...]
    objects: Mapping[tuple[int, str], bytes]

    @property
    def start_offsets(self) -> list[int]:
        return [segment.start_offset for segment in self.segments]

    @property
    def bare_segments(self) -> list[RemoteLogSegmentMetadata]:
        """The segments without what no two copies have in common: id, broker, time of the event."""
        return [
            replace(
                segment,
                remote_log_segment_id=RemoteLogSegmentId(segment.remote_log_segment_id.topic_id_partition, UUID(int=0)),
                broker_id=0,
                event_timestamp_ms=0,
            )
            for segment in self.segments
        ]


def copies_of(kafka: LocalKafka, tip: TopicIdPartition) -> Copies:
    """Return what was copied of a user partition, by whomever."""
    finished = [s for s in segments_of(kafka, tip) if s.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED]
    return Copies(tuple(sorted(finished, key=lambda s: s.start_offset)), dict(_objects(kafka, tip)))


def states_of(kafka: LocalKafka, tip: TopicIdPartition) -> dict[UUID, RemoteLogSegmentState]:
    """Return the states of the segments of a user partition that are not deleted, in the order of their announcements."""
    deleted = RemoteLogSegmentState.DELETE_SEGMENT_FINISHED
    return {s.remote_log_segment_id.id: s.state for s in segments_of(kafka, tip) if s.state is not deleted}


def segments_of(kafka: LocalKafka, tip: TopicIdPartition) -> list[RemoteLogSegmentMetadata]:
    """Return every segment as brokers see it: what does not follow from its state is dropped."""
    segments: dict[UUID, RemoteLogSegmentMetadata] = {}
    for event in segment_events(kafka, tip):
        segment_id = event.remote_log_segment_id.id
        if isinstance(event, RemoteLogSegmentMetadata):
            segments[segment_id] = event
        elif RemoteLogSegmentState.is_valid_transition(segments[segment_id].state, event.state):
            segments[segment_id] = segments[segment_id].with_update(event)
    return list(segments.values())


def segment_events(kafka: LocalKafka, tip: TopicIdPartition) -> SegmentEvents:
    """Return every event about the segments of a user partition, in order."""
    found = []
    with KafkaMetadataLogReader(KafkaClientConfig({"bootstrap.servers": kafka.bootstrap_servers})) as log:
        ends = log.high_water_marks()
        for metadata_partition in range(log.partition_count):
            for batch in log.read(metadata_partition, 0, ends[metadata_partition]):
                found += [deserialize(value) for value in batch.column("value").to_pylist()]
    return [
        event
        for event in found
        if isinstance(event, RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate)
        and event.remote_log_segment_id.topic_id_partition == tip
    ]


def check_copies(kafka: LocalKafka, tip: TopicIdPartition) -> Copies:
    """
    Check that every offset was copied once, and nothing else is left: storage and metadata fit, and Kafka reads the metadata.

    Nothing of the cluster is being copied meanwhile.
    """
    copies = copies_of(kafka, tip)
    starts = copies.start_offsets
    assert starts[1:] == [segment.end_offset + 1 for segment in copies.segments[:-1]]
    assert {start for start, _ in copies.objects} == set(starts)
    assert scrub(kafka) == []
    ours = [line for line in formatter_lines(kafka) if f"brokerId={COPIER_BROKER_ID}" in line and tip.topic in line]
    assert len(ours) == sum(event.broker_id == COPIER_BROKER_ID for event in segment_events(kafka, tip))
    return copies


def _objects(kafka: LocalKafka, tip: TopicIdPartition) -> Iterator[tuple[tuple[int, str], bytes]]:
    folder = kafka.remote_root / f"{tip.topic}-{tip.partition}-{kafka_uuid_str(tip.topic_id)}"
    for path in sorted(folder.glob("*")):
        yield (int(path.name[:20]), path.suffix), path.read_bytes()


def closed_segments(directory: Path, log_start_offset: int, last_stable_offset: int) -> list[int]:
    """
    Return the base offsets of the segments that a broker would copy from a directory, nothing of it being copied yet.

    :param directory: of a user partition.
    :param log_start_offset: segments wholly below it are of no use to anybody.
    :param last_stable_offset: exclusive end of what is decided.
    """
    bases = sorted(int(path.stem) for path in directory.glob("*.log"))
    return [base for base, end in pairwise(bases) if log_start_offset < end <= last_stable_offset]


def check_hard(copies: Copies, everything: Mapping[str, Sequence[tuple[int, object]]]) -> None:
    """
    Check that copies have all that makes copying hard.

    :param copies: of a :class:`~tests.integration.copying.world.World`.
    :param everything: what consumers read of it under each isolation level, before more is written.
    """
    segments, records = copies.segments, everything["read_uncommitted"]
    assert len(segments) >= 5
    # The log start offset lies within the first of them, and what is behind the open transaction is not copied.
    assert segments[0].start_offset < records[0][0] <= segments[0].end_offset
    assert segments[-1].end_offset < everything["read_committed"][-1][0] + 1 < records[-1][0]
    assert len({epoch for segment in segments for epoch, _ in segment.segment_leader_epochs}) >= 3
    assert any(len(segment.segment_leader_epochs) > 1 for segment in segments)
    # Some have aborted transactions, which committed reads leave out.
    assert {segment.txn_idx_empty for segment in segments} == {True, False}
    aborted = {offset for offset, *_ in records} - {offset for offset, *_ in everything["read_committed"]}
    assert min(aborted) <= segments[-1].end_offset


def copied_by_a_broker(
    log_dir: Path, folder: Path, tip: TopicIdPartition, expected: Sequence[int], kafka_version: str | None = None
) -> Copies:
    """
    Let a broker copy what a stopped broker's disk holds, into a remote storage of its own.

    :param log_dir: the disk of the only broker of its cluster; it stays as it is.
    :param folder: takes a copy of it, and the remote storage.
    :param tip: the user partition.
    :param expected: start offsets of the segments that it has to copy.
    :param kafka_version: another Kafka than the one of ``dev/pom.xml``.
    """
    shutil.copytree(log_dir, folder / "logs")
    broker = LocalKafka(folder, kafka_version=kafka_version)
    try:
        broker.start()
        alter_topic(broker.bootstrap_servers, tip.topic, **{"remote.log.copy.disable": "false"})
        await_condition(
            lambda: copies_of(broker, tip).start_offsets == list(expected), f"a broker has copied {expected}", 60, 0.5
        )
        return copies_of(broker, tip)
    finally:
        broker.kill()
