# SPDX-License-Identifier: Apache-2.0
"""The cluster is gone: what its bucket holds is read by a catalogue, record by record as a stock consumer had read it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from airflow_provider_rlmm.cli.main import run
from airflow_provider_rlmm.core.records.records import TopicIdPartition, kafka_uuid_str
from airflow_provider_rlmm.core.segments.read_range import ReadIsolation
from dev.s3 import MotoServer
from dev.s3_tiering import S3Kafka
from tests.integration.copying.writing import read_records
from tests.integration.reading.world import as_row, make_remote_log
from tests.integration.s3_environment import environment_of

pytestmark = [pytest.mark.integration, pytest.mark.rare]

PREFIX = "kafka/prod-"
TOPIC = "orders"


@dataclass
class Before:
    """What was read while there was a cluster."""

    tip: TopicIdPartition
    cluster_id: str
    consumed: dict[ReadIsolation, list[dict[str, object]]]  # by a stock consumer
    ends: dict[ReadIsolation, int]  # where the remote log ended for 'rlmm read', exclusive

    def expected(self, isolation: ReadIsolation) -> list[dict[str, object]]:
        """What lay only on brokers is lost."""
        return [row for row in self.consumed[isolation] if row["offset"] < self.ends[isolation]]  # type: ignore[operator]


class Command:
    """The command, with its configuration in the environment."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str, code: int = 0) -> tuple[list[Any], str]:
        """Run it; return what it printed as JSON, and what it said."""
        self._capsys.readouterr()
        done = run([*arguments, "--json"])
        printed = self._capsys.readouterr()
        assert done == code, f"{arguments}: {done}\n{printed.out}\n{printed.err}"
        return [json.loads(line) for line in printed.out.splitlines()] if arguments[0] == "read" else [], printed.err


def rows_in(folder: Path) -> list[dict[str, object]]:
    found: list[dict[str, object]] = pq.read_table(folder / "partition-0.parquet").to_pylist()
    return found


@pytest.fixture
def server(tmp_path: Path) -> Iterator[MotoServer]:
    with MotoServer(tmp_path / "s3") as server:
        yield server


def test_the_bucket_of_a_lost_cluster_is_read_as_a_consumer_had_read_it(
    server: MotoServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rlmm, isolation_option = Command(capsys), "--isolation-level"
    monkeypatch.setenv("RLMM_WORK_URI", str(tmp_path / "work"))
    compressed = {"rsm.config.chunk.size": "5000", "rsm.config.compression.enabled": "true"}
    with S3Kafka(server, key_prefix=PREFIX, properties=compressed) as kafka:
        for name, value in environment_of(kafka).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("RLMM_BOOTSTRAP_SERVER", kafka.bootstrap_servers)
        tip = make_remote_log(kafka, TOPIC)
        consumed, ends = {}, {}
        for isolation in ReadIsolation:
            consumed[isolation] = [as_row(r) for r in read_records(kafka.bootstrap_servers, TOPIC, isolation=isolation)]
            ((read, *_), _) = rlmm(
                "read", TOPIC, isolation_option, isolation.value, "--output", str(tmp_path / isolation.value)
            )
            ends[isolation] = read["end"]
        before = Before(tip, kafka.cluster_id, consumed, ends)
        data = kafka.data_dir
    shutil.rmtree(data, ignore_errors=True)
    monkeypatch.delenv("RLMM_BOOTSTRAP_SERVER")

    catalogue, topic_id = str(tmp_path / "catalogue"), kafka_uuid_str(before.tip.topic_id)
    rlmm("recover", "--output", catalogue, "--cluster-id", before.cluster_id)
    asked = ("read", topic_id, "--catalogue", catalogue, "--was-not-deleted", topic_id)
    assert "allow_catalogue does not name it" in rlmm(*asked, code=1)[1]
    monkeypatch.setenv("RLMM_ALLOW_CATALOGUE", topic_id)
    for isolation in ReadIsolation:
        out = tmp_path / f"recovered-{isolation.value}"
        ((read, *_), said) = rlmm(*asked, isolation_option, isolation.value, "--output", str(out))
        assert (read["start"], read["end"]) == (0, before.ends[isolation])
        assert rows_in(out) == rows_in(tmp_path / isolation.value) == before.expected(isolation)
        assert "is read by its lineage" in said
    assert len(before.expected(ReadIsolation.READ_COMMITTED)) < len(before.expected(ReadIsolation.READ_UNCOMMITTED))
    assert len(before.expected(ReadIsolation.READ_COMMITTED)) > 500
    (cluster,) = (tmp_path / "work").glob("cluster-*")
    written = [json.loads(path.read_text()) for path in cluster.rglob("audit/*/read.*.json")]
    assert [one["topic_id"] for one in written] == [topic_id] * 2
