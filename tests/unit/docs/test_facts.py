# SPDX-License-Identifier: Apache-2.0
"""
Each fact stands on one page, and the pages that are read first are short.

A page *explains* a name where a row of a table begins with it, in a table whose first heading says of what kind it is.
Other pages may use the name and link to that row.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pytest
import yaml

from airflow_provider_rlmm.core.plans.certainty import Certainty
from airflow_provider_rlmm.core.plans.limits import OVERRIDES
from airflow_provider_rlmm.core.plans.refusals import RefusalKind
from airflow_provider_rlmm.core.runs.attention import RunProblem
from airflow_provider_rlmm.features.doctor.findings import EXPLANATIONS, FindingKind, Severity
from airflow_provider_rlmm.features.retention.leader_document import LeaderProblem
from airflow_provider_rlmm.features.scrub.scrub_summary import ScrubProblem
from airflow_provider_rlmm.features.survey.inventory import SurveyedState
from airflow_provider_rlmm.provider_info import get_provider_info
from tests.unit.docs.pages import DOCS

RULES = DOCS.parent / "examples" / "monitoring" / "prometheus-rules.yml"
RED_KINDS = {k.value for k in (*RefusalKind, *RunProblem, *ScrubProblem, *LeaderProblem)}
FINDINGS = {kind.value for kind in FindingKind}
FIELDS = set(get_provider_info()["connection-types"][0]["conn-fields"])
SETTINGS = set(get_provider_info()["config"]["rlmm"]["options"])
PROMISES = {f"I{number}" for number in (*range(1, 21), 22)}  # I21 is a class of mutations: a look that sees too little
ALERTS = {rule["alert"] for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]}


class Row(NamedTuple):
    """A row of a table, with the page that it stands on and the table's headings."""

    page: str
    headings: tuple[str, ...]
    cells: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """What the row explains: the names that its first cell begins with."""
        begins = re.match(r"(?:(?:the task )?`[^`]+`,? ?(?:of `\w+`,? ?)?)+", self.cells[0])
        return re.findall(r"`([^`]+)`", begins[0]) if begins else re.findall(r"^I\d+$", self.cells[0])


def rows() -> Iterator[Row]:
    """Every row of every table of the pages."""
    for page in sorted(DOCS.rglob("*.md")):
        headings: tuple[str, ...] | None = None
        for line in page.read_text().splitlines():
            cells = tuple(cell.strip() for cell in line.strip("| ").split(" | "))
            if not line.startswith("|"):
                headings = None
            elif headings is None:
                headings = tuple(cell.strip() for cell in line.split("|")[1:-1])
            elif set(line) - set("|-: "):
                yield Row(page.relative_to(DOCS).as_posix(), headings, cells)


ROWS = list(rows())


def explained(headings: Iterable[str], *, but: str = "") -> dict[str, list[str]]:
    """Every name in tables that begin with these headings → the pages that explain it, without one page."""
    wanted = tuple(headings)
    found: dict[str, list[str]] = {}
    for row in ROWS:
        if row.headings[: len(wanted)] == wanted and row.page != but:
            for name in row.names:
                found.setdefault(name, []).append(row.page)
    return found


@pytest.mark.parametrize(
    ("page", "headings", "other", "names"),
    [
        # A kind of refusal and a finding of the doctor may have one name, and are two facts.
        ("reports.md", ["kind"], "doctor.md", RED_KINDS),
        ("doctor.md", ["kind"], "reports.md", FINDINGS),
        ("configuration.md", ["field", "in the form"], "", FIELDS),
        ("configuration.md", ["option"], "", SETTINGS),
        ("configuration.md", ["override"], "", set(OVERRIDES)),
        ("proofs.md", ["", "promise"], "", PROMISES),
        ("how-to/alarms.md", ["alarm"], "", ALERTS),
        ("terms.md", ["word", "what it means"], "", {state.value for state in SurveyedState}),
        ("operators/leader-retention.md", ["told"], "", {certainty.value for certainty in Certainty}),
    ],
    ids=["refusals", "findings", "fields", "settings", "overrides", "promises", "alarms", "states", "certainties"],
)
def test_each_is_explained_on_one_page(page: str, headings: list[str], other: str, names: set[str]) -> None:
    found = explained(headings, but=other)
    assert len(names) > 2
    assert {name: found.get(name) for name in names} == {name: [page] for name in names}


def test_options_of_the_command_are_explained_by_itself() -> None:
    assert not [row for row in ROWS if row.cells[0].startswith("`--")]
    assert ":nested: full" in (DOCS / "cli-reference.md").read_text()


def test_each_kind_says_what_to_do_and_no_row_is_of_none() -> None:
    for page, names in (("reports.md", RED_KINDS), ("doctor.md", FINDINGS)):
        kinds = [row for row in ROWS if row.page == page and row.headings[0] == "kind" and "what to do" in row.headings]
        assert {name for row in kinds for name in row.names} == names
        assert not [row for row in kinds if len(row.cells) != len(row.headings) or not all(row.cells)]


def test_what_always_harms_brokers_comes_first() -> None:
    order = [name for row in ROWS if row.page == "doctor.md" and row.headings[0] == "kind" for name in row.names]
    poison = {k.value for k, about in EXPLANATIONS.items() if "consumer of each broker that reads" in about.meaning}
    assert len(poison) >= 5
    assert set(order[: len(poison)]) == poison
    critical = {kind.value for kind, about in EXPLANATIONS.items() if about.severity is Severity.CRITICAL}
    assert critical <= set(order)


def test_no_alarm_is_of_no_rule() -> None:
    assert {name for name in explained(["alarm"]) if name.startswith("RemoteLog")} == ALERTS


@pytest.mark.parametrize(("page", "most"), [("handbook", 2_500), ("getting-started", 900), ("safety", 1_500)])
def test_a_page_that_is_read_first_is_short(page: str, most: int) -> None:
    assert len((DOCS / f"{page}.md").read_text().split()) <= most


def test_the_road_has_its_steps_in_their_order() -> None:
    steps = re.findall(r"^## (.+)$", (DOCS / "handbook.md").read_text(), re.MULTILINE)
    assert steps == ["Find", "Mark", "Wait", "Delete", "Watch", "Stop"]
