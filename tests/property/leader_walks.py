# SPDX-License-Identifier: Apache-2.0
"""Random user partitions, judged segment by segment, as Kafka does, and in columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random

import numpy as np

from airflow_provider_rlmm.core.plans.plan import Reason
from airflow_provider_rlmm.core.records.columnar import ColumnarState, decode
from airflow_provider_rlmm.core.records.fold.living import LivingSegments
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
)
from airflow_provider_rlmm.core.records.serde import deserialize, serialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as State
from airflow_provider_rlmm.core.segments.lineage import is_remote_segment_within_leader_epochs
from airflow_provider_rlmm.features.retention.expiration import ExpirationPass, LeaderView, first_pass, known_up_to
from airflow_provider_rlmm.features.retention.leader_lineage import last_epoch_of, newest_copied
from airflow_provider_rlmm.features.retention.spark.executor.leader_walk import (
    Epochs,
    LeadersPass,
    ToldPartition,
    pass_of_leaders,
)
from airflow_provider_rlmm.features.retention.spark.executor.retention_walk import (
    FIELDS,
    NONE,
    REASONS,
    WalkedSegments,
)
from tests.differential.expiration_worlds import ALL, KINDS, NOW_MS, ExpirationWorld, expiration_world
from tests.leader_views import PARTITION, leader_view

AT_ONCE = 50


@dataclass
class Judged:
    """What is told of one world: segment by segment, and in columns."""

    world: ExpirationWorld
    one_by_one: ExpirationPass
    told: bool = False
    in_columns: dict[str, Reason] = field(default_factory=dict)
    may_be_more: bool = False

    @property
    def certain(self) -> dict[str, Reason]:
        """Segment id in hex → why it goes for certain."""
        return {e.segment.remote_log_segment_id.id.hex: e.reason for e in self.one_by_one.expired if e.exact}


def check_worlds(seed: int, number: int) -> None:
    """
    Compare what is told of some worlds: nothing in columns that is not certain one by one, and most of that.

    :param seed: of the worlds.
    :param number: how many.
    """
    told, kinds, reasons = Counter[bool](), Counter[str](), Counter[Reason]()
    for first in range(0, number, AT_ONCE):
        worlds = [expiration_world(seed, n) for n in range(first, first + AT_ONCE)]
        for n, judged in enumerate(judge(worlds, Random(seed + first)), first):
            where = f"world {n}, {judged.world.kind}, of seed {seed}"
            assert judged.in_columns.items() <= judged.certain.items(), where
            if judged.told and not judged.may_be_more:
                assert judged.in_columns == judged.certain, where
            told[judged.told] += len(judged.certain)
            kinds[judged.world.kind] += len(judged.in_columns)
            reasons.update(judged.in_columns.values())
    # Epochs that no leader writes are never told.
    assert all(kinds[kind] for kind in (*KINDS, ALL) if kind != "forged"), kinds
    assert reasons.keys() == {reason for reason in REASONS if reason is not Reason.DANGLING}, reasons
    assert told[True] > 0.6 * told.total(), told


def judge(worlds: Sequence[ExpirationWorld], rng: Random) -> list[Judged]:
    """Judge several worlds together, each a user partition of its own."""
    views = [known_of(world, rng) for world in worlds]
    segments = living(worlds)
    everything, numbers = np.arange(segments.size), segments.partitions["partition"].to_pylist()
    walked = WalkedSegments({name: segments.numbers(name, everything) for name in FIELDS}, segments.first)
    passed = pass_of_leaders(
        walked,
        Epochs(*segments.leader_epochs(everything)),
        [views[number][1] for number in numbers],
        segments.finished_over,
        now_ms=NOW_MS,
        passed_ms=NOW_MS,
    )
    ids = [segment_id.hex() for segment_id in segments.table(everything, ["segment_id"])["segment_id"].to_pylist()]
    found = [Judged(world, first_pass(view)) for world, (view, _) in zip(worlds, views, strict=True)]
    for at, number in enumerate(numbers):
        note(
            found[number], passed, at, slice(int(segments.first[at]), int(segments.first[at] + segments.sizes[at])), ids
        )
    return found


def note(judged: Judged, passed: LeadersPass, at: int, some: slice, ids: Sequence[str]) -> None:
    judged.told, judged.may_be_more = (
        bool(passed.told[at]),
        bool(passed.copying[at] or passed.undecided[at] or passed.outruns[at]),
    )
    codes = zip(ids[some], passed.codes[some].tolist(), strict=True)
    judged.in_columns = {segment_id: REASONS[code] for segment_id, code in codes if code != NONE}


def known_of(world: ExpirationWorld, rng: Random) -> tuple[LeaderView, ToldPartition]:
    """Return what the leader knows, or now and then what the index of one of its segments says of it."""
    leader = replace(leader_view(world.partition), only_local_bytes=0)
    segments = leader.cache.list_remote_log_segments()
    copying = frozenset(s.remote_log_segment_id for s in segments if s.state is State.COPY_SEGMENT_STARTED)
    leader, up_to = replace(leader, being_copied=copying), None
    newest = next(iter(newest_copied(segments)), None)
    if newest is not None and rng.random() < 0.4:
        lineage = leader.leader_epochs.truncate_from_end(newest.end_offset + 1)
        if is_remote_segment_within_leader_epochs(newest, newest.end_offset + 1, lineage):
            up_to = last_epoch_of(newest), newest.end_offset
            leader = known_up_to(replace(leader, leader_epochs=lineage), *up_to)
    told = ToldPartition(
        leader.leader_epochs.truncate_from_start(leader.log_start_offset),
        leader.log_start_offset,
        leader.log_end_offset,
        leader.retention_ms,
        leader.retention_bytes,
        up_to,
    )
    return leader, told


def living(worlds: Sequence[ExpirationWorld]) -> LivingSegments:
    """Return the segments of all worlds, by the number of the world as that of its user partition."""
    values = [moved(event, number) for number, world in enumerate(worlds) for event in world.partition["events"]]
    state, report = ColumnarState.empty(keep_finished=True).apply(
        decode(values, metadata_partition=[0] * len(values), offset=range(len(values)))
    )
    assert not report.quarantined.num_rows
    return state.living()


def moved(event: str, number: int) -> bytes:
    found = deserialize(bytes.fromhex(event))
    assert isinstance(found, RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate)
    home = replace(PARTITION, partition=number)
    return serialize(replace(found, remote_log_segment_id=RemoteLogSegmentId(home, found.remote_log_segment_id.id)))
