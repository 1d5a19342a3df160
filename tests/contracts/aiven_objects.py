# SPDX-License-Identifier: Apache-2.0
"""Objects of segments as Aiven's plugin packs them: written from its format, for tests."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata, kafka_uuid_str
from airflow_provider_rlmm.core.storage.index_type import IndexType

NAMES = {
    IndexType.OFFSET: "offset",
    IndexType.TIMESTAMP: "timestamp",
    IndexType.PRODUCER_SNAPSHOT: "producerSnapshot",
    IndexType.LEADER_EPOCH: "leaderEpoch",
    IndexType.TRANSACTION: "transaction",
}


@dataclass(frozen=True)
class SegmentContents:
    """The files of a segment on a broker's disk."""

    log: bytes = b"0123456789"
    indexes: Mapping[IndexType, bytes] = field(
        default_factory=lambda: {
            IndexType.OFFSET: b"",
            IndexType.TIMESTAMP: b"time",
            IndexType.PRODUCER_SNAPSHOT: b"snapshot",
            IndexType.LEADER_EPOCH: b"0\n1\n0 0\n",
        }
    )


@dataclass(frozen=True)
class AivenPacking:
    """How the plugin is set."""

    chunk_size: int = 4
    compressed: bool = False
    variable: bool = False

    def __call__(self, stem: str, metadata: RemoteLogSegmentMetadata, contents: SegmentContents) -> dict[str, bytes]:
        """Return the objects of a segment."""
        chunks = [contents.log[at : at + self.chunk_size] for at in range(0, len(contents.log), self.chunk_size)]
        if self.compressed:
            chunks = [pa.Codec("zstd").compress(chunk, asbytes=True) for chunk in chunks]
        return {
            f"{stem}.log": b"".join(chunks),
            f"{stem}.indexes": b"".join(contents.indexes.values()),
            f"{stem}.rsm-manifest": json.dumps(self.manifest(metadata, contents, [len(c) for c in chunks])).encode(),
        }

    def manifest(
        self, metadata: RemoteLogSegmentMetadata, contents: SegmentContents, sizes: Sequence[int]
    ) -> dict[str, Any]:
        """Return the manifest, as it is before it becomes JSON."""
        index: dict[str, Any] = {
            "type": "variable" if self.variable else "fixed",
            "originalChunkSize": self.chunk_size,
            "originalFileSize": len(contents.log),
        }
        if self.variable:
            index["transformedChunks"] = base64.b64encode(
                pa.Codec("zstd").compress(packed_sizes(sizes), asbytes=True)
            ).decode()
        else:
            index |= {"transformedChunkSize": self.chunk_size, "finalTransformedChunkSize": sizes[-1] if sizes else 0}
        position, places = 0, {}
        for index_type, name in NAMES.items():
            if index_type in contents.indexes:
                places[name] = {"position": position, "size": len(contents.indexes[index_type])}
                position += len(contents.indexes[index_type])
        segment, partition = metadata.remote_log_segment_id, metadata.remote_log_segment_id.topic_id_partition
        return {
            "version": "1",
            "chunkIndex": index,
            "segmentIndexes": {**places, "transaction": places.get("transaction")},
            "compression": self.compressed,
            "remoteLogSegmentMetadata": {
                "remoteLogSegmentId": {
                    "topicIdPartition": {
                        "topicId": kafka_uuid_str(partition.topic_id),
                        "topicPartition": {"topic": partition.topic, "partition": partition.partition},
                    },
                    "id": kafka_uuid_str(segment.id),
                },
                "startOffset": metadata.start_offset,
                "endOffset": metadata.end_offset,
            },
        }


def packed_sizes(sizes: Sequence[int]) -> bytes:
    """Return sizes of chunks in the plugin's binary form, before zstd."""
    count = len(sizes).to_bytes(4)
    if len(sizes) < 2:
        return count + b"".join(size.to_bytes(4) for size in sizes)
    *first, last = sizes
    least = min(first)
    rest = [size - least for size in first]
    width = max(1, -(-max(rest).bit_length() // 8))
    return b"".join(
        (count, least.to_bytes(4), bytes([width]), *(value.to_bytes(width) for value in rest), last.to_bytes(4))
    )
