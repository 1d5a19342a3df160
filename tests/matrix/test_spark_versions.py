# SPDX-License-Identifier: Apache-2.0
"""
Sparks of several versions, each as pip brings it and without Airflow: the same file of the job, the same plan row by row.

Spark 3.5 is a cluster's Spark: nothing of this package is installed beside it, the zip brings the code.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from airflow_provider_rlmm.core.plans.plan import PLAN_COLUMNS
from airflow_provider_rlmm.core.plans.plan_files import read_plan
from airflow_provider_rlmm.features.retention.spark.package import build_py_files
from dev import DevEnvironmentError, ensure_spark_jars
from dev.spark import SHORT_LIFE
from tests.matrix.__main__ import build_wheel, call
from tests.matrix.cells import find_python
from tests.spark.judged_cluster import JOB, Cluster, cluster_with_orphans
from tests.spark.plain_evaluation import evaluate_plan

pytestmark = [pytest.mark.matrix, pytest.mark.spark, pytest.mark.integration, pytest.mark.timeout(1800)]

NEWEST = "the newest"
VERSIONS = ["3.5.1", "3.5.3", "4.0.4", "4.1.1", "4.1.3", "4.2.0", NEWEST]
"""Beside that of the lock file, which all other tests have. Where a repository lacks a connector, the version is skipped."""
PYTHON = "3.11"
"""The oldest that this package takes, and the newest that Spark 3.5 does."""
MIN_AGE_MS = 259_200_000
"""The job's default."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with cluster_with_orphans() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def uv() -> str:
    return str(Path(sys.executable).with_name("uv"))


def environment(uv: str, folder: Path, *requirements: str | Path) -> Path:
    """Return the Python of a fresh environment."""
    interpreter = find_python(uv, PYTHON)
    assert interpreter is not None, f"install Python {PYTHON}"
    python = folder / "environment" / "bin" / "python"
    call([uv, "venv", "--quiet", "--no-config", "--python", interpreter, python.parents[1]])
    call([uv, "pip", "install", "--quiet", "--no-config", "--python", python, *requirements])
    return python


def newest(uv: str, folder: Path) -> str:
    """Return the newest version of PySpark that an installer finds."""
    wanted = folder / "wanted.txt"
    wanted.write_text("pyspark")
    words = ["--no-config", "--no-header", "--no-annotate", "--quiet", "--python-version", PYTHON]
    (pin,) = (pin for pin in call([uv, "pip", "compile", *words, wanted]).splitlines() if pin.startswith("pyspark=="))
    return pin.removeprefix("pyspark==")


def submit(python: Path, jars: Path, folder: Path, *arguments: str) -> str:
    """Start the job by the spark-submit of an environment; return what was said."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SPARK_HOME"))}
    done = subprocess.run(
        [
            python.with_name("spark-submit"),
            *("--master", "local[2]", "--py-files", build_py_files(folder)),
            *("--driver-java-options", SHORT_LIFE, "--conf", "spark.ui.enabled=false"),
            *("--jars", ",".join(str(jar) for jar in sorted(jars.glob("*.jar")))),
            *(JOB, *arguments),
        ],
        cwd=folder,
        env={**inherited, "PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-5_000:]}\n{done.stderr[-5_000:]}"
    return done.stdout + done.stderr


def rows_of(output: Path) -> list[dict[str, Any]]:
    """Return the rows of a plan."""
    files = [file for _, file in sorted(read_plan(str(output)).files.items())]
    return [row for file in files for row in pq.read_table(output / file.name).to_pylist()]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_plan_is_the_same_row_by_row(version: str, cluster: Cluster, uv: str, tmp_path: Path) -> None:
    if version == NEWEST and (version := newest(uv, tmp_path)) in VERSIONS:
        pytest.skip(f"the newest PySpark is {version}, which is tried anyway")
    try:
        jars = ensure_spark_jars(version)
    except DevEnvironmentError as e:
        pytest.skip(f"no Kafka connector of Spark {version} is in reach: {str(e).splitlines()[0]}")
    python = environment(uv, tmp_path, f"pyspark=={version}", "pyarrow>=20", "numpy>=2", "pandas>=2.2,<3")
    (tmp_path / "cluster_state.json").write_text(cluster.state.to_json())
    now_ms, outputs = cluster.state.observed_at_ms, [tmp_path / "first", tmp_path / "second"]
    for number, output in enumerate(outputs):
        said = submit(
            python,
            jars,
            tmp_path,
            *("--bootstrap-servers", cluster.kafka.bootstrap_servers),
            *("--cluster-state", str(tmp_path / "cluster_state.json")),
            *("--data-set", str(tmp_path / "segments"), "--output", str(output)),
            *("--plan-id", f"plan-{number}", "--now-ms", str(now_ms)),
        )
        assert "executors and driver differ" not in said
    assert "read 0 records since generation 1" in said
    expected = evaluate_plan(cluster.records, json.loads(cluster.state.to_json()), now_ms, MIN_AGE_MS, 5)
    names = [name for name, _ in PLAN_COLUMNS]
    for output in outputs:
        assert rows_of(output) == [{name: row[name] for name in names} for row in expected]


def test_the_extra_without_any_pin_starts_a_session(uv: str, tmp_path: Path) -> None:
    wheel = build_wheel(tmp_path / "dist")
    python = environment(uv, tmp_path, f"airflow-provider-rlmm[spark] @ {wheel.as_uri()}")
    versions = "import pyspark; from importlib.metadata import version; v = version('pyspark-client')"
    session = "from pyspark.sql import SparkSession; s = SparkSession.builder.master('local[1]').getOrCreate()"
    program = f"{versions}; {session}; print(pyspark.__version__, v, s.version, s.range(7).count())"
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SPARK"))}
    said = call([python, "-c", program], env={**env, "SPARK_LOCAL_IP": "127.0.0.1"}).split()
    assert len(set(said[:3])) == 1, f"PySpark, its client and the session are {said[:3]}"
    assert said[3] == "7"
