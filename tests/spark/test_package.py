# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

from airflow_provider_rlmm.features.retention.spark.package import (
    PY_FILES_NAME,
    build_py_files,
    kafka_connector_coordinates,
)

IMPORT_ALL = """
import json, sys
sys.path.insert(0, sys.argv[1])
import airflow_provider_rlmm.features.retention.spark
print(json.dumps([m for m in ("airflow", "pyspark", "pyarrow", "numpy") if m in sys.modules]))
import airflow_provider_rlmm.core.records.columnar
from airflow_provider_rlmm.features.retention.spark import generations, package, plan, segments, source
from airflow_provider_rlmm.features.retention.spark.executor import metadata_partition
heavy = ("airflow", "pyspark", "confluent_kafka", "obstore", "pandas")
print(json.dumps([m for m in heavy if m in sys.modules]))
print(json.dumps([plan.__file__, metadata_partition.__file__, airflow_provider_rlmm.core.records.columnar.__file__]))
from airflow_provider_rlmm.features.reading import exporting
print(json.dumps([m for m in ("airflow", "pyspark", "confluent_kafka", "click", "rich", "pandas") if m in sys.modules]))
"""


def test_zip_holds_what_executors_need_and_no_more(tmp_path: Path) -> None:
    with zipfile.ZipFile(build_py_files(tmp_path)) as archive:
        names = archive.namelist()
        assert archive.testzip() is None
    assert names == sorted(names)
    assert "airflow_provider_rlmm/__init__.py" in names
    # what a task of each kind begins with, and what none needs
    begin = (
        "airflow_provider_rlmm.features.retention.spark.executor.metadata_partition",
        "airflow_provider_rlmm.features.reading.exporting",
    )
    assert {name.replace(".", "/") + ".py" for name in begin} <= set(names)
    no_task_s = (
        "cli",
        "data_frames",
        "hooks",
        "operators",
        "core/log/kafka",
        "core/runs",
        "features/cleanup",
        "features/scrub",
    )
    assert not [name for name in names if name.removeprefix("airflow_provider_rlmm/").startswith(no_task_s)]
    assert {Path(name).suffix for name in names} == {".py"}


def test_zip_is_the_same_wherever_it_is_built(tmp_path: Path) -> None:
    first, second = build_py_files(tmp_path / "a" / "b"), build_py_files(tmp_path)
    assert first.read_bytes() == second.read_bytes()
    assert build_py_files(tmp_path) == second
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == [PY_FILES_NAME]


def test_code_in_the_zip_imports_neither_airflow_nor_pyspark(tmp_path: Path) -> None:
    archive = build_py_files(tmp_path)
    done = subprocess.run(
        [sys.executable, "-P", "-c", IMPORT_ALL, str(archive)],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    at_import, later, files, of_the_export = (json.loads(line) for line in done.stdout.splitlines())
    assert at_import == []
    assert later == of_the_export == []
    assert all(Path(file).is_relative_to(archive) for file in files)


def test_connector_is_of_the_installed_pyspark() -> None:
    assert kafka_connector_coordinates() == f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version('pyspark')}"
