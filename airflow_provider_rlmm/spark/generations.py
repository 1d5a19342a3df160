# SPDX-License-Identifier: Apache-2.0
"""Brings a data set forward: reads what is new since its newest generation, and writes the next one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_rlmm.errors import SnapshotRefusedError
from airflow_provider_rlmm.metadata.records import kafka_uuid_str
from airflow_provider_rlmm.spark.generation import Generation, GenerationPart
from airflow_provider_rlmm.spark.generation_store import GenerationStore
from airflow_provider_rlmm.spark.segments import SegmentDataSet, data_set_of, run_tasks
from airflow_provider_rlmm.spark.source import TopicRange
from airflow_provider_rlmm.spark.task_report import TaskReport

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_provider_rlmm.spark.executor.rows import Evaluation

log = logging.getLogger(__name__)

Read = Callable[[Mapping[int, int]], "DataFrame"]
"""Metadata partition → offset at which its reading begins; returns the records from there to the end of the range."""


@dataclass(frozen=True)
class WrittenGeneration:
    """What a run has written."""

    generation: Generation  # its manifest
    data_set: SegmentDataSet  # its rows
    reports: tuple[TaskReport, ...]  # what its tasks told
    read_on_from: int | None  # the generation that it went on from, ``None`` where all was read
    why_all: str  # why all was read; empty where it was not


def next_generation(
    spark: SparkSession, read: Read, topic_range: TopicRange, evaluation: Evaluation, store: GenerationStore
) -> WrittenGeneration:
    """
    Read what is new, and write the next generation of a data set; old generations are removed.

    All is read where there is no generation, or the newest one is not of this topic, this log or this version.

    :param spark: the session.
    :param read: reads the topic.
    :param topic_range: what of the topic there is now.
    :param evaluation: what holds.
    :param store: the data set.
    :raises PlanError: if the topic was not read in order, a file is not what its task told, or another run was faster.
    :raises ConfigurationError: if no data set can be kept there.
    """
    store.require_lasting()
    numbers = store.numbers()
    empty = _manifest(numbers[0] + 1 if numbers else 1, topic_range, evaluation, {})
    before, why_all = _newest(store, numbers, empty, topic_range)
    written = write_generation(
        spark, read, topic_range, evaluation, store, before=before, number=empty.number, why_all=why_all
    )
    store.create(written.generation)
    try:
        if gone := store.remove_old(empty.number):
            log.info("removed the generations %s", gone)
    except OSError as e:
        log.warning("old generations below %s cannot be removed: %s", store.uri, next(iter(str(e).splitlines()), ""))
    return written


def write_generation(
    spark: SparkSession,
    read: Read,
    topic_range: TopicRange,
    evaluation: Evaluation,
    store: GenerationStore,
    *,
    before: Generation | None = None,
    number: int = 1,
    why_all: str = "",
) -> WrittenGeneration:
    """
    Write the files of a generation; it does not count before its manifest is written.

    :param spark: the session.
    :param read: reads the topic.
    :param topic_range: what of the topic there is now.
    :param evaluation: what holds.
    :param store: the data set.
    :param before: the generation to go on from, ``None`` to read all.
    :param number: of the generation to be written.
    :param why_all: why all is read.
    :raises PlanError: if the topic was not read in order, or a file is not what its task told.
    """
    from airflow_provider_rlmm.spark.executor.metadata_partition import GenerationOrder

    known = {} if before is None else before.parts
    begins = {p: known[p].start if p in known else begin for p, begin in topic_range.begin.items()}
    folder_before = "" if before is None else store.folder(before.number)
    order = GenerationOrder(store.folder(number), topic_range.end, known, folder_before)
    if before is None:
        log.info("generation %d: reads the topic from its beginning: %s", number, why_all)
    else:
        log.info("generation %d: reads on from generation %d", number, before.number)
    expected = {p for p, end in topic_range.end.items() if end > begins[p]}
    reports = run_tasks(read(begins), evaluation, order, expected)
    if refused := [report.refused for report in reports if report.refused is not None]:
        return write_generation(spark, read, topic_range, evaluation, store, number=number, why_all=refused[0])
    data_set = data_set_of(spark, order.folder, reports)
    parts = {report.metadata_partition: report.part for report in reports}
    return WrittenGeneration(
        _manifest(number, topic_range, evaluation, parts),
        data_set,
        reports,
        None if before is None else before.number,
        why_all,
    )


def _newest(
    store: GenerationStore, numbers: list[int], empty: Generation, topic_range: TopicRange
) -> tuple[Generation | None, str]:
    """Return the newest generation if it can be gone on from, or why it cannot."""
    if not numbers:
        return None, "there is no generation yet"
    try:
        newest = store.read(numbers[0])
        why_all = newest.misfit(empty, topic_range.begin, topic_range.end)
    except SnapshotRefusedError as e:
        why_all = str(e)
    if why_all is None:
        return newest, ""
    return None, f"generation {numbers[0]} is not used: {why_all}"


def _manifest(
    number: int, topic_range: TopicRange, evaluation: Evaluation, parts: Mapping[int, GenerationPart]
) -> Generation:
    """Return a manifest; of a metadata partition without records it says no more than where it ends."""
    from airflow_provider_rlmm.metadata.columnar.fold.ipc import VERSION

    return Generation(
        number,
        evaluation.cluster_state.cluster_id,
        kafka_uuid_str(topic_range.topic_id),
        VERSION,
        evaluation.limits.now_ms,
        {p: parts.get(p) or GenerationPart(end) for p, end in sorted(topic_range.end.items())},
    )
