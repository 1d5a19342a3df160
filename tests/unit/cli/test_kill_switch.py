# SPDX-License-Identifier: Apache-2.0
"""The kill switch of the command: a file in its work folder."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from airflow_provider_rlmm.cli.access import access_of_command
from airflow_provider_rlmm.cli.main import run
from airflow_provider_rlmm.core.runs.access import RemoteLogAccess
from airflow_provider_rlmm.core.runs.cleaner_session import _fresh_stop


@pytest.fixture
def access(tmp_path: Path) -> RemoteLogAccess:
    return access_of_command(lambda: SimpleNamespace(work_uri=str(tmp_path)))  # type: ignore[arg-type, return-value]


def test_without_the_file_runs_go_on(access: RemoteLogAccess) -> None:
    assert access.read_stop() is None


@pytest.mark.parametrize(
    ("text", "said"), [("", "nothing more"), ("off", "'off'"), ("Ada: it moves\n", "'Ada: it moves'")]
)
def test_the_file_stops_whatever_is_in_it(access: RemoteLogAccess, tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "stop").write_text(text)
    why = access.read_stop()
    assert why == f"the kill switch is on: the file {tmp_path}/stop is set, it says {said}"


@pytest.mark.parametrize("what", ["folder", "pipe", "huge"])
def test_what_cannot_be_read_stops(access: RemoteLogAccess, tmp_path: Path, what: str) -> None:
    path = tmp_path / "stop"
    if what == "folder":
        path.mkdir()
    elif what == "pipe":
        os.mkfifo(path)
    else:
        path.write_text("x" * 10_000)
    why = _fresh_stop(access)()
    assert why is not None
    assert "cannot be told" in why
    assert f"{tmp_path}/stop" in why


def test_the_command_sets_shows_and_takes_it_away(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def said(*words: str, code: int = 0) -> str:
        assert run(["stop", *words, "--work-dir", str(tmp_path)]) == code
        printed = capsys.readouterr()
        return printed.out + printed.err

    access = access_of_command(lambda: SimpleNamespace(work_uri=str(tmp_path)))  # type: ignore[arg-type, return-value]
    assert f"there is no file {tmp_path}/stop" in said()
    on = f"The kill switch is on: the file {tmp_path}/stop is set, it says 'Ada: it moves'."
    told = said("Ada: it moves")
    assert on in told
    assert "Neither switch stops the runs of the other." in told
    assert (tmp_path / "stop").read_text() == "Ada: it moves\n"
    assert access.read_stop() is not None
    assert on in said()
    assert "a reason is for stopping" in said("x", "--off", code=2)
    assert access.read_stop() is not None
    assert "fewer words" in said("x" * 5_000, code=1)
    assert '"on": true' in said("--json")
    assert "No switch is on" in said("--off")
    assert access.read_stop() is None
    assert "No switch is on" in said("--off"), "taken away twice"


def test_what_cannot_be_read_is_no_switch_that_is_off(tmp_path: Path) -> None:
    (tmp_path / "stop").mkdir()
    assert run(["stop", "--work-dir", str(tmp_path)]) == 1
