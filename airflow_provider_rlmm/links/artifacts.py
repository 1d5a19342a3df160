# SPDX-License-Identifier: Apache-2.0
"""Extra links of a task instance: to the plan that it worked from and to the report that it wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urljoin

from airflow.sdk import BaseOperator, BaseOperatorLink, Context

from airflow_provider_rlmm.settings import artifact_uri, is_artifact_name

if TYPE_CHECKING:
    # Elsewhere in Airflow 3.1.
    from airflow.sdk.types import TaskInstanceKey

URL_PREFIX = "/rlmm"
"""Where the plugin's pages are mounted in the API server."""


def page_address(page: str, name: str) -> str:
    """
    Return the address of a page of this package's plugin.

    :param page: its kind, such as ``plans``.
    :param name: name of the artifact that it shows.
    """
    from airflow.providers.common.compat.sdk import conf

    base_url: str = conf.get("api", "base_url", fallback="/") or "/"
    return urljoin(base_url.rstrip("/") + "/", f"{URL_PREFIX.lstrip('/')}/{page}/{name}")


class ArtifactLink(BaseOperatorLink):
    """
    Base of the links to a page of this package's plugin.

    The operator names the artifact by :meth:`persist` while it runs; Airflow asks for the link when the task has ended
    and keeps it as an XCom.
    """

    page: ClassVar[str]
    artifact_xcom_key: ClassVar[str]

    @classmethod
    def persist(cls, context: Context, name: str) -> None:
        """
        Say which artifact the link of this task instance leads to.

        :param context: the task's context.
        :param name: name of the plan or report below ``[rlmm] work_uri``.
        :raises ConfigurationError: if it cannot be a name.
        """
        artifact_uri(name)
        context["ti"].xcom_push(key=cls.artifact_xcom_key, value=name)

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the page's address, empty where the task instance named no artifact, or something else wrote its XCom."""
        from airflow.providers.common.compat.sdk import XCom

        name: Any = XCom.get_value(ti_key=ti_key, key=self.artifact_xcom_key)
        if not isinstance(name, str) or not is_artifact_name(name):
            return ""
        return page_address(self.page, name)


class PlanLink(ArtifactLink):
    """The plan that a task made or works from."""

    name = "Plan"
    page = "plans"
    artifact_xcom_key = "rlmm_plan"


class ReportLink(ArtifactLink):
    """The report that a task wrote."""

    name = "Report"
    page = "reports"
    artifact_xcom_key = "rlmm_report"


class DoctorLink(ArtifactLink):
    """What the doctor found."""

    name = "Doctor"
    page = "doctor"
    artifact_xcom_key = "rlmm_doctor"


class LeadersLink(ArtifactLink):
    """What leaders delete next."""

    name = "Leaders"
    page = "leaders"
    artifact_xcom_key = "rlmm_leaders"


class ScrubLink(ArtifactLink):
    """What a scrub of remote storage found."""

    name = "Scrub"
    page = "scrubs"
    artifact_xcom_key = "rlmm_scrub"


class ScrubPlanLink(ArtifactLink):
    """Which of the objects that a scrub has found are to go."""

    name = "Scrub plan"
    page = "scrub-plans"
    artifact_xcom_key = "rlmm_scrub_plan"
