# SPDX-License-Identifier: Apache-2.0
"""
The report of a run: what its tasks left in its folder, put together, and what of it needs a person, first.

What is missing or cannot be read is noted and never an error: the run may have gone wrong anywhere.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from airflow_provider_rlmm.core.base import strict_json
from airflow_provider_rlmm.core.base.agreement import agreeing, number_of
from airflow_provider_rlmm.core.base.errors import ArchiveError, PlanError
from airflow_provider_rlmm.core.base.quoting import human_bytes
from airflow_provider_rlmm.core.base.work_folder import APPROVAL_DOCUMENT, DOCTOR_DOCUMENT, MARK_DOCUMENT
from airflow_provider_rlmm.core.plans.approval import NOT_APPROVED_ADVICE, Approval
from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.core.plans.plan import PlanSummary
from airflow_provider_rlmm.core.plans.plan_archive import ARCHIVE_DOCUMENT, PlanArchive
from airflow_provider_rlmm.core.plans.plan_files import read_document, read_plan
from airflow_provider_rlmm.core.plans.refusals import Refusal, RefusalKind
from airflow_provider_rlmm.core.records.told_era import ToldEra
from airflow_provider_rlmm.core.runs.attention import Acknowledgements, Attention, Judgement, RunProblem, judge
from airflow_provider_rlmm.core.runs.task_failure import FailedTask
from airflow_provider_rlmm.features.cleanup.report_document import CleanupReport, Stopped, cleanup_report
from airflow_provider_rlmm.features.cleanup.reports import (
    Marking,
    MetadataPartitionReport,
    met_in,
    read_marking,
    read_part,
)
from airflow_provider_rlmm.features.doctor.criticals import criticals_of
from airflow_provider_rlmm.features.doctor.diagnosis import ReportedDiagnosis, read_diagnosis

T = TypeVar("T")

NO_REPORT = "its cleaning task left no report"


def part_name(metadata_partition: int) -> str:
    """Return the name of the document that the cleaning of a metadata partition leaves."""
    return f"clean-{metadata_partition}.json"


@dataclass(slots=True)
class _RunDocuments:
    """What the tasks of a run left."""

    uri: str  # of the folder of the run
    plan: PlanSummary | None = None  # its plan, ``None`` where there is none that can be read; ``no_plan`` says why
    no_plan: str = ""
    mark: Marking | None = None  # what the marker left
    doctor: ReportedDiagnosis | None = None  # the doctor's, where the run has one
    archive: PlanArchive | None = None  # what was archived of this very plan, where anything was
    answer: Approval | None = None  # what a person has answered about this very plan, where one was asked
    parts: dict[int, MetadataPartitionReport] = field(default_factory=dict)  # metadata partition → its report
    absent: dict[int, str] = field(default_factory=dict)  # metadata partition that was planned → why it has no report
    unreadable: list[Attention] = field(default_factory=list)  # what is there and cannot be read, or ought to be there

    @classmethod
    def read(cls, uri: str, *, marked: bool) -> _RunDocuments:
        """Read them; a run that has a marker is ``marked``: it leaves a document if it gets to its end."""
        run = cls(uri)
        try:
            run.plan = read_plan(uri)
        except PlanError as e:
            missing = isinstance(e.__cause__, FileNotFoundError)
            run.no_plan = f"none of them has left one in {uri}" if missing else str(e)
        run.mark = run._document(MARK_DOCUMENT, read_marking, missing=marked and run.plan is not None)
        run.doctor = run._document(DOCTOR_DOCUMENT, read_diagnosis)
        run._read_answer()
        run._read_archive()
        for metadata_partition in sorted(run.plan.by_metadata_partition if run.plan else ()):
            run._read_part(metadata_partition)
        return run

    @property
    def cluster_id(self) -> str | None:
        """The cluster, ``None`` where no document tells."""
        if self.plan is not None:
            return self.plan.cluster_id
        return self.mark.cluster_id if self.mark else None

    @property
    def era(self) -> ToldEra | None:
        """The era of the log as the last task saw it that says so, ``None`` where no document tells."""
        if self.plan is not None and self.plan.era is not None:
            return self.plan.era
        return self.mark.era if self.mark else None

    @property
    def stopped(self) -> bool:
        """Whether the plan is larger than the limit that it was judged by."""
        return self.plan is not None and self.plan.blast_radius is not None and not self.plan.within_blast_radius

    @property
    def rejected(self) -> Approval | None:
        """The answer that nothing of the plan is to be deleted, where that is what happened."""
        return self.answer if self.answer is not None and not self.answer.approved and not self.parts else None

    @property
    def not_planned(self) -> tuple[Refusal, ...]:
        return self.plan.refusals if self.plan else ()

    @property
    def not_marked(self) -> tuple[Refusal, ...]:
        return self.mark.refusals if self.mark else ()

    @property
    def dry_runs(self) -> frozenset[bool]:
        """What the tasks say that they were."""
        marked = [self.mark.dry_run] if self.mark else []
        return frozenset([*marked, *(part.dry_run for part in self.parts.values())])

    def _read_part(self, metadata_partition: int) -> None:
        def read(document: dict[str, Any]) -> MetadataPartitionReport:
            part = read_part(document)
            if part.metadata_partition != metadata_partition:
                raise ValueError(f"it is that of metadata partition {part.metadata_partition}")
            return part

        name, known = part_name(metadata_partition), len(self.unreadable)
        part = self._document(name, read, metadata_partition)
        if part is not None:
            self.parts[metadata_partition] = part
        elif len(self.unreadable) > known:
            self.absent[metadata_partition] = f"the report of its cleaning task, {name}, cannot be read"
        elif self.stopped:
            self.absent[metadata_partition] = "it was not cleaned: the run was stopped by its blast radius"
        elif self.answer is not None and not self.answer.approved:
            self.absent[metadata_partition] = f"it was not cleaned: the plan {self.answer}"
        else:
            self.absent[metadata_partition] = NO_REPORT

    def _read_answer(self) -> None:
        answer = self._document(APPROVAL_DOCUMENT, Approval.of_dict)
        if answer is not None and self.plan is not None:
            self.answer = answer if answer.is_of(self.plan) else None

    def _read_archive(self) -> None:
        archive = self._document(ARCHIVE_DOCUMENT, _archive)
        if archive is not None and self.plan is not None:
            self.archive = archive if archive.plan_sha256 == self.plan.sha256 else None

    def _document(
        self,
        name: str,
        read: Callable[[dict[str, Any]], T],
        metadata_partition: int | None = None,
        missing: bool = False,
    ) -> T | None:
        """Return a document, ``None`` where there is none; one that cannot be read, or is ``missing``, is noted."""
        try:
            found = read_of_run(self.uri, name, read)
        except PlanError as e:
            self.unreadable.append(_unreadable(name, str(e), metadata_partition))
            return None
        if found is None and missing:
            self.unreadable.append(_unreadable(name, "it is not there, though its task ran", metadata_partition))
        return found


def read_of_run(uri: str, name: str, read: Callable[[dict[str, Any]], T]) -> T | None:
    """
    Read a document of a run, ``None`` where there is none.

    :param uri: of the folder of the run.
    :param name: file name.
    :param read: makes the value of it; raises ``ValueError`` where it does not have its form.
    :raises PlanError: if it is there and cannot be read, or does not have its form.
    """
    try:
        return read(strict_json.parse_object(read_document(uri, name)))
    except PlanError as e:
        if isinstance(e.__cause__, FileNotFoundError):
            return None
        raise
    except ValueError as e:
        raise PlanError(f"{uri}/{name} does not have the expected form: {e}") from e


def _archive(document: dict[str, Any]) -> PlanArchive:
    try:
        return PlanArchive.from_json(json.dumps(document))
    except ArchiveError as e:
        raise ValueError(str(e)) from e


def _unreadable(name: str, why: str, metadata_partition: int | None) -> Attention:
    todo = "find out what happened to it: this report lacks what it did"
    return Attention(
        RunProblem.UNREADABLE.value, name, why, todo, metadata_partition=metadata_partition, acknowledgeable=False
    )


_NAMED_TASKS = 5
_LOG_ADVICE = (
    "look at the log of the task; what it deleted before it failed stays deleted, the next run goes on from there"
)


@dataclass(frozen=True, slots=True)
class RunReport:
    """The report of a run."""

    document: CleanupReport  # as ``docs/reports.md`` describes it
    judgement: Judgement  # what fails the run, and what would have


def report_of_run(
    uri: str,
    report_id: str,
    *,
    failed_tasks: int,
    failed: Sequence[FailedTask] = (),
    marked: bool,
    dry_run: bool,
    acknowledgements: Acknowledgements,
    now_ms: int,
) -> RunReport:
    """
    Put together what the tasks of a run left; what is missing or cannot be read is an entry, not an error.

    :param uri: of the folder of the run.
    :param report_id: names the report.
    :param failed_tasks: how many tasks before the report failed.
    :param failed: which they are, as far as anybody can tell.
    :param marked: whether a marker was among them.
    :param dry_run: what the run was told to be; what its tasks left knows better.
    :param acknowledgements: what people have said.
    :param now_ms: ms since the epoch.
    """
    run = _RunDocuments.read(uri, marked=marked)
    # Where the tasks disagree, something was done.
    is_dry = False not in run.dry_runs if run.dry_runs else dry_run
    problems = [*_own_problems(run, failed_tasks, failed, dry_run), *acknowledgements.problems, *_found_problems(run)]
    judgement = judge(problems, acknowledgements.known, run.cluster_id or "", now_ms)
    parts = run.parts | {p: _stand_in(run, p, is_dry) for p in run.absent}
    document = cleanup_report(
        report_id=report_id,
        plan_id=run.plan.plan_id if run.plan else None,
        cluster_id=run.cluster_id,
        created_at_ms=now_ms,
        parts=[parts[p] for p in sorted(parts)],
        dry_run=is_dry,
        era=run.era,
        judgement=judgement,
        stopped=_stopped(run),
        waiting=run.plan.waiting if run.plan else None,
        left=_left(run).segments,
        not_marked=run.not_marked,
        not_planned=run.not_planned,
        partitions_marked=run.mark.marked if run.mark else 0,
        marked=run.mark.by_topic if run.mark else None,
        deletion=_deletion(run),
        archive=run.archive,
        price=run.plan.price if run.plan else None,
        early=run.plan.early if run.plan else None,
    )
    return RunReport(document, judgement)


def _stand_in(run: _RunDocuments, metadata_partition: int, dry_run: bool) -> MetadataPartitionReport:
    """Stand in for a report that is not there, so that the run's report shows the metadata partition."""
    planned = _planned(run, metadata_partition).segments
    kind = RefusalKind.BLAST_RADIUS if run.stopped else RefusalKind.REPORT
    why = f"{run.absent[metadata_partition]}; {number_of(planned, 'segment was', 'segments were')} planned"
    refusal = Refusal(
        f"metadata partition {metadata_partition}", why,
        _stopped_advice(run.plan) if run.stopped and run.plan else _LOG_ADVICE, kind, metadata_partition,
    )  # fmt: skip
    return MetadataPartitionReport(
        metadata_partition, dry_run, partitions=(), refusals=(refusal,), events={}, would_write=(), committed_offset=None,
        duration_ms=0,
    )  # fmt: skip


def _planned(run: _RunDocuments, metadata_partition: int) -> Count:
    nothing = Count(0, 0)
    return run.plan.by_metadata_partition.get(metadata_partition, nothing) if run.plan else nothing


def _left(run: _RunDocuments) -> Count:
    """
    Return what is left of the plan's world where no cleaning task has reported: planned and not cleaned, refused, held.

    What a cleaning task has left its own report says; what waits for its time is not left.
    """
    refused = run.plan.left if run.plan else {}
    unseen = (count for number, count in refused.items() if number not in run.parts)
    return Count.sum([*(_planned(run, number) for number in run.absent), *unseen])


def _stopped_advice(plan: PlanSummary) -> str:
    return plan.blast_radius.remedy(plan.planned, plan.known) if plan.blast_radius else "make a new plan"


def _deletion(run: _RunDocuments) -> str | None:
    """Return whether deletion frees space, as the planner has said it."""
    effect = run.plan.root.get("deletion") if run.plan else None
    sentence = effect.get("sentence") if isinstance(effect, dict) else None
    return sentence if isinstance(sentence, str) else None


def _stopped(run: _RunDocuments) -> Stopped | None:
    """Say what stopped the run before it cleaned anything, and what is left."""
    plan = run.plan
    if plan is None or plan.blast_radius is None or plan.within_blast_radius:
        return None
    left = _left(run)
    why = (
        f"stopped by its blast radius: {plan.planned.segments:,} of {number_of(plan.known.segments, 'segment')} with "
        f"{human_bytes(plan.planned.bytes)} {agreeing(plan.planned.segments, 'is', 'are')} planned, "
        f"{plan.blast_radius.excess(plan.planned, plan.known)}; "
        f"{number_of(left.segments, 'segment')} with {human_bytes(left.bytes)} {agreeing(left.segments, 'is', 'are')} left"
    )
    return Stopped(why, _stopped_advice(plan), left)


def _own_problems(
    run: _RunDocuments, failed_tasks: int, failed: Sequence[FailedTask], told_dry: bool
) -> Iterator[Attention]:
    """Yield what is wrong with the run itself."""

    def own(problem: RunProblem, what: str, why: str, what_to_do: str) -> Attention:
        return Attention(problem.value, what, why, what_to_do, acknowledgeable=False)

    unreported = sorted(p for p, why in run.absent.items() if why == NO_REPORT)
    causes = "; ".join(map(str, failed[:_NAMED_TASKS])) + ("; and others" if len(failed) > _NAMED_TASKS else "")
    logs = "; ".join(task.advice for task in failed[:_NAMED_TASKS])
    if run.plan is None and failed:
        yield own(RunProblem.TASK_FAILED, "the run", f"the run made no plan: {causes}", f"{logs}; then run again")
    elif run.plan is None:
        why = f"the run made no plan: see the tasks before this one ({run.no_plan})"
        yield own(RunProblem.NO_PLAN, "the run", why, "look at their logs")
    elif (stopped := _stopped(run)) is not None:
        yield own(RunProblem.BLAST_RADIUS, f"plan {run.plan.plan_id}", stopped.why, stopped.what_to_do)
    elif run.rejected is not None:
        left = _left(run)
        why = (
            f"it {run.rejected}; {number_of(left.segments, 'segment')} with {human_bytes(left.bytes)} "
            f"{agreeing(left.segments, 'is', 'are')} left"
        )
        yield own(RunProblem.NOT_APPROVED, f"plan {run.plan.plan_id}", why, NOT_APPROVED_ADVICE)
    elif failed_tasks:
        why = f"{number_of(failed_tasks, 'task')} before this one failed"
        why += f", metadata partitions {unreported} left no report" if unreported else ""
        why += f": {causes}" if causes else ""
        todo = f"{_LOG_ADVICE}; then run again" + (f" ({logs})" if logs else "")
        yield own(RunProblem.TASK_FAILED, "the run", why, todo)
    elif unreported:
        why = f"metadata partitions {unreported} were planned and not cleaned: their tasks were skipped, or marked by hand"
        yield own(RunProblem.TASK_FAILED, "the run", why, "find out who or what did that, then run again")
    yield from run.unreadable
    if len(run.dry_runs | ({True} if told_dry else set())) > 1:
        why = "some of its tasks were a dry run and some were not"
        yield own(RunProblem.MIXED_DRY_RUN, "the run", why, "give every task of the DAG the same dry_run_only")


def _found_problems(run: _RunDocuments) -> Iterator[Attention]:
    """Yield what the run found that needs a person; of two that are the same the first is kept."""
    met: list[tuple[int | None, Refusal]] = [(None, r) for r in (*run.not_planned, *run.not_marked)]
    met += [(None, refusal) for refusal in run.archive.refused.values()] if run.archive else []
    met += met_in(run.parts.values())
    stopped = [refusal for _, refusal in met if refusal.kind is RefusalKind.STOPPED]
    if stopped:
        # One switch stops thousands of them: it is said once.
        what = number_of(len(stopped), "user partition")
        yield Attention(RefusalKind.STOPPED.value, what, stopped[0].why, stopped[0].what_to_do, acknowledgeable=False)
    for metadata_partition, refusal in met:
        if refusal.kind.needs_person and refusal.kind is not RefusalKind.STOPPED:
            yield Attention.of_refusal(refusal, metadata_partition)
    yield from _not_listed(run)
    yield from criticals_of(run.doctor, unusable_are_counted=run.plan is not None)


def _not_listed(run: _RunDocuments) -> Iterator[Attention]:
    """Return a problem for the quarantined records that a plan counts and does not list."""
    listed = {(r.metadata_partition, r.offset) for r in run.not_planned if r.kind is RefusalKind.QUARANTINED}
    for number, total in run.plan.quarantined.items() if run.plan else ():
        if (more := total - sum(place[0] == number for place in listed)) > 0:
            yield Attention(
                RunProblem.QUARANTINED_NOT_LISTED.value,
                f"{number_of(more, 'more quarantined record')} of metadata partition {number}",
                "records that cannot be applied, beyond those that are listed one by one",
                "have the doctor list them",
                metadata_partition=number,
                count=more,
            )
