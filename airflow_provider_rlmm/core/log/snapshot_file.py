# SPDX-License-Identifier: Apache-2.0
"""
A snapshot in one file.

The file: a fixed head (:data:`_HEAD`), a description in JSON, the state as ``ColumnarState.write_ipc`` writes it, a fixed
end (:data:`_END`). The description is padded so that the state begins at a multiple of 64 bytes, where Arrow uses it
without a copy; sizes and checksum of what was written come last, so that no copy of it is needed to know them. Nothing
in the file is believed before its checksum fits, and nothing of it is used before cluster, topic, partition count and offsets
fit the log.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import IO, Any

from airflow_provider_rlmm.core.base.errors import ConfigurationError, MetadataError, SnapshotRefusedError
from airflow_provider_rlmm.core.base.file_systems import read_file, replacing
from airflow_provider_rlmm.core.log.event_decoding import QuarantinedRecord
from airflow_provider_rlmm.core.log.snapshot import Snapshot, TopicIdentity
from airflow_provider_rlmm.core.records.lost_records import HistoryGap
from airflow_provider_rlmm.core.records.records import TopicIdPartition, kafka_uuid_str, parse_kafka_uuid

__all__ = ["SnapshotFile"]

SNAPSHOT_VERSION = 6
"""Of the file's format; the state in it has a version of its own."""

_MAGIC = b"RLMMSNAP"
# Magic, version, size of the description.
_HEAD = struct.Struct(">8sII")
# Size of the state, CRC-32 of all of the file but the CRC itself.
_END = struct.Struct(">QI")
_CHECKED_END = _END.size - 4
_ALIGNMENT = 64


@dataclass(frozen=True)
class SnapshotFile:
    """
    A :class:`~airflow_provider_rlmm.core.log.snapshot.SnapshotStore` that is a file.

    :param uri: of the file, in an object store or a local folder.
    """

    uri: str

    def __str__(self) -> str:
        return self.uri

    def read(self) -> Snapshot:
        """See :class:`~airflow_provider_rlmm.core.log.snapshot.SnapshotStore`."""
        try:
            data = read_file(self.uri)
        except FileNotFoundError as e:
            raise SnapshotRefusedError("there is none yet") from e
        except (OSError, ConfigurationError) as e:
            raise SnapshotRefusedError(f"it cannot be read: {e}") from e
        return decode_snapshot(data)

    def write(self, snapshot: Snapshot) -> None:
        """
        See :class:`~airflow_provider_rlmm.core.log.snapshot.SnapshotStore`.

        :raises ConfigurationError: if the URI is not understood.
        """
        with replacing(self.uri) as file:
            write_snapshot(snapshot, file)


class _Checked:
    """
    A file that is being written, with size and checksum of what was.

    :param file: where the bytes go; the caller that has opened it closes it.
    """

    closed = False

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.size = self.checksum = 0

    def write(self, data: Any) -> int:
        """Append the bytes of a buffer."""
        self.checksum = zlib.crc32(data, self.checksum)
        written: int = memoryview(data).nbytes
        self._file.write(data)
        self.size += written
        return written

    def flush(self) -> None:
        """Do nothing: a file that is not whole counts for nothing."""


def write_snapshot(snapshot: Snapshot, file: IO[bytes]) -> None:
    """
    Write a snapshot, with little more memory than its largest column takes.

    :param snapshot: the snapshot, which does not change.
    :param file: an empty file.
    :raises OSError: if it cannot be written.
    """
    description = json.dumps(_description(snapshot), sort_keys=True).encode()
    # JSON does not mind spaces.
    description += b" " * (-(_HEAD.size + len(description)) % _ALIGNMENT)
    checked = _Checked(file)
    checked.write(_HEAD.pack(_MAGIC, SNAPSHOT_VERSION, len(description)))
    checked.write(description)
    before = checked.size
    # What is finished would make it grow for ever.
    snapshot.state.write_ipc(checked, forget_finished=True)
    checked.write(_END.pack(checked.size - before, 0)[:_CHECKED_END])
    file.write(checked.checksum.to_bytes(4, "big"))


def decode_snapshot(data: Any) -> Snapshot:
    """
    Return the snapshot that a file holds.

    :param data: an Arrow buffer.
    :raises SnapshotRefusedError: if it is damaged or of another version.
    """
    if data.size < _HEAD.size:
        raise SnapshotRefusedError(f"it is no snapshot: {data.size} bytes are less than its head")
    magic, version, description_size = _HEAD.unpack(data.slice(0, _HEAD.size).to_pybytes())
    if magic != _MAGIC:
        raise SnapshotRefusedError("it is no snapshot: its first bytes are others")
    if version != SNAPSHOT_VERSION:
        raise SnapshotRefusedError(f"it is of version {version}, this program reads version {SNAPSHOT_VERSION}")
    state_size = data.size - _HEAD.size - description_size - _END.size
    if state_size < 0:
        raise SnapshotRefusedError(f"it is corrupt: {data.size} bytes are less than its head says")
    expected, checksum = _END.unpack(data.slice(data.size - _END.size).to_pybytes())
    if state_size != expected:
        raise SnapshotRefusedError(f"it is corrupt: its state has {state_size} bytes where its end says {expected}")
    if zlib.crc32(data.slice(0, data.size - 4)) != checksum:
        raise SnapshotRefusedError("it is corrupt: its checksum does not fit")
    body = data.slice(_HEAD.size, description_size + state_size)
    return _snapshot(body.slice(0, description_size).to_pybytes(), body.slice(description_size))


def _description(snapshot: Snapshot) -> dict[str, Any]:
    return {
        "cluster_id": snapshot.identity.cluster_id,
        "topic_id": kafka_uuid_str(snapshot.identity.topic_id),
        "partition_count": snapshot.identity.partition_count,
        "next_offsets": {str(p): offset for p, offset in snapshot.next_offsets.items()},
        "gaps": _gaps_to_json(snapshot.gaps),
        "holes": _gaps_to_json(snapshot.holes),
        "created_at_ms": snapshot.created_at_ms,
        "tails": {
            str(p): [[offset, digest.hex()] for offset, digest in records] for p, records in snapshot.tails.items()
        },
        "quarantined": [_quarantined_to_json(record) for record in snapshot.quarantined],
        "routed": {str(p): count for p, count in snapshot.routed.items()},
        "late_updates": [[p, offset, late] for (p, offset), late in snapshot.late_updates.items()],
        "key_prefixes": sorted(snapshot.key_prefixes),
    }


def _gaps_to_json(gaps: Iterable[HistoryGap]) -> list[list[int]]:
    return [[gap.metadata_partition, gap.start, gap.end] for gap in gaps]


def _gaps_of_json(raw: Iterable[Iterable[Any]]) -> tuple[HistoryGap, ...]:
    return tuple(HistoryGap(*(int(number) for number in gap)) for gap in raw)


def _quarantined_to_json(record: QuarantinedRecord) -> list[Any]:
    tip = record.topic_id_partition
    subject = None if tip is None else [kafka_uuid_str(tip.topic_id), tip.topic, tip.partition]
    return [record.metadata_partition, record.offset, record.code, record.reason, subject, record.alike]


def _quarantined_of_json(raw: Sequence[Any]) -> QuarantinedRecord:
    # Where an earlier release has written it every record was kept.
    metadata_partition, offset, code, reason, subject, alike = raw if len(raw) > 5 else (*raw, 0)
    tip = None if subject is None else TopicIdPartition(parse_kafka_uuid(subject[0]), str(subject[1]), int(subject[2]))
    return QuarantinedRecord(int(metadata_partition), int(offset), str(code), str(reason), tip, int(alike))


def _snapshot(description: bytes, state: Any) -> Snapshot:
    from airflow_provider_rlmm.core.records.columnar import ColumnarState

    try:
        raw = json.loads(description)
        return Snapshot(
            TopicIdentity(raw["cluster_id"], parse_kafka_uuid(raw["topic_id"]), int(raw["partition_count"])),
            {int(p): int(offset) for p, offset in raw["next_offsets"].items()},
            _gaps_of_json(raw["gaps"]),
            int(raw["created_at_ms"]),
            ColumnarState.from_ipc(state),
            tails={
                int(p): tuple((int(offset), bytes.fromhex(digest)) for offset, digest in records)
                for p, records in raw["tails"].items()
            },
            quarantined=tuple(map(_quarantined_of_json, raw["quarantined"])),
            routed={int(p): int(count) for p, count in raw["routed"].items()},
            late_updates={(int(p), int(offset)): bool(late) for p, offset, late in raw["late_updates"]},
            key_prefixes=frozenset(map(str, raw["key_prefixes"])),
            holes=_gaps_of_json(raw["holes"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        raise SnapshotRefusedError(f"its description cannot be understood ({type(e).__name__}: {e})") from e
    except MetadataError as e:
        raise SnapshotRefusedError(f"its state cannot be read: {e}") from e
