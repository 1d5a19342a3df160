# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811  # fixtures are imported by their names
"""The first task, and what the tasks after it take from the session: root, clock, hold."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_rlmm.core.base import file_systems
from airflow_provider_rlmm.core.base.errors import (
    ClockSkewError,
    ConfigurationError,
    EventLogAccessError,
    HiddenCopiesError,
    StorageRootError,
)
from airflow_provider_rlmm.core.storage.hidden_copies import DeletionEffect, Freed
from airflow_provider_rlmm.core.world.storage_plugin import PLUGIN_CLASS
from airflow_provider_rlmm.hooks.storage import RemoteStorageHook
from airflow_provider_rlmm.operators.arguments import artifact_name
from airflow_provider_rlmm.operators.check import CheckRemoteLogCleanupOperator
from airflow_provider_rlmm.operators.survey import SurveyRemoteLogOperator
from tests.unit.airflow.operators.test_operators import (
    GONE,
    NOW,
    Cluster,
    connect,
    context,
    mark_and_plan,
    run_all,
    work,  # noqa: F401  # a fixture
)
from tests.unit.airflow.operators.test_operators import cluster as plain_cluster  # noqa: F401  # a fixture that is built upon


@pytest.fixture
def allowed() -> set[str]:
    """What the principal may do with the metadata topic."""
    return {"READ", "WRITE", "DESCRIBE"}


@pytest.fixture
def cluster(plain_cluster: Cluster, allowed: set[str]) -> Cluster:
    def describe_metadata_topic(topic: str) -> Any:
        return SimpleNamespace(authorized_operations=frozenset(allowed))

    plain_cluster.topics.describe_metadata_topic = describe_metadata_topic  # type: ignore[attr-defined]
    return plain_cluster


def check(**arguments: Any) -> dict[str, str]:
    return CheckRemoteLogCleanupOperator(task_id="check", **arguments).execute(context())


def test_the_check_says_what_it_verified_and_changes_nothing(
    cluster: Cluster, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(monkeypatch, expected_root=None)
    events, keys = cluster.events, cluster.storage.keys
    verified = check()
    assert "cluster-1" in verified["cluster"]
    assert "newest copied segments of 1 living topic are at" in verified["root"]
    assert ": new, it has no root id yet; " in verified["root"]
    assert verified["writes"] == "allowed"
    assert verified["topic"].endswith("records were read, all that there are")
    assert check()["topic"].startswith("0 records were read; the ")
    assert (cluster.events, cluster.storage.keys) == (events, keys)


def test_check_and_survey_say_what_nobody_can_tell_and_the_rest_goes_on(cluster: Cluster, work: Path) -> None:
    assert check(limits=NOW)["unseen"].startswith("of every segment that is not finished it can be told")
    cluster.topics.denied.add(GONE[0].topic)
    said = check(limits=NOW)["unseen"]
    assert said.startswith("it cannot be told whether 1 topic with 6 segments, 600 B is orphaned")
    assert "give the principal DESCRIBE on every topic" in said
    counts = SurveyRemoteLogOperator(task_id="survey", limits=NOW).execute(context())
    assert (counts["orphaned_segments"], counts["unseen_segments"], counts["unseen_topics"]) == (0, 6, 1)


def test_the_check_refuses_the_layout_of_another_plugin(cluster: Cluster) -> None:
    assert "no broker says" in check(limits=NOW)["layout"]
    cluster.topics.broker_settings[1] = {PLUGIN_CLASS: "io.aiven.kafka.tieredstorage.RemoteStorageManager"}
    events, keys = cluster.events, cluster.storage.keys
    with pytest.raises(
        ConfigurationError, match=r"^connection 'rlmm_default': the brokers run .* whose layout is aiven"
    ):
        check(limits=NOW)
    assert (cluster.events, cluster.storage.keys) == (events, keys)


def test_the_check_compares_the_time_with_that_of_the_work_folders_storage(
    cluster: Cluster, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert check(limits=NOW)["work"] == "can be written, and its storage has the same time"
    real = file_systems.modified_ms
    monkeypatch.setattr(file_systems, "modified_ms", lambda uri: real(uri) - 6 * 60_000)
    with pytest.raises(ClockSkewError, match=r"the clock of the work folder's storage says .*, the proven clock says"):
        check(limits=NOW)
    overridden = check(limits=NOW | {"overrides": [*NOW["overrides"], "unproven_clock"]})
    assert "lets this pass: clocks contradict each other" in overridden["work"]
    (document,) = work.glob("*/check.json")
    assert json.loads(document.read_text()).keys() == {
        "switch", "cluster", "clock", "layout", "writes", "run", "root", "deletion", "topic", "unseen", "archive",
        "decision", "hold", "retention", "snapshots",
    }  # fmt: skip


def test_the_check_refuses_a_work_folder_that_cannot_be_written(cluster: Cluster, work: Path) -> None:
    """A file where the run's folder should be: nothing could be planned or reported."""
    work.mkdir()
    (work / artifact_name(context())).write_text("")
    with pytest.raises(ConfigurationError, match=r"below \[rlmm\] work_uri cannot be written \(Not a directory\)"):
        check(limits=NOW)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"limits": {"min_absence_ms": 0}}, "short_min_absence"),
        ({"limits": {"batch_segments": 0}}, "batch_segments"),
        ({"blast_radius": {"max_share": 7}}, "max_share"),
        ({"hold": ["a b"]}, "hold entry"),
        ({"max_segments_this_run": "1.5"}, "max_segments_this_run"),
    ],
)
def test_the_check_refuses_what_would_stop_the_run_later(
    cluster: Cluster, arguments: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigurationError, match=words):
        check(**arguments)


def test_the_check_refuses_a_wrong_storage_before_anything_is_marked(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unusable(self: Any) -> Any:
        raise StorageRootError("the storage root does not exist")

    monkeypatch.setattr(RemoteStorageHook, "get_storage_manager", unusable)
    with pytest.raises(StorageRootError):
        check(limits=NOW)


class Settings:
    """A bucket's settings, as an inspector has read them."""

    tells_versions = True

    def __init__(self, freed: Freed, days: int | None = None) -> None:
        self.effect = DeletionEffect(freed, "said by the test", days, "set a rule", "uploads are kept")

    def look(self, prefixes: Sequence[str]) -> DeletionEffect:
        assert list(prefixes) == ["kafka-tiered-storage/"]
        return self.effect

    def is_flat(self) -> bool:
        return True


def test_a_bucket_that_keeps_what_is_deleted_stops_the_run_before_anything_is_marked(cluster: Cluster) -> None:
    cluster.storage.inspector = Settings(Freed.NEVER)
    with pytest.raises(HiddenCopiesError, match=r"never freed: said by the test; set a rule.*'versioned_bucket'"):
        check(limits=NOW)
    overridden = check(limits=NOW | {"overrides": [*NOW["overrides"], "versioned_bucket"]})
    assert overridden["deletion"].startswith("deleted objects are hidden, never freed")


def test_plan_and_report_say_when_deleted_bytes_are_freed(cluster: Cluster, work: Path) -> None:
    cluster.storage.inspector = Settings(Freed.LATER, 7)
    sentence = "deleted objects are hidden, freed in 7 days: said by the test"
    assert check(limits=NOW)["deletion"] == f"{sentence}. uploads are kept"
    run_all()
    plan = json.loads((work / "dag.run" / "summary.json").read_text())["root"]["deletion"]
    assert plan == {"freed": "later", "days": 7, "sentence": sentence, "uploads": "uploads are kept"}
    assert json.loads((work / "dag.run" / "report.json").read_text())["deletion"] == sentence


def test_the_check_names_a_right_that_is_missing(cluster: Cluster, allowed: set[str]) -> None:
    allowed.remove("WRITE")
    with pytest.raises(EventLogAccessError, match="WRITE is missing"):
        check(limits=NOW)
    assert check(limits=NOW, dry_run_only=True)["writes"] == "off"


def test_the_plan_records_root_clock_and_hold_and_a_cleaning_task_keeps_to_the_hold(
    cluster: Cluster, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(monkeypatch, hold="gone")
    assert mark_and_plan() == []
    summary = json.loads((work / "dag.run" / "summary.json").read_text())
    assert summary["hold"] == ["gone"]
    assert summary["root"]["places"][0]["verified"] is True
    assert summary["clock"]


def test_a_canary_plans_no_more_than_it_is_told(cluster: Cluster, work: Path) -> None:
    mark_and_plan(max_segments_this_run="1")
    assert json.loads((work / "dag.run" / "summary.json").read_text())["by_reason"]["ORPHANED"]["segments"] == 1


def test_a_cleaned_root_is_recorded_for_the_runs_that_follow(
    cluster: Cluster, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_all()
    connect(monkeypatch, expected_root=None)
    roots = json.loads((work / "cluster-cluster-1" / "roots.json").read_text())
    assert roots["cluster_id"] == "cluster-1"
    assert len(roots["root_ids"]) == 1
    (root_id,) = roots["root_ids"].values()
    assert f": root {root_id}, expected; " in check()["root"]
    (work / "cluster-cluster-1" / "roots.json").unlink()
    assert f": root {root_id}, which no earlier run has recorded; " in check()["root"]
