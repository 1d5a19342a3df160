# SPDX-License-Identifier: Apache-2.0
"""
A pattern of object keys, such as ``{topic}-{topic_id}/{partition}/{start_offset:020}-{segment_id}``, and back.

What it builds is one path for one segment: a topic name comes from the log, so it is data, and one that Kafka itself would
refuse is refused here too, before it can walk a path. What it reads back is what it would have built, spelled as Kafka spells
ids and numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
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
from airflow_provider_rlmm.core.storage.key_fields import MAX_INT32, MAX_INT64, OF_THE_PARTITION, Field, Salt, field_of

_NEEDED: Final = (*OF_THE_PARTITION, "segment_id")
_LITERAL: Final = re.compile(r"[a-zA-Z0-9._/=+@~,:-]*")
_KAFKA: Final = ""
"""The form in which Kafka spells an id."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A literal, a field, or both: the field comes last."""

    literal: str
    field: Field | Salt | None = None

    @property
    def expression(self) -> str:
        return re.escape(self.literal) + (f"(?P<{self.field.group}>{self.field.expression})" if self.field else "")

    @property
    def format(self) -> str:
        return self.literal + (self.field.format if self.field else "")


class KeyPattern:
    """
    :param text: literals and the fields ``{topic}``, ``{topic_id}``, ``{partition}``, ``{segment_id}``, each once;
        ``{start_offset}`` and ``{end_offset}`` may be left out. Ids may be ``:uuid``, numbers have a width, such as ``:020``.
        A salt is a function of other fields, see :mod:`~airflow_provider_rlmm.core.storage.key_fields`.
    :param in_folders: whether each segment has a folder of its own, in which its objects lie.
    :raises ConfigurationError: if a segment cannot be told from its key.
    """

    def __init__(self, text: str, *, in_folders: bool = False) -> None:
        self.text = text
        self._parts = self._parsed()
        self._check()
        self._salts = [part.field for part in self._parts if isinstance(part.field, Salt)]
        self._forms = {part.field.name: part.field.form for part in self._parts if isinstance(part.field, Field)}
        suffix = "(?P<suffix>[^/]*|/.+)" if in_folders else "(?P<suffix>[^/]*)"
        self._whole = re.compile("".join(part.expression for part in self._parts) + suffix, re.DOTALL)
        self._stem = "".join(part.format for part in self._parts)
        self._folder = self._format_of_the_folder()
        self._first_folder = self._expression_of_the_first_folder()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.text!r})"

    def _parsed(self) -> tuple[_Part, ...]:
        try:
            pieces = list(Formatter().parse(self.text))
        except ValueError as e:
            raise self._refused(f"it cannot be read ({e})") from e
        plain = self._fields(
            [(literal, name, form) for literal, name, form, _ in pieces if "(" not in (name or "")], {}
        )
        if any(conversion for *_, conversion in pieces):
            raise self._refused("it has a conversion, such as !r")
        known = {part.field.name: part.field for part in plain if isinstance(part.field, Field)}
        return tuple(self._fields([piece[:3] for piece in pieces], known))

    def _fields(
        self, pieces: Sequence[tuple[str, str | None, str | None]], known: Mapping[str, Field]
    ) -> Sequence[_Part]:
        parts: list[_Part] = []
        for literal, name, form in pieces:
            if name is None:
                parts.append(_Part(literal))
                continue
            try:
                salts = sum(isinstance(part.field, Salt) for part in parts)
                parts.append(_Part(literal, field_of(name, form or "", known, salts)))
            except ConfigurationError as e:
                raise self._refused(str(e)) from None
        return parts

    def _check(self) -> None:
        names = [part.field.group for part in self._parts if part.field]
        if missing := [name for name in _NEEDED if name not in names]:
            raise self._refused(f"it does not name {', '.join(f'{{{name}}}' for name in missing)}")
        if len(set(names)) != len(names):
            raise self._refused("it names a field twice")
        literals = [part.literal for part in self._parts]
        if not all(map(_LITERAL.fullmatch, literals)):
            raise self._refused("it has characters that are none of a-z A-Z 0-9 . _ / = + @ ~ , : -")
        # What a field is says nothing about folders.
        steps = "".join(part.literal + "x" * bool(part.field) for part in self._parts).split("/")
        if any(step in ("", ".", "..") for step in steps):
            raise self._refused("it begins or ends with /, or has //, /./ or /../, which stores read as another path")
        for number, part in enumerate(self._parts):
            if part.field is None or not part.field.varies:
                continue
            before, behind = part.literal, "".join(p.literal for p in self._parts[number + 1 : number + 2])
            if (number and not before) or before[-1:].isdigit() or not behind or behind[0].isdigit():
                raise self._refused(
                    f"{{{part.field.group}}} has no fixed length, so it must stand between characters that are no digits: "
                    "otherwise a key cannot be read back"
                )

    def _refused(self, why: str) -> ConfigurationError:
        return ConfigurationError(f"the key pattern {in_quotes(self.text)} is refused: {why}")

    def _format_of_the_folder(self) -> str:
        """Return the deepest folder that holds the segments of one user partition only, empty if there is none."""
        mine = list(takewhile(lambda part: part.field is None or part.field.is_of_the_partition, self._parts))
        # The literal before the first field of a segment may have the last of these folders in it.
        text = "".join(part.format for part in mine) + "".join(
            p.literal for p in self._parts[len(mine) : len(mine) + 1]
        )
        return text[: text.rfind("/") + 1]

    def _expression_of_the_first_folder(self) -> re.Pattern[str] | None:
        """Return what matches the name of a first folder, where that names the topic id."""
        expressions, names = [], set()
        for part in self._parts:
            before, slash, _ = part.literal.partition("/")
            if slash:
                expressions.append(re.escape(before))
                return re.compile("".join(expressions)) if "topic_id" in names else None
            expressions.append(part.expression)
            names.add(part.field.group if part.field else "")
        return None

    def stem(self, metadata: RemoteLogSegmentMetadata) -> str:
        """
        Return what the keys of a segment have in common.

        :raises UnsafeObjectKeyError: if Kafka would refuse the topic's name, the partition or an offset.
        """
        segment = metadata.remote_log_segment_id
        offsets = {"start_offset": metadata.start_offset, "end_offset": metadata.end_offset}
        for name, offset in offsets.items():
            if not 0 <= offset <= MAX_INT64 and (name == "start_offset" or name in self._forms):
                raise UnsafeObjectKeyError(f"{name.replace('_', ' ')} {offset} of segment {segment} is no offset")
        spelled = _spelled(segment.id, self._forms["segment_id"])
        values = {**_values_of(segment.topic_id_partition, self._forms["topic_id"]), **offsets, "segment_id": spelled}
        return self._stem.format(**self._with_salts(values))

    def _with_salts(self, values: Mapping[str, object]) -> Mapping[str, object]:
        return {**values, **{salt.group: salt.of(values) for salt in self._salts}} if self._salts else values

    def folder(self, topic_id_partition: TopicIdPartition) -> str:
        """
        Return the folder that all keys of a user partition lie in, ending in ``/``; empty where they share none.

        :raises UnsafeObjectKeyError: if Kafka would refuse the topic's name or the partition.
        """
        values = _values_of(topic_id_partition, self._forms["topic_id"])
        mine = [salt for salt in self._salts if salt.format in self._folder]
        return self._folder.format(**values, **{salt.group: salt.of(values) for salt in mine})

    def parse(self, key: str) -> tuple[RemoteLogSegmentId, str] | None:
        """Return the segment that a key belongs to, and what follows its stem; ``None`` for a key that is never built."""
        match = self._whole.fullmatch(key)
        if match is None:
            return None
        said = match.groupdict()
        topic_id = _read_id(said["topic_id"], self._forms["topic_id"])
        segment_id = _read_id(said["segment_id"], self._forms["segment_id"])
        partition, offsets = (
            int(said["partition"]),
            [int(said.get(f"{name}_offset") or "0") for name in ("start", "end")],
        )
        if (
            topic_id is None
            or segment_id is None
            or partition > MAX_INT32
            or max(offsets) > MAX_INT64
            or not is_legal_topic_name(said["topic"])
        ):
            return None
        if self._salts:
            values = {**said, "partition": partition, "start_offset": offsets[0], "end_offset": offsets[1]}
            if any(salt.of(values) != said[salt.group] for salt in self._salts):
                return None
        tip = TopicIdPartition(topic_id, said["topic"], partition)
        return RemoteLogSegmentId(tip, segment_id), said["suffix"]

    def start_offset(self, key: str) -> int | None:
        """Return the first offset that a key names; ``None`` for a key that is never built, or a pattern without it."""
        match = self._whole.fullmatch(key)
        said = match.groupdict().get("start_offset") if match else None
        return None if said is None else int(said)

    def topic_id_of_folder(self, name: str) -> UUID | None:
        """
        Return the topic id that a first folder belongs to.

        :param name: the folder's, without ``/``.
        :return: ``None`` where it is none of this pattern, or the first folder names no topic id.
        """
        match = self._first_folder.fullmatch(name) if self._first_folder else None
        return _read_id(match["topic_id"], self._forms["topic_id"]) if match else None

    @property
    def folders_name_topics(self) -> bool:
        """Whether the topic id is in the name of the first folder."""
        return self._first_folder is not None


@lru_cache(maxsize=1024)
def _values_of(tip: TopicIdPartition, form: str) -> Mapping[str, object]:
    if not is_legal_topic_name(tip.topic):
        raise UnsafeObjectKeyError(
            f"topic name {in_quotes(tip.topic)} of topic id {kafka_uuid_str(tip.topic_id)} is not one that "
            "Kafka accepts, so no object key is built from it; look at the metadata record that names it"
        )
    if not 0 <= tip.partition <= MAX_INT32:
        raise UnsafeObjectKeyError(f"user partition {tip.partition} of topic {tip.topic!r} is not in 0..{MAX_INT32}")
    return {"topic": tip.topic, "topic_id": _spelled(tip.topic_id, form), "partition": tip.partition}


def _spelled(value: UUID, form: str) -> str:
    return kafka_uuid_str(value) if form == _KAFKA else str(value)


def _read_id(text: str, form: str) -> UUID | None:
    return canonical_uuid(text) if form == _KAFKA else UUID(text)


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
