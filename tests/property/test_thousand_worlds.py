# SPDX-License-Identifier: Apache-2.0
"""
A thousand buckets in which everything is wrong at once, beside an oracle that knows the truth: each row right or named.

Half of the manifests are gone, bytes have flipped, logs are cut, objects are encrypted, two lineages hold the same offsets,
a topic was made anew under its name, foreign objects lie between all that, and a folder's listing breaks off. The catalogue
is made in each of its ways: by manifests or indexes, with whole logs, and proved by contents.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest

from airflow_provider_rlmm.core.plans.catalogue_rows import CatalogueRow, ProvedBy, RowKind
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata, TopicIdPartition
from airflow_provider_rlmm.core.segments.lineage import LeaderEpochCheckpoint
from airflow_provider_rlmm.core.storage.layouts import AivenLayout, LocalTieredStorageLayout
from tests.contracts.aiven_objects import AivenPacking, SegmentContents
from tests.examples import examples
from tests.property.test_catalogues import Breaking, World, check_flipped, check_together
from tests.recovery import PLAIN, Bucket, as_copied, partition, plain_segment, segment
from tests.segment_damage import flipped

WORLDS = examples(1_000)

PARTITIONS = [partition(), partition(1), partition(topic_id=8), partition(topic="payments", topic_id=9)]
"""Topic id 8 has the name of topic id 7: it was made anew."""

HEALTHY = ("none",) * 5
OF_AIVEN = (
    *HEALTHY,
    "log flipped",
    "log cut",
    "indexes cut",
    "manifest flipped",
    "encrypted",
    "lacks .log",
    "lacks .indexes",
)
OF_FILES = (*HEALTHY, "log flipped", "log cut", "index flipped", "lacks .log", "lacks .timeindex")
PACKED = AivenPacking(chunk_size=150, compressed=True, variable=True)
LOST = ".rsm-manifest"


@dataclass
class Mixed(World):
    """A bucket, and what was planted in it."""

    lost: set[str] = field(default_factory=set)  # stems of segments whose manifests are gone
    packed: set[str] = field(default_factory=set)  # stems of compressed ones
    rng: random.Random = field(default_factory=random.Random)

    @property
    def is_aiven(self) -> bool:
        return isinstance(self.bucket.layout, AivenLayout)

    def add(self, metadata: RemoteLogSegmentMetadata, damage: str, *, place: int) -> None:
        """Copy a segment, and damage it."""
        files = plain_segment(metadata, per_batch=self.rng.randint(1, 4), index_every=self.rng.randint(1, 3))
        log = self.rng.randbytes(len(files[None])) if damage == "encrypted" else files[None]
        metadata = replace(metadata, segment_size_in_bytes=len(log))
        if self.is_aiven:
            packing = self.rng.choice((PLAIN, PLAIN, PACKED))
            indexes = {kind: data for kind, data in files.items() if kind is not None}
            stem = self.bucket.copy(
                metadata,
                packing,
                place=place,
                encrypted=damage == "encrypted",
                contents=SegmentContents(log, indexes),
            )
            if packing is PACKED:
                self.packed.add(stem)
        else:
            stem = self.bucket.copy_plain(metadata, files)
        self.truth[stem], self.planted[stem] = metadata, damage
        self._damage(stem, damage)

    def _damage(self, stem: str, damage: str) -> None:
        what, _, how = damage.partition(" ")
        if what == "lacks":
            self._remove(stem + how)
        elif how in ("cut", "flipped"):
            suffix = {"log": ".log", "indexes": ".indexes", "manifest": LOST}.get(what) or self.rng.choice(
                (".index", ".timeindex", ".leader_epoch_checkpoint", ".snapshot")
            )
            data = self.stored(stem, suffix)
            if how == "cut":
                self.bucket.storage.put_object(stem + suffix, data[: self.rng.randrange(len(data))])
            elif data:
                self.bucket.storage.put_object(stem + suffix, flipped(data, self.rng.randrange(len(data) * 8)))

    def _remove(self, key: str) -> None:
        del self.bucket.storage._objects[key]

    def lose_manifests(self, stems: list[str]) -> None:
        """Have the manifests of some segments be gone."""
        for stem in stems:
            self._remove(stem + LOST)
            self.lost.add(stem)


def mixed_world(seed: int) -> Mixed:
    """Return a bucket that a seed decides."""
    rng = random.Random(f"thousand {seed}")
    layout = AivenLayout("now/", ["then/"]) if rng.random() < 0.7 else LocalTieredStorageLayout()
    world = Mixed(Bucket(layout), rng=rng)
    for number, (tip, start, end, epochs) in enumerate(_segments(rng)):
        metadata = segment(number, start, end, epochs, of=tip)
        damage = rng.choice(OF_AIVEN if world.is_aiven else OF_FILES)
        world.add(metadata, damage, place=int(world.is_aiven and rng.random() < 0.2))
    stems = sorted(world.truth)
    if world.is_aiven and rng.random() < 0.5:
        world.lose_manifests(rng.sample(stems, len(stems) // 2))
    beside = [f"{stem}.log.tmp" for stem in rng.sample(stems, min(len(stems), 2))]
    inside = (
        ["now/a.txt", "now/orders.log", "then/x.rsm-manifest"] if world.is_aiven else ["kafka-tiered-storage/a.txt"]
    )
    world.foreign = {key for key in (*beside, *inside) if rng.random() < 0.5}
    for key in world.foreign:
        world.bucket.storage.put_object(key, b"?")
    if stems and world.is_aiven and rng.random() < 0.1:
        world.broken = rng.choice(stems).rpartition("/")[0] + "/"
        world.shown = rng.randint(0, 4)
        breaking = Breaking(world)
        world.bucket.storage.on_effect, world.bucket.storage.arrange = breaking.begin, breaking.listed
    return world


def _segments(rng: random.Random) -> Iterator[tuple[TopicIdPartition, int, int, list[tuple[int, int]]]]:
    for tip in PARTITIONS:
        for _ in range(rng.randint(0, 2)):
            offset, epoch = rng.randint(0, 8), rng.randint(0, 3)
            for _ in range(rng.randint(0, 4)):
                offset += rng.choice((0, 0, 0, 1, 5))
                end = offset + rng.randint(0, 12)
                epochs = [(epoch, offset)]
                if end > offset and rng.random() < 0.5:
                    epoch += rng.randint(1, 2)
                    epochs.append((epoch, rng.randint(offset + 1, end)))
                yield tip, offset, end, epochs
                offset = end + 1


# -- the oracle ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Way:
    """How a catalogue is made."""

    whole_logs: bool
    prove: bool

    def kinds_of(self, world: Mixed, stem: str) -> set[RowKind]:
        """Return what a segment may be called; a whole one may be in conflict."""
        damage = world.planted[stem]
        if world.is_broken(stem):
            return {RowKind.CANNOT_TELL}
        if damage.startswith("lacks") and not (stem in world.lost and damage == "lacks .indexes"):
            return {RowKind.UNFINISHED}
        if stem in world.lost:
            return self._without_manifest(world, stem, damage)
        if damage == "encrypted":
            return {RowKind.ENCRYPTED, RowKind.CONFLICT}
        whole = {RowKind.COPIED, RowKind.CONFLICT}
        if damage == "none":
            return whole
        if damage == "manifest flipped":
            return whole | {RowKind.DAMAGED, RowKind.CANNOT_TELL, RowKind.ENCRYPTED}
        if world.is_aiven and damage.endswith("cut"):
            return {RowKind.DAMAGED}
        if damage == "log flipped" and world.is_aiven and not self.prove:
            # Nobody has read it: the manifest is right, and so is the row.
            return whole
        if damage == "log flipped" and self.prove and stem not in world.packed:
            return {RowKind.DAMAGED}
        # Where nothing covers a bit, or the last batches alone are read; a frame may say the same with another bit.
        return whole | {RowKind.DAMAGED}

    def _without_manifest(self, world: Mixed, stem: str, damage: str) -> set[RowKind]:
        if not (self.whole_logs or self.prove):
            return {RowKind.UNFINISHED}
        if stem in world.packed or damage == "encrypted":
            return {RowKind.UNREADABLE}
        if damage == "log flipped":
            return {RowKind.DAMAGED, RowKind.UNREADABLE}
        if damage == "log cut":
            return {RowKind.DAMAGED, RowKind.UNREADABLE, RowKind.LOG_ONLY}
        return {RowKind.LOG_ONLY}


def check_fields(world: Mixed, way: Way, stem: str, row: CatalogueRow) -> None:
    """Check that a row says nothing that is not so."""
    truth, damage = world.truth[stem], world.planted[stem]
    segment_id = truth.remote_log_segment_id
    tip = segment_id.topic_id_partition
    assert (row.topic_id, row.topic, row.partition) == (tip.topic_id, tip.topic, tip.partition)
    assert (row.segment_id, row.start_offset) == (segment_id.id, truth.start_offset)
    assert (row.state, row.custom_metadata) == (None, None)
    if row.kind is RowKind.LOG_ONLY or (row.kind.is_whole and not world.is_aiven):
        _check_bounds(row, truth, damage)
    elif not row.kind.is_whole:
        assert row.proved_by is ProvedBy.KEY
        assert (row.end_offset, row.segment_leader_epochs, row.max_timestamp_ms, row.broker_id) == (None,) * 4
        assert row.why
    elif damage != "manifest flipped":
        assert as_copied(row) == truth
    elif way.prove and row.proved_by is ProvedBy.CONTENTS:
        assert (row.end_offset, row.max_timestamp_ms) == (truth.end_offset, truth.max_timestamp_ms)
        assert row.segment_leader_epochs == truth.segment_leader_epochs
        assert row.segment_size_in_bytes == truth.segment_size_in_bytes
    else:
        check_flipped(row, world.stored(stem, LOST), truth)


def _check_bounds(row: CatalogueRow, truth: RemoteLogSegmentMetadata, damage: str) -> None:
    """Check what log and indexes tell: a bound where they cannot know more, never too much."""
    end = row.end_offset
    assert end is not None
    assert end <= truth.end_offset
    assert "end_offset" in row.bounds
    assert (row.max_timestamp_ms or 0) <= truth.max_timestamp_ms
    if "max_timestamp_ms" not in row.bounds and end == truth.end_offset:
        assert row.max_timestamp_ms == truth.max_timestamp_ms
    if damage != "index flipped":
        # A checkpoint has no checksum; the log bears out what it says of the batches that were read.
        assert row.segment_leader_epochs is not None
        lineage = LeaderEpochCheckpoint(truth.segment_leader_epochs)
        assert row.segment_leader_epochs == lineage.in_range(truth.start_offset, end + 1).entries
    if damage in ("none", "lacks .indexes"):
        assert (end, row.segment_size_in_bytes) == (truth.end_offset, truth.segment_size_in_bytes)


def check(world: Mixed, way: Way, seen: Counter[RowKind]) -> None:
    """Make the catalogue of a bucket, and compare all that it says with what is so."""
    made, rows = world.bucket.catalogue(whole_logs=way.whole_logs, prove=way.prove, at_once=world.rng.choice((1, 4)))
    unseen = {key for key in world.bucket.storage.keys if world.is_broken(key)}
    objects = Counter(key for row in rows for key in row.keys)
    assert world.bucket.storage.keys - unseen <= set(objects) <= world.bucket.storage.keys
    assert set(objects.values()) <= {1}
    foreign = {row.keys[0] for row in rows if row.kind is RowKind.FOREIGN}
    assert world.foreign - unseen <= foreign <= world.foreign
    by_stem = {
        row.keys[0].removesuffix(next(s for s in world.bucket.layout.suffixes if row.keys[0].endswith(s))): row
        for row in rows
        if row.kind not in (RowKind.FOREIGN, RowKind.HOLE)
    }
    expected = {stem for stem in world.truth if any(key.startswith(f"{stem}.") for key in world.bucket.storage.keys)}
    assert {stem for stem in expected if not world.is_broken(stem)} <= by_stem.keys() <= expected
    whole = {}
    for stem, row in by_stem.items():
        assert row.kind in way.kinds_of(world, stem), (stem, world.planted[stem], stem in world.lost, row)
        check_fields(world, way, stem, row)
        if row.kind.is_whole:
            epochs = row.segment_leader_epochs or ()
            whole[stem] = replace(world.truth[stem], end_offset=row.end_offset or 0, segment_leader_epochs=epochs)
    check_together(whole, rows, with_holes=world.broken is None)
    assert [folder.folder for folder in made.incomplete] == ([] if world.broken is None else [world.broken])
    needs_person = any(row.kind.needs_person for row in rows) or world.broken is not None or not by_stem
    assert bool(list(made.problems())) == needs_person
    seen.update(row.kind for row in rows)


@pytest.mark.slow
@pytest.mark.rare
def test_a_thousand_worlds() -> None:
    seen: Counter[RowKind] = Counter()
    for seed in range(WORLDS):
        world = mixed_world(seed)
        way = Way(whole_logs=world.rng.random() < 0.5, prove=world.rng.random() < 0.5)
        try:
            check(world, way, seen)
        except AssertionError as e:
            raise AssertionError(f"seed {seed}, {way}: {e}") from e
    if WORLDS == 1_000:
        assert seen.keys() == set(RowKind) - {RowKind.DELETED}, seen
