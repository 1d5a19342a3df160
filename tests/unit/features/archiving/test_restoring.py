# SPDX-License-Identifier: Apache-2.0
"""Which topics can hold archived records as they were."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.log.answers import TargetTopic
from airflow_provider_rlmm.features.archiving.restore_rules import RecordsToRestore, obstacles

NOW_MS = 1_800_000_000_000
DAY_MS = 86_400_000
SETTINGS: dict[str, int | bool | str] = {
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": 2**63 - 1,
    "message.timestamp.after.max.ms": 3_600_000,
    "cleanup.policy": "delete",
    "retention.ms": -1,
    "retention.bytes": -1,
    "max.message.bytes": 1_048_588,
}
TARGET = TargetTopic("restored", UUID(int=1), {0: 0, 1: 0}, {0: 0, 1: 0}, SETTINGS)
RECORDS = RecordsToRestore(1, 10, 1_000, 200, NOW_MS - 10 * DAY_MS, NOW_MS - DAY_MS, None, "0" * 64, 0, ())


def test_a_fresh_topic_without_limits_holds_them() -> None:
    assert obstacles(TARGET, [RECORDS], NOW_MS) == []


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"message.timestamp.type": "LogAppendTime"}, "message.timestamp.type=LogAppendTime"),
        ({"message.timestamp.before.max.ms": 9 * DAY_MS}, "raise message.timestamp.before.max.ms, it is 777600000"),
        ({"cleanup.policy": "compact,delete"}, "cleanup.policy=compact,delete"),
        ({"retention.ms": 10 * DAY_MS}, "retention.ms=864000000 would delete it within a day"),
        ({"retention.ms": 11 * DAY_MS - 1}, "within a day"),
        ({"retention.bytes": 3_559}, "about 3560 bytes are to be written"),
        ({"max.message.bytes": 455}, "the largest record has about 456 bytes"),
    ],
)
def test_settings_that_would_change_or_lose_them_are_named(settings: dict[str, Any], said: str) -> None:
    (why,) = obstacles(replace(TARGET, settings={**SETTINGS, **settings}), [RECORDS], NOW_MS)
    assert said in why


@pytest.mark.parametrize(
    "settings",
    [
        {"retention.ms": 11 * DAY_MS},
        {"retention.bytes": 3_560},
        {"max.message.bytes": 456},
        {"message.timestamp.before.max.ms": 10 * DAY_MS},
    ],
)
def test_limits_that_are_wide_enough_pass(settings: dict[str, Any]) -> None:
    assert obstacles(replace(TARGET, settings={**SETTINGS, **settings}), [RECORDS], NOW_MS) == []


def test_a_topic_whose_kind_of_time_is_not_told_is_refused() -> None:
    settings = {name: value for name, value in SETTINGS.items() if name != "message.timestamp.type"}
    assert "message.timestamp.type=None" in obstacles(replace(TARGET, settings=settings), [RECORDS], NOW_MS)[0]


def test_records_of_the_future_are_refused_beyond_the_limit() -> None:
    late = replace(RECORDS, max_timestamp_ms=NOW_MS + 3_600_001)
    assert "message.timestamp.after.max.ms" in obstacles(TARGET, [late], NOW_MS)[0]
    assert obstacles(TARGET, [replace(late, max_timestamp_ms=NOW_MS + 3_600_000)], NOW_MS) == []


def test_a_topic_that_is_used_or_too_narrow_is_refused() -> None:
    used = replace(TARGET, ends={0: 5, 1: 0})
    assert "is not empty, see partitions [0]" in obstacles(used, [RECORDS], NOW_MS)[0]
    emptied = replace(TARGET, begins={0: 5, 1: 0}, ends={0: 5, 1: 0})
    assert obstacles(emptied, [RECORDS], NOW_MS) == []
    narrow = replace(TARGET, begins={0: 0}, ends={0: 0})
    assert "has 1 partition, 2 are to be restored" in obstacles(narrow, [RECORDS], NOW_MS)[0]


def test_records_without_a_time_are_named() -> None:
    assert "offset 17" in obstacles(TARGET, [replace(RECORDS, without_time=17)], NOW_MS)[0]


def test_an_empty_partition_needs_nothing() -> None:
    empty = replace(RECORDS, count=0, min_timestamp_ms=0, max_timestamp_ms=0)
    assert obstacles(replace(TARGET, settings={**SETTINGS, "retention.ms": 1}), [empty], NOW_MS) == []
