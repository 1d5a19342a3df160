# SPDX-License-Identifier: Apache-2.0
"""The schemas in ``docs/json``: they are what the code makes, what commands print, and only ever gain something."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from airflow_provider_rlmm.cli import main as command
from airflow_provider_rlmm.core.plans.plan import PlanSummary
from airflow_provider_rlmm.features.cleanup.report_document import CleanupReport
from airflow_provider_rlmm.features.contents.report_document import ContentsReport
from airflow_provider_rlmm.features.scrub.scrub_summary import ScrubSummary
from dev import json_schemas
from tests.json_outputs import differences
from tests.property.sample_documents import SAMPLES

SEALED = {"format_version": 1, "sha256": "ab" * 32}
SCRUB_ADDS = {
    "planned": {"objects": 1, "segments": 1, "bytes": 2, "early": None}, "deletion": None,
    "month_micros": {"FINISHED": 5, "MISSING": None}, "scrub": "/srv/rlmm/scrub.1",
}  # fmt: skip
ADDED: dict[str, tuple[Any, dict[str, Any]]] = {
    "plan": (PlanSummary, {**SEALED, "plan": "/srv/rlmm/plan.1"}),
    "clean": (CleanupReport, {"format_version": 1, "report": "/srv/rlmm/clean.1/report.json"}),
    "verify": (ContentsReport, SEALED),
    "scrub": (ScrubSummary, SEALED | SCRUB_ADDS),
}


def test_the_files_are_what_the_code_makes() -> None:
    found = {path.name: path.read_text("utf-8") for path in json_schemas.FOLDER.glob("*")}
    made = {f"{one.name}.schema.json": json_schemas.text_of(one.schema) for one in json_schemas.printed()}
    assert found == made, "run: python -m dev.json_schemas"


def test_each_command_that_prints_json_has_a_schema() -> None:
    named = {one.command.split()[0] for one in json_schemas.printed()}
    with_json = {
        name for name, one in command.rlmm.commands.items() if any(param.name == "as_json" for param in one.params)
    }
    # init prints no document.
    assert with_json - {"init"} == named


@pytest.mark.parametrize("name", ADDED)
def test_documents_are_as_their_schemas(name: str) -> None:
    kind, added = ADDED[name]
    document = SAMPLES[kind] | added
    assert differences(name, document) == []
    assert differences(name, document | {"unheard": 1}) != []
    newer = {
        name for name, hint in get_type_hints(kind, include_extras=True).items() if json_schemas.may_be_absent(hint)
    }
    for field in document.keys() - newer - {"era"}:
        assert differences(name, {n: v for n, v in document.items() if n != field}) != [], field


def test_what_is_gone_is_told_and_what_is_new_is_not() -> None:
    schema = next(one.schema for one in json_schemas.printed() if one.name == "orphans")
    more = deepcopy(schema)
    more["properties"]["new"] = {"type": "string"}
    more["required"].append("new")
    assert json_schemas.removed(schema, more) == []
    less = deepcopy(schema)
    del less["properties"]["bytes"]
    less["required"].remove("segments")
    less["properties"]["topic"] = {"type": ["string", "null"]}
    assert json_schemas.removed(schema, less) == [
        "/properties/bytes",
        "/properties/topic/type: was 'string', is ['string', 'null']",
        "/required: 'segments'",
    ]


def test_a_file_is_not_written_where_something_would_be_gone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(json_schemas, "FOLDER", tmp_path)
    assert json_schemas.main() == 0
    before = json.loads((tmp_path / "check.schema.json").read_text())
    before["properties"]["gone"] = {"type": "integer"}
    (tmp_path / "check.schema.json").write_text(json.dumps(before))
    (tmp_path / "old.schema.json").write_text("{}")
    assert json_schemas.main() == 1
    said = capsys.readouterr().out
    assert "check.schema.json: /properties/gone" in said
    assert "old.schema.json: the file" in said
    assert json.loads((tmp_path / "check.schema.json").read_text()) == before
