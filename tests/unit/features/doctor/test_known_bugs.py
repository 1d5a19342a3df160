# SPDX-License-Identifier: Apache-2.0
"""Which topics the doctor names for a bug of brokers: by the topics' settings, and by what each broker lists of its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.base.errors import EventLogAccessError
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.features.doctor.examine import examine
from airflow_provider_rlmm.features.doctor.findings import Finding, FindingKind, Severity
from airflow_provider_rlmm.features.doctor.known_bugs import KNOWN_BUGS
from tests.unit.library.topics import NOW_MS, TieredTopics, new_log, topics

OLDER: dict[str, str | None] = {"log.local.retention.ms": "-2"}
NEWER = OLDER | {"log.remote.copy.lag.ms": "0"}
SIZED = {"remote.storage.enable": True, "retention.bytes": 1_000}


def cluster_of(settings: dict[str, dict[str, Any]], **brokers: dict[str, str | None] | None) -> TieredTopics:
    cluster = topics()
    for number, name in enumerate(settings, start=1):
        cluster.create(name, UUID(int=number))
    cluster.settings = settings
    cluster.broker_settings = {int(name.removeprefix("b")): listed for name, listed in brokers.items()}
    return cluster


def bugs(cluster: TieredTopics) -> list[Finding]:
    found = examine(new_log(), cluster, clock=lambda: NOW_MS).findings
    return [finding for finding in found if finding.kind is FindingKind.KNOWN_BUG]


def test_a_tiered_topic_with_retention_by_size_is_named_with_the_setting_the_bug_and_its_fixes() -> None:
    other: dict[str, dict[str, Any]] = {
        "limitless": SIZED | {"retention.bytes": -1},
        "local": SIZED | {"remote.storage.enable": False},
    }
    (finding,) = bugs(cluster_of({"orders": SIZED} | other, b1=OLDER, b2=OLDER))

    assert (finding.topic, finding.topic_id) == ("orders", kafka_uuid_str(UUID(int=1)))
    assert (finding.severity, finding.metadata_partition, finding.offset) == (Severity.WARNING, None, None)
    assert finding.detail.startswith("KAFKA-20732: ")
    assert finding.detail.endswith(
        "; the topic has retention.bytes=1000; older than 4.4, unless 4.3.2 or later in its line: brokers 1, 2; "
        "fixed in 4.3.2 of its line and 4.4 (apache/kafka pull request 22661)"
    )


def test_nobody_is_named_where_every_broker_is_newer() -> None:
    assert bugs(cluster_of({"orders": SIZED}, b1=NEWER, b2=NEWER)) == []


def test_one_older_broker_is_enough() -> None:
    (finding,) = bugs(cluster_of({"orders": SIZED}, b1=NEWER, b2=OLDER))
    assert "in its line: broker 2; " in finding.detail


@pytest.mark.parametrize("withheld", [None, {}, {"log.retention.ms": "1"}])
def test_a_broker_that_withholds_or_does_not_answer_is_never_taken_as_fine(withheld: dict[str, str | None]) -> None:
    (finding,) = bugs(cluster_of({"orders": SIZED}, b1=NEWER, b3=withheld))
    assert "of an unknown version, as it withholds its settings or does not answer: broker 3; " in finding.detail
    assert "older than" not in finding.detail


def test_where_no_broker_is_listed_nothing_is_known() -> None:
    (finding,) = bugs(cluster_of({"orders": SIZED}))
    assert "of which versions the brokers are is not known: none was listed" in finding.detail


class Denied(TieredTopics):
    def topic_settings(self, names: Iterable[str]) -> dict[str, dict[str, int | bool | str]]:
        raise EventLogAccessError("describing the configuration of topic 'orders'")


def test_where_the_topics_settings_may_not_be_described_it_says_that_it_does_not_know() -> None:
    denied = Denied(metadata_topic_id=topics().metadata_topic_id)
    denied.create("orders")
    denied.broker_settings = {1: OLDER}
    (finding,) = bugs(denied)
    assert (finding.topic, finding.severity) == (None, Severity.WARNING)
    assert "which topics it concerns is not known: describing the configuration of topic 'orders'" in finding.detail
    assert str(finding).startswith("WARNING KNOWN_BUG: KAFKA-20732: ")

    denied.broker_settings = {1: NEWER}
    assert bugs(denied) == []


class Unasked(TieredTopics):
    def broker_setting_names(self) -> dict[int, frozenset[str] | None]:
        raise AssertionError("no topic is concerned")


def test_brokers_are_asked_only_where_a_topic_is_concerned() -> None:
    cluster = Unasked(metadata_topic_id=topics().metadata_topic_id)
    cluster.create("orders")
    assert bugs(cluster) == []


def test_every_bug_says_what_it_is_and_where_that_was_read() -> None:
    for bug in KNOWN_BUGS:
        assert bug.number.startswith("KAFKA-")
        assert bug.source
        assert all(version < bug.fixed_in for version in bug.patched_in)
