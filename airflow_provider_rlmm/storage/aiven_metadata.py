# SPDX-License-Identifier: Apache-2.0
"""
The custom metadata that Aiven's tiered-storage plugin keeps with a segment: where its copy was written, and how large it is.

Bytes: a section of tagged fields as Kafka writes them (KIP-482), and nothing before it. ``remote_size`` is a zigzag varlong,
``object_prefix`` and ``object_key`` are compact strings. Whatever the plugin's own reader accepts is accepted: unknown tags
are passed over, as are bytes behind the last tag, and what a known tag says of its size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_provider_rlmm.errors import MalformedMetadataError
from airflow_provider_rlmm.metadata.wire import MAX_STRING_BYTES, Reader

REMOTE_SIZE, OBJECT_PREFIX, OBJECT_KEY = range(3)

_NAMES = {REMOTE_SIZE: "remote_size", OBJECT_PREFIX: "object_prefix", OBJECT_KEY: "object_key"}


@dataclass(frozen=True, slots=True)
class AivenCustomMetadata:
    """What a segment's custom metadata says; ``None`` where it does not say it."""

    remote_size: int | None = None  # bytes of all objects of the segment together
    object_prefix: str | None = None  # the plugin's key.prefix at the time of the copy, empty where there was none
    object_key: str | None = None  # what lies between prefix and suffix of its keys


def read_custom_metadata(data: bytes | None) -> AivenCustomMetadata:
    """
    Read custom metadata as the plugin does.

    :param data: of the segment; ``None`` or nothing says nothing.
    :raises MalformedMetadataError: where the plugin's own reader fails, naming field and byte.
    """
    if not data:
        return AivenCustomMetadata()
    reader = Reader(data)
    found: dict[str, Any] = {}
    before = -1
    for _ in range(reader.uvarint("the number of fields")):
        tag = reader.uvarint("a tag")
        if tag <= before:
            raise MalformedMetadataError(f"tag {tag} follows tag {before} before byte {len(data) - reader.remaining}")
        before = tag
        size = reader.uvarint(f"the size of field {tag}")
        if size < 0 or size > reader.remaining:
            raise MalformedMetadataError(f"field {tag} claims {size} bytes, {reader.remaining} are left")
        if tag == REMOTE_SIZE:
            found[_NAMES[tag]] = _varlong(reader)
        elif tag in _NAMES:
            found[_NAMES[tag]] = _string(reader, _NAMES[tag])
        else:
            reader.array(size, f"field {tag}")
    return AivenCustomMetadata(**found)


def _varlong(reader: Reader) -> int:
    """Return a zigzag varint of at most ten bytes (Kafka: ``ByteUtils.readVarlong``)."""
    value = 0
    for shift in range(0, 70, 7):
        byte = reader.array(1, "remote_size")[0]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            value &= (1 << 64) - 1
            return (value >> 1) ^ -(value & 1)
    raise MalformedMetadataError("remote_size is a varint of more than ten bytes")


def _string(reader: Reader, name: str) -> str:
    size = reader.length(name)
    if not 0 <= size <= MAX_STRING_BYTES:
        raise MalformedMetadataError(f"{name} claims {size} bytes")
    # As Java does: what is no UTF-8 is replaced, so it is equal to no prefix and no key that there can be.
    return reader.array(size, name).decode("utf-8", "replace")
