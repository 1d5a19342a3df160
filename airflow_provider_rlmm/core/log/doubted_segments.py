# SPDX-License-Identifier: Apache-2.0
"""
The segments of all user partitions of some topics, by the rules of a broker's cache, and the user partitions of which it is
not known whether that is all.

:class:`~airflow_provider_rlmm.core.log.known_segments.PartitionSegments` refuses what is in doubt. This one says so of each
user partition: the others are told all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any
from uuid import UUID

from airflow_provider_rlmm.core.base.agreement import agreeing, number_of
from airflow_provider_rlmm.core.base.errors import EventLogAccessError, EventLogError
from airflow_provider_rlmm.core.log.event_decoding import events_of
from airflow_provider_rlmm.core.log.follower import LogFollower
from airflow_provider_rlmm.core.log.one_look import held
from airflow_provider_rlmm.core.log.protocol import MetadataLogReader
from airflow_provider_rlmm.core.records.cache import RemoteLogMetadataCache
from airflow_provider_rlmm.core.records.era import Era
from airflow_provider_rlmm.core.records.histories import Histories
from airflow_provider_rlmm.core.records.lost_records import lost_beginning
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import TopicIdPartition

_NO_SEGMENTS = RemoteLogMetadataCache()


class DoubtedSegments:
    """
    What some metadata partitions say about the segments of topics, read up to the high watermarks by :meth:`advance`.

    :param log: the log.
    :param metadata_partitions: which of it are read.
    :param topic_ids: whose segments are wanted.
    :param on_read: told how many records each batch had.
    """

    def __init__(
        self,
        log: MetadataLogReader,
        metadata_partitions: Collection[int],
        topic_ids: Collection[UUID],
        on_read: Callable[[int], object] = lambda _: None,
    ) -> None:
        self._log = log
        self._on_read = on_read
        self._topic_ids = frozenset(topic_ids)
        self._histories = Histories(grows=True)
        self._in_doubt: dict[int, str] = {}
        self._bad_records: dict[TopicIdPartition, str] = {}
        begins = log.beginning_offsets()
        for number in metadata_partitions:
            if (lost := lost_beginning(number, begins[number], log.losses.get(number))) is not None:
                self._in_doubt[number] = f"{lost.why}{lost.advice}"
        self._follower = LogFollower(log, {n: begins[n] for n in metadata_partitions if n not in self._in_doubt})

    def advance(self) -> None:
        """
        Read on, up to the high watermarks as of now. Where that cannot be done, all that was to be read is in doubt.

        :raises EventLogAccessError: if the log may not be read.
        """
        try:
            self._follower.advance(self._apply)
        except EventLogAccessError:
            raise
        except EventLogError as e:
            self._in_doubt |= dict.fromkeys(self._follower.positions, str(e))
            return
        if (era := self._log.era).era is Era.COMPACTED:
            why = f"records may be gone from anywhere, as the metadata topic is {era}"
            self._in_doubt |= dict.fromkeys(self._follower.positions, why)
        for hole in self._follower.open_holes():
            self._in_doubt.setdefault(hole.metadata_partition, f"{hole.why}. What to do: {hole.what_to_do}")

    def _apply(self, records: Any) -> None:
        decoded = events_of(records, self._topic_ids)
        for record in decoded.quarantined:
            why = f"{record} cannot be applied: look at the record, and have the topic repaired"
            if record.topic_id_partition is None:
                self._in_doubt.setdefault(record.metadata_partition, why)
            else:
                self._bad_records.setdefault(record.topic_id_partition, why)
        self._on_read(records.num_rows)
        for located in decoded.records:
            self._histories.apply(located)

    def names(self, tip: TopicIdPartition) -> bool:
        """
        Tell whether the log names a user partition, as far as it is known.

        :param tip: the user partition.
        """
        return tip in self._histories

    def cache(self, tip: TopicIdPartition) -> RemoteLogMetadataCache:
        """
        Return what is known of a user partition, as a broker's cache holds it; it changes with :meth:`advance`.

        :param tip: the user partition.
        """
        history = self._histories.get(tip)
        return _NO_SEGMENTS if history is None else history.cache

    def doubt(self, tip: TopicIdPartition) -> str | None:
        """
        Say why not all segments of a user partition are known, ``None`` where they are known.

        :param tip: the user partition, of a metadata partition that is read.
        """
        number = metadata_partition_for(tip, self._log.partition_count)
        if (why := self._in_doubt.get(number) or self._bad_records.get(tip)) is not None:
            return why
        history = self._histories.get(tip)
        if history is None or not history.without_add:
            return None
        offset = min(history.without_add.values())
        count = len(history.without_add)
        return (
            f"{number_of(count, 'of its segments has', 'of its segments have')} an incomplete history, see offset "
            f"{offset} of metadata partition {number}: it is not known which records "
            f"{agreeing(count, 'it holds', 'they hold')}. Have the doctor look at it"
        )


def records_of(log: MetadataLogReader, metadata_partitions: Collection[int]) -> dict[int, int]:
    """
    Return how many records metadata partitions hold, as of now.

    :param log: the log.
    :param metadata_partitions: which ones.
    """
    return {number: end - begin for number, (begin, end) in held(log).items() if number in metadata_partitions}


def groups_of(records: Mapping[int, int], most_records: int) -> Iterator[list[int]]:
    """
    Yield metadata partitions in groups that are read one after the other, so that memory holds the segments of one.

    :param records: how many records each of them holds.
    :param most_records: of a group; a metadata partition is never cut.
    """
    group: list[int] = []
    in_group = 0
    for number, count in records.items():
        if group and in_group + count > most_records:
            yield group
            group, in_group = [], 0
        group.append(number)
        in_group += count
    if group:
        yield group
