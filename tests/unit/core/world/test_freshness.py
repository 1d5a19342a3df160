# SPDX-License-Identifier: Apache-2.0
"""Whether the storage root is up to date: read, list, read again."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_rlmm.core.base.errors import EventLogUnavailableError, StorageRootError
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata, TopicIdPartition
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.storage.in_memory import InMemoryRemoteStorageManager
from airflow_provider_rlmm.core.world.freshness import Freshness, FreshnessVerdict, Sample
from airflow_provider_rlmm.core.world.root_proof import check_samples, look_for_freshness
from tests.builders import START_MS, Cluster, add, once, tip, update
from tests.contracts.layouts import NEW, OLD, RelocatedLayout
from tests.examples import examples

PLACE = "kafka-tiered-storage"
PLACES = [PLACE]


def topic(number: int, partition: int = 0) -> TopicIdPartition:
    return tip(f"topic-{number}", partition, 100 + number)


def copied(cluster: Cluster, of: TopicIdPartition, number: int, at_ms: int = 0, **how: Any) -> RemoteLogSegmentMetadata:
    """A copied segment, ``at_ms`` after the beginning."""
    metadata = cluster.segment(of, number, S.COPY_SEGMENT_STARTED, **how)
    event = update(of, number, S.COPY_SEGMENT_FINISHED)
    cluster.foreign(replace(event, event_timestamp_ms=START_MS + at_ms))
    return metadata


def lose(cluster: Cluster, metadata: RemoteLogSegmentMetadata, *suffixes: str) -> None:
    for key in cluster.layout.required_keys(metadata):
        if not suffixes or key.endswith(suffixes):
            del cluster.storage._objects[key]


def look(cluster: Cluster, *topics: TopicIdPartition, **how: Any) -> Freshness:
    return look_for_freshness(cluster.topic(), frozenset(t.topic_id for t in topics), cluster.storage, **how)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(metadata_partitions=3, living_topic=False)


def test_a_root_with_the_newest_copies_is_fresh(cluster: Cluster) -> None:
    old = copied(cluster, topic(1), 0, 10)
    new = copied(cluster, topic(1), 1, 30)
    lose(cluster, copied(cluster, topic(1, 7), 5, 20))
    other = copied(cluster, topic(2), 2, 25)
    lose(cluster, old)  # only the newest one of each topic counts: older ones may go at any time
    found = look(cluster, topic(1), topic(2), topic(3))
    ids = [m.remote_log_segment_id.id for m in (new, other)]
    assert [s.segment_id for s in found.samples] == ids
    assert (found.missing, found.verdict(PLACE)) == ((), FreshnessVerdict.FRESH)
    assert found.is_fresh(PLACE)
    assert found.sentences == ("the newest copied segments of 2 living topics are at kafka-tiered-storage",)
    found.require(PLACES, expected=())


def test_a_root_without_any_of_them_is_refused_whatever_is_overridden(cluster: Cluster) -> None:
    for number in range(5):
        lose(cluster, copied(cluster, topic(number), number))
    found = look(cluster, *map(topic, range(5)))
    assert found.verdict(PLACE) is FreshnessVerdict.STALE
    with pytest.raises(StorageRootError, match=r"5 living topics 5 are not at .*topic-\d.* and 2 more.*may be a copy"):
        found.require(PLACES, expected=PLACES, overrides={"missing_living_segments", "unproven_root"})
    assert not found.is_fresh(PLACE, expected=PLACES)


@pytest.mark.parametrize("suffix", [".log", ".leader_epoch_checkpoint"])
def test_a_single_one_that_is_missing_in_part_needs_its_override(cluster: Cluster, suffix: str) -> None:
    copied(cluster, topic(1), 1)
    lost = copied(cluster, topic(2), 2)
    lose(cluster, lost, suffix)
    found = look(cluster, topic(1), topic(2))
    assert [s.segment_id for s in found.missing] == [lost.remote_log_segment_id.id]
    assert found.verdict(PLACE) is FreshnessVerdict.PARTLY_MISSING
    with pytest.raises(StorageRootError, match=r"topic-2-0.*'missing_living_segments'"):
        found.require(PLACES, expected=PLACES, overrides={"unproven_root", "settle_missing"})
    found.require(PLACES, expected=(), overrides={"missing_living_segments"})
    assert not found.is_fresh(PLACE, expected=PLACES), "the override lets the run go on, it makes nothing fresh"


def test_without_a_living_topic_the_stamp_must_be_expected_or_a_person_says_so(cluster: Cluster) -> None:
    copied(cluster, topic(1), 1)
    for living in ((), (topic(2),)):
        found = look(cluster, *living)
        assert (found.samples, found.verdict(PLACE)) == ((), FreshnessVerdict.NOTHING_LIVES)
        with pytest.raises(StorageRootError, match=r"expected_root.*'unproven_root'"):
            found.require(PLACES, expected=())
        found.require(PLACES, expected=PLACES)
        found.require(PLACES, expected=(), overrides={"unproven_root"})
        assert (found.is_fresh(PLACE), found.is_fresh(PLACE, expected=PLACES)) == (False, True)


def test_only_segments_whose_copy_is_finished_count(cluster: Cluster) -> None:
    copied(cluster, topic(1), 1)
    for number, state in enumerate((S.COPY_SEGMENT_STARTED, S.DELETE_SEGMENT_STARTED, S.DELETE_SEGMENT_FINISHED), 2):
        cluster.segment(topic(1), number, state, objects=False)
    (sample,) = look(cluster, topic(1)).samples
    assert sample.segment_id == UUID(int=1001)


def test_records_that_brokers_do_not_apply_change_nothing(cluster: Cluster) -> None:
    copied(cluster, topic(1), 1)
    partition = cluster.metadata_partition_of(topic(1))
    cluster.log.append(partition, b"\x01\x00\x00garbage")
    cluster.log.append(partition, None)
    cluster.foreign(update(topic(1), 9, S.COPY_SEGMENT_FINISHED))  # of a segment that nobody announced
    assert look(cluster, topic(1)).verdict(PLACE) is FreshnessVerdict.FRESH
    cluster.foreign(update(topic(1), 1, S.DELETE_SEGMENT_STARTED), key=b"k")  # brokers look at no key
    assert look(cluster, topic(1)).verdict(PLACE) is FreshnessVerdict.NOTHING_LIVES


def test_a_name_that_walks_a_path_is_no_sample(cluster: Cluster) -> None:
    evil = tip("../evil", 0, 101)
    cluster.foreign(add(evil, 1))
    cluster.foreign(update(evil, 1, S.COPY_SEGMENT_FINISHED))
    assert look(cluster, evil).samples == ()


def test_twenty_topics_that_were_copied_last_are_looked_for(cluster: Cluster) -> None:
    for number in range(30):
        copied(cluster, topic(number), number, at_ms=(number * 7) % 30)
    found = look(cluster, *map(topic, range(30)))
    assert [s.copied_at_ms - START_MS for s in found.samples] == list(range(29, 9, -1))
    assert len(look(cluster, *map(topic, range(30)), most_samples=3).samples) == 3


def deleted_during_the_listing(cluster: Cluster, number: int, then: Callable[[], object] = lambda: None) -> None:
    """Let the brokers delete a segment right before storage is listed for the first time."""

    def delete() -> None:
        lose(cluster, add(topic(number), number))
        cluster.foreign(update(topic(number), number, S.DELETE_SEGMENT_STARTED))
        then()

    cluster.storage.on_effect = once("list", delete)


def test_what_was_deleted_in_between_does_not_count(cluster: Cluster) -> None:
    copied(cluster, topic(1), 1)
    copied(cluster, topic(2), 2)
    deleted_during_the_listing(cluster, 2)
    found = look(cluster, topic(1), topic(2))
    assert [s.topic_id_partition for s in found.samples] == [topic(1)]
    assert found.verdict(PLACE) is FreshnessVerdict.FRESH


def test_where_all_were_deleted_in_between_newer_ones_are_looked_for(cluster: Cluster) -> None:
    copied(cluster, topic(1), 1)
    deleted_during_the_listing(cluster, 1, then=lambda: copied(cluster, topic(1), 2, 10))
    found = look(cluster, topic(1))
    assert [s.segment_id for s in found.samples] == [UUID(int=1002)]


def test_a_log_or_a_store_that_cannot_be_read_is_an_error(cluster: Cluster) -> None:
    lose(cluster, copied(cluster, topic(1), 1))

    def fail(name: str, detail: object) -> None:
        if name == "read":
            raise EventLogUnavailableError("read refused")

    cluster.storage.on_effect = once("list", lambda: setattr(cluster.log, "on_effect", fail))
    with pytest.raises(EventLogUnavailableError):
        look(cluster, topic(1))
    cluster.log.on_effect = lambda name, detail: None
    cluster.storage.root_exists = False
    with pytest.raises(StorageRootError):
        look(cluster, topic(1))


# --- samples of a plan --------------------------------------------------------------------------------------------------


def as_a_plan_keeps_them(found: Freshness) -> list[Sample]:
    document = json.loads(json.dumps(found.to_dict()))
    assert document["sentences"] == list(found.sentences)
    return [Sample.from_dict(plain) for plain in document["samples"]]


def test_samples_of_a_plan_are_looked_for_again_without_reading_the_topic(cluster: Cluster) -> None:
    segments = [copied(cluster, topic(number), number) for number in range(9)]
    found = look(cluster, *map(topic, range(9)))
    samples = as_a_plan_keeps_them(found)
    assert tuple(samples) == found.samples
    reads: list[int] = []
    cluster.log.on_effect = lambda name, detail: reads.append(detail.metadata_partition) if name == "read" else None
    assert check_samples(cluster.topic(), samples, cluster.storage) == found
    assert reads == []

    lose(cluster, segments[4])
    again = check_samples(cluster.topic(), samples, cluster.storage)
    assert again.verdict(PLACE) is FreshnessVerdict.PARTLY_MISSING
    assert reads == [cluster.metadata_partition_of(topic(4))]

    cluster.foreign(update(topic(4), 4, S.DELETE_SEGMENT_STARTED))
    again = check_samples(cluster.topic(), samples, cluster.storage)
    assert (again.verdict(PLACE), len(again.samples)) == (FreshnessVerdict.FRESH, 8)


def test_a_root_that_was_replaced_since_the_plan_is_stale(cluster: Cluster) -> None:
    copied(cluster, topic(1), 1)
    samples = as_a_plan_keeps_them(look(cluster, topic(1)))
    cluster.storage._objects.clear()
    assert check_samples(cluster.topic(), samples, cluster.storage).verdict(PLACE) is FreshnessVerdict.STALE


@pytest.mark.parametrize(
    "spoil", [{"topic_id": "short"}, {"keys": None}, {"metadata_partition": "x"}, {"segment_id": 1}]
)
def test_a_sample_that_is_none_is_refused(cluster: Cluster, spoil: dict[str, Any]) -> None:
    copied(cluster, topic(1), 1)
    (sample,) = look(cluster, topic(1)).samples
    with pytest.raises(ValueError):  # noqa: PT011 - of any text
        Sample.from_dict(sample.to_dict() | spoil)
    with pytest.raises(ValueError, match="no sample"):
        Sample.from_dict({})


# --- several places -----------------------------------------------------------------------------------------------------


def test_each_place_is_judged_by_its_own_segments() -> None:
    cluster = Cluster(metadata_partitions=3, living_topic=False)
    layout = RelocatedLayout(OLD, NEW)
    cluster.storage = InMemoryRemoteStorageManager(layout)
    stored = {}
    for number, place in ((1, OLD), (2, NEW), (3, NEW), (4, None)):
        custom = place.name.encode() if place else None
        metadata = replace(add(topic(number), number), custom_metadata=custom)
        cluster.foreign(add(topic(number), number))
        cluster.foreign(update(topic(number), number, S.COPY_SEGMENT_FINISHED, custom_metadata=custom))
        stored[number] = layout.required_keys(metadata)
        for key in stored[number]:
            cluster.storage.put_object(key, b"x")
    topics = [topic(number) for number in range(1, 5)]
    found = look(cluster, *topics)
    assert sorted((s.place, s.topic_id_partition.topic) for s in found.samples) == [
        ("new", "topic-2"), ("new", "topic-3"), ("old", "topic-1"), ("old", "topic-4"),
    ], "where its metadata does not tell, a segment counts where it lies"  # fmt: skip
    for key in (*stored[1], *stored[4]):
        del cluster.storage._objects[key]
    found = look(cluster, *topics)
    assert (found.verdict("old"), found.verdict("new")) == (FreshnessVerdict.STALE, FreshnessVerdict.FRESH)
    with pytest.raises(StorageRootError, match=r"not at old: .*topic-1"):
        found.require(["new", "old"], expected=["old", "new"])
    found.require(["new"], expected=())


def test_every_place_gets_its_share_of_the_samples() -> None:
    cluster = Cluster(metadata_partitions=3, living_topic=False)
    cluster.storage = InMemoryRemoteStorageManager(RelocatedLayout(OLD, NEW))
    for number in range(40):
        custom = b"old" if number < 20 else b"new"
        cluster.foreign(add(topic(number), number))
        event = update(topic(number), number, S.COPY_SEGMENT_FINISHED, custom_metadata=custom)
        cluster.foreign(replace(event, event_timestamp_ms=START_MS + number))
    found = look(cluster, *map(topic, range(40)))
    assert [s.place for s in found.samples].count("old") == [s.place for s in found.samples].count("new") == 10


# --- against a replay, record by record -----------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=examples(60), deadline=None)
@given(seed=st.integers(0, 10_000))
def test_the_newest_copies_are_those_of_a_replay(seed: int) -> None:
    chance = random.Random(seed)
    cluster = Cluster(metadata_partitions=2, living_topic=False)
    steps = (S.COPY_SEGMENT_FINISHED, S.DELETE_SEGMENT_STARTED, S.DELETE_SEGMENT_FINISHED)
    waiting = [[number, 0] for number in range(12)]
    while waiting:
        entry = chance.choice(waiting)
        number, step = entry
        of = topic(number % 4, number % 3)
        if step == 0:
            cluster.foreign(add(of, number))
        else:
            event = update(of, number, steps[step - 1])
            cluster.foreign(replace(event, event_timestamp_ms=START_MS + chance.randrange(100)))
        entry[1] += 1
        if entry[1] > 3 or chance.random() < 0.25:
            waiting.remove(entry)
    living = [topic(number) for number in range(3)]
    newest: dict[UUID, int] = {}
    for metadata_partition in range(2):
        for history in cluster.replay(metadata_partition).histories.values():
            topic_id = history.topic_id_partition.topic_id
            for metadata in history.unfinished():
                if metadata.state is S.COPY_SEGMENT_FINISHED and topic_id in {t.topic_id for t in living}:
                    newest[topic_id] = max(newest.get(topic_id, 0), metadata.event_timestamp_ms)
    found = look(cluster, *living)
    assert {s.topic_id_partition.topic_id: s.copied_at_ms for s in found.samples} == newest
    assert found.missing == found.samples, "nothing was put into storage"
