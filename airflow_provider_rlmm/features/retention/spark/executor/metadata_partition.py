# SPDX-License-Identifier: Apache-2.0
"""What a task does with the records of one metadata partition: decode, fold, evaluate, write, tell."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from airflow_provider_rlmm.core.base.errors import SnapshotRefusedError
from airflow_provider_rlmm.core.generations.files import new_file
from airflow_provider_rlmm.core.generations.folding import Folding, ipc_of
from airflow_provider_rlmm.core.generations.manifest import GenerationPart, unexplained
from airflow_provider_rlmm.features.retention.spark.columns import arrow_schema
from airflow_provider_rlmm.features.retention.spark.executor.ages import AGES, ages_of
from airflow_provider_rlmm.features.retention.spark.executor.judging import LEADERS, Evaluation
from airflow_provider_rlmm.features.retention.spark.executor.rows import (
    SCHEMA,
    UNCERTAIN,
    UNLISTED,
    EvaluatedState,
    evaluate_state,
)
from airflow_provider_rlmm.features.retention.spark.executor.versions import software
from airflow_provider_rlmm.features.retention.spark.task_report import TOLD_COLUMNS, TaskReport

TOLD = arrow_schema(TOLD_COLUMNS)
"""Of what a task returns."""


@dataclass(frozen=True)
class GenerationOrder:
    """What of a generation is to be written."""

    folder: str  # URI of the folder of all generations, which the names of files are below
    number: int  # of the generation
    ends: Mapping[int, int]  # metadata partition → offset up to which it is read, exclusive
    before: Mapping[int, GenerationPart] = field(default_factory=dict)  # what is known already, by metadata partition
    begins: Mapping[int, int] = field(
        default_factory=dict
    )  # metadata partition → where it begins, inclusive; else at 0
    # what a generation says that is not gone on from, by metadata partition: all is read anew, and compared with it
    compared: Mapping[int, GenerationPart] = field(default_factory=dict)


def evaluate_batches(
    batches: Iterator[pa.RecordBatch], evaluation: Evaluation, order: GenerationOrder, attempt: str
) -> Iterator[pa.RecordBatch]:
    """
    Write what the records of a task come to; yield one row of :data:`TOLD` per metadata partition.

    :param batches: ``metadata_partition``, ``offset``, ``timestamp_ms``, ``key``, ``value`` of whole metadata partitions, one
        after the other, each in the order of its offsets. Of one that comes in pieces there are several rows, so that it is
        found out.
    :param evaluation: what holds.
    :param order: what is to be written.
    :param attempt: names the files; no other attempt has this name.
    """
    task: _Task | None = None
    for batch in batches:
        for number, records in _by_metadata_partition(batch):
            if task is None or task.number != number:
                if task is not None:
                    yield task.told()
                # What one metadata partition took is given back before the next one's state is read.
                task = None
                task = _Task(number, evaluation, order, attempt)
            task.apply(records)
    if task is not None:
        yield task.told()


def _by_metadata_partition(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    numbers = batch["metadata_partition"].to_numpy()
    changes = (np.flatnonzero(np.diff(numbers)) + 1).tolist()
    for start, end in pairwise([0, *changes, numbers.size]):
        if end > start:
            yield int(numbers[start]), batch.slice(start, end - start)


class _Comparison:
    """
    What a generation says of a metadata partition, beside what the log says that is read from its beginning. Only a hash of
    the former is kept: it takes as much memory as the latter, and that has not begun then.

    :param number: which metadata partition.
    :param num_partitions: how many the topic has.
    :param part: what the generation says.
    :param folder: URI of the folder that the names of its files are below.
    :raises SnapshotRefusedError: if a file of that generation is not the one that its manifest names.
    """

    def __init__(self, number: int, num_partitions: int, part: GenerationPart, folder: str) -> None:
        self._number, self._part = number, part
        self._expected = Folding(number, num_partitions, part, folder).digest()
        self._compared = False
        self.differs: str | None = None
        """How the log differs, ``None`` where it does not."""

    def apply_below(self, folding: Folding, records: pa.RecordBatch) -> pa.RecordBatch:
        """
        Apply the records that the generation has read; return those behind them.

        :param folding: what is read anew.
        :param records: the next of the log.
        """
        if self._compared:
            return records
        below = int(np.count_nonzero(records["offset"].to_numpy() < self._part.next_offset))
        if below:
            folding.apply(records.slice(0, below))
        if below < records.num_rows:
            self.compare(folding)
        return records.slice(below)

    def compare(self, folding: Folding) -> None:
        """
        Compare, if that was not done: the generation has read no more.

        :param folding: what was read anew.
        """
        if self._compared:
            return
        self._compared, end = True, self._part.next_offset
        folding.end(end)
        # Of another log the generation may say what it likes: no run goes on from it.
        if folding.anchors == self._part.anchors and folding.digest() != self._expected:
            self.differs = f"metadata partition {self._number} up to offset {end}"


class _Task:
    """The work on one metadata partition; where the generation before, or the log, does not fit, nothing is written."""

    def __init__(self, number: int, evaluation: Evaluation, order: GenerationOrder, attempt: str) -> None:
        self.number = number
        self._begun = time.perf_counter()
        self._evaluation, self._order = evaluation, order
        self._place, self._attempt = f"generation={order.number}/metadata_partition={number}", f"{attempt}-{number}"
        self._milliseconds = dict.fromkeys(("load", "fold", "evaluate", "write"), 0.0)
        self._refused: str | None = None
        self._comparison: _Comparison | None = None
        self._folding: Folding | None = None
        with self._step("load"):
            if (part := order.compared.get(number)) is not None:
                self._comparison = _Comparison(number, evaluation.num_partitions, part, order.folder)
            self._folding = Folding(
                number,
                evaluation.num_partitions,
                order.before.get(number),
                order.folder,
                order.begins.get(number, 0),
            )

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        begun = time.perf_counter()
        try:
            yield
        except SnapshotRefusedError as e:
            self._refused = str(e)
        finally:
            self._milliseconds[name] += (time.perf_counter() - begun) * 1000

    def apply(self, records: pa.RecordBatch) -> None:
        """Apply one record or more."""
        # After a refusal the rest is still taken: to stop reading in mid-stream ends the worker.
        if self._folding is not None and self._refused is None:
            with self._step("fold"):
                if self._comparison is not None:
                    records = self._comparison.apply_below(self._folding, records)
                if records.num_rows:
                    self._folding.apply(records)

    def told(self) -> pa.RecordBatch:
        """Write the files; return the row that tells of them."""
        if self._folding is not None and self._refused is None:
            with self._step("fold"):
                if self._comparison is not None:
                    self._comparison.compare(self._folding)
                self._folding.end(self._order.ends[self.number])
        unlisted, uncertain, ages = UNLISTED.empty_table(), UNCERTAIN.empty_table(), AGES.empty_table()
        leaders = LEADERS.empty_table()
        if self._folding is None or self._refused is not None:
            report = TaskReport(self.number, GenerationPart(self._order.ends[self.number]), refused=self._refused)
        else:
            with self._step("evaluate"):
                found = evaluate_state(
                    self._folding.state,
                    self._evaluation,
                    self._folding.quarantined.num_rows,
                    self._doubt(self._folding),
                )
                unlisted, uncertain, leaders = found.unlisted, found.uncertain, found.judgement.leaders
                ages = ages_of(found.segments, self._evaluation.limits.now_ms)
            report = self._written(self._folding, found)
        spent = {name: round(milliseconds) for name, milliseconds in self._milliseconds.items()}
        # For records, and for the taker of these rows.
        spent["wait"] = max(0, round((time.perf_counter() - self._begun) * 1000) - sum(spent.values()))
        differs = None if self._comparison is None else self._comparison.differs
        told = replace(report, milliseconds=spent, versions=software(), differs=differs)
        columns = [told.to_json(), *map(ipc_of, (unlisted, uncertain, ages, leaders))]
        return pa.RecordBatch.from_arrays([pa.array([column]) for column in columns], schema=TOLD)

    def _doubt(self, folding: Folding) -> str | None:
        """Say why the segments of this metadata partition are not all known for certain; ``None`` where they are."""
        if folding.quarantined.num_rows:
            return f"records of metadata partition {self.number} cannot be applied"
        unsaid = unexplained(self.number, folding.holes, self._evaluation.cluster_state.explained_gaps)
        if self._order.begins.get(self.number, 0) > 0 or folding.more_holes or unsaid:
            return f"metadata partition {self.number} has lost records, or holds none at some offsets"
        return None

    def _written(self, folding: Folding, found: EvaluatedState) -> TaskReport:
        quarantined = folding.quarantined
        with self._step("write"):
            with (
                new_file(self._order.folder, f"{self._place}/{self._attempt}.parquet") as rows,
                pq.ParquetWriter(pa.PythonFile(rows, "w"), SCHEMA) as writer,
            ):
                for table in found.rows(self.number, quarantined):
                    writer.write_table(table)
            # Readers of Parquet data sets pass over what begins with an underscore.
            state, changes = folding.write(self._order.folder, f"{self._place}/_{self._attempt}")
        part = GenerationPart(
            next_offset=self._order.ends[self.number],
            begin=folding.begin,
            segments=found.segments.size,
            bytes=found.bytes,
            unresolved=found.unresolved.num_rows,
            quarantined=quarantined.num_rows,
            keyed=folding.keyed,
            routed=folding.routed,
            anchors=folding.anchors,
            holes=folding.holes,
            more_holes=folding.more_holes,
            keyed_at=folding.keyed_at,
            rows=rows.described(),
            state=state,
            changes=changes,
        )
        return TaskReport(self.number, part, folding.records, folding.in_order, found.partitions, found.largest)
