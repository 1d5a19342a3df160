# SPDX-License-Identifier: Apache-2.0
"""
The kinds of stories, and what has to happen in them however many are played.

``recorded_seeds.json`` names a seed for each trouble, so that a few stories suffice to see them all. It is a shortcut and no
more: in a world that has changed, seeds tell other stories, and others are looked for.
``python -m tests.simulation.stories`` records them anew.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.simulation.copying_runs import play_copying
from tests.simulation.folder_moves import PLAYED
from tests.simulation.folder_runs import play_folder
from tests.simulation.runs import play, what_happens
from tests.simulation.world import World

SEARCHED = 2000
"""Seeds among which a trouble is looked for that its recorded seed does not bring; in so many all have happened."""

RECORDED = Path(__file__).with_name("recorded_seeds.json")


@dataclass(frozen=True, slots=True)
class Stories:
    """
    :param name: of their kind.
    :param play: plays the story of a seed.
    :param troubles: what has to happen in some of them.
    """

    name: str
    play: Callable[[int], World]
    troubles: frozenset[str]

    def require_every_trouble(self, happened: Counter[str]) -> None:
        """
        Play on until every trouble has happened: recorded seeds of those that are missing, then others.

        :param happened: what has, in seeds that were played.
        :raises AssertionError: if one never does.
        """
        missing = set(self.troubles - happened.keys())
        recorded = recorded_seeds().get(self.name, {})
        bringing = dict.fromkeys(recorded[trouble] for trouble in sorted(missing) if trouble in recorded)
        for seed in (*bringing, *range(SEARCHED)):
            if missing:
                missing -= what_happens(seed, self.play).keys()
        assert not missing, f"in {SEARCHED} seeds of the {self.name} this never happens: {sorted(missing)}"


CLEANER = Stories(
    "cleaner",
    play,
    frozenset(
        {
            *(f"crash {when} {name}" for when in ("before", "after") for name in ("publish", "delete", "list", "read")),
            *("crash before commit", "crash after commit", "crash before put", "crash before list_topics"),
            *(
                f"fault {when} {name}"
                for when in ("before", "after")
                for name in ("publish", "delete", "list", "put", "commit")
            ),
            *(
                "fault before read",
                "fault before high_water_marks",
                "fault before list_topics",
                "fault before describe_topics",
            ),
            *("record refused", "record timed out", "record in flight", "late landing"),
            *(
                "leader_deletes",
                "zombie_copies",
                "owner_recreates",
                "owner_deletes",
                "controller_marks",
                "group_expires",
            ),
            *("another cluster", "denied at a look", "denied for a run", "another name", "wrong clock"),
            *(
                "beginning lost",
                "end lost",
                "regrown",
                "tombstone",
                "garbage",
                "newer version",
                "keyed",
                "misrouted",
                "garbled",
            ),
            *("copied root", "old root", "partial root", "root swapped in mid-run"),
            *("folder renamed", "folder renamed before a deletion"),
            *(
                "ended: LogReplacedError",
                "ended: OffsetOutOfRangeError",
                "ended: ClusterMismatchError",
                "ended: StorageRootError",
            ),
            *("snapshot read", "snapshot lost", "snapshot restored", "snapshot damaged", "snapshot not written"),
            *("switched on", "switched off", "stopped", "ended: AuditError"),
            *(f"{what} at audit {phase}" for what in ("fault", "crash") for phase in ("before", "after")),
            *("stale topics", "strange root", "2 processes", "FINISHED", "INCOMPLETE", "REFUSED"),
        }
    ),
)
COPIER = Stories(
    "copier",
    play_copying,
    frozenset(
        {
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
            *(
                "another cluster's leader",
                "denied at the leader",
                "ended: ClockSkewError",
                "ended: ClusterMismatchError",
            ),
            *("slept through its lease", "ended: asleep for too long", "copier's event dropped", "taken back"),
            *(
                "strange root",
                "copied root",
                "old root",
                "partial root",
                "root swapped in mid-run",
                "ended: StorageRootError",
            ),
            *(
                "beginning lost",
                "end lost",
                "tombstone",
                "garbage",
                "newer version",
                "misrouted",
                "ended: TopicInDoubtError",
            ),
            *("waited for its quota", "left to expire", "copied again from less", "adopted"),
            *("stopped", "ended: needs a person", "ended: left to a later run", "ended: CopyRefusedError"),
            *("2 processes", "3 processes", "FINISHED", "INCOMPLETE", "all copied"),
        }
    ),
)
FOLDER = Stories(
    "work folder",
    play_folder,
    frozenset(
        {
            *(f"{what} ended: well" for what in ("cleanup", "scrub")),
            *("FINISHED", "INCOMPLETE", "REFUSED", "snapshot read", "leader_deletes", "zombie_copies", "stopped"),
            *(
                "crash before list",
                "crash after publish",
                "fault before delete",
                "fault after list",
                "fault at audit before",
            ),
            *PLAYED,
        }
    ),
)


def recorded_seeds() -> dict[str, dict[str, int]]:
    """Return kind of story → trouble → seed, and for ``protections`` its name → seed."""
    recorded: dict[str, dict[str, int]] = json.loads(RECORDED.read_text())
    return recorded


def record_seeds(kind: str, seeds: dict[str, int]) -> None:
    """Keep the seeds of a kind in the place of its former ones."""
    recorded = recorded_seeds() | {kind: dict(sorted(seeds.items()))}
    RECORDED.write_text(json.dumps(recorded, indent=1) + "\n")


def seeds_of(stories: Stories, seeds: Iterable[int]) -> dict[str, int]:
    """Return a seed for each trouble, as few of them as a greedy choice finds."""
    bring = {seed: what_happens(seed, stories.play).keys() & stories.troubles for seed in seeds}
    found: dict[str, int] = {}
    while bring and (best := max(bring, key=lambda seed: len(bring[seed] - found.keys()))):
        new = bring[best] - found.keys()
        if not new:
            break
        found |= dict.fromkeys(new, best)
    return found


def main() -> None:
    logging.disable(logging.CRITICAL)
    for stories in (CLEANER, COPIER, FOLDER):
        found = seeds_of(stories, range(SEARCHED))
        record_seeds(stories.name, found)
        missing = sorted(stories.troubles - found.keys())
        print(f"{stories.name}: {len(found)} troubles in {len(set(found.values()))} seeds; missing: {missing}")  # noqa: T201  # a program's output


if __name__ == "__main__":
    main()
