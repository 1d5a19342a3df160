# SPDX-License-Identifier: Apache-2.0
"""Three brokers: a topic is deleted while its leader is down, and what Kafka then forgets is found and cleaned."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import pytest

from airflow_provider_rlmm.features.cleanup.reports import PartitionOutcome
from dev import formatter, tiering
from dev.broker import await_condition
from dev.cluster import LocalKafkaCluster
from tests.integration.lifecycle_runs import Runs, objects_of, our_events
from tests.scrub import scrub

pytestmark = [pytest.mark.integration, pytest.mark.cluster, pytest.mark.timeout(1800)]

NODES = (1, 2, 3)
TRIES = 5
SEGMENTS = 4


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalKafkaCluster]:
    """Three brokers, and for each a living topic of which it leads the only partition."""
    with LocalKafkaCluster(len(NODES)) as brokers:
        for node in brokers.nodes:
            others = [n for n in NODES if n != node.node_id]
            brokers.create_tiered_topic(live_topic(node.node_id), [[node.node_id, *others]])
            tiering.produce_until_remote(node, live_topic(node.node_id), 2)
        yield brokers


def live_topic(node_id: int) -> str:
    return f"live-{node_id}"


def check_every_broker(cluster: LocalKafkaCluster) -> list[str]:
    """Each broker copies and serves as a leader, storage and metadata fit both ways, Kafka reads the metadata topic."""
    cluster.await_metadata_topic()
    for node in cluster.nodes:
        cluster.await_leader(live_topic(node.node_id), 0, node.node_id)
        tiering.tiering_alive(node, live_topic(node.node_id))
    assert scrub(cluster.nodes[0]) == []
    return formatter.formatter_lines(cluster.nodes[0])


def delete_while_leader_is_down(cluster: LocalKafkaCluster, topic: str, replicas: list[int]) -> tuple[UUID, set[str]]:
    """Return the id of the deleted topic, and its objects that are still there when the leader is back."""
    leader = cluster.nodes[replicas[0] - 1]
    topic_id = cluster.create_tiered_topic(topic, [replicas])
    tiering.produce_until_remote(leader, topic, SEGMENTS)
    assert len(objects_of(leader, topic_id)) == SEGMENTS * 5
    leader.kill()
    cluster.delete_topic(topic)
    leader.start()
    for node in cluster.nodes:
        await_condition(lambda node=node: topic not in tiering.topic_ids(node), f"{topic} is gone", 30)
    # A broker deletes while it stops a partition; whatever it does, it has done when it copies and serves again.
    check_leader_again(cluster, leader.node_id)
    return topic_id, objects_of(leader, topic_id)


def check_leader_again(cluster: LocalKafkaCluster, node_id: int) -> None:
    cluster.await_leader(live_topic(node_id), 0, node_id)
    tiering.tiering_alive(cluster.nodes[node_id - 1], live_topic(node_id))


@pytest.mark.parametrize("replicas", [[2], [2, 3, 1]], ids=["one-replica", "three-replicas"])
def test_a_topic_deleted_while_its_leader_is_down_is_cleaned(cluster: LocalKafkaCluster, replicas: list[int]) -> None:
    for attempt in range(TRIES):
        topic = f"doomed-{len(replicas)}-{attempt}"
        topic_id, orphans = delete_while_leader_is_down(cluster, topic, replicas)
        if orphans:
            break
    else:
        pytest.fail(f"Kafka orphaned nothing in {TRIES} tries")
    assert len(orphans) == SEGMENTS * 5
    node = cluster.nodes[0]
    runs = Runs(node)

    assert len(runs.mark().marked) == 1
    (report,) = runs.clean_all()

    assert report.topic == topic
    assert (report.outcome, report.segments_deleted, report.objects_deleted) == (
        PartitionOutcome.FINISHED,
        SEGMENTS,
        len(orphans),
    )
    assert objects_of(node, topic_id) == set()
    check_every_broker(cluster)


def test_every_broker_takes_what_was_written_through_a_rolling_restart(cluster: LocalKafkaCluster) -> None:
    written = our_events(check_every_broker(cluster))
    # For each of the two topics: marked, started, finished, and two events per segment.
    assert len(written) == 2 * (3 + 2 * SEGMENTS)
    for node in cluster.nodes:
        node.restart()
        cluster.await_metadata_topic()
    assert our_events(check_every_broker(cluster)) == written
