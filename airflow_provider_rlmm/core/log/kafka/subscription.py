# SPDX-License-Identifier: Apache-2.0
"""Following metadata partitions on Kafka: one consumer, assigned by hand, in no group."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from airflow_provider_rlmm.core.base.errors import EventLogError, MetadataTopicNotFoundError, OffsetOutOfRangeError
from airflow_provider_rlmm.core.log.event_decoding import BATCH_ROWS, event_batch, subscription_batch
from airflow_provider_rlmm.core.log.kafka.client import open_client
from airflow_provider_rlmm.core.log.kafka.client_watch import ClientWatch
from airflow_provider_rlmm.core.log.kafka.config import CLIENT_ID_PREFIX, KafkaClientConfig

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

# A subscription lives long: at the end of the log it asks the brokers ten times a second, not a hundred times.
_FETCH_WAIT_MS = 100
_PROBE_S = 1.0
_MILLISECONDS = itemgetter(1)


class KafkaSubscription:
    """
    An :class:`~airflow_provider_rlmm.core.log.protocol.EventStream` and its
    :class:`~airflow_provider_rlmm.core.log.protocol.SubscriptionHandle` in one.

    The consumer reconnects and fetches again by itself, forever and in silence. So after every error that it reports,
    polls fail until the brokers have answered again.

    :param config: the client's properties.
    :param topic: the metadata topic.
    :param check: raises ``MetadataPartitionOutOfRangeError`` for a metadata partition that does not exist.
    :param require_cluster: refuses a client that has reached another cluster.
    """

    def __init__(
        self,
        config: KafkaClientConfig,
        topic: str,
        check: Callable[[int], None],
        require_cluster: Callable[[Any, str], None],
    ) -> None:
        self._topic = topic
        self._check = check
        self._watch = ClientWatch(config)
        properties = config.consumer(f"{CLIENT_ID_PREFIX}_subscription_{uuid4().hex}")
        if "fetch.wait.max.ms" not in config.properties:
            properties["fetch.wait.max.ms"] = _FETCH_WAIT_MS
        consumer = open_client(Consumer, properties, self._watch)
        require_cluster(consumer, "the subscription's consumer")
        self._consumer: Consumer | None = consumer
        self._positions: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        self._errors: list[EventLogError] = []

    def add(self, metadata_partition: int, start: int) -> None:
        """See :class:`~airflow_provider_rlmm.core.log.protocol.SubscriptionHandle`."""
        self._check(metadata_partition)
        if metadata_partition in self._positions:
            raise ValueError(f"metadata partition {metadata_partition} of {self._topic!r} is assigned already")
        self._open.incremental_assign([TopicPartition(self._topic, metadata_partition, start)])
        self._positions[metadata_partition] = self._ends[metadata_partition] = start

    def remove(self, metadata_partition: int) -> None:
        """See :class:`~airflow_provider_rlmm.core.log.protocol.SubscriptionHandle`."""
        if self._positions.pop(metadata_partition, None) is not None:
            del self._ends[metadata_partition]
            self._open.incremental_unassign([TopicPartition(self._topic, metadata_partition)])

    def assigned(self) -> Mapping[int, int]:
        """See :class:`~airflow_provider_rlmm.core.log.protocol.SubscriptionHandle`."""
        return dict(self._positions)

    def end_offsets(self) -> Mapping[int, int]:
        """See :class:`~airflow_provider_rlmm.core.log.protocol.SubscriptionHandle`; every fetch brings them along."""
        for number, known in self._ends.items():
            try:
                cached = self._open.get_watermark_offsets(TopicPartition(self._topic, number), cached=True)[1]
            except KafkaException:
                # Nothing was fetched yet.
                cached = known
            self._ends[number] = max(known, self._positions[number], cached)
        return dict(self._ends)

    def poll(self, timeout_s: float) -> list[pa.RecordBatch]:
        """See :class:`~airflow_provider_rlmm.core.log.protocol.EventStream`."""
        if self._errors:
            raise self._errors.pop(0)
        # Asked for many, the client waits until it has all of them; asked for one, it returns as soon as it has that.
        messages = self._open.consume(1, timeout_s)
        if messages:
            messages += self._open.consume(BATCH_ROWS - 1, 0)
        batches = self._sort(messages)
        if not batches:
            if self._errors:
                raise self._errors.pop(0)
            self._raise_if_unreachable(bool(messages))
        return batches

    @property
    def _open(self) -> Consumer:
        if self._consumer is None:
            raise ValueError(f"the subscription to {self._topic!r} is closed")
        return self._consumer

    def _sort(self, messages: Sequence[Message]) -> list[pa.RecordBatch]:
        """Return the records by partition, and keep the errors for the next call."""
        records: dict[int, list[Message]] = {}
        for message in messages:
            number, offset = message.partition(), message.offset()
            error = message.error()
            if error is not None:
                self._take_error(number, offset, error)
            elif number is not None and offset is not None and offset >= self._positions.get(number, offset + 1):
                # What else there may be was fetched before the partition was removed, or added again.
                records.setdefault(number, []).append(message)
                self._positions[number] = offset + 1
        batches = []
        for number, found in records.items():
            columns = MessageColumns()
            columns.extend(found)
            batches.append(subscription_batch(number, columns.batch()))
        return batches

    def _take_error(self, number: int | None, offset: int | None, error: KafkaError) -> None:
        if error.name() == "_PARTITION_EOF":
            # Also past offsets without a record: transaction markers, compaction.
            if number in self._positions and offset is not None:
                self._positions[number] = max(self._positions[number], offset)
            self._watch.forget()
        elif error.name() == "_AUTO_OFFSET_RESET" and number in self._positions:
            self._errors.append(self._out_of_range(number, error))
        elif error.name() in ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC"):
            text = f"following {self._topic}-{number}: {self._watch.text_of(error)}; was the topic deleted?"
            self._errors.append(MetadataTopicNotFoundError(text))
        elif error.name() != "GROUP_AUTHORIZATION_FAILED":
            # librdkafka looks for the coordinator of its unused group; nothing here needs permission for it.
            self._errors.append(self._watch.error(f"following {self._topic}-{number}", error))

    def _out_of_range(self, number: int, error: KafkaError) -> EventLogError:
        position = self._positions[number]
        known = self._watermarks(number)
        self.remove(number)
        held = "which offsets there are, the brokers do not say"
        if not isinstance(known, EventLogError):
            held = f"the log holds offsets {known[0]} to {known[1]} (exclusive)"
        return OffsetOutOfRangeError(
            f"following {self._topic}-{number}: no record can be read at offset {position}, {held}; "
            f"{self._watch.text_of(error)}: read it from its beginning",
            number,
            position,
        )

    def _raise_if_unreachable(self, heard: bool) -> None:
        """Ask the brokers whether they are there, once the client has reported a failure and nothing has come since."""
        if heard or not self._watch.troubled or not self._positions:
            return
        answer = self._watermarks(next(iter(self._positions)))
        if isinstance(answer, EventLogError):
            raise answer
        self._watch.forget()

    def _watermarks(self, number: int) -> tuple[int, int] | EventLogError:
        what = f"following {self._topic}-{number}"
        try:
            answer: Any = self._open.get_watermark_offsets(TopicPartition(self._topic, number), timeout=_PROBE_S)
        except KafkaException as error:
            return self._watch.error(what, error.args[0])
        return answer if answer is not None else self._watch.error(what, f"no answer within {_PROBE_S:g} s")

    def close(self) -> None:
        """See :class:`~airflow_provider_rlmm.core.log.protocol.EventStream`."""
        self._positions.clear()
        self._ends.clear()
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None


@dataclass(slots=True)
class MessageColumns:
    """What messages of one partition say, until it becomes a batch."""

    rows: int = 0  # how many there are
    offsets: list[NDArray[np.int64]] = field(default_factory=list)  # ascending, of messages that came at once
    timestamps_ms: list[NDArray[np.int64]] = field(default_factory=list)  # likewise
    keys: list[bytes | None] = field(default_factory=list)  # of all
    values: list[bytes | None] = field(default_factory=list)  # likewise

    def extend(self, messages: Sequence[Message]) -> None:
        """
        Append messages.

        :param messages: without errors, by offset.
        """
        import numpy as np

        # Column after column, without a line of Python or a number of its own for each record: half of the time goes there.
        count = len(messages)
        self.offsets.append(_offsets_of(messages, count))
        self.timestamps_ms.append(np.fromiter(map(_MILLISECONDS, map(Message.timestamp, messages)), np.int64, count))
        self.keys += map(Message.key, messages)
        self.values += map(Message.value, messages)
        self.rows += count

    def batch(self) -> pa.RecordBatch:
        """Return them as a batch, and begin anew; there has to be one."""
        import numpy as np

        batch = event_batch(np.concatenate(self.offsets), np.concatenate(self.timestamps_ms), self.keys, self.values)
        self.rows, self.offsets, self.timestamps_ms, self.keys, self.values = 0, [], [], [], []
        return batch


def _offsets_of(messages: Sequence[Message], count: int) -> NDArray[np.int64]:
    """Return the offsets of messages that ascend: where as many lie between the first and the last one, each is clear."""
    import numpy as np

    if not count:
        return np.empty(0, np.int64)
    first, last = cast("int", messages[0].offset()), cast("int", messages[-1].offset())
    if last - first == count - 1:
        return np.arange(first, last + 1, dtype=np.int64)
    return np.fromiter(cast("map[int]", map(Message.offset, messages)), np.int64, count)
