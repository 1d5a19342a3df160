# SPDX-License-Identifier: Apache-2.0
"""
Ways to read a broker's clock. Kafka has no call that answers it, but brokers stamp what they append.

A record of a topic with LogAppendTime is delivered with the time of the broker that appended it, not with the one that the
producer gave. An offset commit carries no time at all: the group's coordinator stamps the record that it appends to
``__consumer_offsets``, where ListOffsets finds the newest one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaException, Producer

from airflow_provider_rlmm.core.base.clock import Clock, TimeBound, TimeReading, system_clock
from airflow_provider_rlmm.core.base.errors import (
    ConfigurationError,
    EventLogAccessError,
    EventLogUnavailableError,
    UnprovenClockError,
)
from airflow_provider_rlmm.core.log.event_decoding import written_by_brokers
from airflow_provider_rlmm.core.log.kafka.admin import KafkaClusterTopics
from airflow_provider_rlmm.core.log.kafka.client import (
    METADATA_TOPIC,
    REQUEST_TIMEOUT_S,
    KafkaAdmin,
    admin_api,
    open_client,
    serve,
)
from airflow_provider_rlmm.core.log.kafka.client_watch import ClientWatch
from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
from airflow_provider_rlmm.core.log.kafka.offsets import KafkaOffsetStore
from airflow_provider_rlmm.core.log.one_look import look_at_many, newest
from airflow_provider_rlmm.core.log.protocol import MetadataLogReader
from airflow_provider_rlmm.core.records.located import applicable

OFFSETS_TOPIC = "__consumer_offsets"
CLOCK_KEY = b"airflow-provider-rlmm"
"""Key of the records in a clock topic: where it is compacted one of them stays."""

_SLICE_S = 0.1
_COMMITS = 5
_RETRY_S = 0.2
_PARTITIONS = 5
_LAST_OFFSETS = 20


@dataclass
class KafkaTime:
    """What the brokers' clocks say."""

    config: KafkaClientConfig  # the clients' properties
    group_id: str  # consumer group whose offset is committed; it must have no other purpose
    metadata_topic: str = METADATA_TOPIC  # the metadata topic; nothing is ever written to it here
    # Topic with LogAppendTime that one record is written to per reading, ``None`` for none.
    clock_topic: str | None = None
    worker_clock: Clock = system_clock  # this worker's own clock
    request_timeout_s: float = REQUEST_TIMEOUT_S  # seconds for one request

    def __post_init__(self) -> None:
        timeout_s = self.request_timeout_s
        self._admin = KafkaAdmin(self.config, timeout_s)
        self._topics = KafkaClusterTopics(self.config, self.metadata_topic, request_timeout_s=timeout_s)

    def sources(self) -> list[Callable[[], TimeReading]]:
        """Return the ways to read a broker's clock, the best first."""
        if self.clock_topic is None:
            return [self.by_offset_commit]
        return [partial(self.by_log_append_time, self.clock_topic), self.by_offset_commit]

    def by_log_append_time(self, topic: str) -> TimeReading:
        """
        Write one record and take the time with which it is delivered.

        :raises ConfigurationError: if the topic does not exist or has not LogAppendTime; it is never created.
        :raises EventLogAccessError: if the topic may not be described or written.
        :raises EventLogUnavailableError: if the brokers do not answer.
        """
        # A producer creates a missing topic where the brokers allow it.
        if topic not in self._topics.partition_counts([topic]):
            raise ConfigurationError(
                f"clock_topic {topic!r} does not exist on the cluster at {self.config.bootstrap_servers}: create it with "
                "message.timestamp.type=LogAppendTime; it is never created here"
            )
        kind, time_ms, worker_ms = self._deliver(topic)
        if kind != TIMESTAMP_LOG_APPEND_TIME:
            raise ConfigurationError(
                f"clock_topic {topic!r} delivers the producer's time: set message.timestamp.type=LogAppendTime on it"
            )
        return TimeReading(f"LogAppendTime of topic {topic!r}", time_ms, worker_ms)

    def _deliver(self, topic: str) -> tuple[int, int, int]:
        """Write one record; return kind and value (ms) of its timestamp, and what this worker's clock says."""
        watch = ClientWatch(self.config)
        producer = open_client(Producer, self.config.producer(self.request_timeout_s), watch)
        what = f"writing to clock_topic {topic!r}"
        reports: list[tuple[Any, Any, int]] = []

        def report(error: Any, message: Any) -> None:
            reports.append((error, message, self.worker_clock()))

        deadline = time.monotonic() + self.request_timeout_s
        try:
            producer.produce(topic, key=CLOCK_KEY, value=b"", partition=0, on_delivery=report)
            while not reports and time.monotonic() < deadline and not watch.access_denied:
                serve(producer.flush, _SLICE_S)
        except KafkaException as e:  # flushing raises, too, once an error is fatal
            raise watch.error(what, e.args[0]) from None
        if not reports:
            producer.purge()
            raise watch.error(what, "no delivery report came")
        error, message, worker_ms = reports[0]
        if error is not None:
            raise watch.error(what, error)
        return (*message.timestamp(), worker_ms)

    def by_offset_commit(self) -> TimeReading:
        """
        Commit an offset of the group and take the newest time in its partition of ``__consumer_offsets``.

        Only a record at or behind the end before the commit counts: it is the commit's, or one that came after it.

        :raises UnprovenClockError: if an older record of the partition has a later time, so that the commit's is not seen.
        :raises MetadataTopicNotFoundError: if the metadata topic does not exist: the offset is committed for its partition 0.
        :raises EventLogAccessError: if the group may not be used, or ``__consumer_offsets`` may not be described.
        :raises EventLogUnavailableError: if the brokers do not answer.
        """
        with closing(self._offset_store()) as store:
            for attempt in range(_COMMITS):
                # A coordinator that has moved to a broker a little behind needs a moment to overtake.
                time.sleep(_RETRY_S * attempt)
                end_before = self._commit(store)
                key = OFFSETS_TOPIC, self._partition_of_group()
                offset, time_ms = self._newest([key])[key]
                worker_ms = self.worker_clock()
                if offset >= end_before and time_ms >= 0:
                    return TimeReading(f"an offset commit of group {self.group_id!r}", time_ms, worker_ms)
        raise UnprovenClockError(
            f"the record at offset {offset} of {key[0]}-{key[1]} has a later time than the commits of group "
            f"{self.group_id!r} behind it: the clock of a broker is ahead of the coordinator's, or was"
        )

    def _commit(self, store: KafkaOffsetStore) -> int:
        """Commit an offset; return the end of the group's partition before that."""
        deadline = time.monotonic() + self.request_timeout_s
        while True:
            try:
                end_before = self._end_of_group()
                store.commit({0: 0})
                return end_before
            except EventLogUnavailableError:
                # A coordinator moves with the leader of its partition, and a moment later there is one.
                if time.monotonic() >= deadline:
                    raise
                time.sleep(_RETRY_S)

    def _offset_store(self) -> KafkaOffsetStore:
        return KafkaOffsetStore(
            self.config, self.group_id, self.metadata_topic, request_timeout_s=self.request_timeout_s
        )

    def _end_of_group(self) -> int:
        """Return the end of the partition that keeps the group's offsets, 0 where the first commit will create it."""
        if OFFSETS_TOPIC not in self._topics.partition_counts([OFFSETS_TOPIC]):
            return 0
        key = OFFSETS_TOPIC, self._partition_of_group()
        outcome = self._admin.list_offsets([key], admin_api.OffsetSpec.latest())[key]
        return int(self._admin.checked(f"asking for the end of {key[0]}-{key[1]}", outcome).offset)

    def _partition_of_group(self) -> int:
        count = self._topics.partition_counts([OFFSETS_TOPIC]).get(OFFSETS_TOPIC)
        if count is None:
            raise EventLogUnavailableError(f"topic {OFFSETS_TOPIC!r} is being created")
        return group_partition(self.group_id, count)

    def newest_metadata_record(self, log: MetadataLogReader) -> list[TimeBound]:
        """
        Return the newest time that a broker has put on a record of the metadata topic, if there is one.

        It is the record's time, not the event's: a broker that appends a record refuses times far ahead of its own. The last
        records of a partition count, not those with the latest times: one from the future is forgotten with the next ones.

        :raises EventLogAccessError: if the topic may not be described or read.
        :raises EventLogUnavailableError: if the brokers do not answer.
        """
        stamped = self._stamps_metadata()
        ranges = newest(log, _LAST_OFFSETS)
        times = self._newest([(self.metadata_topic, partition) for partition in range(log.partition_count)])
        freshest = sorted(times, key=lambda key: times[key][1], reverse=True)[:_PARTITIONS]
        looked_at = {partition: ranges[partition] for _, partition in freshest if partition in ranges}
        bounds: dict[int, TimeBound] = {}
        for decoded in look_at_many(log, looked_at):
            bounds |= self._last_bound(decoded, stamped)
        return [max(bounds.values(), key=lambda bound: bound.not_before_ms)] if bounds else []

    def _last_bound(self, decoded: Any, stamped: bool) -> dict[int, TimeBound]:
        """Return metadata partition → the time of the last record of a batch that a broker wrote or stamped."""
        import pyarrow.compute as pc

        relied_on = decoded if stamped else decoded.filter(pc.and_(applicable(decoded), written_by_brokers(decoded)))
        if relied_on.num_rows == 0:
            return {}
        columns = ["metadata_partition", "offset", "timestamp_ms", "broker_id"]
        (last,) = relied_on.slice(relied_on.num_rows - 1).select(columns).to_pylist()
        who = "LogAppendTime" if stamped else f"written by broker {last['broker_id']}"
        number = last["metadata_partition"]
        source = f"the record at offset {last['offset']} of {self.metadata_topic}-{number} ({who})"
        return {number: TimeBound(source, last["timestamp_ms"])}

    def _stamps_metadata(self) -> bool:
        """Tell whether brokers stamp the metadata topic's records; where one may not ask, they are taken not to."""
        try:
            settings = self._topics.topic_settings([self.metadata_topic])
        except EventLogAccessError:
            return False
        return settings.get(self.metadata_topic, {}).get("message.timestamp.type") == "LogAppendTime"

    def _newest(self, partitions: Sequence[tuple[str, int]]) -> dict[tuple[str, int], tuple[int, int]]:
        """Return offset and time (ms) of the record with the latest time, -1 and -1 where there is none."""
        outcomes = self._admin.list_offsets(partitions, admin_api.OffsetSpec.max_timestamp())
        for (topic, partition), outcome in outcomes.items():
            self._admin.checked(f"asking for the newest record of {topic}-{partition}", outcome)
        return {key: (int(answer.offset), int(answer.timestamp)) for key, answer in outcomes.items()}

    def close(self) -> None:
        """Let the clients go; the next reading opens others."""
        self._admin.close()
        self._topics.close()


def group_partition(group_id: str, partitions: int) -> int:
    """
    Return the partition of ``__consumer_offsets`` that keeps a group's offsets (Kafka: ``GroupCoordinatorService``).

    :param group_id: the group.
    :param partitions: number of partitions of ``__consumer_offsets``.
    """
    hashed = 0
    units = group_id.encode("utf-16-be")
    for high, low in zip(units[::2], units[1::2], strict=True):
        hashed = (31 * hashed + (high << 8 | low)) & 0xFFFF_FFFF
    signed = hashed - (1 << 32) if hashed >> 31 else hashed
    # Its absolute value, not its lower 31 bits as for metadata partitions; Java has none for the smallest number.
    return 0 if signed == -(1 << 31) else abs(signed) % partitions
