# SPDX-License-Identifier: Apache-2.0
"""The message that somebody reads at night."""

from __future__ import annotations

from dataclasses import replace

from airflow_provider_rlmm.core.runs.task_failure import TaskFailure
from airflow_provider_rlmm.overview.run_news import MAX_SUBJECT, RunNews, message_of
from airflow_provider_rlmm.overview.run_summary import RunOutcome
from tests.unit.overview.test_run_metrics import RUN

DAY_MS = 86_400_000
RED = replace(
    RUN,
    ended_at_ms=1_780_000_060_000,
    began_at_ms=1_780_000_000_000,
    outcome=RunOutcome.FAILED,
    needs_person=2,
    headline="2 things need a person. The first: QUARANTINED a record (metadata partition 3, offset 17): garbage.",
    documents={"plans": "a", "reports": "remote_log_cleaner.manual__1"},
)
DO_FIRST = (
    "What to do first: open the page below: it names each problem, why it is one, and what helps. "
    "What is refused stays as it is"
)
NEWS = RunNews(
    dag_id="remote_log_cleaner",
    run_id="manual__1",
    red=True,
    summary=RED,
    base_url="https://airflow.example.org",
    run_url="https://airflow.example.org/dags/remote_log_cleaner/runs/manual__1",
)


def days_before(days: int, outcome: RunOutcome = RunOutcome.FAILED) -> object:
    return replace(RED, ended_at_ms=RED.ended_at_ms - days * DAY_MS, outcome=outcome)


def test_it_says_what_where_since_when_and_what_to_do_first() -> None:
    earlier = (days_before(1), days_before(2), days_before(3, RunOutcome.SUCCESS), days_before(4))
    message = message_of(replace(NEWS, earlier=earlier))
    assert message.subject == "[rlmm] remote_log_cleaner is red: 2 things need a person"
    assert message.text.split("\n") == [
        "remote_log_cleaner is red since 2026-05-26 20:27:40 UTC, 3 runs in a row.",
        "",
        "What: 2 things need a person. The first: QUARANTINED a record (metadata partition 3, offset 17): garbage.",
        DO_FIRST,
        "Where: cluster MkU3OEVBNTcwNTJENDM2Qk, connection rlmm_default",
        "When: from 2026-05-28 20:26:40 UTC to 2026-05-28 20:27:40 UTC",
        "Deleted: 12 segments, 11.7 KiB",
        "DAG and run: remote_log_cleaner, manual__1",
        "",
        "Page: https://airflow.example.org/rlmm/reports/remote_log_cleaner.manual__1",
        "Run: https://airflow.example.org/dags/remote_log_cleaner/runs/manual__1",
        "To stop all deletion at once, set the Airflow variable rlmm_stop; its text is the reason.",
    ]


def test_where_every_run_that_was_read_is_red_it_may_be_red_for_longer() -> None:
    text = message_of(replace(NEWS, earlier=(days_before(1), days_before(2)))).text
    assert "is red since at least 2026-05-26 20:27:40 UTC, 3 runs in a row." in text


def test_a_first_red_run_is_red_since_itself() -> None:
    assert message_of(replace(NEWS, earlier=(days_before(1, RunOutcome.SUCCESS),))).text.startswith(
        "remote_log_cleaner is red.\n"
    )


def test_a_dry_run_has_deleted_nothing() -> None:
    text = message_of(replace(NEWS, summary=replace(RED, dry_run=True))).text
    assert "Deleted: nothing, it was a dry run; it would have deleted 12 segments, 11.7 KiB" in text


def test_a_run_without_a_page_leads_to_the_log_of_its_task() -> None:
    text = message_of(replace(NEWS, summary=replace(RED, documents={}), task_id="verify")).text
    assert "What to do first: open the log of the task verify: its error says what is wrong and what helps" in text
    assert "page" not in text.lower()


def test_a_run_that_kept_nothing_names_its_task_and_its_error() -> None:
    news = replace(NEWS, summary=None, task_id="evaluate", error="Java 17 is missing")
    text = message_of(news).text
    assert "What: the task evaluate failed (Java 17 is missing). It kept no summary of itself\n" in text
    assert "What to do first: open the log of the task evaluate: its error says what is wrong and what helps" in text
    unread = message_of(replace(news, unread="no route to host")).text
    assert "What it kept of itself cannot be read: no route to host" in unread


def test_a_red_run_whose_summary_is_green_says_both() -> None:
    text = message_of(replace(NEWS, summary=RUN, task_id="survey", error=None)).text
    assert "What: the task survey failed. What it kept of itself is green: 12 segments were deleted." in text


def test_what_the_tasks_have_noted_says_why_it_failed() -> None:
    first, second = (TaskFailure("remote_log_cleaner", "manual__1", t, None, 1, f"{t} <b>") for t in ("check", "alarm"))
    text = message_of(replace(NEWS, summary=RUN, failures=(first, second), task_id="alarm", error="task_failure")).text
    assert "What: the task check failed: check ‹b›; 1 more task failed. What it kept of itself is green: 12 seg" in text
    assert "What to do first: open the log of the task check:" in text
    assert "What: 2 things need a person." in message_of(replace(NEWS, failures=(first,))).text


def test_good_news_is_short() -> None:
    message = message_of(replace(NEWS, red=False, summary=RUN))
    assert message.subject == "[rlmm] remote_log_cleaner is green"
    assert "What to do" not in message.text
    assert "rlmm_stop" not in message.text


def test_names_of_others_are_no_markup_and_call_nobody() -> None:
    headline = 'the topic <!channel> @everyone "&lt;" \u202e\n http://evil.example/x'
    message = message_of(replace(NEWS, summary=replace(RED, headline=headline)))
    shown = next(line for line in message.text.split("\n") if line.startswith("What: "))
    assert shown == 'What: the topic ‹!channel› ＠everyone "＆lt;" \\u202e\\n http://evil.example/x'
    html = message_of(replace(NEWS, summary=replace(RED, headline="http://evil.example/x"))).html
    assert 'href="http://evil.example' not in html
    assert (
        'Page: <a href="https://airflow.example.org/rlmm/reports/remote_log_cleaner.manual__1">'
        "https://airflow.example.org/rlmm/reports/remote_log_cleaner.manual__1</a>"
    ) in html
    assert len(message_of(replace(NEWS, dag_id="d" * 300)).subject) <= MAX_SUBJECT
