# SPDX-License-Identifier: Apache-2.0
"""How much one plan may delete."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_rlmm.errors import BlastRadiusError
from airflow_provider_rlmm.policy import values

if TYPE_CHECKING:
    from airflow_provider_rlmm.policy.plan import Count, PlanSummary


@dataclass(frozen=True, slots=True)
class BlastRadius:
    """
    The most that one plan may delete.

    :param max_segments: segments.
    :param max_bytes: bytes.
    :param max_share: share of all known segments of the cluster, 0 to 1.
    :raises ConfigurationError: on a limit of another kind or out of its range.
    """

    max_segments: int = 100_000
    max_bytes: int = 10 * 2**40
    max_share: float = 0.5

    def __post_init__(self) -> None:
        values.integer("max_segments", self.max_segments)
        values.integer("max_bytes", self.max_bytes)
        values.share("max_share", self.max_share)

    def excess(self, planned: Count, known: Count) -> str | None:
        """
        Return which limit is passed, and by what; ``None`` where none is.

        :param planned: what would go.
        :param known: all there is.
        """
        share = planned.segments / known.segments if known.segments else float(planned.segments > 0)
        for name, value, limit in (
            ("max_segments", planned.segments, self.max_segments),
            ("max_bytes", planned.bytes, self.max_bytes),
            ("max_share", share, self.max_share),
        ):
            if value > limit:
                return f"{name} is {value}, the limit {limit}"
        return None

    def check(self, summary: PlanSummary) -> None:
        """
        Stop a plan that is too large.

        :param summary: the plan's summary.
        :raises BlastRadiusError: naming the limit, what was planned and what to do.
        """
        planned, known = summary.planned, summary.known
        if excess := self.excess(planned, known):
            raise BlastRadiusError(
                f"plan {summary.plan_id} would delete {planned.segments} of {known.segments} segments, "
                f"{planned.bytes} bytes: {excess}; look at the plan, then raise the limit for this run by name"
            )
