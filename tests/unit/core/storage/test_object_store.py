# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno
import os
import shutil
import stat
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NoReturn

import pytest
from obstore.exceptions import GenericError
from obstore.store import LocalStore, MemoryStore

from airflow_provider_rlmm.core.base.errors import (
    ConfigurationError,
    LogDirectoryError,
    RlmmError,
    StorageAccessError,
    StorageError,
    StorageFullError,
    StorageRootError,
    StorageUnavailableError,
)
from airflow_provider_rlmm.core.storage.deletion import Lookup
from airflow_provider_rlmm.core.storage.index_type import IndexType
from airflow_provider_rlmm.core.storage.layout import Layout
from airflow_provider_rlmm.core.storage.local_files import LocalFiles
from airflow_provider_rlmm.core.storage.object_store import ObjectStoreRemoteStorageManager
from airflow_provider_rlmm.core.storage.opening import open_store
from airflow_provider_rlmm.core.storage.remote_storage import DeleteOutcome, RemoteStorageManager, StoredObject
from airflow_provider_rlmm.core.storage.root import RootExpectation
from airflow_provider_rlmm.core.storage.uploads import CHUNK_BYTES
from tests.contracts.layouts import NEW, WITHOUT_COPIES, RelocatedLayout, in_house_template
from tests.contracts.remote_storage import (
    LAYOUT,
    PARTITION,
    TIP,
    TOPIC_ID,
    RemoteStorageContract,
    RemoteStorageCopyContract,
    RemoteStorageCopyFaultContract,
    RemoteStorageFaultContract,
    StorageRootContract,
    check_root,
    local_files,
    outcomes,
    place,
    segment,
    with_large_log,
)
from tests.contracts.segment_reads import AivenReadContract, SegmentReadContract, SegmentReadFaultContract
from tests.full_disk import leave_room

pytestmark = pytest.mark.slow

SECRET = "very-s3cret/value+"


class FaultyLocalStore(LocalStore):
    """A local folder whose calls can be made to fail as obstore's do."""

    failing_listing = 0
    listings = 0
    refuses_put = False

    def put(self, path: str, file: Any, **options: Any) -> Any:
        if self.refuses_put:
            raise GenericError("No space left on device: refused by the test")
        return super().put(path, file, **options)

    def list(self, prefix: str | None = None, **options: Any) -> Any:
        self.count_listing()
        return super().list(prefix, **options)

    def count_listing(self) -> None:
        self.listings += 1
        if self.listings == self.failing_listing:
            raise GenericError("listing failed in the test")


class FaultyFiles(LocalFiles):
    """The files of that folder, some of which cannot be deleted."""

    def __init__(self, root: Path, store: FaultyLocalStore) -> None:
        super().__init__(root)
        self.store = store
        self.refused: frozenset[str] = frozenset()
        # Of each call, how many keys; calls are made by several threads.
        self.deletes: list[int] = []
        self.when_deleted: Callable[[], None] | None = None

    def find(self, lookup: Lookup) -> list[StoredObject]:
        self.store.count_listing()
        return super().find(lookup)

    def delete(self, keys: Sequence[str]) -> Mapping[str, str]:
        self.deletes.append(len(keys))
        failures = super().delete([key for key in keys if key not in self.refused])
        if self.when_deleted is not None:
            self.when_deleted()
        return {**failures, **{key: "refused by the test" for key in keys if key in self.refused}}


class LocalFolder:
    def __init__(self, root: Path, layout: Layout = LAYOUT, *, existing: bool = False) -> None:
        self.layout = layout
        if not existing:
            root.mkdir()
        self.root = root
        self.store = FaultyLocalStore(root)
        self.files = FaultyFiles(root, self.store)
        manager = ObjectStoreRemoteStorageManager(self.store, layout)
        manager._calls._files = self.files
        self.manager: RemoteStorageManager = manager

    def put(self, key: str, data: bytes) -> None:
        path = self.root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def read(self, key: str) -> bytes:
        return (self.root / key).read_bytes()

    def refuse_put(self) -> None:
        self.store.refuses_put = True

    def rename_folder(self, prefix: str, *, another: bool) -> None:
        folder = self.root / prefix
        folder.rename(self.root.with_name("renamed"))
        if another:
            folder.mkdir()

    def rename_folder_back(self, prefix: str) -> None:
        folder = self.root / prefix
        if folder.exists():
            folder.rmdir()
        self.root.with_name("renamed").rename(folder)

    def rename_folder_during_delete(self, prefix: str) -> None:
        self.files.when_deleted = lambda: self.rename_folder(prefix, another=True)

    def keys(self) -> set[str]:
        return {str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file()}

    def remove_root(self) -> None:
        shutil.rmtree(self.root)

    def refuse_delete(self, *keys: str) -> None:
        self.files.refused = frozenset(keys)

    def fail_listing(self, number: int) -> None:
        self.store.failing_listing = self.store.listings + number

    def unmount_during_delete(self) -> None:
        # As an unmount does it: the folder is still there, but it is another one, and empty.
        def swap() -> None:
            self.root.rename(self.root.with_name("unmounted"))
            self.root.mkdir()

        self.files.when_deleted = swap


class ObstoreMemory:
    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.store = MemoryStore()
        self.manager: RemoteStorageManager = ObjectStoreRemoteStorageManager(self.store, layout)

    def put(self, key: str, data: bytes) -> None:
        self.store.put(key, data)

    def read(self, key: str) -> bytes:
        return bytes(self.store.get(key).bytes())

    def keys(self) -> set[str]:
        return {meta["path"] for chunk in self.store.list() for meta in chunk}


@pytest.fixture
def folder(tmp_path: Path, layout: Layout) -> LocalFolder:
    return LocalFolder(tmp_path / "root", layout)


class TestLocalFolderContract(
    RemoteStorageContract,
    RemoteStorageCopyContract,
    RemoteStorageCopyFaultContract,
    SegmentReadContract,
    SegmentReadFaultContract,
    StorageRootContract,
    RemoteStorageFaultContract,
):
    @pytest.fixture
    def storage(self, folder: LocalFolder) -> LocalFolder:
        return folder


class TestLocalFolderContractWithAnotherLayout(TestLocalFolderContract):
    @pytest.fixture
    def layout(self) -> Layout:
        return RelocatedLayout(NEW)


class TestLocalFolderContractWithoutCopies(RemoteStorageContract, StorageRootContract, RemoteStorageFaultContract):
    @pytest.fixture(params=WITHOUT_COPIES)
    def layout(self, request: pytest.FixtureRequest) -> Layout:
        return WITHOUT_COPIES[request.param]()

    @pytest.fixture
    def storage(self, folder: LocalFolder) -> LocalFolder:
        return folder


class TestLocalFolderReadsOfAivenObjects(AivenReadContract, SegmentReadFaultContract):
    @pytest.fixture
    def storage(self, folder: LocalFolder) -> LocalFolder:
        return folder


class TestObstoreMemoryContract(
    RemoteStorageContract, RemoteStorageCopyContract, SegmentReadContract, StorageRootContract
):
    @pytest.fixture
    def storage(self, layout: Layout) -> ObstoreMemory:
        return ObstoreMemory(layout)


def test_uri_and_store_reach_the_same_root(folder: LocalFolder) -> None:
    keys = place(folder, segment(1))
    manager = ObjectStoreRemoteStorageManager(folder.root.as_uri(), LAYOUT)
    assert [o.key for o in manager.list_objects()] == sorted(keys)
    for key in keys:
        os.utime(folder.root / key, ns=(0, 1_700_000_000_123_000_000))
    assert {o.last_modified_ms for o in manager.list_objects()} == {1_700_000_000_123}
    assert repr(manager) == f"ObjectStoreRemoteStorageManager({folder.root.as_uri()!r}, 'local-tiered-storage')"


def test_folder_with_awkward_characters(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path / "a b%20é#?")
    place(folder, segment(1))
    manager = ObjectStoreRemoteStorageManager(folder.root.as_uri(), LAYOUT)
    assert manager.delete_log_segment_data(segment(1)).outcome is DeleteOutcome.GONE
    assert folder.keys() == set()


def test_partition_directories_remain(folder: LocalFolder) -> None:
    place(folder, segment(1))
    assert outcomes(folder, segment(1)) == [DeleteOutcome.GONE]
    directory = folder.root / LAYOUT.partition_prefix(segment(1).remote_log_segment_id.topic_id_partition)
    assert list(directory.iterdir()) == []


def test_missing_root_is_an_error_and_is_not_created(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    with pytest.raises(StorageRootError, match="does not exist"):
        open_store(missing.as_uri())
    assert not missing.exists()
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(StorageRootError, match="no folder"):
        open_store(file.as_uri())


def test_object_deleted_by_somebody_else_does_not_stop_the_others(folder: LocalFolder) -> None:
    segments = [segment(n) for n in range(40)]
    keys = sorted(place(folder, *segments))
    raced = keys[::7]

    real_list = folder.store.list

    def list_then_lose(prefix: str | None = None, **options: Any) -> Any:
        chunks = list(real_list(prefix, **options))
        for key in raced:
            (folder.root / key).unlink(missing_ok=True)
        return chunks

    folder.store.list = list_then_lose
    assert outcomes(folder, *segments) == [DeleteOutcome.GONE] * 40
    assert folder.keys() == set()


@pytest.mark.slow
def test_one_stubborn_object_among_many_is_isolated(folder: LocalFolder) -> None:
    segments = [segment(n) for n in range(300)]
    place(folder, *segments)
    refused = LAYOUT.object_key(segment(123), None)
    folder.refuse_delete(refused)
    report = folder.manager.delete_log_segments(segments)
    assert [s.outcome for s in report.segments].count(DeleteOutcome.PRESENT) == 1
    assert folder.keys() == {refused}
    second_page = 1
    assert report.calls == folder.store.listings + second_page + len(folder.files.deletes)
    assert folder.files.deletes == [250] * 6


def test_files_are_deleted_side_by_side(folder: LocalFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A network mount answers each deletion late."""
    segments = [segment(n) for n in range(300)]
    place(folder, *segments)
    four, real_delete = threading.Event(), folder.files.delete
    under_way = threading.Semaphore(3)

    def delete(keys: Sequence[str]) -> Mapping[str, str]:
        if not under_way.acquire(blocking=False):
            four.set()
        assert four.wait(30.0), "fewer than four are under way"
        return real_delete(keys)

    monkeypatch.setattr(folder.files, "delete", delete)
    assert outcomes(folder, *segments) == [DeleteOutcome.GONE] * 300
    assert folder.keys() == set()


def test_each_refused_file_is_said_wherever_it_lies_in_a_batch(folder: LocalFolder) -> None:
    segments = [segment(n) for n in range(300)]
    refused = {LAYOUT.object_key(each, None) for each in segments[::60]}
    place(folder, *segments)
    folder.refuse_delete(*refused)
    report = folder.manager.delete_log_segments(segments)
    assert {key: why for each in report.segments for key, why in each.reasons.items()} == dict.fromkeys(
        refused, "refused by the test"
    )
    assert folder.keys() == refused


def test_a_batch_costs_the_same_whatever_lies_beside_it(folder: LocalFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    place(folder, *(segment(n) for n in range(20)))
    looks: list[int] = []
    real_find = folder.files.find

    def find(lookup: Lookup) -> list[StoredObject]:
        looks.append(len(lookup.keys))
        return real_find(lookup)

    monkeypatch.setattr(folder.files, "find", find)
    monkeypatch.setattr(folder.store, "list", lambda *_, **__: pytest.fail("a listing costs what lies in the folder"))
    report = folder.manager.delete_log_segments([segment(1), segment(2)], ())
    assert [s.outcome for s in report.segments] == [DeleteOutcome.GONE] * 2
    assert looks == [2 * len(LAYOUT.suffixes)] * 2
    assert len(folder.keys()) == 18 * len(LAYOUT.required_keys(segment(1)))


def test_a_link_in_the_way_is_not_followed(folder: LocalFolder, tmp_path: Path) -> None:
    living = tmp_path / "living"
    living.mkdir()
    place(folder, segment(1))
    keys = LAYOUT.required_keys(segment(1))
    files = LocalFiles(folder.root)
    for key in keys:
        (living / Path(key).name).write_bytes(b"living")
    (folder.root / PARTITION).rename(tmp_path / "moved")
    (folder.root / PARTITION).symlink_to(living)
    assert set(files.delete(keys)) == set(keys)
    assert len(list(living.iterdir())) == len(keys)
    with pytest.raises(OSError, match=PARTITION.rstrip("/").rpartition("/")[2]):
        files.find(Lookup(PARTITION, sorted(keys), set(keys)))


def test_a_link_in_the_place_of_a_segments_folder_is_not_followed(tmp_path: Path) -> None:
    layout = in_house_template()
    folder, living = LocalFolder(tmp_path / "root", layout), tmp_path / "living"
    living.mkdir()
    keys = place(folder, segment(1))
    own = folder.root / layout.segment_stem(segment(1))
    for key in keys:
        (living / Path(key).name).write_bytes(b"living")
    own.rename(tmp_path / "moved")
    own.symlink_to(living)
    with pytest.raises(StorageError, match=own.name):
        folder.manager.delete_log_segments([segment(1)], ())
    assert len(list(living.iterdir())) == len(keys)


def test_large_files_are_copied_whole(folder: LocalFolder, tmp_path: Path) -> None:
    large = tmp_path / "large.log"
    large.write_bytes(os.urandom(1 << 20) * 12)
    folder.manager.copy_log_segment_data(segment(1), replace(local_files(tmp_path), log_segment=large))
    assert folder.manager.fetch_log_segment(segment(1), 0) == large.read_bytes()


def test_a_full_disk_is_said_and_nothing_of_the_log_stays(
    folder: LocalFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = with_large_log(tmp_path)
    leave_room(monkeypatch, 6_000_000)
    with pytest.raises(StorageFullError, match=r"cannot write .*\.log: .*make room in the storage") as full:
        folder.manager.copy_log_segment_data(segment(1), data)
    assert not full.value.retriable
    assert folder.keys().isdisjoint({LAYOUT.object_key(segment(1), None)})
    monkeypatch.undo()
    folder.manager.copy_log_segment_data(segment(1), data)
    assert folder.manager.fetch_log_segment(segment(1), 0) == data.log_segment.read_bytes()


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OSError(errno.EDQUOT, "quota"), StorageFullError),
        (GenericError("cannot write: No space left on device (os error 28)"), StorageFullError),
        (GenericError("Server returned non-2xx status code: 507 : <Error>"), StorageFullError),
        (GenericError("status code: 403 : <Error><Code>QuotaExceeded</Code></Error>"), StorageFullError),
        (GenericError("status code: 403 : <Error><Code>AccessDenied</Code></Error>"), StorageAccessError),
        (PermissionError(errno.EACCES, "denied"), StorageAccessError),
        (OSError(errno.EIO, "broken"), StorageUnavailableError),
    ],
)
def test_a_failing_write_is_named_for_what_it_is(
    folder: LocalFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, expected: type[StorageError]
) -> None:
    def fail(*_: object) -> NoReturn:
        raise error

    monkeypatch.setattr(folder.files, "create", fail)
    with pytest.raises(StorageError, match="cannot write kafka-tiered-storage/") as failed:
        folder.manager.copy_log_segment_data(segment(1), local_files(tmp_path))
    assert type(failed.value) is expected


def test_a_log_that_is_cut_while_it_is_copied_is_refused(folder: LocalFolder, tmp_path: Path) -> None:
    data = with_large_log(tmp_path)

    def cut(size: int) -> None:
        if size == CHUNK_BYTES:
            os.truncate(data.log_segment, CHUNK_BYTES)

    with pytest.raises(LogDirectoryError, match=r"large\.log was written to while it was copied"):
        folder.manager.copy_log_segment_data(segment(1), data, cut)


def test_a_root_that_is_replaced_while_a_segment_is_copied_is_an_error(folder: LocalFolder, tmp_path: Path) -> None:
    """As by an unmount: what is written then lies on another disk."""
    data, replaced = local_files(tmp_path), tmp_path / "replaced"

    def unmount(size: int) -> None:
        if not replaced.exists():
            folder.root.rename(replaced)
            folder.root.mkdir()

    with pytest.raises(StorageRootError, match="is not the one that this run began with"):
        folder.manager.copy_log_segment_data(segment(1), data, unmount)


def test_a_copy_does_not_write_through_links(folder: LocalFolder, tmp_path: Path) -> None:
    """Neither through a folder that is a link, nor into a file that has another name elsewhere."""
    data, log = local_files(tmp_path), folder.root / LAYOUT.object_key(segment(1), None)
    folder.manager.copy_log_segment_data(segment(1), data)
    backup = tmp_path / "backup"
    backup.hardlink_to(log)
    data.log_segment.write_bytes(b"9876543210")
    folder.manager.copy_log_segment_data(segment(1), data)
    assert (backup.read_bytes(), log.read_bytes()) == (b"0123456789", b"9876543210")
    log.parent.rename(tmp_path / "moved")
    (folder.root / PARTITION).symlink_to(tmp_path / "moved")
    with pytest.raises(StorageRootError, match="is a symbolic link"):
        folder.manager.copy_log_segment_data(segment(1), data)


def test_a_copy_is_on_the_disk_when_it_ends(
    folder: LocalFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who reads that it is finished may delete the only other copy."""
    kept, fsync = set[tuple[int, int]](), os.fsync

    def seen(file: int) -> None:
        kept.add((os.fstat(file).st_ino, os.fstat(file).st_size if stat.S_ISREG(os.fstat(file).st_mode) else -1))
        fsync(file)

    monkeypatch.setattr("airflow_provider_rlmm.core.storage.local_files.os.fsync", seen)
    folder.manager.copy_log_segment_data(segment(1), local_files(tmp_path))
    files = [path for path in folder.root.rglob("*") if path.is_file()]
    folders = [folder.root, *(path for path in folder.root.rglob("*") if path.is_dir())]
    assert kept == {(f.stat().st_ino, f.stat().st_size) for f in files} | {(f.stat().st_ino, -1) for f in folders}


@pytest.mark.parametrize("known", [True, False])
def test_a_copy_drives_nothing_out_of_memory(
    folder: LocalFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    """Each chunk is sent to the disk, and let go; where the system does not know such advice, it is copied without."""
    given = list[tuple[int, int]]()
    target = "airflow_provider_rlmm.core.storage.local_files.os.posix_fadvise"
    if known:
        monkeypatch.setattr(target, lambda file, *advice: given.append((os.fstat(file).st_size, advice[-1])))
    else:
        monkeypatch.delattr(target)
    writer = LocalFiles(folder.root).create(LAYOUT.object_key(segment(1), None))
    writer.write(b"012")
    writer.write(b"345")
    writer.close()
    assert given == [(3, os.POSIX_FADV_DONTNEED), (6, os.POSIX_FADV_DONTNEED)][: 2 * known]
    assert folder.read(LAYOUT.object_key(segment(1), None)) == b"012345"


def test_what_a_killed_copy_leaves_goes_with_its_segment(folder: LocalFolder) -> None:
    writer = LocalFiles(folder.root).create(LAYOUT.object_key(segment(1), None))
    writer.write(b"012")
    deletion = folder.manager.delete_log_segment_data(segment(1))
    assert (deletion.outcome, deletion.bytes_deleted) == (DeleteOutcome.GONE, 3)
    writer.write(b"345")
    writer.close()
    assert folder.keys() == set(), "a copier that wakes up does not bring it back"


def test_a_copy_that_fails_does_not_take_back_what_another_one_wrote(folder: LocalFolder) -> None:
    key = LAYOUT.object_key(segment(1), None)
    first = LocalFiles(folder.root).create(key)
    second = LocalFiles(folder.root).create(key)
    second.write(b"second")
    second.close()
    first.abort()
    assert folder.read(key) == b"second"


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        ("/just/a/path", "file:///folder"),
        ("file://folder/below", "file:///folder"),
        ("file:///a#b", "file:///folder"),
        ("ftp://host/x", "ftp"),
        ("nonsense", "scheme"),
        ("http://[bad", "parsed"),
    ],
)
def test_unusable_uris_are_named(uri: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        open_store(uri)


@pytest.mark.parametrize(
    "uri", [f"s3://user:{SECRET}@bucket", f"https://{SECRET.replace('/', '')}@host/x", f"s3://bucket?key={SECRET}"]
)
def test_credentials_in_the_uri_are_refused_without_being_repeated(uri: str) -> None:
    with pytest.raises(ConfigurationError, match="storage options") as caught:
        open_store(uri)
    assert "s3cret" not in str(caught.value)


def test_local_storage_takes_no_options(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="aws_secret_access_key") as caught:
        open_store(tmp_path.as_uri(), {"aws_secret_access_key": SECRET})
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("uri", "options", "says"),
    [
        ("s3://b", {"bogus": SECRET}, "bogus"),
        ("s3://b", {"aws_s3_express": SECRET}, "boolean"),
        ("s3://b", {"timeout": SECRET}, "s3://b"),
        ("az://b", {"azure_storage_account_name": "account", "azure_storage_account_key": SECRET}, "Key"),
        ("gs://b", {"google_service_account_key": '{"private_key": "' + SECRET + '"}'}, "service account"),
    ],
)
def test_bad_options_are_named_without_their_values(uri: str, options: Mapping[str, str], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says) as caught:
        open_store(uri, options)
    assert SECRET not in str(caught.value)
    assert caught.value.__suppress_context__


class _Answer(BaseHTTPRequestHandler):
    """Answers every request of an S3 client with one status, and gives away the secret in its body."""

    status = 200
    code = "Some"
    requests = 0

    def _answer(self) -> None:
        type(self).requests += 1
        error = f"<Error><Code>{self.code}</Code><Message>{SECRET}</Message></Error>"
        body = f'<?xml version="1.0" encoding="UTF-8"?>{error}'.encode()
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PUT = _answer  # noqa: N815 - the base class looks for these names

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        pass


@pytest.fixture
def s3() -> Iterator[tuple[type[_Answer], ObjectStoreRemoteStorageManager]]:
    handler = type("Handler", (_Answer,), {})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        options = {
            "aws_endpoint": f"http://127.0.0.1:{server.server_port}",
            "aws_region": "eu-north-1",
            "aws_access_key_id": "some-key-id",
            "aws_secret_access_key": SECRET,
            "allow_http": "true",
        }
        yield handler, ObjectStoreRemoteStorageManager("s3://bucket/prefix", LAYOUT, options=options)
        server.shutdown()
        thread.join()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("status", "error", "requests"),
    [
        (404, StorageRootError, 1),
        (403, StorageAccessError, 1),
        (401, StorageAccessError, 1),
        (503, StorageUnavailableError, 4),
        (429, StorageUnavailableError, 4),
    ],
)
def test_answers_of_a_store_are_told_apart_and_retries_are_bounded(
    s3: tuple[type[_Answer], ObjectStoreRemoteStorageManager],
    status: int,
    error: type[RlmmError],
    requests: int,
) -> None:
    handler, manager = s3
    handler.status = status
    with pytest.raises(error) as caught:
        manager.list_objects()
    assert type(caught.value) is error
    assert str(status) in str(caught.value)
    assert SECRET not in str(caught.value)
    assert SECRET not in repr(manager)
    assert handler.requests == requests


WRONG_LOGIN = [
    (400, "ExpiredToken", "log in again, or use credentials that are renewed"),
    (400, "InvalidToken", "log in again"),
    (403, "InvalidAccessKeyId", "look at the access key and its secret"),
    (403, "SignatureDoesNotMatch", "look at the access key and its secret"),
    (400, "AuthorizationHeaderMalformed", "set the bucket's own region and endpoint"),
    (301, "PermanentRedirect", "set the bucket's own region and endpoint"),
    (403, "RequestTimeTooSkewed", "set this machine's clock"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("status", "code", "remedy"), WRONG_LOGIN)
def test_what_is_wrong_with_who_asks_does_not_pass_and_says_what_helps(
    s3: tuple[type[_Answer], ObjectStoreRemoteStorageManager], status: int, code: str, remedy: str
) -> None:
    handler, manager = s3
    handler.status, handler.code = status, code
    calls: list[Callable[[], object]] = [
        manager.list_objects,
        lambda: manager.fetch_log_segment(segment(1), 0),
        lambda: manager.stored_objects(["a/b"]),
    ]
    for call in calls:
        with pytest.raises(StorageAccessError, match=remedy) as caught:
            call()
        assert not caught.value.retriable
        # S3 names no code with a redirect that leads nowhere.
        assert code in str(caught.value) or status == 301
        assert SECRET not in str(caught.value)
    handler.requests = 0
    deletion = manager._calls.delete([f"a/{number}" for number in range(50)])
    assert handler.requests <= 2
    assert len(deletion.failures) == 50


@pytest.mark.parametrize(("status", "error"), [(404, StorageRootError), (403, StorageAccessError)])
def test_writing_and_deleting_where_nothing_is_allowed(
    s3: tuple[type[_Answer], ObjectStoreRemoteStorageManager], status: int, error: type[RlmmError]
) -> None:
    handler, manager = s3
    handler.status = status
    with pytest.raises(error):
        manager.check_root(frozenset(), "cluster-a")
    with pytest.raises(error):
        manager.delete_log_segments([segment(1)])


@pytest.mark.parametrize("unmounted", ["", LAYOUT.prefix])
def test_a_root_that_is_replaced_after_its_check_is_not_believed(folder: LocalFolder, unmounted: str) -> None:
    for key in LAYOUT.required_keys(segment(1)):
        folder.put(key, b"1")
    manager, part = folder.manager, folder.root / unmounted
    assert manager.check_root(frozenset({TOPIC_ID}), "cluster-a").verified
    part.rename(folder.root.with_name("unmounted"))
    part.mkdir()

    with pytest.raises(StorageRootError, match="not the one that this run began with"):
        manager.list_log_segments(segment(1).remote_log_segment_id.topic_id_partition)
    with pytest.raises(StorageRootError, match="not the one that this run began with"):
        manager.delete_log_segments([segment(1)])

    part.rmdir()
    folder.root.with_name("unmounted").rename(part)
    assert manager.delete_log_segments([segment(1)]).segments[0].outcome is DeleteOutcome.GONE


def test_a_root_that_is_replaced_while_it_is_listed_is_not_believed(
    folder: LocalFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    list_objects = folder.store.list

    def unmount_and_list(*args: Any, **kwargs: Any) -> Any:
        folder.root.rename(folder.root.with_name("unmounted"))
        folder.root.mkdir()
        return list_objects(*args, **kwargs)

    monkeypatch.setattr(folder.store, "list", unmount_and_list)
    with pytest.raises(StorageRootError, match="not the one that this run began with"):
        folder.manager.delete_log_segments([segment(1)])


def test_a_stamp_beside_an_unmounted_prefix_refuses(folder: LocalFolder) -> None:
    place(folder, segment(1))
    (stamp,) = folder.manager.stamp_root(check_root(folder))
    folder.manager.delete_log_segments([segment(1)])
    recorded = RootExpectation(recorded=frozenset({str(stamp.root_id)}))
    assert check_root(folder, recorded).verified, "its directories are still there"

    prefix = folder.root / LAYOUT.prefix
    prefix.rename(folder.root.with_name("unmounted"))
    for _ in range(2):
        another_run = LocalFolder(folder.root, existing=True)
        with pytest.raises(StorageRootError, match=r"says that it lies at file:///.*move_stamp"):
            check_root(another_run, recorded)
        prefix.mkdir(exist_ok=True)


def test_a_copy_of_the_root_is_refused_under_its_own_path_and_under_the_true_ones(folder: LocalFolder) -> None:
    place(folder, segment(1))
    folder.manager.stamp_root(check_root(folder))
    copy = folder.root.with_name("copy")
    shutil.copytree(folder.root, copy)
    with pytest.raises(StorageRootError, match=f"lies at file://{folder.root}.*read at file://{copy}"):
        check_root(LocalFolder(copy, existing=True))
    folder.root.rename(folder.root.with_name("true"))
    copy.rename(folder.root)
    with pytest.raises(StorageRootError, match="inode="):
        check_root(LocalFolder(folder.root, existing=True))


def test_a_folder_that_does_not_exist_is_expected_by_nobody(folder: LocalFolder) -> None:
    missing = f"{folder.root.as_uri()}/{LAYOUT.prefix}".rstrip("/")
    assert str(check_root(folder).places[0].where) == missing
    with pytest.raises(StorageRootError, match="check the storage URI and the mount"):
        check_root(folder, RootExpectation(expected_root=missing))


def test_symbolic_links_below_the_root_are_refused(folder: LocalFolder, tmp_path: Path) -> None:
    place(folder, segment(1))
    for linked in (folder.root / PARTITION, folder.root / LAYOUT.prefix):
        target = tmp_path / f"elsewhere-{linked.name}"
        linked.rename(target)
        linked.symlink_to(target)
        for call in (
            lambda: folder.manager.list_log_segments(TIP),
            lambda: folder.manager.delete_log_segments([segment(1)]),
            lambda: folder.manager.missing_keys(LAYOUT.required_keys(segment(1))),
            lambda: check_root(folder),
        ):
            with pytest.raises(StorageRootError, match=f"{linked.name} is a symbolic link"):
                call()
        linked.unlink()
        target.rename(linked)
    assert outcomes(folder, segment(1)) == [DeleteOutcome.GONE]


def test_a_root_that_is_a_symbolic_link_itself_is_used(folder: LocalFolder, tmp_path: Path) -> None:
    place(folder, segment(1))
    link = tmp_path / "link"
    link.symlink_to(folder.root)
    through_link = LocalFolder(link, existing=True)
    assert check_root(through_link).verified
    assert outcomes(through_link, segment(1)) == [DeleteOutcome.GONE]


def test_store_that_is_down_is_unavailable_not_missing(
    s3: tuple[type[_Answer], ObjectStoreRemoteStorageManager],
) -> None:
    handler, manager = s3
    handler.status = 500
    with pytest.raises(StorageUnavailableError) as caught:
        manager.fetch_index(segment(1), IndexType.OFFSET)
    assert caught.value.retriable
