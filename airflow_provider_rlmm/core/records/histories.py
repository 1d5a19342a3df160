# SPDX-License-Identifier: Apache-2.0
"""The histories of user partitions, told of the records of their log one after the other."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from airflow_provider_rlmm.core.records.history import UserPartitionHistory
from airflow_provider_rlmm.core.records.located import LocatedForgetting, LocatedRecord
from airflow_provider_rlmm.core.records.records import TopicIdPartition, topic_id_partition_of


class Histories(dict[TopicIdPartition, UserPartitionHistory]):
    """
    The histories of user partitions; none is taken away.

    :param known: those that there are.
    :param grows: whether one begins with the first event about its user partition; else events about others say nothing.
    """

    def __init__(self, known: Iterable[UserPartitionHistory] = (), *, grows: bool) -> None:
        super().__init__()
        self._grows = grows
        self._by_topic_id: dict[tuple[UUID, int], list[UserPartitionHistory]] = {}
        for history in known:
            self._add(history)

    def apply(self, located: LocatedRecord) -> None:
        """
        Tell the histories that it is about of the next record.

        :param located: the record.
        """
        if isinstance(located, LocatedForgetting):
            # A topic id has one history for each name that it was seen with.
            for history in self._by_topic_id.get((located.key.topic_id, located.key.partition), ()):
                located.apply_to(history)
            return
        tip = topic_id_partition_of(located.event)
        mine = self.begun(tip) if self._grows else self.get(tip)
        if mine is not None:
            located.apply_to(mine)

    def begun(self, tip: TopicIdPartition) -> UserPartitionHistory:
        """
        Return the history of a user partition; it begins where there is none.

        :param tip: the user partition.
        """
        return self.get(tip) or self._add(UserPartitionHistory(tip))

    def _add(self, history: UserPartitionHistory) -> UserPartitionHistory:
        tip = history.topic_id_partition
        self[tip] = history
        self._by_topic_id.setdefault((tip.topic_id, tip.partition), []).append(history)
        return history
