# SPDX-License-Identifier: Apache-2.0
"""Of which unfinished segments it cannot be told whether they are orphaned, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from airflow_provider_rlmm.core.plans.counts import Count, counted_by
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.core.records.outcomes import DECODED_CODES, QUARANTINED_CODES, ErrorCode
from airflow_provider_rlmm.core.world.absence import Presence
from airflow_provider_rlmm.core.world.cluster_look import look
from airflow_provider_rlmm.core.world.replay import Belief, MetadataPartitionView
from airflow_provider_rlmm.core.world.topic_view import TopicReplay
from airflow_provider_rlmm.core.world.visibility import why_not_all_seen

_UNREADABLE = frozenset(code.name for code in QUARANTINED_CODES - DECODED_CODES)


def unseen_in_words(topic: TopicReplay, limits: CleanerLimits) -> str:
    """
    Say of which unfinished segments it cannot be told whether they are orphaned; empty where that is known of all.

    It is a part of what :func:`survey` says, without the rest.

    :param topic: the metadata topic, read.
    :param limits: with the kinds of records that raise no doubt.
    :raises EventLogError: if the cluster cannot be asked.
    """
    counted = counted_by(topic.segments, ["topic_id", "metadata_partition"])
    known = topic.names()
    names = {topic_id: known[topic_id] for row, _ in counted for topic_id in [UUID(bytes=row["topic_id"])]}
    seen = look(topic.topics, topic.log, names).observations if names else {}
    views = [topic.view(number, frozenset()) for number in range(topic.log.partition_count)]
    out = _out_of_service(views, limits.allowed_quarantine)

    def is_seen(row: Mapping[str, Any]) -> bool:
        presence = seen[UUID(bytes=row["topic_id"])].presence
        return presence is Presence.PRESENT or (presence is Presence.ABSENT and row["metadata_partition"] not in out)

    unseen = [(row["topic_id"], count) for row, count in counted if not is_seen(row)]
    count = Count.sum(count for _, count in unseen)
    return why_not_all_seen(count, len({topic_id for topic_id, _ in unseen}), sorted(out))


def _out_of_service(
    views: Iterable[MetadataPartitionView], allowed_quarantine: frozenset[str] = frozenset()
) -> dict[int, str]:
    """Return the metadata partitions that are out of service, and why, by number; an allowed kind of record is none."""
    found = {view.metadata_partition: _why_out_of_service(view, allowed_quarantine) for view in views}
    return {number: why for number, why in found.items() if why is not None}


def _why_out_of_service(view: MetadataPartitionView, allowed_quarantine: frozenset[str]) -> str | None:
    if view.lost is not None and view.lost.is_open:
        return f"its metadata partition is out of service, so it cannot be told what is left of it: {view.lost.why}"
    bad = [record for record in view.quarantined if record.code not in allowed_quarantine]
    misrouted = [record for record in bad if record.code == ErrorCode.MISROUTED.name]
    lie_wrong = misrouted if misrouted and not Belief(view).routing_verified() else []
    worst = lie_wrong or [record for record in bad if record.code in _UNREADABLE]
    if not worst:
        return None
    return (
        f"its metadata partition is out of service, so it cannot be told what is left of it: {worst[0]}; have the doctor "
        "name each record and what its removal costs"
    )
