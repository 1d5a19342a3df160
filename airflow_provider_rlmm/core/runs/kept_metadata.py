# SPDX-License-Identifier: Apache-2.0
"""Whether the metadata topic keeps what a run still needs of it: asked by every run, as brokers forget without a word."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_rlmm.core.base.errors import EventLogAccessError
from airflow_provider_rlmm.core.log.metadata_settings import HealthFinding, HealthSeverity
from airflow_provider_rlmm.core.plans.refusals import Refusal, RefusalKind

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.runs.cleaner_session import CleanerSession
    from airflow_provider_rlmm.core.world.topic_view import TopicReplay

KEPT = "nothing that is still needed of the metadata topic is deleted because it is old"

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KeptMetadata:
    """
    How long the metadata topic keeps what is still needed of it.

    :param topic: its name.
    :param findings: what its retention means for the oldest record that is needed.
    :param unknown: why it cannot be told, empty where it can.
    """

    topic: str
    findings: tuple[HealthFinding, ...] = ()
    unknown: str = ""

    def __str__(self) -> str:
        return self.unknown or ". ".join(map(str, self.findings)) or KEPT

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """What needs a person: a retention that is too short."""
        return tuple(
            Refusal(f"topic {self.topic}", f"{f.what}: {f.why}", f.what_to_do, RefusalKind.OTHER)
            for f in self.findings
            if f.severity is HealthSeverity.ERROR
        )


def kept_metadata(session: CleanerSession, topic: TopicReplay) -> KeptMetadata:
    """
    Ask how long the metadata topic keeps what is still needed of it.

    :param session: of the run.
    :param topic: the metadata topic, read.
    :raises EventLogError: if the cluster or the log cannot be read.
    """
    name = session.access.get_connection_settings().metadata_topic
    try:
        return KeptMetadata(name, tuple(topic.retention_findings(name, session.clock())))
    except EventLogAccessError as e:
        unknown = f"cannot tell whether the metadata topic keeps what is still needed: {e}"
        logger.warning("%s", unknown)
        return KeptMetadata(name, unknown=unknown)
