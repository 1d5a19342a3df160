# SPDX-License-Identifier: Apache-2.0
"""``max_minutes`` counts for a run, whoever of its tasks begins."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_rlmm.core.base.errors import PlanError
from airflow_provider_rlmm.features.cleanup.cleaning_time import CLEANING_DOCUMENT, began_to_delete
from tests.builders import Cluster, tip


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.segments(tip(), 2)
    cluster.mark_and_wait()
    return cluster


def test_the_first_task_of_a_run_writes_down_when_it_began(cluster: Cluster, tmp_path: Path) -> None:
    plan = cluster.plan().summary
    assert [began_to_delete(str(tmp_path), plan, now_ms) for now_ms in (1_000, 2_000, 3_000)] == [1_000] * 3


def test_a_run_that_was_planned_anew_begins_anew(cluster: Cluster, tmp_path: Path) -> None:
    plan = cluster.plan().summary
    began_to_delete(str(tmp_path), plan, 1_000)
    assert began_to_delete(str(tmp_path), replace(plan, created_at_ms=plan.created_at_ms + 1), 2_000) == 2_000


def test_what_cannot_be_read_is_no_beginning(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / CLEANING_DOCUMENT).write_text('{"plan_sha256": 5}')
    with pytest.raises(PlanError, match=CLEANING_DOCUMENT):
        began_to_delete(str(tmp_path), cluster.plan().summary, 1_000)
