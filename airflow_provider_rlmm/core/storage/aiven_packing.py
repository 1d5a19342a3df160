# SPDX-License-Identifier: Apache-2.0
"""
Segments as Aiven's tiered-storage plugin packs them: three objects each, written in the plugin's own order.

How the plugin is set is not told: brokers withhold it. So the newest copies that brokers have made are asked: their
manifests say how a log is cut and whether chunks are compressed, their custom metadata which fields are kept.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

from airflow_provider_rlmm.core.base.errors import (
    ConfigurationError,
    DamagedObjectError,
    MalformedMetadataError,
    RemoteObjectNotFoundError,
    UnsafeObjectKeyError,
    UnsupportedMessageFormatError,
)
from airflow_provider_rlmm.core.base.quoting import in_quotes
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata, kafka_uuid_str
from airflow_provider_rlmm.core.storage.aiven_files import manifest_at
from airflow_provider_rlmm.core.storage.aiven_manifest import INDEX_NAMES
from airflow_provider_rlmm.core.storage.aiven_metadata import (
    AivenCustomMetadata,
    read_custom_metadata,
    write_custom_metadata,
)
from airflow_provider_rlmm.core.storage.layout import LET_BROKERS_COPY, Layout
from airflow_provider_rlmm.core.storage.segment_files import LogSegmentData, ReadObject
from airflow_provider_rlmm.core.storage.uploads import ObjectContent, chunks_of

LOOKED_AT: Final = 5
"""Manifests that are read, the newest ones: brokers need not be set alike."""

MOST_ASKED_FOR: Final = 200
"""Copies whose manifests are asked for: those that were deleted since, or lie at a former place, show nothing."""

MAX_CHUNK_BYTES: Final = 2**28
"""The largest ``chunk.size`` that is copied with: one chunk is in memory, as it is and compressed."""

_CHUNK_SIZE: Final = "chunk.size"
_COMPRESSION: Final = "compression.enabled"
_ENCRYPTION: Final = "encryption.enabled"
_MOST_BESIDE_LOG: Final = 64 * 2**20
"""Bytes of indexes and manifest of a segment, generously: they count by the digits of a sum."""

_FIELDS: Final = "custom.metadata.fields.include"
_PROPERTIES: Final = (_CHUNK_SIZE, _COMPRESSION, _ENCRYPTION, _FIELDS)
_FIELD_NAMES: Final = {"REMOTE_SIZE": "remote_size", "OBJECT_PREFIX": "object_prefix", "OBJECT_KEY": "object_key"}

_ZSTD_LEVEL: Final = 3  # as the plugin's library by default


@dataclass(frozen=True, slots=True)
class AivenPacking:
    """How the plugin is set."""

    chunk_size: int  # bytes of a log in each chunk but the last (``chunk.size``)
    compressed: bool  # whether each chunk is a zstd frame (``compression.enabled``)
    # Fields of the custom metadata that are kept (``custom.metadata.fields.include``).
    kept: frozenset[str] = frozenset()

    @property
    def text(self) -> str:
        """It, as :func:`packing_of` reads it."""
        fields = ",".join(name for name, kept in _FIELD_NAMES.items() if kept in self.kept)
        shown = f"{_CHUNK_SIZE}={self.chunk_size} {_COMPRESSION}={str(self.compressed).lower()}"
        return f"{shown} {_FIELDS}={fields}" if fields else shown


def packing_of(text: str) -> AivenPacking:
    """
    Read how the plugin is set.

    :param text: some of its properties, as ``chunk.size=4194304 compression.enabled=true
        custom.metadata.fields.include=REMOTE_SIZE,OBJECT_KEY``; ``chunk.size`` is needed.
    :raises ConfigurationError: naming what cannot be understood, or copied so.
    """
    said: dict[str, str] = {}
    for word in text.split():
        name, equals, value = word.partition("=")
        if not equals or name not in _PROPERTIES or name in said:
            raise _not_understood(word, f"is none of {', '.join(f'{known}=…' for known in _PROPERTIES)}, each once")
        said[name] = value
    for name in (_COMPRESSION, _ENCRYPTION):
        if said.get(name, "false") not in ("true", "false"):
            raise _not_understood(f"{name}={said[name]}", "is neither true nor false")
    if said.get(_ENCRYPTION) == "true":
        raise _refused(
            f"plugin_settings say that segments are encrypted ({_ENCRYPTION}), and the keys are with the brokers"
        )
    size, fields = said.get(_CHUNK_SIZE, ""), set(filter(None, said.get(_FIELDS, "").split(",")))
    if not size.isascii() or not size.isdigit() or not 0 < int(size) <= MAX_CHUNK_BYTES:
        raise _not_understood(f"{_CHUNK_SIZE}={size}", f"is no number from 1 to {MAX_CHUNK_BYTES}")
    if unknown := fields - _FIELD_NAMES.keys():
        raise _not_understood(min(unknown), f"is none of {', '.join(_FIELD_NAMES)}")
    return AivenPacking(int(size), said.get(_COMPRESSION) == "true", frozenset(_FIELD_NAMES[name] for name in fields))


def _not_understood(what: str, why: str) -> ConfigurationError:
    return ConfigurationError(f"plugin_settings: {in_quotes(what)} {why}")


def learn_packing(
    layout: Layout,
    read: ReadObject,
    copies: Iterable[RemoteLogSegmentMetadata],
    said: AivenPacking | None = None,
) -> AivenPacking:
    """
    Return how the plugin is set, as the newest copies at the place that is written to show it.

    :param layout: where objects lie.
    :param read: reads an object.
    :param copies: copied segments, the newest first; those that this package has made show nothing.
    :param said: what the settings say of it: it counts where no copy tells, and must not contradict the newest.
    :raises ConfigurationError: if a copy is encrypted, cannot be read or contradicts, or nothing tells.
    :raises StorageError: if storage does not answer.
    """
    found: list[AivenPacking] = []
    of_brokers = (metadata for metadata in copies if metadata.broker_id >= 0)
    for metadata in islice(of_brokers, MOST_ASKED_FOR):
        if (key := _manifest_key(layout, metadata)) is None:
            continue
        try:
            manifest = manifest_at(read, key, metadata)
            custom = read_custom_metadata(metadata.custom_metadata)
        except RemoteObjectNotFoundError:
            # Deleted since the log was read, or at a former place.
            continue
        except (UnsupportedMessageFormatError, DamagedObjectError, MalformedMetadataError) as e:
            raise _refused(str(e)) from e
        if manifest.compressed and manifest.chunk_size > MAX_CHUNK_BYTES:
            raise _refused(
                f"{key} has chunks of {manifest.chunk_size} bytes, and no more than {MAX_CHUNK_BYTES} are compressed"
            )
        kept = frozenset(name for name in _FIELD_NAMES.values() if getattr(custom, name) is not None)
        found.append(AivenPacking(manifest.chunk_size, manifest.compressed, kept))
        if len(found) == LOOKED_AT:
            break
    if not found:
        if said is None:
            raise _refused(
                "no copy of a broker shows how its plugin is set: chunks, compression, encryption",
                "Say it in plugin_settings",
            )
        return said
    if said is not None and said.text != found[0].text:
        raise _refused(
            f"plugin_settings say {said.text}, and the newest copy of a broker shows {found[0].text}",
            "Mend plugin_settings",
        )
    return found[0]


def _refused(why: str, helps: str = "") -> ConfigurationError:
    others = f"{helps}, or {LET_BROKERS_COPY[0].lower()}{LET_BROKERS_COPY[1:]}" if helps else LET_BROKERS_COPY
    return ConfigurationError(f"nothing can be copied into the storage layout aiven: {why}. {others}")


def _manifest_key(layout: Layout, metadata: RemoteLogSegmentMetadata) -> str | None:
    """Return the key of a segment's manifest at the place that is written to, ``None`` where its copy is elsewhere."""
    try:
        place = layout.places[0]
        return f"{layout.segment_stem(metadata, place)}.rsm-manifest" if place in layout.places_of(metadata) else None
    except UnsafeObjectKeyError:
        # A record that lies; the doctor tells of it.
        return None


class AivenPacker:
    """
    A :class:`~airflow_provider_rlmm.core.storage.segment_files.SegmentPacker` for the plugin's layout.

    :param layout: where objects lie.
    :param prefix: the plugin's ``key.prefix``.
    :param packing: how it is set.
    """

    def __init__(self, layout: Layout, prefix: str, packing: AivenPacking) -> None:
        self._layout = layout
        self._prefix = prefix
        self._packing = packing

    def objects(
        self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData
    ) -> Generator[tuple[str, ObjectContent], None, bytes | None]:
        """Yield log, indexes and manifest: where there is a manifest the copy is whole."""
        stem = self._layout.segment_stem(metadata, self._layout.places[0])
        chunks: list[int] = []
        yield (
            f"{stem}.log",
            self._compressed(data.log_segment, chunks) if self._packing.compressed else data.log_segment,
        )
        places, indexes = _joined(data)
        yield f"{stem}.indexes", indexes
        manifest = self._manifest(metadata, places, chunks)
        yield f"{stem}.rsm-manifest", manifest
        log_bytes = sum(chunks) if self._packing.compressed else metadata.segment_size_in_bytes
        return self._custom_metadata(stem, log_bytes + len(indexes) + len(manifest))

    def most_custom_metadata_bytes(self, metadata: RemoteLogSegmentMetadata) -> int:
        """See :class:`~airflow_provider_rlmm.core.storage.segment_files.SegmentPacker`; only the size is not known yet."""
        stem = self._layout.segment_stem(metadata, self._layout.places[0])
        return len(self._custom_metadata(stem, 2 * metadata.segment_size_in_bytes + _MOST_BESIDE_LOG) or b"")

    def _custom_metadata(self, stem: str, remote_size: int) -> bytes | None:
        whole: dict[str, Any] = {
            "remote_size": remote_size, "object_prefix": self._prefix, "object_key": stem.removeprefix(self._prefix)
        }  # fmt: skip
        return write_custom_metadata(AivenCustomMetadata(**{name: whole[name] for name in self._packing.kept}))

    def _compressed(self, log: Path, sizes: list[int]) -> Iterator[bytes]:
        """Yield the chunks of a log as zstd frames, and note their sizes."""
        import pyarrow as pa

        codec = pa.Codec("zstd", compression_level=_ZSTD_LEVEL)
        for chunk in chunks_of(log, self._packing.chunk_size):
            frame = codec.compress(chunk, asbytes=True)
            sizes.append(len(frame))
            yield frame

    def _manifest(self, metadata: RemoteLogSegmentMetadata, places: Mapping[str, Any], chunks: Sequence[int]) -> bytes:
        segment, tip = metadata.remote_log_segment_id, metadata.remote_log_segment_id.topic_id_partition
        document = {
            "version": "1",
            "chunkIndex": self._chunk_index(metadata.segment_size_in_bytes, chunks),
            "segmentIndexes": places,
            "compression": self._packing.compressed,
            "remoteLogSegmentMetadata": {
                "remoteLogSegmentId": {
                    "topicIdPartition": {
                        "topicId": kafka_uuid_str(tip.topic_id),
                        "topicPartition": {"topic": tip.topic, "partition": tip.partition},
                    },
                    "id": kafka_uuid_str(segment.id),
                },
                "startOffset": metadata.start_offset,
                "endOffset": metadata.end_offset,
                "maxTimestampMs": metadata.max_timestamp_ms,
                "brokerId": metadata.broker_id,
                "eventTimestampMs": metadata.event_timestamp_ms,
                "segmentLeaderEpochs": {str(epoch): start for epoch, start in metadata.segment_leader_epochs},
                "txnIdxEmpty": metadata.txn_idx_empty,
            },
        }
        return json.dumps(document, separators=(",", ":")).encode()

    def _chunk_index(self, size: int, chunks: Sequence[int]) -> dict[str, Any]:
        chunk_size = self._packing.chunk_size
        cut = {"originalChunkSize": chunk_size, "originalFileSize": size}
        if self._packing.compressed:
            return {"type": "variable", **cut, "transformedChunks": packed_chunk_sizes(chunks)}
        last = size % chunk_size or chunk_size
        return {"type": "fixed", **cut, "transformedChunkSize": chunk_size, "finalTransformedChunkSize": last}


def _joined(data: LogSegmentData) -> tuple[dict[str, Any], bytes]:
    """Return where each index lies among all of them, and all of them."""
    indexes = data.indexes
    parts = {name: _bytes_of(indexes.get(kind)) for name, kind in INDEX_NAMES.items()}
    places: dict[str, Any] = {}
    position = 0
    for name, content in parts.items():
        places[name] = None if content is None else {"position": position, "size": len(content)}
        position += len(content or b"")
    return places, b"".join(content for content in parts.values() if content is not None)


def _bytes_of(content: Path | bytes | None) -> bytes | None:
    return content.read_bytes() if isinstance(content, Path) else content


def packed_chunk_sizes(sizes: Sequence[int]) -> str:
    """
    Return the sizes of chunks as a manifest has them: their count, the least of all but the last, the width of what the
    others have above it, these, and the last one; compressed with zstd, in base64.

    :param sizes: bytes of each chunk, at least one.
    """
    import pyarrow as pa

    *first, last = sizes
    packed = len(sizes).to_bytes(4)
    if first:
        least = min(first)
        width = max(1, -(-(max(first) - least).bit_length() // 8))
        packed += least.to_bytes(4) + bytes([width]) + b"".join((size - least).to_bytes(width) for size in first)
    packed += last.to_bytes(4)
    return base64.b64encode(pa.Codec("zstd").compress(packed, asbytes=True)).decode()
