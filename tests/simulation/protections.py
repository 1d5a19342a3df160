# SPDX-License-Identifier: Apache-2.0
"""
Switch one protection off alone, and see the judge find out: ``python -m tests.simulation.protections``.

A protection is a rule with all that stands behind it; what a single line of it is worth, ``tests/mutations`` tells.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest import mock

from airflow_provider_rlmm.core.base import clock
from airflow_provider_rlmm.core.log import in_process, log_tail, topic_state
from airflow_provider_rlmm.core.records.topic_answers import NoTopic
from airflow_provider_rlmm.core.storage import layout_storage, root
from airflow_provider_rlmm.core.world import absence, cluster_look, proven_time, replay
from airflow_provider_rlmm.core.world import freshness as fresh
from airflow_provider_rlmm.features.cleanup import cleaner
from tests.simulation.copying_protections import COPYING_PROTECTIONS
from tests.simulation.copying_runs import play_copying
from tests.simulation.folder_protections import FOLDER_PROTECTIONS
from tests.simulation.folder_runs import play_folder
from tests.simulation.mistakes import CLOCKS, CLUSTER, LOSS, RIGHTS, ROOTS
from tests.simulation.runs import play, remembered_decoding, trouble_of
from tests.simulation.stories import RECORDED, record_seeds, recorded_seeds
from tests.simulation.world import World

SEEDS = 5000
KIND = "protections"
"""What recorded seeds of these are kept as."""


def _nothing(*_: object, **__: object) -> None:
    """Stand in for a check."""


def _always(*_: object, **__: object) -> bool:
    return True


def _any_cluster() -> Iterator[Any]:
    """A1: whoever answers is the cluster whose log is read."""
    ask = cluster_look.ask

    def believing(topics: Any, log: Any, names: Any) -> Any:
        seen = ask(topics, SimpleNamespace(topic_id=mock.ANY), names)  # type: ignore[arg-type]  # all that is asked of it
        return replace(seen, metadata_topic_id=log.topic_id)

    def identify(self: Any) -> Any:
        return topic_state.TopicIdentity(self._topics.cluster_id(), self._log.topic_id, self._log.partition_count)

    yield mock.patch.object(topic_state.TopicState, "_identify", identify)
    for user in (
        "airflow_provider_rlmm.features.cleanup.marker",
        "airflow_provider_rlmm.features.cleanup.planner",
        # Whoever looks asks there.
        "airflow_provider_rlmm.core.world.cluster_look",
    ):
        yield mock.patch(f"{user}.ask", believing)


def _hidden_is_absent() -> Iterator[Any]:
    """A2: a name that may not be described is unknown."""
    observe_all = absence.observe_all

    def believing(names: Any, answers: Mapping[str, Any], listed: Any) -> Any:
        known = {name: NoTopic.UNKNOWN if answer is NoTopic.DENIED else answer for name, answer in answers.items()}
        return observe_all(names, known, listed)

    yield mock.patch.object(cluster_look, "observe_all", believing)


def _any_location() -> Iterator[Any]:
    """A3: a stamp is believed wherever it lies, and so is an expected root."""

    def stamp(self: Any, *, move_stamp: bool = False) -> Any:
        return None if self.raw_stamp is None else root.Stamp.from_json(self.raw_stamp)

    yield mock.patch.object(root.PlaceLook, "stamp", stamp)
    yield mock.patch.object(root.PlaceLook, "_require_expected", _nothing)
    yield mock.patch.object(root.RootExpectation, "require_each_found", _nothing)


def _old_root() -> Iterator[Any]:
    """A3: a root need not be up to date."""
    yield mock.patch.object(fresh.Freshness, "require", _nothing)
    yield mock.patch.object(fresh.Freshness, "is_fresh", _always)


def _changing_folders() -> Iterator[Any]:
    """A3: folders may be renamed and replaced while a task works."""
    yield mock.patch.object(layout_storage.LayoutRemoteStorageManager, "_require_unchanged", _nothing)


def _workers_clock() -> Iterator[Any]:
    """A4: time is what the worker's own clock says."""
    yield mock.patch.object(clock.ProvenClock, "__call__", lambda self: self._worker_clock())
    yield mock.patch.object(proven_time, "check_agreement", _nothing)


def _lost_beginning() -> Iterator[Any]:
    """A5: reading goes on where the log begins by now."""
    yield mock.patch.object(in_process, "require_range", _nothing)
    yield mock.patch.object(log_tail.Tie, "close", _nothing)
    batch = in_process._Partition.batch
    yield mock.patch.object(
        in_process._Partition, "batch", lambda self, start, end: batch(self, max(start, self.beginning), end)
    )


def _lost_end() -> Iterator[Any]:
    """A5: the high watermark may go back, and other records may take the place of those that were read."""

    advance_replay = replay.MetadataPartitionReplay.advance

    def advance(self: Any, *args: Any) -> None:
        follower, number = self._follower, self.metadata_partition
        end = follower._log.high_water_marks()[number]
        follower.positions[number], follower.tails[number] = min(self.end, end), log_tail.LogTail(number)
        advance_replay(self, *args)

    advance_topic = topic_state.TopicState.advance

    def advance_anyhow(self: Any, *args: Any, **kwargs: Any) -> None:
        for number, end in self._log.high_water_marks().items():
            if end < self.next_offsets[number]:
                self.next_offsets[number], self.tails[number] = end, log_tail.LogTail(number)
        advance_topic(self, *args, **kwargs)

    yield mock.patch.object(topic_state.TopicState, "advance", advance_anyhow)
    yield mock.patch.object(replay.MetadataPartitionReplay, "advance", advance)
    yield mock.patch.object(cleaner, "require_tail", _nothing)


_CLEANERS = {
    "A1 same cluster": (_any_cluster, CLUSTER),
    "A2 complete listing": (_hidden_is_absent, RIGHTS),
    "A3 where the root lies": (_any_location, ROOTS),
    "A3 up to date": (_old_root, ROOTS),
    "A3 the same folders": (_changing_folders, ROOTS),
    "A4 clocks": (_workers_clock, CLOCKS),
    "A5 the beginning of the log": (_lost_beginning, LOSS),
    "A5 the end of the log": (_lost_end, LOSS),
}
"""Name → what switches it off, and the kind of trouble that it is there for: seeds without it are not played."""


@dataclass(frozen=True, slots=True)
class Protection:
    """
    :param switch_off: yields the patches that switch it off.
    :param play: plays a story in which it matters.
    :param matters: tells whether a seed may find it missing.
    """

    switch_off: Callable[[], Iterator[Any]]
    play: Callable[[int], World]
    matters: Callable[[int], bool]


def _cleaners(switch_off: Callable[[], Iterator[Any]], kind: str) -> Protection:
    return Protection(switch_off, play, lambda seed: kind in trouble_of(seed).kinds)


PROTECTIONS = {
    **{name: _cleaners(*of) for name, of in _CLEANERS.items()},
    **{name: Protection(off, play_copying, _always) for name, off in COPYING_PROTECTIONS.items()},
    **{
        name: Protection(off, partial(play_folder, moves=frozenset([move])), _always)
        for name, (off, move) in FOLDER_PROTECTIONS.items()
    },
}


@contextmanager
def switched_off(name: str) -> Iterator[None]:
    """Switch one protection off for as long as this lasts."""
    with ExitStack() as stack:
        for patch in PROTECTIONS[name].switch_off():
            stack.enter_context(patch)
        yield


def violation(name: str, seed: int) -> str | None:
    """Return what the judge says of a seed without a protection, ``None`` where it finds nothing wrong."""
    protection = PROTECTIONS[name]
    if not protection.matters(seed):
        return None
    with switched_off(name), remembered_decoding():
        try:
            protection.play(seed)
        except AssertionError as e:
            if isinstance(e.__cause__, AssertionError):  # else it fell over its own missing rule
                return str(e)
    return None


def first_violation(name: str, seeds: Iterable[int]) -> tuple[int, str] | None:
    """Return the first seed that finds a protection missing, and what the judge says of it; ``None`` where none does."""
    found = ((seed, violation(name, seed)) for seed in seeds)
    return next(((seed, said) for seed, said in found if said is not None), None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="only protections whose names contain one of these")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="seeds to play at most for each")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    missed, recorded = 0, recorded_seeds().get(KIND, {})
    known = dict(recorded)
    for name in PROTECTIONS:
        if not options.names or any(part in name for part in options.names):
            # A seed that found it missing once mostly does so again; in a world that has changed another one is looked for.
            found = first_violation(name, [*([recorded[name]] if name in recorded else []), *range(options.seeds)])
            seed, said = found or (None, "NOT FOUND")
            print(f"{name}: {said}"[:400], flush=True)  # noqa: T201  # a program's output
            missed += seed is None
            known |= {name: seed} if seed is not None else {}
    anew = [name for name in known if known[name] != recorded.get(name)]
    if anew:
        record_seeds(KIND, known)
        print(f"recorded anew in {RECORDED.name}: {', '.join(anew)}")  # noqa: T201
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
