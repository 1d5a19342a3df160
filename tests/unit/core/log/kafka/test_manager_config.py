# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pickle
import re

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.log.kafka.client import open_client
from airflow_provider_rlmm.core.log.kafka.client_watch import ClientWatch
from airflow_provider_rlmm.core.log.kafka.config import is_known_property
from airflow_provider_rlmm.core.log.kafka.manager_config import TopicBasedRemoteLogMetadataManagerConfig as Config

COMMON = "remote.log.metadata.common.client."
PRODUCER = "remote.log.metadata.producer."
CONSUMER = "remote.log.metadata.consumer."
ADMIN = "remote.log.metadata.admin."
BROKERS = {f"{COMMON}bootstrap.servers": "127.0.0.1:1"}
TLS = {"security.protocol": "SASL_SSL"}
SECRET = "hunter2"


def config_of(**properties: object) -> Config:
    return Config.from_properties(BROKERS | properties)


def test_the_defaults_are_kafkas():
    config = Config.from_properties(BROKERS)

    assert config.topic_num_partitions == 50
    assert config.topic_replication_factor == 3
    assert config.topic_retention_ms == -1
    assert config.topic_min_isr == 2
    assert config.consume_wait_ms == 120_000
    assert config.initialization_retry_max_timeout_ms == 120_000
    assert config.initialization_retry_interval_ms == 100


def test_every_property_is_read_under_kafkas_name():
    config = config_of(
        **{
            "remote.log.metadata.topic.num.partitions": "5",
            "remote.log.metadata.topic.replication.factor": 1,
            "remote.log.metadata.topic.retention.ms": " 86400000 ",
            "remote.log.metadata.topic.min.isr": 1,
            "remote.log.metadata.consume.wait.ms": "0",
            "remote.log.metadata.initialization.retry.max.timeout.ms": 2_000,
            "remote.log.metadata.initialization.retry.interval.ms": 300,
            # What a broker adds.
            "broker.id": 7,
            "log.dir": "/x",
            "cluster.id": "y",
        }
    )

    assert config == Config(
        config.client,
        topic_num_partitions=5,
        topic_replication_factor=1,
        topic_retention_ms=86_400_000,
        topic_min_isr=1,
        consume_wait_ms=0,
        initialization_retry_max_timeout_ms=2_000,
        initialization_retry_interval_ms=300,
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("topic.num.partitions", 0),
        ("topic.num.partitions", 2**31),
        ("topic.num.partitions", True),
        ("topic.num.partitions", None),
        ("topic.num.partitions", "five"),
        ("topic.num.partitions", 1.5),
        ("topic.replication.factor", "0"),
        ("topic.replication.factor", 32_768),
        ("topic.retention.ms", -2),
        ("topic.retention.ms", 0),
        ("topic.min.isr", 0),
        ("consume.wait.ms", -1),
        ("initialization.retry.max.timeout.ms", -1),
        ("initialization.retry.interval.ms", "-1"),
    ],
)
def test_a_value_out_of_range_is_an_error_that_names_the_property(name, value):
    with pytest.raises(ConfigurationError, match=rf"^remote\.log\.metadata\.{re.escape(name)} must be "):
        config_of(**{f"remote.log.metadata.{name}": value})


def test_the_constructor_checks_ranges_too():
    with pytest.raises(ConfigurationError, match=r"^remote\.log\.metadata\.consume\.wait\.ms must be "):
        Config(Config.from_properties(BROKERS).client, consume_wait_ms=-1)


@pytest.mark.parametrize(
    "name",
    [
        "remote.log.metadata.topic.num.partition",
        "remote.log.metadata.consumer.",
        "rlmm.config.remote.log.metadata.topic.num.partitions",
        "bootstrap.servers",
    ],
)
def test_an_unknown_property_is_an_error_that_names_it_and_the_known_ones(name):
    with pytest.raises(ConfigurationError, match=rf"^{re.escape(name)} is no property.*topic\.num\.partitions"):
        config_of(**{name: "1"})


def test_brokers_are_required():
    with pytest.raises(
        ConfigurationError, match=r"^remote\.log\.metadata\.common\.client\.bootstrap\.servers is required"
    ):
        Config.from_properties({f"{PRODUCER}bootstrap.servers": "a:1"})


def test_the_specific_prefix_wins_over_the_common_one_and_that_over_the_connection():
    config = Config.from_properties(
        {
            f"{PRODUCER}socket.timeout.ms": 3_000,
            f"{COMMON}socket.timeout.ms": 2_000,
            f"{ADMIN}request.timeout.ms": 4_000,
            f"{COMMON}sasl.mechanism": "SCRAM-SHA-512",
        },
        {"bootstrap.servers": "c:1", "socket.timeout.ms": 1_000, "sasl.mechanisms": "PLAIN", "sasl.username": "u"}
        | TLS,
    )

    producer, consumer, admin = config.client.producer(1), config.client.consumer("g"), config.client.admin()
    assert [client["socket.timeout.ms"] for client in (producer, consumer, admin)] == [3_000, 2_000, 4_000]
    for client in (producer, consumer, admin):
        assert client["bootstrap.servers"] == "c:1"
        assert client["sasl.mechanism"] == "SCRAM-SHA-512"
        assert client["sasl.username"] == "u"
        assert "sasl.mechanisms" not in client


def test_client_ids_are_kafkas():
    client = config_of(**{"broker.id": 7}).client

    assert client.producer(1)["client.id"] == "__remote_log_metadata_client_7_producer"
    assert client.consumer("g")["client.id"] == "__remote_log_metadata_client_7_consumer"
    assert client.admin()["client.id"] == "__remote_log_metadata_client_7_admin"
    assert config_of().client.producer(1)["client.id"] == "__remote_log_metadata_client_airflow_producer"


def test_what_correctness_needs_is_set():
    client = config_of().client

    assert client.producer(1)["acks"] == "all"
    assert client.producer(1)["enable.idempotence"] is True
    assert client.consumer("g")["enable.auto.commit"] is False
    assert client.consumer("g")["allow.auto.create.topics"] is False


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (f"{PRODUCER}acks", "1"),
        (f"{COMMON}acks", 0),
        (f"{PRODUCER}enable.idempotence", "false"),
        (f"{CONSUMER}enable.auto.commit", "true"),
        (f"{CONSUMER}auto.offset.reset", "latest"),
        (f"{COMMON}auto.offset.reset", "none"),
        (f"{CONSUMER}isolation.level", "read_committed"),
        (f"{PRODUCER}transactional.id", "x"),
        (f"{PRODUCER}client.id", "x"),
        (f"{PRODUCER}delivery.timeout.ms", 5),
        (f"{COMMON}socket.timeout.ms", None),
    ],
)
def test_what_correctness_needs_cannot_be_overridden(name, value):
    with pytest.raises(ConfigurationError, match=rf"^{re.escape(name)} (must be|cannot be set)"):
        config_of(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (f"{PRODUCER}acks", "all"),
        (f"{PRODUCER}acks", "-1"),
        (f"{PRODUCER}enable.idempotence", "true"),
        (f"{CONSUMER}enable.auto.commit", "false"),
        (f"{CONSUMER}auto.offset.reset", "earliest"),
    ],
)
def test_the_required_value_may_be_given(name, value):
    assert config_of(**{name: value}).client.producer(1)["acks"] == "all"


@pytest.mark.parametrize(
    ("java", "librdkafka"),
    [
        ("request.timeout.ms", "socket.timeout.ms"),
        ("fetch.max.wait.ms", "fetch.wait.max.ms"),
        ("ssl.keystore.certificate.chain", "ssl.certificate.pem"),
        ("ssl.keystore.key", "ssl.key.pem"),
        ("ssl.truststore.certificates", "ssl.ca.pem"),
        ("sasl.mechanism", "sasl.mechanism"),
        ("linger.ms", "linger.ms"),
    ],
)
def test_names_of_java_clients_become_librdkafkas(java, librdkafka):
    config = config_of(**{f"{COMMON}{java}": "9", f"{COMMON}security.protocol": "SASL_SSL"})
    assert dict(config.client.properties)[librdkafka] == "9"


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("sasl.jaas.config", "use sasl.username and sasl.password instead"),
        ("ssl.truststore.location", "use ssl.ca.location, a PEM file instead"),
        ("ssl.truststore.password", "use ssl.ca.location"),
        ("ssl.truststore.type", "use ssl.ca.location"),
        ("ssl.keystore.type", "use ssl.certificate.location and ssl.key.location"),
        ("buffer.memory", "use queue.buffering.max.kbytes instead"),
        ("key.serializer", "librdkafka has nothing like it: remove it"),
    ],
)
def test_what_cannot_be_translated_is_named_beside_its_replacement(name, advice):
    with pytest.raises(ConfigurationError, match=rf"^{re.escape(COMMON + name)} .*{re.escape(advice)}") as caught:
        config_of(**{f"{COMMON}{name}": SECRET})
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [("linger.ms", "soon"), ("security.protocol", "TLS"), ("retries", -5)],
)
def test_what_librdkafka_refuses_fails_before_any_broker_is_asked_and_names_the_property(name, value):
    config = config_of(**{f"{PRODUCER}{name}": value})

    with pytest.raises(ConfigurationError, match=re.escape(name)) as caught:
        open_client(Producer, config.client.producer(1), ClientWatch(config.client))
    assert not caught.value.retriable


@pytest.mark.parametrize("prefix", [COMMON, PRODUCER, CONSUMER, ADMIN])
@pytest.mark.parametrize("name", ["no.such.property", "fetch.wait.max.sm", "x"])
def test_a_client_property_that_nobody_knows_is_refused_when_it_is_read(prefix, name):
    with pytest.raises(
        ConfigurationError, match=rf"^{re.escape(prefix + name)} is no property: .*know {re.escape(name)}$"
    ):
        config_of(**{f"{prefix}{name}": SECRET})


@pytest.mark.parametrize("name", ["sasl.password", "queue.buffering.max.ms", "on_delivery", "plugin.library.paths"])
def test_what_librdkafka_has_is_known_whatever_its_values(name):
    assert is_known_property(name)


def test_a_setting_that_does_not_exist_is_no_key_error():
    with pytest.raises(ConfigurationError, match=r"^remote\.log\.metadata\.no\.such is no property .*topic\.min\.isr"):
        Config.from_properties(BROKERS).value_of("remote.log.metadata.no.such")


def test_librdkafka_takes_what_it_is_given():
    client = config_of(
        **{
            "broker.id": 1,
            f"{COMMON}request.timeout.ms": 5_000,
            f"{CONSUMER}fetch.max.wait.ms": 10,
            f"{PRODUCER}linger.ms": 5,
            f"{CONSUMER}auto.offset.reset": "earliest",
        }
    ).client

    for factory, properties in (
        (Producer, client.producer(1)),
        (Consumer, client.consumer("g")),
        (AdminClient, client.admin()),
    ):
        open_client(factory, properties, ClientWatch(client))


def test_no_secret_is_shown():
    secrets = {
        f"{COMMON}sasl.password": SECRET,
        f"{PRODUCER}sasl.username": SECRET,
        f"{CONSUMER}ssl.keystore.key": SECRET,
        f"{ADMIN}ssl.key.password": SECRET,
    }
    config = Config.from_properties(BROKERS | secrets, {"sasl.oauthbearer.client.secret": SECRET} | TLS)

    for text in (repr(config), str(config)):
        assert SECRET not in text
        assert "topic_num_partitions=50" in text
        assert "bootstrap.servers=127.0.0.1:1" in text


def test_it_can_be_sent_to_another_process():
    config = config_of(**{f"{COMMON}sasl.password": SECRET, f"{COMMON}security.protocol": "SASL_SSL"})

    assert pickle.loads(pickle.dumps(config)) == config
