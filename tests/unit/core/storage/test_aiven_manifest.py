# SPDX-License-Identifier: Apache-2.0
"""What manifests of Aiven's plugin say, and which of them are refused."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_rlmm.core.base.errors import (
    DamagedObjectError,
    RemoteObjectNotFoundError,
    UnsafeObjectKeyError,
    UnsupportedMessageFormatError,
)
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    TopicIdPartition,
    parse_kafka_uuid,
)
from airflow_provider_rlmm.core.storage.aiven_manifest import MAX_MANIFEST_BYTES, read_manifest
from airflow_provider_rlmm.core.storage.in_memory import InMemoryRemoteStorageManager
from airflow_provider_rlmm.core.storage.index_type import IndexType
from airflow_provider_rlmm.core.storage.layouts import AivenLayout
from tests.contracts.aiven_objects import AivenPacking, SegmentContents, packed_sizes
from tests.contracts.remote_storage import segment
from tests.unit.core.storage.test_aiven import RECORDED, custom_prefix

GOLDEN = [json.loads(line) for line in (RECORDED / "golden_segments.jsonl").read_text().splitlines()]
CONTENTS = SegmentContents()
ZSTD = AivenPacking(chunk_size=4, compressed=True, variable=True)


def manifest_of(packing: AivenPacking = ZSTD, contents: SegmentContents = CONTENTS) -> dict[str, Any]:
    objects = packing("k", segment(1), contents)
    found: dict[str, Any] = json.loads(objects["k.rsm-manifest"])
    return found


def read(document: object) -> Any:
    return read_manifest(json.dumps(document).encode(), "k.rsm-manifest", segment(1))


def variable(sizes: bytes) -> dict[str, Any]:
    document = manifest_of()
    document["chunkIndex"]["transformedChunks"] = base64.b64encode(pa.Codec("zstd").compress(sizes)).decode()
    return document


def test_a_fixed_index_says_where_each_chunk_lies() -> None:
    manifest = read(manifest_of(AivenPacking(chunk_size=4)))
    assert (manifest.log_size, manifest.chunk_size, manifest.chunk_ends, manifest.compressed) == (
        10,
        4,
        (4, 8, 10),
        False,
    )
    assert [manifest.chunk_bytes(n) for n in range(3)] == [(0, 4), (4, 8), (8, 10)]
    assert [manifest.size_of(n) for n in range(3)] == [4, 4, 2]
    assert manifest.indexes == {
        IndexType.OFFSET: (0, 0),
        IndexType.TIMESTAMP: (0, 4),
        IndexType.PRODUCER_SNAPSHOT: (4, 8),
        IndexType.LEADER_EPOCH: (12, 8),
    }


@pytest.mark.parametrize(
    "sizes",
    [[10, 20, 30], [0xFF + 1, 1, 7], [0x1_0000, 5, 2**31 - 1], [2**31 - 1, 2**31 - 2, 1], [1, 2**24 + 1, 9]],
)
def test_a_variable_index_says_the_size_of_each_chunk(sizes: Sequence[int]) -> None:
    ends = read(variable(packed_sizes(sizes))).chunk_ends
    assert ends == (sizes[0], sizes[0] + sizes[1], sum(sizes))


@given(sizes=st.lists(st.integers(1, 2**31 - 1), min_size=1, max_size=40))
def test_sizes_of_chunks_are_read_back(sizes: list[int]) -> None:
    document = variable(packed_sizes(sizes))
    document["chunkIndex"] |= {"originalFileSize": len(sizes)}
    document["chunkIndex"]["originalChunkSize"] = 1
    metadata = replace(segment(1), segment_size_in_bytes=len(sizes))
    manifest = read_manifest(json.dumps(document).encode(), "k", metadata)
    assert manifest.chunk_ends[-1] == sum(sizes)
    assert [stop - start for start, stop in map(manifest.chunk_bytes, range(len(sizes)))] == sizes


def test_an_empty_log_has_no_chunks() -> None:
    metadata = replace(segment(1), segment_size_in_bytes=0)
    for packing in (AivenPacking(), ZSTD):
        data = packing("k", metadata, replace(CONTENTS, log=b""))["k.rsm-manifest"]
        assert read_manifest(data, "k", metadata).chunk_ends == ()


def changed(*path: str, to: object) -> Callable[[], dict[str, Any]]:
    def change() -> dict[str, Any]:
        document = manifest_of()
        inner = document
        for step in path[:-1]:
            inner = inner[step]
        inner[path[-1]] = to
        return document

    return change


DAMAGED = {
    "another segment": changed("remoteLogSegmentMetadata", "remoteLogSegmentId", "id", to="AAAAAAAAAAAAAAAAAAAAAg"),
    "another topic": changed("remoteLogSegmentMetadata", "remoteLogSegmentId", "topicIdPartition", "topicId", to="A"),
    "another start": changed("remoteLogSegmentMetadata", "startOffset", to=7),
    "another end": changed("remoteLogSegmentMetadata", "endOffset", to=7),
    "no segment": changed("remoteLogSegmentMetadata", to=None),
    "another size": changed("chunkIndex", "originalFileSize", to=9),
    "a size that is a text": changed("chunkIndex", "originalFileSize", to="10"),
    "a size that is a truth": changed("chunkIndex", "originalFileSize", to=True),
    "too large a size": changed("chunkIndex", "originalFileSize", to=2**31),
    "chunks of nothing": changed("chunkIndex", "originalChunkSize", to=0),
    "too few chunks": changed("chunkIndex", "originalChunkSize", to=3),
    "negative chunks": changed("chunkIndex", "originalChunkSize", to=-4),
    "stored as it is, but smaller": changed("compression", to=False),
    "no compression": changed("compression", to=None),
    "no chunk index": changed("chunkIndex", to=[]),
    "no base64": changed("chunkIndex", "transformedChunks", to="%%"),
    "no zstd": changed("chunkIndex", "transformedChunks", to="AAAA"),
    "no sizes": lambda: variable(b""),
    "half a count": lambda: variable(b"\0\0"),
    "a count of nothing": lambda: variable((3).to_bytes(4)),
    "one size and more": lambda: variable((1).to_bytes(4) + bytes(5)),
    "sizes that are cut": lambda: variable(packed_sizes([10, 20, 30])[:-1]),
    "sizes of no width": lambda: variable(b"\0\0\0\3\0\0\0\1\0\0\0\0\1"),
    "sizes of five bytes": lambda: variable(b"\0\0\0\2\0\0\0\1\5\0\0\0\0\0\0\0\0\1"),
    "a chunk of nothing": lambda: variable(packed_sizes([1, 0, 3])),
    "a chunk of 2 GiB": lambda: variable(packed_sizes([1, 2**31, 3])),
    "sizes that fill the memory": lambda: variable(bytes(11 * 2**20)),
    "no indexes": changed("segmentIndexes", to=None),
    "no offset index": changed("segmentIndexes", "offset", to=None),
    "an index before the beginning": changed("segmentIndexes", "timestamp", "position", to=-1),
    "an index without a size": changed("segmentIndexes", "leaderEpoch", to={"position": 0}),
    "no version": changed("version", to=1),
    "a list": list,
    "a text": lambda: "manifest",
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_manifest_that_cannot_be_the_segments_is_refused(damage: str) -> None:
    with pytest.raises(DamagedObjectError) as refused:
        read(DAMAGED[damage]())  # type: ignore[operator]
    assert refused.value.location == "k.rsm-manifest"
    assert str(refused.value).startswith("manifest k.rsm-manifest ")


def test_chunks_that_would_fill_the_memory_are_refused() -> None:
    metadata = replace(segment(1), segment_size_in_bytes=2**31 - 1)
    document = manifest_of(AivenPacking(chunk_size=1))
    document["chunkIndex"]["originalFileSize"] = 2**31 - 1
    with pytest.raises(DamagedObjectError, match=r"more than 1048576 of them"):
        read_manifest(json.dumps(document).encode(), "k", metadata)


@pytest.mark.parametrize(
    ("data", "position"),
    [(b"", 0), (b"{", 1), (b"\xff\xfe", 0), (b"[" * 100_000, 0), (b" " * (MAX_MANIFEST_BYTES + 1), 0)],
)
def test_what_is_no_json_is_refused(data: bytes, position: int) -> None:
    with pytest.raises(DamagedObjectError, match="manifest k ") as refused:
        read_manifest(data, "k", segment(1))
    assert refused.value.position == position


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (changed("encryption", to={"dataKey": "key-1:AAAA", "aad": "AAAA"}), "encrypted: its key is with the brokers"),
        (changed("version", to="2"), "version '2'"),
        (changed("chunkIndex", "type", to="rolling"), "type 'rolling'"),
    ],
)
def test_what_is_not_known_here_is_said(make: Callable[[], dict[str, Any]], says: str) -> None:
    with pytest.raises(UnsupportedMessageFormatError, match=says) as refused:
        read(make())
    assert "AAAA" not in str(refused.value), "a key is a secret, packed or not"


def test_the_manifest_of_an_iceberg_table_is_named() -> None:
    with pytest.raises(UnsupportedMessageFormatError, match="Iceberg"):
        read_manifest(b"PFA1....", "k", segment(1))


@given(data=st.data())
def test_a_flipped_bit_of_a_manifest_is_an_error_or_changes_nothing(data: st.DataObject) -> None:
    packing = data.draw(st.sampled_from([ZSTD, AivenPacking()]))
    manager = InMemoryRemoteStorageManager(AivenLayout())
    stem = AivenLayout().segment_stem(segment(1))
    objects = packing(stem, segment(1), CONTENTS)
    damaged = bytearray(objects[f"{stem}.rsm-manifest"])
    damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    for key, content in {**objects, f"{stem}.rsm-manifest": bytes(damaged)}.items():
        manager.put_object(key, content)
    with suppress(DamagedObjectError, UnsupportedMessageFormatError):
        assert manager.fetch_log_segment(segment(1), 0) == CONTENTS.log


class TestFormerPrefixes:
    """A copy lies where its manifest is."""

    layout = AivenLayout("now/", ["then/"])

    def manager(
        self, prefix: str, metadata: RemoteLogSegmentMetadata
    ) -> tuple[InMemoryRemoteStorageManager, list[str]]:
        gets: list[str] = []
        manager = InMemoryRemoteStorageManager(
            self.layout, on_effect=lambda effect, key: gets.append(key) if effect == "get" else None
        )
        stem = AivenLayout(prefix).segment_stem(replace(metadata, custom_metadata=None))
        for key, data in ZSTD(stem, metadata, CONTENTS).items():
            manager.put_object(key, data)
        return manager, gets

    @pytest.mark.parametrize("prefix", ["now/", "then/"])
    def test_without_custom_metadata_all_prefixes_are_looked_at_once(self, prefix: str) -> None:
        manager, gets = self.manager(prefix, segment(1))
        assert manager.fetch_log_segment(segment(1), 0) == CONTENTS.log
        assert manager.fetch_index(segment(1), IndexType.LEADER_EPOCH) == CONTENTS.indexes[IndexType.LEADER_EPOCH]
        manifests = [key.partition("/")[0] for key in gets if key.endswith(".rsm-manifest")]
        assert manifests == (["now"] if prefix == "now/" else ["now", "then"])
        assert all(key.startswith(prefix) for key in gets if not key.endswith(".rsm-manifest"))

    def test_a_recorded_prefix_alone_is_looked_at(self) -> None:
        recorded = replace(segment(1), custom_metadata=custom_prefix("then/"))
        manager, gets = self.manager("then/", recorded)
        assert manager.fetch_log_segment(recorded, 2, 5) == CONTENTS.log[2:6]
        assert {key.partition("/")[0] for key in gets} == {"then"}

    def test_a_recorded_prefix_that_the_connection_does_not_name_is_refused(self) -> None:
        elsewhere = replace(segment(1), custom_metadata=custom_prefix("elsewhere/"))
        manager, gets = self.manager("now/", elsewhere)
        with pytest.raises(UnsafeObjectKeyError, match="elsewhere"):
            manager.fetch_log_segment(elsewhere, 0)
        assert gets == []

    def test_a_manifest_that_is_nowhere_names_every_place(self) -> None:
        manager, _ = self.manager("other/", segment(1))
        with pytest.raises(RemoteObjectNotFoundError, match=r"now/.*rsm-manifest or then/.*rsm-manifest"):
            manager.fetch_log_segment(segment(1), 0)


def test_a_log_that_was_cut_is_told_with_its_end() -> None:
    manager, stem = InMemoryRemoteStorageManager(AivenLayout()), AivenLayout().segment_stem(segment(1))
    for key, data in AivenPacking()(stem, segment(1), CONTENTS).items():
        manager.put_object(key, data[:7] if key.endswith(".log") else data)
    assert manager.fetch_log_segment(segment(1), 0, 6) == CONTENTS.log[:7]
    with pytest.raises(DamagedObjectError, match="ends at byte 7, and its manifest names bytes up to 10") as cut:
        manager.fetch_log_segment(segment(1), 2)
    assert cut.value.position == 7


def test_going_on_within_a_chunk_reads_nothing_again() -> None:
    gets: list[str] = []
    manager = InMemoryRemoteStorageManager(
        AivenLayout(), on_effect=lambda effect, key: gets.append(key) if effect == "get" else None
    )
    for key, data in ZSTD(AivenLayout().segment_stem(segment(1)), segment(1), CONTENTS).items():
        manager.put_object(key, data)
    assert b"".join(manager.fetch_log_segment(segment(1), at, at) for at in range(10)) == CONTENTS.log
    assert [key.rpartition(".")[2] for key in gets] == ["rsm-manifest", "log", "log", "log"]


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: str(case["partition"]))
def test_what_the_plugins_own_classes_have_packed_is_read(case: dict[str, Any]) -> None:
    log, layout = base64.b64decode(case["log"]), AivenLayout("kafka/prod-")
    tip = TopicIdPartition(parse_kafka_uuid(case["topic_id"]), "orders", case["partition"])
    metadata = replace(
        segment(1),
        remote_log_segment_id=RemoteLogSegmentId(tip, parse_kafka_uuid(case["segment_id"])),
        start_offset=case["start_offset"],
        end_offset=case["end_offset"],
        segment_size_in_bytes=len(log),
    )
    manager = InMemoryRemoteStorageManager(layout)
    for suffix, stored in case["stored"].items():
        content = stored.encode() if suffix == ".rsm-manifest" else base64.b64decode(stored)
        manager.put_object(layout.segment_stem(metadata) + suffix, content)
    assert manager.fetch_log_segment(metadata, 0) == log
    for start in range(0, len(log), 97):
        assert manager.fetch_log_segment(metadata, start, start + 150) == log[start : start + 151]
    indexes = {kind: base64.b64decode(case["indexes"][kind]) for kind in IndexType if kind in case["indexes"]}
    assert {kind: manager.fetch_index(metadata, kind) for kind in indexes} == indexes
    assert (IndexType.TRANSACTION in indexes) == (case["partition"] % 2 == 0)
