# SPDX-License-Identifier: Apache-2.0
"""The cluster is gone: a topic of its bucket is restored into a new one, record by record as a stock consumer had read it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from airflow_provider_rlmm.cli.main import run
from airflow_provider_rlmm.core.log.kafka import restoring
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.segments.read_range import ReadIsolation
from dev.s3 import MotoServer
from dev.s3_tiering import S3Kafka
from tests.integration.copying.writing import Record, read_records
from tests.integration.reading.world import make_remote_log, segments_of
from tests.integration.s3_environment import environment_of

pytestmark = [pytest.mark.integration, pytest.mark.rare]

OLD, NEW = "kafka/old-", "kafka/new-"
TOPIC = "orders"


@dataclass(frozen=True)
class Lost:
    """What is known of a cluster that is gone."""

    topic_id: str
    cluster_id: str
    committed: list[Record]  # as a stock consumer had read them
    end: int  # of what was remote, exclusive


class Command:
    """The command, with its configuration in the environment."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str, code: int = 0) -> tuple[Any, str]:
        """Run it; return what it printed as JSON, and what it said."""
        self._capsys.readouterr()
        done = run([*arguments, "--json"])
        printed = self._capsys.readouterr()
        assert done == code, f"{arguments}: {done}\n{printed.out}\n{printed.err}"
        return json.loads(printed.out) if printed.out else None, printed.err


@pytest.fixture
def server(tmp_path: Path) -> Iterator[MotoServer]:
    with MotoServer(tmp_path / "s3") as server:
        yield server


@pytest.fixture
def lost(server: MotoServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lost:
    with S3Kafka(server, key_prefix=OLD, properties={"rsm.config.compression.enabled": "true"}) as kafka:
        for name, value in environment_of(kafka).items():
            monkeypatch.setenv(name, value)
        tip = make_remote_log(kafka, TOPIC)
        committed = read_records(kafka.bootstrap_servers, TOPIC, isolation=ReadIsolation.READ_COMMITTED)
        with segments_of(kafka, tip) as segments:
            end = segments.list_remote_log_segments(tip)[-1].end_offset + 1
        data = kafka.data_dir
        found = Lost(kafka_uuid_str(tip.topic_id), kafka.cluster_id, committed, end)
    shutil.rmtree(data, ignore_errors=True)
    monkeypatch.setenv("RLMM_WORK_URI", str(tmp_path / "work"))
    monkeypatch.setenv("RLMM_ALLOW_CATALOGUE", found.topic_id)
    return found


def create(kafka: S3Kafka, topic: str) -> None:
    admin = AdminClient(kafka.client_config())
    settings = {"retention.ms": "-1", "message.timestamp.type": "CreateTime"}
    admin.create_topics([NewTopic(topic, 1, 1, config=settings)])[topic].result(30)


def log_end_offset(kafka: S3Kafka) -> int:
    admin = AdminClient(kafka.client_config())
    (answer,) = admin.list_offsets({TopicPartition(TOPIC, 0): OffsetSpec.latest()}).values()
    return int(answer.result(30).offset)


class Killed(BaseException):
    """The process ends here."""


def killed_after_some(monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]) -> None:
    """Run the command until its producer has written some records."""
    produce, calls = restoring.RestoringTopic._produce, []

    def dying(self: Any, producer: Any, *given: Any) -> int:
        calls.append(given)
        if len(calls) > 2:
            producer.flush(30)
            raise Killed
        return produce(self, producer, *given)

    with monkeypatch.context() as patched:
        patched.setattr(restoring, "_ROWS", 50)
        patched.setattr(restoring.RestoringTopic, "_produce", dying)
        with pytest.raises(Killed):
            run(arguments)


def without_header(records: list[Record]) -> list[Record]:
    return [(*record[:4], record[4][:-1]) for record in records]


def contents(records: list[Record]) -> list[Any]:
    return [record[1:] for record in records]


def test_a_topic_of_a_lost_cluster_is_restored_into_a_new_one(
    lost: Lost, server: MotoServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rlmm, catalogue = Command(capsys), str(tmp_path / "catalogue")
    rlmm("recover", "--output", catalogue, "--cluster-id", lost.cluster_id)
    asked = ("restore", "--catalogue", catalogue, "--topic-id", lost.topic_id, "--was-not-deleted", lost.topic_id)
    with S3Kafka(server, key_prefix=NEW) as kafka:
        assert kafka.cluster_id != lost.cluster_id
        monkeypatch.setenv("RLMM_BOOTSTRAP_SERVER", kafka.bootstrap_servers)
        create(kafka, TOPIC)
        into = ("--into", TOPIC, "--execute", "--cluster-id", kafka.cluster_id)
        assert "no start is named" in rlmm(*asked, *into, code=1)[1]
        wanted = (*asked, *into, "--from-beginning", "--undecided", "abort", "--offset-header")
        killed_after_some(monkeypatch, wanted)
        there = log_end_offset(kafka)
        assert there > 0
        monkeypatch.setattr(restoring, "DELIVERY_TIMEOUT_S", 5.0)
        told, _ = rlmm(*wanted)
        restored = read_records(kafka.bootstrap_servers, TOPIC, isolation=ReadIsolation.READ_COMMITTED)
        create(kafka, "kept")
        kept, _ = rlmm(*asked, "--into", "kept", "--cluster-id", kafka.cluster_id, "--from-beginning", code=4)

    (partition,) = told["partitions"]
    undecided = {one["first_offset"]: one["records"] for one in partition["undecided"]}
    assert there < len(restored) == told["records"]
    remote = [record for record in lost.committed if record[0] < lost.end]
    left = [record for record in remote if not any(at <= record[0] < at + n for at, n in undecided.items())]
    assert contents(without_header(restored)) == contents(left)
    assert [int(record[4][-1][1] or b"") for record in restored] == [record[0] for record in left]
    assert partition["end_offset"] == lost.end
    differing = [(record[0], new) for new, record in enumerate(left) if record[0] != new]
    assert partition["differs_from"] == differing[0][0]
    assert (partition["last_offset"], partition["new_last_offset"]) == differing[-1]
    runs = pq.read_table(told["offsets_uri"]).to_pylist()
    assert [(run["source_offset"] + n, run["new_offset"] + n) for run in runs for n in range(run["records"])] == [
        (record[0], new) for new, record in enumerate(left)
    ]
    assert (kept["dry_run"], kept["records"]) == (True, told["records"])
