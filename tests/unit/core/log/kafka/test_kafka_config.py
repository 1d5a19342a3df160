# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import logging

import pytest
from confluent_kafka import Consumer

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.log.kafka.client import open_client
from airflow_provider_rlmm.core.log.kafka.client_watch import ClientWatch
from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig, check_files, java_client_properties

BROKERS = {"bootstrap.servers": "127.0.0.1:1"}


@pytest.mark.parametrize(
    "address", ["b:abc", "b:0", "b:65536", "b:99999", "b:", ":9092", "http://b:9092", "b:9092/x", "a b", "a:1;b:2", ","]
)
def test_an_address_that_librdkafka_takes_for_another_is_refused(address):
    with pytest.raises(
        ConfigurationError, match=r"bootstrap\.servers must be a comma-separated list of host:port, .* is none$"
    ):
        KafkaClientConfig({"bootstrap.servers": f"good:9092,{address}" if address != "," else address})


@pytest.mark.parametrize(
    "name",
    [
        "acks",
        "auto.offset.reset",
        "bootstrap.servers",
        "isolation.level",
        "plugin.library.paths",
        "sasl.kerberos.kinit.cmd",
        "ssl.engine.location",
        "ssl.providers",
    ],
)
def test_a_value_that_is_refused_is_not_repeated(name):
    """A secret may have got into the wrong field."""
    with pytest.raises(ConfigurationError, match=f"^{name} ") as caught:
        KafkaClientConfig({**BROKERS, name: "hunter2 !"})
    assert "hunter2" not in str(caught.value)


def test_an_address_with_a_login_is_not_repeated():
    with pytest.raises(ConfigurationError, match=r"bootstrap\.servers must hold no login: put it into sasl") as caught:
        KafkaClientConfig({"bootstrap.servers": "sasl_ssl://user:hunter2@b:9092"})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "address", ["b", "b:65535", "a_b.c-d:1", "[::1]:9092", "[fe80::1%eth0]", "SASL_SSL://b:9092", "a:1,,"]
)
def test_addresses_that_librdkafka_understands(address):
    assert KafkaClientConfig({"bootstrap.servers": address}).bootstrap_servers == address


@pytest.mark.parametrize("properties", [{}, {"bootstrap.servers": " "}, {"bootstrap.servers": ""}, {"acks": "all"}])
def test_bootstrap_servers_are_required(properties):
    with pytest.raises(ConfigurationError, match=r"bootstrap\.servers is required"):
        KafkaClientConfig(properties)


def test_an_alias_names_the_brokers_too():
    assert KafkaClientConfig({"metadata.broker.list": "a:1,b:2"}).bootstrap_servers == "a:1,b:2"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("acks", 1),
        ("acks", "0"),
        ("request.required.acks", 1),
        ("enable.idempotence", False),
        ("enable.idempotence", "false"),
        ("enable.auto.commit", True),
        ("auto.commit.enable", "true"),
        ("enable.auto.offset.store", "true"),
        ("auto.offset.reset", "latest"),
        ("auto.offset.reset", "largest"),
        ("enable.partition.eof", False),
        ("isolation.level", "read_committed"),
        ("allow.auto.create.topics", True),
        ("transactional.id", "x"),
        ("message.timeout.ms", 5),
        ("delivery.timeout.ms", 5),
        ("plugin.library.paths", "/tmp/any.so"),
        ("ssl.engine.location", "/tmp/any.so"),
        ("ssl.providers", "default,any"),
        ("sasl.kerberos.kinit.cmd", "touch /tmp/any"),
        ("ssl.ca.pem", "x" * (2**20 + 1)),
        ("error_cb", "a.b"),
        ("logger", "x"),
        ("oauth_cb", "module.function"),
        ("stats_cb", "module.function"),
        ("ssl.ca.location", None),
        ("client.rack", {"a": 1}),
    ],
)
def test_what_correctness_needs_cannot_be_overridden(name, value):
    with pytest.raises(ConfigurationError, match=f"^{name} "):
        KafkaClientConfig({**BROKERS, name: value})


def test_a_command_of_kerberos_is_refused_and_not_repeated():
    kerberos = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.kinit.cmd": "kinit; hunter2",
    }
    with pytest.raises(ConfigurationError, match=r"^sasl.kerberos.kinit.cmd cannot be set: .* run a command") as caught:
        KafkaClientConfig({**BROKERS, **kerberos})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("name", ["sasl.kerberos.keytab", "sasl.kerberos.principal"])
@pytest.mark.parametrize(
    "value", ["x;hunter2", "$(hunter2)", "`hunter2`", 'x" hunter2', "x|hunter2", "-Xhunter2", "x\nhunter2"]
)
def test_what_a_shell_would_run_is_refused_and_not_repeated(name, value):
    with pytest.raises(ConfigurationError, match=f"^{name} must hold only letters") as caught:
        KafkaClientConfig({**BROKERS, name: value})
    assert "hunter2" not in str(caught.value)


def test_kerberos_has_its_keytab_and_its_principal():
    names = {
        "security.protocol": "SASL_SSL",
        "sasl.kerberos.keytab": "/etc/security/rlmm_cleaner-1.keytab",
        "sasl.kerberos.principal": "rlmm/worker-1.example.com@EXAMPLE.COM",
    }
    assert names.items() <= KafkaClientConfig({**BROKERS, **names}).admin().items()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("acks", "all"),
        ("acks", -1),
        ("request.required.acks", "-1"),
        ("enable.idempotence", "True"),
        ("enable.idempotence", 1),
        ("enable.auto.commit", "false"),
        ("isolation.level", "read_uncommitted"),
        ("auto.offset.reset", "earliest"),
    ],
)
def test_the_required_value_may_be_given(name, value):
    config = KafkaClientConfig({**BROKERS, name: value})

    assert config.producer(1)["acks"] == "all"
    assert config.producer(1)["enable.idempotence"] is True
    assert config.consumer("g")["enable.auto.commit"] is False
    assert config.consumer("g")["isolation.level"] == "read_uncommitted"
    # Reads are assigned their first offset; one that is out of range must not become a silent jump.
    assert config.consumer("g")["auto.offset.reset"] == "error"


def test_each_client_gets_what_it_needs():
    config = KafkaClientConfig({**BROKERS, "client.id": "blue"})

    assert config.producer(2.5) == {
        **BROKERS,
        "client.id": "__remote_log_metadata_client_blue_producer",
        "acks": "all",
        "enable.idempotence": True,
        "message.timeout.ms": 2500,
    }
    assert config.consumer("g") == {
        **BROKERS,
        "client.id": "__remote_log_metadata_client_blue_consumer",
        "group.id": "g",
        "allow.auto.create.topics": False,
        "auto.offset.reset": "error",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "isolation.level": "read_uncommitted",
        "fetch.queue.backoff.ms": 10,
        "fetch.wait.max.ms": 10,
        "queued.max.messages.kbytes": 4096,
    }
    assert config.admin() == {**BROKERS, "client.id": "__remote_log_metadata_client_blue_admin"}


def test_tuning_is_left_to_the_user():
    given = {"fetch.wait.max.ms": 100, "queued.max.messages.kbytes": 65_536}
    config = KafkaClientConfig({**BROKERS, "linger.ms": 50, **given})

    assert config.producer(1)["linger.ms"] == 50
    assert given.items() <= config.consumer("g").items()


@pytest.mark.parametrize(
    "sizes",
    [
        {"message.max.bytes": 20_000_000},
        {"fetch.max.bytes": 52_428_800},
        {"receive.message.max.bytes": 5_000_000},
        {"queued.min.messages": 1_000_000},
    ],
    ids=str,
)
def test_what_is_queued_fits_sizes_that_a_user_gives(sizes: dict[str, int]):
    consumer = Consumer(KafkaClientConfig({**BROKERS, **sizes}).consumer("g"))
    assert consumer.assignment() == []
    consumer.close()


def test_what_is_meant_for_one_client_wins_there_and_nowhere_else():
    config = KafkaClientConfig(
        {**BROKERS, "socket.timeout.ms": 1, "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"},
        producer_properties={"socket.timeout.ms": 2, "sasl.mechanisms": "SCRAM-SHA-512"},
        consumer_properties={"socket.timeout.ms": 3},
        admin_properties={"socket.timeout.ms": 4},
    )

    clients = [config.producer(1), config.consumer("g"), config.admin()]
    assert [client["socket.timeout.ms"] for client in clients] == [2, 3, 4]
    assert [client["sasl.mechanism"] for client in clients] == ["SCRAM-SHA-512", "PLAIN", "PLAIN"]
    assert "producer sasl.mechanism=SCRAM-SHA-512" in repr(config)


@pytest.mark.parametrize("kind", ["producer_properties", "consumer_properties", "admin_properties"])
def test_what_is_meant_for_one_client_is_checked_and_hidden_too(kind):
    with pytest.raises(ConfigurationError, match=r"^acks must be 'all':"):
        KafkaClientConfig(BROKERS, **{kind: {"acks": 1}})
    own = {"security.protocol": "SASL_SSL", "sasl.password": "hunter2"}
    assert "hunter2" not in repr(KafkaClientConfig(BROKERS, **{kind: own}))
    assert "hunter2" in KafkaClientConfig(BROKERS, **{kind: own}).secrets()


def test_the_group_of_a_shared_connection_is_not_used():
    config = KafkaClientConfig({**BROKERS, "group.id": "theirs", "session.timeout.ms": 6000})

    assert config.consumer("ours")["group.id"] == "ours"
    for properties in (config.producer(1), config.consumer("ours"), config.admin()):
        assert "session.timeout.ms" not in properties
        assert "theirs" not in properties.values()


def test_librdkafka_has_nothing_to_say_about_the_properties(monkeypatch):
    from confluent_kafka import Consumer, Producer
    from confluent_kafka.admin import AdminClient

    lines: list[str] = []
    logger = logging.getLogger("librdkafka under test")
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    monkeypatch.setattr(logger, "handlers", [handler])
    config = KafkaClientConfig(
        {
            **BROKERS,
            "group.id": "g",
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,
            "max.poll.interval.ms": 300000,
            "partition.assignment.strategy": "range",
            "fetch.min.bytes": 1,
            "check.crcs": True,
            "client.rack": "a",
            "queued.min.messages": 1000,
            "acks": "all",
            "linger.ms": 1,
            "retries": 5,
            "compression.type": "gzip",
            "batch.size": 1000,
            "request.timeout.ms": 1000,
            "queue.buffering.max.messages": 1000,
            "socket.timeout.ms": 10_000,
        }
    )

    clients = [
        Producer(config.producer(1), logger=logger),
        Consumer(config.consumer("g"), logger=logger),
        AdminClient(config.admin(), logger=logger),
    ]

    for client in clients:
        client.poll(0)
    assert [line for line in lines if "CONFWARN" in line] == []


SECRETS = {
    "sasl.password": "hunter2",
    "sasl.username": "hunter2",
    "ssl.key.password": "hunter2",
    "ssl.key.pem": "hunter2",
    "ssl.keystore.password": "hunter2",
    "sasl.oauthbearer.client.secret": "hunter2",
    "sasl.oauthbearer.config": "hunter2",
    "some.future.secret": "hunter2",
}


def test_no_secret_is_shown():
    config = KafkaClientConfig({**BROKERS, "security.protocol": "SASL_SSL", **SECRETS})

    for text in (repr(config), str(config)):
        assert "hunter2" not in text
        assert "bootstrap.servers=127.0.0.1:1" in text
        assert "security.protocol=SASL_SSL" in text
        assert all(name in text for name in SECRETS)


def test_the_given_mapping_is_copied():
    given = dict(BROKERS)
    config = KafkaClientConfig(given)

    given["acks"] = "0"

    assert dict(config.properties) == BROKERS


@pytest.mark.parametrize("kind", ["properties", "producer_properties", "consumer_properties", "admin_properties"])
@pytest.mark.parametrize("protocol", [{}, {"security.protocol": " "}])
def test_a_login_that_would_not_be_used_is_refused(kind, protocol):
    own = {"sasl.username": "alice", "sasl.password": "hunter2", **protocol}
    with pytest.raises(ConfigurationError, match=r"^sasl.password, sasl.username without security.protocol") as caught:
        KafkaClientConfig(**{"properties": BROKERS, kind: {**(BROKERS if kind == "properties" else {}), **own}})
    assert "hunter2" not in str(caught.value)


def test_the_protocol_may_be_said_for_all_clients():
    config = KafkaClientConfig(
        {**BROKERS, "security.protocol": "SASL_SSL"}, admin_properties={"sasl.mechanisms": "PLAIN"}
    )
    assert config.admin()["sasl.mechanism"] == "PLAIN"


# -- files ---------------------------------------------------------------------------------------------------------------

TLS_FILES = [
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.crl.location",
    "ssl.key.location",
    "ssl.keystore.location",
]


@pytest.mark.parametrize("name", TLS_FILES)
@pytest.mark.parametrize("protocol", ["SSL", "sasl_ssl"])
def test_a_missing_file_is_named_before_a_client_is_opened(tmp_path, name, protocol):
    properties = {"security.protocol": protocol, name: str(tmp_path / "missing.pem")}
    config = KafkaClientConfig({**BROKERS, **properties})

    def opened(*_, **__):
        raise AssertionError("a client was opened")

    with pytest.raises(ConfigurationError, match=rf"^{name} names '{tmp_path}/missing.pem', and there is no such file"):
        open_client(opened, config.admin(), ClientWatch(config))


def test_a_file_that_one_may_not_read_is_named(tmp_path, monkeypatch):
    (tmp_path / "ca.pem").touch()
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(
        ConfigurationError, match=r"^ssl.ca.location names '.*/ca.pem', and this process may not read it$"
    ):
        check_files({"security.protocol": "SSL", "ssl.ca.location": str(tmp_path / "ca.pem")})


@pytest.mark.parametrize(
    "properties",
    [
        {"security.protocol": "PLAINTEXT", "ssl.ca.location": "/missing"},
        {"ssl.ca.location": "/missing"},
        {"security.protocol": "SSL", "ssl.ca.location": "probe"},
        {"security.protocol": "SSL", "ssl.ca.location": ""},
        {"security.protocol": "SSL", "ssl.ca.location": "/"},
    ],
)
def test_files_that_nobody_opens_may_be_missing(properties):
    check_files(properties)


# -- for Spark's Java client ------------------------------------------------------------------------------------------

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
SASL = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "rlmm",
    "sasl.password": "s3cret",
}


def lines(settings: dict[str, str]) -> list[str]:
    text = java_client_properties(settings)
    assert text == "" or text.endswith("\n")
    return text.splitlines()


def test_settings_of_the_same_name_are_taken_over_sorted() -> None:
    assert lines({"security.protocol": "SSL", "bootstrap.servers": "a:1,b:2"}) == [
        "bootstrap.servers=a:1,b:2",
        "security.protocol=SSL",
    ]


def test_settings_that_mean_nothing_to_java_are_left_out() -> None:
    assert lines({"client.id": "x", "group.id": "g", "socket.timeout.ms": "1", "acks": "all", "debug": "broker"}) == []


def test_sasl_becomes_a_jaas_entry() -> None:
    assert lines(SASL) == [
        f'sasl.jaas.config={SCRAM} required username="rlmm" password="s3cret";',
        "sasl.mechanism=SCRAM-SHA-512",
        "security.protocol=SASL_SSL",
    ]


def test_the_other_spelling_of_the_mechanism_means_the_same() -> None:
    settings = {**SASL, "sasl.mechanisms": "PLAIN"}
    assert "sasl.mechanism=SCRAM-SHA-512" in lines(settings)
    del settings["sasl.mechanism"]
    assert "plain.PlainLoginModule" in lines(settings)[0]


def test_a_certificate_file_becomes_a_pem_truststore() -> None:
    assert lines({"ssl.ca.location": "/etc/ca.pem"}) == [
        "ssl.truststore.location=/etc/ca.pem",
        "ssl.truststore.type=PEM",
    ]


@pytest.mark.parametrize(
    ("password", "written"),
    [
        ('a"b', r"a\\" + '"b'),
        ("a\\b", "a" + "\\" * 4 + "b"),
        ("a\nb", r"a\\nb"),
        (" a ", " a "),
        ("pässwörd", "pässwörd"),
    ],
)
def test_a_password_is_escaped_for_jaas_and_then_for_the_file(password: str, written: str) -> None:
    assert f'password="{written}";' in lines({**SASL, "sasl.password": password})[0]


@pytest.mark.parametrize(("value", "written"), [(" /a", "\\ /a"), ("C:\\a", "C:\\\\a"), ("a\nb", "a\\nb")])
def test_a_value_is_escaped_for_the_file(value: str, written: str) -> None:
    assert lines({"ssl.ca.location": value})[0] == f"ssl.truststore.location={written}"


@pytest.mark.parametrize(
    "settings",
    [
        {"ssl.key.password": "s3cret"},
        {"sasl.password": "s3cret"},
        {**SASL, "sasl.oauthbearer.config": "s3cret"},
    ],
)
def test_a_setting_without_translation_is_refused_by_name_only(settings: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="have no translation") as error:
        java_client_properties(settings)
    assert list(settings)[-1] in str(error.value)
    assert "s3cret" not in str(error.value)


def test_a_mechanism_without_translation_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"^sasl.mechanism must be one of .* for Spark$") as error:
        java_client_properties({**SASL, "sasl.mechanism": "GSSAPI"})
    assert "s3cret" not in str(error.value)
