# SPDX-License-Identifier: Apache-2.0
"""``rlmm restore`` is killed again and again while it writes into a real topic: in the end every record is there, once."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from airflow_provider_rlmm.cli.exit_codes import ExitCode
from airflow_provider_rlmm.core.records.records import TopicIdPartition, kafka_uuid_str
from airflow_provider_rlmm.core.segments.read_range import ReadIsolation
from dev import tiering
from dev.broker import LocalKafka, await_condition
from tests.integration.copying.writing import TIMEOUT_S, Record, read_records
from tests.integration.reading.world import await_copied, await_stable, segments_of

pytestmark = [pytest.mark.integration, pytest.mark.rare]

SOURCE, INTO = "killed-orders", "killed-restored"
PARTITIONS = 2
RECORDS = 12_000
"""Per partition; and as many of each transaction as is a twelfth of that."""

COPIED = {"internal.segment.bytes": "262144", "retention.ms": "-1"}
SHARES = (0.02, 0.2, 0.4, 0.5, 0.7, 0.95)
"""Of all records, at which the process is killed; the fourth is where the second partition begins."""


@dataclass(frozen=True)
class Command:
    """
    The command, as somebody types it.

    :param kafka: the cluster.
    :param folder: for catalogue and work folder.
    :param topic_id: that may be read by a catalogue.
    """

    kafka: LocalKafka
    folder: Path
    topic_id: str

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.flushing_restore", *arguments, "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={
                **{name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ},
                "HOME": str(self.folder),
                "RLMM_BOOTSTRAP_SERVER": self.kafka.bootstrap_servers,
                "RLMM_STORAGE_URI": self.kafka.remote_dir.as_uri(),
                "RLMM_LAYOUT": "local-tiered-storage",
                "RLMM_WORK_URI": str(self.folder / "work"),
                "RLMM_ALLOW_CATALOGUE": self.topic_id,
            },
        )

    def run(self, *arguments: str) -> Any:
        """Run it to its end, and return what it printed; see it end well."""
        with self.start(*arguments) as process:
            said, errors = process.communicate(timeout=300)
        assert process.returncode == ExitCode.DONE, f"{process.returncode}\n{said}\n{errors}"
        return json.loads(said) if said else None

    def killed_when(self, reached: Callable[[], bool], *arguments: str) -> bool:
        """Kill it once something is reached; tell whether it was still at work."""
        with self.start(*arguments) as process:
            await_condition(lambda: process.poll() is not None or reached(), "a point of the restore", 120, 0.002)
            process.kill()
            _, errors = process.communicate(timeout=60)
        assert process.returncode in (-9, ExitCode.DONE), errors
        return process.returncode != ExitCode.DONE


def write(kafka: LocalKafka) -> dict[int, TopicIdPartition]:
    """Write a topic whose offsets have gaps, and wait until its broker has copied it."""
    topic_id, rng = tiering.create_tiered_topic(kafka, SOURCE, PARTITIONS, **COPIED), random.Random(5)
    producer = Producer(
        {
            "bootstrap.servers": kafka.bootstrap_servers, "transactional.id": SOURCE, "log_level": 2, "acks": "all",
        }
    )  # fmt: skip
    producer.init_transactions(TIMEOUT_S)
    for number in range(RECORDS):
        if number % (RECORDS // 12) == 0:
            producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.produce(SOURCE, rng.randbytes(rng.randrange(20, 120)), f"key {number}".encode(), partition)
            producer.poll(0)
        if (number + 1) % (RECORDS // 12) == 0:
            end = producer.abort_transaction if number < RECORDS // 4 else producer.commit_transaction
            end(TIMEOUT_S)
    tips = {number: TopicIdPartition(topic_id, SOURCE, number) for number in range(PARTITIONS)}
    for tip in tips.values():
        await_stable(kafka, tip)
        await_copied(kafka, tip)
    return tips


def remote_records(kafka: LocalKafka, tip: TopicIdPartition) -> list[Record]:
    """Return the committed records that are remote, as a stock consumer reads them."""
    with segments_of(kafka, tip) as segments:
        end = segments.list_remote_log_segments(tip)[-1].end_offset
    consumed = read_records(kafka.bootstrap_servers, SOURCE, tip.partition, ReadIsolation.READ_COMMITTED)
    return [record for record in consumed if record[0] <= end]


@pytest.mark.timeout(1200)
def test_killed_at_any_point_it_ends_with_every_record_once(fresh_kafka: LocalKafka, tmp_path: Path) -> None:
    tips = write(fresh_kafka)
    expected = {number: remote_records(fresh_kafka, tip) for number, tip in tips.items()}
    total = sum(map(len, expected.values()))
    assert total > RECORDS
    topic_id = kafka_uuid_str(tips[0].topic_id)
    rlmm, catalogue = Command(fresh_kafka, tmp_path, topic_id), str(tmp_path / "catalogue")
    rlmm.run("recover", "--output", catalogue, "--cluster-id", fresh_kafka.cluster_id)
    admin = AdminClient(fresh_kafka.client_config())
    settings = {"retention.ms": "-1", "message.timestamp.type": "CreateTime"}
    admin.create_topics([NewTopic(INTO, PARTITIONS, 1, config=settings)])[INTO].result(TIMEOUT_S)
    partitions = {TopicPartition(INTO, number): OffsetSpec.latest() for number in range(PARTITIONS)}

    def there() -> int:
        return sum(future.result(TIMEOUT_S).offset for future in admin.list_offsets(partitions).values())

    restore = (
        "restore", "--topic-id", topic_id, "--catalogue", catalogue, "--was-not-deleted", topic_id, "--from-beginning",
        "--undecided", "abort", "--into", INTO, "--execute", "--cluster-id", fresh_kafka.cluster_id,
    )  # fmt: skip
    promises = (tmp_path / "work").glob
    assert rlmm.killed_when(lambda: any(promises("cluster-*/restores/*.json")), *restore)
    left = [there()]
    for share in SHARES:
        point = max(left[-1], int(share * total)) + 1
        assert rlmm.killed_when(lambda point=point: there() >= point, *restore), f"it was not killed at {point}"
        left.append(there())
    assert left == sorted(set(left))
    assert left[-1] < total
    rlmm.killed_when(lambda: there() == total, *restore)
    told = rlmm.run(*restore)

    assert told["records"] == there() == total
    runs = pq.read_table(told["offsets_uri"]).to_pylist()
    for number, records in expected.items():
        restored = read_records(fresh_kafka.bootstrap_servers, INTO, number)
        assert [record[1:] for record in restored] == [record[1:] for record in records]
        assert [record[0] for record in restored] == list(range(len(records)))
        assert [
            (run["source_offset"] + n, run["new_offset"] + n)
            for run in runs
            if run["partition"] == number
            for n in range(run["records"])
        ] == [(record[0], new) for new, record in enumerate(records)]
    assert rlmm.run(*restore)["records"] == there() == total
