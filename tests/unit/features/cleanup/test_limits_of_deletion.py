# SPDX-License-Identifier: Apache-2.0
"""Objects per second and the time of day: the cleaner asks between batches."""

from __future__ import annotations

import pytest

from airflow_provider_rlmm.core.plans.refusals import RefusalKind
from airflow_provider_rlmm.core.world.hold import Hold
from airflow_provider_rlmm.features.cleanup import batches
from airflow_provider_rlmm.features.cleanup.reports import Totals
from tests.builders import START_MS, Cluster, reasons, tip

GONE = tip()
OVER = "the time of the run is over (30 min, by max_minutes)"
OPEN, CLOSED = "08:00-09:00 UTC", "09:00-08:00 UTC"
"""The tests begin at 08:00 UTC."""


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.segments(GONE, 6)
    cluster.mark_and_wait()
    return cluster


def test_the_tests_begin_at_eight() -> None:
    assert START_MS % 86_400_000 == 8 * 3_600_000


def test_outside_of_the_window_nothing_is_started_or_deleted_and_nobody_is_needed(cluster: Cluster) -> None:
    before, written = cluster.keys_of(GONE), cluster.ours()
    report = cluster.clean(deletion_window=CLOSED)
    (partition,) = report.partitions
    (refusal,) = partition.refusals
    assert (refusal.kind, refusal.kind.needs_person) == (RefusalKind.NEXT_RUN, False)
    assert f"it is 08:00 in UTC, and deletion may run {CLOSED}" in refusal.why
    assert (cluster.keys_of(GONE), cluster.ours()) == (before, written)


def test_within_it_all_is_deleted(cluster: Cluster) -> None:
    assert cluster.clean(deletion_window=OPEN).partitions[0].outcome == "FINISHED"


def test_when_it_closes_the_run_ends_between_two_batches_and_the_next_goes_on(cluster: Cluster) -> None:
    def an_hour_passes(effect: str, key: str) -> None:
        if effect == "delete":
            cluster.now_ms += 3_600_000
            cluster.storage.after_effect = None

    cluster.storage.after_effect = an_hour_passes
    report = cluster.clean(deletion_window=OPEN, batch_segments=2)
    (partition,) = report.partitions
    assert (partition.segments_deleted, partition.segments_left, partition.outcome) == (2, 4, "INCOMPLETE")
    assert {r.kind for r in partition.refusals} == {RefusalKind.NEXT_RUN}
    cluster.now_ms += 23 * 3_600_000
    assert cluster.clean(deletion_window=OPEN).partitions[0].outcome == "FINISHED"


def test_when_its_time_is_over_the_run_ends_between_two_batches_and_the_next_goes_on(cluster: Cluster) -> None:
    def half_an_hour_passes(effect: str, key: str) -> None:
        if effect == "delete":
            cluster.now_ms += 1_800_000
            cluster.storage.after_effect = None

    cluster.storage.after_effect = half_an_hour_passes
    report = cluster.clean(max_minutes=30, began_ms=cluster.now_ms, batch_segments=2)
    (partition,) = report.partitions
    assert (partition.segments_deleted, partition.segments_left, partition.outcome) == (2, 4, "INCOMPLETE")
    assert {(r.kind, r.why) for r in partition.refusals} == {(RefusalKind.NEXT_RUN, OVER)}
    assert report.out_of_time == OVER
    assert cluster.clean(max_minutes=30, began_ms=cluster.now_ms).partitions[0].outcome == "FINISHED"


def test_once_its_time_is_over_a_run_begins_no_other_metadata_partition(cluster: Cluster) -> None:
    before, written = cluster.keys_of(GONE), cluster.ours()
    report = cluster.clean(max_minutes=1, began_ms=cluster.now_ms - 60_000)
    (partition,) = report.partitions
    assert (partition.outcome, partition.segments_left, report.out_of_time) == (
        "REFUSED",
        6,
        OVER.replace("30", "1"),
    )
    assert [r.kind for r in partition.refusals] == [RefusalKind.NEXT_RUN]
    assert (cluster.keys_of(GONE), cluster.ours()) == (before, written)


def test_what_waits_or_is_held_is_not_left_for_want_of_time(cluster: Cluster) -> None:
    waiting, held = tip("waiting", 0, 21), tip("held", 0, 22)
    for other in (waiting, held):
        cluster.segments(other, 2)
    cluster.mark()
    report = cluster.clean(max_minutes=1, began_ms=cluster.now_ms - 60_000, hold=lambda: Hold(("held",)))
    kinds = {partition.topic: partition.refusals[0].kind for partition in report.partitions}
    assert kinds == {GONE.topic: RefusalKind.NEXT_RUN, "waiting": RefusalKind.WAITING, "held": RefusalKind.HELD}
    assert Totals.of([report]).partitions_waiting == 1


def test_a_run_that_ends_in_time_has_no_more_to_say(cluster: Cluster) -> None:
    report = cluster.clean(max_minutes=30, began_ms=cluster.now_ms)
    assert (report.partitions[0].outcome, report.out_of_time) == ("FINISHED", None)


def test_a_dry_run_has_all_the_time(cluster: Cluster) -> None:
    report = cluster.clean(max_minutes=1, began_ms=cluster.now_ms - 60_000, dry_run=True)
    assert (report.partitions[0].outcome, report.out_of_time) == ("FINISHED", None)


def test_a_dry_run_says_at_any_time_what_it_would_do(cluster: Cluster) -> None:
    report = cluster.clean(deletion_window=CLOSED, dry_run=True)
    assert report.partitions[0].outcome == "FINISHED", reasons(report)


def test_between_batches_it_rests_so_that_the_rate_is_kept(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "monotonic_clock", lambda: 0)
    slept: list[float] = []
    per_segment = len(cluster.keys_of(GONE)) // 6
    cluster.sleep = slept.append
    cluster.clean(batch_segments=2, objects_per_second=10)
    assert slept == [2 * per_segment / 10] * 3
    assert cluster.keys_of(GONE) == set()


def test_a_metadata_partition_of_one_batch_is_paid_for_before_the_next_one_begins(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "monotonic_clock", lambda: 0)
    slept: list[float] = []
    objects = len(cluster.keys_of(GONE))
    cluster.sleep = slept.append
    cluster.clean(objects_per_second=10)
    assert slept == [objects / 10]


def test_cleaners_that_work_at_once_share_the_rate_of_their_run(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "monotonic_clock", lambda: 0)
    slept: list[float] = []
    per_segment = len(cluster.keys_of(GONE)) // 6
    cluster.sleep = slept.append
    cluster.clean(batch_segments=2, objects_per_second=10, at_once=4)
    assert slept == [2 * per_segment * 4 / 10] * 3
