# SPDX-License-Identifier: Apache-2.0
"""
The primitives of Kafka's flexible-version message format, one small codec each (KIP-482).

Writers append to a ``bytearray`` and raise :class:`ValueError` for values that do not fit. :class:`Reader` follows
Kafka's ``ByteBufferAccessor`` and ``ByteUtils`` in what it accepts, quirks included: lengths and counts are *signed*
32-bit numbers in unsigned varints, so a "negative" length means null and a "negative" count means none.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TypeVar
from uuid import UUID

from airflow_provider_rlmm.core.base.errors import MalformedMetadataError

T = TypeVar("T")

MAX_STRING_BYTES = 0x7FFF
"""The longest string that Kafka's generated classes read or write, in bytes of UTF-8."""

MAX_TAGGED_FIELDS = 10_000
"""The most tagged fields of one section that the generated classes of Kafka 4.4 and newer read; older ones know no limit."""

MAX_ELEMENTS = 1_000_000
"""The most elements of an array that they read, likewise."""

NEWER_KAFKAS_READ = "Kafka 4.4 and newer read"
"""What every sentence says that is about one of these limits, and no other sentence about a record."""

_INT8 = struct.Struct(">b")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_INT32_SPAN = 1 << 32


def write_uvarint(out: bytearray, value: int) -> None:
    """
    Append an unsigned varint (Kafka: ``ByteUtils.writeUnsignedVarint``).

    :param out: where to append.
    :param value: 0 to 2³¹-1.
    :raises ValueError: if it does not fit.
    """
    if not 0 <= value < 1 << 31:
        raise ValueError(f"{value} does not fit into an unsigned varint")
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def write_int8(out: bytearray, value: int) -> None:
    """Append a signed byte; raises :class:`ValueError` if it does not fit."""
    out += _pack(_INT8, value)


def write_int32(out: bytearray, value: int) -> None:
    """Append a signed big-endian 32-bit number; raises :class:`ValueError` if it does not fit."""
    out += _pack(_INT32, value)


def write_int64(out: bytearray, value: int) -> None:
    """Append a signed big-endian 64-bit number; raises :class:`ValueError` if it does not fit."""
    out += _pack(_INT64, value)


def write_uuid(out: bytearray, value: UUID) -> None:
    """Append the 16 bytes of an id, most significant first."""
    out += value.bytes


def write_compact_string(out: bytearray, value: str) -> None:
    """
    Append a string with its length plus one.

    :param out: where to append.
    :param value: at most 32767 bytes of UTF-8.
    :raises ValueError: if it is longer, or no valid Unicode (Java would write ``?`` in its place, another string).
    """
    raw = value.encode("utf-8")
    if len(raw) > MAX_STRING_BYTES:
        raise ValueError(f"string of {len(raw)} bytes, at most {MAX_STRING_BYTES} are allowed")
    write_uvarint(out, len(raw) + 1)
    out += raw


def write_compact_nullable_bytes(out: bytearray, value: bytes | None) -> None:
    """Append bytes with their length plus one; 0 stands for null."""
    if value is None:
        out.append(0)
    else:
        write_uvarint(out, len(value) + 1)
        out += value


def write_no_tags(out: bytearray) -> None:
    """Append an empty section of tagged fields."""
    out.append(0)


class Reader:
    """
    Reads primitives from front to back; every refusal is a :class:`MalformedMetadataError` that names the byte and the field.

    :param data: the bytes.
    :ivar beyond_limits: what of the bytes read so far Kafka 4.4 and newer refuse to read, while older ones read it; ``None``
        where there is nothing of that kind.
    """

    __slots__ = ("_data", "_position", "beyond_limits")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0
        self.beyond_limits: str | None = None

    @property
    def remaining(self) -> int:
        """Number of bytes not yet read."""
        return len(self._data) - self._position

    def known(self, behind: int, value_of: Callable[[bytes], T | None]) -> T | None:
        """
        Return what a compact string and the bytes behind it stand for, and pass over them; ``None`` where that is not known.

        :param behind: how many bytes follow the string.
        :param value_of: what exactly these bytes stand for, ``None`` where it does not know; it may remember.
        """
        start = self._position
        if start >= len(self._data) or (size := self._data[start]) > 0x7F:
            return None
        end = start + size + behind
        if end > len(self._data) or (value := value_of(self._data[start:end])) is None:
            return None
        self._position = end
        return value

    def array(self, size: int, what: str) -> bytes:
        """Return the next ``size`` bytes; a negative number is refused, as in Java."""
        start = self._position
        end = start + size
        if size < 0 or end > len(self._data):
            raise MalformedMetadataError(f"{what} at byte {start} claims {size} bytes, {self.remaining} are left")
        self._position = end
        return self._data[start:end]

    def int8(self, what: str) -> int:
        """Return a signed byte."""
        return self._number(_INT8, what)

    def int32(self, what: str) -> int:
        """Return a signed big-endian 32-bit number."""
        return self._number(_INT32, what)

    def int64(self, what: str) -> int:
        """Return a signed big-endian 64-bit number."""
        return self._number(_INT64, what)

    def uuid(self, what: str) -> UUID:
        """Return an id."""
        return UUID(bytes=self.array(16, what))

    def uvarint(self, what: str) -> int:
        """
        Return a varint of at most five bytes as the *signed* 32-bit number that Java sees.

        Superfluous zero groups are accepted and the bits of the fifth byte above the 32nd are lost, as in Kafka's
        ``ByteUtils.readUnsignedVarint``.
        """
        start = self._position
        if start < len(self._data) and (only := self._data[start]) < 0x80:
            # Nearly all of them are one byte long, and there are a dozen in a record.
            self._position = start + 1
            return only
        value = 0
        for shift in (0, 7, 14, 21, 28):
            byte = self.array(1, what)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return to_int32(value)
        raise MalformedMetadataError(f"{what} before byte {self._position} is a varint of more than five bytes")

    def length(self, what: str) -> int:
        """Return a compact length: the varint minus one, negative where it stands for null."""
        # Java's subtraction wraps around, so the smallest number becomes the largest.
        return to_int32(self.uvarint(what) - 1)

    def compact_string(self, what: str) -> str:
        """
        Return a string that must not be null.

        Java replaces bytes that are no UTF-8. They are refused here: the replaced name is one that was never written,
        two different names could become the same, and we could not write the record back as it was.
        """
        size = self.length(what)
        if size < 0:
            raise MalformedMetadataError(f"{what} before byte {self._position} is null")
        if size > MAX_STRING_BYTES:
            raise MalformedMetadataError(f"{what} before byte {self._position} claims {size} bytes")
        raw = self.array(size, what)
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as e:
            raise MalformedMetadataError(f"{what} before byte {self._position} is not UTF-8") from e

    def compact_nullable_bytes(self, what: str) -> bytes | None:
        """Return bytes, or ``None`` for null."""
        size = self.length(what)
        return None if size < 0 else self.array(size, what)

    def tag_count(self, what: str) -> int:
        """Return the number of tagged fields in a section; a negative one stands for none, up to Kafka 4.3."""
        count = self.uvarint(what)
        self.note_limit(count, MAX_TAGGED_FIELDS, what)
        return count

    def note_limit(self, count: int, most: int, what: str) -> None:
        """Note it where Kafka 4.4 and newer refuse to read that many; the first such thing is kept."""
        if not 0 <= count <= most and self.beyond_limits is None:
            self.beyond_limits = (
                f"{count} {what}; {NEWER_KAFKAS_READ} 0 to {most} of them and throw at any other number"
            )

    def skip_tags(self, what: str) -> None:
        """Skip a section of tagged fields, all of them unknown."""
        for _ in range(self.tag_count(what)):
            self.uvarint(what)
            self.array(self.uvarint(what), what)

    def _number(self, codec: struct.Struct, what: str) -> int:
        start = self._position
        if start + codec.size > len(self._data):
            self.array(codec.size, what)
        self._position = start + codec.size
        value: int = codec.unpack_from(self._data, start)[0]
        return value


def to_int32(value: int) -> int:
    """Return what is left of a number in a Java ``int``."""
    value &= _INT32_SPAN - 1
    return value - _INT32_SPAN if value >= _INT32_SPAN >> 1 else value


def _pack(codec: struct.Struct, value: int) -> bytes:
    try:
        return codec.pack(value)
    except struct.error as e:
        raise ValueError(f"{value!r} does not fit into {codec.size * 8} bits") from e
