# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from airflow_provider_rlmm.core.world.run_identity import RunIdentity


def test_a_run_that_applies_a_plan_is_still_who_it_was() -> None:
    run = RunIdentity("remote_log_cleaner", "manual__1", "remote_log_cleaner.manual__1", "ada", approved_by="grace")
    applying = run.applying("plan-1", "ab" * 32)
    assert (run.plan_id, run.plan_sha256) == (None, None)
    assert applying == RunIdentity(
        run.dag_id, run.run_id, run.artifact, "ada", approved_by="grace", plan_id="plan-1", plan_sha256="ab" * 32
    )
