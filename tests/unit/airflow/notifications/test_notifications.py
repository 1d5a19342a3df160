# SPDX-License-Identifier: Apache-2.0
"""Messages about runs: what is read of a run, who is called with it, and what a setting may name."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from traceback import format_exception
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.providers.smtp.notifications.smtp import SmtpNotifier
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, BaseNotifier

from airflow_provider_rlmm.core.base.errors import ConfigurationError, StorageRootError
from airflow_provider_rlmm.core.base.work_folder import cluster_folder
from airflow_provider_rlmm.dag_factory.cleaner import remote_log_cleaner
from airflow_provider_rlmm.notifications import failures
from airflow_provider_rlmm.notifications.configured import configured_notifier, on_failure
from airflow_provider_rlmm.notifications.failures import failures_of, note_failure
from airflow_provider_rlmm.notifications.remote_log import RemoteLogNotifier, build_message
from airflow_provider_rlmm.overview.pruning import is_file_of_run
from airflow_provider_rlmm.overview.run_summary import RUNS_FOLDER, RunOutcome, RunSummary
from airflow_provider_rlmm.run_groups import RunGroup
from airflow_provider_rlmm.settings import artifact_name_of
from tests.unit.overview.test_run_news import DAY_MS, RED


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", str(tmp_path))
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example.org/")
    return tmp_path


def keep(work: Path, run: RunSummary, name: str | None = None) -> Path:
    folder = work / cluster_folder(run.cluster_id) / RUNS_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / (name or run.file_name)
    file.write_text(run.to_json())
    return file


def context(run_id: str = "manual__1", **more: Any) -> dict[str, Any]:
    """What Airflow gives a DAG's callback where it knows no task."""
    return {"dag": DAG("remote_log_cleaner"), "run_id": run_id, "reason": "task_failure", **more}


def test_the_message_is_made_of_what_the_run_has_kept(work: Path) -> None:
    for days in (1, 2, 4):
        green = RunOutcome.SUCCESS if days == 4 else RunOutcome.FAILED
        run = replace(RED, run_id=f"day {days}", outcome=green, ended_at_ms=RED.ended_at_ms - days * DAY_MS)
        keep(work, replace(run, artifact=artifact_name_of(run.dag_id, run.run_id)))
    other = replace(RED, dag_id="remote_log_doctor", artifact="remote_log_doctor.x", ended_at_ms=RED.ended_at_ms - 1)
    keep(work, other)
    keep(work, RED)
    message = build_message(context())
    assert message.subject == "[rlmm] remote_log_cleaner is red: 2 things need a person"
    assert message.text.startswith("remote_log_cleaner is red since 2026-05-26 20:27:40 UTC, 3 runs in a row.\n")
    assert f"What: {RED.headline}\n" in message.text
    assert "\nPage: https://airflow.example.org/rlmm/reports/remote_log_cleaner.manual__1\n" in message.text
    assert "\nRun: https://airflow.example.org/dags/remote_log_cleaner/runs/manual__1\n" in message.text


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda file: file.write_text("{"), "cannot be read"),
        (lambda file: file.write_text(replace(RED, run_id="manual_1").to_json()), "is of another run"),
        (lambda file: file.write_text(replace(RED, cluster_id="another").to_json()), "it is of another cluster"),
        (lambda file: file.write_text(replace(RED, ended_at_ms=5).to_json()), "it is that of "),
    ],
)
def test_a_summary_that_is_not_the_runs_is_not_believed(work: Path, change: Any, says: str) -> None:
    change(keep(work, RED))
    text = build_message(context(ti=SimpleNamespace(task_id="report"))).text
    assert "What: the task report failed (task_failure). What it kept of itself cannot be read: " in text
    assert says in text
    assert "QUARANTINED" not in text


def test_an_earlier_summary_that_cannot_be_read_is_left_out(work: Path) -> None:
    earlier = replace(RED, ended_at_ms=RED.ended_at_ms - DAY_MS, artifact="remote_log_cleaner.x", run_id="x")
    keep(work, earlier).write_text("{")
    keep(work, RED)
    assert build_message(context()).text.startswith("remote_log_cleaner is red.\n")


def test_words_of_others_in_an_error_stay_in_the_log(work: Path) -> None:
    ti = SimpleNamespace(task_id="check")
    ours = build_message(context(reason=None, ti=ti, exception=StorageRootError("the root is missing"))).text
    assert "What: the task check failed (the root is missing)" in ours
    airflows = build_message(context(reason=None, ti=ti, exception=AirflowFailException("1 thing needs a person"))).text
    assert "(1 thing needs a person)" in airflows
    others = build_message(context(reason=None, ti=ti, exception=OSError("password=hunter2"))).text
    assert "(OSError)" in others
    assert "hunter2" not in others


def test_a_run_that_went_well_is_good_news(work: Path) -> None:
    keep(work, replace(RED, outcome=RunOutcome.SUCCESS, headline="12 segments were deleted."))
    assert build_message(context(reason="success")).subject == "[rlmm] remote_log_cleaner is green"


def failing(task_id: str, error: Exception, map_index: int = -1) -> dict[str, Any]:
    """What Airflow gives a task's callback."""
    ti = SimpleNamespace(dag_id="remote_log_cleaner", task_id=task_id, map_index=map_index)
    return {"ti": ti, "run_id": "manual__1", "exception": error}


def test_the_message_says_why_the_first_task_failed(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(10))
    monkeypatch.setattr(failures, "system_clock", lambda: next(ticks))
    note_failure(failing("check", StorageRootError("the root is missing")))
    note_failure(failing("clean", OSError("password=hunter2"), map_index=3))
    note_failure(failing("clean", OSError("again"), map_index=3))
    noted = failures_of("remote_log_cleaner", "manual__1")
    assert [(f.task_id, f.map_index, f.error) for f in noted] == [
        ("check", None, "the root is missing"),
        ("clean", 3, "OSError"),
    ]
    assert all(is_file_of_run(file.name) for file in (work / "remote_log_cleaner.manual__1").iterdir())
    text = build_message(context(ti=SimpleNamespace(task_id="report"))).text
    assert "What: the task check failed: the root is missing; 1 more task failed. It kept no summary of itself" in text
    assert "What to do first: open the log of the task check" in text


def grouped() -> DAG:
    """A DAG with a task before two groups that are runs of their own."""
    with DAG("own_dag", schedule=None) as dag:
        EmptyOperator(task_id="before")
        for group in ("west", "east"):
            with RunGroup(group):
                EmptyOperator(task_id="check")
    return dag


def test_the_message_about_a_run_speaks_of_all_its_groups_the_red_one_first(work: Path) -> None:
    dag = grouped()
    for group, outcome, count in (("east", RunOutcome.SUCCESS, 0), ("west", RunOutcome.FAILED, 2)):
        for run_id, ended in (("day 1", RED.ended_at_ms - DAY_MS), ("day 2", RED.ended_at_ms)):
            run = replace(RED, dag_id="own_dag", run_id=run_id, outcome=outcome, needs_person=count, ended_at_ms=ended)
            keep(
                work, replace(run, headline=f"{group} has ended.", artifact=artifact_name_of("own_dag", run_id, group))
            )
    last = {"task": dag.get_task("east.check"), "ti": SimpleNamespace(task_id="east.check")}
    message = build_message(context("day 2") | {"dag": dag} | last)
    assert message.subject == "[rlmm] own_dag is red: 2 things need a person"
    assert "2 runs in a row" in message.text
    assert "\nWhat: west has ended.\n" in message.text
    assert "\nown_dag.day-2.east, done: east has ended.\n" in message.text
    assert "/rlmm/reports/" in message.text
    # The callback of a task is about its group alone.
    text = build_message({"dag": dag, "run_id": "day 2", **last}).text
    assert ("west" in text, "\nWhat: east has ended.\n" in text) == (False, True)


def test_a_group_whose_summary_cannot_be_read_is_said(work: Path) -> None:
    dag = grouped()
    keep(work, replace(RED, dag_id="own_dag", artifact="own_dag.manual__1.east"))
    keep(work, replace(RED, dag_id="own_dag", artifact="own_dag.manual__1.west")).write_text("{")
    text = build_message(context() | {"dag": dag}).text
    assert f"What: {RED.headline}\n" in text
    assert "\nNot all that it kept of itself can be read: " in text


def test_a_task_of_a_group_notes_its_failure_in_the_folder_of_the_group(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = iter(range(10))
    monkeypatch.setattr(failures, "system_clock", lambda: next(ticks))
    dag = grouped()
    for task_id in ("west.check", "before"):
        ti = SimpleNamespace(dag_id="own_dag", task_id=task_id, map_index=-1)
        error = StorageRootError(f"{task_id} has no root")
        note_failure({"ti": ti, "task": dag.get_task(task_id), "run_id": "manual__1", "exception": error})
    assert [path.name for path in sorted(work.iterdir())] == ["own_dag.manual__1", "own_dag.manual__1.west"]
    assert [f.task_id for f in failures_of("own_dag", "manual__1", ("west",))] == ["west.check"]
    text = build_message(context() | {"dag": dag}).text
    assert "What: the task west.check failed: west.check has no root; 1 more task failed" in text


def test_the_note_of_another_run_or_one_that_cannot_be_read_says_nothing(work: Path) -> None:
    note_failure(failing("check", StorageRootError("the root is missing")))
    (file,) = (work / "remote_log_cleaner.manual__1").iterdir()
    (work / "remote_log_cleaner.manual__2").mkdir()
    (work / "remote_log_cleaner.manual__2" / file.name).write_bytes(file.read_bytes())
    assert failures_of("remote_log_cleaner", "manual__2") == []
    file.write_text("{")
    assert failures_of("remote_log_cleaner", "manual__1") == []


def test_a_note_that_cannot_be_written_fails_nothing(work: Path, caplog: pytest.LogCaptureFixture) -> None:
    (work / "remote_log_cleaner.manual__1").write_text("no folder")
    note_failure(failing("check", StorageRootError("the root is missing")))
    assert "is not noted" in caplog.text


class Chat(BaseNotifier):
    template_fields = ("text",)

    def __init__(self, text: str, sent: list[str]) -> None:
        super().__init__()
        self.text = text
        self.sent = sent

    def notify(self, context: Any) -> None:
        self.sent.append(self.text)


def test_templates_of_any_notifier_say_the_message_each_time_anew(work: Path) -> None:
    sent: list[str] = []
    notifier = RemoteLogNotifier(Chat("{{ rlmm.subject }} | {{ run_id }}", sent))
    notifier(context("a"))
    notifier(context("b"))
    assert sent == ["[rlmm] remote_log_cleaner is red | a", "[rlmm] remote_log_cleaner is red | b"]


def test_what_others_wrote_is_no_template(work: Path) -> None:
    keep(work, replace(RED, headline="{{ 7 * 6 }}"))
    sent: list[str] = []
    RemoteLogNotifier(Chat("{{ rlmm.text }}", sent))(context())
    assert "What: {{ 7 * 6 }}" in sent[0]


def test_mail_of_the_official_provider(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mails: list[dict[str, Any]] = []

    class Hook:
        from_email = "airflow@example.org"

        def __enter__(self) -> Hook:
            return self

        def __exit__(self, *_: object) -> None:
            return None

        def send_email_smtp(self, **mail: Any) -> None:
            mails.append(mail)

    monkeypatch.setattr(SmtpNotifier, "hook", Hook())
    mail = SmtpNotifier(to="night@example.org", subject="{{ rlmm.subject }}", html_content="{{ rlmm.html }}")
    RemoteLogNotifier(mail)(context())
    assert (mails[0]["to"], mails[0]["subject"]) == ("night@example.org", "[rlmm] remote_log_cleaner is red")
    assert mails[0]["html_content"].startswith("<pre>\nremote_log_cleaner is red.\n")


def test_one_that_fails_keeps_no_other_from_being_called(work: Path) -> None:
    def broken(context: Any) -> None:
        raise OSError("the chat is down")

    texts: list[str] = []
    with pytest.raises(RuntimeError, match="1 of 2 notifiers failed"):
        RemoteLogNotifier([broken, lambda context: texts.append(context["rlmm"].text)])(context())
    assert len(texts) == 1


def test_one_that_fails_is_told_without_the_address_that_it_called(
    work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The token of a chat is part of its address, which clients of HTTP repeat in their errors, and in those before them."""

    def broken(context: Any) -> None:
        try:
            raise OSError("POST https://hooks.example.com/services/hunter2 failed")
        except OSError as e:
            raise RuntimeError(f"the chat is down: {e}") from e

    with pytest.raises(RuntimeError, match="1 of 1 notifier failed") as caught:
        RemoteLogNotifier(broken)(context())
    told = capsys.readouterr().out
    assert "was not delivered: RuntimeError at " in told
    assert "the chat is down: POST https://hooks.example.com/*** failed" in told
    assert "hunter2" not in told + "".join(format_exception(caught.value))


@pytest.mark.parametrize("deliver", [[], ["mail"], None])
def test_there_must_be_somebody_to_call(deliver: Any) -> None:
    with pytest.raises((ConfigurationError, TypeError)):
        RemoteLogNotifier(deliver)


# -- [rlmm] notifier ----------------------------------------------------------------------------------------------------


@pytest.fixture
def my_alarms(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("my_alarms")
    monkeypatch.setitem(sys.modules, "my_alarms", module)
    return module


def name(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.setenv("AIRFLOW__RLMM__NOTIFIER", path)


def test_the_shipped_dags_tell_nobody_by_default() -> None:
    assert on_failure() is None
    dag = remote_log_cleaner("rlmm_default")
    assert dag.on_failure_callback is None
    assert not any(task.on_failure_callback for task in dag.tasks)


@pytest.mark.parametrize("wrapped", [False, True])
def test_the_setting_names_who_is_told_of_red_runs(
    work: Path, monkeypatch: pytest.MonkeyPatch, my_alarms: ModuleType, wrapped: bool
) -> None:
    texts: list[str] = []

    def tell(context: Any) -> None:
        texts.append(context["rlmm"].subject)

    my_alarms.on_red = RemoteLogNotifier(tell) if wrapped else tell
    name(monkeypatch, "my_alarms.on_red")
    dag = remote_log_cleaner("rlmm_default")
    assert all(note_failure in task.on_failure_callback for task in dag.tasks)
    callback: Any = dag.on_failure_callback
    callback(context())
    assert texts == ["[rlmm] remote_log_cleaner is red"]


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("no_such_module.on_red", "it cannot be imported: No module named"),
        ("my_alarms.nothing", "it cannot be imported: module 'my_alarms' has no attribute"),
        ("on_red", "it cannot be imported"),
        ("my_alarms.number", "it is of type int, which cannot be called"),
        ("my_alarms.Class", "it is a class: name an instance of it"),
    ],
)
def test_what_is_no_notifier_is_named(
    monkeypatch: pytest.MonkeyPatch, my_alarms: ModuleType, path: str, why: str
) -> None:
    my_alarms.number, my_alarms.Class = 17, Chat
    name(monkeypatch, path)
    with pytest.raises(ConfigurationError) as caught:
        configured_notifier()
    assert str(caught.value).startswith(f"[rlmm] notifier '{path}' is no notifier, {why}")
    # Parsing does not import it: a wrong path hides no DAG.
    assert remote_log_cleaner("rlmm_default").on_failure_callback is not None
