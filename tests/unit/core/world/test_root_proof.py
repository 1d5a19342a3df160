# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from airflow_provider_rlmm.core.base.errors import EventLogAccessError, PlanError, StorageRootError
from airflow_provider_rlmm.core.records.records import OWN_BROKER_ID
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState as P
from airflow_provider_rlmm.core.storage.root import RootExpectation
from airflow_provider_rlmm.core.world.audit import DeletionRecord
from airflow_provider_rlmm.core.world.root_proof import ProvenRoot, prove_root, require_brokers_root, samples_of
from tests.builders import CLUSTER_ID, Cluster, deletion, reasons, tip, update
from tests.roots import KNOWN_FROM_THE_BEGINNING

GONE = tip()


def proven(cluster: Cluster, **changes) -> ProvenRoot:
    arguments = {
        "cluster_id": CLUSTER_ID,
        "expectation": RootExpectation(cluster.recorded_roots),
        "overrides": (),
        "ledger": KNOWN_FROM_THE_BEGINNING,
    }
    return prove_root(cluster.topic(), cluster.storage, **arguments | changes)


def test_what_a_plan_records_of_the_root_is_looked_at_again() -> None:
    cluster = Cluster()
    recorded = proven(cluster).to_dict()
    samples = samples_of(recorded)
    assert samples is not None
    assert [str(s) for s in samples] == [str(s) for s in proven(cluster).freshness.samples]
    assert proven(cluster, samples=samples).freshness.samples == samples
    assert recorded["places"][0]["verified"] is True


def test_samples_that_were_all_deleted_since_are_replaced_by_newer_ones() -> None:
    cluster = Cluster()
    samples = samples_of(proven(cluster).to_dict())
    cluster.foreign(update(cluster.alive, 0, S.DELETE_SEGMENT_STARTED))
    cluster.foreign(update(cluster.alive, 0, S.DELETE_SEGMENT_FINISHED))
    for key in cluster.keys_of(cluster.alive):
        cluster.storage._objects.pop(key)
    cluster.segment(cluster.alive, 5)
    (sample,) = proven(cluster, samples=samples).freshness.samples
    assert sample.segment_id not in {s.segment_id for s in samples or ()}


@pytest.mark.parametrize("samples", [[{"place": "p"}], [7], {"a": 1}])
def test_samples_that_cannot_be_understood_are_no_plan(samples: object) -> None:
    with pytest.raises(PlanError, match="samples of the storage root cannot be read"):
        samples_of({"samples": samples})


def test_a_summary_without_samples_has_none() -> None:
    assert samples_of({}) is None


def test_our_own_start_counts_only_below_the_root_of_an_earlier_run() -> None:
    """The segment was copied, we began to delete it, and nothing that lives can tell whether this root is up to date."""
    cluster = Cluster(living_topic=False)
    cluster.segment(GONE, 0, S.COPY_SEGMENT_FINISHED, objects=False)
    cluster.segment(tip("other", 0, 10), 1)
    cluster.mark_and_wait()
    cluster.foreign(deletion(GONE, P.DELETE_PARTITION_STARTED))
    cluster.foreign(update(GONE, 0, S.DELETE_SEGMENT_STARTED, broker_id=OWN_BROKER_ID))
    unproven = frozenset({"unproven_root"})
    cluster.audit.deletions = lambda ids, since_ms: DeletionRecord(frozenset(ids))  # type: ignore[method-assign]
    before = cluster.clean(planned={(GONE.topic_id, 0): cluster.everything()[GONE.topic_id, 0]}, overrides=unproven)
    assert "another program began to delete it" in reasons(before)
    cluster.stamp_root()
    cluster.record_root()
    after = cluster.clean(overrides=unproven)
    assert {p.topic: p.outcome.value for p in after.partitions} == {"gone": "FINISHED", "other": "FINISHED"}


def test_topics_that_may_not_be_described_are_not_taken_for_none() -> None:
    """What lives is hidden, so nothing tells that this is an old root with our stamp."""
    cluster = Cluster()
    cluster.stamp_root()
    cluster.record_root()
    cluster.topics.denied.add("alive")
    with pytest.raises(EventLogAccessError, match=r"topics alive may not be described.*DESCRIBE on every topic"):
        proven(cluster)


def test_nothing_is_copied_where_only_hidden_topics_could_tell_whose_storage_it_is() -> None:
    """A mount that is missing: a person has named the root, and nothing of the cluster is there."""
    cluster = Cluster()
    cluster.topics.denied.add("alive")
    cluster.storage._objects.clear()
    named = RootExpectation(expected_root="memory://kafka-tiered-storage")
    with pytest.raises(EventLogAccessError, match=r"topics alive may not be described: nothing is done"):
        require_brokers_root(cluster.topic(), cluster.storage, cluster_id=CLUSTER_ID, expectation=named, overrides=())


def test_a_hidden_topic_is_no_obstacle_where_another_one_tells() -> None:
    cluster = Cluster()
    other = tip("other", 0, 10)
    cluster.topics.create("other", other.topic_id)
    cluster.segment(other, 3)
    cluster.topics.denied.add("alive")
    assert [s.topic_id_partition for s in proven(cluster).freshness.samples] == [other]


def test_what_a_hidden_topic_has_copied_since_shows_an_old_root() -> None:
    """A copy of the root at its own place: what the principal may see is in it, what it may not see was copied since."""
    cluster = Cluster()
    other = tip("other", 0, 10)
    cluster.topics.create("other", other.topic_id)
    cluster.segment(other, 3)
    old = set(cluster.storage.keys)
    cluster.segment(cluster.alive, 5)
    for key in set(cluster.storage.keys) - old:
        cluster.storage._objects.pop(key)
    cluster.topics.denied.add("alive")
    named = RootExpectation(expected_root="memory://kafka-tiered-storage")
    with pytest.raises(StorageRootError, match=r"1 is not at .*it cannot be told whether alive lives without DESCRIBE"):
        proven(cluster)
    with pytest.raises(StorageRootError, match=r"nothing is copied there"):
        require_brokers_root(cluster.topic(), cluster.storage, cluster_id=CLUSTER_ID, expectation=named, overrides=())
    found = proven(cluster, overrides={"missing_living_segments"})
    assert [s.topic_id_partition for s in found.freshness.missing] == [cluster.alive]


def test_a_topic_that_one_listing_leaves_out_is_found_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    cluster.stamp_root()
    cluster.record_root()
    for key in cluster.keys_of(cluster.alive):
        cluster.storage._objects.pop(key)
    answers = [frozenset[str](), frozenset({"alive"})]
    monkeypatch.setattr(cluster.topics, "topic_names", lambda: answers.pop(0))
    with pytest.raises(StorageRootError, match="is not at kafka-tiered-storage"):
        proven(cluster)


def test_where_the_log_has_lost_the_newest_copies_an_expected_root_is_not_enough() -> None:
    cluster = Cluster()
    cluster.topics.create("__consumer_offsets", tip("__consumer_offsets", 0, 11).topic_id)
    cluster.stamp_root()
    cluster.record_root()
    cluster.log.truncate(0, cluster.log.high_water_marks()[0])
    with pytest.raises(
        StorageRootError, match=r"metadata partitions \[0\] have lost their first records.*'unproven_root'"
    ):
        proven(cluster)
    found = proven(cluster, overrides={"unproven_root"})
    assert not found.freshness.is_fresh("kafka-tiered-storage", expected={"kafka-tiered-storage"})
    cluster.segment(cluster.alive, 7)
    assert proven(cluster).freshness.is_fresh("kafka-tiered-storage")


def test_where_nothing_lives_a_log_that_lost_its_beginning_has_lost_no_copy() -> None:
    cluster = Cluster()
    cluster.topics.create("__consumer_offsets", tip("__consumer_offsets", 0, 11).topic_id)
    cluster.stamp_root()
    cluster.record_root()
    cluster.log.truncate(0, cluster.log.high_water_marks()[0])
    cluster.topics.delete("alive")
    assert proven(cluster).freshness.is_fresh("kafka-tiered-storage", expected={"kafka-tiered-storage"})
