# SPDX-License-Identifier: Apache-2.0
"""
The custom metadata that Aiven's tiered-storage plugin keeps with a segment: where its copy was written, and how large it is.

Bytes: a section of tagged fields as Kafka writes them (KIP-482), and nothing before it. ``remote_size`` is a zigzag varlong,
``object_prefix`` and ``object_key`` are compact strings. All that the plugin's own reader accepts is accepted: unknown tags
are passed over, as are bytes behind the last tag, and what a known tag says of its size.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_rlmm.core.base.arrow_arrays import equals, filled
from airflow_provider_rlmm.core.base.errors import MalformedMetadataError
from airflow_provider_rlmm.core.records.wire import MAX_STRING_BYTES, Reader

if TYPE_CHECKING:
    import pyarrow as pa

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


def write_custom_metadata(custom: AivenCustomMetadata) -> bytes | None:
    """
    Write custom metadata as the plugin does.

    :param custom: what it says.
    :return: ``None`` where it says nothing: then the segment has none.
    """
    fields = {}
    if custom.remote_size is not None:
        fields[REMOTE_SIZE] = _uvarint((custom.remote_size << 1) ^ (custom.remote_size >> 63))
    for tag, text in ((OBJECT_PREFIX, custom.object_prefix), (OBJECT_KEY, custom.object_key)):
        if text is not None:
            raw = text.encode()
            fields[tag] = _uvarint(len(raw) + 1) + raw
    if not fields:
        return None
    tagged = (_uvarint(tag) + _uvarint(len(value)) + value for tag, value in fields.items())
    return _uvarint(len(fields)) + b"".join(tagged)


def _uvarint(value: int) -> bytes:
    """Return an unsigned varint (Kafka: ``ByteUtils.writeUnsignedVarint``)."""
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])


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
    return _SURROGATE.sub(_REPLACEMENT, reader.array(size, name)).decode("utf-8", "replace")


_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}".encode()

_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
"""Half of a surrogate pair: Java replaces it, whole or cut, by one character, and Python each byte of it."""

_SIZE_FIELD: Final = rb"(?:\x00[\x00-\x7f][\x80-\xff]{0,9}[\x00-\x7f])?"
"""The field remote_size, where there is one."""

_NO_PREFIX: Final = (rb"\x00", rb"\x01" + _SIZE_FIELD + rb"\z", rb"[\x01-\x7f]" + _SIZE_FIELD + rb"[\x02-\x7f]")
"""How custom metadata without a prefix begin: no field, remote_size alone, or a later tag before that of the prefix."""


def without_other_prefix(custom_metadata: pa.ChunkedArray, prefixes: Collection[str]) -> pa.ChunkedArray:
    """
    Tell of the custom metadata of many segments which certainly name no prefix but some.

    :param custom_metadata: binary, one per segment.
    :param prefixes: the prefixes.
    :return: one truth value per segment; what is false is for :func:`read_custom_metadata` to tell.
    """
    import pyarrow.compute as pc

    named = (rb"[\x01-\x7f]" + _SIZE_FIELD + rb"\x01[\x80-\xff]{0,4}[\x00-\x7f]" + _compact(p) for p in prefixes)
    pattern = rb"\A(?:" + b"|".join((*_NO_PREFIX, *named)) + rb")"
    settled = pc.match_substring_regex(custom_metadata, pattern)
    return pc.or_(filled(settled, True), equals(filled(pc.binary_length(custom_metadata), 0), 0))


def _compact(text: str) -> bytes:
    """Return a pattern of the compact string that holds a text: its length and one as a varint, and its bytes."""
    raw = text.encode()
    return b"".join(b"\\x%02x" % byte for byte in _uvarint(len(raw) + 1) + raw)
