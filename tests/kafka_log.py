# SPDX-License-Identifier: Apache-2.0
"""Writes record batches of message format v2, indexes and producer snapshots, a byte at a time and as the source says."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from google_crc32c import value as crc32c

from airflow_provider_rlmm.core.segments.record_batches.headers import Codec

LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20

ABORT_KEY = struct.pack(">hh", 0, 0)
COMMIT_KEY = struct.pack(">hh", 0, 1)
MARKER_VALUE = struct.pack(">hi", 0, 7)  # version, coordinator epoch


@dataclass(frozen=True, slots=True)
class Record:
    """
    A record as a consumer gets it.

    :param offset: its offset.
    :param timestamp: in ms.
    :param key: may be null.
    :param value: may be null.
    :param headers: pairs; values may be null.
    """

    offset: int
    timestamp: int = 1_700_000_000_000
    key: bytes | None = None
    value: bytes | None = b"value"
    headers: tuple[tuple[str, bytes | None], ...] = ()

    def as_row(self) -> dict[str, object]:
        """Return it as a row of the Arrow schema."""
        headers = [{"key": key, "value": value} for key, value in self.headers]
        return {
            "offset": self.offset, "timestamp": self.timestamp, "key": self.key, "value": self.value, "headers": headers,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Batch:
    """
    A record batch.

    :param records: its records, ascending by offset; none in a batch that was compacted away.
    :param codec: how they are packed.
    :param attributes: further bits: ``LOG_APPEND_TIME``, ``TRANSACTIONAL``, ``CONTROL``.
    :param leader_epoch: of the leader.
    :param producer_id: -1 without idempotence.
    :param base_offset: that of the first record if not given.
    :param last_offset: that of the last record if not given.
    :param max_timestamp: the highest if not given.
    :param xerial: whether snappy has the framing of Kafka's own clients.
    """

    records: tuple[Record, ...]
    codec: Codec = Codec.NONE
    attributes: int = 0
    leader_epoch: int = 0
    producer_id: int = -1
    base_offset: int | None = None
    last_offset: int | None = None
    max_timestamp: int | None = None
    xerial: bool = True

    def to_bytes(self) -> bytes:
        """Return the batch as it lies in a log."""
        first = self.records[0].offset if self.base_offset is None else self.base_offset
        last = self.records[-1].offset if self.last_offset is None else self.last_offset
        base_timestamp = self.records[0].timestamp if self.records else -1
        highest = max((record.timestamp for record in self.records), default=-1)
        payload = b"".join(_record(record, first, base_timestamp) for record in self.records)
        body = struct.pack(
            ">hiqqqhii",
            self.attributes | self.codec,
            last - first,
            base_timestamp,
            highest if self.max_timestamp is None else self.max_timestamp,
            self.producer_id,
            -1 if self.producer_id < 0 else 0,
            -1 if self.producer_id < 0 or self.attributes & CONTROL else 0,
            len(self.records),
        ) + pack(self.codec, payload, xerial=self.xerial)
        return struct.pack(">qiibI", first, len(body) + 9, self.leader_epoch, 2, crc32c(body)) + body

    def as_read(self) -> tuple[Record, ...]:
        """Return the records as a consumer gets them."""
        if not self.attributes & LOG_APPEND_TIME:
            return self.records
        assert self.max_timestamp is not None
        return tuple(replace(record, timestamp=self.max_timestamp) for record in self.records)


def control_batch(offset: int, producer_id: int, *, commit: bool, leader_epoch: int = 0) -> Batch:
    """Return the end marker of a transaction."""
    record = Record(offset, key=COMMIT_KEY if commit else ABORT_KEY, value=MARKER_VALUE)
    return Batch((record,), attributes=CONTROL | TRANSACTIONAL, producer_id=producer_id, leader_epoch=leader_epoch)


def log_of(batches: Sequence[Batch]) -> bytes:
    """Return the batches one after the other."""
    return b"".join(batch.to_bytes() for batch in batches)


def offset_index(base_offset: int, entries: Sequence[tuple[int, int]]) -> bytes:
    """Return an offset index; entries are pairs of offset and position."""
    return b"".join(struct.pack(">ii", offset - base_offset, position) for offset, position in entries)


def time_index(base_offset: int, entries: Sequence[tuple[int, int]]) -> bytes:
    """Return a time index; entries are pairs of timestamp and offset."""
    return b"".join(struct.pack(">qi", timestamp, offset - base_offset) for timestamp, offset in entries)


def transaction_index(entries: Sequence[tuple[int, int, int, int]]) -> bytes:
    """Return a transaction index; entries are producer id, first, last and last stable offset."""
    return b"".join(struct.pack(">hqqqq", 0, *entry) for entry in entries)


def producer_snapshot(
    entries: Sequence[tuple[int, int]], *, last_offset: int = 104, last_offsets: Mapping[int, int] | None = None
) -> bytes:
    """
    Return a producer snapshot.

    :param entries: producer id and first offset of the open transaction, or -1.
    :param last_offset: of each producer, for which ``last_offsets`` has none.
    :param last_offsets: producer id → offset of its last record.
    """
    known = last_offsets or {}
    body = struct.pack(">i", len(entries)) + b"".join(
        struct.pack(">qhiqiqiq", producer_id, 0, 4, known.get(producer_id, last_offset), 4, 1_700_000_000_000, 3, since)
        for producer_id, since in entries
    )
    return struct.pack(">hI", 1, crc32c(body)) + body


def varint(number: int) -> bytes:
    """Return a number in zigzag encoding, of 32 or 64 bits."""
    # Kafka's difference of two times is a long, which wraps.
    number = (number + 2**63) % 2**64 - 2**63
    raw = (number << 1) ^ (number >> 63)
    encoded = bytearray()
    while raw >= 0x80:
        encoded.append(raw & 0x7F | 0x80)
        raw >>= 7
    encoded.append(raw)
    return bytes(encoded)


def pack(codec: Codec, data: bytes, *, xerial: bool = True) -> bytes:
    """Pack the records of a batch as Kafka's or librdkafka's clients do."""
    if codec is Codec.GZIP:
        return gzip.compress(data, mtime=0)  # or the same records are other bytes in the next second
    if codec is Codec.SNAPPY:
        if not xerial:
            return pa.Codec("snappy").compress(data, asbytes=True)
        parts = [b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)]
        for at in range(0, len(data), 32 * 1024):
            block = pa.Codec("snappy").compress(data[at : at + 32 * 1024], asbytes=True)
            parts.append(struct.pack(">i", len(block)) + block)
        return b"".join(parts)
    if codec in (Codec.LZ4, Codec.ZSTD):
        return pa.Codec(codec.name.lower()).compress(data, asbytes=True)
    return data


def _record(record: Record, base_offset: int, base_timestamp: int) -> bytes:
    headers = b"".join(_bytes(key.encode()) + _bytes(value) for key, value in record.headers)
    body = (
        b"\0"
        + varint(record.timestamp - base_timestamp)
        + varint(record.offset - base_offset)
        + _bytes(record.key)
        + _bytes(record.value)
        + varint(len(record.headers))
        + headers
    )
    return varint(len(body)) + body


def _bytes(value: bytes | None) -> bytes:
    return varint(-1) if value is None else varint(len(value)) + value


def read_records(batch: bytes) -> list[Record]:
    """Read the records of a batch that is not compressed, one after the other: what the columnar reader is compared with."""
    base_offset = int.from_bytes(batch[:8], "big", signed=True)
    attributes, _, base_timestamp, max_timestamp = struct.unpack_from(">hiqq", batch, 21)
    (count,) = struct.unpack_from(">i", batch, 57)
    at = 61
    records: list[Record] = []

    def number(bits: int) -> int:
        nonlocal at
        raw = shift = 0
        while True:
            byte = batch[at]
            at += 1
            raw |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                raw &= (1 << bits) - 1
                return (raw >> 1) ^ -(raw & 1)

    def text() -> bytes | None:
        nonlocal at
        size = number(32)
        at += max(size, 0)
        return batch[at - size : at] if size >= 0 else None

    for _ in range(count):
        size = number(32)
        end = at + size
        at += 1
        delta = number(64)
        timestamp = max_timestamp if attributes & LOG_APPEND_TIME else _wrapped(base_timestamp + delta)
        offset = base_offset + number(32)
        key, value = text(), text()
        headers = tuple(((text() or b"").decode("utf-8", "replace"), text()) for _ in range(number(32)))
        assert at == end
        records.append(Record(offset, timestamp, key, value, headers))
    # As Kafka does: what follows in a batch without records is not looked at.
    assert at == len(batch) or not count
    return records


def _wrapped(number: int) -> int:
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)
