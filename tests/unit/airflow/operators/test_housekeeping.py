# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811  # fixtures are imported by their names
"""What the last task of a run does for the work folder: one file of the audit log per run, and old runs go."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from airflow_provider_rlmm.core.base.clock import system_clock
from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.plans.plan_files import read_plan
from airflow_provider_rlmm.core.world.audit import day_of
from airflow_provider_rlmm.core.world.audit_files import audit_rows
from airflow_provider_rlmm.overview import housekeeping
from airflow_provider_rlmm.overview.housekeeping import prune
from airflow_provider_rlmm.overview.pruning import is_file_of_run
from airflow_provider_rlmm.overview.run_summary import RunKind, RunOutcome, RunSummary
from airflow_provider_rlmm.settings import keep_audit_days, keep_runs_days
from tests.unit.airflow.operators.test_operators import (
    Cluster,
    cluster,  # noqa: F401  # a fixture
    run_all,
    work,  # noqa: F401  # a fixture
)

DAY_MS = 86_400_000
ID = "cluster-1"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the first test that wants a run leaves it for the others."""
    return tmp_path_factory.mktemp("run") / "work"


@pytest.fixture
def run(cluster: Cluster, work: Path, kept: Path) -> Path:
    """The folder of a run that has deleted something; of the cluster nothing need be deleted."""
    if kept.exists():
        shutil.copytree(kept, work)
    else:
        run_all()
        shutil.copytree(work, kept)
    return work / "dag.run"


def aged(folder: Path, name: str, days: float, cluster_id: str = ID) -> Path:
    """A copy of a run's folder under another name, as that run would have left it, some days old."""
    other = folder.parent / name
    shutil.copytree(folder, other)
    plan = replace(read_plan(str(folder)), plan_id=name, cluster_id=cluster_id)
    (other / "summary.json").write_text(plan.to_json())
    report = json.loads((folder / "report.json").read_text()) | {"report_id": name, "cluster_id": cluster_id}
    (other / "report.json").write_text(json.dumps(report))
    return at_age(other, days)


def at_age(folder: Path, days: float) -> Path:
    then = system_clock() / 1000 - days * 86_400
    for path in folder.iterdir():
        os.utime(path, (then, then))
    return folder


def summary(work: Path, artifact: str, days: float, cluster_id: str = ID) -> Path:
    ended = round(system_clock() - days * DAY_MS)
    document = RunSummary(
        cluster_id=cluster_id, connection="rlmm_default", dag_id="dag", run_id=artifact, artifact=artifact,
        kind=RunKind.CLEANER, began_at_ms=ended, ended_at_ms=ended, dry_run=False, outcome=RunOutcome.SUCCESS,
        headline="done",
    )  # fmt: skip
    path = work / f"cluster-{ID}" / "runs" / document.file_name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(document.to_json())
    return path


def pruned(work: Path, **changes: Any) -> tuple[int, int, int]:
    given = {"now_ms": system_clock() + 40 * DAY_MS, "keep_runs_days": 60, "keep_audit_days": 0} | changes
    return prune(str(work), ID, "dag.run", **given)


def test_a_run_leaves_one_file_of_the_audit_log_that_says_all(run: Path, work: Path) -> None:
    (file,) = (work / f"cluster-{ID}" / "audit").rglob("*.parquet")
    assert file.relative_to(work / f"cluster-{ID}").as_posix() == f"audit/{day_of(system_clock())}/dag.run.parquet"
    plan = read_plan(str(run))
    rows = audit_rows(str(work / f"cluster-{ID}"), ID).rows.to_pylist()
    assert len(rows) == plan.planned.segments == 6
    for row in rows:
        assert (row["plan_id"], row["plan_sha256"]) == ("dag.run", plan.sha256)
        assert (row["dag_id"], row["run_id"], row["outcome"], row["objects"]) == ("dag", "run", "GONE", 5)
    assert pq.read_metadata(file).num_rows == 12


def test_every_file_that_a_run_leaves_is_known(run: Path) -> None:
    assert [path.name for path in run.iterdir() if not is_file_of_run(path.name)] == []


def test_old_runs_go_and_young_ones_stay(run: Path, work: Path) -> None:
    old, young = aged(run, "dag.old", 30), aged(run, "dag.young", 10)
    files = {summary(work, "dag.old", 30): False, summary(work, "dag.young", 10): True}
    assert pruned(work) == (1, 1, 0)
    assert (old.exists(), young.exists(), run.exists()) == (False, True, True)
    assert {path: path.exists() for path in files} == files
    assert pruned(work) == (0, 0, 0)


def test_an_old_run_goes_with_its_time_and_the_inventory_of_its_topics(run: Path, work: Path) -> None:
    folder = aged(run, "dag.old", 100)
    (folder / "cleaning.json").write_text("{}")
    survey_of_some(folder)
    at_age(folder, 100)
    assert pruned(work) == (1, 0, 0)
    assert not folder.exists()


def test_without_a_limit_all_stays(run: Path, work: Path) -> None:
    aged(run, "dag.old", 3_000)
    assert pruned(work, keep_runs_days=0) == (0, 0, 0)


def test_the_newest_run_of_each_dag_stays(run: Path, work: Path) -> None:
    newest, older = aged(run, "other.2", 30), aged(run, "other.1", 31)
    kept = summary(work, "other.2", 30)
    gone = summary(work, "other.1", 31)
    assert pruned(work) == (1, 1, 0)
    assert (newest.exists(), older.exists(), kept.exists(), gone.exists()) == (True, False, True, False)


def test_of_a_dag_without_a_known_run_nothing_goes(run: Path, work: Path) -> None:
    other = aged(run, "other.1", 300)
    assert pruned(work) == (0, 0, 0)
    assert other.exists()


def test_a_plan_that_has_not_expired_stays(run: Path, work: Path) -> None:
    folder = aged(run, "dag.old", 100)
    plan = replace(read_plan(str(folder)), expires_at_ms=system_clock() + 50 * DAY_MS)
    (folder / "summary.json").write_text(plan.to_json())
    at_age(folder, 100)
    assert pruned(work) == (0, 0, 0)
    assert pruned(work, now_ms=system_clock() + 51 * DAY_MS) == (1, 0, 0)


def strange_file(folder: Path) -> None:
    (folder / "notes.txt").write_text("mine")


def strange_folder(folder: Path) -> None:
    (folder / "sub").mkdir()


def strange_survey(folder: Path) -> None:
    survey_of_some(folder)
    (folder / "survey" / "inventory-1" / "notes.txt").write_text("mine")


def survey_of_some(folder: Path) -> None:
    """What a survey of some topics leaves in the folder of its run."""
    generation = folder / "survey" / "inventory-1"
    generation.mkdir(parents=True)
    for name in ("inventory.json", "topics.parquet", "partitions.parquet", "segments-0.parquet"):
        (generation / name).write_text("its")
    (folder / "survey" / "inventory.json").write_text("its")


def another_plan(folder: Path) -> None:
    plan = replace(read_plan(str(folder)), plan_id="dag.another")
    (folder / "summary.json").write_text(plan.to_json())


def another_report(folder: Path) -> None:
    (folder / "report.json").write_text(json.dumps({"report_id": "dag.another", "cluster_id": ID}))


def broken_plan(folder: Path) -> None:
    (folder / "summary.json").write_text((folder / "summary.json").read_text().replace("dag", "gad", 1))


def nothing_that_says_whose(folder: Path) -> None:
    (folder / "summary.json").unlink()
    (folder / "report.json").unlink()


def two_clusters(folder: Path) -> None:
    plan = replace(read_plan(str(folder)), cluster_id="cluster-2")
    (folder / "summary.json").write_text(plan.to_json())


def empty(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


@pytest.mark.parametrize(
    "change",
    [
        strange_file, strange_folder, strange_survey, another_plan, another_report, broken_plan, nothing_that_says_whose,
        two_clusters, empty,
    ],
)  # fmt: skip
def test_what_is_not_recognised_stays(run: Path, work: Path, change: Any) -> None:
    folder = aged(run, "dag.old", 100)
    change(folder)
    at_age(folder, 100)
    assert pruned(work) == (0, 0, 0)
    assert folder.exists()


def test_runs_of_another_cluster_stay(run: Path, work: Path) -> None:
    folder = aged(run, "dag.old", 100, cluster_id="cluster-2")
    assert pruned(work) == (0, 0, 0)
    assert folder.exists()


def test_a_link_is_no_folder_of_a_run(run: Path, work: Path, tmp_path: Path) -> None:
    elsewhere = aged(run, "dag.old", 100).rename(tmp_path / "elsewhere")
    (work / "dag.old").symlink_to(elsewhere)
    assert pruned(work) == (0, 0, 0)
    assert list(elsewhere.iterdir())


def test_the_scrub_that_the_next_one_compares_with_stays(run: Path, work: Path) -> None:
    folder = aged(run, "dag.old", 100)
    (work / f"cluster-{ID}" / "latest-scrub.json").write_text(json.dumps({"scrub_id": "dag.old", "sha256": "ab"}))
    assert pruned(work) == (0, 0, 0)
    assert folder.exists()


def test_a_summary_of_another_cluster_or_run_stays(run: Path, work: Path) -> None:
    summary(work, "dag.young", 1)
    foreign = summary(work, "dag.old", 100, cluster_id="cluster-2")
    renamed = summary(work, "dag.older", 101)
    renamed = renamed.rename(renamed.with_name(renamed.name.replace("older", "oldest")))
    assert pruned(work) == (0, 0, 0)
    assert foreign.exists()
    assert renamed.exists()


def test_one_run_looks_into_so_many_folders_and_the_next_ones_into_the_others(
    run: Path, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(housekeeping, "MOST_FOLDERS", 2)
    for number in range(5):
        aged(run, f"dag.{number}", 100)
    assert [pruned(work)[0] for _ in range(4)] == [2, 2, 1, 0]


def test_what_cannot_be_removed_is_a_line_in_the_log(
    run: Path, work: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    aged(run, "dag.a", 100)
    aged(run, "dag.b", 100)
    real = housekeeping.remove_folder

    def fail(uri: str) -> None:
        if uri.endswith("dag.a"):
            raise PermissionError(13, "Permission denied", uri)
        real(uri)

    monkeypatch.setattr(housekeeping, "remove_folder", fail)
    assert pruned(work) == (1, 0, 0)
    assert "the folder dag.a of an old run is left" in caplog.text


def test_old_days_of_the_audit_log_go_where_a_setting_says_so(run: Path, work: Path) -> None:
    audit = work / f"cluster-{ID}" / "audit"
    (today,) = audit.iterdir()
    old, strange = today.rename(audit / "2020-01-01"), audit / "2020-01-02"
    strange.mkdir()
    (strange / "notes.txt").write_text("mine")
    (audit / "other").mkdir()
    assert pruned(work)[2] == 0
    assert pruned(work, keep_audit_days=30)[2] == 1
    assert (old.exists(), strange.exists(), (audit / "other").exists()) == (False, True, True)


def test_the_report_prunes_by_the_settings(cluster: Cluster, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_all()
    old = aged(work / "dag.run", "dag.old", 100)
    young = aged(work / "dag.run", "dag.young", 80)
    for folder in (old, young):
        plan = replace(read_plan(str(folder)), expires_at_ms=1)
        (folder / "summary.json").write_text(plan.to_json())
    at_age(old, 100)
    at_age(young, 80)
    monkeypatch.setenv("AIRFLOW__RLMM__KEEP_RUNS_DAYS", "x")
    run_all()
    assert old.exists(), "what is misspelt removes nothing"
    monkeypatch.setenv("AIRFLOW__RLMM__KEEP_RUNS_DAYS", "0")
    run_all()
    assert old.exists()
    monkeypatch.delenv("AIRFLOW__RLMM__KEEP_RUNS_DAYS")
    run_all()
    assert (old.exists(), young.exists()) == (False, True)


def test_a_worker_in_the_future_removes_nothing(run: Path, work: Path) -> None:
    """The clock of whoever stores the work folder has a say, too."""
    aged(run, "dag.old", 10)
    options = {"since_ms": 0, "keep_runs_days": 90, "keep_audit_days": 30}
    future = system_clock() + 3_650 * DAY_MS
    housekeeping.tidy_up(str(work), ID, "dag.run", clock=lambda: future, **options)
    assert (work / "dag.old").exists()
    assert list((work / f"cluster-{ID}" / "audit").rglob("*.parquet"))


def test_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (keep_runs_days(), keep_audit_days()) == (90, 0)
    monkeypatch.setenv("AIRFLOW__RLMM__KEEP_AUDIT_DAYS", "3650")
    assert keep_audit_days() == 3_650
    monkeypatch.setenv("AIRFLOW__RLMM__KEEP_RUNS_DAYS", "-1")
    with pytest.raises(ConfigurationError, match=r"\[rlmm\] keep_runs_days must be an integer from 0"):
        keep_runs_days()
