# SPDX-License-Identifier: Apache-2.0
"""A DAG of a user's own: a group of tasks for each cluster, and a message about each run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from airflow.sdk import DAG

from airflow_provider_rlmm.notifications.remote_log import RemoteLogNotifier
from airflow_provider_rlmm.task_groups.remote_log_cleanup import RemoteLogCleanupTaskGroup


def keep(context: Any) -> None:
    """Deliver a message: a file below the work folder has it."""
    message = context["rlmm"]
    folder = Path(os.environ["AIRFLOW__RLMM__WORK_URI"]) / "messages"
    folder.mkdir(exist_ok=True)
    (folder / f"{context['run_id']}.txt".replace(":", "-")).write_text(f"{message.subject}\n{message.text}")


told = RemoteLogNotifier(keep)
with DAG(
    "nightly", schedule=None, catchup=False, max_active_runs=1, render_template_as_native_obj=True,
    on_success_callback=told, on_failure_callback=told,
):  # fmt: skip
    for name in ("east", "west"):
        RemoteLogCleanupTaskGroup(
            name, name, dry_run_only=False, limits={"min_absence_ms": 0, "overrides": ["short_min_absence"]},
            blast_radius={"max_share": 1.0}, approve_above={"approve_above_segments": 0}, answer_within="10 min",
        )  # fmt: skip
