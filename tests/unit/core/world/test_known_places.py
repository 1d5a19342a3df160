# SPDX-License-Identifier: Apache-2.0
"""Copies of living topics where the connection does not look."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_rlmm.core.base.errors import PlanError, StorageRootError
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.storage.in_memory import InMemoryRemoteStorageManager
from airflow_provider_rlmm.core.storage.layouts import AivenLayout
from airflow_provider_rlmm.core.storage.root import UNKNOWN_ROOT, RootExpectation
from airflow_provider_rlmm.core.world import known_places
from airflow_provider_rlmm.core.world.root_proof import prove_root, require_brokers_root, require_places_of_plan
from tests.builders import CLUSTER_ID, Cluster, add, tip, update
from tests.roots import KNOWN_FROM_THE_BEGINNING
from tests.unit.core.storage.test_aiven import compact, custom_prefix, tagged

GONE = tip("gone", 0, 7)
LOOKED_AT: Any = {"cluster_id": CLUSTER_ID, "overrides": (), "ledger": KNOWN_FROM_THE_BEGINNING}


def copied(cluster: Cluster, of: TopicIdPartition, number: int, custom: bytes | None, place: int | None = 0) -> int:
    """A copied segment, its objects at a place of the layout; returns the offset of its COPY_SEGMENT_FINISHED."""
    cluster.foreign(add(of, number))
    if place is not None:
        for key in cluster.layout.required_keys(add(of, number), cluster.layout.places[place]):
            cluster.storage.put_object(key, b"x" * 10)
    return cluster.foreign(update(of, number, S.COPY_SEGMENT_FINISHED, custom_metadata=custom))


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(layout=AivenLayout("one/", ["old"]))


def proven(cluster: Cluster) -> object:
    storage = cluster.storage
    return prove_root(
        cluster.topic(),
        storage,
        cluster_id=CLUSTER_ID,
        expectation=UNKNOWN_ROOT,
        overrides=(),
        ledger=KNOWN_FROM_THE_BEGINNING,
    )


def to_be_copied(cluster: Cluster) -> object:
    storage = cluster.storage
    return require_brokers_root(
        cluster.topic(),
        storage,
        cluster_id=CLUSTER_ID,
        expectation=UNKNOWN_ROOT,
        overrides=(),
        ledger=KNOWN_FROM_THE_BEGINNING,
    )


@pytest.mark.parametrize("ask", [proven, to_be_copied])
def test_a_prefix_that_the_connection_does_not_name_refuses_the_run(
    cluster: Cluster, ask: Callable[[Cluster], object]
) -> None:
    """The newest copy lies below our prefix and says so: it proves nothing about the older ones."""
    offsets = [copied(cluster, cluster.alive, number, custom_prefix("two/"), None) for number in range(1, 372)]
    for number in range(1, 6):
        other = tip(f"other-{number}", 0, 20 + number)
        cluster.topics.create(other.topic, other.topic_id)
        copied(cluster, other, 1000 + number, custom_prefix("two/"), None)
    copied(cluster, cluster.alive, 900, custom_prefix("one/"))
    with pytest.raises(StorageRootError) as refused:
        ask(cluster)
    said = str(refused.value)
    assert said.count("two/") == 2, "one line per cause"
    assert "alive, other-1, other-2 and 3 more" in said
    assert f"metadata partition 0, offset {offsets[0]}" in said
    assert "add 'two/' to former_key_prefixes" in said


@pytest.mark.parametrize("at_once", [1, 2, 3, 100])
def test_a_prefix_has_the_topics_of_all_its_copies_however_many_are_looked_at_at_once(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """Its first copies are of a topic that is gone, which alone would refuse nothing."""
    monkeypatch.setattr(known_places, "_AT_ONCE", at_once)
    for number in range(1, 4):
        copied(cluster, GONE, number, custom_prefix("two/"), None)
    proven(cluster)
    copied(cluster, cluster.alive, 4, custom_prefix("two/"), None)
    copied(cluster, cluster.alive, 5, custom_prefix("one/"))
    with pytest.raises(StorageRootError, match=r"'two/'.*alive"):
        proven(cluster)


def test_every_prefix_is_named_at_once(cluster: Cluster) -> None:
    for number, prefix in enumerate(("two/", "three/", "two/"), 1):
        copied(cluster, cluster.alive, number, custom_prefix(prefix), None)
    with pytest.raises(StorageRootError, match=r"'two/'.*'three/'"):
        proven(cluster)


@pytest.mark.parametrize("ask", [proven, to_be_copied])
def test_more_prefixes_than_are_told_apart_refuse_the_run(
    cluster: Cluster, ask: Callable[[Cluster], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a deleted topic names is no reason to refuse, but behind it a living one may name something, too."""
    monkeypatch.setattr(known_places, "_MOST_PREFIXES", 2)
    for number, prefix in enumerate(("two/", "three/"), 1):
        copied(cluster, GONE, number, custom_prefix(prefix), None)
    copied(cluster, cluster.alive, 3, custom_prefix("one/"))
    ask(cluster)
    copied(cluster, cluster.alive, 4, custom_prefix("four/"), None)
    copied(cluster, cluster.alive, 5, custom_prefix("one/"))
    with pytest.raises(StorageRootError, match=r"more than 2 key prefixes.*former_key_prefixes"):
        ask(cluster)


def test_prefixes_of_the_connection_are_ours(cluster: Cluster) -> None:
    copied(cluster, cluster.alive, 1, custom_prefix("old"), 1)
    copied(cluster, cluster.alive, 2, custom_prefix("one/"))
    copied(cluster, cluster.alive, 3, None)
    proven(cluster)
    to_be_copied(cluster)


@pytest.mark.parametrize(
    "custom",
    [
        b"\x01\x01\x7fx",
        b"\xff",
        b"\x01\x02" + tagged(compact("another/key")),
        b"\x02\x01" + tagged(compact("two/")) + b"\x02" + tagged(compact("another/key")),
    ],
    ids=["cut off", "no number", "another key", "another key below another prefix"],
)
def test_one_bad_record_does_not_stop_all_deletion(cluster: Cluster, custom: bytes) -> None:
    copied(cluster, cluster.alive, 1, custom, None)
    copied(cluster, cluster.alive, 2, custom_prefix("one/"))
    proven(cluster)


def test_a_deleted_topics_copies_elsewhere_are_its_own_refusal(cluster: Cluster) -> None:
    copied(cluster, GONE, 1, custom_prefix("two/"), None)
    proven(cluster)


def test_a_topic_that_may_not_be_described_may_live(cluster: Cluster) -> None:
    copied(cluster, GONE, 1, custom_prefix("two/"), None)
    cluster.topics.create("gone", GONE.topic_id)
    cluster.topics.denied.add("gone")
    with pytest.raises(StorageRootError, match="gone; see metadata partition 0"):
        proven(cluster)


@pytest.mark.parametrize("state", [S.DELETE_SEGMENT_STARTED, S.DELETE_SEGMENT_FINISHED])
def test_what_its_broker_deletes_counts_no_more(cluster: Cluster, state: S) -> None:
    copied(cluster, cluster.alive, 1, custom_prefix("two/"), None)
    cluster.foreign(update(cluster.alive, 1, S.DELETE_SEGMENT_STARTED))
    if state is S.DELETE_SEGMENT_FINISHED:
        cluster.foreign(update(cluster.alive, 1, state))
    proven(cluster)


@pytest.mark.parametrize(("ours", "theirs"), [("tiered", "tiered/"), ("tiered/", "tiered")])
def test_a_prefix_that_differs_in_its_slash_only_is_asked_for(ours: str, theirs: str) -> None:
    cluster = Cluster(layout=AivenLayout(ours))
    copied(cluster, cluster.alive, 1, custom_prefix(theirs), None)
    with pytest.raises(StorageRootError, match=f"did you mean '{theirs}'"):
        proven(cluster)


def test_nothing_is_written_or_deleted_while_a_living_copy_lies_elsewhere(cluster: Cluster) -> None:
    for number in range(1, 6):
        copied(cluster, GONE, 100 + number, None)
    copied(cluster, cluster.alive, 1, custom_prefix("two/"), None)
    cluster.now_ms += 1
    cluster.mark_and_wait()
    before, events = set(cluster.storage.keys), cluster.ours()
    for how in ({"dry_run": True}, {}):
        with pytest.raises(StorageRootError, match="former_key_prefixes"):
            cluster.clean(**how)
    assert (set(cluster.storage.keys), cluster.ours()) == (before, events)


def test_a_plan_for_other_places_is_not_applied(cluster: Cluster) -> None:
    root: Any = proven(cluster)
    require_places_of_plan(root.to_dict(), root.check)
    cluster.storage = moved(cluster, AivenLayout("one/"))
    now: Any = proven(cluster)
    with pytest.raises(PlanError, match=r"made for the places .*old.*make a new plan"):
        require_places_of_plan(root.to_dict(), now.check)
    with pytest.raises(PlanError, match="cannot be read"):
        require_places_of_plan({}, root.check)


def moved(cluster: Cluster, layout: AivenLayout) -> InMemoryRemoteStorageManager:
    storage = InMemoryRemoteStorageManager(layout, clock=cluster.clock)
    storage._objects.update(cluster.storage._objects)
    return storage


@pytest.mark.parametrize(
    ("ours", "theirs"), [("tiered", "tiered/"), ("tiered/", "tiered"), ("a/b", "a/b/"), ("a/b/", "a/b")]
)
@pytest.mark.parametrize("stamped", [False, True])
def test_a_wrong_slash_is_asked_for_though_no_copy_names_its_prefix(ours: str, theirs: str, stamped: bool) -> None:
    cluster = Cluster(layout=AivenLayout(theirs))
    if stamped:
        cluster.stamp_root()
    cluster.storage = moved(cluster, AivenLayout(ours))
    with pytest.raises(StorageRootError, match=f"did you mean the key prefix '{theirs}'") as refused:
        proven(cluster)
    assert "move_stamp" not in str(refused.value)
    moving = RootExpectation(move_stamp=True)
    if stamped:
        with pytest.raises(StorageRootError, match="did you mean"):
            prove_root(
                cluster.topic(),
                cluster.storage,
                cluster_id=CLUSTER_ID,
                expectation=moving,
                overrides=(),
                ledger=KNOWN_FROM_THE_BEGINNING,
            )


def test_another_wrong_prefix_is_not_guessed() -> None:
    cluster = Cluster(layout=AivenLayout("one/"))
    cluster.storage = moved(cluster, AivenLayout("nonsense"))
    with pytest.raises(StorageRootError, match="check storage URI, layout and mount"):
        proven(cluster)
