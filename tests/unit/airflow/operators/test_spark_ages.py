# SPDX-License-Identifier: Apache-2.0
"""How old the segments are, from a run of the Spark job to the folder of the cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_rlmm.core.base.work_folder import cluster_folder
from airflow_provider_rlmm.core.plans.plan_files import write_document
from airflow_provider_rlmm.features.retention.record_ages import AGES_DOCUMENT, RecordAges
from airflow_provider_rlmm.operators.retention import PublishRetentionPlanOperator
from tests.unit.airflow.operators.test_operators import (  # noqa: F401  # fixtures
    Cluster,
    cluster,
    context,
    mark_and_plan,
    work,
)


def test_what_a_run_has_told_is_kept_for_the_pages(
    cluster: Cluster,  # noqa: F811
    work: Path,  # noqa: F811
    caplog: pytest.LogCaptureFixture,
) -> None:
    mark_and_plan()
    kept = work / cluster_folder("cluster-1") / AGES_DOCUMENT

    def publish() -> None:
        PublishRetentionPlanOperator(task_id="publish").execute(context())

    publish()
    assert not kept.exists()
    assert "the pages show an older answer or none" in caplog.text
    told = RecordAges.of([], cluster_id="cluster-1", told_at_ms=5).to_json()
    write_document(str(work / "dag.run"), AGES_DOCUMENT, told)
    publish()
    assert kept.read_text() == told
    other = RecordAges.of([], cluster_id="cluster-2", told_at_ms=5).to_json()
    for wrong, said in ((other, "is of another cluster, cluster-2"), (told[:-9], "cannot be read")):
        write_document(str(work / "dag.run"), AGES_DOCUMENT, wrong)
        caplog.clear()
        publish()
        assert said in caplog.text
        assert kept.read_text() == told
