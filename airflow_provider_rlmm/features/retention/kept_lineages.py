# SPDX-License-Identifier: Apache-2.0
"""
The lineages that leaders have confirmed, kept from one run to the next in the folder of the cluster.

A leader has one lineage for as long as it leads: it only grows by what is written. So one that was confirmed stands until the
leader epoch is another one, or the topic.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from airflow_provider_rlmm.core.base import strict_json
from airflow_provider_rlmm.core.base.documents import Text, plain_of, reader_of
from airflow_provider_rlmm.core.base.errors import PlanError
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentMetadata,
    TopicIdPartition,
    kafka_uuid_str,
    parse_kafka_uuid,
)
from airflow_provider_rlmm.core.segments.lineage import LeaderEpochCheckpoint
from airflow_provider_rlmm.features.retention.leader_lineage import KnownLineage, last_epoch_of

MAX_BYTES: Final = 512 * 2**20
"""Largest document that is read: some hundred bytes for each user partition."""

_FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class KeptLineage:
    """What is kept of a :class:`~airflow_provider_rlmm.features.retention.leader_lineage.KnownLineage`."""

    leader_epoch: int  # in which the leader leads that has confirmed it
    segment_id: Text  # of the segment that keeps it, in Kafka's text form
    last_epoch: int  # of that segment
    end_offset: int  # of that segment, inclusive
    entries: tuple[tuple[int, int], ...]  # (leader epoch, its first offset), from the log start on


@dataclass(frozen=True, slots=True)
class KeptLineages:
    """
    The lineages of the leaders of a cluster.

    :param cluster_id: the cluster.
    :param topics: topic id in Kafka's text form → user partition → its lineage.
    """

    cluster_id: Text
    topics: Mapping[Text, Mapping[int, KeptLineage]] = field(default_factory=dict)

    def to_json(self) -> str:
        """Return the document."""
        return json.dumps(strict_json.sealed(plain_of(self), _FORMAT), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> KeptLineages:
        """
        Read the document.

        :param text: what :meth:`to_json` returned.
        :raises PlanError: if it is not.
        """
        try:
            return _READ(strict_json.unsealed(text, _FORMAT), "kept lineages")
        except ValueError as e:
            raise PlanError(f"the lineages that earlier runs have kept cannot be read: {e}") from e

    def of(self, tip: TopicIdPartition) -> KnownLineage | None:
        """
        Return what is kept of a user partition, ``None`` where nothing is.

        :param tip: the user partition.
        """
        kept = self.topics.get(kafka_uuid_str(tip.topic_id), {}).get(tip.partition)
        if kept is None or not kept.entries:
            return None
        try:
            lineage, segment_id = LeaderEpochCheckpoint(kept.entries), parse_kafka_uuid(kept.segment_id)
        except ValueError:
            return None
        return KnownLineage(lineage, segment_id, kept.last_epoch, kept.end_offset, kept.leader_epoch)

    def with_lineages(
        self, lineages: Mapping[TopicIdPartition, KnownLineage], living: frozenset[UUID] | None
    ) -> KeptLineages:
        """
        Return what is to be kept from now on.

        :param lineages: what was found by this run; what a leader has confirmed that does not say its epoch is not kept.
        :param living: the topics that there are, ``None`` where only some were looked at.
        """
        stay = self.topics.keys() if living is None else {kafka_uuid_str(topic_id) for topic_id in living}
        topics = {topic: dict(kept) for topic, kept in self.topics.items() if topic in stay}
        for tip, known in lineages.items():
            if known.leader_epoch is not None:
                topics.setdefault(kafka_uuid_str(tip.topic_id), {})[tip.partition] = KeptLineage(
                    known.leader_epoch,
                    kafka_uuid_str(known.segment_id),
                    known.last_epoch,
                    known.end_offset,
                    known.leader_epochs.entries,
                )
        return KeptLineages(self.cluster_id, topics)


def still_stands(
    kept: KnownLineage | None, leader_epoch: int | None, candidates: Sequence[RemoteLogSegmentMetadata]
) -> bool:
    """
    Tell whether a lineage of an earlier run is the leader's, and as good as one that could be found now.

    One that ends before the leader's own epoch begins does not say which epochs follow: a newer segment may.

    :param kept: the lineage, ``None`` where none is kept.
    :param leader_epoch: the epoch in which the leader leads now, ``None`` where it does not say.
    :param candidates: the segments that may keep it now, the best first.
    """
    if kept is None or leader_epoch is None or kept.leader_epoch != leader_epoch:
        return False
    if kept.is_whole or not candidates:
        return True
    return (last_epoch_of(candidates[0]), candidates[0].end_offset) <= (kept.last_epoch, kept.end_offset)


_READ = reader_of(KeptLineages)
