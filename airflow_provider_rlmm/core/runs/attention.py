# SPDX-License-Identifier: Apache-2.0
"""
What needs a person, and what a person has already seen.

Nothing that needs a person stays green: it fails the run, after the healthy rest is done, until exactly this problem is
acknowledged, by name and for a while. An acknowledgement names its problem field by field (:class:`ProblemKey`), so that it
covers no second one, and never a problem of another cluster.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.clock import DAY_MS
from airflow_provider_rlmm.core.base.documents import AbsentAs, LongText, PlainJson
from airflow_provider_rlmm.core.base.quoting import name_in_text, printable
from airflow_provider_rlmm.core.plans.refusals import Refusal, RefusalKind

MAX_ACKNOWLEDGED_MS = 90 * DAY_MS  # how far ahead an acknowledgement may reach
SUGGESTED_MS = 7 * DAY_MS  # how far ahead the acknowledgement reaches that is suggested for a problem
MAX_ACKNOWLEDGEMENTS = 10_000
MAX_HEADLINE = 400  # characters of one problem in the message of a task
MAX_CHARACTERS = 2000  # of one text in an acknowledgement


class RunProblem(StrEnum):
    """Kinds of what is wrong with a run itself; only the last one can be acknowledged, the others end with the run."""

    TASK_FAILED = "TASK_FAILED"  # a task before the report failed
    NO_PLAN = "NO_PLAN"  # the run made no plan, or it cannot be read
    NOT_APPROVED = (
        "NOT_APPROVED"  # a person has rejected the plan, or no answer came in time: nothing of it was applied
    )
    BLAST_RADIUS = "BLAST_RADIUS"  # the plan is larger than the limit that it was judged by: nothing of it was applied
    UNREADABLE = "UNREADABLE"  # a document of the run cannot be read
    MIXED_DRY_RUN = "MIXED_DRY_RUN"  # some tasks of the run were a dry run and some were not
    ACKNOWLEDGEMENT = "ACKNOWLEDGEMENT"  # an acknowledgement cannot be understood
    CRITICAL_NOT_LISTED = "CRITICAL_NOT_LISTED"  # the doctor found more than its document lists
    QUARANTINED_NOT_LISTED = "QUARANTINED_NOT_LISTED"  # more records are quarantined than a plan lists one by one


_VAGUE = frozenset({RefusalKind.OTHER.value, RefusalKind.STORAGE.value, RefusalKind.CLOCK.value})
"""Kinds that do not say what is wrong: two problems of one subject differ in their words only."""

_OF_ONE_RUN = frozenset({RefusalKind.BLAST_RADIUS, RefusalKind.REPORT, RefusalKind.STOPPED, RefusalKind.AUDIT})


@dataclass(frozen=True, slots=True)
class ProblemKey:
    """
    What tells one problem of a cluster from every other; ``None`` where a problem has no such field.

    :param kind: what is wrong.
    :param metadata_partition: where.
    :param offset: of the record in the metadata partition.
    :param topic: the topic concerned.
    :param what: the subject in words, exactly as reported; ``None`` where an offset alone says which record it is.
    """

    kind: str
    metadata_partition: int | None = None
    offset: int | None = None
    topic: str | None = None
    what: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that are set, as an acknowledgement names them."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, slots=True)
class Attention:
    """Something that needs a person."""

    kind: str  # what is wrong: a name that never changes
    what: str  # the subject, in words that stay the same from run to run
    why: str  # what was seen and what it means
    what_to_do: str  # what a person can do about it
    topic: str | None = None  # name of the topic concerned, ``None`` where it is none or not one
    metadata_partition: int | None = None  # where it lies, ``None`` where it lies in none
    offset: int | None = None  # of the record that shows it, ``None`` where there is none
    acknowledgeable: bool = True  # whether it can be acknowledged; what is wrong with one run cannot
    count: int = 1  # how many things it stands for: where a list ends early its last one stands for the rest

    @classmethod
    def of_refusal(cls, refusal: Refusal, metadata_partition: int | None = None) -> Attention:
        """
        Return what a refusal asks of a person.

        :param refusal: one whose kind needs a person.
        :param metadata_partition: where it was met, if it does not say itself.
        """
        where = metadata_partition if refusal.metadata_partition is None else refusal.metadata_partition
        # "37 more" names nothing: who acknowledged it would acknowledge any 37.
        names_something = where is not None or refusal.topic is not None
        return cls(
            refusal.kind.value, refusal.what, refusal.why, refusal.what_to_do, refusal.topic, where, refusal.offset,
            acknowledgeable=names_something and refusal.kind not in _OF_ONE_RUN, count=refusal.count,
        )  # fmt: skip

    @property
    def key(self) -> ProblemKey:
        """What an acknowledgement must name. Several user partitions can be refused for one record: then it names which."""
        vague = self.kind in _VAGUE
        one_record = self.topic is None and self.offset is not None and self.metadata_partition is not None
        what = None if one_record and not vague else _bounded(f"{self.what}: {self.why}" if vague else self.what)
        return ProblemKey(self.kind, self.metadata_partition, self.offset, self.topic and _bounded(self.topic), what)

    def __str__(self) -> str:
        topic = None if self.topic is None else name_in_text(self.topic)
        where = {"topic": topic, "metadata partition": self.metadata_partition, "offset": self.offset}
        place = ", ".join(f"{name} {value}" for name, value in where.items() if value is not None)
        return f"{self.kind} {self.what}{f' ({place})' if place else ''}: {self.why}"


def _bounded(text: str) -> str:
    """Keep names that a hostile record made up within what an acknowledgement may hold, and still apart."""
    if len(text) <= MAX_CHARACTERS:
        return text
    return f"{text[:200]}… sha256:{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()}"


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """A person's word that a problem is known."""

    cluster_id: str  # the cluster in which the problem is
    key: ProblemKey  # the problem
    until_ms: int  # from then on it counts no more, ms since the epoch
    by: str  # who
    why: str  # why the problem may stay for a while


@dataclass(frozen=True, slots=True)
class Acknowledgements:
    """What :func:`read_acknowledgements` found."""

    known: tuple[Acknowledgement, ...] = ()  # those that can be understood, expired ones too
    problems: tuple[Attention, ...] = ()  # one for each that cannot


_KEY_TEXTS = ("kind", "topic", "what")
_KEY_NUMBERS = ("metadata_partition", "offset")
_TEXTS = ("cluster_id", "by", "why", "until")
FIELDS = (*_TEXTS, *_KEY_TEXTS, *_KEY_NUMBERS)
"""Every field of an acknowledgement."""


def read_acknowledgements(text: str | None, now_ms: int, source: str) -> Acknowledgements:
    """
    Read acknowledgements: a JSON list of objects with :data:`FIELDS`.

    What cannot be understood is a problem of its own and acknowledges nothing; the others count all the same.

    :param text: the list, ``None`` where there is none.
    :param now_ms: ms since the epoch.
    :param source: where it came from, in words.
    """
    if text is None:
        return Acknowledgements()
    try:
        entries = json.loads(text, object_pairs_hook=_no_field_twice)
        if not isinstance(entries, list):
            raise ValueError("it is no list")
        if len(entries) > MAX_ACKNOWLEDGEMENTS:
            raise ValueError(
                f"it has {number_of(len(entries), 'entry', 'entries')}, {MAX_ACKNOWLEDGEMENTS} are allowed"
            )
    except (ValueError, RecursionError) as e:
        return unreadable_acknowledgements(source, str(e))
    known, problems = [], []
    for number, entry in enumerate(entries, 1):
        try:
            known.append(_acknowledgement(entry, now_ms))
        except ValueError as e:
            problems.append(_not_understood(f"entry {number} of {source}", str(e)))
    return Acknowledgements(tuple(known), tuple(problems))


def unreadable_acknowledgements(source: str, why: str) -> Acknowledgements:
    """
    Return what there is where the whole list cannot be read: none counts, which is a problem.

    :param source: where the list was to come from, in words.
    :param why: the error.
    """
    return Acknowledgements(problems=(_not_understood(source, f"nothing in it counts: {why}"),))


def _not_understood(what: str, why: str) -> Attention:
    todo = "correct it or take it out: until then it acknowledges nothing"
    return Attention(RunProblem.ACKNOWLEDGEMENT.value, what, why, todo, acknowledgeable=False)


def _no_field_twice(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError(f"a field is there twice among {[name for name, _ in pairs]}")
    return found


def _acknowledgement(entry: object, now_ms: int) -> Acknowledgement:
    if not isinstance(entry, dict):
        raise ValueError("it is no JSON object")
    if unknown := sorted(entry.keys() - set(FIELDS)):
        raise ValueError(f"unknown fields {unknown}; known are {sorted(FIELDS)}")
    if missing := sorted({*_TEXTS, "kind"} - entry.keys()):
        raise ValueError(f"fields {missing} are missing")
    for name, value in entry.items():
        if name in _KEY_NUMBERS:
            if type(value) is not int or value < 0:
                raise ValueError(f"{name} must be an integer of 0 or more, got {value!r:.100}")
        elif not isinstance(value, str) or not value.strip() or len(value) > MAX_CHARACTERS:
            raise ValueError(f"{name} must be a text of 1 to {MAX_CHARACTERS} characters, got {value!r:.100}")
    if "what" not in entry and not entry.keys() >= set(_KEY_NUMBERS):
        raise ValueError("it must name a record by metadata_partition and offset, or a subject by what")
    key = ProblemKey(**{name: entry[name] for name in (*_KEY_TEXTS, *_KEY_NUMBERS) if name in entry})
    return Acknowledgement(entry["cluster_id"], key, _expiry(entry["until"], now_ms), entry["by"], entry["why"])


def _expiry(until: str, now_ms: int) -> int:
    try:
        time = datetime.fromisoformat(until)
    except ValueError:
        example = iso_time(now_ms + SUGGESTED_MS)
        raise ValueError(f"until must be a time such as {example}, got {until!r:.100}") from None
    if time.tzinfo is None:
        raise ValueError(f"until must name its time zone, such as {until}Z")
    until_ms = int(time.timestamp() * 1000)
    if until_ms < 0:
        raise ValueError(f"until is {until}: no acknowledgement is that old")
    if until_ms > now_ms + MAX_ACKNOWLEDGED_MS:
        latest, days = iso_time(now_ms + MAX_ACKNOWLEDGED_MS), MAX_ACKNOWLEDGED_MS // DAY_MS
        raise ValueError(f"until is {until}, an acknowledgement may reach {latest} at most ({number_of(days, 'day')})")
    return until_ms


@dataclass(frozen=True, slots=True)
class ReportedWord:
    """What a person has said about a problem, as a report shows it."""

    by: LongText  # who
    why: LongText  # why the problem may stay for a while
    until: LongText  # when that ends, as acknowledgements spell it
    expired: bool  # whether it counts no more


@dataclass(frozen=True, slots=True)
class ReportedProblem:
    """Something that needs a person, and what was said about it, as a report shows it: see :class:`Attention`."""

    kind: LongText
    what: LongText
    why: LongText
    what_to_do: LongText
    topic: LongText | None
    metadata_partition: int | None
    offset: int | None
    count: Annotated[int, AbsentAs(1)]
    acknowledgement: ReportedWord | None  # the one that reaches furthest, ``None`` where there is none
    acknowledge_with: PlainJson | None  # what would acknowledge it, to be signed; ``None`` where nothing can


@dataclass(frozen=True, slots=True)
class JudgedAttention:
    """A problem and what was said about it."""

    attention: Attention  # the problem
    acknowledgement: Acknowledgement | None = None  # the one that reaches furthest, ``None`` where there is none
    expired: bool = False  # whether it counts no more

    def entry(self, cluster_id: str, now_ms: int) -> ReportedProblem:
        """
        Return the entry of a report.

        :param cluster_id: the cluster, for the acknowledgement that is suggested.
        :param now_ms: ms since the epoch.
        """
        problem, found = self.attention, self.acknowledgement
        said = None if found is None else ReportedWord(found.by, found.why, iso_time(found.until_ms), self.expired)
        return ReportedProblem(
            kind=problem.kind,
            what=problem.what,
            why=problem.why,
            what_to_do=problem.what_to_do,
            topic=problem.topic,
            metadata_partition=problem.metadata_partition,
            offset=problem.offset,
            count=problem.count,
            acknowledgement=said,
            acknowledge_with=self.suggestion(cluster_id, now_ms),
        )

    def suggestion(self, cluster_id: str, now_ms: int) -> dict[str, Any] | None:
        """
        Return the acknowledgement that would cover the problem, with ``by`` and ``why`` to fill in; ``None`` if none can.

        :param cluster_id: the cluster.
        :param now_ms: ms since the epoch.
        """
        if not self.attention.acknowledgeable:
            return None
        word = {"until": iso_time(now_ms + SUGGESTED_MS), "by": "", "why": ""}
        return {"cluster_id": cluster_id, **self.attention.key.to_dict(), **word}


@dataclass(frozen=True, slots=True)
class Judgement:
    """What fails a run, and what would have failed it without an acknowledgement."""

    failing: tuple[JudgedAttention, ...] = ()  # what needs a person now
    acknowledged: tuple[JudgedAttention, ...] = ()  # what a person has seen; it is shown and fails nothing

    @property
    def things(self) -> int:
        """How many things need a person: the one count that report, summary, pages, messages and metrics have."""
        return sum(judged.attention.count for judged in self.failing)

    def headline(self) -> str:
        """Say in a line or two how many problems there are, the first of them and what to do; empty where there is none."""
        if not self.failing:
            return ""
        first = self.failing[0]
        count = f"{self.things:,} thing{'s need' if self.things > 1 else ' needs'} a person"
        until = first.acknowledgement and iso_time(first.acknowledgement.until_ms)
        expired = f" (its acknowledgement expired at {until})" if first.expired else ""
        problem = printable(str(first.attention), MAX_HEADLINE)
        return f"{count}. The first: {problem}{expired}. What to do: {printable(first.attention.what_to_do, MAX_HEADLINE)}."


def judge(
    problems: Iterable[Attention], acknowledged: Iterable[Acknowledgement], cluster_id: str, now_ms: int
) -> Judgement:
    """
    Tell what fails a run from what a person has seen.

    :param problems: what needs a person, in the order of a report; of those with one key the first is kept.
    :param acknowledged: acknowledgements, of any cluster.
    :param cluster_id: the cluster in which the problems are.
    :param now_ms: ms since the epoch.
    """
    latest: dict[ProblemKey, Acknowledgement] = {}
    for word in sorted(acknowledged, key=lambda a: a.until_ms):
        if word.cluster_id == cluster_id:
            latest[word.key] = word
    # Two tasks of a run may meet the same problem. What cannot be acknowledged is told apart by its words too: two are two.
    first: dict[object, Attention] = {}
    for problem in problems:
        first.setdefault(problem.key if problem.acknowledgeable else problem, problem)
    failing, seen = [], []
    for problem in first.values():
        found = latest.get(problem.key) if problem.acknowledgeable else None
        if found is not None and now_ms < found.until_ms:
            seen.append(JudgedAttention(problem, found))
        else:
            failing.append(JudgedAttention(problem, found, expired=found is not None))
    return Judgement(tuple(failing), tuple(seen))


def iso_time(timestamp_ms: int) -> str:
    """
    Return a time as acknowledgements spell it, such as ``2026-02-03T04:05:06+00:00``.

    :param timestamp_ms: ms since the epoch.
    """
    return datetime.fromtimestamp(timestamp_ms // 1000, UTC).isoformat()
