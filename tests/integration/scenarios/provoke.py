# SPDX-License-Identifier: Apache-2.0
"""
What real brokers leave behind, provoked. Each function ends with a running broker that will not return to it.

They return the id of the topic that they deleted or, where it still lives, left something of.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.core.storage.layout import Layout
from dev import formatter, tiering
from dev.broker import LocalKafka, await_condition
from dev.faults import FaultyKafka
from tests.integration.kafka_topics import TIMEOUT_S, admin_of, create_topic, delete_topic
from tests.scrub import scrub

SLOW_MS = 400
"""Long beside the time that a SIGKILL takes."""

FOREVER_MS = 600_000


METADATA_PARTITIONS = 2
LIVING = "living"


@contextmanager
def broker_with_a_living_topic() -> Iterator[FaultyKafka]:
    """A broker with faulty storage, and :func:`make_living_topic`."""
    with FaultyKafka(metadata_partitions=METADATA_PARTITIONS) as kafka:
        make_living_topic(kafka)
        yield kafka


def make_living_topic(kafka: LocalKafka) -> None:
    """Make a topic through whose partitions the broker reads every metadata partition: no event goes unread."""
    partitions, read = 0, set[int]()
    while len(read) < kafka.metadata_partitions:
        if read:
            delete_topic(kafka, LIVING)
        partitions += 4
        topic_id = tiering.create_tiered_topic(kafka, LIVING, partitions)
        tips = [TopicIdPartition(topic_id, LIVING, p) for p in range(partitions)]
        read = {metadata_partition_for(tip, kafka.metadata_partitions) for tip in tips}
    tiering.produce_until_remote(kafka, LIVING, 1)


def assert_unharmed(kafka: LocalKafka, layout: Layout | None = None) -> None:
    """The broker copies and serves, Kafka reads all of the metadata topic, storage and metadata say the same."""
    tiering.tiering_alive(kafka, LIVING)
    assert formatter.formatter_lines(kafka)
    assert scrub(kafka, layout=layout) == []


def tiered_topic(kafka: LocalKafka, name: str, partitions: int, segments: int) -> UUID:
    """Make a topic with so many remote segments per partition."""
    topic_id = tiering.create_tiered_topic(kafka, name, partitions)
    tiering.produce_until_remote(kafka, name, segments)
    return topic_id


def request_deletion(kafka: LocalKafka, topic: str) -> None:
    """Delete a topic; the controller's answer comes before the brokers have done anything about it."""
    admin = admin_of(kafka)
    admin.delete_topics([topic])[topic].result(TIMEOUT_S)


def request_topic(kafka: LocalKafka, topic: str) -> None:
    """Create a topic of one partition; the broker leads it when it has done all that came before."""
    admin = admin_of(kafka)
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(TIMEOUT_S)


def await_deletions_done(kafka: LocalKafka) -> None:
    """Wait until the broker has done what it does about deleted topics: only then does it follow the controller further."""
    create_topic(kafka, 1, settings={})


def scenario_a(kafka: LocalKafka, topic: str, partitions: int = 4, tries: int = 10) -> UUID:
    """Delete a topic while the broker starts after an orderly stop: its metadata cache is not ready, so it gives up."""
    for number in range(tries):
        name = f"{topic}-{number}"
        topic_id = tiered_topic(kafka, name, partitions, 2)
        kafka.stop()
        starting = threading.Thread(target=kafka.start)
        starting.start()
        try:
            # The request is there when the broker begins to listen, some 0.1 s before its metadata cache is ready.
            eager = AdminClient(kafka.client_config(reconnect_backoff_ms=10, reconnect_backoff_max_ms=20))
            eager.delete_topics([name], request_timeout=TIMEOUT_S)[name].result(TIMEOUT_S)
        finally:
            starting.join()
        await_deletions_done(kafka)
        if tiering.remote_files(kafka, topic_id):
            return topic_id
    raise AssertionError(f"scenario A did not happen in {tries} tries")


def scenario_d1(kafka: FaultyKafka, topic: str) -> UUID:
    """Kill the broker in mid-deletion of a topic from slow storage: some segments are started, some not even that."""
    topic_id = tiered_topic(kafka, topic, 3, 3)
    kafka.faults.delay("delete", SLOW_MS)
    before = tiering.remote_files(kafka, topic_id)
    request_deletion(kafka, topic)
    await_condition(lambda: tiering.remote_files(kafka, topic_id) < before, "the first segment is deleted", TIMEOUT_S)
    kafka.kill()
    kafka.faults.heal()
    kafka.start()
    await_deletions_done(kafka)
    return topic_id


def scenario_d2(kafka: FaultyKafka, topic: str) -> UUID:
    """Kill the broker in mid-copy; after its start it copies the segment again under another id. The topic lives on."""
    topic_id = tiering.create_tiered_topic(kafka, topic, 1)
    kafka.faults.linger("copy", FOREVER_MS)
    tiering.produce(kafka, topic, {0: 3 * tiering.RECORDS_PER_SEGMENT})
    # The log, its three indexes and the leader epochs: the copy is complete, and nobody has said so.
    await_condition(lambda: len(tiering.remote_files(kafka, topic_id)) == 5, "a segment is copied", TIMEOUT_S)
    kafka.kill()
    kafka.faults.heal()
    kafka.start()
    # Nothing more is produced: it returns when all of it has been copied.
    tiering.produce_until_remote(kafka, topic, 0)
    return topic_id


def scenario_d3(kafka: FaultyKafka, topic: str) -> UUID:
    """Delete a topic while storage refuses deletions: the broker marks the segments and never comes back to them."""
    topic_id = tiered_topic(kafka, topic, 3, 3)
    kafka.faults.fail("delete")
    request_deletion(kafka, topic)
    await_deletions_done(kafka)
    kafka.faults.heal()
    kafka.restart()
    await_deletions_done(kafka)
    return topic_id


def scenario_d7(kafka: FaultyKafka, topic: str) -> UUID:
    """Disable tiering with deletion of what is remote, and kill the broker before it has deleted. The topic lives on."""
    topic_id = tiered_topic(kafka, topic, 3, 3)
    kafka.faults.delay("delete", FOREVER_MS)
    changes = {"remote.storage.enable": "false", "remote.log.delete.on.disable": "true"}
    resource = ConfigResource(
        ResourceType.TOPIC,
        topic,
        incremental_configs=[
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in changes.items()
        ],
    )
    admin = admin_of(kafka)
    admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)
    kafka.kill()
    kafka.faults.heal()
    kafka.start()
    await_deletions_done(kafka)
    return topic_id
