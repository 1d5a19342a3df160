# SPDX-License-Identifier: Apache-2.0
"""What is wrong with the partition-delete events of a metadata topic: they are few, and no broker checks their order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

from airflow_provider_rlmm.metadata.deletion import PartitionDeletion
from airflow_provider_rlmm.metadata.records import OWN_BROKER_ID, TopicIdPartition
from airflow_provider_rlmm.metadata.states import RemotePartitionDeleteState
from airflow_provider_rlmm.policy.finding_kinds import FindingKind, Severity

_COLUMNS = [
    "metadata_partition", "offset", "timestamp_ms", "topic_id", "topic", "partition", "event_timestamp_ms", "state",
    "broker_id", "state_before",
]  # fmt: skip
_FINISHED = RemotePartitionDeleteState.DELETE_PARTITION_FINISHED

FoundEvent = tuple[FindingKind, Mapping[str, Any], str] | tuple[FindingKind, Mapping[str, Any], str, Severity]
"""Kind, row of an event, what this one is, in words, and how bad, where its kind does not say it."""


class DeletionWatch:
    """
    Looks at each partition-delete event, and remembers those from the future.

    :param living: ids of the topics that exist.
    :param beginnings: metadata partition → first offset that is there.
    :param latest_ms: the latest time that is no time of the future, ms since the epoch.
    """

    def __init__(self, living: frozenset[UUID], beginnings: Mapping[int, int], latest_ms: int) -> None:
        self._living = living
        self._beginnings = beginnings
        self._latest_ms = latest_ms
        self._of_the_future: dict[tuple[TopicIdPartition, int], Mapping[str, Any]] = {}

    def note(self, deletions: Any) -> Iterator[FoundEvent]:
        """
        Take events, and yield what is wrong with each.

        :param deletions: as an ``ApplyReport`` has them.
        """
        for row in deletions.select(_COLUMNS).to_pylist():
            tip = TopicIdPartition(UUID(bytes=row["topic_id"]), row["topic"], row["partition"])
            state = RemotePartitionDeleteState(row["state"])
            yield from self._illegal(state, row)
            if state is _FINISHED and tip.topic_id in self._living:
                yield FindingKind.LIVE_PARTITION_FINISHED, row, "its topic exists"
            if max(row["event_timestamp_ms"], row["timestamp_ms"]) > self._latest_ms:
                self._of_the_future[tip, row["offset"]] = row

    def _illegal(self, state: RemotePartitionDeleteState, row: Mapping[str, Any]) -> Iterator[FoundEvent]:
        before = row["state_before"]
        # The events before it may be among those that are gone.
        if before is None and self._beginnings[row["metadata_partition"]] > 0:
            return
        source = None if before is None else RemotePartitionDeleteState(before)
        reopened = None if source is _FINISHED else source
        valid = RemotePartitionDeleteState.is_valid_transition
        if not (valid(source, state) or valid(reopened, state)):
            came = source.name if source is not None else "nothing"
            # Two cleaners at once leave this behind the end; nothing reads it.
            ours = source is _FINISHED and row["broker_id"] == OWN_BROKER_ID
            severity = Severity.NOTICE if ours else Severity.WARNING
            yield FindingKind.ILLEGAL_TRANSITION, row, f"{came} → {state.name}", severity

    def of_the_future(
        self, under_way: Mapping[TopicIdPartition, PartitionDeletion], now_ms: int
    ) -> Iterator[FoundEvent]:
        """
        Yield the observations of absence that were made at a time that has not come yet, and by nobody since.

        :param under_way: the deletions that began and are not finished.
        :param now_ms: ms since the epoch.
        """
        for tip, deletion in under_way.items():
            if any(o.time_ms <= self._latest_ms for o in deletion.observations):
                continue
            rows = (self._of_the_future.get((tip, o.offset)) for o in deletion.observations)
            row = next((row for row in rows if row is not None), None)
            if row is not None:
                event_ms, record_ms = row["event_timestamp_ms"], row["timestamp_ms"]
                state, ahead_ms = RemotePartitionDeleteState(row["state"]).name, max(event_ms, record_ms) - now_ms
                times = f"event time {event_ms}, record time {record_ms}, now {now_ms} ms"
                yield FindingKind.MARKER_FROM_THE_FUTURE, row, f"{state} is {ahead_ms} ms ahead: {times}"
