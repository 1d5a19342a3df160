# SPDX-License-Identifier: Apache-2.0
"""How the next generation of a data set is read and gets its manifest."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_rlmm.core.base.clock import HOUR_MS
from airflow_provider_rlmm.core.base.errors import PlanError, SnapshotRefusedError
from airflow_provider_rlmm.core.generations.manifest import (
    Generation,
    GenerationPart,
    with_gaps,
)
from airflow_provider_rlmm.core.generations.store import GenerationStore
from airflow_provider_rlmm.core.records.era import PLAIN_ERA, Era, LogEra, era_of_key
from airflow_provider_rlmm.core.records.lost_records import holes_of
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.features.retention.spark.memory import ExecutorMemory, TaskMemory, say_memory
from airflow_provider_rlmm.features.retention.spark.segments import SegmentDataSet, Told, not_read, run_tasks
from airflow_provider_rlmm.features.retention.spark.source import MetadataReader, TopicRange
from airflow_provider_rlmm.features.retention.spark.task_report import TaskReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_provider_rlmm.features.retention.spark.executor.judging import Evaluation

log = logging.getLogger(__name__)

FOLDED_ANEW_AFTER_MS = 20 * HOUR_MS
"""
All is read from the log's beginning after so long, and compared: once a day, by a job of each hour or of each day. Mark, plan
and survey use a generation for a few hours longer.
"""

OFFSETS_PER_TASK = 1_000_000
"""A task that reads this many records takes a few seconds: more tasks than cores are worth their cost from there on."""


@dataclass(frozen=True)
class WrittenGeneration:
    """What a run has written."""

    generation: Generation  # its manifest
    data_set: SegmentDataSet  # its rows
    reports: tuple[TaskReport, ...]  # what its tasks told
    read_on_from: int | None  # the generation that it went on from, ``None`` where all was read
    why_all: str  # why all was read; empty where it was not


def next_generation(reader: MetadataReader, evaluation: Evaluation, store: GenerationStore) -> WrittenGeneration:
    """
    Read what is new, and write the next generation of a data set; old generations are removed.

    All is read where there is no generation, or the newest one is not of this topic, this log or this version; and once a
    day, when the newest one is compared with what the log says.

    :param reader: reads what of the topic there is now.
    :param evaluation: what holds.
    :param store: the data set.
    :raises PlanError: if the topic was not read in order, a file is not what its task told, another run was faster, or the
        newest generation does not say what the log says.
    :raises ConfigurationError: if this Python lacks what opens the data set.
    """
    topic_range, numbers = reader.topic_range, store.numbers()
    empty = _manifest(numbers[0] + 1 if numbers else 1, topic_range, evaluation, {}, PLAIN_ERA, None)
    before, why_all, era = _newest(store, numbers, empty, topic_range)
    compared = before if before is not None and _is_due(before, topic_range, evaluation.limits.now_ms) else None
    if compared is not None:
        before, why_all = None, f"once a day; generation {compared.number} is compared with what comes of it"
    written = write_generation(
        reader, evaluation, store, before=before, number=empty.number, why_all=why_all, era=era, compared=compared
    )
    if compared is not None:
        _require_same(compared, written, store)
    store.create(written.generation)
    try:
        if gone := store.remove_old(empty.number):
            log.info("removed the generations %s", gone)
    except (OSError, SnapshotRefusedError) as e:
        log.warning("old generations below %s cannot be removed: %s", store.uri, next(iter(str(e).splitlines()), ""))
    return written


def write_generation(
    reader: MetadataReader,
    evaluation: Evaluation,
    store: GenerationStore,
    *,
    before: Generation | None = None,
    number: int = 1,
    why_all: str = "",
    era: LogEra = PLAIN_ERA,
    compared: Generation | None = None,
) -> WrittenGeneration:
    """
    Write the files of a generation; it does not count before its manifest is written.

    :param reader: reads what of the topic there is now.
    :param evaluation: what holds.
    :param store: the data set.
    :param before: the generation to go on from, ``None`` to read all.
    :param number: of the generation to be written.
    :param why_all: why all is read.
    :param era: the era of the log, as earlier generations have seen it.
    :param compared: the generation that is compared with what is read, where all is.
    :raises PlanError: if the topic was not read in order, or a file is not what its task told.
    """
    from airflow_provider_rlmm.features.retention.spark.executor.metadata_partition import GenerationOrder

    topic_range, known = reader.topic_range, {} if before is None else before.parts
    begins = {p: known[p].start if p in known else begin for p, begin in topic_range.begin.items()}
    said = {} if compared is None else compared.parts
    order = GenerationOrder(store.root, number, topic_range.end, known, topic_range.begin, said)
    if before is None:
        log.info("generation %d: reads the topic from its beginning: %s", number, why_all)
    else:
        log.info("generation %d: reads on from generation %d", number, before.number)
    say_memory(executor_memory(reader.spark), TaskMemory.of(topic_range.begin, topic_range.end, before or compared))
    expected = {p: begins[p] for p, end in topic_range.end.items() if end > begins[p]}
    told = run_tasks(reader.read(begins), evaluation, order, tasks_for(reader, expected))
    silent = {p: expected[p] for p in expected.keys() - {report.metadata_partition for report in told.reports}}
    if refused := _refused(told, known, silent):
        return write_generation(reader, evaluation, store, number=number, why_all=refused, era=era)
    if silent and (lacking := silent.keys() - reader.without_records(silent)):
        raise not_read(min(lacking), 0)
    parts = {report.metadata_partition: report.part for report in told.reports}
    # Of those that were not asked for nothing is new.
    parts = {
        **known,
        **{p: _without_records(known.get(p), p, begin, topic_range.end[p]) for p, begin in silent.items()},
        **parts,
    }
    return WrittenGeneration(
        _manifest(number, topic_range, evaluation, parts, era, before),
        told.data_set(order.folder),
        told.reports,
        None if before is None else before.number,
        why_all,
    )


def _is_due(generation: Generation, topic_range: TopicRange, now_ms: int) -> bool:
    """Tell whether all is to be read from the beginning of the log again, and is still there."""
    if now_ms - generation.folded_at_ms < FOLDED_ANEW_AFTER_MS:
        return False
    if topic_range.era.or_later(LogEra.of(generation.era)).era is not Era.PLAIN:
        # A log cleaner may have taken records since; no other run begins with such a generation.
        return False
    lost = [p for p, part in sorted(generation.parts.items()) if topic_range.begin[p] > part.begin]
    if lost:
        log.warning(
            "generation %d cannot be compared with the log: metadata partition %d has lost records since they were read",
            generation.number, lost[0],
        )  # fmt: skip
    return not lost


def _require_same(compared: Generation, written: WrittenGeneration, store: GenerationStore) -> None:
    """Refuse to go on where a generation did not say what the log says: a person finds out why."""
    found = [report.differs for report in written.reports if report.differs is not None]
    if found:
        raise PlanError(
            f"generation {compared.number} of {store.uri} does not say what the log says: {'; '.join(found[:3])}"
            f"{' and more' if found[3:] else ''}. Who marked, planned or surveyed with it may have overlooked segments or "
            "named what is none; nothing is deleted by it, as the log itself is read before. Keep a copy of "
            f"{store.root} to find out why, then remove it: the next run reads all"
        )


def executor_memory(spark: SparkSession) -> ExecutorMemory:
    """
    Return what the session gives its executors.

    :param spark: the session.
    """
    context = spark.sparkContext
    return ExecutorMemory(str(context.master), dict(context.getConf().getAll()))


def tasks_for(reader: MetadataReader, begins: Mapping[int, int]) -> int:
    """
    Return among how many tasks the work is divided: as many as run at once, or more where each has enough to do.

    :param reader: reads what of the topic there is now.
    :param begins: metadata partition → first offset that is read, inclusive.
    """
    offsets = sum(reader.topic_range.end[p] - begin for p, begin in begins.items())
    at_once: int = reader.spark.sparkContext.defaultParallelism
    return max(1, min(len(begins), max(at_once, -(-offsets // OFFSETS_PER_TASK))))


def _refused(told: Told, known: Mapping[int, GenerationPart], silent: Collection[int]) -> str:
    """Return why no run can go on from the generation before; empty where all can."""
    reasons = [report.refused for report in told.reports if report.refused is not None]
    reasons += [
        f"metadata partition {p} does not hold the records that it was known by"
        for p in sorted(silent)
        if p in known and known[p].anchors
    ]
    return next(iter(reasons), "")


def _without_records(before: GenerationPart | None, number: int, begin: int, end: int) -> GenerationPart:
    """Return what is known of a metadata partition that has offsets and no record."""
    known = before or GenerationPart(begin, begin=begin)
    found = holes_of(number, max(begin, known.next_offset), end, [])
    holes, more_holes = with_gaps(known.holes, known.more_holes, found)
    return GenerationPart(end, holes=holes, more_holes=more_holes, begin=known.begin)


def _newest(
    store: GenerationStore, numbers: list[int], empty: Generation, topic_range: TopicRange
) -> tuple[Generation | None, str, LogEra]:
    """Return the newest generation if it can be gone on from, or why it cannot; and the era that it has seen of the topic."""
    if not numbers:
        return None, "there is no generation yet", PLAIN_ERA
    era = PLAIN_ERA
    try:
        newest = store.read(numbers[0])
        if newest.topic_id == empty.topic_id:
            era = LogEra.of(newest.era)
        why_all = newest.misfit(empty, topic_range.begin, topic_range.end)
    except SnapshotRefusedError as e:
        why_all = str(e)
    if why_all is None:
        return newest, "", era
    return None, f"generation {numbers[0]} is not used: {why_all}", era


def _manifest(
    number: int,
    topic_range: TopicRange,
    evaluation: Evaluation,
    parts: Mapping[int, GenerationPart],
    seen: LogEra,
    before: Generation | None,
) -> Generation:
    """Return a manifest; of a metadata partition without records it says no more than where it ends."""
    from airflow_provider_rlmm.core.records.fold.ipc import VERSION

    era = topic_range.era.or_later(seen)
    for metadata_partition, part in sorted(parts.items()):
        if part.keyed_at is not None:
            era = era.or_later(era_of_key(metadata_partition, part.keyed_at))
    return Generation(
        number,
        evaluation.cluster_state.cluster_id,
        kafka_uuid_str(topic_range.topic_id),
        VERSION,
        evaluation.limits.now_ms,
        evaluation.limits.now_ms if before is None else before.folded_at_ms,
        {
            p: parts.get(p) or GenerationPart(end, begin=topic_range.begin[p])
            for p, end in sorted(topic_range.end.items())
        },
        era.told(),
    )
