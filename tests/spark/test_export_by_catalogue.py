# SPDX-License-Identifier: Apache-2.0
"""The export as a user starts it where the cluster is lost: ``spark-submit`` with a catalogue, and no broker anywhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest

from airflow_provider_rlmm.core.base.strict_json import unsealed
from airflow_provider_rlmm.resources import spark_job_path
from tests.catalogued import CLUSTER, ID, CataloguedTopic, files_of
from tests.tiered_orders import record

pytestmark = pytest.mark.rare


def submit(topic: CataloguedTopic, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Start the job as the how-to says; spark-submit puts all that its driver says on standard output."""
    command = [
        str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
        *("--master", "local[2]", "--conf", "spark.ui.enabled=false"),
        *("--conf", f"spark.pyspark.python={sys.executable}"),
        *(str(spark_job_path("remote_log_export.py")), ID, "--json", *arguments),
        *("--storage", topic.storage_uri, "--layout", "aiven", "--key-prefix", "kp/", "--piece-bytes", "1"),
    ]
    settings = {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": "",
        "RLMM_ALLOW_CATALOGUE": ID,
        "RLMM_WORK_URI": str(topic.folder / "work"),
    }
    return subprocess.run(
        command, cwd=topic.folder, env=os.environ | settings, capture_output=True, text=True, timeout=120, check=False
    )


def test_it_exports_a_topic_of_a_lost_cluster(tmp_path: Path) -> None:
    topic, out = CataloguedTopic(tmp_path, *(files_of(number, 30 * number) for number in range(3))), tmp_path / "out"
    asked = ("--catalogue", topic.recover(), "--output", str(out))
    done = submit(topic, "0", *asked, "--was-not-deleted", ID, "--from-offset", "7", "--to-offset", "83")
    assert done.returncode == 0, done.stdout
    assert json.loads(done.stdout)["records"] == 76
    assert "rlmm: no cluster is asked; configuration from " in done.stderr
    document = unsealed((out / "export.json").read_text(), 1)
    assert (document["cluster_id"], document["topic"]) == (CLUSTER, "orders")
    tables = [pq.read_table(out / file["file"]) for file in document["files"]]
    assert [table.num_rows for table in tables] == [23, 30, 23]
    assert pa.concat_tables(tables).to_pylist() == [record(offset).as_row() for offset in range(7, 83)]
    (written,) = topic.audit()
    assert json.loads(written.read_text())["what"] == "rlmm remote_log_export"

    topic.put(files_of(7, 30))
    doubtful = ("--catalogue", topic.recover(), "--output", str(tmp_path / "doubtful"), "--was-not-deleted", ID)
    refused = submit(topic, *doubtful)
    assert refused.returncode == 1
    assert "nothing tells which of them the cluster counted" in refused.stdout
    assert not (tmp_path / "doubtful").exists()
