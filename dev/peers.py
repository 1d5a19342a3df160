# SPDX-License-Identifier: Apache-2.0
"""The Java programs of ``dev/java/peers``: what this package is compared with runs Kafka's own classes."""

from __future__ import annotations

import os
from collections.abc import Sequence

from dev import JAVA_SOURCES, ensure_java_classes, java_executable, kafka_class_path

PACKAGE = "org.apache.kafka.server.log.remote.metadata.storage"
"""Where the peers lie: Kafka's caches can be called from there only."""


SHORT_LIFE = ("-XX:+UseSerialGC", "-Xmx512m", "-XX:TieredStopAtLevel=1")
"""JVM options of peers that answer for seconds: the optimising compiler costs more than it saves there."""


def peer_command(
    name: str, *arguments: str, options: Sequence[str] = (), kafka_version: str | None = None
) -> list[str]:
    """
    Return the command that runs a peer.

    :param name: its class, without the package.
    :param arguments: words of its command line.
    :param options: the JVM's.
    :param kafka_version: another Kafka than the one of ``dev/pom.xml``, against which the peers are compiled.
    :raises DevEnvironmentError: if Java, its compiler or Maven is missing.
    """
    class_path = os.pathsep.join([str(ensure_java_classes()), *kafka_class_path(kafka_version)])
    # Named here, as one of Kafka's jars for tests has another at its root.
    quiet = f"-Dlog4j2.configurationFile={JAVA_SOURCES / 'peers' / 'log4j2.properties'}"
    return [java_executable(), *options, quiet, "-cp", class_path, f"{PACKAGE}.{name}", *arguments]
