# SPDX-License-Identifier: Apache-2.0
"""Copies are packed as the plugin packs them: beside what its own classes have packed, and read back by its manifests."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_rlmm.core.base.errors import ConfigurationError, CopyCancelledError, StorageUnavailableError
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    TopicIdPartition,
    parse_kafka_uuid,
)
from airflow_provider_rlmm.core.storage.aiven_manifest import read_manifest
from airflow_provider_rlmm.core.storage.aiven_metadata import (
    AivenCustomMetadata,
    read_custom_metadata,
    write_custom_metadata,
)
from airflow_provider_rlmm.core.storage.aiven_packing import (
    LOOKED_AT,
    AivenPacker,
    AivenPacking,
    learn_packing,
    packed_chunk_sizes,
    packing_of,
)
from airflow_provider_rlmm.core.storage.in_memory import InMemoryRemoteStorageManager
from airflow_provider_rlmm.core.storage.index_type import IndexType
from airflow_provider_rlmm.core.storage.layouts import AivenLayout, LayoutOptions, layout_named
from airflow_provider_rlmm.core.storage.remote_storage import DeleteOutcome
from airflow_provider_rlmm.core.storage.segment_files import LogSegmentData
from tests.contracts import aiven_objects
from tests.contracts.remote_storage import local_files, segment
from tests.unit.core.storage.test_aiven import GOLDEN as GOLDEN_METADATA
from tests.unit.core.storage.test_aiven import custom_of
from tests.unit.core.storage.test_aiven_manifest import CONTENTS, GOLDEN

PREFIX = "kafka/prod-"
LAYOUT = AivenLayout(PREFIX)


def golden_metadata(case: dict[str, Any], said: dict[str, Any]) -> RemoteLogSegmentMetadata:
    tip = TopicIdPartition(parse_kafka_uuid(case["topic_id"]), "orders", case["partition"])
    epochs = tuple((int(epoch), start) for epoch, start in said["segmentLeaderEpochs"].items())
    return replace(
        segment(1),
        remote_log_segment_id=RemoteLogSegmentId(tip, parse_kafka_uuid(case["segment_id"])),
        start_offset=said["startOffset"],
        end_offset=said["endOffset"],
        max_timestamp_ms=said["maxTimestampMs"],
        broker_id=said["brokerId"],
        event_timestamp_ms=said["eventTimestampMs"],
        segment_size_in_bytes=len(base64.b64decode(case["log"])),
        segment_leader_epochs=epochs,
        txn_idx_empty=said["txnIdxEmpty"],
    )


def golden_files(case: dict[str, Any], folder: Path) -> LogSegmentData:
    files = {name: base64.b64decode(content) for name, content in (("log", case["log"]), *case["indexes"].items())}
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return LogSegmentData(
        folder / "log",
        folder / "offset",
        folder / "timestamp",
        folder / "producer_snapshot",
        files["leader_epoch"],
        folder / "transaction" if "transaction" in files else None,
    )


def packed(
    packing: AivenPacking, metadata: RemoteLogSegmentMetadata, data: LogSegmentData, layout: AivenLayout = LAYOUT
) -> tuple[InMemoryRemoteStorageManager, bytes | None]:
    """Copy a segment into an empty storage."""
    manager = InMemoryRemoteStorageManager(layout)
    manager._packer = AivenPacker(layout, PREFIX, packing)
    return manager, manager.copy_log_segment_data(metadata, data)


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: str(case["partition"]))
def test_a_segment_is_packed_as_by_the_plugins_own_classes(case: dict[str, Any], tmp_path: Path) -> None:
    said = json.loads(case["stored"][".rsm-manifest"])
    metadata = golden_metadata(case, said["remoteLogSegmentMetadata"])
    packing = AivenPacking(said["chunkIndex"]["originalChunkSize"], said["compression"])
    manager, custom = packed(packing, metadata, golden_files(case, tmp_path))
    assert custom is None
    stem = LAYOUT.segment_stem(metadata)
    objects = {key.removeprefix(stem): data for key, (data, _) in manager._objects.items()}
    assert objects.keys() == set(case["stored"])
    assert objects[".indexes"] == base64.b64decode(case["stored"][".indexes"])
    if not packing.compressed:
        assert objects[".rsm-manifest"].decode() == case["stored"][".rsm-manifest"]
        assert objects[".log"] == base64.b64decode(case["stored"][".log"])
        return
    # Another release of zstd may compress otherwise: then the chunk index is another one, and nothing else.
    ours = json.loads(objects[".rsm-manifest"])
    assert list(ours["chunkIndex"]) == list(said["chunkIndex"])
    del ours["chunkIndex"]["transformedChunks"], said["chunkIndex"]["transformedChunks"]
    assert json.dumps(ours) == json.dumps(said)
    assert manager.fetch_log_segment(metadata, 0) == base64.b64decode(case["log"])


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: str(case["partition"]))
def test_sizes_of_chunks_are_packed_as_by_the_plugins_own_classes(case: dict[str, Any]) -> None:
    index = json.loads(case["stored"][".rsm-manifest"])["chunkIndex"]
    if index["type"] != "variable":
        return
    said = json.loads(case["stored"][".rsm-manifest"])
    metadata = golden_metadata(case, said["remoteLogSegmentMetadata"])
    ends = read_manifest(case["stored"][".rsm-manifest"].encode(), "k", metadata).chunk_ends
    sizes = [end - begin for begin, end in zip((0, *ends), ends, strict=False)]
    assert unpacked(packed_chunk_sizes(sizes)) == unpacked(index["transformedChunks"])


def unpacked(text: str) -> bytes:
    import pyarrow as pa

    stream = pa.input_stream(pa.BufferReader(base64.b64decode(text)), compression="zstd")
    return bytes(stream.read())


@given(sizes=st.lists(st.integers(1, 2**31 - 1), min_size=1, max_size=40))
def test_sizes_of_chunks_are_packed_as_an_independent_writer_packs_them(sizes: list[int]) -> None:
    assert unpacked(packed_chunk_sizes(sizes)) == aiven_objects.packed_sizes(sizes)


VALID = [case for case in GOLDEN_METADATA if case["kind"] == "valid"]


@pytest.mark.parametrize("case", VALID, ids=lambda case: str(case["case"]))
def test_custom_metadata_is_written_as_the_plugin_writes_it(case: dict[str, Any]) -> None:
    assert write_custom_metadata(read_custom_metadata(custom_of(case))) == custom_of(case)


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize(("size", "chunk_size"), [(1, 4), (4, 4), (5, 4), (70_001, 4096), (70_001, 2**22)])
def test_what_is_packed_is_read_back_wherever_one_begins(
    tmp_path: Path, size: int, chunk_size: int, compressed: bool
) -> None:
    log = random.Random(size).randbytes(size // 2) + bytes(size - size // 2)
    data = local_files(tmp_path)
    data.log_segment.write_bytes(log)
    metadata = replace(segment(1), segment_size_in_bytes=size)
    manager, _ = packed(AivenPacking(chunk_size, compressed), metadata, data)
    for start in range(0, size, 997):
        assert manager.fetch_log_segment(metadata, start, start + 1500) == log[start : start + 1501]
    assert manager.fetch_index(metadata, IndexType.PRODUCER_SNAPSHOT) == b"snapshot"
    assert manager.fetch_index(metadata, IndexType.LEADER_EPOCH) == data.leader_epoch_index
    assert manager.delete_log_segments([metadata]).segments[0].outcome is DeleteOutcome.GONE
    assert manager.keys == frozenset()


@pytest.mark.parametrize("compressed", [False, True])
def test_custom_metadata_say_what_the_copies_of_brokers_say(tmp_path: Path, compressed: bool) -> None:
    metadata = segment(1)
    whole = frozenset({"remote_size", "object_prefix", "object_key"})
    manager, custom = packed(AivenPacking(4, compressed, whole), metadata, local_files(tmp_path))
    stem = LAYOUT.segment_stem(metadata)
    size = sum(len(data) for data, _ in manager._objects.values())
    assert read_custom_metadata(custom) == AivenCustomMetadata(size, PREFIX, stem.removeprefix(PREFIX))
    # Foretold before anything is copied: only the size is not known by then, which has a few bytes more or less.
    foretold = AivenPacker(LAYOUT, PREFIX, AivenPacking(4, compressed, whole)).most_custom_metadata_bytes(metadata)
    assert len(custom or b"") <= foretold <= len(custom or b"") + 4
    assert AivenPacker(LAYOUT, PREFIX, AivenPacking(4, compressed)).most_custom_metadata_bytes(metadata) == 0
    _, custom = packed(AivenPacking(4, compressed, frozenset({"object_prefix"})), metadata, local_files(tmp_path))
    assert read_custom_metadata(custom) == AivenCustomMetadata(object_prefix=PREFIX)


@pytest.mark.parametrize("compressed", [False, True])
def test_log_indexes_and_manifest_are_written_in_this_order(tmp_path: Path, compressed: bool) -> None:
    puts: list[str] = []
    manager = InMemoryRemoteStorageManager(
        LAYOUT, on_effect=lambda effect, key: puts.append(key.rpartition(".")[2]) if effect == "put" else None
    )
    manager._packer = AivenPacker(LAYOUT, PREFIX, AivenPacking(4, compressed))
    chunks: list[int] = []
    manager.copy_log_segment_data(segment(1), local_files(tmp_path), chunks.append)
    assert puts == ["log", "indexes", "rsm-manifest"]
    assert sum(chunks) == sum(len(data) for data, _ in manager._objects.values())

    def cancel(size: int) -> None:
        raise CopyCancelledError("cancelled by the test")

    manager, _ = InMemoryRemoteStorageManager(LAYOUT), None
    manager._packer = AivenPacker(LAYOUT, PREFIX, AivenPacking(4, compressed))
    with pytest.raises(CopyCancelledError):
        manager.copy_log_segment_data(segment(1), local_files(tmp_path), cancel)
    assert manager.keys == frozenset()


# --- what brokers have copied shows how the plugin is set -------------------------------------------------------------


def copied(number: int, broker_id: int = 3, custom: AivenCustomMetadata | None = None) -> RemoteLogSegmentMetadata:
    said = write_custom_metadata(custom or AivenCustomMetadata())
    return replace(segment(number), broker_id=broker_id, custom_metadata=said)


def storage_of(
    *copies: tuple[RemoteLogSegmentMetadata, aiven_objects.AivenPacking], layout: AivenLayout = LAYOUT
) -> InMemoryRemoteStorageManager:
    manager = InMemoryRemoteStorageManager(layout)
    for metadata, packing in copies:
        for key, data in packing(layout.segment_stem(metadata), metadata, CONTENTS).items():
            manager.put_object(key, data)
    return manager


PLAIN = aiven_objects.AivenPacking(chunk_size=4)
ZSTD = aiven_objects.AivenPacking(chunk_size=7, compressed=True, variable=True)


def test_the_newest_copy_of_a_broker_shows_how_the_plugin_is_set() -> None:
    kept = AivenCustomMetadata(remote_size=7, object_prefix=PREFIX)
    copies = [copied(4, broker_id=-2), copied(3, custom=kept), copied(2), copied(1)]
    manager = storage_of((copies[0], PLAIN), (copies[1], ZSTD), (copies[2], PLAIN))
    assert learn_packing(LAYOUT, manager._calls.get, copies) == AivenPacking(
        7, True, frozenset({"remote_size", "object_prefix"})
    )
    assert learn_packing(LAYOUT, manager._calls.get, copies[2:]) == AivenPacking(4, False)


def test_copies_that_are_gone_or_lie_elsewhere_show_nothing() -> None:
    layout = AivenLayout(PREFIX, ["former/"])
    elsewhere = copied(3, custom=AivenCustomMetadata(object_prefix="former/"))
    copies = [copied(4), elsewhere, copied(2)]
    manager = storage_of((copies[2], PLAIN), layout=layout)
    for key, data in ZSTD(layout.segment_stem(elsewhere), elsewhere, CONTENTS).items():
        manager.put_object(key, data)
    assert learn_packing(layout, manager._calls.get, copies) == AivenPacking(4, False)


def changed(metadata: RemoteLogSegmentMetadata, change: Callable[[dict[str, Any]], object]) -> bytes:
    document = PLAIN.manifest(metadata, CONTENTS, [4, 4, 2])
    change(document)
    return json.dumps(document).encode()


@pytest.mark.parametrize("number", range(LOOKED_AT))
@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda manifest: manifest.update(encryption={"dataKey": "k", "aad": "a"}), "the segment is encrypted"),
        (lambda manifest: manifest.update(version="2"), "only version 1 is known"),
        (lambda manifest: manifest["chunkIndex"].update(type="other"), "has a chunk index of type 'other'"),
        (lambda manifest: manifest["chunkIndex"].update(originalFileSize=3), "is of a log of 3 bytes"),
    ],
)
def test_one_copy_among_the_newest_that_cannot_be_read_refuses_all(
    change: Callable[[dict[str, Any]], object], why: str, number: int
) -> None:
    copies = [copied(10 - n) for n in range(LOOKED_AT)]
    manager = storage_of(*((metadata, PLAIN) for metadata in copies))
    manager.put_object(f"{LAYOUT.segment_stem(copies[number])}.rsm-manifest", changed(copies[number], change))
    with pytest.raises(ConfigurationError, match=why) as refused:
        manager.learn_to_copy(copies)
    assert "set remote.log.copy.disable of the topic to false" in str(refused.value)
    assert f"{LAYOUT.segment_stem(copies[number])}.rsm-manifest" in str(refused.value)


@pytest.mark.parametrize("copies", [[], [copied(1, broker_id=-2)], [copied(1)]], ids=["none", "ours", "gone"])
def test_where_no_copy_of_a_broker_tells_nothing_is_copied(
    copies: list[RemoteLogSegmentMetadata], tmp_path: Path
) -> None:
    manager = storage_of()
    with pytest.raises(ConfigurationError, match="no copy of a broker shows how its plugin is set"):
        manager.learn_to_copy(copies)
    assert "into the storage layout aiven" in str(manager.obstacle_to_copies())
    with pytest.raises(ConfigurationError, match="no copy of a broker shows"):
        manager.copy_log_segment_data(segment(2), local_files(tmp_path))
    assert manager.keys == frozenset()


SAID = "chunk.size=7 compression.enabled=true custom.metadata.fields.include=REMOTE_SIZE,OBJECT_KEY"


def test_what_somebody_has_said_counts_where_no_copy_tells(tmp_path: Path) -> None:
    layout = layout_named("aiven", LayoutOptions(PREFIX, plugin_settings=SAID))
    manager = InMemoryRemoteStorageManager(layout)
    assert manager.obstacle_to_copies() is None
    manager.learn_to_copy([copied(1)])
    custom = read_custom_metadata(manager.copy_log_segment_data(segment(2), local_files(tmp_path)))
    assert (custom.remote_size, custom.object_prefix, custom.object_key) == (
        sum(len(data) for data, _ in manager._objects.values()),
        None,
        layout.segment_stem(segment(2)).removeprefix(PREFIX),
    )
    assert manager.fetch_log_segment(segment(2), 0) == b"0123456789"


@pytest.mark.parametrize(
    "said",
    [
        "chunk.size=8 compression.enabled=true custom.metadata.fields.include=REMOTE_SIZE",
        "chunk.size=7 custom.metadata.fields.include=REMOTE_SIZE",
        "chunk.size=7 compression.enabled=true",
    ],
)
def test_what_somebody_has_said_must_not_contradict_the_newest_copy(said: str) -> None:
    newest = copied(1, custom=AivenCustomMetadata(remote_size=3))
    manager = storage_of((newest, ZSTD))
    agreed = packing_of("chunk.size=7 compression.enabled=true custom.metadata.fields.include=REMOTE_SIZE")
    assert learn_packing(LAYOUT, manager._calls.get, [newest], agreed).text == agreed.text
    with pytest.raises(ConfigurationError, match="Mend plugin_settings, or let brokers copy") as refused:
        learn_packing(LAYOUT, manager._calls.get, [newest], packing_of(said))
    assert f"plugin_settings say {packing_of(said).text}, and the newest copy of a broker shows {agreed.text}" in str(
        refused.value
    )


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("", "'chunk.size=' is no number from 1 to 268435456"),
        ("chunk.size=0", "is no number from 1"),
        ("chunk.size=268435457", "is no number from 1"),
        ("chunk.size=4096 chunk.size=4096", "each once"),
        ("chunk.size=4096 key.prefix=a", "'key.prefix=a' is none of chunk.size=…, compression.enabled=…"),
        ("chunk.size 4096", "'chunk.size' is none of"),
        ("chunk.size=4096 compression.enabled=yes", "'compression.enabled=yes' is neither true nor false"),
        ("chunk.size=4096 encryption.enabled=true", "say that segments are encrypted"),
        (
            "chunk.size=4096 custom.metadata.fields.include=SIZE",
            "'SIZE' is none of REMOTE_SIZE, OBJECT_PREFIX, OBJECT_KEY",
        ),
    ],
)
def test_settings_that_cannot_be_understood_are_refused(said: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        layout_named("aiven", LayoutOptions(plugin_settings=said))


def test_chunks_that_are_too_large_to_compress_are_refused() -> None:
    big = aiven_objects.AivenPacking(chunk_size=2**28 + 1, compressed=True, variable=True)
    with pytest.raises(ConfigurationError, match="no more than 268435456 are compressed"):
        storage_of((copied(1), big)).learn_to_copy([copied(1)])


def test_a_store_that_does_not_answer_is_no_store_without_copies() -> None:
    def read(key: str, start: int = 0, end: int | None = None) -> bytes:
        raise StorageUnavailableError("it does not answer")

    with pytest.raises(StorageUnavailableError):
        learn_packing(LAYOUT, read, [copied(1)])


def test_a_storage_that_has_learned_copies(tmp_path: Path) -> None:
    manager = storage_of((copied(1), ZSTD))
    manager.learn_to_copy([copied(1)])
    assert manager.obstacle_to_copies() is None
    ours = replace(
        segment(2),
        remote_log_segment_id=RemoteLogSegmentId(copied(1).remote_log_segment_id.topic_id_partition, UUID(int=5)),
    )
    assert manager.copy_log_segment_data(ours, local_files(tmp_path)) is None
    assert manager.fetch_log_segment(ours, 0) == b"0123456789"
    assert read_manifest(manager._objects[f"{LAYOUT.segment_stem(ours)}.rsm-manifest"][0], "k", ours).compressed
