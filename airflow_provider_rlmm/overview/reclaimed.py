# SPDX-License-Identifier: Apache-2.0
"""What runs have deleted in this month, by the summaries that are kept of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.clock import since
from airflow_provider_rlmm.overview.run_summary import RunSummary
from airflow_provider_rlmm.overview.runs import UnreadableRun


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """
    What runs have deleted since a moment.

    :param runs: that have deleted something.
    :param objects: what they have deleted.
    :param bytes: the sizes of these, summed.
    :param since_ms: from when on runs are known, ms since the epoch: the beginning of the month, or the end of the first run.
    :param lacks: why it may be more, in words; empty where summaries are there from the beginning of the month on.
    """

    runs: int
    objects: int
    bytes: int
    since_ms: int
    lacks: str

    @property
    def in_words(self) -> str:
        """By how many runs, from when on that is known, and why it may be more."""
        by, day = f"by {number_of(self.runs, 'run')}", since(self.since_ms)[:10]
        return f"at least: {by} since {day}, {self.lacks}" if self.lacks else f"{by} since {day}"


def last_tries(runs: Iterable[RunSummary]) -> list[RunSummary]:
    """
    Return of several tries of the last task of a run the last one, as it counts all.

    :param runs: the oldest first.
    """
    return list({run.artifact: run for run in runs}.values())


def deletions(runs: Iterable[RunSummary]) -> list[RunSummary]:
    """
    Return the last tries of the runs that have deleted something.

    :param runs: the oldest first.
    """
    return last_tries(run for run in runs if run.has_deleted)


def reclaimed_this_month(runs: Iterable[RunSummary | UnreadableRun], now_ms: int) -> Reclaimed:
    """
    Sum up what runs have deleted in the calendar month, by UTC.

    :param runs: the newest ones of which a summary is kept, the oldest first; where the first of them ended in this month,
        there may have been earlier ones.
    :param now_ms: ms since the epoch.
    """
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    begin_ms = int(datetime(now.year, now.month, 1, tzinfo=UTC).timestamp() * 1000)
    known = list(runs)
    of_month = [run for run in known if run.ended_at_ms >= begin_ms]
    done = deletions(run for run in of_month if isinstance(run, RunSummary))
    unreadable = sum(isinstance(run, UnreadableRun) for run in of_month)
    is_cut_off = not known or known[0].ended_at_ms >= begin_ms
    return Reclaimed(
        len(done),
        sum(run.deleted.objects for run in done),
        sum(run.deleted.bytes for run in done),
        known[0].ended_at_ms if known and is_cut_off else begin_ms,
        _lacks(is_cut_off, unreadable),
    )


def _lacks(is_cut_off: bool, unreadable: int) -> str:
    earlier = ["nothing is kept of earlier ones"] if is_cut_off else []
    others = [f"the summaries of {unreadable:,} more cannot be read"] if unreadable else []
    return " and ".join([*earlier, *others])
