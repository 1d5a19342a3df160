# SPDX-License-Identifier: Apache-2.0
"""
The contract of reading a segment's files, whatever objects they lie in.

Derive a test class from ``SegmentReadContract`` for a layout whose objects are the files, and from ``AivenReadContract`` for
Aiven's; give it the fixtures of ``RemoteStorageContract``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.base.errors import DamagedObjectError, RemoteObjectNotFoundError, StorageRootError
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata, kafka_uuid_str
from airflow_provider_rlmm.core.storage.index_type import IndexType
from airflow_provider_rlmm.core.storage.layout import Layout
from airflow_provider_rlmm.core.storage.layouts import AivenLayout
from tests.contracts.aiven_objects import AivenPacking, SegmentContents
from tests.contracts.remote_storage import RemovableRoot, StorageUnderTest, segment

Pack = Callable[[Layout, RemoteLogSegmentMetadata, SegmentContents], dict[str, bytes]]

CONTENTS = SegmentContents()
LARGE = SegmentContents(log=bytes(i * i % 251 for i in range(10_000)))
AIVEN_PACKINGS = {
    "as-it-is": AivenPacking(),
    "one-chunk": AivenPacking(chunk_size=1_000_000),
    "variable": AivenPacking(variable=True),
    "zstd": AivenPacking(chunk_size=7, compressed=True, variable=True),
    "zstd-one-chunk": AivenPacking(chunk_size=1_000_000, compressed=True, variable=True),
}


def hold(storage: StorageUnderTest, pack: Pack, metadata: RemoteLogSegmentMetadata, contents: SegmentContents) -> None:
    for key, data in pack(storage.layout, metadata, contents).items():
        storage.put(key, data)


def read_all(storage: StorageUnderTest) -> None:
    storage.manager.fetch_log_segment(segment(1), 0)
    for index_type in CONTENTS.indexes:
        storage.manager.fetch_index(segment(1), index_type)


class SegmentReadContract:
    """Run by every implementation."""

    @pytest.fixture
    def pack(self) -> Pack:
        def files(layout: Layout, metadata: RemoteLogSegmentMetadata, contents: SegmentContents) -> dict[str, bytes]:
            indexes = {layout.object_key(metadata, kind): data for kind, data in contents.indexes.items()}
            return {**indexes, layout.object_key(metadata, None): contents.log}

        return files

    def test_every_file_is_read_back(self, storage: StorageUnderTest, pack: Pack) -> None:
        hold(storage, pack, segment(1), CONTENTS)
        assert storage.manager.fetch_log_segment(segment(1), 0) == CONTENTS.log
        for index_type, content in CONTENTS.indexes.items():
            assert storage.manager.fetch_index(segment(1), index_type) == content
        with pytest.raises(RemoteObjectNotFoundError, match=kafka_uuid_str(UUID(int=1))):
            storage.manager.fetch_index(segment(1), IndexType.TRANSACTION)

    def test_a_transaction_index_is_read_back(self, storage: StorageUnderTest, pack: Pack) -> None:
        indexes = {**CONTENTS.indexes, IndexType.TRANSACTION: b"aborted"}
        hold(storage, pack, segment(1), replace(CONTENTS, indexes=indexes))
        assert {kind: storage.manager.fetch_index(segment(1), kind) for kind in IndexType} == indexes

    @pytest.mark.parametrize(
        ("start", "end", "expected"),
        [
            (0, None, b"0123456789"),
            (0, 0, b"0"),
            (3, 5, b"345"),
            (3, 3, b"3"),
            (4, 7, b"4567"),
            (3, None, b"3456789"),
            (9, 9, b"9"),
            (5, 1_000, b"56789"),
            (10, None, b""),
            (10, 12, b""),
            (11, 20, b""),
        ],
    )
    def test_range_ends_inclusively(
        self, storage: StorageUnderTest, pack: Pack, start: int, end: int | None, expected: bytes
    ) -> None:
        hold(storage, pack, segment(1), CONTENTS)
        assert storage.manager.fetch_log_segment(segment(1), start, end) == expected

    @pytest.mark.slow
    @pytest.mark.parametrize("step", [1, 3, 4, 7, 999, 5_000, 9_999, 10_000])
    def test_ranges_put_together_are_the_log(self, storage: StorageUnderTest, pack: Pack, step: int) -> None:
        metadata = replace(segment(1), segment_size_in_bytes=len(LARGE.log))
        hold(storage, pack, metadata, LARGE)
        stop = len(LARGE.log) if step > 100 else 50 * step
        read = [storage.manager.fetch_log_segment(metadata, at, at + step - 1) for at in range(0, stop, step)]
        assert b"".join(read) == LARGE.log[:stop]

    @pytest.mark.parametrize(("start", "end"), [(-1, None), (5, 4), (0, -1)])
    def test_reversed_range_is_refused(
        self, storage: StorageUnderTest, pack: Pack, start: int, end: int | None
    ) -> None:
        hold(storage, pack, segment(1), CONTENTS)
        with pytest.raises(ValueError, match="range"):
            storage.manager.fetch_log_segment(segment(1), start, end)

    def test_missing_objects_are_named(self, storage: StorageUnderTest) -> None:
        with pytest.raises(RemoteObjectNotFoundError, match=kafka_uuid_str(UUID(int=1))):
            storage.manager.fetch_log_segment(segment(1), 5)
        with pytest.raises(RemoteObjectNotFoundError, match=kafka_uuid_str(UUID(int=1))):
            storage.manager.fetch_index(segment(1), IndexType.LEADER_EPOCH)


class SegmentReadFaultContract:
    """The same where the root can be taken away."""

    def test_a_missing_root_is_an_error_for_reads(self, storage: RemovableRoot) -> None:
        storage.remove_root()
        for call in (
            lambda: storage.manager.fetch_log_segment(segment(1), 0),
            lambda: storage.manager.fetch_index(segment(1), IndexType.OFFSET),
        ):
            with pytest.raises(StorageRootError):
                call()


class AivenReadContract(SegmentReadContract):
    """Aiven's objects, in every packing that is read."""

    @pytest.fixture
    def layout(self) -> Layout:
        return AivenLayout("kafka/prod-")

    @pytest.fixture(params=AIVEN_PACKINGS)
    def pack(self, request: pytest.FixtureRequest) -> Pack:
        packing = AIVEN_PACKINGS[request.param]
        return lambda layout, metadata, contents: packing(layout.segment_stem(metadata), metadata, contents)

    @pytest.mark.parametrize("suffix", [".log", ".indexes", ".rsm-manifest"])
    def test_an_object_that_was_cut_is_told(self, storage: StorageUnderTest, pack: Pack, suffix: str) -> None:
        hold(storage, pack, segment(1), CONTENTS)
        key = storage.layout.segment_stem(segment(1)) + suffix
        storage.put(key, storage.read(key)[:-1])
        with pytest.raises(DamagedObjectError) as cut:
            read_all(storage)
        assert cut.value.location == key
        assert key in str(cut.value)

    @pytest.mark.parametrize("suffix", [".log", ".indexes", ".rsm-manifest"])
    def test_an_object_that_is_missing_is_told(self, storage: StorageUnderTest, pack: Pack, suffix: str) -> None:
        objects = pack(storage.layout, segment(1), CONTENTS)
        missing = storage.layout.segment_stem(segment(1)) + suffix
        for key, data in objects.items():
            if key != missing:
                storage.put(key, data)
        with pytest.raises(RemoteObjectNotFoundError, match=suffix):
            read_all(storage)
