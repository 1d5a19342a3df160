# SPDX-License-Identifier: Apache-2.0
"""
A snapshot of the replayed metadata topic in one file, so that a restart reads on where it stopped.

The file: a fixed head (:data:`_HEAD`), a description in JSON, the state as :meth:`ColumnarState.to_ipc` writes it. The
description is padded so that the state begins at a multiple of 64 bytes, where Arrow uses it without a copy. Nothing in the
file is believed before its checksum fits, and nothing of it is used before cluster, topic, partition count and
offsets fit the log.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID

from airflow_provider_rlmm.errors import ConfigurationError, MetadataError, SnapshotRefusedError
from airflow_provider_rlmm.event_log.event_decoding import QuarantinedRecord
from airflow_provider_rlmm.file_systems import read_file, replace_file
from airflow_provider_rlmm.metadata.records import TopicIdPartition, kafka_uuid_str, parse_kafka_uuid

if TYPE_CHECKING:
    from airflow_provider_rlmm.metadata.columnar import ColumnarState

SNAPSHOT_VERSION = 2
"""Of the file's format; the state in it has a version of its own."""

_MAGIC = b"RLMMSNAP"
# Magic, version, sizes of description and state, CRC-32 of all the file but the CRC itself.
_HEAD = struct.Struct(">8sIIQI")
_CHECKED_HEAD = _HEAD.size - 4
_ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class TopicIdentity:
    """
    What a snapshot must have in common with the log that is read on.

    :param cluster_id: id of the cluster.
    :param topic_id: id of the metadata topic: one that was deleted and made again has another.
    :param partition_count: number of metadata partitions.
    """

    cluster_id: str
    topic_id: UUID
    partition_count: int


@dataclass(frozen=True, slots=True)
class HistoryGap:
    """
    Records that were gone before they were read: what is known of this metadata partition is incomplete history.

    :param metadata_partition: which one.
    :param start: first offset that is missing, inclusive.
    :param end: the beginning of the log when that was seen, exclusive.
    """

    metadata_partition: int
    start: int
    end: int

    def __str__(self) -> str:
        return f"metadata partition {self.metadata_partition}: the records of offsets {self.start} to {self.end - 1} are gone"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """
    The state after all records below some offsets.

    :param identity: the topic that was read.
    :param next_offsets: metadata partition → offset at which to read on; every record below it is in the state.
    :param gaps: what was missing below these offsets.
    :param created_at_ms: ms since the epoch.
    :param state: the state.
    :param tails: metadata partition → the last records below its offset: offset and SHA-256.
    :param quarantined: the records below these offsets that are not good.
    :param routed: metadata partition → number of its good records.
    """

    identity: TopicIdentity
    next_offsets: Mapping[int, int]
    gaps: tuple[HistoryGap, ...]
    created_at_ms: int
    state: ColumnarState
    tails: Mapping[int, tuple[tuple[int, bytes], ...]] = field(default_factory=dict)
    quarantined: tuple[QuarantinedRecord, ...] = ()
    routed: Mapping[int, int] = field(default_factory=dict)

    def check(
        self, identity: TopicIdentity, beginning_offsets: Mapping[int, int], high_water_marks: Mapping[int, int]
    ) -> None:
        """
        Refuse to be continued with a log that this is no snapshot of; what its last records are is asked elsewhere.

        :param identity: of the topic to read on.
        :param beginning_offsets: metadata partition → first offset that is there, as of now.
        :param high_water_marks: metadata partition → offset after the last durable record, as of now.
        :raises SnapshotRefusedError: naming what differs.
        """
        mine = self.identity
        for what, theirs, ours in (
            ("cluster", mine.cluster_id, identity.cluster_id),
            ("topic id", kafka_uuid_str(mine.topic_id), kafka_uuid_str(identity.topic_id)),
            ("partition count", mine.partition_count, identity.partition_count),
        ):
            if theirs != ours:
                raise SnapshotRefusedError(f"it is of {what} {theirs!r}, the metadata topic has {ours!r}")
        if sorted(self.next_offsets) != list(range(mine.partition_count)):
            raise SnapshotRefusedError(
                f"it has offsets of the metadata partitions {sorted(self.next_offsets)}, the topic has "
                f"{mine.partition_count} partitions"
            )
        for metadata_partition, offset in self.next_offsets.items():
            if not 0 <= offset <= (high := high_water_marks[metadata_partition]):
                raise SnapshotRefusedError(
                    f"metadata partition {metadata_partition}: its offset {offset} is ahead of the log, whose high watermark "
                    f"is {high}: the log has lost records, or it is another one"
                )
            if beginning_offsets[metadata_partition] > offset:
                raise SnapshotRefusedError(
                    f"metadata partition {metadata_partition}: it was read up to offset {offset}, and begins at "
                    f"{beginning_offsets[metadata_partition]} now: nobody has read what lay in between"
                )


def write_snapshot(uri: str, snapshot: Snapshot) -> None:
    """
    Write a snapshot in the place of an older one.

    :param uri: of the file, in an object store or a local folder.
    :param snapshot: the snapshot.
    :raises ConfigurationError: if the URI is not understood.
    :raises OSError: if it cannot be written; an older one is still there then.
    """
    description = json.dumps(_description(snapshot), sort_keys=True).encode()
    # JSON does not mind spaces.
    description += b" " * (-(_HEAD.size + len(description)) % _ALIGNMENT)
    state = snapshot.state.to_ipc()
    checked = _HEAD.pack(_MAGIC, SNAPSHOT_VERSION, len(description), len(state), 0)[:_CHECKED_HEAD]
    checksum = zlib.crc32(state, zlib.crc32(description, zlib.crc32(checked)))
    replace_file(uri, [checked, checksum.to_bytes(4, "big"), description, state])


def read_snapshot(uri: str) -> Snapshot:
    """
    Read a snapshot; :meth:`Snapshot.check` must follow before it is used.

    :param uri: of the file.
    :raises SnapshotRefusedError: if there is none, or it cannot be read, is damaged or of another version.
    """
    try:
        data = read_file(uri)
    except FileNotFoundError as e:
        raise SnapshotRefusedError("there is none yet") from e
    except (OSError, ConfigurationError) as e:
        raise SnapshotRefusedError(f"it cannot be read: {e}") from e
    description, state = _parts(data)
    return _snapshot(description, state)


def _parts(data: Any) -> tuple[bytes, Any]:
    """Return description and state of a file whose checksum fits."""
    if data.size < _HEAD.size:
        raise SnapshotRefusedError(f"it is no snapshot: {data.size} bytes are less than its head")
    magic, version, description_size, state_size, checksum = _HEAD.unpack(data.slice(0, _HEAD.size).to_pybytes())
    if magic != _MAGIC:
        raise SnapshotRefusedError("it is no snapshot: its first bytes are others")
    if version != SNAPSHOT_VERSION:
        raise SnapshotRefusedError(f"it is of version {version}, this program reads version {SNAPSHOT_VERSION}")
    expected = _HEAD.size + description_size + state_size
    if data.size != expected:
        raise SnapshotRefusedError(f"it is corrupt: {data.size} bytes where its head says {expected}")
    body = data.slice(_HEAD.size)
    if zlib.crc32(body, zlib.crc32(data.slice(0, _CHECKED_HEAD))) != checksum:
        raise SnapshotRefusedError("it is corrupt: its checksum does not fit")
    return body.slice(0, description_size).to_pybytes(), body.slice(description_size)


def _description(snapshot: Snapshot) -> dict[str, Any]:
    return {
        "cluster_id": snapshot.identity.cluster_id,
        "topic_id": kafka_uuid_str(snapshot.identity.topic_id),
        "partition_count": snapshot.identity.partition_count,
        "next_offsets": {str(p): offset for p, offset in snapshot.next_offsets.items()},
        "gaps": [[gap.metadata_partition, gap.start, gap.end] for gap in snapshot.gaps],
        "created_at_ms": snapshot.created_at_ms,
        "tails": {
            str(p): [[offset, digest.hex()] for offset, digest in records] for p, records in snapshot.tails.items()
        },
        "quarantined": [_quarantined_to_json(record) for record in snapshot.quarantined],
        "routed": {str(p): count for p, count in snapshot.routed.items()},
    }


def _quarantined_to_json(record: QuarantinedRecord) -> list[Any]:
    tip = record.topic_id_partition
    subject = None if tip is None else [kafka_uuid_str(tip.topic_id), tip.topic, tip.partition]
    return [record.metadata_partition, record.offset, record.code, record.reason, subject]


def _quarantined_of_json(raw: Sequence[Any]) -> QuarantinedRecord:
    metadata_partition, offset, code, reason, subject = raw
    tip = None if subject is None else TopicIdPartition(parse_kafka_uuid(subject[0]), str(subject[1]), int(subject[2]))
    return QuarantinedRecord(int(metadata_partition), int(offset), str(code), str(reason), tip)


def _snapshot(description: bytes, state: Any) -> Snapshot:
    from airflow_provider_rlmm.metadata.columnar import ColumnarState

    try:
        raw = json.loads(description)
        return Snapshot(
            TopicIdentity(raw["cluster_id"], parse_kafka_uuid(raw["topic_id"]), int(raw["partition_count"])),
            {int(p): int(offset) for p, offset in raw["next_offsets"].items()},
            tuple(HistoryGap(*(int(number) for number in gap)) for gap in raw["gaps"]),
            int(raw["created_at_ms"]),
            ColumnarState.from_ipc(state),
            tails={
                int(p): tuple((int(offset), bytes.fromhex(digest)) for offset, digest in records)
                for p, records in raw["tails"].items()
            },
            quarantined=tuple(map(_quarantined_of_json, raw["quarantined"])),
            routed={int(p): int(count) for p, count in raw["routed"].items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        raise SnapshotRefusedError(f"its description cannot be understood ({type(e).__name__}: {e})") from e
    except MetadataError as e:
        raise SnapshotRefusedError(f"its state cannot be read: {e}") from e
