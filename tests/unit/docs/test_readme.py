# SPDX-License-Identifier: Apache-2.0
"""The README fits two screens, and names every DAG, operator and sensor."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from airflow_provider_rlmm.provider_info import get_provider_info

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text()
MOST_WORDS = 900


def test_it_has_no_more_words_than_two_screens_hold() -> None:
    assert len(re.sub(r"[|]|---+", " ", README).split()) <= MOST_WORDS


def test_it_names_every_operator_sensor_and_dag() -> None:
    index = (ROOT / "docs" / "operators" / "index.md").read_text()
    names = set(re.findall(r"^\| \[(\w+)\]", index, re.MULTILINE))
    assert len(names) > 25
    assert not {name for name in names if f"`{name}`" not in README}
    dags = {path.stem for path in (ROOT / "docs" / "dags").glob("*.md")}
    assert not {name for name in dags if f"`{name}`" not in README}


def test_pages_that_it_names_are_there() -> None:
    pages = re.findall(r"\]\((docs/[^)#]+)", README)
    assert len(pages) > 20
    assert not [page for page in pages if not (ROOT / page).is_file()]


def test_its_name_is_the_providers() -> None:
    assert README.startswith(f"# {get_provider_info()['package-name']}\n")


def test_a_package_index_shows_it_without_links_that_lead_nowhere() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "hatchling", "metadata", "readme"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert shown.startswith(README.partition("](")[0].rpartition("[")[0])
    assert not [target for target in re.findall(r"\]\(([^)]+)\)", shown) if not target.startswith("https://")]
    assert set(re.sub(r"\]\([^)]+\)|\[", "", README).splitlines()) <= {
        line.replace("[", "") for line in shown.splitlines()
    }
