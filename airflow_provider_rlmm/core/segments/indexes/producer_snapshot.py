# SPDX-License-Identifier: Apache-2.0
"""Producer snapshots: who had written at the end of a log segment, and whose transactions were open."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from airflow_provider_rlmm.core.segments.indexes.entries import Data, damaged
from airflow_provider_rlmm.core.segments.record_batches.checksums import crc32c

_HEADER: Final = struct.Struct(">hIi")  # version, checksum, number of entries
_CHECKSUMMED_AT: Final = 6
_ENTRY: Final = struct.Struct(">qhiqiqiq")
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class ProducerState:
    """
    What the leader knew of a producer (Kafka: ``ProducerStateEntry``).

    :param producer_id: id of the producer.
    :param producer_epoch: its epoch.
    :param last_sequence: sequence number of its last record; -1 if it wrote none.
    :param last_offset: offset of its last record; -1 if it wrote none.
    :param offset_delta: offsets between the first and the last record of its last batch.
    :param timestamp_ms: timestamp of its last batch, in ms.
    :param coordinator_epoch: of the last end marker of its transactions; -1 if there was none.
    :param open_since_offset: first offset of its transaction that is still open; nothing if none is.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int
    coordinator_epoch: int
    open_since_offset: int | None


@dataclass(frozen=True, slots=True)
class ProducerSnapshot:
    """
    The producers of a user partition as of an offset.

    :param producers: in the order of the file.
    """

    producers: tuple[ProducerState, ...]

    @classmethod
    def parse(cls, data: Data, *, location: str) -> ProducerSnapshot:
        """
        Read a producer snapshot.

        :param data: all its bytes.
        :param location: key or path of the snapshot, for messages.
        :raises DamagedObjectError: its size or checksum is wrong, or it has another version.
        """
        if len(data) < _HEADER.size:
            raise damaged(location, 0, f"{len(data)} bytes are too few for a producer snapshot")
        version, stored, count = _HEADER.unpack_from(data)
        if version != _VERSION:
            raise damaged(location, 0, f"its version is {version}, and {_VERSION} is known")
        computed = crc32c(memoryview(data)[_CHECKSUMMED_AT:])
        if stored != computed:
            raise damaged(location, 0, f"its checksum is {stored:#010x} and its bytes give {computed:#010x}")
        entries = memoryview(data)[_HEADER.size :]
        if count * _ENTRY.size != len(entries):
            raise damaged(location, _HEADER.size, f"{len(entries)} bytes follow where it names {count} producers")
        return cls(tuple(_state(*fields) for fields in _ENTRY.iter_unpack(entries)))

    @property
    def first_open_offset(self) -> int | None:
        """First offset of the oldest transaction that was still open; nothing if none was."""
        return min((p.open_since_offset for p in self.producers if p.open_since_offset is not None), default=None)


def _state(
    producer_id: int, epoch: int, sequence: int, offset: int, delta: int, time: int, coordinator: int, since: int
) -> ProducerState:
    return ProducerState(producer_id, epoch, sequence, offset, delta, time, coordinator, since if since >= 0 else None)
