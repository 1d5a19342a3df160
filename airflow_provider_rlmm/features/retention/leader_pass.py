# SPDX-License-Identifier: Apache-2.0
"""What the leaders of a living topic delete of remote storage next: never more than they do, and whether it is all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from airflow_provider_rlmm.core.base.agreement import agreeing, number_of
from airflow_provider_rlmm.core.base.errors import MetadataError
from airflow_provider_rlmm.core.log.answers import CopyConfigs, NotTold, PartitionLook
from airflow_provider_rlmm.core.plans.certainty import Certainty
from airflow_provider_rlmm.core.plans.counts import NOTHING, Count, added_up
from airflow_provider_rlmm.core.records.cache import RemoteLogMetadataCache
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata, TopicIdPartition
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.features.retention.expiration import (
    ExpirationPass,
    ExpiredSegment,
    KeptSegment,
    LeaderView,
    Standing,
    first_pass,
    known_up_to,
)
from airflow_provider_rlmm.features.retention.hanging_copies import CopyProgress, progress_of
from airflow_provider_rlmm.features.retention.leader_lineage import KnownLineage, NotConfirmed
from airflow_provider_rlmm.features.retention.rules import MIN_AGE, UNFINISHED_STEPS


@dataclass(frozen=True, slots=True)
class Stays:
    """What the next pass leaves in remote storage, by what it is to the leader."""

    kept: Count = NOTHING  # of its own lineage
    foreign: Count = NOTHING  # of other lineages: it goes once the log begins behind it
    undecided: Count = NOTHING  # it cannot be told whether it is of the lineage
    leaked: Count = NOTHING  # listed for none of its leader epochs: no leader ever finds it
    next_due_ms: int | None = None  # when time takes the next segment, ms since the epoch; ``None`` where it never does

    @classmethod
    def of(cls, segments: Sequence[KeptSegment]) -> Stays:
        """
        Sum up what stays.

        :param segments: as a pass leaves them.
        """

        def count(standing: Standing) -> Count:
            mine = [one.segment.segment_size_in_bytes for one in segments if one.standing is standing]
            return Count(len(mine), sum(mine))

        due = (one.due_ms for one in segments if one.due_ms is not None)
        return cls(
            kept=count(Standing.VALID),
            foreign=count(Standing.FOREIGN),
            undecided=count(Standing.UNDECIDED),
            leaked=count(Standing.LEAKED),
            next_due_ms=min(due, default=None),
        )


@dataclass(frozen=True, slots=True)
class PartitionPass:
    """
    What the leader of one user partition deletes in the next pass of its expiration task.

    :param topic_id_partition: the user partition.
    :param certainty: how much of it is told.
    :param why: why it is not all; empty where it is.
    :param log_start_offset: where its log begins, inclusive; ``None`` where that is not known.
    :param expired: the segments that go, in the order in which the leader deletes them; ``None`` where nothing is told.
    :param stays: what is left.
    :param configs: the settings that they are judged by; ``None`` where nothing is told.
    :param leader: id of the broker that leads it; ``None`` where that was not told.
    :param again: whether nothing is told only because something has changed meanwhile.
    :param dangling: segments whose copy or deletion was begun days ago and has not ended, told otherwise or not.
    :param not_tiered: all segments, where the topic is living and not tiered any more: no leader deletes them.
    :param copies: how far the leader has copied its log; ``None`` where that is not told, or it copies nothing.
    :param is_named: whether the metadata topic names a segment of it, or may do so.
    """

    topic_id_partition: TopicIdPartition
    certainty: Certainty
    why: tuple[str, ...] = ()
    log_start_offset: int | None = None
    expired: tuple[ExpiredSegment, ...] | None = None
    stays: Stays = Stays()
    configs: CopyConfigs | None = None
    leader: int | None = None
    again: bool = False
    dangling: Count = NOTHING
    not_tiered: Count = NOTHING
    copies: CopyProgress | None = None
    is_named: bool = True

    @property
    def by_reason(self) -> Mapping[str, Count]:
        """What goes, by the name of the reason."""
        return added_up((one.reason.value, Count(1, one.segment.segment_size_in_bytes)) for one in self.expired or ())

    @property
    def goes(self) -> Count:
        """What goes."""
        return Count.sum(self.by_reason.values())


@dataclass(frozen=True, slots=True)
class PassTimes:
    """
    What time it is when a leader passes.

    :param now_ms: by this machine's clock, or by a better one, ms since the epoch.
    :param passed_ms: a time that has passed for certain, ms since the epoch: what is told is due by then. ``None`` where
        only this machine's clock says one: then nothing is told to be due by time.
    """

    now_ms: int
    passed_ms: int | None


def unresolved(tip: TopicIdPartition, why: str, look: PartitionLook | NotTold | None = None) -> PartitionPass:
    """
    Return that nothing is told of a user partition.

    :param tip: the user partition.
    :param why: why, in words.
    :param look: what its leader has answered, ``None`` where it was not asked.
    """
    if isinstance(look, PartitionLook):
        return PartitionPass(tip, Certainty.UNRESOLVED, (why,), look.log_start_offset, leader=look.leader)
    return PartitionPass(tip, Certainty.UNRESOLVED, (why,))


def pass_of_leader(
    before: PartitionLook,
    after: PartitionLook | NotTold,
    cache: RemoteLogMetadataCache,
    lineage: KnownLineage | NotConfirmed,
    times: PassTimes,
) -> PartitionPass:
    """
    Return what the leader of a user partition deletes next.

    :param before: what the leader answered before the metadata topic was read to its end.
    :param after: what it answered after that: what has changed in between is not resolved.
    :param cache: its segments, as of between the two.
    :param lineage: that of the leader.
    :param times: what time it is.
    """
    tip = before.topic_id_partition
    if (changed := _changed(before, after)) is not None:
        return replace(unresolved(tip, changed, before), again=True)
    segments = cache.list_remote_log_segments()
    if not segments:
        told = PartitionPass(tip, Certainty.ALL, expired=(), configs=before.configs, leader=before.leader)
        return replace(told, log_start_offset=before.log_start_offset)
    if isinstance(lineage, NotConfirmed):
        return unresolved(tip, lineage.why, before)
    if lineage.leader_epoch != before.leader_epoch:
        return replace(unresolved(tip, "its leader has changed meanwhile; try again", before), again=True)
    view = _view(before, cache, segments, lineage, times)
    try:
        found = first_pass(view)
        later = found if view.now_ms == times.now_ms else first_pass(replace(view, now_ms=times.now_ms))
    except MetadataError as e:
        return unresolved(
            tip, f"the task of its leader ends with an error, as Kafka cannot list an epoch of it: {e}", before
        )
    why = (*_why_later(len(later.expired) - len(found.expired)), *_why_more(view, found))
    certainty = Certainty.AT_LEAST if why else Certainty.ALL
    stays, start = Stays.of(found.kept), before.log_start_offset
    return PartitionPass(tip, certainty, why, start, tuple(found.expired), stays, before.configs, before.leader)


def _view(
    look: PartitionLook,
    cache: RemoteLogMetadataCache,
    segments: Sequence[RemoteLogSegmentMetadata],
    lineage: KnownLineage,
    times: PassTimes,
) -> LeaderView:
    """Return what the leader knows, as far as it is known."""
    copying = (m for m in segments if m.state is RemoteLogSegmentState.COPY_SEGMENT_STARTED)
    view = LeaderView(
        cache=cache,
        leader_epochs=lineage.leader_epochs,
        log_start_offset=look.log_start_offset,
        log_end_offset=look.high_watermark,
        retention_ms=look.configs.retention_ms,
        retention_bytes=look.configs.retention_bytes,
        # Before 1970 no limit by time reaches back.
        now_ms=-1 if times.passed_ms is None else min(times.passed_ms, times.now_ms),
        being_copied=frozenset(m.remote_log_segment_id for m in copying),
    )
    return view if lineage.is_whole else known_up_to(view, lineage.last_epoch, lineage.end_offset)


def with_left_over(
    found: PartitionPass,
    segments: Iterable[RemoteLogSegmentMetadata],
    look: PartitionLook | NotTold,
    now_ms: int,
) -> PartitionPass:
    """
    Add what lies in remote storage before and after the leader's next pass, and how far it has copied.

    :param found: what the leader deletes.
    :param segments: all of the user partition, as far as they are known.
    :param look: what the leader answered.
    :param now_ms: the time, ms since the epoch.
    """
    segments = tuple(segments)
    tiered = isinstance(look, NotTold) or look.configs.remote_storage_enable
    copies = None
    if isinstance(look, PartitionLook) and look.topic_id_partition == found.topic_id_partition:
        copies = progress_of(look, segments)
    begun = [s for s in segments if s.state in UNFINISHED_STEPS and now_ms - s.event_timestamp_ms > MIN_AGE.default]
    return replace(found, dangling=_count(begun), not_tiered=NOTHING if tiered else _count(segments), copies=copies)


def _count(segments: Sequence[RemoteLogSegmentMetadata]) -> Count:
    return Count(len(segments), sum(segment.segment_size_in_bytes for segment in segments))


def obstacle_of(tip: TopicIdPartition, look: PartitionLook | NotTold) -> str | None:
    """
    Say why nothing can be told of a user partition, with any lineage; ``None`` where nothing stands against it.

    :param tip: the user partition.
    :param look: what its leader answered.
    """
    if isinstance(look, NotTold):
        return look.why
    if look.topic_id_partition != tip:
        return f"the topic was made anew: its id is {look.topic_id_partition.topic_id} now"
    if not look.configs.remote_storage_enable:
        return "remote.storage.enable is off: its leader deletes nothing of remote storage any more"
    if look.configs.diskless_enable:
        return "diskless.enable is on: where its log begins brokers do not say"
    return None


def _changed(before: PartitionLook, now: PartitionLook | NotTold) -> str | None:
    if isinstance(now, NotTold):
        return f"when it was asked again, {now.why}; try again"
    if now.topic_id_partition != before.topic_id_partition:
        return "the topic was made anew meanwhile; try again"
    if now.leader_epoch != before.leader_epoch:
        return "its leader has changed meanwhile; try again"
    begun, begins = before.log_start_offset, now.log_start_offset
    if begins != begun:
        return f"its log began at offset {begun}, and at {begins} when its leader was asked again; try again"
    if now.configs != before.configs:
        return "its settings have changed meanwhile; try again"
    return None


def _why_later(segments: int) -> Iterable[str]:
    if segments:
        yield (
            f"{number_of(segments, 'more segment is', 'more segments are')} due by this machine's clock, and no "
            "clock of a broker was asked"
        )


def _why_more(view: LeaderView, found: ExpirationPass) -> Iterable[str]:
    """Yield why the leader may delete more than is told."""
    if view.retention_bytes >= 0:
        yield (
            "retention.bytes also counts bytes that are only on the leader's disk, which no client is told; and an old "
            "leader, or one of Kafka 4.3.1 or older after a leader change (KAFKA-20732), may count more than there is"
        )
    if view.being_copied:
        yield (
            f"{number_of(len(view.being_copied), 'segment is', 'segments are')} being copied, or their copy was "
            "given up: it stops at the former only"
        )
    elif view.undecided:
        count = len(view.undecided)
        newest = agreeing(count, "newest segment is", number_of(count, "", "newest segments are"))
        yield f"it cannot be told whether the {newest} of its lineage"
    elif found.outruns_lineage:
        yield "its log then begins behind its newest segment, and it cannot be told which epoch is its earliest there"
    elif not found.exact:
        yield "segments that begin at the same offset are walked in an order that is not known"
