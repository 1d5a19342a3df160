# SPDX-License-Identifier: Apache-2.0
"""What is never touched, whatever else allows it: topics under a legal hold, by name, pattern or id."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from airflow_provider_rlmm.errors import ConfigurationError
from airflow_provider_rlmm.metadata.records import TopicIdPartition, kafka_uuid_str
from airflow_provider_rlmm.policy.refusals import Refusal, RefusalKind

_ENTRY = re.compile(r"[A-Za-z0-9._*?-]{1,249}")


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


HoldSource = Callable[[], Hold]
"""Returns the hold as of now: it is asked before every batch, as a hold may begin while a run is under way."""


def nothing_held() -> Hold:
    """Return the empty hold."""
    return Hold()
