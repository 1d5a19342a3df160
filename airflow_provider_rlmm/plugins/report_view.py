# SPDX-License-Identifier: Apache-2.0
"""A cleanup report by topic: what lies scattered over metadata partitions, put together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

_WORST_FIRST: Final = ("REFUSED", "INCOMPLETE", "WAITING", "FINISHED")


@dataclass(frozen=True, slots=True)
class ReportedTopic:
    """
    What a run did about a topic.

    :param topic: its name.
    :param topic_id: in Kafka's text form.
    :param outcome: of its user partitions, the one that most needs to be seen.
    :param partitions: outcome → how many of its user partitions have it.
    :param segments_deleted: in a dry run, that would have been.
    :param segments_left: that are still there.
    :param objects_deleted: in a dry run, that would have been.
    :param bytes_deleted: in a dry run, that would have been.
    :param refusals: of all its user partitions, without repetitions.
    """

    topic: str
    topic_id: str
    outcome: str
    partitions: Mapping[str, int]
    segments_deleted: int
    segments_left: int
    objects_deleted: int
    bytes_deleted: int
    refusals: Sequence[Mapping[str, Any]]


def by_topic(report: Mapping[str, Any]) -> list[ReportedTopic]:
    """
    Return what a report says, topic by topic: those that were refused first, then the largest.

    :param report: the document.
    """
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for part in report["metadata_partitions"]:
        for partition in part["partitions"]:
            groups.setdefault((partition["topic"], partition["topic_id"]), []).append(partition)
    found = [_topic(topic, topic_id, partitions) for (topic, topic_id), partitions in groups.items()]
    return sorted(found, key=lambda t: (_rank(t.outcome), -t.bytes_deleted, t.topic, t.topic_id))


def _topic(topic: str, topic_id: str, partitions: Sequence[Mapping[str, Any]]) -> ReportedTopic:
    outcomes = [p["outcome"] for p in partitions]
    counts = {outcome: outcomes.count(outcome) for outcome in sorted(set(outcomes), key=_rank)}
    sums = {
        name: sum(p[name] for p in partitions)
        for name in ("segments_deleted", "segments_left", "objects_deleted", "bytes_deleted")
    }
    return ReportedTopic(topic, topic_id, next(iter(counts)), counts, **sums, refusals=list(_refusals(partitions)))


def _refusals(partitions: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    seen = set()
    for partition in partitions:
        for refusal in partition["refusals"]:
            said = (refusal["what"], refusal["why"])
            if said not in seen:
                seen.add(said)
                yield refusal


def _rank(outcome: str) -> int:
    return _WORST_FIRST.index(outcome) if outcome in _WORST_FIRST else -1
