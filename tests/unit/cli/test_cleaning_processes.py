# SPDX-License-Identifier: Apache-2.0
"""The processes of ``rlmm clean``: who gets what, what becomes of those that end badly, and what they never do."""

from __future__ import annotations

import logging
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing import Pipe
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_rlmm.cli import cleaning_child, cleaning_processes
from airflow_provider_rlmm.cli.cleaning_child import CleaningJob
from airflow_provider_rlmm.cli.cleaning_processes import (
    WORTH_PROCESSES,
    clean_side_by_side,
    processes_of,
    shares_of,
)
from airflow_provider_rlmm.cli.interrupts import remembering_interrupts
from airflow_provider_rlmm.cli.options import Invocation
from airflow_provider_rlmm.cli.output import Output, working
from airflow_provider_rlmm.cli.runs import Run
from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.core.plans.plan import PlanSummary
from tests.builders import HOUR_MS, Cluster
from tests.roots import the_work_folder_is_older_than_all_copies  # noqa: F401  # a fixture
from tests.unit.cli import cleaning_children
from tests.unit.cli.test_lost_log import CLEAN, CLUSTER, GONE, WRITES, cluster, said  # noqa: F401  # cluster is a fixture

NAMES = tuple(range(6))
SECRET = "s3cr3t-of-the-store"


def plan(*segments: int) -> PlanSummary:
    """The summary of a plan with so many segments in each metadata partition."""
    counts = {number: Count(planned, planned) for number, planned in enumerate(segments)}
    return PlanSummary(
        plan_id="plan-1", cluster_id=CLUSTER, created_at_ms=0, expires_at_ms=1, read_until={}, known=Count(0, 0),
        by_reason={"ORPHANED": Count.sum(counts.values())}, by_metadata_partition=counts, quarantined={}, unresolved=0,
    )  # fmt: skip


def run_of(**store_options: str) -> Run:
    invocation = Invocation({"bootstrap_server": "b:9092"}, store_options, Output(as_json=True))
    return Run(invocation, "clean.1", "/nowhere", execute=True)


def cleaned(processes: int = 2, segments: int = 10, **store_options: str) -> int:
    """Clean the metadata partitions of a plan; return how many an error has ended."""
    with working() as shown:
        summary = plan(*(segments for _ in NAMES))
        return clean_side_by_side(
            run_of(**store_options), summary, CleanerLimits(), processes, shown, archive_first=False
        )


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The processes that were started."""
    found: list[Any] = []
    start = cleaning_processes._started

    def keep(job: CleaningJob) -> Any:
        found.append(start(job))
        return found[-1]

    monkeypatch.setattr(cleaning_processes, "_started", keep)
    return found


def that(monkeypatch: pytest.MonkeyPatch, work: Callable[..., None]) -> None:
    """Let processes do something else than clean."""
    monkeypatch.setattr(cleaning_processes, "work", work)


def test_the_processes_are_no_more_than_there_is_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaning_processes, "_usable_cores", lambda: 4)
    much = WORTH_PROCESSES // 2
    assert processes_of(plan(much, much, 1, 1, 1), None, None) == 4
    assert processes_of(plan(much, much), None, None) == 2
    assert processes_of(plan(much, much - 1), None, None) == 1, "it would take longer to start them"
    assert processes_of(plan(much, much), 1, None) == 1
    assert processes_of(plan(1, 1, 1), 2, None) == 2, "whoever says it means it"
    assert processes_of(plan(), None, None) == 1
    assert processes_of(plan(much, much, 1), None, 2) == 2
    assert processes_of(plan(much, much), 2, 1) == 1, "half an object cannot be deleted"


def test_every_core_that_may_be_used_counts() -> None:
    assert cleaning_processes._usable_cores() == len(os.sched_getaffinity(0))


@pytest.mark.parametrize("rate", [2, 7, 100])
@pytest.mark.parametrize("processes", [1, 2])
def test_the_processes_share_the_rate_of_the_run(rate: int, processes: int) -> None:
    shares = shares_of(CleanerLimits(objects_per_second=rate, batch_segments=7), processes)
    rates = [share.objects_per_second for share in shares]
    assert sum(map(int, rates)) == rate  # type: ignore[arg-type]
    assert all(rates), "none would mean as fast as the store allows"
    assert {share.batch_segments for share in shares} == {7}
    assert [share.objects_per_second for share in shares_of(CleanerLimits(), processes)] == [None] * processes


@pytest.mark.slow
def test_each_metadata_partition_goes_to_one_process(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    that(monkeypatch, cleaning_children.cleans)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "160")
    assert cleaned(segments=5) == 0
    found = [re.fullmatch(r"(\d) by (\d+)", record.message) for record in caplog.records]
    assert sorted(int(match[1]) for match in found if match) == list(NAMES)
    assert os.getpid() not in {int(match[2]) for match in found if match}
    assert "30/30" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("work", "why"),
    [
        (cleaning_children.is_refused, "the root is gone"),
        (cleaning_children.is_killed, "its process was killed by signal 9 (Killed); what it deleted stays deleted; run"),
        (cleaning_children.leaves, "its process ended with exit code 7; what it deleted stays deleted"),
    ],
)  # fmt: skip
def test_who_ends_badly_is_named_with_what_to_do_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], work: Callable[..., None], why: str
) -> None:
    that(monkeypatch, work)
    assert cleaned() == 1
    assert capsys.readouterr().err.strip().startswith(f"rlmm: metadata partition {cleaning_children.BAD}: {why}")


@pytest.mark.slow
def test_where_no_process_is_left_every_metadata_partition_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    that(monkeypatch, cleaning_children.dies_at_once)
    assert cleaned() == len(NAMES)
    text = capsys.readouterr().err
    assert sorted(map(int, re.findall(r"metadata partition (\d): ", text))) == list(NAMES)
    assert "run the same command again" in text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("work", "grace_s", "ended_by"),
    [(cleaning_children.waits, 30.0, signal.SIGTERM), (cleaning_children.hears_nothing, 0.2, signal.SIGKILL)],
)
def test_an_interrupt_ends_the_processes(
    monkeypatch: pytest.MonkeyPatch,
    started: list[Any],
    work: Callable[..., None],
    grace_s: float,
    ended_by: signal.Signals,
) -> None:
    """By a word, and where a process does not hear it by force."""
    that(monkeypatch, work)
    monkeypatch.setattr(cleaning_processes, "GRACE_S", grace_s)

    class CtrlC(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.getMessage() == cleaning_children.WAITING:
                signal.raise_signal(signal.SIGINT)

    handler = CtrlC()
    cleaning_processes.logger.addHandler(handler)
    try:
        with remembering_interrupts(), pytest.raises(KeyboardInterrupt):
            cleaned()
    finally:
        cleaning_processes.logger.removeHandler(handler)
    for child in started:
        child.process.join(60)
    # One that is still starting hears the word.
    codes = {child.process.exitcode for child in started}
    assert -ended_by in codes <= {-signal.SIGTERM, -ended_by}


@pytest.mark.slow
def test_secrets_go_through_the_pipe_and_nobody_else_sees_them(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    that(monkeypatch, cleaning_children.tells_what_others_see)
    assert cleaned(secret_access_key=SECRET) == 0
    assert caplog.text.count(f"given {SECRET[:6]}") == len(NAMES)
    assert SECRET not in caplog.text


# -- what a process does, in this one ------------------------------------------------------------------------------------


class Parent:
    """The parent of a process, which may go at any question."""

    def __init__(self) -> None:
        self.asked = 0
        self.gone_at: int | None = None
        self.sentinel, self._other = os.pipe()

    def is_alive(self) -> bool:
        self.asked += 1
        return self.gone_at is None or self.asked < self.gone_at

    def go(self) -> None:
        os.close(self._other)


@pytest.fixture
def parent(monkeypatch: pytest.MonkeyPatch) -> Parent:
    """Let the command clean by two of its processes, which are threads here."""
    parent = Parent()

    def started(job: CleaningJob) -> Any:
        ours, theirs = Pipe()

        def work() -> None:
            with theirs, suppress(SystemExit):
                cleaning_child.work(job, theirs)

        thread = threading.Thread(target=work)
        thread.start()
        process = SimpleNamespace(join=thread.join, kill=lambda: None, terminate=lambda: None, exitcode=0)
        return cleaning_processes._Child(process, ours)  # type: ignore[arg-type]

    monkeypatch.setattr(cleaning_child, "begin_process", lambda: None)
    monkeypatch.setattr(cleaning_child, "parent_process", lambda: parent)
    monkeypatch.setattr(cleaning_processes, "_started", started)
    monkeypatch.setattr(cleaning_processes, "processes_of", lambda *_: 2)
    return parent


@pytest.fixture
def marked(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> Iterator[Cluster]:  # noqa: F811
    """Three segments that may go now."""
    for number in range(20, 23):
        cluster.segment(GONE, number)
    assert said(capsys, *CLEAN, *WRITES)[0] == 0
    cluster.now_ms += 30 * HOUR_MS
    yield cluster
    package = logging.getLogger("airflow_provider_rlmm")
    for handler in package.handlers[:]:
        if isinstance(handler, cleaning_child._ToldLines):
            package.removeHandler(handler)


@pytest.mark.slow
@pytest.mark.parametrize("execute", [(), WRITES])
def test_what_a_process_does_is_what_the_command_does(
    marked: Cluster, parent: Parent, capsys: pytest.CaptureFixture[str], execute: tuple[str, ...]
) -> None:
    keys = set(marked.storage.keys)
    code, text = said(capsys, *CLEAN, *execute)
    assert code == 0, text
    assert re.search(r"segments deleted +3\b" if execute else r"would delete segments +3\b", text), text
    gone = {key for key in keys if "gone-0-" in key}
    assert len(gone) == 15
    assert keys - set(marked.storage.keys) == (gone if execute else set())


@pytest.mark.slow
@pytest.mark.parametrize("begun", [0, 1, 2])
def test_a_process_that_loses_its_parent_begins_no_further_batch(
    marked: Cluster, parent: Parent, capsys: pytest.CaptureFixture[str], begun: int
) -> None:
    # It is asked before anything is begun, and before each batch.
    parent.gone_at = begun + 2 if begun else 1
    code, text = said(capsys, *CLEAN, *WRITES, "--batch-segments", "1")
    assert code == 4
    assert "rlmm: metadata partition 0: its process ended" in text
    states = [line.partition(" ")[0] for line in marked.ours()]
    assert states.count("DELETE_SEGMENT_STARTED") == states.count("DELETE_SEGMENT_FINISHED") == begun
    parent.gone_at = None
    assert said(capsys, *CLEAN, *WRITES)[0] == 0
    assert not marked.keys_of(GONE)


@pytest.mark.slow
def test_a_dry_run_ends_with_its_parent_too(
    marked: Cluster, parent: Parent, capsys: pytest.CaptureFixture[str]
) -> None:
    parent.gone_at = 2
    assert said(capsys, *CLEAN)[0] == 4
    assert parent.asked == 2


@pytest.mark.slow
def test_a_process_rests_no_longer_than_its_parent_lives(
    marked: Cluster, parent: Parent, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    parent.go()
    began = time.monotonic()
    cleaning_child._rest(30.0)
    assert time.monotonic() - began < 15.0
    rested: list[float] = []
    monkeypatch.setattr(cleaning_child, "_rest", rested.append)
    assert said(capsys, *CLEAN, *WRITES, "--batch-segments", "1", "--objects-per-second", "2")[0] == 0
    assert rested == [pytest.approx(5.0, abs=1.0)] * 3, "five objects of a batch, and half of the rate"


@pytest.mark.slow
def test_a_process_expects_the_cluster_of_the_plan(
    marked: Cluster, parent: Parent, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it opens is its own: it proves by itself where that leads, whatever its parent has seen."""
    expected: list[str | None] = []
    monkeypatch.setattr(
        "airflow_provider_rlmm.core.runs.access.RemoteLogAccess.check_cluster",
        lambda self, *_: expected.append(self.get_connection_settings().expected_cluster_id) or CLUSTER,
    )
    assert said(capsys, *CLEAN)[0] == 0
    assert expected == [None, CLUSTER]
