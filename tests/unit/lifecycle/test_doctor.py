# SPDX-License-Identifier: Apache-2.0
"""Every finding of the doctor, at its exact partition and offset, on the in-process log."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from airflow_provider_rlmm.lifecycle.doctor import examine
from airflow_provider_rlmm.lifecycle.trail import Trail
from airflow_provider_rlmm.manager.event_log import ClusterTopics
from airflow_provider_rlmm.manager.in_process import InProcessMetadataEventLog
from airflow_provider_rlmm.metadata.outcomes import EventFate
from airflow_provider_rlmm.metadata.records import RemoteLogSegmentMetadataSnapshot, kafka_uuid_str
from airflow_provider_rlmm.metadata.serde import serialize
from airflow_provider_rlmm.metadata.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.metadata.states import RemotePartitionDeleteState as P
from airflow_provider_rlmm.policy.findings import EXPLANATIONS, Diagnosis, Finding, FindingKind, Severity, since
from tests.unit.manager.topics import NOW_MS, new_log, put, topics, user_partition_of
from tests.unit.metadata.events import copied, deleted, deleting, partition_delete, started, update

K = FindingKind
HERE, THERE = user_partition_of(0), user_partition_of(1)
ADDED = serialize(started(7, partition=HERE))
SNAPSHOT = serialize(
    RemoteLogSegmentMetadataSnapshot(
        UUID(int=3), 0, 9, 1, 1, 2, 3, None, S.COPY_SEGMENT_STARTED, ((0, 0),), False
    )
)  # fmt: skip
UNREADABLE = {
    "null value": (None, K.TOMBSTONE),
    "empty": (b"", K.MALFORMED),
    "garbage": (b"\1\0\0garbage", K.MALFORMED),
    "unknown api key": (b"\1\t\0", K.UNKNOWN_API_KEY),
    "newer version": (b"\1\0\1" + ADDED[3:], K.NEWER_VERSION),
    "truncated": (ADDED[:-5], K.MALFORMED),
    "state 9": (serialize(copied(7, HERE))[:-2] + b"\x09\0", K.MALFORMED),
    "frame version 0": (b"\0" + ADDED[1:], K.MALFORMED),
    "snapshot": (SNAPSHOT, K.SNAPSHOT),
}


def live(*names: str) -> ClusterTopics:
    cluster = topics()
    cluster.topics |= dict.fromkeys(names, HERE.topic_id)
    return cluster


def diagnose(log: InProcessMetadataEventLog, cluster: ClusterTopics | None = None, **options: Any) -> Diagnosis:
    return examine(log, cluster or live("orders"), clock=lambda: NOW_MS, **options)


def found(diagnosis: Diagnosis) -> list[tuple[FindingKind, int, int]]:
    return [(f.kind, f.metadata_partition, f.offset) for f in diagnosis.findings]


@pytest.fixture
def log() -> InProcessMetadataEventLog:
    """A clean topic: one segment copied in each metadata partition, one deleted; three records in 1, two in 0."""
    log = new_log()
    put(log, started(1, partition=HERE), copied(1, HERE), started(2, partition=THERE), copied(2, THERE))
    put(log, started(3, partition=THERE), copied(3, THERE), deleting(3, THERE), deleted(3, THERE))
    return log


def test_a_clean_topic_has_no_findings(log: InProcessMetadataEventLog) -> None:
    put(log, *(partition_delete(state, replace(HERE, topic_id=UUID(int=8))) for state in P))
    diagnosis = diagnose(log, min_age_ms=0)
    assert (diagnosis.findings, diagnosis.counts, diagnosis.critical, diagnosis.recoveries) == ((), {}, 0, ())
    assert (diagnosis.records, diagnosis.segments, sum(diagnosis.read_until.values())) == (11, 2, 11)
    assert diagnose(new_log()).findings == ()


@pytest.mark.parametrize(("value", "kind"), UNREADABLE.values(), ids=UNREADABLE.keys())
def test_records_that_no_broker_can_read(
    log: InProcessMetadataEventLog, value: bytes | None, kind: FindingKind
) -> None:
    offset = log.append(0, value, timestamp_ms=77)
    put(log, started(4, partition=HERE), copied(4, HERE))
    diagnosis = diagnose(log, live())
    assert found(diagnosis) == [(kind, 0, offset)]
    [finding] = diagnosis.findings
    # A snapshot record has a time of its own.
    assert (finding.severity, finding.since_ms) == (Severity.CRITICAL, 2 if kind is K.SNAPSHOT else 77)
    assert finding.detail
    [recovery] = diagnosis.recoveries
    # The segment after the pill is not lost.
    assert (recovery.metadata_partition, recovery.delete_before_offset) == (0, offset + 1)
    assert (recovery.records, recovery.segments, recovery.user_partitions) == (3, 1, 1)
    assert f"DeleteRecords before offset {offset + 1}" in str(recovery)


def test_recovery_goes_past_the_last_pill_whatever_its_kind(log: InProcessMetadataEventLog) -> None:
    first, last = log.append(0, b""), log.append(0, None)
    diagnosis = diagnose(log)
    assert {f.offset for f in diagnosis.findings} == {first, last}
    assert [r.delete_before_offset for r in diagnosis.recoveries] == [last + 1]


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (started(9, partition=HERE, state=S.COPY_SEGMENT_FINISHED), K.ADD_IN_OTHER_STATE),
        (update(4, S.COPY_SEGMENT_STARTED, partition=HERE), K.UPDATE_TO_COPY_STARTED),
    ],
)
def test_steps_that_throw_are_critical_where_the_topic_exists(
    log: InProcessMetadataEventLog, event: Any, kind: FindingKind
) -> None:
    put(log, started(4, partition=HERE))
    [(metadata_partition, offset)] = put(log, event)
    alive, gone = (diagnose(log, cluster, min_age_ms=NOW_MS) for cluster in (live("orders"), live()))
    assert found(alive) == found(gone) == [(kind, metadata_partition, offset)]
    assert [alive.findings[0].severity, gone.findings[0].severity] == [Severity.CRITICAL, Severity.WARNING]
    assert [alive.critical, gone.critical, len(alive.recoveries), len(gone.recoveries)] == [1, 0, 1, 0]
    assert alive.findings[0].segment_id == kafka_uuid_str(event.remote_log_segment_id.id)
    assert (alive.findings[0].topic, alive.findings[0].partition) == ("orders", HERE.partition)


def test_an_event_after_finished_is_critical_where_the_topic_exists(log: InProcessMetadataEventLog) -> None:
    deletions = put(log, *(partition_delete(state, HERE) for state in P))
    [after] = put(log, deleting(1, HERE))
    gone = diagnose(log, live())
    assert [(f.kind, f.severity) for f in gone.findings] == [(K.EVENT_AFTER_FINISHED, Severity.WARNING)]
    alive = diagnose(log)
    assert found(alive) == [(K.EVENT_AFTER_FINISHED, *after), (K.LIVE_PARTITION_FINISHED, *deletions[-1])]
    assert alive.recoveries[0].delete_before_offset == after[1] + 1
    assert "broker that serves the partition" in EXPLANATIONS[K.EVENT_AFTER_FINISHED].meaning


def test_what_an_event_is_called_in_words_decides_nothing(
    log: InProcessMetadataEventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(log, *(partition_delete(state, HERE) for state in P), deleting(1, HERE), copied(44, THERE))
    before = diagnose(log)
    monkeypatch.setattr("airflow_provider_rlmm.metadata.outcomes._REASONS", dict.fromkeys(EventFate, "other words"))
    assert found(diagnose(log)) == found(before)
    assert {f.kind for f in before.findings} == {
        K.EVENT_AFTER_FINISHED, K.LIVE_PARTITION_FINISHED, K.UPDATE_WITHOUT_BASE
    }  # fmt: skip


def test_finished_alone_of_a_live_partition(log: InProcessMetadataEventLog) -> None:
    deletions = put(log, *(partition_delete(state, HERE) for state in P))
    diagnosis = diagnose(log)
    assert found(diagnosis) == [(K.LIVE_PARTITION_FINISHED, *deletions[-1])]
    assert (diagnosis.critical, diagnosis.findings[0].since_ms) == (1, 4_000)


def test_illegal_transitions_of_segments_and_of_partitions(log: InProcessMetadataEventLog) -> None:
    [segment] = put(log, deleted(1, HERE))
    gone = replace(THERE, topic_id=UUID(int=6))
    places = put(log, *(partition_delete(state, gone) for state in (P.DELETE_PARTITION_STARTED, *P)))
    diagnosis = diagnose(log)
    # STARTED out of nothing, and MARKED after it.
    assert found(diagnosis) == [(K.ILLEGAL_TRANSITION, *place) for place in sorted([segment, *places[:2]])]
    details = [f.detail for f in diagnosis.findings]
    assert "nothing → DELETE_PARTITION_STARTED" in details
    assert "DELETE_PARTITION_STARTED → DELETE_PARTITION_MARKED" in details


def test_repeated_and_reopened_deletions_are_legal(log: InProcessMetadataEventLog) -> None:
    gone = replace(HERE, topic_id=UUID(int=6))
    put(log, *(partition_delete(state, gone) for state in P for _ in range(2)), *(partition_delete(s, gone) for s in P))
    assert diagnose(log).findings == ()


def test_updates_without_base_record(log: InProcessMetadataEventLog) -> None:
    [unknown] = put(log, copied(44, HERE))
    [repeated] = put(log, deleted(3, THERE))
    diagnosis = diagnose(log)
    assert [(f.kind, f.metadata_partition, f.offset, f.severity) for f in diagnosis.findings] == [
        (K.UPDATE_WITHOUT_BASE, *unknown, Severity.WARNING),
        (K.UPDATE_WITHOUT_BASE, *repeated, Severity.NOTICE),
    ]


def test_incomplete_history_names_the_user_partitions(log: InProcessMetadataEventLog) -> None:
    put(log, started(4, partition=HERE), copied(4, HERE))
    log.truncate(0, 2)
    [finding] = diagnose(log).findings
    assert (finding.kind, finding.metadata_partition, finding.offset) == (K.INCOMPLETE_HISTORY, 0, 2)
    assert (finding.topic, finding.partition, finding.topic_id) == (
        "orders", HERE.partition, kafka_uuid_str(HERE.topic_id)
    )  # fmt: skip
    assert finding.detail == "metadata partition 0: the records of offsets 0 to 1 are gone"


def test_incomplete_history_of_which_nothing_is_left(log: InProcessMetadataEventLog) -> None:
    log.truncate(0, 2)
    [finding] = diagnose(log).findings
    assert (finding.kind, finding.metadata_partition, finding.offset, finding.topic) == (
        K.INCOMPLETE_HISTORY,
        0,
        2,
        None,
    )


def test_a_deletion_whose_beginning_is_gone_is_no_illegal_one(log: InProcessMetadataEventLog) -> None:
    gone = replace(HERE, topic_id=UUID(int=6), partition=user_partition_of(0).partition)
    places = put(log, *(partition_delete(state, gone) for state in P))
    log.truncate(places[1][0], places[1][1])
    assert K.ILLEGAL_TRANSITION not in diagnose(log).counts


def test_misrouted_and_keyed_records(log: InProcessMetadataEventLog) -> None:
    misrouted = log.append(1, serialize(started(4, partition=HERE)))
    keyed = log.append(0, serialize(copied(1, HERE)), b"key")
    diagnosis = diagnose(log)
    assert found(diagnosis) == [(K.MISROUTED, 1, misrouted), (K.KEYED, 0, keyed)]
    assert [f.severity for f in diagnosis.findings] == [Severity.WARNING, Severity.NOTICE]
    assert diagnosis.findings[0].detail == "belongs into metadata partition 0, was read from 1"


def test_markers_that_are_never_settled(log: InProcessMetadataEventLog) -> None:
    gone = replace(HERE, topic_id=UUID(int=6))
    other = replace(THERE, topic_id=UUID(int=8))
    [_, begun] = put(log, partition_delete(P.DELETE_PARTITION_MARKED, gone), partition_delete(P(1), gone))
    [marked] = put(log, partition_delete(P.DELETE_PARTITION_MARKED, other))
    diagnosis = diagnose(log)
    assert found(diagnosis) == [(K.UNSETTLED_MARKER, *begun), (K.UNSETTLED_MARKER, *marked)]
    assert [f.since_ms for f in diagnosis.findings] == [4_000, 4_000]
    assert diagnosis.findings[0].detail == "DELETE_PARTITION_STARTED is its last event"
    assert diagnose(log, min_age_ms=NOW_MS).findings == ()


def test_segments_stuck_in_started_and_since_when(log: InProcessMetadataEventLog) -> None:
    [copying] = put(log, started(4, partition=HERE))
    put(log, started(5, partition=THERE), copied(5, THERE))
    places = put(log, deleting(5, THERE), replace(deleting(5, THERE), event_timestamp_ms=9_000))
    # Dropped, and thrown: they change nothing, the offsets neither.
    put(log, started(5, partition=THERE), update(4, S.COPY_SEGMENT_STARTED, partition=HERE))
    diagnosis = diagnose(log)
    stuck = [f for f in diagnosis.findings if f.kind is K.STUCK_SEGMENT]
    assert [(f.metadata_partition, f.offset, f.since_ms, f.detail) for f in stuck] == [
        (*copying, 2_000, "COPY_SEGMENT_STARTED"),
        (*places[1], 9_000, "DELETE_SEGMENT_STARTED"),
    ]
    assert diagnose(log, min_age_ms=NOW_MS - 2_000).counts[K.STUCK_SEGMENT] == 1
    assert K.STUCK_SEGMENT not in diagnose(log, min_age_ms=NOW_MS).counts


def test_findings_are_limited_and_counted(log: InProcessMetadataEventLog) -> None:
    for _ in range(30):
        log.append(0, None)
        log.append(1, b"")
        put(log, copied(44, HERE))
    for number in range(50, 80):
        put(log, started(number, partition=HERE))
    diagnosis = diagnose(log, limit_per_kind=3)
    assert dict(diagnosis.counts) == {K.TOMBSTONE: 30, K.MALFORMED: 30, K.UPDATE_WITHOUT_BASE: 30, K.STUCK_SEGMENT: 30}
    assert [f.kind for f in diagnosis.findings].count(K.TOMBSTONE) == 3
    assert (len(diagnosis.findings), diagnosis.critical) == (12, 60)
    last = log.high_water_marks()[1] - 1
    assert [r.delete_before_offset for r in diagnosis.recoveries][1] == last + 1


@pytest.mark.parametrize("chunk_rows", [1, 3, 1_000])
def test_the_chunks_of_the_reading_change_nothing(
    log: InProcessMetadataEventLog, chunk_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_provider_rlmm.lifecycle.doctor.Trail", lambda: Trail(prune_rows=0))
    monkeypatch.setattr("airflow_provider_rlmm.manager.in_process.BATCH_ROWS", chunk_rows)
    for metadata_partition in (0, 1):
        put(log, started(4, partition=HERE), copied(4, HERE), deleting(4, HERE), copied(44, THERE))
        log.append(metadata_partition, None)
    put(log, started(5, partition=HERE), started(6, partition=THERE))
    diagnosis = diagnose(log, chunk_rows=chunk_rows)
    assert dict(diagnosis.counts) == {
        K.TOMBSTONE: 2, K.ILLEGAL_TRANSITION: 2, K.UPDATE_WITHOUT_BASE: 2, K.STUCK_SEGMENT: 3
    }  # fmt: skip
    assert [r.segments for r in diagnosis.recoveries] == [2, 1]


def test_what_comes_from_the_log_is_shown_as_data(log: InProcessMetadataEventLog) -> None:
    evil = replace(HERE, topic="evil\x1b[31m\n<b>" + "x" * 1_000)
    put(log, copied(44, evil), replace(deleting(45, evil), event_timestamp_ms=2**62))
    diagnosis = diagnose(log)
    finding = diagnosis.findings[0]
    assert finding.topic is not None
    assert finding.topic.startswith(r"'evil\x1b[31m\n<b>xxx")
    assert (len(finding.topic), finding.topic[-2:]) == (258, "'…")
    assert since(2**62) == f"{2**62} ms"
    assert json.loads(json.dumps(diagnosis.to_dict()))["counts"] == {"UPDATE_WITHOUT_BASE": 2}
    assert "\n" not in str(finding)


def test_every_kind_is_explained() -> None:
    assert EXPLANATIONS.keys() == set(FindingKind)


def test_a_finding_in_words() -> None:
    finding = Finding(K.TOMBSTONE, Severity.CRITICAL, 3, 17, since_ms=0, detail="the value is null")
    assert str(finding) == (
        "CRITICAL TOMBSTONE in metadata partition 3 at offset 17, since 1970-01-01 00:00:00 UTC: the value is null"
    )


def test_nothing_is_written(log: InProcessMetadataEventLog) -> None:
    before = log.high_water_marks()
    diagnose(log)
    assert log.high_water_marks() == before
