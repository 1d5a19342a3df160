# SPDX-License-Identifier: Apache-2.0
"""
The headers of record batches of message format v2, as arrays of one element per batch.

The source is Kafka's ``DefaultRecordBatch``. The checksum of a batch covers what lies behind it: attributes, timestamps,
producer and records. It covers neither base offset, leader epoch, length nor magic: :meth:`BatchHeaders.find` refuses batches
whose offsets do not ascend, and a caller that knows the segment compares its first and last offset and leader epochs with
theirs.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.errors import DamagedObjectError
from airflow_provider_rlmm.core.records.decoding.layout import gather
from airflow_provider_rlmm.core.segments.record_batches.batch_sizes import (
    HEADER_BYTES,
    Data,
    batch_positions,
    damaged_batch,
)
from airflow_provider_rlmm.core.segments.record_batches.checksums import MOST_BYTES, all_agree, crc32c

Array = npt.NDArray[Any]

LEAST_RECORD_BYTES: Final = 7
"""Size of a record without key, value and headers."""

_CHECKSUMMED_AT: Final = 21
_MANY: Final = 2000  # with fewer batches, a call for each costs less
_MAX_OFFSET: Final = (1 << 63) - 1

_HEADER: Final = np.dtype(
    [
        ("base_offset", ">i8"),
        ("length", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", "i1"),
        ("checksum", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp_ms", ">i8"),
        ("max_timestamp_ms", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("record_count", ">i4"),
    ]
)
_TAKEN_OVER: Final = {
    name: _HEADER[name].newbyteorder("=")
    for name in _HEADER.names or ()
    if name not in ("length", "magic", "last_offset_delta")
}

_CODEC_BITS: Final = 0x07
_LOG_APPEND_TIME_BIT: Final = 0x08
_TRANSACTIONAL_BIT: Final = 0x10
_CONTROL_BIT: Final = 0x20


class Codec(IntEnum):
    """How the records of a batch are compressed, with Kafka's ids (``CompressionType``)."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


@dataclass(frozen=True, slots=True, eq=False)
class BatchHeaders:
    """
    The headers of some batches, in the order of the log; ``headers[mask]`` and ``headers[a:b]`` are some of them.

    :param location: key or path of the object that they were found in, for messages.
    :param data_position: position in that object of the first byte of the data that they were found in.
    :param position: first byte of each batch, within that data.
    :param size_in_bytes: of the whole batch, header included.
    :param base_offset: of each batch; the offset of its first record, if that was not compacted away.
    :param last_offset: of each batch, inclusive.
    :param leader_epoch: partition leader epoch.
    :param checksum: CRC-32C of what follows it in the batch.
    :param attributes: codec, timestamp type, transactional, control; see the properties.
    :param base_timestamp_ms: what the records' timestamps are relative to.
    :param max_timestamp_ms: highest timestamp of the records; with LogAppendTime the timestamp of all of them.
    :param producer_id: -1 without idempotence.
    :param producer_epoch: -1 without idempotence.
    :param base_sequence: sequence number of the first record; -1 without idempotence.
    :param record_count: number of records in the batch.
    """

    location: str
    data_position: int
    position: Array
    size_in_bytes: Array
    base_offset: Array
    last_offset: Array
    leader_epoch: Array
    checksum: Array
    attributes: Array
    base_timestamp_ms: Array
    max_timestamp_ms: Array
    producer_id: Array
    producer_epoch: Array
    base_sequence: Array
    record_count: Array

    @classmethod
    def find(cls, data: Data, *, location: str, position: int) -> tuple[BatchHeaders, int]:
        """
        Find the batches that lie in a part of a log segment; the records are not looked at, nor are checksums.

        :param data: a part of the segment that begins where a batch begins. Its last batch may be incomplete: it is left out.
        :param location: key or path of the segment, for messages.
        :param position: where in the segment ``data`` begins, in bytes.
        :return: the headers, and how many bytes of ``data`` they and their records take.
        :raises DamagedObjectError: no batch begins where one must; or the offsets of the batches do not ascend.
        :raises UnsupportedMessageFormatError: a batch of message format v0 or v1.
        """
        at = batch_positions(data, location=location, position=position)
        header = gather(np.frombuffer(data, np.uint8), _HEADER, at[:-1])
        columns: dict[str, Array] = {name: header[name].astype(dtype) for name, dtype in _TAKEN_OVER.items()}
        last_offset = columns["base_offset"] + header["last_offset_delta"]
        found = cls(location, position, at[:-1], np.diff(at), last_offset=last_offset, **columns)
        found._refuse_impossible(header["last_offset_delta"])
        return found, int(at[-1])

    def __len__(self) -> int:
        return int(self.position.size)

    def __getitem__(self, index: Array | slice) -> BatchHeaders:
        if not isinstance(index, slice) and index.dtype == np.bool_ and index.all():
            return self  # as a rule all are wanted
        columns = {name: getattr(self, name)[index] for name in _COLUMNS}
        return BatchHeaders(self.location, self.data_position, **columns)

    @property
    def codec(self) -> Array:
        """The :class:`Codec` of each batch, as a number; 5 to 7 are none that Kafka knows."""
        codec: Array = self.attributes & _CODEC_BITS
        return codec

    @property
    def log_append_time(self) -> Array:
        """Whether all records of the batch have the time at which the broker appended it."""
        return self._has(_LOG_APPEND_TIME_BIT)

    @property
    def is_transactional(self) -> Array:
        """Whether the batch belongs to a transaction; its end marker does, too."""
        return self._has(_TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> Array:
        """Whether the batch holds a control record, such as the end marker of a transaction, which no consumer is given."""
        return self._has(_CONTROL_BIT)

    def verify_checksums(self, data: Data) -> None:
        """
        Compare the checksum of each batch (CRC-32C) with its bytes.

        :param data: what they were found in.
        :raises DamagedObjectError: of the first batch that does not agree.
        """
        begin, end = self.position + _CHECKSUMMED_AT, self.position + self.size_in_bytes
        if self._can_be_compared_at_once(end) and all_agree(data, begin, end, self.checksum):
            return
        view, pairs = memoryview(data), zip(begin.tolist(), end.tolist(), strict=True)
        computed = np.array([crc32c(view[first:behind]) for first, behind in pairs], np.int64)
        wrong = computed != self.checksum
        if wrong.any():
            row = int(np.argmax(wrong))
            reason = f"its checksum is {self.checksum[row]:#010x} and its bytes give {computed[row]:#010x}"
            raise self.damaged(int(self.position[row]), reason)

    def _can_be_compared_at_once(self, end: Array) -> bool:
        if len(self) < _MANY or int(end[-1] - self.position[0]) >= MOST_BYTES:
            return False
        return bool((self.position[1:] == end[:-1]).all())

    def damaged(self, at: int, reason: str) -> DamagedObjectError:
        """
        Return the error that says of a batch that it is damaged.

        :param at: where it begins, within the data.
        :param reason: what is wrong with it.
        """
        return damaged_batch(self.location, self.data_position + at, reason)

    def _has(self, bit: int) -> Array:
        given: Array = (self.attributes & bit) != 0
        return given

    def _refuse_impossible(self, last_offset_delta: Array) -> None:
        before = np.concatenate([np.full(min(len(self), 1), -1), self.last_offset[:-1]])
        # The records take 7 bytes each at least, but compressed ones.
        room = np.where(self.codec == Codec.NONE, (self.size_in_bytes - HEADER_BYTES) // LEAST_RECORD_BYTES, np.inf)
        for wrong, reason in (
            (last_offset_delta < 0, "its last offset lies before its first"),
            (
                self.base_offset > _MAX_OFFSET - last_offset_delta.astype(np.int64),
                "its last offset is beyond all offsets",
            ),
            (self.base_offset <= before, "its first offset does not lie behind those before it"),
            ((self.record_count < 0) | (self.record_count > room), "it cannot hold as many records as it says"),
        ):
            if wrong.any():
                row = int(np.argmax(wrong))
                raise self.damaged(
                    int(self.position[row]),
                    f"{reason}: offsets {self.base_offset[row]} to {self.last_offset[row]}, "
                    f"{number_of(self.record_count[row], 'record')}",
                )


_COLUMNS: Final = tuple(field.name for field in fields(BatchHeaders) if field.name not in ("location", "data_position"))
