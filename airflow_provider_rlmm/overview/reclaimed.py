# SPDX-License-Identifier: Apache-2.0
"""What runs have deleted in this month, by the summaries that are kept of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from airflow_provider_rlmm.core.base.clock import since
from airflow_provider_rlmm.overview.run_summary import RunSummary


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """
    What runs have deleted since a moment.

    :param runs: that have deleted something.
    :param objects: what they have deleted.
    :param bytes: the sizes of these, summed.
    :param since_ms: from when on that is all, ms since the epoch: the beginning of the month, or of what is known of runs.
    :param is_whole: whether summaries are there from the beginning of the month on.
    """

    runs: int
    objects: int
    bytes: int
    since_ms: int
    is_whole: bool

    @property
    def in_words(self) -> str:
        """By how many runs, and from when on that is known."""
        by, day = f"by {self.runs:,} run{'' if self.runs == 1 else 's'}", since(self.since_ms)[:10]
        return f"{by} since {day}" if self.is_whole else f"at least: {by} since {day}, nothing is kept of earlier ones"


def reclaimed_this_month(runs: Sequence[RunSummary], now_ms: int) -> Reclaimed:
    """
    Sum up what runs have deleted in the calendar month, by UTC.

    :param runs: those of which a summary is kept, the oldest first; where the first of them ended in this month, there may
        have been earlier ones.
    :param now_ms: ms since the epoch.
    """
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    begin_ms = int(datetime(now.year, now.month, 1, tzinfo=UTC).timestamp() * 1000)
    done = [run for run in runs if run.ended_at_ms >= begin_ms and run.has_deleted]
    is_whole = bool(runs) and runs[0].ended_at_ms < begin_ms
    return Reclaimed(
        len(done),
        sum(run.deleted.objects for run in done),
        sum(run.deleted.bytes for run in done),
        begin_ms if is_whole or not runs else runs[0].ended_at_ms,
        is_whole,
    )
