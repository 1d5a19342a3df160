# SPDX-License-Identifier: Apache-2.0
"""
What every plan of deletions says, the cleaner's and a scrub's: where and until when it counts, by whose time it was made,
what was held, what was seen of the storage root, in which era of the log, and by which limit it was judged.

A plan is a sealed document: it carries a SHA-256 of itself, and nothing else is ever taken for it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeVar

from airflow_provider_rlmm.core.base import strict_json as strict
from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.clock import elapsed_in_words
from airflow_provider_rlmm.core.base.documents import AbsentAs, PlainJson, Text, plain_of, sealed_text
from airflow_provider_rlmm.core.base.errors import BlastRadiusError, PlanError
from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.core.plans.early_deletion import EarlyDeletion, early_in_words
from airflow_provider_rlmm.core.plans.guards import BlastRadius
from airflow_provider_rlmm.core.plans.prices import StoragePrice, money
from airflow_provider_rlmm.core.records.told_era import ToldEra, without_unsaid_era

_Plan = TypeVar("_Plan", bound="DeletionPlan")


@dataclass(frozen=True, slots=True)
class PlanForm:
    """
    How the documents of one kind of plan are read, and spoken of.

    :param version: of their layout; a plan of another one is refused.
    :param name: of such a document, with its article.
    :param top: what errors call all of it.
    :param max_bytes: a larger one is refused.
    :param what_goes: what such a plan deletes of segments, in words that stand before their number.
    :param again: what makes a new plan, in words.
    :param goes_early: what is counted that goes before its storage class's minimum duration, in words.
    """

    version: int
    name: str
    top: str
    max_bytes: int
    what_goes: str
    again: str
    goes_early: str

    def read(self, text: str, read: strict.Reader[_Plan]) -> _Plan:
        """
        Read a document.

        :param text: what :meth:`DeletionPlan.to_json` returned.
        :param read: the reader of the data class.
        :raises PlanError: if it is not, to the letter.
        """
        if len(text) > self.max_bytes:
            raise PlanError(f"{self.name} has at most {self.max_bytes} bytes; {self.again}")
        try:
            plan = read(strict.unsealed(text, self.version), self.top)
            plan.check_verdict()
            plan.check_numbers()
        except ValueError as e:
            raise PlanError(f"{self.name} cannot be read ({e}); {self.again}") from e
        return plan


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionPlan(ABC):
    """
    A plan of deletions.

    :param plan_id: names this plan in logs, reports and links.
    :param cluster_id: the cluster that it was made for; it is worth nothing on another.
    :param created_at_ms: when it was made, ms since the epoch.
    :param expires_at_ms: when it may no longer be applied, ms since the epoch.
    :param known: all that it was chosen from.
    :param blast_radius: the limit that the plan was judged by, ``None`` where it was not: then it is no plan to apply.
    :param within_blast_radius: the verdict.
    :param root: what was seen of the storage root, plain JSON.
    :param clock: which clock was used and how it was proven, in words.
    :param hold: topic names, patterns and ids that were not to be touched.
    :param era: the era of the log that it was made from, ``None`` where its maker did not say: earlier releases did not.
    :param only: topic names, patterns and ids that the plan is for; for all topics without any.
    :param price: by which costs are reckoned, ``None`` where no price is set; earlier releases knew of none.
    :param early: what of it goes before its storage class's minimum duration, and what that costs; ``None`` where it cannot
        be told whether it costs anything.
    :param dry_run: whether the run of DAG tasks that it was made in only says what it would do; ``None`` where it was made
        elsewhere, or nothing says so.
    """

    plan_id: Text
    cluster_id: Text
    created_at_ms: int
    expires_at_ms: int
    known: Count
    blast_radius: BlastRadius | None = None
    within_blast_radius: bool = False
    root: PlainJson = field(default_factory=dict)
    clock: Text = ""
    hold: tuple[Text, ...] = ()
    era: Annotated[ToldEra | None, AbsentAs(None)] = None
    only: Annotated[tuple[Text, ...], AbsentAs([])] = ()
    price: Annotated[StoragePrice | None, AbsentAs(None)] = None
    early: Annotated[EarlyDeletion | None, AbsentAs(None)] = None
    dry_run: Annotated[bool | None, AbsentAs(None)] = None

    FORM: ClassVar[PlanForm]

    if TYPE_CHECKING:
        # A field of one kind of plan, and a sum of the other: a property here would be the default value of that field.
        @property
        def planned(self) -> Count:
            """What would go."""

    @property
    def sha256(self) -> str:
        """What the document says its bytes are, lower-case hex: it names this very plan, and its files by their hashes."""
        return str(self._sealed()["sha256"])

    @property
    def cost_in_words(self) -> str:
        """What it saves in a month, and what it costs as it comes early; empty where no price is set."""
        if self.price is None:
            return ""
        saved = self.price.month(self.planned.bytes, self.planned.segments)
        early = early_in_words(self.price, self.early, self.FORM.goes_early)
        return f"What it deletes costs {money(saved)} a month. {early}".rstrip()

    @property
    def only_in_words(self) -> str:
        """Which topics it is for; empty where that is all of them."""
        if not self.only:
            return ""
        return f"It is for {', '.join(self.only)} only. Limits and shares count against the whole cluster."

    def check_expiry(self, now_ms: int) -> None:
        """
        Refuse a plan that may no longer be applied.

        :param now_ms: ms since the epoch.
        :raises PlanError: naming the plan and what to do.
        """
        if now_ms >= self.expires_at_ms:
            raise PlanError(
                f"plan {self.plan_id} expired {elapsed_in_words(now_ms - self.expires_at_ms)} ago; {self.FORM.again}"
            )

    def judged_by(self, blast_radius: BlastRadius) -> Self:
        """
        Return the plan with a limit and the verdict on it.

        :param blast_radius: the limit.
        """
        within = blast_radius.excess(self.planned, self.known) is None
        return replace(self, blast_radius=blast_radius, within_blast_radius=within)

    def check_blast_radius(self) -> None:
        """
        Refuse a plan that is larger than the limit that it was judged by, or was never judged.

        :raises BlastRadiusError: naming the limit, what was planned and what to do.
        :raises PlanError: if there is no verdict.
        """
        if self.blast_radius is None:
            raise PlanError(
                f"plan {self.plan_id} was not judged by a blast radius: it is none to apply, only to look at"
            )
        planned, known = self.planned, self.known
        if excess := self.blast_radius.excess(planned, known):
            raise BlastRadiusError(
                f"plan {self.plan_id} would delete {self.FORM.what_goes}{planned.segments} of "
                f"{number_of(known.segments, 'segment')}, "
                f"{planned.bytes} bytes: {excess}; {self.blast_radius.remedy(planned, known)}"
            )

    def check_verdict(self) -> None:
        """
        Refuse a verdict that is not that of its numbers; a checksum does not say who computed it.

        :raises ValueError: if it is not.
        """
        within = self.blast_radius is not None and self.blast_radius.excess(self.planned, self.known) is None
        if within != self.within_blast_radius:
            raise ValueError("the verdict on the blast radius is not that of its numbers")

    @abstractmethod
    def check_numbers(self) -> None:
        """
        Refuse numbers that cannot belong to one plan.

        :raises ValueError: naming them.
        """

    def to_json(self) -> str:
        """
        Return the document; keys of JSON objects are strings.

        :raises PlanError: if it contradicts itself or is too large: it could not be read.
        """
        what = f"the document of plan {self.plan_id}"
        return sealed_text(self, self.FORM.version, self.from_json, PlanError, what, plain=self._plain())

    @classmethod
    @abstractmethod
    def from_json(cls, text: str) -> Self:
        """
        Read the document.

        :param text: what :meth:`to_json` returned.
        :raises PlanError: if it is not, to the letter.
        """

    def _plain(self) -> dict[str, Any]:
        """Return what the document says; what earlier releases did not say is left out where it says nothing."""
        plain = without_unsaid_era(plain_of(self))
        unsaid: dict[str, object] = {"price": None, "early": None, "only": [], "dry_run": None}
        return {name: value for name, value in plain.items() if name not in unsaid or value != unsaid[name]}

    def _sealed(self) -> dict[str, Any]:
        return strict.sealed(self._plain(), self.FORM.version)
