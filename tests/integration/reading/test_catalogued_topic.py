# SPDX-License-Identifier: Apache-2.0
"""The cluster is gone: what it had tiered is read by a catalogue, record by record as a stock consumer had read it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from airflow_provider_rlmm.cli.main import run
from airflow_provider_rlmm.core.plans.catalogue_document import CATALOGUE_TABLE
from airflow_provider_rlmm.core.plans.catalogue_rows import ProvedBy, RowKind
from airflow_provider_rlmm.core.plans.catalogue_table import rows_of
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata, TopicIdPartition, kafka_uuid_str
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.core.segments.read_range import ReadIsolation
from dev.broker import LocalKafka
from dev.s3 import MotoServer
from dev.s3_tiering import S3Kafka
from tests.integration.copying.writing import read_records
from tests.integration.reading.world import as_row, make_remote_log, segments_of
from tests.integration.s3_environment import environment_of

pytestmark = [pytest.mark.integration, pytest.mark.rare]

PREFIX = "kafka/prod-"
TOPIC = "orders"
COPY_SEGMENT_FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED


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


@pytest.fixture(params=["bucket", "folder"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalKafka]:
    """A running broker that tiers into a bucket or a folder, which outlives it; the environment says where."""
    data, compressed = tmp_path / "kafka", {"rsm.config.chunk.size": "5000", "rsm.config.compression.enabled": "true"}
    with ExitStack() as stack:
        if request.param == "bucket":
            server = stack.enter_context(MotoServer(tmp_path / "s3"))
            kafka: LocalKafka = S3Kafka(server, key_prefix=PREFIX, properties=compressed, data_dir=data)
            environment = environment_of(kafka)  # type: ignore[arg-type]
        else:
            kafka = LocalKafka(data)
            environment = {"RLMM_STORAGE_URI": kafka.remote_dir.as_uri(), "RLMM_LAYOUT": "local-tiered-storage"}
        for name, value in {**environment, "RLMM_BOOTSTRAP_SERVER": kafka.bootstrap_servers}.items():
            monkeypatch.setenv(name, value)
        try:
            kafka.start()
            yield kafka
        finally:
            kafka.kill()


def lose(kafka: LocalKafka) -> None:
    """Stop the broker and remove all that it had but the remote storage, metadata topic and log directory among it."""
    kafka.stop()
    for path in kafka.data_dir.iterdir():
        if path != kafka.remote_dir:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert not kafka.log_dir.exists()


def check_catalogue(folder: str, known: Sequence[RemoteLogSegmentMetadata]) -> None:
    """Check that a catalogue whose rows are proved says of each segment what the metadata topic had said."""
    rows = {r.segment_id: r for r in rows_of(pq.read_table(Path(folder, CATALOGUE_TABLE))) if r.kind.is_whole}
    assert rows.keys() == {metadata.remote_log_segment_id.id for metadata in known}
    for metadata in known:
        row = rows[metadata.remote_log_segment_id.id]
        assert (row.kind, row.proved_by) == (RowKind.COPIED, ProvedBy.CONTENTS)
        for name in ("start_offset", "segment_leader_epochs", "segment_size_in_bytes", "max_timestamp_ms"):
            assert getattr(row, name) == getattr(metadata, name), name
        assert row.end_offset == metadata.end_offset
        assert row.txn_idx_empty in (None, metadata.txn_idx_empty)


def test_what_a_lost_cluster_had_tiered_is_read_as_a_consumer_had_read_it(
    cluster: LocalKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rlmm, isolation_option = Command(capsys), "--isolation-level"
    monkeypatch.setenv("RLMM_WORK_URI", str(tmp_path / "work"))
    tip = make_remote_log(cluster, TOPIC)
    consumed, ends = {}, {}
    for isolation in ReadIsolation:
        consumed[isolation] = [as_row(r) for r in read_records(cluster.bootstrap_servers, TOPIC, isolation=isolation)]
        ((read, *_), _) = rlmm(
            "read", TOPIC, isolation_option, isolation.value, "--output", str(tmp_path / isolation.value)
        )
        ends[isolation] = read["end"]
    with segments_of(cluster, tip) as segments:
        known = [s for s in segments.list_remote_log_segments(tip) if s.state is COPY_SEGMENT_FINISHED]
    before = Before(tip, cluster.cluster_id, consumed, ends)
    lose(cluster)
    monkeypatch.delenv("RLMM_BOOTSTRAP_SERVER")
    # What the run before has left would tell of the segments, too.
    shutil.rmtree(tmp_path / "work")

    catalogue, topic_id = str(tmp_path / "catalogue"), kafka_uuid_str(before.tip.topic_id)
    rlmm("recover", "--output", catalogue, "--cluster-id", before.cluster_id, "--prove")
    check_catalogue(catalogue, known)
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
