# SPDX-License-Identifier: Apache-2.0
"""
Copiers under faults and beside leaders, owners, cleaners and each other, deterministically. A failure prints its seed:
``tests.simulation.copying_runs.play_copying(seed)`` plays it again.
"""

from __future__ import annotations

import pytest

from tests.simulation.copier_run import CopierRun
from tests.simulation.copying_runs import determined, play_copying
from tests.simulation.copying_world import CopyingWorld
from tests.simulation.led import whole_replica
from tests.simulation.runs import play_many, remembered_decoding
from tests.simulation.stories import COPIER

EXHAUSTIVE_SEEDS = (8, 2)

LIKELY = 100
"""So many stories are enough to tell that copiers mostly copy."""


def test_without_trouble_one_run_copies_everything() -> None:
    world = CopyingWorld(1)
    with determined(world):
        ends = [world.run(CopierRun(world, whole_replica(led))) for led in world.led]
        assert ends == [[""]] * len(world.led)
        world.converge()
    assert world.happened["all copied"] == len(world.led)


def test_a_crash_at_every_effect_converges(exhaustive_seed: int) -> None:
    calm = CopyingWorld(exhaustive_seed)
    run = CopierRun(calm, whole_replica(calm.led[0]))
    with remembered_decoding(), determined(calm):
        calm.run(run)
        assert run.announced
    with remembered_decoding():
        for crash_at in range(1, run.effects + 1):
            world = CopyingWorld(exhaustive_seed)
            with determined(world):
                (end,) = world.run(CopierRun(world, whole_replica(world.led[0]), crash_at=crash_at))
                assert end.startswith(("before ", "after ")), (
                    f"seed {exhaustive_seed}: effect {crash_at} did not crash: {end}"
                )
                world.converge()


@pytest.mark.timeout(0)  # --seeds decides how long it takes
def test_whatever_happens_nothing_is_lost_and_all_is_copied(seeds: range) -> None:
    happened = play_many(seeds, play_copying)
    COPIER.require_every_trouble(happened)
    if len(seeds) >= LIKELY:
        assert happened["copied"] > len(seeds), happened
