# SPDX-License-Identifier: Apache-2.0
"""A topic that nobody has copied yet, with a snapshot of its directory, and how it is to end whatever happens to copiers."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from uuid import uuid4

from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata, TopicIdPartition, kafka_uuid_str
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from dev import tiering
from dev.broker import LocalKafka
from tests.integration.copying.adopting import (
    Everything,
    await_all_remote,
    check_adopted,
    enable_copying,
    read_everything,
)
from tests.integration.copying.copies import Copies, check_copies, segment_events, segments_of
from tests.integration.copying.world import not_copied_topic, snapshot_of, to_be_copied

LIVING = "living-beside-copies"
"""A topic that its broker copies itself."""

_DELETED = RemoteLogSegmentState.DELETE_SEGMENT_FINISHED
_PASSED_OVER = "RemoteResourceNotFoundException: No remote log segment metadata found for :RemoteLogSegmentId"

# A single node asks its own controller before that leads, and the controller says so when it was given little processor
# time: errors in its log, and no fault of anybody.
_NOBODYS_FAULT = re.compile(
    r"\(kafka\.server\.ControllerApis\)$|NotControllerException: The active controller appears to be node \d+\.$"
    r"|Exceptionally slow controller event .*\.EventPerformanceMonitor\)$"
)

# Until a broker has read its remote metadata again it has whoever asks for remote records come again (the answer is
# retriable), and writes an error and its reason about it. On a slow machine a consumer is there first.
_FAILED_READ = re.compile(r"Error occurred while reading the remote data for \S+ \(\S+\.RemoteLogReader\)$")
_NOT_READ_YET = re.compile(
    r"ReplicaNotAvailableException: Remote log metadata cache is not initialized for partition: \S+$"
)


def without_early_reads(complaints: list[str]) -> list[str]:
    """Leave out what a broker says of consumers that ask before it has its remote metadata: an error, then this reason."""
    early = {
        at
        for at, (error, reason) in enumerate(pairwise(complaints))
        if _FAILED_READ.search(error) and _NOT_READ_YET.search(reason)
    }
    return [line for at, line in enumerate(complaints) if at not in early and at - 1 not in early]


@dataclass(frozen=True)
class Uncopied:
    """
    A topic that nobody has copied yet.

    :param kafka: its broker, which runs again since the snapshot.
    :param tip: its only user partition.
    :param snapshot: of the broker's disk.
    :param expected: base offsets of the segments that are to be copied.
    :param everything: what consumers read.
    """

    kafka: LocalKafka
    tip: TopicIdPartition
    snapshot: Path
    expected: list[int]
    everything: Everything

    @classmethod
    def of(
        cls, kafka: LocalKafka, folder: Path, write: Callable[[str], object], settings: dict[str, str] | None = None
    ) -> Uncopied:
        """
        Make such a topic.

        :param kafka: a running broker.
        :param folder: for the snapshot.
        :param write: writes its records.
        :param settings: of the topic, besides those of every topic that is not copied.
        """
        topic = f"uncopied-{uuid4().hex}"
        not_copied_topic(kafka, topic, **(settings or {}))
        write(topic)
        expected = to_be_copied(kafka.bootstrap_servers, kafka.log_dir / f"{topic}-0", topic)
        assert len(expected) >= 6
        tip = TopicIdPartition(tiering.topic_ids(kafka)[topic], topic, 0)
        snapshot = snapshot_of(kafka, topic, folder / "snapshot")
        return cls(kafka, tip, snapshot, expected, read_everything(kafka, topic))

    def check_all_copied(self) -> Copies:
        """Check that all of it was copied by us, each offset once, and nothing else is left."""
        copies = check_copies(self.kafka, self.tip)
        assert copies.start_offsets == self.expected
        assert read_everything(self.kafka, self.tip.topic) == self.everything
        return copies

    def check_brokers_go_on(self, ours: Copies) -> None:
        """Hand it to its broker, and check that nothing is lost, and nothing was wrong since the broker's start."""
        enable_copying(self.kafka, self.tip.topic)
        await_all_remote(self.kafka, self.tip)
        assert read_everything(self.kafka, self.tip.topic) == self.everything
        check_adopted(self.kafka, self.tip, ours)
        tiering.tiering_alive(self.kafka, LIVING)
        assert self.complaints() == []

    def complaints(self) -> list[str]:
        """
        Return what the broker complains of since its start.

        It warns of each event about a segment that is deleted already, and passes it over. There are such events: a copier
        that slept through its lease finishes what was taken back, and a leader deletes what it finds in
        DELETE_SEGMENT_STARTED, beside the copier that takes it back.
        """
        settled = {s.remote_log_segment_id.id for s in segments_of(self.kafka, self.tip) if s.state is _DELETED}
        known = tuple(f"{_PASSED_OVER}{{topicIdPartition={self.tip}, id={kafka_uuid_str(i)}}}" for i in settled)
        said = without_early_reads(self.kafka.complaints())
        return [line for line in said if not (_NOBODYS_FAULT.search(line) or line.endswith(known))]


def finished_ranges(kafka: LocalKafka, tip: TopicIdPartition) -> list[tuple[int, int]]:
    """Return start and end offset of each COPY_SEGMENT_FINISHED that was ever written about a user partition, ascending."""
    announced: dict[object, RemoteLogSegmentMetadata] = {}
    found = []
    for event in segment_events(kafka, tip):
        segment_id = event.remote_log_segment_id
        if isinstance(event, RemoteLogSegmentMetadata):
            announced[segment_id] = event
        elif event.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED:
            found.append((announced[segment_id].start_offset, announced[segment_id].end_offset))
    return sorted(found)
