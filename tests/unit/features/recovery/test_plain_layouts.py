# SPDX-License-Identifier: Apache-2.0
"""Catalogues of layouts that keep each file as an object and no manifest: what logs and indexes prove, and what not."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace

import pytest

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.plans.catalogue_rows import CatalogueRow, ProvedBy, RowKind
from airflow_provider_rlmm.core.segments.proof import log_walk
from airflow_provider_rlmm.core.storage.index_type import IndexType
from airflow_provider_rlmm.core.storage.layouts import (
    LayoutOptions,
    LocalTieredStorageLayout,
    TemplateLayout,
    layout_named,
)
from airflow_provider_rlmm.features.recovery import log_batches
from tests.kafka_log import Batch, Record, offset_index, time_index
from tests.recovery import Bucket, PlainSegment, batches_of, kinds, partition, plain_segment, segment

FILES = {
    ".log": "log",
    ".index": "offset",
    ".timeindex": "timestamp",
    ".snapshot": "producer_snapshot",
    ".epochs": "leader_epoch",
    ".txnindex": "transaction",
}
PATTERN = "tiered/{topic}-{topic_id}/{partition}/{start_offset:020}-{segment_id}"


def local_bucket() -> Bucket:
    return Bucket(LocalTieredStorageLayout())


def template(pattern: str = PATTERN, files: dict[str, str] | None = None) -> TemplateLayout:
    suffixes = {suffix: suffix != ".txnindex" for suffix in FILES}
    options = LayoutOptions(key_pattern=pattern, key_suffixes=suffixes, key_files=FILES if files is None else files)
    layout = layout_named("template", options)
    assert isinstance(layout, TemplateLayout)
    return layout


def row_of(files: PlainSegment | None = None, *, bucket: Bucket | None = None) -> CatalogueRow:
    bucket = bucket or local_bucket()
    bucket.copy_plain(SEGMENT, files)
    [row] = bucket.rows()
    return row


SEGMENT = segment(1, 100, 139, [(2, 100), (5, 120)])


@pytest.mark.parametrize("index_every", [1, 2, 5, 100])
@pytest.mark.parametrize("layout", [LocalTieredStorageLayout(), template()])
def test_a_segment_is_proved_by_its_last_batches_and_indexes(layout: TemplateLayout, index_every: int) -> None:
    bucket = Bucket(layout)
    files = plain_segment(SEGMENT, index_every=index_every, before=[(0, 0), (1, 40)])
    row = row_of(files, bucket=bucket)
    assert (row.kind, row.proved_by, row.bounds) == (RowKind.COPIED, ProvedBy.INDEXES, ("end_offset",))
    assert (row.topic, row.partition, row.segment_id) == ("orders", 0, SEGMENT.remote_log_segment_id.id)
    assert (row.start_offset, row.end_offset) == (100, 139)
    # The epoch of its first offset began before; in a segment's metadata it begins with the segment.
    assert row.segment_leader_epochs == ((2, 100), (5, 120))
    assert (row.max_timestamp_ms, row.segment_size_in_bytes) == (SEGMENT.max_timestamp_ms, len(files[None]))
    assert (row.broker_id, row.event_timestamp_ms, row.state, row.custom_metadata) == (None,) * 4
    assert (row.txn_idx_empty, row.compressed, row.encrypted) == (None, False, False)


def test_the_epoch_of_the_first_offset_begins_with_the_segment() -> None:
    one = segment(1, 100, 139, [(2, 100)])
    bucket = local_bucket()
    bucket.copy_plain(one, {**plain_segment(one), IndexType.LEADER_EPOCH: b"0\n2\n1 0\n2 37\n"})
    assert bucket.rows()[0].segment_leader_epochs == ((2, 100),)


def test_a_transaction_index_tells_what_is_in_it() -> None:
    for data, is_empty in ((b"", True), (b"x" * 34, False)):
        assert row_of({**plain_segment(SEGMENT), IndexType.TRANSACTION: data}).txn_idx_empty is is_empty


def test_a_key_that_names_the_end_proves_it() -> None:
    named = "t/{topic}-{topic_id}/{partition}/{start_offset:020}-{end_offset:020}-{segment_id}"
    assert row_of(bucket=Bucket(template(named))).bounds == ()
    # The batches end before what the key names.
    row = row_of(plain_segment(replace(SEGMENT, end_offset=138)), bucket=Bucket(template(named)))
    assert (row.kind, row.end_offset) == (RowKind.DAMAGED, None)
    assert "its key names another end" in str(row.why)


def test_a_gap_before_the_last_batch_is_not_believed() -> None:
    batches = batches_of(SEGMENT)
    moved = replace(batches[-1], base_offset=batches[-1].records[0].offset + 1_000, last_offset=1_139)
    row = row_of({**plain_segment(SEGMENT), None: b"".join(b.to_bytes() for b in [*batches[:-1], moved])})
    # The first offset of a batch has no checksum; that so many offsets follow has.
    assert (row.kind, row.end_offset, row.bounds) == (RowKind.COPIED, 139, ("end_offset", "max_timestamp_ms"))


def test_a_largest_timestamp_that_the_last_batches_do_not_have_is_a_bound() -> None:
    batches = batches_of(SEGMENT)
    early = Record(100, 9_000_000)
    batches[0] = replace(batches[0], records=(early, *batches[0].records[1:]))
    row = row_of(plain_segment(SEGMENT, batches=batches))
    assert (row.max_timestamp_ms, row.bounds) == (SEGMENT.max_timestamp_ms, ("end_offset", "max_timestamp_ms"))
    whole = row_of(plain_segment(SEGMENT, batches=batches, index_every=100))
    assert (whole.max_timestamp_ms, whole.bounds) == (9_000_000, ("end_offset",))


def changed(kind: IndexType | None, change: Callable[[bytes], bytes]) -> PlainSegment:
    files = plain_segment(SEGMENT)
    return {**files, kind: change(files[kind])}


def log_with(**fields: int) -> PlainSegment:
    *before, last = batches_of(SEGMENT)
    return {**plain_segment(SEGMENT), None: b"".join(b.to_bytes() for b in [*before, replace(last, **fields)])}


DAMAGED = {
    "a log that is no log": changed(None, lambda log: b"?" * len(log)),
    "an empty log": changed(None, lambda _: b""),
    "a log that is cut": changed(None, lambda log: log[:-1]),
    "a log that goes on": changed(None, lambda log: log + b"x"),
    "a last batch whose bytes have changed": changed(None, lambda log: log[:-1] + bytes([log[-1] ^ 1])),
    "a last batch of another epoch": log_with(leader_epoch=4),
    "a last batch that goes back": log_with(base_offset=110, last_offset=111),
    "an index that is cut": changed(IndexType.OFFSET, lambda index: index[:-1]),
    "an index that leads beside a batch": changed(IndexType.OFFSET, lambda _: offset_index(100, [(131, 5)])),
    "an index that leads beyond": changed(IndexType.OFFSET, lambda _: offset_index(100, [(131, 99_999)])),
    "an index that names another offset": changed(
        IndexType.OFFSET, lambda index: index[:-8] + struct.pack(">i", 38) + index[-4:]
    ),
    "an index that names an offset behind": changed(
        IndexType.OFFSET, lambda index: index[:-8] + struct.pack(">i", 400) + index[-4:]
    ),
    "a time index that is cut": changed(IndexType.TIMESTAMP, lambda index: index[:-5]),
    "a time index with another time": changed(IndexType.TIMESTAMP, lambda _: time_index(100, [(9_999, 139)])),
    "a time index that ends early": changed(IndexType.TIMESTAMP, lambda _: time_index(100, [(5_000, 101)])),
    "a time index of offsets behind": changed(IndexType.TIMESTAMP, lambda _: time_index(100, [(9_999, 140)])),
    "no epochs": changed(IndexType.LEADER_EPOCH, lambda _: b""),
    "epochs that are none": changed(IndexType.LEADER_EPOCH, lambda _: b"0\n1\nx y\n"),
    "epochs that begin too late": changed(IndexType.LEADER_EPOCH, lambda _: b"0\n2\n2 101\n5 120\n"),
    "epochs behind the end": changed(IndexType.LEADER_EPOCH, lambda _: b"0\n3\n2 100\n5 120\n6 140\n"),
    "another epoch at the end": changed(IndexType.LEADER_EPOCH, lambda _: b"0\n2\n2 100\n6 120\n"),
}


@pytest.mark.parametrize("files", DAMAGED.values(), ids=DAMAGED.keys())
def test_what_does_not_agree_proves_nothing(files: PlainSegment) -> None:
    row = row_of(files)
    assert (row.kind, row.proved_by, row.bounds) == (RowKind.DAMAGED, ProvedBy.KEY, ())
    assert (row.start_offset, row.end_offset, row.segment_leader_epochs, row.max_timestamp_ms) == (
        100,
        None,
        None,
        None,
    )
    assert row.why


def test_a_segment_that_lacks_an_index_is_unfinished() -> None:
    bucket = local_bucket()
    bucket.copy_plain(SEGMENT, without=[".timeindex"])
    [row] = bucket.rows()
    assert (row.kind, row.why) == (RowKind.UNFINISHED, "it lacks .timeindex")


def test_a_batch_that_is_larger_than_a_part_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_batches, "PART_BYTES", 100)
    for index_every in (1, 100):
        row = row_of(plain_segment(SEGMENT, per_batch=20, index_every=index_every))
        assert (row.kind, row.end_offset) == (RowKind.COPIED, 139)
    monkeypatch.setattr(log_walk, "MOST_BATCH_BYTES", 100)
    row = row_of(plain_segment(SEGMENT, per_batch=20))
    assert row.kind is RowKind.DAMAGED
    assert "cut" in str(row.why)


@pytest.mark.parametrize("data", [None, b"x" * 9_000])
def test_what_is_deleted_or_grows_while_it_is_read_cannot_be_told(data: bytes | None) -> None:
    bucket, done = local_bucket(), list[str]()
    log = bucket.copy_plain(SEGMENT) + ".log"

    def change(what: str, key: str) -> None:
        if what == "get" and key.endswith(".leader_epoch_checkpoint"):
            done.append(key)
            bucket.storage._objects.pop(log)
            if data is not None:
                bucket.storage.put_object(log, data)

    bucket.storage.on_effect = change
    [row] = bucket.rows(at_once=1)
    assert (row.kind, len(done)) == (RowKind.CANNOT_TELL, 1)


def test_segments_of_a_plain_layout_are_in_conflict_and_have_holes_like_others() -> None:
    bucket = local_bucket()
    bucket.copy_plain(segment(1, 0, 9))
    bucket.copy_plain(segment(2, 5, 14))
    bucket.copy_plain(segment(3, 20, 29))
    rows = bucket.rows()
    assert kinds(rows) == ["CONFLICT", "CONFLICT", "HOLE", "COPIED"]
    assert "may reach further" in str(rows[2].why)


def test_a_prefix_that_reads_as_the_beginning_of_a_topic_cannot_be_told() -> None:
    suffixes = {suffix: suffix != ".txnindex" for suffix in FILES}
    options = LayoutOptions(
        key_pattern="{topic}-{topic_id}/{partition}/{start_offset:020}-{segment_id}", key_suffixes=suffixes, key_files=FILES,
        former_key_prefixes=("flat",),
    )  # fmt: skip
    layout = layout_named("template", options)
    assert isinstance(layout, TemplateLayout)
    bucket = Bucket(layout)
    bucket.copy_plain(segment(1, 0, 9, of=partition(topic="flatorders")))
    [row] = bucket.rows()
    assert (row.kind, row.topic) == (RowKind.CANNOT_TELL, None)


def test_templates_that_do_not_name_their_files_are_refused() -> None:
    for files in ({}, {".log": "log"}, {k: v for k, v in FILES.items() if v != "leader_epoch"}):
        with pytest.raises(ConfigurationError, match="does not say which object is"):
            Bucket(template(files=files)).rows()
    with pytest.raises(ConfigurationError, match=r"name no \{start_offset\}"):
        Bucket(template("{topic}-{topic_id}/{partition}/{segment_id}")).rows()


def test_batches_without_records_end_a_segment_all_the_same() -> None:
    batches = [*batches_of(SEGMENT)[:-1], Batch((), base_offset=138, last_offset=139, leader_epoch=5)]
    files = {**plain_segment(SEGMENT), None: b"".join(b.to_bytes() for b in batches)}
    assert row_of({**files, IndexType.TIMESTAMP: b""}).end_offset == 139
