# SPDX-License-Identifier: Apache-2.0
"""Those who act beside a copier: the leader of what is copied, and the owner of the topic. Scripts, as in ``actors``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadataUpdate, RemotePartitionDeleteMetadata
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState as P
from tests.simulation.actors import BROKER, Script
from tests.simulation.led import NOT_COPIED, Led

if TYPE_CHECKING:
    from tests.simulation.copying_world import CopyingWorld


def leader_takes_over(world: CopyingWorld, led: Led) -> Script:
    """Copying is enabled: the leader goes on from the highest offset, until it is disabled again, or it dies."""
    led.configs = replace(led.configs, remote_log_copy_disable=False)
    yield
    while not led.configs.remote_log_copy_disable and world.is_led(led):
        waiting = world.waiting(led)
        if not waiting:
            break
        yield from world.broker_copies(led, waiting[0])
    if world.adversary.random() < 0.5:
        led.configs = replace(led.configs, remote_log_copy_disable=True)


def leader_moves_its_start(world: CopyingWorld, led: Led) -> Script:
    """DeleteRecords, or retention: the log start moves, then what lies below it goes; deletions that dangle go, too."""
    start = world.adversary.randrange(led.active_base)
    expired = led.expired_end(world.now_ms)
    if expired > led.log_start:
        world.happened["expired"] += 1
        start = expired
    led.log_start = max(led.log_start, start)
    led.stable = max(led.stable, led.log_start)
    yield
    yield from leader_cleans_up(world, led)


def leader_cleans_up(world: CopyingWorld, led: Led) -> Script:
    """What a leader deletes whenever it looks: all below its log start, and what somebody began to delete and did not end."""
    for metadata in world.cache_of(led.tip).list_remote_log_segments():
        segment = metadata.remote_log_segment_id
        below = metadata.end_offset < led.log_start
        if not world.is_led(led) or not (below or metadata.state is S.DELETE_SEGMENT_STARTED):
            continue
        world.deleted_by_leaders.add(segment.id)
        world.foreign(RemoteLogSegmentMetadataUpdate(segment, world.now_ms, None, S.DELETE_SEGMENT_STARTED, BROKER))
        yield
        for key in world.objects_of_segment(segment):
            world.remove(key)
        yield
        world.foreign(RemoteLogSegmentMetadataUpdate(segment, world.now_ms, None, S.DELETE_SEGMENT_FINISHED, BROKER))


def leader_commits(world: CopyingWorld, led: Led) -> Script:
    """The last open transaction ends."""
    led.stable = led.high_watermark
    yield


def owner_reconfigures(world: CopyingWorld, led: Led) -> Script:
    """The topic's configs change for a while, into something of which nobody else may copy."""
    before = led.configs
    led.configs = world.adversary.choice(
        [
            replace(before, remote_log_copy_disable=False),
            replace(before, remote_storage_enable=False),
            replace(before, cleanup_policy=frozenset({"compact", "delete"})),
        ]
    )
    yield
    led.configs = replace(NOT_COPIED, retention_ms=before.retention_ms)


def somebody_marks(world: CopyingWorld, led: Led) -> Script:
    """KIP-405's controller says that the topic is deleted: too early, or wrongly."""
    if world.adversary.random() < 0.3:
        world.foreign(RemotePartitionDeleteMetadata(led.tip, P.DELETE_PARTITION_MARKED, world.now_ms, BROKER))
    yield


def owner_deletes_what_is_copied(world: CopyingWorld, led: Led) -> Script:
    """The topic is deleted; its leader may delete what it knows of, may die in the middle, or may be down."""
    world.delete_led(led)
    yield
    if world.adversary.random() < 0.3:
        for metadata in world.cache_of(led.tip).list_remote_log_segments():
            segment = metadata.remote_log_segment_id
            world.deleted_by_leaders.add(segment.id)
            for state in (S.DELETE_SEGMENT_STARTED, S.DELETE_SEGMENT_FINISHED):
                world.foreign(RemoteLogSegmentMetadataUpdate(segment, world.now_ms, None, state, BROKER))
                for key in world.objects_of_segment(segment):
                    world.remove(key)
                yield
    if world.adversary.random() < 0.5:
        world.recreate_led(led)


def time_passes(world: CopyingWorld) -> Script:
    """Somebody takes long: a pause, a slow store, a suspended machine."""
    world.let_time_pass(world.adversary.choice([10, 20, 31, 61, 600]))
    yield
