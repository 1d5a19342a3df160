# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError

from airflow_provider_rlmm.core.base.errors import EventLogAccessError, EventLogUnavailableError
from airflow_provider_rlmm.core.log.kafka.client import KafkaAdmin
from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
from airflow_provider_rlmm.core.log.kafka.offsets import KafkaOffsetStore

ANSWER = SimpleNamespace(topic_partitions=[])
LATE = EventLogUnavailableError("1 answer is late")


@pytest.fixture
def store():
    return KafkaOffsetStore(KafkaClientConfig({"bootstrap.servers": "127.0.0.1:1"}), "cleaner")


@pytest.fixture
def asked(monkeypatch):
    """What the coordinator answers, one after the other; ``None`` marks a new client."""
    answers, seen = [], []

    def results(self, what, start):
        answer = answers.pop(0)
        seen.append(answer)
        if isinstance(answer, Exception):
            raise answer
        return {"cleaner": answer}

    monkeypatch.setattr(KafkaAdmin, "results", results)
    monkeypatch.setattr(KafkaAdmin, "close", lambda self: seen.append(None))
    return SimpleNamespace(answers=answers, seen=seen)


@pytest.mark.parametrize("nothing", [LATE, KafkaError(KafkaError._TIMED_OUT), KafkaError(KafkaError._TRANSPORT)])
@pytest.mark.parametrize("call", [lambda store: store.commit({0: 1}), lambda store: store.committed()])
def test_a_client_without_an_answer_is_replaced(store, asked, nothing, call):
    asked.answers += [nothing, ANSWER]

    call(store)

    assert asked.seen == [nothing, None, ANSWER]


def test_it_is_replaced_once(store, asked):
    asked.answers += [KafkaError(KafkaError._TIMED_OUT)] * 2

    with pytest.raises(EventLogUnavailableError, match="committing offsets of group 'cleaner'"):
        store.commit({0: 1})

    assert asked.answers == []


@pytest.mark.parametrize(
    "answer", [EventLogAccessError("no"), KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED), ANSWER]
)
def test_an_answer_is_an_answer(store, asked, answer):
    asked.answers.append(answer)

    try:
        store.commit({0: 1})
    except EventLogAccessError:
        assert answer is not ANSWER

    assert asked.seen == [answer]
