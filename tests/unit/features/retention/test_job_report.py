# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import logging
from typing import Any

import pytest

from airflow_provider_rlmm.core.generations.manifest import Generation, GenerationPart
from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.core.plans.plan import PlanSummary
from airflow_provider_rlmm.core.records.era import PLAIN_ERA
from airflow_provider_rlmm.features.retention.spark.generations import WrittenGeneration
from airflow_provider_rlmm.features.retention.spark.job_report import READ, JobReport
from airflow_provider_rlmm.features.retention.spark.task_report import TaskReport

REPORTS = (
    TaskReport(0, GenerationPart(9, segments=10), 4, True, 4, 7, {"load": 5, "fold": 100}),
    TaskReport(2, GenerationPart(9, segments=30), 0, True, 1, 30, {"load": 7, "fold": 1}),
)


def report(read_on_from: int | None, why_all: str) -> JobReport:
    told = JobReport()
    with told.stage(READ):
        pass
    generation = Generation(6, "cluster", "id", 3, 1, 1, {}, PLAIN_ERA.told())
    data_set: Any = None
    told.take(WrittenGeneration(generation, data_set, REPORTS, read_on_from, why_all))
    return told


def test_what_was_read_is_told_by_metadata_partition_with_its_skew() -> None:
    document = report(5, "").document()
    assert (document["generation"], document["read_on_from"], document["why_all_was_read"]) == (6, 5, "")
    assert (document["records"], document["records_read"]) == (4, {"0": 4, "2": 0})
    assert document["records_per_second"] >= 4
    assert document["skew"] == {
        "metadata_partition": {"segments": 30, "mean_segments": 20, "records": 4, "mean_records": 2},
        "user_partition": {"segments": 30, "mean_segments": 8},
    }
    assert document["task_milliseconds"] == {"load": 12, "fold": 101}
    assert set(document["stage_milliseconds"]) == {READ}


def test_a_summary_holds_it() -> None:
    document = report(None, "there is no generation yet").document()
    summary = PlanSummary(
        plan_id="p", cluster_id="c", created_at_ms=1, expires_at_ms=2, read_until={0: 9}, known=Count(0, 0), by_reason={},
        by_metadata_partition={}, quarantined={}, unresolved=0, job=document,
    )  # fmt: skip
    assert PlanSummary.from_json(summary.to_json()).job == document


def test_it_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        report(5, "").say(logging.getLogger("job"))
    text = caplog.text
    assert "read 4 records since generation 5, 1 of 2 metadata partitions have any" in text
    assert "records per metadata partition: 0: 4\n" in text
    assert "largest user partition against the mean: segments 30, mean segments 8" in text
    assert "milliseconds of the stages: read " in text


def test_nothing_to_read_is_told_too(caplog: pytest.LogCaptureFixture) -> None:
    told, data_set = JobReport(), None
    told.take(
        WrittenGeneration(Generation(1, "c", "i", 3, 1, 1, {}, PLAIN_ERA.told()), data_set, (), None, "it is empty")
    )  # type: ignore[arg-type]
    with caplog.at_level("INFO"):
        told.say(logging.getLogger("job"))
    assert "records per metadata partition: none" in caplog.text
    assert told.document()["skew"] == {}
