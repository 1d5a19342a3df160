# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from airflow_provider_rlmm.core.log.broker_versions import (
    SETTINGS_SINCE,
    BrokerVersion,
    brokers_in_text,
    version_in_text,
    version_of,
    versions_of,
)

OLDER = frozenset({"log.local.retention.ms", "log.retention.ms"})
NEWER = OLDER | {"log.remote.copy.lag.ms"}


@pytest.mark.parametrize(
    ("listed", "version"),
    [
        (OLDER, BrokerVersion((3, 6), (4, 4))),
        (NEWER, BrokerVersion((4, 4))),
        # An older setting may go some day.
        (NEWER - OLDER, BrokerVersion((4, 4))),
    ],
)
def test_a_broker_is_as_new_as_its_newest_setting_and_older_than_the_next(
    listed: frozenset[str], version: BrokerVersion
) -> None:
    assert version_of(listed) == version


@pytest.mark.parametrize("listed", [None, frozenset(), frozenset({"log.retention.ms"})])
def test_who_refuses_or_shows_a_choice_only_has_no_known_version(listed: frozenset[str] | None) -> None:
    assert version_of(listed) == BrokerVersion()
    assert not version_of(listed).is_known
    assert not version_of(listed).has_all_of((3, 6))


def test_each_broker_has_a_version_of_its_own() -> None:
    assert versions_of({3: None, 1: NEWER, 2: OLDER}) == {
        1: BrokerVersion((4, 4)),
        2: BrokerVersion((3, 6), (4, 4)),
        3: BrokerVersion(),
    }
    assert [version.has_all_of((4, 4)) for version in versions_of({1: NEWER, 2: OLDER}).values()] == [True, False]


def test_the_settings_are_in_the_order_of_their_versions() -> None:
    assert list(SETTINGS_SINCE.values()) == sorted(SETTINGS_SINCE.values())


def test_brokers_are_named_and_all_are_counted() -> None:
    assert brokers_in_text([1]) == "broker 1"
    assert brokers_in_text(range(12)) == "brokers 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more"
    assert version_in_text((4, 3, 2)) == "4.3.2"
