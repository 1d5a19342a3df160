# SPDX-License-Identifier: Apache-2.0
"""
What the leaders of many user partitions delete next, asked in few requests.

The order is what makes it true: the segments are read, the leaders are asked, lineages are found where none is kept; then
within a moment the leaders are asked, the metadata topic is read to its end, and the leaders are asked again. What has
changed in that moment is tried once more. What is wrong with one user partition is told of that one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.log.answers import NotTold, PartitionLook
from airflow_provider_rlmm.core.log.living_leader import LivingLeaders
from airflow_provider_rlmm.core.records.cache import RemoteLogMetadataCache
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.features.retention.closed_segments import WaitingRecords, closed_segments
from airflow_provider_rlmm.features.retention.hanging_copies import newest_copy_ms
from airflow_provider_rlmm.features.retention.kept_lineages import KeptLineages, still_stands
from airflow_provider_rlmm.features.retention.leader_lineage import (
    KnownLineage,
    NotConfirmed,
    SegmentIndexes,
    WantedLineage,
    ignore_step,
    lineages_of_leaders,
    newest_copied,
)
from airflow_provider_rlmm.features.retention.leader_pass import (
    PartitionPass,
    PassTimes,
    obstacle_of,
    pass_of_leader,
    unresolved,
    with_left_over,
)

logger = logging.getLogger(__name__)

_MOMENTS = 2
"""How often a user partition is told anew that has changed while it was looked at, the first time included."""


class ReadSegments(Protocol):
    """What the metadata topic says: :class:`~airflow_provider_rlmm.core.log.doubted_segments.DoubtedSegments`."""

    def advance(self) -> None:
        """Read on, up to the high watermarks as of now."""

    def names(self, tip: TopicIdPartition) -> bool:
        """Tell whether the log names a user partition."""

    def cache(self, tip: TopicIdPartition) -> RemoteLogMetadataCache:
        """Return what is known of a user partition."""

    def doubt(self, tip: TopicIdPartition) -> str | None:
        """Say why not all of its segments are known."""


@dataclass
class LeaderSweep:
    """
    Asks the leaders of user partitions, a group of them at a time.

    :param leaders: the living leaders.
    :param storage: where the indexes of segments lie.
    :param kept: the lineages that earlier runs have kept.
    :param times: tells what time it is.
    :param on_step: told how far this is.
    """

    leaders: LivingLeaders
    storage: SegmentIndexes
    kept: KeptLineages
    times: Callable[[], PassTimes]
    on_step: Callable[[str, int, int], object] = ignore_step
    found: dict[TopicIdPartition, KnownLineage] = field(default_factory=dict)
    """The lineages that were found by this run, and are to be kept."""

    def passes(
        self, segments: ReadSegments, partitions: Collection[TopicIdPartition], copied: Collection[str] = ()
    ) -> list[PartitionPass]:
        """
        Tell what the leaders of some user partitions delete next.

        :param segments: what the metadata topic says about them; it is read here.
        :param partitions: the user partitions; those that it does not name are left out, unless that is in doubt.
        :param copied: names of topics whose leaders copy: of these all are told, as there may be copies that never began.
        :raises EventLogUnavailableError: if no broker answers.
        :raises EventLogAccessError: if the login fails, or the metadata topic may not be read.
        """
        segments.advance()
        told: dict[TopicIdPartition, PartitionPass] = {}
        wanted = [
            tip for tip in partitions if segments.names(tip) or segments.doubt(tip) is not None or tip.topic in copied
        ]
        still_open = [tip for tip in wanted if segments.doubt(tip) is None]
        for _ in range(_MOMENTS):
            if still_open:
                told |= self._moment(segments, still_open)
                still_open = [tip for tip in still_open if told[tip].again]
        found = [told.get(tip) or unresolved(tip, str(segments.doubt(tip))) for tip in wanted]
        return [one if self._is_named(segments, one) else replace(one, is_named=False) for one in found]

    def _is_named(self, segments: ReadSegments, found: PartitionPass) -> bool:
        tip = found.topic_id_partition
        return segments.names(tip) or segments.doubt(tip) is not None

    def _moment(
        self, segments: ReadSegments, partitions: Sequence[TopicIdPartition]
    ) -> dict[TopicIdPartition, PartitionPass]:
        before = self.leaders.look(partitions)
        looks = {tip: look for tip in partitions if (look := _usable(tip, before[tip])) is not None}
        lineages, searched = self._lineages(segments, looks)
        if searched:
            # That may have taken minutes.
            before = {**before, **self.leaders.look(list(looks))}
        segments.advance()
        after = self.leaders.look(list(looks)) if looks else {}
        times = self.times()

        def judge(tip: TopicIdPartition) -> PartitionPass:
            look = before[tip]
            why = segments.doubt(tip) or obstacle_of(tip, look)
            if why is not None or isinstance(look, NotTold):
                return unresolved(tip, str(why), look)
            return pass_of_leader(look, after[tip], segments.cache(tip), lineages[tip], times)

        def whole(tip: TopicIdPartition) -> PartitionPass:
            return with_left_over(judge(tip), segments.cache(tip).list_remote_log_segments(), before[tip], times.now_ms)

        return self._with_times(segments, {tip: whole(tip) for tip in partitions}, before, times.now_ms)

    def _with_times(
        self,
        segments: ReadSegments,
        told: dict[TopicIdPartition, PartitionPass],
        looks: Mapping[TopicIdPartition, PartitionLook | NotTold],
        now_ms: int,
    ) -> dict[TopicIdPartition, PartitionPass]:
        """Add whether a segment that waits to be copied is closed, where offsets do not show that copying has stopped."""
        waiting: dict[TopicIdPartition, WaitingRecords] = {}
        for tip, one in told.items():
            look = looks[tip]
            if one.copies is not None and isinstance(look, PartitionLook):
                newest_ms = newest_copy_ms(look, segments.cache(tip).list_remote_log_segments())
                records = WaitingRecords(one.copies, newest_ms, look.configs)
                if records.is_worth_asking(now_ms):
                    waiting[tip] = records
        answers = closed_segments(waiting, self.leaders, now_ms) if waiting else {}
        if untold := [(tip, one.why) for tip, one in answers.items() if isinstance(one, NotTold)]:
            tip, why = untold[0]
            logger.warning(
                "of %s it cannot be told whether what little waits should have been copied, partition %d of %r for one: %s",
                number_of(len(untold), "user partition"),
                tip.partition,
                tip.topic,
                why,
            )
        for tip, answer in answers.items():
            is_closed = None if isinstance(answer, NotTold) else answer
            told[tip] = replace(told[tip], copies=replace(waiting[tip].progress, is_closed=is_closed))
        return told

    def _lineages(
        self, segments: ReadSegments, looks: Mapping[TopicIdPartition, PartitionLook]
    ) -> tuple[Mapping[TopicIdPartition, KnownLineage | NotConfirmed], bool]:
        """Return the lineages of leaders, and whether any had to be searched for."""
        lineages: dict[TopicIdPartition, KnownLineage | NotConfirmed] = {}
        wanted: dict[TopicIdPartition, WantedLineage] = {}
        for tip, look in looks.items():
            candidates = newest_copied(segments.cache(tip).list_remote_log_segments())
            kept = self.found.get(tip) or self.kept.of(tip)
            if kept is not None and still_stands(kept, look.leader_epoch, candidates):
                lineages[tip] = kept
            else:
                wanted[tip] = WantedLineage(candidates, look.leader_epoch)
        searched = lineages_of_leaders(wanted, self.storage, self.leaders, self.on_step) if wanted else {}
        for tip, one in searched.items():
            if isinstance(one, KnownLineage):
                # What lies below the log start is of no use any more, and may be long.
                cut = one.leader_epochs.truncate_from_start(looks[tip].log_start_offset)
                self.found[tip] = replace(one, leader_epochs=cut)
        return lineages | searched, any(one.candidates for one in wanted.values())


def _usable(tip: TopicIdPartition, look: PartitionLook | NotTold) -> PartitionLook | None:
    return look if isinstance(look, PartitionLook) and obstacle_of(tip, look) is None else None
