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

EXHAUSTIVE_SEEDS = (8, 2)

EVERY_TROUBLE = {
    *(
        f"crash {when} {name}"
        for when in ("before", "after")
        for name in ("publish", "put", "delete", "list", "read", "ask", "record_at", "high_water_marks")
    ),
    *(f"fault {when} {name}" for when in ("before", "after") for name in ("publish", "put", "delete", "list")),
    *("fault before ask", "fault before record_at", "fault before read", "fault before high_water_marks"),
    *("record refused", "record timed out", "record in flight", "late landing"),
    *("leader_takes_over", "leader_moves_its_start", "leader_commits", "leader_cleans_up", "expired"),
    *("owner_reconfigures", "owner_deletes_what_is_copied", "time_passes", "paused before an event"),
    *("another cluster's leader", "denied at the leader", "ended: ClockSkewError", "ended: ClusterMismatchError"),
    *("slept through its lease", "ended: asleep for too long", "copier's event dropped", "taken back"),
    *("strange root", "copied root", "old root", "partial root", "root swapped in mid-run", "ended: StorageRootError"),
    *("beginning lost", "end lost", "tombstone", "garbage", "newer version", "misrouted", "ended: TopicInDoubtError"),
    *("waited for its quota", "left to expire", "copied again from less", "adopted"),
    *("stopped", "ended: needs a person", "ended: left to a later run", "ended: CopyRefusedError"),
    *("2 processes", "3 processes", "FINISHED", "INCOMPLETE", "all copied"),
}


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
    for crash_at in range(1, run.effects + 1):
        world = CopyingWorld(exhaustive_seed)
        with remembered_decoding(), determined(world):
            (end,) = world.run(CopierRun(world, whole_replica(world.led[0]), crash_at=crash_at))
            assert end.startswith(("before ", "after ")), (
                f"seed {exhaustive_seed}: effect {crash_at} did not crash: {end}"
            )
            world.converge()


@pytest.mark.timeout(0)  # --seeds decides how long it takes
def test_whatever_happens_nothing_is_lost_and_all_is_copied(seeds: int) -> None:
    happened = play_many(0, seeds, play_copying)
    if seeds >= 1000:
        assert not EVERY_TROUBLE - happened.keys(), f"in {seeds} seeds this never happened"
        assert happened["copied"] > seeds, happened
