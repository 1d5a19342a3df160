# SPDX-License-Identifier: Apache-2.0
"""
A pattern of object keys, such as ``{topic}-{topic_id}/{partition}/{start_offset:020}-{segment_id}``, and back.

What it builds is one path for one segment: a topic name comes from the log, so it is data, and one that Kafka itself would
refuse is refused here too, before it can walk a path. What it reads back is what it would have built, spelled as Kafka spells
ids and numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from string import Formatter
from typing import Final
from uuid import UUID

from airflow_provider_rlmm.core.base.errors import ConfigurationError, UnsafeObjectKeyError
from airflow_provider_rlmm.core.base.quoting import in_quotes
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    TopicIdPartition,
    kafka_uuid_str,
    parse_kafka_uuid,
)
from airflow_provider_rlmm.core.records.topic_names import is_legal_topic_name

_MAX_INT32: Final = 2**31 - 1
_MAX_INT64: Final = 2**63 - 1

_NUMBER: Final = "0|[1-9][0-9]*"
# An id has 22 characters, "-" and "_" among them, and a topic name may end in "-7": only the fixed width tells.
_FIELDS: Final = {
    ("topic", ""): "[a-zA-Z0-9._-]+",
    ("topic_id", ""): "[a-zA-Z0-9_-]{22}",
    ("partition", ""): _NUMBER,
    ("start_offset", ""): _NUMBER,
    ("start_offset", "020"): "[0-9]{20}",
    ("segment_id", ""): "[a-zA-Z0-9_-]{22}",
}
_VARYING: Final = {("topic", ""), ("partition", ""), ("start_offset", "")}
_NEEDED: Final = ("topic", "topic_id", "partition", "segment_id")
_OF_THE_PARTITION: Final = ("topic", "topic_id", "partition")
_LITERAL: Final = re.compile(r"[a-zA-Z0-9._/=+@~,:-]*")


@dataclass(frozen=True, slots=True)
class _Part:
    """A literal, a field, or both: the field comes last."""

    literal: str
    field: str = ""
    width: str = ""

    @property
    def expression(self) -> str:
        group = f"(?P<{self.field}>{_FIELDS[self.field, self.width]})" if self.field else ""
        return re.escape(self.literal) + group


class KeyPattern:
    """
    :param text: literals and the fields ``{topic}``, ``{topic_id}``, ``{partition}``, ``{segment_id}``, each once, and
        ``{start_offset}`` or, with 20 digits, ``{start_offset:020}``.
    :raises ConfigurationError: if a segment cannot be told from its key.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._parts = self._parsed()
        self._check()
        self._whole = re.compile("".join(part.expression for part in self._parts) + r"(?P<suffix>[^/]*)")
        folders = [text[: m.start() + 1] for m in re.finditer("/", text)]
        # The deepest folder that holds the segments of one user partition only, if there is one.
        mine = [f for f in folders if not re.search(r"\{(start_offset|segment_id)", f)]
        self._folder = mine[-1] if mine else ""
        self._first_folder = self._expression_of_the_first_folder(folders)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.text!r})"

    def _parsed(self) -> tuple[_Part, ...]:
        try:
            pieces = list(Formatter().parse(self.text))
        except ValueError as e:
            raise self._refused(f"it cannot be read ({e})") from e
        parts = []
        for literal, field, width, conversion in pieces:
            if field is not None and ((field, width or "") not in _FIELDS or conversion):
                known = ", ".join(f"{{{name}{':' + w if w else ''}}}" for name, w in _FIELDS)
                raise self._refused(f"{{{field}{':' + width if width else ''}}} is none of {known}")
            parts.append(_Part(literal, field or "", width or ""))
        return tuple(parts)

    def _check(self) -> None:
        names = [part.field for part in self._parts if part.field]
        if missing := [name for name in _NEEDED if name not in names]:
            raise self._refused(f"it does not name {', '.join(f'{{{name}}}' for name in missing)}")
        if len(set(names)) != len(names):
            raise self._refused("it names a field twice")
        literals = [part.literal for part in self._parts]
        if not all(map(_LITERAL.fullmatch, literals)):
            raise self._refused("it has characters that are none of a-z A-Z 0-9 . _ / = + @ ~ , : -")
        steps = self.text.split("/")
        if any(step in ("", ".", "..") for step in steps):
            raise self._refused("it begins or ends with /, or has //, /./ or /../, which stores read as another path")
        for number, part in enumerate(self._parts):
            if (part.field, part.width) not in _VARYING:
                continue
            before, behind = part.literal, "".join(p.literal for p in self._parts[number + 1 : number + 2])
            if (number and not before) or before[-1:].isdigit() or not behind or behind[0].isdigit():
                raise self._refused(
                    f"{{{part.field}}} has no fixed length, so it must stand between characters that are no digits: "
                    "otherwise a key cannot be read back"
                )

    def _refused(self, why: str) -> ConfigurationError:
        return ConfigurationError(f"the key pattern {in_quotes(self.text)} is refused: {why}")

    def _expression_of_the_first_folder(self, folders: list[str]) -> re.Pattern[str] | None:
        """Return what matches the name of a first folder, where that names the topic id."""
        if not folders or "{topic_id}" not in folders[0]:
            return None
        expressions, seen = [], ""
        for part in self._parts:
            before, slash, _ = part.literal.partition("/")
            expressions.append(re.escape(before) if slash else part.expression)
            seen += before + slash
            if slash:
                break
        return re.compile("".join(expressions))

    def stem(self, metadata: RemoteLogSegmentMetadata) -> str:
        """
        Return what the keys of a segment have in common.

        :raises UnsafeObjectKeyError: if Kafka would refuse the topic's name, the partition or the offset.
        """
        segment = metadata.remote_log_segment_id
        if not 0 <= metadata.start_offset <= _MAX_INT64:
            raise UnsafeObjectKeyError(f"start offset {metadata.start_offset} of segment {segment} is no offset")
        values = _values_of(segment.topic_id_partition)
        return self.text.format(**values, start_offset=metadata.start_offset, segment_id=kafka_uuid_str(segment.id))

    def folder(self, topic_id_partition: TopicIdPartition) -> str:
        """
        Return the folder that all keys of a user partition lie in, ending in ``/``; empty where they share none.

        :raises UnsafeObjectKeyError: if Kafka would refuse the topic's name or the partition.
        """
        return self._folder.format(**_values_of(topic_id_partition))

    def parse(self, key: str) -> tuple[RemoteLogSegmentId, str] | None:
        """Return the segment that a key belongs to, and what follows its stem; ``None`` for a key that is never built."""
        match = self._whole.fullmatch(key)
        if match is None:
            return None
        topic_id, segment_id = canonical_uuid(match["topic_id"]), canonical_uuid(match["segment_id"])
        partition, start_offset = int(match["partition"]), match.groupdict().get("start_offset") or "0"
        if (
            topic_id is None
            or segment_id is None
            or partition > _MAX_INT32
            or int(start_offset) > _MAX_INT64
            or not is_legal_topic_name(match["topic"])
        ):
            return None
        tip = TopicIdPartition(topic_id, match["topic"], partition)
        return RemoteLogSegmentId(tip, segment_id), match["suffix"]

    def topic_id_of_folder(self, name: str) -> UUID | None:
        """
        Return the topic id that a first folder belongs to.

        :param name: the folder's, without ``/``.
        :return: ``None`` where it is none of this pattern, or the first folder names no topic id.
        """
        match = self._first_folder.fullmatch(name) if self._first_folder else None
        return canonical_uuid(match["topic_id"]) if match else None

    @property
    def folders_name_topics(self) -> bool:
        """Whether the topic id is in the name of the first folder."""
        return self._first_folder is not None


@lru_cache(maxsize=1024)
def _values_of(tip: TopicIdPartition) -> Mapping[str, object]:
    if not is_legal_topic_name(tip.topic):
        raise UnsafeObjectKeyError(
            f"topic name {in_quotes(tip.topic)} of topic id {kafka_uuid_str(tip.topic_id)} is not one that "
            "Kafka accepts, so no object key is built from it; look at the metadata record that names it"
        )
    if not 0 <= tip.partition <= _MAX_INT32:
        raise UnsafeObjectKeyError(f"user partition {tip.partition} of topic {tip.topic!r} is not in 0..{_MAX_INT32}")
    return {"topic": tip.topic, "topic_id": kafka_uuid_str(tip.topic_id), "partition": tip.partition}


@lru_cache(maxsize=4096)
def canonical_uuid(text: str) -> UUID | None:
    """Return the id that a text spells as Kafka does, ``None`` where it does not."""
    # A listing names one topic id, and each segment's, many times in a row.
    # Base64 has four spellings for the last character of an id; Kafka writes only one of them.
    try:
        value = parse_kafka_uuid(text)
    except ValueError:
        return None
    return value if kafka_uuid_str(value) == text else None
