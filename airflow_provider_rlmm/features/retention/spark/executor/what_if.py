# SPDX-License-Identifier: Apache-2.0
"""What a task does with one metadata partition of a generation: count what would go under other settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_provider_rlmm.core.generations.folding import Folding
from airflow_provider_rlmm.core.generations.manifest import NumberedPart
from airflow_provider_rlmm.core.records.fold.living import LivingSegments
from airflow_provider_rlmm.features.retention.spark.columns import WHAT_IF_COLUMNS, arrow_schema
from airflow_provider_rlmm.features.retention.spark.executor.judging import Evaluation, judge
from airflow_provider_rlmm.features.retention.spark.executor.retention_walk import NONE, REASONS

SCHEMA = arrow_schema(WHAT_IF_COLUMNS)


def count_what_goes(folder: str, numbered: NumberedPart, evaluations: Sequence[Evaluation]) -> Iterator[pa.RecordBatch]:
    """
    Yield rows of :data:`SCHEMA`: per evaluation, topic and reason what would go.

    :param folder: URI of the folder that the names of its files are below.
    :param numbered: the metadata partition, and what is known of it.
    :param evaluations: what would hold, all of one topic.
    :raises SnapshotRefusedError: if a file is not the one that its manifest names.
    """
    number, part = numbered
    state = Folding(number, evaluations[0].num_partitions, part, folder).state
    segments, unresolved = state.living(), state.unresolved
    for scenario, evaluation in enumerate(evaluations):
        yield _counted(scenario, segments, judge(segments, evaluation, unresolved).codes)


def _counted(number: int, segments: LivingSegments, codes: Any) -> pa.RecordBatch:
    goes = np.flatnonzero(codes != NONE)
    reasons = pa.array([reason.value for reason in REASONS], pa.string())
    topics = segments.partitions["topic"].take(pa.array(np.searchsorted(segments.first, goes, "right") - 1))
    sizes = segments.numbers("segment_size_in_bytes", goes).astype(np.int64)
    some = pa.table({"topic": topics, "segment_size_in_bytes": sizes, "reason": reasons.take(pa.array(codes[goes]))})
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
