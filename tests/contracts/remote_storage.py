# SPDX-License-Identifier: Apache-2.0
"""
The contract of ``RemoteStorageManager``.

Derive a test class from ``RemoteStorageContract`` and ``StorageRootContract`` and give it a ``storage`` fixture, an empty
``StorageUnderTest`` with the layout of the ``layout`` fixture, one of a single place. Derive it from
``RemoteStorageFaultContract`` too where the store can be made to fail.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Protocol
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.base.errors import (
    CopyCancelledError,
    LogDirectoryError,
    RemoteObjectNotFoundError,
    StorageError,
    StorageRootError,
    StorageUnavailableError,
    UnsafeObjectKeyError,
)
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    TopicIdPartition,
    kafka_uuid_str,
)
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.core.storage.index_type import IndexType
from airflow_provider_rlmm.core.storage.layout import Layout
from airflow_provider_rlmm.core.storage.layouts import LocalTieredStorageLayout
from airflow_provider_rlmm.core.storage.remote_storage import (
    DeleteOutcome,
    Folder,
    FolderState,
    RemoteStorageManager,
    StoredObject,
)
from airflow_provider_rlmm.core.storage.root import (
    UNKNOWN_ROOT,
    Place,
    PlaceCheck,
    RootCheck,
    RootExpectation,
    RootProof,
    StampOutcome,
)
from airflow_provider_rlmm.core.storage.segment_files import LogSegmentData
from airflow_provider_rlmm.core.storage.stamps import OLD_STAMP_KEY, FormerMetadataTopic, Stamp, stamp_key
from airflow_provider_rlmm.core.storage.uploads import CHUNK_BYTES

LAYOUT = LocalTieredStorageLayout()
(PLACE,) = LAYOUT.places
CLUSTER_ID = "cluster-a"
OWN_STAMP = stamp_key(CLUSTER_ID, PLACE.name)
TOPIC_ID = UUID("6e5a9d51-37f0-4d9c-8f4b-1d2f3a4b5c6d")
OTHER_TOPIC_ID = UUID("7f5a9d51-37f0-4d9c-8f4b-1d2f3a4b5c6d")
TIP = TopicIdPartition(TOPIC_ID, "orders", 0)
PARTITION = LAYOUT.partition_prefix(TIP)
ILLEGAL_TOPIC_NAMES = ["../evil", "..", ".", "", "a/b", "a\\b", "straße", "a b", "a\n", "x" * 250, "%2e%2e", "a\x00"]


class StorageUnderTest(Protocol):
    """An empty storage root and the ways around its manager."""

    layout: Layout
    manager: RemoteStorageManager

    def put(self, key: str, data: bytes) -> None:
        """Place an object behind the manager's back."""

    def read(self, key: str) -> bytes:
        """An object's content, read behind the manager's back."""

    def keys(self) -> set[str]:
        """All keys, read behind the manager's back."""


class RemovableRoot(StorageUnderTest, Protocol):
    def remove_root(self) -> None:
        """Take the whole root away."""


class FaultyStorage(RemovableRoot, Protocol):
    def refuse_delete(self, *keys: str) -> None:
        """Let the deletion of these objects fail."""

    def refuse_put(self) -> None:
        """Let no object be written any more."""

    def rename_folder(self, prefix: str, *, another: bool) -> None:
        """Rename a folder and, if asked for, put an empty one in its place."""

    def rename_folder_back(self, prefix: str) -> None:
        """Undo it."""

    def rename_folder_during_delete(self, prefix: str) -> None:
        """Put another folder in its place after the next delete call."""

    def fail_listing(self, number: int) -> None:
        """Let the n-th listing from now on fail, counted from 1."""

    def unmount_during_delete(self) -> None:
        """Take the root away after the next delete call."""


def place_of(storage: StorageUnderTest) -> Place:
    """The one place of the layout."""
    (found,) = storage.layout.places
    return found


def partition_of(storage: StorageUnderTest) -> str:
    """Prefix of the user partition of most tests."""
    return storage.layout.partition_prefix(TIP)


def own_stamp(storage: StorageUnderTest) -> str:
    """Key of the stamp of the cluster of most tests."""
    return stamp_key(CLUSTER_ID, place_of(storage).name)


def files(storage: StorageUnderTest) -> int:
    """How many objects a complete copy of a segment has."""
    return len(storage.layout.required_keys(segment()))


def segment(
    number: int = 1, *, topic: str = "orders", topic_id: UUID = TOPIC_ID, partition: int = 0, start: int | None = None
) -> RemoteLogSegmentMetadata:
    """Return a segment; the number makes its id and, unless given, its start offset."""
    first = number * 100 if start is None else start
    return RemoteLogSegmentMetadata(
        remote_log_segment_id=RemoteLogSegmentId(TopicIdPartition(topic_id, topic, partition), UUID(int=number)),
        start_offset=first,
        end_offset=first + 99,
        max_timestamp_ms=1,
        broker_id=1,
        event_timestamp_ms=1,
        segment_size_in_bytes=10,
        custom_metadata=None,
        state=RemoteLogSegmentState.COPY_SEGMENT_FINISHED,
        segment_leader_epochs=((0, first),),
    )


def place(storage: StorageUnderTest, *segments: RemoteLogSegmentMetadata) -> set[str]:
    """Put the five files of each segment, of 10 bytes each."""
    keys = {key for s in segments for key in storage.layout.required_keys(s)}
    for key in keys:
        storage.put(key, b"0123456789")
    return keys


def outcomes(storage: StorageUnderTest, *segments: RemoteLogSegmentMetadata) -> list[DeleteOutcome]:
    return [s.outcome for s in storage.manager.delete_log_segments(segments).segments]


class RemoteStorageContract:
    """Run by every implementation."""

    def test_deleted_segment_is_gone_with_its_size(self, storage: StorageUnderTest) -> None:
        place(storage, segment(1))
        deletion = storage.manager.delete_log_segment_data(segment(1))
        assert deletion.outcome is DeleteOutcome.GONE
        assert (deletion.objects_deleted, deletion.bytes_deleted, dict(deletion.reasons)) == (
            files(storage),
            10 * files(storage),
            {},
        )
        assert deletion.remote_log_segment_id == segment(1).remote_log_segment_id
        assert storage.keys() == set()

    def test_deleting_twice_proves_nothing_the_second_time(self, storage: StorageUnderTest) -> None:
        place(storage, segment(1))
        assert outcomes(storage, segment(1)) == [DeleteOutcome.GONE]
        again = storage.manager.delete_log_segment_data(segment(1))
        assert again.outcome is DeleteOutcome.NEVER_SEEN
        assert (again.objects_deleted, again.bytes_deleted) == (0, 0)
        assert again.reasons

    def test_segment_that_never_existed_costs_one_listing_and_no_delete(self, storage: StorageUnderTest) -> None:
        report = storage.manager.delete_log_segments([segment(1), segment(2)])
        assert [s.outcome for s in report.segments] == [DeleteOutcome.NEVER_SEEN] * 2
        assert report.calls == 1

    def test_nothing_asked_nothing_done(self, storage: StorageUnderTest) -> None:
        report = storage.manager.delete_log_segments([])
        assert (report.segments, report.calls) == ((), 0)

    def test_part_of_a_segment_is_enough_to_be_seen(self, storage: StorageUnderTest) -> None:
        storage.put(storage.layout.required_keys(segment(1))[-1], b"abc")
        deletion = storage.manager.delete_log_segment_data(segment(1))
        assert (deletion.outcome, deletion.objects_deleted, deletion.bytes_deleted) == (DeleteOutcome.GONE, 1, 3)

    @pytest.mark.parametrize("suffix", [".unheard-of", ".log.deleted", ".LOG", ".d/file"])
    def test_unknown_suffix_is_kept_and_said(self, storage: StorageUnderTest, suffix: str) -> None:
        place(storage, segment(1))
        unknown = storage.layout.segment_stem(segment(1)) + suffix
        storage.put(unknown, b"?")
        deletion = storage.manager.delete_log_segment_data(segment(1))
        assert deletion.outcome is DeleteOutcome.PRESENT
        assert deletion.objects_deleted == files(storage)
        assert set(deletion.reasons) == {unknown}
        assert storage.keys() == {unknown}

    @pytest.mark.parametrize("suffix", [".unheard-of", ".d/file"])
    def test_what_a_listing_has_shown_is_looked_for(self, storage: StorageUnderTest, suffix: str) -> None:
        place(storage, segment(1), segment(2))
        kept = place(storage, segment(3))
        unknown = storage.layout.segment_stem(segment(1)) + suffix
        storage.put(unknown, b"?")
        others = {unknown, storage.layout.segment_stem(segment(3)) + ".x", "elsewhere/y"}
        report = storage.manager.delete_log_segments([segment(1), segment(2), segment(4)], others)
        present, gone, never = DeleteOutcome.PRESENT, DeleteOutcome.GONE, DeleteOutcome.NEVER_SEEN
        assert [s.outcome for s in report.segments] == [present, gone, never]
        assert [s.objects_deleted for s in report.segments] == [files(storage), files(storage), 0]
        assert set(report.segments[0].reasons) == {unknown}
        assert storage.keys() == {unknown, *kept}

    def test_only_an_unknown_suffix_is_present_and_kept(self, storage: StorageUnderTest) -> None:
        unknown = storage.layout.segment_stem(segment(1)) + ".tmp"
        storage.put(unknown, b"?")
        assert outcomes(storage, segment(1)) == [DeleteOutcome.PRESENT]
        assert storage.keys() == {unknown}

    def test_neighbours_are_untouched(self, storage: StorageUnderTest) -> None:
        place(storage, segment(1))
        neighbours = place(
            storage,
            segment(2),
            segment(3, start=100),
            segment(1, start=99),
            segment(1, start=101),
            segment(1, topic_id=OTHER_TOPIC_ID),
            segment(1, partition=10),
            segment(1, topic="orders-0"),
            segment(1, topic="orders.0"),
        )
        for key in (
            "readme.txt",
            f"{place_of(storage).prefix}stray.log",
            f"{storage.layout.segment_stem(segment(1))}x.log",
        ):
            storage.put(key, b"?")
            neighbours.add(key)
        assert outcomes(storage, segment(1)) == [DeleteOutcome.GONE]
        assert storage.keys() == neighbours

    def test_same_id_at_another_offset_is_not_the_segment(self, storage: StorageUnderTest) -> None:
        keys = place(storage, segment(1, start=500))
        assert outcomes(storage, segment(1, start=400)) == [DeleteOutcome.NEVER_SEEN]
        assert storage.keys() == keys

    def test_outcomes_come_in_the_order_asked(self, storage: StorageUnderTest) -> None:
        a, b, c = segment(5), segment(1, partition=1), segment(3)
        missing = segment(4)
        place(storage, a, b, c)
        report = storage.manager.delete_log_segments([a, missing, b, c])
        ids = [s.remote_log_segment_id for s in report.segments]
        assert ids == [s.remote_log_segment_id for s in (a, missing, b, c)]
        gone, never = DeleteOutcome.GONE, DeleteOutcome.NEVER_SEEN
        assert [s.outcome for s in report.segments] == [gone, never, gone, gone]
        assert report.calls == 5  # two partitions listed twice, one delete
        assert storage.keys() == set()

    def test_many_segments_at_once(self, storage: StorageUnderTest) -> None:
        segments = [segment(n) for n in range(450)]
        kept = place(storage, segment(1_000))
        place(storage, *segments)
        assert outcomes(storage, *segments) == [DeleteOutcome.GONE] * 450
        assert storage.keys() == kept

    def test_segment_named_twice_is_refused(self, storage: StorageUnderTest) -> None:
        keys = place(storage, segment(1))
        with pytest.raises(ValueError, match="twice"):
            storage.manager.delete_log_segments([segment(1), segment(1)])
        assert storage.keys() == keys

    @pytest.mark.parametrize("topic", ILLEGAL_TOPIC_NAMES)
    def test_illegal_topic_name_is_refused_before_anything_is_touched(
        self, storage: StorageUnderTest, topic: str
    ) -> None:
        keys = place(storage, segment(1))
        bad = segment(2, topic=topic)
        with pytest.raises(UnsafeObjectKeyError, match="topic name"):
            storage.manager.delete_log_segments([segment(1), bad])
        with pytest.raises(UnsafeObjectKeyError):
            storage.manager.list_log_segments(bad.remote_log_segment_id.topic_id_partition)
        assert storage.keys() == keys

    def test_custom_metadata_that_means_nothing_leads_nowhere(self, storage: StorageUnderTest) -> None:
        other = place(storage, segment(2))
        misleading = replace(segment(1), custom_metadata=next(iter(other)).encode())
        # A layout whose plugin writes some refuses what its plugin would not have written.
        with suppress(UnsafeObjectKeyError):
            assert outcomes(storage, misleading) == [DeleteOutcome.NEVER_SEEN]
        assert storage.keys() == other

    def test_segments_are_listed_with_all_their_objects(self, storage: StorageUnderTest) -> None:
        first, second = place(storage, segment(1)), place(storage, segment(2))
        unknown = storage.layout.segment_stem(segment(2)) + ".unknown"
        storage.put(unknown, b"?")
        place(storage, segment(3, topic_id=OTHER_TOPIC_ID), segment(4, partition=1))
        storage.put(partition_of(storage) + "stray", b"?")
        listed = storage.manager.list_log_segments(segment(1).remote_log_segment_id.topic_id_partition)
        assert {id_: [o.key for o in objects] for id_, objects in listed.items()} == {
            UUID(int=1): sorted(first),
            UUID(int=2): sorted(second | {unknown}),
        }
        assert {o.size for o in listed[UUID(int=1)]} == {10}

    def test_absent_partition_lists_as_empty(self, storage: StorageUnderTest) -> None:
        assert storage.manager.list_log_segments(TopicIdPartition(TOPIC_ID, "none", 7)) == {}

    def test_every_object_but_the_stamps_is_listed(self, storage: StorageUnderTest) -> None:
        other = f"{place_of(storage).prefix}other/thing"
        keys = place(storage, segment(1)) | {"stray", other}
        storage.put("stray", b"1")
        storage.put(other, b"22")
        storage.put("airflow-provider-rlmm.json", b"an old stamp")
        storage.put("airflow-provider-rlmm/cluster-b/place.json", b"another cluster's stamp")
        stamped(storage)
        listed = storage.manager.list_objects()
        assert [o.key for o in listed] == sorted(keys)
        assert sum(o.size for o in listed) == 10 * files(storage) + 3

    def test_keys_that_are_not_there_are_told(self, storage: StorageUnderTest) -> None:
        here = place(storage, segment(1), segment(2), segment(3, partition=4))
        absent = {
            *storage.layout.required_keys(segment(9)),
            storage.layout.segment_stem(segment(1)) + ".unheard-of",
            storage.layout.required_keys(segment(1, topic="orders-0"))[0],
        }
        assert storage.manager.missing_keys(here | absent) == absent
        assert storage.manager.missing_keys(here) == storage.manager.missing_keys([]) == frozenset()

    def test_a_walk_lists_every_object_below_the_places_but_the_stamps(self, storage: StorageUnderTest) -> None:
        prefix = place_of(storage).prefix
        keys = place(storage, segment(1), segment(2, partition=4)) | {f"{prefix}stray"}
        storage.put(f"{prefix}stray", b"1")
        stamped(storage)
        met = list(storage.manager.walk(()))
        assert {o.key for o in met if isinstance(o, StoredObject)} == keys
        assert {f.state for f in met if isinstance(f, Folder)} == {FolderState.WHOLE}

    def test_objects_are_seen_and_deleted_by_their_keys(self, storage: StorageUnderTest) -> None:
        keys = place(storage, segment(1), segment(2))
        mine = set(storage.layout.required_keys(segment(1)))
        seen = storage.manager.stored_objects(mine | {f"{partition_of(storage)}none"})
        assert {key: o.size for key, o in seen.items()} == dict.fromkeys(mine, 10)
        failures = storage.manager.delete_objects(mine)
        assert storage.manager.still_there(mine, failures) == {}
        assert storage.keys() == keys - mine
        assert storage.manager.stored_objects(mine) == {}

    def test_keys_that_a_delete_was_sent_for_are_named(self, storage: StorageUnderTest) -> None:
        keys = place(storage, segment(1))
        storage.put(storage.layout.segment_stem(segment(1)) + ".unknown", b"?")
        report = storage.manager.delete_log_segments([segment(1), segment(2)])
        assert [set(s.sent) for s in report.segments] == [keys, set()]


class RemoteStorageCopyContract:
    """Run with layouts that say which object holds the log and which an index."""

    def test_transaction_index_is_optional_and_deleted(self, storage: StorageUnderTest) -> None:
        place(storage, segment(1))
        storage.put(storage.layout.object_key(segment(1), IndexType.TRANSACTION), b"t")
        count = files(storage)
        deletion = storage.manager.delete_log_segment_data(segment(1))
        assert deletion.outcome is DeleteOutcome.GONE
        assert (deletion.objects_deleted, deletion.bytes_deleted) == (count + 1, 10 * count + 1)
        assert storage.keys() == set()

    def test_copied_segment_is_listed_read_and_deleted(self, storage: StorageUnderTest, tmp_path: Path) -> None:
        data = local_files(tmp_path)
        assert storage.manager.copy_log_segment_data(segment(1), data) is None
        copied = (None, IndexType.OFFSET, IndexType.TIMESTAMP, IndexType.PRODUCER_SNAPSHOT, IndexType.LEADER_EPOCH)
        assert storage.keys() == {storage.layout.object_key(segment(1), index_type) for index_type in copied}
        assert storage.manager.fetch_log_segment(segment(1), 0) == b"0123456789"
        for index_type, content in (
            (IndexType.OFFSET, b""),
            (IndexType.TIMESTAMP, b"time"),
            (IndexType.PRODUCER_SNAPSHOT, b"snapshot"),
            (IndexType.LEADER_EPOCH, b"0\n1\n0 0\n"),
        ):
            assert storage.manager.fetch_index(segment(1), index_type) == content
        with pytest.raises(RemoteObjectNotFoundError, match="txnindex"):
            storage.manager.fetch_index(segment(1), IndexType.TRANSACTION)
        assert outcomes(storage, segment(1)) == [DeleteOutcome.GONE]

    def test_copying_again_overwrites(self, storage: StorageUnderTest, tmp_path: Path) -> None:
        data = local_files(tmp_path)
        storage.manager.copy_log_segment_data(segment(1), data)
        data.log_segment.write_bytes(b"new")
        transactions = tmp_path / "txn"
        transactions.write_bytes(b"txn")
        storage.manager.copy_log_segment_data(segment(1), replace(data, transaction_index=transactions))
        assert storage.manager.fetch_log_segment(segment(1), 0) == b"new"
        assert storage.manager.fetch_index(segment(1), IndexType.TRANSACTION) == b"txn"

    def test_missing_local_file_copies_nothing(self, storage: StorageUnderTest, tmp_path: Path) -> None:
        data = replace(local_files(tmp_path), log_segment=tmp_path / "missing.log")
        with pytest.raises(FileNotFoundError, match=r"missing\.log"):
            storage.manager.copy_log_segment_data(segment(1), data)
        assert storage.keys() == set()

    def test_every_chunk_is_announced_before_it_is_sent(self, storage: StorageUnderTest, tmp_path: Path) -> None:
        data, chunks = with_large_log(tmp_path), list[int]()
        storage.manager.copy_log_segment_data(segment(1), data, chunks.append)
        others = [len(content) for content in (b"time", b"snapshot", data.leader_epoch_index)]
        assert chunks == [*others, CHUNK_BYTES, CHUNK_BYTES, CHUNK_BYTES, 5]
        assert storage.manager.fetch_log_segment(segment(1), 0) == data.log_segment.read_bytes()

    @pytest.mark.parametrize("cancelled_at", [1, 2, 4, 7])
    def test_a_cancelled_copy_leaves_nothing_of_the_object_under_way(
        self, storage: StorageUnderTest, tmp_path: Path, cancelled_at: int
    ) -> None:
        data, chunks = with_large_log(tmp_path), itertools.count(1)

        def before_chunk(size: int) -> None:
            if next(chunks) == cancelled_at:
                raise CopyCancelledError("cancelled by the test")

        with pytest.raises(CopyCancelledError, match="cancelled by the test"):
            storage.manager.copy_log_segment_data(segment(1), data, before_chunk)
        copied = [IndexType.OFFSET, IndexType.TIMESTAMP, IndexType.PRODUCER_SNAPSHOT, IndexType.LEADER_EPOCH]
        expected = {storage.layout.object_key(segment(1), index_type) for index_type in copied[: min(cancelled_at, 4)]}
        assert storage.keys() == expected
        storage.manager.copy_log_segment_data(segment(1), data)
        assert storage.manager.fetch_log_segment(segment(1), 0) == data.log_segment.read_bytes()

    @pytest.mark.parametrize("change", [b"", b"x" * 20_000_000], ids=["cut", "grown"])
    def test_a_log_that_changes_while_it_is_copied_is_refused(
        self, storage: StorageUnderTest, tmp_path: Path, change: bytes
    ) -> None:
        data, chunks = with_large_log(tmp_path), itertools.count(1)

        def before_chunk(size: int) -> None:
            if next(chunks) == 5:
                data.log_segment.write_bytes(change)

        with pytest.raises(LogDirectoryError, match=r"large\.log was written to while it was copied"):
            storage.manager.copy_log_segment_data(segment(1), data, before_chunk)
        assert storage.keys().isdisjoint({storage.layout.object_key(segment(1), None)})


class RemoteStorageCopyFaultContract:
    """The same where the root can be taken away."""

    def test_a_missing_root_is_an_error_for_copies_and_reads(self, storage: RemovableRoot, tmp_path: Path) -> None:
        data, manager = local_files(tmp_path), storage.manager
        place(storage, segment(1))
        storage.remove_root()
        for call in (
            lambda: manager.fetch_log_segment(segment(1), 0),
            lambda: manager.fetch_index(segment(1), IndexType.OFFSET),
            lambda: manager.copy_log_segment_data(segment(1), data),
        ):
            with pytest.raises(StorageRootError):
                call()

    def test_a_root_that_vanishes_while_a_segment_is_copied_is_an_error(
        self, storage: RemovableRoot, tmp_path: Path
    ) -> None:
        place(storage, segment(1))
        with pytest.raises(StorageRootError):
            storage.manager.copy_log_segment_data(segment(1), local_files(tmp_path), lambda _: remove_root(storage))


def remove_root(storage: RemovableRoot) -> None:
    with suppress(FileNotFoundError):
        storage.remove_root()


LOG_ID, NEW_LOG_ID = UUID(int=98), UUID(int=99)


class StorageRootContract:
    """Whose root it is: run by every implementation."""

    def test_empty_root_is_not_verified(self, storage: StorageUnderTest) -> None:
        check = check_root(storage)
        assert not check.verified
        assert (check.root_ids, check.verified_places) == ({}, frozenset())
        assert "there is no stamp" in check.reason
        assert storage.manager.stamp_root(check) == ()
        assert storage.keys() == set()

    def test_root_with_an_object_of_a_known_topic_id_is_verified(self, storage: StorageUnderTest) -> None:
        place(storage, segment(1, topic_id=OTHER_TOPIC_ID), segment(1))
        check = check_root(storage)
        assert (check.verified, check.verified_places, how(check)) == (True, {place_of(storage).name}, RootProof.OBJECT)
        assert kafka_uuid_str(TOPIC_ID) in check.reason
        assert check.root_ids == {}, "nothing names it yet"

    def test_root_of_other_topics_and_strays_is_not_verified(self, storage: StorageUnderTest) -> None:
        place(storage, segment(1, topic_id=OTHER_TOPIC_ID))
        topic_id = kafka_uuid_str(TOPIC_ID)
        storage.put(f"elsewhere/orders-0-{topic_id}/{'0' * 20}-{topic_id}.log", b"")
        storage.put(f"{partition_of(storage)}stray.log", b"")
        assert not check_root(storage).verified
        assert not check_root(storage, topic_ids=frozenset()).verified

    def test_a_stamp_is_written_once_and_says_whose_root_lies_where(self, storage: StorageUnderTest) -> None:
        keys = place(storage, segment(1))
        (first,) = storage.manager.stamp_root(check_root(storage))
        assert (first.place, first.outcome) == (place_of(storage).name, StampOutcome.WRITTEN)
        assert storage.keys() == keys | {own_stamp(storage)}
        assert json.loads(storage.read(own_stamp(storage))).keys() == {
            "cluster_id",
            "layout",
            "place",
            "root_id",
            "where",
        }
        for check in (check_root(storage), replace(check_root(storage), places=unstamped(check_root(storage)))):
            (again,) = storage.manager.stamp_root(check)
            assert (again.outcome, again.root_id) == (StampOutcome.ALREADY_THERE, first.root_id)
        assert storage.keys() == keys | {own_stamp(storage)}

    def test_stamps_tell_their_clusters_and_whether_they_lie_where_they_say(self, storage: StorageUnderTest) -> None:
        assert storage.manager.stamped_clusters() == {}
        place(storage, segment(1))
        storage.manager.stamp_root(check_root(storage))
        mine = check_root(storage).cluster_id
        elsewhere = own_stamp(storage).replace(mine, "another")
        storage.put(elsewhere, storage.read(own_stamp(storage)))
        storage.put("airflow-provider-rlmm/notes.txt", b"no stamp")
        assert storage.manager.stamped_clusters() == {mine: True, "another": False}

    def test_a_check_knows_the_root_id_once_it_is_stamped(self, storage: StorageUnderTest) -> None:
        place(storage, segment(1))
        check = check_root(storage)
        results = storage.manager.stamp_root(check)
        assert check.with_stamps(results).root_ids == {place_of(storage).name: results[0].root_id}
        assert check_root(storage).root_ids == {place_of(storage).name: results[0].root_id}

    def test_a_stamp_alone_verifies_nothing(self, storage: StorageUnderTest) -> None:
        root_id = stamped(storage)
        for expectation in (UNKNOWN_ROOT, RootExpectation(recorded=frozenset({str(UUID(int=1))}))):
            check = check_root(storage, expectation)
            assert (check.verified, check.root_ids) == (False, {})
            assert root_id in check.reason, "whoever looks at it must learn the id, to put it into expected_root"

    def test_a_stamp_that_was_recorded_verifies_its_place(self, storage: StorageUnderTest) -> None:
        root_id = stamped(storage)
        check = check_root(storage, RootExpectation(recorded=frozenset({str(UUID(int=1)), root_id})))
        assert (check.verified, how(check), check.root_ids) == (
            True,
            RootProof.RECORDED,
            {place_of(storage).name: root_id},
        )

    def test_a_stamp_that_is_expected_verifies_its_place(self, storage: StorageUnderTest) -> None:
        root_id = stamped(storage)
        check = check_root(storage, RootExpectation(expected_root=root_id))
        assert (check.verified, how(check), check.root_ids) == (
            True,
            RootProof.EXPECTED_ROOT,
            {place_of(storage).name: root_id},
        )

    @pytest.mark.parametrize("with_stamp", [False, True])
    def test_another_root_than_the_expected_one_is_refused(self, storage: StorageUnderTest, with_stamp: bool) -> None:
        place(storage, segment(1))
        if with_stamp:
            storage.manager.stamp_root(check_root(storage))
        for expected in (str(UUID(int=7)), "s3://elsewhere/place"):
            with pytest.raises(StorageRootError, match=expected):
                check_root(storage, RootExpectation(expected_root=expected))

    def test_where_no_stamp_can_be_written_the_expected_location_verifies_the_place(
        self, storage: StorageUnderTest
    ) -> None:
        place(storage, segment(1))
        (seen,) = check_root(storage).places
        location = str(seen.where)
        assert location.split() == [location], "one word, to be copied"
        storage.manager.delete_log_segments([segment(1)])
        check = check_root(storage, RootExpectation(expected_root=location))
        assert (check.verified, how(check), check.root_ids) == (
            True, RootProof.EXPECTED_ROOT, {place_of(storage).name: location}
        )  # fmt: skip
        assert place_of(storage).name not in check.shown_places, (
            "nothing of the cluster is there: a missing mount looks the same"
        )
        assert storage.manager.stamp_root(check) == (), "and nobody is to take it for the cluster's afterwards"
        place(storage, segment(1))
        check = check_root(storage, RootExpectation(expected_root=location))
        assert place_of(storage).name in check.shown_places
        assert [result.outcome for result in storage.manager.stamp_root(check)] == [StampOutcome.WRITTEN]

    def test_an_old_stamp_verifies_nothing_and_is_followed_by_a_new_one(self, storage: StorageUnderTest) -> None:
        old = json.dumps({"cluster_id": CLUSTER_ID, "layout": storage.layout.name}).encode()
        storage.put(OLD_STAMP_KEY, old)
        assert not check_root(storage).verified
        place(storage, segment(1))
        (result,) = storage.manager.stamp_root(check_root(storage))
        assert result.outcome is StampOutcome.WRITTEN
        assert storage.read(OLD_STAMP_KEY) == old

    @pytest.mark.parametrize("other", ["cluster-b", "../cluster-a", "a/b", "..", "c%2Fd", "é e"])
    def test_the_stamp_of_another_cluster_means_nothing(self, storage: StorageUnderTest, other: str) -> None:
        place(storage, segment(1))
        theirs = check_root(storage, cluster_id=other)
        (their_stamp,) = storage.manager.stamp_root(theirs)
        assert len(storage.keys() - set(storage.layout.required_keys(segment(1)))) == 1
        (our_stamp,) = storage.manager.stamp_root(check_root(storage))
        assert (their_stamp.outcome, our_stamp.outcome) == (StampOutcome.WRITTEN, StampOutcome.WRITTEN)
        storage.manager.delete_log_segments([segment(1)])
        known = RootExpectation(recorded=frozenset({their_stamp.root_id or ""}))
        assert check_root(storage, known, cluster_id=other).verified
        assert not check_root(storage, known).verified

    @pytest.mark.parametrize("field", ["cluster_id", "layout", "place", "where"])
    def test_a_stamp_that_names_something_else_refuses_until_it_is_moved(
        self, storage: StorageUnderTest, field: str
    ) -> None:
        place(storage, segment(1))
        root_id = stamped(storage)
        fields = json.loads(storage.read(own_stamp(storage)))
        fields[field] = fields["where"] | {"bucket": "the-true-one"} if field == "where" else "another"
        storage.put(own_stamp(storage), json.dumps(fields).encode())
        place(storage, segment(1))
        self.assert_refused_until_moved(storage, root_id, "another" if field != "where" else "the-true-one")

    @pytest.mark.parametrize("content", [b"", b"\xff", b"[]", b"{}", b"null", b'{"cluster_id": "cluster-a"}'])
    def test_a_stamp_that_cannot_be_read_refuses_until_it_is_moved(
        self, storage: StorageUnderTest, content: bytes
    ) -> None:
        place(storage, segment(1))
        storage.put(own_stamp(storage), content)
        self.assert_refused_until_moved(storage, "", "cannot be read")

    def assert_refused_until_moved(self, storage: StorageUnderTest, root_id: str, says: str) -> None:
        before = storage.read(own_stamp(storage))
        for expectation in (
            UNKNOWN_ROOT,
            RootExpectation(recorded=frozenset({root_id})),
            RootExpectation(expected_root=root_id or str(UUID(int=1))),
        ):
            with pytest.raises(StorageRootError, match=f"{says}.*move_stamp"):
                check_root(storage, expectation)
        assert storage.read(own_stamp(storage)) == before
        check = check_root(storage, RootExpectation(recorded=frozenset({root_id}), move_stamp=True))
        assert (how(check), check.root_ids) == (RootProof.OBJECT, {}), "a stamp that is to be moved proves nothing"
        (result,) = storage.manager.stamp_root(check)
        assert result.outcome is StampOutcome.WRITTEN
        assert result.root_id != root_id, "the moved root is not to be mistaken for the one before"
        assert check_root(storage).root_ids == {place_of(storage).name: result.root_id}

    def test_a_stamp_that_appears_and_names_another_location_is_not_replaced(self, storage: StorageUnderTest) -> None:
        place(storage, segment(1))
        check = check_root(storage)
        storage.put(own_stamp(storage), b"{}")
        with pytest.raises(StorageRootError, match="cannot be read"):
            storage.manager.stamp_root(check)
        assert storage.read(own_stamp(storage)) == b"{}"

    def test_an_old_stamp_gains_the_name_of_the_metadata_topic(self, storage: StorageUnderTest) -> None:
        root_id = stamped(storage)
        place(storage, segment(1))
        assert storage.manager.stamped_topics(CLUSTER_ID) == {}
        for _ in range(2):
            check = check_root(storage, RootExpectation(metadata_topic_id=LOG_ID))
            (result,) = storage.manager.stamp_root(check)
            assert result.root_id == root_id
            assert storage.manager.stamped_topics(CLUSTER_ID) == {own_stamp(storage): LOG_ID}
        assert result.outcome is StampOutcome.ALREADY_THERE
        assert check_root(storage, RootExpectation(expected_root=root_id)).verified
        assert json.loads(storage.read(own_stamp(storage)))["metadata_topic_id"] == kafka_uuid_str(LOG_ID)

    def test_a_new_stamp_names_the_metadata_topic_and_no_later_one_takes_its_place(
        self, storage: StorageUnderTest
    ) -> None:
        place(storage, segment(1))
        for topic_id in (LOG_ID, NEW_LOG_ID):
            storage.manager.stamp_root(check_root(storage, RootExpectation(metadata_topic_id=topic_id)))
            assert storage.manager.stamped_topics(CLUSTER_ID) == {own_stamp(storage): LOG_ID}

    def test_another_metadata_topic_is_confirmed_and_the_old_one_stays_on_record(
        self, storage: StorageUnderTest
    ) -> None:
        root_id = stamped(storage, RootExpectation(metadata_topic_id=LOG_ID))
        for _ in range(2):
            storage.manager.confirm_metadata_topic(CLUSTER_ID, NEW_LOG_ID, "anna", 7)
        assert storage.manager.stamped_topics(CLUSTER_ID) == {own_stamp(storage): NEW_LOG_ID}
        stamp = Stamp.from_json(storage.read(own_stamp(storage)))
        assert stamp.former_metadata_topics == (FormerMetadataTopic(LOG_ID, "anna", 7),)
        assert check_root(storage, RootExpectation(expected_root=root_id)).verified

    def test_what_stamps_do_not_name_is_not_confirmed(self, storage: StorageUnderTest) -> None:
        storage.manager.confirm_metadata_topic(CLUSTER_ID, NEW_LOG_ID, "anna", 7)
        assert storage.keys() == set()
        stamped(storage)
        before = storage.read(own_stamp(storage))
        storage.manager.confirm_metadata_topic(CLUSTER_ID, NEW_LOG_ID, "anna", 7)
        assert storage.read(own_stamp(storage)) == before

    def test_a_stamp_that_was_moved_remembers_the_metadata_topics(self, storage: StorageUnderTest) -> None:
        stamped(storage, RootExpectation(metadata_topic_id=LOG_ID))
        fields = json.loads(storage.read(own_stamp(storage)))
        fields["where"]["bucket"] = "the-true-one"
        storage.put(own_stamp(storage), json.dumps(fields).encode())
        place(storage, segment(1))
        assert storage.manager.stamped_topics(CLUSTER_ID) == {own_stamp(storage): LOG_ID}, "wherever it lay before"
        storage.manager.confirm_metadata_topic(CLUSTER_ID, NEW_LOG_ID, "anna", 7)
        with pytest.raises(StorageRootError, match="move_stamp"):
            check_root(storage)
        moving = RootExpectation(move_stamp=True, metadata_topic_id=NEW_LOG_ID)
        storage.manager.stamp_root(check_root(storage, moving))
        stamp = Stamp.from_json(storage.read(own_stamp(storage)))
        assert (stamp.metadata_topic_id, [t.topic_id for t in stamp.former_metadata_topics]) == (NEW_LOG_ID, [LOG_ID])

    def test_the_metadata_topic_of_another_cluster_means_nothing(self, storage: StorageUnderTest) -> None:
        stamped(storage, RootExpectation(metadata_topic_id=LOG_ID))
        assert storage.manager.stamped_topics("cluster-b") == {}
        storage.put(stamp_key("cluster-b", place_of(storage).name), storage.read(own_stamp(storage)))
        assert storage.manager.stamped_topics("cluster-b") == {}


class RemoteStorageFaultContract:
    """Run by implementations whose store can be made to fail."""

    def test_missing_root_is_an_error_everywhere(self, storage: RemovableRoot) -> None:
        place(storage, segment(1))
        check = check_root(storage)
        storage.remove_root()
        manager = storage.manager
        for call in (
            lambda: manager.delete_log_segments([segment(1)]),
            lambda: manager.list_objects(),
            lambda: list(manager.walk(())),
            lambda: manager.stored_objects(storage.layout.required_keys(segment(1))),
            lambda: manager.list_log_segments(segment(1).remote_log_segment_id.topic_id_partition),
            lambda: manager.check_root(frozenset({TOPIC_ID}), CLUSTER_ID),
            lambda: manager.stamp_root(check),
            lambda: manager.stamped_topics(CLUSTER_ID),
            lambda: manager.missing_keys(storage.layout.required_keys(segment(1))),
        ):
            with pytest.raises(StorageRootError):
                call()
        left = storage.keys()
        assert own_stamp(storage) not in left

    def test_refused_object_stays_and_the_others_go(self, storage: FaultyStorage) -> None:
        place(storage, segment(1), segment(2), segment(3))
        refused = storage.layout.required_keys(segment(2))[-1]
        storage.refuse_delete(refused)
        report = storage.manager.delete_log_segments([segment(1), segment(2), segment(3)])
        gone, present = DeleteOutcome.GONE, DeleteOutcome.PRESENT
        assert [s.outcome for s in report.segments] == [gone, present, gone]
        second, left = report.segments[1], files(storage) - 1
        assert (second.objects_deleted, second.bytes_deleted, set(second.reasons)) == (left, 10 * left, {refused})
        assert "refused by the test" in second.reasons[refused]
        assert storage.keys() == {refused}

    def test_an_object_that_is_not_let_go_is_named(self, storage: FaultyStorage) -> None:
        keys = place(storage, segment(1), segment(2))
        refused = storage.layout.required_keys(segment(2))[-1]
        storage.refuse_delete(refused)
        left = storage.manager.still_there(keys, storage.manager.delete_objects(keys))
        assert left.keys() == storage.keys() == {refused}
        assert "refused by the test" in left[refused]

    def test_what_no_listing_confirms_is_not_gone(self, storage: FaultyStorage) -> None:
        keys = place(storage, segment(1))
        storage.fail_listing(1)
        assert storage.manager.still_there(keys, storage.manager.delete_objects(keys)).keys() == keys

    def test_all_refused(self, storage: FaultyStorage) -> None:
        keys = place(storage, segment(1), segment(2))
        storage.refuse_delete(*keys)
        report = storage.manager.delete_log_segments([segment(1), segment(2)])
        assert [s.outcome for s in report.segments] == [DeleteOutcome.PRESENT] * 2
        assert {key for s in report.segments for key in s.reasons} == keys
        assert {s.objects_deleted for s in report.segments} == {0}
        assert storage.keys() == keys

    def test_failing_listing_before_touches_nothing(self, storage: FaultyStorage) -> None:
        keys = place(storage, segment(1), segment(2, partition=1))
        storage.fail_listing(2)
        with pytest.raises(StorageUnavailableError, match="listing failed in the test"):
            storage.manager.delete_log_segments([segment(1), segment(2, partition=1)])
        assert storage.keys() == keys

    @pytest.mark.parametrize("number", [3, 4])
    def test_failing_listing_after_leaves_all_unknown(self, storage: FaultyStorage, number: int) -> None:
        batch = [segment(1), segment(2, partition=1), segment(3)]
        place(storage, *batch[:2])
        storage.fail_listing(number)
        report = storage.manager.delete_log_segments(batch)
        assert [s.outcome for s in report.segments] == [DeleteOutcome.UNKNOWN] * 3
        for deletion in report.segments:
            assert (deletion.objects_deleted, deletion.bytes_deleted) == (0, 0)
            assert all("listing failed in the test" in reason for reason in deletion.reasons.values())
        assert set(report.segments[0].reasons) == set(storage.layout.required_keys(segment(1)))
        assert report.segments[2].reasons

    def test_root_that_vanishes_during_the_deletion_proves_nothing(self, storage: FaultyStorage) -> None:
        place(storage, segment(1))
        storage.unmount_during_delete()
        assert outcomes(storage, segment(1)) == [DeleteOutcome.UNKNOWN]

    def test_a_stamp_that_cannot_be_written_is_said_and_no_error(self, storage: FaultyStorage) -> None:
        place(storage, segment(1))
        check = check_root(storage)
        storage.refuse_put()
        (result,) = storage.manager.stamp_root(check)
        assert (result.outcome, result.root_id) == (StampOutcome.CANNOT_BE_WRITTEN, None)
        for part in (own_stamp(storage), "refused by the test", "expected_root", str(check.places[0].where)):
            assert part in result.reason
        assert check.with_stamps((result,)).root_ids == {}

    def test_a_stamp_that_cannot_name_the_metadata_topic_is_said_and_no_error(self, storage: FaultyStorage) -> None:
        root_id = stamped(storage)
        place(storage, segment(1))
        check = check_root(storage, RootExpectation(metadata_topic_id=LOG_ID))
        storage.refuse_put()
        (result,) = storage.manager.stamp_root(check)
        assert (result.outcome, result.root_id) == (StampOutcome.CANNOT_BE_WRITTEN, root_id)
        assert "refused by the test" in result.reason
        assert "does not name the metadata topic" in result.reason

    def test_a_confirmation_that_cannot_be_written_is_an_error(self, storage: FaultyStorage) -> None:
        stamped(storage, RootExpectation(metadata_topic_id=LOG_ID))
        storage.refuse_put()
        with pytest.raises(StorageError, match=f"{own_stamp(storage)} cannot be written.*refused by the test"):
            storage.manager.confirm_metadata_topic(CLUSTER_ID, NEW_LOG_ID, "anna", 7)
        assert storage.manager.stamped_topics(CLUSTER_ID) == {own_stamp(storage): LOG_ID}

    @pytest.mark.parametrize("which", [place_of, partition_of])
    @pytest.mark.parametrize("another", [True, False])
    def test_a_folder_that_is_renamed_or_replaced_lists_nothing(
        self, storage: FaultyStorage, which: Callable[[StorageUnderTest], Place | str], another: bool
    ) -> None:
        found = which(storage)
        prefix = found if isinstance(found, str) else found.prefix
        place(storage, segment(1), segment(2))
        assert len(storage.manager.list_log_segments(TIP)) == 2
        storage.rename_folder(prefix, another=another)
        for call in (
            lambda: storage.manager.list_log_segments(TIP),
            lambda: storage.manager.delete_log_segments([segment(1)]),
        ):
            with pytest.raises(StorageRootError, match=f"{prefix} .*not the one that this run began with"):
                call()
        storage.rename_folder_back(prefix)
        assert outcomes(storage, segment(1), segment(2)) == [DeleteOutcome.GONE] * 2

    def test_a_folder_that_is_renamed_between_two_batches_is_noticed(self, storage: FaultyStorage) -> None:
        place(storage, segment(1), segment(2))
        assert outcomes(storage, segment(2)) == [DeleteOutcome.GONE]
        storage.rename_folder(partition_of(storage), another=True)
        with pytest.raises(StorageRootError, match=partition_of(storage)):
            storage.manager.delete_log_segments([segment(1)])

    def test_a_folder_that_proved_the_root_is_not_to_be_gone_when_it_is_listed(self, storage: FaultyStorage) -> None:
        place(storage, segment(1))
        assert how(check_root(storage)) == RootProof.OBJECT
        storage.rename_folder(partition_of(storage), another=False)
        with pytest.raises(StorageRootError, match=partition_of(storage)):
            storage.manager.list_log_segments(TIP)

    def test_a_folder_that_appears_is_no_other_one(self, storage: FaultyStorage) -> None:
        assert storage.manager.list_log_segments(TIP) == {}
        place(storage, segment(1))
        assert outcomes(storage, segment(1)) == [DeleteOutcome.GONE]

    def test_a_folder_that_is_replaced_while_objects_are_deleted_proves_nothing(self, storage: FaultyStorage) -> None:
        keys = place(storage, segment(1))
        storage.rename_folder_during_delete(partition_of(storage))
        (deletion,) = storage.manager.delete_log_segments([segment(1)]).segments
        assert (deletion.outcome, set(deletion.sent)) == (DeleteOutcome.UNKNOWN, keys)
        with pytest.raises(StorageRootError, match=partition_of(storage)):
            storage.manager.delete_log_segments([segment(1)])


def check_root(
    storage: StorageUnderTest,
    expectation: RootExpectation = UNKNOWN_ROOT,
    *,
    cluster_id: str = CLUSTER_ID,
    topic_ids: frozenset[UUID] = frozenset({TOPIC_ID}),
) -> RootCheck:
    return storage.manager.check_root(topic_ids, cluster_id, expectation)


def how(check: RootCheck) -> RootProof | None:
    (place_check,) = check.places
    return place_check.how


def unstamped(check: RootCheck) -> tuple[PlaceCheck, ...]:
    """As a process sees it that looked before another one stamped the root."""
    return tuple(replace(c, stamped=False, root_id=None) for c in check.places)


def stamped(storage: StorageUnderTest, expectation: RootExpectation = UNKNOWN_ROOT) -> str:
    """Stamp the root, and leave nothing else that could verify it; return its root id."""
    keys = storage.keys()
    place(storage, segment(77, partition=77))
    (result,) = storage.manager.stamp_root(check_root(storage, expectation))
    assert outcomes(storage, segment(77, partition=77)) == [DeleteOutcome.GONE]
    assert storage.keys() == keys | {own_stamp(storage)}
    return str(result.root_id)


def with_large_log(folder: Path) -> LogSegmentData:
    """Write the local files of a segment whose log has four chunks."""
    large = folder / "large.log"
    large.write_bytes(bytes(range(256)) * (3 * CHUNK_BYTES // 256) + b"12345")
    return replace(local_files(folder), log_segment=large)


def local_files(folder: Path) -> LogSegmentData:
    """Write the local files of a segment; the offset index is empty, as that of a short segment is."""
    contents = {"log": b"0123456789", "index": b"", "time": b"time", "snapshot": b"snapshot"}
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return LogSegmentData(
        log_segment=folder / "log",
        offset_index=folder / "index",
        time_index=folder / "time",
        producer_snapshot_index=folder / "snapshot",
        leader_epoch_index=b"0\n1\n0 0\n",
    )
