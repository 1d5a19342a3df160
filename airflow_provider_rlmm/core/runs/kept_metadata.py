# SPDX-License-Identifier: Apache-2.0
"""Whether the metadata topic keeps what a run still needs of it: asked by every run, as brokers forget without a word."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from airflow_provider_rlmm.core.base.errors import EventLogAccessError
from airflow_provider_rlmm.core.log.metadata_settings import HealthFinding, HealthSeverity
from airflow_provider_rlmm.core.plans.refusals import Refusal, RefusalKind

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.runs.cleaner_session import CleanerSession
    from airflow_provider_rlmm.core.world.topic_view import TopicReplay

KEPT = "nothing that is still needed of the metadata topic is deleted because it is old"

logger = logging.getLogger(__name__)


def _findings(session: CleanerSession, topic: TopicReplay) -> list[HealthFinding]:
    name = session.access.get_connection_settings().metadata_topic
    return topic.retention_findings(name, session.clock())


def retention_in_words(session: CleanerSession, topic: TopicReplay) -> str:
    """
    Say how long the metadata topic keeps what is still needed, or that nobody can tell.

    :param session: of the run.
    :param topic: the metadata topic, read.
    :raises EventLogError: if the cluster cannot be asked.
    """
    try:
        found = _findings(session, topic)
    except EventLogAccessError as e:
        return f"cannot tell whether the metadata topic keeps what is still needed: {e}"
    return ". ".join(map(str, found)) or KEPT


def retention_refusals(session: CleanerSession, topic: TopicReplay) -> tuple[Refusal, ...]:
    """
    Return what needs a person: a retention that is too short for what is still needed.

    :param session: of the run.
    :param topic: the metadata topic, read.
    :raises EventLogError: if the cluster cannot be asked.
    """
    try:
        found = _findings(session, topic)
    except EventLogAccessError as e:
        logger.warning("cannot tell whether the metadata topic keeps what is still needed: %s", e)
        return ()
    name = session.access.get_connection_settings().metadata_topic
    return tuple(
        Refusal(f"topic {name}", f"{f.what}: {f.why}", f.what_to_do, RefusalKind.OTHER)
        for f in found
        if f.severity is HealthSeverity.ERROR
    )
