# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from uuid import uuid4

import pytest

from airflow_provider_rlmm.core.log.broker_versions import versions_of
from airflow_provider_rlmm.core.log.kafka.admin import MetadataTopicDescription, PartitionReplicas
from airflow_provider_rlmm.core.log.kafka.health import check_metadata_topic, metadata_topic_findings
from airflow_provider_rlmm.core.log.metadata_settings import (
    HealthSeverity,
    MetadataWriters,
    TieredRetention,
    longest_tiered_retention,
)

DAY_MS = 86_400_000
TOPIC = "__remote_log_metadata"
ORDERS = TieredRetention("orders", 7 * DAY_MS)
NOBODY_ASKED = MetadataWriters()
OLDER, NEWER = frozenset({"log.local.retention.ms"}), frozenset({"log.local.retention.ms", "log.remote.copy.lag.ms"})
SET_BACK = "set cleanup.policy=delete on __remote_log_metadata"


def described(*in_sync: int, replicas: int = 3, leader: bool = True, **settings: int | str) -> MetadataTopicDescription:
    return MetadataTopicDescription(
        uuid4(),
        len(in_sync),
        {"cleanup.policy": "delete", "min.insync.replicas": 2, "retention.bytes": -1, "retention.ms": -1}
        | {name.replace("_", "."): value for name, value in settings.items()},
        None,
        tuple(PartitionReplicas(n, leader, count, replicas) for n, count in enumerate(in_sync)),
    )


def findings_of(description, longest=ORDERS, writers=NOBODY_ASKED):
    return metadata_topic_findings(TOPIC, description, longest, writers)


def test_a_topic_as_it_must_be_has_no_findings():
    assert findings_of(described(3, 3)) == []
    assert findings_of(described(3, 3), None) == []


@pytest.mark.parametrize(
    ("in_sync", "replicas", "min_isr", "expected"),
    [
        (1, 3, 2, HealthSeverity.ERROR),
        (2, 3, 3, HealthSeverity.ERROR),
        (2, 3, 2, HealthSeverity.WARNING),
        # What the broker itself sets up at replication factor 1.
        (1, 1, 2, None),
        (2, 2, 3, None),
        (3, 3, 2, None),
    ],
)
def test_in_sync_replicas_are_counted_against_the_smaller_of_the_two(in_sync, replicas, min_isr, expected):
    found = findings_of(described(in_sync, replicas=replicas, min_insync_replicas=min_isr))

    assert [finding.severity for finding in found] == ([expected] if expected else [])


def test_short_partitions_are_named():
    (error, warning) = findings_of(described(3, 1, 2, 1))

    assert str(error) == (
        "metadata partitions 1, 3 of __remote_log_metadata have fewer in-sync replicas than min.insync.replicas=2 asks for "
        "(1 of 3): brokers refuse every event that belongs there, so nothing is copied, marked or cleaned; start the brokers "
        "that keep the missing replicas, or wait until they have caught up"
    )
    assert warning.what.startswith("metadata partition 2 of __remote_log_metadata has replicas that are not in sync")


def test_a_long_list_is_cut():
    (error,) = findings_of(described(*[1] * 50))

    assert "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 40 more of" in error.what


def test_a_partition_without_a_leader_is_an_error_of_its_own():
    (error,) = findings_of(described(0, leader=False))

    assert error.severity is HealthSeverity.ERROR
    assert "metadata partition 0 of __remote_log_metadata has no leader" in str(error)


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_compaction_is_an_error_and_brokers_that_write_no_keys_have_it_set_back(policy):
    writers = MetadataWriters(versions=versions_of({1: OLDER, 2: OLDER}))
    (error,) = findings_of(described(3, cleanup_policy=policy), writers=writers)

    assert error.severity is HealthSeverity.ERROR
    assert f"cleanup.policy={policy}" in error.what
    assert "brokers older than 4.4 write no others" in error.why
    assert error.what_to_do == f"{SET_BACK}; what was dropped meanwhile stays lost"


@pytest.mark.parametrize(
    ("listed", "of_whom"),
    [
        ({1: OLDER, 2: NEWER}, " of broker 2, by the settings that they list"),
        ({1: OLDER, 2: None}, " of broker 2, by the settings that they list"),
        ({}, ""),
    ],
)
def test_where_brokers_may_write_keys_their_version_comes_first(listed, of_whom):
    writers = MetadataWriters(versions=versions_of(listed))
    (error,) = findings_of(described(3, cleanup_policy="compact"), writers=writers)

    assert error.why.endswith(f"whether its brokers write keys (KIP-1266) is not known{of_whom}")
    assert error.what_to_do.startswith(
        "find out the version of every broker: Kafka up to 4.4.0 writes no keys, then set"
    )
    assert error.what_to_do.endswith("else leave it as it is")


def test_where_keys_were_read_it_is_left_as_it_is_whatever_the_versions_say():
    writers = MetadataWriters("metadata partition 3 at offset 7", versions_of({1: OLDER}))
    (error,) = findings_of(described(3, cleanup_policy="compact,delete"), writers=writers)

    assert "its brokers write records with keys (metadata partition 3 at offset 7)" in error.why
    assert error.what_to_do.startswith("leave cleanup.policy of __remote_log_metadata as it is")
    assert SET_BACK not in str(error)


def test_a_topic_without_any_policy_keeps_its_records():
    assert findings_of(described(3, cleanup_policy="")) == []


@pytest.mark.parametrize(
    ("retention_ms", "longest", "bad"),
    [
        (7 * DAY_MS - 1, ORDERS, True),
        (7 * DAY_MS, ORDERS, False),
        (8 * DAY_MS, ORDERS, False),
        (-1, ORDERS, False),
        (10**15, TieredRetention("audit", -1), True),
        (1, None, False),
    ],
)
def test_a_finite_retention_must_not_be_shorter_than_the_longest_of_the_data(retention_ms, longest, bad):
    found = findings_of(described(3, retention_ms=retention_ms), longest)

    assert [finding.severity for finding in found] == [HealthSeverity.ERROR] * bad
    if bad:
        assert f"retention.ms={retention_ms}" in found[0].what
        assert f"topic {longest.topic} keeps its data" in found[0].what


def test_a_limit_of_bytes_loses_metadata_too():
    (error,) = findings_of(described(3, retention_bytes=1_000))

    assert "retention.bytes=1000" in error.what


def test_the_longest_retention_is_that_of_a_tiered_topic():
    settings = {
        "plain": {"remote.storage.enable": False, "retention.ms": -1},
        "short": {"remote.storage.enable": True, "retention.ms": 5},
        "long": {"remote.storage.enable": True, "retention.ms": 6},
    }

    assert longest_tiered_retention(settings) == TieredRetention("long", 6)
    ever = {"ever": {"remote.storage.enable": True, "retention.ms": -1}}
    assert longest_tiered_retention(settings | ever) == TieredRetention("ever", -1)
    assert longest_tiered_retention({"plain": settings["plain"]}) is None


class Topics:
    """A cluster of one tiered topic that counts who asks for all settings."""

    def __init__(self):
        self.asked = 0

    def topic_names(self):
        return frozenset({"orders"})

    def topic_settings(self, names):
        self.asked += 1
        return {name: {"remote.storage.enable": True, "retention.ms": 7 * DAY_MS} for name in names}

    def broker_setting_names(self):
        self.asked += 1
        return {1: OLDER}


def test_all_topics_are_asked_only_where_their_retention_matters():
    topics = Topics()

    assert check_metadata_topic(topics, described(3)) == []
    assert topics.asked == 0
    assert len(check_metadata_topic(topics, described(3, retention_ms=DAY_MS))) == 1
    assert topics.asked == 1


def test_brokers_are_asked_for_their_versions_only_where_the_topic_is_compacted():
    topics = Topics()

    (error,) = check_metadata_topic(topics, described(3, cleanup_policy="compact"))
    assert (topics.asked, error.what_to_do.partition(";")[0]) == (1, SET_BACK)
