# SPDX-License-Identifier: Apache-2.0
"""The librdkafka properties of every Kafka client that this package opens, and what Spark's Java client makes of them."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException, Producer

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.base.quoting import in_quotes
from airflow_provider_rlmm.core.base.redaction import secrets_of

CLIENT_ID_PREFIX = "__remote_log_metadata_client"
"""As in Kafka's ``TopicBasedRemoteLogMetadataManagerConfig``, so that quotas and logs show these clients alike."""

_PRODUCER_FIXED: dict[str, Any] = {"acks": "all", "enable.idempotence": True}
_CONSUMER_FIXED: dict[str, Any] = {
    "allow.auto.create.topics": False,
    # An offset out of range must be an error, never a silent jump over records.
    "auto.offset.reset": "error",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    # What the brokers' own consumers use: an event in an aborted transaction reaches them, so it must reach us.
    "isolation.level": "read_uncommitted",
}
# Reads are short and bounded. The broker holds a fetch at the end of a partition for its whole wait, and a client's next
# fetch queues behind it; a full queue makes the client sleep. What is fetched ahead takes four times its bytes in memory, as
# each small record has an object of its own: librdkafka would take 64 MiB of records, and fetch 1 MiB of each partition at
# once. It fetches no more at once than this, or than message.max.bytes where that is more.
_CONSUMER_DEFAULTS: dict[str, Any] = {
    "fetch.queue.backoff.ms": 10,
    "fetch.wait.max.ms": 10,
    "queued.max.messages.kbytes": 4_096,
}
_FIXED = {**_PRODUCER_FIXED, **_CONSUMER_FIXED}
# Another name of a property → the one that is used here.
ALIASES = {
    "request.required.acks": "acks",
    "auto.commit.enable": "enable.auto.commit",
    "metadata.broker.list": "bootstrap.servers",
    "sasl.mechanisms": "sasl.mechanism",
}
_SAME_VALUE = {"-1": "all", "1": "true", "0": "false"}
# Reads start at the beginning offsets by their assignment, which is what Kafka's own manager means by these words.
_BEGINNING = frozenset({"earliest", "smallest", "beginning", "error"})
_OWN = {
    "error_cb": "errors are watched by this package",
    "log_cb": "logging goes to Python's logging",
    "logger": "logging goes to Python's logging",
    "transactional.id": "events are published without transactions",
    "message.timeout.ms": "use delivery_timeout_s",
    "delivery.timeout.ms": "use delivery_timeout_s",
    **dict.fromkeys(
        ("plugin.library.paths", "ssl.engine.location", "ssl.providers"),
        "it has every process that opens the connection load code of its choice",
    ),
    "sasl.kerberos.kinit.cmd": "it has every process that opens the connection run a command of its choice in a shell",
}
# librdkafka puts these into the command of its own, which a shell runs; with a dash before it one would be an option.
_IN_A_COMMAND = ("sasl.kerberos.keytab", "sasl.kerberos.principal")
_PLAIN_WORD = re.compile(r"(?!-)[\w./@:=+-]*")

# Nothing here ever joins a group, so a shared Airflow connection may carry these for its other users.
_GROUP_ONLY = frozenset(
    {
        "auto.commit.interval.ms", "coordinator.query.interval.ms", "group.id", "group.instance.id", "group.protocol",
        "group.protocol.type", "group.remote.assignor", "heartbeat.interval.ms", "max.poll.interval.ms",
        "offset.store.method", "offset.store.path", "offset.store.sync.interval.ms", "partition.assignment.strategy",
        "session.timeout.ms",
    }
)  # fmt: skip
# librdkafka warns about each property of the other kind; these lists are what it warned about (2.16.0), and aliases.
_CONSUMER_ONLY = frozenset(_CONSUMER_FIXED) | {
    "check.crcs", "client.rack", "consume.callback.max.messages", "fetch.error.backoff.ms", "fetch.max.bytes",
    "fetch.message.max.bytes", "fetch.min.bytes", "fetch.queue.backoff.ms", "fetch.wait.max.ms",
    "max.partition.fetch.bytes", "queued.max.messages.kbytes", "queued.min.messages",
}  # fmt: skip
_PRODUCER_ONLY = frozenset(_PRODUCER_FIXED) | {
    "batch.num.messages", "batch.size", "compression.codec", "compression.level", "compression.type",
    "delivery.report.only.error", "enable.gapless.guarantee", "linger.ms", "message.send.max.retries", "partitioner",
    "produce.offset.report", "queue.buffering.backpressure.threshold", "queue.buffering.max.kbytes",
    "queue.buffering.max.messages", "queue.buffering.max.ms", "queuing.strategy", "request.timeout.ms", "retries",
    "sticky.partitioning.linger.ms", "transaction.timeout.ms",
}  # fmt: skip
# These two change what a delivery report says, and the outcomes are read from delivery reports.
_PRODUCER_DROPPED = frozenset({"delivery.report.only.error", "produce.offset.report", "partitioner"})

_MAX_CHARACTERS = 2**20
"""The certificates of all authorities that a machine knows are a quarter of it."""

_FILES = tuple(f"ssl.{name}.location" for name in ("ca", "certificate", "crl", "key", "keystore"))
_ADDRESS = re.compile(
    r"(?:(?:plaintext|ssl|sasl_plaintext|sasl_ssl)://)?(?:\[[0-9a-f:.]+(?:%\w+)?\]|[\w.-]+)(?::([0-9]{1,6}))?",
    re.ASCII | re.I,
)
_SHOWN = frozenset({"bootstrap.servers", "client.id", "sasl.mechanism", "security.protocol", "ssl.ca.location"})
# Of an Airflow ``kafka`` connection, for Spark.
_SAME_IN_JAVA = ("bootstrap.servers", "security.protocol", "request.timeout.ms", "client.dns.lookup")
_LIBRDKAFKA_ONLY = (
    "client.id", "group.id", "socket.timeout.ms", "acks", "enable.idempotence", "enable.auto.commit",
    "auto.offset.reset", "log_level", "debug",
)  # fmt: skip
_JAVA_SECURITY = "org.apache.kafka.common.security"
_LOGIN_MODULES = {
    "PLAIN": f"{_JAVA_SECURITY}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_JAVA_SECURITY}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_JAVA_SECURITY}.scram.ScramLoginModule",
}

_KINDS = ("properties", "producer_properties", "consumer_properties", "admin_properties")


@dataclass(frozen=True, slots=True, repr=False)
class KafkaClientConfig:
    """
    Properties for librdkafka, checked once: what correctness needs cannot be overridden.

    :param properties: librdkafka's property names and values for every client, as in the extra of Airflow's ``kafka``
        connection. ``bootstrap.servers`` is required. ``client.id`` becomes the middle of the clients' ids. Properties of
        consumer groups are ignored: nothing joins one.
    :param producer_properties: further ones for the producer, which win.
    :param consumer_properties: further ones for consumers, which win.
    :param admin_properties: further ones for admin clients, which win.
    :raises ConfigurationError: naming the property that is missing, of the wrong type, or set to a value that would
        break the guarantees of the event log; or a login that would not be used.
    """

    properties: Mapping[str, Any]
    producer_properties: Mapping[str, Any] = field(default_factory=dict)
    consumer_properties: Mapping[str, Any] = field(default_factory=dict)
    admin_properties: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for kind in _KINDS:
            given = getattr(self, kind)
            for name, value in given.items():
                check_property(name, ALIASES.get(name, name), value)
            object.__setattr__(self, kind, {ALIASES.get(name, name): value for name, value in given.items()})
        if not str(self.properties.get("bootstrap.servers") or "").strip():
            raise ConfigurationError("bootstrap.servers is required: a comma-separated list of host:port")
        _check_addresses(self.bootstrap_servers, self.bootstrap_addresses)
        for own in (self.producer_properties, self.consumer_properties, self.admin_properties):
            _check_login({**self.properties, **own})

    @property
    def bootstrap_servers(self) -> str:
        """The brokers that are asked first, for messages."""
        return str(self.properties["bootstrap.servers"])

    @property
    def bootstrap_addresses(self) -> tuple[str, ...]:
        """The addresses of the bootstrap list, each once."""
        return tuple(dict.fromkeys(a for part in self.bootstrap_servers.split(",") if (a := part.strip())))

    def producer(self, delivery_timeout_s: float) -> dict[str, Any]:
        """
        Return the properties of the producer.

        :param delivery_timeout_s: seconds until a record that is not acked counts as failed.
        """
        own = {**_PRODUCER_FIXED, "message.timeout.ms": max(1, int(delivery_timeout_s * 1000))}
        return self._client("producer", self.producer_properties, _CONSUMER_ONLY | _PRODUCER_DROPPED) | own

    def consumer(self, group_id: str) -> dict[str, Any]:
        """
        Return the properties of a consumer that reads assigned partitions.

        :param group_id: librdkafka insists on one; it is never joined and nothing is committed under it.
        """
        given = self._client("consumer", self.consumer_properties, _PRODUCER_ONLY)
        return {**_CONSUMER_DEFAULTS, **given, **_CONSUMER_FIXED, "group.id": group_id}

    def admin(self) -> dict[str, Any]:
        """Return the properties of the admin client."""
        return self._client("admin", self.admin_properties, _PRODUCER_ONLY | _CONSUMER_ONLY)

    def _client(self, kind: str, own: Mapping[str, Any], excluded: frozenset[str]) -> dict[str, Any]:
        given = {**self.properties, **own}
        kept = {n: v for n, v in given.items() if n not in excluded and n not in _GROUP_ONLY}
        return kept | {"client.id": f"{CLIENT_ID_PREFIX}_{given.get('client.id') or 'airflow'}_{kind}"}

    def secrets(self) -> frozenset[str]:
        """Return what of all these properties must appear in no text (:mod:`~airflow_provider_rlmm.core.base.redaction`)."""
        return frozenset[str]().union(*(secrets_of(getattr(self, kind)) for kind in _KINDS))

    def __repr__(self) -> str:
        # Only properties known to be harmless show their value: a list of secret names would miss the next new one.
        shown = (
            f"{kind.removesuffix('properties').replace('_', ' ')}{name}={value if name in _SHOWN else '<hidden>'}"
            for kind in _KINDS
            for name, value in sorted(getattr(self, kind).items())
        )
        return f"KafkaClientConfig({', '.join(shown)})"


def _check_addresses(bootstrap_servers: str, addresses: tuple[str, ...]) -> None:
    """Refuse addresses that librdkafka takes for others: of port 65537 it connects to port 1, of a word to port 0."""
    if "@" in bootstrap_servers:
        raise ConfigurationError(
            "bootstrap.servers must hold no login: put it into sasl.username and sasl.password, and only host:port here"
        )
    for number, address in enumerate(addresses or (bootstrap_servers,), 1):
        found = _ADDRESS.fullmatch(address)
        if found is None or not 1 <= int(found[1] or 9092) <= 65_535:
            raise ConfigurationError(
                "bootstrap.servers must be a comma-separated list of host:port, the port from 1 to 65535, and address "
                f"{number} of {len(addresses) or 1} is none"
            )


def _check_login(properties: Mapping[str, Any]) -> None:
    """Refuse a login that librdkafka would leave unused: it connects in plain text where no protocol is named."""
    login = sorted(name for name in properties if name.startswith("sasl."))
    if login and not str(properties.get("security.protocol") or "").strip():
        raise ConfigurationError(
            f"{', '.join(login)} without security.protocol: the client would connect in plain text and without a login; set "
            "security.protocol to SASL_SSL (to SASL_PLAINTEXT only where the network is trusted)"
        )


def check_files(properties: Mapping[str, Any]) -> None:
    """
    Refuse a client whose certificates are not there: librdkafka does not say which file it means.

    :raises ConfigurationError: naming the property and the file.
    """
    if not str(properties.get("security.protocol") or "").strip().upper().endswith("SSL"):
        return
    for name in _FILES:
        location = str(properties.get(name) or "").strip()
        # librdkafka looks for the machine's authorities itself where it is told to.
        if not location or (name == "ssl.ca.location" and location == "probe"):
            continue
        if not Path(location).exists():
            raise ConfigurationError(
                f"{name} names {in_quotes(location)}, and there is no such file on this machine: it must lie on every "
                "worker, and on the API server if connections are tested there"
            )
        if not os.access(location, os.R_OK):
            raise ConfigurationError(f"{name} names {in_quotes(location)}, and this process may not read it")


@functools.lru_cache(maxsize=1_024)
def is_known_property(name: str) -> bool:
    """
    Tell whether librdkafka has a property. No client is opened.

    :param name: its canonical name.
    """
    if name == "on_commit":
        return True  # of confluent-kafka's consumers
    try:
        # Properties are set in this order, and the second one exists nowhere: no producer comes of it.
        Producer({name: "1", "no.such.property": "1"})
    except KafkaException as error:
        # librdkafka has one code for all that can be wrong with a property; only its words tell them apart.
        return str(error.args[0].str()) != f'No such configuration property: "{name}"'
    except (TypeError, ValueError):
        return True  # confluent-kafka's own, which wants a value of another type
    raise AssertionError("librdkafka has taken a property that it does not have")


def check_property(given_name: str, name: str, value: Any) -> None:
    """
    Refuse what breaks the guarantees of the event log.

    :param given_name: the property as the user wrote it, for the message.
    :param name: its canonical name.
    :param value: its value. No message repeats it: it may be a secret in the wrong field.
    :raises ConfigurationError: naming the property.
    """
    if isinstance(value, str) and len(value) > _MAX_CHARACTERS:
        raise ConfigurationError(
            f"{given_name} has {number_of(len(value), 'character')}, and {_MAX_CHARACTERS} are the most"
        )
    if name in _OWN:
        raise ConfigurationError(f"{given_name} cannot be set: {_OWN[name]}")
    if name == "auto.offset.reset":
        if _normal(value) not in _BEGINNING:
            raise ConfigurationError(
                f"{given_name} must be 'earliest': the event log is read from its beginning; remove it"
            )
    elif name in _FIXED and _normal(value) != _normal(_FIXED[name]):
        raise ConfigurationError(
            f"{given_name} must be {_normal(_FIXED[name])!r}: the event log relies on it; remove it"
        )
    if name in _IN_A_COMMAND and not _PLAIN_WORD.fullmatch(str(value)):
        raise ConfigurationError(
            f"{given_name} must hold only letters, digits and ./@:=+-_ and not begin with a dash: a shell of every process "
            "that opens the connection reads it"
        )
    if (name.endswith("_cb") or name == "on_commit") and not callable(value):
        raise ConfigurationError(f"{given_name} must be a callable, not {type(value).__name__}")
    if value is None or isinstance(value, list | dict):
        raise ConfigurationError(f"{given_name} must be a string, a number or a boolean")


def _normal(value: Any) -> str:
    text = str(value).strip().lower()
    return _SAME_VALUE.get(text, text)


def java_client_properties(settings: Mapping[str, str]) -> str:
    """
    Translate client settings into the text of a Java properties file. It may hold secrets.

    :param settings: librdkafka's properties.
    :raises ConfigurationError: naming a property that has no translation here; its value is not repeated.
    """
    given = {k: str(v) for k, v in settings.items() if k not in _LIBRDKAFKA_ONLY}
    properties = {name: given.pop(name) for name in _SAME_IN_JAVA if name in given}
    properties.update(_sasl(given))
    if "ssl.ca.location" in given:
        properties["ssl.truststore.type"] = "PEM"
        properties["ssl.truststore.location"] = given.pop("ssl.ca.location")
    if given:
        raise ConfigurationError(f"Kafka properties {sorted(given)} have no translation for Spark's Java client yet")
    return "".join(f"{name}={_escaped(value)}\n" for name, value in sorted(properties.items()))


def _sasl(given: dict[str, str]) -> dict[str, str]:
    """Take what is about SASL out of ``given``."""
    mechanism = given.pop("sasl.mechanism", None) or given.pop("sasl.mechanisms", None)
    given.pop("sasl.mechanisms", None)
    if mechanism is None:
        return {}
    if mechanism not in _LOGIN_MODULES:
        raise ConfigurationError(f"sasl.mechanism must be one of {sorted(_LOGIN_MODULES)} for Spark")
    user, password = given.pop("sasl.username", ""), given.pop("sasl.password", "")
    login = f"{_LOGIN_MODULES[mechanism]} required username={_quoted(user)} password={_quoted(password)};"
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": login}


def _quoted(text: str) -> str:
    # A line break would end the quoted text, as far as the reader of JAAS entries is concerned.
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


def _escaped(value: str) -> str:
    # A Java properties file takes a backslash for an escape and leading white space for none.
    escaped = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return f"\\{escaped}" if escaped[:1].isspace() else escaped
