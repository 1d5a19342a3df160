# SPDX-License-Identifier: Apache-2.0
"""
Those who act beside the cleaner, each a script that the world resumes between any two effects of anybody.

A script may end anywhere, as its process may die. What none of them does is to fall silent for min_absence and then go
on: that is the assumption which the waiting time stands for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
)
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState as P

if TYPE_CHECKING:
    from tests.simulation.world import World

Script = Iterator[None]
BROKER = 1
DAY_MS = 24 * 3_600_000


def leader_deletes(world: World, tip: TopicIdPartition) -> Script:
    """What a leader does in its stop-partition path: all STARTED, all objects, all FINISHED."""
    segments = [RemoteLogSegmentId(tip, segment) for segment in world.model.at(tip).unfinished]
    for segment in segments:
        world.foreign(_update(world, segment, S.DELETE_SEGMENT_STARTED))
        yield
    for segment in segments:
        for key in world.objects_of_segment(segment):
            world.remove(key)
            yield
    for segment in segments:
        world.foreign(_update(world, segment, S.DELETE_SEGMENT_FINISHED))
        yield


def zombie_copies(world: World, tip: TopicIdPartition) -> Script:
    """A leader that does not know of the topic's deletion copies one more segment."""
    metadata = world.announce(tip)
    yield
    yield from zombie_goes_on(world, metadata)


def zombie_goes_on(world: World, metadata: RemoteLogSegmentMetadata) -> Script:
    """The same, from the middle of a copy on, until it reads that the segment is being deleted."""
    segment = metadata.remote_log_segment_id
    for key in world.layout.required_keys(metadata):
        if world.model.at(segment.topic_id_partition).segments.get(segment.id) != S.COPY_SEGMENT_STARTED:
            return
        world.put(key)
        yield
    world.foreign(_update(world, segment, S.COPY_SEGMENT_FINISHED))


def owner_recreates(world: World) -> Script:
    """A topic of the deleted one's name, with a new id; it fills up."""
    twin = world.recreate()
    yield
    for _ in range(world.adversary.randint(1, 3)):
        world.copied(twin)
        yield


def owner_deletes(world: World) -> Script:
    """The re-created topic is deleted in its turn; its leader may be down."""
    tip = world.delete_twin()
    yield
    if tip is not None and world.adversary.random() < 0.5:
        yield from leader_deletes(world, tip)


def controller_marks(world: World, tip: TopicIdPartition) -> Script:
    """KIP-405's controller says it, and says it again, with a clock of its own."""
    wrong_ms = world.adversary.choice([0, -2 * DAY_MS, -DAY_MS // 2, DAY_MS // 2, 3650 * DAY_MS, -world.now_ms - 1])
    world.happened["wrong clock"] += wrong_ms != 0
    for _ in range(world.adversary.randint(1, 3)):
        world.foreign(RemotePartitionDeleteMetadata(tip, P.DELETE_PARTITION_MARKED, world.now_ms + wrong_ms, BROKER))
        yield


def group_expires(world: World) -> Script:
    """Kafka forgets the committed offsets."""
    world.offsets.lose()
    yield


def _update(world: World, segment: RemoteLogSegmentId, state: S) -> RemoteLogSegmentMetadataUpdate:
    return RemoteLogSegmentMetadataUpdate(
        segment, world.now_ms, world.custom_metadata_of(segment, state), state, BROKER
    )
