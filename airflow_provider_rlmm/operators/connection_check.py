# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a connection, and what a run asks before it begins, as a task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import Context

from airflow_provider_rlmm.core.base.agreement import agreeing, number_of
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.hooks.metadata import RemoteLogMetadataHook
from airflow_provider_rlmm.observability.lineage import Place, Touched
from airflow_provider_rlmm.operators.arguments import read_by, text
from airflow_provider_rlmm.operators.checked import CheckedOperator
from airflow_provider_rlmm.operators.session import session_of

__all__ = ["RemoteLogCheckOperator"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _CheckArguments:
    rlmm_conn_id: str = read_by(text, "rlmm_default")


class RemoteLogCheckOperator(CheckedOperator[_CheckArguments]):
    """
    Look at everything that a connection names: cluster, metadata topic, permissions, layout, storage, and whether deletion
    frees space there; then ask of the storage what every run asks before it begins. Nothing is changed.

    :param rlmm_conn_id: connection of type ``rlmm``.
    :return: what was found, one ``finding`` each, and whether it is ``good``.
    :raises AirflowFailException: naming how many findings are not as they should be, and the first of them.
    """

    template_fields: Sequence[str] = ("rlmm_conn_id",)
    arguments = _CheckArguments
    ui_color = "#d9d2e9"
    touched = Touched(reads=(Place.TOPIC, Place.STORAGE))

    def __init__(self, *, rlmm_conn_id: str = "rlmm_default", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.rlmm_conn_id = rlmm_conn_id
        self.check_literals()

    def execute(self, context: Context) -> list[dict[str, Any]]:
        from airflow_provider_rlmm.features.cleanup.whole_check import check_whole

        conn_id = self.read_arguments().rlmm_conn_id
        findings = check_whole(
            RemoteLogMetadataHook(conn_id), lambda: session_of(context, conn_id, CleanerLimits(), dry_run=True)
        )
        for good, sentence in findings:
            (self.log.info if good else self.log.error)("%s", sentence)
        if bad := [sentence for good, sentence in findings if not good]:
            raise AirflowFailException(
                f"{len(bad)} of {number_of(len(findings), 'finding')} {agreeing(len(bad), 'needs', 'need')} a "
                f"person. The first: {bad[0]}"
            )
        return [{"good": good, "finding": sentence} for good, sentence in findings]
