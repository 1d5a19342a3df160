# SPDX-License-Identifier: Apache-2.0
"""A person reads of what this person can type: pages and tasks name no option of a command, a terminal no DAG and no form."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_rlmm.cli.face import _options_of, in_words_of
from airflow_provider_rlmm.cli.main import rlmm
from airflow_provider_rlmm.core.base import given as said
from airflow_provider_rlmm.core.base.declarations import Declared
from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.plans import limits
from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.core.plans.guards import BlastRadius
from airflow_provider_rlmm.core.records.lost_records import HistoryGap, LostRecords
from airflow_provider_rlmm.core.storage.logins.named import no_credentials

PACKAGE = Path(__file__).parents[3] / "airflow_provider_rlmm"
DECLARING = (
    "core.plans.limits", "core.runs.connection_fields", "core.runs.run_parameters", "core.runs.installation_options",
    "features.doctor.rules", "features.copying.rules",
)  # fmt: skip
OPTION = re.compile(r"(?<![\w-])--[a-z]")
OF_AIRFLOW = re.compile(
    r"(?i)\bparameters? of\b|\bby the parameter|\bDAG\b|\bform field|\bfield of the form|\bof the operator\b"
)
# Options of other tools, and of commands that a page may show to be typed in a shell.
COMMANDS = re.compile(
    r"'(?:rlmm|gcloud|az|aws|kafka-[a-z-]+\.sh)\b[^']*'?|kafka-get-offsets\.sh --time earliest|pip install .*"
)
ELSEWHERE = (
    "cli/", "features/retention/spark/", "features/first_aid/", "operators/retention.py", "operators/spark_",
    "core/storage/listing_order.py", "core/storage/opening.py", "core/storage/bucket_settings.py", "core/storage/logins/a",
)  # fmt: skip
"""Of the command alone, of spark-submit, of Kafka's tools, of a store's own: lists of arguments, and names of buckets."""
_OF_VERIFY = " --topic=."
"""A piece of the line 'rlmm verify …' that is to be typed."""


def all_declared() -> list[Declared[Any]]:
    found = {}
    for module in DECLARING:
        for one in vars(import_module(f"airflow_provider_rlmm.{module}")).values():
            for declared in one if isinstance(one, tuple) else (one,):
                if isinstance(declared, Declared):
                    found[module, declared.name] = declared
    return list(found.values())


DECLARED = all_declared()


def options_of_all() -> Mapping[str, str]:
    found: dict[str, str] = {}
    for command in rlmm.commands.values():
        found |= _options_of(click.Context(command))
    return found


OPTIONS = options_of_all()


def is_for_airflow(text: str) -> bool:
    return OPTION.search(COMMANDS.sub("", text)) is None


def is_for_a_terminal(text: str) -> bool:
    return OF_AIRFLOW.search(text) is None


@pytest.mark.parametrize("declared", DECLARED, ids=lambda one: one.name)
def test_each_face_says_of_a_setting_what_is_typed_there(declared: Declared[Any]) -> None:
    texts = [declared.sentence, declared.title, declared.absent or ""]
    for value in (object(), -1, 2.5, "\nnonsense", 10**30, ["x" * 300], {"x"}):
        try:
            declared.check(value)
        except ConfigurationError as e:
            texts.append(str(e))
        except (TypeError, AttributeError, ValueError):
            continue
    for text in texts:
        assert is_for_airflow(text), text
        if declared not in vars(import_module("airflow_provider_rlmm.core.runs.installation_options")).values():
            assert is_for_a_terminal(in_words_of(text, OPTIONS)), text


@pytest.mark.parametrize("names", [(one.name,) for one in DECLARED] + [tuple(one.name for one in limits.BLAST_RADIUS)])
def test_what_is_given_by_a_parameter_is_given_by_an_option_in_a_terminal(names: tuple[str, ...]) -> None:
    text = f"refused; go on by {said.parameters(dict.fromkeys(names, 7))}, then look"
    assert is_for_airflow(text)
    assert all(f'"{name}": 7' in text for name in names)
    there = in_words_of(text, OPTIONS)
    assert is_for_a_terminal(there), there
    assert there.startswith("refused; go on by ")
    assert there.endswith(", then look")
    assert there.replace("'rlmm clean --execute ", "").count("--") == len(names)


@given(planned=st.integers(1, 10**9), size=st.integers(0, 10**15), known=st.integers(1, 10**9))
def test_the_remedy_of_a_limit_is_typed_as_it_stands(planned: int, size: int, known: int) -> None:
    radius = BlastRadius(1, 1, 0.5)
    if radius.excess(Count(planned, size), Count(known, size)) is None:
        return
    text, least = (
        radius.remedy(Count(planned, size), Count(known, size)),
        radius.least(Count(planned, size), Count(known, size)),
    )
    assert is_for_airflow(text)
    there = in_words_of(text, OPTIONS)
    assert is_for_a_terminal(there)
    given_there = dict(re.findall(r"--([a-z-]+) (\S+)", there))
    assert {name.replace("-", "_"): float(value) for name, value in given_there.items()} == least


@given(value=st.one_of(st.text(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.just(True)))
def test_what_is_said_is_found_again(value: object) -> None:
    for text in (said.parameters({"a_b": value, "c": 1}), said.parameters({"a_b": value}, said.DELETING_DAGS)):
        found: list[Mapping[str, Any]] = []
        assert said.said_otherwise(f"by {text}.", lambda one, found=found: found.append(one) or "it") == "by it."
        assert found[0]["a_b"] == value
    found = []
    said.said_otherwise(said.argument("name", value), lambda one: found.append(one) or "")
    assert found == [{"name": value}]


def test_remedies_besides_limits_are_of_one_face_each() -> None:
    gap = HistoryGap(3, 17, 19)
    loss = LostRecords(3, 24, 14)
    for text in (
        gap.what_to_do, loss.what_to_do, str(no_credentials("S3", "no profile gives any")), said.argument("lineages", "ID"),
        said.argument("snapshots"),
    ):  # fmt: skip
        assert is_for_airflow(text), text
        there = in_words_of(text, OPTIONS)
        assert is_for_a_terminal(there), there
        assert "--" in there
    assert "--instance-metadata" in in_words_of(str(no_credentials("S3", "none")), OPTIONS)
    assert in_words_of(said.argument("output_uri"), {"output_uri": "--output"}) == "--output"


def texts_of(source: str) -> Iterator[str]:
    """Yield each text of a module that is no docstring; what is put into one is a dot."""
    tree = ast.parse(source)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    pieces = {id(piece) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for piece in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(piece.value) if isinstance(piece, ast.Constant) else "." for piece in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and not {id(node)} & (docstrings | pieces):
            yield node.value


def test_no_text_of_a_page_or_of_a_task_names_an_option() -> None:
    found = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        where = str(file.relative_to(PACKAGE))
        if not where.startswith(ELSEWHERE):
            found[where] = [
                text
                for text in texts_of(file.read_text())
                if " " in text and text != _OF_VERIFY and not is_for_airflow(text)
            ]
    for file in sorted((PACKAGE / "plugins/templates").glob("*.html")):
        shown = re.sub(r"<pre[^>]*>rlmm .*?</pre>", "", file.read_text())
        found[file.name] = OPTION.findall(shown)
    assert len(found) > 200
    assert {where: texts for where, texts in found.items() if texts} == {}


def test_it_sees_what_it_looks_for() -> None:
    assert not is_for_airflow("raise it by --max-share 0.6")
    assert is_for_airflow("type 'rlmm clean --execute' on the machine")
    assert not is_for_a_terminal('by the parameter "max_share": 0.6 of the DAG')
    assert list(texts_of('"""--doc"""\nx = f"say --a {b}"')) == ["say --a ."]
