# SPDX-License-Identifier: Apache-2.0
"""What the cluster and the markers in the log say of objects that no record names; nothing is changed."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from airflow_provider_rlmm.core.base.arrow_arrays import array_of
from airflow_provider_rlmm.core.base.arrow_groups import groups_of
from airflow_provider_rlmm.core.log.protocol import ClusterTopics, MetadataLogReader
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.core.world.absence import Observation, Presence, first_observation
from airflow_provider_rlmm.core.world.cluster_look import look
from airflow_provider_rlmm.features.scrub.scrub_reading import ScrubReading
from airflow_provider_rlmm.features.scrub.unnamed import UNNAMED, are_unnamed

if TYPE_CHECKING:
    import pyarrow as pa


_NONE_LEFT = "no record that is left names its segment"


@dataclass(frozen=True, slots=True)
class Observed:
    """One look at the topic ids of some objects."""

    of_topic: dict[UUID, Observation]  # topic id → what the cluster says
    marked_ms: dict[TopicIdPartition, int]  # user partition → since when a marker says that it is absent


class UnnamedGroups:
    """The user partitions of objects that no record names, noted a part of the listing at a time."""

    def __init__(self) -> None:
        self._groups: set[tuple[bytes, str, int, int]] = set()

    def note(self, rows: pa.Table) -> None:
        """
        Note the objects among some that no record names.

        :param rows: objects with their classes.
        """
        names = ["topic_id", "topic", "partition", "home"]
        unnamed = rows.filter(are_unnamed(rows))
        if unnamed.num_rows:
            groups = groups_of(unnamed, names).keys(names)
            self._groups.update(zip(*(groups.column(name).to_pylist() for name in names), strict=True))

    def observed(self, reading: ScrubReading, topics: ClusterTopics, log: MetadataLogReader) -> Observed:
        """
        Look at their topic ids, after the log was read.

        Each is asked for under every name that the log has for it; one that the log never named, under the names in the keys.

        :param reading: the log.
        :param topics: the cluster.
        :param log: the log whose cluster must answer.
        :raises ClusterMismatchError: if another cluster answers.
        :raises EventLogError: if the cluster cannot be asked.
        """
        if not self._groups:
            return Observed({}, {})
        in_log: defaultdict[bytes, set[str]] = defaultdict(set)
        for known, name in reading.names():
            in_log[known].add(name)
        names: defaultdict[UUID, set[str]] = defaultdict(set)
        homes: defaultdict[int, set[UUID]] = defaultdict(set)
        for raw_id, topic, _, home in self._groups:
            topic_id = UUID(bytes=raw_id)
            homes[home].add(topic_id)
            names[topic_id] |= in_log.get(raw_id) or {topic}
        seen = look(topics, log, {topic_id: frozenset(known) for topic_id, known in names.items()})
        now_ms, marked_ms = reading.clock(), {}
        for home, topic_ids in homes.items():
            for tip, history in reading.state.state.histories(home, topic_ids, with_segments=False).items():
                if (first := first_observation(history.observations, now_ms)) is not None:
                    marked_ms[tip] = first.time_ms
        return Observed(dict(seen.observations), marked_ms)

    def unmarkable(self, reading: ScrubReading) -> frozenset[tuple[bytes, int]]:
        """
        Return those of which no marker will ever come, as topic id and partition: the log names no unfinished segment there,
        and no deletion under way.

        :param reading: the log.
        """
        if not self._groups:
            return frozenset()
        state = reading.state.state
        mine = {(topic_id, partition) for topic_id, _, partition, _ in self._groups}
        of_segments = (state.living().partitions.column(name).to_pylist() for name in ("topic_id", "partition"))
        worked_on = set(zip(*of_segments, strict=True))
        under_way = {(tip.topic_id.bytes, tip.partition) for tip in state.deletions_under_way()}
        return frozenset(mine - worked_on - under_way)


def with_observations(rows: pa.Table, found: Observed) -> pa.Table:
    """
    Add :data:`~airflow_provider_rlmm.features.scrub.unnamed.OBSERVED_COLUMNS` to objects.

    :param rows: objects with their classes.
    :param found: what :meth:`UnnamedGroups.observed` returned for them, and perhaps others.
    """
    import pyarrow as pa

    presence: list[str | None] = []
    marked_ms: list[int | None] = []
    whys: list[Any] = []
    masks = are_unnamed(rows).to_pylist()
    if not any(masks):
        return rows.append_column("presence", pa.nulls(rows.num_rows, pa.string())).append_column(
            "marked_ms", pa.nulls(rows.num_rows, pa.int64())
        )
    columns = (rows[name].to_pylist() for name in ("topic_id", "topic", "partition", "class", "why"))
    for is_unnamed, topic_id, topic, partition, kind, why in zip(masks, *columns, strict=True):
        if not is_unnamed:
            presence.append(None)
            marked_ms.append(None)
            whys.append(why)
            continue
        tip = TopicIdPartition(UUID(bytes=topic_id), topic, partition)
        seen = found.of_topic[tip.topic_id]
        presence.append(seen.presence.value)
        marked_ms.append(found.marked_ms.get(tip))
        if kind in UNNAMED:
            whys.append(f"{why}; {seen.reason}")
        else:
            whys.append(why if seen.presence is Presence.ABSENT else f"{why}, and {_NONE_LEFT}; {seen.reason}")
    rows = rows.set_column(rows.schema.get_field_index("why"), "why", array_of(whys, pa.string()))
    return rows.append_column("presence", array_of(presence, pa.string())).append_column(
        "marked_ms", array_of(marked_ms, pa.int64())
    )
