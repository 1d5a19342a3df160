# SPDX-License-Identifier: Apache-2.0
"""The tables of a survey, made column by column: no Python object per segment, and none per living user partition."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.records.decoding.layout import Array
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.core.world.absence import Presence
from airflow_provider_rlmm.features.survey.inventory import SurveyedState

if TYPE_CHECKING:
    from airflow_provider_rlmm.features.survey.inventory import Verdict

_NEVER = np.iinfo(np.int64).max
_LONG_AGO = -1
_KEY = ("topic_id", "topic", "partition", "metadata_partition")
_SEGMENT_STATES = pa.array([state.name for state in RemoteLogSegmentState])
_RENAMED = {"bytes": "segment_size_in_bytes", "leader_epochs": "segment_leader_epochs"}

Key = tuple[TopicIdPartition, int]
"""A user partition, and the metadata partition where its events lie."""


@dataclass(frozen=True, slots=True)
class UserPartitions:
    """User partitions with unfinished segments or a deletion under way, one element each; none of a topic twice."""

    keys: pa.Table  # topic_id, topic, partition, metadata_partition
    segments: Array  # not finished
    bytes: Array  # of these, summed
    start_offset: Array  # lowest of these; meaningless where there are none
    end_offset: Array  # highest of these; meaningless where there are none
    oldest_ms: Array  # time of the oldest one's newest record, :data:`_NEVER` where none tells
    newest_ms: Array  # time of the newest one's newest record, :data:`_LONG_AGO` where none tells
    rows: Mapping[Key, int]  # of those whose deletion is under way

    def topic_ids(self) -> list[UUID]:
        """Return their topic ids, each once."""
        return [UUID(bytes=topic_id) for topic_id in self.keys.column("topic_id").unique().to_pylist()]


def user_partitions_of(segments: pa.Table, marked: Collection[Key]) -> UserPartitions:
    """
    Sum segments up by user partition.

    :param segments: of the columnar state: those of a user partition lie side by side.
    :param marked: user partitions whose deletion is under way, whether they have segments or not.
    """
    starts = _first_rows(segments)
    keys = segments.select(_KEY).take(pa.array(starts))
    counts = np.diff(np.append(starts, segments.num_rows))
    known = _rows_of(keys, marked)
    lacking = [key for key in marked if key not in known]
    rows = {**known, **{key: keys.num_rows + number for number, key in enumerate(lacking)}}
    times = _numbers(segments, "max_timestamp_ms")
    none = np.zeros(len(lacking), np.int64)
    return UserPartitions(
        pa.concat_tables([keys, _as_keys(lacking, keys.schema)]),
        np.append(counts, none),
        np.append(_reduced(np.add, _numbers(segments, "segment_size_in_bytes"), starts), none),
        np.append(_reduced(np.minimum, _numbers(segments, "start_offset"), starts), none),
        np.append(_reduced(np.maximum, _numbers(segments, "end_offset"), starts), none),
        np.append(_reduced(np.minimum, np.where(times < 0, _NEVER, times), starts), none + _NEVER),
        np.append(_reduced(np.maximum, times, starts), none + _LONG_AGO),
        rows,
    )


def rows_of_topics(segments: pa.Table, topic_ids: Collection[UUID]) -> pa.Table:
    """
    Return the rows of some topics, in their order.

    :param segments: as the columnar state has them.
    :param topic_ids: of the topics.
    """
    column = segments.column("topic_id")
    return segments.filter(pc.is_in(column, value_set=pa.array([i.bytes for i in topic_ids], column.type)))


def _first_rows(segments: pa.Table) -> Array:
    """Return the first row of each user partition."""
    if not segments.num_rows:
        return np.empty(0, np.int64)
    is_first = np.ones(segments.num_rows, bool)
    is_first[1:] = False
    for name in _KEY:
        column = segments.column(name)
        is_first[1:] |= pc.not_equal(column.slice(1), column.slice(0, segments.num_rows - 1)).to_numpy()
    return np.flatnonzero(is_first)


def _numbers(table: pa.Table, column: str) -> Array:
    found: Array = table.column(column).to_numpy().astype(np.int64, copy=False)
    return found


def _reduced(operation: np.ufunc, values: Array, starts: Array) -> Array:
    found: Array = operation.reduceat(values, starts) if starts.size else np.empty(0, np.int64)
    return found


def _rows_of(keys: pa.Table, marked: Collection[Key]) -> dict[Key, int]:
    """Return the rows of some user partitions, of those that have one."""
    ids = pa.array({tip.topic_id.bytes for tip, _ in marked}, pa.binary())
    maybe = np.flatnonzero(pc.is_in(keys.column("topic_id"), value_set=ids).to_numpy())
    found = {}
    for number, row in zip(maybe.tolist(), keys.take(pa.array(maybe)).to_pylist(), strict=True):
        tip = TopicIdPartition(UUID(bytes=row["topic_id"]), row["topic"], row["partition"])
        if (tip, row["metadata_partition"]) in marked:
            found[tip, row["metadata_partition"]] = number
    return found


def _as_keys(keys: Sequence[Key], schema: pa.Schema) -> pa.Table:
    rows = [
        {"topic_id": t.topic_id.bytes, "topic": t.topic, "partition": t.partition, "metadata_partition": n}
        for t, n in keys
    ]
    return pa.Table.from_pylist(rows, schema=schema)


def partition_rows(
    found: UserPartitions,
    by_topic: Mapping[UUID, Verdict],
    by_partition: Mapping[Key, Verdict],
    schema: pa.Schema,
) -> tuple[pa.Table, pa.ChunkedArray]:
    """
    Return the file of user partitions, and the status of each row.

    :param found: the user partitions.
    :param by_topic: what holds for those of a topic id whose deletion is not under way.
    :param by_partition: what holds for the others.
    :param schema: of the file.
    """
    verdicts = [*by_topic.values(), *by_partition.values()]
    of_row = _topic_of_row(found, list(by_topic))
    of_row[[found.rows[key] for key in by_partition]] = np.arange(len(by_topic), len(verdicts))
    nothing = found.segments == 0
    columns = {
        **{name: found.keys.column(name) for name in _KEY},
        "segments": found.segments,
        "bytes": found.bytes,
        "start_offset": pa.array(found.start_offset, mask=nothing),
        "end_offset": pa.array(found.end_offset, mask=nothing),
        **{
            name: pa.array([getattr(v, name) for v in verdicts], kind).take(pa.array(of_row))
            for name, kind in (
                ("state", pa.string()), ("status", pa.string()), ("why", pa.string()), ("deletion", pa.string()),
                ("first_absent_ms", pa.int64()), ("eligible_ms", pa.int64()),
            )
        },
    }  # fmt: skip
    order = [("topic_id", "ascending"), ("topic", "ascending"), ("partition", "ascending")]
    table = pa.table(columns).sort_by(order)
    return table.select(schema.names).cast(schema), table.column("status")


def without_what_is_unreadable(
    partitions: pa.Table, statuses: pa.ChunkedArray, out_of_service: Mapping[int, str]
) -> tuple[pa.Table, pa.ChunkedArray]:
    """
    Return the file of user partitions, and their statuses, without what cannot be told of topics that are gone.

    :param partitions: the file.
    :param statuses: of its rows.
    :param out_of_service: metadata partitions that are out of service, and why.
    """
    known = pa.array([SurveyedState.LIVING.value, SurveyedState.UNSEEN.value])
    is_gone = pc.invert(pc.is_in(partitions.column("state"), value_set=known))
    for number, why in out_of_service.items():
        mine = pc.and_(is_gone, pc.equal(partitions.column("metadata_partition"), number))
        unseen = {"state": SurveyedState.UNSEEN.value, "why": why, "eligible_ms": None}
        for name, value in unseen.items():
            column = partitions.schema.get_field_index(name)
            field = partitions.schema.field(column)
            changed = pc.if_else(mine, pa.scalar(value, field.type), partitions.column(name))
            partitions = partitions.set_column(column, field, changed)
        statuses = pc.if_else(mine, SurveyedState.UNSEEN.value, statuses)
    return partitions, statuses


def _topic_of_row(found: UserPartitions, topic_ids: Sequence[UUID]) -> Array:
    """Return the number of each user partition's topic id."""
    ids = pa.array([topic_id.bytes for topic_id in topic_ids], pa.binary())
    numbers: Array = pc.index_in(found.keys.column("topic_id"), value_set=ids).to_numpy()
    return numbers.astype(np.int64)


def topic_rows(
    found: UserPartitions,
    partitions: pa.Table,
    names: Mapping[UUID, frozenset[str]],
    presence: Mapping[UUID, Presence],
    by_urgency: Sequence[SurveyedState],
    schema: pa.Schema,
) -> pa.Table:
    """
    Return the file of topics, the largest first.

    :param found: the user partitions.
    :param partitions: the file of them.
    :param names: topic id → its names.
    :param presence: topic id → what one look at the cluster said.
    :param by_urgency: where the user partitions of a topic differ, the first of these is the topic's state.
    :param schema: of the file.
    """
    ids, size = list(names), len(names)
    topic = _topic_of_row(found, ids)
    sums = {name: _by_topic(np.add, topic, values, size, 0) for name, values in (
        ("partitions", np.ones(topic.size, np.int64)), ("segments", found.segments), ("bytes", found.bytes),
    )}  # fmt: skip
    oldest = _by_topic(np.minimum, topic, found.oldest_ms, size, _NEVER)
    newest = _by_topic(np.maximum, topic, found.newest_ms, size, _LONG_AGO)
    file_topic = pc.index_in(
        partitions.column("topic_id"), value_set=pa.array([i.bytes for i in ids], pa.binary())
    ).to_numpy()
    times = {
        name: _by_topic(np.minimum, file_topic, pc.fill_null(partitions.column(name), _NEVER).to_numpy(), size, _NEVER)
        for name in ("first_absent_ms", "eligible_ms")
    }
    state, why = _most_urgent(partitions, file_topic, size, by_urgency)
    columns = {
        "topic": [", ".join(sorted(names[topic_id])) for topic_id in ids],
        "topic_id": pa.array([topic_id.bytes for topic_id in ids], pa.binary()),
        "state": state,
        "presence": [presence[topic_id].value for topic_id in ids],
        **sums,
        "oldest_ms": pa.array(oldest, mask=oldest == _NEVER),
        "newest_ms": pa.array(newest, mask=newest == _LONG_AGO),
        **{name: pa.array(values, mask=values == _NEVER) for name, values in times.items()},
        "why": why,
    }
    # A stable order: of equal ones the lower id comes first.
    by_id = pa.table({name: columns[name] for name in schema.names}, schema=schema).sort_by("topic_id")
    return by_id.take(pa.array(np.argsort(-by_id.column("bytes").to_numpy(), kind="stable")))


def _by_topic(operation: np.ufunc, topic: Array, values: Array, size: int, initial: int) -> Array:
    found = np.full(size, initial, np.int64)
    operation.at(found, topic, values)
    return found


def _most_urgent(
    partitions: pa.Table, topic: Array, size: int, by_urgency: Sequence[SurveyedState]
) -> tuple[list[str], list[str]]:
    """Return each topic's state, and the words of its first user partition in that state."""
    rank = pc.index_in(partitions.column("state"), value_set=pa.array([s.value for s in by_urgency])).to_numpy()
    rows = topic.size
    # Of the lowest rank the first row: one number says both.
    first = _by_topic(np.minimum, topic, rank.astype(np.int64) * rows + np.arange(rows), size, _NEVER)
    best, row = first // rows, first % rows
    alike = _by_topic(np.add, topic, (rank == best.take(topic)).astype(np.int64), size, 0)
    whole = _by_topic(np.add, topic, np.ones(rows, np.int64), size, 0)
    words = partitions.column("why").take(pa.array(row)).to_pylist()
    why = [
        text if same == every else f"{same} of {number_of(every, 'partition')}: {text}"
        for text, same, every in zip(words, alike.tolist(), whole.tolist(), strict=True)
    ]
    return [by_urgency[number].value for number in best.tolist()], why


def segments_of(stored: pa.Table, metadata_partition: int, schema: pa.Schema) -> pa.Table:
    """
    Return the file of the segments of a metadata partition.

    :param stored: the segments of the columnar state: those of a user partition lie side by side.
    :param metadata_partition: which one.
    :param schema: of the file.
    """
    mine = stored.filter(pc.equal(stored.column("metadata_partition"), metadata_partition))
    first = np.zeros(mine.num_rows, np.int64)
    first[_first_rows(mine)] = 1
    order = np.lexsort((_numbers(mine, "start_offset"), np.cumsum(first)))
    mine = mine.take(pa.array(order))
    columns = {name: mine.column(_RENAMED.get(name, name)) for name in schema.names}
    columns["state"] = _SEGMENT_STATES.take(mine.column("state").combine_chunks())
    return pa.table(columns).cast(schema)
