# SPDX-License-Identifier: Apache-2.0
"""What the leaders of a made-up cluster delete next."""

from __future__ import annotations

from uuid import UUID

from airflow_provider_rlmm.core.log.answers import CopyConfigs
from airflow_provider_rlmm.core.plans.certainty import Certainty
from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.core.plans.plan import Reason
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    TopicIdPartition,
)
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.features.retention.expiration import ExpiredSegment
from airflow_provider_rlmm.features.retention.hanging_copies import CopyProgress, HangingCopies
from airflow_provider_rlmm.features.retention.leader_document import ReportedLeaders
from airflow_provider_rlmm.features.retention.leader_pass import PartitionPass, Stays
from airflow_provider_rlmm.features.retention.leader_retention import LeaderRetention
from airflow_provider_rlmm.features.retention.overdue import Overdue

SEGMENT_BYTES = 1_000_000
CONFIGS = CopyConfigs(True, False, frozenset({"delete"}), 86_400_000, -1)


def expired(tip: TopicIdPartition, number: int) -> ExpiredSegment:
    """Return a segment that goes by its age."""
    segment = RemoteLogSegmentMetadata(
        RemoteLogSegmentId(tip, UUID(int=number)), 0, 99, 1_000, 1, 1_000, SEGMENT_BYTES, None,
        RemoteLogSegmentState.COPY_SEGMENT_FINISHED, ((0, 0),),
    )  # fmt: skip
    return ExpiredSegment(segment, Reason.RETENTION_MS, exact=True)


def leader_retention(
    topic: str, topic_id: UUID, *, now_ms: int, overdue: bool = True, hanging: bool = False, judged: bool = True
) -> LeaderRetention:
    """Return what is told of three user partitions: of one all, of one at least what is told, of one nothing."""
    tips = [TopicIdPartition(topic_id, topic, n) for n in range(3)]
    passes = [
        PartitionPass(
            tips[0], Certainty.ALL, log_start_offset=0, expired=(expired(tips[0], 1), expired(tips[0], 2)),
            stays=Stays(kept=Count(7, 7 * SEGMENT_BYTES), leaked=Count(1, SEGMENT_BYTES), next_due_ms=now_ms + 60_000),
            configs=CONFIGS, leader=4, dangling=Count(1, SEGMENT_BYTES),
        ),
        PartitionPass(tips[1], Certainty.AT_LEAST, ("a limit by size",), expired=(expired(tips[1], 3),), configs=CONFIGS),
        PartitionPass(tips[2], Certainty.UNRESOLVED, ("the leader serves no record <b>there</b>",)),
    ]  # fmt: skip
    late = Overdue(0, Count(2, 2 * SEGMENT_BYTES), now_ms - 7 * 3_600_000, 4)
    stopped = HangingCopies(1, CopyProgress(450, 12_351, 350), now_ms - 7 * 3_600_000, 4)
    return LeaderRetention(
        passes,
        {tips[0]: late} if overdue else {},
        {tips[1]: stopped} if hanging else {},
        {} if judged else {topic: "no broker tells the interval"},
    )


def reported_leaders(
    cluster_id: str, topic: str, topic_id: UUID, *, now_ms: int, connection: str = "rlmm_default", **more: bool
) -> ReportedLeaders:
    """Return the document of :func:`leader_retention`."""
    found = leader_retention(topic, topic_id, now_ms=now_ms, **more)
    return ReportedLeaders.of(found, cluster_id=cluster_id, connection=connection, asked_at_ms=now_ms)
