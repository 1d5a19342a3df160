# SPDX-License-Identifier: Apache-2.0
"""One look at the cluster: which of these topic ids are absent right now?"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from airflow_provider_rlmm.manager.event_log import ClusterTopics
from airflow_provider_rlmm.policy.absence import Observation, Presence, observe
from airflow_provider_rlmm.storage.layouts import is_legal_topic_name


def look(topics: ClusterTopics, names: Mapping[UUID, frozenset[str]]) -> dict[UUID, Observation]:
    """
    Observe topic ids: a complete listing first, then each name that the listing does not account for.

    A name that Kafka would refuse is not asked for: a broker answers it with an error, and one bad record must not stop
    the work on all the others.

    :param topics: the cluster.
    :param names: topic id → its names in the metadata topic.
    :return: one observation per id.
    :raises EventLogAccessError: if any topic may not be described.
    :raises EventLogUnavailableError: if an answer is partial or late.
    """
    listing = topics.list_topics()
    listed_ids = frozenset(listing.values())
    asked = {name for topic_id, known in names.items() if topic_id not in listed_ids for name in known}
    asked = {name for name in asked if is_legal_topic_name(name)}
    described = {name: topics.describe_topic(name) for name in sorted(asked)}
    return {topic_id: observe(topic_id, known, listing, described) for topic_id, known in names.items()}


def absent_ids(observations: Mapping[UUID, Observation]) -> frozenset[UUID]:
    """
    Return the ids that were observed absent.

    :param observations: from :func:`look`.
    """
    return frozenset(topic_id for topic_id, o in observations.items() if o.presence is Presence.ABSENT)
