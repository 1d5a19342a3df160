# SPDX-License-Identifier: Apache-2.0
"""What is never touched, whatever else allows it: topics under a legal hold, by name, pattern or id."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.plans.refusals import Refusal, RefusalKind
from airflow_provider_rlmm.core.records.records import TopicIdPartition, kafka_uuid_str

_ENTRY = re.compile(r"[A-Za-z0-9._*?-]{1,249}")
_NEAREST = 3
_ADVICE = "correct the entry, or take it out; for a topic that does not exist yet write a pattern, such as {pattern!r}"


@dataclass(frozen=True, slots=True)
class KnownTopics:
    """
    What log and cluster name together.

    :param names: of topics.
    :param ids: of topics, in Kafka's form.
    """

    names: frozenset[str]
    ids: frozenset[str]

    def unknown(self, entry: str) -> UnknownEntry | None:
        """
        Return what there is no topic of, ``None`` where one has that name or id.

        :param entry: a name or an id.
        """
        return None if entry in self.names or entry in self.ids else UnknownEntry(entry, _nearest(entry, self.names))


@dataclass(frozen=True, slots=True)
class UnknownEntry:
    """
    A name or an id in a hold that neither log nor cluster knows: whoever wrote it believes that something is held.

    :param entry: as it was written.
    :param nearest: names that resemble it, the nearest first.
    """

    entry: str
    nearest: tuple[str, ...]

    @property
    def meant(self) -> str:
        """What may be meant, as the end of a sentence; empty where nothing resembles it."""
        return f"; did you mean {' or '.join(map(repr, self.nearest))}?" if self.nearest else ""

    @property
    def why(self) -> str:
        """What is wrong with it."""
        return (
            f"the hold names {self.entry!r}, and neither log nor cluster knows a topic of that name or id{self.meant}"
        )

    @property
    def what_to_do(self) -> str:
        """What a person can do about it."""
        return _ADVICE.format(pattern=f"{self.entry}*")

    def to_refusal(self) -> Refusal:
        """Return what a run says that goes on."""
        what = f"the entry {self.entry!r} of the hold"
        return Refusal(what, self.why, self.what_to_do, RefusalKind.UNKNOWN_HOLD, topic=self.entry)


@dataclass(frozen=True, slots=True)
class Hold:
    """
    Topics that are held.

    :param entries: topic names, patterns of names with ``*`` and ``?``, and topic ids in Kafka's base64 form.
    :raises ConfigurationError: if an entry can be none of these: it would protect nothing, silently.
    """

    entries: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for entry in self.entries:
            if not isinstance(entry, str) or not _ENTRY.fullmatch(entry):
                raise ConfigurationError(
                    f"hold entry {str(entry)[:300]!r} is no topic name, no pattern of one with * and ?, and no topic id"
                )

    @classmethod
    def of(cls, *sources: str | Iterable[str] | None) -> Hold:
        """
        Put holds of several sources together: what any of them names is held.

        :param sources: lists of entries, or texts with entries separated by commas or white space; ``None`` for none.
        :raises ConfigurationError: see :class:`Hold`.
        """
        entries: list[str] = []
        for source in sources:
            entries += re.split(r"[\s,]+", source.strip()) if isinstance(source, str) else (source or ())
        return cls(tuple(dict.fromkeys(entry for entry in entries if entry != "")))

    def unknown(self, topics: KnownTopics) -> list[UnknownEntry]:
        """
        Return the names and ids that nothing answers to. A pattern may well match nothing today.

        :param topics: what log and cluster name.
        """
        found = (topics.unknown(entry) for entry in self.entries if not _is_pattern(entry))
        return [entry for entry in found if entry is not None]

    def in_words(self, topics: KnownTopics) -> str:
        """
        Return what is held, counted: names and ids, patterns, and how many topics they match now.

        :param topics: what log and cluster name.
        """
        patterns = sum(map(_is_pattern, self.entries))
        known = topics.names | topics.ids
        held = {name for name in known if any(fnmatchcase(name, entry) for entry in self.entries)}
        return f"{len(self.entries) - patterns} names and ids, {patterns} patterns; they match {len(held)} names and ids now"

    def refusal_of(self, tip: TopicIdPartition, names: Iterable[str]) -> Refusal | None:
        """
        Return why a user partition must not be touched, ``None`` where nothing holds it.

        :param tip: the user partition.
        :param names: every name that its topic was seen under.
        """
        known = (kafka_uuid_str(tip.topic_id), tip.topic, *names)
        entry = next((entry for entry in self.entries if any(fnmatchcase(name, entry) for name in known)), None)
        if entry is None:
            return None
        why = f"it is held by the entry {entry!r}"
        return Refusal(str(tip), why, "nothing, or take the entry out of the hold", RefusalKind.HELD, topic=tip.topic)


def _is_pattern(entry: str) -> bool:
    return "*" in entry or "?" in entry


def _nearest(entry: str, names: Iterable[str]) -> tuple[str, ...]:
    from difflib import get_close_matches

    by_spelling = {name.lower(): name for name in sorted(names, reverse=True)}
    return tuple(by_spelling[found] for found in get_close_matches(entry.lower(), by_spelling, _NEAREST))


HoldSource = Callable[[], Hold]
"""Returns the hold as of now: it is asked before every batch, as a hold may begin while a run is under way."""


def nothing_held() -> Hold:
    """Return the empty hold."""
    return Hold()
