# SPDX-License-Identifier: Apache-2.0
"""Names of Kafka's Java clients in librdkafka's words, or why there are none."""

from __future__ import annotations

from airflow_provider_rlmm.errors import ConfigurationError

# Only where the values mean the same: PEM texts, times in ms.
_RENAMED = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "request.timeout.ms": "socket.timeout.ms",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.truststore.certificates": "ssl.ca.pem",
}
_PEM = "ssl.certificate.location and ssl.key.location, both PEM files"
_REPLACED = {
    "buffer.memory": "queue.buffering.max.kbytes",
    "max.request.size": "message.max.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "sasl.client.callback.handler.class": "oauth_cb in the Kafka connection",
    "sasl.jaas.config": "sasl.username and sasl.password",
    "sasl.login.callback.handler.class": "oauth_cb in the Kafka connection",
    "sasl.login.class": "oauth_cb in the Kafka connection",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "ssl.keystore.type": f"{_PEM}, or ssl.keystore.location, a PKCS#12 file",
    "ssl.truststore.location": "ssl.ca.location, a PEM file",
    "ssl.truststore.password": "ssl.ca.location, a PEM file without a password",
    "ssl.truststore.type": "ssl.ca.location, a PEM file",
}
_WITHOUT_COUNTERPART = frozenset(
    {
        "auto.include.jmx.reporter",
        "default.api.timeout.ms",
        "exclude.internal.topics",
        "interceptor.classes",
        "key.deserializer",
        "key.serializer",
        "max.block.ms",
        "max.poll.records",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "partitioner.class",
        "security.providers",
        "ssl.enabled.protocols",
        "ssl.engine.factory.class",
        "ssl.keymanager.algorithm",
        "ssl.protocol",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
        "value.deserializer",
        "value.serializer",
    }
)


def librdkafka_name(name: str, *, given_name: str) -> str:
    """
    Return librdkafka's name of a property of Kafka's Java clients.

    :param name: Java's name; names that both have, and librdkafka's own, stay as they are.
    :param given_name: the property as the user wrote it, for the message.
    :raises ConfigurationError: if librdkafka has no such property, naming the one to use instead.
    """
    if name in _REPLACED:
        raise ConfigurationError(
            f"{given_name} is for Java clients and cannot be translated: use {_REPLACED[name]} instead"
        )
    if name in _WITHOUT_COUNTERPART:
        raise ConfigurationError(f"{given_name} is for Java clients, librdkafka has nothing like it: remove it")
    return _RENAMED.get(name, name)
