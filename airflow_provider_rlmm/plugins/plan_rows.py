# SPDX-License-Identifier: Apache-2.0
"""What a plan names, by topic and by segment: searched, sorted and page by page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.errors import DocumentError
from airflow_provider_rlmm.core.plans.plan import PlanSummary, Reason
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.overview.inventories import id_of

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_rlmm.overview.tables import Rows

TOPIC_SORTS: Final = ("topic", "reason", "partitions", "segments", "bytes", "oldest_ms")
SEGMENT_SORTS: Final = (
    "topic",
    "partition",
    "start_offset",
    "bytes",
    "max_timestamp_ms",
    "reason",
    "metadata_partition",
)
MAX_ROWS: Final = 2_000_000
"""A plan with more segments is taken along and not shown row by row."""

_BYTES: Final = "segment_size_in_bytes"


@dataclass(frozen=True, slots=True)
class PlannedTopicRow:
    """What a plan names of one topic for one reason."""

    topic: str
    topic_id: str
    reason: str
    partitions: int
    segments: int
    bytes: int
    oldest_ms: int
    estimated: bool  # whether it is not known if the leader of a living topic does that


@dataclass(frozen=True, slots=True)
class PlannedSegmentRow:
    """A segment that a plan names."""

    topic: str
    topic_id: str
    partition: int
    segment_id: str
    state: str
    start_offset: int
    end_offset: int
    max_timestamp_ms: int
    bytes: int
    reason: str
    metadata_partition: int
    estimated: bool  # whether it is not known if the leader of a living topic does that


def planned_topics(
    work_uri: str,
    plan: str,
    summary: PlanSummary,
    *,
    search: str = "",
    reason: str = "",
    sort: str = "",
    descending: bool = False,
    start: int = 0,
    rows: int = 100,
) -> Rows:
    """
    Return what a plan names, a :class:`PlannedTopicRow` for each topic, reason and certainty, and how many there are in all.

    :param work_uri: the work folder.
    :param plan: name of the plan.
    :param summary: its summary.
    :param search: part of a topic's name, or a whole topic id; empty for any.
    :param reason: why, empty for any.
    :param sort: one of :data:`TOPIC_SORTS`; empty for the largest first.
    :param descending: whether the largest comes first.
    :param start: how many are left out before.
    :param rows: how many are returned, at most.
    :raises FileNotFoundError: if a file of the plan is gone.
    :raises DocumentError: if a file is not the one that the summary names, or there are more than :data:`MAX_ROWS` rows.
    """
    table = _table(work_uri, plan, summary)
    grouped = table.group_by(["topic", "topic_id", "reason", "exact"]).aggregate(
        [("partition", "count_distinct"), ([], "count_all"), (_BYTES, "sum"), ("max_timestamp_ms", "min")]
    )
    named = grouped.select(
        [
            "topic",
            "topic_id",
            "reason",
            "partition_count_distinct",
            "count_all",
            f"{_BYTES}_sum",
            "max_timestamp_ms_min",
            "exact",
        ]
    ).rename_columns(["topic", "topic_id", "reason", "partitions", "segments", "bytes", "oldest_ms", "exact"])
    by, down = (sort, descending) if sort in TOPIC_SORTS else ("bytes", True)
    return _page(named, search, reason, by, down, start, rows, _topic_row)


def planned_segments(
    work_uri: str,
    plan: str,
    summary: PlanSummary,
    *,
    search: str = "",
    reason: str = "",
    sort: str = "",
    descending: bool = False,
    start: int = 0,
    rows: int = 100,
) -> Rows:
    """
    Return the segments that a plan names (:class:`PlannedSegmentRow`), and how many there are in all.

    :param sort: one of :data:`SEGMENT_SORTS`; empty for the plan's own order.

    The other parameters and errors are those of :func:`planned_topics`.
    """
    table = _table(work_uri, plan, summary)
    names = ["bytes" if name == _BYTES else name for name in table.column_names]
    by = sort if sort in SEGMENT_SORTS else ""
    return _page(table.rename_columns(names), search, reason, by, descending, start, rows, _segment_row)


def _table(work_uri: str, plan: str, summary: PlanSummary) -> pa.Table:
    import pyarrow as pa

    from airflow_provider_rlmm.core.plans.plan_files import plan_schema
    from airflow_provider_rlmm.overview.tables import Expected, whole_table

    planned = sum(file.rows for file in summary.files.values())
    if planned > MAX_ROWS:
        raise DocumentError(
            f"the plan names {number_of(planned, 'segment')}, and no page shows more than {MAX_ROWS:,}: download it"
        )
    schema = plan_schema()
    tables = [
        whole_table(work_uri, plan, file.name, schema=schema, expected=Expected(file.rows, file.bytes, file.sha256))
        for _, file in sorted(summary.files.items())
    ]
    return pa.concat_tables(tables).unify_dictionaries().combine_chunks() if tables else schema.empty_table()


def _page(
    table: pa.Table,
    search: str,
    reason: str,
    sort: str,
    descending: bool,
    start: int,
    rows: int,
    row_of: Any,
) -> Rows:
    from airflow_provider_rlmm.overview.choosing import chosen
    from airflow_provider_rlmm.overview.tables import Rows, plain

    wanted = {"reason": reason} if reason else {}
    order = chosen(table, wanted, "topic", search, id_of(search), sort, descending=descending)
    return Rows(tuple(map(row_of, plain(table.take(order.slice(start, rows))))), len(order))


def _topic_row(row: Mapping[str, Any]) -> PlannedTopicRow:
    known = {name: row[name] for name in PlannedTopicRow.__slots__ if name in row}
    return PlannedTopicRow(**{**known, "topic_id": id_text(row["topic_id"]), "estimated": _is_estimated(row)})


def _segment_row(row: Mapping[str, Any]) -> PlannedSegmentRow:
    known = {name: row[name] for name in PlannedSegmentRow.__slots__ if name in row}
    ids = {name: id_text(row[name]) for name in ("topic_id", "segment_id")}
    state = RemoteLogSegmentState(row["state"]).name
    return PlannedSegmentRow(**{**known, **ids, "state": state, "estimated": _is_estimated(row)})


def _is_estimated(row: Mapping[str, Any]) -> bool:
    return Reason(row["reason"]).is_of_leaders and not row["exact"]


def id_text(value: object) -> str:
    """
    Return an id of a plan's row in Kafka's base64 form.

    :param value: its bytes.
    :raises DocumentError: if it is none.
    """
    if not isinstance(value, bytes) or len(value) != 16:
        raise DocumentError("a plan holds what is no id of 16 bytes; make a new plan")
    return kafka_uuid_str(UUID(bytes=value))
