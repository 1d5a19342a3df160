# SPDX-License-Identifier: Apache-2.0
"""
The plan of a metadata topic once more, in plain Python, for comparison: nothing of the package under test is imported.

Slow, simple and written straight from Kafka 4.3.1's message definitions, ``RemoteLogMetadataCache`` and
``RemoteLogManager``.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

COPYING, COPIED, DELETING, DELETED = range(4)
ALLOWED = {(COPYING, COPYING), (COPYING, COPIED), (COPYING, DELETING), (COPIED, COPIED), (COPIED, DELETING)}
ALLOWED |= {(DELETING, DELETING), (DELETING, DELETED)}

Record = tuple[int, int, bytes | None]


class UnusableError(Exception):
    """The bytes are no record that could change a segment."""


class Cursor:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, n: int) -> bytes:
        if n < 0 or self.at + n > len(self.data):
            raise UnusableError(f"{n} bytes wanted at {self.at} of {len(self.data)}")
        self.at += n
        return self.data[self.at - n : self.at]

    def number(self, form: str) -> int:
        return int(struct.unpack(f">{form}", self.take(struct.calcsize(form)))[0])

    def uvarint(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def skip_tags(self) -> None:
        for _ in range(self.uvarint()):
            self.uvarint()
            self.take(self.uvarint())


@dataclass
class Event:
    topic_id: bytes
    topic: str
    partition: int
    segment_id: bytes
    event_timestamp_ms: int
    state: int
    added: dict[str, int] | None = None


def parse(value: bytes | None) -> Event:
    """Return the event in ``value``; one about a whole partition has no segment id."""
    if not value:
        raise UnusableError("no value")
    cursor = Cursor(value)
    if cursor.number("B") != 1:
        raise UnusableError("frame version")
    api_key, version = cursor.uvarint(), cursor.uvarint()
    if api_key not in (0, 1, 2) or version != 0:
        raise UnusableError(f"apiKey {api_key}, version {version}")
    topic = cursor.take(cursor.uvarint() - 1).decode()
    topic_id = cursor.take(16)
    partition = cursor.number("i")
    cursor.skip_tags()
    if api_key == 2:
        cursor.number("i")
        return Event(topic_id, topic, partition, b"", cursor.number("q"), cursor.number("b"))
    segment_id = cursor.take(16)
    cursor.skip_tags()
    if api_key == 1:
        cursor.number("i")
        timestamp = cursor.number("q")
        cursor.take(max(0, cursor.uvarint() - 1))
        state = cursor.number("b")
        if state not in range(4):
            raise UnusableError(f"update to state {state}")
        return Event(topic_id, topic, partition, segment_id, timestamp, state)
    start, end = cursor.number("q"), cursor.number("q")
    cursor.number("i")
    newest, timestamp = cursor.number("q"), cursor.number("q")
    for _ in range(cursor.uvarint() - 1):
        cursor.take(12)
        cursor.skip_tags()
    size = cursor.number("i")
    cursor.take(max(0, cursor.uvarint() - 1))
    state = cursor.number("b")
    if state not in range(4):
        raise UnusableError(f"segment record in state {state}")
    added = {
        "start_offset": start,
        "end_offset": end,
        "max_timestamp_ms": newest,
        "segment_size_in_bytes": size,
    }
    return Event(topic_id, topic, partition, segment_id, timestamp, state, added)


def home_of(event: Event, num_partitions: int) -> int:
    """Return the metadata partition in which Kafka puts an event."""
    java = 1
    for half in (event.topic_id[8:], event.topic_id[:8]):
        bits = int.from_bytes(half, "big")
        java = 31 * java + ((bits >> 32) ^ (bits & 0xFFFFFFFF))
    java = (31 * java + event.partition) & 0xFFFFFFFF
    # murmur2 of the four bytes of that hash, with Kafka's seed.
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    k = (int.from_bytes(java.to_bytes(4, "big"), "little") * m) & mask
    k = ((k ^ (k >> 24)) * m) & mask
    h = (((0x9747B28C ^ 4) * m) & mask) ^ k
    h = ((h ^ (h >> 13)) * m) & mask
    return ((h ^ (h >> 15)) & 0x7FFFFFFF) % num_partitions


@dataclass
class History:
    """``segments``: key → row; ``unresolved``: keys; ``quarantined``: metadata partition → number of records."""

    segments: dict[tuple[Any, ...], dict[str, Any]] = field(default_factory=dict)
    unresolved: set[tuple[Any, ...]] = field(default_factory=set)
    quarantined: dict[int, int] = field(default_factory=dict)


def replay(records: Iterable[Record], num_partitions: int | None = None) -> History:
    history = History()
    ever_added: set[tuple[Any, ...]] = set()
    for metadata_partition, _offset, value in sorted(records, key=lambda r: (r[0], r[1])):
        try:
            event = parse(value)
            if num_partitions and home_of(event, num_partitions) != metadata_partition:
                raise UnusableError("misrouted")
        except UnusableError:
            history.quarantined[metadata_partition] = history.quarantined.get(metadata_partition, 0) + 1
            continue
        if event.segment_id:
            apply(history, ever_added, metadata_partition, event)
    return history


def apply(history: History, ever_added: set[tuple[Any, ...]], metadata_partition: int, event: Event) -> None:
    key = (metadata_partition, event.topic_id, event.topic, event.partition, event.segment_id)
    known = history.segments.get(key)
    if event.added is not None:
        ever_added.add(key)
        if event.state != COPYING:
            # A broker's consumer ends here.
            history.unresolved.add(key)
        elif known is None or known["state"] == COPYING:
            names = ("metadata_partition", "topic_id", "topic", "partition", "segment_id")
            last_event = {"state": COPYING, "event_timestamp_ms": event.event_timestamp_ms}
            history.segments[key] = dict(zip(names, key, strict=True)) | event.added | last_event
    elif key not in ever_added:
        (history.unresolved.discard if event.state == DELETED else history.unresolved.add)(key)
    elif known is None:
        pass
    elif (known["state"], event.state) == (COPYING, COPYING):
        # And here.
        history.unresolved.add(key)
    elif (known["state"], event.state) in ALLOWED:
        known["state"], known["event_timestamp_ms"] = event.state, event.event_timestamp_ms
        if event.state == DELETED:
            del history.segments[key]


def evaluate_plan(
    records: Iterable[Record],
    cluster_state: dict[str, Any],
    now_ms: int,
    min_age_ms: int,
    num_partitions: int | None = None,
) -> list[dict[str, Any]]:
    """
    Return the rows of the plan, in the order of :func:`order_of`.

    ``records`` are (metadata partition, offset, value); ``cluster_state`` is the JSON document of the listing;
    ``num_partitions``, where given, is the number of metadata partitions, and records in another one than Kafka's
    partitioner gives do not count.
    """
    live = {base64.urlsafe_b64decode(t["topic_id"] + "=="): t for t in cluster_state["topics"]}
    partitions: dict[tuple[bytes, str, int], list[dict[str, Any]]] = {}
    history = replay(records, num_partitions)
    for row in history.segments.values():
        partitions.setdefault((row["topic_id"], row["topic"], row["partition"]), []).append(row)
    plan = []
    for (topic_id, _topic, partition), rows in partitions.items():
        topic = live.get(topic_id)
        if topic is None:
            listed = cluster_state["observed_at_ms"]
            older = [r for r in rows if r["event_timestamp_ms"] < listed]
            plan += [
                r | {"reason": "ORPHANED", "exact": r["metadata_partition"] not in history.quarantined} for r in older
            ]
        else:
            plan += walk(rows, topic, partition, now_ms, min_age_ms)
    uncertain = {key[1:] for key in history.unresolved}
    names = ("topic_id", "topic", "partition", "segment_id")
    return sorted((row for row in plan if tuple(row[name] for name in names) not in uncertain), key=order_of)


def order_of(row: dict[str, Any]) -> tuple[Any, ...]:
    names = ("metadata_partition", "topic_id", "topic", "partition", "start_offset", "end_offset", "segment_id")
    return tuple(row[name] for name in names)


def walk(
    rows: list[dict[str, Any]], topic: dict[str, Any], partition: int, now_ms: int, min_age_ms: int
) -> list[dict[str, Any]]:
    start = topic["log_start_offsets"].get(str(partition))
    total = sum(r["segment_size_in_bytes"] for r in rows if r["state"] == COPIED)
    surplus = total - topic["retention_bytes"] if topic["retention_bytes"] >= 0 else 0
    horizon = now_ms - topic["retention_ms"] if topic["retention_ms"] >= 0 else -1
    found, stopped = [], False
    for row in sorted(rows, key=lambda r: (r["start_offset"], r["end_offset"], r["segment_id"])):
        abandoned = row["state"] != COPIED and now_ms - row["event_timestamp_ms"] > min_age_ms
        reason = None
        if row["state"] != DELETING and not stopped:
            if row["state"] == COPYING and not abandoned:
                stopped = True
            elif start is not None and row["end_offset"] < start:
                reason = "LOG_START_OFFSET"
            elif horizon >= 0 and row["max_timestamp_ms"] < horizon:
                reason = "RETENTION_MS"
                surplus -= row["segment_size_in_bytes"]
            elif surplus > 0 and row["segment_size_in_bytes"] <= surplus:
                reason = "RETENTION_BYTES"
                surplus -= row["segment_size_in_bytes"]
            else:
                stopped = True
        if abandoned:
            reason = "DANGLING"
        if reason:
            found.append(row | {"reason": reason, "exact": False})
    return found
