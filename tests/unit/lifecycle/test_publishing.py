# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from airflow_provider_rlmm.errors import (
    ConfigurationError,
    PublishFailedError,
    PublishOutcomeUnknownError,
    QuarantinedRecordsError,
    UnsafeEventError,
    WritesNotAllowedError,
)
from airflow_provider_rlmm.lifecycle.publishing import parse_event, publish_events
from airflow_provider_rlmm.manager.event_log import Failed, Unknown
from airflow_provider_rlmm.manager.write_guard import GuardedPublisher
from airflow_provider_rlmm.metadata.records import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    kafka_uuid_str,
)
from airflow_provider_rlmm.metadata.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.metadata.states import RemotePartitionDeleteState as P
from tests.unit.lifecycle.builders import Cluster, tip

GONE = tip()
RAW = {
    "topic_id": kafka_uuid_str(GONE.topic_id),
    "topic": "gone",
    "partition": 0,
    "state": "DELETE_PARTITION_MARKED",
}
SEGMENT = {"segment_id": kafka_uuid_str(UUID(int=1000)), "state": "DELETE_SEGMENT_STARTED"}


def test_a_partition_event_is_read() -> None:
    expected = RemotePartitionDeleteMetadata(GONE, P.DELETE_PARTITION_MARKED, 5, -1)
    assert parse_event(RAW, 5) == parse_event({**RAW, "partition": "0"}, 5) == expected


@pytest.mark.parametrize(("text", "custom"), [("00ff", b"\x00\xff"), (None, None), ("", b"")])
def test_a_segment_event_is_read(text: str | None, custom: bytes | None) -> None:
    segment_id = RemoteLogSegmentId(GONE, UUID(int=1000))
    assert parse_event({**RAW, **SEGMENT, "custom_metadata": text}, 5) == RemoteLogSegmentMetadataUpdate(
        segment_id, 5, custom, S.DELETE_SEGMENT_STARTED, -1
    )


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({**RAW, "topicId": "x"}, "unknown fields ['topicId']"),
        ({k: v for k, v in RAW.items() if k != "topic"}, "KeyError('topic')"),
        ({**RAW, "topic_id": "short"}, "not a Kafka id"),
        ({**RAW, "topic_id": None}, "cannot be read"),
        ({**RAW, "topic": None}, "topic must be a string"),
        ({**RAW, "partition": "first"}, "cannot be read"),
        ({**RAW, "partition": 1.5}, "partition a number"),
        ({**RAW, "state": "MARKED"}, "KeyError('MARKED')"),
        ({**RAW, "state": "DELETE_SEGMENT_STARTED"}, "KeyError('DELETE_SEGMENT_STARTED')"),
        ({**RAW, **SEGMENT, "state": "DELETE_PARTITION_MARKED"}, "KeyError('DELETE_PARTITION_MARKED')"),
        ({**RAW, **SEGMENT, "custom_metadata": "xyz"}, "cannot be read"),
    ],
)
def test_an_event_that_cannot_be_read_is_a_configuration_error(raw: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        parse_event(raw, 5)
    assert message in str(error.value)


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.segments(GONE, 1)
    return cluster


def publish(cluster: Cluster, *raw: dict[str, Any]) -> list[int]:
    events = [parse_event(r, cluster.now_ms) for r in raw]
    return publish_events(events, log=cluster.log, publisher=cluster.publisher, topics=cluster.topics)


def whole_deletion() -> list[dict[str, Any]]:
    return [
        RAW,
        {**RAW, "state": "DELETE_PARTITION_STARTED"},
        {**RAW, **SEGMENT},
        {**RAW, **SEGMENT, "state": "DELETE_SEGMENT_FINISHED"},
        {**RAW, "state": "DELETE_PARTITION_FINISHED"},
    ]


def test_each_event_is_checked_against_what_the_ones_before_it_made(cluster: Cluster) -> None:
    end = cluster.log.high_water_marks()[0]
    assert publish(cluster, *whole_deletion()) == list(range(end, end + 5))
    assert cluster.states() == [raw["state"] for raw in whole_deletion()]


def test_the_first_event_that_does_not_follow_stops_the_rest(cluster: Cluster) -> None:
    marked, _, started, *_ = whole_deletion()
    with pytest.raises(UnsafeEventError, match="has not been started"):
        publish(cluster, marked, started, marked)
    assert cluster.states() == ["DELETE_PARTITION_MARKED"]


def test_events_about_a_living_topic_are_refused(cluster: Cluster) -> None:
    raw = {**RAW, "topic": "alive", "topic_id": kafka_uuid_str(cluster.alive.topic_id)}
    with pytest.raises(UnsafeEventError, match="not found absent"):
        publish(cluster, raw)


def test_another_name_for_a_known_id_is_refused(cluster: Cluster) -> None:
    with pytest.raises(UnsafeEventError, match="not found absent"):
        publish(cluster, {**RAW, "topic": "typo"})


def test_a_quarantined_record_refuses_every_event_of_its_metadata_partition(cluster: Cluster) -> None:
    offset = cluster.log.append(0, None)
    with pytest.raises(QuarantinedRecordsError, match=f"metadata partition 0 offset {offset}: TOMBSTONE"):
        publish(cluster, RAW)
    assert cluster.states() == []


def test_allow_writes_off_writes_nothing(cluster: Cluster) -> None:
    cluster.publisher = GuardedPublisher(cluster.log, allow_writes=False)
    with pytest.raises(WritesNotAllowedError):
        publish(cluster, RAW)


@pytest.mark.parametrize(
    ("outcome", "error"),
    [(Failed("too large"), PublishFailedError), (Unknown("timed out"), PublishOutcomeUnknownError)],
)
def test_an_outcome_that_is_not_an_ack_is_an_error_with_its_reason(
    cluster: Cluster, outcome: Failed | Unknown, error: type[Exception]
) -> None:
    cluster.log.on_effect = lambda name, _: outcome if name == "publish" else None
    with pytest.raises(error, match=outcome.reason):
        publish(cluster, RAW)
