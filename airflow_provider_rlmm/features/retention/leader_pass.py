# SPDX-License-Identifier: Apache-2.0
"""What the leaders of a living topic delete of remote storage next: never more than they do, and whether it is all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from airflow_provider_rlmm.core.log.answers import CopyConfigs, LeaderAnswer
from airflow_provider_rlmm.core.log.living_leader import LivingLeader
from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.core.records.cache import RemoteLogMetadataCache
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.features.retention.expiration import (
    ExpirationPass,
    LeaderView,
    Standing,
    first_pass,
    known_up_to,
)
from airflow_provider_rlmm.features.retention.leader_lineage import NotConfirmed, SegmentIndexes, lineage_of_leader


class Certainty(StrEnum):
    """How much of what a leader deletes is told."""

    ALL = "all"  # what is told is all of it
    AT_LEAST = "at least"  # it may delete more
    UNRESOLVED = "unresolved"  # nothing is told


@dataclass(frozen=True, slots=True)
class PartitionPass:
    """
    What the leader of one user partition deletes in the next pass of its expiration task.

    :param topic_id_partition: the user partition.
    :param certainty: how much of it is told.
    :param why: why it is not all; empty where it is.
    :param log_start_offset: where its log begins, inclusive; ``None`` where that is not known.
    :param found: the segments; ``None`` where nothing is told.
    :param configs: the settings that they are judged by; ``None`` where nothing is told.
    :param leader: id of the broker that leads it; ``None`` where that was not told.
    """

    topic_id_partition: TopicIdPartition
    certainty: Certainty
    why: tuple[str, ...] = ()
    log_start_offset: int | None = None
    found: ExpirationPass | None = None
    configs: CopyConfigs | None = None
    leader: int | None = None

    @property
    def by_reason(self) -> Mapping[str, Count]:
        """What goes, by the name of the reason."""
        sums: dict[str, Count] = {}
        for segment in self.found.expired if self.found else ():
            one = Count(1, segment.segment.segment_size_in_bytes)
            sums[segment.reason.value] = Count.sum([sums.get(segment.reason.value, Count(0, 0)), one])
        return sums

    @property
    def kept(self) -> Count:
        """What stays of the leader's own lineage."""
        return self._standing(Standing.VALID)

    @property
    def foreign(self) -> Count:
        """What stays of other lineages: it goes once the log begins behind it."""
        return self._standing(Standing.FOREIGN)

    @property
    def undecided(self) -> Count:
        """What stays, as nobody can tell whether it is of the leader's lineage."""
        return self._standing(Standing.UNDECIDED)

    @property
    def leaked(self) -> Count:
        """What no leader ever finds: it is listed for none of its leader epochs."""
        return self._standing(Standing.LEAKED)

    @property
    def next_due_ms(self) -> int | None:
        """When time takes the next segment, ms since the epoch; ``None`` where it never does, or nothing is told."""
        due = [kept.due_ms for kept in self.found.kept if kept.due_ms is not None] if self.found else []
        return min(due, default=None)

    def _standing(self, standing: Standing) -> Count:
        kept = self.found.kept if self.found else ()
        return Count.sum(Count(1, one.segment.segment_size_in_bytes) for one in kept if one.standing is standing)


@dataclass(frozen=True, slots=True)
class PassTimes:
    """
    What time it is when a leader passes.

    :param now_ms: by this machine's clock, or by a better one, ms since the epoch.
    :param passed_ms: a time that has passed for certain, ms since the epoch: what is told is due by then. ``None`` where
        nobody but this machine says any: then nothing is told to be due by time.
    """

    now_ms: int
    passed_ms: int | None


def pass_of_leader(
    tip: TopicIdPartition,
    look: LeaderAnswer | None,
    cache: RemoteLogMetadataCache,
    storage: SegmentIndexes,
    leader: LivingLeader,
    times: PassTimes,
) -> PartitionPass:
    """
    Return what the leader of a user partition deletes next.

    :param tip: the user partition.
    :param look: what its leader answered before the metadata topic was read.
    :param cache: its segments, as of after that look.
    :param storage: where their indexes lie.
    :param leader: the living leader; it is asked a second time, and what has changed since is not resolved.
    :param times: what time it is.
    :raises EventLogUnavailableError: if the leader does not answer.
    :raises EventLogAccessError: if it may not be asked.
    """
    if look is None or look.offsets is None:
        return PartitionPass(tip, Certainty.UNRESOLVED, ("it has no leader",))
    start, configs = look.offsets.log_start_offset, look.configs
    if (obstacle := _obstacle(tip, look)) is not None:
        return PartitionPass(tip, Certainty.UNRESOLVED, (obstacle,), start)
    segments = cache.list_remote_log_segments()
    if not segments:
        return PartitionPass(tip, Certainty.ALL, (), start, ExpirationPass([], [], exact=True), configs, look.leader)
    lineage = lineage_of_leader(segments, storage, leader)
    if isinstance(lineage, NotConfirmed):
        return PartitionPass(tip, Certainty.UNRESOLVED, (lineage.why,), start)
    copying = frozenset(
        m.remote_log_segment_id for m in segments if m.state is RemoteLogSegmentState.COPY_SEGMENT_STARTED
    )
    view = LeaderView(
        cache=cache,
        leader_epochs=lineage.leader_epochs,
        log_start_offset=start,
        log_end_offset=look.offsets.high_watermark,
        retention_ms=configs.retention_ms,
        retention_bytes=configs.retention_bytes,
        # Before 1970 no limit by time reaches back.
        now_ms=-1 if times.passed_ms is None else min(times.passed_ms, times.now_ms),
        being_copied=copying,
    )
    view = known_up_to(view, lineage.source)
    found = first_pass(view)
    later = found if view.now_ms == times.now_ms else first_pass(replace(view, now_ms=times.now_ms))
    by_our_clock = len(later.expired) - len(found.expired)
    if (changed := _changed(look, leader.ask(tip.topic, tip.partition))) is not None:
        return PartitionPass(tip, Certainty.UNRESOLVED, (changed,), start)
    why = (*_why_later(by_our_clock), *_why_more(view, found))
    certainty = Certainty.AT_LEAST if why else Certainty.ALL
    return PartitionPass(tip, certainty, why, start, found, configs, look.leader)


def _obstacle(tip: TopicIdPartition, look: LeaderAnswer) -> str | None:
    if look.topic_id_partition != tip:
        return f"the topic was made anew: its id is {look.topic_id_partition.topic_id} now"
    if not look.configs.remote_storage_enable:
        return "remote.storage.enable is off: its leader deletes nothing of remote storage any more"
    if look.configs.diskless_enable:
        return "diskless.enable is on: where its log begins brokers do not say"
    return None


def _changed(before: LeaderAnswer, now: LeaderAnswer | None) -> str | None:
    if now is None or now.offsets is None or before.offsets is None:
        return "its leader was gone when it was asked again; try again"
    if now.topic_id_partition != before.topic_id_partition:
        return "the topic was made anew meanwhile; try again"
    begun, begins = before.offsets.log_start_offset, now.offsets.log_start_offset
    if begins != begun:
        return f"its log began at offset {begun}, and at {begins} when its leader was asked again; try again"
    if now.configs != before.configs:
        return "its settings have changed meanwhile; try again"
    return None


def _why_later(segments: int) -> Iterable[str]:
    if segments:
        yield f"{segments} more segments are due by this machine's clock, and no clock of a broker was asked"


def _why_more(view: LeaderView, found: ExpirationPass) -> Iterable[str]:
    """Yield why the leader may delete more than is told."""
    if view.retention_bytes >= 0:
        yield (
            "retention.bytes also counts bytes that are only on the leader's disk, which no client is told; and an old "
            "leader, or one of Kafka 4.3.1 or older after a leader change (KAFKA-20732), may count more than there is"
        )
    if view.being_copied:
        yield f"{len(view.being_copied)} segments are being copied, or their copy was given up: it stops at the former only"
    elif view.undecided:
        yield f"nobody can tell of the {len(view.undecided)} newest segments whether they are of its lineage"
    elif not found.exact:
        yield "segments that begin at the same offset are walked in an order that nobody can tell"
