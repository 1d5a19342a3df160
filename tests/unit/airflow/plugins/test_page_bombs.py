# SPDX-License-Identifier: Apache-2.0
"""Small files that stand for gigabytes: the pages answer, in a process that may have one gigabyte."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.world.audit_columns import audit_schema
from airflow_provider_rlmm.core.world.audit_log import AuditFiles
from airflow_provider_rlmm.core.world.run_identity import RunIdentity
from airflow_provider_rlmm.features.survey.inventory import InventoryFile
from airflow_provider_rlmm.features.survey.inventory_files import segments_schema, topics_schema
from tests.sample_work_folder import CLUSTER, NOW_MS, Sample, sample_work_folder, topic_id

pytestmark = pytest.mark.rare

GIGABYTE = 2**30
TOPIC = f"/clusters/{CLUSTER}/topics/{kafka_uuid_str(topic_id(2))}"
MEGABYTE_OF_TEXT = "x" * 2**20
# Runs alone: pages are asked for one after the other, and their status and words printed.
PROGRAM = """
    import json, sys
    import pytest, resource
    import tests.airflow_home
    from fastapi.testclient import TestClient
    from airflow_provider_rlmm.plugins import web
    from tests.unit.airflow.auth import Everybody, log_in, without_database

    monkeypatch = pytest.MonkeyPatch()
    for module in ("cluster_routes", "topic_routes", "run_routes"):
        monkeypatch.setattr(f"airflow_provider_rlmm.plugins.{module}.system_clock", lambda: int(sys.argv[1]))
    without_database(monkeypatch)
    app = web.create_app()
    log_in(app, monkeypatch, Everybody)
    client = TestClient(app, raise_server_exceptions=False)
    client.get("/")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    answers = [(answer.status_code, answer.text) for answer in map(client.get, sys.argv[2:])]
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print("ANSWERS" + json.dumps([grown * 1024, [[status, text[:1_000_000]] for status, text in answers]]))
"""
Asked = Callable[..., list[tuple[int, str]]]


@pytest.fixture
def sample(tmp_path: Path) -> Sample:
    return sample_work_folder(tmp_path / "work", topics=5, metadata_partitions=1)


@pytest.fixture
def asked(sample: Sample) -> Asked:
    def ask(*paths: str) -> list[tuple[int, str]]:
        environment = {**os.environ, "AIRFLOW__RLMM__WORK_URI": str(sample.work)}
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(PROGRAM), str(NOW_MS), *paths], capture_output=True, text=True,
            check=False, env=environment, timeout=300, cwd=Path(__file__).parents[4],
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (GIGABYTE, GIGABYTE)),
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-2_000:]
        grown, answers = json.loads(done.stdout.rpartition("ANSWERS")[2])
        assert grown < 400 * 2**20
        return [(status, text) for status, text in answers]

    return ask


def put(sample: Sample, **tables: pa.Table) -> int:
    """Put files into the inventory, under a seal that is right; return how large they are together."""
    files, totals = dict(sample.inventory.files), sample.inventory.totals
    for name, table in tables.items():
        file = sample.cluster / sample.inventory.generation / f"{name}.parquet"
        pq.write_table(table, file, compression="zstd")
        files[file.name] = InventoryFile.of(table.num_rows, file.read_bytes())
        totals = replace(totals, topics=table.num_rows) if name == "topics" else totals
    document = replace(sample.inventory, files=files, totals=totals)
    (sample.cluster / "inventory.json").write_text(document.to_json())
    return sum(files[f"{name}.parquet"].bytes for name in tables)


def many_times(one: dict[str, Any], schema: pa.Schema, rows: int) -> pa.Table:
    """Return a row many times; each text is there once."""
    made = {}
    for field in schema:
        value = pa.array([one[field.name]], field.type)
        is_text = pa.types.is_string(field.type) or pa.types.is_binary(field.type)
        if is_text and not value.null_count:
            made[field.name] = pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), rows), value)
        else:
            made[field.name] = pa.repeat(value[0], rows)
    return pa.table(made)


def first_topic(sample: Sample) -> dict[str, Any]:
    file = sample.cluster / sample.inventory.generation / "topics.parquet"
    found: dict[str, Any] = pq.read_table(file).to_pylist()[0]
    return found


def with_leader_epochs(sample: Sample, count: int) -> pa.Table:
    schema = segments_schema()
    rows = pq.read_table(sample.cluster / sample.inventory.generation / "segments-0.parquet").to_pylist()
    mine = [row for row in rows if row["topic_id"] == topic_id(2).bytes and row["partition"] == 0]
    table = pa.Table.from_pylist(mine[:1], schema)
    kind = schema.field("leader_epochs").type
    epoch = pa.scalar({"leader_epoch": 1, "start_offset": 1}, kind.value_type)
    epochs = pa.ListArray.from_arrays(pa.array([0, count], pa.int32()), pa.repeat(epoch, count)).cast(kind)
    return table.set_column(schema.get_field_index("leader_epochs"), schema.field("leader_epochs"), epochs)


def audited(sample: Sample, partition: int, rows: int, why: str) -> int:
    """Have the audit log hold a file of a run with one row of a user partition, many times; return how large it is."""
    name = f"remote_log_cleaner.manual__{partition}"
    run = RunIdentity("remote_log_cleaner", f"manual__{partition}", name, "ada")
    log = AuditFiles(str(sample.cluster), CLUSTER, run, 1, lambda: NOW_MS)
    segment = {
        "metadata_partition": 0, "topic": "topic-000002", "topic_id": [topic_id(2).bytes], "partition": partition,
        "segment_id": [b"s" * 16], "start_offset": 0, "end_offset": 99, "segment_bytes": 1_000, "started_offset": 5,
    }  # fmt: skip
    log.before(segment)
    (file,) = (sample.cluster / "audit").glob(f"*/{name}*.parquet")
    one = pq.read_table(file).to_pylist()[0] | {"why": why}
    pq.write_table(many_times(one, audit_schema(), rows), file, compression="zstd", store_schema=False)
    return file.stat().st_size


def test_a_long_text_that_every_row_names(asked: Asked, sample: Sample) -> None:
    topics = many_times(first_topic(sample) | {"why": MEGABYTE_OF_TEXT * 16}, topics_schema(), 100_000)
    assert put(sample, topics=topics) < 20_000
    assert audited(sample, 0, 10_000, MEGABYTE_OF_TEXT * 8) < 20_000
    (status, html), (of_partition, trails) = asked(f"/clusters/{CLUSTER}/topics", f"{TOPIC}/0")
    assert (status, "1–100 of 100,000" in html, len(html) < 900_000) == (200, True, True)
    assert (of_partition, "Deleted by runs" in trails, len(trails) < 900_000) == (200, True, True)


def test_any_number_of_rows_or_values(asked: Asked, sample: Sample) -> None:
    topics = many_times(first_topic(sample), topics_schema(), 10_000_000)
    assert put(sample, topics=topics, **{"segments-0": with_leader_epochs(sample, 20_000_000)}) < 2_000_000
    assert audited(sample, 1, 1_000_000, "it is there") < 100_000
    of_topics, of_segments, of_audit = asked(f"/clusters/{CLUSTER}/topics", f"{TOPIC}/0", f"{TOPIC}/1")
    assert (of_topics[0], "no page reads more than" in of_topics[1]) == (422, True)
    assert (of_segments[0], "no page reads more than" in of_segments[1]) == (422, True)
    assert (of_audit[0], "1 file of the audit log cannot be read" in of_audit[1]) == (200, True)
