# SPDX-License-Identifier: Apache-2.0
"""What the Kafka adapters do without a broker; nothing listens on port 1."""

from __future__ import annotations

import gc
import logging
import time
import weakref
from concurrent.futures import Future
from contextlib import closing

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient

from airflow_provider_rlmm.core.base.errors import (
    ConfigurationError,
    EventLogAccessError,
    EventLogUnavailableError,
    OffsetOutOfRangeError,
)
from airflow_provider_rlmm.core.log.event_decoding import BATCH_ROWS
from airflow_provider_rlmm.core.log.kafka import event_log as kafka_event_log
from airflow_provider_rlmm.core.log.kafka.admin import KafkaClusterTopics
from airflow_provider_rlmm.core.log.kafka.client import KafkaAdmin, open_client, serve
from airflow_provider_rlmm.core.log.kafka.client_watch import ClientWatch, client_logger
from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
from airflow_provider_rlmm.core.log.kafka.event_log import KafkaMetadataEventLog, _Range, _Reader
from airflow_provider_rlmm.core.log.kafka.offsets import KafkaOffsetStore
from airflow_provider_rlmm.core.log.kafka.producer import BatchProducer, outcome_of
from airflow_provider_rlmm.core.log.protocol import Acked, Failed, Unknown
from dev.broker import await_condition

NOWHERE = "127.0.0.1:1"
LOGIN = {
    "bootstrap.servers": NOWHERE,
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "alice",
    "sasl.password": "hunter2",
}
CONFIG = KafkaClientConfig(LOGIN)
QUICKLY_S = 0.5


class TestNobodyAnswers:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        "call",
        [
            lambda: KafkaMetadataEventLog(CONFIG, request_timeout_s=QUICKLY_S).partition_count,
            lambda: KafkaMetadataEventLog(CONFIG, request_timeout_s=QUICKLY_S).publish([(0, b"x")]),
            lambda: list(KafkaMetadataEventLog(CONFIG, request_timeout_s=QUICKLY_S).read(0, 0, 1)),
            lambda: KafkaMetadataEventLog(CONFIG, request_timeout_s=QUICKLY_S).high_water_marks(),
            lambda: KafkaClusterTopics(CONFIG, request_timeout_s=QUICKLY_S).cluster_id(),
            lambda: KafkaClusterTopics(CONFIG, request_timeout_s=QUICKLY_S).list_topics(),
            lambda: KafkaClusterTopics(CONFIG, request_timeout_s=QUICKLY_S).describe_topics(["orders"]),
            lambda: KafkaOffsetStore(CONFIG, "group", request_timeout_s=QUICKLY_S).committed(),
            lambda: KafkaOffsetStore(CONFIG, "group", request_timeout_s=QUICKLY_S).commit({0: 1}),
        ],
    )
    def test_one_clear_error_in_time(self, call):
        started = time.monotonic()

        with pytest.raises(EventLogUnavailableError, match=NOWHERE) as caught:
            call()

        assert time.monotonic() - started < QUICKLY_S + 10
        assert "hunter2" not in str(caught.value)
        assert "Connection refused" in str(caught.value)

    def test_building_the_adapters_asks_nobody(self):
        started = time.monotonic()

        with KafkaMetadataEventLog(CONFIG):
            KafkaClusterTopics(CONFIG).close()
            KafkaOffsetStore(CONFIG, "group").close()

        assert time.monotonic() - started < 5

    def test_an_answer_that_never_comes_is_late(self, monkeypatch):
        monkeypatch.setattr("airflow_provider_rlmm.core.log.kafka.client._SLACK_S", 0.0)

        with pytest.raises(EventLogUnavailableError, match=r"waiting for godot.*1 answer is late"):
            KafkaAdmin(CONFIG, 0.1).results("waiting for godot", lambda client: {"it": Future()})


def answered(code: int | None) -> Future[str]:
    future: Future[str] = Future()
    if code is None:
        future.set_result("answer")
    else:
        future.set_exception(KafkaException(KafkaError(code)))
    return future


@pytest.mark.parametrize(
    ("codes", "calls", "name"),
    [
        ([KafkaError._DESTROY_BROKER, None], 2, None),
        ([KafkaError._DESTROY_BROKER, KafkaError._DESTROY_BROKER], 2, "_DESTROY_BROKER"),
        ([KafkaError._TRANSPORT], 1, "_TRANSPORT"),
        ([None], 1, None),
    ],
    ids=str,
)
def test_what_was_asked_of_a_forgotten_broker_is_asked_once_more(codes, calls, name):
    made: list[Future[str]] = []

    def start(client):
        made.append(answered(codes[len(made)]))
        return {"one": made[-1], "other": answered(None)}

    outcomes = KafkaAdmin(CONFIG, 60).results("asking", start)

    assert len(made) == calls
    assert outcomes["other"] == "answer"
    assert outcomes["one"] == "answer" if name is None else outcomes["one"].name() == name


def test_a_refusal_holds_no_frame_with_its_clients():
    # librdkafka's threads do not survive a fork: a client that is collected in the child of one waits for them there. So does
    # OpenLineage's child at the end of each task, for ten seconds, and is then killed without having told anything.
    future: Future[str] = Future()
    future.set_exception(KafkaException(KafkaError(KafkaError.GROUP_ID_NOT_FOUND)))

    class Client:
        pass

    def caller():
        held = Client()
        outcomes = KafkaAdmin(CONFIG, 60).results("asking", lambda client: {"it": future})
        return weakref.ref(held), outcomes["it"]

    gc.disable()
    try:
        held, error = caller()
        assert error.name() == "GROUP_ID_NOT_FOUND"
        assert held() is None
    finally:
        gc.enable()


class TestAccess:
    @pytest.mark.parametrize(
        "code", [KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError.SASL_AUTHENTICATION_FAILED]
    )
    def test_wrong_credentials_end_a_call_at_once(self, code):
        admin = KafkaAdmin(CONFIG, 60)

        def start(client):
            admin.watch.on_error(KafkaError(code, "refused"))
            return Future()

        with pytest.raises(EventLogAccessError, match=f"asking, brokers {NOWHERE}.*refused.*credentials"):
            admin.results("asking", lambda client: {"it": start(client)})

    def test_what_was_refused_before_the_call_is_not_about_it(self):
        admin = KafkaAdmin(CONFIG, 60)
        admin.watch.on_error(KafkaError(KafkaError._AUTHENTICATION, "refused"))
        future: Future[str] = Future()
        future.set_result("answer")

        assert admin.results("asking", lambda client: {"it": future}) == {"it": "answer"}

    @pytest.mark.parametrize(
        ("code", "expected"),
        [
            (KafkaError.TOPIC_AUTHORIZATION_FAILED, EventLogAccessError),
            (KafkaError.GROUP_AUTHORIZATION_FAILED, EventLogAccessError),
            (KafkaError.CLUSTER_AUTHORIZATION_FAILED, EventLogAccessError),
            (KafkaError.LEADER_NOT_AVAILABLE, EventLogUnavailableError),
            (KafkaError._TIMED_OUT, EventLogUnavailableError),
        ],
    )
    def test_errors_of_brokers_in_our_words(self, code, expected):
        watch = ClientWatch(CONFIG)
        watch.on_error(KafkaError(KafkaError._RESOLVE, "no such host"))

        error = watch.error("asking", KafkaError(code, "because"))

        assert type(error) is expected
        assert "because" in str(error)
        assert "no such host" in str(error)

    def test_a_timeout_of_a_refused_client_is_no_broker_that_is_down(self):
        watch = ClientWatch(CONFIG)
        watch.on_error(KafkaError(KafkaError._AUTHENTICATION, "refused"))

        error = watch.error("asking", KafkaError(KafkaError._TIMED_OUT, "too late"))

        assert type(error) is EventLogAccessError
        assert "refused" in str(error)

    def test_that_all_brokers_are_down_does_not_hide_why(self):
        watch = ClientWatch(CONFIG)
        watch.on_error(KafkaError(KafkaError._RESOLVE, "no such host"))
        watch.on_error(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))

        assert str(watch.error("asking", "late")).endswith("late; last reported by the client: _RESOLVE: no such host")

    def test_where_nothing_else_is_known_that_all_brokers_are_down_is_said(self):
        watch = ClientWatch(CONFIG)
        watch.on_error(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))

        assert str(watch.error("asking", "late")).endswith("_ALL_BROKERS_DOWN: 1/1 brokers are down")

    def test_an_error_is_not_repeated_as_the_last_one(self):
        watch = ClientWatch(CONFIG)
        watch.on_error(KafkaError(KafkaError._AUTHENTICATION, "refused"))
        watch.on_error(KafkaError(KafkaError._AUTHENTICATION, "refused again"))
        watch.on_error(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))

        with pytest.raises(EventLogAccessError) as caught:
            watch.raise_if_denied("asking")
        assert str(caught.value) == (
            f"asking, brokers {NOWHERE}: _AUTHENTICATION: refused again; "
            "check the credentials and ACLs of the Kafka connection"
        )


class TestSecrets:
    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("sasl.password", "battery-staple"),
            ("sasl.oauthbearer.config", "principal=alice clientSecret=battery-staple"),
            ("sasl.jaas.config", 'Module required username="alice" password="battery-staple";'),
        ],
    )
    def test_what_librdkafka_repeats_of_them_is_hidden(self, caplog, name, value):
        caplog.set_level(logging.INFO)
        config = KafkaClientConfig({**LOGIN, "sasl.username": "alice", name: value})
        watch = ClientWatch(config)
        error = KafkaError(KafkaError._AUTHENTICATION, f"alice and battery-staple by [{value}]\nare refused")

        watch.on_error(error)
        texts = [
            str(watch.error("asking", "late")),
            str(watch.error("asking", error)),
            watch.text_of(error),
            caplog.text,
        ]

        for text in texts:
            assert "battery-staple" not in text
            assert r"alice and *** by [***]\nare refused" in text

    def test_where_each_client_has_its_own_all_are_hidden(self):
        config = KafkaClientConfig(LOGIN, producer_properties={"sasl.password": "battery-staple"})

        assert ClientWatch(config).text_of(KafkaError(KafkaError._FAIL, "hunter2 battery-staple")) == "_FAIL: *** ***"

    def test_a_delivery_report_repeats_none(self, monkeypatch):
        producer = BatchProducer(CONFIG, "topic", 1.0, require_cluster=any_cluster)

        class Refusing:
            def produce(self, *_, **__):
                raise KafkaException(KafkaError(KafkaError.INVALID_RECORD, "no record of hunter2"))

            def flush(self, *_):
                return 0

            purge = __len__ = flush

        monkeypatch.setattr(producer, "_producer", Refusing())

        assert producer.publish([(0, b"a")]) == [Failed("INVALID_RECORD: no record of ***")]

    def test_a_refused_property_repeats_none(self):
        with pytest.raises(ConfigurationError, match=r"librdkafka refuses .*ssl\.ca\.pem.*\*\*\*") as caught:
            open_client(
                lambda *_, **__: _raise(
                    KafkaException(KafkaError(KafkaError._INVALID_ARG, "ssl.ca.pem is not hunter2"))
                ),
                LOGIN,
                ClientWatch(CONFIG),
            )

        assert "hunter2" not in str(caught.value)

    def test_what_librdkafka_does_not_understand_of_a_configuration_is_not_repeated(self, caplog):
        caplog.set_level(logging.DEBUG)
        oauth = {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.config": "principal=alice password=battery-staple"}
        config = KafkaClientConfig({**LOGIN, **oauth, "enable.sasl.oauthbearer.unsecure.jwt": True})

        with pytest.raises(EventLogAccessError, match=r"sasl.oauthbearer.config.*password=\*\*\*") as caught:
            KafkaClusterTopics(config, request_timeout_s=QUICKLY_S).cluster_id()

        assert "battery-staple" not in str(caught.value) + caplog.text

    def test_librdkafkas_own_lines_repeat_none(self, caplog):
        caplog.set_level(logging.DEBUG)
        config = KafkaClientConfig({**LOGIN, "debug": "conf", "sasl.oauthbearer.extensions": "pool=battery-staple"})
        with closing(KafkaAdmin(config, QUICKLY_S)) as admin:
            await_condition(lambda: (admin.client.poll(0), "extensions = ***" in caplog.text)[1], "the line", 20)

        assert "battery-staple" not in caplog.text


def _raise(error):
    raise error


class TestLogging:
    def test_a_line_per_failed_connect_is_dropped(self, caplog):
        caplog.set_level(logging.INFO)

        client_logger.error("FAIL [x]: refused")
        client_logger.warning("CONFWARN [x]: careful")

        assert [record.getMessage() for record in caplog.records] == ["CONFWARN [x]: careful"]

    def test_the_same_error_is_said_once(self, caplog):
        caplog.set_level(logging.INFO)
        watch = ClientWatch(CONFIG)

        for _ in range(3):
            watch.on_error(KafkaError(KafkaError._TRANSPORT, "refused"))

        assert len(caplog.records) == 1


class TestConfiguration:
    @pytest.mark.parametrize("factory", [Producer, AdminClient])
    @pytest.mark.parametrize("properties", [{"no.such.property": "hunter2"}, {"socket.timeout.ms": object()}])
    def test_what_librdkafka_refuses_is_a_configuration_error(self, factory, properties):
        with pytest.raises(ConfigurationError, match="librdkafka refuses") as caught:
            open_client(factory, {"bootstrap.servers": NOWHERE, **properties}, ClientWatch(CONFIG))

        assert "hunter2" not in str(caught.value)


class TestOutcomes:
    def test_acked(self):
        assert outcome_of(None, 7, str) == Acked(7)

    @pytest.mark.parametrize("offset", [None, -1, -1001])
    def test_a_duplicate_without_an_offset_is_not_acked(self, offset):
        assert isinstance(outcome_of(None, offset, str), Unknown)

    @pytest.mark.parametrize(
        "code",
        [
            KafkaError.MSG_SIZE_TOO_LARGE,
            KafkaError.RECORD_LIST_TOO_LARGE,
            KafkaError.TOPIC_AUTHORIZATION_FAILED,
            KafkaError.CLUSTER_AUTHORIZATION_FAILED,
            KafkaError.INVALID_RECORD,
            KafkaError.POLICY_VIOLATION,
        ],
    )
    def test_refused_before_anything_was_appended(self, code):
        outcome = outcome_of(KafkaError(code, "no"), None, str)

        assert isinstance(outcome, Failed)
        assert "no" in outcome.reason
        assert not outcome.retriable

    @pytest.mark.parametrize(
        "code",
        [
            KafkaError._MSG_TIMED_OUT,
            KafkaError._TIMED_OUT,
            KafkaError._TRANSPORT,
            KafkaError._PURGE_QUEUE,
            KafkaError._PURGE_INFLIGHT,
            KafkaError._DESTROY,
            KafkaError._FATAL,
            KafkaError.REQUEST_TIMED_OUT,
            KafkaError.NOT_ENOUGH_REPLICAS,
            KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
            KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
            KafkaError.UNKNOWN_PRODUCER_ID,
            KafkaError.UNKNOWN_TOPIC_OR_PART,
            KafkaError.UNKNOWN,
        ],
    )
    def test_in_doubt_it_is_unknown(self, code):
        assert isinstance(outcome_of(KafkaError(code, "?"), None, str), Unknown)

    def test_a_fatal_refusal_says_nothing_about_earlier_attempts(self):
        assert isinstance(outcome_of(KafkaError(KafkaError.INVALID_RECORD, "?", fatal=True), None, str), Unknown)


def any_cluster(handle, what):
    """There is no broker to ask."""


class TestProducer:
    @pytest.mark.slow
    def test_without_a_broker_every_outcome_is_unknown_and_the_producer_replaced(self):
        producer = BatchProducer(CONFIG, "topic", 1.0, require_cluster=any_cluster)
        started = time.monotonic()

        outcomes = producer.publish([(0, b"a"), (1, b"b")])

        assert [type(outcome) for outcome in outcomes] == [Unknown, Unknown]
        assert time.monotonic() - started < 15
        assert producer._producer is None

    @pytest.mark.slow
    def test_a_record_that_never_fits_is_failed_alone(self):
        producer = BatchProducer(CONFIG, "topic", 1.0, require_cluster=any_cluster)

        outcomes = producer.publish([(0, b"a"), (0, bytes(2_000_000)), (0, b"c")])

        assert [type(outcome) for outcome in outcomes] == [Unknown, Failed, Unknown]

    @pytest.mark.slow
    def test_a_queue_that_stays_full_fails_what_did_not_get_in(self):
        config = KafkaClientConfig({"bootstrap.servers": NOWHERE, "queue.buffering.max.messages": 2})

        # The queue empties when its records time out, a second or more after our deadline has passed.
        outcomes = BatchProducer(config, "topic", 0.2, require_cluster=any_cluster).publish(
            [(0, b"a"), (0, b"b"), (0, b"c")]
        )

        assert [type(outcome) for outcome in outcomes[:2]] == [Unknown, Unknown]
        assert outcomes[2] == Failed("the producer's queue stayed full", retriable=True)

    @pytest.mark.parametrize("way", ["exception", "wrapped", "bare"])
    def test_a_fatal_error_is_an_outcome_and_replaces_the_producer(self, monkeypatch, way):
        producer = BatchProducer(CONFIG, "topic", 60.0, require_cluster=any_cluster)
        fatal = KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED, "no hunter2", fatal=True)

        class Ended:
            def produce(self, *_, **__):
                """Take the record."""

            def flush(self, _):
                if way == "wrapped":
                    raise SystemError("returned a result with an exception set") from KafkaException(fatal)
                raise fatal if way == "bare" else KafkaException(fatal)

            def purge(self):
                """Nothing is queued."""

        monkeypatch.setattr(producer, "_producer", Ended())

        assert producer.publish([(0, b"a")]) == [Unknown("CLUSTER_AUTHORIZATION_FAILED: no ***")]
        assert producer._producer is None

    @pytest.mark.parametrize("error", [SystemError("of another cause"), KeyboardInterrupt()])
    def test_anything_else_is_raised_as_it_is(self, error):
        with pytest.raises(type(error)) as caught:
            serve(lambda _: _raise(error), 0.1)
        assert caught.value is error

    def test_a_crash_leaves_nothing_queued(self, monkeypatch):
        producer = BatchProducer(CONFIG, "topic", 60.0, require_cluster=any_cluster)
        client = producer._open()

        def interrupted(_):
            raise KeyboardInterrupt

        monkeypatch.setattr(producer, "_wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            producer.publish([(0, b"a")])

        assert client.flush(1) == 0
        assert producer._producer is None

    def test_wrong_credentials_end_the_wait(self, monkeypatch):
        producer = BatchProducer(CONFIG, "topic", 60.0, require_cluster=any_cluster)
        enqueue = producer._enqueue

        def refused(*arguments):
            producer._watch.on_error(KafkaError(KafkaError._AUTHENTICATION, "refused"))
            return enqueue(*arguments)

        monkeypatch.setattr(producer, "_enqueue", refused)
        started = time.monotonic()

        assert [type(outcome) for outcome in producer.publish([(0, b"a")])] == [Unknown]
        assert time.monotonic() - started < 30


def message(offset, code=None, partition=0):
    error = None if code is None else KafkaError(code, "because")
    return Message("topic", partition, offset, None, b"v", None, error, (1, 1000))


def offsets_of(reading):
    return [offset for some in reading.columns.offsets for offset in some.tolist()]


class TestSorting:
    """Messages of librdkafka that a broker of one node does not produce on demand."""

    @pytest.fixture
    def reader(self):
        reader = _Reader(CONFIG, "topic", any_cluster)
        yield reader
        reader.close()

    @pytest.fixture
    def reading(self):
        return _Range(0, 100)

    def test_the_end_of_the_partition_counts_the_offsets_without_records(self, reader, reading):
        reader._sort([message(3), message(9, KafkaError._PARTITION_EOF)], {0: reading})

        assert (offsets_of(reading), reading.position) == ([3], 9)

    def test_nothing_is_known_without_messages(self, reader, reading):
        reader._sort([], {0: reading})

        assert (offsets_of(reading), reading.position) == ([], 0)

    def test_no_permission_for_the_unused_group_does_not_matter(self, reader, reading):
        reader._sort([message(OFFSET_INVALID, KafkaError.GROUP_AUTHORIZATION_FAILED), message(0)], {0: reading})

        assert (offsets_of(reading), reading.position) == ([0], 1)

    @pytest.mark.parametrize("offsets", [[0, 1, 3, 4], [0, 2, 3, 9], [5], [7, 8, 9]])
    def test_each_record_keeps_its_offset_where_some_hold_none(self, reader, reading, offsets):
        reader._sort([message(offset) for offset in offsets], {0: reading})

        assert (offsets_of(reading), reading.position) == (offsets, offsets[-1] + 1)

    def test_messages_of_partitions_that_take_turns_are_told_apart(self, reader):
        ranges = {0: _Range(0, 100), 1: _Range(0, 100)}

        reader._sort([message(0), message(0, partition=1), message(1), message(2), message(4, partition=1)], ranges)
        reader._sort([message(5, partition=1), message(6, partition=1)], ranges)

        assert [offsets_of(r) for r in ranges.values()] == [[0, 1, 2], [0, 4, 5, 6]]

    def test_what_lies_behind_a_range_is_not_part_of_it(self, reader):
        ranges = {0: _Range(0, 2), 1: _Range(5, 6)}

        reader._sort([message(0), message(1), message(2), message(5, partition=1), message(3)], ranges)
        reader._sort([message(6, partition=1), message(4)], ranges)

        assert [(offsets_of(r), r.left) for r in ranges.values()] == [([0, 1], 0), ([5], 0)]

    @pytest.mark.parametrize(
        ("code", "expected"),
        [
            (KafkaError.TOPIC_AUTHORIZATION_FAILED, EventLogAccessError),
            (KafkaError._AUTO_OFFSET_RESET, OffsetOutOfRangeError),
            (KafkaError.UNKNOWN_TOPIC_OR_PART, EventLogUnavailableError),
        ],
    )
    def test_other_errors_end_the_read(self, reader, reading, code, expected):
        with pytest.raises(expected, match="reading topic-0"):
            reader._sort([message(0), message(OFFSET_INVALID, code)], {0: reading})


class Answers:
    """
    Stands in for a consumer: hands out as many of its messages at a time as an answer says, at last what is asked for.

    Its time goes by only while it waits for more.
    """

    def __init__(self, messages, *answers):
        self.messages, self.answers, self.asked = list(messages), list(answers), []
        self.now = 0.0

    def monotonic(self):
        return self.now

    def assign(self, partitions):
        pass

    unassign = close = lambda self: None

    def consume(self, count, timeout_s):
        self.asked.append(count)
        given = min(count, self.answers.pop(0) if self.answers else count, len(self.messages))
        if given < count:
            # A little late, as everybody who waits.
            self.now += timeout_s + 1e-6
        taken, self.messages = self.messages[:given], self.messages[given:]
        return taken


class TestBatches:
    @pytest.fixture
    def reader_of(self, monkeypatch):
        reader = _Reader(CONFIG, "topic", any_cluster)
        reader.close()

        def with_answers(messages, *answers):
            reader._consumer = Answers(messages, *answers)
            monkeypatch.setattr(kafka_event_log, "time", reader._consumer)
            return reader

        return with_answers

    def test_a_batch_is_large_and_each_request_small(self, reader_of):
        reader = reader_of(message(offset) for offset in range(2 * BATCH_ROWS + 7))

        batches = list(reader.read({0: (0, 2 * BATCH_ROWS + 3)}, 1.0))

        assert [batch.num_rows for _, batch in batches] == [BATCH_ROWS, BATCH_ROWS, 3]
        assert [offset for _, batch in batches for offset in batch.column("offset").to_pylist()] == list(
            range(2 * BATCH_ROWS + 3)
        )
        # Fewer than make Python look for garbage.
        assert max(reader._consumer.asked) < gc.get_threshold()[0]

    def test_what_has_come_is_not_kept_back_while_the_rest_is_late(self, reader_of):
        reader = reader_of((message(offset) for offset in range(2000)), 500, 3)

        assert [batch.num_rows for _, batch in reader.read({0: (0, 2000)}, 1.0)] == [503, 1497]

    def test_the_time_of_the_caller_is_not_the_brokers(self, reader_of):
        reader = reader_of((message(offset) for offset in range(1000)), 500, 0, 0)
        batches = reader.read({0: (0, 1000)}, 0.5)
        next(batches)
        reader._consumer.now += 0.6

        assert [batch.num_rows for _, batch in batches] == [500]

    def test_no_progress_ends_the_read(self, reader_of):
        reader = reader_of((message(offset) for offset in range(3)), 3)
        batches = reader.read({0: (0, 1000)}, 0.05)

        assert next(batches)[1].num_rows == 3
        with pytest.raises(EventLogUnavailableError, match=r"no progress for 0\.05 s at offset 3, before 1000"):
            next(batches)
