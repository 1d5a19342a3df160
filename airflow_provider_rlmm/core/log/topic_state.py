# SPDX-License-Identifier: Apache-2.0
"""The whole metadata topic replayed into one columnar state, which a snapshot keeps across restarts."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from airflow_provider_rlmm.core.base.arrow_arrays import equals, is_among
from airflow_provider_rlmm.core.base.clock import Clock, system_clock
from airflow_provider_rlmm.core.base.errors import (
    ClusterMismatchError,
    LogReplacedError,
    OffsetOutOfRangeError,
    SnapshotRefusedError,
)
from airflow_provider_rlmm.core.log.event_decoding import Quarantine, QuarantinedRecord, quarantined_records
from airflow_provider_rlmm.core.log.follower import Chunk, LogFollower, Lost, ReadSoFar
from airflow_provider_rlmm.core.log.log_tail import LogTail
from airflow_provider_rlmm.core.log.protocol import ClusterTopics, MetadataLogReader
from airflow_provider_rlmm.core.log.snapshot import Snapshot, SnapshotStore, TopicIdentity
from airflow_provider_rlmm.core.records.era import LogEra
from airflow_provider_rlmm.core.records.lost_records import HistoryGap

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_rlmm.core.log.folded_topic import FoldedTopic
    from airflow_provider_rlmm.core.records.columnar import ApplyReport

__all__ = ["TopicState"]

logger = logging.getLogger(__name__)

_NOT_USABLE = (SnapshotRefusedError, LogReplacedError, OffsetOutOfRangeError)

CHUNK_ROWS = 60_000
"""
Records that are decoded and applied at once: of 250,000 each takes a tenth longer, as their columns do not fit the
processor's caches; of fewer, as each application costs something of its own.
"""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a replay is."""

    records: int  # read in this :meth:`TopicState.advance`
    offsets_left: int  # to read, the sum over all metadata partitions


ProgressListener = Callable[[Progress], object]
"""Is told how far a replay is, after each chunk."""


def ignore_progress(_: Progress) -> None:
    """Do nothing: a :data:`ProgressListener`."""


def _ignore(_: Any, __: Any) -> None:
    """Do nothing."""


class TopicState:
    """
    The state of the whole topic, kept current by :meth:`advance`.

    State and next offsets always belong together: after an error, and in ``on_progress``, too.

    :param log: the log.
    :param topics: the cluster, asked for its id and the metadata topic's.
    :param snapshot: what to begin with; ``None`` begins at the beginning of the log. :meth:`resume` checks one first.
    :param clock: time.
    :param chunk_rows: records that are decoded and applied at once.
    :param keep_finished: remember finished segments of a topic that is read from its beginning, 100 bytes each, so that what
        is said of them later is not taken for news of unknown segments. No snapshot keeps them.
    :raises MetadataTopicNotFoundError: if the metadata topic does not exist.
    :raises ClusterMismatchError: if log and topics are of different clusters.
    """

    def __init__(
        self,
        log: MetadataLogReader,
        topics: ClusterTopics,
        *,
        snapshot: Snapshot | None = None,
        clock: Clock = system_clock,
        chunk_rows: int = CHUNK_ROWS,
        keep_finished: bool = False,
    ) -> None:
        from airflow_provider_rlmm.core.records.columnar import ColumnarState

        self._log = log
        self._topics = topics
        self._clock = clock
        self._chunk_rows = chunk_rows
        self.identity = self._identify()
        if self.identity.topic_id != log.topic_id:
            raise ClusterMismatchError(
                f"the metadata topic that is read has id {log.topic_id}, the cluster that is asked for its topics gives it "
                f"{self.identity.topic_id}: these are two clusters, or the topic was replaced; name the brokers of one "
                "cluster only, then run again"
            )
        self.state = snapshot.state if snapshot else ColumnarState.empty(keep_finished=keep_finished)
        offsets = snapshot.next_offsets if snapshot else dict.fromkeys(range(self.identity.partition_count), 0)
        tails, gaps, holes = (snapshot.tails, snapshot.gaps, snapshot.holes) if snapshot else ({}, (), ())
        self._follower = LogFollower(log, offsets, lost=Lost.RECORDED, tails=tails, gaps=gaps, holes=holes)
        self._quarantine = Quarantine(snapshot.quarantined if snapshot else ())
        self.routed: Counter[int] = Counter(snapshot.routed if snapshot else ())
        """Good records per metadata partition: each of them lies where our partitioner puts it."""
        self.late_updates: dict[tuple[int, int], bool] = dict(snapshot.late_updates) if snapshot else {}
        """See :class:`~airflow_provider_rlmm.core.log.snapshot.Snapshot`; a look-up adds its answer here."""
        self.key_prefixes: set[str] = set(snapshot.key_prefixes) if snapshot else set()
        """See :class:`~airflow_provider_rlmm.core.log.snapshot.Snapshot`; a layout that can read them adds them here."""
        self.folded = snapshot.folded if snapshot else None
        """The generation of the Spark job that this began with, ``None`` where there was none."""
        self.known_from: str | None = None
        """Where what was not read here comes from, as a person would remove it; ``None`` where all was read here."""
        self.refusal: str | None = None
        """Why :meth:`resume` did not take its snapshot and a full replay is due."""

    @classmethod
    def resume(
        cls,
        snapshots: SnapshotStore,
        log: MetadataLogReader,
        topics: ClusterTopics,
        *,
        folded: FoldedTopic | None = None,
        **options: Any,
    ) -> Self:
        """
        Begin with a snapshot if it is one of this log, else at the beginning.

        :param snapshots: where the snapshot is kept.
        :param log: the log.
        :param topics: the cluster.
        :param folded: what the Spark job has folded, which is taken where it knows more than the snapshot.
        :param options: as the constructor takes them.
        :return: a state that :meth:`advance` brings up to date; its ``refusal`` says why a snapshot was not taken.
        """
        fresh, snapshot = cls(log, topics, **options), None
        try:
            snapshot = snapshots.read()
            state = fresh._continued(snapshot, str(snapshots), options)
        except _NOT_USABLE as e:
            state = fresh
            fresh.refusal = str(e)
            if snapshot is not None and snapshot.identity.cluster_id == fresh.identity.cluster_id:
                # What the log has lost may have named them; a look there finds something, or does not.
                fresh.key_prefixes |= snapshot.key_prefixes
            _say_why_not(e, "snapshot %s is not used, the topic is replayed from its beginning: %s", snapshots)
        if folded is None:
            return state
        try:
            return fresh._continued(folded.read(beyond=sum(state.next_offsets.values())), str(folded), options)
        except _NOT_USABLE as e:
            _say_why_not(e, "what the Spark job has folded below %s is not used: %s", folded)
            return state

    def _continued(self, snapshot: Snapshot, known_from: str, options: Mapping[str, Any]) -> Self:
        """Return the state that goes on from a snapshot, once it is shown that it is one of this log."""
        snapshot.check(self.identity, self._log.beginning_offsets(), self._log.high_water_marks())
        continued = type(self)(self._log, self._topics, snapshot=snapshot, **options)
        continued._follower.require_tails()
        continued.known_from = known_from
        return continued

    @property
    def next_offsets(self) -> dict[int, int]:
        """Metadata partition → offset at which to read on; every record below it is in the state."""
        return self._follower.positions

    @property
    def quarantined(self) -> list[QuarantinedRecord]:
        """The records that cannot be applied, as a :class:`~airflow_provider_rlmm.core.log.event_decoding.Quarantine`."""
        return self._quarantine.records()

    @property
    def gaps(self) -> tuple[HistoryGap, ...]:
        """What was gone below these offsets before it was read."""
        return self._follower.gaps

    @property
    def holes(self) -> tuple[HistoryGap, ...]:
        """Offsets below these that held no record and had records before them, and of which no person has said why."""
        return self._follower.open_holes()

    def read_so_far(self) -> ReadSoFar:
        """Return what is in the state, for a follower that goes on from there."""
        return self._follower.read_so_far()

    @property
    def era(self) -> LogEra:
        """The era of the log, as of what was read."""
        return self._log.era

    @property
    def tails(self) -> dict[int, LogTail]:
        """Metadata partition → the last records that are in the state."""
        return self._follower.tails

    def advance(
        self,
        on_progress: ProgressListener = ignore_progress,
        on_applied: Callable[[Any, ApplyReport], None] = _ignore,
        only: Collection[int] | None = None,
    ) -> None:
        """
        Read on, up to the high watermarks as of now; what is above them is not durable yet.

        :param on_progress: called after each chunk; it may take a :meth:`snapshot`.
        :param on_applied: called with each decoded chunk and what became of it.
        :param only: read on these metadata partitions, ``None`` for all.
        :raises EventLogUnavailableError: if a range could not be read whole, or the log ends before what was read already;
            the next call reads on where this one stopped.
        :raises OffsetOutOfRangeError: if the log has lost records since it was read.
        :raises LogReplacedError: if it is not the log that was read before.
        """
        ends = self._follower.ends(only)
        records = 0
        for chunk in self._follower.chunks(ends, self._chunk_rows):
            self._apply(chunk, on_applied)
            records += chunk.rows
            on_progress(Progress(records, sum(end - self.next_offsets[p] for p, end in ends.items())))

    def snapshot(self) -> Snapshot:
        """
        Return what a later process can resume from.

        :raises SnapshotRefusedError: if the topic was replaced by another one of its name while it was read.
        """
        if (now := self._identify()) != self.identity:
            raise SnapshotRefusedError(f"the metadata topic was {self.identity} and is {now}: replay it anew")
        return Snapshot(
            self.identity,
            dict(self.next_offsets),
            self.gaps,
            self._clock(),
            self.state,
            tails={p: tail.records for p, tail in self.tails.items() if tail.records},
            quarantined=tuple(self.quarantined),
            routed=dict(self.routed),
            late_updates=self.late_updates,
            key_prefixes=frozenset(self.key_prefixes),
            holes=self._follower.holes,
        )

    def incomplete_history(self) -> pa.Table:
        """
        Return the user partitions of which records were gone before they were read.

        :return: ``metadata_partition``, ``topic_id``, ``topic`` and ``partition``, one row per user partition that is known
            from what was left.
        """
        return user_partitions(self.state, {gap.metadata_partition for gap in self.gaps})

    def _identify(self) -> TopicIdentity:
        topic_id = self._topics.describe_topics(()).metadata_topic_id
        return TopicIdentity(self._topics.cluster_id(), topic_id, self._log.partition_count)

    def _apply(self, chunk: Chunk, on_applied: Callable[[Any, ApplyReport], None]) -> None:
        decoded = chunk.decode(self.identity.partition_count) if chunk.rows else None
        quarantined, routed = ([], {}) if decoded is None else (quarantined_records(decoded), _good_records(decoded))
        # From here on nothing fails but what ends the process: state and next offsets belong together.
        if decoded is not None:
            self.state, report = self.state.apply(decoded)
        self._quarantine.take(quarantined)
        self.routed.update(routed)
        self._follower.take(chunk)
        if decoded is not None:
            on_applied(decoded, report)


def _say_why_not(error: Exception, text: str, source: object) -> None:
    """Log why a source was not taken: as a warning, unless it is only not there."""
    logger.log(logging.INFO if isinstance(error.__cause__, FileNotFoundError) else logging.WARNING, text, source, error)


def _good_records(decoded: Any) -> dict[int, int]:
    """Return how many good records each metadata partition has."""
    import pyarrow.compute as pc

    from airflow_provider_rlmm.core.records.columnar import ErrorCode

    good = decoded.column("metadata_partition").filter(equals(decoded.column("error_code"), int(ErrorCode.GOOD)))
    return {row["values"]: row["counts"] for row in pc.value_counts(good).to_pylist()}


def user_partitions(state: Any, metadata_partitions: set[int]) -> pa.Table:
    """
    Return the user partitions that a state knows of some metadata partitions.

    :param state: a :class:`~airflow_provider_rlmm.core.records.columnar.ColumnarState`.
    :param metadata_partitions: which ones.
    :return: ``metadata_partition``, ``topic_id``, ``topic`` and ``partition``, sorted, without repetition.
    """
    known = state.user_partitions
    mine = known.filter(is_among(known.column("metadata_partition"), sorted(metadata_partitions)))
    return mine.sort_by([(name, "ascending") for name in mine.schema.names])
