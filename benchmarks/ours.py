# SPDX-License-Identifier: Apache-2.0
"""This package's side of the benchmarks."""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa

from airflow_provider_rlmm.core.log.floored_log import FlooredLog
from airflow_provider_rlmm.core.log.kafka.admin import KafkaClusterTopics
from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
from airflow_provider_rlmm.core.log.kafka.event_log import KafkaMetadataEventLog
from airflow_provider_rlmm.core.log.snapshot_file import SnapshotFile
from airflow_provider_rlmm.core.log.topic_state import CHUNK_ROWS, Progress, TopicState
from airflow_provider_rlmm.core.records.columnar import ColumnarState, decode
from benchmarks.topic import TOPIC
from benchmarks.workload import generate, read


def batches(values: Any) -> Iterator[Any]:
    """
    Cut values into batches as large as :class:`TopicState` makes them.

    :param values: a binary array.
    """
    for start in range(0, len(values), CHUNK_ROWS):
        yield values.slice(start, CHUNK_ROWS)


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


class TimedLog(KafkaMetadataEventLog):
    """
    A log that knows how much of the time its reads have taken.

    :param config: the clients' properties.
    :param topic: its name.
    """

    def __init__(self, config: KafkaClientConfig, topic: str = TOPIC) -> None:
        super().__init__(config, topic)
        self.read_s = 0.0

    def read_many(self, ranges: Mapping[int, tuple[int, int]]) -> Iterator[tuple[int, Any]]:
        """See :class:`~airflow_provider_rlmm.core.log.kafka.event_log.KafkaMetadataLogReader`."""
        started = time.perf_counter()
        batches = super().read_many(ranges)
        while (found := next(batches, None)) is not None:
            self.read_s += time.perf_counter() - started
            yield found
            started = time.perf_counter()
        self.read_s += time.perf_counter() - started


@dataclass(frozen=True, slots=True)
class TopicRun:
    """
    A state of the topic as of now, and what it took.

    :param topic_state: ready to answer.
    :param records: read for it, without those that only show that the log is the same.
    :param seconds: from opening the clients to closing them.
    :param read_s: of these, s in reads of the log.
    :param cpu_s: s of CPU time of the process, its clients' threads included.
    """

    topic_state: TopicState
    records: int
    seconds: float
    read_s: float
    cpu_s: float


def replay_topic(config: KafkaClientConfig, topic: str = TOPIC) -> TopicRun:
    """
    P7: the state from all of the topic.

    :param config: the clients' properties.
    :param topic: its name.
    """
    return _timed(config, TopicState, topic)


def replay_from_nothing(config: KafkaClientConfig, topic: str) -> TopicRun:
    """
    P13: the state from all of a topic, as a run makes it that has read nothing before: the era is told by the way.

    :param config: the clients' properties.
    :param topic: its name.
    """
    return _timed(config, lambda log, topics: TopicState(FlooredLog(log, None), topics), topic)


def resume_topic(config: KafkaClientConfig, snapshot: Path) -> TopicRun:
    """
    P5: the state from a snapshot and what was written since.

    :param config: the clients' properties.
    :param snapshot: what :func:`leave_snapshot` has written.
    """
    run = _timed(config, partial(TopicState.resume, SnapshotFile(str(snapshot))))
    assert run.topic_state.refusal is None, run.topic_state.refusal
    return run


def leave_snapshot(config: KafkaClientConfig, snapshot: Path) -> None:
    """
    Write what :func:`resume_topic` resumes from.

    :param config: the clients' properties.
    :param snapshot: the file.
    """
    with _clients(config) as (log, topics):
        topic_state = TopicState(
            log,
            topics,
        )
        topic_state.advance()
        SnapshotFile(str(snapshot)).write(topic_state.snapshot())


def _timed(config: KafkaClientConfig, begin: Callable[..., TopicState], topic: str = TOPIC) -> TopicRun:
    records = 0

    def note(progress: Progress) -> None:
        nonlocal records
        records = progress.records

    started, cpu = time.perf_counter(), time.process_time()
    with _clients(config, topic) as (log, topics):
        topic_state = begin(
            log,
            topics,
        )
        topic_state.advance(note)
    taken, cpu = time.perf_counter() - started, time.process_time() - cpu
    return TopicRun(topic_state, records, taken, log.read_s, cpu)


@contextmanager
def _clients(config: KafkaClientConfig, topic: str = TOPIC) -> Iterator[tuple[TimedLog, KafkaClusterTopics]]:
    with TimedLog(config, topic) as log, closing(KafkaClusterTopics(config, topic)) as topics:
        yield log, topics
