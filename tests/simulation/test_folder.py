# SPDX-License-Identifier: Apache-2.0
"""
Runs of the cleaner and the scrub with one work folder, while the world changes between them. A failure prints its seed:
``tests.simulation.folder_runs.play_folder(seed)`` plays it again.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.folder_moves import AWAY, COPY
from tests.simulation.folder_runs import play_folder
from tests.simulation.folder_world import FolderWorld
from tests.simulation.runs import play_many
from tests.simulation.stories import FOLDER
from tests.simulation.world import CALM

SHARE = 10
"""One seed of these costs as much as some of the others."""


def test_every_move_changes_the_world_that_later_runs_see(tmp_path: Path) -> None:
    world = FolderWorld(1, CALM, frozenset([COPY, AWAY]), tmp_path)
    world.move(0)
    assert world.hidden is not None
    world.mount_true()
    world._rename_in_mid_run()
    assert world.renamed_prefixes
    for number in range(1, 200):
        world.move(number)
    assert not world.renamed_prefixes


@pytest.mark.timeout(0)  # --seeds decides how long it takes
def test_whatever_becomes_of_the_world_no_run_forgets_what_one_before_it_knew(seeds: range) -> None:
    FOLDER.require_every_trouble(play_many(seeds[::SHARE], play_folder))
