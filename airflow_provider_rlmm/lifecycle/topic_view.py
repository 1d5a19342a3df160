# SPDX-License-Identifier: Apache-2.0
"""
The whole metadata topic as marker and planner see it: read once, as columns, with one history per user partition where a
decision is due.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from typing import Any
from uuid import UUID

from airflow_provider_rlmm.clock import Clock
from airflow_provider_rlmm.event_log.protocol import ClusterTopics, MetadataEventLog
from airflow_provider_rlmm.event_log.topic_state import TopicState
from airflow_provider_rlmm.lifecycle.replay import MetadataPartitionReplay
from airflow_provider_rlmm.lifecycle.view import MetadataPartitionView
from airflow_provider_rlmm.metadata.read_tail import ReadTail
from airflow_provider_rlmm.policy.plan import Count


class TopicReplay:
    """
    What marker and planner ask of the whole topic; :meth:`advance` comes first.

    :param log: the log.
    :param topics: the cluster.
    :param clock: time.
    :raises ClusterMismatchError: if log and topics are of different clusters.
    """

    def __init__(self, log: MetadataEventLog, topics: ClusterTopics, clock: Clock) -> None:
        self._log = log
        self._topic = TopicState(log, topics, clock=clock)

    def advance(self, only: Collection[int] | None = None) -> None:
        """
        Read on, up to the high watermarks as of now.

        :param only: these metadata partitions, ``None`` for all.
        :raises EventLogError: if the log cannot be read.
        """
        self._topic.advance(only=only)
        for name in ("_user_partitions", "_unresolved", "_unfinished"):
            self.__dict__.pop(name, None)

    @cached_property
    def _user_partitions(self) -> dict[UUID, list[dict[str, Any]]]:
        """Topic id → its user partitions."""
        found: dict[UUID, list[dict[str, Any]]] = {}
        columns = ["metadata_partition", "topic_id", "topic", "partition"]
        for row in self._topic.state.user_partitions.select(columns).to_pylist():
            found.setdefault(UUID(bytes=row["topic_id"]), []).append(row)
        return found

    @cached_property
    def _unresolved(self) -> list[dict[str, Any]]:
        columns = ["metadata_partition", "topic_id", "maybe_finished"]
        return list(self._topic.state.unresolved.select(columns).to_pylist())

    @cached_property
    def _unfinished(self) -> list[dict[str, Any]]:
        """Number and bytes of the unfinished segments of each topic in each metadata partition."""
        segments = self._topic.state.segments.select(["metadata_partition", "topic_id", "segment_size_in_bytes"])
        sums = [("segment_size_in_bytes", "count"), ("segment_size_in_bytes", "sum")]
        return list(segments.group_by(["metadata_partition", "topic_id"]).aggregate(sums).to_pylist())

    def names_of(self, metadata_partition: int, topic_id: UUID) -> frozenset[str]:
        """
        Return every name under which a topic id was seen in a metadata partition.

        :param metadata_partition: which one.
        :param topic_id: the id.
        """
        return frozenset(
            row["topic"]
            for row in self._user_partitions.get(topic_id, ())
            if row["metadata_partition"] == metadata_partition
        )

    def unresolved(self, metadata_partition: int) -> frozenset[UUID]:
        """
        Return the topics of which a segment's state is not certain.

        :param metadata_partition: where their events lie.
        """
        return _topics(self._unresolved, metadata_partition)

    def under_way(self, metadata_partition: int) -> frozenset[UUID]:
        """
        Return the topics of which a user partition's deletion began and is not finished.

        :param metadata_partition: where their events lie.
        """
        under_way = self._topic.state.deletions_under_way()
        ids = {tip.topic_id for tip in under_way}
        return frozenset(
            topic_id
            for topic_id in ids
            if any(row["metadata_partition"] == metadata_partition for row in self._user_partitions[topic_id])
        )

    def with_segments(self, metadata_partition: int) -> frozenset[UUID]:
        """
        Return the topics that have unfinished segments.

        :param metadata_partition: where their events lie.
        """
        return _topics(self._unfinished, metadata_partition)

    def unfinished(self, metadata_partition: int) -> Count:
        """
        Return how many segments are not finished, of whatever topic.

        :param metadata_partition: where their events lie.
        """
        return Count.sum(
            Count(row["segment_size_in_bytes_count"], row["segment_size_in_bytes_sum"])
            for row in self._unfinished
            if row["metadata_partition"] == metadata_partition
        )

    def tail(self, metadata_partition: int) -> ReadTail | None:
        """
        Return what a later run may know the last records by, ``None`` where there was none.

        :param metadata_partition: which one.
        """
        return self._topic.tails[metadata_partition].seen()

    def view(self, metadata_partition: int, topic_ids: Collection[UUID]) -> MetadataPartitionView:
        """
        Return what is known of a metadata partition, with the histories of some topics.

        Columns do not keep finished segments, so an update that came after its segment was finished looks like one without
        its add. Topics of which this can be are read from the log once more.

        :param metadata_partition: which one.
        :param topic_ids: the topics whose histories are wanted.
        :raises EventLogError: if the log cannot be read.
        """
        topic = self._topic
        view = MetadataPartitionView(
            metadata_partition,
            begin=max((gap.end for gap in topic.gaps if gap.metadata_partition == metadata_partition), default=0),
            end=topic.next_offsets[metadata_partition],
            histories=topic.state.histories(metadata_partition, topic_ids),
            quarantined=[q for q in topic.quarantined if q.metadata_partition == metadata_partition],
            routed_records=topic.routed[metadata_partition],
        )
        maybe_finished = _topics((row for row in self._unresolved if row["maybe_finished"]), metadata_partition)
        if doubtful := maybe_finished.intersection(topic_ids):
            replay = MetadataPartitionReplay(self._log, metadata_partition, doubtful)
            replay.advance()
            view.histories |= replay.histories
        return view


def _topics(rows: Iterable[Mapping[str, Any]], metadata_partition: int) -> frozenset[UUID]:
    return frozenset(UUID(bytes=row["topic_id"]) for row in rows if row["metadata_partition"] == metadata_partition)
