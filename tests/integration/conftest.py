# SPDX-License-Identifier: Apache-2.0
"""Real brokers. On the shared one every test makes topics of its own names, and leaves nothing that Kafka cannot read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tests.airflow_home  # noqa: F401  # its import is what it is for
from dev.broker import LocalKafka
from tests.kill_switch import the_api_server_knows_no_switch  # noqa: F401  # a fixture


@pytest.fixture(scope="session")
def kafka() -> Iterator[LocalKafka]:
    """The broker that all tests share; a test that kills it starts it again."""
    with LocalKafka() as broker:
        yield broker


@pytest.fixture
def strict_kafka() -> Iterator[LocalKafka]:
    """A broker for one test only, which makes no topic that nobody has asked for: it leaves a lost metadata topic lost."""
    with LocalKafka(properties={"auto.create.topics.enable": "false"}) as broker:
        yield broker


@pytest.fixture
def fresh_kafka() -> Iterator[LocalKafka]:
    """A broker for one test only, for those that wipe, break or poison it."""
    with LocalKafka() as broker:
        yield broker
