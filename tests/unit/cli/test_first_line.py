# SPDX-License-Identifier: Apache-2.0
"""The first line of each command: where its settings come from, and which cluster it asks."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_rlmm.cli import main as command
from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.runs import cleaner_session
from tests.catalogued import ID


@pytest.fixture(autouse=True)
def nothing_is_opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def ended(*_: Any, **__: Any) -> Any:
        raise ConfigurationError("here the reading begins")

    monkeypatch.setattr(cleaner_session, "cleaner_session", ended)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("RLMM_BOOTSTRAP_SERVER", "RLMM_CONFIG", "RLMM_STORAGE_URI", "RLMM_LAYOUT"):
        monkeypatch.delenv(name, raising=False)


def lines(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    command.run(list(arguments))
    said = capsys.readouterr()
    assert said.out == ""
    return said.err.splitlines()


@pytest.mark.parametrize("as_json", [[], ["--json"]])
@pytest.mark.parametrize("words", [["topics"], ["orphans"], ["clean"], ["scrub"], ["why", "t"], ["survey"]])
def test_it_comes_before_the_first_read(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: list[str], as_json: list[str]
) -> None:
    said = lines(capsys, *words, *as_json, "--bootstrap-server", "broker:9092", "--work-dir", str(tmp_path))
    assert said[0] == "rlmm: cluster at broker:9092; configuration from options"
    assert said[1:] == ["rlmm: here the reading begins"]


def test_it_names_file_variables_and_the_cluster_that_is_expected(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "rlmm" / "config.toml"
    file.parent.mkdir()
    file.write_text('bootstrap_server = "a:1"\nexpected_cluster_id = "there"\n[store]\nsecret_access_key = "hush"\n')
    monkeypatch.setenv("RLMM_LAYOUT", "aiven")
    (said, _) = lines(capsys, "topics")
    assert said == f"rlmm: cluster at a:1, cluster id there expected; configuration from {file}, RLMM_LAYOUT"
    for name in ("KEY_PREFIX", "METADATA_TOPIC"):
        monkeypatch.setenv(f"RLMM_{name}", "x")
    (said, _) = lines(
        capsys, "plan", "--config", str(file), "--bootstrap-server", "b:2", "--store-option", "token=hush"
    )
    assert said.startswith("rlmm: cluster at b:2, ")
    assert said.endswith(f"configuration from {file}, RLMM_LAYOUT and 2 more RLMM_ variables, options")
    assert "hush" not in said


def test_without_a_cluster_it_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    storage = ["--storage", tmp_path.as_uri(), "--work-dir", str(tmp_path)]
    said = lines(capsys, "archive", "--topic-id", ID, "--catalogue", str(tmp_path / "none"), *storage)
    assert said[0] == "rlmm: no cluster is asked; configuration from options"


def test_a_real_run_says_it_before_it_asks_for_the_id(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    said = lines(capsys, "clean", "--execute", "--bootstrap-server", "a:1", "--work-dir", str(tmp_path))
    assert said[0] == "rlmm: cluster at a:1; configuration from options"
    assert "--execute needs --cluster-id" in said[-1]
