# SPDX-License-Identifier: Apache-2.0
"""A scrub of any log and any storage, beside an oracle that looks at one segment after the other."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_rlmm.lifecycle.scrub import scrub
from airflow_provider_rlmm.metadata.records import TopicIdPartition
from airflow_provider_rlmm.metadata.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.policy.findings import DEFAULT_MAX_COPY_MS
from airflow_provider_rlmm.policy.scrub import ScrubClass
from airflow_provider_rlmm.storage.layouts import AivenLayout
from tests.unit.lifecycle.builders import START_MS, Cluster, add, tip, update

LIFE = (S.COPY_SEGMENT_STARTED, S.COPY_SEGMENT_FINISHED, S.DELETE_SEGMENT_STARTED, S.DELETE_SEGMENT_FINISHED)
TOPICS = [tip("a", 0, 7), tip("a", 1, 7), tip("b", 0, 8), tip("c-0", 0, 9)]


@dataclass(frozen=True)
class Life:
    """A segment: how many of its events come before the listing and while it is under way, and which objects lie there."""

    topic: TopicIdPartition
    before: int
    while_listed: int
    objects: tuple[bool, bool, bool]
    stray_update: bool

    @property
    def done(self) -> int:
        return min(len(LIFE), self.before + self.while_listed)

    def write(self, cluster: Cluster, number: int, first: int, end: int) -> None:
        for state in LIFE[first:end]:
            event = add(self.topic, number) if state is S.COPY_SEGMENT_STARTED else update(self.topic, number, state)
            cluster.foreign(event)

    def keys(self, cluster: Cluster, number: int) -> list[str]:
        keys = cluster.layout.required_keys(add(self.topic, number))
        return [key for key, is_there in zip(keys, self.objects, strict=True) if is_there]

    def is_missing(self) -> bool:
        return self.before >= 2 and self.done == 2 and not all(self.objects)

    def kind(self, named: set[object], bad: set[int], home: int) -> ScrubClass:
        if self.done == 4:
            return ScrubClass.FINISHED if self.before == 4 else ScrubClass.IN_USE
        if self.done == 1:
            return ScrubClass.COPY_NEVER_FINISHED if self.before == 1 else ScrubClass.IN_USE
        if self.done:
            return ScrubClass.IN_USE
        if self.stray_update or home in bad:
            return ScrubClass.UNKNOWN
        return ScrubClass.UNREFERENCED if self.topic.topic_id in named else ScrubClass.UNKNOWN_TOPIC_ID


LIVES = st.builds(
    Life,
    st.sampled_from(TOPICS),
    st.integers(0, 4),
    st.integers(0, 4),
    st.tuples(st.booleans(), st.booleans(), st.booleans()),
    st.booleans(),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(LIVES, max_size=12), st.sets(st.integers(0, 2)))
def test_a_scrub_says_what_a_look_at_each_segment_says(lives: list[Life], bad: set[int]) -> None:
    cluster = Cluster(3, living_topic=False, layout=AivenLayout("kafka/"))
    for number in bad:
        cluster.log.append(number, b"junk")
    for number, life in enumerate(lives):
        life.write(cluster, number, 0, life.before)
        if life.stray_update and not life.done:
            cluster.foreign(update(life.topic, number, S.DELETE_SEGMENT_FINISHED))
        for key in life.keys(cluster, number):
            cluster.storage.put_object(key, b"x", START_MS)

    def go_on(effect: str, _: str) -> None:
        cluster.storage.on_effect = None
        for number, life in enumerate(lives):
            life.write(cluster, number, life.before, life.done)

    cluster.storage.on_effect = go_on
    cluster.now_ms += DEFAULT_MAX_COPY_MS + 1
    found = scrub(cluster.log, cluster.topics, cluster.storage, known=(), clock=cluster.clock)
    named: set[object] = {life.topic.topic_id for life in lives if life.done or life.stray_update}
    expected = {
        key: life.kind(named, bad, cluster.metadata_partition_of(life.topic)).value
        for number, life in enumerate(lives)
        for key in life.keys(cluster, number)
    }
    assert {row["key"]: row["class"] for row in found.objects.to_pylist()} == expected
    missing = {add(life.topic, n).remote_log_segment_id.id.bytes for n, life in enumerate(lives) if life.is_missing()}
    assert {row["segment_id"] for row in found.missing.to_pylist()} == missing
