# SPDX-License-Identifier: Apache-2.0
"""The living leader of a user partition: what a copier asks it before it writes about its topic."""

from __future__ import annotations

from typing import Protocol

from airflow_provider_rlmm.core.log.answers import LeaderAnswer, LeaderRecord
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
