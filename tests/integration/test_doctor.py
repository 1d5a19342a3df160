# SPDX-License-Identifier: Apache-2.0
"""The doctor on real brokers: a clean topic, every finding produced for real, and what a poison pill does to a broker."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID, uuid4

import pytest
from confluent_kafka import Message, Producer
from confluent_kafka.admin import AclOperation, ResourceType

from airflow_provider_rlmm.core.base.clock import HOUR_MS, system_clock
from airflow_provider_rlmm.core.log.kafka.admin import KafkaClusterTopics
from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
from airflow_provider_rlmm.core.log.kafka.event_log import KafkaMetadataEventLog
from airflow_provider_rlmm.core.records.keys import SegmentKey
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import (
    RemoteLogMetadata,
    RemoteLogSegmentMetadataSnapshot,
    TopicIdPartition,
    kafka_uuid_str,
    topic_id_partition_of,
)
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState as P
from airflow_provider_rlmm.features.doctor.examine import examine
from airflow_provider_rlmm.features.doctor.finding_rows import PILLS
from airflow_provider_rlmm.features.doctor.findings import Diagnosis, Severity
from airflow_provider_rlmm.features.doctor.findings import FindingKind as K
from dev import tiering
from dev.authorized import AuthorizedKafka
from dev.broker import METADATA_TOPIC, LocalKafka, await_condition
from tests.integration.acls import allow_exactly
from tests.integration.kafka_topics import TIMEOUT_S, config_of, delete_records, delete_topic
from tests.unit.core.records.events import copied, deleted, partition_delete, started, update

pytestmark = [pytest.mark.integration, pytest.mark.manager]

LIVING = "living"
CONSUMER_ENDED = (
    "Error occurred while processing the records (org.apache.kafka.server.log.remote.metadata.storage.ConsumerTask)"
)
Place = tuple[int, int]


def diagnose(kafka: LocalKafka, **options: int) -> Diagnosis:
    config = config_of(kafka)
    with KafkaMetadataEventLog(config) as log:
        return examine(log, KafkaClusterTopics(config), **options)


def send(kafka: LocalKafka, metadata_partition: int, value: bytes | None, key: bytes | None = None) -> Place:
    """Write any record at all, past every guard; returns its metadata partition and offset."""
    acked: list[Message] = []

    def delivered(error: object, message: Message) -> None:
        assert error is None
        acked.append(message)

    producer = Producer(kafka.client_config())
    producer.produce(METADATA_TOPIC, value, key, metadata_partition, on_delivery=delivered)
    assert producer.flush(TIMEOUT_S) == 0
    return metadata_partition, acked[0].offset() or 0


def put(kafka: LocalKafka, event: RemoteLogMetadata, key: bytes | None = None) -> Place:
    """Write an event where it belongs."""
    assert not isinstance(event, RemoteLogSegmentMetadataSnapshot)
    home = metadata_partition_for(topic_id_partition_of(event), kafka.metadata_partitions)
    return send(kafka, home, serialize(event), key)


def tip_in(kafka: LocalKafka, metadata_partitions: set[int]) -> TopicIdPartition:
    """A user partition of a topic that does not exist, with its events in one of these metadata partitions."""
    tips = (TopicIdPartition(uuid4(), "gone", n) for n in range(1000))
    return next(tip for tip in tips if metadata_partition_for(tip, kafka.metadata_partitions) in metadata_partitions)


def consumers_ended(kafka: LocalKafka) -> int:
    return kafka.log_path.read_text(errors="replace").count(CONSUMER_ENDED)


def test_a_clean_topic_has_no_findings_and_each_finding_is_produced_for_real(fresh_kafka: LocalKafka) -> None:
    kafka = fresh_kafka
    topic_id = tiering.create_tiered_topic(kafka, LIVING, 2)
    doomed = tiering.create_tiered_topic(kafka, "doomed", 1)
    for topic in (LIVING, "doomed"):
        tiering.produce_until_remote(kafka, topic, 2)
    delete_topic(kafka, "doomed")
    await_condition(lambda: not tiering.remote_files(kafka, doomed), "the broker has deleted the segments", TIMEOUT_S)
    # The last DELETE_SEGMENT_FINISHED come after the last file.
    clean = await_condition(lambda: d if (d := diagnose(kafka)).segments == 4 else None, "all are finished", TIMEOUT_S)
    assert (clean.findings, clean.counts, clean.critical, clean.recoveries) == ((), {}, 0, ())
    assert clean.records == 2 * 4 + 4 * 2
    assert diagnose(kafka, min_age_ms=0).findings == ()

    expected = write_every_finding(kafka, topic_id)
    diagnosis = diagnose(kafka)
    assert {(f.kind, f.metadata_partition, f.offset) for f in diagnosis.findings} == expected
    assert len(diagnosis.findings) == sum(diagnosis.counts.values()) == len(expected)
    # Everything may be described here, no earlier run has read more, and all topics are configured as they must be.
    of_another_world = {K.ACCESS_DENIED, K.LOST_RECORDS, K.KNOWN_BUG, K.TOPIC_SETTINGS}
    # Where Kafka ends at it: tests/matrix/test_kafka_limits.py. The other needs a log cleaner that has been there.
    of_another_world |= {K.BEYOND_LIMITS, K.COMPACTED_STEP}
    # What a run that has asked the leaders knows: tests/unit/airflow/operators/test_doctor_operator.py.
    of_another_world |= {K.OVERDUE, K.LEAKED, K.LEADERS_UNTOLD}
    assert {f.kind for f in diagnosis.findings} == set(K) - of_another_world
    # The broker serves the living topic: what ends its consumer there is critical.
    harmless = {K.ILLEGAL_TRANSITION, K.UPDATE_WITHOUT_BASE, K.INCOMPLETE_HISTORY, K.MISROUTED, K.KEYED}
    harmless |= {K.UNSETTLED_MARKER, K.STUCK_SEGMENT, K.UNDER_PROOF}
    assert {f.kind for f in diagnosis.findings if f.severity is not Severity.CRITICAL} == harmless
    last: dict[int, int] = {}
    for finding in diagnosis.findings:
        if finding.severity is Severity.CRITICAL and finding.kind in PILLS:
            last[finding.metadata_partition] = max(finding.offset, last.get(finding.metadata_partition, 0))
    assert {r.metadata_partition: r.delete_before_offset - 1 for r in diagnosis.recoveries} == last


def write_every_finding(kafka: LocalKafka, topic_id: UUID) -> set[tuple[K, int, int]]:
    """Write what each kind of finding is found in, the poison pills included; returns where."""
    first, second = (TopicIdPartition(topic_id, LIVING, n) for n in range(2))
    homes = {metadata_partition_for(tip, kafka.metadata_partitions) for tip in (first, second)}
    home, *_ = homes
    add = started(70, partition=first)
    value = serialize(add)
    snapshot = RemoteLogSegmentMetadataSnapshot(
        uuid4(), 0, 9, 1, 1, 2, 3, None, S.COPY_SEGMENT_STARTED, ((0, 0),), False
    )
    unreadable = [
        (K.TOMBSTONE, None), (K.MALFORMED, b""), (K.MALFORMED, b"garbage"), (K.UNKNOWN_API_KEY, b"\1\t\0"),
        (K.NEWER_VERSION, b"\1\0\1" + value[3:]), (K.MALFORMED, value[:-5]),
        (K.MALFORMED, serialize(copied(70, first))[:-2] + b"\x09\0"), (K.MALFORMED, b"\0" + value[1:]),
        (K.SNAPSHOT, serialize(snapshot)),
    ]  # fmt: skip
    places = [(kind, *send(kafka, home, value)) for kind, value in unreadable]
    found = {*places, (K.UNDER_PROOF, *places[0][1:])}
    # Events of now: nothing of these is stuck.
    now = {"event_timestamp_ms": system_clock()}
    put(kafka, replace(add, **now))
    put(kafka, replace(copied(70, first), **now))
    found.add((K.ADD_IN_OTHER_STATE, *put(kafka, started(71, partition=first, state=S.COPY_SEGMENT_FINISHED))))
    put(kafka, replace(started(72, partition=first), **now))
    found.add((K.UPDATE_TO_COPY_STARTED, *put(kafka, update(72, S.COPY_SEGMENT_STARTED, partition=first))))
    found.add((K.ILLEGAL_TRANSITION, *put(kafka, deleted(70, first))))
    found.add((K.UPDATE_WITHOUT_BASE, *put(kafka, copied(73, first))))
    asked_to_forget = bytes(SegmentKey(first.topic_id, first.partition, uuid4(), S.COPY_SEGMENT_STARTED))
    home_of_first = metadata_partition_for(first, kafka.metadata_partitions)
    found.add((K.FORGOTTEN, *send(kafka, home_of_first, None, asked_to_forget)))
    found.add((K.KEYED, *put(kafka, copied(70, first), b"key")))
    # Nothing that the broker would call stuck, and nothing of the partition is copied after it.
    hours_ago = {"event_timestamp_ms": system_clock() - 5 * HOUR_MS}
    found.add((K.COPYING_STOPPED, *put(kafka, replace(started(78, partition=first), **hours_ago))))
    away = (metadata_partition_for(first, kafka.metadata_partitions) + 1) % kafka.metadata_partitions
    found.add((K.MISROUTED, *send(kafka, away, value)))

    *_, finished = [put(kafka, partition_delete(state, second)) for state in P]
    found.add((K.LIVE_PARTITION_FINISHED, *finished))
    found.add((K.EVENT_AFTER_FINISHED, *put(kafka, replace(started(74, partition=second), **now))))

    long_ago = {"event_timestamp_ms": system_clock() - 100 * HOUR_MS}
    gone = tip_in(kafka, homes)
    marked = replace(partition_delete(P.DELETE_PARTITION_MARKED, gone), **long_ago)
    found.add((K.UNSETTLED_MARKER, *put(kafka, marked)))
    found.add((K.STUCK_SEGMENT, *put(kafka, replace(started(75, partition=gone), **long_ago))))

    ahead = {"event_timestamp_ms": system_clock() + 10 * HOUR_MS}
    future = tip_in(kafka, homes)
    marked = replace(partition_delete(P.DELETE_PARTITION_MARKED, future), **ahead)
    found.add((K.MARKER_FROM_THE_FUTURE, *put(kafka, marked)))

    others = set(range(kafka.metadata_partitions)) - {p for _, p, _ in found}
    with KafkaMetadataEventLog(config_of(kafka)) as log:
        # Records of the deleted topic may lie in one of them, and would be named too.
        unused = {p for p, high in log.high_water_marks().items() if p in others and high == 0}
    lost = tip_in(kafka, unused)
    put(kafka, replace(started(76, partition=lost), **now))
    begin = put(kafka, replace(started(77, partition=lost), **now))
    delete_records(kafka, METADATA_TOPIC, *begin)
    found |= {(K.INCOMPLETE_HISTORY, *begin), (K.UNDER_PROOF, *begin)}
    return found


def test_a_poison_pill_ends_the_brokers_consumer_until_it_is_recovered_as_the_doctor_says(
    fresh_kafka: LocalKafka,
) -> None:
    kafka = fresh_kafka
    tip = TopicIdPartition(tiering.create_tiered_topic(kafka, LIVING, 1), LIVING, 0)
    tiering.produce_until_remote(kafka, LIVING, 2)
    assert (consumers_ended(kafka), diagnose(kafka).findings) == (0, ())

    home, offset = send(kafka, metadata_partition_for(tip, kafka.metadata_partitions), None)
    await_condition(lambda: consumers_ended(kafka) == 1, "the consumer has ended", TIMEOUT_S)
    kafka.restart()
    await_condition(lambda: consumers_ended(kafka) == 2, "the consumer has ended again after the restart", TIMEOUT_S)
    diagnosis = diagnose(kafka)
    finding, proof = diagnosis.findings
    assert (finding.kind, finding.severity) == (K.TOMBSTONE, Severity.CRITICAL)
    assert (finding.metadata_partition, finding.offset) == (home, offset)
    assert f"1 living user partition maps here: {LIVING} (0)" in finding.detail
    assert (proof.kind, proof.metadata_partition, proof.offset) == (K.UNDER_PROOF, home, offset)
    assert "2 unfinished segments" in proof.detail
    [recovery] = diagnosis.recoveries
    assert (recovery.metadata_partition, recovery.delete_before_offset) == (home, offset + 1)
    assert (recovery.records, recovery.segments, recovery.user_partitions, recovery.usable) == (5, 2, 1, 0)
    assert recovery.refused == (f"{kafka_uuid_str(tip.topic_id)}:{LIVING}-0",)

    delete_records(kafka, METADATA_TOPIC, recovery.metadata_partition, recovery.delete_before_offset)
    kafka.restart()
    tiering.create_tiered_topic(kafka, "afterwards", 4)
    tiering.produce_until_remote(kafka, "afterwards", 1)
    assert consumers_ended(kafka) == 2
    recovered = diagnose(kafka)
    assert recovered.critical == 0
    # Its price: nobody knows the two segments any more.
    assert {f.kind for f in recovered.findings} == {K.INCOMPLETE_HISTORY, K.UNDER_PROOF}


def test_topics_that_a_bug_of_this_broker_concerns_are_named_and_what_compaction_would_drop(
    fresh_kafka: LocalKafka,
) -> None:
    kafka = fresh_kafka
    tiering.create_tiered_topic(kafka, LIVING, 1)
    tiering.create_tiered_topic(kafka, "sized", 1, **{"retention.bytes": str(2**40)})
    for topic in (LIVING, "sized"):
        tiering.produce_until_remote(kafka, topic, 1)
    diagnosis = diagnose(kafka)
    (finding,) = diagnosis.findings
    assert (finding.kind, finding.topic, finding.severity) == (K.KNOWN_BUG, "sized", Severity.WARNING)
    assert "KAFKA-20732" in finding.detail
    assert (
        "retention.bytes=1099511627776; older than 4.4, unless 4.3.2 or later in its line: broker 1" in finding.detail
    )
    keyless = diagnosis.preflight.keyless
    assert (keyless.count, keyless.ours) == (diagnosis.records, 0)
    assert abs((keyless.newest_ms or 0) - system_clock()) < HOUR_MS


def test_a_principal_that_may_not_describe_one_topic_is_told_of_it_and_of_all_the_rest() -> None:
    user, hidden = "examiner", "hidden"
    with AuthorizedKafka({user: "not-secret"}) as kafka:
        topic_id = tiering.create_tiered_topic(kafka, hidden, 1)
        tiering.create_tiered_topic(kafka, LIVING, 1)
        for topic in (hidden, LIVING):
            tiering.produce_until_remote(kafka, topic, 2)
        rights = [(METADATA_TOPIC, AclOperation.READ), (LIVING, AclOperation.DESCRIBE)]
        rights.append((METADATA_TOPIC, AclOperation.DESCRIBE_CONFIGS))
        allow_exactly(kafka, user, [(ResourceType.TOPIC, *right) for right in rights])
        config = KafkaClientConfig(kafka.login(user))
        with KafkaMetadataEventLog(config) as log:
            diagnosis = examine(log, KafkaClusterTopics(config))
        finding, unknown = diagnosis.findings
        assert (finding.kind, finding.severity) == (K.ACCESS_DENIED, Severity.CRITICAL)
        assert (finding.topic, finding.topic_id) == (hidden, kafka_uuid_str(topic_id))
        assert "it needs DESCRIBE on every topic" in finding.detail
        assert "2 unfinished segments" in finding.detail
        # Without DESCRIBE_CONFIGS on topics and cluster nobody knows which topics are tiered, and what the broker runs.
        assert (unknown.kind, unknown.severity) == (K.KNOWN_BUG, Severity.WARNING)
        assert "which topics it concerns is not known" in unknown.detail
        assert "of an unknown version, as it withholds its settings or does not answer: broker 1" in unknown.detail
        home, _ = send(kafka, 0, None)
        with KafkaMetadataEventLog(config) as log:
            pill = next(f for f in examine(log, KafkaClusterTopics(config)).findings if f.kind is K.TOMBSTONE)
        assert pill.metadata_partition == home
        assert "which living topics map here is not known" in pill.detail
