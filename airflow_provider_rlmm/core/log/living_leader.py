# SPDX-License-Identifier: Apache-2.0
"""
The living leaders of user partitions: what a copier asks one before it writes about its topic, and what is asked of many in
few requests.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from airflow_provider_rlmm.core.log.answers import (
    LeaderAnswer,
    LeaderRecord,
    NewestRecord,
    NotTold,
    PartitionLook,
    ServedRecord,
    TopicLook,
)
from airflow_provider_rlmm.core.records.records import TopicIdPartition


class LivingLeader(Protocol):
    """
    What the cluster says about user partitions, asked in ways that create nothing and are never cached.

    Every method raises :class:`~airflow_provider_rlmm.core.base.errors.EventLogUnavailableError` where no broker answers
    in time, and :class:`~airflow_provider_rlmm.core.base.errors.EventLogAccessError` where the cluster forbids the
    question.
    """

    def ask(self, topic: str, partition: int) -> LeaderAnswer | None:
        """
        Ask about a user partition: topic id, configs and offsets as they are now.

        Topic and metadata topic are described in one request, so that the answer is proven to be this cluster's. The offsets
        are asked after it; a topic that is created anew meanwhile is noticed by the next question.

        :param topic: name of the topic.
        :param partition: the user partition.
        :return: the answer, ``None`` where there is no such topic or partition.
        :raises MetadataTopicNotFoundError: if the cluster that answered has no metadata topic.
        :raises TopicIdMissingError: if the cluster gives the topic no id.
        """

    def record_at(self, topic_id_partition: TopicIdPartition, offset: int) -> LeaderRecord | None:
        """
        Read the record at an offset, ``read_uncommitted``.

        :param topic_id_partition: the user partition.
        :param offset: the offset.
        :return: the record at exactly this offset; ``None`` where the leader serves none there: a control record, above the
            high watermark, below the log start.
        """


class LivingLeaders(Protocol):
    """
    What the cluster says about many user partitions, asked in few requests that create nothing, and never cached.

    What concerns one topic or user partition alone is its answer (:class:`~airflow_provider_rlmm.core.log.answers.NotTold`).
    Every method raises :class:`~airflow_provider_rlmm.core.base.errors.EventLogUnavailableError` where no broker answers in
    time, :class:`~airflow_provider_rlmm.core.base.errors.EventLogAccessError` where the login fails, and
    :class:`~airflow_provider_rlmm.core.base.errors.ClusterMismatchError` where another cluster answers.
    """

    def topics(self, names: Collection[str] | None = None) -> Mapping[str, TopicLook | NotTold]:
        """
        Ask for topics.

        :param names: their names, ``None`` for all that the cluster lists.
        :return: by name; topics that do not exist are left out.
        """

    def look(self, partitions: Collection[TopicIdPartition]) -> Mapping[TopicIdPartition, PartitionLook | NotTold]:
        """
        Ask for ids, settings, offsets and leader epochs.

        :param partitions: the user partitions.
        :return: one answer for each of them.
        """

    def first_records(
        self, offsets: Mapping[TopicIdPartition, int]
    ) -> Mapping[TopicIdPartition, ServedRecord | NotTold | None]:
        """
        Ask for the first record from an offset on, ``read_uncommitted``, of the leaders themselves.

        :param offsets: by user partition, inclusive.
        :return: one answer for each of them; ``None`` where the leader says that it serves none.
        """

    def newest_records(
        self, partitions: Collection[TopicIdPartition]
    ) -> Mapping[TopicIdPartition, NewestRecord | NotTold | None]:
        """
        Ask for the records with the latest timestamps.

        :param partitions: the user partitions.
        :return: one answer for each of them; ``None`` where the leader has no record.
        """

    def first_since(self, times_ms: Mapping[TopicIdPartition, int]) -> Mapping[TopicIdPartition, int | NotTold | None]:
        """
        Ask for the first offset with a timestamp or a later one, of what is in remote storage, too.

        :param times_ms: by user partition, ms since the epoch.
        :return: one answer for each of them; ``None`` where no record is as late.
        """
