# SPDX-License-Identifier: Apache-2.0
"""Rows that are proved by the contents of their segments: right, or named; nothing else is taken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_rlmm.core.base.errors import ArchivedObjectError, StorageError, StorageUnavailableError
from airflow_provider_rlmm.core.plans.catalogue_rows import CatalogueRow, ProvedBy, RowKind
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata
from airflow_provider_rlmm.core.segments.pacing import ByteQuota, StoragePatience
from airflow_provider_rlmm.core.storage.index_type import IndexType
from airflow_provider_rlmm.core.storage.layouts import AivenLayout, LocalTieredStorageLayout
from airflow_provider_rlmm.features.recovery import proving
from airflow_provider_rlmm.features.recovery.proving import Proofs
from tests.contracts.aiven_objects import AivenPacking, SegmentContents
from tests.recovery import Bucket, PlainSegment, batches_of, kinds, plain_segment, segment
from tests.recovery_sources import copied, keep

SEGMENT = segment(1, 100, 139, [(2, 100), (5, 120)])
COMPRESSED = AivenPacking(chunk_size=200, compressed=True, variable=True)


def put(
    bucket: Bucket, files: PlainSegment | None = None, *, of: RemoteLogSegmentMetadata = SEGMENT, place: int = 0
) -> RemoteLogSegmentMetadata:
    """Put a segment as Aiven's plugin packs it; return what the metadata topic has of it."""
    files = files or plain_segment(of)
    whole = replace(of, segment_size_in_bytes=len(files[None]))
    indexes = {kind: data for kind, data in files.items() if kind is not None}
    bucket.copy(whole, COMPRESSED, contents=SegmentContents(files[None], indexes), place=place)
    return whole


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def row_of(files: PlainSegment | None = None, **asked: object) -> CatalogueRow:
    bucket = Bucket()
    put(bucket, files)
    [row] = bucket.rows(prove=True, **asked)
    return row


def plain_row_of(files: PlainSegment, **asked: object) -> CatalogueRow:
    bucket = Bucket(LocalTieredStorageLayout())
    bucket.copy_plain(SEGMENT, files)
    [row] = bucket.rows(prove=True, **asked)
    return row


def test_contents_bear_out_a_manifest() -> None:
    row = row_of()
    assert (row.kind, row.proved_by, row.bounds) == (RowKind.COPIED, ProvedBy.CONTENTS, ())
    assert (row.end_offset, row.segment_leader_epochs) == (139, ((2, 100), (5, 120)))
    assert (row.broker_id, row.event_timestamp_ms, row.txn_idx_empty) == (3, 9_001, True)


def test_contents_bear_out_indexes_and_tell_what_these_do_not() -> None:
    batches = batches_of(SEGMENT)
    early = replace(batches[1].records[0], timestamp=9_000_000)
    batches[1] = replace(batches[1], records=(early, *batches[1].records[1:]))
    row = plain_row_of(plain_segment(SEGMENT, batches=batches))
    assert (row.kind, row.proved_by, row.bounds) == (RowKind.COPIED, ProvedBy.CONTENTS, ("end_offset",))
    assert (row.end_offset, row.max_timestamp_ms, row.txn_idx_empty) == (139, 9_000_000, True)
    assert row.segment_leader_epochs == ((2, 100), (5, 120))


@pytest.mark.parametrize("of_row", [row_of, plain_row_of])
@pytest.mark.parametrize("kind", [None, IndexType.OFFSET, IndexType.PRODUCER_SNAPSHOT])
def test_a_flipped_byte_is_damage(of_row: Callable[[PlainSegment], CatalogueRow], kind: IndexType | None) -> None:
    files = plain_segment(SEGMENT)
    # In front of what is read without a proof.
    row = of_row({**files, kind: flipped(files[kind], 70 if kind is None else 3)})
    assert (row.kind, row.proved_by) == (RowKind.DAMAGED, ProvedBy.KEY)
    assert (row.start_offset, row.end_offset, row.segment_leader_epochs, row.bounds) == (100, None, None, ())
    assert str(row.why).startswith("its contents contradict each other")


@pytest.mark.parametrize("field", ["end_offset", "max_timestamp_ms"])
def test_a_manifest_that_says_something_else_than_the_log_is_damage(field: str) -> None:
    bucket, files = Bucket(), plain_segment(SEGMENT)
    whole = replace(SEGMENT, **{field: getattr(SEGMENT, field) + 1}, segment_size_in_bytes=len(files[None]))
    indexes = {kind: data for kind, data in files.items() if kind is not None}
    bucket.copy(whole, contents=SegmentContents(files[None], indexes))
    assert kinds(bucket.rows()) == ["COPIED"]
    assert kinds(bucket.rows(prove=True)) == ["DAMAGED"]


def test_a_segment_is_proved_by_the_objects_of_its_own_row() -> None:
    bucket, files = Bucket(AivenLayout("now-", ["then/"])), plain_segment(SEGMENT)
    put(bucket)
    put(bucket, {**files, None: flipped(files[None], 70)}, place=1)
    found = {row.keys[0][:4]: row.kind for row in bucket.rows(prove=True)}
    assert found == {"now-": RowKind.COPIED, "then": RowKind.DAMAGED}


def test_gaps_are_damage_unless_they_are_allowed() -> None:
    batches = [batch for batch in batches_of(SEGMENT) if batch.records[0].offset not in (103, 106)]
    files = plain_segment(SEGMENT, batches=batches)
    for of_row in (row_of, plain_row_of):
        assert of_row(files).kind is RowKind.DAMAGED
        row = of_row(files, may_have_gaps=True)
        assert (row.kind, row.proved_by, row.end_offset) == (RowKind.COPIED, ProvedBy.CONTENTS, 139)


def test_what_a_snapshot_says_of_a_damaged_segment_stays(tmp_path: Path) -> None:
    bucket, files = Bucket(), plain_segment(SEGMENT)
    whole = put(bucket, {**files, None: flipped(files[None], 70)})
    keep(tmp_path, copied(whole))
    [row] = bucket.rows(prove=True, work_uri=str(tmp_path))
    assert (row.kind, row.proved_by, row.end_offset) == (RowKind.DAMAGED, ProvedBy.SNAPSHOT, 139)
    assert "its contents contradict" in str(row.why)


def test_what_was_damaged_on_its_way_is_looked_at_once_more() -> None:
    bucket, damaged = Bucket(), [True]
    put(bucket)
    fetch = bucket.storage.fetch_object

    def on_its_way(key: str, start: int = 0, end: int | None = None) -> bytes:
        data = fetch(key, start, end)
        return flipped(data, 5) if key.endswith(".log") and damaged and damaged.pop() else data

    bucket.storage.fetch_object = on_its_way  # type: ignore[method-assign]
    [row] = bucket.rows(prove=True)
    assert (row.kind, row.proved_by, damaged) == (RowKind.COPIED, ProvedBy.CONTENTS, [])


def refusing(bucket: Bucket, error: StorageError) -> None:
    def refuse(what: str, key: str) -> None:
        if what == "get" and key.endswith(".log"):
            raise error

    bucket.storage.on_effect = refuse


@pytest.mark.parametrize("error", [StorageUnavailableError("slow down"), ArchivedObjectError("in an archive tier")])
def test_what_storage_does_not_hand_out_cannot_be_told(error: StorageError) -> None:
    bucket = Bucket()
    put(bucket)
    refusing(bucket, error)
    [row] = bucket.rows(prove=True)
    assert (row.kind, row.proved_by, row.end_offset) == (RowKind.CANNOT_TELL, ProvedBy.KEY, None)
    assert str(error) in str(row.why)


@pytest.mark.parametrize("at_once", [1, 4])
def test_a_storage_that_hands_out_no_log_is_no_catalogue(at_once: int) -> None:
    bucket = Bucket()
    for number in range(12):
        put(bucket, of=segment(number, 10 * number, 10 * number + 9))
    refusing(bucket, StorageUnavailableError("slow down"))
    with pytest.raises(StorageUnavailableError, match="slow down"):
        bucket.rows(prove=True, at_once=at_once)


def test_an_object_that_has_gone_cannot_be_told() -> None:
    bucket = Bucket()
    put(bucket)
    fetch = bucket.storage.fetch_object

    def going(key: str, start: int = 0, end: int | None = None) -> bytes:
        if key.endswith(".log"):
            bucket.storage._objects.pop(key, None)
        return fetch(key, start, end)

    bucket.storage.fetch_object = going  # type: ignore[method-assign]
    [row] = bucket.rows(prove=True)
    assert (row.kind, "listed and is gone" in str(row.why)) == (RowKind.CANNOT_TELL, True)


def test_of_what_is_not_whole_or_encrypted_nothing_is_read() -> None:
    bucket, asked = Bucket(), list[str]()
    bucket.copy(SEGMENT, encrypted=True)
    bucket.copy(segment(2, 140, 149), without=[".log"])
    bucket.storage.on_effect = lambda what, key: asked.append(key) if what == "get" else None
    assert sorted(kinds(bucket.rows(prove=True))) == ["ENCRYPTED", "UNFINISHED"]
    assert [key for key in asked if not key.endswith(".rsm-manifest")] == []


def test_what_is_fetched_is_paced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proving, "PART_BYTES", 300)
    waited, bucket, files = list[float](), Bucket(LocalTieredStorageLayout()), plain_segment(SEGMENT)
    bucket.copy_plain(SEGMENT, files)
    [row] = bucket.rows()
    quota = ByteQuota(100, clock=lambda: 0.0, sleep=waited.append)
    proofs = Proofs(bucket.storage.fetch_object, bucket.layout, quota, StoragePatience(0.0))
    [proved] = proofs.applied([row])
    assert proved.proved_by is ProvedBy.CONTENTS
    assert max(waited) * 100 > len(files[None]) - 300
