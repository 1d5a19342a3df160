# SPDX-License-Identifier: Apache-2.0
"""Whether the metadata topic is configured so that its records are kept and accepted, asked of the cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from uuid import UUID

from airflow_provider_rlmm.core.base.errors import EventLogAccessError
from airflow_provider_rlmm.core.log.broker_versions import versions_of
from airflow_provider_rlmm.core.log.metadata_settings import (
    HealthSeverity,
    MetadataWriters,
    NeededRecord,
    is_compacted,
    is_kept_for_ever,
    longest_tiered_retention,
    needed_findings,
    retention_ms_of,
    setting_findings,
)
from airflow_provider_rlmm.features.doctor.findings import FindingKind, Severity
from airflow_provider_rlmm.features.doctor.watches import Found, ServedPartitions, TieredClusterTopics


def wrong_settings(
    served: ServedPartitions,
    living: Mapping[str, UUID],
    topics: TieredClusterTopics,
    topic_id: UUID,
    key_seen: str | None,
    oldest: Callable[[], NeededRecord | None],
    now_ms: int,
) -> Iterator[Found]:
    """
    Yield what is wrong with the settings of the metadata topic, and what of them cannot be told.

    :param served: what is known of the tiered topics.
    :param living: the cluster's topics, name → topic id.
    :param topics: the cluster.
    :param topic_id: of the metadata topic.
    :param key_seen: where a record with a key of a broker was read, in words; ``None`` where none was.
    :param oldest: reads the oldest record that is still needed; asked only where its age matters.
    :param now_ms: time, ms since the epoch.
    :raises EventLogUnavailableError: if an answer is partial or late.
    """
    for name in (name for name, known in living.items() if known == topic_id):
        row = {"metadata_partition": None, "offset": None, "topic_id": topic_id.bytes, "topic": name}
        try:
            settings = topics.topic_settings([name]).get(name, {})
        except EventLogAccessError as e:
            yield FindingKind.TOPIC_SETTINGS, row, f"how it is configured is not known: {e}", Severity.WARNING
            return
        if served.unknown and not is_kept_for_ever(settings):
            why = f"whether a topic keeps its data longer is not known: {served.unknown}"
            said = f"topic {name} has retention.ms={retention_ms_of(settings)}, and {why}"
            yield FindingKind.TOPIC_SETTINGS, row, said, Severity.WARNING
        versions = versions_of(topics.broker_setting_names()) if is_compacted(settings) else {}
        longest = longest_tiered_retention(served.tiered)
        for finding in setting_findings(name, settings, longest, MetadataWriters(key_seen, versions)):
            yield FindingKind.TOPIC_SETTINGS, row, str(finding)
        for finding in needed_findings(name, settings, oldest, now_ms):
            told = FindingKind.TOPIC_SETTINGS, row, str(finding)
            yield told if finding.severity is HealthSeverity.ERROR else (*told, Severity.NOTICE)
