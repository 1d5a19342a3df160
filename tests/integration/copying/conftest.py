# SPDX-License-Identifier: Apache-2.0
"""A broker that copies one topic itself, and topics beside it that it does not copy."""

from __future__ import annotations

from pathlib import Path

import pytest

from dev.broker import LocalKafka

# What these check is told as in a test of its own.
pytest.register_assert_rewrite(
    *(f"tests.integration.copying.{name}" for name in ("adopting", "copies", "copy_command", "uncopied"))
)

from tests.integration.copying.uncopied import LIVING, Uncopied  # noqa: E402  # behind the line above
from tests.integration.copying.world import living_topic  # noqa: E402
from tests.integration.copying.writing import Writer  # noqa: E402


@pytest.fixture(scope="session")
def copying_kafka(kafka: LocalKafka) -> LocalKafka:
    """The shared broker, with a topic that it copies itself."""
    living_topic(kafka, LIVING)
    return kafka


@pytest.fixture
def uncopied(copying_kafka: LocalKafka, tmp_path: Path) -> Uncopied:
    """A topic of several small segments."""
    servers = copying_kafka.bootstrap_servers
    return Uncopied.of(copying_kafka, tmp_path, lambda topic: Writer(servers, topic).write(420))
