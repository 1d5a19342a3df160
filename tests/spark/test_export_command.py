# SPDX-License-Identifier: Apache-2.0
"""The export as a user starts it: ``spark-submit`` against a real broker, segments and files in a folder and in a bucket."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest
from obstore.store import from_url

from airflow_provider_rlmm.resources import spark_job_path
from dev import tiering
from dev.broker import LocalKafka
from dev.s3 import ACCESS_KEY, BUCKET, REGION, SECRET_KEY, MotoServer
from tests.integration.copying.writing import read_records

pytestmark = pytest.mark.rare

PARTITIONS = 2
SEGMENTS = 3


@dataclass(frozen=True)
class Scene:
    """A broker with a tiered topic, and what stock consumers read of it."""

    kafka: LocalKafka
    records: dict[int, list[tuple[int, int, bytes | None, bytes | None]]]

    def submit(self, folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Start the job as the how-to says; spark-submit puts all that its driver says on standard output."""
        command = [
            str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
            *("--master", "local[2]", "--conf", "spark.ui.enabled=false"),
            *("--conf", f"spark.pyspark.python={sys.executable}"),
            *(str(spark_job_path("remote_log_export.py")), "orders", "--json", *arguments),
            *("--bootstrap-server", self.kafka.bootstrap_servers),
        ]
        settings = {"SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": "", **environment}
        return subprocess.run(
            command, cwd=folder, env=os.environ | settings, capture_output=True, text=True, timeout=120, check=False
        )


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with LocalKafka() as kafka:
        tiering.create_tiered_topic(kafka, "orders", PARTITIONS)
        tiering.produce_until_remote(kafka, "orders", SEGMENTS)
        read = {p: read_records(kafka.bootstrap_servers, "orders", p) for p in range(PARTITIONS)}
        yield Scene(
            kafka, {p: [(offset, time[1], key, value) for offset, time, key, value, _ in read[p]] for p in read}
        )


def require_equal(scene: Scene, tables: dict[int, pa.Table], stdout: str) -> None:
    """Compare what was exported with what consumers read, and with what the job says of it."""
    for partition, table in tables.items():
        columns = (table[name].to_pylist() for name in ("offset", "timestamp", "key", "value"))
        assert list(zip(*columns, strict=True)) == scene.records[partition]
    assert json.loads(stdout)["records"] == sum(map(len, scene.records.values())) > 0


def by_partition(names: list[str]) -> dict[int, list[str]]:
    return {p: sorted(n for n in names if n.startswith(f"partition-{p}-")) for p in range(PARTITIONS)}


def test_it_exports_a_brokers_topic_from_a_folder(scene: Scene, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ("--storage", scene.kafka.remote_dir.as_uri(), "--output", str(out), "--piece-bytes", "1")
    done = scene.submit(tmp_path, *arguments)
    assert done.returncode == 0, done.stdout
    files = by_partition([file.name for file in out.iterdir()])
    assert {p: len(names) for p, names in files.items()} == dict.fromkeys(range(PARTITIONS), SEGMENTS)
    tables = {p: pa.concat_tables(pq.read_table(out / name) for name in files[p]) for p in files}
    require_equal(scene, tables, done.stdout)
    assert f"rlmm: cluster at {scene.kafka.bootstrap_servers}; configuration from " in done.stderr

    refused = scene.submit(tmp_path, *arguments, "--isolation-level", "read_committed")
    assert refused.returncode == 1
    assert f"remote_log_export: the folder {out} has another export, which has written there first" in refused.stdout


def test_it_exports_from_a_bucket_into_a_bucket(scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with MotoServer(tmp_path / "moto") as server:
        environment = {
            "AWS_ENDPOINT_URL": server.endpoint,
            "AWS_REGION": REGION,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_ALLOW_HTTP": "true",
        }
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        tiered, exported = (from_url(f"s3://{BUCKET}/{folder}") for folder in ("kafka", "exports/orders"))
        for file in scene.kafka.remote_root.rglob("*"):
            if file.is_file():
                obstore.put(tiered, file.relative_to(scene.kafka.remote_dir).as_posix(), file.read_bytes())
        where = ("--storage", f"s3://{BUCKET}/kafka", "--output", f"s3://{BUCKET}/exports/orders")
        done = scene.submit(tmp_path, *where, **environment)
        assert done.returncode == 0, done.stdout
        names = [entry["path"] for entry in obstore.list(exported).collect()]
        assert {"export.json", "export-begun.json"} < set(names)
        tables = {
            p: pa.concat_tables(pq.read_table(pa.py_buffer(obstore.get(exported, n).bytes())) for n in found)
            for p, found in by_partition(names).items()
        }
        require_equal(scene, tables, done.stdout)
        assert SECRET_KEY not in done.stdout + done.stderr
