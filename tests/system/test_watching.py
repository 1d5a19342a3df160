# SPDX-License-Identifier: Apache-2.0
"""Markers start the cleaner, under a real scheduler with its triggerer, on a real broker."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from airflow_provider_rlmm.core.base.clock import system_clock
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import RemotePartitionDeleteMetadata, TopicIdPartition, kafka_uuid_str
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState
from airflow_provider_rlmm.resources import dags_folder
from dev import tiering
from dev.airflow import LocalAirflow
from dev.broker import METADATA_TOPIC, LocalKafka
from dev.patience import Patience
from dev.roots import expected_root_of

pytestmark = [pytest.mark.system, pytest.mark.integration, pytest.mark.timeout(900), pytest.mark.rare]

CLEANER = "remote_log_cleaner__rlmm_up"
CONTROLLER = 1


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalKafka]:
    """A broker of its own: a run is green only where nobody else has left something that needs a person."""
    with LocalKafka(metadata_partitions=3) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory, broker: LocalKafka) -> Iterator[LocalAirflow]:
    """An Airflow that also makes runs by itself, whose cleaner is scheduled by markers."""
    dags = tmp_path_factory.mktemp("dags")
    shutil.copy(Path(dags_folder()) / "remote_log_cleaner.py", dags)
    connections = {
        "kafka_up": {"conn_type": "kafka", "extra": {"bootstrap.servers": broker.bootstrap_servers}},
        "rlmm_up": {
            "conn_type": "rlmm",
            "extra": {
                "kafka_conn_id": "kafka_up",
                "storage_uri": broker.remote_dir.as_uri(),
                "allow_writes": True,
                "expected_cluster_id": broker.cluster_id,
                "expected_root": expected_root_of(broker.remote_dir),
            },
        },
    }
    with LocalAirflow(
        tmp_path_factory.mktemp("airflow"),
        dags_folder=dags,
        connections={conn_id: json.dumps(document) for conn_id, document in connections.items()},
        env={
            "AIRFLOW__RLMM__WORK_URI": str(tmp_path_factory.mktemp("work")),
            "AIRFLOW__RLMM__CONNECTIONS": "rlmm_up",
            "AIRFLOW__RLMM__CLEANER_SCHEDULE": "markers",
            "AIRFLOW__SCHEDULER__USE_JOB_SCHEDULE": "True",
        },
    ) as local:
        yield local


def until(what: str, condition: Callable[[], Any], timeout: float = 240.0) -> Any:
    """Wait for something, and return it."""
    patience = Patience(timeout)
    while not (found := condition()):
        assert not patience.over(), f"{what}: not after {timeout:.0f} s"
        time.sleep(0.5)
    return found


def mark(kafka: LocalKafka, partitions: list[TopicIdPartition]) -> None:
    """Mark user partitions as deleted, as a controller would."""
    producer = Producer(kafka.client_config())
    for tip in partitions:
        event = RemotePartitionDeleteMetadata(
            tip, RemotePartitionDeleteState.DELETE_PARTITION_MARKED, system_clock(), CONTROLLER
        )
        home = metadata_partition_for(tip, kafka.metadata_partitions)
        producer.produce(METADATA_TOPIC, serialize(event), None, home)
    assert producer.flush(30) == 0


def events_of(airflow: LocalAirflow, name: str) -> list[Any]:
    """What the events of an asset say."""
    assets = [a for a in airflow.get("/assets", limit=100)["assets"] if a["name"] == name]
    return [
        e["extra"]["payload"] for a in assets for e in airflow.get("/assets/events", asset_id=a["id"])["asset_events"]
    ]


def follows(airflow: LocalAirflow) -> bool:
    """Whether the watcher has looked at the topic: before that, a marker is not news to it."""
    return "the metadata topic was read up to" in (airflow.home / "components" / "triggerer.log").read_text(
        errors="replace"
    )


def started_by_markers(airflow: LocalAirflow) -> list[dict[str, Any]]:
    """Runs that the asset started; besides, the daily schedule makes one at once in the first hours of a day."""
    return [run for run in airflow.runs(CLEANER) if run["run_type"] == "asset_triggered"]


def test_markers_of_a_controller_start_the_cleaner(airflow: LocalAirflow, broker: LocalKafka) -> None:
    tiering.create_tiered_topic(broker, "orders", 1)
    tiering.produce_until_remote(broker, "orders", 1)
    airflow.unpause(CLEANER)
    until("the watcher follows the topic", lambda: follows(airflow))
    assert started_by_markers(airflow) == []
    topic_id = uuid4()
    mark(broker, [TopicIdPartition(topic_id, "deleted_by_the_controller", n) for n in range(4)])
    (run,) = until("a run", lambda: started_by_markers(airflow))
    assert events_of(airflow, "remote_log_markers__rlmm_up") == [
        {
            "connection": "rlmm_up",
            "cluster_id": broker.cluster_id,
            "markers": 4,
            "topics": 1,
            "topic_ids": [kafka_uuid_str(topic_id)],
        }
    ]
    assert airflow.wait(CLEANER, run["dag_run_id"]) == "success"
