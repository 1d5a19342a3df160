# SPDX-License-Identifier: Apache-2.0
"""Random user partitions whose segments expire: sizes in hundreds, times in seconds, so that limits are met exactly."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any
from uuid import UUID

from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
)
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.segments.lineage import LeaderEpochCheckpoint
from tests.leader_views import PARTITION

WORLDS_PER_ROUND = 500
EVENTS_PER_WORLD = 20
"""On average, and a little less."""
NOW_MS = 1_800_000_000_000
SECOND_MS = 1000
LONG_AGO_MS = NOW_MS - 10**9

TRAITS = ("epochs", "log start", "unclean", "local", "dangling", "early", "copying", "retried", "forged")
"""
What a partition may have beside segments and limits: several leader epochs; a log start offset that was moved; copies of
leaders that lost an unclean election; bytes that are only local; copies and deletions that nobody goes on with; segments of
epochs before the first of the lineage; a copy in progress; copies that began several times; epochs that no leader writes.
"""
KINDS: dict[str, frozenset[str]] = {
    "plain": frozenset(),
    **{trait: frozenset({trait} if trait in ("local", "dangling") else {trait, "epochs"}) for trait in TRAITS},
}
"""The traits that each kind of world has; those of kind ``all`` have some of all."""
ALL = "all"

STEPS = (S.COPY_SEGMENT_FINISHED, S.DELETE_SEGMENT_STARTED, S.DELETE_SEGMENT_FINISHED)


@dataclass(frozen=True, slots=True)
class Copy:
    """A segment, how far it came, and the leader epoch index that was copied with it."""

    added: RemoteLogSegmentMetadata
    steps: Sequence[S]
    leader_epoch_index: LeaderEpochCheckpoint

    @property
    def segment_id(self) -> UUID:
        return self.added.remote_log_segment_id.id

    def events(self) -> Iterator[str]:
        """Yield the values that the metadata topic has of it, in hex."""
        yield serialize(self.added).hex()
        for state in self.steps:
            update = RemoteLogSegmentMetadataUpdate(self.added.remote_log_segment_id, LONG_AGO_MS, None, state, 1)
            yield serialize(update).hex()


@dataclass(frozen=True, slots=True)
class ExpirationWorld:
    """
    :param kind: of :data:`KINDS`, or :data:`ALL`.
    :param traits: what it has.
    :param copies: all segments that ever were.
    :param partition: as ``ExpirationPeer`` reads it.
    """

    kind: str
    traits: frozenset[str]
    copies: Sequence[Copy]
    partition: dict[str, Any] = field(repr=False)


def expiration_world(seed: object, number: int) -> ExpirationWorld:
    """
    Return a world; its kind follows from its number.

    :param seed: of the run.
    :param number: of the world.
    """
    rng = random.Random(f"expiration {seed} {number}")
    kinds = [*KINDS, ALL]
    kind = kinds[number % len(kinds)]
    traits = KINDS[kind] if kind in KINDS else frozenset(t for t in TRAITS if rng.random() < 0.4)
    return _Maker(rng, traits).make(kind)


class _Maker:
    def __init__(self, rng: random.Random, traits: frozenset[str]) -> None:
        self.rng, self.traits = rng, traits
        self.begin = rng.randrange(3) * 100
        lengths = [rng.randint(1, 100) for _ in range(rng.randint(1, 12))]
        self.bounds = [self.begin]
        for length in lengths:
            self.bounds.append(self.bounds[-1] + length)
        self.end = self.bounds[-1] + rng.choice((0, 0, 1, 5, 50))
        self.lineage = self._lineage()
        self.newest_ms = NOW_MS - rng.randint(10, 25) * SECOND_MS

    def make(self, kind: str) -> ExpirationWorld:
        rng = self.rng
        copies = list(self._copies())
        for copy in self._foreign_copies():
            copies.insert(rng.randint(0, len(copies)), copy)
        total = sum(c.added.segment_size_in_bytes for c in copies)
        start = rng.randint(self.begin, self.end) if "log start" in self.traits else self.begin
        behind = rng.randint(1, 30) if "unclean" in self.traits and rng.random() < 0.2 else 0
        log_end = max(self.end - behind, start)
        started = [c for c in copies if not c.steps]
        partition = {
            "events": [event for copy in copies for event in copy.events()],
            "leader_epochs": [list(entry) for entry in self.lineage.truncate_from_end(log_end + 1).entries],
            "log_start_offset": start,
            "log_end_offset": log_end,
            "only_local_bytes": rng.randrange(30) * 100 if "local" in self.traits else 0,
            "being_copied": [c.segment_id.hex for c in started[-1:]] if "copying" in self.traits else [],
            "retention_ms": -1 if rng.random() < 0.2 else rng.randrange(30) * SECOND_MS,
            "retention_bytes": -1 if rng.random() < 0.3 else rng.randrange(total // 100 + 5) * 100,
            "now_ms": NOW_MS,
        }
        return ExpirationWorld(kind, self.traits, copies, partition)

    def _lineage(self) -> LeaderEpochCheckpoint:
        rng = self.rng
        later = rng.randint(1, 4) if "epochs" in self.traits else 0
        starts = sorted({self.begin, *(rng.randint(self.begin, self.end) for _ in range(later))})
        epochs = [rng.randrange(3) + (5 if "early" in self.traits else 0)]
        for _ in starts[1:]:
            epochs.append(epochs[-1] + rng.randint(1, 3))
        return LeaderEpochCheckpoint(tuple(zip(epochs, starts, strict=True)))

    def _copies(self) -> Iterator[Copy]:
        for start, following in pairwise(self.bounds):
            self.newest_ms += self.rng.randrange(3) * SECOND_MS
            if "retried" in self.traits:
                yield from (
                    self._copy(self.lineage, start, following, self._unfinished())
                    for _ in range(self.rng.choice((0, 0, 1, 2, 3)))
                )
            yield self._copy(self.lineage, start, following, self._steps())
        if "copying" in self.traits:
            yield self._copy(self.lineage, self.bounds[-2], self.bounds[-1], ())

    def _foreign_copies(self) -> Iterator[Copy]:
        rng = self.rng
        if "early" in self.traits:
            first = self.lineage.entries[0][0]
            for _ in range(rng.randint(1, 4)):
                start = self.begin + rng.randrange(5) * 10
                epochs = sorted(rng.sample(range(first), rng.choice((1, 1, 2))))
                other = LeaderEpochCheckpoint(tuple((epoch, start + 4 * number) for number, epoch in enumerate(epochs)))
                yield self._copy(other, start, start + 10, self._steps())
        if "unclean" in self.traits:
            for _ in range(rng.randint(1, 3)):
                other = self._lost_lineage()
                start = rng.choice(self.bounds[:-1])
                yield self._copy(other, start, start + rng.randint(1, 120), self._steps())
        if "forged" in self.traits:
            for start, following in rng.sample(list(pairwise(self.bounds)), 1):
                yield self._forged(start, following)

    def _lost_lineage(self) -> LeaderEpochCheckpoint:
        """The lineage of a leader whose end another one did not have: it wrote on in its epoch, or began one of its own."""
        rng, entries = self.rng, self.lineage.entries
        shared = rng.randint(1, max(1, len(entries) - 1))
        last, begins = entries[shared - 1]
        free = range(last + 1, entries[shared][0]) if shared < len(entries) else range(0)
        own = [(rng.choice(free), begins + rng.randint(1, 60))] if free and rng.random() < 0.6 else []
        return LeaderEpochCheckpoint((*entries[:shared], *own))

    def _forged(self, start: int, following: int) -> Copy:
        rng = self.rng
        epochs = dict(self.lineage.in_range(start, following).entries)
        last = max(epochs)
        if rng.random() < 0.5:
            epochs[last + 1] = max(start, following - rng.randint(1, 5))
        else:
            epochs[last] += 1
        copy = self._copy(self.lineage, start, following, self._steps())
        return Copy(
            replace(copy.added, segment_leader_epochs=tuple(sorted(epochs.items()))),
            copy.steps,
            copy.leader_epoch_index,
        )

    def _copy(self, lineage: LeaderEpochCheckpoint, start: int, following: int, steps: Sequence[S]) -> Copy:
        rng = self.rng
        late = rng.randrange(5) * SECOND_MS if rng.random() < 0.2 else 0
        added = RemoteLogSegmentMetadata(
            RemoteLogSegmentId(PARTITION, UUID(int=rng.getrandbits(128))), start, following - 1, self.newest_ms - late, 1,
            LONG_AGO_MS, rng.randrange(10) * 100, None, S.COPY_SEGMENT_STARTED, lineage.in_range(start, following).entries,
        )  # fmt: skip
        return Copy(added, steps, lineage.truncate_from_end(following))

    def _steps(self) -> Sequence[S]:
        if "dangling" not in self.traits:
            return STEPS[:1]
        return STEPS[: self.rng.choice((0, 1, 1, 1, 1, 2, 3))]

    def _unfinished(self) -> Sequence[S]:
        return (S.DELETE_SEGMENT_STARTED,) if self.rng.random() < 0.2 else ()
