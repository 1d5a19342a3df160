# SPDX-License-Identifier: Apache-2.0
"""A user partition with all that makes copying hard: leader epochs, transactions, a log start offset that has moved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.features.copying.log_directory.names import TopicPartition as DirectoryName
from airflow_provider_rlmm.features.copying.log_directory.snapshot import take_snapshot
from dev import tiering
from dev.broker import LocalKafka
from tests.integration.copying.copies import closed_segments
from tests.integration.copying.writing import NOT_COPIED, TIMEOUT_S, Writer, log_start_offset
from tests.integration.kafka_topics import delete_records


@dataclass(frozen=True)
class World:
    """
    The user partition and how it goes on.

    :param tip: the user partition.
    :param writer: writes more.
    :param open_transaction: the producer of a transaction that is neither committed nor aborted.
    """

    tip: TopicIdPartition
    writer: Writer
    open_transaction: Producer


def make_world(
    kafka: LocalKafka, topic: str, next_epoch: Callable[[], None], bootstrap_servers: str | None = None
) -> World:
    """
    Write a user partition that nobody copies.

    :param kafka: a running broker that keeps it.
    :param topic: of one partition, :data:`~tests.integration.copying.writing.NOT_COPIED`.
    :param next_epoch: makes the cluster elect a leader of the partition anew.
    :param bootstrap_servers: of the cluster, where it has more brokers than this one.
    """
    tip = TopicIdPartition(tiering.topic_ids(kafka)[topic], topic, 0)
    writer = Writer(bootstrap_servers or kafka.bootstrap_servers, topic)
    writer.write(90)
    writer.commit(30)
    writer.abort(30)
    next_epoch()
    writer.write(90)
    writer.abort(20)
    next_epoch()
    # One that begins in a segment and is aborted in a later one, with others between.
    late = writer.begin(5)
    writer.write(90)
    writer.commit(20)
    late.abort_transaction(TIMEOUT_S)
    next_epoch()
    writer.write(90)
    bases = sorted(int(path.stem) for path in (kafka.log_dir / f"{topic}-0").glob("*.log"))
    # Into the middle of the second segment.
    delete_records(kafka, topic, 0, (bases[1] + bases[2]) // 2)
    still_open = writer.begin(5)
    writer.write(90)
    return World(tip, writer, still_open)


def last_stable_offset(bootstrap_servers: str, topic: str) -> int:
    """Return the first offset of a transaction that is open, or the end."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 2})
    (answer,) = admin.list_offsets(
        {TopicPartition(topic, 0): OffsetSpec.latest()}, isolation_level=IsolationLevel.READ_COMMITTED
    ).values()
    return int(answer.result(TIMEOUT_S).offset)


def to_be_copied(bootstrap_servers: str, directory: Path, topic: str) -> list[int]:
    """Return the base offsets of the segments that a broker would copy now."""
    return closed_segments(
        directory, log_start_offset(bootstrap_servers, topic), last_stable_offset(bootstrap_servers, topic)
    )


def not_copied_topic(kafka: LocalKafka, topic: str, **settings: str) -> None:
    """Create a tiered topic of one partition that its broker does not copy; further settings win."""
    tiering.create_tiered_topic(kafka, topic, 1, **{**NOT_COPIED, **settings})


def living_topic(kafka: LocalKafka, topic: str = "living") -> None:
    """Have a topic copied by its broker, beside which we copy: its events prove where events belong."""
    tiering.create_tiered_topic(kafka, topic, 1)
    tiering.produce_until_remote(kafka, topic, 1)


def snapshot_of(kafka: LocalKafka, topic: str, target: Path) -> Path:
    """Stop a broker, take a snapshot of a topic's directory, start the broker again, and return the snapshot."""
    kafka.stop()
    take_snapshot(kafka.log_dir, target, partitions={DirectoryName(topic, 0)})
    kafka.start()
    return target
