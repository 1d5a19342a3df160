# SPDX-License-Identifier: Apache-2.0
"""Kafka's own client in the driver's JVM, which Spark's Kafka connector brings along: its settings and its errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow_provider_rlmm.core.base.errors import (
    ConfigurationError,
    EventLogAccessError,
    EventLogError,
    EventLogUnavailableError,
    MetadataTopicNotFoundError,
)
from airflow_provider_rlmm.core.base.redaction import secrets_of, without_secrets
from airflow_provider_rlmm.features.retention.spark.executor.versions import connector_coordinates, release
from airflow_provider_rlmm.features.retention.spark.handed_over import read_handed_over

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BOOTSTRAP_SERVERS = "bootstrap.servers"

API_TIMEOUT_MS = 30_000
"""How long the brokers may take to answer before the job gives up, unless the client properties say otherwise."""

_CONNECTOR = "the Kafka connector"
_PROVIDER = "org.apache.spark.sql.kafka010.KafkaSourceProvider"


def jvm_of(spark: SparkSession) -> Any:
    """Return the gateway to the driver's JVM; a Spark Connect session has none."""
    return spark._jvm


def require_driver(spark: SparkSession) -> None:
    """
    Refuse a Spark Connect session: the job asks the cluster by the JVM of its own driver.

    :raises ConfigurationError: if it has no JVM.
    """
    if not hasattr(spark, "_jvm"):
        raise ConfigurationError(
            "this is a Spark Connect session, which has no driver of its own; run the job with spark-submit in client mode "
            "(--master local, spark://, yarn or k8s://) and without SPARK_REMOTE"
        )


def require_connector(spark: SparkSession) -> None:
    """
    Refuse a session without Kafka's client, or with parts of different versions.

    :raises ConfigurationError: if its classpath lacks Spark's Kafka connector, or Spark, pyspark and connector differ.
    """
    import pyspark
    from py4j.java_gateway import JavaPackage  # type: ignore[import-untyped]  # py4j has no type information

    # py4j takes a class that it cannot load for a package.
    jvm = jvm_of(spark)
    if isinstance(jvm.org.apache.kafka.clients.admin.AdminClient, JavaPackage):
        fits = connector_coordinates(str(jvm.scala.util.Properties.versionNumberString()), spark.version)
        raise ConfigurationError(
            "Kafka's client is not on the classpath of the Spark driver; pass the Kafka connector with --packages "
            f"{fits}, or its jars with --jars"
        )
    require_one_version({"Spark": spark.version, "pyspark": pyspark.__version__, _CONNECTOR: _connector_version(spark)})


def require_one_version(versions: Mapping[str, str | None]) -> None:
    """
    Refuse versions that differ, be it in the last number: these parts call each other's insides.

    :param versions: part → its version, ``None`` where it does not say; a vendor's is compared by its numbers.
    :raises ConfigurationError: naming them all.
    """
    known = {part: version for part, version in versions.items() if version is not None}
    if len(set(map(release, known.values()))) > 1:
        parts = ", ".join(f"{part} {version}" for part, version in known.items())
        raise ConfigurationError(
            f"the Spark driver has parts of different versions: {parts}; give all of them one version"
        )


def _connector_version(spark: SparkSession) -> str | None:
    jvm = jvm_of(spark)
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    version = jvm.java.lang.Class.forName(_PROVIDER, False, loader).getPackage().getImplementationVersion()
    return None if version is None else str(version)


def java_settings(jvm: Any, properties: Mapping[str, str]) -> Any:
    """Return Kafka client properties as a Java map."""
    settings = jvm.java.util.HashMap()
    for name, value in {"default.api.timeout.ms": str(API_TIMEOUT_MS), **properties}.items():
        settings.put(name, value)
    return settings


@contextmanager
def kafka_errors(properties: Mapping[str, str], topic: str) -> Iterator[None]:
    """
    Return a context manager: what Kafka's client throws within the block leaves it as an error of this package.

    :param properties: the client's properties; they stay out of the messages.
    :param topic: what was asked about.
    :raises MetadataTopicNotFoundError: if the topic does not exist.
    :raises EventLogUnavailableError: if the brokers do not answer in time.
    :raises EventLogAccessError: if authentication fails or an ACL forbids it.
    :raises ConfigurationError: if a client property is not valid.
    """
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # py4j has no type information

    try:
        yield
    except Py4JJavaError as e:
        raise _kafka_error(e.java_exception, properties, topic) from None


def causes(exception: Any) -> list[tuple[str, str]]:
    """Return the class and the message of a Java exception and of what caused it, outermost first."""
    chain = []
    while exception is not None:
        chain.append((str(exception.getClass().getName()).rpartition(".")[2], str(exception.getMessage())))
        exception = exception.getCause()
    return chain


def _kafka_error(exception: Any, properties: Mapping[str, str], topic: str) -> EventLogError | ConfigurationError:
    """Return the error of this package that says what a Kafka exception, or what caused it, means."""
    servers = properties.get(BOOTSTRAP_SERVERS, "")
    chain = causes(exception)
    names = " ".join(name for name, _ in chain)
    said = without_secrets(": ".join(chain[-1]), secrets_of(properties))
    if "Authentication" in names or "Authorization" in names:
        return EventLogAccessError(f"no access to topic {topic!r} at {servers}: {said}")
    if "UnknownTopic" in names or "InvalidTopic" in names:
        return MetadataTopicNotFoundError(f"topic {topic!r} does not exist at {servers}: {said}")
    if "Config" in names or "FailedToConstruct" in names or chain[0][1].startswith("Failed to construct"):
        return ConfigurationError(f"Kafka's client refuses its properties for {servers}: {said}")
    return EventLogUnavailableError(f"no answer about topic {topic!r} from {servers}: {said}")


def load_properties(spark: SparkSession, path: str) -> dict[str, str]:
    """
    Read a Java properties file of Kafka client settings, secrets included.

    :param spark: the session; Java's own reader is used, so line continuations and escapes mean what they do in Kafka.
    :param path: the file, as the driver's machine sees it; a named pipe is read as far as its writer writes.
    :raises ConfigurationError: if there is no such file, or no program writes to the pipe.
    """
    data = read_handed_over(path, f"Kafka properties file {path}")
    jvm = jvm_of(spark)
    properties = jvm.java.util.Properties()
    properties.load(jvm.java.io.InputStreamReader(jvm.java.io.ByteArrayInputStream(bytearray(data)), "UTF-8"))
    return {name: properties.getProperty(name) for name in properties.stringPropertyNames()}
