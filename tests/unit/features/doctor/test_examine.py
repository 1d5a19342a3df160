# SPDX-License-Identifier: Apache-2.0
"""Every finding of the doctor, at its exact partition and offset, on the in-process log."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.base.clock import HOUR_MS, duration_in_words, since
from airflow_provider_rlmm.core.base.documents import plain_of
from airflow_provider_rlmm.core.base.errors import ClusterMismatchError, EventLogAccessError
from airflow_provider_rlmm.core.log.in_process import InProcessMetadataEventLog
from airflow_provider_rlmm.core.records.era import Era
from airflow_provider_rlmm.core.records.keys import SegmentKey
from airflow_provider_rlmm.core.records.outcomes import EventFate
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentMetadataSnapshot,
    SegmentEvent,
    kafka_uuid_str,
)
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState as P
from airflow_provider_rlmm.features.doctor.diagnosis import ReportedDiagnosis
from airflow_provider_rlmm.features.doctor.examine import examine
from airflow_provider_rlmm.features.doctor.findings import (
    EXPLANATIONS,
    Diagnosis,
    Finding,
    FindingKind,
    Severity,
)
from tests.record_limits import MOST_TAGS, tags
from tests.unit.core.records.events import copied, deleted, deleting, partition_delete, started, update
from tests.unit.library.topics import NOW_MS, TieredTopics, new_log, put, topics, user_partition_of

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


def live(*names: str) -> TieredTopics:
    cluster = topics()
    cluster.topics |= dict.fromkeys(names, HERE.topic_id)
    return cluster


def diagnose(
    log: InProcessMetadataEventLog, cluster: TieredTopics | None = None, *, max_copy_ms: int = NOW_MS, **options: Any
) -> Diagnosis:
    return examine(log, cluster or live("orders"), clock=lambda: NOW_MS, max_copy_ms=max_copy_ms, **options)


def found(diagnosis: Diagnosis) -> list[tuple[FindingKind, int, int]]:
    """Everything but what says how much a finding concerns."""
    return [(f.kind, f.metadata_partition, f.offset) for f in diagnosis.findings if f.kind is not K.UNDER_PROOF]


def only(diagnosis: Diagnosis, kind: FindingKind) -> list[Finding]:
    return [f for f in diagnosis.findings if f.kind is kind]


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
    [finding] = only(diagnosis, kind)
    # A snapshot record has a time of its own.
    assert (finding.severity, finding.since_ms) == (Severity.CRITICAL, 2 if kind is K.SNAPSHOT else 77)
    assert finding.detail
    [recovery] = diagnosis.recoveries
    # The segment after the pill is not lost.
    assert (recovery.metadata_partition, recovery.delete_before_offset) == (0, offset + 1)
    assert (recovery.records, recovery.segments, recovery.bytes, recovery.user_partitions) == (3, 1, 4_096, 1)
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
    gone = diagnose(log, live(), min_age_ms=NOW_MS)
    assert [(f.kind, f.severity) for f in gone.findings] == [(K.EVENT_AFTER_FINISHED, Severity.WARNING)]
    alive = diagnose(log, min_age_ms=NOW_MS)
    assert found(alive) == [(K.EVENT_AFTER_FINISHED, *after), (K.LIVE_PARTITION_FINISHED, *deletions[-1])]
    assert alive.recoveries[0].delete_before_offset == after[1] + 1
    assert "broker that serves the partition" in EXPLANATIONS[K.EVENT_AFTER_FINISHED].meaning


def test_what_an_event_is_called_in_words_decides_nothing(
    log: InProcessMetadataEventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(log, *(partition_delete(state, HERE) for state in P), deleting(1, HERE), copied(44, THERE))
    before = diagnose(log)
    monkeypatch.setattr("airflow_provider_rlmm.core.records.outcomes._REASONS", dict.fromkeys(EventFate, "other words"))
    assert found(diagnose(log)) == found(before)
    assert {f.kind for f in before.findings} == {
        K.EVENT_AFTER_FINISHED, K.LIVE_PARTITION_FINISHED, K.STUCK_SEGMENT, K.UPDATE_WITHOUT_BASE
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


@pytest.mark.parametrize(
    ("policy", "kind"),
    [({"delete"}, K.ILLEGAL_TRANSITION), ({"compact", "delete"}, K.COMPACTED_STEP), ({"compact"}, K.COMPACTED_STEP)],
)
def test_a_step_that_is_missing_is_no_illegal_one_where_the_log_cleaner_takes_them(
    log: InProcessMetadataEventLog, policy: set[str], kind: FindingKind
) -> None:
    log.policy = frozenset(policy)
    event = replace(deleted(1, HERE), end_offset=started(1, partition=HERE).end_offset, broker_leader_epoch=0)
    of_a_segment = (0, log.append(0, serialize(event), segment_key(event)))
    gone = replace(HERE, topic_id=UUID(int=6))
    (of_a_partition,) = put(log, partition_delete(P.DELETE_PARTITION_STARTED, gone))
    # No step between them leads back.
    _, backwards = put(log, deleting(2, THERE), copied(2, THERE))
    diagnosis = diagnose(log)
    assert {(f.metadata_partition, f.offset) for f in only(diagnosis, kind)} >= {of_a_segment, of_a_partition}
    assert backwards in [(f.metadata_partition, f.offset) for f in only(diagnosis, K.ILLEGAL_TRANSITION)]
    assert diagnosis.counts[K.ILLEGAL_TRANSITION] == (3 if kind is K.ILLEGAL_TRANSITION else 1)
    assert {f.severity for f in only(diagnosis, K.COMPACTED_STEP)} <= {Severity.NOTICE}


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
    [finding] = only(diagnose(log), K.INCOMPLETE_HISTORY)
    assert (finding.kind, finding.metadata_partition, finding.offset) == (K.INCOMPLETE_HISTORY, 0, 2)
    assert (finding.topic, finding.partition, finding.topic_id) == (
        "orders", HERE.partition, kafka_uuid_str(HERE.topic_id)
    )  # fmt: skip
    assert finding.detail == "metadata partition 0: the records of offsets 0 to 1 are gone"


def test_incomplete_history_of_which_nothing_is_left(log: InProcessMetadataEventLog) -> None:
    log.truncate(0, 2)
    [finding] = only(diagnose(log), K.INCOMPLETE_HISTORY)
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


def test_what_newer_kafkas_refuse_is_critical_before_they_are_there(log: InProcessMetadataEventLog) -> None:
    many = log.append(0, ADDED[:-1] + tags(MOST_TAGS + 1))
    diagnosis = diagnose(log)
    [finding] = only(diagnosis, K.BEYOND_LIMITS)
    assert (finding.severity, finding.offset) == (Severity.CRITICAL, many)
    assert finding.segment_id == kafka_uuid_str(UUID(int=7))
    assert finding.detail.startswith("10001 tagged fields of a segment; Kafka 4.4 and newer read 0 to 10000 of them")
    assert "Do not update these brokers to Kafka 4.4" in EXPLANATIONS[K.BEYOND_LIMITS].what_to_do
    [recovery] = diagnosis.recoveries
    # It is applied: its segment is known, and lost with it.
    assert (recovery.delete_before_offset, recovery.segments, diagnosis.segments) == (many + 1, 2, 3)


def segment_key(event: SegmentEvent) -> bytes:
    tip = event.remote_log_segment_id.topic_id_partition
    return bytes(SegmentKey(tip.topic_id, tip.partition, event.remote_log_segment_id.id, event.state))


def test_a_key_that_names_its_record_is_no_finding(log: InProcessMetadataEventLog) -> None:
    event = copied(1, HERE)
    log.append(0, serialize(event), segment_key(event))
    assert K.KEYED not in diagnose(log).counts


def test_an_update_of_another_end_offset_than_its_add_says_is_told(log: InProcessMetadataEventLog) -> None:
    add = replace(started(7, partition=HERE), broker_leader_epoch=0)
    other = replace(copied(7, HERE), end_offset=add.end_offset + 1, broker_leader_epoch=0)
    [_, offset] = [log.append(0, serialize(event), segment_key(event)) for event in (add, other)]
    assert found(diagnose(log)) == [(K.KEYED, 0, offset)]


@pytest.mark.parametrize(
    ("policy", "severity"),
    [({"delete"}, Severity.CRITICAL), ({"compact", "delete"}, Severity.WARNING), ({"compact"}, Severity.WARNING)],
)
def test_what_is_to_be_forgotten_ends_the_consumers_of_brokers_that_do_not_compact(
    log: InProcessMetadataEventLog, policy: set[str], severity: Severity
) -> None:
    log.policy = frozenset(policy)
    forgotten = log.append(0, None, segment_key(copied(1, HERE)))
    diagnosis = diagnose(log)
    [finding] = only(diagnosis, K.FORGOTTEN)
    assert (finding.metadata_partition, finding.offset, finding.severity) == (0, forgotten, severity)
    assert [r.delete_before_offset for r in diagnosis.recoveries] == [forgotten + 1] * (severity is Severity.CRITICAL)
    assert diagnosis.era.era is (Era.PLAIN if severity is Severity.CRITICAL else Era.COMPACTED)


def test_a_misrouted_record_that_newer_kafkas_refuse_is_critical_and_not_applied(
    log: InProcessMetadataEventLog,
) -> None:
    many = log.append(1, ADDED[:-1] + tags(MOST_TAGS + 1))
    plain = log.append(1, ADDED)
    diagnosis = diagnose(log)
    assert found(diagnosis) == [(K.BEYOND_LIMITS, 1, many), (K.MISROUTED, 1, plain)]
    assert diagnosis.findings[0].detail.startswith("belongs into metadata partition 0, was read from 1; 10001 tagged")
    assert diagnosis.segments == 2


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


def test_a_marker_behind_finished_counts_as_settled_while_nothing_is_unfinished(log: InProcessMetadataEventLog) -> None:
    """As two cleaners at once leave it."""
    gone = replace(HERE, topic_id=UUID(int=6))
    put(log, *(partition_delete(state, gone) for state in P))
    [begun] = put(log, partition_delete(P.DELETE_PARTITION_STARTED, gone))
    diagnosis = diagnose(log)
    assert [(f.kind, f.severity) for f in diagnosis.findings] == [(K.ILLEGAL_TRANSITION, Severity.NOTICE)]
    put(log, started(9, partition=gone))
    [finding] = only(diagnose(log), K.UNSETTLED_MARKER)
    assert (finding.metadata_partition, finding.offset) == begun


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
    assert dict(diagnosis.counts) == {
        K.TOMBSTONE: 30, K.MALFORMED: 30, K.UNDER_PROOF: 2, K.UPDATE_WITHOUT_BASE: 30, K.STUCK_SEGMENT: 30
    }  # fmt: skip
    assert [f.kind for f in diagnosis.findings].count(K.TOMBSTONE) == 3
    assert (len(diagnosis.findings), diagnosis.critical) == (14, 60)
    last = log.high_water_marks()[1] - 1
    assert [r.delete_before_offset for r in diagnosis.recoveries][1] == last + 1


@pytest.mark.parametrize("chunk_rows", [1, 3, 1_000])
def test_the_chunks_of_the_reading_change_nothing(
    log: InProcessMetadataEventLog, chunk_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_provider_rlmm.core.log.in_process.BATCH_ROWS", chunk_rows)
    for metadata_partition in (0, 1):
        put(log, started(4, partition=HERE), copied(4, HERE), deleting(4, HERE), copied(44, THERE))
        log.append(metadata_partition, None)
    put(log, started(5, partition=HERE), started(6, partition=THERE))
    diagnosis = diagnose(log, chunk_rows=chunk_rows)
    assert dict(diagnosis.counts) == {
        K.TOMBSTONE: 2, K.UNDER_PROOF: 2, K.ILLEGAL_TRANSITION: 2, K.UPDATE_WITHOUT_BASE: 2, K.STUCK_SEGMENT: 3
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
    assert json.loads(json.dumps(plain_of(ReportedDiagnosis.of(diagnosis))))["counts"] == {"UPDATE_WITHOUT_BASE": 2}
    assert "\n" not in str(finding)


# -- who reads it ------------------------------------------------------------------------------------------------------


def test_a_poison_pill_names_the_living_topics_whose_brokers_read_it(log: InProcessMetadataEventLog) -> None:
    log.append(0, None)
    cluster = live("orders")
    cluster.counts = {"orders": 3}
    mapped = [n for n in range(3) if metadata_partition_for(replace(HERE, partition=n), 2) == 0]
    [pill] = only(diagnose(log, cluster), K.TOMBSTONE)
    numbers = ", ".join(map(str, mapped))
    assert pill.detail == f"the value is null; {len(mapped)} living user partitions map here: orders ({numbers})"
    assert pill.severity is Severity.CRITICAL
    cluster.settings = {"orders": {"remote.storage.enable": False}}
    [pill] = only(diagnose(log, cluster), K.TOMBSTONE)
    assert pill.detail == "the value is null; no living tiered topic maps here today"
    assert pill.severity is Severity.CRITICAL


def test_of_many_topics_the_first_are_named(log: InProcessMetadataEventLog) -> None:
    log.append(0, None)
    cluster = topics()
    cluster.topics |= {f"topic-{n}": UUID(int=100 + n) for n in range(7)}
    cluster.counts = {f"topic-{n}": 40 for n in range(7)}
    [pill] = only(diagnose(log, cluster), K.TOMBSTONE)
    assert "topic-4 (" in pill.detail
    assert "topic-5" not in pill.detail
    assert pill.detail.endswith(" and 2 more topics")


def test_without_the_right_to_see_settings_nothing_is_said_about_who_reads_it(
    log: InProcessMetadataEventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(self: TieredTopics, names: Any) -> Any:
        raise EventLogAccessError("DESCRIBE_CONFIGS is missing")

    monkeypatch.setattr(TieredTopics, "topic_settings", forbidden)
    log.append(0, None)
    put(log, started(4, partition=HERE))
    diagnosis = diagnose(log, max_copy_ms=0)
    [pill] = only(diagnosis, K.TOMBSTONE)
    assert "which living topics map here is not known: DESCRIBE_CONFIGS is missing" in pill.detail
    # Every living topic may be tiered then.
    assert K.COPYING_STOPPED in diagnosis.counts


# -- which topics exist ------------------------------------------------------------------------------------------------


def denying(*names: str) -> TieredTopics:
    """A cluster whose topics exist, some of which the principal may not describe: no listing has them."""
    cluster = live("orders")
    cluster.denied = set(names)
    return cluster


def test_a_topic_that_may_not_be_described_is_neither_living_nor_absent(log: InProcessMetadataEventLog) -> None:
    diagnosis = diagnose(log, denying("orders"))
    [finding] = diagnosis.findings
    assert (finding.kind, finding.severity, diagnosis.critical) == (K.ACCESS_DENIED, Severity.CRITICAL, 1)
    assert (finding.topic, finding.topic_id) == ("orders", kafka_uuid_str(HERE.topic_id))
    assert (finding.metadata_partition, finding.offset, finding.partition) == (None, None, None)
    assert "it needs DESCRIBE on every topic" in finding.detail
    assert "2 unfinished segments (8.0 KiB) of 2 user partitions are concerned" in finding.detail
    assert str(finding).startswith(f"CRITICAL ACCESS_DENIED of {finding.topic_id}:orders: the principal may not")
    assert "DESCRIBE on every topic" in EXPLANATIONS[K.ACCESS_DENIED].what_to_do


def test_a_deletion_of_a_topic_that_may_not_be_described_is_asked_about_too() -> None:
    log = new_log()
    gone = replace(HERE, topic="hidden", topic_id=UUID(int=6))
    put(log, partition_delete(P.DELETE_PARTITION_MARKED, gone))
    assert [f.topic for f in only(diagnose(log, denying("hidden")), K.ACCESS_DENIED)] == ["hidden"]
    put(log, *(partition_delete(state, gone) for state in P))
    assert K.ACCESS_DENIED not in diagnose(log, denying("hidden")).counts


def test_what_harms_brokers_only_if_the_topic_exists_counts_as_if_it_did_where_nobody_can_tell(
    log: InProcessMetadataEventLog,
) -> None:
    [thrown] = put(log, started(9, partition=HERE, state=S.COPY_SEGMENT_FINISHED))
    diagnosis = diagnose(log, denying("orders"), min_age_ms=NOW_MS)
    [finding] = only(diagnosis, K.ADD_IN_OTHER_STATE)
    assert (finding.metadata_partition, finding.offset, finding.severity) == (*thrown, Severity.CRITICAL)
    assert finding.detail.endswith("; whether its topic exists is not known")
    assert [r.delete_before_offset for r in diagnosis.recoveries] == [thrown[1] + 1]


def test_a_topic_that_appears_while_the_log_is_read_is_a_living_one(log: InProcessMetadataEventLog) -> None:
    cluster = live()
    put(log, started(9, partition=HERE, state=S.COPY_SEGMENT_FINISHED))

    def created(name: str, detail: Any) -> None:
        cluster.topics["orders"] = HERE.topic_id

    log.on_effect = lambda name, detail: created(name, detail) if name == "read" else None
    [finding] = only(diagnose(log, cluster), K.ADD_IN_OTHER_STATE)
    assert finding.severity is Severity.CRITICAL


def test_another_cluster_that_answers_is_refused(log: InProcessMetadataEventLog) -> None:
    with pytest.raises(ClusterMismatchError):
        diagnose(log, topics(UUID(int=98)))


# -- copying -----------------------------------------------------------------------------------------------------------


def test_copies_that_began_and_of_which_none_was_finished(log: InProcessMetadataEventLog) -> None:
    [begun] = put(log, started(4, partition=HERE))
    put(log, deleting(4, HERE), deleted(4, HERE), started(5, partition=HERE))
    diagnosis = diagnose(log, max_copy_ms=NOW_MS - 2_000)
    [finding] = only(diagnosis, K.COPYING_STOPPED)
    assert (finding.metadata_partition, finding.offset, finding.since_ms) == (*begun, 2_000)
    assert (finding.severity, diagnosis.critical) == (Severity.CRITICAL, 1)
    assert (finding.topic, finding.partition) == ("orders", HERE.partition)
    assert finding.segment_id == kafka_uuid_str(UUID(int=4))
    # No record has to go for it.
    assert diagnosis.recoveries == ()
    assert K.COPYING_STOPPED not in diagnose(log, max_copy_ms=NOW_MS - 1_999).counts


def test_a_copy_that_was_finished_since_says_that_copying_goes_on(log: InProcessMetadataEventLog) -> None:
    put(log, started(4, partition=HERE), started(5, partition=HERE), copied(5, HERE))
    assert K.COPYING_STOPPED not in diagnose(log, max_copy_ms=0).counts
    [begun] = put(log, started(6, partition=HERE))
    # Dropped: it copies nothing.
    put(log, copied(44, HERE))
    [finding] = only(diagnose(log, max_copy_ms=0), K.COPYING_STOPPED)
    assert (finding.metadata_partition, finding.offset) == begun


@pytest.mark.parametrize(
    "settings", [{"remote.storage.enable": False}, {"remote.storage.enable": True, "remote.log.copy.disable": True}]
)
def test_where_nothing_is_to_be_copied_copying_has_not_stopped(
    log: InProcessMetadataEventLog, settings: dict[str, int | bool | str]
) -> None:
    put(log, started(4, partition=HERE))
    cluster = live("orders")
    cluster.settings = {"orders": settings}
    assert K.COPYING_STOPPED not in diagnose(log, cluster, max_copy_ms=0).counts
    assert K.COPYING_STOPPED not in diagnose(log, live(), max_copy_ms=0).counts


@pytest.mark.parametrize(
    ("settings", "minutes"),
    [
        ({"local.retention.ms": 2 * HOUR_MS, "retention.ms": -1}, 30),
        ({"local.retention.ms": 1_000, "retention.ms": -1}, 15),
        ({"local.retention.ms": -2, "retention.ms": 8 * HOUR_MS}, 120),
        ({"local.retention.ms": 1_000 * HOUR_MS, "retention.ms": -1}, 240),
        ({"local.retention.ms": -1, "retention.ms": -1}, 240),
        ({"local.retention.ms": -2, "retention.ms": -1}, 240),
        ({}, 240),
    ],
)
def test_a_copy_hangs_after_a_quarter_of_local_retention(
    log: InProcessMetadataEventLog, settings: dict[str, int | bool | str], minutes: int
) -> None:
    cluster = live("orders")
    cluster.settings = {"orders": {"remote.storage.enable": True, **settings}}
    put(log, started(4, partition=HERE))
    at = 2_000 + minutes * 60_000
    for now_ms, hangs in ((at - 1, False), (at, True)):
        diagnosis = examine(log, cluster, clock=lambda now_ms=now_ms: now_ms)
        assert (K.COPYING_STOPPED in diagnosis.counts) == hangs, now_ms
    [finding] = only(diagnosis, K.COPYING_STOPPED)
    assert f"a copy began here {duration_in_words(minutes * 60_000)} ago" in finding.detail


@pytest.mark.parametrize("chunk_rows", [1, 2, 1_000])
def test_copies_are_followed_through_all_chunks(
    log: InProcessMetadataEventLog, chunk_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_provider_rlmm.core.log.in_process.BATCH_ROWS", chunk_rows)
    [here] = put(log, started(4, partition=HERE))
    put(log, started(5, partition=HERE), started(6, partition=THERE), copied(6, THERE), started(7, partition=THERE))
    [_, there] = put(log, copied(7, THERE), started(8, partition=THERE))
    stopped = only(diagnose(log, max_copy_ms=0, chunk_rows=chunk_rows), K.COPYING_STOPPED)
    assert [(f.metadata_partition, f.offset) for f in stopped] == [here, there]


# -- time --------------------------------------------------------------------------------------------------------------


def marker(at_ms: int, state: P = P.DELETE_PARTITION_MARKED) -> Any:
    return replace(partition_delete(state, replace(HERE, topic_id=UUID(int=6))), event_timestamp_ms=at_ms)


def test_markers_from_the_future(log: InProcessMetadataEventLog) -> None:
    skew = 5 * 60_000
    [first] = put(log, marker(NOW_MS + skew + 1))
    put(log, marker(NOW_MS + skew + 2, P.DELETE_PARTITION_STARTED))
    diagnosis = diagnose(log)
    [finding] = only(diagnosis, K.MARKER_FROM_THE_FUTURE)
    assert (finding.metadata_partition, finding.offset, finding.since_ms) == (*first, NOW_MS + skew + 1)
    assert "DELETE_PARTITION_MARKED is 6 min ahead: event time 2027-01-15T08:05:00.001" in finding.detail
    assert (finding.severity, diagnosis.critical, diagnosis.recoveries) == (Severity.CRITICAL, 1, ())


def test_the_time_of_a_markers_record_counts_too(log: InProcessMetadataEventLog) -> None:
    event = marker(4_000)
    number = metadata_partition_for(event.topic_id_partition, 2)
    offset = log.append(number, serialize(event), timestamp_ms=NOW_MS + 10**9)
    [finding] = only(diagnose(log), K.MARKER_FROM_THE_FUTURE)
    assert (finding.metadata_partition, finding.offset) == (number, offset)


@pytest.mark.parametrize(
    "later",
    [marker(4_000), marker(NOW_MS + 300_000, P.DELETE_PARTITION_STARTED), marker(9, P.DELETE_PARTITION_FINISHED)],
)
def test_a_marker_from_the_future_is_over_once_somebody_observed_since(
    log: InProcessMetadataEventLog, later: Any
) -> None:
    put(log, marker(NOW_MS + 10**9), marker(NOW_MS + 10**9, P.DELETE_PARTITION_STARTED), later)
    assert K.MARKER_FROM_THE_FUTURE not in diagnose(log).counts


def test_a_marker_from_the_future_that_a_foreign_event_has_voided_is_no_observation_any_more(
    log: InProcessMetadataEventLog,
) -> None:
    put(log, marker(NOW_MS + 10**9), started(4, partition=replace(HERE, topic_id=UUID(int=6))))
    assert K.MARKER_FROM_THE_FUTURE not in diagnose(log).counts
    [again] = put(log, marker(NOW_MS + 10**8))
    [finding] = only(diagnose(log), K.MARKER_FROM_THE_FUTURE)
    assert (finding.metadata_partition, finding.offset) == again


# -- what is under proof -----------------------------------------------------------------------------------------------


def test_a_record_that_cannot_be_read_puts_its_metadata_partition_under_proof(log: InProcessMetadataEventLog) -> None:
    offset = log.append(0, b"junk", timestamp_ms=77)
    log.append(0, None, timestamp_ms=99)
    put(log, started(4, partition=HERE), started(5, partition=replace(HERE, topic="another")))
    diagnosis = diagnose(log, live())
    [proof] = only(diagnosis, K.UNDER_PROOF)
    assert (proof.metadata_partition, proof.offset, proof.since_ms) == (0, offset, 77)
    assert f"2 records cannot be read, the first at offset {offset}" in proof.detail
    assert "3 unfinished segments (12.0 KiB) of 2 user partitions are concerned" in proof.detail
    assert "no living tiered topic maps here today" in proof.detail
    # The records themselves are critical already.
    assert (proof.severity, diagnosis.critical) == (Severity.WARNING, 2)


def test_a_lost_beginning_puts_its_metadata_partition_under_proof(log: InProcessMetadataEventLog) -> None:
    log.append(0, serialize(started(4, partition=HERE)), timestamp_ms=55)
    log.truncate(0, 2)
    diagnosis = diagnose(log)
    [proof] = only(diagnosis, K.UNDER_PROOF)
    assert (proof.metadata_partition, proof.offset, proof.since_ms, proof.severity) == (0, 2, 55, Severity.WARNING)
    assert proof.detail.startswith("it begins at offset 2; 1 unfinished segment (4.0 KiB) of 1 user partition")
    assert diagnosis.critical == 0


def test_segments_that_lack_their_first_event_need_a_person(log: InProcessMetadataEventLog) -> None:
    put(log, started(4, partition=HERE), started(5, partition=HERE), started(6, partition=HERE))
    log.truncate(0, log.high_water_marks()[0])
    put(log, copied(4, HERE), copied(5, HERE), deleting(5, HERE), deleted(5, HERE), deleted(6, HERE))
    diagnosis = diagnose(log)
    [proof] = only(diagnosis, K.UNDER_PROOF)
    # What is deleted leaves nothing to resolve.
    assert "1 segment of 1 user partition lacks its first event" in proof.detail
    assert (proof.severity, diagnosis.critical, diagnosis.recoveries) == (Severity.CRITICAL, 1, ())


def test_a_segment_that_an_event_made_uncertain_does_not_lack_its_first_event(log: InProcessMetadataEventLog) -> None:
    log.truncate(0, 1)
    put(log, started(4, partition=HERE), update(4, S.COPY_SEGMENT_STARTED, partition=HERE))
    put(log, started(5, partition=HERE, state=S.COPY_SEGMENT_FINISHED))
    [proof] = only(diagnose(log, live()), K.UNDER_PROOF)
    # That of which the beginning is gone: its copy was finished after it.
    assert "1 segment of 1 user partition lacks its first event" in proof.detail


def test_a_log_of_which_nothing_is_left_is_under_proof_since_nobody_knows_when(log: InProcessMetadataEventLog) -> None:
    log.truncate(0, 2)
    [proof] = only(diagnose(log), K.UNDER_PROOF)
    assert (proof.offset, proof.since_ms) == (2, None)
    assert "since an unknown time" in str(proof)


# -- recovery ----------------------------------------------------------------------------------------------------------


def test_a_recovery_says_what_can_be_used_afterwards_and_what_is_refused_by_name(
    log: InProcessMetadataEventLog,
) -> None:
    numbers = [n for n in range(200) if metadata_partition_for(replace(HERE, partition=n), 2) == 0][:60]
    losing, keeping = numbers[:25], numbers[25:30]
    put(log, *(started(100 + n, partition=replace(HERE, partition=n)) for n in losing))
    pill = log.append(0, None)
    put(log, *(started(200 + n, partition=replace(HERE, partition=n)) for n in [*losing[:3], *keeping]))
    [recovery] = diagnose(log).recoveries
    lost = {*losing, HERE.partition}
    assert (recovery.delete_before_offset, recovery.segments, recovery.bytes) == (pill + 1, 26, 26 * 4_096)
    assert (recovery.user_partitions, len(recovery.refused)) == (len(lost), 20)
    assert recovery.refused[0] == f"{kafka_uuid_str(HERE.topic_id)}:orders-{min(lost)}"
    assert recovery.usable == len(set(keeping) - lost)
    text = str(recovery)
    for part in (
        "first keep a copy of its records", "let the remote log cleaner finish what it can", "no longer begins at 0",
        f"orders-{min(lost)}, ", f" and {len(lost) - 20} more", "delete by hand",
    ):  # fmt: skip
        assert part in text


def test_a_recovery_that_loses_no_segment_refuses_nobody(log: InProcessMetadataEventLog) -> None:
    log.truncate(0, 2)
    log.append(0, None)
    [recovery] = diagnose(log).recoveries
    assert (recovery.segments, recovery.bytes, recovery.user_partitions, recovery.refused) == (0, 0, 0, ())
    assert "refused" not in str(recovery)


def test_a_segment_that_lives_again_behind_the_pill_is_not_lost(log: InProcessMetadataEventLog) -> None:
    put(log, deleting(1, HERE), deleted(1, HERE))
    log.append(0, None)
    put(log, started(1, partition=HERE))
    [recovery] = diagnose(log).recoveries
    assert (recovery.segments, recovery.usable) == (0, 1)


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
