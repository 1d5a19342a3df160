# SPDX-License-Identifier: Apache-2.0
"""Whatever records a producer may write are read back; damaged bytes give a typed error or the right records."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from google_crc32c import value as crc32c
from hypothesis import example, given, settings
from hypothesis import strategies as st

from airflow_provider_rlmm.core.base.errors import DamagedObjectError, RemoteLogError
from airflow_provider_rlmm.core.segments.record_batches.arrow_columns import SCHEMA
from airflow_provider_rlmm.core.segments.record_batches.codecs import UnpackedTooLargeError, UnpackError, decompress
from airflow_provider_rlmm.core.segments.record_batches.headers import BatchHeaders, Codec
from airflow_provider_rlmm.core.segments.record_batches.records import to_arrow, to_arrow_batches
from tests.examples import examples
from tests.kafka_log import LOG_APPEND_TIME, Batch, Record, log_of, pack, read_records

NAME = "a log"
LIMIT = 1 << 24
CHECKSUMMED_AT = 21
RECORDS_AT = 61
LAST_OFFSET = (1 << 63) - 1

maybe_bytes = st.none() | st.binary(max_size=80) | st.integers(0, 9000).map(lambda size: b"x" * size)
timestamps = st.integers(-1, LAST_OFFSET) | st.integers(1_700_000_000_000, 1_700_000_100_000)
header_lists = st.lists(st.tuples(st.text(max_size=8), maybe_bytes), max_size=4).map(tuple)


@st.composite
def batches(draw: st.DrawFn, *, most: int = 8, codecs: Sequence[Codec] = tuple(Codec)) -> list[Batch]:
    """Return batches with ascending offsets, some of them with gaps, some without records."""
    offset = draw(st.sampled_from((0, 0, 1 << 31, LAST_OFFSET - 100_000)))
    found: list[Batch] = []
    for _ in range(draw(st.integers(1, most))):
        base = offset
        records: list[Record] = []
        for _ in range(draw(st.integers(0, 6))):
            offset += draw(st.sampled_from((0, 0, 0, 1, 500)))
            records.append(Record(offset, draw(timestamps), draw(maybe_bytes), draw(maybe_bytes), draw(header_lists)))
            offset += 1
        last = max(offset - 1, base) + draw(st.sampled_from((0, 0, 3)))
        appended = LOG_APPEND_TIME if draw(st.booleans()) else 0
        xerial = draw(st.booleans())
        found.append(
            Batch(
                tuple(records), draw(st.sampled_from(codecs)), appended, draw(st.integers(0, 9)), -1, base, last,
                draw(timestamps) if appended else None, xerial,
            )
        )  # fmt: skip
        offset = last + 1
    return found


def read(data: bytes) -> list[dict[str, Any]]:
    headers, _ = BatchHeaders.find(data, location=NAME, position=0)
    headers.verify_checksums(data)
    parts = list(to_arrow_batches(data, headers, max_decompressed_bytes=LIMIT))
    for part in parts:
        part.validate(full=True)
    rows: list[dict[str, Any]] = pa.Table.from_batches(parts, SCHEMA).to_pylist()
    return rows


def read_or_refusal(data: bytes) -> list[dict[str, Any]] | RemoteLogError:
    try:
        return read(data)
    except RemoteLogError as error:
        return error


def rows_of(written: list[Batch]) -> list[dict[str, Any]]:
    return [record.as_row() for batch in written for record in batch.as_read()]


@pytest.mark.slow
@settings(max_examples=examples(), deadline=None)
@given(batches())
@example([Batch((Record(0, -1), Record(1, 2**63 - 1)))])  # times that are further apart than a long can say
def test_what_is_written_is_read(written: list[Batch]) -> None:
    assert read(log_of(written)) == rows_of(written)


@pytest.mark.slow
@settings(max_examples=examples(20), deadline=None)
@given(batches(most=3), st.integers(60, 300))
def test_many_batches_are_read_in_step(written: list[Batch], times: int) -> None:
    small = Batch((Record(0), Record(1, key=b"k", headers=(("h", None),))))
    many = [
        Batch(
            tuple(
                Record(record.offset + 2 * number, key=record.key, headers=record.headers) for record in small.records
            )
        )
        for number in range(4 * times)
    ]
    assert read(log_of(many)) == rows_of(many)
    assert read(log_of(written)) == rows_of(written)


@pytest.mark.slow
@settings(max_examples=examples(), deadline=None)
@given(batches(), st.data())
def test_a_part_of_a_log_has_its_whole_batches(written: list[Batch], data: st.DataObject) -> None:
    log = log_of(written)
    cut = data.draw(st.integers(0, len(log)))
    headers, consumed = BatchHeaders.find(log[:cut], location=NAME, position=0)
    assert consumed <= cut
    assert log_of(written[: len(headers)]) == log[:consumed]
    assert read(log[:cut]) == rows_of(written[: len(headers)])


@pytest.mark.slow
@settings(max_examples=examples(), deadline=None)
@given(batches(), st.data())
def test_damage_is_refused_or_changes_no_record(written: list[Batch], data: st.DataObject) -> None:
    log = bytearray(log_of(written))
    at = data.draw(st.integers(0, len(log) - 1))
    log[at] ^= data.draw(st.integers(1, 255))
    begin, number = at, 0
    while begin >= (size := len(written[number].to_bytes())):
        begin -= size
        number += 1
    rows = read_or_refusal(bytes(log))
    if isinstance(rows, RemoteLogError):
        assert NAME in str(rows)
        return
    # Not covered by a checksum: the base offset (8 bytes), the length (4), the leader epoch (4).
    assert begin < 16
    if 8 <= begin < 12:
        assert rows == rows_of(written[:number])
    elif begin >= 12:
        assert rows == rows_of(written)
    else:
        others = rows_of([*written[:number], *written[number + 1 :]])
        assert [row for row in rows if row in others] == others


@pytest.mark.slow
@settings(max_examples=examples(300), deadline=None)
@given(batches(most=1, codecs=(Codec.NONE,)), st.data())
def test_wrong_records_under_a_right_checksum_are_refused_or_read_as_they_are(
    written: list[Batch], data: st.DataObject
) -> None:
    batch = bytearray(written[0].to_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(RECORDS_AT, len(batch)))
        batch[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
    batch[8:12] = struct.pack(">i", len(batch) - 12)
    batch[17:21] = struct.pack(">I", crc32c(bytes(batch[CHECKSUMMED_AT:])))
    rows = read_or_refusal(bytes(batch))
    if isinstance(rows, RemoteLogError):
        assert isinstance(rows, DamagedObjectError)
        assert (rows.location, rows.position) == (NAME, 0)
        return
    assert rows == [record.as_row() for record in read_records(bytes(batch))]


@settings(max_examples=examples(), deadline=None)
@given(
    st.sampled_from([codec for codec in Codec if codec is not Codec.NONE]), st.binary(max_size=300), st.integers(0, 400)
)
def test_any_bytes_are_unpacked_or_refused(codec: Codec, data: bytes, limit: int) -> None:
    try:
        unpacked = decompress(codec, data, limit)
    except (UnpackError, UnpackedTooLargeError):
        return
    assert len(unpacked) <= limit


@settings(max_examples=examples(), deadline=None)
@given(
    st.sampled_from(Codec),
    st.binary(max_size=300) | st.integers(0, 400_000).map(bytes),
    st.booleans(),
    st.data(),
)
def test_what_is_packed_is_unpacked_within_a_limit(
    codec: Codec, data: bytes, xerial: bool, choice: st.DataObject
) -> None:
    packed = pack(codec, data, xerial=xerial)
    assert bytes(decompress(codec, packed, len(data))) == data
    if data:
        try:
            decompress(codec, packed, choice.draw(st.integers(0, len(data) - 1)))
        except UnpackedTooLargeError:
            return
        raise AssertionError("the limit was passed")


@pytest.mark.slow
@settings(max_examples=examples(), deadline=None)
@given(batches(most=4))
def test_a_limit_that_is_met_exactly_is_kept(written: list[Batch]) -> None:
    log = log_of(written)
    headers, _ = BatchHeaders.find(log, location=NAME, position=0)
    assert to_arrow(log, headers, max_decompressed_bytes=LIMIT).to_pylist() == rows_of(written)
