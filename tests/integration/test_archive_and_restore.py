# SPDX-License-Identifier: Apache-2.0
"""A topic of a real broker is archived, deleted by the cleaner and restored: each record as a stock consumer had read it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from dev import tiering
from dev.broker import LocalKafka
from dev.roots import expected_root_of
from tests.integration.copying.writing import Record, Writer, read_records
from tests.scrub import scrub

pytestmark = [pytest.mark.integration, pytest.mark.rare]

PARTITIONS = 2
SEGMENTS = 6
OLD_MS = 1_600_000_000_000
NOW = ("--override", "short_min_absence", "--min-absence-ms", "0", "--max-share", "1.0")


@dataclass(frozen=True)
class World:
    """A cluster with two deleted topics, and what stock consumers had read of one of them."""

    kafka: LocalKafka
    home: Path
    gone: uuid.UUID
    damaged: uuid.UUID
    before: dict[int, list[Record]]
    committed: dict[int, list[Record]]

    def rlmm(self, *arguments: str, code: int = 0) -> Any:
        done = subprocess.run(
            [
                str(Path(sys.executable).with_name("rlmm")),
                *arguments,
                "--json",
                "--archive",
                str(self.home / "archives"),
            ],
            check=False,
            capture_output=True,
            text=True,
            timeout=300,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self.home),
                "RLMM_BOOTSTRAP_SERVER": self.kafka.bootstrap_servers,
                "RLMM_STORAGE_URI": self.kafka.remote_dir.as_uri(),
                "RLMM_EXPECTED_ROOT": expected_root_of(self.kafka.remote_dir),
            },
        )
        assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return json.loads(done.stdout) if code in (0, 4) else done.stderr

    def create(self, topic: str, partitions: int = PARTITIONS, **config: str) -> None:
        admin = AdminClient(self.kafka.client_config())
        admin.create_topics([NewTopic(topic, partitions, 1, config=config)])[topic].result(30)

    def restore(self, into: str, *more: str, code: int = 0) -> Any:
        topic_id = ("--topic-id", kafka_uuid_str(self.gone))
        return self.rlmm("restore", *topic_id, "--into", into, *more, code=code)


def write_everything(kafka: LocalKafka, topic: str) -> None:
    """Write records of every kind into each partition: all codecs, old times, transactions that end both ways."""
    for partition in range(PARTITIONS):
        writer = Writer(kafka.bootstrap_servers, topic, partition)
        writer.write(40)
        writer.commit(12)
        writer.abort(9)
        for codec in ("gzip", "snappy", "lz4", "zstd"):
            producer = Producer(kafka.client_config(compression_type=codec, linger_ms=5))
            for number in range(15):
                producer.produce(
                    topic,
                    b"%d" % number * 300,
                    f"{codec}-{number}",
                    partition,
                    timestamp=OLD_MS + number,
                    headers=[("h", b"")],
                )
            assert producer.flush(30) == 0
        writer.abort(3)
        writer.commit(3)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with LocalKafka() as kafka:
        for topic in ("living", "gone", "damaged"):
            tiering.create_tiered_topic(kafka, topic, PARTITIONS, **{"retention.ms": "-1"})
        write_everything(kafka, "gone")
        for topic, segments in (("living", 1), ("gone", SEGMENTS + 10), ("damaged", 2)):
            tiering.produce_until_remote(kafka, topic, segments)
        read = {
            isolation: {p: read_records(kafka.bootstrap_servers, "gone", p, isolation) for p in range(PARTITIONS)}
            for isolation in ("read_uncommitted", "read_committed")
        }
        gone, damaged = (tiering.provoke_scenario_b(kafka, topic) for topic in ("gone", "damaged"))
        home = tmp_path_factory.mktemp("home")
        yield World(kafka, home, gone, damaged, read["read_uncommitted"], read["read_committed"])


def without_offsets(records: list[Record]) -> list[Any]:
    return [record[1:] for record in records]


def test_archive_delete_restore(world: World) -> None:
    (log, *_) = sorted(world.kafka.remote_dir.rglob(f"*{kafka_uuid_str(world.damaged)}*/*.log")) or sorted(
        path for path in world.kafka.remote_dir.rglob("*.log") if kafka_uuid_str(world.damaged) in str(path)
    )
    log.write_bytes(log.read_bytes()[:-7] + b"damaged")
    before = tiering.remote_files(world.kafka, world.damaged)
    cluster = ("--cluster-id", world.kafka.cluster_id)
    report = world.rlmm("clean", "--execute", *cluster, *NOW, "--archive-first", code=4)

    # What compares is gone, what does not is all there, and the run says so.
    assert tiering.remote_files(world.kafka, world.gone) == set()
    assert tiering.remote_files(world.kafka, world.damaged) == before
    assert {problem["kind"] for problem in report["needs_person"]} == {"ARCHIVE"}
    archived = {p["partition"]: p for p in report["archive"]["partitions"] if p["topic"] == "gone"}
    assert {p: found["records"] for p, found in archived.items()} == {p: len(r) for p, r in world.before.items()}
    assert {found["not_whole"] for found in archived.values()} == {0}

    # The Parquet files hold what a stock consumer had read, and tell what one of committed records had.
    for partition, found in archived.items():
        manifest = Path(found["manifest"])
        rows = pq.read_table(manifest.parents[1] / "records" / manifest.name.removesuffix(".json")).to_pylist()
        assert [row["offset"] for row in rows] == [record[0] for record in world.before[partition]]
        assert [row["timestamp"] for row in rows] == [record[1][1] for record in world.before[partition]]
        assert [row["offset"] for row in rows if row["committed"]] == [r[0] for r in world.committed[partition]]

    # Topics that cannot hold the records as they were are refused before the first of them is written.
    world.create("expires", **{"retention.ms": "86400000"})
    world.create("stamped", **{"retention.ms": "-1", "message.timestamp.type": "LogAppendTime"})
    world.create("narrow", 1, **{"retention.ms": "-1"})
    world.create("young", **{"retention.ms": "-1", "message.timestamp.before.max.ms": "86400000"})
    assert "retention.ms=86400000 would delete it" in world.restore("expires", "--execute", *cluster, code=1)
    assert "message.timestamp.type=LogAppendTime" in world.restore("stamped", code=1)
    assert "2 are to be restored" in world.restore("narrow", code=1)
    assert "message.timestamp.before.max.ms" in world.restore("young", code=1)
    assert "is not empty" in world.restore("living", code=1)
    assert "does not exist" in world.restore("nowhere", code=1)
    assert read_records(world.kafka.bootstrap_servers, "expires") == []

    world.create("restored", **{"retention.ms": "-1", "message.timestamp.type": "CreateTime"})
    planned = world.restore("restored")
    assert (planned["dry_run"], read_records(world.kafka.bootstrap_servers, "restored")) == (True, [])
    told = world.restore("restored", "--execute", *cluster)
    for partition, records in world.committed.items():
        restored = read_records(world.kafka.bootstrap_servers, "restored", partition)
        assert without_offsets(restored) == without_offsets(records)
    assert told["records"] == sum(map(len, world.committed.values()))
    assert told["left_out"] == sum(map(len, world.before.values())) - told["records"] == 12 * PARTITIONS
    assert [p["content_sha256"] for p in told["partitions"]] == [p["content_sha256"] for p in planned["partitions"]]
    # Once more finds all of it there, and compares it; another source is refused.
    again = world.restore("restored", "--execute", *cluster)
    assert [p["content_sha256"] for p in again["partitions"]] == [p["content_sha256"] for p in told["partitions"]]
    assert len(read_records(world.kafka.bootstrap_servers, "restored")) == len(world.committed[0])

    # Half of the archive is refused; who takes it is told that a person has to know.
    (folder,) = (world.home / "archives").glob(f"*/*-{kafka_uuid_str(world.gone)}")
    (folder / "1").rename(world.home / "lost")
    world.create("half", **{"retention.ms": "-1"})
    assert "the archive is not whole: partition 1" in world.restore("half", "--execute", *cluster, code=1)
    assert read_records(world.kafka.bootstrap_servers, "half") == []
    half = world.restore("half", "--execute", *cluster, "--override", "incomplete_archive", code=4)
    assert half["records"] == len(world.committed[0]) == len(read_records(world.kafka.bootstrap_servers, "half"))
    assert any(why.startswith("partition 1") for why in half["incomplete"])
    assert scrub(world.kafka) == []
