# SPDX-License-Identifier: Apache-2.0
"""What the leaders of a living topic delete of remote storage next: which topic is meant, and what it takes to tell."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import TYPE_CHECKING

from airflow_provider_rlmm.core.base.errors import RemoteLogError
from airflow_provider_rlmm.core.base.quoting import in_quotes

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.runs.cleaner_session import CleanerSession
    from airflow_provider_rlmm.features.retention.leader_pass import PartitionPass

logger = logging.getLogger(__name__)


def passes_of_leaders(
    session: CleanerSession, topic: str, partitions: Collection[int] | None = None
) -> list[PartitionPass]:
    """
    Tell what the leaders of a topic delete in the next pass of their expiration tasks, by user partition.

    The leaders are asked before the metadata topic is read and after it, so that what is told is of one moment.

    :param session: of the run.
    :param topic: its name.
    :param partitions: of the topic, ``None`` for all that the metadata topic names.
    :raises RemoteLogError: if the cluster has no such topic, or the metadata topic does not name such a partition of it.
    :raises TopicInDoubtError: if records about the topic may be missing, or cannot be applied.
    :raises EventLogError: if cluster or metadata topic cannot be read.
    :raises StorageError: if no storage is named.
    """
    from airflow_provider_rlmm.core.log.known_segments import PartitionSegments
    from airflow_provider_rlmm.features.retention.leader_pass import pass_of_leader

    storage = session.storage.get_storage_manager()
    with session.access.open_leader(session.cluster_id) as leader:
        answer = leader.ask(topic, 0)
        if answer is None:
            raise RemoteLogError(
                f"cluster {session.cluster_id!r} has no topic {in_quotes(topic)}: orphans are told by 'orphans'"
            )
        with session.topic() as replay:
            replay.advance()
            named = [t for t in replay.partitions() if t.topic_id == answer.topic_id_partition.topic_id]
        wanted = sorted(
            (t for t in named if partitions is None or t.partition in partitions), key=lambda t: t.partition
        )
        if not wanted:
            raise RemoteLogError(f"the metadata topic names no segment of such a partition of {in_quotes(topic)}")
        looks = {tip: leader.ask(topic, tip.partition) for tip in wanted}
        segments = PartitionSegments(session.log, wanted)
        now_ms = session.clock()
        found = []
        for tip in wanted:
            found.append(pass_of_leader(tip, looks[tip], segments.cache(tip), storage, leader, now_ms))
            logger.info("%s: %s", tip, found[-1].certainty)
    return found
