# SPDX-License-Identifier: Apache-2.0
"""What is wrong, or soon will be, with how the metadata topic is configured: whether its records are kept, and accepted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Final

from airflow_provider_rlmm.core.base.clock import DAY_MS, time_text
from airflow_provider_rlmm.core.base.values import duration_text
from airflow_provider_rlmm.core.log.broker_versions import BrokerVersion, Version, brokers_in_text, version_in_text
from airflow_provider_rlmm.core.records.era import COMPACT, policy_of

_FOR_EVER: Final = -1
MARGIN_MS: Final = 30 * DAY_MS
"""How long before the oldest record that is needed may be deleted a person has to act."""

_NO_KEYS_BELOW: Final[Version] = (4, 4)
"""Every release of an older line writes records without keys. So does 4.4.0, which settings do not tell from a later one."""

TopicSettings = Mapping[str, int | bool | str]
"""Kafka's name of a topic setting → its effective value; ms, bytes, booleans as such."""


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


@dataclass(frozen=True, slots=True)
class TieredRetention:
    """How long data are kept."""

    topic: str  # a topic with remote storage
    retention_ms: int  # its retention, ms; -1 for ever

    @property
    def kept(self) -> str:
        """How long, in words."""
        if self.retention_ms == _FOR_EVER:
            return "for ever"
        days, rest = divmod(self.retention_ms, DAY_MS)
        return f"for {duration_text(self.retention_ms) if rest else f'{days} d'}"


@dataclass(frozen=True, slots=True)
class MetadataWriters:
    """
    What is known of those who write to the metadata topic.

    :param key_seen: where a record with a key of theirs was read, in words; ``None`` where none was, or none was looked for.
    :param versions: broker → its version; empty where they were not asked.
    """

    key_seen: str | None = None
    versions: Mapping[int, BrokerVersion] = field(default_factory=dict)

    @property
    def may_write_keys(self) -> list[int]:
        """The brokers of which their version does not tell that they write none."""
        return [
            broker
            for broker, version in sorted(self.versions.items())
            if version.below is None or version.below > _NO_KEYS_BELOW
        ]


@dataclass(frozen=True, slots=True)
class NeededRecord:
    """The oldest record about a segment that is not deleted, or of a deletion under way: each replay of the log needs it."""

    metadata_partition: int
    offset: int
    time_ms: int  # its time, ms since the epoch: by it brokers reckon its age

    def __str__(self) -> str:
        return f"offset {self.offset} of metadata partition {self.metadata_partition}, of {time_text(self.time_ms)}"


def retention_ms_of(settings: TopicSettings) -> int:
    """
    Return how long a topic keeps its records, ms; -1 for ever.

    :param settings: the topic's.
    """
    return int(settings.get("retention.ms", _FOR_EVER))


def is_kept_for_ever(settings: TopicSettings) -> bool:
    """
    Tell whether no record goes because it is old.

    :param settings: the topic's.
    """
    return retention_ms_of(settings) == _FOR_EVER


def is_compacted(settings: TopicSettings) -> bool:
    """
    Tell whether the log cleaner removes records of a topic.

    :param settings: the topic's.
    """
    return COMPACT in policy_of(str(settings.get("cleanup.policy", "delete")))


def longest_tiered_retention(settings: Mapping[str, TopicSettings]) -> TieredRetention | None:
    """
    Return the topic with remote storage that keeps its data for the longest time.

    :param settings: name → settings of every topic.
    :return: ``None`` if no topic has remote storage.
    """
    tiered = [
        TieredRetention(name, retention_ms_of(s)) for name, s in settings.items() if s.get("remote.storage.enable")
    ]
    return max(tiered, key=lambda t: float("inf") if t.retention_ms == _FOR_EVER else t.retention_ms, default=None)


def setting_findings(
    topic: str, settings: TopicSettings, longest: TieredRetention | None, writers: MetadataWriters
) -> Iterator[HealthFinding]:
    """
    Yield what is wrong with the settings of the metadata topic.

    :param topic: its name.
    :param settings: its settings.
    :param longest: the tiered topic whose data are kept longest, ``None`` if there is none.
    :param writers: what is known of its brokers; looked at only where it is compacted.
    """
    if is_compacted(settings):
        yield _compacted(topic, str(settings["cleanup.policy"]), writers)
    lost = "brokers forget remote segments whose data still exist, and no broker deletes these any more"
    retention_ms = retention_ms_of(settings)
    if retention_ms != _FOR_EVER and longest and not 0 <= longest.retention_ms <= retention_ms:
        found = (
            f"topic {topic} has retention.ms={retention_ms}, and topic {longest.topic} keeps its data {longest.kept}"
        )
        yield _error(found, lost, f"set retention.ms=-1 on {topic}")
    retention_bytes = settings.get("retention.bytes", _FOR_EVER)
    if retention_bytes != _FOR_EVER:
        found = f"topic {topic} has retention.bytes={retention_bytes}"
        yield _error(found, lost, f"set retention.bytes=-1 on {topic}")


def needed_findings(
    topic: str, settings: TopicSettings, oldest: Callable[[], NeededRecord | None], now_ms: int
) -> Iterator[HealthFinding]:
    """
    Yield what the retention of a plain metadata topic means for the oldest record that is still needed.

    However long data are kept: a segment whose deletion fails, and a marker without an end, outlive them.

    :param topic: its name.
    :param settings: its settings.
    :param oldest: reads that record, ``None`` where no segment and no deletion is left; asked only where its age matters.
    :param now_ms: time, ms since the epoch.
    :return: an error from :data:`MARGIN_MS` before brokers may delete it, a warning until then.
    """
    if is_kept_for_ever(settings) or is_compacted(settings) or (needed := oldest()) is None:
        return
    retention_ms = retention_ms_of(settings)
    gone_ms = needed.time_ms + retention_ms
    too_short_ms = gone_ms - MARGIN_MS
    late = now_ms >= too_short_ms
    yield HealthFinding(
        HealthSeverity.ERROR if late else HealthSeverity.WARNING,
        f"topic {topic} has retention.ms={retention_ms}, and the oldest record that is still needed is {needed}",
        f"brokers may delete it from {time_text(gone_ms)} on, and then no record says what lies in storage; "
        + ("that is too soon" if late else f"this is too soon from {time_text(too_short_ms)} on"),
        f"set retention.ms=-1 on {topic}",
    )


def _compacted(topic: str, policy: str, writers: MetadataWriters) -> HealthFinding:
    """
    Say what a compacted metadata topic means: an accident up to Kafka 4.4, the rule of later brokers (KIP-1266).

    Set back to delete under brokers that write keys, the topic keeps what they count on being compacted, and loses by age
    what they count on being kept.
    """
    what = f"topic {topic} has cleanup.policy={policy}"
    if writers.key_seen is not None:
        return _error(
            what,
            f"its brokers write records with keys ({writers.key_seen}), so this may be how they keep it (KIP-1266); records "
            "without a key are dropped, and this package writes nothing meanwhile",
            f"leave cleanup.policy of {topic} as it is, and find out which update of the brokers has changed it",
        )
    refused = "a compacted topic refuses records without a key and drops those that are there"
    if writers.versions and not writers.may_write_keys:
        return _error(
            what,
            f"{refused}, and brokers older than {version_in_text(_NO_KEYS_BELOW)} write no others",
            f"set cleanup.policy=delete on {topic}; what was dropped meanwhile stays lost",
        )
    return _error(
        what,
        f"{refused}; whether its brokers write keys (KIP-1266) is not known{_of_whom(writers)}",
        f"find out the version of every broker: Kafka up to 4.4.0 writes no keys, then set cleanup.policy=delete on {topic}; "
        "else leave it as it is",
    )


def _of_whom(writers: MetadataWriters) -> str:
    if not writers.versions:
        return ""
    return f" of {brokers_in_text(writers.may_write_keys)}, by the settings that they list"
