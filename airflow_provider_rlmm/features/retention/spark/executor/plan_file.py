# SPDX-License-Identifier: Apache-2.0
"""What a task does with one file of a generation: write those of its segments that are to go into the file of a plan."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_provider_rlmm.core.generations.files import new_file, read_whole
from airflow_provider_rlmm.core.generations.manifest import GenerationFile
from airflow_provider_rlmm.core.plans.plan import PLAN_COLUMNS, ROW_GROUP_ROWS, Reason
from airflow_provider_rlmm.features.retention.spark.columns import PLANNED_COLUMNS, SEGMENT, arrow_schema

SCHEMA = pa.schema([pa.field(name, pa.type_for_alias(kind), nullable=False) for name, kind in PLAN_COLUMNS])
"""Of a plan's file."""

PLANNED = arrow_schema(PLANNED_COLUMNS)
"""Of what a task returns."""

_SIZE, _COUNTED_BY = "segment_size_in_bytes", ["metadata_partition", "reason", "exact"]


def write_plan_file(
    folder: str,
    file: GenerationFile,
    absent: Collection[tuple[bytes, str]],
    changed: Collection[tuple[bytes, int]],
    target: str,
    name: str,
) -> Iterator[pa.RecordBatch]:
    """
    Write the segments of one metadata partition that are to go, in the order of the data set; yield rows of :data:`PLANNED`.

    :param folder: URI of the generation's folder.
    :param file: of the metadata partition.
    :param absent: (topic id, name) of deleted topics: nothing else is ever called orphaned.
    :param changed: (topic id, user partition) whose leaders say something else now: nothing of them is certain.
    :param target: URI of the folder to write to.
    :param name: of the file; where nothing is to go there is none.
    :raises SnapshotRefusedError: if the file is not the one that its task has written.
    """
    to_go = _groups(_batches_to_go(folder, file, absent, changed))
    first = next(to_go, None)
    if first is None:
        return
    sums = []
    with new_file(target, name) as written, pq.ParquetWriter(pa.PythonFile(written, "w"), SCHEMA) as writer:
        for rows in chain([first], to_go):
            writer.write_table(rows)
            sums.append(rows.group_by(_COUNTED_BY).aggregate([(_SIZE, "count"), (_SIZE, "sum")]))
    counted = (
        pa.concat_tables(sums).group_by(_COUNTED_BY).aggregate([(f"{_SIZE}_count", "sum"), (f"{_SIZE}_sum", "sum")])
    )
    described = written.described()
    for value in (described.name, described.bytes, described.sha256):
        counted = counted.append_column(str(counted.num_columns), pa.repeat(pa.scalar(value), counted.num_rows))
    yield from counted.rename_columns(PLANNED.names).cast(PLANNED).combine_chunks().to_batches()


def _batches_to_go(
    folder: str, file: GenerationFile, absent: Collection[tuple[bytes, str]], changed: Collection[tuple[bytes, int]]
) -> Iterator[pa.Table]:
    rows = pq.ParquetFile(pa.BufferReader(read_whole(folder, file)))
    for batch in rows.iter_batches(ROW_GROUP_ROWS):
        yield rows_to_go(pa.Table.from_batches([batch]), absent, changed)


def _groups(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield rows in tables of :data:`ROW_GROUP_ROWS`, the last one of fewer; none is empty."""
    waiting = SCHEMA.empty_table()
    for table in tables:
        waiting = pa.concat_tables([waiting, table])
        while waiting.num_rows >= ROW_GROUP_ROWS:
            yield waiting.slice(0, ROW_GROUP_ROWS)
            waiting = waiting.slice(ROW_GROUP_ROWS)
    if waiting.num_rows:
        yield waiting


def rows_to_go(
    rows: pa.Table, absent: Collection[tuple[bytes, str]], changed: Collection[tuple[bytes, int]] = ()
) -> pa.Table:
    """
    Return the segments that have a reason to go, with the columns of :data:`SCHEMA`.

    :param rows: of the data set.
    :param absent: (topic id, name) of deleted topics.
    :param changed: (topic id, user partition) whose leaders say something else now.
    """
    segments = rows.filter(pc.equal(rows["kind"], SEGMENT))
    deleted = pa.array([topic_id + name.encode() for topic_id, name in absent], pa.binary())
    # Ids are of one length, so no two pairs look alike.
    topic = pc.binary_join_element_wise(segments["topic_id"], segments["topic"].cast(pa.binary()), b"")
    orphaned = pc.and_(segments["may_be_orphaned"], pc.is_in(topic, value_set=deleted))
    reasons = pc.coalesce(segments["reason"], pc.if_else(orphaned, Reason.ORPHANED.value, pa.scalar(None, pa.string())))
    judged = segments.set_column(segments.schema.get_field_index("reason"), "reason", reasons)
    exact = pc.and_(judged["exact"], pc.invert(_is_of(judged, changed)))
    judged = judged.set_column(judged.schema.get_field_index("exact"), "exact", exact)
    return judged.filter(pc.is_valid(reasons)).select(SCHEMA.names).cast(SCHEMA)


def _is_of(rows: pa.Table, partitions: Collection[tuple[bytes, int]]) -> pa.ChunkedArray:
    """Return of each row whether it is of one of some user partitions, by topic id and number."""
    wanted = pa.array([topic_id + str(number).encode() for topic_id, number in partitions], pa.binary())
    number = rows["partition"].cast(pa.string()).cast(pa.binary())
    return pc.is_in(pc.binary_join_element_wise(rows["topic_id"], number, b""), value_set=wanted)
