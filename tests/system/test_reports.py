# SPDX-License-Identifier: Apache-2.0
"""A real run with something that needs a person is red, and green again once a person has acknowledged it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from dev import tiering
from dev.airflow import LocalAirflow
from dev.broker import METADATA_TOPIC, LocalKafka

pytestmark = [pytest.mark.system, pytest.mark.integration, pytest.mark.timeout(1800)]

CLEANER = "remote_log_cleaner"


@pytest.fixture
def keyed_record(connected: LocalAirflow, broker: LocalKafka) -> tuple[int, int]:
    """
    Metadata partition and offset of a living topic's record that somebody wrote again, with a key: no broker minds, and
    nobody knows who it was.
    """
    tiering.create_tiered_topic(broker, "ledger", 1)
    tiering.produce_until_remote(broker, "ledger", 1)
    consumer = Consumer(broker.client_config(group_id="unused"))
    try:
        for partition in range(broker.metadata_partitions):
            end = consumer.get_watermark_offsets(TopicPartition(METADATA_TOPIC, partition), timeout=30)[1]
            if end:
                consumer.assign([TopicPartition(METADATA_TOPIC, partition, end - 1)])
                (message,) = consumer.consume(1, timeout=30)
                break
    finally:
        consumer.close()
    producer = Producer(broker.client_config())
    producer.produce(METADATA_TOPIC, message.value(), key=b"somebody's", partition=partition)
    assert producer.flush(30) == 0
    return partition, end


@pytest.fixture
def variable(connected: LocalAirflow) -> Iterator[Any]:
    """Sets the variable with what people have acknowledged."""
    path = "/api/v2/variables"
    with connected.client() as client:

        def store(acknowledgements: list[dict[str, Any]]) -> None:
            body = {"key": "rlmm_acknowledgements", "value": json.dumps(acknowledgements)}
            assert client.post(path, json=body).status_code == 201

        yield store
        client.delete(f"{path}/rlmm_acknowledgements")


def test_what_needs_a_person_fails_the_run_until_it_is_acknowledged(
    connected: LocalAirflow, keyed_record: tuple[int, int], variable: Any
) -> None:
    run_id, state = clean(connected)
    assert state == "failed"
    states = {i["task_id"]: i["state"] for i in connected.task_instances(CLEANER, run_id)}
    before = ("check", "mark", "plan", "approve", "archive", "survey")
    assert states == dict.fromkeys(before, "success") | {"clean": "skipped", "report": "failed"}
    log = connected.task_log(CLEANER, run_id, "report")
    assert "1 thing needs a person. The first: QUARANTINED" in log
    shown = fetched(connected, run_id).text
    assert 'role="alert"' in shown
    assert f"metadata partition {keyed_record[0]} · offset {keyed_record[1]:,} · needs a person" in shown
    (entry,) = fetched(connected, run_id, "/json").json()["needs_person"]
    assert f"To acknowledge it: {json.dumps(entry['acknowledge_with'])}" in log

    variable([entry["acknowledge_with"] | {"by": "the test", "why": "it wrote the record itself"}])
    run_id, state = clean(connected)
    assert state == "success", connected.task_log(CLEANER, run_id, "report")
    totals = connected.xcom(CLEANER, run_id, "report")
    assert (totals["needs_person"], totals["acknowledged"]) == (0, 1)
    shown = fetched(connected, run_id).text
    assert "by the test: it wrote the record itself" in shown
    assert "nothing needs a person" in shown


def clean(airflow: LocalAirflow) -> tuple[str, str]:
    run_id = airflow.trigger(CLEANER, {"rlmm_conn_id": "rlmm_up", "dry_run": False})
    return run_id, airflow.wait(CLEANER, run_id, timeout=200)


def fetched(airflow: LocalAirflow, run_id: str, end: str = "") -> Any:
    """The report's page or document, as any viewer gets it."""
    address = airflow.link(CLEANER, run_id, "report", "Report")
    with airflow.client("viewer") as viewer:
        answer = viewer.get(address + end)
    assert answer.status_code == 200, answer.text
    return answer
