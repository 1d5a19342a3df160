# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from airflow_provider_rlmm import resources
from airflow_provider_rlmm.errors import ConfigurationError
from airflow_provider_rlmm.settings import artifact_uri, work_uri


def test_plans_and_reports_go_to_airflow_home_by_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    assert work_uri() == f"{tmp_path}/rlmm"


def test_the_setting_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", "s3://bucket/rlmm/")
    assert artifact_uri("plan-1") == "s3://bucket/rlmm/plan-1"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/a", "a\\b", "a b", "a\n", "é", "-a", "a" * 129])
def test_only_one_plain_path_segment_names_an_artifact(name: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot name a plan or a report"):
        artifact_uri(name)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    package = tmp_path / "airflow_provider_rlmm"
    package.mkdir()
    monkeypatch.setattr(resources, "_PACKAGE", package)
    return package


def fill(root: Path) -> None:
    (root / "dags").mkdir()
    (root / "spark_jobs").mkdir()
    (root / "spark_jobs" / "segment_retention.py").touch()


def test_files_of_a_wheel_are_inside_the_package(installed: Path) -> None:
    fill(installed)
    fill(installed.parent)
    assert resources.dags_folder() == str(installed / "dags")
    assert resources.spark_job_path("segment_retention.py") == str(installed / "spark_jobs" / "segment_retention.py")


def test_files_of_a_checkout_are_beside_the_package(installed: Path) -> None:
    fill(installed.parent)
    (installed.parent / "pyproject.toml").touch()
    assert resources.dags_folder() == str(installed.parent / "dags")
    assert resources.spark_job_path("segment_retention.py").startswith(str(installed.parent))


def test_a_folder_beside_an_installed_package_is_somebody_elses(installed: Path) -> None:
    fill(installed.parent)
    with pytest.raises(ConfigurationError, match="'dags' of airflow-provider-rlmm is missing"):
        resources.dags_folder()


@pytest.mark.parametrize("name", ["unknown.py", "../secret.py", "segment_retention"])
def test_an_unknown_job_is_named_beside_the_known_ones(installed: Path, name: str) -> None:
    fill(installed)
    shutil.copy(__file__, installed / "secret.py")
    with pytest.raises(ConfigurationError, match=r"there are \['segment_retention.py'\]"):
        resources.spark_job_path(name)
