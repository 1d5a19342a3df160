# SPDX-License-Identifier: Apache-2.0
"""How a person names topics in a list, such as a hold: by name, by a pattern of names, or by id."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from airflow_provider_rlmm.core.base.errors import ConfigurationError

_ENTRY = re.compile(r"[A-Za-z0-9._*?-]{1,249}")
_NEAREST = 3


@dataclass(frozen=True, slots=True)
class UnknownTopic:
    """
    A name or an id that neither log nor cluster knows.

    :param entry: as it was written.
    :param nearest: names that resemble it, the nearest first.
    """

    entry: str
    nearest: tuple[str, ...]

    @property
    def meant(self) -> str:
        """What may be meant, as the end of a sentence; empty where nothing resembles it."""
        return f"; did you mean {' or '.join(map(repr, self.nearest))}?" if self.nearest else ""


@dataclass(frozen=True, slots=True)
class KnownTopics:
    """
    What log and cluster name together.

    :param names: of topics.
    :param ids: of topics, in Kafka's form.
    """

    names: frozenset[str]
    ids: frozenset[str]

    def unknown(self, entry: str) -> UnknownTopic | None:
        """
        Return what there is no topic of, ``None`` where one has that name or id.

        :param entry: a name or an id.
        """
        return None if entry in self.names or entry in self.ids else UnknownTopic(entry, _nearest(entry, self.names))

    def unmatched(self, entry: str) -> UnknownTopic | None:
        """
        Return what no topic answers to, ``None`` where one does.

        :param entry: a name, an id, or a pattern of names.
        """
        if not is_pattern(entry):
            return self.unknown(entry)
        matched = any(fnmatchcase(name, entry) for name in self.names)
        return None if matched else UnknownTopic(entry, ())


def require_entries(what: str, entries: Iterable[object]) -> None:
    """
    Refuse what can name no topic: it would be of no effect, silently.

    :param what: what the list is called.
    :param entries: topic names, patterns of names with ``*`` and ``?``, and topic ids in Kafka's base64 form.
    :raises ConfigurationError: naming the entry.
    """
    for entry in entries:
        if not isinstance(entry, str) or not _ENTRY.fullmatch(entry):
            raise ConfigurationError(
                f"{what} entry {str(entry)[:300]!r} is no topic name, no pattern of one with * and ?, and no topic id"
            )


def entries_of(*sources: str | Iterable[str] | None) -> tuple[str, ...]:
    """
    Put lists of several sources together, each entry once.

    :param sources: lists of entries, or texts with entries separated by commas or white space; ``None`` for none.
    """
    entries: list[str] = []
    for source in sources:
        entries += re.split(r"[\s,]+", source.strip()) if isinstance(source, str) else (source or ())
    return tuple(dict.fromkeys(entry for entry in entries if entry != ""))


def first_match(entries: Iterable[str], names: Collection[str]) -> str | None:
    """
    Return the first entry that names a topic, ``None`` where none does.

    :param entries: of a list.
    :param names: every name of the topic, and its id in Kafka's form.
    """
    return next((entry for entry in entries if any(fnmatchcase(name, entry) for name in names)), None)


def names_topic(entries: Collection[str], names: Collection[str], topic_id: str) -> bool:
    """
    Tell whether an entry names a topic. Patterns are of names: an id that happens to fit one is not meant.

    :param entries: of a list.
    :param names: every name of the topic.
    :param topic_id: its id in Kafka's form.
    """
    return topic_id in entries or first_match(entries, names) is not None


def is_pattern(entry: str) -> bool:
    """
    Tell whether an entry is a pattern of names.

    :param entry: of a list.
    """
    return "*" in entry or "?" in entry


def names_like(entry: str, names: Iterable[str]) -> str:
    """
    Say which names may be meant, as the end of a sentence; empty where none resembles it.

    :param entry: a name that there is not.
    :param names: of topics.
    """
    return UnknownTopic(entry, _nearest(entry, names)).meant


def _nearest(entry: str, names: Iterable[str]) -> tuple[str, ...]:
    from difflib import get_close_matches

    by_spelling = {name.lower(): name for name in sorted(names, reverse=True)}
    return tuple(by_spelling[found] for found in get_close_matches(entry.lower(), by_spelling, _NEAREST))
