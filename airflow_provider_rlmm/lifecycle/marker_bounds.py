# SPDX-License-Identifier: Apache-2.0
"""
When was somebody else's marker written? Its own time is its writer's word; the next record of the metadata partition
whose time can be relied on says by when it was there.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

from airflow_provider_rlmm.event_log.event_decoding import applicable, written_by_brokers
from airflow_provider_rlmm.metadata.history import UserPartitionHistory
from airflow_provider_rlmm.metadata.records import OWN_BROKER_ID, TopicIdPartition


class MarkerBounds:
    """
    Bounds the observations of one metadata partition, while it is replayed in order.

    Records to rely on are the segment events of brokers, of whatever topic, and all events of ours. Brokers write no
    partition-delete events, so one that claims a broker's id bounds nothing.
    """

    def __init__(self) -> None:
        self._waiting: dict[TopicIdPartition, UserPartitionHistory] = {}
        self._decoded: Any = None
        self._bounds: tuple[list[int], list[int]] | None = None

    def begin(self, decoded: Any) -> None:
        """
        Take the next batch, before its events are applied.

        :param decoded: all records of the batch, see :func:`~airflow_provider_rlmm.event_log.event_decoding.decode_records`.
        """
        self._decoded, self._bounds = decoded, None
        if self._waiting and (time_ms := self._time_after(-1)) is not None:
            for history in self._waiting.values():
                history.bound_observations(time_ms)
            self._waiting.clear()

    def note(self, history: UserPartitionHistory, offset: int) -> None:
        """
        Bound a history's observations by what the batch holds behind an event, or else by a batch to come.

        :param history: of a user partition to which a partition-delete event was applied.
        :param offset: the event's offset.
        """
        if not history.awaits_bound():
            return
        time_ms = self._time_after(offset)
        if time_ms is None:
            self._waiting[history.topic_id_partition] = history
        else:
            history.bound_observations(time_ms)

    def _time_after(self, offset: int) -> int | None:
        """Return the time of the first record behind an offset that can be relied on, ``None`` where the batch has none."""
        if self._decoded is None:
            return None
        if self._bounds is None:
            self._bounds = _bounds_of(self._decoded)
        offsets, times_ms = self._bounds
        index = bisect_right(offsets, offset)
        return times_ms[index] if index < len(offsets) else None


def _bounds_of(decoded: Any) -> tuple[list[int], list[int]]:
    """Return offsets and times (ms) of the records of a batch that can be relied on, by offset."""
    import pyarrow.compute as pc

    ours = pc.equal(decoded.column("broker_id"), OWN_BROKER_ID)
    relied_on = decoded.filter(pc.and_(applicable(decoded), pc.or_(written_by_brokers(decoded), ours)))
    times_ms = pc.max_element_wise(relied_on.column("event_timestamp_ms"), relied_on.column("timestamp_ms"))
    timed = pc.greater_equal(times_ms, 0)
    return relied_on.column("offset").filter(timed).to_pylist(), times_ms.filter(timed).to_pylist()
