# SPDX-License-Identifier: Apache-2.0
"""Jars as far as anybody looks into them before Spark is started."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile


def connector_jar(folder: Path, name: str = "uber.jar") -> str:
    """Write a jar that holds Spark's Kafka connector, and return its path."""
    return jar_of(folder / name, "org/apache/spark/sql/kafka010/KafkaSourceProvider.class")


def jar_of(path: Path, entry: str) -> str:
    """Write a jar with one entry, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with ZipFile(path, "w") as archive:
        archive.writestr(entry, b"")
    return str(path)
