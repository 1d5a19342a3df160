# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from airflow_provider_rlmm.core.base.errors import (
    ClusterMismatchError,
    EventLogUnavailableError,
    MetadataTopicNotFoundError,
    OffsetOutOfRangeError,
)
from airflow_provider_rlmm.core.log.kafka import event_log as kafka_event_log
from airflow_provider_rlmm.core.log.kafka.event_log import (
    KafkaMetadataEventLog,
    KafkaMetadataLogReader,
    KafkaMetadataLogWriter,
)
from airflow_provider_rlmm.core.log.kafka.offsets import KafkaOffsetStore
from airflow_provider_rlmm.core.log.protocol import Acked, Failed, Unknown
from dev.broker import LocalKafka, await_condition
from tests.contracts.event_log import PARTITIONS, EventLogUnderTest, MetadataEventLogContract
from tests.contracts.offset_store import OffsetStoreContract
from tests.integration.kafka_topics import (
    TIMEOUT_S,
    config_of,
    create_topic,
    delete_records,
    delete_topic,
    existing_topics,
    set_policy,
)

pytestmark = pytest.mark.integration


def log_of(kafka: LocalKafka, topic: str, **timeouts: float) -> KafkaMetadataEventLog:
    return KafkaMetadataEventLog(config_of(kafka), topic, **timeouts)


def values(log: KafkaMetadataEventLog, partition: int, end: int | None = None) -> dict[int, bytes]:
    stop = log.high_water_marks()[partition] if end is None else end
    return {row["offset"]: row["value"] for batch in log.read(partition, 0, stop) for row in batch.to_pylist()}


def slow_reader(kafka: LocalKafka, topic: str, monkeypatch: pytest.MonkeyPatch) -> KafkaMetadataEventLog:
    """Return a log of which most is still on the broker when the first batch of a read is out."""
    monkeypatch.setattr(kafka_event_log, "BATCH_ROWS", 10)
    config = config_of(kafka, **{"queued.min.messages": 1, "fetch.message.max.bytes": 1_000})
    return KafkaMetadataEventLog(config, topic, request_timeout_s=5)


@pytest.fixture(scope="module")
def mortal() -> Iterator[LocalKafka]:
    """Start a broker that no other module uses."""
    with LocalKafka() as broker:
        yield broker


class TestContract(MetadataEventLogContract):
    @pytest.fixture
    def under_test(self, kafka):
        topic = create_topic(kafka, PARTITIONS)
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 2})

        def append(partition, value, key):
            producer.produce(topic, value=value, key=key, partition=partition)
            assert producer.flush(TIMEOUT_S) == 0

        def append_in_a_transaction(partition, value):
            transactional = Producer(
                {"bootstrap.servers": kafka.bootstrap_servers, "log_level": 2, "transactional.id": uuid4().hex}
            )
            transactional.init_transactions(TIMEOUT_S)
            end = log.high_water_marks()[partition]
            transactional.begin_transaction()
            transactional.produce(topic, value=value, partition=partition)
            transactional.commit_transaction(TIMEOUT_S)
            # The marker is written behind the answer.
            await_condition(
                lambda: log.high_water_marks()[partition] == end + 2, "the transaction has its marker", TIMEOUT_S
            )

        with log_of(kafka, topic) as log:
            yield EventLogUnderTest(
                log,
                append,
                lambda partition, before: delete_records(kafka, topic, partition, before),
                lambda policy: set_policy(kafka, topic, policy),
                append_in_a_transaction,
            )
        delete_topic(kafka, topic)


class TestOffsetStoreContract(OffsetStoreContract):
    @pytest.fixture
    def topic(self, kafka):
        topic = create_topic(kafka, PARTITIONS)
        yield topic
        delete_topic(kafka, topic)

    @pytest.fixture
    def store(self, kafka, topic):
        return KafkaOffsetStore(config_of(kafka), f"cleaner-{uuid4().hex}", topic)

    def test_groups_and_topics_do_not_mix(self, kafka, topic):
        group = f"cleaner-{uuid4().hex}"
        KafkaOffsetStore(config_of(kafka), group, topic).commit({0: 1})

        assert KafkaOffsetStore(config_of(kafka), group, "another").committed() == {}
        assert KafkaOffsetStore(config_of(kafka), f"{group}-other", topic).committed() == {}
        assert KafkaOffsetStore(config_of(kafka), group, topic).committed() == {0: 1}

    def test_a_topic_that_does_not_exist_is_named(self, kafka):
        with pytest.raises(MetadataTopicNotFoundError, match="missing-topic-0"):
            KafkaOffsetStore(config_of(kafka), f"cleaner-{uuid4().hex}", "missing-topic").commit({0: 1})


class TestOffsetStoreOfALongLife:
    @pytest.fixture
    def dead_end(self):
        """An address that nobody listens at."""
        with socket.socket() as reserved:
            reserved.bind(("127.0.0.1", 0))
            yield f"127.0.0.1:{reserved.getsockname()[1]}"

    def test_a_client_that_finds_no_coordinator_is_replaced(self, kafka, dead_end):
        topic, group = create_topic(kafka, 1), f"cleaner-{uuid4().hex}"
        store = KafkaOffsetStore(config_of(kafka), group, topic, request_timeout_s=3)

        for call in (lambda: store.commit({0: 7}), store.committed):
            store._admin._client = AdminClient({"bootstrap.servers": dead_end, "log_level": 2})
            call()

        assert store.committed() == {0: 7}

    @pytest.mark.rare
    def test_a_client_opened_before_a_kill_commits_after_it(self, mortal):
        topic, group = create_topic(mortal, 1), f"cleaner-{uuid4().hex}"
        store = KafkaOffsetStore(config_of(mortal), group, topic)
        store.commit({0: 1})
        mortal.kill()
        mortal.start()

        store.commit({0: 2})

        assert store.committed() == {0: 2}


class TestTransactionsOfForeignWriters:
    @pytest.fixture
    def log(self, kafka):
        with log_of(kafka, create_topic(kafka, 1), request_timeout_s=5) as log:
            yield log

    @pytest.fixture
    def transactions(self, kafka):
        producer = Producer(
            {"bootstrap.servers": kafka.bootstrap_servers, "log_level": 2, "transactional.id": uuid4().hex}
        )
        producer.init_transactions(TIMEOUT_S)
        return producer

    def write(self, producer, topic, *values):
        for value in values:
            producer.produce(topic, value=value, partition=0)
        assert producer.flush(TIMEOUT_S) == 0

    def await_end(self, log, end):
        """Brokers write the marker of a transaction after they have said that it ended."""
        await_condition(lambda: log.high_water_marks() == {0: end}, f"the log ends at {end}", TIMEOUT_S)

    def test_a_range_that_ends_in_a_marker_is_read_whole(self, log, transactions):
        transactions.begin_transaction()
        self.write(transactions, log._topic, b"a", b"b")
        transactions.commit_transaction(TIMEOUT_S)
        self.await_end(log, 3)

        assert values(log, 0) == {0: b"a", 1: b"b"}
        assert values(log, 0, end=2) == {0: b"a", 1: b"b"}
        assert log.publish([(0, b"c")]) == [Acked(3)]
        assert values(log, 0, end=3) == {0: b"a", 1: b"b"}
        assert values(log, 0) == {0: b"a", 1: b"b", 3: b"c"}

    def test_an_aborted_transaction_is_read_as_brokers_read_it(self, log, transactions):
        log.publish([(0, b"a")])
        transactions.begin_transaction()
        self.write(transactions, log._topic, b"x", b"y")
        transactions.abort_transaction(TIMEOUT_S)

        self.await_end(log, 4)
        assert values(log, 0) == {0: b"a", 1: b"x", 2: b"y"}

    def test_an_open_transaction_does_not_stop_a_read(self, log, transactions):
        log.publish([(0, b"a")])
        transactions.begin_transaction()
        self.write(transactions, log._topic, b"open")
        log.publish([(0, b"behind")])

        assert values(log, 0, end=3) == {0: b"a", 1: b"open", 2: b"behind"}
        transactions.abort_transaction(TIMEOUT_S)


class TestTopic:
    def test_a_missing_topic_is_named_and_never_created(self, kafka):
        topic = f"missing-{uuid4().hex}"
        log = log_of(kafka, topic)

        for call in (
            lambda: log.partition_count,
            log.beginning_offsets,
            log.high_water_marks,
            lambda: log.publish([(0, b"x")]),
            lambda: log.read(0, 0, 1),
        ):
            with pytest.raises(MetadataTopicNotFoundError, match=f"{topic}.*{kafka.bootstrap_servers}"):
                call()

        assert topic not in existing_topics(kafka)

    def test_nothing_is_written_to_a_topic_that_took_the_place_of_ours(self, kafka):
        topic = create_topic(kafka, 2)
        log = log_of(kafka, topic)
        assert log.publish([(0, b"a")]) == [Acked(0)]
        delete_topic(kafka, topic)

        with pytest.raises(MetadataTopicNotFoundError):
            log.publish([(0, b"b")])
        assert topic not in existing_topics(kafka)

        create_topic(kafka, 2, name=topic)
        with pytest.raises(MetadataTopicNotFoundError, match="was replaced"):
            log.publish([(0, b"b")])
        assert log_of(kafka, topic).high_water_marks() == {0: 0, 1: 0}

    def test_a_record_that_the_broker_refuses_is_failed(self, kafka):
        topic = create_topic(kafka, 1, settings={"max.message.bytes": "1000"})
        log = log_of(kafka, topic)

        (outcome,) = log.publish([(0, bytes(5_000))])

        assert isinstance(outcome, Failed)
        assert "MSG_SIZE_TOO_LARGE" in outcome.reason
        assert log.high_water_marks() == {0: 0}
        assert log.publish([(0, b"small")]) == [Acked(0)]

    def test_records_deleted_while_they_are_read_end_the_read(self, kafka, monkeypatch):
        topic = create_topic(kafka, 1)
        log = slow_reader(kafka, topic, monkeypatch)
        log.publish([(0, bytes(10_000))] * 2_000)
        reading = log.read(0, 0, 2_000)
        next(reading)

        delete_records(kafka, topic, 0, 1_999)

        with pytest.raises(OffsetOutOfRangeError, match="lost while they were read"):
            list(reading)

    def test_the_log_can_be_used_after_it_was_closed(self, kafka):
        log = log_of(kafka, create_topic(kafka, 1))
        with log:
            log.publish([(0, b"a")])

        assert values(log, 0) == {0: b"a"}
        assert log.publish([(0, b"b")]) == [Acked(1)]
        log.close()


class TestOpenedAhead:
    def test_the_first_batch_takes_the_producer_that_is_there(self, kafka):
        writer = KafkaMetadataLogWriter(KafkaMetadataLogReader(config_of(kafka), create_topic(kafka, 1)))
        writer.open_ahead()
        writer._producer._ahead.join(TIMEOUT_S)
        opened = writer._producer._producer
        assert opened is not None
        assert writer.publish([(0, b"a")]) == [Acked(0)]
        assert writer._producer._producer is opened

    def test_what_went_wrong_is_said_by_the_first_batch(self, kafka):
        reader = KafkaMetadataLogReader(config_of(kafka), create_topic(kafka, 1), cluster_id="another")
        writer = KafkaMetadataLogWriter(reader)
        writer.open_ahead()
        with pytest.raises(ClusterMismatchError, match="another"):
            writer.publish([(0, b"a")])
        assert reader.high_water_marks() == {0: 0}


@pytest.mark.rare
class TestBrokerDies:
    @pytest.fixture(autouse=True)
    def alive_again(self, mortal):
        yield
        if not mortal.alive:
            mortal.start()

    def test_nothing_that_was_not_written_is_acked(self, mortal, monkeypatch):
        topic = create_topic(mortal, 2)
        # The records wait in the client until the broker is dead.
        config = config_of(mortal, **{"linger.ms": 1_900})
        log = KafkaMetadataEventLog(config, topic, delivery_timeout_s=2)
        wait = log._writer._producer._wait

        def after_the_kill(producer):
            mortal.kill()
            wait(producer)

        monkeypatch.setattr(log._writer._producer, "_wait", after_the_kill)
        started = time.monotonic()

        outcomes = log.publish([(n % 2, b"%d" % n) for n in range(100)])

        assert {type(outcome) for outcome in outcomes} == {Unknown}
        assert time.monotonic() - started < 20
        monkeypatch.undo()
        mortal.start()
        assert log.high_water_marks() == {0: 0, 1: 0}
        assert log.publish([(0, b"again")]) == [Acked(0)]

    def test_every_ack_of_a_broken_batch_is_true(self, mortal, monkeypatch):
        topic = create_topic(mortal, 1)
        log = log_of(mortal, topic, delivery_timeout_s=3)
        records = [(0, n.to_bytes(200, "big")) for n in range(30_000)]
        enqueue = log._writer._producer._enqueue

        def with_a_kill_in_the_middle(producer, partition, value, report, deadline):
            if value == records[15_000][1]:
                # Some acks are in, the rest is under way or queued.
                await_condition(lambda: producer.poll(0) >= 0 and len(producer) < 15_000, "the first ack", TIMEOUT_S)
                mortal.kill()
            return enqueue(producer, partition, value, report, deadline)

        monkeypatch.setattr(log._writer._producer, "_enqueue", with_a_kill_in_the_middle)

        outcomes = log.publish(records)

        assert {type(outcome) for outcome in outcomes} == {Acked, Unknown}
        mortal.start()
        written = values(log, 0)
        for outcome, (_, value) in zip(outcomes, records, strict=True):
            if isinstance(outcome, Acked):
                assert written[outcome.offset] == value

    def test_a_broker_that_is_down_is_one_error_in_time(self, mortal):
        topic = create_topic(mortal, 1)
        log = log_of(mortal, topic, request_timeout_s=3)
        log.publish([(0, b"a")])
        mortal.kill()

        for call in (
            lambda: log_of(mortal, topic, request_timeout_s=3).partition_count,
            lambda: log.publish([(0, b"b")]),
            log.high_water_marks,
            lambda: list(log.read(0, 0, 1)),
        ):
            started = time.monotonic()
            with pytest.raises(EventLogUnavailableError, match=mortal.bootstrap_servers):
                call()
            assert time.monotonic() - started < 15

    def test_a_read_is_cut_short_when_the_broker_dies(self, mortal, monkeypatch):
        topic = create_topic(mortal, 1)
        log = slow_reader(mortal, topic, monkeypatch)
        log.publish([(0, n.to_bytes(10_000, "big")) for n in range(2_000)])
        reading = log.read(0, 0, 2_000)
        rows = next(reading).to_pylist()
        mortal.kill()

        with pytest.raises(EventLogUnavailableError, match=f"{topic}-0.*{mortal.bootstrap_servers}.*no progress"):
            rows.extend(row for batch in reading for row in batch.to_pylist())

        assert 0 < len(rows) < 2_000
        assert [row["offset"] for row in rows] == list(range(len(rows)))
