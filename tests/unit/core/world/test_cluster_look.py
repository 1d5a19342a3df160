# SPDX-License-Identifier: Apache-2.0
"""A look is one describe that says which cluster has answered, and only the latest one counts."""

from __future__ import annotations

import pytest

from airflow_provider_rlmm.core.base.errors import ClusterMismatchError
from airflow_provider_rlmm.core.log.in_process import METADATA_TOPIC
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.core.world.absence import Presence
from airflow_provider_rlmm.core.world.cluster_look import look
from airflow_provider_rlmm.core.world.gate import Gate
from airflow_provider_rlmm.features.cleanup.batches import BatchCleaner
from airflow_provider_rlmm.features.cleanup.eligibility import CleaningContext, Eligibility
from airflow_provider_rlmm.features.cleanup.partition_work import UserPartitionWork
from airflow_provider_rlmm.features.cleanup.questions import CLEANER
from tests.builders import Cluster, tip

GONE, OTHER = tip(), tip("other", 0, 10)


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.segment(GONE, 1)
    cluster.segment(OTHER, 2)
    return cluster


def names(*tips):
    return {t.topic_id: frozenset({t.topic}) for t in tips}


def test_the_listing_only_supplies_names_for_one_describe(cluster: Cluster) -> None:
    asked = []
    cluster.topics.on_effect = lambda name, detail: asked.append((name, detail))
    seen = look(cluster.topics, cluster.log, names(GONE))
    assert asked == [("list_topics", None), ("describe_topics", {"alive", "gone", METADATA_TOPIC})]
    assert seen.proof.absent == {GONE.topic_id}
    assert cluster.alive.topic_id in seen.living.values()


def test_a_name_that_may_not_be_described_is_refused_and_the_others_go_on(cluster: Cluster) -> None:
    cluster.topics.create("gone", GONE.topic_id)
    cluster.topics.denied.add("gone")
    seen = look(cluster.topics, cluster.log, names(GONE, OTHER))
    assert seen.observations[GONE.topic_id].presence is Presence.DENIED
    assert (seen.proof.absent, seen.denied) == ({OTHER.topic_id}, {"gone"})


def test_every_id_is_told_apart_whose_name_a_topic_without_disks_has(cluster: Cluster) -> None:
    before = tip("gone", 0, 12)
    cluster.topics.create("gone")
    cluster.topics.create("other")
    cluster.topics.diskless = {"gone", "alive"}
    seen = look(cluster.topics, cluster.log, names(GONE, before, OTHER, cluster.alive))
    presence = {topic_id: observation.presence for topic_id, observation in seen.observations.items()}
    assert presence == {
        GONE.topic_id: Presence.DISKLESS,
        before.topic_id: Presence.DISKLESS,
        OTHER.topic_id: Presence.ABSENT,
        cluster.alive.topic_id: Presence.PRESENT,
    }
    assert seen.proof.absent == {OTHER.topic_id}


def test_nobody_is_asked_for_topics_without_disks_unless_a_name_came_back(cluster: Cluster) -> None:
    asked = []
    cluster.topics.create("other")
    cluster.topics.on_effect = lambda name, detail: asked.append((name, detail))
    look(cluster.topics, cluster.log, names(GONE, OTHER))
    assert asked[-1] == ("diskless_topics", {"other"})


def test_the_topics_of_another_cluster_are_no_look(cluster: Cluster) -> None:
    cluster.topics.metadata_topic_id = GONE.topic_id
    with pytest.raises(ClusterMismatchError, match="two clusters"):
        look(cluster.topics, cluster.log, names(GONE))


def test_a_look_proves_the_absence_of_what_it_asked_for_only(cluster: Cluster) -> None:
    """What an earlier look found absent says nothing about this one."""
    replay = cluster.replay()
    root = cluster.storage.check_root(frozenset({cluster.alive.topic_id}), "any")
    limits, gate = CleanerLimits(), Gate(CLEANER, is_dry=False, clock=cluster.clock)
    context = CleaningContext(
        cluster.log, cluster.topics, replay, None, cluster.storage, limits, root, cluster.clock, gate
    )
    works = [UserPartitionWork(replay.histories[one], Eligibility(), 0) for one in (GONE, OTHER)]
    cleaner = BatchCleaner(works, context, print)
    for work in works:
        _, proof = cleaner._look([work])
        assert proof.absent == {work.tip.topic_id}
