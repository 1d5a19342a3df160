# SPDX-License-Identifier: Apache-2.0
"""
When is a topic id absent? The rule that stands between this package and the deletion of living data.

All of: no topic of the cluster answers with the id; describing the one name that its metadata gives answers
UNKNOWN_TOPIC_OR_PARTITION or another id, and no refusal; it was observed at least twice, ``min_absence`` apart, the first
observation being the marker; no foreign segment event came since that marker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from airflow_provider_rlmm.clock import MAX_CLOCK_SKEW_MS, duration_in_words
from airflow_provider_rlmm.metadata.deletion import AbsenceObservation
from airflow_provider_rlmm.metadata.records import kafka_uuid_str
from airflow_provider_rlmm.metadata.topic_answers import NoTopic, TopicAnswer
from airflow_provider_rlmm.quoting import in_quotes, list_in_quotes


class Presence(StrEnum):
    """What one observation of the cluster says about a topic id."""

    ABSENT = "absent"
    PRESENT = "present"
    AMBIGUOUS = "ambiguous"
    DENIED = "denied"


@dataclass(frozen=True, slots=True)
class Observation:
    """
    One look at the cluster.

    :param presence: the verdict.
    :param reason: what was seen.
    """

    presence: Presence
    reason: str


def observe(
    topic_id: UUID, names: frozenset[str], answers: Mapping[str, TopicAnswer], listed: frozenset[str]
) -> Observation:
    """
    Judge one topic id by one look at the cluster.

    :param topic_id: the id in question.
    :param names: every name under which the metadata topic knows the id.
    :param answers: what describing answered, for every listed name and for ``names``. Names that Kafka accepts for no topic
        are missing. A listing leaves out what the principal may not describe, so an answer to the name is what counts.
    :param listed: names that the listing had.
    """
    text = kafka_uuid_str(topic_id)
    present = sorted(name for name, answer in answers.items() if answer == topic_id)
    if present:
        unlisted = "" if present[0] in listed else ", though no listing had it"
        return Observation(
            Presence.PRESENT, f"topic id {text} exists in the cluster as {in_quotes(present[0])}{unlisted}"
        )
    if len(names) != 1:
        return Observation(
            Presence.AMBIGUOUS, f"topic id {text} has {len(names)} names in the metadata topic: {list_in_quotes(names)}"
        )
    (name,) = names
    answer = answers.get(name)
    if answer is None:
        return Observation(
            Presence.AMBIGUOUS, f"topic {in_quotes(name)} was not described: no topic can have this name"
        )
    if answer is NoTopic.DENIED:
        return Observation(
            Presence.DENIED,
            f"the principal may not describe topic {in_quotes(name)} of topic id {text}, so nobody can tell whether it "
            "exists: it needs DESCRIBE on every topic",
        )
    if name in listed and answer is NoTopic.UNKNOWN:
        return Observation(
            Presence.AMBIGUOUS,
            f"topic {in_quotes(name)} is in the listing but describing it says that it does not exist",
        )
    return Observation(
        Presence.ABSENT, f"no topic answers with topic id {text}, and {in_quotes(name)} does not have it"
    )


@dataclass(frozen=True, slots=True)
class Settlement:
    """
    Whether a marked partition may be cleaned now.

    :param settled: yes or no.
    :param reason: why not, empty where it may.
    :param what_to_do: what an operator can do about it, empty where it may.
    """

    settled: bool
    reason: str = ""
    what_to_do: str = ""


def first_observation(
    observations: Sequence[AbsenceObservation], now_ms: int, max_clock_skew_ms: int = MAX_CLOCK_SKEW_MS
) -> AbsenceObservation | None:
    """
    Return the observation from which the wait counts, ``None`` where absence must be observed anew.

    It is the first in the order of the log, of whatever time, so that a repeated marker never shortens a wait. One that
    nobody bounds, or from the future, is none: the next one takes its place.

    :param observations: of one user partition, by offset.
    :param now_ms: ms since the epoch, proven.
    :param max_clock_skew_ms: what is further ahead than this comes from a wrong clock.
    """
    return next((o for o in observations if o.bounded and o.time_ms <= now_ms + max_clock_skew_ms), None)


def settle(
    observations: Sequence[AbsenceObservation],
    *,
    foreign_offset: int | None,
    now_ms: int,
    min_absence_ms: int,
    max_clock_skew_ms: int = MAX_CLOCK_SKEW_MS,
) -> Settlement:
    """
    Tell whether the first observation is old enough and still stands.

    :param observations: those after the last foreign segment event, by offset.
    :param foreign_offset: offset of the last foreign segment event, for the message; ``None`` where there is none.
    :param now_ms: ms since the epoch, proven.
    :param min_absence_ms: how far apart the two observations must be, ms.
    :param max_clock_skew_ms: as for :func:`first_observation`.
    """
    first = first_observation(observations, now_ms, max_clock_skew_ms)
    if first is None:
        return Settlement(
            False,
            _why_nothing_is_observed(observations, foreign_offset, now_ms),
            "run the marker again: it observes the topic id anew, and min_absence counts from then",
        )
    waited = now_ms - first.time_ms
    if waited < min_absence_ms:
        return Settlement(
            False,
            f"marked {waited} ms ago, less than min_absence of {min_absence_ms} ms",
            f"nothing: it is eligible in {duration_in_words(min_absence_ms - waited)}",
        )
    return Settlement(True)


def _why_nothing_is_observed(
    observations: Sequence[AbsenceObservation], foreign_offset: int | None, now_ms: int
) -> str:
    if not observations:
        if foreign_offset is None:
            return "no marker says when its absence was observed"
        return f"a foreign segment event at offset {foreign_offset} came after the marker: somebody still works here"
    last = observations[-1]
    if last.bounded:
        return f"its marker at offset {last.offset} is from the future: it says {last.time_ms} ms, now is {now_ms} ms"
    return (
        f"its marker at offset {last.offset} is somebody else's, and no record of a broker or of ours has followed in its "
        "metadata partition: nothing but its own clock says when it was written"
    )
