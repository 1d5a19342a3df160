# SPDX-License-Identifier: Apache-2.0
"""What is made of a listing and of configurations; that brokers answer so is for tests/integration/test_first_aid.py."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import KafkaError, KafkaException

from airflow_provider_rlmm.core.base.errors import EventLogUnavailableError
from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
from airflow_provider_rlmm.core.log.kafka.tiered_topics import KafkaTieredTopics
from airflow_provider_rlmm.core.log.tiered_topics import TieredLook, ToldSetting

ID = UUID(int=7)
BROKERS_OWN, SET_FOR_TOPIC = 5, 1


def config(value: str | None = "true", **own: str) -> dict[str, Any]:
    """Return entries as confluent-kafka has them, with the number of where they come from."""
    told = {"remote.storage.enable": value, "retention.ms": "-1"}
    named = {name.replace("_", "."): text for name, text in own.items()}
    return {
        **{name: SimpleNamespace(value=text, source=BROKERS_OWN) for name, text in told.items()},
        **{name: SimpleNamespace(value=text, source=SET_FOR_TOPIC) for name, text in named.items()},
    }


def described(*replicas: Sequence[int]) -> Any:
    partitions = [
        SimpleNamespace(id=n, replicas=[SimpleNamespace(id=broker) for broker in of])
        for n, of in reversed(list(enumerate(replicas)))
    ]
    return SimpleNamespace(topic_id=base64.b64encode(ID.bytes).decode(), partitions=partitions)


def look(
    monkeypatch: pytest.MonkeyPatch, configs: Mapping[str, Any], topics: Mapping[str, Any], listing: Any = None
) -> TieredLook:
    asked = KafkaTieredTopics(KafkaClientConfig({"bootstrap.servers": "b:9092"}), "cluster-1")

    def listed(timeout: float) -> Any:
        if listing is not None:
            raise KafkaException(listing)
        return SimpleNamespace(topics=dict.fromkeys(configs), brokers={1: None, 2: None})

    monkeypatch.setattr(asked._admin, "require_cluster", lambda *_: None)
    monkeypatch.setattr(asked._admin, "_client", SimpleNamespace(list_topics=listed))
    monkeypatch.setattr(asked._admin, "describe_configs", lambda names: {name: configs[name] for name in names})
    monkeypatch.setattr(asked._admin, "describe_topics", lambda names: {name: topics[name] for name in names})
    return asked.look()


def test_tiered_topics_are_told_with_their_replicas_and_where_a_setting_comes_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    configs = {"b": config(local_retention_ms="5"), "a": config(), "plain": config("false")}
    found = look(monkeypatch, configs, {"a": described([1]), "b": described([1, 2], [2])})
    assert [(t.topic, t.topic_id, t.replicas) for t in found.tiered] == [
        ("a", ID, ((1,),)),
        ("b", ID, ((1, 2), (2,))),
    ]
    assert found.tiered[1].settings["local.retention.ms"] == ToldSetting("5", True)
    assert found.tiered[1].settings["retention.ms"] == ToldSetting("-1", False)
    assert (found.listed, found.brokers, found.not_told) == ({"a", "b", "plain"}, {1, 2}, {})


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "DESCRIBE_CONFIGS is missing on it"),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, "it was deleted since it was listed, or this login may not see it any more"),
        (KafkaError.REQUEST_TIMED_OUT, "the brokers answer REQUEST_TIMED_OUT"),
    ],
)
def test_a_topic_whose_settings_are_not_told_is_named(monkeypatch: pytest.MonkeyPatch, code: int, why: str) -> None:
    found = look(monkeypatch, {"a": KafkaError(code), "b": config()}, {"b": described([1])})
    assert ([t.topic for t in found.tiered], found.not_told) == (["b"], {"a": why})


def test_a_tiered_topic_that_is_not_described_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    denied = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    found = look(monkeypatch, {"a": config()}, {"a": denied})
    assert (found.tiered, found.not_told) == ((), {"a": "DESCRIBE is missing on it"})


def test_a_value_that_is_withheld_is_no_no(monkeypatch: pytest.MonkeyPatch) -> None:
    found = look(monkeypatch, {"a": config(None)}, {"a": described([1])})
    assert [t.settings["remote.storage.enable"].value for t in found.tiered] == [None]


def test_brokers_that_do_not_know_the_setting_have_no_tiered_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    without = {name: entry for name, entry in config().items() if name != "remote.storage.enable"}
    found = look(monkeypatch, {"a": without}, {})
    assert (found.tiered, found.not_told) == ((), {})


def test_a_listing_that_does_not_come_is_no_empty_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EventLogUnavailableError, match="listing topics"):
        look(monkeypatch, {}, {}, KafkaError(KafkaError._TRANSPORT))
