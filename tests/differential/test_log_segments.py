# SPDX-License-Identifier: Apache-2.0
"""Record batches, indexes and producer snapshots that Kafka's classes wrote, read by them and by this package."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from google_crc32c import value as crc32c

from airflow_provider_rlmm.core.base.errors import DamagedObjectError, RemoteLogError
from airflow_provider_rlmm.core.segments.indexes.offset_index import OffsetIndex
from airflow_provider_rlmm.core.segments.indexes.producer_snapshot import ProducerSnapshot
from airflow_provider_rlmm.core.segments.indexes.time_index import TimeIndex
from airflow_provider_rlmm.core.segments.indexes.transaction_index import AbortedTransaction, TransactionIndex
from airflow_provider_rlmm.core.segments.record_batches.headers import BatchHeaders, Codec
from airflow_provider_rlmm.core.segments.record_batches.records import to_arrow_batches
from tests.differential.log_segments import LogSegmentPeer
from tests.examples import examples

LOGS = examples(400)
DAMAGED_LOGS = examples(150)
DAMAGES_EACH = 30
INDEXES = examples(200)
NAME = "a log of Kafka's"
LIMIT = 1 << 30
NOT_CHECKSUMMED = 21  # base offset, length, leader epoch, magic and the checksum itself
HEADER_BYTES = 61

Rows = list[list[Any]]


@pytest.fixture(scope="module")
def peer() -> Iterator[LogSegmentPeer]:
    with LogSegmentPeer() as started:
        yield started


def read_ours(log: bytes) -> tuple[BatchHeaders, Rows]:
    """Read all batches that are whole, control batches included, in the form of Kafka's answer."""
    headers, _ = BatchHeaders.find(log, location=NAME, position=0)
    headers.verify_checksums(log)
    rows: Rows = []
    for batch in to_arrow_batches(log, headers, max_decompressed_bytes=LIMIT):
        batch.validate(full=True)
        rows += [
            [
                row["offset"],
                row["timestamp"],
                _hex(row["key"]),
                _hex(row["value"]),
                [[header["key"], _hex(header["value"])] for header in row["headers"]],
            ]
            for row in batch.to_pylist()
        ]
    return headers, rows


def batches_of(headers: BatchHeaders) -> Rows:
    columns = (
        headers.size_in_bytes, headers.base_offset, headers.last_offset, headers.leader_epoch, headers.checksum,
        headers.base_timestamp_ms, headers.max_timestamp_ms, headers.producer_id, headers.producer_epoch,
        headers.base_sequence, headers.record_count, headers.codec, headers.log_append_time, headers.is_transactional,
        headers.is_control,
    )  # fmt: skip
    return [list(row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def _hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


def test_what_kafka_writes_is_read_as_kafka_reads_it(peer: LogSegmentPeer, differential_seed: int) -> None:
    seen: set[int] = set()
    flags = np.zeros(4, bool)
    for number in range(LOGS):
        kafka = peer.write(differential_seed + number)
        assert "error" not in kafka
        headers, rows = read_ours(bytes.fromhex(kafka["log"]))
        assert batches_of(headers) == kafka["batches"], f"seed {differential_seed + number}"
        assert rows == kafka["records"], f"seed {differential_seed + number}"
        seen |= set(headers.codec.tolist())
        flags |= [
            headers.log_append_time.any(),
            headers.is_control.any(),
            (headers.record_count == 0).any(),
            len(headers) > 20,
        ]
    assert seen == set(Codec)
    assert flags.all(), "the logs hold less than they should"


def test_damaged_logs_are_refused_or_read_as_they_were(peer: LogSegmentPeer, differential_seed: int) -> None:
    draw = random.Random(differential_seed)
    refused = 0
    for number in range(DAMAGED_LOGS):
        kafka = peer.write(differential_seed + number)
        log = bytes.fromhex(kafka["log"])
        sizes = [batch[0] for batch in kafka["batches"]]
        for _ in range(DAMAGES_EACH):
            damaged, position = _damaged(draw, log)
            outcome = _attempt(read_ours, damaged)
            if isinstance(outcome, RemoteLogError):
                assert NAME in str(outcome)
                refused += 1
                continue
            headers, rows = outcome
            within = _position_within_batch(sizes, position)
            if within is None or within >= NOT_CHECKSUMMED:
                assert rows == kafka["records"][: len(rows)]
                assert batches_of(headers) == kafka["batches"][: len(headers)]
            else:
                # What no checksum covers: base offset, leader epoch, and lengths by which a batch seems to be cut.
                again = peer.read(damaged)
                assert rows == again["records"]
                assert batches_of(headers) == again["batches"]
    assert refused > DAMAGED_LOGS * DAMAGES_EACH / 3


def test_wrong_records_under_a_right_checksum_are_refused_or_read_as_kafka_reads_them(
    peer: LogSegmentPeer, differential_seed: int
) -> None:
    draw = random.Random(differential_seed)
    outcomes = {"refused": 0, "read": 0}
    for number in range(DAMAGED_LOGS):
        log = bytes.fromhex(peer.write(differential_seed + number)["log"])
        headers, _ = BatchHeaders.find(log, location=NAME, position=0)
        for row in draw.sample(range(len(headers)), min(6, len(headers))):
            at, size = int(headers.position[row]), int(headers.size_in_bytes[row])
            if size == HEADER_BYTES:
                continue
            batch = bytearray(log[at : at + size])
            for _ in range(draw.randint(1, 3)):
                batch[min(HEADER_BYTES + int(draw.expovariate(0.05)), size - 1)] = draw.choice((0, 1, 2, 127, 128, 255))
            batch[17:21] = struct.pack(">I", crc32c(bytes(batch[NOT_CHECKSUMMED:])))
            kafka = peer.read(bytes(batch))
            outcome = _attempt(read_ours, bytes(batch))
            if isinstance(outcome, RemoteLogError):
                assert f"{NAME}: the record batch at byte 0" in str(outcome)
                outcomes["refused"] += 1
                continue
            assert "error" not in kafka, kafka["error"]
            assert outcome[1] == kafka["records"]
            outcomes["read"] += 1
    assert min(outcomes.values()) >= DAMAGED_LOGS // 7, outcomes


def test_indexes_answer_as_kafkas_do(peer: LogSegmentPeer, differential_seed: int) -> None:
    for number in range(INDEXES):
        kafka = peer.indexes(differential_seed + number)
        base = kafka["base_offset"]
        data = {name: bytes.fromhex(kafka[name]["bytes"]) for name in kafka if name != "base_offset"}
        offsets = OffsetIndex.parse(data["offset_index"], base_offset=base, location=NAME)
        for offset, position in kafka["offset_index"]["found"]:
            assert offsets.lookup(offset) == position
        times = TimeIndex.parse(data["time_index"], base_offset=base, location=NAME)
        for target, timestamp, offset in kafka["time_index"]["found"]:
            entry = times.lookup(target)
            assert (entry.timestamp_ms, entry.offset) == (timestamp, offset)
        transactions = TransactionIndex.parse(data["transaction_index"], base_offset=base, location=NAME)
        for first, end, aborted, complete in kafka["transaction_index"]["found"]:
            expected = tuple(AbortedTransaction(*entry) for entry in aborted), complete
            assert transactions.overlapping(first, end) == expected
        snapshot = ProducerSnapshot.parse(data["producer_snapshot"], location=NAME)
        assert kafka["producer_snapshot"]["found"] == [
            [p.producer_id, p.producer_epoch, p.last_offset, p.timestamp_ms, p.coordinator_epoch, p.open_since_offset]
            for p in snapshot.producers
        ]


def test_damaged_indexes_are_refused_with_a_position_or_read(peer: LogSegmentPeer, differential_seed: int) -> None:
    draw = random.Random(differential_seed)
    refused = dict.fromkeys(("offset_index", "time_index", "transaction_index", "producer_snapshot"), 0)
    for number in range(INDEXES):
        kafka = peer.indexes(differential_seed + number)
        base = kafka["base_offset"]
        parse: dict[str, Any] = {
            "offset_index": lambda data, base=base: OffsetIndex.parse(data, base_offset=base, location=NAME),
            "time_index": lambda data, base=base: TimeIndex.parse(data, base_offset=base, location=NAME),
            "transaction_index": lambda data, base=base: TransactionIndex.parse(data, base_offset=base, location=NAME),
            "producer_snapshot": lambda data: ProducerSnapshot.parse(data, location=NAME),
        }
        for name, parser in parse.items():
            data = bytes.fromhex(kafka[name]["bytes"])
            for _ in range(10 if data else 0):
                damaged, _ = _damaged(draw, data)
                outcome = _attempt(parser, damaged)
                if isinstance(outcome, DamagedObjectError):
                    assert outcome.location == NAME
                    assert 0 <= outcome.position <= len(damaged)
                    refused[name] += 1
                else:
                    # A snapshot has a checksum: none that is damaged may pass.
                    assert name != "producer_snapshot"
    assert min(refused.values()) > INDEXES


def _attempt(read: Callable[[bytes], Any], data: bytes) -> Any:
    try:
        return read(data)
    except RemoteLogError as error:
        return error


def _damaged(draw: random.Random, data: bytes) -> tuple[bytes, int]:
    """Flip a bit or set a byte, mostly near where a header may be, or cut; return where."""
    at = min(int(draw.expovariate(1 / 40)), len(data) - 1) if draw.random() < 0.3 else draw.randrange(len(data))
    kind = draw.randrange(4)
    if kind == 0:
        return data[:at], at
    changed = bytearray(data)
    if kind == 1:
        changed[at] = (changed[at] + draw.randrange(1, 256)) % 256
    else:
        changed[at] ^= 1 << draw.randrange(8)
    return bytes(changed), at


def _position_within_batch(sizes: list[int], position: int) -> int | None:
    for size in sizes:
        if position < size:
            return position
        position -= size
    return None
