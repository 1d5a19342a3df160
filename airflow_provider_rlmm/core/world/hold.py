# SPDX-License-Identifier: Apache-2.0
"""What is never touched, even if all else allows it: topics under a legal hold, by name, pattern or id."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from airflow_provider_rlmm.core.plans.refusals import Refusal, RefusalKind
from airflow_provider_rlmm.core.records.records import TopicIdPartition, kafka_uuid_str
from airflow_provider_rlmm.core.world.topic_entries import (
    KnownTopics,
    UnknownTopic,
    entries_of,
    first_match,
    is_pattern,
    require_entries,
)

_ADVICE = "correct the entry, or take it out; for a topic that does not exist yet write a pattern, such as {pattern!r}"


@dataclass(frozen=True, slots=True)
class UnknownEntry(UnknownTopic):
    """A name or an id in a hold that neither log nor cluster knows: its writer believes that something is held."""

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
        require_entries("hold", self.entries)

    @classmethod
    def of(cls, *sources: str | Iterable[str] | None) -> Hold:
        """
        Put holds of several sources together: what any of them names is held.

        :param sources: lists of entries, or texts with entries separated by commas or white space; ``None`` for none.
        :raises ConfigurationError: see :class:`Hold`.
        """
        return cls(entries_of(*sources))

    def unknown(self, topics: KnownTopics) -> list[UnknownEntry]:
        """
        Return the names and ids that nothing answers to. A pattern may well match nothing today.

        :param topics: what log and cluster name.
        """
        found = (topics.unknown(entry) for entry in self.entries if not is_pattern(entry))
        return [UnknownEntry(topic.entry, topic.nearest) for topic in found if topic is not None]

    def in_words(self, topics: KnownTopics) -> str:
        """
        Return what is held, counted: names and ids, patterns, and how many topics they match now.

        :param topics: what log and cluster name.
        """
        patterns = sum(map(is_pattern, self.entries))
        known = topics.names | topics.ids
        held = {name for name in known if first_match(self.entries, [name]) is not None}
        return f"{len(self.entries) - patterns} names and ids, {patterns} patterns; they match {len(held)} names and ids now"

    def refusal_of(self, tip: TopicIdPartition, names: Iterable[str]) -> Refusal | None:
        """
        Return why a user partition must not be touched, ``None`` where nothing holds it.

        :param tip: the user partition.
        :param names: every name that its topic was seen under.
        """
        # Patterns may fit an id, too: a hold may be too wide, never too narrow.
        known = (kafka_uuid_str(tip.topic_id), tip.topic, *names)
        if (entry := first_match(self.entries, known)) is None:
            return None
        why = f"it is held by the entry {entry!r}"
        return Refusal(str(tip), why, "nothing, or take the entry out of the hold", RefusalKind.HELD, topic=tip.topic)


HoldSource = Callable[[], Hold]
"""Returns the hold as of now: it is asked before every batch, as a hold may begin while a run is under way."""


def nothing_held() -> Hold:
    """Return the empty hold."""
    return Hold()
