# SPDX-License-Identifier: Apache-2.0
"""
Remote storage as a layout over a handful of calls to a store: everything but the calls themselves.

The real store and the in-memory fake differ only in :class:`ObjectCalls`, so what is proved with the fake holds for the
code that runs in production.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol
from uuid import UUID

from airflow_provider_rlmm.errors import (
    RemoteObjectNotFoundError,
    StorageError,
    StorageRootError,
    StorageUnavailableError,
)
from airflow_provider_rlmm.metadata.records import RemoteLogSegmentMetadata, TopicIdPartition, kafka_uuid_str
from airflow_provider_rlmm.storage.deletion import DeletionBatch
from airflow_provider_rlmm.storage.layouts import Layout
from airflow_provider_rlmm.storage.remote_storage import (
    DeletionReport,
    IndexType,
    LogSegmentData,
    RootCheck,
    SegmentDeletion,
    StoredObject,
)

logger = logging.getLogger(__name__)

STAMP_KEY: Final = "airflow-provider-rlmm.json"
"""The object at the storage root that says for which cluster the root was verified."""

_REPLACED: Final = (
    "the storage root is not the one that this run began with, it was unmounted or replaced: nothing more is deleted or "
    "declared deleted; bring it back and run again"
)


@dataclass(frozen=True, slots=True)
class DeleteCalls:
    """
    What a store answered to a deletion. It proves nothing: a listing does.

    :param failures: key → why the store says that it was not deleted.
    :param calls: calls made.
    """

    failures: Mapping[str, str]
    calls: int


class ObjectCalls(Protocol):
    """
    The calls to a store. All keys are relative to the storage root.

    Every method raises :class:`~airflow_provider_rlmm.errors.StorageError` or a class below it where the store fails.
    """

    def root_identity(self) -> object:
        """
        Return something that changes when another root takes the place of this one, for example by an unmount.

        :raises StorageRootError: if the root does not exist.
        """
        ...

    def objects(self, prefix: str, after: str | None = None) -> Iterator[StoredObject]:
        """
        List the objects below a prefix, however deep, in any order.

        :param prefix: empty, or ending in ``/``.
        :param after: leave out keys up to this one, inclusive.
        """
        ...

    def directories(self, prefix: str) -> Sequence[str]:
        """
        List the directories right below a prefix, without trailing ``/``.

        :param prefix: ends in ``/``.
        """
        ...

    def delete(self, keys: Sequence[str]) -> DeleteCalls:
        """
        Delete objects; one that fails does not stop the others, and a missing one is no failure.

        :param keys: keys of objects.
        """
        ...

    def put(self, key: str, data: bytes | Path) -> None:
        """
        Write an object, replacing an older one.

        :param key: its key.
        :param data: its content, or the file to stream it from.
        """
        ...

    def get(self, key: str, start: int = 0, end: int | None = None) -> bytes:
        """
        Read an object; a range beyond its end yields what there is of it.

        :param key: its key.
        :param start: first byte, inclusive.
        :param end: last byte, inclusive; ``None`` means to the end.
        :raises RemoteObjectNotFoundError: if it does not exist.
        """
        ...


class LayoutRemoteStorageManager:
    """
    A :class:`~airflow_provider_rlmm.storage.remote_storage.RemoteStorageManager` for any layout over any store.

    :param calls: the store.
    :param layout: where the objects of a segment lie.
    """

    def __init__(self, calls: ObjectCalls, layout: Layout) -> None:
        self._calls = calls
        self._layout = layout
        self._checked_root: tuple[object] | None = None

    def copy_log_segment_data(self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData) -> bytes | None:
        """
        Copy all files of a segment, the log last, so that a listed log means that its indexes are there.

        :param metadata: the segment.
        :param data: its local files.
        :raises FileNotFoundError: if a local file is missing; nothing was copied then.
        """
        sources: list[tuple[IndexType | None, bytes | Path]] = [
            (IndexType.OFFSET, data.offset_index),
            (IndexType.TIMESTAMP, data.time_index),
            (IndexType.PRODUCER_SNAPSHOT, data.producer_snapshot_index),
            (IndexType.LEADER_EPOCH, data.leader_epoch_index),
            (None, data.log_segment),
        ]
        if data.transaction_index is not None:
            sources.insert(0, (IndexType.TRANSACTION, data.transaction_index))
        for _, source in sources:
            if isinstance(source, Path) and not source.is_file():
                raise FileNotFoundError(f"{source} of segment {metadata.remote_log_segment_id} is no file")
        self._calls.root_identity()
        for index_type, source in sources:
            self._calls.put(self._layout.object_key(metadata, index_type), source)
        return None

    def fetch_log_segment(
        self, metadata: RemoteLogSegmentMetadata, start_position: int, end_position: int | None = None
    ) -> bytes:
        """
        Read bytes of the log file; a range that reaches beyond its end yields what there is.

        :param metadata: the segment.
        :param start_position: first byte, inclusive.
        :param end_position: last byte, inclusive; ``None`` means to the end.
        :raises RemoteObjectNotFoundError: if the log object is missing.
        :raises ValueError: if the range is negative or reversed.
        """
        if start_position < 0 or (end_position is not None and end_position < start_position):
            raise ValueError(f"no byte range: {start_position}..{end_position}")
        key = self._layout.object_key(metadata, None)
        self._calls.root_identity()
        return self._calls.get(key, start_position, end_position)

    def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        """
        Read one index of a segment.

        :param metadata: the segment.
        :param index_type: which index.
        :raises RemoteObjectNotFoundError: if it is missing.
        """
        key = self._layout.object_key(metadata, index_type)
        self._calls.root_identity()
        return self._calls.get(key)

    def delete_log_segment_data(self, metadata: RemoteLogSegmentMetadata) -> SegmentDeletion:
        """
        Delete all objects of one segment; see :meth:`delete_log_segments`.

        :param metadata: the segment.
        """
        return self.delete_log_segments([metadata]).segments[0]

    def delete_log_segments(self, metadatas: Sequence[RemoteLogSegmentMetadata]) -> DeletionReport:
        """
        Delete all objects of many segments in bulk and confirm by listing.

        Each user partition is listed once before and, if anything was deleted, once after. Listings start at the
        batch's lowest start offset: going through a long user partition from its end keeps them short.

        :param metadatas: segments of any user partitions, each once.
        :raises UnsafeObjectKeyError: if a key would leave the layout's prefix; nothing was touched then.
        :raises StorageUnavailableError: if the listing before the deletion fails; nothing was touched then.
        """
        batch = DeletionBatch(self._layout, metadatas)
        listings = batch.listings
        with self._steady_root() as root:
            for prefix, after in listings.items():
                batch.see_before(self._calls.objects(prefix, after))
        keys = batch.keys_to_delete()
        if not keys:
            return DeletionReport(batch.outcomes_untouched(), len(listings))
        deletion = self._calls.delete(keys)
        calls = len(listings) + deletion.calls
        left: list[StoredObject] = []
        try:
            for prefix, after in listings.items():
                calls += 1
                left.extend(self._calls.objects(prefix, after))
            self._require_same_root(root)
        except StorageError as e:
            logger.warning("The listing after a deletion of %d objects failed: %s", len(keys), e)
            return DeletionReport(batch.outcomes_unknown(f"not confirmed by a listing: {e}"), calls)
        return DeletionReport(batch.outcomes_after(left, deletion.failures), calls)

    def list_log_segments(self, topic_id_partition: TopicIdPartition) -> Mapping[UUID, tuple[StoredObject, ...]]:
        """
        List what the store holds for a user partition: segment id → its objects, by key, of any suffix.

        :param topic_id_partition: the user partition; an absent one has no objects, which is no error.
        """
        prefix = self._layout.partition_prefix(topic_id_partition)
        found: dict[UUID, list[StoredObject]] = {}
        with self._steady_root():
            for stored in self._calls.objects(prefix):
                parsed = self._layout.parse(stored.key)
                if parsed is not None and parsed.remote_log_segment_id.topic_id_partition == topic_id_partition:
                    found.setdefault(parsed.segment_id, []).append(stored)
        return {segment_id: tuple(sorted(objects, key=_key)) for segment_id, objects in found.items()}

    def list_objects(self) -> Sequence[StoredObject]:
        """List every object below the root except this package's own stamp, by key."""
        self._calls.root_identity()
        return sorted((stored for stored in self._calls.objects("") if stored.key != STAMP_KEY), key=_key)

    def check_root(self, topic_ids: frozenset[UUID], cluster_id: str) -> RootCheck:
        """
        Tell whether the root belongs to the cluster: by its stamp, or by an object of one of the topic ids.

        From here on no listing of another root is believed, should one take the place of this one.

        :param topic_ids: topic ids that the metadata topic names.
        :param cluster_id: id of the cluster.
        """
        self._checked_root = (self._calls.root_identity(),)
        stamp = self._read_stamp()
        own = self._stamp_for(cluster_id)
        if stamp == own:
            if self._may_be_unmounted():
                why = f"{STAMP_KEY} names this cluster, but {self._layout.prefix} beside it holds not even a directory"
                return RootCheck(False, f"{why}: nothing may be mounted there")
            return RootCheck(True, f"{STAMP_KEY} names cluster {cluster_id} and layout {self._layout.name}")
        if stamp is not None:
            return RootCheck(False, f"{STAMP_KEY} is that of {_described(stamp)}, not of {_described(own)}")
        for directory in self._calls.directories(self._layout.prefix):
            if self._layout.topic_id_of_directory(directory) not in topic_ids:
                continue
            for stored in self._calls.objects(f"{directory}/"):
                parsed = self._layout.parse(stored.key)
                if parsed is not None and parsed.topic_id in topic_ids:
                    return RootCheck(True, f"{stored.key} is of topic id {kafka_uuid_str(parsed.topic_id)}")
        return RootCheck(
            False,
            f"neither {STAMP_KEY} nor an object below {self._layout.prefix} of any of the {len(topic_ids)} topic ids "
            "known from the metadata topic was seen",
        )

    def stamp_root(self, cluster_id: str) -> None:
        """
        Say at the root that it was verified for the cluster and layout; repeating it changes nothing.

        :param cluster_id: id of the cluster.
        :raises StorageRootError: if the stamp of another cluster or layout lies there.
        """
        self._calls.root_identity()
        stamp, own = self._read_stamp(), self._stamp_for(cluster_id)
        if stamp is None:
            self._calls.put(STAMP_KEY, json.dumps(own, sort_keys=True).encode())
        elif stamp != own:
            raise StorageRootError(
                f"{STAMP_KEY} is that of {_described(stamp)}, not of {_described(own)}: check the storage URI, and "
                "remove the object only if the other cluster does not use this root any more"
            )

    def _may_be_unmounted(self) -> bool:
        """
        Tell whether the stamp is all that can be seen, in a place where it need not share the objects' fate.

        The segments' prefix of a local root may be a mount point of its own. Objects that are deleted leave their
        directories behind there, so even after the last deletion a mounted one is not empty.
        """
        prefix = self._layout.prefix
        return bool(prefix) and self._calls.root_identity() is not None and not self._calls.directories(prefix)

    @contextmanager
    def _steady_root(self) -> Iterator[object]:
        """
        Put this around a listing: a root that is unmounted or replaced lists as empty, and all would look deleted.

        :raises StorageRootError: if the root is not the one of :meth:`check_root`, or changes within the block.
        """
        root = self._calls.root_identity()
        if self._checked_root not in (None, (root,)):
            raise StorageRootError(_REPLACED)
        yield root
        if self._calls.root_identity() != root:
            raise StorageRootError(_REPLACED)

    def _stamp_for(self, cluster_id: str) -> Mapping[str, str]:
        return {"cluster_id": cluster_id, "layout": self._layout.name}

    def _read_stamp(self) -> Mapping[str, str] | None:
        try:
            raw = self._calls.get(STAMP_KEY)
        except RemoteObjectNotFoundError:
            return None
        try:
            stamp = json.loads(raw)
        except ValueError:
            stamp = None
        # An unreadable stamp is nobody's: it must neither verify the root nor be overwritten.
        return stamp if isinstance(stamp, dict) else MappingProxyType({})

    def _require_same_root(self, root: object) -> None:
        # An unmounted root lists as empty, which would make everything look deleted.
        if self._calls.root_identity() != root:
            raise StorageUnavailableError("the storage root was replaced while objects were deleted")


def _key(stored: StoredObject) -> str:
    return stored.key


def _described(stamp: Mapping[str, str]) -> str:
    return f"cluster {stamp.get('cluster_id', '?')} with layout {stamp.get('layout', '?')}"
