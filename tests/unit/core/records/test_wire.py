# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from uuid import UUID

import pytest

from airflow_provider_rlmm.core.base.errors import MalformedMetadataError
from airflow_provider_rlmm.core.records import wire
from airflow_provider_rlmm.core.records.wire import Reader


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00"), (1, "01"), (127, "7f"), (128, "8001"), (300, "ac02"), (16384, "808001"), (2**31 - 1, "ffffffff07")],
)
def test_unsigned_varint(value, encoded):
    out = bytearray()
    wire.write_uvarint(out, value)
    assert out.hex() == encoded
    assert Reader(bytes(out)).uvarint("number") == value


@pytest.mark.parametrize(
    ("encoded", "value"),
    [("8000", 0), ("81808000", 1), ("ffffffff0f", -1), ("8080808008", -(2**31)), ("8180808070", 1)],
    ids=["superfluous group", "superfluous groups", "negative", "most negative", "bits above the 32nd are lost"],
)
def test_varints_that_kafka_reads_and_does_not_write(encoded, value):
    assert Reader(bytes.fromhex(encoded)).uvarint("number") == value


@pytest.mark.parametrize("encoded", ["", "80", "ffffffff", "8080808080", "ffffffffff01"])
def test_varints_that_do_not_end_are_refused(encoded):
    with pytest.raises(MalformedMetadataError, match="number"):
        Reader(bytes.fromhex(encoded)).uvarint("number")


@pytest.mark.parametrize(
    ("write", "read", "value", "encoded"),
    [
        (wire.write_int8, Reader.int8, -2, "fe"),
        (wire.write_int32, Reader.int32, -2, "fffffffe"),
        (wire.write_int64, Reader.int64, 2**40, "0000010000000000"),
        (wire.write_uuid, Reader.uuid, UUID(int=1 << 120 | 2), "01000000000000000000000000000002"),
        (wire.write_compact_string, Reader.compact_string, "", "01"),
        (wire.write_compact_string, Reader.compact_string, "zß", "047ac39f"),
        (wire.write_compact_nullable_bytes, Reader.compact_nullable_bytes, None, "00"),
        (wire.write_compact_nullable_bytes, Reader.compact_nullable_bytes, b"", "01"),
        (wire.write_compact_nullable_bytes, Reader.compact_nullable_bytes, b"\x00\x01", "030001"),
    ],
)
def test_primitives(write, read, value, encoded):
    out = bytearray()
    write(out, value)
    assert out.hex() == encoded
    reader = Reader(bytes(out))
    assert read(reader, "value") == value
    assert reader.remaining == 0
    for size in range(len(out)):
        with pytest.raises(MalformedMetadataError, match="value"):
            read(Reader(bytes(out[:size])), "value")


@pytest.mark.parametrize(
    ("write", "value"),
    [
        (wire.write_uvarint, -1),
        (wire.write_uvarint, 2**31),
        (wire.write_int8, 128),
        (wire.write_int32, 2**31),
        (wire.write_int64, -(2**63) - 1),
        (wire.write_compact_string, "x" * 32768),
        (wire.write_compact_string, "\ud800"),
    ],
)
def test_what_does_not_fit_is_refused(write, value):
    with pytest.raises(ValueError):  # noqa: PT011 - the codecs' own messages and the interpreter's
        write(bytearray(), value)


@pytest.mark.parametrize(
    ("encoded", "why"),
    [
        ("00", "null"),
        ("ffffffff0f", "null"),
        ("818002", "claims 32768 bytes"),
        ("8080808008", "claims 2147483647 bytes"),
        ("03c3", "claims 2 bytes"),
        ("02ff", "not UTF-8"),
        ("04eda080", "not UTF-8"),
        ("03c080", "not UTF-8"),
    ],
)
def test_strings_that_are_refused(encoded, why):
    with pytest.raises(MalformedMetadataError, match=why):
        Reader(bytes.fromhex(encoded)).compact_string("topic")


def test_negative_lengths_mean_null():
    assert Reader(bytes.fromhex("ffffffff0f")).compact_nullable_bytes("custom") is None


def test_unknown_tags_are_skipped_and_negative_counts_mean_none():
    reader = Reader(bytes.fromhex("02050361626307002a"))
    reader.skip_tags("tags")
    assert reader.int8("rest") == 42
    Reader(bytes.fromhex("ffffffff0f")).skip_tags("tags")


@pytest.mark.parametrize("encoded", ["01", "0105", "01050261", "0105ffffffff0f"])
def test_broken_tags_are_refused(encoded):
    with pytest.raises(MalformedMetadataError, match="tags"):
        Reader(bytes.fromhex(encoded)).skip_tags("tags")
