# SPDX-License-Identifier: Apache-2.0
"""
The small text files of a broker's disk, each written whole or not at all by the broker.

Kafka: ``CheckpointFile``, ``OffsetCheckpointFile``, ``PartitionMetadataFile``, ``MetaProperties``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from uuid import UUID

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.errors import LogDirectoryError
from airflow_provider_rlmm.core.base.quoting import in_quotes
from airflow_provider_rlmm.core.records.records import parse_kafka_uuid
from airflow_provider_rlmm.features.copying.log_directory.names import TopicPartition
from airflow_provider_rlmm.features.copying.log_directory.regular_files import open_regular

MAX_TEXT_BYTES: Final = 64 * 1024 * 1024
"""The largest text file that is read: more than 200,000 lines with the longest names of topics."""

_OFFSET_LINE = re.compile(r"(?P<topic>[a-zA-Z0-9._-]{1,249})\s+(?P<partition>[0-9]{1,10})\s+(?P<offset>-?[0-9]{1,19})")
_ESCAPE = re.compile(r"\\(.)")


def read_text(path: Path) -> str | None:
    """
    Read a text file of a broker, ``None`` where there is none.

    :raises LogDirectoryError: if it is no regular file, cannot be read, or is none that a broker writes.
    """
    try:
        with open_regular(path) as file:
            data = file.read(MAX_TEXT_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as e:
        raise LogDirectoryError(f"{path} cannot be read: {e.strerror}") from e
    if len(data) > MAX_TEXT_BYTES:
        raise LogDirectoryError(f"{path} is larger than {MAX_TEXT_BYTES} bytes: no broker writes such a file")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as e:
        raise LogDirectoryError(f"{path} is damaged: byte {e.start} is no UTF-8") from e


def read_offset_checkpoint(path: Path) -> Mapping[TopicPartition, int]:
    """
    Read a checkpoint of offsets per user partition; one that is missing or empty has none, as for Kafka.

    :param path: the file, such as ``replication-offset-checkpoint``.
    :raises LogDirectoryError: if it is damaged.
    """
    lines = (read_text(path) or "").splitlines()
    if len(lines) < 2:
        if lines and lines[0] != "0":
            raise _damaged(path, 1, lines[0], "the version 0")
        return {}
    if lines[0] != "0":
        raise _damaged(path, 1, lines[0], "the version 0")
    if not lines[1].isascii() or not lines[1].isdigit():
        raise _damaged(path, 2, lines[1], "the number of entries")
    offsets: dict[TopicPartition, int] = {}
    for number, line in enumerate(lines[2:], start=3):
        match = _OFFSET_LINE.fullmatch(line)
        if match is None:
            raise _damaged(path, number, line, "a topic, a partition and an offset")
        key = TopicPartition(match["topic"], int(match["partition"]))
        if key in offsets:
            raise _damaged(path, number, line, "another user partition than in the lines above")
        offsets[key] = int(match["offset"])
    if len(offsets) != int(lines[1]):
        raise LogDirectoryError(
            f"{path} is damaged: it holds {number_of(len(offsets), 'entry', 'entries')}, but says {lines[1]}"
        )
    return offsets


def read_topic_id(path: Path) -> UUID:
    """
    Read the topic id of a user partition's directory.

    :raises LogDirectoryError: if it is missing, damaged, or names no topic id.
    """
    text = read_text(path)
    if text is None:
        raise LogDirectoryError(
            f"{path} is missing: nothing says which topic id the directory belongs to, and names return after a deletion"
        )
    fields = dict(re.split(r":\s+", line, maxsplit=1) for line in text.splitlines() if re.search(r":\s+", line))
    if not re.fullmatch(r"[0-9]{1,9}", fields.get("version", "")):
        raise LogDirectoryError(f"{path} is damaged: it has no line with its version")
    try:
        topic_id = parse_kafka_uuid(fields.get("topic_id", ""))
    except ValueError as e:
        raise LogDirectoryError(f"{path} is damaged: it has no line with a topic id") from e
    if topic_id.int == 0:
        raise LogDirectoryError(f"{path} names the id of zeros, which stands for no topic")
    return topic_id


def read_properties(path: Path) -> Mapping[str, str] | None:
    """
    Read a ``meta.properties``, ``None`` where there is none: simple lines ``name=value``, as brokers write them.

    :raises LogDirectoryError: if a line is none of these.
    """
    text = read_text(path)
    if text is None:
        return None
    properties: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith(("#", "!")):
            continue
        name, equals, value = line.partition("=")
        if not equals:
            raise _damaged(path, number, line, "a name and a value")
        properties[name.strip()] = _ESCAPE.sub(r"\1", value.strip())
    return properties


def _damaged(path: Path, number: int, line: str, wanted: str) -> LogDirectoryError:
    return LogDirectoryError(f"{path} is damaged: line {number} is {in_quotes(line, 80)}, not {wanted}")
