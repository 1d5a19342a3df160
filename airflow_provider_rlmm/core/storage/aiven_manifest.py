# SPDX-License-Identifier: Apache-2.0
"""
The manifest that Aiven's tiered-storage plugin keeps with a segment: how its log is cut, and where its indexes lie.

The plugin cuts the log into chunks of one size, the last may be smaller, and stores each as it is or as a zstd frame.
A ``fixed`` chunk index says how large a stored chunk is, a ``variable`` one says it of every chunk. The indexes lie
one after the other in an object of their own, never compressed.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from types import MappingProxyType
from typing import Any, Final, NoReturn

from airflow_provider_rlmm.core.base.errors import (
    DamagedObjectError,
    EncryptedSegmentError,
    UnsupportedMessageFormatError,
)
from airflow_provider_rlmm.core.base.quoting import in_quotes
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata, kafka_uuid_str
from airflow_provider_rlmm.core.storage.index_type import IndexType

MAX_MANIFEST_BYTES: Final = 2**24
"""A segment has 2 GiB at most, and what the plugin says of a chunk takes four bytes, packed: larger is no manifest."""

_MAX_CHUNKS: Final = 2**20
_MAX_CHUNK_SIZES_BYTES: Final = 10 * 2**20  # unpacked, as the plugin's own limit
_MAX_INT: Final = 2**31 - 1
_PUFFIN: Final = b"PFA1"  # what Iceberg's statistics files begin with

INDEX_NAMES: Final[Mapping[str, IndexType]] = MappingProxyType(
    {
        "offset": IndexType.OFFSET,
        "timestamp": IndexType.TIMESTAMP,
        "producerSnapshot": IndexType.PRODUCER_SNAPSHOT,
        "leaderEpoch": IndexType.LEADER_EPOCH,
        "transaction": IndexType.TRANSACTION,
    }
)
"""What a manifest calls each index, in the order in which they lie in their object."""


@dataclass(frozen=True, slots=True)
class AivenManifest:
    """How the objects of one segment are packed."""

    log_size: int  # bytes of the log as it lay on the broker's disk
    chunk_size: int  # bytes of it in each chunk but the last
    chunk_ends: tuple[int, ...]  # first byte behind each chunk in the object of the log
    compressed: bool  # whether each chunk is a zstd frame
    # First byte and size of each index in the object of the indexes; what the segment does not have is not there.
    indexes: Mapping[IndexType, tuple[int, int]]

    def chunk_bytes(self, chunk: int) -> tuple[int, int]:
        """
        Return where a chunk lies in the object of the log: its first byte, and the first one behind it.

        :param chunk: counted from 0.
        """
        return (self.chunk_ends[chunk - 1] if chunk else 0), self.chunk_ends[chunk]

    def size_of(self, chunk: int) -> int:
        """
        Return how many bytes of the log a chunk holds.

        :param chunk: counted from 0.
        """
        return min(self.chunk_size, self.log_size - chunk * self.chunk_size)


def read_manifest(data: bytes, location: str, metadata: RemoteLogSegmentMetadata) -> AivenManifest:
    """
    Read a manifest.

    :param data: its bytes.
    :param location: its key.
    :param metadata: the segment that it must be of.
    :raises DamagedObjectError: if the plugin has not written it, or not for this segment.
    :raises UnsupportedMessageFormatError: if the segment is encrypted, or packed in a way that is not known here.
    """
    return ManifestReading(location).manifest(data, metadata)


class ManifestReading:
    """
    Reads one manifest and names it in every error.

    :param location: its key.
    """

    def __init__(self, location: str) -> None:
        self._location = location

    def manifest(self, data: bytes, metadata: RemoteLogSegmentMetadata) -> AivenManifest:
        """See :func:`read_manifest`."""
        document = self.document(data)
        if document.get("encryption") is not None:
            raise EncryptedSegmentError(
                f"manifest {self._location} says that the segment is encrypted: its key is with the brokers, so read it "
                "through one of them"
            )
        self._require_segment(document, metadata)
        return self.packing(document, metadata.segment_size_in_bytes)

    def document(self, data: bytes) -> dict[str, Any]:
        """
        Return what a manifest of the known version holds, unchecked.

        :param data: its bytes.
        :raises DamagedObjectError: if it is no such document.
        :raises UnsupportedMessageFormatError: if it is of another version or kind.
        """
        if data.startswith(_PUFFIN):
            raise self._unsupported(
                "is an Iceberg one: the records lie in the files of a table; read that table instead"
            )
        if len(data) > MAX_MANIFEST_BYTES:
            self.refuse(f"has more than {MAX_MANIFEST_BYTES} bytes")
        try:
            document = json.loads(data)
        except (ValueError, RecursionError) as e:
            self.refuse(f"is no JSON ({e})", getattr(e, "pos", 0))
        version = self.field(document, "version", str)
        if version != "1":
            raise self._unsupported(f"is of version {in_quotes(version)}, and only version 1 is known here")
        found: dict[str, Any] = document
        return found

    def packing(self, document: dict[str, Any], expected_size: int | None = None) -> AivenManifest:
        """
        Return how the objects of the segment are packed; of an encrypted one, too.

        :param document: what :meth:`document` returned.
        :param expected_size: bytes that the log must have; ``None`` where the manifest alone tells it.
        :raises DamagedObjectError: if the plugin cannot have written it.
        :raises UnsupportedMessageFormatError: if it names a chunk index of an unknown type.
        """
        compressed = self.field(document, "compression", bool)
        index = self.field(document, "chunkIndex", dict)
        log_size, chunk_size = self._number(index, "originalFileSize"), self._number(index, "originalChunkSize")
        if expected_size not in (None, log_size):
            self.refuse(f"is of a log of {log_size} bytes, and the segment has {expected_size}")
        if log_size > chunk_size * _MAX_CHUNKS:
            self.refuse(f"cuts {log_size} bytes into chunks of {chunk_size}: more than {_MAX_CHUNKS} of them")
        sizes = self._chunk_sizes(index, -(-log_size // chunk_size) if log_size else 0)
        if 0 in sizes:
            self.refuse(f"says that chunk {sizes.index(0)} of the log has no bytes")
        ends = tuple(accumulate(sizes))
        as_it_is = not compressed and document.get("encryption") is None
        if as_it_is and (ends[-1] if ends else 0) != log_size:
            self.refuse(f"says that {log_size} bytes are stored as they are, in chunks of {ends[-1] if ends else 0}")
        return AivenManifest(log_size, chunk_size, ends, compressed, self._indexes(document))

    def _require_segment(self, document: Any, metadata: RemoteLogSegmentMetadata) -> None:
        named = self.field(document, "remoteLogSegmentMetadata", dict)
        segment = self.field(named, "remoteLogSegmentId", dict)
        partition = self.field(segment, "topicIdPartition", dict)
        expected = metadata.remote_log_segment_id
        found = (segment.get("id"), partition.get("topicId"), named.get("startOffset"), named.get("endOffset"))
        wanted = (
            kafka_uuid_str(expected.id),
            kafka_uuid_str(expected.topic_id_partition.topic_id),
            metadata.start_offset,
            metadata.end_offset,
        )
        if found != wanted:
            self.refuse(f"is of segment {in_quotes(str(found))}, not of {wanted} (id, topic id, first and last offset)")

    def _chunk_sizes(self, index: dict[str, Any], count: int) -> list[int]:
        kind = self.field(index, "type", str)
        if kind == "fixed":
            size, last = self._number(index, "transformedChunkSize"), self._number(index, "finalTransformedChunkSize")
            return [*[size] * (count - 1), last] if count else []
        if kind != "variable":
            raise self._unsupported(f"has a chunk index of type {in_quotes(kind)}; known are fixed and variable")
        sizes = self._unpacked_sizes(self.field(index, "transformedChunks", str))
        if len(sizes) != count:
            self.refuse(f"names {len(sizes)} chunks of the log, which has {count}")
        return sizes

    def _unpacked_sizes(self, text: str) -> list[int]:
        import pyarrow as pa

        try:
            packed = base64.b64decode(text, validate=True)
            stream = pa.input_stream(pa.BufferReader(packed), compression="zstd")
            data = stream.read(_MAX_CHUNK_SIZES_BYTES + 1)
        except (binascii.Error, ValueError, OSError) as e:
            self.refuse(f"has a chunk index that cannot be unpacked ({e})")
        if len(data) > _MAX_CHUNK_SIZES_BYTES:
            self.refuse(f"has a chunk index of more than {_MAX_CHUNK_SIZES_BYTES} bytes")
        return self._sizes(data)

    def _sizes(self, data: bytes) -> list[int]:
        """Return sizes: their count, a base, the width of what all but the last have above it, these, and the last one."""
        count = int.from_bytes(data[:4])
        if count == 0 and len(data) == 4:
            return []
        if count == 1 and len(data) == 8:
            return [self._size(int.from_bytes(data[4:]))]
        base, width = int.from_bytes(data[4:8]), data[8] if len(data) > 8 else 0
        if count < 2 or not 1 <= width <= 4 or len(data) != 9 + (count - 1) * width + 4:
            self.refuse(f"has a chunk index of {len(data)} bytes for {count} chunks")
        rest = (int.from_bytes(data[at : at + width]) for at in range(9, len(data) - 4, width))
        return [*(self._size(base + value) for value in rest), self._size(int.from_bytes(data[-4:]))]

    def _size(self, value: int) -> int:
        if value > _MAX_INT:
            self.refuse(f"has a chunk of {value} bytes")
        return value

    def _indexes(self, document: Any) -> Mapping[IndexType, tuple[int, int]]:
        named = self.field(document, "segmentIndexes", dict)
        found = {}
        for name, index_type in INDEX_NAMES.items():
            if index_type is IndexType.TRANSACTION and named.get(name) is None:
                continue
            index = self.field(named, name, dict)
            found[index_type] = self._number(index, "position"), self._number(index, "size")
        return MappingProxyType(found)

    def field(self, document: Any, name: str, kind: type) -> Any:
        """
        Return a field of an object.

        :param document: the object.
        :param name: of the field.
        :param kind: what it must be.
        :raises DamagedObjectError: if it is not.
        """
        value = document.get(name) if isinstance(document, dict) else None
        if not isinstance(value, kind):
            self.refuse(f"has no {kind.__name__} named {name}")
        return value

    def _number(self, document: dict[str, Any], name: str) -> int:
        value = document.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MAX_INT:
            self.refuse(f"has no number from 0 to {_MAX_INT} named {name}")
        return value

    def refuse(self, what: str, position: int = 0) -> NoReturn:
        """
        Refuse the manifest.

        :param what: what is wrong, as it follows its name.
        :param position: first byte that is in doubt.
        :raises DamagedObjectError: always.
        """
        raise DamagedObjectError(f"manifest {self._location} {what}", self._location, position)

    def _unsupported(self, what: str) -> UnsupportedMessageFormatError:
        return UnsupportedMessageFormatError(f"manifest {self._location} {what}")
