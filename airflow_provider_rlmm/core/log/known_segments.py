# SPDX-License-Identifier: Apache-2.0
"""What a reader asks about the remote log segments of user partitions, and two that answer: a list, and the log itself."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from threading import Lock
from typing import Any, Protocol, runtime_checkable

from airflow_provider_rlmm.core.base.agreement import agreeing, number_of
from airflow_provider_rlmm.core.base.errors import PartitionNotAssignedError, TopicInDoubtError
from airflow_provider_rlmm.core.log.event_decoding import QuarantinedRecord, events_of
from airflow_provider_rlmm.core.log.follower import LogFollower
from airflow_provider_rlmm.core.log.protocol import MetadataLogReader
from airflow_provider_rlmm.core.log.topic_histories import ReadHistories
from airflow_provider_rlmm.core.records.cache import RemoteLogMetadataCache
from airflow_provider_rlmm.core.records.era import Era
from airflow_provider_rlmm.core.records.histories import Histories
from airflow_provider_rlmm.core.records.history import UserPartitionHistory
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    TopicIdPartition,
)
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState

__all__ = ["KnownSegments", "PartitionSegments", "RemoteLogSegments"]


class RemoteLogSegments(Protocol):
    """
    The reading half of Kafka's ``RemoteLogMetadataManager``; any
    :class:`~airflow_provider_rlmm.library.remote_log_metadata_manager.RemoteLogMetadataManager` is one, too.

    Every method raises ``PartitionNotAssignedError`` for a user partition that it was not told to know.
    """

    def remote_log_segment_metadata(
        self, topic_id_partition: TopicIdPartition, leader_epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        """Return the segment that serves reads of an offset written in a leader epoch."""

    def highest_offset_for_epoch(self, topic_id_partition: TopicIdPartition, leader_epoch: int) -> int | None:
        """Return the largest offset of a leader epoch that was ever copied, inclusive."""

    def list_remote_log_segments(
        self, topic_id_partition: TopicIdPartition, leader_epoch: int | None = None
    ) -> list[RemoteLogSegmentMetadata]:
        """Return the segments that are not ``DELETE_SEGMENT_FINISHED``, by start offset."""

    def next_segment_with_txn_index(
        self, topic_id_partition: TopicIdPartition, leader_epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        """Return the first segment from an offset on, without a gap, that has aborted transactions."""


@runtime_checkable
class AdvancingSegments(Protocol):
    """Knows of nothing newer than its last :meth:`advance`: who misses a segment lets it look again."""

    def advance(self) -> None:
        """Take in what was written since."""


class KnownSegments:
    """
    :class:`RemoteLogSegments` of some user partitions as of one moment. It can be pickled.

    :param caches: what is known of each user partition.
    """

    def __init__(self, caches: Mapping[TopicIdPartition, RemoteLogMetadataCache]) -> None:
        self._caches = dict(caches)

    @classmethod
    def of(cls, segments: Iterable[RemoteLogSegmentMetadata]) -> KnownSegments:
        """
        Return what a list of segments knows, such as a task was given it.

        :param segments: segments in any state; of two that cover the same offsets the later one in the list serves reads.
        """
        caches: dict[TopicIdPartition, RemoteLogMetadataCache] = {}
        for metadata in segments:
            segment_id = metadata.remote_log_segment_id
            cache = caches.setdefault(segment_id.topic_id_partition, RemoteLogMetadataCache())
            cache.add_copy_in_progress_segment(replace(metadata, state=RemoteLogSegmentState.COPY_SEGMENT_STARTED))
            if metadata.state is not RemoteLogSegmentState.COPY_SEGMENT_STARTED:
                update = RemoteLogSegmentMetadataUpdate(
                    segment_id,
                    metadata.event_timestamp_ms,
                    metadata.custom_metadata,
                    metadata.state,
                    metadata.broker_id,
                )
                cache.update_remote_log_segment_metadata(update)
        return cls(caches)

    def as_of_now(self) -> KnownSegments:
        """Return what is known at this moment: it never advances, and can be pickled."""
        return KnownSegments({tip: cache.copy() for tip, cache in self._caches.items()})

    def cache(self, topic_id_partition: TopicIdPartition) -> RemoteLogMetadataCache:
        """
        Return what is known of a user partition at this moment, as a broker's cache holds it.

        :param topic_id_partition: the user partition.
        :raises PartitionNotAssignedError: if nothing was read about it.
        """
        return self._cache(topic_id_partition).copy()

    def remote_log_segment_metadata(
        self, topic_id_partition: TopicIdPartition, leader_epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        """See :class:`RemoteLogSegments`."""
        return self._cache(topic_id_partition).remote_log_segment_metadata(leader_epoch, offset)

    def highest_offset_for_epoch(self, topic_id_partition: TopicIdPartition, leader_epoch: int) -> int | None:
        """See :class:`RemoteLogSegments`."""
        return self._cache(topic_id_partition).highest_offset_for_epoch(leader_epoch)

    def list_remote_log_segments(
        self, topic_id_partition: TopicIdPartition, leader_epoch: int | None = None
    ) -> list[RemoteLogSegmentMetadata]:
        """See :class:`RemoteLogSegments`."""
        return self._cache(topic_id_partition).list_remote_log_segments(leader_epoch)

    def next_segment_with_txn_index(
        self, topic_id_partition: TopicIdPartition, leader_epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        """See :class:`RemoteLogSegments`."""
        return self._cache(topic_id_partition).next_segment_with_txn_index(leader_epoch, offset)

    def _cache(self, topic_id_partition: TopicIdPartition) -> RemoteLogMetadataCache:
        try:
            return self._caches[topic_id_partition]
        except KeyError:
            raise PartitionNotAssignedError(
                f"nothing was read about {topic_id_partition}: name it where its segments are read"
            ) from None


class PartitionSegments(KnownSegments):
    """
    :class:`RemoteLogSegments` of a few user partitions, by the rules of a broker's cache, read from the metadata topic.

    Only their own metadata partitions are read, up to the high watermarks. A broker passes over what it cannot read, and over
    an update whose add is missing; here that is an error, because a segment that no record names looks like the end of the
    log.

    :param log: the log; it is read by :meth:`advance`, for the first time at once.
    :param partitions: which user partitions.
    :param allowed_quarantine: names of error codes that raise no doubt, as the cleaner's parameter has them.
    :param or_compacted: whether a compacted log is read for what it still names: :attr:`why_not_whole` then says that it
        is not known whether that is all.
    :param read: what was just read of them from the beginning of this log; ``None`` where nothing was.
    :raises TopicInDoubtError: if records about these user partitions may be missing.
    """

    def __init__(
        self,
        log: MetadataLogReader,
        partitions: Collection[TopicIdPartition],
        *,
        allowed_quarantine: frozenset[str] = frozenset(),
        or_compacted: bool = False,
        read: ReadHistories | None = None,
    ) -> None:
        # Asked once: a log that turns out to be compacted later is refused.
        self.why_not_whole = str(log.era) if or_compacted and log.era.era is Era.COMPACTED else None
        """What shows that the log may lack segments, ``None`` where none is missing."""
        known = {} if read is None else read.histories
        mine = (known[tip] if tip in known else UserPartitionHistory(tip) for tip in partitions)
        self._histories = Histories(mine, grows=False)
        super().__init__({tip: history.cache for tip, history in self._histories.items()})
        self._allowed_quarantine = allowed_quarantine
        self._advancing = Lock()
        numbers = {metadata_partition_for(tip, log.partition_count) for tip in partitions}
        self._follower = LogFollower.from_beginning(log, numbers, None if read is None else read.read)
        self._follower.require_whole(
            "segments that only the lost records name would be left out: read the objects of the topic from storage by hand",
            or_compacted=self.why_not_whole is not None,
        )
        for record in () if read is None else read.quarantined:
            if record.metadata_partition in numbers:
                self._require_harmless(record)
        self.advance()

    def advance(self) -> None:
        """
        Read on, up to the high watermarks as of now.

        :raises TopicInDoubtError: if a record cannot be applied that may be about these user partitions, or one of them has a
            segment whose history is incomplete.
        :raises EventLogUnavailableError: if the log could not be read whole.
        :raises OffsetOutOfRangeError: if the log has lost records since it was read.
        :raises LogReplacedError: if it is not the log that was read before.
        """
        with self._advancing:
            self._follower.advance(self._apply)
            # Not before all was read: where the segment's deletion is finished further on, nothing is missing.
            for history in () if self.why_not_whole else self._histories.values():
                _require_complete(history)

    def unknown_segments(self, tip: TopicIdPartition) -> int:
        """
        Return how many segments of a user partition are named of which it is not known what they hold, or whether they are
        there.

        :param tip: one that is known.
        """
        return len(self._histories[tip].without_add)

    def _apply(self, records: Any) -> None:
        decoded = events_of(records, {tip.topic_id for tip in self._histories})
        for record in decoded.quarantined:
            self._require_harmless(record)
        for located in decoded.records:
            self._histories.apply(located)

    def _require_harmless(self, record: QuarantinedRecord) -> None:
        mine = record.topic_id_partition is None or record.topic_id_partition in self._histories
        if mine and record.code not in self._allowed_quarantine:
            raise TopicInDoubtError(
                f"{record} cannot be applied, and may be about a segment that is to be read: look at the record, then allow "
                f"quarantined records of this kind ({record.code}) or have the topic repaired"
            )


def _require_complete(history: UserPartitionHistory) -> None:
    """Refuse a user partition that names a segment of which it is not known what it holds, or whether it serves reads."""
    if history.without_add:
        offset, number = min(history.without_add.values()), len(history.without_add)
        raise TopicInDoubtError(
            f"{number_of(number, 'segment')} of {history.topic_id_partition} {agreeing(number, 'has', 'have')} an "
            f"incomplete history, see offset {offset} of its "
            "metadata partition: it is not known which records they hold, and all of them would be left out. Have the doctor "
            "look at it, and read the objects of the topic from storage by hand"
        )
