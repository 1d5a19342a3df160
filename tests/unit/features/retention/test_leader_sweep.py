# SPDX-License-Identifier: Apache-2.0
"""What it costs to ask the leaders of a hundred thousand user partitions: counted, not timed."""

from __future__ import annotations

from dataclasses import replace
from threading import Lock
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.base.errors import RemoteObjectNotFoundError, StorageUnavailableError
from airflow_provider_rlmm.core.plans.certainty import Certainty
from airflow_provider_rlmm.core.records.cache import RemoteLogMetadataCache
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    TopicIdPartition,
)
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.core.segments.lineage import LeaderEpochCheckpoint
from airflow_provider_rlmm.core.storage.index_type import IndexType
from airflow_provider_rlmm.features.retention.kept_lineages import KeptLineages
from airflow_provider_rlmm.features.retention.leader_lineage import (
    FETCHED_AT_ONCE,
    GIVE_UP_AFTER,
    NotConfirmed,
    WantedLineage,
    lineages_of_leaders,
)
from airflow_provider_rlmm.features.retention.leader_pass import PassTimes
from airflow_provider_rlmm.features.retention.leader_sweep import LeaderSweep
from tests.unit.core.log.kafka.asked_cluster import AskedCluster
from tests.unit.features.retention.in_process_leaders import InProcessLeaders

PER_TOPIC = 500
END = 99
_S = RemoteLogSegmentState


def tip(topic: int, partition: int) -> TopicIdPartition:
    return TopicIdPartition(UUID(int=1_000 + topic), f"topic-{topic}", partition)


def segment(owner: TopicIdPartition, number: int = 1) -> RemoteLogSegmentMetadata:
    """Return a segment of a hundred offsets, of leader epoch 0."""
    return RemoteLogSegmentMetadata(
        RemoteLogSegmentId(owner, UUID(int=number)), 100 * number - 100, 100 * number - 1, 1_000, 1, 1_000, 500, None,
        _S.COPY_SEGMENT_FINISHED, ((0, 100 * number - 100),), txn_idx_empty=True,
    )  # fmt: skip


class Bucket:
    """Keeps the leader epoch indexes of all segments, and counts who asks for them."""

    def __init__(self) -> None:
        self.fetched = 0
        self.most_at_once = 0
        self.errors: dict[UUID, Exception] = {}
        self.down = False
        self._at_once = 0
        self._lock = Lock()

    def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        assert index_type is IndexType.LEADER_EPOCH
        with self._lock:
            self.fetched += 1
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            if self.down:
                raise StorageUnavailableError("the bucket does not answer")
            if (error := self.errors.get(metadata.remote_log_segment_id.id)) is not None:
                raise error
            return LeaderEpochCheckpoint(((0, 0),)).to_text().encode()
        finally:
            with self._lock:
                self._at_once -= 1


class Read:
    """What was read of the metadata topic: one segment of each user partition."""

    def __init__(self, tips: list[TopicIdPartition]) -> None:
        self._caches = {one: _cache(one) for one in tips}
        self.advanced = 0

    def advance(self) -> None:
        self.advanced += 1

    def names(self, owner: TopicIdPartition) -> bool:
        return owner in self._caches

    def cache(self, owner: TopicIdPartition) -> RemoteLogMetadataCache:
        return self._caches[owner]

    def doubt(self, owner: TopicIdPartition) -> str | None:
        return None


def _cache(owner: TopicIdPartition) -> RemoteLogMetadataCache:
    cache, copied = RemoteLogMetadataCache(), segment(owner)
    started = replace(copied, state=_S.COPY_SEGMENT_STARTED)
    cache.add_copy_in_progress_segment(started)
    update = RemoteLogSegmentMetadataUpdate(copied.remote_log_segment_id, 1_000, None, _S.COPY_SEGMENT_FINISHED, 1)
    cache.update_remote_log_segment_metadata(update)
    return cache


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> AskedCluster:
    return AskedCluster(monkeypatch)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("topics", [10, pytest.param(200, marks=pytest.mark.rare)])
def test_many_leaders_are_asked_in_few_requests_and_next_time_in_hardly_any(cluster: AskedCluster, topics: int) -> None:
    for topic in range(topics):
        cluster.create(f"topic-{topic}", UUID(int=1_000 + topic), PER_TOPIC)
    tips = [tip(topic, partition) for topic in range(topics) for partition in range(PER_TOPIC)]
    partitions = len(tips)
    cluster.records = {(one.topic, one.partition): [(END + 1, 0)] for one in tips}
    bucket, read = Bucket(), Read(tips)
    times = PassTimes(10_000, 10_000)
    steps: list[tuple[str, int, int]] = []
    first = LeaderSweep(
        cluster.leaders, bucket, KeptLineages("cluster-1"), lambda: times, lambda *step: steps.append(step)
    )

    passes = first.passes(read, tips)

    assert {one.certainty for one in passes} == {Certainty.ALL}
    assert len(passes) == partitions
    assert (bucket.fetched, bucket.most_at_once <= FETCHED_AT_ONCE) == (partitions, True)
    # Three looks: for the epochs, and before and after the moment. Each offset request has 500 user partitions.
    assert cluster.requests == {"describe": 3, "configs": 3, "offsets": 3 * 2 * partitions // 500}
    assert cluster.assigned == [1_000] * (partitions // 1_000)
    assert steps[-1][1:] == (partitions, partitions)

    kept = KeptLineages.from_json(KeptLineages("cluster-1").with_lineages(first.found, None).to_json())
    # In the meantime one leader in a hundred has changed.
    changed = [one for one in tips if one.partition % 100 == 0]
    cluster.offsets = {(one.topic, one.partition): (0, 200, 1) for one in changed}
    cluster.requests.clear()
    cluster.assigned.clear()
    bucket.fetched = 0
    second = LeaderSweep(cluster.leaders, bucket, kept, lambda: times)

    assert {one.certainty for one in second.passes(read, tips)} == {Certainty.ALL}

    assert bucket.fetched == len(changed) < 0.05 * partitions
    assert sum(cluster.assigned) == len(changed)
    assert second.found.keys() == set(changed)
    cluster.requests.clear()
    third = LeaderSweep(cluster.leaders, bucket, kept.with_lineages(second.found, None), lambda: times)
    third.passes(read, tips)
    assert (bucket.fetched, sum(cluster.assigned)) == (len(changed), len(changed))
    assert cluster.requests["offsets"] == 2 * 2 * partitions // 500, "nothing is searched for: two looks are enough"


def wanted(count: int) -> dict[TopicIdPartition, WantedLineage]:
    return {tip(0, n): WantedLineage([segment(tip(0, n))], 0) for n in range(count)}


def leaders(count: int) -> InProcessLeaders:
    found = InProcessLeaders()
    found.records = {tip(0, n): {END + 1: 0} for n in range(count)}
    return found


def test_a_bucket_that_does_not_answer_is_not_asked_for_ever() -> None:
    bucket, asked = Bucket(), leaders(1_000)
    bucket.down = True
    found = lineages_of_leaders(wanted(1_000), bucket, asked)
    assert all(isinstance(one, NotConfirmed) for one in found.values())
    assert GIVE_UP_AFTER <= bucket.fetched < GIVE_UP_AFTER + FETCHED_AT_ONCE
    last = found[tip(0, 999)]
    assert isinstance(last, NotConfirmed)
    assert "were not fetched, as 100 others in a row could not be: the bucket does not answer" in last.why
    assert not asked.asked


def test_objects_that_are_not_there_say_nothing_about_the_others() -> None:
    bucket = Bucket()
    bucket.errors = {UUID(int=1): RemoteObjectNotFoundError("no such object")}
    found = lineages_of_leaders(wanted(300), bucket, leaders(300))
    assert bucket.fetched == 300
    assert all(isinstance(one, NotConfirmed) and "no such object" in one.why for one in found.values())


def test_of_several_segments_the_newest_that_is_confirmed_keeps_the_lineage() -> None:
    owner = tip(0, 0)
    newest_first = [segment(owner, number) for number in (3, 2, 1)]
    bucket, asked = Bucket(), InProcessLeaders()
    bucket.errors = {UUID(int=3): RemoteObjectNotFoundError("no such object")}
    asked.records = {owner: {150: 0}}
    (found,) = lineages_of_leaders({owner: WantedLineage(newest_first, 0)}, bucket, asked).values()
    assert not isinstance(found, NotConfirmed)
    assert (found.segment_id, found.end_offset) == (UUID(int=1), 99)
    assert bucket.fetched == 3


def test_the_end_of_a_segment_is_asked_for_where_what_lies_behind_it_does_not_tell() -> None:
    owner = tip(0, 0)
    asked = InProcessLeaders()
    asked.records = {owner: {END: 0, END + 1: 4}}
    (found,) = lineages_of_leaders({owner: WantedLineage([segment(owner)], 4)}, Bucket(), asked).values()
    assert not isinstance(found, NotConfirmed)
    assert not found.is_whole
    assert asked.asked == [owner, owner]
