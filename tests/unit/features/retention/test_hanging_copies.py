# SPDX-License-Identifier: Apache-2.0
"""Leaders that have stopped copying: what is behind, for how long, and what every run remembers of it."""

from __future__ import annotations

import json
from dataclasses import replace
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.base import strict_json
from airflow_provider_rlmm.core.base.clock import HOUR_MS
from airflow_provider_rlmm.core.base.documents import plain_of
from airflow_provider_rlmm.core.log.answers import CopyConfigs, PartitionLook
from airflow_provider_rlmm.core.log.copy_lag import CopyLag
from airflow_provider_rlmm.core.plans.certainty import Certainty
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    TopicIdPartition,
)
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.features.retention.hanging_copies import (
    CopyProgress,
    WaitingCopies,
    in_words,
    patience_ms,
    progress_of,
    waiting_now,
)
from airflow_provider_rlmm.features.retention.leader_document import MAX_LISTED, LeaderProblem, ReportedLeaders
from airflow_provider_rlmm.features.retention.leader_pass import PartitionPass
from airflow_provider_rlmm.features.retention.overdue import DuePartition, DueSegments, hanging_of, remembered
from tests.sample_leaders import leader_retention, reported_leaders

TIP = TopicIdPartition(UUID(int=7), "orders", 3)
MINUTE_MS = 60_000
TWO_HOURS = CopyConfigs(True, False, frozenset({"delete"}), -1, -1, local_retention_ms=2 * HOUR_MS)


def segment(start: int, end: int, state: S = S.COPY_SEGMENT_FINISHED) -> RemoteLogSegmentMetadata:
    return RemoteLogSegmentMetadata(
        RemoteLogSegmentId(TIP, UUID(int=start + 1)), start, end, 1, 1, 1, 10, None, state, ((0, start),)
    )


def look(high_watermark: int, configs: CopyConfigs = TWO_HOURS) -> PartitionLook:
    return PartitionLook(TIP, configs, 0, high_watermark, 0, 4)


COPIED = [segment(0, 99), segment(100, 299), segment(300, 349), segment(350, 449)]


@pytest.mark.parametrize(
    ("segments", "high_watermark", "progress"),
    [
        (COPIED, 800, CopyProgress(450, 350, 350)),
        (COPIED, 801, CopyProgress(450, 351, 350)),
        # What is being copied or deleted is no copy, nor is what ends behind the log of another leader.
        ([*COPIED, segment(450, 549, S.COPY_SEGMENT_STARTED)], 900, CopyProgress(450, 450, 350)),
        ([*COPIED, segment(800, 999)], 900, CopyProgress(450, 450, 350)),
        # Of a young partition there are fewer.
        (COPIED[:1], 500, CopyProgress(100, 400, 300)),
        (COPIED[:2], 500, CopyProgress(300, 200, 500)),
        # Where no copy is there all waits, and offsets tell nothing.
        ([], 500, CopyProgress(0, 500, None)),
        ([segment(0, 99, S.DELETE_SEGMENT_STARTED)], 500, CopyProgress(0, 500, None)),
    ],
)
def test_how_far_a_leader_has_copied(
    segments: list[RemoteLogSegmentMetadata], high_watermark: int, progress: CopyProgress | None
) -> None:
    assert progress_of(look(high_watermark), reversed(segments)) == progress


@pytest.mark.parametrize("change", [{"remote_storage_enable": False}, {"remote_log_copy_disable": True}])
def test_a_leader_that_is_not_to_copy_is_not_behind(change: dict[str, bool]) -> None:
    assert progress_of(look(10_000, replace(TWO_HOURS, **change)), COPIED) is None


def test_as_much_as_three_segments_hold_always_waits() -> None:
    assert not CopyProgress(450, 350, 350).is_behind
    assert CopyProgress(450, 351, 350).is_behind


def test_what_is_remembered_of_a_leader() -> None:
    behind, ahead = CopyProgress(450, 351, 350), CopyProgress(550, 351, 350)
    first = waiting_now(behind, None, 1_000)
    assert first == WaitingCopies(450, 1_000)
    # More waits, and no copy came.
    assert waiting_now(replace(behind, waiting=999), first, 5_000) == first
    # Another copy came: it goes on.
    assert waiting_now(ahead, first, 5_000) == WaitingCopies(550, 5_000)
    assert waiting_now(replace(behind, waiting=10), first, 5_000) is None
    # Not told is not "goes on".
    assert waiting_now(None, first, 5_000) == first
    # What was closed stays closed, also where times are not told any more; what was not is not taken for closed.
    closed = CopyProgress(0, 40, None, is_closed=True)
    known = waiting_now(closed, None, 1_000)
    assert known == WaitingCopies(0, 1_000)
    assert waiting_now(replace(closed, is_closed=None), known, 5_000) == known
    assert waiting_now(replace(closed, is_closed=None, copied_to=30), known, 5_000) is None
    assert waiting_now(replace(closed, is_closed=None), None, 5_000) is None
    assert waiting_now(replace(closed, is_closed=False), known, 5_000) is None
    # A clock that has run ahead does not make it wait for ever.
    assert waiting_now(behind, WaitingCopies(450, 9_000), 5_000) == WaitingCopies(450, 5_000)


@pytest.mark.parametrize(
    ("change", "minutes"),
    [
        ({}, 30),
        ({"local_retention_ms": 1_000}, 15),
        ({"local_retention_ms": -2, "retention_ms": 8 * HOUR_MS}, 120),
        ({"local_retention_ms": -2}, 240),
        ({"local_retention_ms": -1}, 240),
        ({"copy_lag": CopyLag(60 * MINUTE_MS, -1)}, 90),
        ({"copy_lag": CopyLag(-1, -1)}, 150),
        ({"copy_lag": CopyLag(-1, -1), "local_retention_ms": -1}, None),
        ({"copy_lag": CopyLag(why_unknown="withheld")}, None),
    ],
)
def test_the_time_counts_from_when_a_copy_was_due(change: dict[str, object], minutes: int | None) -> None:
    patience = patience_ms(replace(TWO_HOURS, **change))  # type: ignore[arg-type]
    assert patience == (None if minutes is None else minutes * MINUTE_MS)


def found(copies: CopyProgress | None, configs: CopyConfigs | None = TWO_HOURS) -> PartitionPass:
    return PartitionPass(TIP, Certainty.ALL, expired=(), configs=configs, leader=4, copies=copies)


def test_a_leader_that_is_behind_the_same_copy_for_too_long_hangs() -> None:
    behind = found(CopyProgress(450, 351, 350))
    known = remembered(behind, None, 1_000)
    late = 1_000 + 30 * MINUTE_MS
    assert hanging_of(behind, known, late - 1) is None
    hanging = hanging_of(behind, remembered(behind, known, late), late)
    assert hanging is not None
    assert (hanging.partition, hanging.since_ms, hanging.leader) == (3, 1_000, 4)
    assert "broker 4, its leader," in hanging.what_to_do
    assert in_words(hanging.progress, 30 * MINUTE_MS) == (
        "351 offsets wait behind offset 450, where the last segments held 350, and none was copied for 30 min"
    )
    # Of the very same copy nobody tells the times any more.
    untold = found(CopyProgress(450, 20, 350, is_closed=None))
    assert hanging_of(untold, remembered(untold, known, late), late) is not None
    # It has copied since, is not told, or nobody knows when a copy is due.
    ahead = found(CopyProgress(550, 20, 350))
    assert hanging_of(ahead, remembered(ahead, known, late), late) is None
    assert hanging_of(ahead, known, late) is None
    assert hanging_of(found(None), known, late) is None
    withheld = replace(TWO_HOURS, copy_lag=CopyLag(why_unknown="withheld"))
    assert hanging_of(found(CopyProgress(450, 351, 350), withheld), known, late) is None


def test_how_far_behind_is_said_without_offsets_to_compare() -> None:
    closed = "the times of records show a closed segment among them, and none was copied for 30 min"
    never, little = CopyProgress(0, 40, None, is_closed=True), CopyProgress(450, 40, 350, is_closed=True)
    assert never.is_behind
    assert little.is_behind
    assert in_words(never, 30 * MINUTE_MS) == f"40 offsets wait from offset 0 on, of which no copy is there, {closed}"
    assert in_words(little, 30 * MINUTE_MS) == f"40 offsets wait behind offset 450, {closed}"


def test_what_is_remembered_can_be_read_again_and_was_not_there_before() -> None:
    due = DueSegments("topic-id", {3: DuePartition(-1, -1, {}, WaitingCopies(450, 1_000))})
    assert DueSegments.from_json(due.to_json()) == due


def test_an_answer_of_an_earlier_release_says_nothing_of_copies() -> None:
    report = reported_leaders("cluster-1", "orders", UUID(int=7), now_ms=10**12, hanging=True)
    assert ReportedLeaders.from_json(report.to_json()) == report
    (problem,) = (problem for problem in report.problems() if problem.kind == "COPIES_HANG")
    assert (
        "the leader of orders, partition 1, has stopped copying: 12,351 offsets wait behind offset 450" in problem.why
    )
    old = plain_of(report)
    del old["hanging_partitions"], old["listed_hanging"]
    read = ReportedLeaders.from_json(json.dumps(strict_json.sealed(old, 1)))
    assert (read.hanging_partitions, read.listed_hanging) == (None, ())


def test_a_document_lists_the_furthest_behind_and_counts_the_others() -> None:
    found = leader_retention("orders", UUID(int=1), now_ms=10**12, overdue=False, hanging=True)
    ((tip, one),) = found.hanging.items()
    many = {
        replace(tip, partition=n): replace(one, partition=n, progress=replace(one.progress, waiting=400 + n))
        for n in range(MAX_LISTED + 5)
    }
    report = ReportedLeaders.of(replace(found, hanging=many), cluster_id="c", connection="", asked_at_ms=10**12)
    assert (len(report.listed_hanging), report.hanging_partitions) == (MAX_LISTED, MAX_LISTED + 5)
    assert min(one.waiting for one in report.listed_hanging) == 405
    last = list(report.problems())[-1]
    assert (last.kind, last.count, last.acknowledgeable) == (LeaderProblem.COPIES_HANG_NOT_LISTED, 5, False)
