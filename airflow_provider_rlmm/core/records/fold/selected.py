# SPDX-License-Identifier: Apache-2.0
"""Some segments of a store that are not finished, where they lie: for who asks for a few of them, or how many they are."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Self
from uuid import UUID

import numpy as np

from airflow_provider_rlmm.core.base.arrow_arrays import array_of, is_among, numpy_of
from airflow_provider_rlmm.core.records.decoding.layout import Array
from airflow_provider_rlmm.core.records.fold.index import starts_of
from airflow_provider_rlmm.core.records.fold.store import NO_METADATA_PARTITION, NO_OFFSET, Store
from airflow_provider_rlmm.core.records.fold.tables import ids_array, segments_at
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState


class SelectedSegments:
    """
    Segments that are not finished, in no order unless one is asked for; only their numbers take memory, 8 bytes for each.

    They answer until their state is advanced.

    :param store: the store.
    :param rows: numbers of segments.
    """

    def __init__(self, store: Store, rows: Array) -> None:
        self._store = store
        self._rows = rows

    @property
    def size(self) -> int:
        """How many they are."""
        return int(self._rows.size)

    def numbers(self, column: str) -> Array:
        """
        Return the numbers of a column.

        :param column: its name in the store.
        """
        values: Array = self._store.segments[column].take(self._rows)
        return values

    def at(self, some: slice | Array) -> Self:
        """
        Return some of these.

        :param some: which ones: places among these, or a truth value for each.
        """
        return type(self)(self._store, self._rows[some])

    def copied(self) -> Self:
        """Return those that are COPY_SEGMENT_FINISHED."""
        return self.at(self.numbers("state") == int(RemoteLogSegmentState.COPY_SEGMENT_FINISHED))

    def with_custom_metadata(self) -> Self:
        """Return those that have custom metadata, empty ones among them."""
        return self.at(self.numbers("custom_length") >= 0)

    def of_topics(self, topic_ids: Collection[UUID]) -> Self:
        """Return those of some topics."""
        wanted = numpy_of(is_among(self._topic_ids(), [topic_id.bytes for topic_id in topic_ids]))
        return self.at(wanted.take(self.numbers("user_partition")))

    def with_ids(self, segment_ids: Collection[UUID]) -> Self:
        """Return those with some ids; each may stand in several user partitions."""
        # Few agree in half of their ids, so that whole ones are made of few.
        halves = [int(np.frombuffer(segment_id.bytes, np.uint64)[1]) for segment_id in segment_ids]
        maybe = self.at(np.isin(self.numbers("low"), np.array(halves, np.uint64)))
        ids = ids_array(maybe.numbers("high"), maybe.numbers("low"))
        return maybe.at(numpy_of(is_among(ids, [segment_id.bytes for segment_id in segment_ids])))

    def newest_first(self) -> Self:
        """Return them with the newest event first, by its time, then by its offset."""
        return self.at(np.lexsort((self.numbers("event_offset"), self.numbers("event_timestamp_ms")))[::-1])

    def first_of_topics(self) -> Self:
        """Return the first one of each topic, in the order of these."""
        topic = numpy_of(self._topic_ids().dictionary_encode().indices).take(self.numbers("user_partition"))
        _, first = np.unique(topic, return_index=True)
        return self.at(np.sort(first))

    def topic_ids(self) -> frozenset[UUID]:
        """Return the ids of their topics."""
        mine = np.unique(self.numbers("user_partition"))
        return frozenset(UUID(bytes=raw) for raw in set(self._topic_ids().take(array_of(mine)).to_pylist()))

    def counts(self) -> list[tuple[int | None, UUID, int, int]]:
        """
        Return how many each topic has in each metadata partition.

        :return: metadata partition, ``None`` where it was not said, topic id, number of segments and of bytes.
        """
        partition = self.numbers("user_partition")
        segments = np.bincount(partition, minlength=self._store.partitions.size)
        order = np.argsort(partition, kind="stable")
        sums = np.zeros(segments.size, np.int64)
        mine = np.flatnonzero(segments)
        if mine.size:
            sizes = self.numbers("segment_size_in_bytes").astype(np.int64).take(order)
            sums[mine] = np.add.reduceat(sizes, starts_of(segments.take(mine)))
        table = self._store.partitions
        found: dict[tuple[int, bytes], list[int]] = {}
        keys = zip(
            table["metadata_partition"].take(mine).tolist(),
            self._topic_ids().take(array_of(mine)).to_pylist(),
            strict=True,
        )
        for key, count, size in zip(keys, segments.take(mine).tolist(), sums.take(mine).tolist(), strict=True):
            total = found.setdefault(key, [0, 0])
            total[0] += count
            total[1] += size
        return [
            (None if number == NO_METADATA_PARTITION else number, UUID(bytes=raw), count, size)
            for (number, raw), (count, size) in found.items()
        ]

    def first_offsets(self) -> dict[int, int]:
        """Return metadata partition → the lowest offset at which the life of one of them began, as far as these are known."""
        numbers = self._store.partitions["metadata_partition"].take(self.numbers("user_partition"))
        offsets = self.numbers("added_offset")
        known = (numbers != NO_METADATA_PARTITION) & (offsets != NO_OFFSET)
        return {int(n): int(offsets[known & (numbers == n)].min()) for n in np.unique(numbers[known])}

    def table(self, names: Collection[str]) -> Any:
        """
        Return columns of :attr:`~airflow_provider_rlmm.core.records.columnar.ColumnarState.segments`, in the order of these.

        :param names: which columns.
        """
        return segments_at(self._store, self._rows, names)

    def _topic_ids(self) -> Any:
        """The topic id of each user partition of the store, as an Arrow array."""
        return ids_array(self._store.partitions["high"], self._store.partitions["low"])
