# SPDX-License-Identifier: Apache-2.0
"""The table of mutations is true: of the code, of the tests that it names, and of the page that prints it."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.mutations.table import MUTATIONS, Mutation, as_markdown

ROOT = Path(__file__).parents[2]


@cache
def text_of(file: str) -> str:
    return (ROOT / file).read_text()


@cache
def ends_of_statements(file: str) -> list[int]:
    """Return where each statement of a module ends, beginning with the beginning."""
    source = text_of(file)
    lines = [0, *(line.end() for line in re.finditer("\n", source))]
    return [0, *(lines[node.end_lineno or 0] for node in ast.parse(source).body[:-1]), len(source)]


def statements_around(file: str, text: str) -> tuple[int, int]:
    """Return where the statements begin and end that hold a text: compiling them alone takes a fraction of the time."""
    ends, at = ends_of_statements(file), text_of(file).index(text)
    return max(end for end in ends if end <= at), min(end for end in ends if end >= at + len(text))


@cache
def functions_of(file: str) -> list[str]:
    return re.findall(r"^ *def (\w+)", text_of(file), re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.name)
def test_each_mutation_fits_the_code_and_names_tests_that_exist(mutation: Mutation) -> None:
    source = text_of(f"airflow_provider_rlmm/{mutation.file}")
    assert source.count(mutation.old) == 1
    first, behind = statements_around(f"airflow_provider_rlmm/{mutation.file}", mutation.old)
    compile(source[first:behind].replace(mutation.old, mutation.new), mutation.file, "exec")
    assert mutation.test or mutation.simulated
    if mutation.test:
        file, _, function = mutation.test.partition("::")
        function = function.rpartition("::")[2] or "test_"
        assert any(name.startswith(function) for name in functions_of(f"tests/unit/{file}"))


def test_names_are_unique_and_every_invariant_is_broken_in_the_simulation_too() -> None:
    assert len({m.name for m in MUTATIONS}) == len(MUTATIONS)
    simulated = {m.promise for m in MUTATIONS if m.simulated}
    assert simulated >= {f"I{number}" for number in range(1, 9)}


def test_the_page_prints_the_table() -> None:
    page = (ROOT / "docs" / "proofs.md").read_text()
    assert page.endswith(as_markdown()), "print it with `python -m tests.mutations --table`"


def test_every_test_that_the_page_names_exists() -> None:
    named = set(re.findall(r"`([\w/]+\.py)::(\w+)`", (ROOT / "docs" / "proofs.md").read_text()))
    assert len(named) > 40
    missing = [
        f"{file}::{function}"
        for file, function in named
        if not (path := ROOT / "tests" / file).is_file()
        or not re.search(rf"^ *def {function}\(", path.read_text(), re.MULTILINE)
    ]
    assert missing == []


def test_every_test_that_the_table_of_faults_names_exists() -> None:
    named = set(re.findall(r"`[\w.…]+::(test_\w+)`", (ROOT / "docs" / "storage.md").read_text()))
    assert len(named) > 15
    folders = ("unit/core/storage", "unit/airflow/hooks", "unit/features/scrub", "stores")
    sources = "".join(path.read_text() for folder in folders for path in (ROOT / "tests" / folder).glob("test_*.py"))
    assert {name for name in named if f"def {name}(" not in sources} == set()


def test_the_page_of_promises_can_be_read_at_one_sitting_and_names_invariants_that_are_proved() -> None:
    promises = (ROOT / "docs" / "safety.md").read_text()
    assert len(promises.split()) <= 1_500
    named = set(re.findall(r"\bI\d+\b", promises))
    proved = set(re.findall(r"^\| (I\d+) \|", (ROOT / "docs" / "proofs.md").read_text(), re.MULTILINE))
    assert len(named) >= 15
    assert named <= proved
