# SPDX-License-Identifier: Apache-2.0
"""
Marker and cleaner under faults and beside others, deterministically. A failure prints its seed:
``tests.simulation.runs.play(seed)`` plays it again.
"""

from __future__ import annotations

import pytest

from tests.simulation.protections import PROTECTIONS, switched_off
from tests.simulation.runs import play, play_many, remembered_decoding
from tests.simulation.stories import CLEANER
from tests.simulation.witness import Process
from tests.simulation.world import World

EXHAUSTIVE_SEEDS = (1, 0, 3)
"""Worlds with two, one and three partitions to clean, of 200 to 300 effects each."""

LIKELY = 100
"""So many stories are enough to tell how they mostly end."""


def test_without_trouble_one_run_cleans_everything() -> None:
    world = World(1)
    assert world.run(Process(world)) == [""]
    assert world.happened == {"FINISHED": len(world.gone), "snapshot read": 2}
    world.check_end_state()
    world.converge()


def test_a_crash_at_every_effect_converges(exhaustive_seed: int) -> None:
    calm = World(exhaustive_seed)
    process = Process(calm)
    calm.run(process)
    with remembered_decoding():
        for crash_at in range(1, process.effects + 1):
            world = World(exhaustive_seed)
            (end,) = world.run(Process(world, crash_at=crash_at))
            assert end.startswith(("before ", "after ")), (
                f"seed {exhaustive_seed}: effect {crash_at} did not crash: {end}"
            )
            world.converge()


@pytest.mark.parametrize("name", PROTECTIONS)
def test_every_protection_is_where_it_is_switched_off(name: str) -> None:
    with switched_off(name):
        assert World(1).happened == {}


def test_what_a_leader_has_deleted_below_a_root_that_nothing_proves_is_a_persons() -> None:
    """The records of all living copies are lost: a leader's deletion and an old copy of the storage look alike."""
    assert play(700_218_814).happened["beginning lost"]


@pytest.mark.timeout(0)  # --seeds decides how long it takes
def test_whatever_happens_no_invariant_breaks_and_it_converges(seeds: range) -> None:
    happened = play_many(seeds)
    CLEANER.require_every_trouble(happened)
    if len(seeds) >= LIKELY:
        assert happened["ended: well"] > len(seeds) / 2, happened
