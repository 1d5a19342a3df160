# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from pathlib import Path

import pytest

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.features.retention.spark import package
from airflow_provider_rlmm.features.retention.spark.executor.versions import (
    connector_coordinates,
    differences,
    release,
    require_one_pyspark,
    software,
)
from airflow_provider_rlmm.features.retention.spark.package import (
    SparkCore,
    core_of,
    kafka_connector_coordinates,
    require_pyspark,
)
from tests.spark_jars import jar_of


def test_what_differs_is_one_line() -> None:
    here = software()
    assert set(here) == {"Python", "numpy", "pyarrow", "pyspark"}
    assert differences(here, here) == ""
    other = {**here, "pyarrow": "1.0", "numpy": "0.1"}
    assert differences(other, here) == f"numpy {here['numpy']} (driver: 0.1), pyarrow {here['pyarrow']} (driver: 1.0)"
    assert differences({"Python": "3"}, {}) == "Python is missing (driver: 3)"


def test_another_pyspark_is_refused_and_another_pyarrow_is_not() -> None:
    here = software()
    require_one_pyspark({**here, "pyarrow": "1.0"})
    with pytest.raises(
        ConfigurationError, match=rf"pyspark {here['pyspark']} \(driver: 4.0.99\); give executors and driver one"
    ):
        require_one_pyspark({**here, "pyspark": "4.0.99"})
    require_one_pyspark({**here, "pyspark": f"{here['pyspark']}-amzn-1"})


def test_a_vendors_version_is_the_numbers_it_begins_with() -> None:
    versions = ["3.5.5-amzn-1", "3.5.5+amzn.1", "4.0.0", "4.1.0.dev2", "3.5.5.1", "unknown", "4.0"]
    assert [release(v) for v in versions] == ["3.5.5", "3.5.5", "4.0.0", "4.1.0", "3.5.5", "unknown", "4.0"]


def test_the_connector_is_of_the_drivers_spark_and_its_scala(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert connector_coordinates("2.12.18", "3.5.5-amzn-1") == "org.apache.spark:spark-sql-kafka-0-10_2.12:3.5.5"
    monkeypatch.setattr(package, "pyspark_version", lambda: "4.2.0")
    # Whatever else lies there begins like it.
    for name in ("spark-core_2.12-4.2.0-vendor-3.jar", "spark-core_2.13-tests.jar", "spark-connect_2.11-4.2.0.jar"):
        jar_of(tmp_path / "jars" / name, "x")
    assert core_of(tmp_path) == SparkCore("2.12", "4.2.0")
    assert kafka_connector_coordinates(tmp_path) == "org.apache.spark:spark-sql-kafka-0-10_2.12:4.2.0"
    without_jars = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
    assert (core_of(tmp_path / "jars"), kafka_connector_coordinates(tmp_path / "jars")) == (None, without_jars)


@pytest.mark.parametrize(
    ("pyspark", "client", "said"),
    [
        (None, None, "PySpark is not installed where this task runs: pip install 'airflow-provider-rlmm"),
        (None, "4.0.0", "PySpark is not installed where this task runs: pip install 'airflow-provider-rlmm"),
        ("3.5.3", "4.2.0", "pyspark 3.5.3 is installed beside Airflow's Spark provider"),
        ("3.5.3", None, "a cluster's Spark 3.5 takes the job by its own spark-submit, without Airflow"),
        ("4.3.0", "4.2.0", "--no-deps pyspark==4.2.0 pyspark-client==4.2.0"),
    ],
)
def test_a_job_that_cannot_work_is_refused_before_anything_of_spark_is_started(
    monkeypatch: pytest.MonkeyPatch, pyspark: str | None, client: str | None, said: str
) -> None:
    found = {"pyspark": pyspark, "pyspark-client": client}
    monkeypatch.setattr("airflow_provider_rlmm.features.retention.spark.package._version_of", found.get)
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        require_pyspark()


def test_what_is_installed_here_is_one_version() -> None:
    require_pyspark()
