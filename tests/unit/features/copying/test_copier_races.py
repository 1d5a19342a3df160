# SPDX-License-Identifier: Apache-2.0
"""A copier that dies, is paused, is not alone, or is not told what became of its events: whenever that happens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_rlmm.core.base.errors import CopyRefusedError
from airflow_provider_rlmm.core.log.in_process import PublishEffect, no_effect_hook
from airflow_provider_rlmm.core.log.protocol import Failed, Unknown
from airflow_provider_rlmm.core.records.records import COPIER_BROKER_ID
from airflow_provider_rlmm.core.records.serde import deserialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.features.copying.copy_replay import CopyReplay
from airflow_provider_rlmm.features.copying.rules import CopyLimits
from tests.examples import examples, some
from tests.unit.features.copying.copying import HOUR_MS, LIVING, MAY_COPY, CopyWorld, CrashError, FakeSource

EFFECTS = 400
"""More than a copy of two segments has."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


def two_segments(folder: Path) -> CopyWorld:
    return CopyWorld(folder, FakeSource(folder, bases=[0, 10], active_base=20, committed_end=25))


def at_effect(world: CopyWorld, number: int, happens: Callable[[], Any]) -> list[int]:
    """Let something happen once, before the effect of this number; return a list with the number of effects so far."""
    seen = [0]

    def count() -> None:
        seen[0] += 1
        if seen[0] == number:
            happens()

    def log_hook(_: str, __: Any) -> None:
        count()

    world.log.on_effect = world.log.after_effect = log_hook
    world.storage.on_effect = world.storage.after_effect = lambda _, __: count()
    world.leader.before = lambda _: count()
    return seen


def be_calm(world: CopyWorld) -> None:
    world.log.on_effect = world.log.after_effect = no_effect_hook
    world.storage.on_effect = world.storage.after_effect = None
    world.leader.before = lambda _: None


def end_well(world: CopyWorld) -> None:
    """A later run, when every lease is lost, leaves everything copied, nothing dangling, and no object of nobody."""
    be_calm(world)
    world.check()
    world.now_ms += HOUR_MS
    report = world.copy()
    assert (report.stopped_by, report.remote_end) == (None, 20)
    world.check()
    assert world.objects_of_nobody() == set()
    assert {state for _, state in world.states()} == {S.COPY_SEGMENT_FINISHED}


def number_of_effects(folder: Path) -> int:
    world = two_segments(folder)
    seen = at_effect(world, 0, lambda: None)
    world.copy()
    assert 40 < seen[0] < EFFECTS
    return seen[0]


def crash() -> None:
    raise CrashError


@pytest.mark.slow
def test_killed_at_any_effect_the_next_run_converges(folder: Path) -> None:
    dangled = 0
    for number in some(range(1, number_of_effects(folder) + 1)):
        world = two_segments(folder)
        at_effect(world, number, crash)
        with pytest.raises(CrashError):
            world.copy()
        be_calm(world)
        dangled += S.COPY_SEGMENT_STARTED in {state for _, state in world.states()}
        # Nobody knows yet whether it only sleeps: what is announced is left alone for a lease.
        before = world.said()
        if before and before[-1][1] == "COPY_SEGMENT_STARTED":
            report = world.copy()
            assert (report.needs_person, world.said()) == (False, before), number
        end_well(world)
        assert [state for _, state in world.states()] == [S.COPY_SEGMENT_FINISHED] * 2, "no second copy"
    assert dangled > examples(10)


def dangling(folder: Path) -> CopyWorld:
    """A run was killed in mid-copy, and its lease is lost."""
    world = two_segments(folder)
    world.storage.on_effect = lambda effect, key: crash() if effect == "put" and key.endswith(".log") else None
    with pytest.raises(CrashError):
        world.copy()
    be_calm(world)
    world.now_ms += HOUR_MS
    return world


@pytest.mark.slow
def test_killed_at_any_effect_of_a_roll_back_the_next_run_converges(folder: Path) -> None:
    world = dangling(folder)
    seen = at_effect(world, 0, lambda: None)
    world.copy()
    for number in some(range(1, seen[0] + 1)):
        world = dangling(folder)
        at_effect(world, number, crash)
        with pytest.raises(CrashError):
            world.copy()
        be_calm(world)
        world.now_ms += HOUR_MS
        end_well(world)


@pytest.mark.slow
def test_two_copiers_at_once_make_one_copy(folder: Path) -> None:
    """The second one runs to its end at any moment of the first."""
    for number in some(range(1, number_of_effects(folder) + 1)):
        world = two_segments(folder)
        reports: list[Any] = []

        def another(world: CopyWorld = world, reports: list[Any] = reports) -> None:
            hooks = world.log.on_effect, world.storage.on_effect, world.leader.before
            be_calm(world)
            reports.append(world.copy())
            world.log.on_effect = world.log.after_effect = hooks[0]
            world.storage.on_effect = world.storage.after_effect = hooks[1]
            world.leader.before = hooks[2]

        at_effect(world, number, another)
        world.copy()
        assert len(reports) == 1
        be_calm(world)
        world.check()
        finished = [start for start, state in world.states() if state is S.COPY_SEGMENT_FINISHED]
        assert finished == sorted(set(finished)), f"effect {number}: copied twice: {world.said()}"
        end_well(world)


def test_two_copiers_at_once_never_copy_at_once(folder: Path) -> None:
    """The second one is announced between the look and the announcement of the first: it takes itself back at once."""
    world = two_segments(folder)
    other = two_segments(folder)
    other.log, other.storage, other.publisher = world.log, world.storage, world.publisher
    puts: list[str] = []
    began: list[str] = []

    def announce(name: str, detail: Any) -> None:
        if name == "publish" and not began:
            began.append("the other one")

            def stop(effect: str, key: str) -> None:
                if effect == "put":
                    raise CrashError

            world.storage.on_effect = stop
            with pytest.raises(CrashError):
                other.copy()
            world.storage.on_effect = lambda effect, key: puts.append(key) if effect == "put" else None

    world.log.on_effect = announce
    report = world.copy()
    assert puts == []
    assert "another run of the copier may be copying" in str(report.stopped_by)
    assert [state for _, state in world.said()] == [
        "COPY_SEGMENT_STARTED", "COPY_SEGMENT_STARTED", "DELETE_SEGMENT_STARTED", "DELETE_SEGMENT_FINISHED",
    ]  # fmt: skip
    end_well(world)


@pytest.mark.slow
def test_a_copier_that_slept_through_its_lease_does_no_harm_when_it_wakes_up(folder: Path) -> None:
    """Another run has taken its segment back and copied it anew meanwhile."""
    for number in some(range(1, number_of_effects(folder) + 1)):
        world = two_segments(folder)

        def sleep(world: CopyWorld = world) -> None:
            hooks = world.log.on_effect, world.storage.on_effect, world.leader.before
            be_calm(world)
            world.now_ms += HOUR_MS
            world.copy()
            world.log.on_effect = world.log.after_effect = hooks[0]
            world.storage.on_effect = world.storage.after_effect = hooks[1]
            world.leader.before = hooks[2]

        at_effect(world, number, sleep)
        world.copy()
        be_calm(world)
        world.check()
        end_well(world)


@pytest.mark.slow
def test_the_leader_begins_to_copy_at_any_moment(folder: Path) -> None:
    """Copying is enabled, and it copies all that is not copied by then."""
    for number in some(range(1, number_of_effects(folder) + 1)):
        world = two_segments(folder)

        def enabled(world: CopyWorld = world) -> None:
            world.leads(replace(MAY_COPY, remote_log_copy_disable=False), stable=25, high=25)
            hooks = world.log.on_effect, world.storage.on_effect
            world.log.on_effect = world.log.after_effect = no_effect_hook
            world.storage.on_effect = world.storage.after_effect = None
            before = world.leader.before
            world.leader.before = lambda _: None
            for start in range(world.remote_end(), 20, 10):
                world.foreign_copy(start)
            world.leader.before = before
            world.log.on_effect = world.log.after_effect = hooks[0]
            world.storage.on_effect = world.storage.after_effect = hooks[1]

        at_effect(world, number, enabled)
        refused = ""
        try:
            world.copy()
        except CopyRefusedError as e:
            refused = str(e)
        assert not refused or "its leader copies itself" in refused, f"effect {number}"
        be_calm(world)
        world.check()
        assert world.remote_end() == 20, f"effect {number}: something is lost"
        theirs = [m for m in world.history().cache.in_order_of_arrival() if m.broker_id != COPIER_BROKER_ID]
        assert {m.state for m in theirs} <= {S.COPY_SEGMENT_FINISHED}, "a broker's copy was touched"


@pytest.mark.slow
def test_whatever_becomes_of_an_event_nothing_is_lost(folder: Path) -> None:
    """Refused, lost on the way, written though no answer came, or written much later."""
    for number in some(range(12)):
        for fate in ("failed", "lost", "reply lost", "late"):
            world, late = two_segments(folder), []
            count = [0]

            def before(
                name: str,
                detail: Any,
                fate: str = fate,
                count: list[int] = count,
                late: list[Any] = late,
                at: int = number,
            ) -> Any:
                if name != "publish":
                    return None
                count[0] += 1
                if count[0] != at + 1:
                    return None
                if fate == "late":
                    late.append(detail)
                if fate in ("lost", "late"):
                    return Unknown("timed out")
                return Failed("not now") if fate == "failed" else None

            def after(name: str, _: Any, fate: str = fate, count: list[int] = count, at: int = number) -> Any:
                answered = name == "publish" and fate == "reply lost" and count[0] == at + 1
                return Unknown("the reply was lost") if answered else None

            world.log.on_effect, world.log.after_effect = before, after
            world.copy()
            be_calm(world)
            world.check()
            for effect in late:
                land(world, effect)
            world.check()
            end_well(world)


def land(world: CopyWorld, effect: PublishEffect) -> None:
    world.log.append(effect.metadata_partition, effect.value)


@pytest.mark.slow
def test_the_leader_joins_a_roll_back_at_any_moment(folder: Path) -> None:
    """It deletes whatever it finds in DELETE_SEGMENT_STARTED: what failed earlier of its own, as it believes."""
    world = dangling(folder)
    seen = at_effect(world, 0, lambda: None)
    world.copy()
    joined = 0
    for number in some(range(1, seen[0] + 1)):
        world = dangling(folder)

        def join(world: CopyWorld = world) -> None:
            nonlocal joined
            hooks = world.log.on_effect, world.storage.on_effect, world.leader.before
            be_calm(world)
            for metadata in world.history().cache.in_order_of_arrival():
                if metadata.state is S.DELETE_SEGMENT_STARTED:
                    joined += 1
                    world.foreign_update(metadata.remote_log_segment_id, S.DELETE_SEGMENT_STARTED)
                    world.storage.delete_log_segment_data(metadata)
                    world.foreign_update(metadata.remote_log_segment_id, S.DELETE_SEGMENT_FINISHED)
            world.log.on_effect = world.log.after_effect = hooks[0]
            world.storage.on_effect = world.storage.after_effect = hooks[1]
            world.leader.before = hooks[2]

        at_effect(world, number, join)
        world.copy()
        end_well(world)
    assert joined >= examples(3)


@pytest.mark.parametrize("landing", ["before the roll-back", "behind it", "in the middle of it"])
def test_a_finished_that_comes_after_its_lease_was_lost_leaves_no_hole(folder: Path, landing: str) -> None:
    """The worst moment is right between the look of who takes back and his DELETE_SEGMENT_STARTED."""
    world = two_segments(folder)
    kept: list[PublishEffect] = []

    def keep_finished(name: str, detail: Any) -> Any:
        if name == "publish" and deserialize(detail.value).state is S.COPY_SEGMENT_FINISHED:
            kept.append(detail)
            return Unknown("timed out")
        return None

    world.log.on_effect = keep_finished
    report = world.copy()
    assert (report.needs_person, [state for _, state in world.said()]) == (False, ["COPY_SEGMENT_STARTED"])
    world.log.on_effect = no_effect_hook
    world.now_ms += HOUR_MS
    if landing == "before the roll-back":
        land(world, kept[0])
    elif landing == "in the middle of it":

        def cross(name: str, detail: Any) -> None:
            if name == "publish" and kept and deserialize(detail.value).state is S.DELETE_SEGMENT_STARTED:
                land(world, kept.pop())

        world.log.on_effect = cross
    report = world.copy()
    world.log.on_effect = no_effect_hook
    if landing == "behind it":
        land(world, kept[0])
    assert (report.stopped_by, world.remote_end()) == (None, 20)
    states = dict(world.states())
    assert states[10] is S.COPY_SEGMENT_FINISHED
    if landing == "in the middle of it":
        # Its objects stay for the leader to delete: they were finished, if only for a moment.
        assert S.DELETE_SEGMENT_STARTED in {state for _, state in world.states()}
        assert ("DELETE_SEGMENT_FINISHED") not in {state for _, state in world.said()}
    else:
        world.check()


def test_a_run_of_another_lease_is_not_disturbed_before_its_own_ends(folder: Path) -> None:
    world = two_segments(folder)
    at_effect(world, 30, crash)
    with pytest.raises(CrashError):
        world.copy()
    be_calm(world)
    assert world.said()[-1][1] == "COPY_SEGMENT_STARTED"
    world.now_ms += HOUR_MS - 1
    report = world.copy()
    assert "its lease ends at" in str(report.stopped_by)
    world.now_ms += 1
    assert world.copy().stopped_by is None


def test_a_shorter_lease_takes_over_sooner(folder: Path) -> None:
    world = two_segments(folder)
    world.limits = CopyLimits(lease_ms=2_000)
    at_effect(world, 30, crash)
    with pytest.raises(CrashError):
        world.copy()
    be_calm(world)
    world.now_ms += 2_000
    assert world.copy().stopped_by is None


def test_somebody_elses_dangling_copy_is_never_taken_back(folder: Path) -> None:
    world = two_segments(folder)
    segment = world.foreign_started(0)
    world.now_ms += 1_000 * HOUR_MS
    report = world.copy()
    assert (report.copied, world.said(), report.needs_person) == ((), [], True)
    assert world.history().cache.segment(segment).state is S.COPY_SEGMENT_STARTED  # type: ignore[union-attr]


def test_somebody_elses_dangling_copy_is_not_among_those_that_may_be_taken_back(folder: Path) -> None:
    world = two_segments(folder)
    world.foreign_started(0)
    replay = CopyReplay(world.log, LIVING)
    replay.advance()
    assert replay.unsettled_copies() == []


def test_a_dangling_copy_of_ours_that_a_leader_has_begun_to_delete_is_left_to_it(folder: Path) -> None:
    """From its first event on it is the leader's: our DELETE_SEGMENT_FINISHED would end the deletion over its head."""
    world = dangling(folder)
    (segment,) = world.all_segments()
    objects, said = world.storage.keys, world.said()
    world.foreign_update(segment, S.DELETE_SEGMENT_STARTED)
    replay = CopyReplay(world.log, LIVING)
    replay.advance()
    assert (replay.is_ours(segment), replay.unsettled_copies()) == (False, [])
    report = world.copy()
    assert (report.taken_back, report.stopped_by, report.remote_end) == ((), None, 20)
    assert [start for start, _ in world.said()[len(said) :]] == [0, 0, 10, 10]
    assert dict(world.states())[0] is S.COPY_SEGMENT_FINISHED, "copied again, under another id"
    assert world.history().cache.segment(segment).state is S.DELETE_SEGMENT_STARTED  # type: ignore[union-attr]
    assert objects <= world.storage.keys


def test_a_copy_that_a_leader_deletes_is_left_to_it(folder: Path) -> None:
    """Retention reached the segment while it was copied: the leader deletes it, and objects that came later go."""
    world = two_segments(folder)

    def before(effect: str, key: str) -> None:
        if effect == "put" and key.endswith(".log") and len(world.events()) == 1:
            (segment,) = world.all_segments()
            world.foreign_update(segment, S.DELETE_SEGMENT_STARTED)
            world.foreign_update(segment, S.DELETE_SEGMENT_FINISHED)

    world.storage.on_effect = before
    report = world.copy()
    assert (world.said(), report.needs_person) == ([(0, "COPY_SEGMENT_STARTED")], True)
    assert world.objects_of_nobody() == set()
    end_well(world)
