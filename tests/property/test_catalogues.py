# SPDX-License-Identifier: Apache-2.0
"""A catalogue of any bucket with planted damage, beside an oracle that knows what was planted and goes offset by offset."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_rlmm.core.base import spool
from airflow_provider_rlmm.core.base.errors import StorageUnavailableError
from airflow_provider_rlmm.core.plans.catalogue_rows import CatalogueRow, ProvedBy, RowKind
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentMetadata,
    TopicIdPartition,
    kafka_uuid_str,
)
from airflow_provider_rlmm.core.runs import listed_objects
from airflow_provider_rlmm.core.storage.layouts import AivenLayout
from airflow_provider_rlmm.core.storage.remote_storage import StoredObject
from airflow_provider_rlmm.features.recovery import cataloguing
from tests.contracts.aiven_objects import AivenPacking
from tests.examples import examples
from tests.recovery import Bucket, as_bytes, as_copied, manifest_of, partition, segment

PARTITIONS = [partition(), partition(1), partition(topic_id=8), partition(topic="payments", topic_id=9)]
SUFFIXES = (".log", ".indexes", ".rsm-manifest")
DAMAGE = ("none",) * 6 + ("lacks", "flipped", "of another", "log grown", "indexes cut", "encrypted")
PACKINGS = [AivenPacking(chunk_size=100), AivenPacking(chunk_size=4, compressed=True, variable=True)]


@dataclass
class World:
    """A bucket, and what was planted in it."""

    bucket: Bucket = field(default_factory=lambda: Bucket(AivenLayout("now/", ["then/"])))
    truth: dict[str, RemoteLogSegmentMetadata] = field(default_factory=dict)  # stem → the segment
    planted: dict[str, str] = field(default_factory=dict)  # stem → damage
    foreign: set[str] = field(default_factory=set)
    broken: str | None = None  # folder whose listing breaks off
    shown: int = 0  # objects that it shows before

    def is_broken(self, key: str) -> bool:
        return self.broken is not None and key.startswith(self.broken)

    def stored(self, stem: str, suffix: str) -> bytes:
        return self.bucket.storage._objects[stem + suffix][0]

    def plant(self, draw: Any, metadata: RemoteLogSegmentMetadata, place: int, damage: str) -> None:
        put, packing = self.bucket.storage.put_object, draw(st.sampled_from(PACKINGS))
        stem = self.bucket.copy(metadata, packing, place=place, encrypted=damage == "encrypted")
        self.truth[stem], self.planted[stem] = metadata, damage
        if damage == "lacks":
            for suffix in draw(st.sets(st.sampled_from(SUFFIXES), min_size=1, max_size=2)):
                del self.bucket.storage._objects[stem + suffix]
        elif damage == "flipped":
            data = bytearray(self.stored(stem, ".rsm-manifest"))
            data[draw(st.integers(0, len(data) - 1))] ^= draw(st.integers(1, 255))
            put(f"{stem}.rsm-manifest", bytes(data))
        elif damage == "of another":
            other = draw(st.sampled_from([segment(999, metadata.start_offset, metadata.end_offset), _moved(metadata)]))
            put(f"{stem}.rsm-manifest", as_bytes(manifest_of(other, packing)))
        elif damage == "log grown":
            put(f"{stem}.log", self.stored(stem, ".log") + b"x")
        elif damage == "indexes cut":
            put(f"{stem}.indexes", self.stored(stem, ".indexes")[:-1])


def _moved(metadata: RemoteLogSegmentMetadata) -> RemoteLogSegmentMetadata:
    """Return a segment of the same id in another user partition."""
    segment_id = metadata.remote_log_segment_id
    tip = segment_id.topic_id_partition
    elsewhere = TopicIdPartition(tip.topic_id, tip.topic, tip.partition + 7)
    return replace(metadata, remote_log_segment_id=replace(segment_id, topic_id_partition=elsewhere))


@st.composite
def worlds(draw: st.DrawFn) -> World:
    world, number = World(), 0
    for tip in PARTITIONS:
        # Some lineages of one user partition: each goes on where it has begun, with epochs of its own, and may skip offsets.
        for _ in range(draw(st.integers(0, 2))):
            offset, epoch = draw(st.integers(0, 8)), draw(st.integers(0, 3))
            for _ in range(draw(st.integers(0, 4))):
                offset += draw(st.sampled_from((0, 0, 0, 1, 5)))
                end = offset + draw(st.integers(0, 9))
                epochs = [(epoch, offset)]
                if draw(st.booleans()) and end > offset:
                    epoch += draw(st.integers(1, 2))
                    epochs.append((epoch, draw(st.integers(offset + 1, end))))
                metadata = segment(number, offset, end, epochs, of=tip)
                number += 1
                damage = draw(st.sampled_from(DAMAGE))
                world.plant(draw, metadata, draw(st.sampled_from((0, 0, 0, 1))), damage)
                if damage == "none" and draw(st.integers(0, 9)) == 0:
                    world.plant(draw, metadata, 1, "none")
                offset = end + 1
    for key in draw(st.sets(st.sampled_from(("now/a.txt", "now/orders.log", "then/x.rsm-manifest")))):
        world.foreign.add(key)
    for stem in draw(st.sets(st.sampled_from(sorted(world.truth)), max_size=2)) if world.truth else ():
        world.foreign.add(f"{stem}.log.tmp")
    for key in world.foreign:
        world.bucket.storage.put_object(key, b"?")
    if world.truth and draw(st.integers(0, 3)) == 0:
        folders = sorted({stem.rpartition("/")[0] + "/" for stem in world.truth})
        world.broken, world.shown = draw(st.sampled_from(folders)), draw(st.integers(0, 4))
    return world


class Breaking:
    """Lists a folder for ever up to some of its objects only, and lets what is above it be listed level by level."""

    def __init__(self, world: World) -> None:
        self._folder = world.broken or ""
        self._topic = self._folder.rstrip("/").rpartition("/")[0] + "/"
        self._shown = world.shown
        self._prefix = ""
        self._tries = 0

    def begin(self, effect: str, prefix: str) -> None:
        if effect == "list":
            self._prefix = prefix

    def listed(self, found: list[StoredObject]) -> Iterator[StoredObject]:
        self._tries += self._prefix == self._topic
        breaks = self._prefix == self._folder or (self._prefix == self._topic and self._tries == 1)
        yield from found[: self._shown] if breaks else found
        if breaks:
            raise StorageUnavailableError("cut off")


def _epoch_at(metadata: RemoteLogSegmentMetadata, offset: int) -> int:
    return [epoch for epoch, start in metadata.segment_leader_epochs if start <= offset][-1]


def _in_conflict(one: RemoteLogSegmentMetadata, other: RemoteLogSegmentMetadata) -> bool:
    shared = range(max(one.start_offset, other.start_offset), min(one.end_offset, other.end_offset) + 1)
    if not shared:
        return False
    pairs = [(_epoch_at(one, offset), _epoch_at(other, offset)) for offset in shared]
    pairs.append((one.segment_leader_epochs[-1][0], other.segment_leader_epochs[-1][0]))
    later = {a > b for a, b in pairs if a != b}
    return len(later) != 1


def _tip(metadata: RemoteLogSegmentMetadata) -> tuple[Any, int]:
    tip = metadata.remote_log_segment_id.topic_id_partition
    return tip.topic_id, tip.partition


def _holes(whole: list[RemoteLogSegmentMetadata]) -> Iterator[tuple[int, int]]:
    """Yield the runs of offsets that no segment has, from the first offset that one has to the last."""
    covered = {offset for metadata in whole for offset in range(metadata.start_offset, metadata.end_offset + 1)}
    first = None
    for offset in range(min(covered), max(covered) + 1):
        if offset not in covered and first is None:
            first = offset
        if offset in covered and first is not None:
            yield first, offset - 1
            first = None


def check_flipped(row: CatalogueRow, data: bytes, truth: RemoteLogSegmentMetadata) -> RemoteLogSegmentMetadata | None:
    """Check the row of a segment in whose manifest a byte has flipped: not whole, or to the letter what is there now."""
    if not row.kind.is_whole:
        assert row.kind in (RowKind.DAMAGED, RowKind.CANNOT_TELL)
        return None
    said = json.loads(data)["remoteLogSegmentMetadata"]
    found = as_copied(replace(row, txn_idx_empty=bool(row.txn_idx_empty)))
    assert row.txn_idx_empty == said.get("txnIdxEmpty")
    assert (found.end_offset, found.max_timestamp_ms) == (said["endOffset"], said["maxTimestampMs"])
    assert (found.broker_id, found.event_timestamp_ms) == (said["brokerId"], said["eventTimestampMs"])
    assert dict(found.segment_leader_epochs) == {
        int(epoch): start for epoch, start in said["segmentLeaderEpochs"].items()
    }
    assert (found.remote_log_segment_id, found.start_offset) == (truth.remote_log_segment_id, truth.start_offset)
    assert found.segment_size_in_bytes == truth.segment_size_in_bytes or row.compressed
    return found


def check_alone(world: World, by_stem: dict[str, CatalogueRow]) -> dict[str, RemoteLogSegmentMetadata]:
    """Check what each segment is for itself; return the whole ones."""
    whole = {}
    for stem, truth in world.truth.items():
        if stem not in by_stem:
            # Its folder broke off before anything of it was seen.
            assert world.is_broken(stem)
            continue
        row, damage = by_stem[stem], world.planted[stem]
        tip = truth.remote_log_segment_id.topic_id_partition
        if world.is_broken(stem):
            assert row.kind is RowKind.CANNOT_TELL
        elif damage == "flipped":
            if (found := check_flipped(row, world.stored(stem, ".rsm-manifest"), truth)) is not None:
                whole[stem] = found
        elif damage in ("none", "encrypted"):
            assert row.kind in (RowKind.CONFLICT, RowKind.ENCRYPTED if damage == "encrypted" else RowKind.COPIED)
            assert as_copied(row) == truth
            assert (row.encrypted, row.proved_by) == (damage == "encrypted", ProvedBy.MANIFEST)
            whole[stem] = truth
        else:
            assert row.kind is (RowKind.UNFINISHED if damage == "lacks" else RowKind.DAMAGED)
        assert (row.topic_id, row.topic, row.partition) == (tip.topic_id, tip.topic, tip.partition)
        assert (row.segment_id, row.start_offset) == (truth.remote_log_segment_id.id, truth.start_offset)
        assert (row.state, row.custom_metadata) == (None, None)
        if stem not in whole:
            assert row.proved_by is ProvedBy.KEY
            assert (row.end_offset, row.segment_leader_epochs, row.max_timestamp_ms, row.broker_id) == (None,) * 4
            assert row.why
    return whole


def check_together(whole: dict[str, RemoteLogSegmentMetadata], rows: list[CatalogueRow], *, with_holes: bool) -> None:
    """Check which whole segments are in conflict, and the holes between them."""
    partners = defaultdict[str, set[str]](set)
    for (one, a), (other, b) in combinations(whole.items(), 2):
        if _tip(a) == _tip(b) and _in_conflict(a, b):
            partners[one].add(other)
            partners[other].add(one)
    found = {row.keys[0].rpartition(".")[0]: set(row.partners) for row in rows if row.kind is RowKind.CONFLICT}
    assert found == partners
    holes = [
        (row.topic_id, row.partition, row.start_offset, row.end_offset) for row in rows if row.kind is RowKind.HOLE
    ]
    by_partition = defaultdict(list)
    for metadata in whole.values():
        by_partition[_tip(metadata)].append(metadata)
    expected = {(*tip, *hole) for tip, of in by_partition.items() for hole in _holes(of)}
    assert len(set(holes)) == len(holes)
    assert set(holes) == expected if with_holes else set(holes) <= expected


@pytest.mark.slow
@settings(max_examples=examples(200), deadline=None)
@given(world=worlds(), at_once=st.sampled_from((1, 4)), rows_at_once=st.sampled_from((2, 7, 10_000)))
def test_every_row_is_right_and_none_is_invented(world: World, at_once: int, rows_at_once: int) -> None:
    if world.broken is not None:
        breaking = Breaking(world)
        world.bucket.storage.on_effect, world.bucket.storage.arrange = breaking.begin, breaking.listed
    with ExitStack() as patched:
        for module in (listed_objects, cataloguing):
            patched.enter_context(mock.patch.object(module, "SPOOLED_ROWS", rows_at_once))
        patched.enter_context(mock.patch.object(spool, "_IN_MEMORY", 1))
        made, rows = world.bucket.catalogue(at_once=at_once)
    # Each object that could be seen is in one row, and no other is.
    unseen = {key for key in world.bucket.storage.keys if world.is_broken(key)}
    objects = Counter(key for row in rows for key in row.keys)
    assert world.bucket.storage.keys - unseen <= set(objects) <= world.bucket.storage.keys
    assert set(objects.values()) <= {1}
    assert made.listed.objects == sum(amount.objects for amount in made.kinds.values()) == len(objects)
    assert made.listed.bytes == sum(row.stored_bytes for row in rows)
    assert {kind: amount.rows for kind, amount in made.kinds.items() if amount.rows} == Counter(r.kind for r in rows)
    foreign = {row.keys[0] for row in rows if row.kind is RowKind.FOREIGN}
    assert world.foreign - unseen <= foreign <= world.foreign
    of_segments = [row for row in rows if row.kind not in (RowKind.FOREIGN, RowKind.HOLE)]
    by_stem = {
        row.keys[0].removesuffix(next(s for s in SUFFIXES if row.keys[0].endswith(s))): row for row in of_segments
    }
    assert len(by_stem) == len(of_segments)
    assert by_stem.keys() <= world.truth.keys()
    whole = check_alone(world, by_stem)
    check_together(whole, rows, with_holes=world.broken is None)
    assert [folder.folder for folder in made.incomplete] == ([] if world.broken is None else [world.broken])
    in_doubt = {(r.topic_id, r.partition) for r in rows if world.broken and _lies_in(r, world.broken)}
    assert not any(r.kind is RowKind.HOLE and (r.topic_id, r.partition) in in_doubt for r in rows)
    needs_person = any(row.kind.needs_person for row in rows) or world.broken is not None or not of_segments
    assert bool(list(made.problems())) == needs_person


def _lies_in(row: CatalogueRow, folder: str) -> bool:
    return row.topic_id is not None and f"-{kafka_uuid_str(row.topic_id)}/{row.partition}/" in folder
