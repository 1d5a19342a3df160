# SPDX-License-Identifier: Apache-2.0
"""
Makes ``docs/configuration.md`` from the code: ``python -m dev.configuration_page``.

A unit test compares the page with what this makes, so it cannot be stale.
"""

from __future__ import annotations

import os
import re
import runpy
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

from airflow_provider_rlmm.core.base.clock import HOUR_MS
from airflow_provider_rlmm.core.base.declarations import Declared
from airflow_provider_rlmm.core.plans import limits
from airflow_provider_rlmm.core.plans.approval import ApprovalLimits
from airflow_provider_rlmm.core.plans.guards import BlastRadius, CleanerLimits, ScrubLimits
from airflow_provider_rlmm.core.plans.limits import MAX_BATCH_SEGMENTS, OVERRIDES, QUARANTINE_KINDS
from airflow_provider_rlmm.core.runs import connection_fields
from airflow_provider_rlmm.core.runs.access import CLEANER_GROUP_ID, CLOCK_GROUP_ID
from airflow_provider_rlmm.resources import dags_folder

PAGE = Path(__file__).parents[1] / "docs" / "configuration.md"

_PARAM = re.compile(r"^ *:param (\w+): *(.*?)(?=^ *:(?:param|return|raises)\b|\Z)", re.MULTILINE | re.DOTALL)
_ROLE = re.compile(r":\w+:`~?[\w.]*?(\w+)`")

_TYPES = {
    "string": "text",
    "number": "a number",
    "integer": "an integer",
    "array": "a list",
    "object": "names with values",
}

_NAMED = {
    "`MAX_BATCH_SEGMENTS`": str(MAX_BATCH_SEGMENTS),
    "`OVERRIDES`": "[overrides](#overrides)",
    "`QUARANTINE_KINDS`": "[these kinds](#kinds-of-unusable-records)",
}
"""What docstrings name and readers of the page do not have."""

HEAD = """\
# Configuration

Everything that can be set, with its default. This page is made from the code (`python -m dev.configuration_page`), and a test
fails where the two differ.

There are four places for settings:

- [The connection](#the-connection) of type `rlmm` says what is true of one cluster and its storage, for every run.
- [The parameters of a run](#the-parameters-of-the-dags) say what one run may do; your own DAG has [limits](#limits).
- [Airflow's configuration](#airflows-configuration) says where plans and reports lie, for the whole installation.
- [Airflow variables](#airflow-variables) hold what people have acknowledged, and jars for Spark.
"""


def page() -> str:
    """Return the text of the page."""
    parts = [HEAD, *_connection(), *_dags(), *_limits(), *_overrides(), *_airflow(), *_variables(), *_groups()]
    return "\n".join(parts)


def documented(of: type) -> dict[str, str]:
    """
    Return what the docstring of a class and of its bases says of each parameter, as Markdown on one line.

    :param of: the class.
    """
    found: dict[str, str] = {}
    for kind in reversed(of.__mro__[:-1]):
        found |= {name: _markdown(text) for name, text in _PARAM.findall(kind.__doc__ or "")}
    return found


def _meanings(declared: Iterable[Declared[Any]], kind: type) -> dict[str, str]:
    """Return what fields mean: the declared sentence, or what the docstring of the class says at greater length."""
    return {field.name: _markdown(field.sentence) for field in declared} | documented(kind)


def _markdown(text: str) -> str:
    line = " ".join(_ROLE.sub(r"`\1`", text).replace("``", "`").split())
    for name, meant in _NAMED.items():
        line = line.replace(name, meant)
    return line.replace("|", "\\|").rstrip(".")


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


def _shown(value: object, name: str = "") -> str:
    if isinstance(value, int) and name.endswith("_ms"):
        return f"`{value}` ({value / HOUR_MS:g} h)"
    if isinstance(value, int) and name.endswith("_bytes"):
        return f"`{value}` ({value / 2**40:g} TiB)"
    if value is None or value in ("", [], {}, frozenset()):
        return "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"`{value}`"


def _connection() -> Iterator[str]:
    from airflow_provider_rlmm.hooks.connection import RlmmConnection
    from airflow_provider_rlmm.provider_info import get_provider_info

    (kind,) = get_provider_info()["connection-types"]
    meanings = _meanings(connection_fields.FIELDS, RlmmConnection)
    defaults = {field.name: field.default for field in connection_fields.FIELDS}
    yield "## The connection\n"
    yield (
        f"A connection of type `{kind['connection-type']}`, *{kind['hook-name']}* in the form. The fields are keys of its "
        "extra. [The connection](connection.md) explains them with examples.\n"
    )
    rows = [
        [f"`{name}`", field["label"], _kind_of(field["schema"]), _shown(defaults[name]), meanings[name]]
        for name, field in kind["conn-fields"].items()
    ]
    yield _table(["field", "in the form", "kind", "default", "meaning"], rows)


def _kind_of(schema: Mapping[str, Any]) -> str:
    types = schema.get("type", "string")
    kinds = [t for t in ([types] if isinstance(types, str) else types) if t != "null"]
    return " or ".join("on or off" if t == "boolean" else _TYPES[t] for t in kinds)


def _dags() -> Iterator[str]:
    yield "## The parameters of the DAGs\n"
    yield (
        "The form of *Trigger DAG* shows them, and `airflow dags trigger --conf` takes them as JSON. A run with a parameter "
        "that its DAG does not have is refused by its first task.\n"
    )
    for file in sorted(Path(dags_folder()).glob("*.py")):
        (dag,) = runpy.run_path(str(file))["dags"]
        yield f"### {dag.dag_id}\n"
        params = [(name, dag.params.get_param(name)) for name in dag.params]
        rows = [
            [f"`{name}`", _allowed(param.schema), _shown(param.value, name), _markdown(param.description)]
            for name, param in params
        ]
        yield _table(["parameter", "kind", "default", "meaning"], rows)


def _allowed(schema: Mapping[str, Any]) -> str:
    kind, low, high = _kind_of(schema), schema.get("minimum"), schema.get("maximum")
    if low is not None:
        kind += f" from {low} to {high}" if high is not None else f", {low} or more"
    if "enum" in schema.get("items", {}):
        kind += " of names"
    return kind


def _limits() -> Iterator[str]:
    yield "## Limits\n"
    yield (
        "Operators take these as mappings. A field that is left out, or is `None`, has its default; an unknown field is "
        "refused.\n"
    )
    for kind, declared, where in (
        (
            CleanerLimits,
            limits.CLEANER,
            "The argument `limits` of the operators that check, survey, mark, plan, archive, clean and publish.",
        ),
        (
            BlastRadius,
            limits.BLAST_RADIUS,
            "The argument `blast_radius` of the operators that check and plan, for a cleanup and for a scrub.",
        ),
        (
            ApprovalLimits,
            limits.APPROVAL,
            "The argument `approve_above` of the operators that approve, clean and delete what a scrub has found.",
        ),
        (ScrubLimits, limits.SCRUB, "The argument `limits` of the operators that plan and delete after a scrub."),
    ):
        meanings = _meanings(declared, kind)
        yield f"### {kind.__name__}\n"
        yield f"{where}\n"
        rows = [
            [f"`{field.name}`", _shown(_default(field), field.name), meanings[field.name]] for field in fields(kind)
        ]
        yield _table(["field", "default", "meaning"], rows)
    yield "### Kinds of unusable records\n"
    yield "`allowed_quarantine` takes these names; the [doctor](doctor.md) explains them:\n"
    yield ", ".join(f"`{name}`" for name in sorted(QUARANTINE_KINDS)) + ".\n"


def _default(field: Field[Any]) -> object:
    return None if field.default is MISSING else field.default


def _overrides() -> Iterator[str]:
    yield "## Overrides\n"
    yield (
        "An override switches off one protection, by its name, for one run. It goes into the parameter `overrides`, or into "
        "the field `overrides` of the limits. It needs `expected_cluster_id` in the connection.\n"
    )
    yield _table(["override", "what it allows"], [[f"`{name}`", text] for name, text in OVERRIDES.items()])


def _airflow() -> Iterator[str]:
    from airflow_provider_rlmm.provider_info import get_provider_info

    yield "## Airflow's configuration\n"
    for section, content in get_provider_info()["config"].items():
        yield f"Options of the section `[{section}]` in `airflow.cfg`; each can be an environment variable instead.\n"
        rows = [
            [f"`{name}`", f"`AIRFLOW__{section.upper()}__{name.upper()}`", _shown(option["default"]),
             f"`{option['example']}`", _markdown(option["description"])]
            for name, option in content["options"].items()
        ]  # fmt: skip
        yield _table(["option", "environment variable", "default", "example", "meaning"], rows)


def _variables() -> Iterator[str]:
    from airflow_provider_rlmm.hooks.kill_switch import STOP_VARIABLE
    from airflow_provider_rlmm.operators.failing import ACKNOWLEDGEMENTS_VARIABLE

    yield "## Airflow variables\n"
    acknowledged = "a JSON list of problems that may stay for a while: [reports](reports.md#acknowledgements)"
    jars = "Spark's Kafka connector as a comma-separated list of jars, for `remote_log_retention`; empty: it comes from Maven"
    stop = "any value stops all deletion, an empty one too: [kill switch](how-to/kill-switch.md)"
    rows = [[f"`{STOP_VARIABLE}`", stop], [f"`{ACKNOWLEDGEMENTS_VARIABLE}`", acknowledged], ["`rlmm_spark_jars`", jars]]
    yield _table(["variable", "meaning"], rows)


def _groups() -> Iterator[str]:
    yield "## Names in Kafka\n"
    yield "These consumer groups have fixed names. [Permissions](permissions.md) says which rights they need.\n"
    rows = [
        [f"`{CLEANER_GROUP_ID}`", "keeps which markers are settled"],
        [f"`{CLOCK_GROUP_ID}`", "its offset commits tell the brokers' time, and nothing else"],
    ]
    yield _table(["consumer group", "what it is for"], rows).rstrip("\n") + "\n"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home:
        os.environ |= {"AIRFLOW_HOME": home, "AIRFLOW__CORE__UNIT_TEST_MODE": "True"}
        PAGE.write_text(page())
