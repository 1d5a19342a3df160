# SPDX-License-Identifier: Apache-2.0
"""Holes in the copies need a person, whatever the log directory of a run holds, and however the run ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_rlmm.core.base.errors import EventLogAccessError, EventLogUnavailableError, RlmmError
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.segments.lineage import LeaderEpochCheckpoint
from airflow_provider_rlmm.features.copying.rules import CopyHole, CopyLimits
from tests.unit.features.copying.copying import HOUR_MS, MAY_COPY, NOW_MS, CopyWorld, FakeSource


@pytest.fixture
def world(tmp_path: Path) -> CopyWorld:
    return CopyWorld(tmp_path)


def waits_for(offset: int) -> str:
    return (
        "do not enable copying, and do not raise retention.ms or retention.bytes, before the log start offset of living-0 "
        f"is at least {offset} "
    )


def copy_but_two(world: CopyWorld) -> None:
    """A run has left out the first two of four segments, which are about to expire."""
    world.leads(replace(MAY_COPY, retention_ms=24 * HOUR_MS))
    world.source.timestamps_ms = {0: NOW_MS - 24 * HOUR_MS, 10: NOW_MS - 23 * HOUR_MS - 1}
    report = world.copy()
    assert (report.needs_person, report.hole) == (True, CopyHole(0, 19))
    assert str(report.stopped_by).count("0..19") == 1, "said once"


def emptied(source: FakeSource) -> None:
    source.bases = []


def begins_behind_them(source: FakeSource) -> None:
    source.bases, source.log_start_offset = [20, 30], 20
    source.leader_epochs = source.leader_epochs.truncate_from_start(20)


def ends_before_them(source: FakeSource) -> None:
    source.bases, source.active_base = [], 0


def is_older_than_the_last_leader(source: FakeSource) -> None:
    ends_before_them(source)
    source.leader_epochs = LeaderEpochCheckpoint(((0, 0),))


def knows_no_leader_epoch(source: FakeSource) -> None:
    ends_before_them(source)
    source.leader_epochs = LeaderEpochCheckpoint()


SHORT: dict[str, tuple[Callable[[FakeSource], None], int]] = {
    "only its active segment is left": (emptied, 20),
    "it begins behind them": (begins_behind_them, 20),
    "it ends before them": (ends_before_them, 20),
    "it is older than the last leader": (is_older_than_the_last_leader, 40),
    "it knows no leader epoch": (knows_no_leader_epoch, 40),
}
"""What a log directory lacks, and the log start offset that a run over it has people wait for."""


@pytest.mark.parametrize("name", SHORT)
def test_a_log_directory_that_lacks_what_was_left_out_does_not_hide_it(world: CopyWorld, name: str) -> None:
    shorten, end = SHORT[name]
    copy_but_two(world)
    events, objects = world.events(), world.storage.keys
    shorten(world.source)
    planned, report = world.preview(), world.copy()
    assert planned.hole == report.hole == CopyHole(0, end - 1)
    assert (report.needs_person, report.copied, report.expiring) == (True, (), ())
    assert waits_for(end) in str(report.stopped_by)
    assert report.to_json()["hole"] == {"start_offset": 0, "end_offset": end - 1}
    assert (world.events(), world.storage.keys) == (events, objects)


@pytest.mark.parametrize("shorten", [emptied, ends_before_them, begins_behind_them])
def test_it_is_green_from_there_once_the_leader_has_deleted_what_was_left_out(
    world: CopyWorld, shorten: Callable[[FakeSource], None]
) -> None:
    copy_but_two(world)
    world.leads(replace(MAY_COPY, retention_ms=24 * HOUR_MS), log_start=20)
    shorten(world.source)
    report = world.copy()
    assert (report.stopped_by, report.needs_person, report.hole) == (None, False, None)
    assert world.preview().hole is None


def test_what_is_copied_whole_has_no_hole_whatever_a_directory_lacks(world: CopyWorld) -> None:
    world.copy()
    for shorten in (emptied, ends_before_them):
        shorten(world.source)
        assert (world.copy().stopped_by, world.copy().hole) == (None, None)


def test_what_lies_between_the_copies_and_an_active_segment_is_missed(world: CopyWorld) -> None:
    """Brokers would go on with what they still have, behind a gap."""
    world.foreign_copy(0)
    emptied(world.source)
    report = world.copy()
    assert report.needs_person
    assert "offsets 10..39 are in the leader's log, and neither in remote storage nor" in str(report.stopped_by)


def test_a_run_that_ends_at_max_segments_leaves_no_hole_in_green(world: CopyWorld) -> None:
    world.foreign_copy(20)
    world.limits = CopyLimits(max_segments=1)
    planned, report = world.preview(), world.copy()
    assert planned.hole == report.hole == CopyHole(10, 19)
    assert report.needs_person
    assert str(report.stopped_by).endswith("max_segments is 1: the next run goes on")
    assert waits_for(20) in str(report.stopped_by)
    report = world.copy()
    assert (report.needs_person, report.hole) == (False, None)


def test_a_dry_run_takes_for_copied_what_the_copy_would_copy(world: CopyWorld) -> None:
    world.foreign_copy(20)
    assert world.preview().hole is None
    report = world.copy()
    assert (report.stopped_by, report.needs_person, report.hole) == (None, False, None)


def test_brokers_go_on_behind_a_copy_that_was_deleted_since(world: CopyWorld) -> None:
    for start in (0, 10, 20):
        world.foreign_copy(start)
    deleted = world.foreign_copy(30)
    world.foreign_update(deleted, S.DELETE_SEGMENT_STARTED)
    world.foreign_update(deleted, S.DELETE_SEGMENT_FINISHED)
    world.source.bases, world.source.active_base = [0, 10, 20], 30
    report = world.copy()
    assert (report.needs_person, report.hole) == (True, CopyHole(30, 39))
    assert waits_for(40) in str(report.stopped_by)


def test_holes_beside_what_expires_are_waited_for_as_well(world: CopyWorld) -> None:
    world.foreign_copy(10)
    world.foreign_copy(30)
    world.leads(replace(MAY_COPY, retention_ms=24 * HOUR_MS))
    world.source.timestamps_ms = {0: 0}
    world.source.damaged.add(20)
    report = world.copy()
    assert (report.needs_person, report.hole) == (True, CopyHole(0, 29))
    assert "1 segment, offsets 0..9, is about to expire" in str(report.stopped_by)
    assert waits_for(30) in str(report.stopped_by)


@pytest.mark.parametrize(
    ("error", "needs_person"), [(EventLogUnavailableError("not now"), False), (EventLogAccessError("denied"), True)]
)
def test_a_run_that_cannot_tell_how_far_it_came_is_not_green(
    world: CopyWorld, error: RlmmError, needs_person: bool
) -> None:
    world.copy()
    asked: list[str] = []

    def before(question: str) -> None:
        asked.append(question)
        if len(asked) == 3:  # the first two began the run and found nothing to copy
            raise error

    world.leader.before = before
    report = world.copy()
    assert (report.copied, report.needs_person) == ((), needs_person)
    assert report.stopped_by == f"how far it is copied cannot be told: {error}"
