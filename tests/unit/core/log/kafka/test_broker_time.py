# SPDX-License-Identifier: Apache-2.0
"""What is believed of a broker's answers; that brokers give them is for tests/integration/test_proven_time.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_rlmm.core.base.clock import TimeBound, TimeReading
from airflow_provider_rlmm.core.base.errors import ConfigurationError, EventLogUnavailableError, UnprovenClockError
from airflow_provider_rlmm.core.log.in_process import InProcessMetadataEventLog
from airflow_provider_rlmm.core.log.kafka import broker_time as kafka_time
from airflow_provider_rlmm.core.log.kafka.broker_time import OFFSETS_TOPIC, KafkaTime, group_partition
from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState as P
from tests.builders import BROKER, add, deletion, tip

NOW_MS = 1_800_000_000_000
GROUP = "clock"
CREATE_TIME, LOG_APPEND_TIME = 1, 2


class Brokers(KafkaTime):
    """
    Answers without a broker.

    :param newest: per question for the newest record, offset and time of the answer; the last one is repeated.
    :param delivered: kind and time of a delivered record's timestamp.
    :param unavailable: number of commits that fail before one succeeds.
    """

    def __init__(
        self,
        *newest: tuple[int, int],
        end: int = 0,
        delivered: tuple[int, int] = (LOG_APPEND_TIME, NOW_MS),
        clock_topic: str | None = None,
        stamped: bool = False,
        unavailable: int = 0,
        timeout_s: float = 15.0,
    ) -> None:
        super().__init__(
            KafkaClientConfig({"bootstrap.servers": "b:9092"}),
            group_id=GROUP,
            clock_topic=clock_topic,
            worker_clock=lambda: NOW_MS + 5,
            request_timeout_s=timeout_s,
        )
        self._unavailable = unavailable
        self._answers = list(newest)
        self._end = end
        self._delivered = delivered
        self._stamped = stamped
        self.commits: list[Mapping[int, int]] = []
        self._topics = self  # type: ignore[assignment]  # the one question that is asked of it

    def partition_counts(self, names: Sequence[str]) -> dict[str, int]:
        return {name: 50 for name in names if name in (OFFSETS_TOPIC, "clock")}

    def _offset_store(self) -> Any:
        return self

    def commit(self, offsets: Mapping[int, int]) -> None:
        if self._unavailable:
            self._unavailable -= 1
            raise EventLogUnavailableError("NOT_COORDINATOR")
        self.commits.append(offsets)

    def close(self) -> None: ...

    def _end_of_group(self) -> int:
        return self._end

    def _newest(self, partitions: Sequence[tuple[str, int]]) -> dict[tuple[str, int], tuple[int, int]]:
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return dict.fromkeys(partitions, answer)

    def _deliver(self, topic: str) -> tuple[int, int, int]:
        return (*self._delivered, NOW_MS + 5)

    def _stamps_metadata(self) -> bool:
        return self._stamped


@pytest.fixture(autouse=True)
def nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_time, "_RETRY_S", 0.0)


@pytest.mark.parametrize("offset", [7, 8, 900])
def test_a_record_at_or_behind_the_end_before_the_commit_tells_the_time(offset: int) -> None:
    brokers = Brokers((offset, NOW_MS), end=7)
    assert brokers.by_offset_commit() == TimeReading(f"an offset commit of group '{GROUP}'", NOW_MS, NOW_MS + 5)
    assert brokers.commits == [{0: 0}]


def test_a_coordinator_that_is_a_little_behind_is_waited_for() -> None:
    brokers = Brokers((6, NOW_MS + 400), (6, NOW_MS + 400), (9, NOW_MS + 401), end=7)
    assert brokers.by_offset_commit().time_ms == NOW_MS + 401
    assert len(brokers.commits) == 3


def test_a_coordinator_that_moves_is_waited_for_and_one_that_stays_away_is_an_error() -> None:
    assert Brokers((7, NOW_MS), unavailable=3).by_offset_commit().time_ms == NOW_MS
    with pytest.raises(EventLogUnavailableError, match="NOT_COORDINATOR"):
        Brokers((7, NOW_MS), unavailable=1, timeout_s=0.0).by_offset_commit()


@pytest.mark.parametrize("newest", [(6, NOW_MS + 400), (-1, -1), (7, -1)])
def test_a_time_from_before_the_commit_is_none(newest: tuple[int, int]) -> None:
    with pytest.raises(UnprovenClockError, match=f"the record at offset {newest[0]} of {OFFSETS_TOPIC}-") as caught:
        Brokers(newest, end=7).by_offset_commit()
    assert f"a later time than the commits of group '{GROUP}'" in str(caught.value)


def test_the_time_of_delivery_counts_where_brokers_stamp_it() -> None:
    reading = Brokers().by_log_append_time("clock")
    assert reading == TimeReading("LogAppendTime of topic 'clock'", NOW_MS, NOW_MS + 5)
    with pytest.raises(ConfigurationError, match="clock_topic 'clock' delivers the producer's time"):
        Brokers(delivered=(CREATE_TIME, NOW_MS)).by_log_append_time("clock")
    with pytest.raises(ConfigurationError, match="clock_topic 'missing' does not exist"):
        Brokers().by_log_append_time("missing")


def test_a_clock_topic_comes_first() -> None:
    assert [source().source for source in Brokers((0, NOW_MS), clock_topic="clock").sources()] == [
        "LogAppendTime of topic 'clock'",
        f"an offset commit of group '{GROUP}'",
    ]
    assert len(Brokers((0, NOW_MS)).sources()) == 1


# -- what brokers wrote --------------------------------------------------------------------------------------------------

ADDED = serialize(add(tip("alive", 0, 1), 1))


def log_of(*records: tuple[bytes, int]) -> InProcessMetadataEventLog:
    log = InProcessMetadataEventLog(1)
    for value, timestamp_ms in records:
        log.append(0, value, timestamp_ms=timestamp_ms)
    return log


def bounds(log: InProcessMetadataEventLog, *, stamped: bool = False) -> list[TimeBound]:
    return Brokers((0, NOW_MS), stamped=stamped).newest_metadata_record(log)


def test_the_last_record_of_a_broker_is_a_bound_and_not_the_latest_time() -> None:
    log = log_of(
        (ADDED, NOW_MS + 99), (ADDED, NOW_MS), (serialize(deletion(tip(), P.DELETE_PARTITION_MARKED)), NOW_MS + 7)
    )
    source = "the record at offset 1 of __remote_log_metadata-0 (written by broker 1)"
    assert bounds(log) == [TimeBound(source, NOW_MS)]


@pytest.mark.parametrize(
    "value",
    [
        b"garbage",
        serialize(add(tip("alive", 0, 1), 1, broker_id=-1)),
        serialize(add(tip("alive", 0, 1), 1, broker_id=-2)),
        serialize(replace(deletion(tip(), P.DELETE_PARTITION_MARKED), broker_id=BROKER)),
    ],
    ids=["unreadable", "ours", "a copier's", "a marker"],
)
def test_what_no_broker_wrote_is_a_bound_only_where_brokers_stamp_it(value: bytes) -> None:
    log = log_of((value, NOW_MS))
    assert bounds(log) == []
    source = "the record at offset 0 of __remote_log_metadata-0 (LogAppendTime)"
    assert bounds(log, stamped=True) == [TimeBound(source, NOW_MS)]


def test_a_log_that_begins_late_or_is_empty_is_read_from_where_it_begins() -> None:
    log = log_of(*[(ADDED, NOW_MS)] * 30)
    log.truncate(0, 25)
    assert len(bounds(log)) == 1
    log.truncate(0, 30)
    assert bounds(log) == []
    assert bounds(log_of()) == []


def test_only_the_last_records_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    log = log_of(*[(ADDED, NOW_MS)] * 100)
    read = log.read
    rows: list[int] = []

    def counting(*args: int) -> Any:
        for batch in read(*args):
            rows.append(batch.num_rows)
            yield batch

    monkeypatch.setattr(log, "read", counting)
    assert len(bounds(log)) == 1
    assert sum(rows) == 20


@pytest.mark.parametrize(
    ("group_id", "java_hash"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("airflow", -991967880),
        ("polygenelubricants", -(2**31)),
        ("😀", 1772899),
    ],
)
@pytest.mark.parametrize("partitions", [1, 7, 50])
def test_the_partition_of_a_group_is_kafkas(group_id: str, java_hash: int, partitions: int) -> None:
    # Integer.MIN_VALUE has no absolute value in Java; Kafka takes 0.
    assert group_partition(group_id, partitions) == (0 if java_hash == -(2**31) else abs(java_hash) % partitions)
