# SPDX-License-Identifier: Apache-2.0
"""What is wrong with the partition-delete events of a metadata topic: they are few, and no cache checks their order."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any
from uuid import UUID

from airflow_provider_rlmm.metadata.records import OWN_BROKER_ID
from airflow_provider_rlmm.metadata.states import RemotePartitionDeleteState
from airflow_provider_rlmm.policy.finding_kinds import FindingKind, Severity

COLUMNS = [
    "metadata_partition", "offset", "timestamp_ms", "topic_id", "topic", "partition", "event_timestamp_ms", "state",
    "broker_id",
]  # fmt: skip
"""Columns of ``decode`` that are looked at."""

_FINISHED = RemotePartitionDeleteState.DELETE_PARTITION_FINISHED

FoundEvent = tuple[FindingKind, Mapping[str, Any], str] | tuple[FindingKind, Mapping[str, Any], str, Severity]
"""Kind, row of :data:`COLUMNS`, what this one is, in words, and how bad, where its kind does not say it."""


class DeletionWatch:
    """
    Follows the deletions of user partitions.

    :param living: ids of the topics that exist.
    :param beginnings: metadata partition → first offset that is there.
    :param latest_ms: the latest time that is no time of the future, ms since the epoch.
    """

    def __init__(self, living: frozenset[UUID], beginnings: Mapping[int, int], latest_ms: int) -> None:
        self._living = living
        self._beginnings = beginnings
        self._latest_ms = latest_ms
        self._last: dict[tuple[bytes, int], Mapping[str, Any]] = {}
        self._finished: set[tuple[bytes, int]] = set()
        self._of_the_future: dict[tuple[bytes, int], Mapping[str, Any]] = {}

    def note(self, rows: Iterable[Mapping[str, Any]]) -> Iterator[FoundEvent]:
        """
        Take events, and yield what is wrong with each.

        :param rows: in the order of the topic.
        """
        for row in rows:
            state = RemotePartitionDeleteState(row["state"])
            key = (row["topic_id"], row["partition"])
            yield from self._illegal(key, state, row)
            self._last[key] = row
            if state is _FINISHED:
                self._finished.add(key)
                self._of_the_future.pop(key, None)
                if UUID(bytes=row["topic_id"]) in self._living:
                    yield FindingKind.LIVE_PARTITION_FINISHED, row, "its topic exists"
            else:
                self._observe(key, row)

    def _illegal(
        self, key: tuple[bytes, int], state: RemotePartitionDeleteState, row: Mapping[str, Any]
    ) -> Iterator[FoundEvent]:
        before = self._last.get(key)
        # The events before it may be among those that are gone.
        if before is None and self._beginnings[row["metadata_partition"]] > 0:
            return
        source = RemotePartitionDeleteState(before["state"]) if before else None
        reopened = None if source is _FINISHED else source
        valid = RemotePartitionDeleteState.is_valid_transition
        if not (valid(source, state) or valid(reopened, state)):
            came = source.name if source is not None else "nothing"
            # Two cleaners at once leave this behind the end; nothing reads it.
            ours = source is _FINISHED and row["broker_id"] == OWN_BROKER_ID
            severity = Severity.NOTICE if ours else Severity.WARNING
            yield FindingKind.ILLEGAL_TRANSITION, row, f"{came} → {state.name}", severity

    def _observe(self, key: tuple[bytes, int], row: Mapping[str, Any]) -> None:
        """A later observation at a believable time takes the place of one from the future."""
        if max(row["event_timestamp_ms"], row["timestamp_ms"]) <= self._latest_ms:
            self._of_the_future.pop(key, None)
        else:
            self._of_the_future.setdefault(key, row)

    def of_the_future(self, now_ms: int) -> Iterator[FoundEvent]:
        """
        Yield the observations of absence that were made at a time that has not come yet, and by nobody since.

        :param now_ms: ms since the epoch.
        """
        for row in self._of_the_future.values():
            event_ms, record_ms = row["event_timestamp_ms"], row["timestamp_ms"]
            ahead_ms = max(event_ms, record_ms) - now_ms
            state = RemotePartitionDeleteState(row["state"]).name
            detail = f"{state} is {ahead_ms} ms ahead: event time {event_ms}, record time {record_ms}, now {now_ms} ms"
            yield FindingKind.MARKER_FROM_THE_FUTURE, row, detail

    def topics_under_way(self) -> set[tuple[UUID, str]]:
        """Return topic id and name of the deletions that are not finished."""
        return {(UUID(bytes=row["topic_id"]), row["topic"]) for row in self._last.values() if row["state"] != _FINISHED}

    def unsettled(self, before_ms: int, unfinished: Collection[tuple[bytes, int]]) -> Iterator[FoundEvent]:
        """
        Yield the deletions that began and did not finish.

        A marker or a start behind DELETE_PARTITION_FINISHED counts as settled while nothing is unfinished: two cleaners at
        once leave such a thing, and the cleaner leaves it alone.

        :param before_ms: the last time that is old enough, ms since the epoch.
        :param unfinished: (topic id, partition) of the user partitions with unfinished segments.
        """
        for key, row in self._last.items():
            state = RemotePartitionDeleteState(row["state"])
            settled = state is _FINISHED or (key in self._finished and key not in unfinished)
            if not settled and row["event_timestamp_ms"] <= before_ms:
                yield FindingKind.UNSETTLED_MARKER, row, f"{state.name} is its last event"
