# SPDX-License-Identifier: Apache-2.0
"""
What the type checker has to refuse about operators' arguments: ``make lint`` fails where it refuses one of these no more.

Each comment names the error, and one that is not found is an error itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_rlmm.operators.approval import ApproveRemoteStorageScrubOperator
from airflow_provider_rlmm.operators.arguments import read_by, text_or_none
from airflow_provider_rlmm.operators.scrub import DeleteScrubbedObjectsOperator
from airflow_provider_rlmm.sensors.remote_log_gone import RemoteLogGoneSensor


def misspelt(
    delete: DeleteScrubbedObjectsOperator, approve: ApproveRemoteStorageScrubOperator, gone: RemoteLogGoneSensor
) -> list[object]:
    """Name arguments that there are not."""
    return [
        delete.read_arguments().dry_run_onyl,  # type: ignore[attr-defined]
        approve.read_arguments().aprove_above,  # type: ignore[attr-defined]
        gone.read_arguments().topic_ids,  # type: ignore[attr-defined]
    ]


def written(delete: DeleteScrubbedObjectsOperator) -> None:
    """Change what was read."""
    delete.read_arguments().dry_run_only = False  # type: ignore[misc]


@dataclass(frozen=True)
class OfAnotherKind:
    """A field whose reader returns something else."""

    source_plan: str = read_by(text_or_none)  # type: ignore[assignment]
