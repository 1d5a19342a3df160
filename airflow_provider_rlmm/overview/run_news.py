# SPDX-License-Identifier: Apache-2.0
"""
The message about a run that a person reads at night: what, where, since when, what to do first, and where to look.

It goes to mail, chat and pagers. Nothing in it that others wrote (names of topics, for one) can be markup there, or call a
whole channel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.clock import since
from airflow_provider_rlmm.core.base.quoting import human_bytes, printable
from airflow_provider_rlmm.core.runs.task_failure import TaskFailure
from airflow_provider_rlmm.overview.run_summary import MAX_HEADLINE, RunOutcome, RunSummary

__all__ = ["Message"]

MAX_SUBJECT = 120
MAX_NAME = 250
_INERT = str.maketrans({"<": "‹", ">": "›", "&": "＆", "@": "＠"})
_LINKED = ("Page", "Run")
_PAGES = ("reports", "scrubs", "doctor", "leaders", "scrub-plans", "plans")
"""Pages of documents, the one that says most about a red run first."""

STOP = "To stop all deletion at once, set the Airflow variable rlmm_stop; its text is the reason."


@dataclass(frozen=True, slots=True)
class Message:
    """
    A message as plain text and as HTML.

    :param subject: one line of at most :data:`MAX_SUBJECT` characters.
    :param text: several lines.
    """

    subject: str
    text: str

    @property
    def html(self) -> str:
        """The text as HTML: its lines as they are, and links to our own pages."""
        lines = []
        for line in self.text.split("\n"):
            name, _, address = line.partition(": ")
            # Only what is ours: a text of others may hold an address, too.
            linked = name in _LINKED and address.startswith(("http://", "https://"))
            shown = escape(address)
            lines.append(f'{name}: <a href="{shown}">{shown}</a>' if linked else escape(line))
        return "\n".join(["<pre>", *lines, "</pre>"])


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNews:
    """
    What is known of a run that has ended.

    :param dag_id: of the run.
    :param run_id: of the run.
    :param red: whether it needs a person.
    :param summary: what it has kept of itself, ``None`` where it kept nothing.
    :param earlier: earlier runs of the same DAG, the newest first, as far back as is known.
    :param others: what other groups of its tasks have kept of themselves.
    :param failures: why tasks of it failed, the first failure first.
    :param task_id: of the task that failed, where Airflow names one and no failure is noted.
    :param error: of that task, or Airflow's reason.
    :param unread: why the work folder says nothing of the run, ``None`` where it was read.
    :param base_url: of Airflow's UI, without a slash at the end.
    :param run_url: of the run in Airflow's UI.
    """

    dag_id: str
    run_id: str
    red: bool
    summary: RunSummary | None = None
    earlier: Sequence[RunSummary] = field(default_factory=tuple)
    others: Sequence[RunSummary] = field(default_factory=tuple)
    failures: Sequence[TaskFailure] = field(default_factory=tuple)
    task_id: str | None = None
    error: str | None = None
    unread: str | None = None
    base_url: str = ""
    run_url: str = ""

    @property
    def red_before(self) -> tuple[RunSummary, ...]:
        """The red runs right before this one, the newest first."""
        found: list[RunSummary] = []
        for run in self.earlier:
            if run.outcome is RunOutcome.SUCCESS:
                break
            found.append(run)
        return tuple(found)


def message_of(news: RunNews) -> Message:
    """
    Return the message about a run.

    :param news: what is known of it.
    """
    state = "is red" if news.red else "is green"
    count = sum(summary.needs_person for summary in (news.summary, *news.others) if summary)
    subject = f"[rlmm] {_foreign(news.dag_id)} {state}" + (f": {_people(count)}" if news.red and count else "")
    return Message(subject[:MAX_SUBJECT], "\n".join(_lines(news, state)))


def _lines(news: RunNews, state: str) -> Iterator[str]:
    yield f"{_foreign(news.dag_id)} {state}{_for_how_long(news)}."
    yield ""
    yield f"What: {_what(news)}"
    if news.red:
        yield f"What to do first: {_what_to_do(news)}"
    for name, value in _where(news).items():
        yield f"{name}: {value}"
    for other in news.others:
        state = "needs a person" if other.outcome is RunOutcome.FAILED else "done"
        yield f"{_foreign(other.artifact)}, {state}: {_foreign(other.headline, MAX_HEADLINE)}"
    if news.summary and news.unread:
        yield f"Not all that it kept of itself can be read: {_foreign(news.unread)}"
    yield ""
    if news.summary and (page := _page(news.summary)) is not None:
        yield f"Page: {news.base_url}/rlmm/{page}/{news.summary.documents[page]}"
    if news.run_url:
        yield f"Run: {news.run_url}"
    if news.red:
        yield STOP


def _page(summary: RunSummary) -> str | None:
    """Return which page says most about a run, ``None`` where it has none."""
    return next((page for page in _PAGES if page in summary.documents), None)


def _what(news: RunNews) -> str:
    summary = news.summary
    if summary and (summary.outcome is RunOutcome.FAILED or not news.red):
        return _foreign(summary.headline, MAX_HEADLINE)
    failed = _why_it_failed(news)
    if summary:
        return f"{failed}. What it kept of itself is green: {_foreign(summary.headline, MAX_HEADLINE)}"
    if news.unread:
        return f"{failed}. What it kept of itself cannot be read: {_foreign(news.unread)}"
    return f"{failed}. It kept no summary of itself"


def _why_it_failed(news: RunNews) -> str:
    if news.failures:
        first, more = news.failures[0], len(news.failures) - 1
        others = f"; {number_of(more, 'more task')} failed" if more else ""
        return f"the task {_foreign(first.task_id)} failed: {_foreign(first.error, MAX_HEADLINE)}{others}"
    failed = f"the task {_foreign(news.task_id)} failed" if news.task_id else "it failed"
    return f"{failed} ({_foreign(news.error, MAX_HEADLINE)})" if news.error else failed


def _what_to_do(news: RunNews) -> str:
    if news.summary and news.summary.needs_person and _page(news.summary) is not None:
        return (
            "open the page below: it names each problem, why it is one, and what helps. What is refused stays as it is"
        )
    task_id = news.failures[0].task_id if news.failures else news.task_id
    log = f"the log of the task {_foreign(task_id)}" if task_id else "the log of the task that failed"
    return f"open {log}: its error says what is wrong and what helps"


def _where(news: RunNews) -> Mapping[str, str]:
    found: dict[str, str] = {}
    summary = news.summary
    if summary:
        found["Where"] = f"cluster {_foreign(summary.cluster_id)}, connection {_foreign(summary.connection)}"
        found["When"] = f"from {since(summary.began_at_ms)} to {since(summary.ended_at_ms)}"
        done = f"{number_of(summary.deleted.segments, 'segment')}, {human_bytes(summary.deleted.bytes)}"
        found["Deleted"] = f"nothing, it was a dry run; it would have deleted {done}" if summary.dry_run else done
    found["DAG and run"] = f"{_foreign(news.dag_id)}, {_foreign(news.run_id)}"
    return found


def _for_how_long(news: RunNews) -> str:
    before = news.red_before
    if not news.red or not before:
        return ""
    # The page has the rest: no person counts beyond that at night.
    begun = before[-1].ended_at_ms
    at_least = "at least " if len(before) == len(news.earlier) else ""
    return f" since {at_least}{since(begun)}, {number_of(len(before) + 1, 'run')} in a row"


def _people(count: int) -> str:
    return f"{count} thing{'s need' if count > 1 else ' needs'} a person"


def _foreign(text: str, limit: int = MAX_NAME) -> str:
    return printable(text, limit).translate(_INERT)
