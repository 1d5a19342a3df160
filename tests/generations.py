# SPDX-License-Identifier: Apache-2.0
"""Generations of a metadata topic in memory, written as the tasks of the Spark job write them."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from airflow_provider_rlmm.core.generations.manifest import Generation
from airflow_provider_rlmm.core.generations.store import GenerationStore
from airflow_provider_rlmm.core.log.in_process import METADATA_TOPIC, InProcessMetadataEventLog
from airflow_provider_rlmm.core.records.era import PLAIN_ERA
from airflow_provider_rlmm.core.world.cluster_state import ClusterState
from airflow_provider_rlmm.features.retention.rules import EvaluationLimits
from airflow_provider_rlmm.features.retention.spark.executor.judging import Evaluation
from airflow_provider_rlmm.features.retention.spark.executor.metadata_partition import GenerationOrder, evaluate_batches
from airflow_provider_rlmm.features.retention.spark.generations import _manifest
from airflow_provider_rlmm.features.retention.spark.source import TopicRange
from airflow_provider_rlmm.features.retention.spark.task_report import TaskReport


def written(
    uri: str,
    log: InProcessMetadataEventLog,
    now_ms: int,
    *,
    cluster_id: str = "cluster-1",
    before: Generation | None = None,
    compared: Generation | None = None,
    ends: dict[int, int] | None = None,
) -> tuple[Generation, list[TaskReport]]:
    """
    Write what there is of a log, or what is below some ends, as the next generation of a data set.

    :return: the generation, which counts from now on, and what the tasks told.
    """
    store, known = GenerationStore(uri), {} if before is None else before.parts
    begin, end = dict(log.beginning_offsets()), ends or dict(log.high_water_marks())
    topic_range = TopicRange(METADATA_TOPIC, log.topic_id, begin, end)
    evaluation = Evaluation(len(end), ClusterState(cluster_id, now_ms, ()), EvaluationLimits(now_ms))
    earlier = before or compared
    number = 1 if earlier is None else earlier.number + 1
    order = GenerationOrder(store.root, number, end, known, begin, {} if compared is None else compared.parts)
    begins = {p: known[p].start if p in known else first for p, first in begin.items()}
    reports = []
    for row in evaluate_batches(_batches(log, begins, end), evaluation, order, f"attempt-{number}"):
        reports += [TaskReport.from_json(told) for told in row["told"].to_pylist()]
    parts = {**known, **{report.metadata_partition: report.part for report in reports}}
    generation = _manifest(number, topic_range, evaluation, parts, PLAIN_ERA, before)
    store.create(generation)
    return generation, reports


def _batches(log: InProcessMetadataEventLog, begins: dict[int, int], ends: dict[int, int]) -> Iterator[pa.RecordBatch]:
    for number, begin in begins.items():
        for batch in log.read(number, begin, ends[number]):
            home = pa.array([number] * batch.num_rows, pa.int32())
            columns = [home, *(batch.column(name) for name in ("offset", "timestamp_ms", "key", "value"))]
            yield pa.RecordBatch.from_arrays(
                columns, names=["metadata_partition", "offset", "timestamp_ms", "key", "value"]
            )
