# SPDX-License-Identifier: Apache-2.0
"""What a copier sees of the world, and nothing that could change it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Protocol
from uuid import UUID

from airflow_provider_rlmm.core.base.clock import Clock, monotonic_clock, system_clock
from airflow_provider_rlmm.core.base.errors import CopyRefusedError
from airflow_provider_rlmm.core.log.living_leader import LivingLeader
from airflow_provider_rlmm.core.log.protocol import MetadataLogReader
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata, TopicIdPartition
from airflow_provider_rlmm.core.segments.metrics import RemoteLogMetrics
from airflow_provider_rlmm.core.storage.layout import Layout
from airflow_provider_rlmm.core.storage.root import UNKNOWN_ROOT, RootCheck, RootExpectation
from airflow_provider_rlmm.core.world.gate import Gate
from airflow_provider_rlmm.core.world.hold import HoldSource, nothing_held
from airflow_provider_rlmm.core.world.kill_switch import StopSource, never_stopped
from airflow_provider_rlmm.features.copying.announcing import CustomMetadataLimit
from airflow_provider_rlmm.features.copying.questions import COPIER
from airflow_provider_rlmm.features.copying.rules import CopyLimits


class SeenStorage(Protocol):
    """The part of a :class:`~airflow_provider_rlmm.core.storage.remote_storage.RemoteStorageManager` that only looks."""

    @property
    def layout(self) -> Layout:
        """Where objects lie."""

    def check_root(
        self, topic_ids: frozenset[UUID], cluster_id: str, expectation: RootExpectation = UNKNOWN_ROOT
    ) -> RootCheck:
        """
        Tell of every place whether it belongs to the cluster.

        :param topic_ids: topic ids that the metadata topic names.
        :param cluster_id: id of the cluster.
        :param expectation: what is known about the root.
        :raises StorageRootError: if a stamp of the cluster names another location, or ``expected_root`` another root.
        """

    def obstacle_to_copies(self) -> str | None:
        """Tell why no segment can be copied, and what to do; ``None`` where nothing more has to be known for it."""

    def most_custom_metadata_bytes(self, metadata: RemoteLogSegmentMetadata) -> int:
        """
        Return how large the custom metadata of a copy can be, bytes.

        :param metadata: the segment, before it is copied.
        """

    def missing_keys(self, keys: Collection[str]) -> frozenset[str]:
        """
        Return those of some keys that are not listed.

        :param keys: keys of objects.
        """


@dataclass(frozen=True, slots=True)
class CopyContext:
    """
    What a copier works with. What writes is not among it: see
    :class:`~airflow_provider_rlmm.features.copying.copy_effects.CopyEffects`.

    :param log: the metadata event log.
    :param leader: what the cluster says about user partitions.
    :param storage: remote storage.
    :param cluster_id: id of the cluster: the storage root must be its own.
    :param root: what is known about the storage root.
    :param limits: limits of the run.
    :param hold: what is never touched, asked before every event.
    :param should_stop: the kill switch, asked before every segment and every chunk.
    :param clock: time, proven; it goes into the events.
    :param monotonic: ms, only ever growing.
    :param metrics: what is counted.
    :param custom_metadata: how much custom metadata brokers take.
    """

    log: MetadataLogReader
    leader: LivingLeader
    storage: SeenStorage
    cluster_id: str
    root: RootExpectation = UNKNOWN_ROOT
    limits: CopyLimits = field(default_factory=CopyLimits)
    hold: HoldSource = nothing_held
    should_stop: StopSource = never_stopped
    clock: Clock = system_clock
    monotonic: Clock = monotonic_clock
    metrics: RemoteLogMetrics = field(default_factory=RemoteLogMetrics)
    custom_metadata: CustomMetadataLimit = field(default_factory=CustomMetadataLimit)

    @property
    def gate(self) -> Gate:
        """What is asked again before each segment, chunk and event. A dry run asks for the hold alone: it begins nothing."""
        return Gate(COPIER, is_dry=False, clock=self.clock, stop_source=self.should_stop, hold_source=self.hold)

    def require_layout(self, topic_id_partition: TopicIdPartition) -> None:
        """
        Refuse a storage that nothing can be copied into.

        :param topic_id_partition: what is to be copied, for the message.
        :raises CopyRefusedError: if its layout has not learned what a copy looks like.
        """
        if (obstacle := self.storage.obstacle_to_copies()) is not None:
            raise CopyRefusedError(f"{topic_id_partition} is not copied: {obstacle}")

    def require_custom_metadata(self, metadata: RemoteLogSegmentMetadata) -> None:
        """
        Refuse a segment whose copy could have more custom metadata than brokers take.

        :param metadata: what is to be announced.
        :raises CopyRefusedError: naming the setting.
        """
        size = self.storage.most_custom_metadata_bytes(metadata)
        if (obstacle := self.custom_metadata.obstacle(size, metadata.remote_log_segment_id)) is not None:
            raise CopyRefusedError(obstacle)
