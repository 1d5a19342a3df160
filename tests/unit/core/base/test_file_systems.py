# SPDX-License-Identifier: Apache-2.0
"""Files by URI: whole or not at all, whatever fails in the middle."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_rlmm.core.base import file_systems, local_writing, object_stores
from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.base.file_systems import (
    create_file,
    file_sizes,
    files_below,
    list_files,
    list_folders,
    local_path,
    modified_ms,
    move_file,
    read_file,
    reading_in_order,
    remove_file,
    remove_folder,
    replace_file,
    replacing,
    writing,
)
from tests.moto_s3 import MotoS3
from tests.object_store_server import ObjectStoreServer

ROOT = Path(__file__).parents[4]
WRITERS: list[Callable[[str, list[bytes]], None]] = [replace_file, create_file]


@pytest.fixture(params=["path", "file URI", "object store"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "object store":
        request.getfixturevalue("object_store")
        return "s3://bucket/some folder/file.json"
    path = tmp_path / "some folder" / "file.json"
    return str(path) if request.param == "path" else path.as_uri()


def content(uri: str) -> bytes:
    return bytes(read_file(uri).to_pybytes())


# --- what a file is --------------------------------------------------------------------------------------------------


def test_a_file_is_written_read_replaced_and_removed(uri: str) -> None:
    with pytest.raises(FileNotFoundError):
        read_file(uri)
    remove_file(uri)
    for parts in ([b"one", b"", memoryview(b" two")], [b""], [b"three"]):
        replace_file(uri, parts)
        assert content(uri) == b"".join(parts)
    remove_file(uri)
    with pytest.raises(FileNotFoundError):
        read_file(uri)


def test_a_file_is_created_once(uri: str) -> None:
    create_file(uri, [b"mine"])
    with pytest.raises(FileExistsError):
        create_file(uri, [b"other"])
    with pytest.raises(FileExistsError):
        create_file(uri, [b"mine as well"])
    assert content(uri) == b"mine"
    # The answer to the first call may have been lost.
    create_file(uri, [b"mi", b"ne"])


def test_a_file_that_is_too_large_is_not_read(uri: str) -> None:
    replace_file(uri, [b"12345"])
    assert read_file(uri, 5).to_pybytes() == b"12345"
    with pytest.raises(OSError, match="5 bytes, at most 4") as error:
        read_file(uri, 4)
    assert error.value.errno == errno.EFBIG


def test_a_file_is_read_in_order_by_pieces(uri: str) -> None:
    data = bytes(range(256)) * 4_000
    replace_file(uri, [data])
    with reading_in_order(uri) as file:
        found = [file.read(size) for size in (0, 1, 700_000, 300, 2_000_000, 5)]
    assert b"".join(found) == data
    assert [len(piece) for piece in found] == [0, 1, 700_000, 300, len(data) - 700_301, 0]
    with pytest.raises(FileNotFoundError), reading_in_order(f"{uri}x"):
        pass


def test_an_error_in_the_middle_leaves_the_older_file_and_nothing_else(uri: str, tmp_path: Path) -> None:
    replace_file(uri, [b"old"])

    def interrupted() -> None:
        with replacing(uri) as file:
            file.write(b"n" * 100_000)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert content(uri) == b"old"
    assert [p for p in tmp_path.rglob("*") if p.is_file() and p.name != "file.json"] == []


@pytest.mark.parametrize(
    "bad",
    [
        "gopher://x/y",
        "hdfs://name/x",
        "file://host/x",
        "file:///x?y=1",
        "s3:///key",
        "s3://",
        "https://b.example/x",
        "://",
    ],
)
def test_a_uri_that_nobody_understands_is_refused(bad: str) -> None:
    for use in (read_file, remove_file, lambda uri: replace_file(uri, [b"x"]), lambda uri: create_file(uri, [b"x"])):
        with pytest.raises(ConfigurationError, match="is no URI"):
            use(bad)


def test_local_paths() -> None:
    assert (
        local_path("/a b/c") == local_path("file:///a%20b/c") == local_path("file://localhost/a b/c") == Path("/a b/c")
    )
    assert local_path("s3a://bucket/c") is None


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        for read in (read_file, lambda uri: reading_in_order(uri).__enter__()):
            with pytest.raises(OSError, match=r"no regular file|directory"):
                read(str(path))


# --- folders ---------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["path", "file URI", "object store"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "object store":
        return f"s3://{request.getfixturevalue('s3').bucket()}/top"
    return str(tmp_path / "top") if request.param == "path" else (tmp_path / "top").as_uri()


@pytest.mark.slow
def test_a_folder_is_listed_and_removed(folder: str) -> None:
    assert (list_files(folder), list_folders(folder)) == ([], [])
    for name in ("b", "a.json", "one/x", "one/deep/y", "two/z", "one-more/z"):
        replace_file(f"{folder}/{name}", [name.encode()])
    replace_file(f"{folder}-beside/a", [b"x"])
    assert (list_files(folder), list_folders(folder)) == (["a.json", "b"], ["one", "one-more", "two"])
    assert files_below(folder) == ["a.json", "b", "one-more/z", "one/deep/y", "one/x", "two/z"]
    assert files_below(f"{folder}/missing") == []
    assert file_sizes(folder).keys() == {"a.json", "b"}
    assert file_sizes(folder)["b"] == len(read_file(f"{folder}/b"))
    assert file_sizes(f"{folder}/missing") == {}
    remove_folder(f"{folder}/one")
    remove_folder(f"{folder}/never")
    assert (list_files(folder), list_folders(folder)) == (["a.json", "b"], ["one-more", "two"])
    assert content(f"{folder}-beside/a") == b"x"
    assert content(f"{folder}/one-more/z") == b"one-more/z"


@pytest.mark.slow
def test_a_file_gets_another_name_in_the_place_of_an_older_one(folder: str) -> None:
    for name in ("rows-1.tmp/part", "name"):
        replace_file(f"{folder}/{name}", [name.encode()])
    move_file(folder, "rows-1.tmp/part", "name")
    assert content(f"{folder}/name") == b"rows-1.tmp/part"
    assert (list_files(f"{folder}/rows-1.tmp"), list_files(folder)) == ([], ["name"])
    with pytest.raises(FileNotFoundError):
        move_file(folder, "rows-1.tmp/part", "name")
    assert content(f"{folder}/name") == b"rows-1.tmp/part"


@pytest.mark.slow
def test_a_file_that_is_written_is_there_once_all_of_it_is(folder: str) -> None:
    pieces = [b"a", memoryview(bytes(3_000_000)), b"", bytes(range(256)) * 80_000]
    with writing(f"{folder}/new/file") as file:
        assert [file.write(piece) for piece in pieces] == [len(piece) for piece in pieces]
    assert content(f"{folder}/new/file") == b"".join(pieces)

    def fails(name: str, size: int) -> None:
        with writing(f"{folder}/new/{name}") as file:
            file.write(bytes(size))
            raise KeyboardInterrupt

    for name, size in (("small", 3), ("large", 30_000_000)):
        with pytest.raises(KeyboardInterrupt):
            fails(name, size)
    assert list_files(f"{folder}/new") == ["file"]


def test_links_and_what_is_being_written_are_not_listed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "kept").touch()
    (tmp_path / "top").mkdir()
    for name, target in (("link", "elsewhere/kept"), ("folder", "elsewhere")):
        (tmp_path / "top" / name).symlink_to(tmp_path / target)
    with replacing(str(tmp_path / "top" / "file")) as file:
        file.write(b"half")
        assert list_files(str(tmp_path / "top")) == files_below(str(tmp_path / "top")) == []
    assert (list_files(str(tmp_path / "top")), list_folders(str(tmp_path / "top"))) == (["file"], [])
    assert files_below(str(tmp_path / "top")) == ["file"]
    with pytest.raises(OSError, match="symbolic link"):
        remove_folder(str(tmp_path / "top" / "folder"))
    remove_folder(str(tmp_path / "top"))
    assert [p.name for p in tmp_path.rglob("*")] == ["elsewhere", "kept"]


# --- local: a full disk, killed and living writers -------------------------------------------------------------------

FULL_DISK = """
import json, resource, sys
from pathlib import Path
from airflow_provider_rlmm.core.base.file_systems import create_file, replace_file
from airflow_provider_rlmm.core.plans.plan_files import write_document, write_plan
from airflow_provider_rlmm.features.reading.metadata_reader import read_to_parquet
from airflow_provider_rlmm.core.log.snapshot_file import SnapshotFile
from tests.builders import Cluster, tip
from tests.unit.core.log.test_snapshot import snapshot

folder = sys.argv[1]
cluster = Cluster()
cluster.segments(tip(), 100)
cluster.mark_and_wait()
plan = cluster.plan()
writers = {
    "replaced": lambda uri: replace_file(uri, [b"x" * 5_000]),
    "created": lambda uri: create_file(uri, [b"x" * 5_000]),
    "document": lambda uri: write_document(folder, "document", "x" * 5_000),
    "snapshot": lambda uri: SnapshotFile(uri).write(snapshot()),
    "metadata-partition-0.parquet": lambda uri: read_to_parquet(cluster.log, folder),
    "plan": lambda uri: write_plan(uri, plan.rows, plan.summary),
}
for name, write in writers.items():
    write(f"{folder}/enough/{name}") if name not in ("document", "metadata-partition-0.parquet") else None
# From here on a file ends at so many bytes: a write beyond is done in part, the next one fails, as on a full disk.
resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600))
outcomes = {}
for name, write in writers.items():
    try:
        write(f"{folder}/{name}")
        outcomes[name] = "written"
    except OSError as e:
        outcomes[name] = e.errno
print(json.dumps(outcomes))
"""


@pytest.mark.slow
def test_a_full_disk_leaves_the_older_file_and_nothing_half(tmp_path: Path) -> None:
    older = ["replaced", "document", "snapshot", "metadata-partition-0.parquet"]
    for name in older:
        (tmp_path / name).write_bytes(b"old")
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    names = [*older[:1], "created", *older[1:], "plan"]
    assert json.loads(done.stdout.splitlines()[-1]) == dict.fromkeys(names, errno.EFBIG)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir() if p.is_file()} == dict.fromkeys(older, b"old")
    assert list((tmp_path / "plan").iterdir()) == []
    # Where there was room, each of them was written.
    assert len([p for p in (tmp_path / "enough").rglob("*") if p.is_file()]) == 5


KILLED = """
import os, signal, sys
from airflow_provider_rlmm.core.base.file_systems import replacing
with replacing(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def parts_beside(path: Path) -> list[Path]:
    return list(path.parent.glob(".*.part"))


def test_what_a_killed_writer_left_is_removed_by_the_next_one(tmp_path: Path) -> None:
    path, other = tmp_path / "file [1].json", tmp_path / "file 1.json"
    for target in (path, other):
        subprocess.run([sys.executable, "-c", KILLED, str(target)], cwd=ROOT, check=False)
    assert len(parts_beside(path)) == 2
    replace_file(str(path), [b"new"])
    (left,) = parts_beside(path)
    assert left.name.startswith(".file 1.json.")
    create_file(str(other), [b"new"])
    assert parts_beside(path) == []
    assert (path.read_bytes(), other.read_bytes()) == (b"new", b"new")


def test_what_a_living_writer_is_writing_is_left_alone(tmp_path: Path) -> None:
    path = str(tmp_path / "file.json")
    with replacing(path) as first:
        first.write(b"first")
        replace_file(path, [b"second"])
        assert content(path) == b"second"
    assert content(path) == b"first"
    assert [p.name for p in tmp_path.iterdir()] == ["file.json"]


def test_a_writer_whose_file_is_taken_for_a_leftover_before_it_is_locked_takes_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = local_writing._lock
    answers = iter(["removed", "locked by another"])

    def overtaken(descriptor: int) -> bool:
        answer = next(answers, None)
        if answer == "removed":
            (beside,) = parts_beside(tmp_path / "file.json")
            beside.unlink()
        return answer != "locked by another" and lock(descriptor)

    monkeypatch.setattr(local_writing, "_lock", overtaken)
    replace_file(str(tmp_path / "file.json"), [b"x"])
    assert content(str(tmp_path / "file.json")) == b"x"


def test_a_file_system_without_locks_or_hard_links_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*_: Any) -> None:
        raise OSError(errno.EOPNOTSUPP, "not supported")

    monkeypatch.setattr(local_writing.fcntl, "flock", unsupported)
    monkeypatch.setattr(Path, "hardlink_to", unsupported)
    path = tmp_path / "file.json"
    leftover = tmp_path / ".file.json.0123.part"
    leftover.write_bytes(b"somebody's")
    create_file(str(path), [b"mi", b"ne"])
    with pytest.raises(FileExistsError):
        create_file(str(path), [b"other"])
    assert path.read_bytes() == b"mine"
    replace_file(str(path), [b"new"])
    assert (path.read_bytes(), leftover.exists()) == (b"new", True)


def test_what_cannot_be_created_whole_where_there_are_no_hard_links_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: Any) -> None:
        raise OSError(errno.EPERM, "no links")

    def full(file: Any) -> None:
        if not str(file.name).endswith(".part"):
            raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(Path, "hardlink_to", no_links)
    monkeypatch.setattr(local_writing, "flush", full)
    # The path and the remedy are named: a write knows neither.
    with pytest.raises(OSError, match=r"No space left on device: make room there, or choose .*/file\.json'"):
        create_file(str(tmp_path / "file.json"), [b"mine"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("step", ["mkdir", "open", "replace", "hardlink_to"])
def test_a_full_disk_names_file_and_remedy_at_whatever_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def full(path: Path, *_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, "full", str(path))

    monkeypatch.setattr(Path, step, full)
    write = replace_file if step == "replace" else create_file
    with pytest.raises(OSError, match=r"make room there, or choose a folder on another disk.*/new/file\.json'"):
        write(str(tmp_path / "new" / "file.json"), [b"mine"])


# --- object stores ---------------------------------------------------------------------------------------------------


def test_an_object_is_written_by_one_request(object_store: ObjectStoreServer) -> None:
    replace_file("s3://bucket/a/b.json", [b"x" * 10_000_000, b"y"])
    assert object_store.requests == [("PUT", "/bucket/a/b.json")]
    assert len(object_store.objects["/bucket/a/b.json"]) == 10_000_001


def test_an_object_is_read_in_order_by_one_request(object_store: ObjectStoreServer) -> None:
    replace_file("s3://bucket/a/b.json", [b"x" * 10_000_000])
    object_store.requests.clear()
    with reading_in_order("s3://bucket/a/b.json") as file:
        while file.read(700_000):
            pass
    assert object_store.requests == [("GET", "/bucket/a/b.json")]


def test_an_object_has_the_time_of_its_store(object_store: ObjectStoreServer) -> None:
    replace_file("s3://bucket/a/b.json", [b"x"])
    assert modified_ms("s3://bucket/a/b.json") == 1_735_689_600_000
    with pytest.raises(FileNotFoundError):
        modified_ms("s3://bucket/a/c.json")


def test_a_local_file_has_the_time_of_its_file_system(tmp_path: Path) -> None:
    replace_file(str(tmp_path / "a"), [b"x"])
    os.utime(tmp_path / "a", ns=(5_000_000, 7_000_000))
    assert modified_ms(str(tmp_path / "a")) == 7


def test_an_object_whose_answer_was_lost_was_created(object_store: ObjectStoreServer) -> None:
    object_store.lost_answers = 1
    create_file("s3://bucket/a", [b"mine"])
    assert object_store.objects == {"/bucket/a": b"mine"}


def test_what_the_store_refuses_is_one_line_without_secrets(object_store: ObjectStoreServer) -> None:
    object_store.forbidden = True
    for use in (read_file, remove_file, lambda uri: replace_file(uri, [b"x"]), lambda uri: create_file(uri, [b"x"])):
        with pytest.raises(OSError, match=r"s3://bucket/a$") as error:
            use("s3://bucket/a")
        text = str(error.value)
        assert "\n" not in text
        assert object_store.environment["AWS_SECRET_ACCESS_KEY"] not in text


def test_a_session_that_is_over_is_refused_without_its_token(
    object_store: ObjectStoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S3 repeats the token in its answer."""
    monkeypatch.setenv("AWS_SESSION_TOKEN", "hunter2")
    object_store.expired = True
    for use in (read_file, lambda uri: replace_file(uri, [b"x"]), list_files):
        with pytest.raises(OSError, match=r"ExpiredToken.*s3://bucket/a") as error:
            use("s3://bucket/a")
        assert "hunter2" not in str(error.value)


def test_a_large_object_is_sent_in_parts(object_store: ObjectStoreServer, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []
    monkeypatch.setattr(file_systems, "ONE_PUT", 10)
    with object_stores.object_at("s3://bucket/a") as (store, _):
        pass
    monkeypatch.setattr(type(store), "put", lambda self, name, data, **how: sent.append((name, data.read(), how)))
    for data in (b"x" * 10, b"x" * 11):
        replace_file("s3://bucket/a", [data])
    assert [(data, how["use_multipart"]) for _, data, how in sent] == [(b"x" * 10, False), (b"x" * 11, True)]


def test_folders_that_are_made_are_brought_to_the_disk_with_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    sync = local_writing._sync_folder

    def noted(folder: Path) -> None:
        synced.append(folder)
        sync(folder)

    monkeypatch.setattr(local_writing, "_sync_folder", noted)
    replace_file(str(tmp_path / "a" / "b" / "file"), [b"1"])
    assert synced == [tmp_path, tmp_path / "a", tmp_path / "a" / "b"]
    replace_file(str(tmp_path / "a" / "b" / "file"), [b"2"])
    assert synced[3:] == [tmp_path / "a" / "b"]


@pytest.mark.parametrize("done", [False, True])
def test_a_gateway_that_writes_over_what_is_there_is_refused(object_store: ObjectStoreServer, done: bool) -> None:
    object_store.ignores_conditions = True
    if done:
        replace_file("s3://bucket/a", [b"somebody's"])
    for _ in range(2):
        with pytest.raises(ConfigurationError, match=r"writes over s3://bucket/a.*If-None-Match.*keeps to conditional"):
            create_file("s3://bucket/a", [b"mine"])
        assert object_store.objects == {}, "it would be taken for one that was created alone"


def test_a_store_is_asked_once_whether_it_keeps_to_conditions(object_store: ObjectStoreServer) -> None:
    """By the object itself, and with its own bytes: nothing else is written, and no right but that one is needed."""
    for name in ("a", "b", "c"):
        create_file(f"s3://bucket/{name}", [name.encode()])
    assert [path for _, path in object_store.requests] == ["/bucket/a", "/bucket/a", "/bucket/b", "/bucket/c"]
    assert {method for method, _ in object_store.requests} == {"PUT"}
    create_file("s3://another/a", [b"a"])
    assert object_store.requests[4:] == [("PUT", "/another/a")] * 2


def test_an_object_that_goes_while_the_store_is_asked_is_no_reason_to_refuse(
    object_store: ObjectStoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    object_store.forgets_after = 1
    create_file("s3://bucket/a", [b"mine"])
    assert object_store.objects == {"/bucket/a": b"mine"}


def test_what_is_kept_in_memory_does_not_grow_with_what_is_written(s3: MotoS3) -> None:
    """Most of it is sent before the last byte is written, however large a piece is."""
    with writing(f"s3://{s3.bucket()}/large") as file:
        file.write(bytes(60_000_000))
        sent = sum(len(request.body) for request in s3.requests if "partNumber" in request.query)
        assert sent > 60_000_000 - 4 * 8 * 2**20
    assert max(len(request.body) for request in s3.requests) <= 8 * 2**20


def test_a_stream_that_the_store_refuses_ends_in_one_line_without_secrets(
    object_store: ObjectStoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "hunter2")
    object_store.expired = True
    for size in (3, 30_000_000):
        with (
            pytest.raises(OSError, match=r"^[^\n]*ExpiredToken[^\n]*: s3://bucket/a$") as error,
            writing("s3://bucket/a") as file,
        ):
            file.write(bytes(size))
        assert "hunter2" not in str(error.value)


def test_a_python_without_obstore_says_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_stores, "find_spec", lambda name: None)
    for use in (read_file, remove_file, lambda uri: replace_file(uri, [b"x"]), lambda uri: create_file(uri, [b"x"])):
        with pytest.raises(
            ConfigurationError, match=r"python\S* has no obstore, which opens s3://bucket/a: install obstore"
        ):
            use("s3://bucket/a")
