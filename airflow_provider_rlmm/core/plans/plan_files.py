# SPDX-License-Identifier: Apache-2.0
"""
Plans in storage: ``<uri>/metadata-partition-<n>.parquet`` (one row per segment) and ``<uri>/summary.json``, written last.

A plan without its summary does not exist, and only the files that the summary names are ever read: whole, once, and only
if size, SHA-256 and rows are those of the summary. URIs are those of :mod:`~airflow_provider_rlmm.core.base.file_systems`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.arrow_arrays import equals, schema_of
from airflow_provider_rlmm.core.base.arrow_groups import groups_of
from airflow_provider_rlmm.core.base.errors import ConfigurationError, PlanError
from airflow_provider_rlmm.core.base.file_systems import create_file, read_file, remove_file, replace_file
from airflow_provider_rlmm.core.plans.plan import (
    MAX_PLAN_FILE_BYTES,
    PLAN_COLUMNS,
    PLAN_FORM,
    ROW_GROUP_ROWS,
    SUMMARY_NAME,
    PlanFile,
    PlanSummary,
    Reason,
    plan_file_name,
)
from airflow_provider_rlmm.core.records.records import kafka_uuid_str

if TYPE_CHECKING:
    import pyarrow as pa

MAX_DOCUMENT_BYTES = 256 * 2**20
_ID_BYTES = 16


def plan_schema() -> pa.Schema:
    """Return the Arrow schema of a plan."""
    return schema_of(PLAN_COLUMNS, nullable=False)


def write_document(uri: str, name: str, text: str) -> str:
    """
    Write a small text document in the place of an older one, whole or not at all.

    :param uri: of the directory; it is created.
    :param name: file name.
    :param text: content.
    :return: the document's URI.
    :raises OSError: if it cannot be written; an older one is still there.
    """
    target = _file(uri, name)
    try:
        replace_file(target, [text.encode()])
    except ConfigurationError as e:
        raise PlanError(str(e)) from e
    return target


def read_document(uri: str, name: str, max_bytes: int = MAX_DOCUMENT_BYTES) -> str:
    """
    Read a small text document.

    :param uri: of the directory.
    :param name: file name.
    :param max_bytes: a larger one is refused before it is read.
    :raises PlanError: if there is none, or it cannot be read.
    """
    try:
        return str(_read(uri, name, max_bytes), "utf-8")
    except UnicodeDecodeError as e:
        raise PlanError(f"{_file(uri, name)} is no UTF-8 ({e}); make a new plan") from e


def write_plan(uri: str, rows: pa.Table, summary: PlanSummary) -> PlanSummary:
    """
    Write a plan, in the place of an older one.

    The older summary goes first and the new one comes last, created and never replaced: of two that write at once one
    fails, and what the other left is a plan only if every file is the one that its summary names.

    :param uri: of the plan's directory.
    :param rows: with the columns of :data:`~airflow_provider_rlmm.core.plans.plan.PLAN_COLUMNS`.
    :param summary: its summary, still without files.
    :return: the summary with its files, as it was written.
    :raises PlanError: if rows and summary do not fit each other, or another program writes a plan there.
    :raises OSError: if it cannot be written; there is no plan then.
    """
    try:
        remove_file(_file(uri, SUMMARY_NAME))
        files = {}
        for metadata_partition in sorted(summary.by_metadata_partition):
            part = rows.filter(equals(rows.column("metadata_partition"), metadata_partition))
            data = parquet_bytes(part)
            file = files[metadata_partition] = PlanFile.of(plan_file_name(metadata_partition), part.num_rows, data)
            replace_file(_file(uri, file.name), [data])
        if sum(f.rows for f in files.values()) != rows.num_rows:
            raise PlanError(f"plan {summary.plan_id} has rows of metadata partitions that its summary does not name")
        bound = replace(summary, files=files)
        create_file(_file(uri, SUMMARY_NAME), [bound.to_json().encode()])
    except ConfigurationError as e:
        raise PlanError(str(e)) from e
    except FileExistsError as e:
        raise PlanError(f"{uri}: another try wrote a plan at the same time; run this task again") from e
    return bound


def parquet_bytes(rows: pa.Table) -> memoryview:
    """
    Return a table as the bytes of a Parquet file.

    :param rows: the table.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, row_group_size=ROW_GROUP_ROWS)
    return memoryview(sink.getvalue())


def read_plan(uri: str) -> PlanSummary:
    """
    Read a plan's summary.

    :param uri: of the plan's directory.
    :raises PlanError: if there is none, or it is not as it was written.
    """
    return PlanSummary.from_json(read_document(uri, SUMMARY_NAME, PLAN_FORM.max_bytes))


def read_named(uri: str, file: PlanFile, again: str = PLAN_FORM.again) -> pa.Buffer:
    """
    Return the bytes of a file that a document names: whole, once, and only if they are those that it was made with.

    :param uri: of the folder.
    :param file: as the document knows it.
    :param again: what makes a new one, in words.
    :raises PlanError: if it cannot be read, or is another one.
    """
    data = _read(uri, file.name, min(file.bytes, MAX_PLAN_FILE_BYTES), again)
    file.check(memoryview(data))
    return data


def planned_segments(
    uri: str, summary: PlanSummary, metadata_partition: int
) -> dict[tuple[UUID, int], frozenset[UUID]]:
    """
    Return the segments that a plan allows to delete in one metadata partition; only its own file is read.

    :param uri: of the plan's directory.
    :param summary: what :func:`read_plan` returned.
    :param metadata_partition: which one.
    :return: (topic id, user partition) → segment ids; orphaned segments only, the others are the brokers' to delete.
    :raises PlanError: if the plan does not name the metadata partition, or the file is not the one that it names.
    """
    orphaned = _orphaned(uri, summary, metadata_partition, ("topic_id", "partition", "segment_id"))
    found: dict[tuple[UUID, int], set[UUID]] = {}
    for topic_id, partition, segment_id in _tuples(orphaned):
        found.setdefault((UUID(bytes=topic_id), partition), set()).add(UUID(bytes=segment_id))
    if sum(map(len, found.values())) != orphaned.num_rows:
        raise PlanError(f"{plan_file_name(metadata_partition)} of {uri} names a segment twice; make a new plan")
    return {key: frozenset(ids) for key, ids in found.items()}


def orphaned_partitions(uri: str, summary: PlanSummary) -> frozenset[tuple[UUID, int]]:
    """
    Return the (topic id, user partition) that a plan calls orphaned, as work for marker and planner.

    :param uri: of the plan's directory.
    :param summary: what :func:`read_plan` returned.
    :raises PlanError: if a file is not the one that the summary names.
    """
    keys = ("topic_id", "partition")
    found: set[tuple[UUID, int]] = set()
    for metadata_partition in sorted(summary.files):
        orphaned = groups_of(_orphaned(uri, summary, metadata_partition, keys), keys).keys(keys)
        found |= {(UUID(bytes=topic_id), partition) for topic_id, partition in _tuples(orphaned)}
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class PlannedTopic:
    """What a plan would delete of one topic."""

    topic: str  # its name, as the metadata topic says it
    topic_id: str  # Kafka's text of it
    segments: int
    bytes: int
    oldest_ms: int  # time of the newest record in its oldest segment, ms since the epoch


def planned_topics(uri: str, summary: PlanSummary) -> list[PlannedTopic]:
    """
    Return the topics whose orphaned segments a plan names, the largest first.

    :param uri: of the plan's directory.
    :param summary: what :func:`read_plan` returned.
    :raises PlanError: if a file is not the one that the summary names.
    """
    import pyarrow as pa

    keys, amounts = ("topic_id", "topic"), ("segment_size_in_bytes", "max_timestamp_ms")
    read = [_orphaned(uri, summary, number, (*keys, *amounts)) for number in sorted(summary.files)]
    if not read:
        return []
    groups = groups_of(pa.concat_tables(read), keys)
    numbers = groups.rows(), groups.total(amounts[0]), groups.least(amounts[1])
    found = [
        PlannedTopic(topic, kafka_uuid_str(UUID(bytes=topic_id)), segments, size, oldest)
        for (topic_id, topic), segments, size, oldest in zip(
            _tuples(groups.keys(keys)), *(n.tolist() for n in numbers), strict=True
        )
    ]
    return sorted(found, key=lambda topic: (-topic.bytes, topic.topic, topic.topic_id))


def _orphaned(uri: str, summary: PlanSummary, metadata_partition: int, columns: Sequence[str]) -> pa.Table:
    """Return columns of the orphaned rows of one file, once everything about that file was checked."""
    import pyarrow as pa
    import pyarrow.compute as pc

    file = summary.files.get(metadata_partition)
    if file is None:
        raise PlanError(
            f"plan {summary.plan_id} has no metadata partition {metadata_partition}: {sorted(summary.files)}"
        )
    data = read_named(uri, file)
    try:
        rows = _columns_of(data, file, ("metadata_partition", *columns, "reason"))
    except (OSError, ValueError, LookupError, TypeError, pa.ArrowException) as e:
        raise PlanError(f"the rows of {_file(uri, file.name)} cannot be read ({e}); make a new plan") from e
    if rows.num_rows and pc.unique(rows.column("metadata_partition")).to_pylist() != [metadata_partition]:
        raise PlanError(f"{_file(uri, file.name)} holds rows of another metadata partition; make a new plan")
    return rows.filter(equals(rows.column("reason"), Reason.ORPHANED.value)).select(columns)


def _columns_of(data: pa.Buffer, file: PlanFile, columns: Sequence[str]) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    parquet = pq.ParquetFile(pa.BufferReader(data))
    if parquet.metadata.num_rows != file.rows:
        raise ValueError(f"{number_of(parquet.metadata.num_rows, 'row')}, the plan says {file.rows}")
    schema = plan_schema()
    for name in columns:
        if parquet.schema_arrow.field(name).type != schema.field(name).type:
            raise TypeError(f"column {name} is {parquet.schema_arrow.field(name).type}, not {schema.field(name).type}")
    rows = parquet.read(list(columns))
    for name in columns:
        column = rows.column(name)
        if column.null_count:
            raise ValueError(f"column {name} holds null")
        if name.endswith("_id") and not pc.all(equals(pc.binary_length(column), _ID_BYTES), min_count=0).as_py():
            raise ValueError(f"column {name} holds what is no id of {_ID_BYTES} bytes")
    return rows


def _tuples(rows: pa.Table) -> Any:
    return zip(*(column.to_pylist() for column in rows.columns), strict=True)


def _file(uri: str, name: str) -> str:
    return f"{uri.rstrip('/')}/{name}"


def _read(uri: str, name: str, max_bytes: int, again: str = PLAN_FORM.again) -> pa.Buffer:
    try:
        return read_file(_file(uri, name), max_bytes)
    except ConfigurationError as e:
        raise PlanError(str(e)) from e
    except OSError as e:
        raise PlanError(f"{_file(uri, name)} cannot be read ({e}); {again}") from e
