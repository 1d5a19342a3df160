# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import shutil
import traceback
from pathlib import Path

import pytest

from airflow_provider_rlmm import resources
from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.base.store_uris import is_below, refuse_secrets_in_uri
from airflow_provider_rlmm.settings import (
    allowed_plan_roots,
    artifact_uri,
    plan_uri,
    work_uri,
)


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


@pytest.mark.parametrize("uri", ["s3://key:s3cr3t@bucket/x", "s3://bucket/x?sig=s3cr3t", "/x#s3cr3t"])
def test_the_settings_hold_no_secrets(monkeypatch: pytest.MonkeyPatch, uri: str) -> None:
    monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", uri)
    monkeypatch.setenv("AIRFLOW__RLMM__ALLOWED_PLAN_ROOTS", f"/plans, {uri}")
    for name, read in (("work_uri", work_uri), ("allowed_plan_roots", allowed_plan_roots)):
        with pytest.raises(
            ConfigurationError, match=rf"^\[rlmm\] {name} must hold neither .*AWS_ENDPOINT_URL"
        ) as caught:
            read()
        assert "s3cr3t" not in str(caught.value)


# -- which plan a run may take work from --------------------------------------------------------------------------------


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("work", "plans/a", "secret/a"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", str(tmp_path / "work"))
    return tmp_path


def test_a_plan_is_named_or_lies_below_the_work_folder(folders: Path) -> None:
    assert allowed_plan_roots() == ()
    assert plan_uri("plan-1") == f"{folders}/work/plan-1"
    assert plan_uri(f"{folders}/work/plan-1") == f"{folders}/work/plan-1"
    assert plan_uri((folders / "work" / "plan-1").as_uri()) == f"{folders}/work/plan-1"


def test_an_administrator_may_allow_further_roots(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for given in (f"{folders}/plans/a", "s3://bucket/plans/a"):
        with pytest.raises(ConfigurationError, match="allowed_plan_roots names"):
            plan_uri(given)
    monkeypatch.setenv("AIRFLOW__RLMM__ALLOWED_PLAN_ROOTS", f" {folders}/plans, s3://bucket/plans/ ,")
    assert plan_uri(f"{folders}/plans/a/") == f"{folders}/plans/a"
    assert plan_uri("s3a://bucket/plans/a") == "s3a://bucket/plans/a"
    with pytest.raises(ConfigurationError, match="allowed_plan_roots names"):
        plan_uri("s3://bucket/secret/a")


@pytest.mark.parametrize(
    "walk",
    ["{}/plans/../secret/a", "file://{}/plans/%2e%2e/secret/a", "{}/plans/link", "{}/plans/link/b", "{}/plans-2"],
)
def test_no_way_leads_out_of_an_allowed_root(folders: Path, monkeypatch: pytest.MonkeyPatch, walk: str) -> None:
    monkeypatch.setenv("AIRFLOW__RLMM__ALLOWED_PLAN_ROOTS", f"{folders}/plans")
    (folders / "plans" / "link").symlink_to(folders / "secret" / "a")
    with pytest.raises(ConfigurationError, match="neither the name of a plan below"):
        plan_uri(walk.format(folders))


def test_a_root_that_is_a_link_leads_where_the_administrator_put_it(
    folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folders / "there").symlink_to(folders / "plans")
    monkeypatch.setenv("AIRFLOW__RLMM__ALLOWED_PLAN_ROOTS", f"{folders}/there")
    assert plan_uri(f"{folders}/there/a") == f"{folders}/plans/a"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("s3://key:s3cr3t@bucket/x", "^source_plan must hold neither"),
        ("/x?s3cr3t", "^source_plan must hold neither"),
        ("plans/a", "neither an absolute path nor a URI"),
        ("../plans", "neither an absolute path nor a URI"),
        ("", "neither an absolute path nor a URI"),
        (7, "^source_plan must be the name or the URI of a plan, not int"),
    ],
)
def test_whatever_else_is_no_plan(folders: Path, given: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        plan_uri(given)
    assert "s3cr3t" not in str(caught.value)


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


# -- what a URI in a setting may hold ---------------------------------------------------------------------------------

WITH_SECRETS = [
    "s3://key:s3cr3t@bucket/x",
    "s3://s3cr3t@bucket/x",
    "s3://key:s3cr3t/with/a/slash@bucket/x",
    "s3://key:12/s3cr3t@bucket/x",
    "s3://key:/s3cr3t@bucket/x",
    "az://box/x?sig=s3cr3t",
    "s3://bucket/x?",
    "file:///x#s3cr3t",
    "/x?s3cr3t",
    "/x#s3cr3t",
    "abfss://box:s3cr3t@account.dfs.core.windows.net/x",
    "abfss://s3cr3t+KEY==@account.dfs.core.windows.net/x",
    "http://s3cr3t\u2100@host/x",
    "s3://[s3cr3t/x",
    "s3://bucket/\ns3cr3t",
    "s3://bucket/\u202es3cr3t",
]


@pytest.mark.parametrize("uri", WITH_SECRETS)
def test_what_may_hold_a_secret_is_refused_and_not_repeated(uri: str) -> None:
    with pytest.raises(
        ConfigurationError, match=r"^the setting (must hold neither credentials|holds a line)"
    ) as caught:
        refuse_secrets_in_uri("the setting", uri, "do this")
    assert "s3cr3t" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "uri",
    [
        "s3://bucket/prefix",
        "s3a://bucket",
        "file:///mnt/tiered storage",
        "/home/me@work/rlmm",
        "hdfs://namenode:8020/rlmm",
        "hdfs://[::1]:8020/rlmm",
        "s3://bucket/team@work/größer",
        "abfss://box@account.dfs.core.windows.net/rlmm",
        "",
    ],
)
def test_what_holds_none_passes(uri: str) -> None:
    refuse_secrets_in_uri("the setting", uri, "do this")


@pytest.mark.parametrize(
    ("uri", "root", "below"),
    [
        ("s3://bucket/plans/a", "s3://bucket/plans", True),
        ("s3://bucket/plans/a/", "s3://bucket/plans/", True),
        ("s3://bucket/plans", "s3://bucket/plans", True),
        ("s3a://bucket/plans/a", "s3://bucket/plans", True),
        ("s3://bucket/a", "s3://bucket", True),
        ("s3://bucket/plans-of-others", "s3://bucket/plans", False),
        ("s3://bucket", "s3://bucket/plans", False),
        ("s3://bucket//plans/a", "s3://bucket/plans", False),
        ("s3://other/plans/a", "s3://bucket/plans", False),
        ("s3://bucket.other/plans", "s3://bucket", False),
        ("gs://bucket/plans/a", "s3://bucket/plans", False),
        ("s3://bucket/plans/../secret", "s3://bucket/plans", False),
        ("s3://bucket/plans/%2e%2e/secret", "s3://bucket/plans", False),
        ("s3://bucket/plans/./a", "s3://bucket/plans", False),
        ("s3://bucket/../bucket/plans", "s3://bucket", False),
        ("/plans/a", "/plans", False),
    ],
)
def test_below(uri: str, root: str, below: bool) -> None:
    assert is_below(uri, root) is below
