# SPDX-License-Identifier: Apache-2.0
"""Reading all of a remote topic, by the reader and through the broker, each time in a process of its own on one core."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import pyarrow.compute as pc
from confluent_kafka import Consumer, Message, TopicPartition

from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
from airflow_provider_rlmm.core.log.kafka.event_log import KafkaMetadataLogReader
from airflow_provider_rlmm.core.log.known_segments import PartitionSegments
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.core.storage.layouts import LocalTieredStorageLayout
from airflow_provider_rlmm.core.storage.object_store import ObjectStoreRemoteStorageManager
from airflow_provider_rlmm.features.reading.reader import RemoteLogReader
from benchmarks.measuring import resident_bytes
from benchmarks.remote_topic import pinned_to, warm_imports

CORE = 0
"""Whoever reads runs here; the broker, or the store, on the other one."""

_MESSAGES_AT_ONCE = 10_000
_PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Taken:
    """
    One whole read.

    :param seconds: from opening the clients to the last record.
    :param records: read.
    :param value_bytes: of their values.
    :param grown_bytes: the most memory beyond what the process held before.
    """

    seconds: float
    records: int
    value_bytes: int
    grown_bytes: int


@dataclass(frozen=True, slots=True)
class Remote:
    """
    What is read, and where it lies.

    :param properties: of the clients.
    :param tip: the user partition.
    :param uri: of the storage root.
    """

    properties: Mapping[str, str]
    tip: TopicIdPartition
    uri: str


def read_remote(remote: Remote) -> Taken:
    """
    Read it from storage.

    :param remote: what is read.
    """
    return _alone(partial(_read_remote, remote))


def consume_remote(remote: Remote, end: int) -> Taken:
    """
    Read it through the broker, by a consumer of confluent-kafka.

    :param remote: what is read.
    :param end: offset behind the last record.
    """
    return _alone(partial(_consume, remote, end))


def _alone(work: Callable[[], tuple[int, int]]) -> Taken:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_taken, (work,))


def _taken(work: Callable[[], tuple[int, int]]) -> Taken:
    with pinned_to(CORE):
        warm_imports()
        before = resident_bytes("VmRSS")
        began = time.perf_counter()
        records, value_bytes = work()
        taken = time.perf_counter() - began
        return Taken(taken, records, value_bytes, resident_bytes() - before)


def _read_remote(remote: Remote) -> tuple[int, int]:
    records = value_bytes = 0
    with KafkaMetadataLogReader(KafkaClientConfig(dict(remote.properties))) as log:
        storage = ObjectStoreRemoteStorageManager(remote.uri, LocalTieredStorageLayout())
        reader = RemoteLogReader(PartitionSegments(log, [remote.tip]), storage)
        for batch in reader.read(remote.tip, None):
            records += batch.num_rows
            value_bytes += pc.sum(pc.binary_length(batch.column("value"))).as_py()
    return records, value_bytes


def _consume(remote: Remote, end: int) -> tuple[int, int]:
    consumer = Consumer(
        {
            **remote.properties,
            "group.id": "benchmark",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            # As the reader does.
            "check.crcs": True,
            # Small answers, and pauses where the queue is full, slow it down.
            "fetch.message.max.bytes": 8 * 2**20,
            "fetch.queue.backoff.ms": 10,
        }
    )
    records = value_bytes = 0
    try:
        consumer.assign([TopicPartition(remote.tip.topic, remote.tip.partition, 0)])
        while records < end:
            # It waits until it has as many as it was asked for.
            messages = consumer.consume(min(_MESSAGES_AT_ONCE, end - records), _PATIENCE_S)
            assert messages, f"no record after offset {records} within {_PATIENCE_S:.0f} s"
            assert not any(map(Message.error, messages))
            records += len(messages)
            value_bytes += sum(map(len, map(Message.value, messages)))
    finally:
        consumer.close()
    return records, value_bytes
