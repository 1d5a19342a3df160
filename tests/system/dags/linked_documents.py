# SPDX-License-Identifier: Apache-2.0
"""A task that names a plan and a report, so that the links and the pages behind them can be followed."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, BaseOperator, Context

from airflow_provider_rlmm.links.artifacts import PlanLink, ReportLink


class NamesItsDocuments(BaseOperator):
    operator_extra_links = (PlanLink(), ReportLink())

    def execute(self, context: Context) -> Any:
        PlanLink.persist(context, "plan-1")
        ReportLink.persist(context, "report-1")
        return {"linked": 2}


with DAG("linked_documents", schedule=None):
    NamesItsDocuments.partial(task_id="work").expand(doc_md=["one", "two"])
