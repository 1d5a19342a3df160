# SPDX-License-Identifier: Apache-2.0
"""
Whether a segment that waits to be copied is closed, as the times of its records tell: few requests for many leaders.

A leader closes a segment by time where it appends a record that is ``segment.ms`` later than the segment's first one; a
segment to which nothing is appended any more it closes once its latest record is older than local retention (Kafka's
``UnifiedLog.deletableSegments``). So the age of a record alone tells nothing: an idle user partition has old records in its
active segment, and producers may write any time into a record. What tells is how far the latest record is from the first one
behind the copies, and local retention. The latest one is asked for, and the first one that is so much earlier: where that one
lies behind the beginning of what waits, the segment that begins there is closed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_provider_rlmm.core.log.answers import CopyConfigs, NewestRecord, NotTold
from airflow_provider_rlmm.core.log.copy_lag import kept_ms
from airflow_provider_rlmm.core.log.living_leader import LivingLeaders
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.features.retention.hanging_copies import CopyProgress, hang_ms


@dataclass(frozen=True, slots=True)
class WaitingRecords:
    """
    What waits to be copied of a user partition.

    :param progress: how far its leader has come, as offsets tell.
    :param newest_copy_ms: the latest timestamp in the newest copy, ms since the epoch; ``None`` where no copy is there.
    :param configs: of the topic.
    """

    progress: CopyProgress
    newest_copy_ms: int | None
    configs: CopyConfigs

    @property
    def _segment_ms(self) -> int | None:
        """For how long a segment is surely not open any more, ms."""
        segment_ms = self.configs.segment_ms
        # The time for which a copy may hang makes up for batches whose records have several times.
        return None if segment_ms is None else segment_ms + hang_ms(self.configs)

    @property
    def _idle_ms(self) -> int | None:
        kept = kept_ms(self.configs.local_retention_ms, self.configs.retention_ms)
        return None if kept is None else kept + hang_ms(self.configs)

    def is_worth_asking(self, now_ms: int) -> bool:
        """
        Tell whether times can say more than offsets do.

        What is behind a copy is hardly older than it: a leader that has copied lately is not asked.

        :param now_ms: the time, ms since the epoch.
        """
        if self.progress.is_behind or self.progress.waiting <= 0:
            return False
        limits = [limit for limit in (self._segment_ms, self._idle_ms) if limit is not None]
        return self.newest_copy_ms is None or not limits or self.newest_copy_ms < now_ms - min(limits)

    def by_newest(self, newest: NewestRecord, now_ms: int) -> bool | int | NotTold:
        """
        Tell whether a segment that waits is closed, by the record with the latest timestamp.

        :param newest: that record.
        :param now_ms: the time, ms since the epoch.
        :return: the time of which the first record has to be asked for, ms since the epoch, where that one tells.
        """
        if newest.offset < self.progress.copied_to:
            return NotTold(f"the record with the latest timestamp, at offset {newest.offset}, was copied long ago")
        if (idle_ms := self._idle_ms) is not None and now_ms - newest.timestamp_ms > idle_ms:
            return True
        if (segment_ms := self._segment_ms) is None:
            return NotTold("the cluster does not tell segment.ms")
        wanted_ms = newest.timestamp_ms - segment_ms
        # A copy has a record that is as late, so the first one lies before what waits.
        if wanted_ms <= (0 if self.newest_copy_ms is None else self.newest_copy_ms):
            return False
        return wanted_ms


def closed_segments(
    waiting: Mapping[TopicIdPartition, WaitingRecords], leaders: LivingLeaders, now_ms: int
) -> dict[TopicIdPartition, bool | NotTold]:
    """
    Tell of user partitions whether a segment that waits to be copied is closed.

    :param waiting: what waits; the others are left out.
    :param leaders: who is asked.
    :param now_ms: the time, ms since the epoch.
    :raises EventLogAccessError: if the login fails.
    """
    told: dict[TopicIdPartition, bool | NotTold] = {}
    wanted_ms: dict[TopicIdPartition, int] = {}
    for tip, newest in leaders.newest_records(list(waiting)).items():
        by_newest = waiting[tip].by_newest(newest, now_ms) if isinstance(newest, NewestRecord) else newest or False
        if isinstance(by_newest, bool | NotTold):
            told[tip] = by_newest
        else:
            wanted_ms[tip] = by_newest
    for tip, first in (leaders.first_since(wanted_ms) if wanted_ms else {}).items():
        is_later = not isinstance(first, NotTold) and first is not None and first > waiting[tip].progress.copied_to
        told[tip] = first if isinstance(first, NotTold) else is_later
    return told
