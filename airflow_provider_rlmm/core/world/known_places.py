# SPDX-License-Identifier: Apache-2.0
"""
Do living topics have copies where the connection does not look?

What lies below a key prefix that the connection does not name is not listed, so it looks deleted. Custom metadata tell of
such a prefix, if only those of some segments: one copy of a living topic there shows that the connection does not name all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from airflow_provider_rlmm.core.base.arrow_arrays import array_of, equals, filled, numpy_of
from airflow_provider_rlmm.core.base.arrow_groups import groups_of
from airflow_provider_rlmm.core.base.errors import ForeignPrefixError, StorageRootError, UnsafeObjectKeyError
from airflow_provider_rlmm.core.base.quoting import in_quotes, name_in_text
from airflow_provider_rlmm.core.records.segment_rows import metadata_of
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.core.storage.layout import Layout
from airflow_provider_rlmm.core.world.absence import Presence
from airflow_provider_rlmm.core.world.cluster_look import look
from airflow_provider_rlmm.core.world.topic_view import TopicReplay

if TYPE_CHECKING:
    import pyarrow as pa

_NAMED: Final = 3
_MAY_LIVE: Final = (Presence.PRESENT, Presence.DENIED)
_MOST_PREFIXES: Final = 100
"""So many are told apart: whoever makes them up is not to keep us busy."""


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
    found = list(_foreign(_copied(topic.segments), layout))
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


def _copied(segments: pa.Table) -> pa.Table:
    """Return the copied segments that have custom metadata."""
    import pyarrow.compute as pc

    copied = equals(segments.column("state"), int(RemoteLogSegmentState.COPY_SEGMENT_FINISHED))
    return segments.filter(pc.and_(copied, pc.is_valid(segments.column("custom_metadata"))))


def _foreign(copied: pa.Table, layout: Layout) -> Iterator[_ForeignPrefix]:
    """Yield each key prefix that copies name and the connection does not, with all topics that have such a copy."""
    import numpy as np

    custom = copied.column("custom_metadata")
    settled = numpy_of(filled(layout.names_only(custom), False))
    found = 0
    for number in np.flatnonzero(~settled).tolist():
        if settled[number]:
            continue
        settled[number] = True
        try:
            layout.places_of(metadata_of(copied.slice(number, 1).to_pylist()[0]))
        except ForeignPrefixError as e:
            found += 1
            if found > _MOST_PREFIXES:
                raise StorageRootError(_too_many(e.prefix, copied.slice(number, 1).to_pylist()[0])) from None
            same = numpy_of(filled(layout.names_only(custom, (e.prefix,)), False)) & ~settled
            same[number] = True
            settled |= same
            yield _with_topics(e.prefix, copied.filter(array_of(same)))
        except UnsafeObjectKeyError:
            continue


def _too_many(prefix: str, row: Mapping[str, Any]) -> str:
    return (
        f"copies name more than {_MOST_PREFIXES} key prefixes that are none of the rlmm connection's, and nobody can tell "
        f"whether copies of living topics lie below them (see metadata partition {row['metadata_partition']}, offset "
        f"{row['event_offset']}: {in_quotes(prefix)}): add former key.prefixes of the brokers to former_key_prefixes, or "
        "find out who writes such records"
    )


def _with_topics(prefix: str, copies: pa.Table) -> _ForeignPrefix:
    columns = ("topic", "metadata_partition", "event_offset")
    rows = groups_of(copies, ["topic_id"]).keys(["topic_id", *columns]).to_pylist()
    return _ForeignPrefix(
        prefix,
        {UUID(bytes=row["topic_id"]): (row["topic"], row["metadata_partition"], row["event_offset"]) for row in rows},
    )
