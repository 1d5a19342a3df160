# SPDX-License-Identifier: Apache-2.0
"""Indexes and producer snapshots: golden bytes, Kafka's rules of looking up, and what is refused."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from google_crc32c import value as crc32c

from airflow_provider_rlmm.core.base.errors import DamagedObjectError
from airflow_provider_rlmm.core.segments.indexes.offset_index import OffsetIndex
from airflow_provider_rlmm.core.segments.indexes.producer_snapshot import ProducerSnapshot, ProducerState
from airflow_provider_rlmm.core.segments.indexes.time_index import TimeIndex, TimestampOffset
from airflow_provider_rlmm.core.segments.indexes.transaction_index import AbortedTransaction, TransactionIndex
from tests.kafka_log import offset_index, producer_snapshot, time_index, transaction_index

NAME = "t-0/00000000000000000100.index"
LATEST = (1 << 63) - 1


def offsets(data: bytes, base_offset: int = 100) -> OffsetIndex:
    return OffsetIndex.parse(data, base_offset=base_offset, location=NAME)


def times(data: bytes) -> TimeIndex:
    return TimeIndex.parse(data, base_offset=100, location=NAME)


def transactions(data: bytes) -> TransactionIndex:
    return TransactionIndex.parse(data, base_offset=100, location=NAME)


def snapshot(data: bytes) -> ProducerSnapshot:
    return ProducerSnapshot.parse(data, location=NAME)


def test_offset_index() -> None:
    index = offsets(bytes.fromhex("00000004000010000000000900002345"))
    assert len(index) == 2
    looked_up = {offset: index.lookup(offset) for offset in (0, 100, 103, 104, 108, 109, 110, LATEST)}
    assert looked_up == {
        0: 0, 100: 0, 103: 0, 104: 0x1000, 108: 0x1000, 109: 0x2345, 110: 0x2345, LATEST: 0x2345,
    }  # fmt: skip


def test_offset_index_of_the_last_offsets() -> None:
    index = offsets(offset_index(LATEST - 5, [(LATEST, 7)]), base_offset=LATEST - 5)
    assert (index.lookup(LATEST), index.lookup(LATEST - 1), index.lookup(0)) == (7, 0, 0)


def test_time_index() -> None:
    index = times(bytes.fromhex("0000018bcfe56800000000040000018bcfe5680500000004"))
    assert len(index) == 2
    first, second = TimestampOffset(1_700_000_000_000, 104), TimestampOffset(1_700_000_000_005, 104)
    none = TimestampOffset(-1, 100)
    assert [index.lookup(timestamp) for timestamp in (-LATEST, -1, 0, 1_700_000_000_000, 1_700_000_000_004)] == [
        none, none, none, first, first,
    ]  # fmt: skip
    assert index.lookup(1_700_000_000_005) == index.lookup(LATEST) == index.last() == second


def test_transaction_index() -> None:
    index = transactions(
        bytes.fromhex(
            "0000"  # version
            "0000000000001001"  # producer id
            "0000000000000032"  # first offset 50: in an earlier segment
            "0000000000000078"  # last offset 120
            "0000000000000046"  # last stable offset 70
        )
    )
    assert index.aborted == (AbortedTransaction(0x1001, 50, 120, 70),)


def test_what_overlaps_a_range() -> None:
    early, late = AbortedTransaction(1, 50, 120, 70), AbortedTransaction(2, 110, 130, 131)
    index = transactions(transaction_index([(1, 50, 120, 70), (2, 110, 130, 131)]))
    assert index.overlapping(100, 120) == ((early, late), True)
    assert index.overlapping(100, 110) == ((early,), True)
    assert index.overlapping(121, 131) == ((late,), True)
    assert index.overlapping(121, 132) == ((late,), False)
    assert index.overlapping(131, 140) == ((), False)
    assert index.overlapping(0, 50) == ((), True)
    assert index.overlapping(0, 60) == ((early,), True)


def test_nothing_undecided_behind_the_range_ends_the_search() -> None:
    index = transactions(transaction_index([(1, 101, 120, 121), (2, 90, 130, 131)]))
    assert index.overlapping(100, 121) == ((AbortedTransaction(1, 101, 120, 121),), True)


def test_producer_snapshot() -> None:
    entries = bytes.fromhex(
        "00000002"  # two producers
        "0000000000001001"  # producer id
        "0003"  # producer epoch
        "00000010"  # last sequence
        "0000000000000078"  # last offset 120
        "00000004"  # offset delta
        "0000018bcfe56800"  # timestamp
        "00000009"  # coordinator epoch
        "0000000000000070"  # first offset of its open transaction, 112
        "0000000000001002"
        "0000"
        "ffffffff"
        "ffffffffffffffff"
        "00000000"
        "0000018bcfe56800"
        "ffffffff"
        "ffffffffffffffff"  # none is open
    )
    found = snapshot(struct.pack(">hI", 1, crc32c(entries)) + entries)
    assert found.producers == (
        ProducerState(0x1001, 3, 16, 120, 4, 1_700_000_000_000, 9, 112),
        ProducerState(0x1002, 0, -1, -1, 0, 1_700_000_000_000, -1, None),
    )
    assert found.first_open_offset == 112
    assert snapshot(producer_snapshot([(1, 70), (2, -1), (3, 0)])).first_open_offset == 0
    assert snapshot(producer_snapshot([(1, -1)])).first_open_offset is None
    assert snapshot(producer_snapshot([])).producers == ()


def test_indexes_without_entries() -> None:
    assert (len(offsets(b"")), offsets(b"").lookup(1000)) == (0, 0)
    assert (len(times(b"")), times(b"").lookup(1000), times(b"").last()) == (
        0,
        TimestampOffset(-1, 100),
        TimestampOffset(-1, 100),
    )
    assert transactions(b"").overlapping(0, LATEST) == ((), False)


REFUSED: list[tuple[Any, bytes, int, str]] = [
    (offsets, offset_index(100, [(104, 10), (109, 20)])[:-1], 8, "has 15 bytes, which is no multiple of 8"),
    (offsets, offset_index(100, [(104, 10), (104, 20)]), 8, "entry 1: its offset is below zero, or not above"),
    (offsets, offset_index(100, [(104, 10), (109, 10)]), 8, "entry 1: its position is below zero, or not above"),
    (offsets, offset_index(100, [(99, 10)]), 0, "entry 0: its offset is below zero"),
    (offsets, offset_index(100, [(104, -1)]), 0, "entry 0: its position is below zero"),
    (offsets, bytes(16), 8, "entry 1: its offset"),
    (times, time_index(100, [(5, 104), (9, 109)])[:-3], 12, "has 21 bytes, which is no multiple of 12"),
    (times, time_index(100, [(5, 104), (5, 109)]), 12, "entry 1: its timestamp is below zero, or not above"),
    (times, time_index(100, [(-LATEST, 104), (LATEST, 109)]), 0, "entry 0: its timestamp is below zero"),
    (times, time_index(100, [(5, 104), (9, 103)]), 12, "entry 1: its offset is below the one before"),
    (times, time_index(100, [(5, 99)]), 0, "entry 0: its offset is below the one before"),
    (transactions, transaction_index([(1, 50, 120, 70)])[:-1], 0, "has 33 bytes, which is no multiple of 34"),
    (transactions, b"\0\1" + transaction_index([(1, 50, 120, 70)])[2:], 0, "its version is 1, and 0 is known"),
    (transactions, transaction_index([(-1, 50, 120, 70)]), 0, "producer id -1 is below zero"),
    (transactions, transaction_index([(1, 121, 120, 70)]), 0, "a transaction from offset 121 to 120"),
    (transactions, transaction_index([(1, -1, 120, 70)]), 0, "a transaction from offset -1 to 120"),
    (transactions, transaction_index([(1, 50, 99, 70)]), 0, "its last offset 99 is not above 99"),
    (transactions, transaction_index([(1, 50, 120, 70), (2, 60, 120, 70)]), 34, "its last offset 120 is not above 120"),
    (transactions, transaction_index([(1, 50, 120, 122)]), 0, "last stable offset 122 with the last offset 120"),
    (transactions, transaction_index([(1, 50, 120, -1)]), 0, "last stable offset -1"),
    (snapshot, b"", 0, "0 bytes are too few"),
    (snapshot, producer_snapshot([(1, 70)])[:9], 0, "9 bytes are too few"),
    (snapshot, producer_snapshot([(1, 70)])[:-1], 0, "its checksum is"),
    (snapshot, b"\0\2" + producer_snapshot([(1, 70)])[2:], 0, "its version is 2, and 1 is known"),
    (snapshot, struct.pack(">hIi", 1, crc32c(struct.pack(">i", 1)), 1), 10, "0 bytes follow where it names 1"),
    (snapshot, struct.pack(">hIi", 1, crc32c(struct.pack(">i", -1)), -1), 10, "0 bytes follow where it names -1"),
]


@pytest.mark.parametrize(("parse", "data", "position", "says"), REFUSED)
def test_damaged_ones_are_refused(parse: Any, data: bytes, position: int, says: str) -> None:
    with pytest.raises(DamagedObjectError) as error:
        parse(data)
    assert says in str(error.value)
    assert NAME in str(error.value)
    assert (error.value.location, error.value.position) == (NAME, position)


def test_every_flipped_bit_of_a_snapshot_is_seen() -> None:
    data = producer_snapshot([(1, 70), (2, -1)])
    for bit in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DamagedObjectError):
            snapshot(bytes(damaged))
