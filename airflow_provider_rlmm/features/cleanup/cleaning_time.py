# SPDX-License-Identifier: Apache-2.0
"""
Since when a run deletes: ``max_minutes`` counts for the run, however many tasks or processes clean its metadata partitions.

The first of them writes it down. Two that begin at the same moment may both do so, and differ by that moment.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from airflow_provider_rlmm.core.base.documents import Text, plain_of, reader_of
from airflow_provider_rlmm.core.plans.plan import PlanSummary
from airflow_provider_rlmm.core.plans.plan_files import write_document
from airflow_provider_rlmm.features.cleanup.run_report import read_of_run

CLEANING_DOCUMENT = "cleaning.json"


@dataclass(frozen=True, slots=True)
class _Cleaning:
    plan_sha256: Text  # of the plan that is applied: a run that was planned anew begins anew
    began_at_ms: int  # ms since the epoch


def began_to_delete(uri: str, plan: PlanSummary, now_ms: int) -> int:
    """
    Return when a run began to delete, ms since the epoch; the first that asks begins now.

    :param uri: of the folder of the run.
    :param plan: that it applies.
    :param now_ms: ms since the epoch.
    :raises PlanError: if what was written down cannot be read.
    :raises OSError: if it cannot be written.
    """
    known = read_of_run(uri, CLEANING_DOCUMENT, lambda document: _READ(document, "the cleaning"))
    if known is not None and known.plan_sha256 == plan.sha256:
        return known.began_at_ms
    write_document(uri, CLEANING_DOCUMENT, json.dumps(plain_of(_Cleaning(plan.sha256, now_ms))))
    return now_ms


_READ = reader_of(_Cleaning)
