# SPDX-License-Identifier: Apache-2.0
"""Catalogues of folders without manifests, with planted damage: each row right, or named, and each bound one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_rlmm.core.plans.catalogue_rows import CatalogueRow, ProvedBy, RowKind
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata
from airflow_provider_rlmm.core.segments.lineage import LeaderEpochCheckpoint
from airflow_provider_rlmm.core.storage.index_type import IndexType
from airflow_provider_rlmm.core.storage.layouts import LocalTieredStorageLayout
from tests.examples import examples
from tests.kafka_log import Batch, Record
from tests.property.test_catalogues import check_together
from tests.recovery import Bucket, PlainSegment, partition, plain_segment, segment

READ = (None, IndexType.OFFSET, IndexType.TIMESTAMP, IndexType.LEADER_EPOCH)
DAMAGE = ("none",) * 6 + ("lacks", "flipped", "flipped", "flipped", "cut", "of another")


@dataclass
class PlainWorld:
    """A folder, and what was planted in it."""

    bucket: Bucket = field(default_factory=lambda: Bucket(LocalTieredStorageLayout()))
    truth: dict[str, RemoteLogSegmentMetadata] = field(default_factory=dict)  # stem → the segment
    planted: dict[str, str] = field(default_factory=dict)  # stem → damage
    touched: dict[str, IndexType | None] = field(default_factory=dict)  # stem → damaged file


@st.composite
def records_of(draw: st.DrawFn, metadata: RemoteLogSegmentMetadata) -> list[Batch]:
    """Return batches of any sizes and times."""
    starts = [start for _, start in metadata.segment_leader_epochs]
    found, offset = list[Batch](), metadata.start_offset
    while offset <= metadata.end_offset:
        epoch = next(epoch for epoch, start in reversed(metadata.segment_leader_epochs) if start <= offset)
        behind = min([start for start in starts if start > offset] + [metadata.end_offset + 1])
        end = min(behind, offset + draw(st.integers(1, 4)))
        times = st.integers(1_000, 1_050)
        found.append(Batch(tuple(Record(o, draw(times)) for o in range(offset, end)), leader_epoch=epoch))
        offset = end
    return found


def damaged(draw: st.DrawFn, files: PlainSegment, damage: str) -> IndexType | None:
    """Damage one of the files that are read; return which."""
    kind = draw(st.sampled_from([kind for kind in READ if files[kind]]))
    data = bytearray(files[kind])
    if damage == "flipped":
        # The last bytes of log and indexes are those that are read.
        at = max(0, len(data) - 1 - draw(st.integers(0, 120)))
        data[at] ^= draw(st.integers(1, 255))
    elif damage == "cut":
        del data[draw(st.integers(0, len(data) - 1)) :]
    files[kind] = bytes(data)
    return kind


@st.composite
def plain_worlds(draw: st.DrawFn) -> PlainWorld:
    world, number = PlainWorld(), 0
    for tip in (partition(), partition(1), partition(topic_id=8)):
        offset, epoch = draw(st.integers(0, 8)), draw(st.integers(1, 3))
        before = {0: 0} if offset else {}
        for _ in range(draw(st.integers(0, 4))):
            offset += draw(st.sampled_from((0, 0, 0, 5)))
            end = offset + draw(st.integers(0, 15))
            epochs = [(epoch, offset)]
            if draw(st.booleans()) and end > offset:
                epoch += draw(st.integers(1, 2))
                epochs.append((epoch, draw(st.integers(offset + 1, end))))
            metadata = segment(number, offset, end, epochs, of=tip)
            batches = draw(records_of(metadata))
            newest = max(record.timestamp for batch in batches for record in batch.records)
            older = [entry for entry in before.items() if entry[1] < offset]
            files = plain_segment(metadata, batches=batches, index_every=draw(st.integers(1, 4)), before=older)
            metadata = replace(metadata, max_timestamp_ms=newest, segment_size_in_bytes=len(files[None]))
            damage = draw(st.sampled_from(DAMAGE))
            stem = world.bucket.stem(metadata)
            if damage in ("flipped", "cut"):
                world.touched[stem] = damaged(draw, files, damage)
            elif damage == "of another":
                other = plain_segment(segment(99, offset + 100, end + 101))
                world.touched[stem] = kind = draw(st.sampled_from(READ))
                files[kind] = other[kind]
            lost = [draw(st.sampled_from((".log", ".index", ".leader_epoch_checkpoint")))] if damage == "lacks" else []
            world.bucket.copy_plain(metadata, files, without=lost)
            world.truth[stem], world.planted[stem] = metadata, damage
            number, offset, before = number + 1, end + 1, {**dict(epochs), **before}
    return world


def check_row(row: CatalogueRow, truth: RemoteLogSegmentMetadata, files: IndexType | None, damage: str) -> None:
    """Check a whole row: right, but for what nothing bears out."""
    assert (row.proved_by, row.segment_id) == (ProvedBy.INDEXES, truth.remote_log_segment_id.id)
    assert (row.broker_id, row.event_timestamp_ms, row.state) == (None, None, None)
    assert row.start_offset == truth.start_offset
    assert (row.end_offset or 0) <= truth.end_offset
    assert (row.max_timestamp_ms or 0) <= truth.max_timestamp_ms
    assert "end_offset" in row.bounds
    if "max_timestamp_ms" not in row.bounds:
        assert row.max_timestamp_ms == truth.max_timestamp_ms
    if damage == "none":
        assert row.end_offset == truth.end_offset
        assert row.segment_leader_epochs == truth.segment_leader_epochs
        assert row.segment_size_in_bytes == truth.segment_size_in_bytes
    elif files is not IndexType.LEADER_EPOCH:
        # A checkpoint has no checksum; of all others nothing gets into the epochs.
        assert row.segment_leader_epochs is not None
        whole = LeaderEpochCheckpoint(truth.segment_leader_epochs)
        assert row.segment_leader_epochs == whole.in_range(truth.start_offset, row.end_offset + 1).entries


@pytest.mark.slow
@settings(max_examples=examples(300), deadline=None)
@given(world=plain_worlds(), at_once=st.sampled_from((1, 4)))
def test_every_row_is_right_or_named(world: PlainWorld, at_once: int) -> None:
    _, rows = world.bucket.catalogue(at_once=at_once)
    by_stem = {row.keys[0].rpartition(".")[0]: row for row in rows if row.keys}
    assert by_stem.keys() == world.truth.keys()
    whole = {}
    for stem, truth in world.truth.items():
        row, damage = by_stem[stem], world.planted[stem]
        if row.kind.is_whole:
            check_row(row, truth, world.touched.get(stem), damage)
            # A damaged one may be right all the same, as nobody has read the byte, or the bound is lower.
            whole[stem] = replace(
                truth, end_offset=row.end_offset or 0, segment_leader_epochs=row.segment_leader_epochs or ()
            )
        else:
            assert row.kind is (RowKind.UNFINISHED if damage == "lacks" else RowKind.DAMAGED), row
            assert damage != "none"
            assert (row.end_offset, row.segment_leader_epochs, row.max_timestamp_ms) == (None, None, None)
    check_together(whole, rows, with_holes=True)
