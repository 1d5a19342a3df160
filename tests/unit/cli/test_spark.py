# SPDX-License-Identifier: Apache-2.0
"""What the command makes for the Spark job: a listing of the cluster that the job reads, and the files of spark-submit."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from airflow_provider_rlmm.cli.main import run
from airflow_provider_rlmm.core.base.errors import EventLogUnavailableError
from airflow_provider_rlmm.core.base.work_folder import cluster_folder
from airflow_provider_rlmm.core.log.floors import ExplainedGap, FloorFiles
from airflow_provider_rlmm.core.records.lost_records import HistoryGap
from airflow_provider_rlmm.core.runs.access import RemoteLogAccess
from airflow_provider_rlmm.core.world.cluster_look import observe_cluster
from airflow_provider_rlmm.core.world.cluster_state import ClusterState
from airflow_provider_rlmm.features.retention.spark.package import PY_FILES_NAME, build_py_files
from airflow_provider_rlmm.resources import spark_job_path
from tests.unit.core.world.test_observing import METADATA_TOPIC, TOPICS, Topics

CLUSTER, METADATA_TOPIC_ID = "cluster-1", UUID(int=1)
GAP = HistoryGap(3, 17, 19)


@pytest.fixture
def topics(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Topics:
    """A cluster with three topics, of whose metadata topic somebody has explained a gap."""
    found = Topics(TOPICS, cluster_id=CLUSTER, metadata_topic_id=METADATA_TOPIC_ID)
    work = tmp_path / "work"
    FloorFiles(f"{work}/{cluster_folder(CLUSTER)}").explain(ExplainedGap(METADATA_TOPIC_ID, GAP, "a marker", 1, "me"))
    monkeypatch.setenv("RLMM_BOOTSTRAP_SERVER", "b:9092")
    monkeypatch.setenv("RLMM_WORK_URI", str(work))
    monkeypatch.setattr(RemoteLogAccess, "get_cluster", lambda self, *_: SimpleNamespace(cluster_id=CLUSTER))
    monkeypatch.setattr(RemoteLogAccess, "get_cluster_topics", lambda self: found)
    return found


@pytest.fixture(autouse=True)
def no_leaders(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody can be asked but the cluster."""

    def refuse(*_: object) -> None:
        raise EventLogUnavailableError("no broker answers")

    monkeypatch.setattr(RemoteLogAccess, "open_leaders", refuse)


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Any:
    assert run(arguments) == code
    printed = capsys.readouterr()
    return printed.out if code == 0 else printed.err


def test_the_job_reads_what_is_printed(topics: Topics, capsys: pytest.CaptureFixture[str]) -> None:
    state = ClusterState.from_json(said(capsys, "cluster-state", "--cluster-id", CLUSTER))
    seen = observe_cluster(topics, METADATA_TOPIC, lambda: state.observed_at_ms)
    assert state == replace(seen, explained_gaps=(GAP,))
    assert state.observed_at_ms > 0


def test_a_file_takes_the_place_of_an_older_one(
    topics: Topics, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "spark" / "cluster-state.json"
    for listed in (TOPICS, {"orders": TOPICS["orders"]}):
        topics.topics = dict(listed)
        told = said(capsys, "cluster-state", "--output", str(file))
        assert told == f"cluster {CLUSTER}: {len(listed) + 1} topics observed. The listing is {file}\n"
        assert len(ClusterState.from_json(file.read_text()).topics) == len(listed) + 1
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    told = json.loads(said(capsys, "cluster-state", "--output", str(file), "--json"))
    assert told == {"cluster_state": str(file), "cluster_id": CLUSTER, "topics": 2, "explained_gaps": 1}


def test_another_cluster_is_not_listed(topics: Topics, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "cluster-state.json"
    told = said(capsys, "cluster-state", "--cluster-id", "another", "--output", str(file), code=1)
    assert "connected to cluster 'cluster-1', expected 'another'" in told
    assert not file.exists()


def test_a_listing_that_lacks_the_metadata_topic_is_not_written(
    topics: Topics, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    topics.denied.add(METADATA_TOPIC)
    file = tmp_path / "cluster-state.json"
    assert "DESCRIBE on every topic" in said(capsys, "cluster-state", "--output", str(file), code=1)
    assert not file.exists()


def test_the_files_are_those_that_airflow_submits(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = tmp_path / "new" / "spark"
    told = json.loads(said(capsys, "spark-files", str(folder), "--json"))
    assert told == {"job": str(folder / "segment_retention.py"), "py_files": str(folder / PY_FILES_NAME)}
    assert (folder / PY_FILES_NAME).read_bytes() == build_py_files(tmp_path).read_bytes()
    assert Path(told["job"]).read_bytes() == Path(spark_job_path("segment_retention.py")).read_bytes()
    table = said(capsys, "spark-files", str(folder))
    assert told["job"] in table
    assert told["py_files"] in table
