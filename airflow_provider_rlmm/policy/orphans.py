# SPDX-License-Identifier: Apache-2.0
"""
Which topic ids that a cluster's listing lacks are those of deleted topics?

A listing leaves out, without a word, what its principal may not describe; and it is taken before the metadata topic is read.
So it only says which ids are in doubt. What decides is the answer that their names get after the read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

from airflow_provider_rlmm.metadata.records import kafka_uuid_str
from airflow_provider_rlmm.metadata.topic_answers import TopicAnswer
from airflow_provider_rlmm.metadata.topic_names import is_legal_topic_name
from airflow_provider_rlmm.policy.absence import Presence, observe
from airflow_provider_rlmm.policy.plan import Count
from airflow_provider_rlmm.policy.refusals import Refusal, RefusalKind
from airflow_provider_rlmm.quoting import name_in_text

MAX_TOPIC_IDS_ASKED = 10_000
"""Topic ids that one plan asks the cluster for; it says so where there are more."""


@dataclass(frozen=True, slots=True)
class OrphanCandidate:
    """
    A topic id that the metadata topic names and the listing lacks.

    :param topic_id: the id.
    :param names: its names in the metadata topic; where there are several, two of them are enough.
    :param count: its segments that are not finished.
    """

    topic_id: UUID
    names: frozenset[str]
    count: Count


@dataclass(frozen=True, slots=True)
class OrphanVerdict:
    """
    What may be planned as orphaned, and what may not.

    :param absent: (topic id, name) of deleted topics; no other pair may be called orphaned.
    :param refusals: one for each of the others.
    """

    absent: frozenset[tuple[UUID, str]]
    refusals: tuple[Refusal, ...]


def names_in_doubt(candidates: Iterable[OrphanCandidate]) -> frozenset[str]:
    """
    Return the names to ask the cluster for: those that a topic can have, of ids that have one name only.

    :param candidates: topic ids in doubt.
    """
    return frozenset(name for c in candidates if len(c.names) == 1 for name in c.names if is_legal_topic_name(name))


def judge_orphans(candidates: Iterable[OrphanCandidate], answers: Mapping[str, TopicAnswer]) -> OrphanVerdict:
    """
    Tell the ids of deleted topics from those that must be left alone.

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
            refusals.append(_refusal(candidate, _KINDS[seen.presence], seen.reason))
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


_KINDS = {
    Presence.DENIED: RefusalKind.ACCESS_DENIED,
    Presence.PRESENT: RefusalKind.TOPIC_PRESENT,
    Presence.AMBIGUOUS: RefusalKind.AMBIGUOUS,
}
_WHAT_TO_DO = {
    RefusalKind.ACCESS_DENIED: (
        "give the principal DESCRIBE on every topic, then make a new plan: without it a living topic looks deleted"
    ),
    RefusalKind.TOPIC_PRESENT: (
        "make a new plan; if the listing lacks this topic again, see that the principal may describe every topic"
    ),
    RefusalKind.AMBIGUOUS: (
        "let the doctor look at the records that name this topic id; nothing of it is planned until they agree"
    ),
}


def _refusal(candidate: OrphanCandidate, kind: RefusalKind, reason: str) -> Refusal:
    name = min(candidate.names)
    return Refusal(
        what=f"topic {name_in_text(name)}, id {kafka_uuid_str(candidate.topic_id)}",
        why=f"{reason}; {candidate.count.segments} segments, {candidate.count.bytes} bytes of it are not planned",
        what_to_do=_WHAT_TO_DO[kind],
        kind=kind,
        topic=name_in_text(name),
    )
