# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import fields
from importlib import import_module
from importlib.resources import files
from typing import Any

import jsonschema
import pytest

from airflow_provider_rlmm.hooks.connection import RlmmConnection
from airflow_provider_rlmm.provider_info import get_provider_info


def schema(name: str) -> dict[str, Any]:
    text: dict[str, Any] = json.loads(files("airflow").joinpath(name).read_text())
    return text


def test_airflows_own_schema_accepts_it() -> None:
    jsonschema.validate(get_provider_info(), schema("provider_info.schema.json"))


def test_airflows_stricter_schema_accepts_the_connection_type() -> None:
    connection_types = schema("provider.yaml.schema.json")["properties"]["connection-types"]
    jsonschema.validate(get_provider_info()["connection-types"], connection_types)


def test_the_form_has_exactly_the_connections_fields_and_their_defaults() -> None:
    form = get_provider_info()["connection-types"][0]["conn-fields"]
    expected = {f.name: f.default for f in fields(RlmmConnection) if f.name != "conn_id"}
    assert {name: field["schema"].get("default") for name, field in form.items()} == expected


def classes() -> list[str]:
    info = get_provider_info()
    return [
        info["connection-types"][0]["hook-class-name"],
        *info["extra-links"],
        *info["notifications"],
        *(plugin["plugin-class"] for plugin in info["plugins"]),
    ]


@pytest.mark.parametrize("path", classes())
def test_every_class_that_it_names_exists(path: str) -> None:
    module, _, name = path.rpartition(".")
    assert getattr(import_module(module), name).__name__ == name


@pytest.mark.parametrize("kind", ["hooks", "operators"])
def test_every_module_that_it_names_exists(kind: str) -> None:
    for entry in get_provider_info()[kind]:
        for module in entry["python-modules"]:
            assert import_module(module).__name__ == module


def test_it_imports_declarations_only() -> None:
    """Airflow loads it in every component at start, and before anything of ours is wanted."""
    program = (
        "import sys, airflow_provider_rlmm.provider_info\n"
        "ours = {n.partition('.')[2]: m for n, m in sys.modules.items() if n.startswith('airflow_provider_rlmm.')}\n"
        "print(*(name for name, module in ours.items() if not hasattr(module, '__path__')))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {
        "core.base.clock",
        "core.base.declarations",
        "core.base.errors",
        "core.base.extras",
        "core.base.quoting",
        "core.base.values",
        "core.plans.deletion_window",
        "core.plans.limits",
        "core.records.outcomes",
        "core.runs.connection_fields",
        "core.runs.installation_options",
        "provider_info",
    }


_HEAVY = ["pyspark", "confluent_kafka", "obstore", "pyarrow"]
_IMPORTED = [
    (["", ".provider_info", ".settings"], ["airflow", *_HEAVY]),
    ([".hooks.metadata", ".hooks.storage", ".operators.doctor", ".operators.metadata", ".notifications.configured"], _HEAVY),
    ([".plugins.rlmm_plugin"], ["fastapi", *_HEAVY]),
]  # fmt: skip

_IMPORT = """
import json, os, sys
from importlib import import_module
for modules, unwanted in json.loads(sys.argv[1]):
    before = set()
    if "airflow" not in unwanted:
        import airflow.plugins_manager
        # This module may bring some of them itself: only what the plugin's adds to it counts.
        before = set(sys.modules) if ".plugins.rlmm_plugin" in modules else set()
    if os.fork() == 0:  # each sees what was imported before it alone
        for module in modules:
            import_module("airflow_provider_rlmm" + module)
            print("IMPORTED", json.dumps([module, sorted(set(unwanted) & set(sys.modules) - before)]), flush=True)
        os._exit(0)
    os.wait()
"""


@pytest.fixture(scope="module")
def imported() -> dict[str, list[str]]:
    """Module → what it has imported that is unwanted; Airflow, which takes seconds, is imported once."""
    command = [sys.executable, "-c", _IMPORT, json.dumps(_IMPORTED)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    told = (line.removeprefix("IMPORTED ") for line in done.stdout.splitlines() if line.startswith("IMPORTED "))
    return dict(map(json.loads, told))


@pytest.mark.parametrize(("modules", "unwanted"), _IMPORTED)
def test_importing_is_cheap(modules: list[str], unwanted: list[str], imported: dict[str, list[str]]) -> None:
    assert {module: imported.get(module) for module in modules} == {module: [] for module in modules}
