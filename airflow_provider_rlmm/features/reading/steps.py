# SPDX-License-Identifier: Apache-2.0
"""Reading remote log segments without a broker: which topic is meant, which offsets, and its records into Parquet."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from uuid import UUID

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.errors import OffsetNotInRemoteLogError, RemoteLogError
from airflow_provider_rlmm.core.base.quoting import in_quotes
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import TopicIdPartition, kafka_uuid_str, parse_kafka_uuid
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.core.segments.lineage import LeaderEpochCheckpoint
from airflow_provider_rlmm.core.segments.read_range import OffsetRange, ReadIsolation, ReadRange, within
from airflow_provider_rlmm.core.world.topic_entries import names_like

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_rlmm.core.log.known_segments import KnownSegments, PartitionSegments
    from airflow_provider_rlmm.core.log.protocol import MetadataLogReader
    from airflow_provider_rlmm.core.log.topic_histories import ReadHistories
    from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata
    from airflow_provider_rlmm.core.runs.cleaner_session import CleanerSession
    from airflow_provider_rlmm.core.storage.remote_storage import RemoteStorageManager
    from airflow_provider_rlmm.features.reading.parquet import WrittenRecords
    from airflow_provider_rlmm.features.reading.reader import RemoteLogReader
    from airflow_provider_rlmm.features.reading.timestamp_search import FoundOffset

logger = logging.getLogger(__name__)

_MAX_SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class PartitionRead:
    """What was read of one user partition."""

    partition: int  # of the topic
    range: OffsetRange  # that was read
    uri: str  # of the file
    written: WrittenRecords  # what lies in it


@dataclass(frozen=True, slots=True)
class NotWhole:
    """
    Why it cannot be said that all of a topic is read, and by what a person sees whether something is missing at its front.

    :param why: the reason, in words.
    :param log_start_offsets: user partition → where ListOffsets says that it begins, inclusive, for all that the topic has;
        none where the cluster does not show the topic.
    :param unknown_segments: user partition → segments that are named, and whose records are not known.
    """

    why: str
    log_start_offsets: Mapping[int, int]
    unknown_segments: Mapping[int, int]

    def beginning_of(self, partition: int, first_offset: int | None) -> str:
        """
        Say where a user partition begins, and where what was read of it does.

        :param partition: which one.
        :param first_offset: the first offset that was read, inclusive; ``None`` where nothing was.
        """
        read = "nothing was read" if first_offset is None else f"read from offset {first_offset} on"
        start = self.log_start_offsets.get(partition)
        begins = "the cluster shows no such topic id" if start is None else f"ListOffsets: it begins at offset {start}"
        unknown = self.unknown_segments.get(partition, 0)
        named = (
            f"; {number_of(unknown, 'segment is', 'segments are')} named whose contents are not known"
            if unknown
            else ""
        )
        return f"partition {partition}: {read}; {begins}{named}"


class RemoteLogOfTopic:
    """
    What remote storage has of one topic, as of one moment.

    :param reader: reads it.
    :param known_segments: knows its segments.
    :param partitions: its user partitions.
    :param not_whole: why it cannot be said that this is all, ``None`` where it is.
    """

    def __init__(
        self,
        reader: RemoteLogReader,
        known_segments: KnownSegments,
        partitions: Collection[TopicIdPartition],
        not_whole: NotWhole | None = None,
    ) -> None:
        self.not_whole = not_whole
        self.said: list[str] = []
        """What was decided about how it is read."""
        self.problems: list[str] = []
        """What of that a person has to see: records were read all the same."""
        self.reader = reader
        self.partitions = sorted(partitions, key=lambda tip: tip.partition)
        self.known_segments = known_segments
        self._lineages: dict[TopicIdPartition, LeaderEpochCheckpoint | None] = {}

    def segments(self, tip: TopicIdPartition) -> list[RemoteLogSegmentMetadata]:
        """Return the segments that serve reads or did so before others took their place, by start offset."""
        known = self.known_segments.list_remote_log_segments(tip)
        return [metadata for metadata in known if metadata.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED]

    def lineage(self, tip: TopicIdPartition) -> LeaderEpochCheckpoint | None:
        """
        Return the lineage of a user partition as its newest segment keeps it, ``None`` where it has no segment.

        :raises DamagedObjectError: if it cannot be read.
        :raises StorageError: if storage refuses, or does not answer.
        """
        if tip not in self._lineages:
            self._lineages[tip] = self.reader.lineage(tip) if self.segments(tip) else None
        return self._lineages[tip]

    def bounds(
        self, tip: TopicIdPartition, isolation: ReadIsolation = ReadIsolation.READ_UNCOMMITTED
    ) -> OffsetRange | None:
        """
        Return the offsets that can be read, ``None`` where there are none.

        :param tip: the user partition.
        :param isolation: with ``READ_COMMITTED`` they end at the first transaction that is open where the remote log ends.
        :raises DamagedObjectError: if its lineage cannot be read.
        :raises StorageError: if storage refuses, or does not answer.
        """
        lineage = self.lineage(tip)
        if lineage is None:
            return None
        return self.reader.remote_offsets(tip, isolation=isolation, leader_epochs=lineage)

    def find_offset(self, tip: TopicIdPartition, time_ms: int) -> FoundOffset | None:
        """
        Return the first record with a timestamp or a later one, ``None`` where remote storage has none.

        :param tip: the user partition.
        :param time_ms: ms since the epoch, inclusive.
        :raises RlmmError: if storage cannot be read, or is damaged.
        """
        bounds, lineage = self.bounds(tip), self.lineage(tip)
        if bounds is None or lineage is None:
            return None
        return self.reader.find_offset_by_timestamp(tip, time_ms, bounds.start, lineage, bounds.end)

    def offsets(
        self, tip: TopicIdPartition, wanted: ReadRange, isolation: ReadIsolation, *, allow_incomplete: bool = False
    ) -> OffsetRange | None:
        """
        Return the offsets that a range means, ``None`` where nothing is to be read.

        :param tip: the user partition.
        :param wanted: the range.
        :param isolation: by which it is read.
        :param allow_incomplete: take what there is of it.
        :raises OffsetNotInRemoteLogError: if some of it is not in remote storage, or in an open transaction.
        """
        bounds = self.bounds(tip, isolation)
        if bounds is None:
            if allow_incomplete or wanted == ReadRange():
                return None
            raise OffsetNotInRemoteLogError(f"{tip} has no segment in remote storage that can be read")
        start, end = wanted.start_offset, wanted.end_offset
        if wanted.start_ms is not None:
            first = self.find_offset(tip, wanted.start_ms)
            start = bounds.end if first is None else min(first.offset, bounds.end)
        if wanted.end_ms is not None:
            behind = self.find_offset(tip, wanted.end_ms)
            if behind is None and not allow_incomplete:
                raise OffsetNotInRemoteLogError(
                    f"remote storage has no record of {tip} from the end of the range on, so the rest of the range may not "
                    f"be copied yet: it has offsets up to {bounds.end - 1}. Wait for it, name no end, or allow an "
                    "incomplete range"
                )
            end = bounds.end if behind is None else behind.offset
        return within(tip, bounds, start, end, allow_incomplete=allow_incomplete)

    def read(self, tip: TopicIdPartition, offsets: OffsetRange, isolation: ReadIsolation) -> Iterator[pa.RecordBatch]:
        """
        Yield the records of a user partition.

        :param tip: the user partition.
        :param offsets: which ones.
        :param isolation: whether records of aborted transactions are among them.
        :raises RlmmError: if storage cannot be read, or is damaged.
        """
        if offsets.start < offsets.end:
            yield from self.reader.read(
                tip, offsets.start, offsets.end, isolation=isolation, leader_epochs=self.lineage(tip)
            )


def open_remote_log(
    session: CleanerSession,
    topic: str,
    partitions: Collection[int] | None = None,
    *,
    allowed_quarantine: frozenset[str] = frozenset(),
    bytes_per_second: int | None = None,
    or_compacted: bool = False,
) -> RemoteLogOfTopic:
    """
    Read the metadata topic, and return what remote storage has of a topic.

    :param session: of the run.
    :param topic: its name or its id.
    :param partitions: of the topic, ``None`` for all that the metadata topic names.
    :param allowed_quarantine: kinds of records that cannot be applied and are known not to be about this topic.
    :param bytes_per_second: the most that is fetched in a second, ``None`` for as much as the store gives.
    :param or_compacted: whether a compacted metadata topic is read for what it still names: the caller then says what
        ``not_whole`` does.
    :raises TopicInDoubtError: if the metadata topic lost records, or has some that cannot be applied.
    :raises RemoteLogError: if the metadata topic does not name it, or names several ids by that name.
    :raises EventLogError: if the metadata topic cannot be read.
    """
    from airflow_provider_rlmm.core.log.topic_histories import TopicHistories

    histories = TopicHistories(topic, _id_or_none(topic))
    with session.topic() as replay:
        replay.advance(on_decoded=histories.take)
        found = _user_partitions(replay.partitions(), topic, partitions)
        numbers = {metadata_partition_for(tip, session.log.partition_count) for tip in found}
        read = replay.read_histories(histories, numbers)
    return remote_log_of(
        session,
        found,
        allowed_quarantine=allowed_quarantine,
        bytes_per_second=bytes_per_second,
        or_compacted=or_compacted,
        read=read,
    )


def remote_log_of(
    session: CleanerSession,
    partitions: Collection[TopicIdPartition],
    *,
    allowed_quarantine: frozenset[str] = frozenset(),
    bytes_per_second: int | None = None,
    or_compacted: bool = False,
    read: ReadHistories | None = None,
) -> RemoteLogOfTopic:
    """
    Return what remote storage has of some user partitions of a topic; see :func:`open_remote_log`.

    :param session: of the run.
    :param partitions: the user partitions.
    :param allowed_quarantine: kinds of records that cannot be applied and are known not to be about this topic.
    :param bytes_per_second: the most that is fetched in a second, ``None`` for as much as the store gives.
    :param or_compacted: see :func:`open_remote_log`.
    :param read: what was read of them just now, from the beginning of the log; ``None`` reads them.
    :raises TopicInDoubtError: if the metadata topic lost records, or has some that cannot be applied.
    :raises EventLogError: if the metadata topic cannot be read.
    """
    from airflow_provider_rlmm.core.log.known_segments import PartitionSegments
    from airflow_provider_rlmm.features.reading.reader import RemoteLogReader

    segments = PartitionSegments(
        session.log, partitions, allowed_quarantine=allowed_quarantine, or_compacted=or_compacted, read=read
    )
    storage = session.storage.get_storage_manager()
    reader = RemoteLogReader(segments, storage, bytes_per_second=bytes_per_second)
    return RemoteLogOfTopic(reader, segments, partitions, _not_whole(session, segments, partitions))


def _not_whole(
    session: CleanerSession, segments: PartitionSegments, partitions: Collection[TopicIdPartition]
) -> NotWhole | None:
    if segments.why_not_whole is None:
        return None
    why = (
        f"the metadata topic is {segments.why_not_whole}. What it does not say may have been said: segments may be missing "
        "at either end of what was read"
    )
    starts = _log_start_offsets(session, next(iter(partitions)))
    return NotWhole(why, starts, {tip.partition: segments.unknown_segments(tip) for tip in partitions})


def _log_start_offsets(session: CleanerSession, tip: TopicIdPartition) -> dict[int, int]:
    """Return where brokers say that the user partitions of a topic begin; none where its name is another topic's by now."""
    if session.topics.describe_topics([tip.topic]).answers.get(tip.topic) != tip.topic_id:
        return {}
    topics = session.access.get_cluster_topics()
    offsets = topics.log_start_offsets(topics.partition_counts([tip.topic]))
    return {number: offset for (_, number), offset in offsets.items()}


def remote_log_reader(
    log: MetadataLogReader,
    storage: RemoteStorageManager,
    partitions: Collection[TopicIdPartition],
    *,
    bytes_per_second: int | None = None,
    index_cache_size_in_bytes: int | None = None,
    allowed_quarantine: frozenset[str] = frozenset(),
) -> RemoteLogReader:
    """
    Return what reads user partitions from remote storage; the metadata topic is read at once.

    :param log: kept open while the reader is used.
    :param storage: where the segments lie.
    :param partitions: the user partitions.
    :param bytes_per_second: most bytes of logs that are fetched per second, ``None`` for no limit.
    :param index_cache_size_in_bytes: most bytes of indexes that are kept in memory, ``None`` for the default.
    :param allowed_quarantine: kinds of records that cannot be applied and are known not to be about these partitions.
    :raises TopicInDoubtError: if the metadata topic lost records, or has some that cannot be applied.
    :raises EventLogError: if the metadata topic cannot be read.
    """
    from airflow_provider_rlmm.core.log.known_segments import PartitionSegments
    from airflow_provider_rlmm.features.reading.index_cache import DEFAULT_SIZE_IN_BYTES, RemoteIndexCache
    from airflow_provider_rlmm.features.reading.reader import RemoteLogReader

    size = DEFAULT_SIZE_IN_BYTES if index_cache_size_in_bytes is None else index_cache_size_in_bytes
    segments = PartitionSegments(log, partitions, allowed_quarantine=allowed_quarantine)
    return RemoteLogReader(
        segments, storage, index_cache=RemoteIndexCache(storage, size_in_bytes=size), bytes_per_second=bytes_per_second
    )


def read_into_parquet(
    log: RemoteLogOfTopic,
    uri: str,
    wanted: Mapping[int, ReadRange],
    isolation: ReadIsolation,
    *,
    allow_incomplete: bool = False,
) -> list[PartitionRead]:
    """
    Write ``<uri>/partition-<n>.parquet`` per user partition, records by offset. All ranges are looked at before the first is
    read; one without records leaves a file without rows.

    :param log: of the topic.
    :param uri: of the folder; files of the same names are replaced, each whole or not at all.
    :param wanted: partition → its range, for each partition of ``log``.
    :param isolation: whether records of aborted transactions are among them.
    :param allow_incomplete: take what there is of a range.
    :raises OffsetNotInRemoteLogError: if some of a range is not in remote storage.
    :raises RlmmError: if storage cannot be read, or is damaged; the files of earlier partitions are there.
    """
    from airflow_provider_rlmm.features.reading.parquet import write_records

    found = [
        (
            tip,
            log.offsets(tip, wanted[tip.partition], isolation, allow_incomplete=allow_incomplete) or OffsetRange(0, 0),
        )
        for tip in log.partitions
    ]
    done = []
    for tip, offsets in found:
        file = f"{uri.rstrip('/')}/partition-{tip.partition}.parquet"
        written = write_records(log.read(tip, offsets, isolation), file)
        logger.info("%s: %d records of offsets %d to %d, exclusive", tip, written.records, offsets.start, offsets.end)
        done.append(PartitionRead(tip.partition, offsets, file, written))
    return done


def _user_partitions(
    known: Collection[TopicIdPartition], topic: str, partitions: Collection[int] | None
) -> list[TopicIdPartition]:
    """Return the user partitions that the user means; a name that has been used twice means nothing."""
    named = [tip for tip in known if tip.topic == topic] or [tip for tip in known if tip.topic_id == _id_or_none(topic)]
    ids = sorted({kafka_uuid_str(tip.topic_id) for tip in named})
    if not ids:
        raise RemoteLogError(
            f"the metadata topic names no topic {in_quotes(topic)}, by name or by id: nothing of it was ever copied"
            f"{names_like(topic, {tip.topic for tip in known})}"
        )
    if len(ids) > 1:
        shown = ", ".join(ids[:_MAX_SHOWN])
        raise RemoteLogError(
            f"{in_quotes(topic)} is the name of {number_of(len(ids), 'topic id')}: {shown}. Give the id that you mean"
        )
    if partitions is None:
        return named
    numbers = {tip.partition: tip for tip in named}
    if missing := sorted(set(partitions) - numbers.keys()):
        raise RemoteLogError(
            f"the metadata topic names no partitions {missing[:_MAX_SHOWN]} of {in_quotes(topic)}: nothing of them was ever "
            f"copied. It names {len(numbers)}, from {min(numbers)} to {max(numbers)}"
        )
    return [numbers[number] for number in sorted(set(partitions))]


def _id_or_none(text: str) -> UUID | None:
    try:
        return parse_kafka_uuid(text)
    except ValueError:
        return None
