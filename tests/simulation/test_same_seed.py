# SPDX-License-Identifier: Apache-2.0
"""One seed makes one story: whoever plays it, and however often."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.simulation.copying_runs import play_copying
from tests.simulation.folder_runs import play_folder
from tests.simulation.runs import digest, play


def stories() -> Iterator[str]:
    for player, seeds in ((play, 6), (play_copying, 12), (play_folder, 6)):
        for seed in range(seeds):
            yield digest(player(seed))


def test_the_same_seed_makes_the_same_run() -> None:
    # The order of sets of strings is another one in each process: nothing may depend on it.
    program = "from tests.simulation.test_same_seed import *; print(*stories())"
    root = Path(__file__).parents[2]
    hash_seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    told = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(root)},
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert told == " ".join(stories()) + "\n"
