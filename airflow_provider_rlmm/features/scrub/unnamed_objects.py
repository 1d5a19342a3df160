# SPDX-License-Identifier: Apache-2.0
"""What the cluster and the markers in the log say of objects that no record names; nothing is changed."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from airflow_provider_rlmm.core.log.protocol import ClusterTopics, MetadataLogReader
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.core.world.absence import Observation, first_observation
from airflow_provider_rlmm.core.world.cluster_look import look
from airflow_provider_rlmm.features.scrub.scrub_reading import ScrubReading
from airflow_provider_rlmm.features.scrub.unnamed import are_unnamed

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Observed:
    """One look at the topic ids of some objects."""

    of_topic: dict[UUID, Observation]  # topic id → what the cluster says
    marked_ms: dict[TopicIdPartition, int]  # user partition → since when a marker says that it is absent


def observed(rows: pa.Table, reading: ScrubReading, topics: ClusterTopics, log: MetadataLogReader) -> Observed:
    """
    Look at the topic ids of the objects that no record names, after the log was read.

    Each is asked for under every name that the log has for it; one that the log never named, under the names in the keys.

    :param rows: objects with their classes.
    :param reading: the log.
    :param topics: the cluster.
    :param log: the log whose cluster must answer.
    :raises ClusterMismatchError: if another cluster answers.
    :raises EventLogError: if the cluster cannot be asked.
    """
    unnamed = rows.filter(are_unnamed(rows)).group_by(["topic_id", "topic", "partition", "home"]).aggregate([])
    if not unnamed.num_rows:
        return Observed({}, {})
    in_log: defaultdict[bytes, set[str]] = defaultdict(set)
    for known, name in reading.names():
        in_log[known].add(name)
    names: defaultdict[UUID, set[str]] = defaultdict(set)
    homes: defaultdict[int, set[UUID]] = defaultdict(set)
    for row in unnamed.to_pylist():
        topic_id = UUID(bytes=row["topic_id"])
        homes[row["home"]].add(topic_id)
        names[topic_id] |= in_log.get(topic_id.bytes) or {row["topic"]}
    seen = look(topics, log, {topic_id: frozenset(known) for topic_id, known in names.items()})
    now_ms, marked_ms = reading.clock(), {}
    for home, topic_ids in homes.items():
        for tip, history in reading.state.state.histories(home, topic_ids, with_segments=False).items():
            if (first := first_observation(history.observations, now_ms)) is not None:
                marked_ms[tip] = first.time_ms
    return Observed(dict(seen.observations), marked_ms)


def unmarkable(rows: pa.Table, reading: ScrubReading) -> frozenset[tuple[bytes, int]]:
    """
    Return the user partitions, as topic id and partition, of objects that no record names and of which no marker will ever
    come: the log names no unfinished segment of theirs, and no deletion under way.

    :param rows: objects with their classes.
    :param reading: the log.
    """
    state = reading.state.state
    unnamed, segments = (
        table.select(["topic_id", "partition"]).group_by(["topic_id", "partition"]).aggregate([])
        for table in (rows.filter(are_unnamed(rows)), state.segments)
    )
    of_unnamed, worked_on = ({(r["topic_id"], r["partition"]) for r in t.to_pylist()} for t in (unnamed, segments))
    under_way = {(tip.topic_id.bytes, tip.partition) for tip in state.deletions_under_way()}
    return frozenset(of_unnamed - worked_on - under_way)


def with_observations(rows: pa.Table, found: Observed) -> pa.Table:
    """
    Add :data:`~airflow_provider_rlmm.features.scrub.unnamed.OBSERVED_COLUMNS` to objects.

    :param rows: objects with their classes.
    :param found: what :func:`observed` returned for them.
    """
    import pyarrow as pa

    presence: list[str | None] = []
    marked_ms: list[int | None] = []
    whys: list[Any] = []
    masks = are_unnamed(rows).to_pylist()
    columns = (rows[name].to_pylist() for name in ("topic_id", "topic", "partition", "why"))
    for is_unnamed, topic_id, topic, partition, why in zip(masks, *columns, strict=True):
        if not is_unnamed:
            presence.append(None)
            marked_ms.append(None)
            whys.append(why)
            continue
        tip = TopicIdPartition(UUID(bytes=topic_id), topic, partition)
        seen = found.of_topic[tip.topic_id]
        presence.append(seen.presence.value)
        marked_ms.append(found.marked_ms.get(tip))
        whys.append(f"{why}; {seen.reason}")
    rows = rows.set_column(rows.schema.get_field_index("why"), "why", pa.array(whys, pa.string()))
    return rows.append_column("presence", pa.array(presence, pa.string())).append_column(
        "marked_ms", pa.array(marked_ms, pa.int64())
    )
