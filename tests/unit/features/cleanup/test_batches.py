# SPDX-License-Identifier: Apache-2.0
"""Batches go across user partitions: few looks, few publishes, and what fails for one leaves the others alone."""

from __future__ import annotations

from collections import Counter
from threading import Barrier, current_thread
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_rlmm.core.base.errors import StorageRootError, StorageUnavailableError
from airflow_provider_rlmm.core.plans.refusals import RefusalKind
from airflow_provider_rlmm.core.records.history import UserPartitionHistory
from airflow_provider_rlmm.features.cleanup import eligibility
from airflow_provider_rlmm.features.cleanup.batches import batches_of
from airflow_provider_rlmm.features.cleanup.eligibility import Eligibility
from airflow_provider_rlmm.features.cleanup.partition_work import UserPartitionWork
from tests.builders import Cluster, add, tip

MANY = 12


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    for number in range(MANY):
        cluster.segments(tip(f"gone-{number:02}", 0, 100 + number), 2)
    cluster.mark_and_wait()
    return cluster


@given(sizes=st.lists(st.integers(0, 7), max_size=12), size=st.integers(1, 9))
def test_batches_hold_every_segment_once_and_end_each_partition_once(sizes: list[int], size: int) -> None:
    works = []
    for number, count in enumerate(sizes):
        of = tip("gone", number)
        segments = tuple(add(of, segment) for segment in range(count))
        works.append(UserPartitionWork(UserPartitionHistory(of), Eligibility(segments=segments), 0))
    batches = list(batches_of(works, size))
    for batch in batches:
        assert len(batch) <= size
        assert sum(len(share.segments) for share in batch) <= size
        assert batch
    shares = [share for batch in batches for share in batch]
    for work in works:
        mine = [share for share in shares if share.work is work]
        assert tuple(m for share in mine for m in share.segments) == work.eligibility.segments[::-1]
        assert [share.is_last for share in mine] == [False] * (len(mine) - 1) + [True]


def test_many_small_partitions_cost_what_one_large_one_does(cluster: Cluster) -> None:
    seen: Counter[str] = Counter()

    def count(name: str, detail: Any) -> None:
        seen[name] += name != "publish" or detail.index == 0

    cluster.topics.on_effect = cluster.log.on_effect = count
    report = cluster.clean()
    assert [p.outcome for p in report.partitions] == ["FINISHED"] * MANY
    assert seen["publish"] == 4, "DELETE_PARTITION_STARTED, the segments twice, DELETE_PARTITION_FINISHED"
    assert seen["describe_topics"] < 10


def test_storage_that_fails_for_one_partition_of_a_batch_leaves_that_one(cluster: Cluster) -> None:
    listings = iter(range(100))

    def fail(effect: str, key: str) -> None:
        if effect == "list" and "gone-05" in key and next(listings) > 0:
            raise StorageUnavailableError("slow down")

    cluster.storage.on_effect = fail
    report = cluster.clean()
    outcomes = {p.topic: p.outcome for p in report.partitions}
    assert outcomes.pop("gone-05") == "INCOMPLETE"
    assert set(outcomes.values()) == {"FINISHED"}
    (left,) = [p for p in report.partitions if p.topic == "gone-05"]
    assert "slow down" in left.refusals[0].why
    assert (left.segments_deleted, left.segments_left) == (0, 2)
    cluster.storage.on_effect = None
    assert [p.outcome for p in cluster.clean().partitions] == ["FINISHED"]


def test_storage_that_answers_nobody_is_not_asked_for_every_partition(cluster: Cluster) -> None:
    listings: list[str] = []

    def fail(effect: str, key: str) -> None:
        if effect == "list" and "DELETE_SEGMENT_STARTED" in cluster.states():
            listings.append(key)
            raise StorageUnavailableError("slow down")

    cluster.storage.on_effect = fail
    report = cluster.clean(batch_segments=MANY)
    assert len(listings) == 1 + 5, "once for the batch, then for five of its partitions"
    assert {r.kind for p in report.partitions for r in p.refusals} == {RefusalKind.NEXT_RUN}
    assert cluster.states().count("DELETE_SEGMENT_STARTED") == MANY, "the second batch is not begun"
    assert len(report.partitions) == MANY
    assert all(p.refusals for p in report.partitions)
    cluster.storage.on_effect = None
    assert {p.outcome for p in cluster.clean().partitions} == {"FINISHED"}


def test_a_root_that_is_taken_away_in_the_only_batch_ends_the_run(cluster: Cluster) -> None:
    def unmount(effect: str, key: str) -> None:
        if effect == "delete":
            cluster.storage.root_exists = False

    cluster.storage.after_effect = unmount
    with pytest.raises(StorageRootError, match="taken away"):
        cluster.clean()
    assert "DELETE_SEGMENT_FINISHED" not in cluster.states()


def test_a_root_that_is_taken_away_in_the_last_batch_of_a_stopped_run_ends_the_run(cluster: Cluster) -> None:
    """Nothing asks storage after it: no user partition is finished, no batch follows."""

    def unmount(effect: str, key: str) -> None:
        if effect == "delete":
            cluster.storage.root_exists = False

    def stop() -> str | None:
        return None if cluster.storage.root_exists else "stopped"

    cluster.storage.after_effect = unmount
    with pytest.raises(StorageRootError, match="taken away"):
        cluster.clean(should_stop=stop, batch_segments=1)


def test_a_topic_that_comes_back_leaves_the_others_of_its_batch_alone(cluster: Cluster) -> None:
    looks = iter(range(100))

    def come_back(effect: str, detail: object) -> None:
        if effect == "describe_topics" and next(looks) == 5:
            cluster.topics.create("gone-05", tip("gone-05", 0, 105).topic_id)

    cluster.topics.on_effect = come_back
    keys = cluster.keys_of(tip("gone-05", 0, 105))
    report = cluster.clean()
    outcomes = Counter(p.outcome for p in report.partitions)
    assert outcomes == {"FINISHED": MANY - 1, "INCOMPLETE": 1}
    assert cluster.keys_of(tip("gone-05", 0, 105)) == keys


@pytest.mark.parametrize("unanswered", [None, 1])
def test_small_user_partitions_are_looked_at_side_by_side(
    unanswered: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster()
    gone = [tip("gone", partition) for partition in range(3)]
    for partition in gone:
        cluster.segments(partition, 2)
    cluster.mark_and_wait()
    folders = [cluster.layout.partition_prefix(partition) for partition in gone]
    cluster.storage._calls.listings_at_once = 3
    together, looks = Barrier(3, timeout=60), Counter[str]()

    def meet(effect: str, key: str) -> None:
        if effect == "list" and key in folders:
            looks[key] += 1
            if looks[key] == 1:
                # The first look at each of them waits until all three are under way.
                together.wait()
            if unanswered is not None and key == folders[unanswered]:
                raise StorageUnavailableError("no answer")

    cluster.storage.on_effect = meet
    report = cluster.clean()
    outcomes = {partition.partition: partition.outcome for partition in report.partitions}
    assert outcomes == {number: "REFUSED" if number == unanswered else "FINISHED" for number in range(3)}
    assert [bool(cluster.keys_of(partition)) for partition in gone] == [n == unanswered for n in range(3)]


def test_a_large_user_partition_is_not_listed_before_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eligibility, "_MOST_AHEAD", 1)
    cluster = Cluster()
    gone = [tip("gone", partition) for partition in range(3)]
    for partition in gone:
        cluster.segments(partition, 2)
    cluster.mark_and_wait()
    folders = [cluster.layout.partition_prefix(partition) for partition in gone]
    cluster.storage._calls.listings_at_once = 3
    looked_first: dict[str, str] = {}

    def note(effect: str, key: str) -> None:
        if effect == "list" and key in folders:
            looked_first.setdefault(key, current_thread().name)

    cluster.storage.on_effect = note
    report = cluster.clean()
    assert {partition.outcome for partition in report.partitions} == {"FINISHED"}
    assert looked_first == dict.fromkeys(folders, current_thread().name)
