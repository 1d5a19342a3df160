# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re

import pytest

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.features.retention.spark.executor.versions import differences, require_one_pyspark, software
from airflow_provider_rlmm.features.retention.spark.package import require_pyspark


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


@pytest.mark.parametrize(
    ("pyspark", "client", "said"),
    [
        (None, None, "PySpark is not installed where this task runs: pip install 'airflow-provider-rlmm"),
        (None, "4.0.0", "PySpark is not installed where this task runs: pip install 'airflow-provider-rlmm"),
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
