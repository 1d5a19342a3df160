# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.links.artifacts import (
    ArtifactLink,
    DoctorLink,
    PlanLink,
    ReportLink,
    ScrubLink,
    ScrubPlanLink,
)
from airflow_provider_rlmm.plugins.rlmm_plugin import RlmmPlugin

KEY = SimpleNamespace(dag_id="d", task_id="t", run_id="r", map_index=2, try_number=1)


@pytest.fixture
def xcoms(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    store: dict[str, Any] = {}

    def get_value(*, ti_key: Any, key: str) -> Any:
        assert ti_key is KEY
        return store.get(key)

    monkeypatch.setattr("airflow.sdk.execution_time.xcom.XCom.get_value", get_value)
    return store


def context(store: dict[str, Any]) -> Any:
    return {"ti": SimpleNamespace(xcom_push=lambda key, value: store.update({key: value}))}


@pytest.mark.parametrize(
    ("link", "page"),
    [
        (PlanLink, "plans"), (ReportLink, "reports"), (DoctorLink, "doctor"), (ScrubLink, "scrubs"),
        (ScrubPlanLink, "scrub-plans"),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    ("base_url", "expected"),
    [("http://host:8080", "http://host:8080"), ("https://host/airflow/", "https://host/airflow")],
)
def test_a_link_leads_to_the_page_of_what_the_task_named(
    monkeypatch: pytest.MonkeyPatch,
    xcoms: dict[str, Any],
    link: type[ArtifactLink],
    page: str,
    base_url: str,
    expected: str,
) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", base_url)
    link.persist(context(xcoms), "2026-01-01.abc")
    assert link().get_link(None, ti_key=KEY) == f"{expected}/rlmm/{page}/2026-01-01.abc"  # type: ignore[abstract, arg-type]


def test_a_task_that_named_nothing_has_no_link(xcoms: dict[str, Any]) -> None:
    assert PlanLink().get_link(None, ti_key=KEY) == ""  # type: ignore[arg-type]


def test_the_two_links_of_one_task_do_not_mix(xcoms: dict[str, Any]) -> None:
    PlanLink.persist(context(xcoms), "plan")
    ReportLink.persist(context(xcoms), "report")
    assert PlanLink().get_link(None, ti_key=KEY).endswith("/plans/plan")  # type: ignore[arg-type]
    assert ReportLink().get_link(None, ti_key=KEY).endswith("/reports/report")  # type: ignore[arg-type]
    assert (PlanLink().name, PlanLink().xcom_key) == ("Plan", "_link_PlanLink")


def test_a_name_that_walks_is_refused_before_it_is_stored(xcoms: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="cannot name a plan or a report"):
        PlanLink.persist(context(xcoms), "../secret")
    assert xcoms == {}


def test_the_plugin_mounts_the_pages_once_where_the_links_lead() -> None:
    assert [entry["url_prefix"] for entry in RlmmPlugin.fastapi_apps] == ["/rlmm"]
    assert RlmmPlugin.fastapi_apps is RlmmPlugin.fastapi_apps


@pytest.mark.parametrize("name", ["../../logout", "a/b", "//elsewhere.example.com", "a?b", 7, None, ""])
def test_what_is_no_name_makes_no_link(xcoms: dict[str, Any], name: Any) -> None:
    xcoms["rlmm_plan"] = name
    assert PlanLink().get_link(None, ti_key=KEY) == ""  # type: ignore[arg-type]
