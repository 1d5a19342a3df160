# SPDX-License-Identifier: Apache-2.0
"""
The properties of a Java client, as Kafka's own tools take them by ``--command-config``, turned into librdkafka's.

Source: Kafka's ``AdminClientConfig``, ``SslConfigs`` and ``SaslConfigs``; librdkafka's ``CONFIGURATION.md``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.base.quoting import in_quotes
from airflow_provider_rlmm.core.log.kafka.config import is_known_property

_MAX_BYTES: Final = 2**20
_RENAMED: Final = {
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.cipher.suites": "ssl.cipher.suites",
}
_IGNORED: Final = frozenset(
    {
        # Of Java's consumers and producers; nothing that is done here asks for them.
        "auto.include.jmx.reporter", "auto.offset.reset", "default.api.timeout.ms", "enable.auto.commit", "group.id",
        "interceptor.classes", "key.deserializer", "key.serializer", "metric.reporters", "metrics.num.samples",
        "metrics.recording.level", "metrics.sample.window.ms", "receive.buffer.bytes", "request.timeout.ms",
        "send.buffer.bytes", "value.deserializer", "value.serializer",
        # Java's own ways of doing what OpenSSL does here.
        "ssl.enabled.protocols", "ssl.keymanager.algorithm", "ssl.protocol", "ssl.provider",
        "ssl.secure.random.implementation", "ssl.trustmanager.algorithm",
    }
)  # fmt: skip
_LOGIN: Final = re.compile(r"\s*(\S+)\s+(?:required|requisite|sufficient|optional)\b(.*?);?\s*", re.DOTALL)
_LOGIN_OPTION: Final = re.compile(r'(\w+)\s*=\s*(?:"((?:\\.|[^"\\])*)"|([^\s;"]+))')
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


def read_java_properties(path: str) -> dict[str, str]:
    """
    Read a properties file of a Java client, and return librdkafka's properties that mean the same.

    :param path: of the file; relative to the working directory.
    :raises ConfigurationError: if it cannot be read, or a property has no like; a value is never repeated.
    """
    import javaproperties

    file = Path(path).expanduser()
    try:
        with file.open("rb") as opened:
            data = opened.read(_MAX_BYTES + 1)
    except OSError as e:
        raise ConfigurationError(f"{in_quotes(path)} cannot be read: {e.strerror}") from None
    if len(data) > _MAX_BYTES:
        raise ConfigurationError(f"{in_quotes(path)} is larger than {_MAX_BYTES} bytes: it is no properties file")
    try:
        given: dict[str, str] = javaproperties.loads(data.decode("utf-8"))
    except ValueError:
        # Its text repeats what stands there.
        raise ConfigurationError(f"{in_quotes(path)} is no properties file in UTF-8") from None
    try:
        return librdkafka_properties(given)
    except ConfigurationError as e:
        raise ConfigurationError(f"{in_quotes(path)}: {e}") from None


def librdkafka_properties(given: Mapping[str, str]) -> dict[str, str]:
    """
    Return librdkafka's properties for those of a Java client.

    :param given: name → value, as Java has them.
    :raises ConfigurationError: naming the property that has no like; a value is never repeated.
    """
    rest = {name: value.strip() for name, value in given.items() if name not in _IGNORED and value.strip()}
    found = _trusted(rest) | _key(rest) | _login(rest)
    if "ssl.endpoint.identification.algorithm" in given:
        # Empty switches it off in Java, and librdkafka has a word for that.
        rest.pop("ssl.endpoint.identification.algorithm", None)
        named = given["ssl.endpoint.identification.algorithm"].strip()
        found["ssl.endpoint.identification.algorithm"] = named or "none"
    found |= {new: rest.pop(old) for old, new in _RENAMED.items() if old in rest}
    if unknown := sorted(name for name in rest if not is_known_property(name)):
        raise ConfigurationError(
            f"properties {unknown} are not known to librdkafka, which connects here: remove them from a copy of the file"
        )
    return {**rest, **found}


def _trusted(rest: dict[str, str]) -> dict[str, str]:
    """Take the truststore out of the properties."""
    kind, location = rest.pop("ssl.truststore.type", "JKS").upper(), rest.pop("ssl.truststore.location", None)
    rest.pop("ssl.truststore.password", None)
    if location is None:
        return {}
    if kind != "PEM":
        raise ConfigurationError(
            f"ssl.truststore.type {kind} can only be read by Java: write its certificates into a PEM file (keytool "
            "-exportcert -rfc), and set ssl.truststore.type=PEM and ssl.truststore.location to it"
        )
    return {"ssl.ca.location": location}


def _key(rest: dict[str, str]) -> dict[str, str]:
    """Take the keystore out of the properties."""
    kind, location = rest.pop("ssl.keystore.type", "JKS").upper(), rest.pop("ssl.keystore.location", None)
    password = rest.pop("ssl.keystore.password", None)
    if location is None:
        return {}
    if kind == "PEM":
        return {"ssl.key.location": location, "ssl.certificate.location": location}
    if kind == "PKCS12":
        return {"ssl.keystore.location": location} | ({"ssl.keystore.password": password} if password else {})
    raise ConfigurationError(
        f"ssl.keystore.type {kind} can only be read by Java: make it PKCS12 (keytool -importkeystore -deststoretype "
        "PKCS12), and set ssl.keystore.type=PKCS12 and ssl.keystore.location to it"
    )


def _login(rest: dict[str, str]) -> dict[str, str]:
    """Take the JAAS entry out of the properties."""
    entry = rest.pop("sasl.jaas.config", None)
    if entry is None:
        return {}
    login = _LOGIN.fullmatch(entry)
    if login is None:
        raise ConfigurationError("sasl.jaas.config is no entry such as '…PlainLoginModule required username=\"…\" …;'")
    module = login[1].rpartition(".")[2]
    options = {
        name: _ESCAPED.sub(r"\1", quoted) if quoted else plain
        for name, quoted, plain in _LOGIN_OPTION.findall(login[2])
    }
    match module:
        case "PlainLoginModule" | "ScramLoginModule":
            return _named(options, {"username": "sasl.username", "password": "sasl.password"})
        case "Krb5LoginModule":
            return _named(options, {"principal": "sasl.kerberos.principal", "keyTab": "sasl.kerberos.keytab"})
        case "OAuthBearerLoginModule":
            names = {"clientId": "sasl.oauthbearer.client.id", "clientSecret": "sasl.oauthbearer.client.secret"}
            return {"sasl.oauthbearer.method": "oidc"} | _named(options, names)
    raise ConfigurationError(
        f"sasl.jaas.config names {in_quotes(module)}: known are PlainLoginModule, ScramLoginModule, Krb5LoginModule and "
        "OAuthBearerLoginModule"
    )


def _named(options: Mapping[str, str], names: Mapping[str, str]) -> dict[str, str]:
    if missing := sorted(names.keys() - options.keys()):
        raise ConfigurationError(f"sasl.jaas.config lacks {', '.join(missing)}")
    return {new: options[old] for old, new in names.items()}
