# SPDX-License-Identifier: Apache-2.0
"""How much a reader of ``docs/getting-started.md`` types and has to know, to a finding and to the first deletion."""

from __future__ import annotations

import re

from tests.page_commands import IN_A_TERMINAL, IN_AIRFLOW, ROOT, YOUR_CLUSTER, blocks, section

INSTALL = 0
"""The first block of a section installs the package, and in Airflow its DAG files."""
NOT_TO_WAIT = {"override", "min-absence-ms", "max-share"}
"""Options of those who do not wait a day for a second look: the page says so where it names them."""


def commands(block: str) -> list[str]:
    """Return the commands of a block, without comments; one that goes on in the next line is one."""
    lines = re.sub(r"\\\n\s*", " ", block).splitlines()
    return [line for line in lines if line.strip() and not line.startswith("#")]


def to_the_first(sign: str, title: str = IN_A_TERMINAL) -> list[str]:
    """Return the commands behind the installation up to the first one that has a sign in it, the one included."""
    every = [command for block in blocks(title)[INSTALL + 1 :] for command in commands(block)]
    (first, *_) = (number for number, command in enumerate(every) if sign in command)
    return every[: first + 1]


def test_three_commands_to_a_finding() -> None:
    assert len(to_the_first("rlmm orphans")) <= 3


def test_eight_commands_and_five_settings_to_the_first_deletion() -> None:
    road = to_the_first("--execute")
    assert len(road) <= 8, road
    (cluster,) = blocks(YOUR_CLUSTER)
    named = set(re.findall(r"^export (\w+)=", cluster, re.MULTILINE))
    options = set(re.findall(r"--([a-z-]+)", road[-1])) - {"config", "execute"} - NOT_TO_WAIT
    assert len(named | options) <= 5, named | options


def test_as_many_in_airflow() -> None:
    assert len(to_the_first("airflow dags test", IN_AIRFLOW)) <= 3
    road = to_the_first("--conf", IN_AIRFLOW)
    assert len(road) <= 8, road
    (cluster,) = blocks(YOUR_CLUSTER)
    named = set(re.findall(r"^export (\w+)=", cluster, re.MULTILINE))
    settings = set(re.findall(r'"([a-z_]+)":', "\n".join(road))) - {
        "dry_run",
        "min_absence_ms",
        "overrides",
        "max_share",
    }
    assert settings == {"allow_writes"}
    assert len(named | settings) <= 5


def test_eight_concepts_to_the_first_deletion() -> None:
    terms = re.findall(r"^\| \*\*(.+?)\*\* \|", (ROOT / "docs" / "terms.md").read_text("utf-8"), re.MULTILINE)
    assert len(terms) == 12
    before, _, _ = section(IN_A_TERMINAL).partition("--execute --cluster-id")
    met = [term for term in terms if re.search(rf"\b{term}", before, re.IGNORECASE)]
    assert "marker" in met
    assert len(met) <= 8, met
