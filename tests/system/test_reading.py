# SPDX-License-Identifier: Apache-2.0
"""Remote segments are waited for and read under a real scheduler with its triggerer, on a real broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, TopicPartition

from dev import tiering
from dev.airflow import LocalAirflow
from dev.broker import LocalKafka, await_condition
from dev.patience import Patience

pytestmark = [pytest.mark.system, pytest.mark.integration, pytest.mark.timeout(900), pytest.mark.rare]

DAG_ID, TOPIC = "read_a_topic", "payments"


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalKafka]:
    with LocalKafka(metadata_partitions=3) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory, broker: LocalKafka) -> Iterator[LocalAirflow]:
    """An Airflow whose connection may write nothing."""
    documents = {
        "kafka_reading": {"conn_type": "kafka", "extra": {"bootstrap.servers": broker.bootstrap_servers}},
        "rlmm_reading": {
            "conn_type": "rlmm",
            "extra": {"kafka_conn_id": "kafka_reading", "storage_uri": broker.remote_dir.as_uri()},
        },
    }
    with LocalAirflow(
        tmp_path_factory.mktemp("airflow"),
        dags_folder=Path(__file__).parent / "reading_dags",
        connections={conn_id: json.dumps(document) for conn_id, document in documents.items()},
        env={"AIRFLOW__RLMM__WORK_URI": str(tmp_path_factory.mktemp("work"))},
    ) as local:
        yield local


def consumed(kafka: LocalKafka, partition: int, end: int) -> list[tuple[int, int, bytes | None, bytes | None]]:
    """What a stock consumer gets of a partition."""
    found: list[tuple[int, int, bytes | None, bytes | None]] = []
    consumer = Consumer(kafka.client_config(group_id="stock", enable_auto_commit=False))
    consumer.assign([TopicPartition(TOPIC, partition, 0)])
    patience = Patience(60)
    while len(found) < end:
        assert not patience.over()
        message = consumer.poll(1)
        if message is not None:
            assert message.error() is None
            found.append((message.offset(), message.timestamp()[1], message.key(), message.value()))
    consumer.close()
    return found[:end]


def test_a_topic_is_read_as_soon_as_it_is_in_remote_storage(
    airflow: LocalAirflow, broker: LocalKafka, tmp_path: Path
) -> None:
    tiering.create_tiered_topic(broker, TOPIC, 2)
    tiering.produce_until_remote(broker, TOPIC, 2)
    up_to = datetime.now(UTC) + timedelta(seconds=30)
    run_id = airflow.trigger(DAG_ID, {"up_to": up_to.isoformat(), "output": str(tmp_path / "out")})
    await_condition(
        lambda: ("copied", "deferred") in {(t["task_id"], t["state"]) for t in airflow.task_instances(DAG_ID, run_id)},
        "the sensor waits in the triggerer",
        120,
    )
    assert datetime.now(UTC) < up_to
    assert airflow.wait(DAG_ID, run_id) == "success"
    ends = airflow.xcom(DAG_ID, run_id, "copied")["end_offsets"]
    told = airflow.xcom(DAG_ID, run_id, "read")
    assert ends == told["next_offsets"]
    assert told["records"] == sum(ends.values()) > 0
    for number, one in told["partitions"].items():
        columns = pq.read_table(one["file"]).select(["offset", "timestamp", "key", "value"]).to_pydict()
        assert list(zip(*columns.values(), strict=True)) == consumed(broker, int(number), ends[number])
