# SPDX-License-Identifier: Apache-2.0
"""A process that marks, plans and cleans once, to be killed; run as a module, with the arguments of :func:`main`."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.integration.cleaning import Cleaning

BEGUN, ENDED = "begun", "ended"


def main(bootstrap_servers: str, storage_root: str, cluster_id: str, batch_segments: str) -> None:
    with Cleaning(bootstrap_servers, Path(storage_root), cluster_id, batch_segments=int(batch_segments)) as cleaning:
        cleaning.mark()
        plan = cleaning.plan()
        say(BEGUN)
        cleaning.clean(plan)
        say(ENDED)


def say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
