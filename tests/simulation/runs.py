# SPDX-License-Identifier: Apache-2.0
"""Whole stories, one per seed, and many of them in several processes."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any
from unittest import mock

from airflow_provider_rlmm.core.records import columnar
from tests.simulation.mistakes import KINDS
from tests.simulation.witness import Process
from tests.simulation.world import Trouble, World

CHUNK = 100
MOST_EFFECTS = 160
MOST_CHANGES = 60


def trouble_of(seed: int) -> Trouble:
    """Return how hostile a seed's world is: every kind of trouble alone, in pairs, and all together."""
    drawn = random.Random(seed + 2_000_003)
    choose, choices = drawn.choice, drawn.choices
    return Trouble(
        fault_rate=choose([0.0, 0.005, 0.02, 0.08]),
        actor_rate=choose([0.05, 0.2, 0.5]),
        scripts=choose([0, 1, 2, 4]),
        stale_rate=choose([0.0, 0.0, 0.03, 0.2]),
        switch_rate=choose([0.02, 0.1, 0.5]),
        kinds=frozenset(choices(KINDS, k=choose([0, 0, 1, 1, 2, 2, 3]))) if choose(range(10)) else frozenset(KINDS),
        # Where much goes wrong hardly a run gets as far as a deletion.
        mistake_rate=choose([0.3, 0.03, 0.003]),
    )


def draw_process(world: World) -> Process:
    """Return a run of the DAG that may crash."""
    adversary = world.adversary
    crashes, in_changes = adversary.random() < 0.6, adversary.random() < 0.7
    crash_at = adversary.randint(1, MOST_CHANGES if in_changes else MOST_EFFECTS) if crashes else None
    dry_run = adversary.random() < 0.1
    return Process(world, dry_run, crash_at, in_changes, world.clocks_ahead_ms())


def play(seed: int) -> World:
    """
    Play one seed: one to three days of trouble, then peace until nothing is left to do.

    :raises AssertionError: naming the seed, if an invariant is broken.
    """
    world = World(seed, trouble_of(seed))
    adversary = world.adversary
    try:
        for _ in range(adversary.randint(1, 3)):
            world.draw_root()
            world.draw_rights()
            processes = [draw_process(world) for _ in range(adversary.choice([1, 1, 2]))]
            world.happened[f"{len(processes)} processes"] += 1
            for end in world.run(*processes):
                world.happened[f"ended: {end or 'well'}"] += 1
            world.mount_true()
        world.converge()
    except Exception as e:
        raise AssertionError(f"seed {seed}: {type(e).__name__}: {e}") from e
    return world


def digest(world: World) -> str:
    """Return a fingerprint of everything that happened."""
    log = [
        (tip, [(offset, state.deletion) for offset, state in states])
        for number in range(world.log.partition_count)
        for tip, states in world.model.logs[number].states().items()
    ]
    story = repr((sorted(world.happened.items()), log, sorted(world.keys), world.now_ms))
    return hashlib.sha256(story.encode()).hexdigest()


@contextmanager
def remembered_decoding() -> Iterator[None]:
    """
    Remember the answers of ``columnar.decode`` for as long as this lasts.

    It is pure, and every replay begins at the beginning: half of a simulation's time would go into decoding the same few
    records again.
    """
    decode = columnar.decode
    known: dict[Any, Any] = {}

    def remembering(values: Any, **columns: Any) -> Any:
        key = (
            tuple(values.to_pylist()),
            *((name, c.to_pylist().__repr__() if hasattr(c, "to_pylist") else c) for name, c in columns.items()),
        )
        if key not in known:
            known[key] = decode(values, **columns)
        return known[key]

    with mock.patch.object(columnar, "decode", remembering):
        yield


def what_happens(seed: int, play: Callable[[int], World] = play) -> Counter[str]:
    """Play one seed; return what happened in it, and how often."""
    with remembered_decoding():
        return +play(seed).happened  # without what happened no time


def play_chunk(seeds: Sequence[int], play: Callable[[int], World] = play) -> Counter[str]:
    """Play some seeds one after the other; return what happened in them."""
    return sum((what_happens(seed, play) for seed in seeds), Counter())


@cache
def _workers(count: int) -> ProcessPoolExecutor:
    """Processes for all that is played on all cores: each takes a second of processor time to import what it plays."""
    return ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn"))


def play_many(seeds: Sequence[int], play: Callable[[int], World] = play) -> Counter[str]:
    """Play seeds on all cores; return what happened in them."""
    chunks = [seeds[start : start + CHUNK] for start in range(0, len(seeds), CHUNK)]
    workers = os.cpu_count() or 1
    if min(len(chunks), workers) < 2:
        return play_chunk(seeds, play)
    return sum(_workers(workers).map(play_chunk, chunks, [play] * len(chunks)), Counter())
