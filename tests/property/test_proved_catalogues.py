# SPDX-License-Identifier: Apache-2.0
"""Catalogues whose rows are proved by contents, of random logs with flipped bits: each row right, or named."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from airflow_provider_rlmm.core.plans.catalogue_rows import CatalogueRow, ProvedBy, RowKind
from airflow_provider_rlmm.core.segments.lineage import LeaderEpochCheckpoint
from airflow_provider_rlmm.core.storage.index_type import IndexType
from airflow_provider_rlmm.core.storage.layouts import AivenLayout, LocalTieredStorageLayout
from tests.contracts.aiven_objects import AivenPacking, SegmentContents
from tests.examples import examples
from tests.recovery import Bucket
from tests.remote_log_world import RemoteLogWorld, SegmentFiles, random_world
from tests.segment_damage import Contents, cannot_be_told, flipped

PLANTED = ("nothing", "nothing", "log", "log", "index", "packed")


@dataclass
class Planted:
    """A bucket with the segments of a log, and what was planted in it."""

    bucket: Bucket
    truth: dict[str, SegmentFiles] = field(default_factory=dict)  # stem → the segment
    damage: dict[str, str] = field(default_factory=dict)  # stem → what was planted
    told: dict[str, bool] = field(default_factory=dict)  # stem → whether it must be found


def bucket_of(world: RemoteLogWorld, rng: random.Random) -> Planted:
    is_aiven = rng.random() < 0.5
    planted = Planted(Bucket(AivenLayout("kp-") if is_aiven else LocalTieredStorageLayout()))
    for segment in world.segments:
        damage = rng.choice(PLANTED if is_aiven else PLANTED[:-1])
        stem = planted.bucket.stem(segment.metadata)
        contents, told = Contents.of(segment), damage != "nothing"
        part = rng.choice(sorted(kind for kind, data in segment.indexes.items() if data)) if damage == "index" else None
        if damage in ("log", "index"):
            data = contents.part(part)
            changed = flipped(data, rng.randrange(len(data) * 8))
            contents = contents.with_part(part, changed)
            told = part is None and not cannot_be_told(segment, None, changed)
        put(planted.bucket, segment, contents, rng)
        if damage == "packed":
            key = stem + rng.choice((".log", ".indexes"))
            data, told = planted.bucket.storage._objects[key][0], False
            planted.bucket.storage.put_object(key, flipped(data, rng.randrange(len(data) * 8)))
        planted.truth[stem], planted.damage[stem], planted.told[stem] = segment, f"{damage} {part}", told
    return planted


def put(bucket: Bucket, segment: SegmentFiles, contents: Contents, rng: random.Random) -> None:
    metadata = replace(segment.metadata, custom_metadata=None)
    if isinstance(bucket.layout, AivenLayout):
        packing = AivenPacking(rng.choice((200, 1_000, 2**20)), rng.random() < 0.5, variable=True)
        bucket.copy(metadata, packing, contents=SegmentContents(contents.content, contents.indexes))
    else:
        bucket.copy_plain(metadata, {None: contents.content, **contents.indexes})


def check_right(row: CatalogueRow, segment: SegmentFiles, damage: str) -> None:
    """Check that a proved row says what is so, whatever was planted."""
    truth: Any = segment.metadata
    assert row.proved_by is ProvedBy.CONTENTS
    assert (row.start_offset, row.end_offset) == (truth.start_offset, truth.end_offset)
    assert row.segment_size_in_bytes == truth.segment_size_in_bytes
    assert row.bounds in ((), ("end_offset",))
    assert row.max_timestamp_ms == truth.max_timestamp_ms
    if row.txn_idx_empty is not None and IndexType.TRANSACTION not in damage:
        assert row.txn_idx_empty == (not segment.indexes.get(IndexType.TRANSACTION)) or not truth.txn_idx_empty
    if IndexType.LEADER_EPOCH not in damage:
        assert row.segment_leader_epochs is not None
        whole = LeaderEpochCheckpoint(truth.segment_leader_epochs)
        assert row.segment_leader_epochs == whole.in_range(truth.start_offset, truth.end_offset + 1).entries


@pytest.mark.slow
def test_every_row_is_proved_or_named() -> None:
    found = 0
    for seed in range(examples(150)):
        rng = random.Random(f"proved {seed}")
        planted = bucket_of(random_world(f"proved {seed}", batches=30), rng)
        rows = {
            row.keys[0].rpartition(".")[0]: row
            for row in planted.bucket.rows(prove=True, at_once=rng.choice((1, 3)))
            if row.keys
        }
        assert rows.keys() == planted.truth.keys(), f"seed {seed}"
        for stem, segment in planted.truth.items():
            row, where = rows[stem], f"seed {seed}, {stem}: {planted.damage[stem]}"
            if planted.told[stem]:
                assert (row.kind, row.end_offset) == (RowKind.DAMAGED, None), where
                found += 1
            elif planted.damage[stem].startswith("nothing"):
                assert row.kind is RowKind.COPIED, f"{where}: {row.why}"
            if row.kind is RowKind.COPIED:
                check_right(row, segment, planted.damage[stem])
            else:
                assert row.kind is RowKind.DAMAGED, where
    assert found >= examples(150)
