# SPDX-License-Identifier: Apache-2.0
"""What runs have deleted in a month: those that are kept count, and where earlier ones may be gone it is said."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from airflow_provider_rlmm.overview.reclaimed import Reclaimed, reclaimed_this_month
from airflow_provider_rlmm.overview.run_summary import Deleted, RunKind, RunOutcome, RunSummary
from airflow_provider_rlmm.overview.runs import UnreadableRun


def ms(day: int, month: int = 11, hour: int = 0) -> int:
    return int(datetime(2026, month, day, hour, tzinfo=UTC).timestamp() * 1000)


NOW = ms(28, hour=12)


def run(ended_at_ms: int, size: int, **changes: Any) -> RunSummary:
    """A run of its own, unless it is named."""
    fields: dict[str, Any] = {
        "cluster_id": "c", "connection": "rlmm_default", "dag_id": "d", "run_id": "r", "artifact": f"run-{ended_at_ms}",
        "kind": RunKind.CLEANER, "began_at_ms": ended_at_ms, "ended_at_ms": ended_at_ms, "dry_run": False,
        "outcome": RunOutcome.SUCCESS, "headline": "", "deleted": Deleted(1, 3, size),
    }  # fmt: skip
    return RunSummary(**(fields | changes))


def test_what_ended_in_the_month_counts_by_utc() -> None:
    runs = [run(ms(1) - 1, 1), run(ms(1), 10), run(ms(28), 100)]
    found = reclaimed_this_month(runs, NOW)
    assert found == Reclaimed(2, 6, 110, ms(1), "")
    assert found.in_words == "by 2 runs since 2026-11-01"


def test_a_run_whose_last_task_was_tried_again_counts_once() -> None:
    runs = [run(ms(30, month=10), 1), run(ms(2), 10, artifact="a"), run(ms(3), 12, artifact="a")]
    assert reclaimed_this_month(runs, NOW) == Reclaimed(1, 3, 12, ms(1), "")


def test_dry_runs_and_runs_that_deleted_nothing_do_not_count_and_scrubs_do() -> None:
    scrub = run(ms(4), 7, kind=RunKind.SCRUB, deleted=Deleted(0, 2, 7))
    runs = [run(ms(30, month=10), 1), run(ms(2), 5, dry_run=True), run(ms(3), 0, deleted=Deleted(0, 0, 0)), scrub]
    assert reclaimed_this_month(runs, NOW) == Reclaimed(1, 2, 7, ms(1), "")


def test_where_earlier_runs_may_be_gone_it_is_at_least_that() -> None:
    found = reclaimed_this_month([run(ms(5), 10)], NOW)
    assert found == Reclaimed(1, 3, 10, ms(5), "nothing is kept of earlier ones")
    assert found.in_words == "at least: by 1 run since 2026-11-05, nothing is kept of earlier ones"
    assert (
        reclaimed_this_month([], NOW).in_words
        == "at least: by 0 runs since 2026-11-01, nothing is kept of earlier ones"
    )


def test_summaries_that_cannot_be_read_are_counted() -> None:
    earlier, broken = UnreadableRun("a", ms(30, month=10), "junk"), UnreadableRun("b", ms(4), "junk")
    assert reclaimed_this_month([earlier, run(ms(5), 10)], NOW) == Reclaimed(1, 3, 10, ms(1), "")
    found = reclaimed_this_month([earlier, broken, run(ms(5), 10)], NOW)
    assert found.in_words == "at least: by 1 run since 2026-11-01, the summaries of 1 more cannot be read"
