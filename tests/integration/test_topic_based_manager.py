# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
from confluent_kafka import Producer

from airflow_provider_rlmm.core.log.kafka import event_log as kafka_event_log
from airflow_provider_rlmm.core.log.kafka import subscription as kafka_subscription
from airflow_provider_rlmm.core.log.kafka.event_log import KafkaMetadataEventLog
from airflow_provider_rlmm.core.log.protocol import Acked, Unknown
from dev.broker import LocalKafka
from tests.contracts.consuming import A, Append, B, Consuming, ConsumingContract
from tests.contracts.topic_based import GONE, PARTITIONS, Managing, TopicBasedManagerContract, started
from tests.integration.kafka_topics import TIMEOUT_S, config_of, create_topic, delete_records

pytestmark = [pytest.mark.integration, pytest.mark.manager]


# A client waits up to 10 s between two attempts to connect otherwise.
IMPATIENT = {"reconnect.backoff.max.ms": 500}


def appender(kafka: LocalKafka, topic: str) -> Append:
    # A fetch returns whole batches, however little it asks for: large ones would leave nothing to be killed in the middle of.
    small_batches = {"batch.num.messages": 20}
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 2, **small_batches, **IMPATIENT})

    def append(records):
        for partition, value, key in records:
            producer.produce(topic, value=value, key=key, partition=partition)
        assert producer.flush(TIMEOUT_S) == 0

    return append


def consuming_on(kafka: LocalKafka, num_partitions: int, **properties: object) -> Consuming:
    """A consumer on a topic of its own; the caller closes task and log."""
    topic = create_topic(kafka, num_partitions)
    log = KafkaMetadataEventLog(config_of(kafka, **properties), topic, request_timeout_s=5)
    return Consuming(log, appender(kafka, topic), partial(delete_records, kafka, topic))


def managing_on(kafka: LocalKafka, **properties: object) -> Iterator[Managing]:
    topic = create_topic(kafka, PARTITIONS)
    with KafkaMetadataEventLog(config_of(kafka, **properties), topic, delivery_timeout_s=5, request_timeout_s=5) as log:
        managing = Managing(log, appender(kafka, topic))
        yield managing
        managing.close()


class TestConsuming(ConsumingContract):
    @pytest.fixture
    def make(self, kafka):
        made = []

        def make(num_partitions):
            made.append(consuming_on(kafka, num_partitions))
            return made[-1]

        yield make
        for consuming in made:
            consuming.task.close()
            consuming.log.close()


class TestManager(TopicBasedManagerContract):
    @pytest.fixture
    def managing(self, kafka):
        yield from managing_on(kafka)

    def test_records_of_unknown_outcome_are_found_in_the_topic(self, managing, monkeypatch):
        managing.orphaned(3)
        manager = managing.following(GONE)
        publish = managing.log.publish

        def acks_are_lost(records):
            return [Unknown("the connection broke") for _ in publish(records)]

        monkeypatch.setattr(managing.log, "publish", acks_are_lost)

        assert manager.publish(started(range(3))) == [Acked(5), Acked(6), Acked(7)]


@pytest.fixture(scope="module")
def mortal() -> Iterator[LocalKafka]:
    """Start a broker that no other module uses."""
    with LocalKafka() as broker:
        yield broker


class TestBrokerDies:
    @pytest.fixture(autouse=True)
    def alive_again(self, mortal):
        yield
        if not mortal.alive:
            mortal.start()

    @pytest.fixture
    def slow(self, mortal, monkeypatch):
        """A consumer of which most is still on the broker when the first batches are out."""
        for module in (kafka_event_log, kafka_subscription):
            monkeypatch.setattr(module, "BATCH_ROWS", 20)
        slowly = {"queued.min.messages": 1, "fetch.message.max.bytes": 4_000}
        consuming = consuming_on(mortal, 1, **slowly, **IMPATIENT)
        yield consuming
        consuming.task.close()
        consuming.log.close()

    delivered = ConsumingContract.delivered

    def test_a_replay_goes_on_after_a_kill_in_the_middle(self, mortal, slow, delivered):
        slow.segments(A, range(3_000))
        slow.store.assign([A])
        slow.step_until(lambda: len(delivered) > 100, "the replay has begun")

        mortal.kill()
        slow.step_until(lambda: slow.task.liveness().failures_in_a_row > 0, "the failure shows")
        assert 100 < len(delivered) < 3_000
        assert not slow.store.is_initialized(A)
        assert slow.followed[0].lag > 0
        mortal.start()
        slow.settle()

        assert slow.starts(A) == list(range(3_000))
        assert delivered == [(A, offset) for offset in range(3_000)]
        assert slow.task.liveness().failures_in_a_row == 0

    def test_a_bootstrap_goes_on_after_a_kill_in_the_middle(self, mortal, slow, delivered):
        slow.segments(B, range(3_000))
        slow.follow(A)
        slow.store.assign([B])
        slow.step_until(lambda: len(delivered) > 100, "the bootstrap has begun")

        mortal.kill()
        slow.step_until(lambda: slow.task.liveness().failures_in_a_row > 0, "the failure shows")
        assert 100 < len(delivered) < 3_000
        mortal.start()
        slow.settle()

        assert slow.starts(B) == list(range(3_000))
        assert delivered == [(B, offset) for offset in range(3_000)]

    def test_an_assignment_made_while_the_broker_is_down_is_not_lost(self, mortal):
        consuming = consuming_on(mortal, 1, **IMPATIENT)
        consuming.segments(A, [0])
        mortal.kill()
        consuming.store.assign([A])
        consuming.step()
        assert consuming.task.liveness().failures_in_a_row == 1
        mortal.start()

        consuming.settle()

        assert consuming.starts(A) == [0]
        consuming.task.close()

    def test_a_restart_in_the_middle_of_a_subscription_loses_and_repeats_nothing(self, mortal, delivered):
        consuming = consuming_on(mortal, 1, **IMPATIENT)
        consuming.segments(A, range(10))
        consuming.follow(A)

        mortal.restart()
        consuming.segments(A, range(10, 20))
        consuming.settle()

        assert consuming.starts(A) == list(range(20))
        assert delivered == [(A, offset) for offset in range(20)]
        consuming.task.close()

    def test_a_manager_publishes_and_reads_again_after_a_kill(self, mortal):
        for managing in managing_on(mortal, **IMPATIENT):
            managing.orphaned(2)
            manager = managing.following(GONE)
            manager.publish(started([0]))
            mortal.kill()
            mortal.start()

            assert manager.publish(started([1])) == [Acked(5)]
            assert manager.liveness().running

    def test_a_batch_on_which_the_broker_died_is_not_taken_for_written(self, mortal, monkeypatch):
        # The records wait in the client until the broker is dead.
        for managing in managing_on(mortal, **IMPATIENT, **{"linger.ms": 1_900}):
            managing.orphaned(2)
            manager = managing.following(GONE)
            wait = managing.log._writer._producer._wait

            def kill_and_restart(producer, wait=wait):
                mortal.kill()
                wait(producer)
                mortal.start()

            monkeypatch.setattr(managing.log._writer._producer, "_wait", kill_and_restart)

            outcomes = manager.publish(started(range(2)))

            assert {type(outcome) for outcome in outcomes} == {Unknown}
            assert all("may still land" in outcome.reason for outcome in outcomes)
            monkeypatch.undo()
            assert manager.publish(started(range(2))) == [Acked(4), Acked(5)]
