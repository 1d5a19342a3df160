# SPDX-License-Identifier: Apache-2.0
"""``docs/handbook.md`` has a row for each kind that makes a run red, each finding of the doctor and each alert rule."""

from __future__ import annotations

import re

import pytest
import yaml

from airflow_provider_rlmm.core.plans.refusals import RefusalKind
from airflow_provider_rlmm.core.runs.attention import RunProblem
from airflow_provider_rlmm.features.doctor.findings import EXPLANATIONS, FindingKind, Severity
from airflow_provider_rlmm.features.retention.leader_document import LeaderProblem
from airflow_provider_rlmm.features.scrub.scrub_summary import ScrubProblem
from tests.unit.docs.pages import DOCS

PAGE = (DOCS / "handbook.md").read_text()
RULES = DOCS.parent / "examples" / "monitoring" / "prometheus-rules.yml"


def rows(section: str) -> dict[str, list[str]]:
    """What the first column of a section's table names → the other columns."""
    (text,) = re.findall(rf"^## {section}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    lines = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")][2:]
    return {name: [cell.strip() for cell in rest] for first, *rest in lines for name in re.findall(r"`(\w+)`", first)}


@pytest.mark.parametrize(
    ("section", "kinds"),
    [
        (
            "Red kinds of runs",
            {
                k.value
                for k in (*RefusalKind, *RunProblem, *ScrubProblem, *LeaderProblem)
                if getattr(k, "needs_person", True)
            },
        ),
        ("What the doctor finds", {kind.value for kind in FindingKind}),
    ],
)
def test_each_kind_has_a_row_with_what_to_do_and_no_row_is_of_none(section: str, kinds: set[str]) -> None:
    found = rows(section)
    assert found.keys() == kinds
    assert [name for name, cells in found.items() if not all(cells)] == []


def test_what_always_harms_brokers_comes_first() -> None:
    order = list(rows("What the doctor finds"))
    poison = {
        kind.value for kind, about in EXPLANATIONS.items() if "consumer of each broker that reads" in about.meaning
    }
    assert len(poison) >= 5
    assert set(order[: len(poison)]) == poison
    critical = {kind.value for kind, about in EXPLANATIONS.items() if about.severity is Severity.CRITICAL}
    assert critical <= set(order)


def test_each_alert_rule_has_a_row() -> None:
    named = {rule["alert"] for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]}
    found = rows("Alarms")
    assert named <= found.keys()
    assert {name for name in found if name.startswith("RemoteLog")} == named
