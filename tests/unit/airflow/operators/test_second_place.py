# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811  # fixtures are imported by their names
"""The second place of snapshots: every run of the cleaner copies to it what it lacks, and is red where it cannot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_rlmm.core.base.work_folder import SNAPSHOTS_FOLDER, cluster_folder
from tests.unit.airflow.operators.test_check_operator import allowed, check, cluster, plain_cluster  # noqa: F401
from tests.unit.airflow.operators.test_operators import (
    NOW,
    Cluster,
    connect,
    kinds_in,
    run_all,
    work,  # noqa: F401  # a fixture
)


def kept(folder: Path) -> dict[str, bytes]:
    """The earlier snapshots of the cluster in a work folder, or in a second place of them."""
    found = (folder / cluster_folder("cluster-1") / SNAPSHOTS_FOLDER).glob("*.snapshot")
    return {path.name: path.read_bytes() for path in found}


def test_a_run_copies_snapshots_to_the_second_place(
    cluster: Cluster, work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = tmp_path / "elsewhere"
    assert check(limits=NOW)["snapshots"] == "no second place of snapshots is named (snapshots_uri)"
    connect(monkeypatch, snapshots_uri=str(second))
    # What was kept before it was named is copied, too.
    assert check(limits=NOW)["snapshots"].startswith("the earlier snapshots of the metadata topic lie in ")
    assert kept(second) == kept(work)
    assert len(kept(work)) == 1
    run_all()
    assert kinds_in(work) == []
    assert kept(second) == kept(work)


def test_a_run_whose_second_place_cannot_be_written_cleans_and_is_red(
    cluster: Cluster, work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").write_text("in the way")
    connect(monkeypatch, snapshots_uri=str(tmp_path / "elsewhere"))
    with pytest.raises(AirflowFailException, match=r"1 thing needs a person\. .*OTHER the second place of snapshots"):
        run_all()
    assert not any("gone" in key for key in cluster.storage.keys)
    assert kinds_in(work) == ["OTHER"]
    (problem,) = json.loads((work / "dag.run" / "report.json").read_text())["needs_person"]
    assert problem["what_to_do"].startswith("make snapshots_uri a folder that every worker can list and write")
    assert "cannot be copied to" in check(limits=NOW)["snapshots"]
