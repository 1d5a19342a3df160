# SPDX-License-Identifier: Apache-2.0
"""
When is a topic id absent? The rule that stands between this package and the deletion of living data.

All of: no topic of the cluster answers with the id; describing the one name that its metadata gives answers
UNKNOWN_TOPIC_OR_PARTITION or another id, which is not that of a topic without disks, and no refusal; it was observed at least
twice, ``min_absence`` apart, the first observation being the marker; no foreign segment event came since that marker.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.clock import MAX_CLOCK_SKEW_MS, duration_in_words, elapsed_in_words, time_text
from airflow_provider_rlmm.core.base.quoting import in_quotes, list_in_quotes, name_in_text
from airflow_provider_rlmm.core.base.values import duration_text
from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.core.plans.refusals import Refusal, RefusalKind
from airflow_provider_rlmm.core.records.deletion import AbsenceObservation
from airflow_provider_rlmm.core.records.history import UserPartitionHistory
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.records.topic_answers import NoTopic, TopicAnswer
from airflow_provider_rlmm.core.records.topic_names import is_legal_topic_name
from airflow_provider_rlmm.core.world.diskless import DISKLESS_ADVICE


class Presence(StrEnum):
    """What one observation of the cluster says about a topic id."""

    ABSENT = "absent"
    PRESENT = "present"
    AMBIGUOUS = "ambiguous"
    DENIED = "denied"
    DISKLESS = "diskless"  # it is gone, and a topic without disks has its name


PRESENCE_KINDS = {
    Presence.PRESENT: RefusalKind.TOPIC_PRESENT,
    Presence.AMBIGUOUS: RefusalKind.AMBIGUOUS,
    Presence.DENIED: RefusalKind.ACCESS_DENIED,
    Presence.DISKLESS: RefusalKind.DISKLESS,
}

_PRESENCE_ADVICE = {
    Presence.PRESENT: "a living topic is never cleaned: find out who wrote this marker",
    Presence.AMBIGUOUS: "look at its records",
    Presence.DENIED: "give the principal DESCRIBE on every topic, then run again",
    Presence.DISKLESS: DISKLESS_ADVICE,
}


@dataclass(frozen=True, slots=True)
class Observation:
    """One look at the cluster."""

    presence: Presence  # the verdict
    reason: str  # what was seen


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
    return observe_all({topic_id: names}, answers, listed)[topic_id]


def observe_all(
    names: Mapping[UUID, frozenset[str]], answers: Mapping[str, TopicAnswer], listed: frozenset[str]
) -> dict[UUID, Observation]:
    """
    Judge topic ids by one look at the cluster, each as :func:`observe` does.

    :param names: topic id → every name under which the metadata topic knows it.
    :param answers: what describing answered, for every listed name and for all of ``names``.
    :param listed: names that the listing had.
    """
    # Asked for once per id, as there may be as many of these as there are answers.
    bearers: defaultdict[TopicAnswer, list[str]] = defaultdict(list)
    for name, answer in answers.items():
        bearers[answer].append(name)
    return {
        topic_id: _judged(topic_id, known, sorted(bearers.get(topic_id, ())), answers, listed)
        for topic_id, known in names.items()
    }


def _judged(
    topic_id: UUID,
    names: frozenset[str],
    present: Sequence[str],
    answers: Mapping[str, TopicAnswer],
    listed: frozenset[str],
) -> Observation:
    """Judge one topic id; ``present`` are the names that answered with it."""
    text = kafka_uuid_str(topic_id)
    if present:
        unlisted = "" if present[0] in listed else ", though no listing had it"
        why = f"topic id {text} exists in the cluster as {in_quotes(present[0])}{unlisted}"
        return Observation(Presence.PRESENT, why)
    if len(names) != 1:
        why = f"topic id {text} has {len(names)} names in the metadata topic: {list_in_quotes(names)}"
        return Observation(Presence.AMBIGUOUS, why)
    (name,) = names
    topic, answer = in_quotes(name), answers.get(name)
    if answer is None:
        return Observation(Presence.AMBIGUOUS, f"topic {topic} was not described: no topic can have this name")
    if answer is NoTopic.DENIED:
        return Observation(
            Presence.DENIED,
            f"the principal may not describe topic {topic} of topic id {text}, so it cannot be told whether it exists: it "
            "needs DESCRIBE on every topic",
        )
    if name in listed and answer is NoTopic.UNKNOWN:
        why = f"topic {topic} is in the listing but describing it says that it does not exist"
        return Observation(Presence.AMBIGUOUS, why)
    return Observation(Presence.ABSENT, f"no topic answers with topic id {text}, and {topic} does not have it")


@dataclass(frozen=True, slots=True)
class Settlement:
    """Whether a marked partition may be cleaned now."""

    settled: bool  # yes or no
    reason: str = ""  # why not, empty where it may
    what_to_do: str = ""  # what an operator can do about it, empty where it may


def first_observation(observations: Sequence[AbsenceObservation], now_ms: int) -> AbsenceObservation | None:
    """
    Return the observation from which the wait counts, ``None`` where absence must be observed anew.

    It is the first in the order of the log, of any time, so that a repeated marker never shortens a wait. One without
    a bound is none, nor one from the future (further ahead than clocks may differ): the next one takes its place.

    :param observations: of one user partition, by offset.
    :param now_ms: ms since the epoch, proven.
    """
    return next((o for o in observations if o.bounded and o.time_ms <= now_ms + MAX_CLOCK_SKEW_MS), None)


def settle(
    observations: Sequence[AbsenceObservation], *, foreign_offset: int | None, now_ms: int, min_absence_ms: int
) -> Settlement:
    """
    Tell whether the first observation is old enough and still stands.

    :param observations: those after the last foreign segment event, by offset.
    :param foreign_offset: offset of the last foreign segment event, for the message; ``None`` where there is none.
    :param now_ms: ms since the epoch, proven.
    :param min_absence_ms: how far apart the two observations must be, ms.
    """
    first = first_observation(observations, now_ms)
    if first is None:
        why = _why_unobserved(observations, foreign_offset, now_ms)
        what_to_do = "run the marker again: it observes the topic id anew, and min_absence counts from then"
        return Settlement(False, why, what_to_do)
    waited = now_ms - first.time_ms
    if waited < min_absence_ms:
        why = f"marked {elapsed_in_words(waited)} ago, less than min_absence of {duration_text(min_absence_ms)}"
        return Settlement(False, why, f"nothing: it is eligible in {duration_in_words(min_absence_ms - waited)}")
    return Settlement(True)


def _why_unobserved(observations: Sequence[AbsenceObservation], foreign_offset: int | None, now_ms: int) -> str:
    if not observations:
        if foreign_offset is None:
            return "no marker says when its absence was observed"
        return (
            f"a foreign segment event at offset {foreign_offset} came after the marker: a broker is still at work here"
        )
    last = observations[-1]
    if last.bounded:
        says = f"it says {time_text(last.time_ms)}, now is {time_text(now_ms)}"
        return f"its marker at offset {last.offset} is from the future: {says}"
    return (
        f"its marker at offset {last.offset} was written by another program, and no record of a broker or of ours has "
        "followed in its metadata partition: nothing but its own clock says when it was written"
    )


MAX_TOPIC_IDS_ASKED = 10_000
"""Topic ids that one plan asks the cluster for; it says so where there are more."""

_ORPHAN_REFUSALS = {
    Presence.DENIED: (
        RefusalKind.ACCESS_DENIED,
        "give the principal DESCRIBE on every topic, then make a new plan: without it a living topic looks deleted",
    ),
    Presence.PRESENT: (
        RefusalKind.TOPIC_PRESENT,
        "make a new plan; if the listing lacks this topic again, see that the principal may describe every topic",
    ),
    Presence.AMBIGUOUS: (
        RefusalKind.AMBIGUOUS,
        "let the doctor look at the records that name this topic id; nothing of it is planned until they agree",
    ),
}
"""What each answer but ABSENT makes of a topic id in doubt, and what to do about it."""


@dataclass(frozen=True, slots=True)
class OrphanCandidate:
    """A topic id that the metadata topic names and the listing lacks."""

    topic_id: UUID  # the id
    names: frozenset[str]  # its names in the metadata topic; where there are several, two of them are enough
    count: Count  # its segments that are not finished


@dataclass(frozen=True, slots=True)
class OrphanVerdict:
    """What may be planned as orphaned, and what may not."""

    absent: frozenset[tuple[UUID, str]]  # (topic id, name) of deleted topics; no other pair may be called orphaned
    refusals: tuple[Refusal, ...]  # one for each of the others


def names_in_doubt(candidates: Iterable[OrphanCandidate]) -> frozenset[str]:
    """
    Return the names to ask the cluster for: those that a topic can have, of ids that have one name only.

    :param candidates: topic ids in doubt.
    """
    return frozenset(name for c in candidates if len(c.names) == 1 for name in c.names if is_legal_topic_name(name))


def judge_orphans(candidates: Iterable[OrphanCandidate], answers: Mapping[str, TopicAnswer]) -> OrphanVerdict:
    """
    Tell the ids of deleted topics from those that must be left alone.

    A listing leaves out, without a word, what its principal may not describe; and it is taken before the metadata topic is
    read. So it only says which ids are in doubt. What decides is the answer that their names get after the read.

    :param candidates: topic ids in doubt.
    :param answers: what the cluster answered to :func:`names_in_doubt`, asked after the metadata topic was read.
    """
    absent: set[tuple[UUID, str]] = set()
    refusals: list[Refusal] = []
    for candidate in sorted(candidates, key=lambda c: c.topic_id.bytes):
        described = {name: answer for name, answer in answers.items() if name in candidate.names}
        # The listing is older than the answers, so it has no say here: a name may have come or gone since.
        seen = observe(candidate.topic_id, candidate.names, described, frozenset())
        if seen.presence is Presence.ABSENT:
            absent.update((candidate.topic_id, name) for name in candidate.names)
        else:
            refusals.append(_not_orphaned(candidate, seen))
    return OrphanVerdict(frozenset(absent), tuple(refusals))


def not_asked_for(topic_ids: int) -> Refusal:
    """
    Return the refusal of topic ids that went beyond :data:`MAX_TOPIC_IDS_ASKED`.

    :param topic_ids: how many, at least.
    """
    return Refusal(
        what=f"{topic_ids} or more topic ids that are not in the listing of the cluster",
        why=f"a plan asks the cluster for {MAX_TOPIC_IDS_ASKED} of them at most",
        what_to_do="clean what this plan holds, then make the next one; if you have not deleted so many topics, see that the "
        "principal may describe every topic",
        kind=RefusalKind.OTHER,
    )


def _not_orphaned(candidate: OrphanCandidate, seen: Observation) -> Refusal:
    kind, what_to_do = _ORPHAN_REFUSALS[seen.presence]
    name = name_in_text(min(candidate.names))
    what = f"topic {name}, id {kafka_uuid_str(candidate.topic_id)}"
    why = (
        f"{seen.reason}; {number_of(candidate.count.segments, 'segment')}, {candidate.count.bytes} bytes of it are "
        "not planned"
    )
    return Refusal(what, why, what_to_do, kind, topic=name)


def refusal_of(
    history: UserPartitionHistory, observation: Observation, now_ms: int, limits: CleanerLimits
) -> Refusal | None:
    """
    Return why nothing may be done to a partition (I7 and the rules of absence), ``None`` where it may be cleaned.

    :param history: the partition's history.
    :param observation: the latest look at the cluster.
    :param now_ms: ms since the epoch, proven.
    :param limits: limits of destructive work.
    """
    what, topic = str(history.topic_id_partition), history.topic_id_partition.topic
    if not history.deletion_under_way():
        why = "its deletion is not under way: another run has finished it"
        return Refusal(what, why, "nothing", RefusalKind.NEXT_RUN, topic=topic)
    if observation.presence is not Presence.ABSENT:
        kind = PRESENCE_KINDS[observation.presence]
        return Refusal(what, observation.reason, _PRESENCE_ADVICE[observation.presence], kind, topic=topic)
    if history.without_add:
        offset = min(history.without_add.values())
        why = (
            f"{number_of(len(history.without_add), 'segment has', 'segments have')} an incomplete history, see "
            f"offset {offset}"
        )
        todo = "reconcile storage and metadata by hand: these are not orphans"
        return Refusal(what, why, todo, RefusalKind.INCOMPLETE_HISTORY, offset=offset, topic=topic)
    settlement = settle(
        history.observations,
        foreign_offset=history.last_foreign_offset,
        now_ms=now_ms,
        min_absence_ms=limits.min_absence_ms,
    )
    if settlement.settled:
        return None
    # Where no observation stands the next run's marker makes one.
    stands = first_observation(history.observations, now_ms) is not None
    kind = RefusalKind.WAITING if stands else RefusalKind.NEXT_RUN
    return Refusal(what, settlement.reason, settlement.what_to_do, kind, topic=topic)
