# SPDX-License-Identifier: Apache-2.0
"""
The whole metadata topic as the tasks of a run see it: read once, as columns, with one history per user partition where a
decision is due.

What one task has read the next one need not read again: it goes on from a snapshot. A snapshot may only narrow the work:
before anything is written or deleted marker and cleaner rebuild the partitions concerned from the log itself.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any
from uuid import UUID

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.arrow_arrays import is_among
from airflow_provider_rlmm.core.base.clock import Clock
from airflow_provider_rlmm.core.base.errors import RlmmError
from airflow_provider_rlmm.core.log.late_updates import without_add
from airflow_provider_rlmm.core.log.protocol import ClusterTopics, MetadataLogReader
from airflow_provider_rlmm.core.log.snapshot import SnapshotStore
from airflow_provider_rlmm.core.log.topic_histories import ReadHistories, TopicHistories
from airflow_provider_rlmm.core.log.topic_state import Progress, ProgressListener, TopicState, ignore_progress
from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.core.records.read_tail import ReadTail
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentId, TopicIdPartition
from airflow_provider_rlmm.core.world.named_prefixes import NamedPrefixes
from airflow_provider_rlmm.core.world.replay import MetadataPartitionView

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_rlmm.core.log.folded_topic import FoldedTopic
    from airflow_provider_rlmm.core.log.metadata_settings import HealthFinding
    from airflow_provider_rlmm.core.records.columnar import ApplyReport
    from airflow_provider_rlmm.core.records.fold.selected import SelectedSegments
    from airflow_provider_rlmm.core.records.folded import Folded
    from airflow_provider_rlmm.core.storage.layout import Layout

logger = logging.getLogger(__name__)

_OF_THE_STATE = ("segments", "not_finished", "_user_partitions", "_unresolved", "_under_way", "_unfinished")


def _ignore(_: Any) -> None: ...


class TopicReplay:
    """
    What the tasks of a run ask of the whole topic; :meth:`advance` comes first.

    :param log: the log.
    :param topics: the cluster.
    :param clock: time.
    :param snapshots: where an earlier task may have left a snapshot; ``None`` reads the log from its beginning.
    :param on_progress: told how far each reading is.
    :param layout: tells which key prefixes records name; ``None`` where they are not asked for.
    :param folded: what the Spark job has folded, which is begun with where it knows more than the snapshot. No snapshot is
        left of what came of it.
    :raises ClusterMismatchError: if log and topics are of different clusters.
    :raises EventLogError: if the log cannot be read.
    """

    def __init__(
        self,
        log: MetadataLogReader,
        topics: ClusterTopics,
        clock: Clock,
        snapshots: SnapshotStore | None = None,
        *,
        on_progress: ProgressListener = ignore_progress,
        layout: Layout | None = None,
        folded: FoldedTopic | None = None,
    ) -> None:
        self.log = log
        self.topics = topics
        self._clock = clock
        self._snapshots = snapshots
        self._on_progress = on_progress
        self._topic = (
            TopicState(log, topics, clock=clock, keep_finished=True)
            if snapshots is None
            else TopicState.resume(snapshots, log, topics, folded=folded, clock=clock, keep_finished=True)
        )
        self._prefixes = None if layout is None else NamedPrefixes(layout, self._topic.key_prefixes)
        self.resumed_at: Mapping[int, int] = dict(self._topic.next_offsets)
        """Metadata partition → first offset that is not in the snapshot, inclusive; 0 where there was none."""
        self.known_from = self._topic.known_from
        """Where an earlier task has left what was not read here; ``None`` where all that is known was read here."""
        self.records_read = 0
        """Number of records that were read here: those of the snapshot are not among them."""
        self.is_behind = True
        """Whether nothing but a snapshot is known of some metadata partitions, or nothing at all."""
        self._begins: Mapping[int, int] = {}
        self._unwritten = 0

    def advance(self, only: Collection[int] | None = None, on_decoded: Callable[[Any], object] = _ignore) -> None:
        """
        Read on, up to the high watermarks as of now.

        :param only: these metadata partitions, ``None`` for all.
        :param on_decoded: called with the records that are read, as columns, a chunk at a time.
        :raises EventLogError: if the log cannot be read.
        """
        read_before = self.records_read

        def note(progress: Progress) -> None:
            self.records_read = read_before + progress.records
            self._on_progress(progress)

        def take(decoded: Any, _: ApplyReport) -> None:
            if self._prefixes is not None:
                self._prefixes.note(decoded)
            on_decoded(decoded)

        try:
            self._topic.advance(note, take, only)
        finally:
            if self.records_read != read_before:
                for name in _OF_THE_STATE:
                    self.__dict__.pop(name, None)
        # Of what was deleted since it can no longer be said what it was, even by an earlier reader.
        self._begins = self.log.beginning_offsets()
        self._unwritten += self.records_read - read_before
        if only is None:
            self.is_behind = False
            logger.info("metadata topic: %s", self.what_was_read)

    @property
    def key_prefixes(self) -> frozenset[str]:
        """The key prefixes below which copies were made, as far as records name them and a layout was given."""
        return frozenset(self._topic.key_prefixes)

    @property
    def what_was_read(self) -> str:
        """How many records were read here, in words."""
        known = sum(self.resumed_at.values())
        if not known:
            return f"{number_of(self.records_read, 'record was', 'records were')} read, all that there are"
        if self.folded is not None:
            return f"{number_of(self.records_read, 'record was', 'records were')} read; {self.folded.said_at(self._clock())}"
        return (
            f"{number_of(self.records_read, 'record was', 'records were')} read; the {number_of(known, 'offset')} "
            "below them were known from an earlier task"
        )

    @property
    def folded(self) -> Folded | None:
        """The generation of the Spark job that this began with, ``None`` where there was none."""
        return self._topic.folded

    def read_histories(self, topic: TopicHistories, metadata_partitions: Collection[int]) -> ReadHistories | None:
        """
        Return what :meth:`advance` has read of a topic; ``None`` where a snapshot has spared it some of that.

        :param topic: what was given each record that was read.
        :param metadata_partitions: where the topic's events lie.
        """
        if any(self.resumed_at[number] for number in metadata_partitions):
            return None
        return ReadHistories(topic.histories, self._topic.quarantined, self._topic.read_so_far())

    def keep(self) -> None:
        """
        Leave a snapshot of what was read for later tasks; where that cannot be done they read more, nothing worse. What began
        with a generation is not kept: if that one was wrong, its mistakes end with it.

        It never raises what could take the place of the error that ends a task.
        """
        if self._snapshots is None or self.folded is not None or not self._unwritten:
            return
        try:
            self._forget_settled_updates()
            self._snapshots.write(self._topic.snapshot())
        except (OSError, RlmmError) as e:
            logger.warning("no snapshot of the metadata topic was left, the next task reads more: %s", e)
        else:
            self._unwritten = 0

    def _forget_settled_updates(self) -> None:
        """Forget what was looked up about updates that are not in doubt any more."""
        known = self._topic.late_updates
        doubtful = {(row["metadata_partition"], row["offset"]) for row in self._unresolved}
        for place in known.keys() - doubtful:
            del known[place]

    @cached_property
    def segments(self) -> pa.Table:
        """The segments that are not finished: table ``segments`` of the columnar state."""
        return self._topic.state.segments

    @cached_property
    def not_finished(self) -> SelectedSegments:
        """The same segments where they lie, in no order: who asks for few of them, or counts them, needs no table of all."""
        return self._topic.state.unfinished()

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
        return list(self._topic.state.unresolved.to_pylist())

    @cached_property
    def _under_way(self) -> dict[int, frozenset[UUID]]:
        """Metadata partition → topics of which a user partition's deletion is under way."""
        found: defaultdict[int, set[UUID]] = defaultdict(set)
        for topic_id in {tip.topic_id for tip in self._topic.state.deletions_under_way()}:
            for row in self._user_partitions[topic_id]:
                found[row["metadata_partition"]].add(topic_id)
        return {number: frozenset(ids) for number, ids in found.items()}

    @cached_property
    def _unfinished(self) -> dict[int, dict[UUID, Count]]:
        """Metadata partition → topic → number and bytes of its unfinished segments."""
        found: defaultdict[int, dict[UUID, Count]] = defaultdict(dict)
        for metadata_partition, topic_id, segments, size in self.not_finished.counts():
            if metadata_partition is not None:
                found[metadata_partition][topic_id] = Count(segments, size)
        return found

    def names(self) -> dict[UUID, frozenset[str]]:
        """Return every topic id that the log names, and every name under which it was seen."""
        return {topic_id: frozenset(row["topic"] for row in rows) for topic_id, rows in self._user_partitions.items()}

    def names_of_any(self, topic_ids: Collection[UUID]) -> frozenset[str]:
        """Return every name under which one of some topic ids was seen, in any metadata partition."""
        return frozenset(row["topic"] for topic_id in topic_ids for row in self._user_partitions.get(topic_id, ()))

    def partitions(self) -> frozenset[TopicIdPartition]:
        """Return every user partition that the log names."""
        return frozenset(
            TopicIdPartition(topic_id, row["topic"], row["partition"])
            for topic_id, rows in self._user_partitions.items()
            for row in rows
        )

    def names_of(self, metadata_partition: int, topic_id: UUID) -> frozenset[str]:
        """Return every name under which a topic id was seen in a metadata partition."""
        return frozenset(
            row["topic"]
            for row in self._user_partitions.get(topic_id, ())
            if row["metadata_partition"] == metadata_partition
        )

    def count_unresolved(self, metadata_partition: int) -> int:
        """
        Return how many segments' state is not certain; updates that may have come after their segment was finished and were
        not looked up do not count.

        :param metadata_partition: where their events lie.
        """
        known = self._topic.late_updates
        return sum(
            not row["maybe_finished"] or known.get((metadata_partition, row["offset"])) is False
            for row in self._unresolved
            if row["metadata_partition"] == metadata_partition
        )

    def unresolved(self, metadata_partition: int) -> frozenset[UUID]:
        """
        Return the topics of which a segment's state is not certain.

        :param metadata_partition: where their events lie.
        """
        return _topics(self._unresolved, metadata_partition)

    def without_size(self) -> Counter[tuple[UUID, int]]:
        """
        Return topic id and metadata partition → how many of its segments may be stored and have no size: their state is not
        certain, and they are not among :attr:`segments`.

        :raises EventLogError: if the log cannot be read.
        """
        uncertain = self._unresolved
        if not uncertain:
            return Counter()
        topic_ids = {row["topic_id"] for row in uncertain}
        numbers = {row["metadata_partition"] for row in uncertain}
        finished = {segment_id for number in numbers for segment_id in self._late_updates(number, topic_ids)}
        named = self.segments.select(["topic_id", "topic", "partition", "segment_id"])
        column = named.column("segment_id")
        # The same id may stand in several user partitions, so it only says which ones to look at.
        sized = map(_segment_id, named.filter(is_among(column, [row["segment_id"] for row in uncertain])).to_pylist())
        known = finished.union(sized)
        return Counter(
            (UUID(bytes=row["topic_id"]), row["metadata_partition"])
            for row in uncertain
            if _segment_id(row) not in known
        )

    def retention_findings(self, name: str, now_ms: int) -> list[HealthFinding]:
        """See :func:`~airflow_provider_rlmm.core.log.needed_records.retention_findings`; of what was read so far."""
        from airflow_provider_rlmm.core.log.needed_records import retention_findings

        return retention_findings(self.topics, self.log, self._topic.state, name, now_ms)

    def under_way(self, metadata_partition: int) -> frozenset[UUID]:
        """
        Return the topics of which a user partition's deletion began and is not finished.

        :param metadata_partition: where their events lie.
        """
        return self._under_way.get(metadata_partition, frozenset())

    def with_segments(self, metadata_partition: int) -> frozenset[UUID]:
        """
        Return the topics that have unfinished segments.

        :param metadata_partition: where their events lie.
        """
        return frozenset(self._unfinished.get(metadata_partition, ()))

    def unfinished(self, metadata_partition: int) -> Count:
        """
        Return how many segments are not finished, of any topic.

        :param metadata_partition: where their events lie.
        """
        return Count.sum(self._unfinished.get(metadata_partition, {}).values())

    def end(self, metadata_partition: int) -> int:
        """Return up to where a metadata partition is known, exclusive."""
        return self._topic.next_offsets[metadata_partition]

    def tail(self, metadata_partition: int) -> ReadTail | None:
        """Return what a later run may know the last records by, ``None`` where there was none."""
        return self._topic.tails[metadata_partition].seen()

    def view(
        self, metadata_partition: int, topic_ids: Collection[UUID], *, with_segments: bool = True
    ) -> MetadataPartitionView:
        """
        Return what is known of a metadata partition, with the histories of some topics.

        A snapshot does not keep finished segments, so behind one an update that came after its segment was finished looks
        like one without its add. Which of both it is says the log, which is asked once for each.

        :param metadata_partition: which one.
        :param topic_ids: the topics whose histories are wanted.
        :param with_segments: ``False`` leaves their segments out: for those who count these in :attr:`segments`.
        :raises EventLogError: if the log cannot be read.
        """
        topic, begin = self._topic, self._begins[metadata_partition]
        view = MetadataPartitionView(
            metadata_partition,
            begin=begin,
            end=topic.next_offsets[metadata_partition],
            histories=topic.state.histories(metadata_partition, topic_ids, with_segments=with_segments),
            quarantined=[
                q for q in topic.quarantined if q.metadata_partition == metadata_partition and q.offset >= begin
            ],
            routed_records=topic.routed[metadata_partition],
            lost=self.log.losses.get(metadata_partition),
            holes=tuple(h for h in topic.holes if h.metadata_partition == metadata_partition and h.end > begin),
            era=self.log.era,
        )
        wanted = {topic_id.bytes for topic_id in topic_ids}
        for segment_id in self._late_updates(metadata_partition, wanted):
            del view.histories[segment_id.topic_id_partition].without_add[segment_id.id]
        return view

    def _late_updates(self, metadata_partition: int, topic_ids: Collection[bytes]) -> list[RemoteLogSegmentId]:
        """Return the segments of some topics that are uncertain only because of updates after they were finished."""
        rows = [
            row
            for row in self._unresolved
            if row["maybe_finished"]
            and row["metadata_partition"] == metadata_partition
            and row["topic_id"] in topic_ids
        ]
        known = self._topic.late_updates
        unknown = [row for row in rows if (metadata_partition, row["offset"]) not in known]
        if unknown:
            ids = {UUID(bytes=row["segment_id"]) for row in unknown}
            uncertain = without_add(self.log, metadata_partition, ids, self.end(metadata_partition))
            known |= {(metadata_partition, row["offset"]): _segment_id(row) not in uncertain for row in unknown}
            self._unwritten += len(unknown)
        return [_segment_id(row) for row in rows if known[metadata_partition, row["offset"]]]


def _segment_id(row: Mapping[str, Any]) -> RemoteLogSegmentId:
    tip = TopicIdPartition(UUID(bytes=row["topic_id"]), row["topic"], row["partition"])
    return RemoteLogSegmentId(tip, UUID(bytes=row["segment_id"]))


def _topics(rows: Iterable[Mapping[str, Any]], metadata_partition: int) -> frozenset[UUID]:
    return frozenset(UUID(bytes=row["topic_id"]) for row in rows if row["metadata_partition"] == metadata_partition)
