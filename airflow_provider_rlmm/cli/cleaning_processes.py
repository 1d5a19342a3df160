# SPDX-License-Identifier: Apache-2.0
"""
``rlmm clean`` with several processes: metadata partitions are cleaned side by side, as the DAG's mapped tasks clean them.

The plan says what may go, before any of them begins, and each metadata partition is handed to one process, once. So the
limits of the run hold for all processes together; the rate is shared out among them.
"""

from __future__ import annotations

import logging
import os
import signal
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import TYPE_CHECKING, Final, cast

import click

from airflow_provider_rlmm.cli.cleaning_child import CleaningJob, Deleted, Ended, Said, work
from airflow_provider_rlmm.cli.face import in_terminal
from airflow_provider_rlmm.cli.output import Working
from airflow_provider_rlmm.cli.runs import Run
from airflow_provider_rlmm.core.plans.guards import CleanerLimits

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.plans.plan import PlanSummary

logger = logging.getLogger(__name__)

WORTH_PROCESSES: Final = 2_000
"""
Segments of a plan from which on it is cleaned by several processes, where the user does not say by how many.

A process takes 0.9 s of processor time before its first read. Two of them halve what takes a third of a millisecond or more
for each segment, and some tenths of a second, most of it waiting, for the session of each metadata partition: with
fewer segments than these, starting them takes longer than they save.
"""

GRACE_S: Final = 10.0
"""For how long a process that was told to end may take to, seconds: it may be closing its clients."""

_NEXT_RUN: Final = "what it deleted stays deleted; run the same command again: the next run goes on from there"


def processes_of(summary: PlanSummary, given: int | None, objects_per_second: int | None) -> int:
    """
    Return how many processes clean a plan: 1 is this one.

    :param summary: of the plan.
    :param given: the most that the user wants, ``None`` for as many as there are cores, where the work is worth it.
    :param objects_per_second: the most that the run deletes, ``None`` for as many as the store allows: it is shared out in
        whole objects.
    """
    most = given or (_usable_cores() if summary.planned.segments >= WORTH_PROCESSES else 1)
    return max(1, min(most, len(summary.by_metadata_partition), objects_per_second or most))


def _usable_cores() -> int:
    """Return how many cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        # macOS does not tell.
        return os.cpu_count() or 1


def shares_of(limits: CleanerLimits, processes: int) -> list[CleanerLimits]:
    """
    Return the limits of each process: what the run deletes in a second is shared out among them.

    :param limits: of the run, with its rate.
    :param processes: how many; no more than objects may be deleted in a second.
    """
    if limits.objects_per_second is None:
        return [limits] * processes
    each, left = divmod(limits.objects_per_second, processes)
    return [replace(limits, objects_per_second=each + (number < left)) for number in range(processes)]


@dataclass(slots=True)
class _Child:
    """A process, its pipe, and the metadata partition that it was handed last."""

    process: SpawnProcess
    pipe: Connection
    at: int = -1

    def give(self, number: int) -> bool:
        """Hand a metadata partition out; tell whether anybody took it."""
        try:
            self.pipe.send(number)
        except OSError:
            return False
        self.at = number
        return True

    def how_it_ended(self) -> str:
        """Say how the process ended, once its pipe is closed."""
        self.process.join(GRACE_S)
        code = self.process.exitcode
        if code is not None and code < 0:
            return f"its process was killed by signal {-code} ({signal.strsignal(-code)})"
        return f"its process ended with exit code {code}"


class CleaningProcesses:
    """
    Hands metadata partitions out to processes, and hears from them.

    :param summary: of the plan.
    :param shown: what shows progress.
    """

    def __init__(self, summary: PlanSummary, shown: Working) -> None:
        counts = summary.by_metadata_partition
        # The largest first: a free process takes the next one, so that all of them end at about the same time.
        self._waiting = deque(sorted(counts, key=lambda number: (-counts[number].segments, number)))
        self._total = summary.planned.segments
        self._deleted: dict[int, int] = {}
        self._shown = shown
        self._failed = 0

    def run(self, children: Sequence[_Child]) -> int:
        """
        Let them clean all there is; return how many metadata partitions an error has ended.

        :param children: processes that have nothing to do yet.
        """
        busy = {child.pipe: child for child in children if self._give(child)}
        while busy:
            for pipe in cast("list[Connection]", wait(list(busy))):
                if not self._hear(busy[pipe]):
                    del busy[pipe]
        for number in self._waiting:
            self._fail(number, "it was not begun: no process is left; run the same command again")
        return self._failed

    def _give(self, child: _Child) -> bool:
        """Hand the next metadata partition out; tell whether there was one, and the process is there to take it."""
        if not self._waiting or not child.give(self._waiting[0]):
            return False
        self._waiting.popleft()
        return True

    def _hear(self, child: _Child) -> bool:
        """Take what a process says; tell whether it is at anything afterwards."""
        try:
            message = child.pipe.recv()
        except (EOFError, OSError):
            self._fail(child.at, f"{child.how_it_ended()}; {_NEXT_RUN}")
            return False
        match message:
            case Said(level, text):
                logger.log(level, "%s", text)
            case Deleted(number, segments):
                self._deleted[number] = segments
                self._shown.on_step("segments", sum(self._deleted.values()), self._total)
            case Ended(number, failure):
                if failure is not None:
                    self._fail(number, failure)
                return self._give(child)
        return True

    def _fail(self, number: int, why: str) -> None:
        self._failed += 1
        click.echo(f"rlmm: metadata partition {number}: {in_terminal(why)}", err=True)


def clean_side_by_side(
    run: Run, summary: PlanSummary, limits: CleanerLimits, processes: int, shown: Working, *, archive_first: bool
) -> int:
    """
    Clean each metadata partition of a plan; return how many of them an error has ended.

    :param run: the run.
    :param summary: of its plan.
    :param limits: of destructive work, with the rate of the run.
    :param processes: how many.
    :param shown: what shows progress.
    :param archive_first: whether only what the run has archived is deleted.
    """
    job = CleaningJob(
        run.invocation.options,
        run.invocation.store_options,
        run.name,
        run.work_uri,
        run.execute,
        run.confirm,
        summary,
        limits,
        archive_first,
        _shown_level(),
    )
    with _children([replace(job, limits=share) for share in shares_of(limits, processes)]) as children:
        return CleaningProcesses(summary, shown).run(children)


def _shown_level() -> int:
    """Return the lowest level of the log that anybody is shown: a line for each event would be told for nothing."""
    package = logging.getLogger("airflow_provider_rlmm")
    return max(package.level, min((handler.level for handler in package.handlers), default=logging.CRITICAL))


@contextmanager
def _children(jobs: Sequence[CleaningJob]) -> Iterator[list[_Child]]:
    """Start a process for each job; at the end of the block they end as well, in the middle of their work."""
    children: list[_Child] = []
    try:
        # One after another: those that were started end even where another cannot be.
        children.extend(map(_started, jobs))
        yield children
    except BaseException:
        for child in children:
            child.process.terminate()
        raise
    finally:
        for child in children:
            child.pipe.close()
        for child in children:
            child.process.join(GRACE_S)
            child.process.kill()


def _started(job: CleaningJob) -> _Child:
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=work, args=(job, theirs), daemon=True)
    # It unblocks the signals that it blocks while it starts, ours among them.
    resource_tracker.ensure_running()
    # The process inherits it: a Ctrl-C is the command's, which ends its processes.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        theirs.close()
    return _Child(process, ours)
