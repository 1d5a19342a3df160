# SPDX-License-Identifier: Apache-2.0
"""What is wrong, or soon will be, with the metadata topic as the cluster keeps it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from airflow_provider_rlmm.core.log.kafka.admin import (
    KafkaClusterTopics,
    MetadataTopicDescription,
    PartitionReplicas,
    TopicSettings,
)
from airflow_provider_rlmm.core.log.kafka.client import METADATA_TOPIC

_SHOWN_PARTITIONS = 10
_FOR_EVER = -1


class HealthSeverity(StrEnum):
    """How bad a finding is: by an error events are refused or lost, now or in the course of time."""

    ERROR = "error"
    WARNING = "warning"  # one more failure makes it an error


@dataclass(frozen=True, slots=True)
class HealthFinding:
    """One thing that is not as it must be."""

    severity: HealthSeverity  # how bad it is
    what: str  # what was found
    why: str  # what comes of it
    what_to_do: str  # how to mend it

    def __str__(self) -> str:
        return f"{self.what}: {self.why}; {self.what_to_do}"


_error = partial(HealthFinding, HealthSeverity.ERROR)
_warning = partial(HealthFinding, HealthSeverity.WARNING)


@dataclass(frozen=True, slots=True)
class TieredRetention:
    """How long data are kept."""

    topic: str  # a topic with remote storage
    retention_ms: int  # its retention, ms; -1 for ever


def check_metadata_topic(
    topics: KafkaClusterTopics, description: MetadataTopicDescription, topic: str = METADATA_TOPIC
) -> list[HealthFinding]:
    """
    Look at the metadata topic, and at the retention of the tiered topics where that matters. Changes nothing.

    :param topics: the cluster.
    :param description: the metadata topic, by
        :meth:`~airflow_provider_rlmm.core.log.kafka.admin.KafkaClusterTopics.describe_metadata_topic`.
    :param topic: its name.
    :return: what is wrong, the worst first; empty if all is well.
    :raises EventLogAccessError: if the topics' settings may not be described.
    :raises EventLogUnavailableError: if the brokers do not answer.
    """
    longest = None
    # Where metadata are kept for ever, nobody needs the permission to see every topic's settings.
    if _retention_ms(description.settings) != _FOR_EVER:
        longest = longest_tiered_retention(topics.topic_settings(topics.topic_names()))
    return metadata_topic_findings(topic, description, longest)


def longest_tiered_retention(settings: Mapping[str, TopicSettings]) -> TieredRetention | None:
    """
    Return the topic with remote storage that keeps its data for the longest time.

    :param settings: name → settings of every topic.
    :return: ``None`` if no topic has remote storage.
    """
    tiered = [TieredRetention(name, _retention_ms(s)) for name, s in settings.items() if s.get("remote.storage.enable")]
    return max(tiered, key=lambda t: float("inf") if t.retention_ms == _FOR_EVER else t.retention_ms, default=None)


def metadata_topic_findings(
    topic: str, description: MetadataTopicDescription, longest: TieredRetention | None
) -> list[HealthFinding]:
    """
    Say what is wrong with the metadata topic.

    :param topic: its name.
    :param description: what the cluster says about it.
    :param longest: the tiered topic whose data are kept longest, ``None`` if there is none.
    :return: the worst first; empty if all is well.
    """
    findings = [*_replica_findings(topic, description), *_setting_findings(topic, description.settings, longest)]
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


def _setting_findings(topic: str, settings: TopicSettings, longest: TieredRetention | None) -> Iterator[HealthFinding]:
    policy = settings.get("cleanup.policy", "delete")
    if policy != "delete":
        yield _error(
            f"topic {topic} has cleanup.policy={policy}",
            "a compacted topic refuses records without a key, and metadata events have none",
            f"set cleanup.policy=delete on {topic}",
        )
    lost = "brokers forget remote segments whose data still exist, and nobody deletes these any more"
    retention_ms = _retention_ms(settings)
    if retention_ms != _FOR_EVER and longest and not 0 <= longest.retention_ms <= retention_ms:
        kept = "for ever" if longest.retention_ms == _FOR_EVER else f"for {longest.retention_ms} ms"
        found = f"topic {topic} has retention.ms={retention_ms}, and topic {longest.topic} keeps its data {kept}"
        yield _error(found, lost, f"set retention.ms=-1 on {topic}")
    retention_bytes = settings.get("retention.bytes", _FOR_EVER)
    if retention_bytes != _FOR_EVER:
        found = f"topic {topic} has retention.bytes={retention_bytes}"
        yield _error(found, lost, f"set retention.bytes=-1 on {topic}")


def _retention_ms(settings: TopicSettings) -> int:
    return int(settings.get("retention.ms", _FOR_EVER))


def _least(partitions: Sequence[PartitionReplicas]) -> str:
    return f"{min(p.in_sync for p in partitions)} of {max(p.replicas for p in partitions)}"


def _partitions(topic: str, partitions: Sequence[PartitionReplicas]) -> str:
    """Name partitions: in a topic of fifty a broker that is down concerns most of them."""
    shown = ", ".join(str(p.partition) for p in partitions[:_SHOWN_PARTITIONS])
    more = f" and {len(partitions) - _SHOWN_PARTITIONS} more" if len(partitions) > _SHOWN_PARTITIONS else ""
    plural = len(partitions) > 1
    return f"metadata partition{'s' if plural else ''} {shown}{more} of {topic} {'have' if plural else 'has'}"
