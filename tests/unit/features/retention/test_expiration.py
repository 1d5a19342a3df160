# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.base.errors import MetadataError
from airflow_provider_rlmm.core.plans.plan import Reason
from airflow_provider_rlmm.core.records.cache import RemoteLogMetadataCache
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
)
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.segments.lineage import LeaderEpochCheckpoint
from airflow_provider_rlmm.features.retention.expiration import (
    ExpirationPass,
    LeaderView,
    Standing,
    first_pass,
    known_up_to,
)
from tests.leader_views import PARTITION, RECORDED, leader_view

NOW_MS = 1_000_000
DAY_MS = 24 * 3_600_000


def segment_id(number: int) -> RemoteLogSegmentId:
    return RemoteLogSegmentId(PARTITION, UUID(int=number))


def added(number: int, start: int, end: int, *epochs: tuple[int, int], newest_ms: int = 0) -> RemoteLogSegmentMetadata:
    return RemoteLogSegmentMetadata(
        segment_id(number), start, end, newest_ms, 1, 0, 100, None, S.COPY_SEGMENT_STARTED, epochs or ((0, start),)
    )


def cache_of(copied: Iterable[RemoteLogSegmentMetadata], started: Iterable[RemoteLogSegmentMetadata] = ()) -> Any:
    cache = RemoteLogMetadataCache()
    for segment in copied:
        cache.add_copy_in_progress_segment(segment)
        step(cache, segment.remote_log_segment_id, S.COPY_SEGMENT_FINISHED)
    for segment in started:
        cache.add_copy_in_progress_segment(segment)
    return cache


def step(cache: RemoteLogMetadataCache, of: RemoteLogSegmentId, state: S) -> None:
    cache.update_remote_log_segment_metadata(RemoteLogSegmentMetadataUpdate(of, 0, None, state, 1))


def view(cache: RemoteLogMetadataCache, *entries: tuple[int, int], **limits: int) -> LeaderView:
    known = {"log_start_offset": 0, "log_end_offset": 1000, "retention_ms": -1, "retention_bytes": -1, "now_ms": NOW_MS}
    return LeaderView(cache=cache, leader_epochs=LeaderEpochCheckpoint(entries or ((0, 0),)), **{**known, **limits})


def expired(found: ExpirationPass) -> list[tuple[int, Reason, bool]]:
    return [(e.segment.remote_log_segment_id.id.int, e.reason, e.exact) for e in found.expired]


def kept(found: ExpirationPass) -> list[tuple[int, Standing, int | None]]:
    return [(k.segment.remote_log_segment_id.id.int, k.standing, k.due_ms) for k in found.kept]


@pytest.mark.parametrize("world", RECORDED, ids=lambda world: world["kind"])
def test_what_kafkas_own_task_deleted(world: dict[str, Any]) -> None:
    found = first_pass(leader_view(world))
    assert found.exact
    assert [[e.segment.remote_log_segment_id.id.hex, e.reason] for e in found.expired] == world["deleted"]
    assert all(e.exact for e in found.expired)


def test_every_reason_of_a_leader_was_recorded() -> None:
    reasons = {reason for world in RECORDED for _, reason in world["deleted"]}
    assert reasons == {reason for reason in Reason if reason.is_of_leaders}


def test_a_partition_without_segments_and_a_lineage_without_epochs() -> None:
    assert first_pass(view(RemoteLogMetadataCache(), retention_ms=0)) == ExpirationPass([], [], exact=True)
    leader = replace(view(cache_of([added(1, 0, 9)]), retention_ms=0), leader_epochs=LeaderEpochCheckpoint())
    assert kept(first_pass(leader)) == [(1, Standing.FOREIGN, None)]


def test_a_segment_is_due_when_all_before_it_are() -> None:
    cache = cache_of(
        [added(1, 0, 9, newest_ms=700), added(2, 10, 19, newest_ms=300), added(3, 20, 29, newest_ms=900)],
        [added(4, 30, 39), added(5, 40, 49, (7, 40))],
    )
    step(cache, segment_id(4), S.DELETE_SEGMENT_STARTED)
    assert kept(first_pass(view(cache, retention_ms=DAY_MS))) == [
        (1, Standing.VALID, DAY_MS + 700),
        (2, Standing.VALID, DAY_MS + 700),
        (3, Standing.VALID, DAY_MS + 900),
        (4, Standing.VALID, DAY_MS + 900),  # its deletion is retried once the walk gets there
        (5, Standing.FOREIGN, None),
    ]
    assert {k.due_ms for k in first_pass(view(cache)).kept} == {None}


@pytest.mark.parametrize("behind_ms", [0, 1])
def test_the_first_pass_behind_the_time_that_it_is_due_deletes_a_segment(behind_ms: int) -> None:
    leader = view(cache_of([added(1, 0, 9, newest_ms=700)]), retention_ms=NOW_MS)
    [left] = first_pass(leader).kept
    assert left.due_ms is not None
    later = first_pass(replace(leader, now_ms=left.due_ms + behind_ms))
    assert expired(later) == [(1, Reason.RETENTION_MS, True)][:behind_ms]


def test_a_segment_that_lost_its_place_is_leaked() -> None:
    """A copy of the same offsets took its place, and reaches less far than the epoch did before."""
    cache = cache_of([added(1, 0, 9), added(2, 10, 30), added(3, 10, 19)])
    found = first_pass(view(cache, retention_ms=0))
    assert expired(found) == [(1, Reason.RETENTION_MS, True), (3, Reason.RETENTION_MS, True)]
    assert kept(found) == [(2, Standing.LEAKED, None)]


def test_where_the_order_of_hashes_decides_nothing_is_certain() -> None:
    """Two copies that failed begin where the one that did not fail does: Kafka meets it first, and those in any order."""
    cache = cache_of([added(1, 0, 9), added(2, 10, 19)], [added(3, 10, 19), added(4, 10, 19), added(5, 20, 29)])
    by_size = first_pass(view(cache, retention_bytes=0, only_local_bytes=100))
    assert expired(by_size) == [
        (1, Reason.RETENTION_BYTES, True), (2, Reason.RETENTION_BYTES, False), (3, Reason.RETENTION_BYTES, False)
    ]  # fmt: skip
    assert not by_size.exact
    by_time = first_pass(view(cache, retention_ms=0))
    assert [exact for _, _, exact in expired(by_time)] == [True] * 5
    assert by_time.exact


def test_what_a_leader_epoch_index_does_not_tell_is_undecided() -> None:
    """The index of segment 2 knows the lineage up to offset 29: where epoch 1 ends it does not say."""
    newest = added(2, 20, 29, (1, 20))
    cache = cache_of(
        [added(1, 0, 19), newest, added(3, 0, 24, (0, 0))], [added(4, 25, 39, (1, 25)), added(5, 40, 49, (1, 40))]
    )
    step(cache, segment_id(5), S.DELETE_SEGMENT_STARTED)
    leader = known_up_to(view(cache, (0, 0), (1, 20), retention_ms=0, retention_bytes=0), 1, newest.end_offset)
    assert leader.undecided == {segment_id(4), segment_id(5)}
    found = first_pass(leader)
    assert expired(found) == [
        (1, Reason.RETENTION_MS, True), (2, Reason.RETENTION_MS, True), (3, Reason.UNREFERENCED_EPOCH, True)
    ]  # fmt: skip
    assert kept(found) == [(4, Standing.UNDECIDED, None), (5, Standing.VALID, None)]
    assert not found.exact
    assert first_pass(replace(leader, undecided=frozenset(), known_end=None)).exact
    without_limits = first_pass(replace(leader, retention_ms=-1, retention_bytes=-1))
    assert not without_limits.exact
    assert not without_limits.outruns_lineage


@pytest.mark.parametrize(
    ("limit", "reason"), [("retention_ms", Reason.RETENTION_MS), ("retention_bytes", Reason.RETENTION_BYTES)]
)
def test_copies_of_a_lost_leader_go_as_soon_as_the_log_begins_behind_its_epoch(limit: str, reason: Reason) -> None:
    """The leader moves its log start before it deletes anything, and looks for its earliest epoch after that."""
    lost = [added(2, 10, 29), added(3, 30, 49)]
    own = added(4, 10, 19, (2, 10), newest_ms=NOW_MS)
    cache = cache_of([added(1, 0, 9), *lost, own])
    goes_until = {"retention_ms": NOW_MS - 1, "retention_bytes": 100}[limit]
    found = first_pass(view(cache, (0, 0), (2, 10), **{limit: goes_until}))
    unreferenced = Reason.UNREFERENCED_EPOCH
    assert expired(found) == [(1, reason, True), (2, unreferenced, True), (3, unreferenced, True)]
    assert [number for number, _, _ in kept(found)] == [4]
    assert found.exact


def test_a_segment_that_reaches_into_the_earliest_epoch_is_referenced() -> None:
    cache = cache_of([added(1, 0, 7), added(2, 8, 19, (0, 8), (2, 10))])
    found = first_pass(view(cache, (0, 0), (2, 10), log_start_offset=11))
    assert expired(found) == [(1, Reason.UNREFERENCED_EPOCH, True)]
    assert kept(found) == [(2, Standing.VALID, None)]


def test_what_nobody_can_tell_cuts_no_lineage_for_certain() -> None:
    """Two failed copies in any order: behind the one that may stay no epoch is unreferenced for certain."""
    started = [added(2, 10, 19), added(3, 10, 29)]
    cache = cache_of([added(1, 0, 9), added(5, 30, 39, (2, 30)), added(6, 40, 49, (0, 40))], started)
    found = first_pass(view(cache, (0, 0), (2, 30), retention_bytes=0, only_local_bytes=250))
    certain = {number: exact for number, _, exact in expired(found)}
    assert certain == {1: True, 2: False, 3: False, 5: False, 6: False}
    assert not found.exact


def test_behind_a_leader_epoch_index_nobody_knows_the_earliest_epoch() -> None:
    """Epoch 1 had another leader; where the index ends, epoch 2 may have begun."""
    cache = cache_of([added(1, 0, 9), added(2, 5, 9, (1, 5))])
    leader = view(cache, retention_ms=0)
    assert first_pass(leader).exact
    found = first_pass(known_up_to(leader, 0, 9))
    assert not found.exact
    assert found.outruns_lineage
    assert expired(found) == [(1, Reason.RETENTION_MS, True)]
    alone = first_pass(known_up_to(view(cache_of([added(1, 0, 9)]), retention_ms=0), 0, 9))
    assert alone.exact


def test_a_leader_whose_cache_cannot_list_an_epoch_ends_with_an_error() -> None:
    cache = cache_of([added(1, 0, 9), added(2, 10, 19)], [added(3, 20, 29, (0, 20))])
    cache.add_copy_in_progress_segment(added(3, 20, 29, (7, 20)))
    for state in (S.DELETE_SEGMENT_STARTED, S.DELETE_SEGMENT_FINISHED):
        step(cache, segment_id(3), state)
    with pytest.raises(MetadataError, match="leader epoch 0 still refers to"):
        first_pass(view(cache, retention_ms=0))
