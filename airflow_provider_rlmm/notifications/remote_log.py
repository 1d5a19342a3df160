# SPDX-License-Identifier: Apache-2.0
"""A notifier that writes the message about a run, and leaves its delivery to other notifiers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from traceback import extract_tb
from typing import Any
from urllib.parse import quote

from airflow.sdk import BaseNotifier, Context

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.errors import ConfigurationError, DocumentError, RlmmError
from airflow_provider_rlmm.core.base.quoting import printable
from airflow_provider_rlmm.core.base.redaction import without_addresses
from airflow_provider_rlmm.core.runs.task_failure import MAX_ERROR, TaskFailure
from airflow_provider_rlmm.notifications.failures import error_in_words, failures_of
from airflow_provider_rlmm.overview.run_news import Message, RunNews, message_of
from airflow_provider_rlmm.overview.run_summary import RunOutcome, RunSummary
from airflow_provider_rlmm.run_groups import run_group_of, run_groups_of
from airflow_provider_rlmm.settings import artifact_name_of, work_uri

__all__ = ["RemoteLogNotifier"]

Deliver = Callable[[Any], object]
"""Takes the context of a callback, as every notifier does; in it ``rlmm`` is the message."""


class RemoteLogNotifier(BaseNotifier):
    """
    Write the message about a run and hand it to other notifiers, as a callback of a DAG or of a task.

    Each of them is called with the callback's context, in which ``rlmm`` is a
    :class:`~airflow_provider_rlmm.overview.run_news.Message`. So ``{{ rlmm.subject }}``, ``{{ rlmm.text }}`` and
    ``{{ rlmm.html }}`` work in the templates of any notifier of any provider. One that fails keeps no other
    from being called.

    :param deliver: a notifier, or another function that takes the context; or several.
    :raises ConfigurationError: if there is none, or it cannot be called.
    """

    def __init__(self, deliver: Deliver | Iterable[Deliver], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.deliver: Sequence[Deliver] = (deliver,) if callable(deliver) else tuple(deliver)
        if not self.deliver or not all(map(callable, self.deliver)):
            raise ConfigurationError(
                "deliver must be a notifier, or another function that takes the context, or several"
            )

    def notify(self, context: Context) -> None:
        """
        Send the message.

        :param context: of the callback.
        :raises RuntimeError: naming how many of the notifiers failed; their errors stand in the log, without the addresses
            that they called.
        """
        message = build_message(context)
        failed = 0
        for deliver in self.deliver:
            # A notifier renders its own fields in place: the next message needs them as they were.
            once, known = copy.copy(deliver), dict(context)
            try:
                once({**known, "rlmm": message})
            except Exception as e:
                failed += 1
                self.log.error("The message %r was not delivered: %s", message.subject, _what_failed(e))
        if failed:
            raise RuntimeError(f"{failed} of {number_of(len(self.deliver), 'notifier')} failed, see the log")


def _what_failed(error: Exception) -> str:
    """Return type, place and words of a notifier's error: its address may be the secret, and clients repeat it."""
    frame = extract_tb(error.__traceback__)[-1]
    words = printable(without_addresses(str(error)), MAX_ERROR)
    return f"{type(error).__name__} at {frame.filename}:{frame.lineno}: {words}"


def build_message(context: Context) -> Message:
    """
    Return the message about the run of a callback. It never fails: what cannot be read is said in it.

    :param context: of the callback; of a DAG's, where Airflow knows no task, ``dag`` and ``run_id`` are enough.
    """
    dag_id, run_id = context["dag"].dag_id, str(context["run_id"])
    task, unread = context.get("ti"), None
    kept: list[_Kept] = []
    failures: Sequence[TaskFailure] = ()
    try:
        groups = _groups(context)
        failures = failures_of(dag_id, run_id, groups)
        for group in groups:
            kept += _kept(dag_id, run_id, group)
    except (RlmmError, OSError) as e:
        unread = str(e)
    except Exception as e:
        # A store's library or a secrets backend may raise anything: its words stay in the log.
        unread = f"{type(e).__name__}, see the log"
    # Of the groups of a run the one that a person must see comes first.
    kept.sort(key=lambda one: one.summary.outcome is not RunOutcome.FAILED)
    summary = kept[0].summary if kept else None
    news = RunNews(
        dag_id=dag_id,
        run_id=run_id,
        red=_is_red(context, summary),
        summary=summary,
        earlier=kept[0].earlier if kept else (),
        others=[one.summary for one in kept[1:]],
        failures=failures,
        task_id=task.task_id if task else None,
        error=_error(context),
        unread=unread,
        base_url=base_url(),
        run_url=run_url(dag_id, run_id),
    )
    return message_of(news)


@dataclass(frozen=True, slots=True)
class _Kept:
    """What a run, or a group of its tasks, has kept of itself, and what those before it have, the newest first."""

    summary: RunSummary
    earlier: Sequence[RunSummary]


def _groups(context: Context) -> list[str | None]:
    """Return what a message is about: the group of the task that failed, or the tasks of a DAG in none and all its groups."""
    # The context of a DAG's callback names a task, too: the last one that has run. Only it has a reason.
    if "reason" in context or "task" not in context:
        return [None, *run_groups_of(context["dag"])]
    return [run_group_of(context["task"])]


def _kept(dag_id: str, run_id: str, group: str | None) -> list[_Kept]:
    """Return what was kept; nothing where nothing was."""
    from airflow_provider_rlmm.overview.inventories import clusters
    from airflow_provider_rlmm.overview.runs import UnreadableRun, history, run_of

    work, artifact = work_uri(), artifact_name_of(dag_id, run_id, group)
    for folder in clusters(work):
        run = run_of(work, folder, artifact)
        if run is None:
            continue
        if isinstance(run, UnreadableRun):
            raise DocumentError(run.why)
        if (run.dag_id, run.run_id) != (dag_id, run_id):
            raise DocumentError(f"the summary of {artifact} is of another run")
        before = [r for r in history(work, folder) if r.dag_id == dag_id and r.file_name < run.file_name]
        return [_Kept(run, [r for r in before if r.artifact == artifact_name_of(dag_id, r.run_id, group)][::-1])]
    return []


def _is_red(context: Context, summary: RunSummary | None) -> bool:
    """Tell a callback for failures from one for successes: Airflow says neither outright."""
    if summary is not None and summary.outcome is RunOutcome.FAILED:
        return True
    reason = str(context.get("reason") or "")
    return bool(context.get("exception")) or (bool(reason) and reason != "success")


def _error(context: Context) -> str | None:
    error, reason = context.get("exception"), context.get("reason")
    if error is not None:
        return error_in_words(error)
    return str(reason) if reason else None


def run_url(dag_id: str, run_id: str) -> str:
    """Return where Airflow's UI shows a run; empty where the UI's address is not set."""
    return f"{base_url()}/dags/{quote(dag_id, safe='')}/runs/{quote(run_id, safe='')}" if base_url() else ""


def base_url() -> str:
    """Return where Airflow's UI is, without a slash at the end; empty where that is not set."""
    from airflow.providers.common.compat.sdk import conf

    return (conf.get("api", "base_url", fallback="") or "").rstrip("/")
