# SPDX-License-Identifier: Apache-2.0
"""The summaries of runs, made of the documents that the runs have left: one function for each kind of run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_rlmm.core.base.agreement import agreeing, number_of
from airflow_provider_rlmm.core.base.quoting import human_bytes, printable
from airflow_provider_rlmm.core.plans.approval import Approval
from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.core.plans.plan import PlanSummary
from airflow_provider_rlmm.core.plans.refusals import RefusalKind
from airflow_provider_rlmm.core.runs.attention import Judgement
from airflow_provider_rlmm.features.cleanup.report_document import CleanupReport
from airflow_provider_rlmm.features.cleanup.reports import Totals
from airflow_provider_rlmm.features.contents.report_document import ContentsReport
from airflow_provider_rlmm.features.doctor.diagnosis import ReportedDiagnosis
from airflow_provider_rlmm.features.scrub.scrub_plan import ScrubPlan
from airflow_provider_rlmm.features.scrub.scrub_summary import ScrubSummary
from airflow_provider_rlmm.features.survey.inventory import Inventory
from airflow_provider_rlmm.overview.run_summary import (
    MAX_HEADLINE,
    MAX_TOUCHED,
    Deleted,
    RunKind,
    RunOutcome,
    RunSummary,
)
from airflow_provider_rlmm.overview.touched_topics import touched_topics

if TYPE_CHECKING:
    from airflow_provider_rlmm.features.scrub.scrub_cleaner import ScrubDeletion


@dataclass(frozen=True, slots=True)
class RunFacts:
    """
    What the caller of the steps knows of a run.

    :param connection: by which the cluster is reached: an Airflow connection id, or what the command was told.
    :param dag_id: of the run; of the command, ``rlmm``.
    :param run_id: of the run.
    :param artifact: name of the folder of the run below the work folder.
    :param began_at_ms: ms since the epoch.
    :param ended_at_ms: ms since the epoch.
    :param steps: name of a step → seconds that it took.
    """

    connection: str
    dag_id: str
    run_id: str
    artifact: str
    began_at_ms: int
    ended_at_ms: int
    steps: Mapping[str, float]


def cleaner_summary(
    facts: RunFacts,
    cluster_id: str,
    report: CleanupReport,
    judgement: Judgement,
    *,
    plan: PlanSummary | None,
    inventory: Inventory | None,
    diagnosis: ReportedDiagnosis | None,
    answer: Approval | None = None,
) -> RunSummary:
    """
    Summarise a cleanup.

    :param facts: of the run.
    :param cluster_id: the cluster.
    :param report: its report.
    :param judgement: what fails the run.
    :param plan: its plan, ``None`` where it made none.
    :param inventory: what its survey found, ``None`` where it made none.
    :param diagnosis: what its doctor found, ``None`` where it has none.
    :param answer: of the person who was asked to approve the plan, ``None`` where there is no question or no answer.
    """
    counted, dry_run = Totals.of(report.metadata_partitions), report.dry_run
    deleted = Deleted(counted.segments_deleted, counted.objects_deleted, counted.bytes_deleted)
    done = (
        f"{number_of(deleted.segments, 'segment')}, {human_bytes(deleted.bytes)} "
        f"{'would be' if dry_run else 'were'} deleted"
    )
    found = inventory.totals if inventory else None
    topics = touched_topics(report)
    return RunSummary(
        **_common(facts, cluster_id, RunKind.CLEANER, judgement, done, dry_run=dry_run),
        **_answered(answer),
        only=plan.only if plan else (),
        topics=tuple(topics[:MAX_TOUCHED]),
        more_topics=len(topics[MAX_TOUCHED:]),
        deleted=deleted,
        planned=plan.planned if plan else Count(0, 0),
        refusals=report.totals["refusals"],
        stored=found.stored if found else None,
        orphaned=found.orphaned if found else None,
        unseen=found.unseen if found else None,
        waiting=found.waiting if found else None,
        deleting=found.deleting if found else None,
        oldest_orphan_ms=found.oldest_orphan_ms if found else None,
        critical=diagnosis.critical if diagnosis else None,
        out_of_service=len(found.metadata_partitions_out_of_service) if found else None,
        quarantined=found.quarantined_records if found else None,
        unsized=found.unsized.segments if found and found.unsized else None,
        documents={"reports": facts.artifact, **({"plans": facts.artifact} if plan else {})},
    )


def retention_summary(facts: RunFacts, plan: PlanSummary, judgement: Judgement) -> RunSummary:
    """
    Summarise a run of the Spark job: it plans, and changes nothing.

    :param facts: of the run.
    :param plan: what the job planned.
    :param judgement: what fails the run.
    """
    planned, expected, leaders = plan.to_delete, plan.estimated_of_leaders, plan.leaders
    done = (
        f"{planned.segments:,} of {number_of(plan.known.segments, 'segment')}, {human_bytes(planned.bytes)} "
        f"{agreeing(planned.segments, 'is', 'are')} planned"
    )
    if leaders is not None and leaders.goes.segments:
        done += f"; leaders delete {leaders.goes.segments:,}, {human_bytes(leaders.goes.bytes)}"
    if expected.segments:
        amount = f"{expected.segments:,}, {human_bytes(expected.bytes)}"
        done += f"; leaders are expected to delete {amount} (estimated)"
    return RunSummary(
        **_common(facts, plan.cluster_id, RunKind.RETENTION, judgement, done, dry_run=True),
        planned=planned,
        refusals=sum(refusal.count for refusal in plan.refusals if refusal.kind is not RefusalKind.WAITING),
        stored=plan.known,
        quarantined=sum(plan.quarantined.values()),
        documents={"plans": facts.artifact},
    )


def scrub_summary(
    facts: RunFacts,
    scrub: ScrubSummary,
    plan: ScrubPlan | None,
    deletion: ScrubDeletion,
    judgement: Judgement,
    answer: Approval | None = None,
) -> RunSummary:
    """
    Summarise a scrub.

    :param facts: of the run.
    :param scrub: what it found.
    :param plan: what of it may go, ``None`` where it made no plan.
    :param deletion: what it deleted.
    :param judgement: what fails the run.
    :param answer: of the person who was asked to approve the plan, ``None`` where there is no question or no answer.
    """
    objects = sum(amount.objects for amount in deletion.deleted.values())
    size = sum(amount.bytes for amount in deletion.deleted.values())
    done = f"{number_of(objects, 'object')}, {human_bytes(size)} {'would be' if deletion.dry_run else 'were'} deleted"
    return RunSummary(
        **_common(facts, scrub.cluster_id, RunKind.SCRUB, judgement, done, dry_run=deletion.dry_run),
        **_answered(answer),
        only=plan.only if plan else (),
        deleted=Deleted(0, objects, size),
        planned=plan.planned if plan else Count(0, 0),
        refusals=deletion.left_objects,
        documents={"scrubs": facts.artifact, **({"scrub-plans": facts.artifact} if plan else {})},
    )


def doctor_summary(facts: RunFacts, diagnosis: ReportedDiagnosis, judgement: Judgement) -> RunSummary:
    """
    Summarise an examination: it changes nothing.

    :param facts: of the run.
    :param diagnosis: the doctor's document.
    :param judgement: what fails the run.
    """
    critical, count = diagnosis.critical, sum(diagnosis.counts.values())
    done = f"{number_of(count, 'finding')}, {critical:,} of them critical, in {number_of(diagnosis.records, 'record')}"
    return RunSummary(
        **_common(facts, diagnosis.cluster_id, RunKind.DOCTOR, judgement, done, dry_run=True),
        critical=critical,
        # One recovery for each metadata partition with a record that ends the consumers of brokers.
        out_of_service=len(diagnosis.recoveries),
        documents={"doctor": facts.artifact},
    )


def contents_summary(facts: RunFacts, report: ContentsReport, judgement: Judgement) -> RunSummary:
    """
    Summarise a scrub of contents: it changes nothing.

    :param facts: of the run.
    :param report: its report.
    :param judgement: what fails the run.
    """
    done = report.share_in_words
    return RunSummary(**_common(facts, report.cluster_id, RunKind.CONTENTS, judgement, done, dry_run=True))


def _answered(answer: Approval | None) -> dict[str, Any]:
    return {} if answer is None else {"approved": answer.decision, "approved_by": answer.decided_by}


def _common(
    facts: RunFacts, cluster_id: str, kind: RunKind, judgement: Judgement, done: str, *, dry_run: bool
) -> dict[str, Any]:
    failing = judgement.things
    return {
        "cluster_id": cluster_id,
        "connection": facts.connection,
        "dag_id": facts.dag_id,
        "run_id": facts.run_id,
        "artifact": facts.artifact,
        "kind": kind,
        # Two clocks tell them.
        "began_at_ms": min(facts.began_at_ms, facts.ended_at_ms),
        "ended_at_ms": facts.ended_at_ms,
        "dry_run": dry_run,
        "outcome": RunOutcome.FAILED if failing else RunOutcome.SUCCESS,
        "headline": printable(judgement.headline() or f"Nothing needs a person: {done}.", MAX_HEADLINE),
        "needs_person": failing,
        "steps": facts.steps,
    }
