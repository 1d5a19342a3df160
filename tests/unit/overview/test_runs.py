# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_rlmm.features.cleanup.cleaning_progress import CleaningProgress, ProgressState
from airflow_provider_rlmm.overview import runs as page
from airflow_provider_rlmm.overview.run_summary import RunKind, RunSummary
from airflow_provider_rlmm.overview.runs import UnreadableRun, history, progress, run_of, runs
from tests.sample_work_folder import Sample, sample_work_folder, write_progress

RUNS = 25


@pytest.fixture
def sample(tmp_path: Path) -> Sample:
    return sample_work_folder(tmp_path / "work", topics=2, runs=RUNS)


def test_the_newest_runs_come_first_page_by_page(sample: Sample) -> None:
    work, folder = str(sample.work), sample.cluster.name
    newest = list(reversed(sample.runs))
    pages = [runs(work, folder, start=start, rows=10) for start in (0, 10, 20, 30)]
    assert [run for found in pages for run in found.rows] == newest
    assert {found.total for found in pages} == {RUNS}
    for kind in RunKind:
        mine = [run for run in newest if run.kind is kind]
        found = runs(work, folder, kind=kind, rows=3)
        assert (list(found.rows), found.total) == (mine[:3], len(mine))


def test_the_history_is_in_the_order_of_time_and_bounded(sample: Sample) -> None:
    work, folder = str(sample.work), sample.cluster.name
    assert history(work, folder) == list(sample.runs)
    assert history(work, folder, 4) == list(sample.runs[-4:])


def test_a_run_is_found_by_its_artifact_and_of_its_tries_the_last(sample: Sample) -> None:
    work, folder = str(sample.work), sample.cluster.name
    one = sample.runs[3]
    assert run_of(work, folder, one.artifact) == one
    again = replace(one, ended_at_ms=one.ended_at_ms + 10, headline="Another try.")
    (sample.cluster / "runs" / again.file_name).write_text(again.to_json())
    assert run_of(work, folder, one.artifact) == again
    assert run_of(work, folder, "nobody") is None


def test_a_summary_that_cannot_be_read_is_shown_as_one_and_hides_no_other(sample: Sample) -> None:
    work, folder = str(sample.work), sample.cluster.name
    broken, foreign, moved = sample.runs[-1], sample.runs[-2], sample.runs[-3]
    path = sample.cluster / "runs"
    (path / broken.file_name).write_text("{")
    (path / foreign.file_name).write_text(replace(foreign, cluster_id="another").to_json())
    (path / moved.file_name).write_text(replace(moved, artifact="somebody-else").to_json())
    (path / "notes.txt").write_text("not one of ours")
    rows = runs(work, folder, rows=4).rows
    assert [type(row) for row in rows] == [UnreadableRun] * 3 + [RunSummary]
    whys = [row.why for row in rows if isinstance(row, UnreadableRun)]
    assert "cannot be read" in whys[0]
    assert "of another cluster, another" in whys[1]
    assert "is that of" in whys[2]
    assert [row.artifact for row in rows[:3]] == [broken.artifact, foreign.artifact, moved.artifact]
    assert history(work, folder) == list(sample.runs[:-3])


def test_what_was_read_once_is_not_read_again(sample: Sample, monkeypatch: pytest.MonkeyPatch) -> None:
    work, folder = str(sample.work), sample.cluster.name
    history(work, folder)
    monkeypatch.setattr(page, "read_bytes", lambda *a, **k: pytest.fail("read again"))
    assert history(work, folder) == list(sample.runs)


def test_a_cluster_without_runs_has_none(tmp_path: Path) -> None:
    assert runs(str(tmp_path), "cluster-x").total == 0
    assert history(str(tmp_path), "cluster-x") == []
    assert progress(str(tmp_path), "nobody") == page.RunProgress((), {})


# --- a run that works ---------------------------------------------------------------------------------------------------


def test_how_far_a_run_is_adds_up(sample: Sample) -> None:
    found = progress(str(sample.work), sample.running)
    assert [task.metadata_partition for task in found.tasks] == [0, 1, 2]
    assert (found.segments_total, found.segments_done) == (600, 240)
    assert (found.bytes_total, found.bytes_done) == (600_000_000, 240_000_000)
    assert found.objects_per_second == pytest.approx(12.0)
    # Each has done 40 % in a minute.
    assert found.seconds_left == pytest.approx(90.0)


def test_tasks_that_have_ended_take_no_more_time(sample: Sample) -> None:
    for number in range(3):
        write_progress(sample.work, sample.running, number, 10**12, done=1)
    found = progress(str(sample.work), sample.running)
    assert (found.objects_per_second, found.seconds_left) == (0.0, None)
    assert {task.state for task in found.tasks} == {ProgressState.ENDED}


def test_nobody_knows_how_long_a_task_takes_that_has_just_begun(sample: Sample) -> None:
    write_progress(sample.work, sample.running, 2, 10**12, done=0)
    assert progress(str(sample.work), sample.running).seconds_left is None


def test_documents_that_cannot_be_read_are_named(sample: Sample) -> None:
    folder = sample.work / sample.running
    (folder / "progress-0.json").write_text("nonsense")
    other = CleaningProgress.from_json((folder / "progress-1.json").read_text())
    (folder / "progress-1.json").write_text(replace(other, metadata_partition=4).to_json())
    (folder / "progress-007.json").write_text("not one of ours")
    found = progress(str(sample.work), sample.running)
    assert [task.metadata_partition for task in found.tasks] == [2]
    assert set(found.unreadable) == {0, 1}
    assert "metadata partition 4" in found.unreadable[1]
