# SPDX-License-Identifier: Apache-2.0
"""A broker that writes Aiven's keys to an S3 server, what it leaves behind there, and the storage that cleans it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from uuid import UUID

from airflow_provider_rlmm.core.base.clock import system_clock
from airflow_provider_rlmm.core.log.kafka.admin import KafkaClusterTopics
from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
from airflow_provider_rlmm.core.log.kafka.event_log import KafkaMetadataEventLog
from airflow_provider_rlmm.core.storage.layouts import AivenLayout
from airflow_provider_rlmm.core.storage.object_store import ObjectStoreRemoteStorageManager
from airflow_provider_rlmm.features.scrub.comparison import scrub as scrub_storage
from dev import tiering
from dev.broker import await_condition
from dev.faults import Object
from dev.s3 import BUCKET, MotoServer, store_options
from dev.s3_proxy import S3Proxy
from dev.s3_tiering import S3Kafka
from tests.integration.kafka_topics import TIMEOUT_S
from tests.integration.scenarios.provoke import (
    FOREVER_MS,
    METADATA_PARTITIONS,
    await_deletions_done,
    make_living_topic,
    request_deletion,
    tiered_topic,
)
from tests.scrub_rows import missing_of, objects_of

OBJECTS = 3
"""Of a segment."""


@contextmanager
def s3_with_a_living_topic(folder: Path, key_prefix: str, fields: Sequence[str]) -> Iterator[tuple[S3Kafka, S3Proxy]]:
    """A broker and its living topic, on moto's server behind a proxy."""
    with MotoServer(folder) as server, S3Proxy(server.port) as proxy:
        address = proxy.endpoint
        with S3Kafka(
            server,
            endpoint=address,
            key_prefix=key_prefix,
            custom_metadata=fields,
            metadata_partitions=METADATA_PARTITIONS,
        ) as kafka:
            make_living_topic(kafka)
            yield kafka, proxy


def storage_of(kafka: S3Kafka, former_key_prefixes: Sequence[str] = ()) -> ObjectStoreRemoteStorageManager:
    """Open the bucket as a connection with the broker's prefix would."""
    layout = AivenLayout(kafka.key_prefix, former_key_prefixes)
    return ObjectStoreRemoteStorageManager(f"s3://{BUCKET}", layout, options=store_options(kafka.endpoint))


def s3_down_while_a_topic_is_deleted(kafka: S3Kafka, proxy: S3Proxy, topic: str) -> UUID:
    """Delete a topic while nobody answers at S3: its segments are marked, and the broker never comes back to them."""
    topic_id = tiered_topic(kafka, topic, 3, 3)
    proxy.down = True
    try:
        request_deletion(kafka, topic)
        await_deletions_done(kafka)
    finally:
        proxy.down = False
    kafka.restart()
    await_deletions_done(kafka)
    return topic_id


def deleted_and_killed(kafka: S3Kafka, proxy: S3Proxy, topic: str) -> None:
    """
    Scenario B for a topic that was copied under another prefix.

    Where the broker deletes there is nothing, so it would be done in no time; it must not come to say so.
    """
    proxy.down = True
    try:
        tiering.provoke_scenario_b(kafka, topic)
    finally:
        proxy.down = False


def killed_between_two_objects(kafka: S3Kafka, topic: str, last: Object, there: int) -> UUID:
    """Kill the broker when so many objects of a segment are there; it copies it again under another id."""
    topic_id = tiering.create_tiered_topic(kafka, topic, 1)
    kafka.faults.linger(last, FOREVER_MS)
    tiering.produce(kafka, topic, {0: 3 * tiering.RECORDS_PER_SEGMENT})
    await_condition(lambda: len(tiering.remote_files(kafka, topic_id)) == there, f"{last} is put", TIMEOUT_S)
    kafka.kill()
    kafka.faults.heal()
    kafka.start()
    # Nothing more is produced: it returns when all of it has been copied.
    tiering.produce_until_remote(kafka, topic, 0)
    return topic_id


def forgotten_objects(kafka: S3Kafka, storage: ObjectStoreRemoteStorageManager) -> dict[str, str]:
    """Return the objects that a scrub does not find in use: key → what they are."""
    config = KafkaClientConfig({"bootstrap.servers": kafka.bootstrap_servers})
    with KafkaMetadataEventLog(config) as log, closing(KafkaClusterTopics(config)) as topics:
        found = scrub_storage(log, topics, storage, known=(), clock=system_clock)
    assert missing_of(found) == []
    assert found.listed.objects == len(kafka.remote_objects())
    return {row["key"]: row["class"] for row in objects_of(found)}
