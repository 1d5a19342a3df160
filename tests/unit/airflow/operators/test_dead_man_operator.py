# SPDX-License-Identifier: Apache-2.0
"""The dead-man alarm on a work folder: what counts, what is noted, and what rings in a doubt."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_rlmm.core.base.clock import DAY_MS
from airflow_provider_rlmm.core.base.errors import ConfigurationError, DocumentError
from airflow_provider_rlmm.operators import dead_man
from airflow_provider_rlmm.operators.dead_man import RemoteLogDeadManOperator
from airflow_provider_rlmm.overview.run_summary import RunOutcome
from tests.unit.airflow.notifications.test_notifications import keep
from tests.unit.overview.test_dead_man import NOW_MS, run

CLUSTER = "cluster-MkU3OEVBNTcwNTJENDM2Qk"


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", str(tmp_path))
    monkeypatch.setattr(dead_man, "system_clock", lambda: NOW_MS)
    connect(monkeypatch, scheduled_runs="real")
    return tmp_path


def connect(monkeypatch: pytest.MonkeyPatch, **extra: Any) -> None:
    known = {"expected_cluster_id": "MkU3OEVBNTcwNTJENDM2Qk", **extra}
    document = json.dumps({"conn_type": "rlmm", "extra": json.dumps(known)})
    monkeypatch.setenv("AIRFLOW_CONN_RLMM_DEFAULT", document)


def look(**arguments: Any) -> str:
    return RemoteLogDeadManOperator(task_id="alarm", **arguments).execute({})


def test_a_green_run_in_time(work: Path) -> None:
    keep(work, run(1))
    assert look().startswith("the last real run of the cleaner that ended green on cluster ")


def test_it_rings_with_what_to_do(work: Path) -> None:
    keep(work, run(5))
    keep(work, run(1, outcome=RunOutcome.FAILED, artifact="remote_log_cleaner.red"))
    with pytest.raises(
        AirflowFailException, match=r"for 2 days .* 'manual__1' .* What to do: look at .* are they real"
    ):
        look()
    assert look(after_days=5)
    assert look(after_days=0) == "the alarm is switched off: its number of days is 0"


def test_dry_runs_count_where_the_connection_makes_them(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(work, run(1, dry_run=True))
    keep(work, run(3, artifact="remote_log_cleaner.real"))
    with pytest.raises(AirflowFailException, match="no real run"):
        look()
    connect(monkeypatch)
    assert look().startswith("the last run of the cleaner")


def test_the_first_look_is_noted_once(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "the alarm rings from 2026-05-30 20:26:40 UTC on" in look()
    (file,) = (work / CLUSTER).glob("watched-*.json")
    noted = file.read_bytes()
    monkeypatch.setattr(dead_man, "system_clock", lambda: NOW_MS + 2 * DAY_MS + 1)
    with pytest.raises(AirflowFailException, match="since it has been watched, 2026-05-28 20:26:40 UTC"):
        look()
    assert file.read_bytes() == noted


@pytest.mark.parametrize("content", ["", "{}", "\x80", '{"format_version": 2}'])
def test_a_note_that_cannot_be_read_rings(work: Path, content: str) -> None:
    look()
    (file,) = (work / CLUSTER).glob("watched-*.json")
    file.write_bytes(content.encode("latin-1"))
    keep(work, run(1))
    with pytest.raises(DocumentError, match=r"cannot be told: .*; remove .*watched-.*\.json"):
        look()


def test_the_note_of_another_cluster_rings(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    look()
    (file,) = (work / CLUSTER).glob("watched-*.json")
    connect(monkeypatch, expected_cluster_id="b" * 22)
    (work / f"cluster-{'b' * 22}").mkdir()
    file.rename(work / f"cluster-{'b' * 22}" / file.name)
    with pytest.raises(DocumentError, match="of another cluster or name; remove"):
        look()


def test_a_summary_that_cannot_be_read_counts_as_no_run(work: Path, caplog: pytest.LogCaptureFixture) -> None:
    keep(work, run(5))
    keep(work, run(1, artifact="remote_log_cleaner.new")).write_text("{")
    copied = keep(work, run(6, artifact="remote_log_cleaner.old"))
    copied.rename(copied.with_name(run(1, artifact="remote_log_cleaner.old").file_name))
    with pytest.raises(AirflowFailException):
        look()
    assert caplog.text.count("counts as no run") == 2
    keep(work, run(1, artifact="remote_log_cleaner.good"))
    assert look()


def test_a_notifier_that_is_not_there_calls_nobody(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(work, run(1))
    monkeypatch.setenv("AIRFLOW__RLMM__NOTIFIER", "no_such_module.on_red")
    with pytest.raises(ConfigurationError, match="is no notifier"):
        look()


@pytest.mark.parametrize("days", ["-1", "1.5", "two", "367"])
def test_the_setting_is_a_number_of_days(work: Path, monkeypatch: pytest.MonkeyPatch, days: str) -> None:
    monkeypatch.setenv("AIRFLOW__RLMM__ALARM_AFTER_DAYS", days)
    with pytest.raises(ConfigurationError, match=r"\[rlmm\] alarm_after_days must be an integer from 0 to 366"):
        look()


def test_the_setting_counts(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(work, run(5))
    monkeypatch.setenv("AIRFLOW__RLMM__ALARM_AFTER_DAYS", "8")
    assert replace(run(5)).run_id in look()
