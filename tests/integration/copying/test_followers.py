# SPDX-License-Identifier: Apache-2.0
"""Directories of a replica that was down: one that is behind is copied as far as it reaches, one that diverged never."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from airflow_provider_rlmm.core.records.records import TopicIdPartition
from dev import tiering
from dev.broker import await_condition
from dev.cluster import LocalKafkaCluster
from tests.integration.copying.adopting import await_all_remote, check_adopted, enable_copying, read_everything
from tests.integration.copying.copies import check_copies, copies_of, segment_events
from tests.integration.copying.followers import FIRST, SECOND, diverge, replicated_topic, two_brokers
from tests.integration.copying.our_copier import OurCopier
from tests.integration.copying.writing import Writer, log_start_offset
from tests.integration.kafka_topics import delete_records

pytestmark = [pytest.mark.integration, pytest.mark.copying]


@pytest.fixture
def cluster() -> Iterator[LocalKafkaCluster]:
    with two_brokers() as brokers:
        brokers.create_tiered_topic("living", [[FIRST]])
        tiering.produce_until_remote(brokers.nodes[0], "living", 1)
        yield brokers


def tip_of(cluster: LocalKafkaCluster, topic: str) -> TopicIdPartition:
    return TopicIdPartition(tiering.topic_ids(cluster.nodes[0])[topic], topic, 0)


def test_a_directory_that_diverged_is_refused_and_the_leaders_own_is_copied(cluster: LocalKafkaCluster) -> None:
    first, second = cluster.nodes
    replicated_topic(cluster, "diverged", SECOND)
    tip = tip_of(cluster, "diverged")
    diverge(cluster, "diverged")
    before = read_everything(first, "diverged")

    report = OurCopier.of(first).copy(second.log_dir, tip)

    assert report.needs_person
    assert "this replica was cut off from the leader" in str(report.stopped_by)
    assert list(segment_events(first, tip)) == []
    assert copies_of(first, tip).objects == {}
    # Back again, it truncates what nobody else has; then either directory will do.
    second.start()
    cluster.await_leader("diverged", 0, SECOND)
    second.stop()
    cluster.await_leads("diverged", 0, FIRST)
    assert OurCopier.of(first).copy(second.log_dir, tip).stopped_by is None
    ours = check_copies(first, tip)
    assert len(ours.segments) >= 2
    enable_copying(first, "diverged")
    await_all_remote(first, tip)
    assert read_everything(first, "diverged") == before
    check_adopted(first, tip, ours)


def test_a_directory_that_is_behind_is_copied_as_far_as_it_reaches(cluster: LocalKafkaCluster) -> None:
    first, second = cluster.nodes
    replicated_topic(cluster, "behind", FIRST)
    tip = tip_of(cluster, "behind")
    writer = Writer(cluster.bootstrap_servers, "behind")
    writer.write(200)
    cluster.await_leader("behind", 0, FIRST)
    second.stop()
    Writer(first.bootstrap_servers, "behind").write(200)
    before = read_everything(first, "behind")

    report = OurCopier.of(first).copy(second.log_dir, tip)

    assert report.stopped_by is None
    ours = check_copies(first, tip)
    assert ours.start_offsets[0] == 0
    assert ours.segments[-1].end_offset < 200
    enable_copying(first, "behind")
    await_all_remote(first, tip)
    assert read_everything(first, "behind") == before
    check_adopted(first, tip, ours)


def test_a_directory_that_is_behind_the_log_start_of_its_leader_has_nothing_to_copy(cluster: LocalKafkaCluster) -> None:
    first, second = cluster.nodes
    replicated_topic(cluster, "long-behind", FIRST)
    tip = tip_of(cluster, "long-behind")
    Writer(cluster.bootstrap_servers, "long-behind").write(200)
    cluster.await_leader("long-behind", 0, FIRST)
    second.stop()
    Writer(first.bootstrap_servers, "long-behind").write(200)
    delete_records(first, "long-behind", 0, 300)
    await_condition(lambda: log_start_offset(first.bootstrap_servers, "long-behind") == 300, "records are deleted", 30)

    report = OurCopier.of(first).copy(second.log_dir, tip)

    assert report.copied == ()
    assert list(segment_events(first, tip)) == []
    assert copies_of(first, tip).objects == {}
