# SPDX-License-Identifier: Apache-2.0
"""
What importing a module loads, by room: rules, documents, fields and steps load nothing but the standard library.

DAG files are parsed, pages asked and executors started with them; import-linter sees who imports whom, not when.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

import airflow_provider_rlmm

PACKAGE = Path(airflow_provider_rlmm.__file__).parent
HEAVY = {"airflow", "confluent_kafka", "numpy", "obstore", "pandas", "pyarrow", "pyspark"}
ROOMS = ("cli", "core", "features", "library", "overview")
COLUMNS = (
    "core.base.bounded_parquet",
    "core.generations.files",
    "core.generations.folding",
    "core.records.columnar",
    "core.records.decoding.*",
    "core.records.fold.*",
    "core.segments.indexes.*",
    "core.segments.record_batches.*",
    "core.segments.proof.*",
    "features.archiving.archive.*",
    "features.archiving.archive_documents",
    "features.archiving.archiver",
    "features.archiving.catalogued_archives",
    "features.contents.looking",
    "features.copying.copier",
    "features.copying.copy_effects",
    "features.copying.copy_preview",
    "features.copying.copy_source",
    "features.copying.followed_partition",
    "features.copying.leader_comparison",
    "features.copying.log_directory.*",
    "features.copying.segment_copy",
    "features.reading.committed_reading",
    "features.reading.exporting",
    "features.reading.fetching",
    "features.reading.index_cache",
    "features.reading.parquet",
    "features.reading.pieces",
    "features.reading.reader",
    "features.reading.segment_access",
    "features.reading.segment_reading",
    "features.reading.timestamp_search",
    "features.reading.transaction_search",
    "features.reading.transactions",
    "features.retention.spark.executor.*",
    "features.survey.tables",
    "overview.choosing",
    "features.reading.undecided",
    "overview.csv_lines",
    "overview.tables",
)
"""They work on columns from end to end: numpy and pyarrow are loaded with them."""

CLIENTS = ("core.log.kafka.*",)
"""Each of them opens clients of Kafka."""


def _imports(body: list[ast.stmt]) -> Iterator[str]:
    """Yield what is imported when a module is: not inside of functions, not for type checkers."""
    for node in body:
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
            yield from (f"{node.module}.{name.name}" for name in node.names)
        elif isinstance(node, ast.Try | ast.ClassDef) or (
            isinstance(node, ast.If) and "TYPE_CHECKING" not in ast.dump(node.test)
        ):
            yield from _imports(node.body)


def _graph() -> dict[str, set[str]]:
    files = {".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts): file for file in PACKAGE.rglob("*.py")}
    files = {name.removesuffix(".__init__"): file for name, file in files.items()}
    return {
        name: {i for i in _imports(ast.parse(file.read_text()).body) if i in files or i.partition(".")[0] in HEAVY}
        for name, file in files.items()
    }


GRAPH = _graph()
MODULES = sorted(
    name.removeprefix(f"{PACKAGE.name}.") for name in GRAPH if name.split(".")[1:2] and name.split(".")[1] in ROOMS
)


def _loads(module: str) -> set[str]:
    """Return what of the heavy ones a module loads, itself or by what it imports."""
    seen: set[str] = set()
    todo = [f"{PACKAGE.name}.{module}"]
    while todo:
        if (name := todo.pop()) not in seen:
            seen.add(name)
            todo.extend(GRAPH.get(name, ()))
            todo.append(name.rpartition(".")[0] or name)
    return {name.partition(".")[0] for name in seen} & HEAVY


def _is_among(module: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch(module, pattern) for pattern in patterns)


LIGHT = [module for module in MODULES if not _is_among(module, (*COLUMNS, *CLIENTS))]


@pytest.mark.parametrize("module", MODULES)
def test_a_module_loads_no_more_than_its_room_may(module: str) -> None:
    allowed = {"numpy", "pyarrow"} if _is_among(module, COLUMNS) else set()
    allowed |= {"confluent_kafka"} if _is_among(module, CLIENTS) else set()
    assert _loads(module) <= allowed


def test_what_is_said_to_load_columns_does() -> None:
    """A pattern that nothing needs any more would let somebody in unseen."""
    for pattern in (*COLUMNS, *CLIENTS):
        assert any(_loads(module) for module in MODULES if fnmatch(module, pattern)), pattern


@pytest.mark.slow
def test_all_that_is_light_loads_nothing_heavy_in_one_process() -> None:
    program = (
        "import importlib, json, sys\n"
        "for name in json.loads(sys.argv[1]): importlib.import_module(f'airflow_provider_rlmm.{name}')\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, json.dumps(LIGHT)], capture_output=True, text=True, check=True, timeout=120
    )
    assert set(json.loads(done.stdout)) & HEAVY == set()


@pytest.mark.parametrize(
    "room", sorted({str(file.parent.relative_to(PACKAGE)) for file in PACKAGE.rglob("__init__.py")})
)
def test_importing_a_room_imports_nothing_else(room: str) -> None:
    body = ast.parse((PACKAGE / room / "__init__.py").read_text()).body
    imported = set(_imports(body)) - {"__future__", "__future__.annotations"}
    # Airflow's own folders refuse in words to work without it.
    refusal = {f"{PACKAGE.name}.core.base.extras", f"{PACKAGE.name}.core.base.extras.require_airflow"}
    assert imported <= (set() if room.split("/")[0] in ROOMS else refusal)
