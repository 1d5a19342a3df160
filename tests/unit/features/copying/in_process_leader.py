# SPDX-License-Identifier: Apache-2.0
"""A fake of the living leader of user partitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from uuid import UUID

from airflow_provider_rlmm.core.log.answers import CopyConfigs, LeaderAnswer, LeaderOffsets, LeaderRecord
from airflow_provider_rlmm.core.records.records import TopicIdPartition


class InProcessLeader:
    """
    A :class:`~airflow_provider_rlmm.core.log.living_leader.LivingLeader` in memory. All is set by attributes, at any time.

    :param metadata_topic_id: id of the metadata topic of the cluster that it stands for.
    :param before: called before each question with its name, ``ask`` or ``record_at``; it may raise, or change the answers.
    """

    def __init__(self, metadata_topic_id: UUID, *, before: Callable[[str], None] = lambda _: None) -> None:
        self.metadata_topic_id = metadata_topic_id
        self.before = before
        self.answers: dict[tuple[str, int], LeaderAnswer] = {}
        """What is answered, by name of the topic and user partition."""
        self.records: dict[TopicIdPartition, Mapping[int, LeaderRecord]] = {}
        """The records that are served, by offset."""

    def lead(
        self, topic_id_partition: TopicIdPartition, configs: CopyConfigs, offsets: LeaderOffsets | None
    ) -> LeaderAnswer:
        """
        Lead a user partition from now on.

        :param topic_id_partition: the user partition.
        :param configs: of its topic.
        :param offsets: how far its log reaches, ``None`` where it has no leader.
        :return: what is answered about it.
        """
        answer = LeaderAnswer(topic_id_partition, self.metadata_topic_id, False, configs, offsets)
        self.answers[topic_id_partition.topic, topic_id_partition.partition] = answer
        return answer

    def ask(self, topic: str, partition: int) -> LeaderAnswer | None:
        """Answer as a living leader."""
        self.before("ask")
        return self.answers.get((topic, partition))

    def record_at(self, topic_id_partition: TopicIdPartition, offset: int) -> LeaderRecord | None:
        """Answer as a living leader."""
        self.before("record_at")
        answer = self.answers.get((topic_id_partition.topic, topic_id_partition.partition))
        if answer is None or answer.offsets is None or answer.topic_id_partition != topic_id_partition:
            return None
        if not answer.offsets.log_start_offset <= offset < answer.offsets.high_watermark:
            return None
        return self.records.get(topic_id_partition, {}).get(offset)
