# SPDX-License-Identifier: Apache-2.0
"""
Bugs of brokers that concern remote logs, and which topics of a cluster they concern.

One more is one more :class:`KnownBug` in :data:`KNOWN_BUGS`, and if need be a setting by which its versions are told in
:data:`~airflow_provider_rlmm.core.log.broker_versions.SETTINGS_SINCE`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from airflow_provider_rlmm.core.log.broker_versions import (
    BrokerVersion,
    Version,
    brokers_in_text,
    version_in_text,
    versions_of,
)
from airflow_provider_rlmm.features.doctor.findings import FindingKind
from airflow_provider_rlmm.features.doctor.watches import Found, ServedPartitions, TieredClusterTopics

_UNLIMITED = -1

Settings = Mapping[str, int | bool | str]


@dataclass(frozen=True, slots=True)
class KnownBug:
    """
    A bug of brokers.

    :param number: of Kafka's issue.
    :param what: what brokers do that have it.
    :param concerned_by: returns the setting by which a tiered topic is concerned, ``None`` where it is not.
    :param fixed_in: the first minor release without it; every later one is without it, too.
    :param patched_in: patch releases of older lines from which on these are without it: nothing tells them from others.
    :param source: where that was read.
    """

    number: str
    what: str
    concerned_by: Callable[[Settings], str | None]
    fixed_in: Version
    patched_in: tuple[Version, ...]
    source: str

    @property
    def fixed(self) -> str:
        """The versions without it, in words."""
        patched = (f"{version_in_text(version)} of its line" for version in self.patched_in)
        return f"fixed in {' and '.join([*patched, version_in_text(self.fixed_in)])} ({self.source})"


def _limited_by_size(settings: Settings) -> str | None:
    limit = settings.get("retention.bytes", _UNLIMITED)
    return None if limit == _UNLIMITED else f"retention.bytes={limit}"


KNOWN_BUGS: Final = (
    KnownBug(
        "KAFKA-20732",
        "after a change of the leader, retention by size may count local bytes twice and delete data that retention.bytes "
        "still covers, remote and local",
        _limited_by_size,
        fixed_in=(4, 4),
        patched_in=((4, 3, 2),),
        source="apache/kafka pull request 22661",
    ),
)
"""Every bug that the doctor knows."""


def topics_concerned(
    served: ServedPartitions, living: Mapping[str, UUID], topics: TieredClusterTopics
) -> Iterator[Found]:
    """
    Yield the living topics that a bug concerns which a broker of the cluster has, or may have.

    Brokers are asked only where a topic is concerned, or may be. One that is down is in no answer.

    :param served: what is known of the tiered topics.
    :param living: the cluster's topics, name → topic id.
    :param topics: the cluster.
    :raises EventLogAccessError: if the login fails.
    :raises EventLogUnavailableError: if no broker answers.
    """
    if served.unknown:
        versions = versions_of(topics.broker_setting_names())
        for bug in KNOWN_BUGS:
            if (brokers := _brokers_with(bug, versions)) is not None:
                why = f"which topics it concerns is not known: {served.unknown}; {brokers}; {bug.fixed}"
                yield FindingKind.KNOWN_BUG, _row(None, None), f"{bug.number}: {bug.what}; {why}"
        return
    concerned = [
        (bug, name, setting)
        for bug in KNOWN_BUGS
        for name, settings in sorted(served.tiered.items())
        if (setting := bug.concerned_by(settings)) is not None
    ]
    versions = versions_of(topics.broker_setting_names()) if concerned else {}
    for bug, name, setting in concerned:
        if (brokers := _brokers_with(bug, versions)) is not None:
            detail = f"{bug.number}: {bug.what}; the topic has {setting}; {brokers}; {bug.fixed}"
            yield FindingKind.KNOWN_BUG, _row(living[name], name), detail


def _brokers_with(bug: KnownBug, versions: Mapping[int, BrokerVersion]) -> str | None:
    """Say which brokers have a bug, or may have it; ``None`` where none may."""
    others = {broker: version for broker, version in versions.items() if not version.has_all_of(bug.fixed_in)}
    older = [broker for broker, version in others.items() if version.is_known]
    unknown = [broker for broker, version in others.items() if not version.is_known]
    said = []
    if older:
        unless = "".join(f", unless {version_in_text(version)} or later in its line" for version in bug.patched_in)
        said.append(f"older than {version_in_text(bug.fixed_in)}{unless}: {brokers_in_text(older)}")
    if unknown:
        said.append(
            f"of an unknown version, as it withholds its settings or does not answer: {brokers_in_text(unknown)}"
        )
    if not versions:
        said.append("of which versions the brokers are is not known: none was listed")
    return "; ".join(said) or None


def _row(topic_id: UUID | None, name: str | None) -> Mapping[str, Any]:
    return {
        "metadata_partition": None,
        "offset": None,
        "topic_id": None if topic_id is None else topic_id.bytes,
        "topic": name,
    }
