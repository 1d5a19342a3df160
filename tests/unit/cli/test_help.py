# SPDX-License-Identifier: Apache-2.0
"""``--help`` shows what a first run needs, ``--help-all`` everything in groups."""

from __future__ import annotations

import click
import pytest

from airflow_provider_rlmm.cli.help import BASIC, GROUPS
from airflow_provider_rlmm.cli.main import rlmm, run


def options_of(text: str) -> list[str]:
    lines = (line for line in text.partition("Options:\n")[2].splitlines() if line.startswith("  -"))
    return [word.rstrip(",") for line in lines for word in line.split()[:2] if word.startswith("--")]


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run(list(words)) == 0
    return capsys.readouterr().out


def test_clean_shows_fifteen_lines_of_options_at_most(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "clean", "--help")
    lines = text.partition("Options:\n")[2].splitlines()
    assert 5 < len(lines) <= 15, text
    assert all(len(line) <= 80 for line in lines)
    assert {"--only", "--execute", "--bootstrap-server", "--storage", "--help-all"} <= set(options_of(text))


@pytest.mark.parametrize("name", sorted(rlmm.commands))
def test_every_option_is_shown_by_help_all_once(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = rlmm.commands[name]
    every = {opt for p in command.params if isinstance(p, click.Option) for opt in p.opts if opt.startswith("--")}
    if "--help-all" not in shown(capsys, name, "--help"):
        assert every <= set(options_of(shown(capsys, name, "--help")))
        return
    found = options_of(shown(capsys, name, "--help-all"))
    assert every <= set(found)
    assert len(found) == len(set(found)), "each option has one group"


def test_what_groups_and_the_basic_set_name_is_an_option_of_a_command() -> None:
    names = {param.name for command in rlmm.commands.values() for param in command.params} | {"help", "help_all"}
    assert {name for group in GROUPS.values() for name in group} <= names
    assert BASIC.keys() <= names
