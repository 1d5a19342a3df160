# SPDX-License-Identifier: Apache-2.0
"""What a snapshot file is, and every reason to refuse one."""

from __future__ import annotations

import json
import struct
import tracemalloc
import zlib
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_rlmm.core.base import file_systems
from airflow_provider_rlmm.core.base.errors import ConfigurationError, SnapshotRefusedError
from airflow_provider_rlmm.core.log.event_decoding import QuarantinedRecord
from airflow_provider_rlmm.core.log.snapshot import Snapshot, TopicIdentity
from airflow_provider_rlmm.core.log.snapshot_file import SNAPSHOT_VERSION, SnapshotFile
from airflow_provider_rlmm.core.records.columnar import ColumnarState, decode
from airflow_provider_rlmm.core.records.lost_records import HistoryGap
from airflow_provider_rlmm.core.records.serde import serialize
from tests.examples import examples
from tests.object_store_server import ObjectStoreServer
from tests.unit.core.records.events import PARTITION, copied, started
from tests.unit.library.topics import TOPIC_ID, tables

IDENTITY = TopicIdentity("cluster-1", TOPIC_ID, 2)
BEGIN, HIGH = {0: 0, 1: 0}, {0: 10, 1: 4}
HEAD, END = struct.Struct(">8sII"), struct.Struct(">QI")


def snapshot() -> Snapshot:
    state, _ = ColumnarState.empty().apply(decode([serialize(started(1)), serialize(copied(1))], metadata_partition=0))
    return Snapshot(
        IDENTITY,
        {0: 7, 1: 0},
        (HistoryGap(0, 2, 3),),
        1_800_000_000_000,
        state,
        tails={0: ((5, b"\1" * 32), (6, b"\2" * 32))},
        quarantined=(
            QuarantinedRecord(0, 3, "TOMBSTONE", "the value is null"), QuarantinedRecord(0, 4, "KEYED", "key", PARTITION),
        ),
        routed={0: 5},
        holes=(HistoryGap(0, 4, 5),),
    )  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "made" / "snapshot"
    SnapshotFile(str(path)).write(snapshot())
    return path


def refusal(path: Path) -> str:
    with pytest.raises(SnapshotRefusedError) as e:
        SnapshotFile(str(path)).read()
    return str(e.value)


def rewrite(path: Path, **changes: Any) -> None:
    """Change the description, with a checksum that fits."""
    data = path.read_bytes()
    magic, version, size = HEAD.unpack(data[: HEAD.size])
    description = json.loads(data[HEAD.size : HEAD.size + size]) | changes
    text = json.dumps(description).encode()
    checked = HEAD.pack(magic, version, len(text)) + text + data[HEAD.size + size : -4]
    path.write_bytes(checked + zlib.crc32(checked).to_bytes(4, "big"))


def test_a_snapshot_survives_as_a_file(path: Path) -> None:
    again, before = SnapshotFile(str(path)).read(), snapshot()
    assert tables(again.state) == tables(before.state)
    assert replace(again, state=before.state) == before
    assert [p.name for p in path.parent.iterdir()] == ["snapshot"]
    again.check(IDENTITY, BEGIN, HIGH)


def test_the_state_lies_where_arrow_needs_no_copy(path: Path) -> None:
    data = path.read_bytes()
    _, _, size = HEAD.unpack(data[: HEAD.size])
    state_size, _ = END.unpack(data[-END.size :])
    assert (HEAD.size + size) % 64 == 0
    assert len(data) == HEAD.size + size + state_size + END.size


def test_a_uri_and_a_path_mean_the_same_file(path: Path) -> None:
    assert SnapshotFile(path.as_uri()).read().next_offsets == {0: 7, 1: 0}


def test_a_missing_one_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none") == "there is none yet"


def test_one_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    assert "cannot be read" in refusal(tmp_path)
    with pytest.raises(SnapshotRefusedError, match="no URI"):
        SnapshotFile("gopher://snapshots/one").read()


@cache
def content_of_a_snapshot(path: Path) -> bytes:
    SnapshotFile(str(path)).write(snapshot())
    return path.read_bytes()


@settings(max_examples=examples(), deadline=None)
@given(st.data())
def test_one_with_any_byte_changed_is_refused(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.getbasetemp() / "flipped"
    content = bytearray(content_of_a_snapshot(path))
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    assert refusal(path)


@settings(max_examples=examples(), deadline=None)
@given(st.data())
def test_one_cut_short_or_too_long_is_refused(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.getbasetemp() / "cut"
    content = content_of_a_snapshot(path)
    path.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    assert refusal(path)
    path.write_bytes(content + b"\0")
    assert "corrupt" in refusal(path)


def test_what_is_written_is_not_copied_before(tmp_path: Path) -> None:
    segments = 20_000
    values = [serialize(started(number)) for number in range(segments)]
    state, _ = ColumnarState.empty().apply(decode(values, metadata_partition=0))
    made = replace(snapshot(), state=state)
    path = tmp_path / "large"
    tracemalloc.start()
    SnapshotFile(str(path)).write(made)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # One column at a time, and which segments live; a whole copy would be more than the file.
    assert most < path.stat().st_size // 2
    assert SnapshotFile(str(path)).read().state.living().size == segments


def test_the_reasons_of_damage(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert refusal(path) == "it is corrupt: its checksum does not fit"
    path.write_bytes(content[:-1])
    assert "corrupt" in refusal(path)
    path.write_bytes(b"something else, which is longer than the head")
    assert "first bytes" in refusal(path)


def test_another_version_is_refused_before_its_checksum_is_looked_at(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[8:12] = (SNAPSHOT_VERSION + 1).to_bytes(4, "big")
    path.write_bytes(content)
    assert refusal(path) == f"it is of version {SNAPSHOT_VERSION + 1}, this program reads version {SNAPSHOT_VERSION}"


def test_a_state_of_another_version_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = pa.table({"segments": [b""]}).replace_schema_metadata({b"format": b"another", b"version": b"7"})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, empty.schema) as writer:
        writer.write_table(empty)
    monkeypatch.setattr(ColumnarState, "write_ipc", lambda _, file, **__: file.write(sink.getvalue()))
    SnapshotFile(str(path)).write(snapshot())
    assert "its state cannot be read" in refusal(path)


@pytest.mark.parametrize(
    "changes",
    [
        {"cluster_id": None, "topic_id": "?"},
        {"next_offsets": [1, 2]},
        {"next_offsets": {"x": 1}},
        {"gaps": [[1]]},
        {"holes": [[1]]},
        {"partition_count": None},
    ],
)
def test_a_description_of_another_form_is_refused(path: Path, changes: dict[str, Any]) -> None:
    rewrite(path, **changes)
    assert "cannot be understood" in refusal(path)


@pytest.mark.parametrize(
    ("identity", "words"),
    [
        (replace(IDENTITY, cluster_id="other"), "it is of cluster 'cluster-1', the metadata topic has 'other'"),
        (replace(IDENTITY, topic_id=UUID(int=1)), "it is of topic id"),
        (replace(IDENTITY, partition_count=3), "it is of partition count 2, the metadata topic has 3"),
    ],
)
def test_one_of_another_topic_is_refused(identity: TopicIdentity, words: str) -> None:
    with pytest.raises(SnapshotRefusedError, match=words):
        snapshot().check(identity, BEGIN, HIGH)


def test_one_that_ends_before_the_log_begins_is_refused() -> None:
    snapshot().check(IDENTITY, {0: 7, 1: 0}, HIGH)
    with pytest.raises(
        SnapshotRefusedError, match="metadata partition 0: it was read up to offset 7, and begins at 8 now"
    ):
        snapshot().check(IDENTITY, {0: 8, 1: 0}, HIGH)


def test_one_ahead_of_the_log_is_refused() -> None:
    snapshot().check(IDENTITY, BEGIN, {0: 7, 1: 0})
    with pytest.raises(SnapshotRefusedError, match=r"metadata partition 0: its offset 7 is ahead .* is 6"):
        snapshot().check(IDENTITY, BEGIN, {0: 6, 1: 0})


@pytest.mark.parametrize("offsets", [{0: 1}, {0: 1, 2: 1}, {0: 1, 1: -1}])
def test_one_with_offsets_of_other_partitions_is_refused(offsets: dict[int, int]) -> None:
    with pytest.raises(SnapshotRefusedError):
        replace(snapshot(), next_offsets=offsets).check(IDENTITY, BEGIN, HIGH)


def test_a_write_that_fails_leaves_the_older_one_and_nothing_else(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(file_systems.os, "fsync", full)
    with pytest.raises(OSError, match="no space left"):
        SnapshotFile(str(path)).write(replace(snapshot(), next_offsets={0: 8, 1: 0}))
    assert SnapshotFile(str(path)).read().next_offsets == {0: 7, 1: 0}
    assert [p.name for p in path.parent.iterdir()] == ["snapshot"]


def test_a_local_file_is_on_the_disk_before_it_gets_its_name(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    rename = Path.replace
    monkeypatch.setattr(file_systems.os, "fsync", lambda _: steps.append("fsync"))
    monkeypatch.setattr(Path, "replace", lambda self, to: steps.append("rename") or rename(self, to))
    SnapshotFile(str(path)).write(snapshot())
    assert steps == ["fsync", "rename", "fsync"]


def test_an_object_store_replaces_the_object_whole(object_store: ObjectStoreServer) -> None:
    for offset in (7, 8):
        SnapshotFile("s3://bucket/snapshot.gz").write(replace(snapshot(), next_offsets={0: offset, 1: 0}))
        assert SnapshotFile("s3://bucket/snapshot.gz").read().next_offsets == {0: offset, 1: 0}
    assert object_store.objects.keys() == {"/bucket/snapshot.gz"}


def test_a_uri_that_nobody_understands_cannot_be_written() -> None:
    with pytest.raises(ConfigurationError, match="no URI"):
        SnapshotFile("gopher://snapshots/one").write(snapshot())
