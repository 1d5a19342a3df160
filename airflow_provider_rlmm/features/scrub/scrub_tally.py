# SPDX-License-Identifier: Apache-2.0
"""How much a scrub has found, summed up while its rows are written: by class, by topic, and of what must stay."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from airflow_provider_rlmm.core.base.arrow_arrays import filled
from airflow_provider_rlmm.core.base.arrow_groups import groups_of
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.features.scrub.rules import ScrubClass
from airflow_provider_rlmm.features.scrub.scrub_summary import MAX_KEYS, Amount, TopicAmount, UnnamedTopic
from airflow_provider_rlmm.features.scrub.unnamed import BARRING, UNNAMED, Kept, that_bar, why_kept

if TYPE_CHECKING:
    import pyarrow as pa

_NOTHING: Final = Amount(0, 0)
_NEVER: Final = 2**63 - 1


@dataclass(slots=True)
class _Topic:
    """What there is of one class of one topic."""

    amount: Amount = _NOTHING
    oldest_ms: int = _NEVER


@dataclass(slots=True)
class _Staying:
    """Objects of one topic that stay for one reason."""

    bars: bool
    amount: Amount = _NOTHING
    keys: list[str] = field(default_factory=list)


class ScrubTally:
    """
    Sums of all that a scrub has found.

    :param unmarkable: topic id and partition of objects that no record names and for which no marker will ever come.
    """

    def __init__(self, unmarkable: Collection[tuple[bytes, int]]) -> None:
        self.classes: dict[str, Amount] = {}
        """Per class."""
        self._unmarkable = unmarkable
        self._topics: dict[tuple[str, bytes, str], _Topic] = {}
        self._staying: dict[tuple[bytes, str, str], _Staying] = {}

    def note(self, kind: str, rows: pa.Table) -> None:
        """
        Count rows.

        :param kind: their class.
        :param rows: with what the cluster says of them.
        """
        self.classes[kind] = self.classes.get(kind, _NOTHING) + Amount.of(rows)
        self._note_topics(kind, rows)
        if kind in UNNAMED:
            for row in rows.to_pylist():
                self._note_unnamed(row)
        elif kind in BARRING:
            for row in that_bar(rows).to_pylist():
                self._note_staying(row, row["why"], bars=True)

    def _note_topics(self, kind: str, rows: pa.Table) -> None:
        import pyarrow.compute as pc

        named = rows.filter(pc.is_valid(rows.column("topic_id")))
        at, names = named.schema.get_field_index("last_modified_ms"), ["topic_id", "topic"]
        named = named.set_column(at, "last_modified_ms", filled(named.column("last_modified_ms"), _NEVER))
        groups = groups_of(named, names)
        keys = groups.keys(names)
        numbers = groups.rows(), groups.total("bytes"), groups.least("last_modified_ms")
        columns = (*(keys.column(name).to_pylist() for name in names), *(n.tolist() for n in numbers))
        for topic_id, topic, count, size, oldest_ms in zip(*columns, strict=True):
            found = self._topics.setdefault((kind, topic_id, topic), _Topic())
            found.amount += Amount(count, size)
            found.oldest_ms = min(found.oldest_ms, oldest_ms)

    def _note_unnamed(self, row: dict[str, Any]) -> None:
        # Waits need not be told here.
        kept = why_kept(
            row["class"],
            presence=row["presence"],
            marked_ms=row["marked_ms"],
            last_modified_ms=row["last_modified_ms"],
            now_ms=None,
            min_absence_ms=0,
        )
        if kept is Kept.UNMARKED and (row["topic_id"], row["partition"]) in self._unmarkable:
            kept = Kept.UNMARKABLE
        if kept not in (Kept.NOT_ABSENT, Kept.YOUNGER, Kept.UNMARKABLE):
            return
        bars = kept is Kept.NOT_ABSENT
        why = row["why"] if bars else f"{row['why']}; {kept.value}"
        self._note_staying(row, why, bars=bars)

    def _note_staying(self, row: Mapping[str, Any], why: str, *, bars: bool) -> None:
        found = self._staying.setdefault((row["topic_id"], row["topic"], why), _Staying(bars))
        found.amount += Amount(1, row["bytes"])
        if len(found.keys) < MAX_KEYS:
            found.keys.append(row["key"])

    def topics(self) -> tuple[TopicAmount, ...]:
        """Return how much there is of each class of each topic, the largest first."""
        found = [
            TopicAmount(
                ScrubClass(kind), topic, kafka_uuid_str(UUID(bytes=topic_id)), of_topic.amount.objects, of_topic.amount.bytes,
                None if of_topic.oldest_ms == _NEVER else of_topic.oldest_ms,
            )
            for (kind, topic_id, topic), of_topic in self._topics.items()
        ]  # fmt: skip
        return tuple(sorted(found, key=lambda amount: (-amount.bytes, amount.topic_id, amount.kind)))

    def unnamed(self) -> tuple[UnnamedTopic, ...]:
        """Return what no record names and must stay, waits or not: the largest first."""
        topics = [
            UnnamedTopic(
                topic, kafka_uuid_str(UUID(bytes=topic_id)), why, staying.bars, staying.amount.objects, staying.amount.bytes,
                tuple(staying.keys),
            )
            for (topic_id, topic, why), staying in self._staying.items()
        ]  # fmt: skip
        return tuple(sorted(topics, key=lambda topic: (-topic.bytes, topic.topic_id, topic.why)))
