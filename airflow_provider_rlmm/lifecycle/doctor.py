# SPDX-License-Identifier: Apache-2.0
"""
Examines the metadata topic: one pass over all of it, column-wise, and a list of what is wrong, each with its offset.

Bad records are told by :func:`~airflow_provider_rlmm.metadata.columnar.decode`, wrong steps by
:meth:`ColumnarState.apply`; what never ended is read from the state afterwards.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

from airflow_provider_rlmm.clock import Clock, system_clock
from airflow_provider_rlmm.lifecycle.trail import Trail
from airflow_provider_rlmm.manager.event_log import ClusterTopics, MetadataEventLog
from airflow_provider_rlmm.manager.kafka_client import METADATA_TOPIC
from airflow_provider_rlmm.manager.topic_state import CHUNK_ROWS, Progress, TopicState, user_partitions
from airflow_provider_rlmm.metadata.outcomes import EventFate
from airflow_provider_rlmm.metadata.records import kafka_uuid_str
from airflow_provider_rlmm.metadata.serde import PARTITION_DELETE_API_KEY, SEGMENT_API_KEY
from airflow_provider_rlmm.metadata.states import RemoteLogSegmentState, RemotePartitionDeleteState
from airflow_provider_rlmm.policy.findings import (
    EXPLANATIONS,
    Diagnosis,
    Finding,
    FindingKind,
    FindingLog,
    Recovery,
    Severity,
)
from airflow_provider_rlmm.policy.retention import DEFAULT_MIN_AGE_MS
from airflow_provider_rlmm.quoting import name_in_text, printable

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)

DEFAULT_LIMIT_PER_KIND = 100

_STARTED = (RemoteLogSegmentState.COPY_SEGMENT_STARTED, RemoteLogSegmentState.DELETE_SEGMENT_STARTED)
_FINISHED = RemotePartitionDeleteState.DELETE_PARTITION_FINISHED
_DELETION = [
    "metadata_partition", "offset", "timestamp_ms", "topic_id", "topic", "partition", "event_timestamp_ms", "state"
]  # fmt: skip


def examine(
    log: MetadataEventLog,
    topics: ClusterTopics,
    *,
    metadata_topic: str = METADATA_TOPIC,
    min_age_ms: int = DEFAULT_MIN_AGE_MS,
    limit_per_kind: int = DEFAULT_LIMIT_PER_KIND,
    clock: Clock = system_clock,
    chunk_rows: int = CHUNK_ROWS,
) -> Diagnosis:
    """
    Read the whole topic, up to the high watermarks as of now, and report what is wrong with it. Nothing is written.

    :param log: the log.
    :param topics: the cluster: a topic that exists when the examination begins is taken for served.
    :param metadata_topic: name of the topic that the log reads.
    :param min_age_ms: from what age on a segment in a STARTED state, or a marker, counts as stuck; ms by the event's time.
    :param limit_per_kind: findings of one kind that are kept; all are counted.
    :param clock: time.
    :param chunk_rows: records that are decoded and applied at once.
    :raises MetadataTopicNotFoundError: if the metadata topic does not exist.
    :raises EventLogAccessError: if any topic may not be described.
    :raises EventLogUnavailableError: if the topic could not be read whole.
    """
    now_ms = clock()
    live = frozenset(topics.list_topics().values())
    beginnings = log.beginning_offsets()
    state = TopicState(log, topics, metadata_topic=metadata_topic, clock=clock, chunk_rows=chunk_rows)
    examination = _Examination(live, beginnings, limit_per_kind)

    def applied(decoded: Any, report: Any) -> None:
        examination.chunk(decoded, report)
        thrown = _with(report.would_end_consumer, "fate", (EventFate.THROWN,))
        examination.trail.note(decoded, _places(report.dropped) | _places(thrown))

    def progressed(_: Progress) -> None:
        if examination.trail.full:
            examination.trail.prune(state.state.segments)

    state.advance(progressed, applied)
    examination.incomplete_history(state)
    examination.unsettled_markers(now_ms - min_age_ms)
    examination.stuck_segments(state.state.segments, now_ms - min_age_ms)
    findings = examination.findings
    diagnosis = Diagnosis(
        cluster_id=state.identity.cluster_id,
        examined_at_ms=now_ms,
        read_until=dict(state.next_offsets),
        records=examination.records,
        segments=state.state.segments.num_rows,
        counts={kind: findings.counts[kind] for kind in FindingKind if kind in findings.counts},
        critical=findings.critical,
        findings=findings.findings(),
        recoveries=examination.recoveries(state.state.segments),
    )
    logger.info(
        "%d records examined, findings: %s", diagnosis.records, {k.value: n for k, n in diagnosis.counts.items()}
    )
    return diagnosis


class _Examination:
    """
    What was found so far.

    :param live: ids of the topics that exist.
    :param beginnings: metadata partition → first offset that is there.
    :param limit_per_kind: findings that are kept.
    """

    def __init__(self, live: frozenset[UUID], beginnings: Mapping[int, int], limit_per_kind: int) -> None:
        self._live = live
        self._beginnings = beginnings
        self.findings = FindingLog(limit_per_kind)
        self.trail = Trail()
        self.records = 0
        self._last_critical: dict[int, int] = {}
        self._deletions: dict[tuple[bytes, int], dict[str, Any]] = {}

    # --- what records say ----------------------------------------------------------------------------------------------

    def chunk(self, decoded: Any, report: Any) -> None:
        """Look at one chunk, and at what became of it."""
        import pyarrow.compute as pc

        from airflow_provider_rlmm.metadata.columnar import ErrorCode

        self.records += decoded.num_rows
        for code in pc.unique(report.quarantined.column("error_code")).to_pylist():
            rows = report.quarantined.filter(pc.equal(report.quarantined.column("error_code"), code))
            self._add(FindingKind(ErrorCode(code).name), rows, rows_detail="error")
        thrown = _with(report.would_end_consumer, "fate", (EventFate.THROWN,))
        after_finished = _with(report.would_end_consumer, "fate", (EventFate.AFTER_FINISHED,))
        self._add_where_served(FindingKind.EVENT_AFTER_FINISHED, after_finished)
        adds = pc.equal(thrown.column("api_key"), SEGMENT_API_KEY)
        self._add_where_served(FindingKind.ADD_IN_OTHER_STATE, thrown.filter(adds))
        self._add_where_served(FindingKind.UPDATE_TO_COPY_STARTED, thrown.filter(pc.invert(adds)))
        self._dropped(_without(report.dropped, _places(after_finished)))
        deletes = _with(decoded, "api_key", (PARTITION_DELETE_API_KEY,))
        for row in _with(deletes, "error_code", (ErrorCode.GOOD, ErrorCode.KEYED)).select(_DELETION).to_pylist():
            self._deletion(row)

    def _dropped(self, rows: Any) -> None:
        import pyarrow.compute as pc

        unknown = pc.equal(rows.column("fate"), EventFate.DROPPED_UNKNOWN_SEGMENT)
        self._add(FindingKind.ILLEGAL_TRANSITION, rows.filter(pc.invert(unknown)))
        rows = rows.filter(unknown)
        repeated = pc.equal(rows.column("state"), int(RemoteLogSegmentState.DELETE_SEGMENT_FINISHED))
        self._add(FindingKind.UPDATE_WITHOUT_BASE, rows.filter(pc.invert(repeated)))
        self._add(FindingKind.UPDATE_WITHOUT_BASE, rows.filter(repeated), Severity.NOTICE)

    def _deletion(self, row: dict[str, Any]) -> None:
        """Look at one event of a partition's deletion: they are few, and no cache checks their order."""
        key = (row["topic_id"], row["partition"])
        state = RemotePartitionDeleteState(row["state"])
        before = self._deletions.get(key)
        self._deletions[key] = row
        # The events before it may be among those that are gone.
        if before is not None or self._beginnings[row["metadata_partition"]] == 0:
            source = RemotePartitionDeleteState(before["state"]) if before else None
            reopened = None if source is _FINISHED else source
            valid = RemotePartitionDeleteState.is_valid_transition
            if not (valid(source, state) or valid(reopened, state)):
                came = source.name if source is not None else "nothing"
                self._add_one(FindingKind.ILLEGAL_TRANSITION, row, f"{came} → {state.name}")
        if state is _FINISHED and UUID(bytes=row["topic_id"]) in self._live:
            self._add_one(FindingKind.LIVE_PARTITION_FINISHED, row, "its topic exists")

    # --- what never ended ----------------------------------------------------------------------------------------------

    def incomplete_history(self, state: TopicState) -> None:
        """Report the metadata partitions of which records are gone, once per user partition that this concerns."""
        kind = FindingKind.INCOMPLETE_HISTORY
        for gap in state.gaps:
            place = {"metadata_partition": gap.metadata_partition, "offset": gap.end}
            known = user_partitions(state.state, {gap.metadata_partition})
            if not known.num_rows:
                self._add_one(kind, place, f"{gap}; no user partition is known of it")
            rows = known.slice(0, self.findings.room(kind)).to_pylist()
            severity = EXPLANATIONS[kind].severity
            self.findings.add(
                [_finding(kind, severity, row | place, str(gap)) for row in rows], kind, severity, known.num_rows
            )

    def unsettled_markers(self, before_ms: int) -> None:
        """Report deletions that began and did not finish; ``before_ms`` is the last time that is old enough."""
        for row in self._deletions.values():
            state = RemotePartitionDeleteState(row["state"])
            if state is not _FINISHED and row["event_timestamp_ms"] <= before_ms:
                self._add_one(FindingKind.UNSETTLED_MARKER, row, f"{state.name} is its last event")

    def stuck_segments(self, segments: pa.Table, before_ms: int) -> None:
        """Report segments that are being copied or deleted for too long, the oldest first."""
        import pyarrow.compute as pc

        stuck = _with(segments, "state", _STARTED)
        stuck = stuck.filter(pc.less_equal(stuck.column("event_timestamp_ms"), before_ms))
        count = stuck.num_rows
        oldest = stuck.sort_by("event_timestamp_ms").slice(0, self.findings.room(FindingKind.STUCK_SEGMENT))
        rows = oldest.to_pylist()
        offsets = self.trail.last_offsets(oldest)
        kind = FindingKind.STUCK_SEGMENT
        found = [
            _finding(
                kind, EXPLANATIONS[kind].severity, row | {"offset": offset}, RemoteLogSegmentState(row["state"]).name
            )
            for row, offset in zip(rows, offsets, strict=True)
        ]
        self.findings.add(found, kind, EXPLANATIONS[kind].severity, count)

    def recoveries(self, segments: pa.Table) -> tuple[Recovery, ...]:
        """Return what it costs to delete the records up to the last critical one of each metadata partition."""
        found = []
        for metadata_partition, offset in sorted(self._last_critical.items()):
            lost = self.trail.first_seen_before(segments, metadata_partition, offset + 1)
            records = offset + 1 - self._beginnings[metadata_partition]
            found.append(Recovery(metadata_partition, offset + 1, records, *lost))
        return tuple(found)

    # --- writing it down -----------------------------------------------------------------------------------------------

    def _add_where_served(self, kind: FindingKind, rows: Any) -> None:
        """Add findings that are critical only where a broker serves the partition."""
        import pyarrow as pa
        import pyarrow.compute as pc

        ids = pa.array([topic_id.bytes for topic_id in self._live], rows.schema.field("topic_id").type)
        served = pc.is_in(rows.column("topic_id"), value_set=ids)
        self._add(kind, rows.filter(served), Severity.CRITICAL)
        self._add(kind, rows.filter(pc.invert(served)))

    def _add(self, kind: FindingKind, rows: Any, severity: Severity | None = None, rows_detail: str = "reason") -> None:
        severity = severity or EXPLANATIONS[kind].severity
        kept = rows.slice(0, self.findings.room(kind)).to_pylist()
        self.findings.add([_finding(kind, severity, r, r[rows_detail]) for r in kept], kind, severity, rows.num_rows)
        if severity is Severity.CRITICAL and rows.num_rows:
            last = rows.group_by("metadata_partition").aggregate([("offset", "max")])
            self._note_critical(
                zip(*(last[name].to_pylist() for name in ("metadata_partition", "offset_max")), strict=True)
            )

    def _add_one(self, kind: FindingKind, row: Mapping[str, Any], detail: str) -> None:
        severity = EXPLANATIONS[kind].severity
        self.findings.add([_finding(kind, severity, row, detail)], kind, severity, 1)
        if severity is Severity.CRITICAL:
            self._note_critical([(row["metadata_partition"], row["offset"])])

    def _note_critical(self, places: Iterable[tuple[int, int]]) -> None:
        for metadata_partition, offset in places:
            self._last_critical[metadata_partition] = max(offset, self._last_critical.get(metadata_partition, -1))


def _finding(kind: FindingKind, severity: Severity, row: Mapping[str, Any], detail: str) -> Finding:
    event_ms = row.get("event_timestamp_ms")
    return Finding(
        kind,
        severity,
        row["metadata_partition"],
        row["offset"],
        topic_id=_id(row.get("topic_id")),
        topic=name_in_text(row["topic"]) if row.get("topic") is not None else None,
        partition=row.get("partition"),
        segment_id=_id(row.get("segment_id")),
        since_ms=row.get("timestamp_ms") if event_ms is None else event_ms,
        detail=printable(detail),
    )


def _id(raw: bytes | None) -> str | None:
    return None if raw is None else kafka_uuid_str(UUID(bytes=raw))


def _with(rows: Any, column: str, values: Iterable[int]) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted = pa.array([int(value) for value in values], rows.schema.field(column).type)
    return rows.filter(pc.is_in(rows.column(column), value_set=wanted))


def _places(rows: Any) -> set[tuple[int, int]]:
    columns = (rows.column(name).to_pylist() for name in ("metadata_partition", "offset"))
    return set(zip(*columns, strict=True))


def _without(rows: Any, places: set[tuple[int, int]]) -> Any:
    import pyarrow as pa

    if not places or not rows.num_rows:
        return rows
    columns = (rows.column(name).to_pylist() for name in ("metadata_partition", "offset"))
    return rows.filter(pa.array([place not in places for place in zip(*columns, strict=True)]))
