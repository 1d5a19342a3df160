# SPDX-License-Identifier: Apache-2.0
"""
A process that cleans metadata partitions for ``rlmm clean``, one after another, as its parent hands them out.

It opens cluster and storage by itself and proves them to be those of the run, as each cleaning task of the DAG does. What it
shares with its parent is the plan. It begins nothing more once its parent is gone.
"""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from threading import Lock
from typing import TYPE_CHECKING

from airflow_provider_rlmm.cli.exit_codes import ExitCode
from airflow_provider_rlmm.cli.interrupts import remembering_interrupts, was_interrupted
from airflow_provider_rlmm.cli.options import Invocation
from airflow_provider_rlmm.cli.output import Output
from airflow_provider_rlmm.cli.own_process import begin_process
from airflow_provider_rlmm.cli.runs import Run
from airflow_provider_rlmm.core.base.errors import RlmmError
from airflow_provider_rlmm.core.plans.guards import CleanerLimits

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.log.floored_log import Confirmation
    from airflow_provider_rlmm.core.plans.plan import PlanSummary
    from airflow_provider_rlmm.core.runs.cleaner_session import CleanerSession
    from airflow_provider_rlmm.core.world.kill_switch import StopSource


@dataclass(frozen=True, slots=True)
class CleaningJob:
    """
    What a process is told, through its pipe: it may hold secrets.

    :param options: of the command, about cluster and storage.
    :param store_options: of the object store.
    :param name: of the folder of the run.
    :param work_uri: folder of all runs.
    :param execute: whether it may write and delete.
    :param confirm: what the user has confirmed about the metadata topic.
    :param summary: of the plan of the run, as the parent has made and judged it.
    :param limits: of destructive work, with this process's share of the rate.
    :param archive_first: whether only what the run has archived is deleted.
    :param log_level: the lowest level of what the parent shows.
    """

    options: Mapping[str, str | bool | None] = field(repr=False)
    store_options: Mapping[str, str] = field(repr=False)
    name: str
    work_uri: str
    execute: bool
    confirm: Confirmation | None
    summary: PlanSummary
    limits: CleanerLimits
    archive_first: bool
    log_level: int

    @property
    def run(self) -> Run:
        """The run, at its cluster and no other: what the process reaches must be what its parent has reached (I9)."""
        options = {**self.options, "expected_cluster_id": self.summary.cluster_id}
        invocation = Invocation(options, self.store_options, Output(as_json=True))
        return Run(invocation, self.name, self.work_uri, self.execute, self.confirm)


@dataclass(frozen=True, slots=True)
class Said:
    """A line of the log."""

    level: int
    text: str


@dataclass(frozen=True, slots=True)
class Deleted:
    """How many segments of a metadata partition are deleted by now."""

    metadata_partition: int
    segments: int


@dataclass(frozen=True, slots=True)
class Ended:
    """A metadata partition is done with; ``failure`` says why where an error has ended it."""

    metadata_partition: int
    failure: str | None


Message = Said | Deleted | Ended
"""What a process tells its parent."""


class _Telling:
    """
    Tells the parent; a process without one any more is told so before the next batch.

    :param pipe: to the parent.
    """

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._one_at_a_time = Lock()

    def __call__(self, message: Message) -> None:
        with self._one_at_a_time:
            try:
                self._pipe.send(message)
            except OSError:
                return


class _ToldLines(logging.Handler):
    """Tells the parent what is logged."""

    def __init__(self, tell: Callable[[Message], object], level: int) -> None:
        super().__init__(level)
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        self._tell(Said(record.levelno, record.getMessage()))


def work(job: CleaningJob, pipe: Connection) -> None:
    """
    Clean the metadata partitions whose numbers come through the pipe, until it is closed.

    Ctrl-C goes to every process of a terminal. Here it does nothing: the parent ends its processes, by SIGTERM.

    :param job: what to do.
    :param pipe: to the parent: numbers come, a :data:`Message` each goes.
    """
    begin_process()
    tell, package = _Telling(pipe), logging.getLogger("airflow_provider_rlmm")
    package.setLevel(job.log_level)
    package.addHandler(_ToldLines(tell, job.log_level))
    with remembering_interrupts(signal.SIGTERM):
        try:
            for number in _handed_out(pipe):
                tell(Ended(number, _failure_of(job, number, tell)))
        except KeyboardInterrupt:
            sys.exit(ExitCode.INTERRUPTED)
        except Exception:
            if not was_interrupted():
                raise
            sys.exit(ExitCode.INTERRUPTED)


def _handed_out(pipe: Connection) -> Iterator[int]:
    """Yield the metadata partitions that the parent hands out, until there is no more, or no parent."""
    try:
        while True:
            yield pipe.recv()
    except (EOFError, ConnectionError):
        return


def _failure_of(job: CleaningJob, number: int, tell: Callable[[Message], object]) -> str | None:
    """Clean a metadata partition; return why that failed, ``None`` where it did not."""
    from airflow_provider_rlmm.features.cleanup.steps import clean

    run = job.run
    try:
        with run.session(job.limits) as session:
            clean(
                _ending_with_parent(session),
                run.uri,
                job.summary,
                number,
                limits=job.limits,
                dry_run=not run.execute,
                run=run.identity,
                archive_first=job.archive_first,
                on_segments=lambda segments: tell(Deleted(number, segments)),
            )
    except RlmmError as e:
        if was_interrupted():
            raise
        return str(e)
    except OSError as e:
        if was_interrupted():
            raise
        return f"{e.strerror or type(e).__name__}{f': {e.filename}' if e.filename else ''}"
    return None


def _ending_with_parent(session: CleanerSession) -> CleanerSession:
    """Return a session that begins nothing, and rests no longer, once the parent is gone."""
    return replace(session, should_stop=_with_parent(session.should_stop), rest=_rest)


def _rest(seconds: float) -> None:
    """Rest between two batches, no longer than the parent lives."""
    if (parent := parent_process()) is not None:
        wait([parent.sentinel], seconds)


def _with_parent(stop: StopSource) -> StopSource:
    """Return a source that is an interruption once the parent is gone: asked before every batch, of nothing remembered."""

    def why() -> str | None:
        parent = parent_process()
        if was_interrupted() or parent is None or not parent.is_alive():
            raise KeyboardInterrupt
        return stop()

    return why
