# SPDX-License-Identifier: Apache-2.0
"""Two brokers of which the second may be stopped, and what becomes of its directory while the first goes on."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Producer

from dev.cluster import ClusterNode, LocalKafkaCluster
from tests.integration.copying.writing import NOT_COPIED, SEGMENT_BYTES

FIRST, SECOND = 1, 2


@contextmanager
def two_brokers() -> Iterator[LocalKafkaCluster]:
    """The first is the controller and holds the metadata topic; the second may be stopped and killed."""
    with LocalKafkaCluster(2, voters=1) as cluster:
        yield cluster


def replicated_topic(cluster: LocalKafkaCluster, topic: str, leader: int) -> None:
    """Create a topic that nobody copies, of one partition that both brokers keep."""
    follower = SECOND if leader == FIRST else FIRST
    cluster.create_tiered_topic(topic, [[leader, follower]], **NOT_COPIED, **{"min.insync.replicas": "1"})


def diverge(cluster: LocalKafkaCluster, topic: str) -> None:
    """
    Have the second broker lead and take records that the first one never gets, kill it, and let the first one go on.

    Afterwards the second broker is down, and its directory holds other records than those at the same offsets of the first.

    :param topic: led by the second broker, both replicas in sync.
    """
    first, second = cluster.nodes
    os.kill(first.pid, signal.SIGSTOP)
    try:
        # Several segments that nobody else has, acknowledged by their leader alone.
        _produce(second, topic, b"only here", 4 * SEGMENT_BYTES)
        second.kill()
    finally:
        os.kill(first.pid, signal.SIGCONT)
    # It is in the list of those in sync, as nobody was there to take it off.
    cluster.await_leads(topic, 0, first.node_id)
    _produce(first, topic, b"the others", 4 * SEGMENT_BYTES)


def _produce(node: ClusterNode, topic: str, text: bytes, size: int) -> None:
    producer = Producer(
        {
            "bootstrap.servers": node.bootstrap_servers,
            "acks": 1,
            "linger.ms": 0,
            "batch.num.messages": 1,
            "log_level": 2,
        }
    )
    for _ in range(size // 1_000):
        producer.produce(topic, text * (1_000 // len(text)), partition=0)
        producer.poll(0)
    assert producer.flush(30) == 0
