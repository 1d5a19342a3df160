# SPDX-License-Identifier: Apache-2.0
"""The client settings of an Airflow ``kafka`` connection (librdkafka's names) as Java client properties, for Spark."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_rlmm.errors import ConfigurationError

_SAME = ("bootstrap.servers", "security.protocol", "request.timeout.ms", "client.dns.lookup")
_LIBRDKAFKA_ONLY = (
    "client.id",
    "group.id",
    "socket.timeout.ms",
    "acks",
    "enable.idempotence",
    "enable.auto.commit",
    "auto.offset.reset",
    "log_level",
    "debug",
)
_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def java_client_properties(settings: Mapping[str, str]) -> str:
    """
    Translate client settings into the text of a Java properties file. It may hold secrets.

    :param settings: librdkafka's properties.
    :raises ConfigurationError: naming a property that has no translation here; its value is not repeated.
    """
    given = {k: str(v) for k, v in settings.items() if k not in _LIBRDKAFKA_ONLY}
    properties = {name: given.pop(name) for name in _SAME if name in given}
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
        raise ConfigurationError(f"sasl.mechanism {mechanism!r} is not supported for Spark: {sorted(_LOGIN_MODULES)}")
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
