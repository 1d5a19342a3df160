# SPDX-License-Identifier: Apache-2.0
"""The copied segments as the metadata topic names them, with what those before each tell of the log around it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata, kafka_uuid_str
from airflow_provider_rlmm.core.records.segment_rows import metadata_of
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState

if TYPE_CHECKING:
    import pyarrow as pa

Epochs = tuple[tuple[int, int], ...]

_OF_PARTITION: Final = ("topic_id", "topic", "partition")


@dataclass(frozen=True, slots=True)
class CopiedSegment:
    """
    A segment that the log calls copied.

    :param metadata: what the log says of it.
    :param before: the segment that ends where it begins, ``None`` where there is none, or more than one that may be it.
    :param lineage: its leader epochs and those of the segments before, as far back as they follow each other.
    """

    metadata: RemoteLogSegmentMetadata
    before: RemoteLogSegmentMetadata | None
    lineage: Epochs


class CopiedSegments:
    """
    All segments that the log calls copied.

    :param table: the segments that are not finished: table ``segments`` of the columnar state, by user partition and offset.
    :param topics: names and ids in Kafka's form; none for all.
    """

    def __init__(self, table: pa.Table, topics: Collection[str] = ()) -> None:
        import pyarrow.compute as pc

        copied = table.filter(pc.equal(table.column("state"), int(RemoteLogSegmentState.COPY_SEGMENT_FINISHED)))
        self._asked, self._seen = frozenset(topics), set[str]()
        self._parts: list[pa.Table] = []
        if copied.num_rows:
            self._parts = [part for part in _user_partitions(copied) if self._takes(part)]

    def _takes(self, part: pa.Table) -> bool:
        topic, topic_id = part.column("topic")[0].as_py(), UUID(bytes=part.column("topic_id")[0].as_py())
        named = self._asked & {topic, kafka_uuid_str(topic_id)}
        self._seen |= named
        return bool(named) or not self._asked

    def not_found(self) -> list[str]:
        """Return what was asked for and has no copied segment, sorted."""
        return sorted(self._asked - self._seen)

    def by_topic(self) -> Mapping[tuple[str, UUID], Sequence[tuple[UUID, int]]]:
        """Return topic and its id → the id of each segment and the size of its log, bytes."""
        found: dict[tuple[str, UUID], list[tuple[UUID, int]]] = {}
        for part in self._parts:
            topic = part.column("topic")[0].as_py(), UUID(bytes=part.column("topic_id")[0].as_py())
            columns = (part.column(name).to_pylist() for name in ("segment_id", "segment_size_in_bytes"))
            found.setdefault(topic, []).extend((UUID(bytes=i), size) for i, size in zip(*columns, strict=True))
        return found

    def chosen(self, segments: Collection[UUID]) -> Iterator[CopiedSegment]:
        """
        Yield some segments, by user partition and offset; memory holds those of one user partition at a time.

        :param segments: their ids.
        """
        for part in self._parts:
            yield from (one for one in _with_lineages(part) if one.metadata.remote_log_segment_id.id in segments)


def _user_partitions(table: pa.Table) -> Iterator[pa.Table]:
    """Yield the rows of each user partition; they lie side by side."""
    import numpy as np

    from airflow_provider_rlmm.core.base.arrow_arrays import numpy_of

    changes = np.zeros(table.num_rows, bool)
    changes[0] = True
    for name in _OF_PARTITION:
        column = table.column(name).combine_chunks()
        if name != "partition":
            column = column.dictionary_encode().indices
        values = numpy_of(column)
        changes[1:] |= values[1:] != values[:-1]
    begins = [*np.flatnonzero(changes).tolist(), table.num_rows]
    for begin, end in pairwise(begins):
        yield table.slice(begin, end - begin)


def _with_lineages(part: pa.Table) -> Iterator[CopiedSegment]:
    by_end: dict[int, list[CopiedSegment]] = {}
    for row in part.to_pylist():
        metadata = replace(metadata_of(row), segment_leader_epochs=_epochs(row))
        before = _one_before(by_end.get(metadata.start_offset - 1, ()), metadata)
        known = () if before is None else before.lineage
        one = CopiedSegment(metadata, None if before is None else before.metadata, _joined(known, metadata))
        by_end.setdefault(metadata.end_offset, []).append(one)
        yield one


def _epochs(row: Mapping[str, Any]) -> Epochs:
    return tuple((epoch["leader_epoch"], epoch["start_offset"]) for epoch in row["segment_leader_epochs"])


def _one_before(candidates: Sequence[CopiedSegment], metadata: RemoteLogSegmentMetadata) -> CopiedSegment | None:
    """Return the segment before, if there is one only that the same leaders may have written."""
    first = metadata.segment_leader_epochs[0][0]
    possible = [one for one in candidates if one.metadata.segment_leader_epochs[-1][0] <= first]
    return possible[0] if len(possible) == 1 else None


def _joined(known: Epochs, metadata: RemoteLogSegmentMetadata) -> Epochs:
    own = metadata.segment_leader_epochs
    if not known or own[0][1] != metadata.start_offset:
        # Where the log began within the segment nothing is known of what lies before.
        return own
    return known + (own[1:] if known[-1][0] == own[0][0] else own)
