# SPDX-License-Identifier: Apache-2.0
"""When is every byte of a deleted topic gone? What log, cluster and storage have to say for it, all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.clock import HOUR_MS, time_text
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState
from airflow_provider_rlmm.core.world.absence import Presence

MAX_NAMED: Final = 5
"""Most reasons of one kind that are told: a topic may have thousands of partitions."""

_DAY_MS: Final = 24 * HOUR_MS


@dataclass(frozen=True, slots=True)
class PartitionEnd:
    """What the log says about the end of one user partition."""

    tip: TopicIdPartition  # the user partition
    state: RemotePartitionDeleteState | None  # how far its deletion is, ``None`` where it has no marker
    unfinished: int  # segments that are not finished
    uncertain: int  # segments of which it cannot be told
    finished_offset: int | None = None  # of the last DELETE_PARTITION_FINISHED
    finished_ms: int | None = None  # when that was written, ms since the epoch
    last_segment_offset: int | None = None  # of the last event of a segment, of any writer

    def why_not_gone(self) -> str | None:
        """Return why the log does not call it gone, ``None`` where it does."""
        if self.state is not RemotePartitionDeleteState.DELETE_PARTITION_FINISHED:
            so_far = "it has no marker" if self.state is None else f"it is at {self.state.name}"
            return f"{self.tip}: {so_far}, and {number_of(self.unfinished, 'segment is', 'segments are')} not finished"
        if self.unfinished or self.uncertain:
            return (
                f"{self.tip}: its deletion was finished, and after that "
                f"{number_of(self.unfinished, 'segment is', 'segments are')} not; {self.uncertain} more cannot be told"
            )
        if self.finished_offset is None:
            return f"{self.tip}: nothing tells where its DELETE_PARTITION_FINISHED lies"
        if self.last_segment_offset is not None and self.last_segment_offset > self.finished_offset:
            return (
                f"{self.tip}: an event of a segment at offset {self.last_segment_offset} came after its "
                f"DELETE_PARTITION_FINISHED at offset {self.finished_offset}: a broker still works on it"
            )
        return None


def why_not_finished(ends: Sequence[PartitionEnd]) -> Iterator[str]:
    """
    Yield why the log does not call a topic gone; nothing where it does.

    :param ends: every user partition that the log names of its id.
    """
    whys = [why for end in ends if (why := end.why_not_gone()) is not None]
    yield from whys[:MAX_NAMED]
    if len(whys) > MAX_NAMED:
        yield f"{number_of(len(whys) - MAX_NAMED, 'more user partition')} of {len(ends):,}"


def why_not_absent(presence: Presence, why: str) -> Iterator[str]:
    """
    Yield why the cluster does not call a topic deleted; nothing where it does.

    :param presence: what one look at the cluster has shown.
    :param why: of that look.
    """
    if presence is not Presence.ABSENT:
        yield f"the cluster does not call the topic deleted: {why}"


def why_not_empty(keys: Sequence[str], objects: int, broken: Sequence[str]) -> Iterator[str]:
    """
    Yield why storage does not call a topic gone; nothing where it does.

    :param keys: the first objects of the topic that were listed.
    :param objects: number of all of them.
    :param broken: folders that could not be listed whole, with what the store said.
    """
    if objects:
        yield (
            f"{number_of(objects, 'object of it is', 'objects of it are')} in storage, such as "
            f"{', '.join(keys[:MAX_NAMED])}"
        )
    for folder in broken[:MAX_NAMED]:
        yield f"storage could not be listed whole: {folder}"


def why_still_hidden(ends: Sequence[PartitionEnd], freed_after_days: int | None, now_ms: int) -> Iterator[str]:
    """
    Yield why deleted objects still take space: a bucket with versions keeps them for a while.

    :param ends: every user partition; all are finished.
    :param freed_after_days: after how many days the bucket frees what was deleted, ``None`` where it does so at once.
    :param now_ms: ms since the epoch.
    """
    if freed_after_days is None:
        return
    last_ms = max((end.finished_ms or 0 for end in ends), default=0)
    # Rules of a bucket are applied once a day.
    freed_ms = last_ms + (freed_after_days + 1) * _DAY_MS
    if now_ms < freed_ms:
        yield (
            f"the bucket keeps what is deleted, hidden, for {number_of(freed_after_days, 'day')}: until "
            f"{time_text(freed_ms)}, when its rule was applied"
        )
