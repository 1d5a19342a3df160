# SPDX-License-Identifier: Apache-2.0
"""Sensors that wait until remote storage is free of a topic, under a real scheduler with its triggerer, on a real broker."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest

from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from dev import tiering
from dev.airflow import LocalAirflow
from dev.broker import LocalKafka, await_condition
from tests.scrub import scrub
from tests.system.test_dags import CLEANER, NOW

pytestmark = [pytest.mark.system, pytest.mark.integration, pytest.mark.timeout(900)]

WAIT, TOPIC = "wait_until_gone", "sensor-gone"


def test_a_sensor_waits_until_every_byte_is_gone(connected: LocalAirflow, broker: LocalKafka) -> None:
    # Without something that lives there nothing shows that the storage is this cluster's.
    tiering.create_tiered_topic(broker, "sensor-kept", 1)
    tiering.produce_until_remote(broker, "sensor-kept", 1)
    topic_id: UUID = tiering.create_tiered_topic(broker, TOPIC, 2)
    tiering.produce_until_remote(broker, TOPIC, 2)
    tiering.provoke_scenario_b(broker, TOPIC)
    run_id = connected.trigger(WAIT, {"topic": TOPIC, "topic_id": kafka_uuid_str(topic_id)})
    both = {"deferred": "deferred", "poking": "running"}
    await_condition(lambda: connected.task_states(WAIT, run_id) == both, "both wait", 240, interval=0.5)
    cleaning = connected.trigger(CLEANER, NOW)
    assert connected.wait(CLEANER, cleaning) == "success"
    assert connected.wait(WAIT, run_id) == "success"
    for task_id in both:
        proof = connected.xcom(WAIT, run_id, task_id)
        assert (proof["topic_id"], proof["user_partitions"]) == (kafka_uuid_str(topic_id), 2)
    assert scrub(broker) == []


def test_a_sensor_fails_for_an_id_that_the_log_never_named(connected: LocalAirflow, broker: LocalKafka) -> None:
    run_id = connected.trigger(WAIT, {"topic": TOPIC, "topic_id": kafka_uuid_str(uuid4())})
    assert connected.wait(WAIT, run_id) == "failed"
    assert connected.task_states(WAIT, run_id) == {"deferred": "failed", "poking": "failed"}
    assert "has never named it" in connected.task_log(WAIT, run_id, "deferred")
