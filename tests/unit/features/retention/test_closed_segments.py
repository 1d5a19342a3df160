# SPDX-License-Identifier: Apache-2.0
"""What the times of records tell of segments that wait to be copied: by Kafka's rules for closing a segment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.base.clock import DAY_MS, HOUR_MS
from airflow_provider_rlmm.core.log.answers import CopyConfigs, NotTold
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.features.retention.closed_segments import WaitingRecords, closed_segments
from airflow_provider_rlmm.features.retention.hanging_copies import CopyProgress
from tests.unit.features.retention.in_process_leaders import InProcessLeaders

TIP = TopicIdPartition(UUID(int=7), "orders", 3)
NOW_MS = 1_000 * DAY_MS
# A copy hangs after two hours; an idle segment is closed after eight.
CONFIGS = CopyConfigs(
    True, False, frozenset({"delete"}), -1, -1, local_retention_ms=8 * HOUR_MS, segment_ms=HOUR_MS
)  # fmt: skip
HANGS_MS = 2 * HOUR_MS


def ago(hours: float) -> int:
    return NOW_MS - int(hours * HOUR_MS)


def told(
    times_ms: Mapping[int, int] | NotTold,
    copied_to: int = 0,
    newest_copy_ms: int | None = None,
    configs: CopyConfigs = CONFIGS,
) -> bool | NotTold | None:
    """Return what is told; ``None`` where nobody was asked."""
    leaders = InProcessLeaders()
    leaders.times_ms[TIP] = times_ms
    usual = None if newest_copy_ms is None else 100
    waiting = WaitingRecords(CopyProgress(copied_to, 10, usual), newest_copy_ms, configs)
    if not waiting.is_worth_asking(NOW_MS):
        return None
    return closed_segments({TIP: waiting}, leaders, NOW_MS)[TIP]


def test_a_record_that_came_a_segments_time_later_has_closed_it() -> None:
    # Three hours are an hour of the segment and the two for which a copy may hang.
    assert told({0: ago(3.1), 5: ago(2), 9: ago(0)}) is True
    assert told({0: ago(2.9), 5: ago(2), 9: ago(0)}) is False
    assert told({0: ago(3.1), 9: ago(0)}, configs=replace(CONFIGS, segment_ms=2 * HOUR_MS)) is False


def test_old_records_of_an_idle_user_partition_wait_in_its_active_segment() -> None:
    """Their age tells nothing, be they as old as producers like, until local retention would have closed it."""
    assert told({0: ago(7), 9: ago(6.9)}) is False
    assert told({0: ago(9.9), 9: ago(9.8)}) is False
    assert told({0: ago(10.2), 9: ago(10.1)}) is True
    assert told({0: ago(500), 9: ago(499)}, configs=replace(CONFIGS, local_retention_ms=-1)) is False
    # Old times in records that were written just now: the one behind them is new.
    assert told({0: ago(0.1), 5: ago(900), 9: ago(0)}) is False


def test_a_record_from_the_future_closes_what_is_before_it_and_not_its_own_segment() -> None:
    assert told({0: ago(0.1), 9: ago(-900)}) is True
    assert told({0: ago(-900), 9: ago(0)}) is False


def test_behind_a_copy_only_what_is_later_counts() -> None:
    times_ms = {0: ago(9), 49: ago(4), 50: ago(3.5), 59: ago(0.1)}
    assert told(times_ms, 50, ago(4)) is True
    assert told({**times_ms, 50: ago(1)}, 50, ago(4)) is False
    # One that is copied is the latest of all: nobody can tell by it.
    assert isinstance(told({**times_ms, 49: ago(-900)}, 50, ago(4)), NotTold)


def test_who_has_copied_lately_or_has_nothing_to_copy_is_not_asked() -> None:
    assert told({}, 50, ago(2.9)) is None
    assert told({}, 50, ago(3.1)) is False
    progress = CopyProgress(50, 0, 100)
    assert not WaitingRecords(progress, ago(900), CONFIGS).is_worth_asking(NOW_MS)
    behind = CopyProgress(50, 101, 100)
    assert not WaitingRecords(behind, ago(900), CONFIGS).is_worth_asking(NOW_MS)


@pytest.mark.parametrize("copied", [None, ago(900)])
def test_no_answer_is_not_a_no(copied: int | None) -> None:
    silent = NotTold("its leader is away")
    assert told(silent, newest_copy_ms=copied) == silent
    withheld = told({0: ago(5), 9: ago(0)}, newest_copy_ms=copied, configs=replace(CONFIGS, segment_ms=None))
    assert withheld == NotTold("the cluster does not tell segment.ms")
