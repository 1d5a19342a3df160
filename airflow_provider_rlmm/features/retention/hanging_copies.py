# SPDX-License-Identifier: Apache-2.0
"""
Which leaders have stopped copying: more waits behind the newest copy than closed segments hold, and no copy comes.

A leader whose copying hangs or has ended with an error says so in its log only: local segments that were not copied are kept,
and its disk fills. What waits in one run and still waits behind the same copy in a later one shows it. So each run remembers
since when. Where little is written, offsets do not tell, and where nothing was ever copied it is not known how many a segment
holds: there the times of records tell whether a segment behind the copies is closed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.clock import duration_in_words
from airflow_provider_rlmm.core.log.answers import CopyConfigs, PartitionLook
from airflow_provider_rlmm.core.log.copy_lag import LONGEST_HANG_MS, due_after_ms, hangs_after_ms
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState

_LAST_SEGMENTS: Final = 3
"""The active segment is never copied, one may have been closed just now: as much as so many segments hold always waits."""


@dataclass(frozen=True, slots=True)
class CopyProgress:
    """
    How far a leader has copied its log.

    :param copied_to: end of what was copied, exclusive; where no copy is there, where the log begins.
    :param waiting: offsets from there to the high watermark.
    :param usual: offsets that the last segments that were copied hold together, up to three of them, for each missing one
        the largest of the others; ``None`` where no copy is there.
    :param is_closed: whether the times of records show that a segment behind that is closed; ``None`` where they were not
        asked for, or they do not tell.
    """

    copied_to: int
    waiting: int
    usual: int | None
    is_closed: bool | None = False

    @property
    def is_behind(self) -> bool:
        """Whether more waits than does while copying goes on."""
        return bool(self.is_closed) or (self.usual is not None and self.waiting > self.usual)


@dataclass(frozen=True, slots=True)
class WaitingCopies:
    """What is remembered of a leader that is behind."""

    copied_to: int  # end of what was copied when that was seen first
    since_ms: int  # when that was, ms since the epoch


@dataclass(frozen=True, slots=True)
class HangingCopies:
    """
    A leader that has stopped copying.

    :param partition: the user partition.
    :param progress: how far it has come.
    :param since_ms: since when nothing was copied for certain, ms since the epoch.
    :param leader: id of the broker that leads the partition, ``None`` where it was not told.
    """

    partition: int
    progress: CopyProgress
    since_ms: int
    leader: int | None

    @property
    def what_to_do(self) -> str:
        """What a person can do about it."""
        return f"{away_from(self.leader)}, or restart it: its copying task begins anew"


def away_from(leader: int | None) -> str:
    """
    Say what helps against a leader whose task for a partition is stuck: begins a sentence.

    :param leader: id of the broker, ``None`` where it was not told.
    """
    broker = "its leader" if leader is None else f"broker {leader}, its leader,"
    return (
        f"look for errors of RemoteLogManager about this partition in the log of {broker} and move the leadership to another "
        "broker"
    )


def progress_of(look: PartitionLook, segments: Iterable[RemoteLogSegmentMetadata]) -> CopyProgress | None:
    """
    Tell how far a leader has copied, as far as offsets tell; ``None`` where it copies nothing.

    :param look: what the leader answered.
    :param segments: all segments that the log names of the user partition and that are not finished.
    """
    if not copies(look.configs):
        return None
    ranges = [(s.end_offset + 1, s.start_offset) for s in _copied(look, segments)]
    if not ranges:
        return CopyProgress(look.log_start_offset, look.high_watermark - look.log_start_offset, None)
    copied_to = ranges[-1][0]
    held = [end - start for end, start in ranges[-_LAST_SEGMENTS:]]
    usual = sum(held) + (_LAST_SEGMENTS - len(held)) * max(held)
    return CopyProgress(copied_to, look.high_watermark - copied_to, usual)


def newest_copy_ms(look: PartitionLook, segments: Iterable[RemoteLogSegmentMetadata]) -> int | None:
    """
    Return the latest timestamp in the newest copy, ms since the epoch; ``None`` where no copy is there.

    :param look: what the leader answered.
    :param segments: as of :func:`progress_of`.
    """
    copied = _copied(look, segments)
    return copied[-1].max_timestamp_ms if copied else None


def _copied(look: PartitionLook, segments: Iterable[RemoteLogSegmentMetadata]) -> list[RemoteLogSegmentMetadata]:
    copied = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
    found = (s for s in segments if s.state is copied and s.end_offset < look.high_watermark)
    return sorted(found, key=lambda s: (s.end_offset, s.start_offset))


def copies(configs: CopyConfigs) -> bool:
    """
    Tell whether the leaders of a topic copy its segments.

    :param configs: of the topic.
    """
    return configs.remote_storage_enable and not (configs.remote_log_copy_disable or configs.diskless_enable)


def waiting_now(progress: CopyProgress | None, before: WaitingCopies | None, now_ms: int) -> WaitingCopies | None:
    """
    Return what is to be remembered of a leader: since when it is behind the same copy; ``None`` where it is not behind.

    :param progress: how far it is now; ``None`` where that is not told: what was known stays.
    :param before: what is remembered.
    :param now_ms: the time, ms since the epoch.
    """
    if progress is None:
        return before
    if not progress.is_behind and (progress.is_closed is not None or before is None):
        return None
    # A segment that was closed stays closed: where times are not told any more what was known of it holds.
    if not progress.is_behind and before is not None and before.copied_to != progress.copied_to:
        return None
    if before is not None and before.copied_to == progress.copied_to:
        return WaitingCopies(before.copied_to, min(before.since_ms, now_ms))
    return WaitingCopies(progress.copied_to, now_ms)


def patience_ms(configs: CopyConfigs) -> int | None:
    """
    Return for how long a leader may be behind the same copy, ms: until a copy is due, and then as long as a copy may hang.

    :param configs: of the topic.
    :return: ``None`` where it cannot be told when a copy is due.
    """
    due_ms = due_after_ms(configs.copy_lag, configs.local_retention_ms, configs.retention_ms)
    return None if due_ms is None else due_ms + hang_ms(configs)


def hang_ms(configs: CopyConfigs) -> int:
    """
    Return for how long a copy that is due may hang, ms.

    :param configs: of the topic.
    """
    found = hangs_after_ms(configs.local_retention_ms, configs.retention_ms)
    return LONGEST_HANG_MS if found is None else found


def in_words(progress: CopyProgress, waited_ms: int) -> str:
    """
    Say how far behind a leader is.

    :param progress: how far it has come.
    :param waited_ms: for how long nothing was copied, ms.
    """
    waits = f"{number_of(progress.waiting, 'offset waits', 'offsets wait')} behind offset {progress.copied_to:,}"
    if progress.usual is None:
        waits = (
            f"{number_of(progress.waiting, 'offset waits', 'offsets wait')} from offset {progress.copied_to:,} on, "
            "of which no copy is there"
        )
    elif progress.waiting > progress.usual:
        waits += f", where the last segments held {progress.usual:,}"
    closed = ", the times of records show a closed segment among them" if progress.is_closed else ""
    return f"{waits}{closed}, and none was copied for {duration_in_words(waited_ms)}"
