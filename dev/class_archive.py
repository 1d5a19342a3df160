# SPDX-License-Identifier: Apache-2.0
"""
Let the JVMs of Kafka share what they know of its classes: ``python -m dev.class_archive``.

Half of the processor time that a broker's start takes goes into loading, checking and linking a few thousand classes. A
broker that has served a tiered topic writes them down once, beside the jars; brokers of the same Java and the same jars map
that file, any other Java ignores it. CI starts three dozen brokers.
"""

from __future__ import annotations

import sys

from dev import ensure_jars, tiering
from dev.broker import CLASS_ARCHIVE, FAST_START, LocalKafka


def main() -> int:
    """Write the archive where there is none."""
    archive = ensure_jars() / CLASS_ARCHIVE
    if archive.exists():
        return 0
    written = archive.with_suffix(".new")
    with LocalKafka(jvm_options=(*FAST_START, f"-XX:ArchiveClassesAtExit={written}")) as kafka:
        tiering.create_tiered_topic(kafka, "orders", 1)
        tiering.produce_until_remote(kafka, "orders", 1)
        kafka.stop()
    written.rename(archive)
    return 0


if __name__ == "__main__":
    sys.exit(main())
