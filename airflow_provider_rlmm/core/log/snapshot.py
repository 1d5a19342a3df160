# SPDX-License-Identifier: Apache-2.0
"""A snapshot of the replayed metadata topic, so that a later run reads on where it stopped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.errors import SnapshotRefusedError
from airflow_provider_rlmm.core.log.event_decoding import QuarantinedRecord
from airflow_provider_rlmm.core.records.lost_records import HistoryGap
from airflow_provider_rlmm.core.records.records import kafka_uuid_str

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.records.columnar import ColumnarState
    from airflow_provider_rlmm.core.records.folded import Folded

__all__ = ["Snapshot", "SnapshotStore"]


@dataclass(frozen=True, slots=True)
class TopicIdentity:
    """What a snapshot must have in common with the log that is read on."""

    cluster_id: str  # id of the cluster
    topic_id: UUID  # id of the metadata topic: one that was deleted and made again has another
    partition_count: int  # number of metadata partitions


@dataclass(frozen=True, slots=True)
class Snapshot:
    """
    The state after all records below some offsets.

    :param identity: the topic that was read.
    :param next_offsets: metadata partition → offset at which to read on; every record below it is in the state.
    :param gaps: what was missing below these offsets, at the beginning of the log.
    :param holes: offsets below these that held no record, and had records before them.
    :param created_at_ms: ms since the epoch.
    :param state: the state.
    :param tails: metadata partition → the last records below its offset: offset and SHA-256.
    :param quarantined: the records below these offsets that are not good.
    :param routed: metadata partition → number of its good records.
    :param late_updates: (metadata partition, offset) of an update of a segment that the state does not know → whether it came
        after the segment was finished, as was looked up in the log.
    :param key_prefixes: below which copies were made, as the records below these offsets name them.
    :param folded: the generation of the Spark job that it was made of, ``None`` where a task has read the log; of one no key
        prefixes are known.
    """

    identity: TopicIdentity
    next_offsets: Mapping[int, int]
    gaps: tuple[HistoryGap, ...]
    created_at_ms: int
    state: ColumnarState
    tails: Mapping[int, tuple[tuple[int, bytes], ...]] = field(default_factory=dict)
    quarantined: tuple[QuarantinedRecord, ...] = ()
    routed: Mapping[int, int] = field(default_factory=dict)
    late_updates: Mapping[tuple[int, int], bool] = field(default_factory=dict)
    key_prefixes: frozenset[str] = frozenset()
    holes: tuple[HistoryGap, ...] = ()
    folded: Folded | None = None

    def check(
        self, identity: TopicIdentity, beginning_offsets: Mapping[int, int], high_water_marks: Mapping[int, int]
    ) -> None:
        """
        Refuse to be continued with a log that this is no snapshot of; what its last records are is asked elsewhere.

        :param identity: of the topic to read on.
        :param beginning_offsets: metadata partition → first offset that is there, as of now.
        :param high_water_marks: metadata partition → offset after the last durable record, as of now.
        :raises SnapshotRefusedError: naming what differs.
        """
        mine = self.identity
        for what, theirs, ours in (
            ("cluster", mine.cluster_id, identity.cluster_id),
            ("topic id", kafka_uuid_str(mine.topic_id), kafka_uuid_str(identity.topic_id)),
            ("partition count", mine.partition_count, identity.partition_count),
        ):
            if theirs != ours:
                raise SnapshotRefusedError(f"it is of {what} {theirs!r}, the metadata topic has {ours!r}")
        if sorted(self.next_offsets) != list(range(mine.partition_count)):
            raise SnapshotRefusedError(
                f"it has offsets of the metadata partitions {sorted(self.next_offsets)}, the topic has "
                f"{number_of(mine.partition_count, 'partition')}"
            )
        for metadata_partition, offset in self.next_offsets.items():
            if not 0 <= offset <= (high := high_water_marks[metadata_partition]):
                raise SnapshotRefusedError(
                    f"metadata partition {metadata_partition}: its offset {offset} is ahead of the log, whose high watermark "
                    f"is {high}: the log has lost records, or it is another one"
                )
            if beginning_offsets[metadata_partition] > offset:
                raise SnapshotRefusedError(
                    f"metadata partition {metadata_partition}: it was read up to offset {offset}, and begins at "
                    f"{beginning_offsets[metadata_partition]} now: no run has read what lay in between"
                )


class SnapshotStore(Protocol):
    """Where one snapshot is kept, to be replaced by later ones."""

    def read(self) -> Snapshot:
        """
        Return what was written last; :meth:`Snapshot.check` must follow before it is used.

        :raises SnapshotRefusedError: if there is none, or it cannot be read, is damaged or of another version.
        """
        ...

    def write(self, snapshot: Snapshot) -> None:
        """
        Replace what was written before.

        :param snapshot: the snapshot.
        :raises OSError: if it cannot be written; the older one is still there then.
        """
        ...
