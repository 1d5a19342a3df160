# SPDX-License-Identifier: Apache-2.0
"""Publishing a batch to Kafka, with one outcome per record that is never better than the truth."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from threading import Thread

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from airflow_provider_rlmm.core.base.errors import RlmmError
from airflow_provider_rlmm.core.log.kafka.client import open_client, serve
from airflow_provider_rlmm.core.log.kafka.client_watch import ClientWatch
from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
from airflow_provider_rlmm.core.log.protocol import Acked, Failed, PublishOutcome, Unknown

_FLUSH_SLICE_S = 0.5
# librdkafka looks for timed-out records once a second, so their reports come up to that much late.
_REPORT_SLACK_S = 2.0
_PURGE_S = 2.0
# With these a broker, or the client before sending, refuses a record before anything is appended. librdkafka knows more
# (rd_kafka_message_status), but its Python binding does not tell; an error that is not on this short list may have been
# written.
_REFUSALS = (
    "CLUSTER_AUTHORIZATION_FAILED", "INVALID_RECORD", "MSG_SIZE_TOO_LARGE", "POLICY_VIOLATION", "RECORD_LIST_TOO_LARGE",
    "TOPIC_AUTHORIZATION_FAILED",
)  # fmt: skip

_logger = logging.getLogger(__name__)

_Report = Callable[["KafkaError | None", "Message"], None]
_Outcomes = list[PublishOutcome | None]


def outcome_of(error: KafkaError | None, offset: int | None, text_of: Callable[[KafkaError], str]) -> PublishOutcome:
    """
    Translate a delivery report.

    :param error: the report's error, if any.
    :param offset: the report's offset.
    :param text_of: says an error in words (:meth:`~airflow_provider_rlmm.core.log.kafka.client_watch.ClientWatch.text_of`).
    """
    if error is not None:
        refused = error.name() in _REFUSALS and not error.fatal()
        return Failed(text_of(error)) if refused else Unknown(text_of(error))
    if offset is None or offset < 0:
        # A broker that recognises a retry as a duplicate no longer knows where the first attempt went.
        return Unknown("the broker has the record already and does not say at which offset")
    return Acked(offset)


@dataclass
class BatchProducer:
    """
    An idempotent producer for one topic, opened when first used and replaced after anything that leaves it in doubt.

    :param config: the client's properties.
    :param topic: the topic; it must exist, as a producer could create it.
    :param delivery_timeout_s: seconds until a record that is not acked is given up.
    :param require_cluster: refuses a client that has reached another cluster.
    """

    config: KafkaClientConfig
    topic: str
    delivery_timeout_s: float
    require_cluster: Callable[[Producer, str], None] = field(kw_only=True)

    def __post_init__(self) -> None:
        self._watch = ClientWatch(self.config)
        self._producer: Producer | None = None
        self._ahead: Thread | None = None

    def open_ahead(self) -> None:
        """Open the producer while the caller does something else; what goes wrong there the first batch meets again."""
        self._ahead = Thread(target=self._try_to_open, name="rlmm-producer", daemon=True)
        self._ahead.start()

    def _try_to_open(self) -> None:
        with suppress(KafkaException, RlmmError):
            self._open()

    def _await_opening(self) -> None:
        if self._ahead is not None:
            self._ahead.join()
            self._ahead = None

    def publish(self, records: Sequence[tuple[int, bytes]]) -> list[PublishOutcome]:
        """
        Append a batch and wait for all of it.

        :param records: (partition, value); the partitions exist.
        :return: one outcome per record, in the same order.
        """
        self._await_opening()
        producer = self._open()
        self._watch.forget()
        outcomes: _Outcomes = [None] * len(records)
        deadline = time.monotonic() + self.delivery_timeout_s
        try:
            for index, (partition, value) in enumerate(records):
                report = partial(self._report, outcomes, index)
                outcomes[index] = self._enqueue(producer, partition, value, report, deadline)
            self._wait(producer)
        except KafkaException as fatal:
            # Raised as soon as it is known, before the other reports come: what has none may have been written.
            lost = Unknown(self._watch.text_of(fatal.args[0]))
            self._abandon(producer)
            return [outcome if isinstance(outcome, Acked | Failed) else lost for outcome in outcomes]
        except BaseException:
            # What is still queued must not be written behind the back of the next caller.
            self._abandon(producer)
            raise
        if any(outcome is None or isinstance(outcome, Unknown) for outcome in outcomes):
            self._abandon(producer)
        return [Unknown("no delivery report came") if outcome is None else outcome for outcome in outcomes]

    def _open(self) -> Producer:
        if self._producer is None:
            producer = open_client(Producer, self.config.producer(self.delivery_timeout_s), self._watch)
            self.require_cluster(producer, "the producer")
            self._producer = producer
        return self._producer

    def _enqueue(
        self, producer: Producer, partition: int, value: bytes, report: _Report, deadline: float
    ) -> PublishOutcome | None:
        """Hand one record to the producer; return its outcome only where it did not get in, so was never sent."""
        while True:
            try:
                producer.produce(self.topic, value=value, partition=partition, on_delivery=report)
            except BufferError:
                if time.monotonic() >= deadline:
                    return Failed("the producer's queue stayed full", retriable=True)
                serve(producer.poll, _FLUSH_SLICE_S)
            except KafkaException as error:
                refusal: KafkaError = error.args[0]
                if refusal.fatal():
                    self._producer = None
                return Failed(self._watch.text_of(refusal), retriable=refusal.fatal() or refusal.retriable())
            else:
                return None

    def _report(self, outcomes: _Outcomes, index: int, error: KafkaError | None, message: Message) -> None:
        outcomes[index] = outcome_of(error, message.offset(), self._watch.text_of)

    def _wait(self, producer: Producer) -> None:
        """Wait until every report is in. In slices, so that a signal is handled between two of them."""
        deadline = time.monotonic() + self.delivery_timeout_s + _REPORT_SLACK_S
        while serve(producer.flush, _FLUSH_SLICE_S) and time.monotonic() < deadline and not self._watch.access_denied:
            pass
        if len(producer):
            producer.purge()
            serve(producer.flush, _PURGE_S)

    def _abandon(self, producer: Producer) -> None:
        """Drop the producer: after a doubt its sequence numbers prove nothing, the next call starts with new ones."""
        _logger.info("A batch to %s was not acked in full; the next one gets a new producer", self.topic)
        producer.purge()
        self._producer = None

    def close(self) -> None:
        """Let the producer go; nothing is queued between two calls."""
        self._await_opening()
        self._producer = None
