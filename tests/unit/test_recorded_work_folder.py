# SPDX-License-Identifier: Apache-2.0
"""
Work folders that earlier code has left are read as they are, file by file: users update in mid-life.

``tests/data/recorded_0.1.0`` holds what the demo left (``demo``: two runs of each DAG on a real broker), and what runs of
the operators left: a scrub that somebody has approved, a cleanup, a plan that was approved, a diagnosis, an archive.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest
from airflow.sdk import Connection

from airflow_provider_rlmm.core.base.documents import plain_of
from airflow_provider_rlmm.core.base.errors import SnapshotRefusedError
from airflow_provider_rlmm.core.generations.manifest import Generation
from airflow_provider_rlmm.core.generations.store import GenerationStore
from airflow_provider_rlmm.core.log.floors import FloorFiles
from airflow_provider_rlmm.core.log.snapshot_file import SNAPSHOT_VERSION, SnapshotFile
from airflow_provider_rlmm.core.plans.approval import Approval, ApprovalRequest
from airflow_provider_rlmm.core.plans.plan import PlanSummary
from airflow_provider_rlmm.core.plans.plan_archive import PlanArchive
from airflow_provider_rlmm.core.plans.plan_files import planned_topics, read_plan
from airflow_provider_rlmm.core.records.era import PLAIN_ERA, Era
from airflow_provider_rlmm.core.runs.run_decision import RunDecision
from airflow_provider_rlmm.core.runs.steps import seconds_of_steps
from airflow_provider_rlmm.core.world.audit_files import audit_rows
from airflow_provider_rlmm.core.world.cluster_state import ClusterState
from airflow_provider_rlmm.core.world.root_ledger import recorded_roots
from airflow_provider_rlmm.features.archiving.archive_manifest import ArchiveManifest
from airflow_provider_rlmm.features.archiving.archive_run import ArchiveRun
from airflow_provider_rlmm.features.cleanup.cleaning_progress import CleaningProgress
from airflow_provider_rlmm.features.cleanup.report_document import read_report
from airflow_provider_rlmm.features.cleanup.reports import read_marking, read_part
from airflow_provider_rlmm.features.doctor.diagnosis import read_diagnosis
from airflow_provider_rlmm.features.retention.rules import EvaluationLimits
from airflow_provider_rlmm.features.retention.spark.executor.judging import Evaluation
from airflow_provider_rlmm.features.retention.spark.generations import _manifest, _newest
from airflow_provider_rlmm.features.retention.spark.source import TopicRange
from airflow_provider_rlmm.features.scrub.scrub_files import open_scrub
from airflow_provider_rlmm.features.scrub.scrub_plan import ScrubPlan
from airflow_provider_rlmm.features.scrub.scrub_planner import open_scrub_plan
from airflow_provider_rlmm.features.scrub.scrub_summary import ScrubSummary
from airflow_provider_rlmm.features.survey.inventory import Inventory
from airflow_provider_rlmm.hooks.connection import RlmmConnection
from airflow_provider_rlmm.overview import inventories, runs
from airflow_provider_rlmm.overview.run_summary import RunSummary
from airflow_provider_rlmm.plugins.pages import DOCUMENT_PAGES
from tests.scrub_rows import whole

RECORDED = Path(__file__).parents[1] / "data" / "recorded_0.1.0"
DEMO = RECORDED / "demo"
FOLDERS = sorted({file.parent for file in RECORDED.rglob("*.json")} - {RECORDED})
DOCUMENT_FILES = [file for folder in FOLDERS for file in sorted(folder.glob("*.json"))]
CONNECTIONS = json.loads((RECORDED / "connections.json").read_text())

Read = Callable[[str], object]


def _again(sealed: Any, text: str) -> None:
    assert sealed.from_json(text).to_json() == text


def _again_but_for_news(sealed: Any, text: str) -> None:
    """What was not said yet is absent, and nobody makes it up: written again it is null."""
    recorded = json.loads(text)
    written = _without_unsaid(json.loads(sealed.from_json(text).to_json()), recorded)
    assert {**written, "sha256": recorded["sha256"]} == recorded


def _plain(read: Callable[[Mapping[str, Any]], object], text: str) -> None:
    recorded = json.loads(text)
    assert json.dumps(_without_unsaid(plain_of(read(recorded)), recorded)) == text


def _without_unsaid(written: Any, recorded: Any) -> Any:
    """Leave out what was not said yet, at any depth: it is absent, and nobody makes it up."""
    if isinstance(recorded, dict):
        assert {written.pop(name) for name in written.keys() - recorded.keys()} <= {None}
        for name in recorded.keys() & written.keys():
            _without_unsaid(written[name], recorded[name])
    elif isinstance(recorded, list):
        for now, then in zip(written, recorded, strict=True):
            _without_unsaid(now, then)
    return written


def _report(text: str) -> None:
    recorded = json.loads(text)
    DOCUMENT_PAGES["reports"].show("recorded", recorded)
    assert json.dumps(_without_unsaid(read_report(recorded).to_dict(), recorded), indent=2) == text


def _diagnosis(text: str) -> None:
    recorded = json.loads(text)
    DOCUMENT_PAGES["doctor"].show("recorded", recorded)
    assert json.dumps(_without_unsaid(plain_of(read_diagnosis(recorded)), recorded), indent=2) == text


def _approval(kind: type[Approval | ApprovalRequest], text: str) -> None:
    assert kind.of_json(text).to_dict() == json.loads(text)


def _decision(text: str) -> None:
    decided = json.loads(text)["decision"]
    assert RunDecision.of_dict(decided, decided["dag_id"], decided["run_id"]).to_dict() == decided


def _refused_generation(text: str) -> None:
    """One that does not say which offsets hold no record: all is read anew."""
    with pytest.raises(SnapshotRefusedError, match="format_version is 1"):
        Generation.from_json(text)


DOCUMENTS: Final[Mapping[str, Read]] = {
    r"summary\.json": partial(_again, PlanSummary),
    r"inventory\.json": partial(_again_but_for_news, Inventory),
    r"progress-\d+\.json": partial(_again, CleaningProgress),
    r"\d{15}\..*\.json": partial(_again_but_for_news, RunSummary),
    r"scrub\.json": partial(_again, ScrubSummary),
    r"scrub-plan\.json": partial(_again, ScrubPlan),
    r"archive\.json": partial(_again_but_for_news, PlanArchive),
    r"_manifest\.json": _refused_generation,
    r"run-1\.[0-9a-f]{16}\.json": partial(_again_but_for_news, ArchiveManifest),
    r"run-1\.[0-9a-f]{64}\.json": partial(_again, ArchiveRun),
    r"approval\.json": partial(_approval, Approval),
    r"approval-request\.json": partial(_approval, ApprovalRequest),
    r"check\.json": _decision,
    r"mark\.json": partial(_plain, read_marking),
    r"clean-\d+\.json": partial(_plain, read_part),
    r"report\.json": _report,
    r"doctor\.json": _diagnosis,
}
"""Name of a file → reads it; what has a writer is written again, and gives the same bytes."""

ELSEWHERE = r"step-.*|scrub-deletion\.json|latest-scrub\.json|roots\.json|metadata-topic\.json|.*\.floor\.json"
"""Read in their own way, below."""


@pytest.mark.parametrize("file", DOCUMENT_FILES, ids=lambda file: str(file.relative_to(RECORDED)))
def test_every_document_is_read_and_written_again_as_it_was(file: Path) -> None:
    readers = [read for name, read in DOCUMENTS.items() if re.fullmatch(name, file.name)]
    if not readers:
        assert re.fullmatch(ELSEWHERE, file.name), f"nobody reads {file}"
        return
    (read,) = readers
    read(file.read_text())


@pytest.mark.parametrize("folder", [f for f in FOLDERS if (f / "summary.json").exists()], ids=str)
def test_every_plan_is_whole(folder: Path) -> None:
    summary = read_plan(str(folder))
    assert sum(topic.segments for topic in planned_topics(str(folder), summary)) == summary.planned.segments


def test_the_demo_is_shown_as_it_was() -> None:
    (folder,) = inventories.clusters(str(DEMO))
    surveyed = inventories.inventory(str(DEMO), folder)
    assert surveyed is not None
    assert (surveyed.totals.stored.segments, surveyed.totals.orphaned.segments) == (20, 0)
    assert [(t.topic, t.segments) for t in inventories.topics(str(DEMO), folder).rows] == [("orders", 20)]
    past = runs.history(str(DEMO), folder)
    assert [(run.kind.value, run.outcome.value) for run in past] == [
        ("retention", "success"), ("cleaner", "success"), ("retention", "success"), ("cleaner", "success"),
    ]  # fmt: skip
    cleaned = past[1]
    progress = runs.progress(str(DEMO), cleaned.artifact)
    assert (progress.segments_done, progress.segments_total, progress.unreadable) == (120, 120, {})
    assert cleaned.deleted is not None
    assert cleaned.deleted.segments == 120
    assert {"check", "clean", "mark", "plan", "survey"} == set(seconds_of_steps(str(DEMO / cleaned.artifact)))


def test_what_runs_remember_of_a_cluster_is_believed() -> None:
    (cluster,) = DEMO.glob("cluster-*")
    cluster_id = cluster.name.removeprefix("cluster-")
    floors = FloorFiles(str(cluster))
    topic_id = floors.metadata_topic_id()
    assert topic_id == UUID("5ecc3b72-68a0-4370-80b1-b3e8d8e99778")
    assert {floor.metadata_partition: floor.end for floor in floors.floors(topic_id)} == {0: 369, 4: 163}
    assert recorded_roots(str(cluster), cluster_id) == {"9ee87df9-d1d5-4380-a926-56a0ea448331"}
    assert floors.era(topic_id).era is Era.PLAIN
    assert floors.explained(topic_id) == []
    deleted = audit_rows(str(cluster), cluster_id)
    assert (deleted.rows.num_rows, deleted.unreadable) == (120, ())
    assert set(deleted.rows.column("outcome").to_pylist()) == {"GONE"}


@pytest.mark.parametrize("snapshot", sorted(RECORDED.rglob("topic-*.snapshot")), ids=lambda file: file.parts[-3])
def test_a_snapshot_that_does_not_say_which_offsets_held_no_record_is_made_anew(snapshot: Path) -> None:
    with pytest.raises(
        SnapshotRefusedError, match=f"it is of version 4, this program reads version {SNAPSHOT_VERSION}"
    ):
        SnapshotFile(str(snapshot)).read()


def test_a_job_reads_the_topic_anew_where_its_generations_do_not_say_what_the_log_lacks() -> None:
    (data_set,) = DEMO.glob("segments-*")
    store = GenerationStore(str(data_set))
    assert store.numbers() == [2, 1]
    topic_range = TopicRange("__remote_log_metadata", UUID(int=1), {0: 0}, {0: 0})
    evaluation = Evaluation(1, ClusterState("cluster", 1, ()), EvaluationLimits(1))
    now = _manifest(3, topic_range, evaluation, {}, PLAIN_ERA, None)
    newest, why_all, era = _newest(store, store.numbers(), now, topic_range)
    assert (newest, era) == (None, PLAIN_ERA)
    assert why_all.startswith("generation 2 is not used: its manifest cannot be read (format_version is 1")


def test_a_recorded_scrub_is_whole() -> None:
    folder = RECORDED / "runs" / "scrub" / "dag.run"
    with open_scrub(str(folder)) as (summary, rows):
        assert whole(rows).num_rows == summary.file.rows
    with open_scrub_plan(str(folder)) as (plan, rows):
        assert whole(rows).num_rows == plan.file.rows > 0
    deletion = json.loads((folder / "scrub-deletion.json").read_text())
    assert deletion["deleted"]["FINISHED"]["objects"] == plan.file.rows


@pytest.mark.parametrize("name", CONNECTIONS)
def test_a_recorded_connection_says_what_it_said(name: str) -> None:
    extra, said = CONNECTIONS[name]["extra"], CONNECTIONS[name]["read"]
    connection = Connection(conn_id=f"rlmm_{name}", conn_type="rlmm", extra=extra and json.dumps(extra))
    read = asdict(RlmmConnection.from_connection(connection))
    assert {field: read[field] for field in said} == said
