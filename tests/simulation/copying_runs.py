# SPDX-License-Identifier: Apache-2.0
"""Whole stories of copiers, one per seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from unittest import mock

from airflow_provider_rlmm.features.copying import segment_copy
from airflow_provider_rlmm.features.copying.copy_pace import CopyPace
from tests.simulation.copier_run import CopierRun
from tests.simulation.copying_world import CopyingWorld
from tests.simulation.mistakes import KINDS
from tests.simulation.runs import draw_process
from tests.simulation.witness import Process
from tests.simulation.world import Trouble


def copying_trouble_of(seed: int) -> Trouble:
    """Return how hostile a seed's world is to copiers."""
    drawn = random.Random(seed + 4_000_037)
    choose, choices = drawn.choice, drawn.choices
    return Trouble(
        fault_rate=choose([0.0, 0.005, 0.02, 0.08]),
        actor_rate=choose([0.02, 0.05, 0.2]),
        scripts=choose([0, 1, 2, 4, 8]),
        switch_rate=choose([0.02, 0.1, 0.5]),
        pause_rate=choose([0.0, 0.0, 0.1, 0.4]),
        kinds=frozenset(choices(KINDS, k=choose([0, 0, 0, 1, 2]))),
    )


@contextmanager
def determined(world: CopyingWorld) -> Iterator[None]:
    """Let the world's seed decide the ids of the segments that copiers announce, and its clock how long their quota lasts."""
    ids = mock.patch.object(segment_copy, "uuid", SimpleNamespace(uuid4=world._uuid))
    pace = mock.patch.object(segment_copy, "CopyPace", partial(CopyPace, sleep=world.sleep))
    with ids, pace:
        yield


def _copy(world: CopyingWorld) -> None:
    """Copiers run side by side, sometimes beside a cleaner; their owner believes what they say, and time passes."""
    adversary = world.adversary
    world.draw_root()
    world.draw_rights()
    runs: list[Process] = [world.draw_copier() for _ in range(adversary.choice([1, 1, 2]))]  # type: ignore[misc]
    if adversary.random() < 0.2:
        runs.append(draw_process(world))
    world.happened[f"{len(runs)} processes"] += 1
    ends = world.run(*runs)
    for run, end in zip(runs, ends, strict=True):
        world.happened[f"ended: {end or 'well'}"] += 1
        if isinstance(run, CopierRun):
            run.ended = end
    world.mount_true()
    world.owner_adopts([run for run in runs if isinstance(run, CopierRun)])
    world.let_time_pass(adversary.choice([0, 31, 61, 600]))


def play_copying(seed: int) -> CopyingWorld:
    """
    Play one seed: copiers on log directories of all kinds, beside others and cleaners, then peace until all is copied.

    :raises AssertionError: naming the seed, if an invariant is broken.
    """
    world = CopyingWorld(seed, copying_trouble_of(seed))
    adversary = world.adversary
    try:
        with determined(world):
            for _ in range(adversary.randint(1, 3)):
                _copy(world)
            if world.left_out:
                _copy(world)
            world.converge()
    except Exception as e:
        raise AssertionError(f"seed {seed}: {type(e).__name__}: {e}") from e
    return world
