# SPDX-License-Identifier: Apache-2.0
"""
How a setting is named in a terminal: the one place that knows.

Core and features name a setting as a field of the connection, or as a parameter of a DAG, by its one name with underscores.
People at a terminal have options and a configuration file. What is printed as JSON stays as it was written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import click

from airflow_provider_rlmm.core.base.given import said_otherwise

_CONNECTION: Final = r"(?:the )?(?:rlmm )?connection"
_NAME: Final = r"[a-z]+(?:_[a-z]+)*"
# A name in quotes, a part of a path or of another name, and the name of a topic are none of a setting.
_SETTING: Final = re.compile(rf"(?<![\w'\"/.=-])(?<!topic )({_NAME}_{_NAME})(?![\w'\"/.=-]| = )")
_IN_CONNECTION: Final = re.compile(rf"\b(?:set )?({_NAME}) (?:of|in) {_CONNECTION}\b(?!')")
_SET_IN_CONNECTION: Final = re.compile(rf"\bin {_CONNECTION}\b")
_SAME: Final = {
    "start_time": "from_time", "start_offsets": "from_offsets", "end_offsets": "to_offsets", "output_uri": "output",
}  # fmt: skip
"""Arguments of operators → what commands call them."""

_CONFIRMATIONS: Final = frozenset({"confirm_lost_records", "confirm_metadata_topic_id"})

_options: Final[dict[str, str]] = {}
"""Those of the command that runs in this process: what core calls it → how it is spelled."""

_OTHERS: Final = (
    (re.compile(r"\bthe Kafka connection\b"), "--command-config"),
    (re.compile(r"\b[Tt]he connection leads to\b"), "the brokers are those of"),
    # Clients speak of connections, too, which break.
    (
        re.compile(r"\bthe (?:rlmm connection\b|connection(?='s| (?:names|says|does not|do not|may)\b|[.;]|$))"),
        "the configuration",
    ),
    (re.compile(r"\bof its connection\b"), "of the configuration"),
)


def in_terminal(text: str) -> str:
    """
    Return a sentence as the user of the running command reads it; as it is where no command runs.

    :param text: a sentence that may name settings, as core and features name them.
    """
    return in_words_of(text, _options) if _options else text


@contextmanager
def speaking() -> Iterator[None]:
    """Have what is printed speak of the options of the command that runs; an error is printed when it has ended."""
    try:
        yield
    finally:
        _options.clear()


def speak_of(context: click.Context) -> None:
    """
    Name settings by the options of a command from now on.

    :param context: of the command.
    """
    _options.clear()
    _options.update(_options_of(context))


def in_words_of(text: str, options: Mapping[str, str]) -> str:
    """
    Return a sentence with settings named as options.

    :param text: the sentence.
    :param options: setting → option of the command.
    """
    text = said_otherwise(text, lambda given: _by_options(given, options))
    if "_" not in text and "connection" not in text:
        return text
    text = _IN_CONNECTION.sub(lambda found: _where(found, options), text)
    for pattern, words in _OTHERS:
        text = pattern.sub(words, text)
    return _SETTING.sub(lambda found: options.get(found[1], found[1]), text)


def _by_options(given: Mapping[str, Any], options: Mapping[str, str]) -> str:
    """Say by options what a person is to give; a confirmation belongs to a run that deletes, whichever command says it."""
    words: list[str] = []
    for name, value in given.items():
        words.append(options.get(name) or f"--{name.replace('_', '-')}")
        if value is not None and value is not True:
            words.append(f'"{value}"' if " " in str(value) else str(value))
    said = " ".join(words)
    return f"'rlmm clean --execute {said}'" if any(name in _CONFIRMATIONS for name in given) else said


def _where(found: re.Match[str], options: Mapping[str, str]) -> str:
    """Name a setting that a sentence says to be one of the connection."""
    name, verb = found[1], "set " if found[0].startswith("set ") else ""
    option = options.get(name)
    if option is not None:
        return f"{verb and 'give '}{option}"
    return (
        f"{verb}{_SET_IN_CONNECTION.sub('in the configuration', found[0].removeprefix('set ').replace(' of ', ' in '))}"
    )


def _options_of(context: click.Context) -> dict[str, str]:
    """Return how the options of a command are spelled, by what core calls them."""
    found = {
        str(param.name): max(param.opts, key=len)
        for param in context.command.get_params(context)
        if isinstance(param, click.Option)
    }
    durations = {name.removesuffix("_ms"): option for name, option in found.items() if name.endswith("_ms")}
    same = {told: found[name] for told, name in _SAME.items() if name in found}
    return same | durations | found
