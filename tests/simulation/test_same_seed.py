# SPDX-License-Identifier: Apache-2.0
"""One seed makes one story: whoever plays it, and however often."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.simulation.copying_runs import play_copying
from tests.simulation.runs import digest, play


def test_the_same_seed_makes_the_same_run() -> None:
    # The order of sets of strings is another one in each process: nothing may depend on it.
    program = (
        "from tests.simulation.runs import *; from tests.simulation.copying_runs import *; "
        "print(*(digest(play(seed)) for seed in range(12)), *(digest(play_copying(seed)) for seed in range(24)))"
    )
    root = Path(__file__).parents[2]
    stories = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(root)},
            cwd=root,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    again = [*(digest(play(seed)) for seed in range(12)), *(digest(play_copying(seed)) for seed in range(24))]
    assert stories == {" ".join(again) + "\n"}
