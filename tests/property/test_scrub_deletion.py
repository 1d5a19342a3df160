# SPDX-License-Identifier: Apache-2.0
"""
Whatever brokers do between and during scrubs: what goes was finished, or had no record for as long as it must, of a topic
that is absent by the full rule, and while nothing without a record lies under a living topic.
"""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_rlmm.core.base.clock import HOUR_MS
from airflow_provider_rlmm.core.base.errors import RlmmError, StorageUnavailableError
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.storage.layouts import AivenLayout
from tests.builders import DAY_MS, Cluster, add, tip, update
from tests.examples import examples
from tests.unit.features.scrub.test_scrub_plan import WAIT_MS, Scrubs

LIFE = (S.COPY_SEGMENT_STARTED, S.COPY_SEGMENT_FINISHED, S.DELETE_SEGMENT_STARTED, S.DELETE_SEGMENT_FINISHED)
TOPICS = [tip("a", 0, 7), tip("a", 1, 7), tip("b", 0, 8), tip("never-named", 0, 9)]
SEGMENTS = 8


class Brokers:
    """Brokers that copy, delete and forget, and a judge who sees every deletion of ours."""

    def __init__(self, seed: int, cluster: Cluster) -> None:
        self.random = random.Random(seed)
        self.cluster = cluster
        self.done = dict.fromkeys(range(SEGMENTS), 0)
        self.written_ms: dict[str, int] = {}
        self.of_the_living: set[str] = set()
        self.deleted = self.unnamed = 0
        cluster.storage.on_effect = self.effect

    def topic(self, number: int) -> TopicIdPartition:
        return TOPICS[number % len(TOPICS)]

    def act(self, *, in_between: bool = True) -> None:
        if in_between and self.random.random() < 0.03:
            self.clone_writes()
        number = self.random.randrange(SEGMENTS)
        partition, done = self.topic(number), self.done[number]
        # What has no record is never written at the moment at which it goes: only somebody who restores a backup does that.
        if self.random.random() < 0.4 and (done or in_between):
            for key in self.cluster.layout.required_keys(add(partition, number)):
                if self.random.random() < 0.7:
                    self.cluster.storage.put_object(key, b"x")
                    self.written_ms[key] = self.cluster.now_ms
        elif partition is not TOPICS[3] and done < len(LIFE) and not (done == 0 and self.is_old(number)):
            state = LIFE[done]
            self.cluster.foreign(add(partition, number) if done == 0 else update(partition, number, state))
            self.done[number] += 1

    def clone_writes(self) -> None:
        """A clone of the cluster, with the same ids, copies a segment of a living topic; our log never names it."""
        for key in self.cluster.layout.required_keys(add(self.cluster.alive, SEGMENTS)):
            self.cluster.storage.put_object(key, b"x")
            self.of_the_living.add(key)

    def is_old(self, number: int) -> bool:
        """No broker names a segment a day after it has written its objects: it announces it before."""
        keys = self.cluster.layout.required_keys(add(self.topic(number), number))
        return any(self.written_ms.get(key, self.cluster.now_ms) < self.cluster.now_ms for key in keys)

    def effect(self, effect: str, key: str) -> None:
        if effect == "list":
            if self.random.random() < 0.05:
                raise StorageUnavailableError("no answer")
            if self.random.random() < 0.3:
                self.act(in_between=False)
        elif effect == "delete":
            self.judge(key)

    def judge(self, key: str) -> None:
        segment = self.cluster.layout.parse(key)
        assert segment is not None, key
        number = segment.id.int - 1000
        assert segment.topic_id_partition.topic != "never-named", key
        if self.done[number] != len(LIFE):
            assert self.done[number] == 0, f"{key}: {LIFE[self.done[number] - 1].name}"
            assert self.cluster.now_ms - self.written_ms[key] >= WAIT_MS, key
            self.judge_unnamed(key, segment.topic_id_partition)
        self.deleted += 1

    def judge_unnamed(self, key: str, partition: TopicIdPartition) -> None:
        assert not self.of_the_living, f"{key} goes, though no record names {min(self.of_the_living)}"
        history = self.cluster.replay(self.cluster.metadata_partition_of(partition)).histories[partition]
        first = min(history.observations, key=lambda observation: observation.offset)
        assert self.cluster.now_ms - first.time_ms >= DAY_MS, f"{key} goes, marked at {first.time_ms}"
        assert self.written_ms[key] <= first.time_ms, f"{key} is younger than its marker"
        self.unnamed += 1


def play(seed: int, folder: Path) -> Brokers:
    cluster = Cluster(2, layout=AivenLayout("kafka/"))
    cluster.segment(TOPICS[0], 100)
    brokers, scrubs = Brokers(seed, cluster), Scrubs(folder, cluster)
    for _ in range(8):
        for _ in range(brokers.random.randrange(6)):
            brokers.act()
        cluster.mark()
        with suppress(RlmmError):
            scrubs.scrub()
            scrubs.plan()
            scrubs.delete()
        scrubs.wait(brokers.random.choice([HOUR_MS, 24 * HOUR_MS, WAIT_MS]))
    return brokers


@pytest.mark.slow
@settings(max_examples=examples(25), deadline=None)
@given(st.integers(0, 2**32))
def test_only_what_is_finished_or_was_never_named_goes(seed: int) -> None:
    with TemporaryDirectory() as folder:
        play(seed, Path(folder))


@pytest.mark.slow
def test_something_goes() -> None:
    """Stories that only keep everything would break no rule."""
    deleted = unnamed = 0
    with TemporaryDirectory() as folder:
        for seed in range(5, 15):
            if not (deleted and unnamed):
                brokers = play(seed, Path(folder, str(seed)))
                deleted, unnamed = deleted + brokers.deleted, unnamed + brokers.unnamed
    assert deleted
    assert unnamed
