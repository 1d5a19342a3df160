# SPDX-License-Identifier: Apache-2.0
"""
Who may read from a catalogue. Pure.

A bucket is a way round the rights and the deletions of Kafka. So nothing of a catalogue is read before a setting allows the
topic, and a person says of its id that it was not deleted; what a person calls erased is never read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from uuid import UUID

from airflow_provider_rlmm.core.base.errors import CatalogueError, ConfigurationError
from airflow_provider_rlmm.core.base.quoting import in_quotes
from airflow_provider_rlmm.core.records.records import kafka_uuid_str, parse_kafka_uuid


@dataclass(frozen=True, slots=True)
class CatalogueLeave:
    """
    What people have said of reading from a catalogue.

    :param allowed: topics that the settings allow, names and ids, as the field ``allow_catalogue`` has them.
    :param was_not_deleted: topic ids of which a person says that they were not deleted.
    :param erased: ids of topics and of segments that a person calls erased: they are never read, even if another entry allows
        it.
    """

    allowed: tuple[str, ...] = ()
    was_not_deleted: frozenset[UUID] = frozenset()
    erased: frozenset[UUID] = frozenset()

    def require(self, topic: str | None, topic_id: UUID, *, name_is_certain: bool) -> None:
        """
        Refuse a topic that may not be read.

        :param topic: its name, ``None`` where that is not known.
        :param topic_id: its id.
        :param name_is_certain: whether no other topic id has the name.
        :raises CatalogueError: saying what is missing, and what to type.
        """
        shown = f"topic id {kafka_uuid_str(topic_id)}" + (f" ({in_quotes(topic)})" if topic else "")
        if topic_id in self.erased:
            raise CatalogueError(f"{shown} is in the list of what was erased: nothing of it is read")
        names = {kafka_uuid_str(topic_id), *([topic] if topic and name_is_certain else ())}
        if names.isdisjoint(self.allowed):
            unsure = "" if name_is_certain else ". Its name is not enough, as more than one topic id may have it"
            raise CatalogueError(
                f"{shown} may not be read from a catalogue: allow_catalogue does not name it, and a bucket is a way round "
                f"the rights that Kafka checks. If you may decide that, put {kafka_uuid_str(topic_id)} into "
                f"allow_catalogue{unsure}"
            )
        if topic_id not in self.was_not_deleted:
            raise CatalogueError(
                f"{shown} may have been deleted: a bucket does not know it. If you know that it was not, say so: "
                f"was_not_deleted {kafka_uuid_str(topic_id)}"
            )
        if strangers := sorted(map(kafka_uuid_str, self.was_not_deleted - {topic_id})):
            raise CatalogueError(
                f"{', '.join(strangers)} is said not to have been deleted, and {shown} is read: correct it"
            )


def topics_of(text: str | None) -> tuple[str, ...]:
    """
    Return the topics that the field ``allow_catalogue`` names.

    :param text: names and ids, separated by commas or white space; ``None`` for none.
    :raises ConfigurationError: if one can be neither: a pattern would allow what was not thought of.
    """
    entries = tuple(entry for entry in re.split(r"[\s,]+", text or "") if entry)
    for entry in entries:
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", entry):
            raise ConfigurationError(
                f"allow_catalogue names {in_quotes(entry)}, which is neither a topic id nor the name of a topic; patterns "
                "are not taken: name each topic"
            )
    return entries


def ids_of_list(text: str, what: str) -> frozenset[UUID]:
    """
    Return the ids of a list, one a line; empty lines are left out, as is what follows ``#``.

    :param text: the list.
    :param what: it is, for the error.
    :raises ConfigurationError: if a line is no id: it would protect nothing, silently.
    """
    found = set()
    for number, line in enumerate(text.splitlines(), 1):
        if entry := line.partition("#")[0].strip():
            try:
                found.add(parse_kafka_uuid(entry))
            except ValueError:
                raise ConfigurationError(
                    f"line {number} of {what} is {in_quotes(entry)}, no id in Kafka's form, such as g9LiIua4STiXAgIF9bPVMg"
                ) from None
    return frozenset(found)
