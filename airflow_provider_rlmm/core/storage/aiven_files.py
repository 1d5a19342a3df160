# SPDX-License-Identifier: Apache-2.0
"""
The files of segments out of the objects of Aiven's tiered-storage plugin, by their manifests.

Custom metadata that names a prefix says where the copy lies. Any other copy lies where its manifest is found: below the
prefix of now, or below a former one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from threading import Lock
from typing import Final

from airflow_provider_rlmm.core.base.errors import DamagedObjectError, RemoteObjectNotFoundError
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata
from airflow_provider_rlmm.core.storage.aiven_manifest import MAX_MANIFEST_BYTES, AivenManifest, read_manifest
from airflow_provider_rlmm.core.storage.index_type import IndexType
from airflow_provider_rlmm.core.storage.layout import Layout
from airflow_provider_rlmm.core.storage.segment_files import ReadObject

_KEPT_MANIFESTS: Final = 256
"""Manifests that are kept: with chunks of 1 MiB one says 2,048 numbers at most."""


def manifest_at(read: ReadObject, key: str, metadata: RemoteLogSegmentMetadata) -> AivenManifest:
    """
    Read the manifest of a segment out of its object.

    :param read: reads an object.
    :param key: of the object.
    :param metadata: the segment.
    :raises RemoteObjectNotFoundError: if there is no such object.
    :raises DamagedObjectError: as :func:`~airflow_provider_rlmm.core.storage.aiven_manifest.read_manifest`.
    :raises UnsupportedMessageFormatError: likewise.
    """
    # One byte more than there may be: what is too large is told from what is whole.
    return read_manifest(read(key, 0, MAX_MANIFEST_BYTES), key, metadata)


class AivenFiles:
    """
    Files of segments that the plugin has packed.

    Manifests that were read are kept, as is the last chunk: the next read mostly goes on in it.

    :param layout: where the objects lie.
    :param read: reads an object.
    """

    def __init__(self, layout: Layout, read: ReadObject) -> None:
        self._layout = layout
        self._read = read
        self._lock = Lock()
        self._manifests: OrderedDict[tuple[RemoteLogSegmentMetadata, str], AivenManifest] = OrderedDict()
        self._last_chunk: tuple[str, int, bytes] = ("", 0, b"")

    def log(self, metadata: RemoteLogSegmentMetadata, start: int, end: int | None) -> bytes:
        """See :class:`~airflow_provider_rlmm.core.storage.segment_files.SegmentFiles`."""
        stem, manifest = self._manifest(metadata)
        key = f"{stem}.log"
        stop = manifest.log_size if end is None else min(end + 1, manifest.log_size)
        if start >= stop:
            return b""
        if not manifest.compressed:
            return self._whole(key, start, stop)
        first, last = start // manifest.chunk_size, (stop - 1) // manifest.chunk_size
        data = b"".join(self._chunks(key, manifest, first, last))
        skipped = first * manifest.chunk_size
        return data[start - skipped : stop - skipped]

    def index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        """See :class:`~airflow_provider_rlmm.core.storage.segment_files.SegmentFiles`."""
        stem, manifest = self._manifest(metadata)
        key = f"{stem}.indexes"
        if index_type not in manifest.indexes:
            raise RemoteObjectNotFoundError(
                f"cannot read the {index_type} index of {key}: {stem}.rsm-manifest names none"
            )
        position, size = manifest.indexes[index_type]
        return self._whole(key, position, position + size) if size else b""

    def _manifest(self, metadata: RemoteLogSegmentMetadata) -> tuple[str, AivenManifest]:
        """Return the manifest of a segment, and what its keys begin with."""
        stems = [self._layout.segment_stem(metadata, place) for place in self._layout.places_of(metadata)]
        with self._lock:
            for stem in stems:
                if (known := self._manifests.get((metadata, stem))) is not None:
                    self._manifests.move_to_end((metadata, stem))
                    return stem, known
        for stem in stems:
            key = f"{stem}.rsm-manifest"
            try:
                found = manifest_at(self._read, key, metadata)
            except RemoteObjectNotFoundError:
                continue
            with self._lock:
                self._manifests[metadata, stem] = found
                if len(self._manifests) > _KEPT_MANIFESTS:
                    self._manifests.popitem(last=False)
            return stem, found
        where = " or ".join(f"{stem}.rsm-manifest" for stem in stems)
        raise RemoteObjectNotFoundError(f"cannot read {where}: no such object")

    def _chunks(self, key: str, manifest: AivenManifest, first: int, last: int) -> Iterator[bytes]:
        """Yield the chunks from ``first`` to ``last``, both inclusive, as they were before they were compressed."""
        known_key, known, content = self._last_chunk
        if (known_key, known) == (key, first):
            yield content
            first += 1
        if first > last:
            return
        start, stop = manifest.chunk_bytes(first)[0], manifest.chunk_bytes(last)[1]
        packed = memoryview(self._whole(key, start, stop))
        for chunk in range(first, last + 1):
            begin, behind = manifest.chunk_bytes(chunk)
            content = _unpacked(packed[begin - start : behind - start], manifest.size_of(chunk), key, begin)
            yield content
        self._last_chunk = (key, last, content)

    def _whole(self, key: str, start: int, stop: int) -> bytes:
        """Return the bytes from ``start`` up to ``stop``, exclusive, all of which must be there."""
        data = self._read(key, start, stop - 1)
        if len(data) != stop - start:
            ends = start + len(data)
            raise DamagedObjectError(f"{key} ends at byte {ends}, and its manifest names bytes up to {stop}", key, ends)
        return data


def _unpacked(packed: memoryview, size: int, key: str, position: int) -> bytes:
    import pyarrow as pa

    try:
        # The size is a limit: a frame of any other size is refused.
        return bytes(pa.Codec("zstd").decompress(packed, decompressed_size=size, asbytes=True))
    except OSError as e:
        raise DamagedObjectError(
            f"the chunk at byte {position} of {key} is no zstd frame of {size} bytes ({e})", key, position
        ) from None
