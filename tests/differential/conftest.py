# SPDX-License-Identifier: Apache-2.0
"""
``--differential-seed=N`` repeats a run; without it every day has other events. ``--differential-events=N`` makes more.

One round, as the name of its test says it: ``-k round-17``.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.differential.expiration_worlds import EVENTS_PER_WORLD, WORLDS_PER_ROUND
from tests.differential.kafka_replay import KafkaReplay
from tests.differential.world import EVENTS_PER_ROUND

COUNTED = pytest.StashKey[Counter[str]]()
"""What tests counted, for the summary."""


def pytest_addoption(parser: pytest.Parser) -> None:
    today = int(datetime.datetime.now(datetime.UTC).strftime("%Y%m%d"))
    parser.addoption("--differential-seed", type=int, default=today, help="seed of the events (default: the day)")
    parser.addoption("--differential-events", type=int, default=200_000, help="number of events")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[COUNTED] = Counter()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    terminalreporter.write_line(
        f"compared with Kafka on {config.getoption('--differential-events')} events; "
        f"again with --differential-seed={config.getoption('--differential-seed')}"
    )
    for name, number in config.stash[COUNTED].items():
        terminalreporter.write_line(f"{number} {name}")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    events = metafunc.config.getoption("--differential-events")
    per_round = {"differential_round": EVENTS_PER_ROUND, "expiration_round": EVENTS_PER_WORLD * WORLDS_PER_ROUND}
    for name in per_round.keys() & set(metafunc.fixturenames):
        metafunc.parametrize(name, range(-(-events // per_round[name])), ids=lambda number: f"round-{number}")


@pytest.fixture(scope="session")
def counted(request: pytest.FixtureRequest) -> Counter[str]:
    """Numbers that the summary tells, by what they count."""
    return request.config.stash[COUNTED]


@pytest.fixture(scope="session")
def differential_seed(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--differential-seed"))


@pytest.fixture(scope="session")
def kafka_replay() -> Iterator[KafkaReplay]:
    """One JVM for all rounds."""
    with KafkaReplay() as peer:
        yield peer
