# SPDX-License-Identifier: Apache-2.0
"""
What one thing in storage is, whose turn it is to delete it, and when: an object, a segment, a user partition or a topic.

It is for people. Nothing that deletes goes by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.clock import duration_in_words, since
from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.base.quoting import in_quotes
from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.core.records.records import TopicIdPartition, kafka_uuid_str, parse_kafka_uuid
from airflow_provider_rlmm.core.storage.layout import Layout
from airflow_provider_rlmm.core.world.topic_entries import names_like
from airflow_provider_rlmm.core.world.visibility import UNSEEN_ADVICE
from airflow_provider_rlmm.features.survey.inventory import SurveyedState

FINISHED: Final = "FINISHED"
UNREFERENCED: Final = "UNREFERENCED"
NOT_OF_THE_LAYOUT: Final = "NOT_OF_THE_LAYOUT"

_TURN_OF_A_SCRUB: Final = "a scrub's, if an object of it is still there; no run's otherwise"
_TURN_OF_A_DOCTOR: Final = "a person's: 'rlmm doctor' says what is wrong with the log"
_GOES_WITH_A_SCRUB: Final = "an object that is left goes with the next scrub that may delete ('rlmm scrub')"
_SEVERAL: Final = 5
_UUID_CHARS: Final = 36


@dataclass(frozen=True, slots=True)
class AskedTopic:
    """A topic that a person asks about, by its id."""

    topic_id: UUID


@dataclass(frozen=True, slots=True)
class AskedSegment:
    """
    A segment that a person asks about, as far as the question itself tells it.

    :param segment_id: of the segment.
    :param tip: its user partition, as the key of one of its objects has it; ``None`` where the segment alone was named.
    :param file: which object of the segment, by the end of its key; empty where no key was named.
    """

    segment_id: UUID
    tip: TopicIdPartition | None = None
    file: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """
    What is known of it.

    :param what: it is, in words.
    :param kind: its class: a :class:`~airflow_provider_rlmm.features.survey.inventory.SurveyedState`, or one that only
        storage or the whole log tell: :data:`FINISHED`, :data:`UNREFERENCED`, :data:`NOT_OF_THE_LAYOUT`.
    :param why: what says so, in words.
    :param turn: whose turn it is, and to do what.
    :param goes: when it is deleted, in words.
    :param stored: segments and bytes of it that are stored, ``None`` where that is not known.
    :param needs_person: whether nothing happens before a person acts.
    """

    what: str
    kind: str
    why: str
    turn: str
    goes: str
    stored: Count | None
    needs_person: bool = False


def asked_of_key(key: str, root: str, layout: Layout) -> AskedSegment | None:
    """
    Read the key of an object.

    :param key: below the storage root, or the whole URI of the object.
    :param root: URI of the storage root.
    :param layout: which names keys.
    :return: what it names, ``None`` where it is no key of the layout.
    :raises ConfigurationError: if the URI is of another place.
    """
    if "://" in key:
        below = f"{root.rstrip('/')}/"
        if not key.startswith(below):
            raise ConfigurationError(f"{in_quotes(key)} does not lie below the storage root {in_quotes(root)}")
        key = key.removeprefix(below)
    for place in layout.places:
        if (found := layout.parts(key, place)) is not None:
            segment, file = found
            return AskedSegment(segment.id, segment.topic_id_partition, file)
    return None


def asked_of_name(text: str, names: Mapping[UUID, Iterable[str]]) -> AskedTopic | AskedSegment:
    """
    Read the name or the id of a topic, or the id of a segment.

    :param text: as a person wrote it; ids in Kafka's form, or with hyphens.
    :param names: topic id → every name, as the log has them.
    :raises ConfigurationError: if several topics have the name, or it is neither a known name nor an id.
    """
    named = sorted(kafka_uuid_str(topic_id) for topic_id, known in names.items() if text in known)
    if len(named) > 1:
        shown = ", ".join(named[:_SEVERAL]) + (f" and {len(named) - _SEVERAL} more" if len(named) > _SEVERAL else "")
        raise ConfigurationError(
            f"{number_of(len(named), 'topic')} had the name {in_quotes(text)}: ask by the id of one of them: {shown}"
        )
    if named:
        return AskedTopic(parse_kafka_uuid(named[0]))
    if (spelled := _id_of(text)) is None:
        like = names_like(text, {name for known in names.values() for name in known})
        raise ConfigurationError(
            f"the log names no topic {in_quotes(text)}, and it is no id in Kafka's form{like or '.'} 'rlmm topics' lists the "
            "topics, 'rlmm segments' the segments; a key has a slash"
        )
    return AskedTopic(spelled) if spelled in names else AskedSegment(spelled)


def _id_of(text: str) -> UUID | None:
    try:
        return UUID(text) if len(text) == _UUID_CHARS else parse_kafka_uuid(text)
    except ValueError:
        return None


def answer_of_partitions(rows: Sequence[Mapping[str, Any]], what: str, limits: CleanerLimits, now_ms: int) -> Answer:
    """
    Answer for user partitions of one topic, by the most urgent of them.

    :param rows: of the survey, of :data:`~airflow_provider_rlmm.features.survey.inventory.PARTITION_COLUMNS`; one at least.
    :param what: it is, in words.
    :param limits: by which they were judged.
    :param now_ms: ms since the epoch.
    """
    from airflow_provider_rlmm.features.survey.survey import BY_URGENCY

    first = min(rows, key=lambda row: BY_URGENCY.index(SurveyedState(row["state"])))
    stored = Count(sum(row["segments"] for row in rows), sum(row["bytes"] for row in rows))
    state = SurveyedState(first["state"])
    wait, eligible_ms = duration_in_words(limits.min_absence_ms), first["eligible_ms"]
    turn, goes = {
        SurveyedState.LIVING: (
            "its leader's: this package deletes nothing of a living topic",
            "when its leader's retention says so; 'rlmm retention' compares the two",
        ),
        SurveyedState.UNSEEN: (f"a person's. {UNSEEN_ADVICE}", "that cannot be told"),
        SurveyedState.REFUSED: ("a person's", "not before that is settled"),
        SurveyedState.ORPHANED: (
            "this package's: the next run that may write marks it",
            f"{wait} after it is marked at the earliest, if the topic stays absent",
        ),
        SurveyedState.WAITING: (
            "this package's: a run that may write, once the wait is over",
            "at the first run after its wait" if eligible_ms is None else _from(eligible_ms, now_ms),
        ),
        SurveyedState.ELIGIBLE: ("this package's: the next run that may write deletes it", "now, with that run"),
        SurveyedState.DELETING: ("this package's: the next run that may write goes on with it", "now, with that run"),
    }[state]
    needs = state in (SurveyedState.UNSEEN, SurveyedState.REFUSED)
    return Answer(what, state.value, first["why"], turn, goes, stored, needs)


def _from(eligible_ms: int, now_ms: int) -> str:
    left = max(0, eligible_ms - now_ms)
    return f"at the first run after {since(eligible_ms)}, in {duration_in_words(left)}"


def answer_of_segment(of_partition: Answer, what: str, size: int | None) -> Answer:
    """
    Answer for a segment that is stored.

    :param of_partition: the answer for its user partition.
    :param what: it is, in words.
    :param size: its bytes, ``None`` where the log does not tell.
    """
    return replace(of_partition, what=what, stored=None if size is None else Count(1, size))


def answer_of_finished(what: str, when: str, doubt: str) -> Answer:
    """
    Answer for a segment whose deletion the log calls finished.

    :param what: it is, in words.
    :param when: the log says that, for people.
    :param doubt: what the log may hide, in words; empty where all of it was read.
    """
    may = f"; but {doubt}, which may say something else of it" if doubt else ""
    return Answer(
        what,
        FINISHED,
        f"the log calls its deletion finished, since {when}{may}",
        _TURN_OF_A_DOCTOR if doubt else _TURN_OF_A_SCRUB,
        _GOES_WITH_A_SCRUB,
        None,
        needs_person=bool(doubt),
    )


def answer_of_nothing(what: str, doubt: str) -> Answer:
    """
    Answer for a topic of which the log names no segment that is stored.

    :param what: it is, in words.
    :param doubt: what the log may hide, in words; empty where all of it was read.
    """
    may = f"; but {doubt}, which may name one" if doubt else ""
    return Answer(
        what,
        FINISHED,
        f"the log names no segment of it that is not finished{may}",
        _TURN_OF_A_DOCTOR if doubt else _TURN_OF_A_SCRUB,
        _GOES_WITH_A_SCRUB,
        None if doubt else Count(0, 0),
        needs_person=bool(doubt),
    )


def answer_of_unnamed(what: str, min_unreferenced_ms: int, doubt: str) -> Answer:
    """
    Answer for what no record of the log names.

    :param what: it is, in words.
    :param min_unreferenced_ms: between two scrubs that find it, ms.
    :param doubt: what the log may hide, in words; empty where all of it was read.
    """
    may = f"; but {doubt}, which may name it" if doubt else ""
    return Answer(
        what,
        UNREFERENCED,
        f"no record of the metadata topic names it{may}",
        "a scrub's, where its topic is gone and marked; a person's, where its topic lives: then the log has lost records, or "
        "another cluster writes here",
        f"at the second of two scrubs that find it, {duration_in_words(min_unreferenced_ms)} apart ('rlmm scrub')",
        None,
        needs_person=bool(doubt),
    )


def answer_of_foreign(key: str, layout: Layout) -> Answer:
    """
    Answer for a key that the layout does not know.

    :param key: as a person wrote it.
    :param layout: of the storage.
    """
    places = ", ".join(in_quotes(place.prefix) for place in layout.places)
    return Answer(
        f"the key {in_quotes(key)}",
        NOT_OF_THE_LAYOUT,
        f"it is no key of the layout {layout.name} below the prefixes {places}",
        "a person's: this package does not know whose it is. Is its prefix missing in former_key_prefixes?",
        "never by this package",
        None,
        needs_person=True,
    )
