# SPDX-License-Identifier: Apache-2.0
"""Who deletes: the run, who started it, who approved it, and by which plan."""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = ["RunIdentity"]


@dataclass(frozen=True, slots=True)
class RunIdentity:
    """
    What is written down with everything that a run deletes.

    :param dag_id: the DAG; of the command ``rlmm``, its subcommand (``rlmm clean``).
    :param run_id: the run of the DAG; of the command, the same as ``artifact``.
    :param artifact: name of the run's folder below the work folder.
    :param triggered_by: name of the user who started it; where no user did, why it runs (``scheduled``, ``asset_triggered``).
    :param approved_by: name of the user who approved its plan, ``None`` where no person was asked.
    :param plan_id: the plan that it applies, ``None`` as long as there is none.
    :param plan_sha256: of that plan, as its summary says, lower-case hex; ``None`` as long as there is none.
    """

    dag_id: str
    run_id: str
    artifact: str
    triggered_by: str
    approved_by: str | None = None
    plan_id: str | None = None
    plan_sha256: str | None = None

    def applying(self, plan_id: str, plan_sha256: str) -> RunIdentity:
        """
        Return the identity of the run as it applies a plan.

        :param plan_id: the plan.
        :param plan_sha256: of the plan, lower-case hex.
        """
        return replace(self, plan_id=plan_id, plan_sha256=plan_sha256)
