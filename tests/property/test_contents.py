# SPDX-License-Identifier: Apache-2.0
"""Looks at segments that Aiven's plugin has packed: each flipped bit of each object is found, or changes nothing."""

from __future__ import annotations

import json
import random
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.segments.pacing import ByteQuota, StoragePatience
from airflow_provider_rlmm.core.storage.in_memory import InMemoryRemoteStorageManager
from airflow_provider_rlmm.core.storage.layouts import AivenLayout
from airflow_provider_rlmm.features.contents.chosen import CopiedSegment
from airflow_provider_rlmm.features.contents.looking import Look, Looking
from airflow_provider_rlmm.features.contents.rules import Choice, Outcome
from airflow_provider_rlmm.features.contents.storage_source import Fetched, PacedStorage
from tests.contracts.aiven_objects import AivenPacking, SegmentContents
from tests.examples import examples
from tests.remote_log_world import RemoteLogWorld, SegmentFiles, random_world
from tests.segment_damage import cannot_be_told, flipped

LAYOUT = AivenLayout("kafka/prod-")


def put(storage: InMemoryRemoteStorageManager, segment: SegmentFiles, packing: AivenPacking) -> dict[str, bytes]:
    """Pack a segment; its manifest says what the plugin's says."""
    metadata, stem = segment.metadata, LAYOUT.segment_stem(segment.metadata)
    objects = packing(stem, metadata, SegmentContents(segment.log, segment.indexes))
    manifest = json.loads(objects[f"{stem}.rsm-manifest"])
    manifest["remoteLogSegmentMetadata"] |= {
        "maxTimestampMs": metadata.max_timestamp_ms,
        "brokerId": metadata.broker_id,
        "eventTimestampMs": metadata.event_timestamp_ms,
        "segmentLeaderEpochs": {str(epoch): start for epoch, start in metadata.segment_leader_epochs},
        "txnIdxEmpty": metadata.txn_idx_empty,
    }
    objects[f"{stem}.rsm-manifest"] = json.dumps(manifest).encode()
    for key, data in objects.items():
        storage.put_object(key, data)
    return objects


def copied(world: RemoteLogWorld) -> list[CopiedSegment]:
    found: list[CopiedSegment] = []
    for segment in world.segments:
        before = found[-1].metadata if found else None
        lineage = world.lineage.in_range(world.start, segment.metadata.end_offset + 1).entries
        found.append(CopiedSegment(segment.metadata, before, lineage))
    return found


def look_at(storage: InMemoryRemoteStorageManager, segments: list[CopiedSegment]) -> list[Look]:
    # Anew, as manifests are kept.
    fresh = InMemoryRemoteStorageManager(LAYOUT)
    for key in storage.keys:
        fresh.put_object(key, storage.fetch_object(key))
    paced = PacedStorage(fresh, StoragePatience(0), ByteQuota(None), Fetched())
    return list(Looking(paced, at_once=1).of(segments))


@pytest.mark.slow
def test_each_flipped_bit_of_packed_segments_is_found_or_changes_nothing() -> None:
    unseen = 0
    for seed in range(examples(40)):
        rng = random.Random(f"packed {seed}")
        world, storage = random_world(f"packed {seed}", batches=20), InMemoryRemoteStorageManager(LAYOUT)
        packing = AivenPacking(rng.choice((200, 1_000, 2**20)), rng.random() < 0.7, variable=True)
        objects: dict[str, bytes] = {}
        owner: dict[str, SegmentFiles] = {}
        for segment in world.segments:
            made = put(storage, segment, packing)
            objects |= made
            owner |= dict.fromkeys(made, segment)
        segments = copied(world)
        assert [look.outcome for look in look_at(storage, segments)] == [Outcome.RIGHT] * len(segments)
        for key in rng.choices(sorted(objects), k=8):
            bit = rng.randrange(len(objects[key]) * 8)
            changed = flipped(objects[key], bit)
            storage.put_object(key, changed)
            number = world.segments.index(owner[key])
            (look,) = look_at(storage, [segments[number]])
            if look.outcome is not Outcome.DAMAGED:
                assert changes_nothing(key, objects, changed, owner[key], storage), (
                    f"seed {seed}: {key}, bit {bit}: {look}"
                )
                unseen += 1
            storage.put_object(key, objects[key])
    assert unseen < 8 * examples(40) // 4


def changes_nothing(
    key: str, objects: dict[str, bytes], changed: bytes, segment: SegmentFiles, storage: InMemoryRemoteStorageManager
) -> bool:
    """Whether all that a reader gets out of an object is as before, or an index is still true."""
    if key.endswith(".rsm-manifest"):
        return _without_unsaid(changed) == _without_unsaid(objects[key]) or b"encryption" in changed
    fresh = InMemoryRemoteStorageManager(LAYOUT)
    for other in storage.keys:
        fresh.put_object(other, storage.fetch_object(other))
    if key.endswith(".log"):
        return fresh.fetch_log_segment(segment.metadata, 0) == segment.log
    for index_type, data in segment.indexes.items():
        read = fresh.fetch_index(segment.metadata, index_type)
        if read != data:
            return cannot_be_told(segment, index_type, read)
    return True


def _without_unsaid(data: bytes) -> object:
    """What of a manifest is compared."""
    document = json.loads(data)
    for name in ("brokerId", "eventTimestampMs"):
        document["remoteLogSegmentMetadata"].pop(name, None)
        document["remoteLogSegmentMetadata"] = {
            field: value
            for field, value in document["remoteLogSegmentMetadata"].items()
            if len(field) != len(name)  # its name may be what was flipped
        }
    return document


def test_samples_of_any_size_cover_all_in_turn_oldest_first() -> None:
    for seed in range(examples(50)):
        rng = random.Random(f"samples {seed}")
        segments = [UUID(int=rng.getrandbits(128)) for _ in range(rng.randint(1, 40))]
        choice = Choice(share=rng.choice((0.01, 0.1, 0.3, 0.5, 1.0)), seed=str(seed))
        looked_at: dict[UUID, int] = {}
        runs = 0
        while len(looked_at) < len(segments):
            runs += 1
            chosen = choice.of_topic(segments, looked_at)
            oldest = min(looked_at.get(segment, 0) for segment in segments)
            assert any(looked_at.get(segment, 0) == oldest for segment in chosen)
            looked_at |= dict.fromkeys(chosen, runs)
        assert runs == -(-len(segments) // len(chosen))
