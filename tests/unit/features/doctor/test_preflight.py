# SPDX-License-Identifier: Apache-2.0
"""What is lost if the metadata topic is ever compacted, and what the doctor says of its settings."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.base.clock import time_text
from airflow_provider_rlmm.core.base.documents import plain_of
from airflow_provider_rlmm.core.base.errors import EventLogAccessError
from airflow_provider_rlmm.core.log.in_process import METADATA_TOPIC, InProcessMetadataEventLog
from airflow_provider_rlmm.core.log.metadata_settings import TieredRetention
from airflow_provider_rlmm.core.records.keys import SegmentKey
from airflow_provider_rlmm.core.records.records import COPIER_BROKER_ID, OWN_BROKER_ID, RemoteLogSegmentMetadata
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState as P
from airflow_provider_rlmm.features.doctor.criticals import criticals_of
from airflow_provider_rlmm.features.doctor.diagnosis import ReportedDiagnosis, read_diagnosis
from airflow_provider_rlmm.features.doctor.examine import examine
from airflow_provider_rlmm.features.doctor.findings import Diagnosis, Finding, FindingKind, Severity
from airflow_provider_rlmm.features.doctor.preflight import CompactionPreflight, KeylessRecords
from tests.unit.core.records.events import copied, deleted, deleting, partition_delete, started
from tests.unit.library.topics import NOW_MS, TieredTopics, new_log, topics, user_partition_of

HERE = user_partition_of(0)
OLDER: dict[str, str | None] = {"log.local.retention.ms": "-2"}
NEWER = OLDER | {"log.remote.copy.lag.ms": "0"}
DAY_MS = 86_400_000


def cluster_of(**settings: Any) -> TieredTopics:
    """A cluster with one tiered topic of seven days, and these settings of its metadata topic."""
    cluster = topics()
    cluster.create("orders", HERE.topic_id)
    mine = {name.replace("_", "."): value for name, value in settings.items()}
    cluster.settings = {
        "orders": {"remote.storage.enable": True, "retention.ms": 7 * DAY_MS},
        METADATA_TOPIC: {"remote.storage.enable": False, "cleanup.policy": "delete", "retention.ms": -1} | mine,
    }
    cluster.broker_settings = {1: OLDER}
    return cluster


def diagnose(log: InProcessMetadataEventLog, cluster: TieredTopics) -> Diagnosis:
    return examine(log, cluster, clock=lambda: NOW_MS, chunk_rows=2)


def of_settings(log: InProcessMetadataEventLog, cluster: TieredTopics) -> list[Finding]:
    found = [f for f in diagnose(log, cluster).findings if f.kind is FindingKind.TOPIC_SETTINGS]
    assert all(f.topic == METADATA_TOPIC for f in found)
    return found


def key_of(event: RemoteLogSegmentMetadata) -> bytes:
    segment_id = event.remote_log_segment_id
    tip = segment_id.topic_id_partition
    return bytes(SegmentKey(tip.topic_id, tip.partition, segment_id.id, event.state))


def test_records_without_a_key_are_counted_with_the_newest_time_and_ours_among_them() -> None:
    log = new_log()
    log.append(0, serialize(started(1, partition=HERE)), timestamp_ms=10)
    log.append(0, serialize(replace(copied(1, HERE), broker_id=COPIER_BROKER_ID)), timestamp_ms=40)
    log.append(1, serialize(partition_delete(P.DELETE_PARTITION_MARKED, HERE)), timestamp_ms=30)
    log.append(0, serialize(started(2, partition=HERE)), timestamp_ms=90, key=key_of(started(2, partition=HERE)))
    log.append(0, b"nobody's", timestamp_ms=50)
    assert partition_delete(P.DELETE_PARTITION_MARKED, HERE).broker_id == OWN_BROKER_ID

    preflight = diagnose(log, cluster_of()).preflight
    assert preflight == CompactionPreflight(KeylessRecords(4, 50, 2, 40), TieredRetention("orders", 7 * DAY_MS))
    assert str(preflight) == (
        "Before the metadata topic is ever compacted (KIP-1266): 4 of its records have no key, the newest of "
        "1970-01-01T00:00:00.050+00:00; 2 of them are this package's, the newest of 1970-01-01T00:00:00.040+00:00. "
        "The log cleaner drops them all. Topic orders keeps its data for 7 d: with a shorter "
        "retention.ms brokers forget remote segments whose data still exist."
    )


def test_a_log_in_which_every_record_has_a_key_loses_none_for_lack_of_one() -> None:
    log = new_log()
    log.append(0, serialize(started(2, partition=HERE)), timestamp_ms=90, key=b"any")
    preflight = diagnose(log, topics()).preflight
    assert preflight.keyless == KeylessRecords()
    assert "it has no record without a key. No tiered topic lives." in str(preflight)


class Denied(TieredTopics):
    """Its principal may describe the configurations of these topics, and of no other."""

    allowed: tuple[str, ...] = ()

    def topic_settings(self, names: Iterable[str]) -> dict[str, dict[str, int | bool | str]]:
        if denied := [name for name in names if name not in self.allowed]:
            raise EventLogAccessError(f"describing the configuration of topic {denied[0]!r}")
        return super().topic_settings(names)


def test_what_may_not_be_described_is_said_and_no_zero() -> None:
    cluster = Denied(metadata_topic_id=topics().metadata_topic_id)
    cluster.create("orders", HERE.topic_id)
    cluster.broker_settings = {1: NEWER}
    text = str(diagnose(new_log(), cluster).preflight)
    assert "Which topic keeps its data longest is not known: describing the configuration of topic '" in text
    (finding,) = of_settings(new_log(), cluster)
    assert (finding.severity, finding.detail.partition(":")[0]) == (
        Severity.WARNING,
        "how it is configured is not known",
    )

    cluster.allowed = (METADATA_TOPIC,)
    assert of_settings(new_log(), cluster) == []
    cluster.settings = {METADATA_TOPIC: {"retention.ms": DAY_MS}}
    (finding,) = of_settings(new_log(), cluster)
    assert finding.severity is Severity.WARNING
    assert "has retention.ms=86400000, and whether a topic keeps its data longer is not known" in finding.detail


def test_a_topic_that_keeps_its_records_has_no_finding() -> None:
    assert of_settings(new_log(), cluster_of()) == []


def test_metadata_that_go_before_their_data_are_critical() -> None:
    (finding,) = of_settings(new_log(), cluster_of(retention_ms=DAY_MS))
    assert (finding.severity, finding.topic_id is None) == (Severity.CRITICAL, False)
    assert "topic orders keeps its data for 7 d" in finding.detail

    (problem,) = criticals_of(ReportedDiagnosis.of(diagnose(new_log(), cluster_of(retention_ms=DAY_MS))))
    assert (problem.kind, problem.topic) == ("TOPIC_SETTINGS", METADATA_TOPIC)


def log_with_old_records(oldest_days: int) -> InProcessMetadataEventLog:
    """What is old in metadata partition 0 is finished but for a segment; in 1 a marker is older than its segments."""
    log = new_log()
    old, older = NOW_MS - (oldest_days - 10) * DAY_MS, NOW_MS - oldest_days * DAY_MS
    log.append(0, serialize(started(1, partition=HERE)), timestamp_ms=older - 100 * DAY_MS)
    for event in (copied(1, HERE), deleting(1, HERE), deleted(1, HERE)):
        log.append(0, serialize(event), timestamp_ms=older - 100 * DAY_MS)
    log.append(0, serialize(started(2, partition=HERE)), timestamp_ms=old)
    other = user_partition_of(1)
    log.append(1, serialize(partition_delete(P.DELETE_PARTITION_MARKED, other)), timestamp_ms=older)
    log.append(1, serialize(started(3, partition=other)), timestamp_ms=NOW_MS)
    return log


def test_a_retention_that_is_too_short_for_what_is_still_needed_is_critical() -> None:
    """No topic keeps its data for as long, and yet a marker that nobody finishes would go."""
    log = log_with_old_records(oldest_days=100)
    (finding,) = of_settings(log, cluster_of(retention_ms=129 * DAY_MS))
    assert finding.severity is Severity.CRITICAL
    assert "the oldest record that is still needed is offset 0 of metadata partition 1" in finding.detail
    assert f"may delete it from {time_text(NOW_MS + 29 * DAY_MS)} on" in finding.detail
    assert "that is too soon; set retention.ms=-1 on __remote_log_metadata" in finding.detail


def test_a_retention_that_is_long_enough_now_says_from_when_on_it_is_too_short() -> None:
    log = log_with_old_records(oldest_days=100)
    (finding,) = of_settings(log, cluster_of(retention_ms=131 * DAY_MS))
    assert finding.severity is Severity.NOTICE
    assert f"this is too soon from {time_text(NOW_MS + DAY_MS)} on" in finding.detail
    assert of_settings(log, cluster_of(retention_ms=-1)) == []
    assert of_settings(new_log(), cluster_of(retention_ms=31 * DAY_MS)) == []


@pytest.mark.parametrize(
    ("listed", "advice"),
    [
        ({1: OLDER}, "set cleanup.policy=delete on __remote_log_metadata; what was dropped"),
        ({1: OLDER, 2: NEWER}, "find out the version of every broker"),
        ({1: OLDER, 2: None}, "find out the version of every broker"),
    ],
)
def test_what_to_do_about_compaction_depends_on_the_brokers(
    listed: dict[int, dict[str, str | None] | None], advice: str
) -> None:
    cluster = cluster_of(cleanup_policy="compact,delete")
    cluster.broker_settings = listed
    (finding,) = of_settings(new_log(), cluster)
    assert (finding.severity, advice in finding.detail) == (Severity.CRITICAL, True)


@pytest.mark.parametrize(
    ("at", "key_of_another", "advice"), [(5, False, "leave cleanup.policy"), (50, True, "set cleanup.policy=delete")]
)
def test_it_depends_on_the_keys_that_were_read_and_anybody_may_write_one(
    at: int, key_of_another: bool, advice: str
) -> None:
    """A key that names another record than its own shows nothing, however many have one."""
    log = new_log()
    for number in range(at + 1):
        event = started(number, partition=HERE)
        named = replace(event, remote_log_segment_id=replace(event.remote_log_segment_id, id=UUID(int=9_999)))
        log.append(0, serialize(event), key=key_of(named if key_of_another or number < at else event))
    (finding,) = of_settings(log, cluster_of(cleanup_policy="compact"))
    assert advice in finding.detail
    assert (f"(metadata partition 0 at offset {at})" in finding.detail) is not key_of_another


def test_the_document_has_it_and_an_older_one_has_not() -> None:
    written = plain_of(ReportedDiagnosis.of(diagnose(new_log(), cluster_of())))
    assert read_diagnosis(json.loads(json.dumps(written))).preflight is not None
    del written["preflight"]
    assert read_diagnosis(written).preflight is None
