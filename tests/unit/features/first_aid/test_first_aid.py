# SPDX-License-Identifier: Apache-2.0
"""Each topic that was listed is told of, or named."""

from __future__ import annotations

import pytest

from airflow_provider_rlmm.features.first_aid.commands import Tools
from airflow_provider_rlmm.features.first_aid.log_directories import LogDirectories, read_log_directories
from airflow_provider_rlmm.features.first_aid.steps import FirstAid, first_aid
from tests.unit.features.first_aid.looks import Look, printed, topic

METADATA = "__remote_log_metadata"


def aid(look: Look, directories: LogDirectories | None = None) -> FirstAid:
    return first_aid(look, METADATA, Tools("b:9092"), directories)


def directories(*brokers: int, **replicas: int) -> LogDirectories:
    of_each = {f"{name}-0": size for name, size in ({"orders": 10, METADATA: 1} | replicas).items()}
    return read_log_directories(printed(dict.fromkeys(brokers, of_each)), "dirs")


def test_the_settings_of_today_are_those_of_the_topic_alone() -> None:
    (found,) = aid(Look((topic("orders", {"local.retention.ms": "1000"}),))).topics
    assert found.today == {
        "remote.log.copy.disable": None,
        "local.retention.ms": "1000",
        "local.retention.bytes": None,
    }
    assert found.as_today is not None
    assert found.as_today[-4:] == (
        "--add-config", "local.retention.ms=1000",
        "--delete-config", "remote.log.copy.disable,local.retention.bytes",
    )  # fmt: skip
    assert (found.partitions, found.replicas) == (1, 2)


def test_a_topic_that_is_not_copied_needs_no_alter() -> None:
    (found,) = aid(Look((topic("orders", {"remote.log.copy.disable": "true"}),))).topics
    assert (found.copying_off, found.as_today, found.disk) == (None, None, None)


def test_what_the_look_does_not_tell_needs_a_person() -> None:
    found = aid(Look((topic("orders"),), not_told={"hidden": "DESCRIBE_CONFIGS is missing on it"}))
    assert found.not_told == {"hidden": "DESCRIBE_CONFIGS is missing on it"}
    assert found.needs_a_person


@pytest.mark.parametrize("name", ["remote.storage.enable", "remote.log.copy.disable", "local.retention.ms"])
def test_a_topic_whose_settings_are_withheld_is_named(name: str) -> None:
    found = aid(Look((topic("orders", {name: None}),)))
    assert (found.topics, found.not_told) == ((), {"orders": f"the brokers do not tell {name}"})


def test_a_topic_with_a_name_that_no_topic_can_have_is_named() -> None:
    assert aid(Look((topic("a;b"),))).not_told == {"a;b": "no topic can have this name"}


def test_a_zero_is_proved_by_the_brokers_disks_or_needs_a_person() -> None:
    assert aid(Look()).needs_a_person
    look = Look(others=frozenset({METADATA, "orders"}))
    assert not aid(look, directories(1, 2)).needs_a_person
    assert aid(look, directories(1)).needs_a_person, "broker 2 has not told"


def test_a_topic_on_the_disks_that_was_not_listed_is_named() -> None:
    found = aid(Look((topic("orders"),)), directories(1, 2, hidden=5))
    assert list(found.not_told) == ["hidden"]
    assert (found.needs_a_person, found.proved_whole) == (True, False)


def test_the_bytes_of_today_are_those_of_the_disks() -> None:
    (found,) = aid(Look((topic("orders", {"local.retention.ms": "1000"}),)), directories(1, 2)).topics
    assert found.disk is not None
    assert (found.disk.now_bytes, found.disk.about_bytes) == (20, 20 * 604_800)


def test_no_metadata_topic_is_needed() -> None:
    found = aid(Look((topic("orders"),), others=frozenset()))
    assert (found.has_metadata_topic, found.needs_a_person, found.listed) == (False, False, 1)
