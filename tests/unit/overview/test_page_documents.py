# SPDX-License-Identifier: Apache-2.0
"""The documents that the page is made of read back as they were written, and nothing else is taken for one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_rlmm.core.base.errors import DocumentError
from airflow_provider_rlmm.core.base.strict_json import checksum
from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.features.cleanup.cleaning_progress import (
    MAX_PROGRESS_REFUSALS,
    CleaningProgress,
    Left,
    ProgressState,
)
from airflow_provider_rlmm.features.survey.inventory import (
    PARTITIONS_FILE,
    TOPICS_FILE,
    Inventory,
    InventoryFile,
    Totals,
    generation_time,
)
from airflow_provider_rlmm.overview.run_summary import Deleted, RunKind, RunOutcome, RunSummary, run_of_file

TOTALS = Totals(
    stored=Count(5, 500),
    orphaned=Count(4, 400),
    waiting=Count(1, 100),
    eligible=Count(1, 100),
    deleting=Count(1, 100),
    next_eligible_ms=7,
    oldest_orphan_ms=None,
    topics=2,
    orphaned_topics=1,
    unseen=Count(0, 0),
    unseen_topics=0,
    quarantined_records=3,
    metadata_partitions_out_of_service=(0, 4),
)
INVENTORY = Inventory(
    cluster_id="cluster",
    connection="rlmm_default",
    created_at_ms=17,
    artifact="run-1",
    generation="inventory-17",
    files={
        TOPICS_FILE: InventoryFile.of(2, b"t"),
        PARTITIONS_FILE: InventoryFile.of(2, b"p"),
        "segments-0.parquet": InventoryFile.of(5, b"s"),
    },
    totals=TOTALS,
)
RUN = RunSummary(
    cluster_id="cluster",
    connection="rlmm_default",
    dag_id="remote_log_cleaner",
    run_id="manual__2026-01-01T00:00:00+00:00",
    artifact="remote_log_cleaner.manual__2026-01-01",
    kind=RunKind.CLEANER,
    began_at_ms=1,
    ended_at_ms=2,
    dry_run=True,
    outcome=RunOutcome.FAILED,
    headline="1 thing needs a person.",
    needs_person=1,
    deleted=Deleted(1, 2, 3),
    planned=Count(4, 5),
    refusals=6,
    stored=Count(7, 8),
    oldest_orphan_ms=9,
    critical=0,
    steps={"clean": 1.25},
    documents={"reports": "remote_log_cleaner.manual__2026-01-01"},
)
PROGRESS = CleaningProgress(
    artifact="run-1",
    metadata_partition=3,
    dry_run=False,
    began_at_ms=1,
    updated_at_ms=2,
    segments_total=10,
    segments_done=4,
    bytes_total=100,
    bytes_done=40,
    objects_per_second=0.5,
    partitions_total=2,
    partitions_done=1,
    refused=(Left("gone-0", "no right", "give it"),),
    state=ProgressState.RUNNING,
)
Document = Inventory | RunSummary | CleaningProgress
ALL: list[Document] = [INVENTORY, RUN, PROGRESS]


def changed(document: Document, change: Callable[[dict[str, Any]], object]) -> str:
    """Return the text of a document after a change; the checksum fits, as of somebody who means it."""
    plain = json.loads(document.to_json())
    sealed = plain.pop("sha256", None)
    change(plain)
    if sealed is not None:
        plain["sha256"] = checksum(plain)
    return json.dumps(plain)


@pytest.mark.parametrize("document", ALL, ids=lambda d: type(d).__name__)
def test_a_document_reads_back_as_it_was_written(document: Document) -> None:
    assert type(document).from_json(document.to_json()) == document


@pytest.mark.parametrize("document", ALL, ids=lambda d: type(d).__name__)
@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.pop("dry_run" if "dry_run" in d else "totals"),
        lambda d: d.update(further=1),
        lambda d: d.update(artifact=7),
        lambda d: d.update(format_version=3),
        lambda d: d.update(format_version=True),
    ],
    ids=["lacks a field", "has another one", "of another kind", "newer form", "no number"],
)
def test_anything_else_is_refused(document: Document, change: Callable[[dict[str, Any]], object]) -> None:
    with pytest.raises(DocumentError):
        type(document).from_json(changed(document, change))


@pytest.mark.parametrize("document", [INVENTORY, RUN], ids=lambda d: type(d).__name__)
def test_bytes_that_were_changed_are_refused(document: Inventory | RunSummary) -> None:
    with pytest.raises(DocumentError, match="sha256 differs"):
        type(document).from_json(document.to_json().replace('"cluster"', '"another"'))


@pytest.mark.parametrize("rate", [-1, True, "1", None])
def test_a_rate_is_a_number_that_exists(rate: object) -> None:
    with pytest.raises(DocumentError, match="objects_per_second"):
        CleaningProgress.from_json(changed(PROGRESS, lambda d: d.update(objects_per_second=rate)))
    with pytest.raises(DocumentError, match="objects_per_second"):
        CleaningProgress.from_json(PROGRESS.to_json().replace("0.5", "1e999"))


def test_progress_lists_no_more_than_a_page_shows() -> None:
    many = replace(PROGRESS, refused=PROGRESS.refused * (MAX_PROGRESS_REFUSALS + 1))
    with pytest.raises(DocumentError, match="21 entries"):
        CleaningProgress.from_json(many.to_json())


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda d: d.update(generation="inventory-18"), "was not made at 17 ms"),
        (lambda d: d.update(generation="../inventory-17"), "was not made at 17 ms"),
        (lambda d: d["files"].update({"../secret": d["files"][TOPICS_FILE]}), "no file of a survey"),
        (lambda d: d["files"].update({"segments-007.parquet": d["files"][TOPICS_FILE]}), "no file of a survey"),
        (lambda d: d["files"].pop(PARTITIONS_FILE), "lacks"),
        (lambda d: d["totals"].update(topics=3), "has 2 rows for 3 topics"),
    ],
)
def test_an_inventory_names_its_own_files_and_no_others(change: Callable[[dict[str, Any]], object], why: str) -> None:
    with pytest.raises(DocumentError, match=why):
        Inventory.from_json(changed(INVENTORY, change))


@pytest.mark.parametrize("artifact", ["../elsewhere", "", "a/b", ".hidden"])
def test_a_run_is_named_by_what_names_a_folder(artifact: str) -> None:
    with pytest.raises(DocumentError, match="names no run"):
        RunSummary.from_json(changed(RUN, lambda d: d.update(artifact=artifact)))


def test_names_of_runs_sort_by_the_time_of_their_end() -> None:
    late = replace(RUN, ended_at_ms=1_780_000_000_000)
    assert sorted([late.file_name, RUN.file_name]) == [RUN.file_name, late.file_name]
    assert run_of_file(late.file_name) == (1_780_000_000_000, RUN.artifact)
    assert run_of_file(f"x{late.file_name}") is None


def test_folders_that_are_no_generation_are_told_apart() -> None:
    assert generation_time("inventory-17") == 17
    assert generation_time("inventory-017") is None
    assert generation_time("inventory-") is None
    assert generation_time("snapshot-17") is None
