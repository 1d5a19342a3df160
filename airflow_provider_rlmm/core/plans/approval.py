# SPDX-License-Identifier: Apache-2.0
"""
Whether a person must have approved a plan before anything of it is deleted, and whether one has.

An answer is worth something for one plan: the one whose checksum was asked for. Each cleaning task asks for the answer
itself, so that a task which was skipped, or marked as successful, has approved nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeVar

from airflow_provider_rlmm.core.base import strict_json as strict
from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.clock import since
from airflow_provider_rlmm.core.base.declarations import check_fields
from airflow_provider_rlmm.core.base.documents import Text, plain_of, reader_of
from airflow_provider_rlmm.core.base.errors import NotApprovedError
from airflow_provider_rlmm.core.base.quoting import in_quotes
from airflow_provider_rlmm.core.plans import limits
from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.core.plans.deletion_plan import DeletionPlan

APPROVE: Final = "Approve"
REJECT: Final = "Reject"
SHOWN_PLAN: Final = "plan_sha256"
"""By this name the pages say in an answer which plan they showed."""

NOT_APPROVED_ADVICE: Final = (
    "nothing, if that is what was meant: the next run plans them again; to keep a topic for good, put it on hold"
)
"""What a person can do about a plan that was not approved."""

_FORMAT = 1
_Document = TypeVar("_Document")


@dataclass(frozen=True, slots=True)
class ApprovalLimits:
    """
    The largest plan that a real run applies without asking anybody: a tenth of the blast radius, where nothing else is said.
    What a day leaves behind passes; what is unusual, and not yet impossible, is asked for.

    :param approve_above_segments: segments.
    :param approve_above_bytes: bytes.
    :raises ConfigurationError: on a limit of another kind or out of its range.
    """

    approve_above_segments: int = limits.APPROVE_ABOVE_SEGMENTS.default
    approve_above_bytes: int = limits.APPROVE_ABOVE_BYTES.default

    def __post_init__(self) -> None:
        check_fields(self, limits.APPROVAL)

    def ask_for(self, planned: Count) -> bool:
        """
        Tell whether a person must approve a plan.

        :param planned: what would go.
        """
        return planned.segments > 0 and (
            planned.segments > self.approve_above_segments or planned.bytes > self.approve_above_bytes
        )


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """
    What was asked.

    :param plan_id: the plan.
    :param plan_sha256: of that plan, as its summary says, lower-case hex.
    :param asked_at_ms: ms since the epoch.
    """

    plan_id: Text
    plan_sha256: Text
    asked_at_ms: int

    def check_plan(self, summary: DeletionPlan) -> None:
        """
        Refuse an answer if the plan is no longer the one that was asked for.

        :param summary: the run's plan, as it is now.
        :raises NotApprovedError: if it is another one.
        """
        if (summary.plan_id, summary.sha256) != (self.plan_id, self.plan_sha256):
            raise NotApprovedError(
                f"plan {summary.plan_id} has changed since a person was asked to approve it (its checksum was "
                f"{self.plan_sha256[:12]}…, now it is {summary.sha256[:12]}…): nothing is approved; {_ASK_AGAIN}"
            )

    def check_shown(self, sha256: object) -> None:
        """
        Refuse an answer by a page that showed another plan: it may have been open since an earlier request.

        :param sha256: of the plan that was shown, ``None`` where the answer does not say it.
        :raises NotApprovedError: if it is another one.
        """
        if sha256 not in (None, self.plan_sha256):
            raise NotApprovedError(
                f"the page on which a person has answered showed another plan (its checksum was {str(sha256)[:12]}…, that of "
                f"plan {self.plan_id} is {self.plan_sha256[:12]}…): nothing is approved; {_ASK_AGAIN}"
            )

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON, which :meth:`of_json` reads."""
        return {"format_version": _FORMAT, **plain_of(self)}

    @classmethod
    def of_json(cls, text: str) -> ApprovalRequest:
        """
        Read what :meth:`to_dict` returned.

        :param text: the document.
        :raises ValueError: if it does not have its form.
        """
        return _read(strict.parse_object(text), _READ_REQUEST)


@dataclass(frozen=True, slots=True)
class Approval:
    """
    What was answered.

    :param plan_id: the plan.
    :param plan_sha256: of that plan, as its summary says, lower-case hex.
    :param decision: :data:`APPROVE` or :data:`REJECT`.
    :param decided_by: name of the user, ``None`` where no answer came in time.
    :param decided_at_ms: ms since the epoch.
    :param asked_at_ms: ms since the epoch.
    """

    plan_id: Text
    plan_sha256: Text
    decision: Annotated[str, _decision]
    decided_by: Text | None
    decided_at_ms: int
    asked_at_ms: int

    @property
    def approved(self) -> bool:
        """Whether a person has approved the plan."""
        return self.decision == APPROVE and self.decided_by is not None

    def is_of(self, summary: DeletionPlan) -> bool:
        """
        Tell whether it answers for a plan.

        :param summary: the plan.
        """
        return (self.plan_id, self.plan_sha256) == (summary.plan_id, summary.sha256)

    def __str__(self) -> str:
        """Say it in words that fit behind "the plan"."""
        when = since(self.decided_at_ms)
        if self.decided_by is None:
            return f"was not approved: no answer came to the request of {since(self.asked_at_ms)} by {when}"
        what = "was approved" if self.decision == APPROVE else "was rejected"
        return f"{what} by {in_quotes(self.decided_by)} at {when}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON, which :meth:`of_json` reads."""
        return {"format_version": _FORMAT, **plain_of(self)}

    @classmethod
    def of_json(cls, text: str) -> Approval:
        """
        Read what :meth:`to_dict` returned.

        :param text: the document.
        :raises ValueError: if it does not have its form.
        """
        return cls.of_dict(strict.parse_object(text))

    @classmethod
    def of_dict(cls, document: Mapping[str, Any]) -> Approval:
        """
        Read what :meth:`to_dict` returned.

        :param document: plain JSON.
        :raises ValueError: if it does not have its form.
        """
        return _read(document, _READ_ANSWER)


def approval_needed(
    summary: DeletionPlan, limits: ApprovalLimits, read: Callable[[], Approval | None]
) -> Approval | None:
    """
    Return the approval of a plan that is to be applied, ``None`` where none is needed.

    :param summary: the plan.
    :param limits: the largest plan that needs none.
    :param read: returns the recorded answer, ``None`` where there is none.
    :raises NotApprovedError: if one is needed, and no person has approved exactly this plan.
    """
    if not limits.ask_for(summary.planned):
        return None
    answer = read()
    planned = (
        f"plan {summary.plan_id} ({number_of(summary.planned.segments, 'segment')}, {summary.planned.bytes} bytes)"
    )
    if answer is None:
        raise NotApprovedError(
            f"{planned} needs a person's approval, and no answer is recorded: a task that was skipped or marked as "
            f"successful has approved nothing; {_ASK_AGAIN}"
        )
    if not answer.is_of(summary):
        raise NotApprovedError(
            f"{planned} needs a person's approval, and the recorded answer is for another plan ({answer.plan_id}, checksum "
            f"{answer.plan_sha256[:12]}…); {_ASK_AGAIN}"
        )
    if not answer.approved:
        raise NotApprovedError(f"{planned} {answer}; {_ASK_AGAIN}")
    return answer


def _read(given: Mapping[str, Any], read: strict.Reader[_Document]) -> _Document:
    return read(strict.versioned_fields(given, _FORMAT), "the document")


def _decision(value: object, what: str) -> str:
    if value not in (APPROVE, REJECT):
        raise ValueError(f"{what} is {strict.shown(value)}, not {APPROVE} or {REJECT}")
    return str(value)


_ASK_AGAIN = "clear the task approve, and what comes after it, to ask again"

_READ_REQUEST = reader_of(ApprovalRequest)
_READ_ANSWER = reader_of(Approval)
