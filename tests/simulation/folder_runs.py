# SPDX-License-Identifier: Apache-2.0
"""Whole stories of one work folder, one per seed."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

from tests.simulation.folder_access import simulated
from tests.simulation.folder_moves import AWAY, COPY, PLAYED, PREFIX
from tests.simulation.folder_world import DAY_MS, FolderWorld
from tests.simulation.world import Trouble


def folder_trouble_of(seed: int) -> Trouble:
    """Return how hostile a seed's world is to runs of one work folder."""
    choose = random.Random(seed + 5_000_011).choice
    return Trouble(
        fault_rate=choose([0.0, 0.0, 0.005, 0.02]),
        actor_rate=choose([0.05, 0.2, 0.5]),
        scripts=choose([0, 0, 1, 2]),
    )


def moves_of(seed: int) -> frozenset[str]:
    """Return what may happen between the runs of a seed: mostly one thing, now and then two."""
    drawn = random.Random(seed + 6_000_023)
    return frozenset(drawn.choices(PLAYED, k=drawn.choice([0, 1, 1, 1, 1, 2]) if PLAYED else 0))


def play_folder(seed: int, moves: frozenset[str] | None = None) -> FolderWorld:
    """
    Play one seed: three to five runs of the cleaner and the scrub, with the same work folder.

    :raises AssertionError: naming the seed, if an invariant is broken.
    """
    with tempfile.TemporaryDirectory() as folder:
        world = FolderWorld(seed, folder_trouble_of(seed), moves_of(seed) if moves is None else moves, Path(folder))
        adversary = world.adversary
        try:
            with simulated(world):
                for number in range(adversary.randint(3, 5)):
                    world.move(number)
                    crash_at = adversary.randint(1, 60) if adversary.random() < 0.2 else None
                    scrubs = adversary.random() < (0.1 if {AWAY, COPY, PREFIX} & world.moves else 0.4)
                    run = world.next_run(scrubs=scrubs, dry_run=adversary.random() < 0.15, crash_at=crash_at)
                    (end,) = world.run(run)
                    world.happened[f"{'scrub' if run.scrubs else 'cleanup'} ended: {end or 'well'}"] += 1
                    world.judge_end(run, end)
                    world.pass_time(adversary.choice([DAY_MS, 2 * DAY_MS, 4 * DAY_MS]))
                    if adversary.random() < 0.6:
                        world.grow(world.alive[0])
                world.settle()
        except Exception as e:
            raise AssertionError(f"seed {seed}, {sorted(world.moves)}: {type(e).__name__}: {e}") from e
    return world
