# SPDX-License-Identifier: Apache-2.0
"""The pages are complete: a section per public operator and hook, an entry per public name, a row per setting."""

from __future__ import annotations

import re
from dataclasses import fields
from importlib import import_module
from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag

from airflow_provider_rlmm.core.plans.approval import ApprovalLimits
from airflow_provider_rlmm.core.plans.guards import BlastRadius, CleanerLimits, ScrubLimits
from airflow_provider_rlmm.core.plans.limits import OVERRIDES
from airflow_provider_rlmm.hooks.connection import RlmmConnection
from airflow_provider_rlmm.provider_info import get_provider_info
from airflow_provider_rlmm.resources import dags_folder
from dev.configuration_page import page
from tests.unit.docs.pages import DOCS, EXAMPLES
from tests.unit.test_public_names import NAMES

CONFIGURATION = (DOCS / "configuration.md").read_text()
FACES = [name for module, name in NAMES if name.endswith(("Operator", "Hook"))]


@pytest.mark.parametrize("name", FACES)
def test_each_operator_and_hook_has_a_section_with_an_example_that_uses_it(name: str) -> None:
    assert len(FACES) > 15
    examples = [e for e in EXAMPLES if e.section == name and e.language == "python"]
    assert examples, f"no page has a section {name!r} with an example"
    assert any(re.search(rf"\b{name}[(.]", e.text) for e in examples)


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_each_public_name_is_in_the_api_reference(module: str, name: str) -> None:
    reference = "".join(file.read_text() for file in (DOCS / "api").glob("*.md"))
    whole = rf"\.\. automodule:: {re.escape(module)}\n   :members:"
    assert re.search(rf"\.\. auto\w+:: {re.escape(f'{module}.{name}')}\n", reference) or re.search(whole, reference)


def test_the_api_reference_names_nothing_that_is_not_public() -> None:
    reference = "".join(file.read_text() for file in (DOCS / "api").glob("*.md"))
    named = set(re.findall(r"\.\. auto(?:class|function):: ([\w.]+)\n", reference))
    assert named - {f"{module}.{name}" for module, name in NAMES} == set()
    for name in named:
        module, _, attribute = name.rpartition(".")
        assert hasattr(import_module(module), attribute)


def test_the_configuration_page_is_what_the_code_says() -> None:
    assert page() == CONFIGURATION, "make it anew: python -m dev.configuration_page"


def test_the_configuration_page_names_every_setting() -> None:
    bag = DagBag(dag_folder=dags_folder(), safe_mode=False)
    kinds = (RlmmConnection, CleanerLimits, BlastRadius, ScrubLimits, ApprovalLimits)
    known = {field.name for kind in kinds for field in fields(kind)} - {"conn_id"}
    known |= {param for dag in bag.dags.values() for param in dag.params}
    known |= set(get_provider_info()["config"]["rlmm"]["options"]) | set(OVERRIDES)
    assert len(known) > 40
    assert {name for name in known if f"\n| `{name}` |" not in CONFIGURATION} == set()


def test_the_form_has_every_field_of_the_connection() -> None:
    (kind,) = get_provider_info()["connection-types"]
    assert set(kind["conn-fields"]) == {field.name for field in fields(RlmmConnection)} - {"conn_id"}


def test_every_page_is_in_a_table_of_contents() -> None:
    toctrees = [
        (page.parent, line)
        for page in DOCS.rglob("*.md")
        for block in re.findall(r"^```\{toctree\}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
        for line in block.splitlines()
        if line and not line.startswith(":")
    ]
    listed = {(folder / f"{line}.md").resolve() for folder, line in toctrees}
    assert {Path(page) for page in DOCS.rglob("*.md")} - listed == {DOCS / "index.md"}
