# SPDX-License-Identifier: Apache-2.0
"""
Marker and cleaner under faults, deterministically. A failure prints its seed: ``World(seed, …)`` plays it again.
"""

from __future__ import annotations

from collections import Counter

import pytest

from airflow_provider_rlmm.errors import RlmmError
from tests.simulation.world import CrashError, World

EXHAUSTIVE_SEEDS = range(4)


def run_with_faults(world: World) -> str | None:
    """Run once; tell what stopped it, if anything did."""
    try:
        world.run_once()
    except CrashError as crash:
        return str(crash)
    except RlmmError as error:
        return type(error).__name__
    return None


def test_without_faults_one_run_cleans_everything() -> None:
    world = World(1)
    reports = world.run_once()
    assert reports
    assert all(p.outcome == "FINISHED" for r in reports for p in r.partitions)
    world.converge()


def test_the_same_seed_makes_the_same_run() -> None:
    logs = []
    for _ in range(2):
        world = World(7, fault_rate=0.1)
        run_with_faults(world)
        world.converge()
        logs.append((world.effects, world.model))
    assert logs[0] == logs[1]


@pytest.mark.parametrize("seed", EXHAUSTIVE_SEEDS)
def test_a_crash_at_every_effect_converges(seed: int) -> None:
    calm = World(seed)
    calm.run_once()
    for crash_at in range(1, calm.effect_count + 1):
        world = World(seed, crash_at=crash_at)
        assert run_with_faults(world) is not None, f"seed {seed}: effect {crash_at} did not crash"
        world.converge()


def test_random_crashes_and_faults_converge(seeds: int) -> None:
    crashed_at: Counter[str] = Counter()
    for seed in range(seeds):
        size = World(seed)
        size.run_once()
        world = World(seed, crash_at=size.random.randint(1, size.effect_count), fault_rate=(seed % 4) * 0.08)
        try:
            for _ in range(3):
                crashed_at[run_with_faults(world) or "-"] += 1
                world.crash_at = world.effect_count + world.adversary.randint(1, size.effect_count)
            if seed % 3 == 0:
                world.late_copy(world.gone[0])
            world.converge()
        except AssertionError as e:
            raise AssertionError(f"seed {seed}: {e}") from e
    for effect in ("before publish", "after publish", "before delete", "after delete", "before read", "after commit"):
        assert crashed_at[effect] > 0, f"no crash {effect} in {seeds} seeds: {crashed_at}"
