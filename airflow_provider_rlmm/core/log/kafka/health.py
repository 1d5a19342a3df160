# SPDX-License-Identifier: Apache-2.0
"""What is wrong, or soon will be, with the metadata topic as the cluster keeps it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from airflow_provider_rlmm.core.log.broker_versions import versions_of
from airflow_provider_rlmm.core.log.kafka.admin import KafkaClusterTopics, MetadataTopicDescription, PartitionReplicas
from airflow_provider_rlmm.core.log.kafka.client import METADATA_TOPIC
from airflow_provider_rlmm.core.log.metadata_settings import (
    HealthFinding,
    HealthSeverity,
    MetadataWriters,
    TieredRetention,
    is_compacted,
    is_kept_for_ever,
    longest_tiered_retention,
    setting_findings,
)

_SHOWN_PARTITIONS = 10


_error = partial(HealthFinding, HealthSeverity.ERROR)
_warning = partial(HealthFinding, HealthSeverity.WARNING)


def check_metadata_topic(
    topics: KafkaClusterTopics, description: MetadataTopicDescription, topic: str = METADATA_TOPIC
) -> list[HealthFinding]:
    """
    Look at the metadata topic, and where that matters at the retention of the tiered topics and the versions of the brokers.
    Changes nothing, and reads no topic.

    :param topics: the cluster.
    :param description: the metadata topic, by
        :meth:`~airflow_provider_rlmm.core.log.kafka.admin.KafkaClusterTopics.describe_metadata_topic`.
    :param topic: its name.
    :return: what is wrong, the worst first; empty if all is well.
    :raises EventLogAccessError: if the topics' settings may not be described.
    :raises EventLogUnavailableError: if the brokers do not answer.
    """
    longest = None
    # Where metadata are kept for ever, no run needs the permission to see every topic's settings.
    if not is_kept_for_ever(description.settings):
        longest = longest_tiered_retention(topics.topic_settings(topics.topic_names()))
    writers = MetadataWriters()
    if is_compacted(description.settings):
        writers = MetadataWriters(versions=versions_of(topics.broker_setting_names()))
    return metadata_topic_findings(topic, description, longest, writers)


def metadata_topic_findings(
    topic: str, description: MetadataTopicDescription, longest: TieredRetention | None, writers: MetadataWriters
) -> list[HealthFinding]:
    """
    Say what is wrong with the metadata topic.

    :param topic: its name.
    :param description: what the cluster says about it.
    :param longest: the tiered topic whose data are kept longest, ``None`` if there is none.
    :param writers: what is known of its brokers.
    :return: the worst first; empty if all is well.
    """
    findings = [
        *_replica_findings(topic, description),
        *setting_findings(topic, description.settings, longest, writers),
    ]
    return sorted(findings, key=lambda finding: finding.severity is not HealthSeverity.ERROR)


def _replica_findings(topic: str, description: MetadataTopicDescription) -> Iterator[HealthFinding]:
    min_insync = int(description.settings.get("min.insync.replicas", 1))
    leaderless = [p for p in description.replicas if not p.has_leader]
    led = [p for p in description.replicas if p.has_leader]
    # A broker asks for no more replicas than a partition has.
    short = [p for p in led if p.in_sync < min(min_insync, p.replicas)]
    behind = [p for p in led if p.in_sync < p.replicas and p not in short]
    catch_up = "start the brokers that keep the missing replicas, or wait until they have caught up"
    if leaderless:
        what = f"{_partitions(topic, leaderless)} no leader"
        yield _error(what, "nothing can be read or written there", "start the brokers that keep them")
    if short:
        yield _error(
            f"{_partitions(topic, short)} fewer in-sync replicas than min.insync.replicas={min_insync} asks for "
            f"({_least(short)})",
            "brokers refuse every event that belongs there, so nothing is copied, marked or cleaned",
            catch_up,
        )
    if behind:
        yield _warning(
            f"{_partitions(topic, behind)} replicas that are not in sync ({_least(behind)} are)",
            "one more failure, and brokers may refuse the events that belong there",
            catch_up,
        )


def _least(partitions: Sequence[PartitionReplicas]) -> str:
    return f"{min(p.in_sync for p in partitions)} of {max(p.replicas for p in partitions)}"


def _partitions(topic: str, partitions: Sequence[PartitionReplicas]) -> str:
    """Name partitions: in a topic of fifty a broker that is down concerns most of them."""
    shown = ", ".join(str(p.partition) for p in partitions[:_SHOWN_PARTITIONS])
    more = f" and {len(partitions) - _SHOWN_PARTITIONS} more" if len(partitions) > _SHOWN_PARTITIONS else ""
    plural = len(partitions) > 1
    return f"metadata partition{'s' if plural else ''} {shown}{more} of {topic} {'have' if plural else 'has'}"
