# SPDX-License-Identifier: Apache-2.0
"""
When segments of a living topic may be copied by a program that is not its leader, which ones, and in which order.

A broker goes on copying from the *highest* offset that the remote log has of an epoch, and local retention deletes all that
lies at or below it. So a hole in the copies loses living data for good: candidates are strictly ascending, without a gap.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import merge
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_rlmm.core.base.clock import HOUR_MS, time_text
from airflow_provider_rlmm.core.base.declarations import Declared, Duration, Names, Whole, check_fields
from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.records.cache import RemoteLogMetadataCache, end_of_epoch
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata, TopicIdPartition, kafka_uuid_str
from airflow_provider_rlmm.core.world.diskless import WITHOUT_A_BEGINNING
from airflow_provider_rlmm.core.world.freshness import MISSING_LIVING_SEGMENTS

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.log.answers import LeaderAnswer

COPY_WITHOUT_LEADER: Final = "copy_without_leader"
"""Override: copy segments of a user partition that has no leader, whose end and lineage cannot be told then."""

COPY_OVERRIDES: Final = frozenset({COPY_WITHOUT_LEADER, MISSING_LIVING_SEGMENTS})
"""All overrides of a copier."""


@dataclass(frozen=True, slots=True)
class LocalSegment:
    """
    A closed segment of a log directory: what its ``COPY_SEGMENT_STARTED`` says of it.

    :param base_offset: its base offset, inclusive: it names the files.
    :param end_offset: the next segment's base offset less one, inclusive.
    :param size_in_bytes: size of the log file.
    :param max_timestamp_ms: largest record timestamp, ms since the epoch; the file's time where no record has one.
    :param leader_epochs: (leader epoch, start offset), ascending: the checkpoint, truncated to the segment from both ends.
    :param txn_index_empty: whether it has no aborted transactions.
    """

    base_offset: int
    end_offset: int
    size_in_bytes: int
    max_timestamp_ms: int
    leader_epochs: tuple[tuple[int, int], ...]
    txn_index_empty: bool

    @property
    def first_offset(self) -> int:
        """Its first offset that its lineage knows: what lies below was below the directory's log start offset."""
        return self.leader_epochs[0][1]

    def __str__(self) -> str:
        return f"segment {self.base_offset}..{self.end_offset}"


RETENTION_MARGIN: Final = Declared(
    name="retention_margin_ms",
    kind=Duration(),
    default=HOUR_MS,
    sentence="A segment that expires within this time is not copied any more",
)
LEASE: Final = Declared(
    name="lease_ms",
    kind=Duration(minimum=2),
    default=HOUR_MS,
    sentence="How long an announced segment is its run's, which gives it up after half of that; others take it back "
    "after all",
)
BYTES_PER_SECOND: Final[Declared[int | None]] = Declared(
    name="bytes_per_second",
    kind=Whole(minimum=1),
    default=None,
    sentence="The most that is copied in a second",
    absent="all that the storage takes",
)
MAX_SEGMENTS: Final[Declared[int | None]] = Declared(
    name="max_segments",
    kind=Whole(minimum=1),
    default=None,
    sentence="Copy no more than these of each partition: a canary",
    absent="all",
)
NAMED_OVERRIDES: Final[Declared[frozenset[str]]] = Declared(
    name="overrides",
    kind=Names(COPY_OVERRIDES),
    default=frozenset(),
    sentence="Copy of a partition that has no leader, up to what the disk says is replicated; or though the storage lacks "
    "newest copies of other living topics",
)
COPY: Final[tuple[Declared[Any], ...]] = (RETENTION_MARGIN, LEASE, BYTES_PER_SECOND, MAX_SEGMENTS, NAMED_OVERRIDES)


@dataclass(frozen=True, slots=True)
class CopyLimits:
    """
    Limits of one copier run.

    :param retention_margin_ms: a segment that expires within this time is not copied any more, ms: the leader would delete
        it while it is copied.
    :param lease_ms: for how long a COPY_SEGMENT_STARTED of ours belongs to the run that wrote it, ms. Its run gives the
        segment up after half of that, others take it for abandoned after all of it.
    :param bytes_per_second: the most that is copied on an average, ``None`` for all that the storage takes.
    :param max_segments: the most segments of one run and user partition, ``None`` for all.
    :param overrides: some of :data:`COPY_OVERRIDES`. With ``missing_living_segments`` the storage may lack newest copies of
        other living topics.
    :raises ConfigurationError: on a limit of another kind or out of its range.
    """

    retention_margin_ms: int = RETENTION_MARGIN.default
    lease_ms: int = LEASE.default
    bytes_per_second: int | None = BYTES_PER_SECOND.default
    max_segments: int | None = MAX_SEGMENTS.default
    overrides: frozenset[str] = NAMED_OVERRIDES.default

    def __post_init__(self) -> None:
        check_fields(self, (RETENTION_MARGIN, LEASE, BYTES_PER_SECOND, MAX_SEGMENTS))
        if unknown := self.overrides - COPY_OVERRIDES:
            raise ConfigurationError(
                f"unknown overrides {sorted(unknown)}: a copier knows {sorted(COPY_OVERRIDES)} only"
            )

    def still_ours(self, started_ms: int, now_ms: int) -> bool:
        """
        Tell whether the run that wrote a COPY_SEGMENT_STARTED may still finish it.

        :param started_ms: time of that event, ms since the epoch.
        :param now_ms: now, ms since the epoch.
        """
        return 0 <= now_ms - started_ms < self.lease_ms // 2

    def is_abandoned(self, started_ms: int, now_ms: int) -> bool:
        """
        Tell whether the run that wrote a COPY_SEGMENT_STARTED has lost its lease.

        :param started_ms: time of that event, ms since the epoch.
        :param now_ms: now, ms since the epoch, proven.
        """
        return now_ms - started_ms >= self.lease_ms


def may_write_about(answer: LeaderAnswer, directory: TopicIdPartition) -> str | None:
    """
    Tell why no segment of a user partition may be copied now, ``None`` where the cluster allows it.

    :param answer: what the cluster says now.
    :param directory: the user partition, with the topic id, of the log directory.
    """
    configs = answer.configs
    if answer.topic_id_partition != directory:
        return (
            f"the log directory is of {directory}, the cluster has {answer.topic_id_partition}: segments of another topic "
            "are never copied; archive the directory instead"
        )
    if answer.is_internal:
        return f"topic {directory.topic!r} is internal"
    if configs.diskless_enable:
        return f"topic {directory.topic!r} is diskless: {WITHOUT_A_BEGINNING}"
    if not configs.remote_storage_enable:
        return (
            f"remote.storage.enable of topic {directory.topic!r} is not true: its brokers would not read what is copied"
        )
    if not configs.remote_log_copy_disable:
        return (
            f"remote.log.copy.disable of topic {directory.topic!r} is not true: its leader copies itself; set it to true, "
            "with local.retention.ms and local.retention.bytes at -2, until the copies are complete"
        )
    if configs.cleanup_policy != {"delete"}:
        return f"cleanup.policy of topic {directory.topic!r} is {','.join(sorted(configs.cleanup_policy))}, not delete"
    return None


def size_obstacle(answer: LeaderAnswer, remote_bytes: int, segment: RemoteLogSegmentMetadata) -> str | None:
    """
    Tell why ``retention.bytes`` forbids to copy a segment, ``None`` where it does not.

    While copying is disabled the leader counts what we copy twice, as local and as remote, and deletes what is above.

    :param answer: what the cluster says now.
    :param remote_bytes: bytes of all other segments that are not DELETE_SEGMENT_FINISHED.
    :param segment: what is to be copied.
    """
    limit = answer.configs.retention_bytes
    if limit < 0:
        return None
    topic = answer.topic_id_partition.topic
    if answer.local_size_in_bytes is None:
        return (
            f"retention.bytes of topic {topic!r} is {limit}, and it cannot be told how many bytes its leader has: set it "
            "to -1 until the copies are complete"
        )
    total = answer.local_size_in_bytes + remote_bytes + segment.segment_size_in_bytes
    if total >= limit:
        return (
            f"retention.bytes of topic {topic!r} is {limit}, and the leader would count {total} bytes, local and remote ones "
            f"with {segment.start_offset}..{segment.end_offset}: it would delete the oldest; set it to -1 until the copies "
            "are complete"
        )
    return None


def remote_end(
    cache: RemoteLogMetadataCache,
    leader_epochs: Sequence[tuple[int, int]],
    log_start_offset: int,
    until: int | None = None,
) -> int:
    """
    Return the first offset from the log start on that brokers could not read from remote storage.

    It is the highest remote offset plus one, unless there is a hole below it: then the hole must be copied first.

    :param cache: the user partition's segments.
    :param leader_epochs: (leader epoch, start offset), ascending: the lineage.
    :param log_start_offset: the leader's log start offset.
    :param until: what lies behind this offset is not asked for, inclusive; ``None`` for all.
    """
    offset = log_start_offset
    for index, (epoch, start) in enumerate(leader_epochs):
        last = index + 1 == len(leader_epochs)
        end = None if last else leader_epochs[index + 1][1]
        # A lineage that was truncated at its start begins at the log start offset, or above where that has moved since.
        while start <= offset and (end is None or offset < end) and (until is None or offset <= until):
            metadata = cache.remote_log_segment_metadata(epoch, offset)
            if metadata is None:
                return offset
            after = end_of_epoch(metadata, epoch) + 1
            offset = after if end is None else min(after, end)
    return offset


@dataclass(frozen=True, slots=True)
class CopyHole:
    """
    Where the copies of a user partition have holes.

    :param start_offset: the first offset that is missing, inclusive.
    :param end_offset: the last one, inclusive; between the two some may be there.
    """

    start_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class Candidates:
    """
    What may be copied of a log directory, in this order.

    :param segments: the segments, ascending, without a gap.
    :param obstacle: why there are none, or no more, in words; ``None`` where nothing is wrong.
    :param expiring: segments at the log's start that the leader is about to delete and that are not in remote storage: they
        are left out.
    :param hole: offsets that brokers would pass over though all of these were copied, as far as it was asked.
    """

    segments: tuple[LocalSegment, ...]
    obstacle: str | None
    expiring: tuple[LocalSegment, ...] = ()
    hole: CopyHole | None = None


def candidates(
    segments: Sequence[LocalSegment], *, from_offset: int, end_offset: int, active_offset: int
) -> Candidates:
    """
    Return the closed segments that may be copied now (Kafka: ``RLMCopyTask.candidateLogSegments``).

    :param segments: all closed segments of the log directory, ascending.
    :param from_offset: the first offset that the leader still has and that is not in remote storage, inclusive.
    :param end_offset: the ``read_committed`` end, exclusive: no segment that reaches beyond it.
    :param active_offset: the first offset of the log directory's active segment that anybody may read.
    """
    wanted = [segment for segment in segments if segment.end_offset >= from_offset]
    first_offset = wanted[0].first_offset if wanted else active_offset
    if first_offset > from_offset:
        return Candidates(
            (),
            f"offsets {from_offset}..{first_offset - 1} are in the leader's log, and neither in remote storage nor "
            "in this log directory: copying what lies behind them would lose them; copy another replica's directory first",
        )
    found: list[LocalSegment] = []
    for segment in wanted:
        if found and segment.base_offset != found[-1].end_offset + 1:
            missing = f"offsets {found[-1].end_offset + 1}..{segment.base_offset - 1}"
            return Candidates(tuple(found), f"{missing} are missing in this log directory")
        if segment.end_offset >= end_offset:
            break
        found.append(segment)
    return Candidates(tuple(found), None)


def expires_before(
    segments: Sequence[LocalSegment],
    remote: Iterable[RemoteLogSegmentMetadata],
    *,
    log_start_offset: int,
    retention_ms: int,
    margin_ms: int,
    now_ms: int,
) -> int | None:
    """
    Return the offset below which the leader deletes all within a margin by ``retention.ms``; ``None`` where nothing.

    The leader deletes in order and stops at the first segment that has not expired: a segment expires with the youngest one
    at or below it, and nothing is known to expire behind offsets of unknown age.

    :param segments: all closed segments of the log directory, ascending.
    :param remote: the segments in remote storage that serve reads, ascending.
    :param log_start_offset: the leader's log start offset.
    :param retention_ms: ``retention.ms``, 0 or more.
    :param margin_ms: the margin, ms.
    :param now_ms: now, ms since the epoch, proven.
    """
    until_ms = now_ms + margin_ms - retention_ms
    local = ((s.base_offset, s.end_offset, s.max_timestamp_ms) for s in segments)
    copied = ((m.start_offset, m.end_offset, m.max_timestamp_ms) for m in remote)
    expired = log_start_offset
    for base, end, max_timestamp_ms in merge(local, copied):
        if end < log_start_offset:
            continue
        if base > expired or max_timestamp_ms >= until_ms:
            break
        expired = max(expired, end + 1)
    return expired if expired > log_start_offset else None


def lease_text(metadata: RemoteLogSegmentMetadata, limits: CopyLimits) -> str:
    """Say of a COPY_SEGMENT_STARTED of ours whose it is, and until when."""
    until = time_text(metadata.event_timestamp_ms + limits.lease_ms)
    segment_id = kafka_uuid_str(metadata.remote_log_segment_id.id)
    return (
        f"another run of the copier may be copying segment {segment_id} ({metadata.start_offset}..{metadata.end_offset}): "
        f"its lease ends at {until}"
    )
