# SPDX-License-Identifier: Apache-2.0
"""Segments of Aiven's plugin whose manifest is gone: a plain log proves itself, a packed one cannot be read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_rlmm.core.plans.catalogue_rows import CatalogueRow, ProvedBy, RowKind
from airflow_provider_rlmm.features.recovery import manifest_reads
from tests.contracts.aiven_objects import AivenPacking
from tests.kafka_log import Batch, log_of
from tests.recovery import Bucket, batches_of, kinds, segment
from tests.recovery_sources import copied, keep

SEGMENT = segment(1, 100, 139, [(2, 100), (5, 120)])


def bucket_of(log: bytes, *, without: tuple[str, ...] = (".rsm-manifest",)) -> Bucket:
    bucket = Bucket()
    stem = bucket.copy(SEGMENT, without=without)
    if ".log" not in without:
        bucket.storage.put_object(f"{stem}.log", log)
    return bucket


def row_of(log: bytes) -> CatalogueRow:
    [row] = bucket_of(log).rows(whole_logs=True)
    return row


@pytest.mark.parametrize("part", [100, 2**20])
def test_a_plain_log_proves_itself(monkeypatch: pytest.MonkeyPatch, part: int) -> None:
    monkeypatch.setattr(manifest_reads, "PART_BYTES", part)
    log = log_of(batches_of(SEGMENT))
    row = row_of(log)
    assert (row.kind, row.proved_by, row.bounds) == (RowKind.LOG_ONLY, ProvedBy.LOG, ("end_offset",))
    assert (row.start_offset, row.end_offset, row.segment_leader_epochs) == (100, 139, ((2, 100), (5, 120)))
    assert (row.max_timestamp_ms, row.segment_size_in_bytes) == (SEGMENT.max_timestamp_ms, len(log))
    assert (row.broker_id, row.event_timestamp_ms, row.txn_idx_empty, row.compressed) == (None, None, None, False)


def test_nothing_is_read_unless_it_is_asked_for() -> None:
    bucket, asked = bucket_of(log_of(batches_of(SEGMENT))), list[str]()
    bucket.storage.on_effect = lambda what, key: asked.append(key) if what == "get" else None
    assert (kinds(bucket.rows()), asked) == (["UNFINISHED"], [])


def test_a_segment_without_a_log_is_unfinished() -> None:
    assert kinds(bucket_of(b"", without=(".rsm-manifest", ".log")).rows(whole_logs=True)) == ["UNFINISHED"]
    assert kinds(bucket_of(log_of(batches_of(SEGMENT)), without=(".indexes",)).rows(whole_logs=True)) == ["UNFINISHED"]


def test_a_packed_log_cannot_be_read() -> None:
    bucket = Bucket()
    bucket.copy(SEGMENT, AivenPacking(chunk_size=4, compressed=True, variable=True), without=[".rsm-manifest"])
    [row] = bucket.rows(whole_logs=True)
    assert (row.kind, row.proved_by, row.end_offset) == (RowKind.UNREADABLE, ProvedBy.KEY, None)
    assert "compressed, encrypted or damaged" in str(row.why)


def with_last(**fields: int) -> bytes:
    *before, last = batches_of(SEGMENT)
    return log_of([*before, replace(last, **fields)])


LOG = log_of(batches_of(SEGMENT))


@pytest.mark.parametrize("part", [100, 2**20])
@pytest.mark.parametrize(
    "log",
    [
        LOG[:-1],
        LOG + b"x",
        LOG[:-1] + bytes([LOG[-1] ^ 1]),
        LOG[:200] + bytes([LOG[200] ^ 1]) + LOG[201:],
        with_last(base_offset=110, last_offset=111),
        with_last(leader_epoch=1),
    ],
)
def test_a_log_that_is_damaged_proves_nothing(monkeypatch: pytest.MonkeyPatch, log: bytes, part: int) -> None:
    monkeypatch.setattr(manifest_reads, "PART_BYTES", part)
    row = row_of(log)
    assert (row.kind, row.proved_by, row.end_offset) == (RowKind.DAMAGED, ProvedBy.KEY, None)


def test_a_gap_is_not_believed() -> None:
    # The first offset of a batch has no checksum.
    row = row_of(with_last(base_offset=1_138, last_offset=1_139))
    assert (row.kind, row.end_offset) == (RowKind.DAMAGED, None)
    assert "begins with offset 1138 where 138 must follow" in str(row.why)


def test_a_log_only_is_no_whole_segment(tmp_path: Path) -> None:
    bucket = bucket_of(LOG)
    bucket.copy(segment(2, 100, 139, [(2, 100), (5, 120)]))
    bucket.copy(segment(3, 150, 159, [(5, 150)]))
    rows = bucket.rows(whole_logs=True)
    assert sorted(kinds(rows)) == ["COPIED", "COPIED", "HOLE", "LOG_ONLY"]
    keep(tmp_path, copied(replace(SEGMENT, segment_size_in_bytes=len(LOG))))
    [known] = [row for row in bucket.rows(whole_logs=True, work_uri=str(tmp_path)) if row.kind is RowKind.LOG_ONLY]
    assert (known.proved_by, known.end_offset, known.bounds) == (ProvedBy.SNAPSHOT, 139, ())


def test_a_log_of_one_batch_is_whole() -> None:
    [batch] = batches_of(segment(1, 100, 101, [(2, 100)]))
    assert isinstance(batch, Batch)
    assert row_of(log_of([batch])).end_offset == 101
