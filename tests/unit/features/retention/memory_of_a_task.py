# SPDX-License-Identifier: Apache-2.0
"""
What a task's Python takes for one metadata partition, in a process of its own: prints JSON.

numpy tells tracemalloc what it takes, and Arrow's pool counts its own, so that the numbers are the same on every machine.
"""

from __future__ import annotations

import gc
import json
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_provider_rlmm.core.world.cluster_state import ClusterState
from airflow_provider_rlmm.features.retention.rules import EvaluationLimits
from airflow_provider_rlmm.features.retention.spark.executor import metadata_partition
from airflow_provider_rlmm.features.retention.spark.executor.judging import Evaluation
from airflow_provider_rlmm.features.retention.spark.executor.metadata_partition import GenerationOrder, evaluate_batches
from airflow_provider_rlmm.features.retention.spark.executor.rows import EvaluatedState
from airflow_provider_rlmm.features.retention.spark.task_report import TaskReport
from benchmarks.measuring import resident_bytes
from benchmarks.workload import generate

BATCH = 65_536
NOW_MS = 1_800_000_000_000


def main() -> None:
    """Write the records, then let a task read them: traced, or as it is."""
    folder, events, is_traced = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "traced"
    if events:
        _write_records(folder / "records", events)
        return
    found: dict[str, Any] = {}
    evaluate = metadata_partition.evaluate_state

    def watched(state: Any, *more: Any) -> EvaluatedState:
        gc.collect()
        found["before"] = tracemalloc.get_traced_memory()[0] if is_traced else 0
        tracemalloc.reset_peak()
        return evaluate(state, *more)

    metadata_partition.evaluate_state = watched
    if is_traced:
        tracemalloc.start()
    with TemporaryDirectory(dir=folder) as written:
        order = GenerationOrder(written, 1, {0: 2**40})
        # No topic is listed, so every row says something.
        evaluation = Evaluation(1, ClusterState("cluster", NOW_MS, ()), EvaluationLimits(NOW_MS))
        (told,) = evaluate_batches(_records(folder / "records"), evaluation, order, "attempt")
    part = TaskReport.from_json(told["told"][0].as_py()).part
    if is_traced:
        found["above_state"] = tracemalloc.get_traced_memory()[1] - found["before"]
    found["arrow"] = pa.default_memory_pool().max_memory()
    found["resident"] = resident_bytes()
    assert part.state is not None
    print(json.dumps({**found, "segments": part.segments, "state": part.state.bytes}))  # noqa: T201  # a program's output


def _write_records(path: Path, events: int) -> None:
    values = generate(events, metadata_partitions=1).values
    offsets = np.arange(len(values))
    names = {"metadata_partition": np.zeros(len(values), np.int32), "offset": offsets, "timestamp_ms": offsets}
    columns = [*map(pa.array, names.values()), pa.nulls(len(values), pa.binary()), values]
    table = pa.table(columns, names=[*names, "key", "value"])
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table, BATCH)


def _records(path: Path) -> Iterator[pa.RecordBatch]:
    with pa.OSFile(str(path), "rb") as file:
        yield from pa.ipc.open_stream(file)


if __name__ == "__main__":
    main()
