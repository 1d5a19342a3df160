# SPDX-License-Identifier: Apache-2.0
"""What a task does with one file of a generation: evaluate its segments under other settings, and count what would go."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_provider_rlmm.core.base.errors import SnapshotRefusedError
from airflow_provider_rlmm.features.retention.spark.columns import SEGMENT, UNRESOLVED, WHAT_IF_COLUMNS, arrow_schema
from airflow_provider_rlmm.features.retention.spark.executor.files import read_whole
from airflow_provider_rlmm.features.retention.spark.executor.retention_walk import FIELDS, NONE, REASONS
from airflow_provider_rlmm.features.retention.spark.executor.rows import (
    Evaluation,
    in_walk_order,
    reason_codes,
    uncertain_among,
)
from airflow_provider_rlmm.features.retention.spark.generation import GenerationFile

SCHEMA = arrow_schema(WHAT_IF_COLUMNS)

_COLUMNS = ("kind", "topic_id", "topic", "partition", "segment_id", *FIELDS)


def count_what_goes(folder: str, file: GenerationFile, evaluations: Sequence[Evaluation]) -> Iterator[pa.RecordBatch]:
    """
    Yield rows of :data:`SCHEMA`: per evaluation, topic and reason what would go.

    :param folder: URI of the generation's folder.
    :param file: of one metadata partition.
    :param evaluations: what would hold.
    :raises SnapshotRefusedError: if the file is not the one that its manifest names.
    """
    try:
        rows = pq.read_table(pa.BufferReader(read_whole(folder, file)), columns=list(_COLUMNS))
    except (pa.ArrowException, KeyError) as e:
        raise SnapshotRefusedError(f"{folder}/{file.name} cannot be used ({e})") from e
    ordered = in_walk_order(rows.filter(pc.equal(rows["kind"], SEGMENT)))
    uncertain = uncertain_among(ordered.table, rows.filter(pc.equal(rows["kind"], UNRESOLVED)))
    for number, evaluation in enumerate(evaluations):
        codes = reason_codes(ordered, ordered.listed(evaluation), evaluation)
        codes[uncertain] = NONE
        yield _counted(number, ordered.table, codes)


def _counted(number: int, segments: pa.Table, codes: Any) -> pa.RecordBatch:
    goes = np.flatnonzero(codes != NONE)
    reasons = pa.array([reason.value for reason in REASONS], pa.string())
    some = segments.select(["topic", "segment_size_in_bytes"]).take(pa.array(goes))
    some = some.append_column("reason", reasons.take(pa.array(codes[goes])))
    counted = some.group_by(["topic", "reason"]).aggregate([([], "count_all"), ("segment_size_in_bytes", "sum")])
    columns = {
        "scenario": pa.repeat(pa.scalar(number), counted.num_rows),
        "topic": counted["topic"],
        "reason": counted["reason"],
        "segments": counted["count_all"],
        "bytes": counted["segment_size_in_bytes_sum"],
    }
    table = pa.table({name: columns[name] for name in SCHEMA.names}).cast(SCHEMA).combine_chunks()
    return next(iter(table.to_batches()), pa.RecordBatch.from_pylist([], SCHEMA))
