# SPDX-License-Identifier: Apache-2.0
"""The rules of copying, one by one: what the copier's own steps keep from happening, they refuse all the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.base.clock import HOUR_MS
from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.log.answers import CopyConfigs, LeaderAnswer, LeaderOffsets
from airflow_provider_rlmm.core.records.cache import RemoteLogMetadataCache
from airflow_provider_rlmm.core.records.records import (
    COPIER_BROKER_ID,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    TopicIdPartition,
)
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.segments.lineage import LeaderEpochCheckpoint
from airflow_provider_rlmm.core.world.hold import Hold
from airflow_provider_rlmm.features.copying.copy_situation import CopySituation, DirectoryFacts
from airflow_provider_rlmm.features.copying.rules import (
    COPY_WITHOUT_LEADER,
    CopyLimits,
    LocalSegment,
    candidates,
    expires_before,
    remote_end,
)

TIP = TopicIdPartition(UUID(int=70), "living", 0)
NOW_MS = 1_800_000_000_000
DAY_MS = 24 * HOUR_MS
EPOCHS = ((0, 0), (3, 15))


def local(base: int, end: int | None = None, max_timestamp_ms: int = NOW_MS, first: int | None = None) -> LocalSegment:
    last = base + 9 if end is None else end
    return LocalSegment(base, last, 100, max_timestamp_ms, ((0, base if first is None else first),), True)


def remote(
    start: int, end: int | None = None, *, state: S = S.COPY_SEGMENT_FINISHED, broker_id: int = 1
) -> RemoteLogSegmentMetadata:
    segment_id = RemoteLogSegmentId(TIP, UUID(int=1000 + start + 100_000 * (broker_id < 0)))
    last = start + 9 if end is None else end
    epochs = LeaderEpochCheckpoint(EPOCHS).in_range(start, last + 1).entries
    return RemoteLogSegmentMetadata(segment_id, start, last, NOW_MS, broker_id, NOW_MS, 100, None, state, epochs, True)


def cache_of(*segments: RemoteLogSegmentMetadata) -> RemoteLogMetadataCache:
    cache = RemoteLogMetadataCache()
    for metadata in segments:
        cache.add_copy_in_progress_segment(replace(metadata, state=S.COPY_SEGMENT_STARTED))
        if metadata.state is not S.COPY_SEGMENT_STARTED:
            cache.update_remote_log_segment_metadata(
                RemoteLogSegmentMetadataUpdate(
                    metadata.remote_log_segment_id, NOW_MS, None, metadata.state, metadata.broker_id
                )
            )
    return cache


def situation(cache: RemoteLogMetadataCache | None = None, **changes: Any) -> CopySituation:
    configs = CopyConfigs(True, True, frozenset({"delete"}), -1, -1)
    facts = DirectoryFacts(TIP, LeaderEpochCheckpoint(EPOCHS), tuple(local(b) for b in (0, 10, 20, 30)), 0, 40, 45)
    answer = LeaderAnswer(TIP, UUID(int=1), False, configs, LeaderOffsets(0, 45, 45))
    found = CopySituation(facts, cache or cache_of(), answer, CopyLimits(), Hold(), NOW_MS, proven_end=45)
    return replace(found, **changes)


OURS = remote(10, state=S.COPY_SEGMENT_STARTED, broker_id=COPIER_BROKER_ID)


def test_what_follows_the_remote_log_may_be_announced_and_finished() -> None:
    assert situation(cache_of(remote(0))).obstacle_to(OURS) is None
    assert situation(cache_of(remote(0), OURS)).obstacle_to(replace(OURS, state=S.COPY_SEGMENT_FINISHED)) is None


def test_what_begins_behind_a_gap_is_not_announced() -> None:
    assert "behind offset 0" in str(situation().obstacle_to(OURS))


def at_offsets(log_start: int, stable: int) -> CopySituation:
    at = situation(cache_of(remote(0)))
    assert at.answer is not None
    return replace(at, answer=replace(at.answer, offsets=LeaderOffsets(log_start, stable, 45)))


def test_what_nobody_reads_any_more_is_not_copied() -> None:
    assert "no consumer reads them any more" in str(at_offsets(20, 45).obstacle_to(OURS))
    assert at_offsets(19, 45).obstacle_to(OURS) is None


def test_what_is_not_committed_is_not_copied() -> None:
    assert "beyond the committed end 19" in str(at_offsets(0, 19).obstacle_to(OURS))
    assert at_offsets(0, 20).obstacle_to(OURS) is None


def test_what_is_in_remote_storage_is_not_copied_again() -> None:
    assert "in remote storage already" in str(situation(cache_of(remote(0), remote(10))).obstacle_to(OURS))


@pytest.mark.parametrize("proven_end", [None, 0, 19])
def test_what_is_not_proven_is_not_announced(proven_end: int | None) -> None:
    at = situation(cache_of(remote(0)), proven_end=proven_end)
    assert "not proven to be the leader's" in str(at.obstacle_to(OURS))


def test_the_override_needs_no_proof_where_there_is_no_leader() -> None:
    limits = CopyLimits(overrides=frozenset({COPY_WITHOUT_LEADER}))
    at = situation(cache_of(remote(0)), proven_end=None, limits=limits)
    assert at.obstacle_to(OURS) is not None
    assert at.answer is not None
    leaderless = replace(at, answer=replace(at.answer, offsets=None))
    assert leaderless.obstacle_to(OURS) is None
    assert "beyond the committed end 0" in str(
        replace(leaderless, directory=replace(at.directory, committed_end=None)).obstacle_to(OURS)
    )


def test_whoever_was_announced_first_goes_on() -> None:
    other = replace(OURS, remote_log_segment_id=RemoteLogSegmentId(TIP, UUID(int=9)))
    assert situation(cache_of(remote(0), OURS, other)).obstacle_to(OURS) is None
    assert "another run of the copier" in str(situation(cache_of(remote(0), OURS, other)).obstacle_to(other))


def test_without_an_answer_nothing_is_copied() -> None:
    assert "is archived, never copied" in str(situation(cache_of(remote(0)), answer=None).obstacle_to(OURS))


@pytest.mark.parametrize(
    ("copies", "log_start", "end"),
    [
        ([], 0, 0),
        ([(0, 9)], 0, 10),
        ([(0, 9), (10, 19)], 0, 20),
        ([(0, 9), (20, 29)], 0, 10),
        ([(20, 29)], 20, 30),
        ([(0, 12)], 5, 13),
        ([(0, 9), (5, 19)], 0, 20),
        ([(0, 9)], 10, 10),
        ([(0, 9)], 12, 12),
    ],
)
def test_the_remote_end_is_the_first_offset_that_brokers_could_not_read(
    copies: list[tuple[int, int]], log_start: int, end: int
) -> None:
    assert remote_end(cache_of(*(remote(*copy) for copy in copies)), EPOCHS, log_start) == end


def test_a_copy_of_another_lineage_serves_no_read() -> None:
    """Its epoch 0 reaches to offset 19, and in this lineage epoch 3 begins at 15."""
    stale = replace(remote(0, 19), segment_leader_epochs=((0, 0),))
    assert remote_end(cache_of(stale), EPOCHS, 0) == 15


@pytest.mark.parametrize("state", [S.COPY_SEGMENT_STARTED, S.DELETE_SEGMENT_STARTED])
def test_what_is_copied_or_deleted_serves_no_read(state: S) -> None:
    assert remote_end(cache_of(remote(0, state=state)), EPOCHS, 0) == 0


class CountingCache(RemoteLogMetadataCache):
    looks = 0

    def remote_log_segment_metadata(self, leader_epoch: int, offset: int) -> RemoteLogSegmentMetadata | None:
        self.looks += 1
        return super().remote_log_segment_metadata(leader_epoch, offset)

    def list_remote_log_segments(self, leader_epoch: int | None = None) -> list[RemoteLogSegmentMetadata]:
        found = super().list_remote_log_segments(leader_epoch)
        self.looks += len(found)
        return found


def test_candidates_cost_a_few_looks_at_each_segment() -> None:
    known = cache_of(*(remote(start) for start in range(20, 5000, 10)))
    cache = CountingCache(known.in_order_of_arrival(), known.leader_epochs)
    found = situation(cache)
    segments = tuple(local(base) for base in range(20, 6000, 10))
    configs = CopyConfigs(True, True, frozenset({"delete"}), DAY_MS, -1)
    answer = LeaderAnswer(TIP, UUID(int=1), False, configs, LeaderOffsets(20, 5500, 5500))
    facts = replace(found.directory, segments=segments, log_start_offset=20)
    candidates = replace(found, directory=facts, answer=answer).candidates()
    assert [s.base_offset for s in candidates.segments] == list(range(5000, 5500, 10))
    assert 0 < cache.looks < 3 * len(segments)


def test_candidates_end_where_a_segment_is_missing() -> None:
    found = candidates([local(0), local(10), local(30)], from_offset=0, end_offset=99, active_offset=40)
    assert ([s.base_offset for s in found.segments], "20..29 are missing" in str(found.obstacle)) == ([0, 10], True)


def test_a_segment_that_is_copied_in_part_is_copied_whole() -> None:
    found = candidates([local(0), local(10)], from_offset=13, end_offset=99, active_offset=20)
    assert ([s.base_offset for s in found.segments], found.obstacle) == ([10], None)


def expiry(*segments: LocalSegment, log_start: int = 0) -> int | None:
    return expires_before(
        segments, [], log_start_offset=log_start, retention_ms=DAY_MS, margin_ms=HOUR_MS, now_ms=NOW_MS
    )


OLD = NOW_MS - DAY_MS


def test_what_the_leader_is_about_to_delete_ends_at_a_segment() -> None:
    assert expiry(local(0, None, OLD), local(10, None, OLD + HOUR_MS - 1), local(20, None, OLD + HOUR_MS)) == 20
    assert expiry(local(0)) is None
    assert expiry(local(0, None, OLD), log_start=10) is None


def test_nothing_expires_behind_what_does_not() -> None:
    assert expiry(local(0, None, OLD), local(10), local(20, None, OLD)) == 10
    assert expiry(local(0), local(10, None, OLD)) is None
    assert expiry(local(0, 19), local(10, None, OLD)) is None


def test_nothing_is_known_to_expire_behind_offsets_that_nobody_knows() -> None:
    """They may be young, and keep all that lies behind them."""
    assert expiry(local(0, None, OLD), local(20, None, OLD)) == 10
    assert expiry(local(10, None, OLD)) is None


@pytest.mark.parametrize(
    "limits",
    [
        {"lease_ms": 0},
        {"lease_ms": 1},
        {"retention_margin_ms": -1},
        {"bytes_per_second": 0},
        {"max_segments": 0},
        {"overrides": frozenset({"copy_everything"})},
    ],
)
def test_limits_that_cannot_be_kept_are_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        CopyLimits(**limits)


def test_a_lease_is_half_its_runs_and_never_of_two() -> None:
    limits = CopyLimits(lease_ms=1_000)
    assert [limits.still_ours(0, now) for now in (-1, 0, 499, 500)] == [False, True, True, False]
    assert [limits.is_abandoned(0, now) for now in (-1, 500, 999, 1_000)] == [False, False, False, True]
