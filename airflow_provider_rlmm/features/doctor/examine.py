# SPDX-License-Identifier: Apache-2.0
"""
Examines the metadata topic: one pass over all of it, column-wise, and a list of what is wrong, each with its offset.

Bad records are told by :func:`~airflow_provider_rlmm.core.records.columnar.decode`, wrong steps by
:meth:`~airflow_provider_rlmm.core.records.columnar.ColumnarState.apply`; what never ended is read from the
state afterwards. Nothing is replayed here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any
from uuid import UUID

from airflow_provider_rlmm.core.base.clock import MAX_CLOCK_SKEW_MS, Clock, duration_in_words, system_clock
from airflow_provider_rlmm.core.log.metadata_settings import longest_tiered_retention
from airflow_provider_rlmm.core.log.needed_records import oldest_needed
from airflow_provider_rlmm.core.log.protocol import ClusterTopics, MetadataLogReader
from airflow_provider_rlmm.core.log.topic_state import (
    CHUNK_ROWS,
    ProgressListener,
    TopicState,
    ignore_progress,
    user_partitions,
)
from airflow_provider_rlmm.core.records.era import Era
from airflow_provider_rlmm.core.records.lost_records import LostRecords
from airflow_provider_rlmm.core.records.outcomes import ErrorCode, EventFate
from airflow_provider_rlmm.core.records.serde import SEGMENT_API_KEY
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState, RemotePartitionDeleteState
from airflow_provider_rlmm.core.records.wire import NEWER_KAFKAS_READ
from airflow_provider_rlmm.core.world.absence import Observation, Presence
from airflow_provider_rlmm.core.world.cluster_look import look
from airflow_provider_rlmm.features.doctor import watches
from airflow_provider_rlmm.features.doctor.finding_rows import (
    USER_PARTITION,
    FindingRows,
    among,
    concerned_in_text,
    elsewhere_than,
    of_topics,
    topics_of,
    user_partition_in_text,
)
from airflow_provider_rlmm.features.doctor.findings import (
    EXPLANATIONS,
    NAMED,
    Diagnosis,
    FindingKind,
    Recovery,
    Severity,
)
from airflow_provider_rlmm.features.doctor.known_bugs import topics_concerned
from airflow_provider_rlmm.features.doctor.living_leaders import RememberedLeaders, not_listed, of_leaders
from airflow_provider_rlmm.features.doctor.preflight import CompactionPreflight, KeyWatch
from airflow_provider_rlmm.features.doctor.rules import LIMIT_PER_KIND, MAX_COPY, MIN_AGE
from airflow_provider_rlmm.features.doctor.topic_settings import wrong_settings

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["examine"]

logger = logging.getLogger(__name__)

_STARTED = (RemoteLogSegmentState.COPY_SEGMENT_STARTED, RemoteLogSegmentState.DELETE_SEGMENT_STARTED)
_FINISHED = RemotePartitionDeleteState.DELETE_PARTITION_FINISHED
_IN_THE_ORDER_OF_THE_TOPIC = [("metadata_partition", "ascending"), ("offset", "ascending")]

_OF_A_FINDING = [
    "metadata_partition", "offset", "timestamp_ms", "topic_id", "topic", "partition", "segment_id", "event_timestamp_ms",
    "reason",
]  # fmt: skip


def examine(
    log: MetadataLogReader,
    topics: watches.TieredClusterTopics,
    *,
    min_age_ms: int = MIN_AGE.default,
    max_copy_ms: int = MAX_COPY.default,
    limit_per_kind: int = LIMIT_PER_KIND.default,
    clock: Clock = system_clock,
    chunk_rows: int = CHUNK_ROWS,
    on_progress: ProgressListener = ignore_progress,
    leaders: Callable[[str], RememberedLeaders] | None = None,
) -> Diagnosis:
    """
    Read the whole topic, up to the high watermarks as of now, and report what is wrong with it. Nothing is written.

    :param log: the log.
    :param topics: the cluster: a topic that exists when the examination begins is taken for served, and one that may not be
        described, too.
    :param min_age_ms: from what age on a segment in a STARTED state, or a marker, counts as stuck; ms by the event's time.
    :param max_copy_ms: for how long a living topic's partition may begin copies and finish none at most, where its topic does
        not keep local segments for a shorter time (``hangs_after_ms`` of ``core.log.copy_lag``), ms by the event's time.
    :param limit_per_kind: findings of one kind that are kept; all are counted.
    :param clock: time.
    :param chunk_rows: records that are decoded and applied at once.
    :param on_progress: told how far the reading is.
    :param leaders: tells what the leaders of the cluster of an id were asked last, ``None`` where none are remembered.
    :raises MetadataTopicNotFoundError: if the metadata topic does not exist.
    :raises ClusterMismatchError: if another cluster answers than the one whose log is read.
    :raises EventLogAccessError: if the metadata topic may not be described.
    :raises EventLogUnavailableError: if the topic could not be read whole.
    """
    now_ms = clock()
    living = look(topics, log, {}).living
    served = watches.served_partitions(topics, living, log.partition_count)
    state = TopicState(log, topics, clock=clock, chunk_rows=chunk_rows)
    compacted = log.era.era is Era.COMPACTED
    examination = _Examination(
        frozenset(living.values()), served, log.beginning_offsets(), now_ms, limit_per_kind, compacted=compacted
    )
    state.advance(on_progress, on_applied=examination.chunk)
    segments = state.state.segments
    examination.what_never_ended(state, segments, min_age_ms, max_copy_ms)
    examination.lost_records(log.losses)
    keys = examination.keys
    oldest = partial(oldest_needed, log, state.state)
    for found in chain(
        topics_concerned(served, living, topics),
        wrong_settings(served, living, topics, log.topic_id, keys.key_seen, oldest, now_ms),
    ):
        examination.findings.add_one(*found)
    examination.topics_that_do_not_live(state.state.partition_deletes, segments, topics, log)
    if leaders is not None:
        examination.of_leaders(leaders(state.identity.cluster_id))
    findings = examination.findings
    diagnosis = Diagnosis(
        cluster_id=state.identity.cluster_id,
        examined_at_ms=now_ms,
        read_until=dict(state.next_offsets),
        records=examination.records,
        segments=segments.num_rows,
        counts={kind: findings.counts[kind] for kind in FindingKind if findings.counts[kind]},
        critical=findings.critical,
        findings=findings.kept(),
        recoveries=examination.recoveries(segments),
        preflight=CompactionPreflight(keys.keyless, longest_tiered_retention(served.tiered), served.unknown),
        era=log.era,
    )
    logger.info(
        "%d records examined, findings: %s", diagnosis.records, {k.value: n for k, n in diagnosis.counts.items()}
    )
    return diagnosis


class _Examination:
    """What was found so far."""

    def __init__(
        self,
        living: frozenset[UUID],
        served: watches.ServedPartitions,
        beginnings: Mapping[int, int],
        now_ms: int,
        limit_per_kind: int,
        *,
        compacted: bool,
    ) -> None:
        self._living = living
        self._compacted = compacted
        self._beginnings = beginnings
        self._now_ms = now_ms
        self._readers = {number: served.readers_of(number) for number in beginnings}
        self.findings = FindingRows(limit_per_kind)
        self.records = 0
        self._copying = served.copying
        latest_ms = now_ms + MAX_CLOCK_SKEW_MS
        self._deletions = watches.DeletionWatch(living, beginnings, latest_ms, compacted=compacted)
        self._proof = watches.ProofWatch(beginnings)
        self.keys = KeyWatch()
        self._not_living: dict[FindingKind, list[Any]] = {}

    # --- what records say ----------------------------------------------------------------------------------------------

    def chunk(self, decoded: Any, report: Any) -> None:
        """Look at one chunk, and at what became of it."""
        import pyarrow.compute as pc

        self.records += decoded.num_rows
        self.keys.note(decoded)
        self._bad_records(report.quarantined)
        self._forgotten(decoded)
        self.findings.add(FindingKind.KEYED, report.misnamed)
        ends = report.would_end_consumer
        thrown, after_finished = (
            ends.filter(among(ends, "fate", (fate,))) for fate in (EventFate.THROWN, EventFate.AFTER_FINISHED)
        )
        self._add_where_served(FindingKind.EVENT_AFTER_FINISHED, after_finished)
        adds = pc.equal(thrown.column("api_key"), SEGMENT_API_KEY)
        self._add_where_served(FindingKind.ADD_IN_OTHER_STATE, thrown.filter(adds))
        self._add_where_served(FindingKind.UPDATE_TO_COPY_STARTED, thrown.filter(pc.invert(adds)))
        self._proof.note(decoded, report.quarantined)
        self._dropped(elsewhere_than(after_finished, report.dropped))
        for found in self._deletions.note(report.deletions):
            self.findings.add_one(*found)

    def _bad_records(self, quarantined: Any) -> None:
        """Report bad records, each kind by metadata partition: which brokers read a record depends on that."""
        import pyarrow as pa
        import pyarrow.compute as pc

        # One that is misrouted besides is not applied, and ends the consumers of newer brokers all the same.
        beyond = pc.fill_null(pc.match_substring(quarantined.column("error"), NEWER_KAFKAS_READ), False)
        codes = pc.if_else(beyond, pa.scalar(int(ErrorCode.BEYOND_LIMITS), pa.int8()), quarantined.column("error_code"))
        for code in pc.unique(codes).to_pylist():
            kind = FindingKind(ErrorCode(code).name)
            rows = quarantined.filter(pc.equal(codes, code))
            if EXPLANATIONS[kind].severity is not Severity.CRITICAL:
                self.findings.add(kind, rows, detail="error")
            else:
                self._add_by_readers(kind, rows)

    def _forgotten(self, decoded: Any) -> None:
        """Report what the log cleaner is asked to forget: brokers that compact the topic ask for it themselves."""
        import pyarrow as pa

        rows = pa.table(decoded.filter(among(decoded, "error_code", (ErrorCode.FORGOTTEN,))))
        self._add_by_readers(FindingKind.FORGOTTEN, rows, Severity.WARNING if self._compacted else None)

    def _add_by_readers(self, kind: FindingKind, rows: Any, severity: Severity | None = None) -> None:
        import pyarrow.compute as pc

        for number in pc.unique(rows.column("metadata_partition")).to_pylist():
            here = rows.filter(pc.equal(rows.column("metadata_partition"), number))
            self.findings.add(kind, here, severity, detail="error", more=f"; {self._readers[number]}")

    def _dropped(self, rows: Any) -> None:
        import pyarrow.compute as pc

        unknown = among(rows, "fate", (EventFate.DROPPED_UNKNOWN_SEGMENT,))
        self._illegal(rows.filter(pc.invert(unknown)))
        rows = rows.filter(unknown)
        repeated = among(rows, "state", (RemoteLogSegmentState.DELETE_SEGMENT_FINISHED,))
        self.findings.add(FindingKind.UPDATE_WITHOUT_BASE, rows.filter(pc.invert(repeated)))
        self.findings.add(FindingKind.UPDATE_WITHOUT_BASE, rows.filter(repeated), Severity.NOTICE)

    def _illegal(self, rows: Any) -> None:
        """Report steps of segments that the state before does not allow; a missing one the log cleaner may have taken."""
        import pyarrow.compute as pc

        # Only its DELETE_SEGMENT_STARTED can be missing before this one; no missing step makes any other event legal.
        finishing = among(rows, "state", (RemoteLogSegmentState.DELETE_SEGMENT_FINISHED,))
        compacted = pc.and_(finishing, self._compacted)
        self.findings.add(FindingKind.COMPACTED_STEP, rows.filter(compacted))
        self.findings.add(FindingKind.ILLEGAL_TRANSITION, rows.filter(pc.invert(compacted)))

    def _add_where_served(self, kind: FindingKind, rows: Any) -> None:
        """Add findings that are critical only where a broker serves the partition; other topics are asked about later."""
        import pyarrow.compute as pc

        served = of_topics(rows, self._living)
        self.findings.add(kind, rows.filter(served), Severity.CRITICAL)
        others = rows.filter(pc.invert(served)).select(_OF_A_FINDING)
        if others.num_rows:
            self._not_living.setdefault(kind, []).append(others)

    # --- what never ended ----------------------------------------------------------------------------------------------

    def what_never_ended(self, topic: TopicState, segments: pa.Table, min_age_ms: int, max_copy_ms: int) -> None:
        """Look at the state after the last record; the ages are those from which on something counts, ms."""
        state = topic.state
        self._incomplete_history(topic)
        under_proof = self._proof.found(segments, state.unresolved, self._readers)
        of_the_future = self._deletions.of_the_future(state.deletions_under_way(), self._now_ms)
        for found in chain(under_proof, of_the_future):
            self.findings.add_one(*found)
        before_ms = self._now_ms - min_age_ms
        for row in _unsettled_deletions(state.partition_deletes, segments, before_ms).to_pylist():
            detail = f"{RemotePartitionDeleteState(row['state']).name} is its last event"
            self.findings.add_one(FindingKind.UNSETTLED_MARKER, row, detail)
        self._stuck_segments(_stuck_segments(segments, before_ms))
        for row in _stopped_copies(state.user_partitions, self._copying, self._now_ms, max_copy_ms).to_pylist():
            ago = duration_in_words(max(0, self._now_ms - row["event_timestamp_ms"]))
            said = f"a copy began here {ago} ago, and none was finished since"
            self.findings.add_one(FindingKind.COPYING_STOPPED, row, said)

    def topics_that_do_not_live(
        self, partition_deletes: pa.Table, segments: pa.Table, topics: ClusterTopics, log: MetadataLogReader
    ) -> None:
        """Ask about the topics that were not listed: one that may not be described is neither living nor absent."""
        import pyarrow as pa
        import pyarrow.compute as pc

        others = segments.filter(pc.invert(of_topics(segments, self._living)))
        kept = {kind: pa.concat_tables(tables) for kind, tables in self._not_living.items()}
        under_way = _deletions_under_way(partition_deletes)
        named = topics_of(under_way).union(*(topics_of(table) for table in (others, *kept.values())))
        names: dict[UUID, frozenset[str]] = {}
        for topic_id, name in named:
            names[topic_id] = names.get(topic_id, frozenset()) | {name}
        observations = look(topics, log, names).observations if names else {}
        for kind, rows in kept.items():
            self._add_by_presence(kind, rows, observations)
        for topic_id, observation in observations.items():
            if observation.presence is Presence.DENIED:
                concerned = concerned_in_text(others.filter(of_topics(others, [topic_id])))
                topic = {"topic_id": topic_id.bytes, "topic": min(names[topic_id])}
                row = {"metadata_partition": None, "offset": None, **topic}
                self.findings.add_one(FindingKind.ACCESS_DENIED, row, f"{observation.reason}; {concerned}")

    def _add_by_presence(self, kind: FindingKind, rows: Any, observations: Mapping[UUID, Observation]) -> None:
        import pyarrow.compute as pc

        denied, present = (
            of_topics(rows, [topic_id for topic_id, seen in observations.items() if seen.presence is presence])
            for presence in (Presence.DENIED, Presence.PRESENT)
        )
        unknown = "; whether its topic exists is not known"
        self.findings.add(kind, rows.filter(present), Severity.CRITICAL)
        self.findings.add(kind, rows.filter(denied), Severity.CRITICAL, more=unknown)
        self.findings.add(kind, rows.filter(pc.invert(pc.or_(denied, present))))

    def of_leaders(self, remembered: RememberedLeaders) -> None:
        """Report what is wrong with the leaders of living topics, as they were asked last."""
        for found in of_leaders(remembered, self._now_ms):
            self.findings.add_one(*found)
        for kind, more in not_listed(remembered):
            self.findings.count(kind, Severity.WARNING, more)

    def lost_records(self, losses: Mapping[int, LostRecords]) -> None:
        """Report the metadata partitions that do not hold what earlier runs have read of them."""
        # Of a topic that was made anew each metadata partition says the same.
        causes = {lost.why: number for number, lost in sorted(losses.items(), reverse=True)}
        for number in sorted(causes.values()):
            lost = losses[number]
            row = {"metadata_partition": number, "offset": lost.end}
            severity = None if lost.is_open else Severity.WARNING
            self.findings.add_one(FindingKind.LOST_RECORDS, row, f"{lost.name}: {lost.why}", severity)

    def _incomplete_history(self, state: TopicState) -> None:
        """Report the metadata partitions of which records are gone, once per user partition that this concerns."""
        import pyarrow as pa

        kind = FindingKind.INCOMPLETE_HISTORY
        missing = [(gap, str(gap)) for gap in state.gaps] + [(h, f"{h.why}; {h.what_to_do}") for h in state.holes]
        for gap, what in missing:
            place = {"metadata_partition": gap.metadata_partition, "offset": gap.end}
            known = user_partitions(state.state, {gap.metadata_partition})
            if not known.num_rows:
                self.findings.add_one(kind, place, f"{what}; no user partition is known of it")
                continue
            rows = known.append_column("offset", pa.repeat(pa.scalar(gap.end, pa.int64()), known.num_rows))
            self.findings.add(kind, rows.append_column("reason", pa.repeat(what, known.num_rows)))

    def _stuck_segments(self, stuck: pa.Table) -> None:
        """Report segments that are being copied or deleted for too long, the oldest first."""
        import pyarrow as pa

        kind = FindingKind.STUCK_SEGMENT
        shown = stuck.slice(0, self.findings.room(kind))
        names = pa.array([RemoteLogSegmentState(s).name for s in shown.column("state").to_pylist()], pa.string())
        self.findings.add(kind, shown.append_column("reason", names))
        self.findings.count(kind, EXPLANATIONS[kind].severity, stuck.num_rows - shown.num_rows)

    def recoveries(self, segments: pa.Table) -> tuple[Recovery, ...]:
        """Return what it costs to delete the records up to the last poison pill of each metadata partition."""
        return tuple(self._recovery(segments, p, pill + 1) for p, pill in sorted(self.findings.last_pill.items()))

    def _recovery(self, segments: pa.Table, metadata_partition: int, offset: int) -> Recovery:
        import pyarrow.compute as pc

        here = segments.filter(pc.equal(segments.column("metadata_partition"), metadata_partition))
        lost = here.filter(pc.less(here.column("added_offset"), offset))
        refused = lost.group_by(USER_PARTITION).aggregate([]).sort_by([(name, "ascending") for name in USER_PARTITION])
        return Recovery(
            metadata_partition,
            delete_before_offset=offset,
            records=offset - self._beginnings[metadata_partition],
            segments=lost.num_rows,
            bytes=pc.sum(lost.column("segment_size_in_bytes")).as_py() or 0,
            user_partitions=refused.num_rows,
            refused=tuple(user_partition_in_text(row) for row in refused.slice(0, NAMED).to_pylist()),
            usable=here.group_by(USER_PARTITION).aggregate([]).num_rows - refused.num_rows,
        )


# --- what began and did not end, as the tables of a state show it ---------------------------------------------------


def _stuck_segments(segments: Any, before_ms: int) -> Any:
    """Return the segments that are being copied or deleted for too long, the oldest first, at their last event's offset."""
    stuck = _until(segments.filter(among(segments, "state", _STARTED)), before_ms)
    return stuck.append_column("offset", stuck.column("event_offset")).sort_by("event_timestamp_ms")


def _stopped_copies(user_partitions: Any, copying: Mapping[UUID, int | None], now_ms: int, most_ms: int) -> Any:
    """
    Return the events that began a copy, and after which none was finished in their user partition for too long.

    :param copying: topic id → after how long a copy hangs there, ms; ``None`` for as long as for any.
    :param most_ms: after how long it does wherever it is.
    """
    import pyarrow as pa

    begun = {f"copying_{name}": name for name in ("segment_id", "offset", "event_timestamp_ms")}
    rows = user_partitions.select(["metadata_partition", *USER_PARTITION, *begun])
    rows = rows.rename_columns(["metadata_partition", *USER_PARTITION, *begun.values()])
    by_limit: dict[int, list[UUID]] = {most_ms: []}
    for topic_id, hangs_ms in copying.items():
        by_limit.setdefault(most_ms if hangs_ms is None else min(hangs_ms, most_ms), []).append(topic_id)
    # A comparison with what is null is null, which no filter lets pass.
    stopped = [_until(rows.filter(of_topics(rows, ids)), now_ms - limit_ms) for limit_ms, ids in by_limit.items()]
    return pa.concat_tables(stopped).sort_by(_IN_THE_ORDER_OF_THE_TOPIC)


def _deletions_under_way(partition_deletes: Any) -> Any:
    """Return the last deletion event of each user partition whose deletion is not finished, in the order of the topic."""
    import pyarrow.compute as pc

    rows = partition_deletes.filter(pc.invert(among(partition_deletes, "state", (_FINISHED,))))
    return rows.sort_by(_IN_THE_ORDER_OF_THE_TOPIC)


def _unsettled_deletions(partition_deletes: Any, segments: Any, before_ms: int) -> Any:
    """
    Return the deletions under way that began too long ago.

    A marker or a start behind DELETE_PARTITION_FINISHED counts as settled while nothing is unfinished: two cleaners at
    once leave such a thing, and the cleaner leaves it alone.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    deletes = _until(_deletions_under_way(partition_deletes), before_ms)
    unfinished = {tuple(row.values()) for row in segments.group_by(USER_PARTITION).aggregate([]).to_pylist()}
    of_deletes = [tuple(row.values()) for row in deletes.select(USER_PARTITION).to_pylist()]
    has_unfinished = pa.array([key in unfinished for key in of_deletes], pa.bool_())
    return deletes.filter(pc.or_(pc.invert(deletes.column("was_finished")), has_unfinished))


def _until(rows: Any, before_ms: int) -> Any:
    """Return the rows whose event is old enough, ms since the epoch."""
    import pyarrow.compute as pc

    return rows.filter(pc.less_equal(rows.column("event_timestamp_ms"), before_ms))
