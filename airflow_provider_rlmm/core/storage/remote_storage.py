# SPDX-License-Identifier: Apache-2.0
"""
The seam to remote storage (KIP-405: ``RemoteStorageManager``), with outcomes that cannot lie about a deletion.

Stores report success for keys that never existed. So a deletion here ends in one of four outcomes, and only a listing
may say that an object is gone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol
from uuid import UUID

from airflow_provider_rlmm.core.records.records import RemoteLogSegmentId, RemoteLogSegmentMetadata, TopicIdPartition
from airflow_provider_rlmm.core.storage.hidden_copies import DeletionEffect
from airflow_provider_rlmm.core.storage.index_type import IndexType
from airflow_provider_rlmm.core.storage.layout import Layout
from airflow_provider_rlmm.core.storage.root import UNKNOWN_ROOT, RootCheck, RootExpectation, StampResult
from airflow_provider_rlmm.core.storage.segment_files import LogSegmentData
from airflow_provider_rlmm.core.storage.uploads import BeforeChunk

__all__ = [
    "DeleteOutcome",
    "DeletionReport",
    "Folder",
    "FolderState",
    "RemoteStorageManager",
    "SegmentDeletion",
    "SegmentStorage",
    "StoredObject",
]


class DeleteOutcome(StrEnum):
    """What is known about all objects of a segment after a deletion."""

    GONE = "gone"
    """At least one object was seen by a listing of this call before the delete, none by the listing after it."""

    PRESENT = "present"
    """At least one object is still listed."""

    UNKNOWN = "unknown"
    """The listing after the delete failed or was cut short: nothing may be concluded."""

    NEVER_SEEN = "never_seen"
    """No object of the segment was listed before the delete, so nothing proves that this is the right place."""


class StoredObject(NamedTuple):
    """
    An object in the store.

    :param key: key below the store's root.
    :param size: bytes.
    :param last_modified_ms: the store's own time, ms since the epoch.
    """

    key: str
    size: int
    last_modified_ms: int


class FolderState(StrEnum):
    """What a walk through the storage knows of a folder; of two above each other the deeper one tells."""

    WHOLE = "whole"
    """All that lies there was listed."""

    BROKEN = "broken"
    """Its listing failed or ended early: what was not seen there may be there."""

    FOREIGN = "foreign"
    """It is of no topic of this layout, and was not looked into."""

    AGAIN = "again"
    """Its listing failed, and it is listed anew: what the walk has met there so far comes again, as far as it can be seen."""

    UNSEEN = "unseen"
    """It does not name a topic, and it is not known whether it holds folders that do: it is of no topic for all we know."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder that a walk through the storage has met."""

    prefix: str  # empty, or ending in ``/``
    state: FolderState  # what is known of it
    why: str = ""  # what the store said, where it is broken or unseen


@dataclass(frozen=True, slots=True)
class SegmentDeletion:
    """
    What became of one segment's objects.

    :param remote_log_segment_id: the segment.
    :param outcome: what is known about all its objects together.
    :param objects_deleted: objects seen before and not seen after.
    :param bytes_deleted: their sizes, summed.
    :param reasons: key → why it is still there or why nothing is known; empty when GONE.
    :param sent: keys that a delete call of ours was made for, answered or not. A segment that is ``NEVER_SEEN`` although
        a listing of this run had shown it was deleted by another program, by such a call, or not at all.
    :param throttled: whether all that is left is left because the store throttled or did not answer: that passes.
    """

    remote_log_segment_id: RemoteLogSegmentId
    outcome: DeleteOutcome
    objects_deleted: int
    bytes_deleted: int
    reasons: Mapping[str, str]
    sent: tuple[str, ...] = ()
    throttled: bool = False


@dataclass(frozen=True, slots=True)
class DeletionReport:
    """
    The answer of a bulk deletion: one entry per segment, in the order asked.

    :param segments: outcome per segment.
    :param calls: requests made to the store; each page of a listing is one.
    :param throttled: what the store said when the deletion was given up because it throttled or did not answer for too long;
        ``None`` where it was not.
    """

    segments: tuple[SegmentDeletion, ...]
    calls: int
    throttled: str | None = None


class SegmentStorage(Protocol):
    """What a reader asks: the files of segments. Errors are those of :class:`RemoteStorageManager`."""

    @property
    def layout(self) -> Layout:
        """Where the objects of a segment lie."""

    def fetch_log_segment(
        self, metadata: RemoteLogSegmentMetadata, start_position: int, end_position: int | None = None
    ) -> bytes:
        """
        Read bytes of the log file; a range that reaches beyond its end yields what there is.

        :param metadata: the segment.
        :param start_position: first byte, inclusive.
        :param end_position: last byte, inclusive; ``None`` means to the end.
        :raises RemoteObjectNotFoundError: if the log object is missing, or its manifest where the layout has one.
        :raises DamagedObjectError: if an object cannot be what its manifest says.
        :raises EncryptedSegmentError: if the segment is encrypted.
        :raises UnsupportedMessageFormatError: if it is packed in a way that is not known here.
        :raises ValueError: if the range is negative or reversed.
        """

    def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        """
        Read one index of a segment.

        :param metadata: the segment.
        :param index_type: which index.
        :raises RemoteObjectNotFoundError: if it is missing.
        :raises DamagedObjectError: as :meth:`fetch_log_segment`.
        :raises UnsupportedMessageFormatError: as :meth:`fetch_log_segment`.
        """


class RemoteStorageManager(SegmentStorage, Protocol):
    """
    Remote storage of one cluster under one layout.

    Every method raises :class:`~airflow_provider_rlmm.core.base.errors.StorageRootError` where the root does not exist,
    :class:`~airflow_provider_rlmm.core.base.errors.StorageAccessError` where the store forbids the call and
    :class:`~airflow_provider_rlmm.core.base.errors.StorageUnavailableError` where it does not answer; and
    :class:`~airflow_provider_rlmm.core.base.errors.UnsafeObjectKeyError`, before any call, for a segment or user partition
    whose name must not become a key.
    """

    @property
    def listings_at_once(self) -> int:
        """User partitions that may be listed at once, by threads of their own."""

    def copy_log_segment_data(
        self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData, before_chunk: BeforeChunk | None = None
    ) -> bytes | None:
        """
        Copy all files of a segment, in the order of the layout; repeating it overwrites. Of what fails, objects that were
        written before may stay: delete the segment's objects then.

        :param metadata: the segment.
        :param data: its local files.
        :param before_chunk: called with the bytes of each chunk before it is sent, by the thread of the caller. There a quota
            waits; what it raises cancels the copy and goes through.
        :return: custom metadata to publish with COPY_SEGMENT_FINISHED, ``None`` where the layout keeps none.
        :raises FileNotFoundError: if a local file is missing; nothing was copied then.
        :raises LogDirectoryError: if a local file cannot be read, or is written to meanwhile.
        :raises StorageFullError: if the store has no room left.
        :raises StorageRootError: if another root has taken the place of the one that was checked, also meanwhile.
        :raises ConfigurationError: if there is an :meth:`obstacle_to_copies`; nothing was copied then.
        """

    def learn_to_copy(self, copies: Iterable[RemoteLogSegmentMetadata]) -> None:
        """
        Learn what a copy has to look like, before the first is made.

        :param copies: copied segments, the newest first, asked for only where the layout has to look at some.
        :raises ConfigurationError: if nothing can be copied; it says why, and what to do.
        :raises StorageError: if storage does not answer.
        """

    def obstacle_to_copies(self) -> str | None:
        """Tell why no segment can be copied, and what to do; ``None`` where nothing more has to be known for it."""

    def most_custom_metadata_bytes(self, metadata: RemoteLogSegmentMetadata) -> int:
        """
        Return how large the custom metadata of a copy can be, bytes; before anything is copied.

        :param metadata: the segment.
        :raises ConfigurationError: if there is an :meth:`obstacle_to_copies`.
        """

    def fetch_object(self, key: str, start_position: int = 0, end_position: int | None = None) -> bytes:
        """
        Read bytes of an object as they lie there: packed, and encrypted where it is.

        :param key: of the object.
        :param start_position: first byte, inclusive; from its end on there is nothing.
        :param end_position: last byte, inclusive; ``None`` means to the end.
        :raises RemoteObjectNotFoundError: if it does not exist.
        """

    def delete_log_segment_data(self, metadata: RemoteLogSegmentMetadata) -> SegmentDeletion:
        """
        Delete all objects of one segment; see :meth:`delete_log_segments`.

        :param metadata: the segment.
        """

    def delete_log_segments(
        self, metadatas: Sequence[RemoteLogSegmentMetadata], others: Collection[str] | None = None
    ) -> DeletionReport:
        """
        Delete all objects of many segments in bulk and confirm by listing. A failing object never stops the others.

        :param metadatas: segments of any user partitions, each once.
        :param others: keys with suffixes that the layout does not know, as :meth:`list_log_segments` has shown them: that
            spares a local folder the listing before, whose cost grows with all that lies there. ``None`` lists anew.
        :return: one outcome per segment, in the same order. Never raises for a single object.
        :raises UnsafeObjectKeyError: if a key would leave the layout's prefix; nothing was touched then.
        :raises StorageUnavailableError: if the listing before the deletion fails; nothing was touched then.
        :raises StorageRootError: if the root, or the directory of a user partition, is not the one that was listed first.
        """

    def list_log_segments(self, topic_id_partition: TopicIdPartition) -> Mapping[UUID, tuple[StoredObject, ...]]:
        """
        List what the store holds for a user partition: segment id → its objects, by key, of any suffix.

        :param topic_id_partition: the user partition; an absent one has no objects, which is no error.
        """

    def list_objects(self) -> Sequence[StoredObject]:
        """List every object below the root except this package's own stamps, by key: for audits and scrubs."""

    def walk(
        self,
        known: Collection[TopicIdPartition],
        topic_ids: Collection[UUID] | None = None,
        layout: Layout | None = None,
    ) -> Iterator[StoredObject | Folder]:
        """
        List all that lies at the places of the layout, folder by folder, except this package's own stamps.

        One folder that cannot be listed does not end the walk. An object may come twice.

        :param known: user partitions that are looked for by name where the folder above them cannot be listed.
        :param topic_ids: only what may be theirs: folders that name another topic are not looked into; ``None`` for all.
        :param layout: its places in the place of those of :attr:`layout`.
        :raises StorageRootError: if the root is not the one of :meth:`check_root`, or is replaced meanwhile.
        """

    def missing_keys(self, keys: Collection[str]) -> frozenset[str]:
        """
        Return those of some keys that are not listed, without listing what comes before them where the store can.

        :param keys: keys of objects.
        """

    def deletion_effect(self, keys: Collection[str] = ()) -> DeletionEffect:
        """
        Say whether deletion frees space, by the settings of the bucket where they can be read, else by some objects.

        :param keys: of objects to look at; what is not there or may not be read is left out.
        """

    def stored_objects(self, keys: Collection[str]) -> Mapping[str, StoredObject]:
        """
        Return those of some objects that are listed now.

        :param keys: their keys.
        :raises StorageRootError: if the root, or a folder of theirs, is not the one that was listed first.
        """

    @property
    def absence_takes_whole_folder(self) -> bool:
        """Whether a listing shows what is not there only at the end of its folder, however much lies there."""

    def delete_objects(self, keys: Collection[str]) -> Mapping[str, str]:
        """
        Delete objects by their keys, of any kind: for what a scrub has found, of which every key was listed right
        before. It proves nothing: :meth:`still_there` does.

        :param keys: keys of the layout.
        :return: key → why the store says that it was not deleted.
        """

    def still_there(self, keys: Collection[str], failures: Mapping[str, str]) -> Mapping[str, str]:
        """
        Look for objects that were to be deleted.

        :param keys: keys of the layout.
        :param failures: what :meth:`delete_objects` has returned for them.
        :return: key → why it is still there, or why nothing is known; what is not named is gone.
        """

    def remove_empty_folders(self, keys: Collection[str]) -> Sequence[str]:
        """
        Remove the folders of some objects that hold nothing any more, and those above them, never a place itself.

        Only a local root has folders that may be empty.

        :param keys: keys of objects that were there.
        :return: the folders that are gone.
        :raises StorageRootError: if the root is not the one of :meth:`check_root`, or a folder is a symbolic link.
        """

    def check_root(
        self, topic_ids: frozenset[UUID], cluster_id: str, expectation: RootExpectation = UNKNOWN_ROOT
    ) -> RootCheck:
        """
        Tell of every place whether it belongs to the cluster: ``expected_root`` names it, its stamp is one that was known
        before, or it holds an object of this layout of one of ``topic_ids``. From here on no listing of another root is
        believed.

        :param topic_ids: topic ids that the metadata topic names.
        :param cluster_id: id of the cluster.
        :param expectation: what is known about the root.
        :raises StorageRootError: if a stamp of the cluster names another location, or ``expected_root`` another root.
        """

    def stamp_root(self, check: RootCheck) -> tuple[StampResult, ...]:
        """
        Leave the cluster's stamp at every verified place that shows something of it and has none. What is there is not
        replaced, except where the check was made under the override that moves a stamp; one that names no metadata topic
        gets the name of the one that the check knows.

        :param check: what :meth:`check_root` said.
        :return: what became of each; a stamp that cannot be written is no error.
        :raises StorageRootError: if the root is gone, or a stamp that names another location has appeared.
        """

    def stamped_clusters(self) -> Mapping[str, bool]:
        """
        Return the clusters that have left a stamp below this root.

        :return: cluster id → whether a stamp of it says that a place of the layout lies where it does. Of another one the
            root may be a copy.
        :raises StorageError: if the stamps cannot be listed or read.
        """

    def stamped_topics(self, cluster_id: str) -> Mapping[str, UUID]:
        """
        Return with which metadata topics runs have worked below this root, with any work folder.

        :param cluster_id: id of the cluster.
        :return: key of the stamp → id of the metadata topic that it names, for those that name one.
        :raises StorageError: if a stamp cannot be read.
        """

    def confirm_metadata_topic(self, cluster_id: str, topic_id: UUID, by: str, at_ms: int) -> None:
        """
        Have the stamps that name another metadata topic name this one; the other stays on record there.

        :param cluster_id: id of the cluster.
        :param topic_id: id of the metadata topic that was made anew.
        :param by: who has confirmed it.
        :param at_ms: when, ms since the epoch.
        :raises StorageError: naming the stamp that cannot be written.
        """
