# SPDX-License-Identifier: Apache-2.0
"""What is made of configurations; that brokers answer so is for tests/integration/test_kafka_admin.py."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from airflow_provider_rlmm.core.base.errors import EventLogUnavailableError
from airflow_provider_rlmm.core.log.copy_lag import CopyLag
from airflow_provider_rlmm.core.log.kafka.admin import KafkaClusterTopics
from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig

METADATA_TOPIC = "__remote_log_metadata"
DENIED = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
UNKNOWN = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)


def entries(**values: str) -> dict[str, Any]:
    named = {name.replace("_", "."): value for name, value in values.items()}
    return {name: SimpleNamespace(value=value) for name, value in ({"retention.ms": "-1"} | named).items()}


WITH_DISKS, WITHOUT, PLAIN = entries(diskless_enable="false"), entries(diskless_enable="true"), entries()


TIERED = entries(remote_storage_enable="true")
KNOWS = {
    name: SimpleNamespace(value=value) for name, value in (("remote.copy.lag.ms", "0"), ("remote.copy.lag.bytes", "-1"))
}
LATE = TIERED | KNOWS | {"remote.copy.lag.ms": SimpleNamespace(value="60000")}


def topics_that_answer(monkeypatch: pytest.MonkeyPatch, answers: dict[str, Any]) -> KafkaClusterTopics:
    topics = KafkaClusterTopics(KafkaClientConfig({"bootstrap.servers": "b:9092"}))

    def describe(asked: Sequence[str]) -> dict[str, Any]:
        return {name: answers[name] for name in asked}

    monkeypatch.setattr(topics._admin, "describe_configs", describe)
    return topics


def diskless(monkeypatch: pytest.MonkeyPatch, answers: dict[str, Any], *names: str) -> dict[str, str]:
    return dict(topics_that_answer(monkeypatch, answers).diskless_topics(names))


def test_a_topic_is_diskless_if_its_setting_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {"a": WITHOUT, "b": WITH_DISKS, "c": PLAIN, "gone": UNKNOWN}
    assert diskless(monkeypatch, answers, *answers) == {"a": "diskless.enable is true"}


def test_a_value_that_is_withheld_is_no_no(monkeypatch: pytest.MonkeyPatch) -> None:
    withheld = {"a": entries() | {"diskless.enable": SimpleNamespace(value=None)}}
    assert diskless(monkeypatch, withheld, "a") == {"a": "diskless.enable is withheld"}


@pytest.mark.parametrize(("metadata_topic", "may_be"), [(PLAIN, False), (WITH_DISKS, True), (DENIED, True)])
def test_a_topic_that_may_not_be_described_is_none_only_where_brokers_do_not_know_the_setting(
    monkeypatch: pytest.MonkeyPatch, metadata_topic: Any, may_be: bool
) -> None:
    answers = {"a": DENIED, "b": PLAIN, METADATA_TOPIC: metadata_topic}
    assert list(diskless(monkeypatch, answers, "a", "b")) == ["a"] * may_be


def test_only_tiered_topics_that_are_not_copied_at_once_have_a_copy_lag(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {"late": LATE, "at once": TIERED | KNOWS, "of 4.3": TIERED, "gone": UNKNOWN}
    answers["not tiered"] = LATE | entries(remote_storage_enable="false")
    answers["withheld"] = TIERED | KNOWS | {"remote.copy.lag.ms": SimpleNamespace(value=None)}
    found = topics_that_answer(monkeypatch, answers).copy_lags(answers)
    assert found.keys() == {"late", "withheld"}
    assert (found["late"], found["withheld"].copies_at_once) == (CopyLag(60_000, -1), False)


@pytest.mark.parametrize(("metadata_topic", "may_be"), [(PLAIN, False), (PLAIN | KNOWS, True), (DENIED, True)])
def test_the_copy_lag_of_a_topic_that_may_not_be_described_is_not_known_where_brokers_may_know_one(
    monkeypatch: pytest.MonkeyPatch, metadata_topic: Any, may_be: bool
) -> None:
    answers = {"a": DENIED, "b": TIERED, METADATA_TOPIC: metadata_topic}
    found = topics_that_answer(monkeypatch, answers).copy_lags(["a", "b"])
    assert [(name, lag.why_unknown) for name, lag in found.items()] == [
        ("a", "DESCRIBE_CONFIGS is missing on it")
    ] * may_be


def test_a_broker_that_does_not_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EventLogUnavailableError):
        diskless(monkeypatch, {"a": KafkaError(KafkaError._TIMED_OUT)}, "a")
