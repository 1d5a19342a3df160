# SPDX-License-Identifier: Apache-2.0
"""
Do living topics have copies where the connection does not look?

What lies below a key prefix that the connection does not name is not listed, so it looks deleted. Custom metadata tell of
such a prefix, if only those of some segments: one copy of a living topic there shows that the connection does not name all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from airflow_provider_rlmm.core.base.arrow_arrays import filled, numpy_of
from airflow_provider_rlmm.core.base.errors import ForeignPrefixError, StorageRootError, UnsafeObjectKeyError
from airflow_provider_rlmm.core.base.quoting import in_quotes, name_in_text
from airflow_provider_rlmm.core.records.segment_rows import OF_METADATA, metadata_of
from airflow_provider_rlmm.core.storage.layout import Layout
from airflow_provider_rlmm.core.world.absence import Presence
from airflow_provider_rlmm.core.world.cluster_look import look
from airflow_provider_rlmm.core.world.topic_view import TopicReplay

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.records.fold.selected import SelectedSegments

_NAMED: Final = 3
_MAY_LIVE: Final = (Presence.PRESENT, Presence.DENIED)
_AT_ONCE: Final = 1 << 16
_OF_A_COPY: Final = (*OF_METADATA, "metadata_partition", "event_offset")
_MOST_PREFIXES: Final = 100
"""So many are told apart: a writer that makes them up is not to keep us busy."""


def require_known_places(
    topic: TopicReplay, living: Collection[UUID], layout: Layout, *, nothing: str = "nothing is deleted"
) -> None:
    """
    Refuse a connection that does not name every prefix below which copies of living topics lie. Nothing is changed.

    Custom metadata that cannot be read, or that name another key, refuse nothing here: the doctor tells of them.

    :param topic: the metadata topic, as far as it was read.
    :param living: ids of the topics that are known to exist; others are asked for by name where they have such a copy.
    :param layout: knows the prefixes of the connection.
    :param nothing: what a refusal prevents, for the message.
    :raises StorageRootError: naming each prefix, its topics, one record of each, and what to set; or if there are too many to
        tell.
    :raises ClusterMismatchError: if the topics are those of another cluster than the log.
    :raises EventLogError: if the cluster cannot be asked.
    """
    found = _foreign(topic.not_finished.copied().with_custom_metadata(), layout)
    gone = {topic_id for prefix in found for topic_id in prefix.topics} - set(living)
    if gone:
        asked = {topic_id: names for topic_id, names in topic.names().items() if topic_id in gone}
        # What may not be described may live.
        gone = {i for i, o in look(topic.topics, topic.log, asked).observations.items() if o.presence not in _MAY_LIVE}
    if causes := [prefix.sentence(gone, layout) for prefix in found if prefix.topics.keys() - gone]:
        raise StorageRootError(f"{'; '.join(causes)}. What lies there is not listed: {nothing}")


@dataclass(frozen=True, slots=True)
class _ForeignPrefix:
    """A key prefix that the connection does not name."""

    prefix: str
    # Topic id → name, metadata partition and offset of one copy there.
    topics: dict[UUID, tuple[str, int, int]] = field(default_factory=dict)

    def note(self, copies: SelectedSegments) -> None:
        """Remember the topics of copies there, each with its first one."""
        for row in copies.first_of_topics().table(_OF_A_COPY).to_pylist():
            told = row["topic"], row["metadata_partition"], row["event_offset"]
            self.topics.setdefault(UUID(bytes=row["topic_id"]), told)

    def sentence(self, gone: Collection[UUID], layout: Layout) -> str:
        """Say who has copies there, and what to set."""
        living = sorted(told for topic_id, told in self.topics.items() if topic_id not in gone)
        names = ", ".join(name_in_text(name) for name, _, _ in living[:_NAMED])
        more = f" and {len(living) - _NAMED} more" if len(living) > _NAMED else ""
        _, metadata_partition, offset = living[0]
        return (
            f"living topics have copies below the key prefix {in_quotes(self.prefix)}, which is neither key_prefix nor one "
            f"of former_key_prefixes of the rlmm connection ({names}{more}; see metadata partition {metadata_partition}, "
            f"offset {offset}): {_what_to_set(self.prefix, layout)}"
        )


def _what_to_set(prefix: str, layout: Layout) -> str:
    if any(place.twin == prefix for place in layout.places):
        return f"did you mean {in_quotes(prefix)}? Correct key_prefix or former_key_prefixes, letter by letter"
    return f"add {in_quotes(prefix)} to former_key_prefixes, or correct key_prefix if brokers write there now"


def _foreign(copied: SelectedSegments, layout: Layout) -> list[_ForeignPrefix]:
    """Return each key prefix that copies name and the connection does not, with all topics that have such a copy."""
    found: dict[str, _ForeignPrefix] = {}
    # A block at a time: the custom metadata of all of them may be larger than all that is told of them.
    for start in range(0, copied.size, _AT_ONCE):
        _note_foreign(copied.at(slice(start, start + _AT_ONCE)), layout, found)
    return list(found.values())


def _note_foreign(copied: SelectedSegments, layout: Layout, found: dict[str, _ForeignPrefix]) -> None:
    """Add what some copies name to the prefixes that are found already."""
    import numpy as np

    custom = copied.table(["custom_metadata"]).column("custom_metadata")
    settled = numpy_of(filled(layout.names_only(custom), False)).copy()

    def note(prefix: _ForeignPrefix, *also: int) -> None:
        same = numpy_of(filled(layout.names_only(custom, (prefix.prefix,)), False)) & ~settled
        same[[*also]] = True
        prefix.note(copied.at(same))
        np.logical_or(settled, same, out=settled)

    if settled.all():
        return
    for prefix in found.values():
        note(prefix)
    for number in np.flatnonzero(~settled).tolist():
        if settled[number]:
            continue
        settled[number] = True
        row = copied.at(slice(number, number + 1)).table(_OF_A_COPY).to_pylist()[0]
        try:
            layout.places_of(metadata_of(row))
        except ForeignPrefixError as e:
            if e.prefix not in found and len(found) >= _MOST_PREFIXES:
                raise StorageRootError(_too_many(e.prefix, row)) from None
            note(found.setdefault(e.prefix, _ForeignPrefix(e.prefix)), number)
        except UnsafeObjectKeyError:
            continue


def _too_many(prefix: str, row: Mapping[str, Any]) -> str:
    return (
        f"copies name more than {_MOST_PREFIXES} key prefixes that are none of the rlmm connection's, and it cannot be told "
        f"whether copies of living topics lie below them (see metadata partition {row['metadata_partition']}, offset "
        f"{row['event_offset']}: {in_quotes(prefix)}): add former key.prefixes of the brokers to former_key_prefixes, or "
        "find out who writes such records"
    )
