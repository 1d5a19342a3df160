# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_rlmm.core.base.clock import DAY_MS
from airflow_provider_rlmm.overview.pruning import RunFolder, cutoff_ms, group_of, is_file_of_run

NOW_MS = 100 * DAY_MS
CUTOFF = 10 * DAY_MS
OLD = RunFolder("dag.old", "cluster", CUTOFF - 1, NOW_MS)
NEWEST = {"dag": "dag.new"}


def test_an_old_run_of_this_cluster_may_go() -> None:
    assert OLD.may_go("cluster", CUTOFF, NOW_MS, NEWEST)
    assert replace(OLD, cluster_id=None, expires_at_ms=None).may_go("cluster", CUTOFF, NOW_MS, NEWEST)


@pytest.mark.parametrize(
    "folder",
    [
        replace(OLD, newest_ms=CUTOFF),
        replace(OLD, cluster_id="another"),
        replace(OLD, expires_at_ms=NOW_MS + 1),
        replace(OLD, artifact="dag.new"),
        replace(OLD, artifact="other.old"),
    ],
)
def test_a_young_one_one_of_another_cluster_one_that_may_be_applied_and_the_newest_stay(folder: RunFolder) -> None:
    assert not folder.may_go("cluster", CUTOFF, NOW_MS, NEWEST)


def test_days() -> None:
    assert (cutoff_ms(NOW_MS, 0), cutoff_ms(NOW_MS, 90)) == (None, CUTOFF)
    assert group_of("remote_log_cleaner.scheduled__2026.x") == "remote_log_cleaner"


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("summary.json", True), ("metadata-partition-0.parquet", True), ("clean-17.json", True), ("step-clean-3.json", True),
        ("step-plan.json", True), ("progress-3.json", True), ("scrub.parquet", True), ("approval.json", True),
        ("cleaning.json", True),
        ("metadata-partition-01.parquet", False), ("summary.json.bak", False), ("notes.txt", False), ("clean-.json", False),
    ],
)  # fmt: skip
def test_files_of_runs(name: str, known: bool) -> None:
    assert is_file_of_run(name) is known
