# SPDX-License-Identifier: Apache-2.0
"""What ``rlmm scrub --execute`` shows before it asks for the id of the cluster, and what it does before and after."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest

from airflow_provider_rlmm.cli import main as command
from airflow_provider_rlmm.cli import runs
from airflow_provider_rlmm.cli import scrubbing as scrubbing_command
from airflow_provider_rlmm.cli.exit_codes import ExitCode
from airflow_provider_rlmm.core.base.work_folder import cluster_folder
from airflow_provider_rlmm.features.scrub import scrub_files
from airflow_provider_rlmm.features.scrub import steps as scrubbing
from airflow_provider_rlmm.features.scrub.scrub_cleaner import ScrubDeletion
from airflow_provider_rlmm.features.scrub.scrub_plan import ScrubPlan
from airflow_provider_rlmm.overview import housekeeping
from airflow_provider_rlmm.overview.run_summary import Deleted, RunKind
from airflow_provider_rlmm.overview.runs import history
from tests.builders import CLUSTER_ID
from tests.unit.features.scrub.test_scrub_plan import Scrubs


@pytest.fixture
def happened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """What the command does, in order: over a small cluster, by its own steps, but for the clients."""
    found: list[str] = []
    scrubs = Scrubs(tmp_path)
    scrubs.finished(1)

    def scrub(*_: Any, **__: Any) -> Any:
        found.append("scrub")
        return scrubs.scrub()[0]

    def plan(*_: Any, **__: Any) -> ScrubPlan:
        found.append("plan")
        return scrubs.plan()[0]

    def delete(*_: Any, **__: Any) -> ScrubDeletion:
        found.append("delete")
        return scrubs.delete()

    def open_session(invocation: Any, *_: Any, execute: bool, **__: Any) -> Any:
        found.append(f"session for {invocation.options.get('expected_cluster_id')}, execute {execute}")
        return nullcontext(SimpleNamespace())

    def prompt(text: str, **_: Any) -> str:
        found.append(text)
        return "typed"

    for name, step in (("scrub", scrub), ("plan", plan), ("delete", delete)):
        monkeypatch.setattr(scrubbing, name, step)
    monkeypatch.setattr(runs, "open_session", open_session)
    monkeypatch.setattr(housekeeping, "tidy_up", lambda *_, **__: None)
    monkeypatch.setattr(scrub_files, "open_scrub", lambda _: nullcontext((None, None)))
    monkeypatch.setattr(scrub_files, "problems_of", lambda *_: [])
    monkeypatch.setattr(click, "prompt", prompt)
    monkeypatch.setattr(runs.sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("RLMM_WORK_URI", str(tmp_path / "work"))
    return found


OPTIONS = ["scrub", "--bootstrap-server", "a:1", "--storage", "file:///nowhere", "--layout", "aiven"]


def test_what_goes_is_shown_before_the_cluster_is_asked_for(happened: list[str]) -> None:
    assert command.run([*OPTIONS, "--execute"]) == ExitCode.DONE
    assert [entry.partition(" of ")[0] for entry in happened] == [
        "session for None, execute False", "scrub", "plan", "This run deletes 3 objects, 30 B,",
        "session for typed, execute True", "delete",
    ]  # fmt: skip
    assert happened[3] == (
        "This run deletes 3 objects, 30 B, of 1 segment:\n  FINISHED: 3 objects, 30 B\n Type the id of its cluster "
        "('rlmm check' prints it)"
    )


def test_whoever_has_named_the_cluster_is_not_asked(happened: list[str]) -> None:
    assert command.run([*OPTIONS, "--execute", "--cluster-id", "named"]) == ExitCode.DONE
    assert happened == [
        "session for named, execute True", "scrub", "plan", "session for named, execute True", "delete"
    ]  # fmt: skip


def test_what_was_deleted_is_kept_when_the_run_is_gone(happened: list[str], tmp_path: Path) -> None:
    assert command.run([*OPTIONS]) == ExitCode.DONE
    assert history(str(tmp_path / "work"), cluster_folder(CLUSTER_ID)) == [], "nothing was deleted"
    assert command.run([*OPTIONS, "--execute", "--cluster-id", "named"]) == ExitCode.DONE
    (kept,) = history(str(tmp_path / "work"), cluster_folder(CLUSTER_ID))
    assert (kept.kind, kept.deleted, kept.has_deleted, kept.connection) == (
        RunKind.SCRUB,
        Deleted(0, 3, 30),
        True,
        "rlmm",
    )


def test_a_summary_that_cannot_be_kept_needs_a_person(
    happened: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "work").write_text("no folder")
    assert command.run([*OPTIONS, "--execute", "--cluster-id", "named"]) == ExitCode.NEEDS_A_PERSON
    assert "needs a person: the summary of this run is not kept in" in capsys.readouterr().out


def test_where_nobody_can_be_asked_nothing_is_begun(happened: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs.sys.stdin, "isatty", lambda: False, raising=False)
    assert command.run([*OPTIONS, "--execute"]) == ExitCode.USAGE
    assert happened == []


def test_a_run_without_execute_asks_nobody(happened: list[str]) -> None:
    assert command.run(OPTIONS) == ExitCode.DONE
    assert happened == ["session for None, execute False", "scrub", "plan"]


@pytest.mark.usefixtures("happened")
def test_topics_are_named_and_no_dictionary_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.run([*OPTIONS, "--execute", "--cluster-id", "named"]) == ExitCode.DONE
    out = capsys.readouterr().out
    lines = out.splitlines()
    at = lines.index("by topic, the largest first; what is in use is left out")
    assert lines[at + 1].split()[:6] == ["topic", "topic", "id", "class", "objects", "size"]
    assert lines[at + 2].split()[:6:5] + lines[at + 2].split()[2:5] == ["orders", "B", "FINISHED", "3", "30"]
    assert "Deleted: 3 FINISHED objects, 30 B." in lines
    assert "{" not in out


def test_what_a_scrub_left_is_said_beside_what_it_deleted() -> None:
    deletion = ScrubDeletion(dry_run=False, gone_before=1_200, left_objects=3, barred=2, folders_removed=4)
    assert scrubbing_command.deleted_in_words(deletion.counts()) == (
        "Deleted: nothing. Besides: 1,200 were gone before, 3 are still there, 2 of these must stay, 4 empty folders are "
        "removed."
    )
