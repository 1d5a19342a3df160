# SPDX-License-Identifier: Apache-2.0
"""This package's side of the benchmarks."""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa

from airflow_provider_rlmm.manager.kafka_event_log import KafkaMetadataEventLog
from airflow_provider_rlmm.metadata.columnar import ColumnarState, decode
from benchmarks.workload import generate, read

BATCH_ROWS = 100_000


def batches(values: Any) -> Iterator[Any]:
    """
    Cut values into batches.

    :param values: a binary array.
    """
    for start in range(0, len(values), BATCH_ROWS):
        yield values.slice(start, BATCH_ROWS)


def decode_all(values: Any) -> None:
    """
    P1.

    :param values: a binary array.
    """
    for batch in batches(values):
        decode(batch)


def replay(values: Any) -> ColumnarState:
    """
    P2.

    :param values: a binary array.
    """
    state = ColumnarState.empty()
    for batch in batches(values):
        state, _ = state.apply(decode(batch))
    return state


def memory(path: Path) -> tuple[int, int, int]:
    """
    P6, in a process of its own: what it holds besides the state would blur the difference.

    :param path: a file of values.
    :return: bytes of the columns and their indexes, growth of the process in bytes, live segments.
    """
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_memory, (path,))


def _memory(path: Path) -> tuple[int, int, int]:
    # Whatever is loaded and allocated once only.
    replay(generate(10_000).values)
    before = _resident()
    state = replay(read(path))
    after = _resident()
    return state.nbytes, after - before, state.segments.num_rows


def _resident() -> int:
    gc.collect()
    pa.default_memory_pool().release_unused()
    if sys.platform == "linux":
        # glibc keeps what was freed; that is not the state's.
        ctypes.CDLL(None).malloc_trim(0)
    return int(psutil.Process().memory_info().rss)


@dataclass(slots=True)
class TopicReplay:
    """
    P7, and where the time went.

    :param seconds: by step.
    """

    state: ColumnarState = field(default_factory=ColumnarState.empty)
    events: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(("read", "decode", "apply"), 0.0))

    def run(self, log: KafkaMetadataEventLog) -> None:
        """
        Read a topic to its end.

        :param log: the topic.
        """
        begin, end = log.beginning_offsets(), log.high_water_marks()
        for partition in range(log.partition_count):
            pending: list[Any] = []
            reader = log.read(partition, begin[partition], end[partition])
            while (batch := self._timed("read", lambda reader=reader: next(reader, None))) is not None:
                pending.append(batch)
                if sum(b.num_rows for b in pending) >= BATCH_ROWS:
                    self._apply(partition, pending)
                    pending = []
            if pending:
                self._apply(partition, pending)

    def _apply(self, partition: int, pending: list[Any]) -> None:
        table = pa.Table.from_batches(pending)
        self.events += table.num_rows
        decoded = self._timed(
            "decode",
            lambda: decode(
                table["value"],
                keys=table["key"],
                metadata_partition=partition,
                offset=table["offset"],
                timestamp_ms=table["timestamp_ms"],
            ),
        )
        self.state, _ = self._timed("apply", lambda: self.state.apply(decoded))

    def _timed(self, step: str, work: Any) -> Any:
        started = time.perf_counter()
        result = work()
        self.seconds[step] += time.perf_counter() - started
        return result


def save(state: ColumnarState, path: Path) -> None:
    """
    Write what :func:`resume` reads.

    :param state: the state.
    :param path: the file.
    """
    path.write_bytes(state.to_ipc())


def resume(path: Path) -> ColumnarState:
    """
    P5: a state that is ready to go on.

    :param path: what :func:`save` has written.
    """
    return ColumnarState.from_ipc(path.read_bytes())
