# SPDX-License-Identifier: Apache-2.0
"""A run as its page shows it: what its folder holds, how far it is, what it waits for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from airflow_provider_rlmm.core.base.errors import DocumentError
from airflow_provider_rlmm.core.base.file_systems import list_files
from airflow_provider_rlmm.core.base.work_folder import APPROVAL_DOCUMENT
from airflow_provider_rlmm.core.plans.approval import Approval, ApprovalRequest
from airflow_provider_rlmm.core.runs.approving import REQUEST_DOCUMENT
from airflow_provider_rlmm.core.runs.task_failure import TaskFailure
from airflow_provider_rlmm.features.cleanup.cleaning_progress import CleaningProgress, ProgressState
from airflow_provider_rlmm.overview import inventories
from airflow_provider_rlmm.overview.documents import read_bytes
from airflow_provider_rlmm.overview.run_summary import RunSummary
from airflow_provider_rlmm.overview.runs import RunProgress, UnreadableRun, failures, progress, run_of
from airflow_provider_rlmm.plugins.asked_plan import AskedPlan, asked_plan
from airflow_provider_rlmm.plugins.overview import Problem
from airflow_provider_rlmm.plugins.pages import DOCUMENT_PAGES
from airflow_provider_rlmm.plugins.rendering import human_duration
from airflow_provider_rlmm.settings import artifact_name_of, groups_around

SILENT_AFTER_MS: Final = 120_000
"""A task writes how far it is every few seconds; one that has not for this long may be dead."""

_MAX_ANSWER_BYTES: Final = 64 * 2**10


@dataclass(frozen=True, slots=True)
class TaskRow:
    """How far the cleaning of a metadata partition is."""

    metadata_partition: int
    task: CleaningProgress
    words: str
    mood: str
    left: str


@dataclass(frozen=True, slots=True)
class RunView:
    """
    A run.

    :param artifact: name of its folder below the work folder.
    :param under_way: whether it has not ended, by Airflow's account.
    :param summary: what is left of it when it has ended, ``None`` before.
    :param progress: of its cleaning tasks.
    :param tasks: the same, row by row.
    :param pages: kind and name of the pages of its documents.
    :param asked: which plan a person was asked to approve, ``None`` if no person was.
    :param asked_plan: that plan, ``None`` where no answer is waited for, or it cannot be shown.
    :param answer: what was answered, ``None`` if nothing was.
    :param problems: what needs a person.
    :param refused: what its cleaning tasks have refused or left, the first of each metadata partition.
    """

    artifact: str
    under_way: bool
    summary: RunSummary | None
    progress: RunProgress
    tasks: Sequence[TaskRow]
    pages: Sequence[tuple[str, str]]
    asked: ApprovalRequest | None
    asked_plan: AskedPlan | None
    answer: Approval | None
    problems: Sequence[Problem]
    refused: Sequence[Problem]

    @property
    def is_dry(self) -> bool | None:
        """Whether it changes nothing, ``None`` as long as that was not said."""
        if self.summary is not None:
            return self.summary.dry_run
        return any(row.task.dry_run for row in self.tasks) if self.tasks else None

    @property
    def is_known(self) -> bool:
        """Whether it has written anything."""
        return bool(self.summary or self.tasks or self.pages or self.asked or self.problems)

    @property
    def left(self) -> str:
        """How long it takes yet, in words; empty where that is not known."""
        seconds = self.progress.seconds_left
        return "" if seconds is None else human_duration(round(seconds * 1000))


def run_view(work_uri: str, artifact: str, *, under_way: bool, now_ms: int, airflow_root: str) -> RunView:
    """
    Return a run.

    :param work_uri: the work folder.
    :param artifact: name of its folder there.
    :param under_way: whether it has not ended, by Airflow's account.
    :param now_ms: ms since the epoch.
    :param airflow_root: address of Airflow's UI, without a slash at the end.
    """
    told = _told(work_uri, artifact)
    done, names = progress(work_uri, artifact), set(list_files(f"{work_uri}/{artifact}"))
    problems = [
        _failed(failure, airflow_root)
        for failure in failures(work_uri, artifact)
        if any(
            artifact_name_of(failure.dag_id, failure.run_id, group) == artifact
            for group in (None, *groups_around(failure.task_id))
        )
    ]
    asked = answer = plan = None
    try:
        asked = _read_asked(work_uri, artifact) if REQUEST_DOCUMENT in names else None
        answer = _read_answer(work_uri, artifact) if APPROVAL_DOCUMENT in names else None
        if asked and answer and (answer.plan_sha256, answer.asked_at_ms) != (asked.plan_sha256, asked.asked_at_ms):
            answer = None  # to an earlier request: the task was cleared, and asks again
    except (DocumentError, ValueError) as e:
        problems.append(
            Problem("The approval of the plan cannot be read", str(e), "clear the task approve to ask again")
        )
    if asked is not None and answer is None:
        try:
            plan = asked_plan(work_uri, artifact, names, asked)
        except DocumentError as e:
            what = "What a person is asked to approve cannot be shown, so this page has no button for it"
            problems.append(
                Problem(what, str(e), "look at the plan before you answer in Airflow, or clear the task plan")
            )
    if isinstance(told, UnreadableRun):
        problems.append(Problem("The summary of this run cannot be read", told.why, "look at its report"))
    for number, why in done.unreadable.items():
        what = f"It cannot be told how far metadata partition {number} is"
        problems.append(Problem(what, why, "look at the log of its task in Airflow"))
    return RunView(
        artifact, under_way, told if isinstance(told, RunSummary) else None, done,
        [_row(task, under_way, now_ms) for task in done.tasks],
        [(kind, page.title) for kind, page in DOCUMENT_PAGES.items() if page.file in names],
        asked, plan, answer, problems, _refused(done.tasks),
    )  # fmt: skip


def _failed(failure: TaskFailure, airflow_root: str) -> Problem:
    """Say why a task failed, and lead to its log."""
    mapped = "" if failure.map_index is None else f"[{failure.map_index}]"
    steps = [f"/dags/{quote(failure.dag_id, safe='')}", f"/runs/{quote(failure.run_id, safe='')}"]
    steps += [f"/tasks/{quote(failure.task_id, safe='')}", f"/mapped/{failure.map_index}" if mapped else ""]
    what = f"The task {failure.task_id}{mapped} failed"
    return Problem(what, failure.error, "look at", "".join([airflow_root, *steps]), "its log")


def told_run(work_uri: str, artifact: str) -> RunSummary | None:
    """
    Return what is left of a run when it has ended, ``None`` before, or where that cannot be read.

    :param work_uri: the work folder.
    :param artifact: name of its folder there.
    """
    told = _told(work_uri, artifact)
    return told if isinstance(told, RunSummary) else None


def _told(work_uri: str, artifact: str) -> RunSummary | UnreadableRun | None:
    found = (run_of(work_uri, folder, artifact) for folder in inventories.clusters(work_uri))
    return next((run for run in found if run is not None), None)


def _read_asked(work_uri: str, artifact: str) -> ApprovalRequest:
    return ApprovalRequest.of_json(
        read_bytes(work_uri, artifact, REQUEST_DOCUMENT, max_bytes=_MAX_ANSWER_BYTES).decode()
    )


def _read_answer(work_uri: str, artifact: str) -> Approval:
    return Approval.of_json(read_bytes(work_uri, artifact, APPROVAL_DOCUMENT, max_bytes=_MAX_ANSWER_BYTES).decode())


def _refused(tasks: Iterable[CleaningProgress]) -> list[Problem]:
    return [
        Problem(f"Metadata partition {task.metadata_partition}: {left.what}", left.why, left.what_to_do)
        for task in tasks
        for left in task.refused
    ]


def _row(task: CleaningProgress, under_way: bool, now_ms: int) -> TaskRow:
    if task.state is ProgressState.ENDED:
        return TaskRow(task.metadata_partition, task, "ended", "ok", "")
    if task.state is ProgressState.FAILED:
        return TaskRow(task.metadata_partition, task, "failed", "bad", "")
    silent = now_ms - task.updated_at_ms
    if not under_way:
        return TaskRow(task.metadata_partition, task, "did not say that it ended", "bad", "")
    if silent > SILENT_AFTER_MS:
        return TaskRow(task.metadata_partition, task, f"silent for {human_duration(silent)}", "warn", "")
    seconds = RunProgress((task,), {}).seconds_left
    left = "" if seconds is None else human_duration(round(seconds * 1000))
    return TaskRow(task.metadata_partition, task, "at work", "info", left)
