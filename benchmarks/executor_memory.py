# SPDX-License-Identifier: Apache-2.0
"""
The memory that a task of the Spark job takes for one metadata partition, in a process of its own.

Of a task that reads all, of one that reads all and compares it with a generation, as once a day, and of one that goes on
from a generation with 1 % news; each beside the state alone. Prints one line per budget and what was measured; ends with 1
if a budget is missed. Needs no broker and no Spark.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from uuid import UUID

import numpy as np
import pyarrow as pa

from airflow_provider_rlmm.core.generations.folding import Folding
from airflow_provider_rlmm.core.generations.manifest import Generation, GenerationPart
from airflow_provider_rlmm.core.records.told_era import EraName, ToldEra
from airflow_provider_rlmm.core.world.cluster_state import ClusterState, ListedTopic, ToldLeader
from airflow_provider_rlmm.features.retention.rules import EvaluationLimits
from airflow_provider_rlmm.features.retention.spark.executor.judging import Evaluation
from airflow_provider_rlmm.features.retention.spark.executor.metadata_partition import GenerationOrder, evaluate_batches
from airflow_provider_rlmm.features.retention.spark.memory import TaskMemory
from airflow_provider_rlmm.features.retention.spark.task_report import TaskReport
from benchmarks.measuring import Budget, resident_bytes
from benchmarks.reporting import add_option, report
from benchmarks.workload import FIRST_EVENT_MS, SPAN_MS, generate, topics_of

KINDS = ("the state alone", "all", "all, and compared", "1 % new")
MOST_ABOVE_STATE = 400
"""Bytes for each segment that lives."""
BATCH_ROWS = 10_000
"""As Spark hands records to Python."""
NEW = 0.01
RECORDS, FIRST, REPORT = "records.arrow", "first", "first.json"


@dataclass(frozen=True, slots=True)
class Taken:
    """
    What one process has taken.

    :param peak: bytes of memory, at its most.
    :param before: bytes that it had at its most before the first record, with everything loaded.
    :param report: what the task told, as JSON; empty for the state alone.
    """

    peak: int
    before: int
    report: str


def main() -> int:
    """Measure and print, or be one of the processes that are measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=5_000_000, help="events of the partition (default: %(default)s)")
    parser.add_argument("--runs", type=int, default=3, help="runs of each task (default: %(default)s)")
    add_option(parser)
    parser.add_argument("--task", nargs=2, metavar=("KIND", "FOLDER"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.task:
        kind, folder = arguments.task
        print(json.dumps(asdict(_task(kind, Path(folder)))))
        return 0
    with tempfile.TemporaryDirectory(prefix="rlmm-bench-") as folder:
        return report(_measured(arguments.events, arguments.runs, Path(folder)), arguments.figures)


def _measured(events: int, runs: int, folder: Path) -> Iterator[Budget]:
    print("metadata partition:", _leave_records(folder / RECORDS, events), flush=True)
    taken: dict[str, Taken] = {}
    peaks: dict[str, list[int]] = {}
    for kind in KINDS:
        found = sorted((_in_process(kind, folder) for _ in range(runs)), key=lambda each: each.peak)
        taken[kind], peaks[kind] = found[len(found) // 2], [each.peak for each in found]
        if kind == "all":
            (folder / REPORT).write_text(taken[kind].report)
    state = taken["the state alone"].peak - taken["the state alone"].before
    for kind in KINDS[1:]:
        told = TaskReport.from_json(taken[kind].report)
        for budget in _budgets(kind, taken[kind], state, told.part, _reckoned(kind, folder)):
            yield replace(budget, ours=peaks[kind], unit="B")


def _budgets(kind: str, taken: Taken, state: int, part: GenerationPart, reckoned: TaskMemory) -> Iterator[Budget]:
    above = (taken.peak - taken.before - state) / part.segments
    living = f"each of {part.segments:,} segments that live"
    yield Budget(
        f"above the state, of {MOST_ABOVE_STATE} B: {kind}",
        # What it takes may lie where the state was not yet.
        max(above, 1) / MOST_ABOVE_STATE,
        1.0,
        False,
        [f"{above:,.0f} B for {living}; the state alone {state / part.segments:,.0f} B"],
    )
    said = f"peak {taken.peak:,} B, reckoned {reckoned.bytes:,} B ({reckoned.why}); {taken.before:,} B before it began"
    yield Budget(f"beside what is reckoned: {kind}", taken.peak / reckoned.bytes, 1.0, False, [said])


def _leave_records(path: Path, events: int) -> str:
    workload = generate(events, metadata_partitions=1, topic_ids=_topic_ids())
    count = len(workload.values)
    columns = {
        "metadata_partition": np.zeros(count, np.int32),
        "offset": np.arange(count),
        "timestamp_ms": FIRST_EVENT_MS + np.arange(count) * SPAN_MS // count,
    }
    table = pa.table({**columns, "key": pa.nulls(count, pa.binary()), "value": workload.values})
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, BATCH_ROWS)
    return workload.said


def _in_process(kind: str, folder: Path) -> Taken:
    command = [sys.executable, "-m", "benchmarks.executor_memory", "--task", kind, str(folder)]
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return Taken(**json.loads(told.stdout))


def _task(kind: str, folder: Path) -> Taken:
    # An executor's worker has them, too.
    import pandas  # noqa: F401
    import pyspark.sql.pandas.serializers  # noqa: F401

    # What is loaded and allocated once only.
    records = _records(folder, 0, BATCH_ROWS)
    Folding(0, 1).apply(next(records))
    evaluation, before = _evaluation(), resident_bytes()
    end = _count(folder)
    old = end - round(NEW * end)
    if kind == "the state alone":
        folding = Folding(0, 1)
        for batch in _records(folder, 0, old):
            folding.apply(batch)
        return Taken(resident_bytes(), before, "")
    part = None if kind == "all" else TaskReport.from_json((folder / REPORT).read_text()).part
    said = {} if part is None else {0: part}
    # The last records that the generation has read show that the log is the same.
    begin = min(anchor.offset for anchor in part.anchors) if part is not None and kind == "1 % new" else 0
    stop = old if kind == "all" else end
    order = GenerationOrder(
        folder=(folder / FIRST).as_uri(),
        number=1 + KINDS.index(kind),
        ends={0: stop},
        before=said if kind == "1 % new" else {},
        compared=said if kind != "1 % new" else {},
    )
    (told,) = evaluate_batches(_records(folder, begin, stop), evaluation, order, kind.replace(" ", "-"))
    report = told.column(0)[0].as_py()
    read = TaskReport.from_json(report)
    assert (read.refused, read.differs) == (None, None), report
    return Taken(resident_bytes(), before, report)


def _records(folder: Path, begin: int, end: int) -> Iterator[pa.RecordBatch]:
    """Yield records, copied, as they come to a task."""
    with pa.OSFile(str(folder / RECORDS)) as source, pa.ipc.open_file(source) as file:
        for number in range(begin // BATCH_ROWS, -(-end // BATCH_ROWS)):
            batch, first = file.get_batch(number), number * BATCH_ROWS
            yield batch.slice(max(0, begin - first), min(end, first + BATCH_ROWS) - max(begin, first))


def _count(folder: Path) -> int:
    with pa.ipc.open_file(str(folder / RECORDS)) as file:
        return sum(file.get_batch(n).num_rows for n in range(file.num_record_batches))


def _topic_ids() -> dict[str, UUID]:
    return {name: UUID(int=number + 1) for number, name in enumerate(topics_of())}


def _evaluation() -> Evaluation:
    """All topics exist, and their leaders have told what they know."""
    now_ms = FIRST_EVENT_MS + SPAN_MS
    listed = []
    for name, topic_id in _topic_ids().items():
        count = topics_of()[name]
        leaders = {n: ToldLeader(2**20, 0, 2**50, ((0, 0),), None) for n in range(count)}
        listed.append(
            ListedTopic(topic_id, name, SPAN_MS, -1, dict.fromkeys(range(count), 0), tiered=True, leaders=leaders)
        )
    return Evaluation(1, ClusterState("benchmark", now_ms, tuple(listed)), EvaluationLimits(now_ms))


def _reckoned(kind: str, folder: Path) -> TaskMemory:
    """Return what the job reckons with before it starts."""
    report = TaskReport.from_json((folder / REPORT).read_text())
    end = _count(folder)
    if kind == "all":
        return TaskMemory.of({0: 0}, {0: report.part.next_offset}, None)
    before = Generation(1, "benchmark", "benchmark", 1, 0, 0, {0: report.part}, ToldEra(EraName.PLAIN, "made here"))
    return TaskMemory.of({0: 0}, {0: end}, before)


if __name__ == "__main__":
    sys.exit(main())
