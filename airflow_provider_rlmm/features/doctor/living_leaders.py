# SPDX-License-Identifier: Apache-2.0
"""
What is wrong with the leaders of living topics, by what they were asked last: the doctor itself asks none of them.

An answer has its age. Where they were not asked, or could not be told, that is a finding, and no zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.clock import HOUR_MS, duration_in_words
from airflow_provider_rlmm.core.base.quoting import human_bytes
from airflow_provider_rlmm.core.records.records import parse_kafka_uuid
from airflow_provider_rlmm.features.doctor.findings import FindingKind, Severity

OLD_MS: Final = 72 * HOUR_MS
"""From this age on an answer tells nothing of today: remote_log_doctor asks daily."""

Found = tuple[FindingKind, Mapping[str, Any], str] | tuple[FindingKind, Mapping[str, Any], str, Severity]
"""Kind, what it is about, what this one is, in words, and how bad, where its kind does not say it."""


@dataclass(frozen=True, slots=True)
class RememberedPartition:
    """
    What was told of one user partition.

    :param topic: its topic.
    :param topic_id: in Kafka's text form.
    :param partition: its number.
    :param segments: how many segments it is about.
    :param bytes: their bytes.
    :param since_ms: since when, ms since the epoch; ``None`` where that is not known.
    :param what_to_do: what a person can do about it; empty where the kind of finding says all.
    """

    topic: str
    topic_id: str
    partition: int
    segments: int
    bytes: int
    since_ms: int | None = None
    what_to_do: str = ""


@dataclass(frozen=True, slots=True)
class RememberedLeaders:
    """
    What leaders were told to delete next, when they were asked last.

    :param asked_at_ms: when that was, ms since the epoch; ``None`` where they were not asked, or the answer cannot be read.
    :param why_not: why the answer cannot be read, empty where there is none.
    :param overdue: what leaders should have deleted hours before, the largest first.
    :param overdue_partitions: of how many user partitions, listed or not.
    :param hanging: leaders that have stopped copying → how far they are behind, in words.
    :param hanging_partitions: how many there are, listed or not.
    :param leaked: what Kafka lists for none of its leader epochs, the largest first.
    :param leaked_partitions: of how many user partitions, listed or not.
    :param partitions: user partitions that were told.
    :param unresolved: those of which it could not be told what their leaders delete.
    :param not_judged: those of which it could not be told whether anything is overdue.
    :param hidden_topics: topics of which nothing could be told, as they may not be described.
    """

    asked_at_ms: int | None = None
    why_not: str = ""
    overdue: Sequence[RememberedPartition] = ()
    overdue_partitions: int = 0
    hanging: Sequence[tuple[RememberedPartition, str]] = ()
    hanging_partitions: int = 0
    leaked: Sequence[RememberedPartition] = ()
    leaked_partitions: int = 0
    partitions: int = 0
    unresolved: int = 0
    not_judged: int = 0
    hidden_topics: int = 0


def of_leaders(remembered: RememberedLeaders, now_ms: int) -> Iterator[Found]:
    """
    Yield what is wrong with leaders, and what is not known of them.

    :param remembered: what they were asked last.
    :param now_ms: ms since the epoch.
    """
    if remembered.asked_at_ms is None:
        why = remembered.why_not or "they were not asked what they delete next"
        yield FindingKind.LEADERS_UNTOLD, _row(), f"it is not known whether a leader is stuck: {why}"
        return
    age_ms = max(0, now_ms - remembered.asked_at_ms)
    asked = f"as leaders were asked {duration_in_words(age_ms)} ago"
    if age_ms > OLD_MS:
        yield FindingKind.LEADERS_UNTOLD, _row(), f"{asked}: a leader that is stuck since would not be seen"
    if remembered.not_judged or remembered.unresolved:
        of = f"of {number_of(remembered.partitions, 'user partition')}"
        untold = (
            f"{asked}, it could not be told what the leaders of {remembered.unresolved:,} {of} delete, and of "
            f"{remembered.not_judged:,} whether anything is overdue"
        )
        yield FindingKind.LEADERS_UNTOLD, _row(), untold
    if remembered.hidden_topics:
        hidden = (
            f"{asked}, {number_of(remembered.hidden_topics, 'topic')} could not be described: of them nothing is known"
        )
        yield FindingKind.LEADERS_UNTOLD, _row(), hidden
    for one in remembered.overdue:
        yield FindingKind.OVERDUE, _row(one), f"{_amount(one)}, are still there, {asked}: {one.what_to_do}"
    for one, behind in remembered.hanging:
        said = f"its leader has stopped copying: {behind}, {asked}: {one.what_to_do}"
        # As of what is overdue, the task that has asked them is red.
        yield FindingKind.COPYING_STOPPED, _row(one), said, Severity.WARNING
    for one in remembered.leaked:
        yield FindingKind.LEAKED, _row(one), f"{_amount(one)}, {asked}"


def not_listed(remembered: RememberedLeaders) -> Iterator[tuple[FindingKind, int]]:
    """
    Yield how many findings of a kind there are besides those that were listed.

    :param remembered: what leaders were asked last.
    """
    yield FindingKind.OVERDUE, remembered.overdue_partitions - len(remembered.overdue)
    yield FindingKind.COPYING_STOPPED, remembered.hanging_partitions - len(remembered.hanging)
    yield FindingKind.LEAKED, remembered.leaked_partitions - len(remembered.leaked)


def _amount(one: RememberedPartition) -> str:
    return f"{number_of(one.segments, 'segment')}, {human_bytes(one.bytes)}"


def _row(one: RememberedPartition | None = None) -> dict[str, Any]:
    row: dict[str, Any] = {"metadata_partition": None, "offset": None}
    if one is not None:
        row |= {
            "topic_id": parse_kafka_uuid(one.topic_id).bytes,
            "topic": one.topic,
            "partition": one.partition,
            "timestamp_ms": one.since_ms,
        }
    return row
