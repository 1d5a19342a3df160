# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from dev.airflow import LocalAirflow
from dev.broker import LocalKafka, await_condition

pytestmark = [pytest.mark.system, pytest.mark.integration]


def answer_of(airflow: LocalAirflow, **extra: Any) -> tuple[bool, str]:
    body = {
        "connection_id": "rlmm_tested",
        "conn_type": "rlmm",
        "extra": json.dumps({"kafka_conn_id": "kafka_up", **extra}),
    }
    with airflow.client() as client:
        answer = client.post("/api/v2/connections/test", json=body).json()
    return answer["status"], answer["message"]


def test_the_forms_test_of_a_connection(connected: LocalAirflow, broker: LocalKafka) -> None:
    extra = {"storage_uri": broker.remote_dir.as_uri(), "expected_cluster_id": broker.cluster_id}

    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic("tiered", 1, 1, config={"remote.storage.enable": "true"})])["tiered"].result(30)
    await_condition(
        lambda: "__remote_log_metadata" in admin.list_topics(timeout=5).topics or None, "the metadata topic", 30
    )

    good, text = answer_of(connected, **extra, allow_writes=True)
    assert good, text
    for sentence in (
        "Writing is allowed.",
        f"Cluster {broker.cluster_id} answers at {broker.bootstrap_servers}, as expected.",
        "Topic __remote_log_metadata has 3 partitions, one may ",
        "topics may be described.",
        f"Storage {broker.remote_dir.as_uri()} ",
    ):
        assert sentence in text

    good, text = answer_of(connected, **extra | {"expected_cluster_id": "another"})
    assert not good
    assert f"Connected to cluster '{broker.cluster_id}', expected 'another'" in text

    good, text = answer_of(connected, **extra, metadata_topic="no_such_topic")
    assert not good
    assert "Connection 'kafka_up': topic 'no_such_topic' does not exist" in text
    assert "no_such_topic" not in admin.list_topics(timeout=5).topics
