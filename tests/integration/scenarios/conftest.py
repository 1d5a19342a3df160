# SPDX-License-Identifier: Apache-2.0
"""One broker with faulty storage per module; its storage is healthy again after each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dev.faults import FaultyKafka
from tests.integration.scenarios.provoke import broker_with_a_living_topic


@pytest.fixture(scope="module")
def kafka() -> Iterator[FaultyKafka]:
    """The broker that the tests of a module share; a test that kills it starts it again."""
    with broker_with_a_living_topic() as broker:
        yield broker


@pytest.fixture(autouse=True)
def _healthy_storage(kafka: FaultyKafka) -> Iterator[None]:
    yield
    kafka.faults.heal()
