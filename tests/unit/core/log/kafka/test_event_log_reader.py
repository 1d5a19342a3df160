# SPDX-License-Identifier: Apache-2.0
"""How the consumer of bounded reads is set up; what it reads is tested on a broker."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_rlmm.core.log.kafka import event_log
from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig

BROKERS = {"bootstrap.servers": "b:9092"}
WAIT = "fetch.wait.max.ms"


def wait_of(config: KafkaClientConfig, monkeypatch: pytest.MonkeyPatch) -> Any:
    opened: list[dict[str, Any]] = []
    monkeypatch.setattr(event_log, "open_client", lambda _, properties, watch: opened.append(properties))
    event_log._Reader(config, "topic", lambda handle, what: None)
    return opened[0][WAIT]


def test_looks_one_after_the_other_do_not_wait_for_the_fetch_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    assert wait_of(KafkaClientConfig(BROKERS), monkeypatch) == 2
    assert wait_of(KafkaClientConfig({**BROKERS, WAIT: 100}), monkeypatch) == 100
    assert wait_of(KafkaClientConfig(BROKERS, consumer_properties={WAIT: 50}), monkeypatch) == 50
