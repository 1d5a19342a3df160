# SPDX-License-Identifier: Apache-2.0
"""Waiting until every byte of a topic is gone: one look, with all that it needs opened."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_rlmm.core.log.watching import WatchPosition
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.runs.cleaner_session import CleanerSession
from airflow_provider_rlmm.core.storage.hidden_copies import VERSIONED_BUCKET, Freed
from airflow_provider_rlmm.features.cleanup.topic_gone_rules import why_still_hidden

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.storage.hidden_copies import DeletionEffect
    from airflow_provider_rlmm.features.cleanup.topic_gone import GoneLook, WantedTopic

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TopicGone:
    """
    What one look has shown.

    :param why_not: why the topic is not gone, in words; empty where it is.
    :param unfinished: the user partitions of which the log does not call the deletion finished.
    :param position: from where on the log may tell that they are.
    :param proof: plain JSON types for those who come later, where it is gone.
    """

    why_not: tuple[str, ...]
    unfinished: tuple[int, ...]
    position: WatchPosition
    proof: dict[str, Any]


def look_for_topic(session: CleanerSession, wanted: WantedTopic, limits: CleanerLimits) -> TopicGone:
    """
    Tell whether every byte of a topic is gone; nothing is written to the log and nothing is deleted.

    :param session: of the run.
    :param wanted: the topic.
    :param limits: with the overrides in force.
    :raises TopicNeverNamedError: if the log has never named the id, or only under another name.
    :raises TopicInDoubtError: if the log cannot tell, now or later.
    :raises EventLogError: if the log cannot be read whole.
    :raises StorageError: if the storage root is not this cluster's, or not up to date, or does not answer.
    :raises HiddenCopiesError: if the bucket keeps for good what is deleted.
    """
    from airflow_provider_rlmm.features.cleanup.topic_gone import look_early, prove_gone

    storage = session.storage.get_storage_manager()
    with session.topic() as topic:
        topic.advance()
        # Asked at once, as it would be in vain to wait for a storage that can prove nothing in the end.
        root = session.prove_root(topic, limits, storage)
        early = look_early(topic, wanted)
    if early is not None:
        return _result(session, early, early.why_not)
    found = prove_gone(session.log, session.topics, storage, wanted)
    hidden = why_still_hidden(found.ends, _freed_after_days(root.effect, limits), session.clock())
    return _result(session, found, found.why_not or tuple(hidden))


def _freed_after_days(effect: DeletionEffect, limits: CleanerLimits) -> int | None:
    if effect.freed is Freed.LATER and VERSIONED_BUCKET not in limits.overrides:
        return effect.days
    return None


def _result(session: CleanerSession, found: GoneLook, why_not: tuple[str, ...]) -> TopicGone:
    position = WatchPosition(session.cluster_id, session.log.topic_id, found.read_until)
    proof: dict[str, Any] = {}
    if not why_not:
        proof = {
            "cluster_id": session.cluster_id,
            "topic_id": kafka_uuid_str(found.ends[0].tip.topic_id),
            "topic": found.ends[0].tip.topic,
            "user_partitions": len(found.ends),
            "finished_at_ms": max(end.finished_ms or 0 for end in found.ends),
        }
    return TopicGone(why_not, tuple(found.unfinished), position, proof)
