# SPDX-License-Identifier: Apache-2.0
"""A person's approval of a plan, by Airflow's own way to ask one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, Generic, TypeVar

from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Context
from airflow.sdk.definitions.param import ParamsDict

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.clock import duration_in_words, system_clock
from airflow_provider_rlmm.core.base.errors import PlanError
from airflow_provider_rlmm.core.plans.approval import APPROVE, REJECT, SHOWN_PLAN, ApprovalLimits
from airflow_provider_rlmm.core.plans.plan import PlanSummary
from airflow_provider_rlmm.core.plans.plan_files import planned_topics, read_plan
from airflow_provider_rlmm.core.runs.approving import body_of, keep_approval, keep_request, read_request, subject_of
from airflow_provider_rlmm.core.runs.run_parameters import ANSWER_WITHIN, LEAST_ANSWER_WITHIN_MS
from airflow_provider_rlmm.features.scrub.scrub_approval import scrub_body_of, scrub_subject_of
from airflow_provider_rlmm.features.scrub.scrub_plan import ScrubPlan
from airflow_provider_rlmm.features.scrub.scrub_planner import open_scrub_plan, topics_of
from airflow_provider_rlmm.links.artifacts import ArtifactLink, PlanLink, ScrubPlanLink, page_address
from airflow_provider_rlmm.observability.lineage import Touched
from airflow_provider_rlmm.operators import arguments as given
from airflow_provider_rlmm.operators.checked import CheckedOperator
from airflow_provider_rlmm.operators.decision import flag_or_as_checked, mode_of
from airflow_provider_rlmm.settings import artifact_uri

__all__ = ["ApproveRemoteLogCleanupOperator", "ApproveRemoteStorageScrubOperator"]

Plan = TypeVar("Plan", PlanSummary, ScrubPlan)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalArguments:
    """Arguments of :class:`ApprovePlanOperator`, as they were meant."""

    rlmm_conn_id: str = given.read_by(given.text, "rlmm_default")
    approve_above: ApprovalLimits | None = given.read_by(given.approval_limits, None)
    answer_within: int = given.declared_as(ANSWER_WITHIN)
    dry_run_only: bool | str | None = given.read_by(given.flag_or_unsaid, None)


class ApprovePlanOperator(CheckedOperator[ApprovalArguments], ApprovalOperator, Generic[Plan]):
    """
    Base of the operators that ask a person to approve a run's plan, where it is large.

    :param rlmm_conn_id: connection of type ``rlmm``, for the request.
    :param approve_above: fields of :class:`~airflow_provider_rlmm.core.plans.approval.ApprovalLimits`.
    :param answer_within: for how long an answer is waited for, ms or in words such as ``18 h``; never beyond the plan's
        expiry.
    :param dry_run_only: no person is asked; ``None``: what the plan of the run says.
    :param kwargs: what :class:`~airflow.providers.standard.operators.hitl.ApprovalOperator` takes.
    """

    template_fields: Sequence[str] = ("rlmm_conn_id", "approve_above", "answer_within", "dry_run_only")
    arguments = ApprovalArguments
    link: ClassVar[type[ArtifactLink]]
    ui_color = "#f7e7a9"
    touched = Touched()

    @abstractmethod
    def read_plan(self, uri: str) -> Plan:
        """
        Return the plan of the run.

        :param uri: of the folder of the run.
        """

    @abstractmethod
    def words(self, uri: str, plan: Plan, conn_id: str, link: str, wait_ms: int) -> tuple[str, str]:
        """
        Return headline and text of the request.

        :param uri: of the folder of the run.
        :param plan: what :meth:`read_plan` returned.
        :param conn_id: connection of type ``rlmm``.
        :param link: address of the plan's page.
        :param wait_ms: for how long an answer is waited for, ms.
        """

    def __init__(
        self,
        *,
        rlmm_conn_id: str = "rlmm_default",
        approve_above: Mapping[str, Any] | None = None,
        answer_within: int | str = "18 h",
        dry_run_only: bool | str | None = None,
        **kwargs: Any,
    ) -> None:
        # What is asked is known when the plan is; without a default Airflow would let the request wait for ever.
        super().__init__(subject="Delete what the plan names?", defaults=REJECT, fail_on_reject=True, **kwargs)
        # A yes or a no is asked for; Airflow 3.1 would have the form show every parameter of the DAG.
        self.params = ParamsDict()
        self.rlmm_conn_id = rlmm_conn_id
        self.approve_above = approve_above
        self.answer_within = answer_within
        self.dry_run_only = dry_run_only
        self.check_literals()

    def execute(self, context: Context) -> dict[str, Any]:
        """Ask, where it is necessary; then this try ends, and :meth:`execute_complete` goes on with the answer."""
        read, name, now_ms = self.read_arguments(), given.artifact_name(context), system_clock()
        # Also where no person is asked: Airflow asks for the link of every task, and logs an error where it leads nowhere.
        self.link.persist(context, name)
        summary, limits = self.read_plan(artifact_uri(name)), read.approve_above or ApprovalLimits()
        if mode_of(self, context, read.rlmm_conn_id, read.dry_run_only, plan=summary).dry_run:
            return self._unasked("a dry run deletes nothing")
        if not limits.ask_for(summary.planned):
            return self._unasked(
                f"{number_of(summary.planned.segments, 'segment')} and {summary.planned.bytes} bytes are planned, and up to "
                f"{limits.approve_above_segments} and {limits.approve_above_bytes} pass"
            )
        self._ask(context, name, summary, read.rlmm_conn_id, min(read.answer_within, summary.expires_at_ms - now_ms))
        raise AssertionError("Airflow's operator returns by an exception")

    def _ask(self, context: Context, name: str, summary: Plan, conn_id: str, wait_ms: int) -> None:
        if wait_ms < LEAST_ANSWER_WITHIN_MS:
            raise PlanError(f"plan {summary.plan_id} has expired and cannot be approved; make a new plan")
        uri = artifact_uri(name)
        self.subject, self.body = self.words(uri, summary, conn_id, page_address(self.link.page, name), wait_ms)
        keep_request(uri, summary, system_clock())
        self.response_timeout = timedelta(milliseconds=wait_ms)
        self.log.info("%s An answer is waited for, for %s", self.subject, duration_in_words(wait_ms))
        super().execute(context)

    def _unasked(self, why: str) -> dict[str, Any]:
        self.log.info("no person is asked: %s", why)
        return {"asked": False}

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """
        Keep the answer, and fail if it is not *Approve*.

        :param context: of the running task.
        :param event: the answer, as Airflow hands it over.
        """
        name = given.artifact_name(context)
        uri = artifact_uri(name)
        self.link.persist(context, name)
        request = read_request(uri)
        if "error" in event:
            self.process_trigger_event_error(event)
        chosen, user = event["chosen_options"], _name_of(event.get("responded_by_user"))
        self.validate_chosen_options(chosen)
        request.check_shown((event.get("params_input") or {}).get(SHOWN_PLAN))
        decision = APPROVE if chosen == [APPROVE] else REJECT
        summary = self.read_plan(uri)
        answer = keep_approval(uri, request, decision, user, _ms_of(event.get("responded_at")))
        self.log.info("plan %s %s", summary.plan_id, answer)
        # What listeners are told.
        self.hitl_summary_extra |= {"approved": answer.approved, "chosen_options": chosen}
        request.check_plan(summary)
        if not answer.approved:
            planned = f"{number_of(summary.planned.segments, 'segment')}, {summary.planned.bytes} bytes"
            raise AirflowFailException(
                f"plan {summary.plan_id} {answer}. Nothing of it is deleted: {planned} are left, and the next run plans them "
                "again. To keep a topic for good, put it on hold"
            )
        return {"asked": True, "decision": decision, "decided_by": user}


@dataclass(frozen=True, slots=True, kw_only=True)
class _CleanupApprovalArguments(ApprovalArguments):
    dry_run_only: bool | str | None = given.read_by(flag_or_as_checked, None)


class ApproveRemoteLogCleanupOperator(ApprovePlanOperator[PlanSummary]):
    """
    Ask a person to approve the run's plan, where it is large; go on without a question where it is not, or in a dry run.

    The request shows topics, segments, bytes, the oldest of them and the plan's page; the answer is for exactly that plan, by
    its checksum. It is kept as ``approval.json`` in the folder of the run, where every cleaning task looks for it: what
    becomes of this task in another way approves nothing. *Reject*, and no answer in time, fail the task, so that the cleaning
    tasks do not run and the report is red: what was planned is still there, and a person has to know that.

    Before Airflow 3.3 the triggerer must run: the task waits there.

    :param rlmm_conn_id: connection of type ``rlmm``, for the request.
    :param approve_above: fields of :class:`~airflow_provider_rlmm.core.plans.approval.ApprovalLimits`.
    :param answer_within: for how long an answer is waited for, ms or in words such as ``18 h``; never beyond the plan's
        expiry.
    :param dry_run_only: no person is asked; ``None``: what the plan of the run says; ``"as checked"``: what the task
        ``check`` of the run has decided.
    :param kwargs: what :class:`~airflow.providers.standard.operators.hitl.ApprovalOperator` takes, such as ``assigned_users``
        and ``notifiers``.
    :return: ``asked``, and, where a person was, ``decision`` and ``decided_by``.
    :raises PlanError: if the run has no plan, or it has expired.
    :raises NotApprovedError: if the plan has changed since a person was asked.
    :raises AirflowFailException: naming who has rejected the plan, or that no answer came in time.
    """

    arguments = _CleanupApprovalArguments
    link = PlanLink
    operator_extra_links = (PlanLink(),)

    def read_plan(self, uri: str) -> PlanSummary:
        """See :class:`ApprovePlanOperator`."""
        return read_plan(uri)

    def words(self, uri: str, plan: PlanSummary, conn_id: str, link: str, wait_ms: int) -> tuple[str, str]:
        """See :class:`ApprovePlanOperator`."""
        topics = planned_topics(uri, plan)
        return subject_of(plan, len(topics)), body_of(plan, topics, conn_id, link, wait_ms)


class ApproveRemoteStorageScrubOperator(ApprovePlanOperator[ScrubPlan]):
    """
    Ask a person to approve the plan that was made from the run's scrub, where it is large; go on without a question where it
    is not, or in a dry run.

    The request shows objects, segments, bytes and classes, the topics, and the plan's page; the answer is for exactly that
    plan, by its checksum. It is kept as ``approval.json`` in the folder of the run, where
    :class:`~airflow_provider_rlmm.operators.scrub.DeleteScrubbedObjectsOperator` looks for it. *Reject*, and no answer in
    time, fail the task.

    Before Airflow 3.3 the triggerer must run: the task waits there.

    :param rlmm_conn_id: connection of type ``rlmm``, for the request.
    :param approve_above: fields of :class:`~airflow_provider_rlmm.core.plans.approval.ApprovalLimits`.
    :param answer_within: for how long an answer is waited for, ms or in words such as ``18 h``; never beyond the plan's
        expiry.
    :param dry_run_only: no person is asked; ``None``: what the plan of the run says.
    :param kwargs: what :class:`~airflow.providers.standard.operators.hitl.ApprovalOperator` takes, such as ``assigned_users``
        and ``notifiers``.
    :return: ``asked``, and, where a person was, ``decision`` and ``decided_by``.
    :raises PlanError: if the run has no plan, or it has expired.
    :raises NotApprovedError: if the plan has changed since a person was asked.
    :raises AirflowFailException: naming who has rejected the plan, or that no answer came in time.
    """

    link = ScrubPlanLink
    operator_extra_links = (ScrubPlanLink(),)

    def read_plan(self, uri: str) -> ScrubPlan:
        """See :class:`ApprovePlanOperator`."""
        with open_scrub_plan(uri) as (plan, _):
            return plan

    def words(self, uri: str, plan: ScrubPlan, conn_id: str, link: str, wait_ms: int) -> tuple[str, str]:
        """See :class:`ApprovePlanOperator`."""
        with open_scrub_plan(uri) as (_, rows):
            topics = topics_of(rows)
        return scrub_subject_of(plan), scrub_body_of(plan, topics, conn_id, link, wait_ms)


def _name_of(user: object) -> str | None:
    """Return what to call the user who has answered, ``None`` where there is no answer."""
    if not isinstance(user, Mapping):
        return None
    named = user.get("name") or user.get("id")
    return str(named) if named else None


def _ms_of(answered: object) -> int:
    return int(answered.timestamp() * 1000) if isinstance(answered, datetime) else system_clock()
