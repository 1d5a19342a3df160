# SPDX-License-Identifier: Apache-2.0
"""When the alarm rings because nothing has happened."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_rlmm.core.base.clock import DAY_MS
from airflow_provider_rlmm.core.base.errors import DocumentError
from airflow_provider_rlmm.overview.dead_man import Alarm, Watch, judge, last_success
from airflow_provider_rlmm.overview.run_summary import RunKind, RunOutcome, RunSummary
from tests.unit.overview.test_run_metrics import RUN

WHERE = "cluster MkU3OEVBNTcwNTJENDM2Qk, connection rlmm_default"
NOW_MS = 1_780_000_000_000
WATCH = Watch(RUN.cluster_id, RUN.connection, NOW_MS - 10 * DAY_MS)


def run(days_ago: float, **changes: object) -> RunSummary:
    return replace(RUN, ended_at_ms=NOW_MS - int(days_ago * DAY_MS), **changes)  # type: ignore[arg-type]


def alarm(*runs: RunSummary, real: bool = True, watch: Watch = WATCH) -> Alarm:
    last = last_success(runs, watch, real=real, now_ms=NOW_MS)
    return judge(last, watch, real=real, after_ms=2 * DAY_MS, now_ms=NOW_MS)


def test_a_green_run_in_time_silences_it() -> None:
    assert alarm(run(1, outcome=RunOutcome.FAILED), run(2)) == Alarm(
        False,
        f"the last real run of the cleaner that ended green on {WHERE} is 'manual__1' of remote_log_cleaner, at "
        "2026-05-26 20:26:40 UTC",
    )


def test_it_rings_a_moment_later_and_says_which_was_the_last() -> None:
    assert alarm(run(2.001)) == Alarm(
        True,
        f"no real run of the cleaner has ended green for 2 days on {WHERE}; the last one was "
        "'manual__1' of remote_log_cleaner, at 2026-05-26 20:25:13 UTC",
    )


@pytest.mark.parametrize(
    "other",
    [
        run(1, outcome=RunOutcome.FAILED),
        run(1, dry_run=True),
        run(1, kind=RunKind.DOCTOR),
        run(1, connection="rlmm_other"),
        run(1, cluster_id="another"),
        run(-1),
        run(1, only=("orders*",)),
    ],
    ids=["red", "dry", "doctor", "connection", "cluster", "future", "some topics"],
)
def test_what_is_no_green_real_run_of_this_cleaner_does_not_count(other: RunSummary) -> None:
    assert alarm(other, run(3)).rings
    assert not alarm(other, run(1)).rings


def test_where_runs_are_dry_by_the_connection_dry_ones_count() -> None:
    assert not alarm(run(1, dry_run=True), real=False).rings
    assert alarm(run(3, dry_run=True), real=False).rings


def test_without_any_run_the_days_are_counted_from_the_first_look() -> None:
    new = replace(WATCH, since_ms=NOW_MS - DAY_MS)
    assert alarm(watch=new) == Alarm(
        False,
        f"no real run of the cleaner has ended green on {WHERE} yet; the alarm rings from 2026-05-29 20:26:40 UTC on",
    )
    assert not alarm(watch=replace(WATCH, since_ms=NOW_MS - 2 * DAY_MS)).rings
    ringing = alarm(watch=replace(WATCH, since_ms=NOW_MS - 2 * DAY_MS - 1))
    assert ringing.rings
    assert "since it has been watched, 2026-05-26 20:26:39 UTC" in ringing.why


def test_a_first_look_in_the_future_rings() -> None:
    assert not alarm(watch=replace(WATCH, since_ms=NOW_MS + 60_000)).rings
    assert "a clock was wrong" in alarm(watch=replace(WATCH, since_ms=NOW_MS + DAY_MS)).why


def test_the_first_look_is_read_as_it_was_written() -> None:
    assert Watch.from_json(WATCH.to_json()) == WATCH
    with pytest.raises(DocumentError, match="sha256 differs"):
        Watch.from_json(WATCH.to_json().replace("rlmm_default", "rlmm_other"))
