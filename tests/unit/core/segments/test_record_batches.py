# SPDX-License-Identifier: Apache-2.0
"""Record batches: headers as arrays, records as columns, from golden bytes and from whatever a producer may write."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from airflow_provider_rlmm.core.base.errors import (
    DamagedObjectError,
    RecordsTooLargeError,
    UnsupportedMessageFormatError,
)
from airflow_provider_rlmm.core.segments.record_batches.arrow_columns import SCHEMA
from airflow_provider_rlmm.core.segments.record_batches.batch_sizes import size_of_first_batch
from airflow_provider_rlmm.core.segments.record_batches.checksums import crc32c
from airflow_provider_rlmm.core.segments.record_batches.control import (
    ControlRecordType,
    EndTransactionMarker,
    read_markers,
)
from airflow_provider_rlmm.core.segments.record_batches.headers import BatchHeaders, Codec
from airflow_provider_rlmm.core.segments.record_batches.records import to_arrow, to_arrow_batches
from tests.kafka_log import CONTROL, LOG_APPEND_TIME, TRANSACTIONAL, Batch, Record, control_batch, log_of

LIMIT = 1 << 20
NAME = "t-0/00000000000000000100.log"
ATTRIBUTES_AT = 21
RECORDS_AT = 61

# Two records of a transaction, field by field.
GOLDEN_RECORDS = bytes.fromhex(
    "16"  # 11 bytes follow
    "00"  # attributes
    "00"  # timestamp delta 0
    "00"  # offset delta 0
    "01"  # no key
    "046869"  # value of 2 bytes
    "02"  # one header
    "0261"  # its key, 1 byte
    "00"  # its value is empty
    "1e"  # 15 bytes follow
    "00"  # attributes
    "0a"  # timestamp delta 5
    "04"  # offset delta 2: the record between was compacted away
    "066b6579"  # key of 3 bytes
    "01"  # no value: a tombstone
    "02"  # one header
    "0874657374"  # its key, 4 bytes
    "01"  # its value is null
)
GOLDEN = (
    bytes.fromhex(
        "0000000000000064"  # base offset 100
        "0000004d"  # 77 bytes follow
        "00000007"  # leader epoch
        "02"  # magic
        "7c1b984f"  # checksum of what follows
        "0010"  # attributes: transactional
        "00000002"  # last offset delta
        "0000018bcfe56800"  # base timestamp 1,700,000,000,000
        "0000018bcfe56805"  # highest timestamp
        "0000000000001001"  # producer id
        "0003"  # producer epoch
        "0000000b"  # base sequence
        "00000002"  # two records
    )
    + GOLDEN_RECORDS
)
GOLDEN_ROWS = [
    {
        "offset": 100,
        "timestamp": 1_700_000_000_000,
        "key": None,
        "value": b"hi",
        "headers": [{"key": "a", "value": b""}],
    },
    {
        "offset": 102,
        "timestamp": 1_700_000_000_005,
        "key": b"key",
        "value": None,
        "headers": [{"key": "test", "value": None}],
    },
]


def find(data: bytes, position: int = 0) -> BatchHeaders:
    headers, consumed = BatchHeaders.find(data, location=NAME, position=position)
    assert consumed == len(data)
    return headers


def rows(data: bytes) -> list[dict[str, Any]]:
    headers = find(data)
    headers.verify_checksums(data)
    records = to_arrow(data, headers, max_decompressed_bytes=LIMIT)
    records.validate(full=True)
    assert records.schema == SCHEMA
    return records.to_pylist()


def expected(batches: Sequence[Batch]) -> list[dict[str, Any]]:
    return [record.as_row() for batch in batches for record in batch.as_read()]


def changed(at: int, new: bytes, data: bytes = GOLDEN) -> bytes:
    """A batch with other bytes, and the checksum that belongs to them."""
    body = bytearray(data)
    body[at : at + len(new)] = new
    body[17:21] = struct.pack(">I", crc32c(body[ATTRIBUTES_AT:]))
    return bytes(body)


def test_golden_headers() -> None:
    headers = find(GOLDEN, position=5000)
    assert len(headers) == 1
    columns = {
        name: getattr(headers, name).tolist() for name in headers.__slots__ if name not in ("location", "data_position")
    }
    assert columns == {
        "position": [0],
        "size_in_bytes": [len(GOLDEN)],
        "base_offset": [100],
        "last_offset": [102],
        "leader_epoch": [7],
        "checksum": [0x7C1B984F],
        "attributes": [0x10],
        "base_timestamp_ms": [1_700_000_000_000],
        "max_timestamp_ms": [1_700_000_000_005],
        "producer_id": [0x1001],
        "producer_epoch": [3],
        "base_sequence": [11],
        "record_count": [2],
    }
    assert (headers.location, headers.data_position) == (NAME, 5000)
    assert headers.is_transactional.tolist() == [True]
    assert headers.is_control.tolist() == headers.log_append_time.tolist() == [False]
    assert headers.codec.tolist() == [Codec.NONE]


def test_golden_records() -> None:
    assert rows(GOLDEN) == GOLDEN_ROWS


VARIETY = (
    Batch((Record(5), Record(6), Record(7))),
    Batch((Record(8, key=b"", value=b""), Record(10, key=None, value=None)), last_offset=12),
    Batch((), base_offset=13, last_offset=15),
    Batch((Record(16, key=b"k" * 12, value=b"v" * 13), Record(17, key=b"k" * 300, value=b"v" * 70_000))),
    Batch((Record(18, timestamp=-1), Record(19, timestamp=1 << 62), Record(20, timestamp=0))),
    Batch((Record(21, timestamp=3), Record(22, timestamp=9)), attributes=LOG_APPEND_TIME, max_timestamp=77),
    Batch(
        (
            Record(23, headers=(("ü", b"x"), ("", None), ("k" * 40, b"v" * 40))),
            Record(24),
            Record(25, headers=(("a", b""),)),
        )
    ),
    Batch(tuple(Record(offset) for offset in range(26, 326)), attributes=TRANSACTIONAL, producer_id=4),
)


@pytest.mark.parametrize("codec", list(Codec))
def test_records_of_every_kind(codec: Codec) -> None:
    batches = [replace(batch, codec=codec) for batch in VARIETY]
    assert rows(log_of(batches)) == expected(batches)


def test_codecs_side_by_side() -> None:
    batches = [replace(batch, codec=Codec(index % 5)) for index, batch in enumerate(VARIETY)]
    assert rows(log_of(batches)) == expected(batches)


def test_snappy_without_framing() -> None:
    batches = [replace(batch, codec=Codec.SNAPPY, xerial=False) for batch in VARIETY]
    assert rows(log_of(batches)) == expected(batches)


def test_many_small_batches_in_step() -> None:
    batches = [
        Batch(
            tuple(
                Record(10 * number + i, value=b"v" * (number % 80), headers=(("h", b"x"),) * (number % 3))
                for i in range(1 + number % 4)
            )
        )
        for number in range(700)
    ]
    assert rows(log_of(batches)) == expected(batches)


def test_one_record_with_many_headers() -> None:
    batches = [Batch((Record(0, headers=tuple((f"h{i}", b"x" * (i % 20)) for i in range(500))), Record(1)))]
    assert rows(log_of(batches)) == expected(batches)


def test_nothing() -> None:
    assert rows(b"") == rows(log_of([Batch((), base_offset=0, last_offset=3)])) == []


def test_some_of_the_batches() -> None:
    data = log_of(VARIETY)
    headers = find(data)
    some = headers[headers.base_offset >= 18][:2]
    assert some.base_offset.tolist() == [18, 21]
    assert to_arrow(data, some, max_decompressed_bytes=LIMIT).to_pylist() == expected(VARIETY[4:6])


def test_incomplete_last_batch_is_left_out() -> None:
    data = log_of(VARIETY)
    for cut in (1, 60, 61, len(VARIETY[-1].to_bytes()) - 1):
        headers, consumed = BatchHeaders.find(data[:-cut], location=NAME, position=0)
        assert len(headers) == len(VARIETY) - 1
        assert consumed == len(data) - len(VARIETY[-1].to_bytes())


def test_size_of_the_first_batch() -> None:
    assert [size_of_first_batch(GOLDEN[:size], location=NAME, position=9) for size in (0, 16, 17, 50)] == [
        None,
        None,
        len(GOLDEN),
        len(GOLDEN),
    ]
    with pytest.raises(DamagedObjectError) as error:
        size_of_first_batch(bytes(20), location=NAME, position=9)
    assert (error.value.location, error.value.position) == (NAME, 9)


def test_a_record_that_is_not_utf_8() -> None:
    data = changed(RECORDS_AT + 10, b"\xff")
    assert rows(data)[0]["headers"] == [{"key": "�", "value": b""}]


@pytest.mark.parametrize(
    ("at", "new", "says"),
    [
        (16, b"\x03", "no message format has the number 3"),
        (16, b"\xff", "no message format has the number -1"),
        (8, struct.pack(">i", 48), "48 bytes are too few"),
        (8, struct.pack(">i", -5), "-5 bytes are too few"),
        (0, struct.pack(">q", -1), "its first offset does not lie behind those before it"),
        (0, struct.pack(">q", (1 << 63) - 2), "beyond all offsets"),
        (23, struct.pack(">i", -1), "its last offset lies before its first"),
        (57, struct.pack(">i", -1), "cannot hold as many records"),
        (57, struct.pack(">i", 5), "cannot hold as many records"),
    ],
)
def test_headers_that_cannot_be(at: int, new: bytes, says: str) -> None:
    before = Batch((Record(1),)).to_bytes()
    data = bytearray(before + GOLDEN)
    data[len(before) + at : len(before) + at + len(new)] = new
    with pytest.raises(DamagedObjectError, match=says) as error:
        BatchHeaders.find(bytes(data), location=NAME, position=1000)
    assert (error.value.location, error.value.position) == (NAME, 1000 + len(before))
    assert f"{NAME}: the record batch at byte {1000 + len(before)}" in str(error.value)


def test_offsets_must_ascend() -> None:
    with pytest.raises(DamagedObjectError, match="does not lie behind those before it: offsets 100 to 102, 2 records"):
        find(GOLDEN + GOLDEN)


@pytest.mark.parametrize("magic", [0, 1])
def test_earlier_message_formats(magic: int) -> None:
    legacy = GOLDEN[:16] + bytes([magic]) + GOLDEN[17:]
    with pytest.raises(
        UnsupportedMessageFormatError, match=f"{NAME}: the record batch at byte 40 has message format v{magic}"
    ):
        BatchHeaders.find(legacy, location=NAME, position=40)


def test_a_codec_of_a_newer_kafka() -> None:
    data = changed(ATTRIBUTES_AT + 1, b"\x05")
    with pytest.raises(
        UnsupportedMessageFormatError, match=r"byte 0 has the codec 5, and the last one that Kafka 4\.3 knows is 4"
    ):
        to_arrow(data, find(data), max_decompressed_bytes=LIMIT)


def test_every_flipped_bit_behind_the_checksum_is_seen() -> None:
    headers = find(GOLDEN, position=30)
    for bit in range(ATTRIBUTES_AT * 8, len(GOLDEN) * 8):
        data = bytearray(GOLDEN)
        data[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DamagedObjectError, match="its checksum is") as error:
            headers.verify_checksums(bytes(data))
        assert error.value.position == 30


@pytest.mark.parametrize(
    ("at", "new", "says"),
    [
        (0, b"\x14", "its records do not fill it exactly"),
        (0, b"\x15", "its records do not fill it exactly"),
        (0, b"\x17", "its records do not fill it exactly"),
        (0, b"\xff\xff\xff\xff\xff", "its records do not fill it exactly"),
        (0, b"\xff\xff\xff\xff\x0f", "its records do not fill it exactly"),
        (3, b"\x04", "an offset that is not above the one before"),
        (3, b"\x01", "an offset that is not one of the batch's"),
        (15, b"\x06", "an offset that is not one of the batch's"),
        (4, b"\x40", "a key that ends behind its record"),
        (5, b"\x40", "a value that ends behind its record"),
        (8, b"\x01", "a number of headers that cannot be"),
        (8, b"\x40", "a number of headers that cannot be"),
        (8, b"\x00", "a record that does not end where its last header does"),
        (9, b"\x01", "a header that is not within its record"),
        (9, b"\x40", "a header that is not within its record"),
        (11, b"\x02", "a header that is not within its record"),
        (2, b"\x80" * 10, "a record that ends within its timestamp"),
        (3, b"\x80" * 5, "a record that ends within its offset"),
        (4, b"\x80" * 8, "a record that ends within its key's size"),
    ],
)
@pytest.mark.parametrize("times", [1, 300])
def test_records_that_cannot_be(at: int, new: bytes, says: str, times: int) -> None:
    damaged = changed(RECORDS_AT + at, new)
    others = [Batch((Record(200 + 2 * number), Record(201 + 2 * number))).to_bytes() for number in range(times)]
    before = Batch((Record(1),)).to_bytes()
    data = before + damaged + b"".join(others)
    headers = find(data, position=7)
    headers.verify_checksums(data)
    with pytest.raises(DamagedObjectError, match=says) as error:
        to_arrow(data, headers, max_decompressed_bytes=LIMIT)
    assert (error.value.location, error.value.position) == (NAME, 7 + len(before))


@pytest.mark.parametrize("count", [1, 3])
def test_another_number_of_records_than_there_are(count: int) -> None:
    data = changed(57, struct.pack(">i", count))
    with pytest.raises(DamagedObjectError, match="its records do not fill it exactly"):
        to_arrow(data, find(data), max_decompressed_bytes=LIMIT)


@pytest.mark.parametrize("times", [1, 300])
def test_packed_batches_make_no_room_for_more_records_than_they_hold(times: int) -> None:
    made = [Batch((Record(number),), codec=Codec.LZ4).to_bytes() for number in range(times)]
    data = b"".join(changed(57, struct.pack(">i", (1 << 31) - 1), batch) for batch in made)
    with pytest.raises(DamagedObjectError, match="its records do not fill it exactly"):
        to_arrow(data, find(data), max_decompressed_bytes=LIMIT)


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
@pytest.mark.parametrize("xerial", [True, False])
@pytest.mark.parametrize(
    "damage", [lambda data: data[:-9], lambda data: data[:1], lambda data: b"", lambda data: b"\xff" * 40]
)
def test_what_cannot_be_unpacked(codec: Codec, xerial: bool, damage: Callable[[bytes], bytes]) -> None:
    batch = Batch(tuple(Record(offset) for offset in range(40)), codec=codec, xerial=xerial).to_bytes()
    body = batch[ATTRIBUTES_AT:RECORDS_AT] + damage(batch[RECORDS_AT:])
    data = batch[:8] + struct.pack(">iibI", len(body) + 9, 0, 2, crc32c(body)) + body
    headers = find(data, position=3)
    headers.verify_checksums(data)
    with pytest.raises(DamagedObjectError) as error:
        to_arrow(data, headers, max_decompressed_bytes=LIMIT)
    assert (error.value.location, error.value.position) == (NAME, 3)


@pytest.mark.parametrize("codec", list(Codec))
def test_records_are_bounded(codec: Codec) -> None:
    batches = [Batch((Record(number, value=bytes(10_000)),), codec=codec) for number in range(10)]
    data = log_of(batches)
    headers = find(data)
    with pytest.raises(
        RecordsTooLargeError, match="offsets 0 to 0, have more than max_decompressed_bytes = 9,000 bytes"
    ):
        next(to_arrow_batches(data, headers, max_decompressed_bytes=9_000))
    with pytest.raises(
        RecordsTooLargeError, match="from offset 0 to 9 have more than max_decompressed_bytes = 35,000 bytes"
    ):
        to_arrow(data, headers, max_decompressed_bytes=35_000)
    assert to_arrow(data, headers, max_decompressed_bytes=110_000).num_rows == 10


@pytest.mark.slow
@pytest.mark.parametrize("codec", list(Codec))
def test_records_come_in_parts(codec: Codec) -> None:
    sizes = (2_000_000, 6_000_000, 6_000_000, 9_000_000, 1_000, 1_000)
    batches = [Batch((Record(number, value=bytes(size)),), codec=codec) for number, size in enumerate(sizes)]
    data = log_of(batches)
    parts = list(to_arrow_batches(data, find(data), max_decompressed_bytes=10_000_000))
    assert [part.num_rows for part in parts] == [2, 1, 1, 2]
    assert [row for part in parts for row in part.to_pylist()] == expected(batches)


@pytest.mark.slow
@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
@pytest.mark.parametrize("xerial", [True, False])
def test_a_bomb_does_not_go_off(codec: Codec, xerial: bool) -> None:
    data = Batch((Record(0, value=bytes(10_000_000)),), codec=codec, xerial=xerial).to_bytes()
    with pytest.raises(RecordsTooLargeError):
        to_arrow(data, find(data), max_decompressed_bytes=1_000_000)


def test_end_markers_of_transactions() -> None:
    other = Batch((Record(9, key=struct.pack(">hh", 0, 5), value=b"x"),), attributes=CONTROL)
    data = log_of([control_batch(3, 70, commit=True), control_batch(6, 71, commit=False), other])
    headers = find(data)
    assert headers.is_control.tolist() == [True] * 3
    assert read_markers(data, headers) == [
        EndTransactionMarker(3, 70, ControlRecordType.COMMIT),
        EndTransactionMarker(6, 71, ControlRecordType.ABORT),
    ]


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", b"\xff\xff\0\0"])
def test_a_control_batch_without_a_control_record(key: bytes | None) -> None:
    data = log_of([control_batch(3, 70, commit=True), Batch((Record(4, key=key),), attributes=CONTROL)])
    with pytest.raises(DamagedObjectError, match="it is a control batch and holds no control record") as error:
        read_markers(data, find(data))
    assert error.value.position == len(control_batch(3, 70, commit=True).to_bytes())


def test_columns_outlive_the_data() -> None:
    data = bytearray(GOLDEN)
    records = to_arrow(data, find(bytes(data)), max_decompressed_bytes=LIMIT)
    data[:] = bytes(np.zeros(len(data), np.uint8))
    assert records.to_pylist() == GOLDEN_ROWS


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_checksums_are_castagnolis_of_whatever_holds_the_bytes(kind: Callable[[bytes], Any]) -> None:
    """The value for these nine digits is in the catalogues of checksums, as CRC-32/ISCSI."""
    assert (crc32c(kind(b"123456789")), crc32c(kind(b""))) == (0xE3069283, 0)
