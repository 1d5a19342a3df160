# SPDX-License-Identifier: Apache-2.0
"""
A scrub of any log and any storage, and what may be planned from it, beside an oracle that looks at segment after segment.
"""

from __future__ import annotations

from dataclasses import dataclass
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_rlmm.core.plans.guards import SHORT_WAIT, ScrubLimits
from airflow_provider_rlmm.core.plans.limits import MAX_COPY
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.storage.layouts import AivenLayout
from airflow_provider_rlmm.core.world.absence import Presence
from airflow_provider_rlmm.core.world.hold import Hold
from airflow_provider_rlmm.features.scrub.comparison import scrub
from airflow_provider_rlmm.features.scrub.rules import ScrubClass
from airflow_provider_rlmm.features.scrub.scrub_files import ScrubOrigin, open_scrub, write_scrub
from airflow_provider_rlmm.features.scrub.scrub_plan import Choice
from airflow_provider_rlmm.features.scrub.unnamed import UNNAMED
from tests.builders import CLUSTER_ID, START_MS, Cluster, add, tip, update
from tests.examples import examples
from tests.scrub_rows import missing_of, objects_of

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

    @property
    def is_unfinished_before(self) -> bool:
        return 1 <= self.before <= 3

    def may_go(self, kind: ScrubClass, lives: list[Life], living: set[object], *, sole_owner: bool) -> bool:
        """Tell whether its objects may go at once, where no wait is asked for."""
        if kind == ScrubClass.FINISHED:
            return True
        if kind == ScrubClass.UNKNOWN_TOPIC_ID:
            return sole_owner
        mine = [life for life in lives if life.topic == self.topic]
        # The marker marks what has unfinished segments; whatever comes after that makes it void.
        marked = any(life.is_unfinished_before for life in mine) and self.topic.topic_id not in living
        return kind == ScrubClass.UNREFERENCED and marked and not any(life.done > life.before for life in mine)

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
    # Often without any record, and often at rest: such objects are what the rules are about.
    st.sampled_from([0, 0, 0, 1, 2, 3, 4]),
    st.sampled_from([0, 0, 0, 1, 2, 4]),
    st.tuples(st.booleans(), st.booleans(), st.booleans()),
    st.sampled_from([False, False, False, True]),
)


def topic_of(cluster: Cluster, key: str) -> TopicIdPartition:
    segment = cluster.layout.parse(key)
    assert segment is not None
    return segment.topic_id_partition


@pytest.mark.slow
@settings(max_examples=examples(120), deadline=None)
@given(
    st.lists(LIVES, max_size=12),
    st.sampled_from([set(), set(), {0}, {1, 2}]),
    st.sets(st.sampled_from(["a", "b", "c-0"]), max_size=1),
    st.booleans(),
)
def test_a_scrub_says_what_a_look_at_each_segment_says(
    lives: list[Life], bad: set[int], living_topics: set[str], sole_owner: bool
) -> None:
    cluster = Cluster(3, living_topic=False, layout=AivenLayout("kafka/"))
    living: set[object] = {cluster.topics.create(t.topic, t.topic_id) for t in TOPICS[1:] if t.topic in living_topics}
    for number in bad:
        cluster.log.append(number, b"junk")
    for number, life in enumerate(lives):
        life.write(cluster, number, 0, life.before)
        if life.stray_update and not life.done:
            cluster.foreign(update(life.topic, number, S.DELETE_SEGMENT_FINISHED))
        for key in life.keys(cluster, number):
            cluster.storage.put_object(key, b"x", START_MS)

    cluster.mark()

    def go_on(effect: str, _: str) -> None:
        cluster.storage.on_effect = None
        for number, life in enumerate(lives):
            life.write(cluster, number, life.before, life.done)

    cluster.storage.on_effect = go_on
    cluster.now_ms += MAX_COPY.default + 1
    found = scrub(cluster.log, cluster.topics, cluster.storage, known=(), clock=cluster.clock)
    named: set[object] = {life.topic.topic_id for life in lives if life.done or life.stray_update}
    expected = {
        key: life.kind(named, bad, cluster.metadata_partition_of(life.topic)).value
        for number, life in enumerate(lives)
        for key in life.keys(cluster, number)
    }
    rows = objects_of(found)
    assert {row["key"]: row["class"] for row in rows} == {
        key: kind for key, kind in expected.items() if kind != ScrubClass.IN_USE
    }
    assert found.listed.objects - len(rows) == found.in_use.objects == list(expected.values()).count(ScrubClass.IN_USE)
    # What no record that is left names, of a metadata partition that is not whole, too.
    unnamed = {
        key
        for number, life in enumerate(lives)
        if not life.done and not life.stray_update
        for key in life.keys(cluster, number)
    }
    assert unnamed >= {key for key, kind in expected.items() if kind in UNNAMED}
    bars = {key for key in unnamed if topic_of(cluster, key).topic_id in living}
    presence = {row["key"]: row["presence"] for row in rows}
    assert {key for key, seen in presence.items() if seen is not None} == unnamed
    assert {key for key, seen in presence.items() if seen == Presence.PRESENT} == bars
    may_go = {
        key
        for number, life in enumerate(lives)
        for key in life.keys(cluster, number)
        if life.may_go(ScrubClass(expected[key]), lives, living, sole_owner=sole_owner)
    }
    at_once = ScrubLimits(
        min_unreferenced_ms=0, min_absence_ms=0, overrides=frozenset({SHORT_WAIT, "short_min_absence"})
    )
    places = [place.name for place in cluster.layout.places]
    choice = Choice(at_once, Hold(), found.began_at_ms, places=places, sole_owner=sole_owner)
    with TemporaryDirectory() as folder:
        origin = ScrubOrigin("scrub", CLUSTER_ID, cluster.log.topic_id, "a clock", True, {}, None)
        write_scrub(folder, found, origin, None)
        with open_scrub(folder) as (_, table):
            chosen = choice.of(table)
    assert {key for rows in chosen.rows.tables() for key in rows["key"].to_pylist()} == (
        may_go - unnamed if bars else may_go
    )
    missing = {add(life.topic, n).remote_log_segment_id.id.bytes for n, life in enumerate(lives) if life.is_missing()}
    assert {row["segment_id"] for row in missing_of(found)} == missing
