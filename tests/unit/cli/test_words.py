# SPDX-License-Identifier: Apache-2.0
"""Help and messages of the command use the words of ``docs/terms.md``, and read at once."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from airflow_provider_rlmm import cli
from airflow_provider_rlmm.cli import main as command

WRONG = {
    r"\b\d{6,} ?ms\b": "say a duration in words",
    r"\b(?=[A-Za-z0-9_-]*[0-9])[A-Za-z0-9_-]{4,}…": "an id is never cut",
    r"\b(?:[Ss]omebody|[Ss]omeone|[Nn]obody|[Ww]hoever|[Ww]hatever|[Ww]homever|[Aa]nybody)\b": "name who it is",
    r"\b(?:[Ll]eft-over|[Ll]eftover|[Ll]eft over)\b": "orphaned, or what it is",
    r"\b(?:[Uu]nlisted|[Uu]nclaimed|[Ss]tray|[Zz]ombie)\b": "a word of docs/terms.md",
    r"\b(?:in|of) the (?:rlmm )?connection\b|\bAirflow connection\b": "a terminal has options and a configuration file",
    r"\b(?:trigger form|the form)\b": "a terminal has no form",
}
"""What no text of the command says → what it says instead."""


def texts_of_help() -> Iterator[tuple[str, str]]:
    for name, one in command.rlmm.commands.items():
        context = click.Context(one, info_name=name)
        yield f"rlmm {name}", " ".join((one.help or "").split())
        for param in one.get_params(context):
            yield f"rlmm {name} {param.name}", " ".join((getattr(param, "help", None) or "").split())


def texts_of_messages() -> Iterator[tuple[str, str]]:
    """Yield the texts in the sources of the command that are no docstrings and no names."""
    for path in sorted(Path(cli.__file__).parent.glob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        told = [node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)]
        patterns = {id(part) for node in ast.walk(tree) if _is_pattern(node) for part in ast.walk(node)}
        for node in ast.walk(tree):
            if not isinstance(node, ast.Constant) or node in told or id(node) in patterns:
                continue
            if isinstance(node.value, str) and " " in node.value:
                yield f"{path.name}:{node.lineno}", node.value


def _is_pattern(node: ast.AST) -> bool:
    """Tell whether something is a regular expression: it names what it takes away."""
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "re.compile"


def wrong_in(text: str) -> list[str]:
    return [f"{found[0]!r}: {advice}" for pattern, advice in WRONG.items() for found in re.finditer(pattern, text)]


def test_help_and_messages_use_our_words() -> None:
    found = [
        f"{where}: {wrong}"
        for t in (texts_of_help, texts_of_messages)
        for where, text in t()
        for wrong in wrong_in(text)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "it waits 86400000 ms", "segment g9LiIua4… is there", "whoever deletes", "segments that are left over",
        "set layout in the rlmm connection", "see the trigger form",
    ],
)  # fmt: skip
def test_what_it_looks_for_is_found(text: str) -> None:
    assert len(wrong_in(text)) == 1


def test_texts_are_looked_at() -> None:
    assert len(list(texts_of_help())) > 300
    assert len(list(texts_of_messages())) > 300
