# SPDX-License-Identifier: Apache-2.0
"""The page of public names is true."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator

import pytest

from dev.public_names_page import PAGE, ROOT, page, public_names, what_it_is

NAMES = list(public_names())


@pytest.mark.slow
@pytest.mark.parametrize(("module", "name"), NAMES)
def test_a_public_name_is_there_and_says_what_it_is(module: str, name: str) -> None:
    assert what_it_is(module, name).endswith((".", ":"))


@pytest.mark.slow
def test_the_page_is_what_the_code_says() -> None:
    assert page() == PAGE.read_text(), "make it anew: python -m dev.public_names_page"
    assert {module for module, _ in NAMES} == set(re.findall(r"^\| `([\w.]+)`", page(), re.MULTILINE))


def test_the_page_lists_what_airflow_is_told_of() -> None:
    from airflow_provider_rlmm.provider_info import get_provider_info

    told = {
        module
        for part in ("hooks", "operators")
        for entry in get_provider_info()[part]
        for module in entry["python-modules"]
    }
    assert told <= {module for module, _ in NAMES}


def shown_code() -> Iterator[tuple[str, str]]:
    """Yield where users are shown Python, and the Python."""
    for folder in ("dags", "examples"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield str(path.relative_to(ROOT)), path.read_text()
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for block in re.findall(r"^ *```python\n(.*?)```", path.read_text(), re.DOTALL | re.MULTILINE):
            yield str(path.relative_to(ROOT)), textwrap.dedent(block)


def imported(code: str) -> Iterator[tuple[str, str]]:
    """Yield module and name of what some Python imports from this package, the name empty where it is the module."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("airflow_provider_rlmm"):
            yield from ((node.module or "", alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((a.name, "") for a in node.names if a.name.startswith("airflow_provider_rlmm"))


def test_users_are_shown_imports_of_public_names_alone() -> None:
    found = {(*what, where) for where, code in shown_code() for what in imported(code)}
    assert len(found) > len({where for *_, where in found}) > 10
    assert not {what for what in found if what[:2] not in NAMES}
