# SPDX-License-Identifier: Apache-2.0
"""Everything the cleaner does to the world, in one place, twice: for real, and as a dry run that only says it."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar
from uuid import UUID

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.clock import Clock, duration_in_words
from airflow_provider_rlmm.core.base.errors import EventLogError
from airflow_provider_rlmm.core.log.protocol import Acked, MetadataLogReader, OffsetStore, PublishOutcome
from airflow_provider_rlmm.core.log.write_guard import GuardedPublisher, WritableEvent, check_events
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
)
from airflow_provider_rlmm.core.storage.remote_storage import (
    DeleteOutcome,
    DeletionReport,
    RemoteStorageManager,
    SegmentDeletion,
    StoredObject,
)
from airflow_provider_rlmm.core.storage.root import RootCheck, StampOutcome
from airflow_provider_rlmm.core.world.audit_columns import Columns
from airflow_provider_rlmm.core.world.audit_log import AuditLog
from airflow_provider_rlmm.core.world.deletion_trail import DeletionTrail
from airflow_provider_rlmm.core.world.replay import Belief, MetadataPartitionReplay

__all__ = ["DryRunEffects", "RealEffects"]

logger = logging.getLogger(__name__)

_TOLD_RESTS_S = 5.0
"""A rest that is longer is a line in the log."""


@dataclass(slots=True)
class RealEffects:
    """
    The effects for real: events are published, objects deleted, stamps and offsets written.

    :param publisher: the write guard.
    :param storage: remote storage.
    :param offsets: remembers which markers are settled.
    :param audit: where every deletion is written down, before and after.
    :param sleep: waits for seconds, where the limits want a rest between batches.
    :param on_root: remembers what was proven of the root.
    """

    publisher: GuardedPublisher
    storage: RemoteStorageManager
    offsets: OffsetStore
    audit: AuditLog
    sleep: Callable[[float], object] = time.sleep
    on_root: Callable[[RootCheck], object] = lambda check: None
    events: Counter[str] = field(default_factory=Counter, init=False)
    would_write: list[str] = field(default_factory=list, init=False)
    is_dry: ClassVar[bool] = False
    log_prefix: ClassVar[str] = ""

    def publish(self, events: Sequence[WritableEvent], belief: Belief[MetadataPartitionReplay]) -> list[PublishOutcome]:
        """Publish through the write guard; one outcome per event."""
        outcomes = self.publisher.publish(events, belief)
        self.events.update(e.state.name for e, o in zip(events, outcomes, strict=True) if isinstance(o, Acked))
        return outcomes

    def delete(self, metadatas: Sequence[RemoteLogSegmentMetadata], others: Collection[str]) -> DeletionReport:
        """Delete the objects of segments; of ``others`` the layout knows nothing, and they stay."""
        # A resumed run may find everything started already and reach this without having published.
        self.publisher.require_writes(f"delete the objects of {number_of(len(metadatas), 'segment')}")
        return self.storage.delete_log_segments(metadatas, others)

    def begin_trail(self, columns: Columns, metadata_partition: int) -> DeletionTrail | None:
        """Write down what is about to be deleted; there is no deletion without that."""
        return DeletionTrail.begin(self.audit, columns, metadata_partition)

    def rest(self, seconds: float) -> None:
        """Rest after a batch."""
        if seconds > _TOLD_RESTS_S:
            logger.info(
                "rests for %s: no more objects may be deleted in a second", duration_in_words(round(seconds * 1000))
            )
        if seconds > 0:
            self.sleep(seconds)

    def advance(self, replay: MetadataPartitionReplay) -> None:
        """Bring the replay up to the current high watermark."""
        replay.advance()

    def stamp_root(self, check: RootCheck) -> RootCheck:
        """Leave the stamps of the verified places; return the check as it is then."""
        if any(map(check.lacks_stamp, check.places)):
            self.publisher.require_writes("stamp the storage root")
        results = self.storage.stamp_root(check)
        for result in results:
            if result.outcome is StampOutcome.CANNOT_BE_WRITTEN:
                # It only spares a later run a question; a principal that may delete and not put can do all the rest.
                logger.warning("the storage root was verified, but its %s", result.reason)
        return check.with_stamps(results)

    def remember_root(self, check: RootCheck) -> None:
        """Remember what was proven of the root, for later runs."""
        self.on_root(check)

    def commit(self, metadata_partition: int, offset: int) -> int | None:
        """Commit the offset of the first unsettled marker; return what was committed, ``None`` where that failed."""
        try:
            self.offsets.commit({metadata_partition: offset})
        except EventLogError as e:
            # The work is done and its report must not be lost: a missing offset costs a replay and nothing else.
            logger.warning("metadata partition %d: offset %d was not committed: %s", metadata_partition, offset, e)
            return None
        return offset


@dataclass(slots=True)
class DryRunEffects:
    """
    The effects of a dry run: they are only said. Events pass the same guard and are applied to the replay as if they had been
    read back; deletions answer from a listing.

    :param log: the metadata event log, for its partition count only.
    :param storage: remote storage, listed only.
    :param clock: time.
    """

    log: MetadataLogReader
    storage: RemoteStorageManager
    clock: Clock
    events: Counter[str] = field(default_factory=Counter, init=False)
    would_write: list[str] = field(default_factory=list, init=False)
    is_dry: ClassVar[bool] = True
    log_prefix: ClassVar[str] = "dry run: "

    def publish(self, events: Sequence[WritableEvent], belief: Belief[MetadataPartitionReplay]) -> list[PublishOutcome]:
        """See :class:`RealEffects`."""
        check_events(events, belief, self.log)
        offset = belief.replay.end
        for event in events:
            self.would_write.append(describe_event(event))
            belief.replay.apply(event, offset, self.clock())
        return [Acked(offset) for _ in events]

    def delete(self, metadatas: Sequence[RemoteLogSegmentMetadata], others: Collection[str]) -> DeletionReport:
        """See :class:`RealEffects`."""
        listings: dict[TopicIdPartition, Mapping[UUID, tuple[StoredObject, ...]]] = {}
        segments = []
        for metadata in metadatas:
            segment_id = metadata.remote_log_segment_id
            key = segment_id.topic_id_partition
            if key not in listings:
                listings[key] = self.storage.list_log_segments(key)
            objects = listings[key].get(segment_id.id, ())
            outcome = DeleteOutcome.GONE if objects else DeleteOutcome.NEVER_SEEN
            size = sum(o.size for o in objects)
            segments.append(SegmentDeletion(segment_id, outcome, len(objects), size, {}))
        return DeletionReport(tuple(segments), len(listings))

    def begin_trail(self, columns: Columns, metadata_partition: int) -> DeletionTrail | None:
        """See :class:`RealEffects`; nothing is deleted."""
        return None

    def rest(self, seconds: float) -> None:
        """See :class:`RealEffects`; nothing was deleted."""

    def advance(self, replay: MetadataPartitionReplay) -> None:
        """See :class:`RealEffects`; what was not written cannot be read back."""

    def stamp_root(self, check: RootCheck) -> RootCheck:
        """See :class:`RealEffects`."""
        return check

    def remember_root(self, check: RootCheck) -> None:
        """See :class:`RealEffects`."""

    def commit(self, metadata_partition: int, offset: int) -> int | None:
        """See :class:`RealEffects`."""
        return None


Effects = RealEffects | DryRunEffects
"""What the cleaner may do."""


def describe_event(event: WritableEvent) -> str:
    """Say an event in words, for dry runs and reports."""
    return f"{event.state.name} {subject_of(event)}"


def subject_of(event: WritableEvent) -> TopicIdPartition | RemoteLogSegmentId:
    """Return what an event is about."""
    if isinstance(event, RemotePartitionDeleteMetadata):
        return event.topic_id_partition
    return event.remote_log_segment_id
