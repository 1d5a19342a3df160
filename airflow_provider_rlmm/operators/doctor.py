# SPDX-License-Identifier: Apache-2.0
"""The doctor of ``__remote_log_metadata`` as an operator."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import Context

from airflow_provider_rlmm.core.base.errors import UnhealthyTopicError
from airflow_provider_rlmm.core.runs.attention import Judgement
from airflow_provider_rlmm.core.runs.steps import step
from airflow_provider_rlmm.features.doctor.rules import LIMIT_PER_KIND, MAX_COPY, MIN_AGE
from airflow_provider_rlmm.hooks.metadata import RemoteLogMetadataHook
from airflow_provider_rlmm.links.artifacts import DoctorLink
from airflow_provider_rlmm.operators.arguments import artifact_name, declared_as, flag, read_by, text
from airflow_provider_rlmm.operators.checked import CheckedOperator
from airflow_provider_rlmm.operators.failing import HOW_TO_ACKNOWLEDGE, judged
from airflow_provider_rlmm.operators.history import facts_of, keep_summary
from airflow_provider_rlmm.settings import artifact_uri, work_uri

__all__ = ["RemoteLogMetadataDoctorOperator"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _DoctorArguments:
    min_age_ms: int = declared_as(MIN_AGE)
    max_copy_ms: int = declared_as(MAX_COPY)
    limit_per_kind: int = declared_as(LIMIT_PER_KIND)
    fail_on_critical: bool = read_by(flag, True)
    rlmm_conn_id: str = read_by(text, "rlmm_default")


class RemoteLogMetadataDoctorOperator(CheckedOperator[_DoctorArguments]):
    """
    Examine the whole metadata topic and report what is wrong with it; nothing is written to the topic.

    :param min_age_ms: from what age on unfinished work counts as stuck, ms.
    :param max_copy_ms: for how long a living topic's partition may begin copies and finish none, ms.
    :param limit_per_kind: findings of one kind that the report holds; all are counted.
    :param fail_on_critical: fail the task, after the report is written, as long as a finding needs a person and is not
        acknowledged (Airflow variable ``rlmm_acknowledgements``).
    :param rlmm_conn_id: connection of type ``rlmm``.
    :return: ``records``, ``segments``, ``critical``, ``counts`` per kind of finding and the ``report``'s directory.
    :raises UnhealthyTopicError: naming the first such finding.
    :raises AirflowFailException: if the run's summary cannot be kept.
    :raises EventLogError: if the topic cannot be read.
    """

    template_fields: Sequence[str] = ("min_age_ms", "max_copy_ms", "limit_per_kind", "fail_on_critical", "rlmm_conn_id")
    arguments = _DoctorArguments
    operator_extra_links = (DoctorLink(),)
    ui_color = "#f9e2c8"

    def __init__(
        self,
        *,
        min_age_ms: int | str = MIN_AGE.default,
        max_copy_ms: int | str = MAX_COPY.default,
        limit_per_kind: int | str = LIMIT_PER_KIND.default,
        fail_on_critical: bool | str = True,
        rlmm_conn_id: str = "rlmm_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.min_age_ms = min_age_ms
        self.max_copy_ms = max_copy_ms
        self.limit_per_kind = limit_per_kind
        self.fail_on_critical = fail_on_critical
        self.rlmm_conn_id = rlmm_conn_id
        self.check_literals()

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_provider_rlmm.core.base.documents import plain_of
        from airflow_provider_rlmm.core.base.work_folder import DOCTOR_DOCUMENT
        from airflow_provider_rlmm.core.plans.plan_files import write_document
        from airflow_provider_rlmm.core.runs.floors import reading
        from airflow_provider_rlmm.features.doctor.criticals import criticals_of
        from airflow_provider_rlmm.features.doctor.diagnosis import ReportedDiagnosis
        from airflow_provider_rlmm.features.doctor.examine import examine
        from airflow_provider_rlmm.overview.leaders import remembered_leaders
        from airflow_provider_rlmm.overview.run_summaries import doctor_summary

        read, name = self.read_arguments(), artifact_name(context)
        hook = RemoteLogMetadataHook(read.rlmm_conn_id)
        with reading(hook, work_uri()) as log:
            topics = hook.get_cluster_topics()
            with step(artifact_uri(name), "doctor"):
                diagnosis = examine(
                    log,
                    topics,
                    min_age_ms=read.min_age_ms,
                    max_copy_ms=read.max_copy_ms,
                    limit_per_kind=read.limit_per_kind,
                    leaders=partial(remembered_leaders, work_uri()),
                )
        document, uri = ReportedDiagnosis.of(diagnosis), artifact_uri(name)
        write_document(uri, DOCTOR_DOCUMENT, json.dumps(plain_of(document), indent=2))
        DoctorLink.persist(context, name)
        for finding in diagnosis.findings:
            self.log.warning("%s", finding)
        for recovery in diagnosis.recoveries:
            self.log.warning("What recovery costs: %s", recovery)
        self.log.info("%s", diagnosis.preflight)
        result = self.told(
            {
                "records": document.records,
                "segments": document.segments,
                "critical": document.critical,
                "counts": dict(document.counts),
                "report": uri,
            }
        )
        judgement = Judgement()
        if read.fail_on_critical:
            judgement = judged(self.log, criticals_of(document), document.cluster_id)
        facts = facts_of(context, read.rlmm_conn_id)
        unkept = keep_summary(lambda: doctor_summary(facts, document, judgement))
        if judgement.failing:
            said = f"{judgement.headline()} The report is {uri}. {HOW_TO_ACKNOWLEDGE}"
            raise UnhealthyTopicError(f"{said} {unkept}".rstrip())
        if unkept:
            raise AirflowFailException(unkept)
        return result
