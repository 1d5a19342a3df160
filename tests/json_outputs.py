# SPDX-License-Identifier: Apache-2.0
"""Holds what commands print for ``--json`` against the schemas of ``docs/json``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

import click
import pytest
from jsonschema import Draft202012Validator

from airflow_provider_rlmm.cli.output import Output
from dev.json_schemas import FOLDER


def strict(schema: Any) -> Any:
    """Return a schema in which no object has other fields than those that are named: they would be missing in the docs."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {"additionalProperties": False} if isinstance(schema.get("properties"), dict) else {}
    return closed | {name: strict(part) for name, part in schema.items()}


@cache
def _validators(command: str) -> tuple[Draft202012Validator, ...]:
    """Return those of a command: it may print other objects with other options."""
    schemas = [json.loads(path.read_text("utf-8")) for path in sorted(FOLDER.glob("*.schema.json"))]
    of_command = [one for one in schemas if one["title"].split()[1] == command]
    return tuple(Draft202012Validator(strict(one)) for one in of_command)


def differences(command: str, document: Mapping[str, Any]) -> list[str]:
    """
    Return how what a command prints differs from its schema; nothing where it does not.

    :param command: its name.
    :param document: what it prints.
    """
    plain, found = json.loads(json.dumps(document)), []
    for validator in _validators(command):
        wrong = [f"{'/'.join(map(str, e.absolute_path))}: {e.message[:300]}" for e in validator.iter_errors(plain)]
        if not wrong:
            return []
        found += [f"{validator.schema['title']}: {one}" for one in wrong]
    return found or [f"no schema is named 'rlmm {command} --json'"]


@contextmanager
def held_against_their_schemas() -> Iterator[None]:
    """Have each JSON document of a command of this process compared, and fail where one differs."""
    print_it, found = Output.document, list[str]()

    def document(self: Output, printed: Mapping[str, Any], *, indent: int | None = 2) -> None:
        context = click.get_current_context(silent=True)
        if context is not None and context.command.name:
            found.extend(differences(context.command.name, printed))
        print_it(self, printed, indent=indent)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Output, "document", document)
        yield
    assert not found, (
        "what is printed differs from docs/json; is a field new? python -m dev.json_schemas:\n"
        + "\n".join(dict.fromkeys(found))
    )
