# SPDX-License-Identifier: Apache-2.0
"""The trigger of markers on a real broker that goes away and comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from airflow_provider_rlmm.core.base.clock import system_clock
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import RemotePartitionDeleteMetadata, TopicIdPartition
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState
from airflow_provider_rlmm.triggers.markers import RemoteLogMarkersTrigger
from dev import tiering
from dev.broker import METADATA_TOPIC, LocalKafka
from tests.integration.operators import connect
from tests.unit.airflow.triggers.test_markers_trigger import running

pytestmark = [pytest.mark.integration, pytest.mark.rare]

SOON_S = 90.0


def mark(kafka: LocalKafka) -> TopicIdPartition:
    """Mark a user partition as deleted, as a controller would."""
    tip = TopicIdPartition(uuid4(), "deleted_by_the_controller", 0)
    event = RemotePartitionDeleteMetadata(
        tip, RemotePartitionDeleteState.DELETE_PARTITION_MARKED, system_clock(), broker_id=1
    )
    producer = Producer(kafka.client_config())
    producer.produce(METADATA_TOPIC, serialize(event), None, metadata_partition_for(tip, kafka.metadata_partitions))
    assert producer.flush(30) == 0
    return tip


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(SOON_S):
        while not condition():
            await asyncio.sleep(0.05)


def test_the_trigger_outlives_the_broker(
    fresh_kafka: LocalKafka, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tiering.create_tiered_topic(fresh_kafka, "orders", 1)
    tiering.produce_until_remote(fresh_kafka, "orders", 1)
    connect(monkeypatch, fresh_kafka)
    caplog.set_level("INFO")

    async def watched() -> list[int]:
        async with running(RemoteLogMarkersTrigger(poll_s=0.2, gather_s=0.5)) as told:
            await until(lambda: "the metadata topic was read up to" in caplog.text)
            await asyncio.to_thread(mark, fresh_kafka)
            await until(lambda: len(told) == 1)
            await asyncio.to_thread(fresh_kafka.kill)
            await until(lambda: "markers of others are not seen until this is solved" in caplog.text)
            await asyncio.to_thread(fresh_kafka.start)
            # Written before the trigger has found its way back, or after: it is told of in any case, and once.
            await asyncio.to_thread(mark, fresh_kafka)
            await until(lambda: len(told) == 2)
            return [payload["markers"] for payload in told]

    assert asyncio.run(watched()) == [1, 1]
