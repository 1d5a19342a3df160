# SPDX-License-Identifier: Apache-2.0
"""The contract of remote storage over obstore's S3 client."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_rlmm.core.base.errors import (
    CopyCancelledError,
    StorageAccessError,
    StorageFullError,
    StorageRootError,
)
from airflow_provider_rlmm.core.storage.layout import Layout
from airflow_provider_rlmm.core.storage.object_store import ObjectStoreRemoteStorageManager
from airflow_provider_rlmm.core.storage.remote_storage import (
    DeleteOutcome,
    Folder,
    FolderState,
    RemoteStorageManager,
    StoredObject,
)
from airflow_provider_rlmm.core.storage.rights import right_for
from airflow_provider_rlmm.core.storage.root import RootExpectation, RootProof, StampOutcome
from tests.contracts.layouts import WITHOUT_COPIES, in_house_template
from tests.contracts.remote_storage import (
    LAYOUT,
    OWN_STAMP,
    RemoteStorageContract,
    RemoteStorageCopyContract,
    StorageRootContract,
    check_root,
    how,
    local_files,
    place,
    segment,
    stamped,
    with_large_log,
)
from tests.contracts.s3_server import BUCKET, S3Server, running_s3_server
from tests.contracts.segment_reads import AivenReadContract, SegmentReadContract

pytestmark = pytest.mark.slow

PREFIX = "tiered/"


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with running_s3_server() as server:
        yield server


class S3Storage:
    def __init__(self, server: S3Server, layout: Layout, prefix: str = PREFIX) -> None:
        self.layout = layout
        self.server = server
        self.prefix = prefix
        self.manager: RemoteStorageManager = ObjectStoreRemoteStorageManager(
            f"s3://{BUCKET}/{prefix}", layout, options=server.options
        )

    def put(self, key: str, data: bytes) -> None:
        self.server.objects[self.prefix + key] = data

    def read(self, key: str) -> bytes:
        return self.server.objects[self.prefix + key]

    def keys(self) -> set[str]:
        return {key.removeprefix(self.prefix) for key in self.server.objects}


@pytest.fixture
def storage(server: S3Server, layout: Layout) -> S3Storage:
    server.objects.clear()
    server.uploads.clear()
    server.read_only = server.full = False
    server.without_bulk = server.allowed = None
    return S3Storage(server, layout)


class TestS3Contract(RemoteStorageContract, RemoteStorageCopyContract, SegmentReadContract, StorageRootContract):
    pass


class TestS3ReadsOfAivenObjects(AivenReadContract):
    pass


class TestS3ContractWithoutCopies(RemoteStorageContract, StorageRootContract):
    @pytest.fixture(params=WITHOUT_COPIES)
    def layout(self, request: pytest.FixtureRequest) -> Layout:
        return WITHOUT_COPIES[request.param]()


def test_a_copy_of_the_root_under_another_prefix_is_refused(storage: S3Storage) -> None:
    place(storage, segment(1))
    stamped(storage)
    storage.server.objects.update({k.replace(PREFIX, "backup/"): v for k, v in storage.server.objects.items()})
    backup = S3Storage(storage.server, storage.layout, "backup/")
    with pytest.raises(StorageRootError, match=f"s3://{BUCKET}/tiered/.*read at s3://{BUCKET}/backup/"):
        check_root(backup)
    assert check_root(storage).verified


@pytest.mark.parametrize("layout", [in_house_template()], ids=["folders"])
def test_segments_with_folders_of_their_own_are_looked_for_together(storage: S3Storage) -> None:
    segments = [segment(n) for n in range(50)]
    place(storage, *segments)
    unknown = storage.layout.segment_stem(segment(3)) + "/deep/unheard-of"
    storage.put(unknown, b"x")
    report = storage.manager.delete_log_segments(segments)
    outcomes = {s.remote_log_segment_id: s.outcome for s in report.segments}
    assert outcomes.pop(segment(3).remote_log_segment_id) == DeleteOutcome.PRESENT
    assert set(outcomes.values()) == {DeleteOutcome.GONE}
    assert storage.keys() == {unknown}
    # A listing before, a deletion, and a listing after, one page each.
    assert report.calls == 3


@pytest.mark.parametrize("answer", [(501, "NotImplemented"), (405, "MethodNotAllowed"), (400, "NotImplemented")])
@pytest.mark.parametrize("layout", [LAYOUT], ids=["kafka"])
def test_a_gateway_without_bulk_deletion_is_asked_for_each_object(
    storage: S3Storage, answer: tuple[int, str], caplog: pytest.LogCaptureFixture
) -> None:
    segments = [segment(n) for n in range(30)]
    place(storage, *segments)
    kept = place(storage, segment(77))
    storage.server.without_bulk = answer
    for half in (segments[:15], segments[15:]):
        assert {s.outcome for s in storage.manager.delete_log_segments(half).segments} == {DeleteOutcome.GONE}
    assert storage.keys() == kept
    assert caplog.text.count("knows no bulk deletion") == 1
    storage.server.allowed = frozenset({"s3:ListBucket"})
    (deletion,) = storage.manager.delete_log_segments([segment(77)]).segments
    assert deletion.outcome == DeleteOutcome.PRESENT
    assert all("AccessDenied" in why for why in deletion.reasons.values())
    assert storage.keys() == kept


@pytest.mark.parametrize("key", ["a//b", "a/./b"])
@pytest.mark.parametrize("layout", [LAYOUT], ids=["kafka"])
def test_a_key_that_cannot_be_named_is_told_with_what_helps(storage: S3Storage, key: str) -> None:
    storage.put(LAYOUT.prefix + key, b"x")
    with pytest.raises(StorageAccessError, match=r"a/.*delete or rename it by the console") as refused:
        storage.manager.list_objects()
    assert not refused.value.retriable


def test_the_stamp_holds_no_secret(storage: S3Storage) -> None:
    stamped(storage)
    assert b"s3cret" not in storage.read(OWN_STAMP)
    assert b"some-key-id" not in storage.read(OWN_STAMP)


def test_in_a_bucket_that_is_only_read_the_expected_location_stands_for_the_stamp(storage: S3Storage) -> None:
    place(storage, segment(1))
    storage.server.read_only = True
    check = check_root(storage)
    (result,) = storage.manager.stamp_root(check)
    assert result.outcome is StampOutcome.CANNOT_BE_WRITTEN
    location = result.reason.partition("connection to ")[2].partition(";")[0]
    storage.manager.delete_log_segments([segment(1)])
    assert not check_root(storage).verified
    check = check_root(storage, RootExpectation(expected_root=location))
    assert (how(check), check.root_ids) == (RootProof.EXPECTED_ROOT, {"kafka-tiered-storage": location})


@pytest.mark.parametrize("where", ["backup/", "kafka-tiered-storage/backup/", None])
def test_one_key_that_cannot_be_addressed_ends_only_its_own_folder(storage: S3Storage, where: str | None) -> None:
    other = segment(2, partition=1)
    keys = place(storage, segment(1), other)
    folder = storage.layout.partition_prefix(other.remote_log_segment_id.topic_id_partition)
    storage.put(f"{folder if where is None else where}a//b", b"1")
    met = list(storage.manager.walk(()))
    found = {o.key for o in met if isinstance(o, StoredObject)}
    broken = [f.prefix for f in met if isinstance(f, Folder) and f.state is FolderState.BROKEN]
    if where is None:
        assert set(storage.layout.required_keys(segment(1))) <= found
        assert all(prefix.startswith(folder) for prefix in broken)
        assert broken
    else:
        assert (found, broken) == (keys, [])


def test_known_partitions_are_found_where_their_place_cannot_be_listed(storage: S3Storage) -> None:
    keys = place(storage, segment(1))
    storage.put("kafka-tiered-storage//b", b"1")
    met = list(storage.manager.walk([segment(1).remote_log_segment_id.topic_id_partition]))
    assert {o.key for o in met if isinstance(o, StoredObject)} == keys
    assert {f.prefix for f in met if isinstance(f, Folder) and f.state is FolderState.BROKEN} == {
        "kafka-tiered-storage/"
    }


@pytest.mark.parametrize("cancelled_at", [5, 7])
def test_a_cancelled_copy_leaves_no_unfinished_upload(storage: S3Storage, tmp_path: Path, cancelled_at: int) -> None:
    data, uploads = with_large_log(tmp_path), list[int]()

    def before_chunk(size: int) -> None:
        uploads.append(len(storage.server.uploads))
        if len(uploads) == cancelled_at:
            raise CopyCancelledError("cancelled by the test")

    with pytest.raises(CopyCancelledError):
        storage.manager.copy_log_segment_data(segment(1), data, before_chunk)
    assert storage.server.uploads == {}
    assert storage.keys().isdisjoint({storage.layout.object_key(segment(1), None)})
    storage.manager.copy_log_segment_data(segment(1), data)
    assert storage.server.uploads == {}
    assert storage.manager.fetch_log_segment(segment(1), 0) == data.log_segment.read_bytes()


@pytest.mark.slow
def test_a_bucket_without_room_is_said(storage: S3Storage, tmp_path: Path) -> None:
    storage.server.full = True
    with pytest.raises(StorageFullError, match=r"cannot write .*make room in the storage") as full:
        storage.manager.copy_log_segment_data(segment(1), local_files(tmp_path))
    assert not full.value.retriable
    assert storage.keys() == set()


def test_what_is_forbidden_names_the_right(storage: S3Storage, tmp_path: Path) -> None:
    storage.put("a/b.log", b"there")
    storage.server.allowed = frozenset()
    with pytest.raises(StorageAccessError, match=r"cannot list .*; give the credentials s3:ListBucket on the bucket$"):
        storage.manager.stamped_clusters()
    with pytest.raises(StorageAccessError, match=r"cannot read a/b\.log: .*; give the credentials s3:GetObject on it"):
        storage.manager.fetch_object("a/b.log")
    with pytest.raises(StorageAccessError, match=r"cannot write .*; give the credentials s3:PutObject on it"):
        storage.manager.copy_log_segment_data(segment(1), local_files(tmp_path))


@pytest.mark.parametrize(
    ("store", "action", "said"),
    [
        ("GCSStore", "list orders/", "give the credentials storage.objects.list on the bucket"),
        ("AzureStore", "read a", "give the credentials the role Storage Blob Data Reader on the container"),
        ("LocalStore", "read a", None),
        ("S3Store", "look at a", None),
    ],
)
def test_each_store_has_rights_of_its_own(store: str, action: str, said: str | None) -> None:
    assert right_for(store, action) == said
