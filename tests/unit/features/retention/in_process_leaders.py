# SPDX-License-Identifier: Apache-2.0
"""A fake of the living leaders of many user partitions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from airflow_provider_rlmm.core.log.answers import (
    CopyConfigs,
    NewestRecord,
    NotTold,
    PartitionLook,
    ServedRecord,
    TopicLook,
)
from airflow_provider_rlmm.core.records.records import TopicIdPartition


class InProcessLeaders:
    """
    :class:`~airflow_provider_rlmm.core.log.living_leader.LivingLeaders` in memory. All is set by attributes, at any time.

    :param before: called before each question with its name; it may raise, or change the answers.
    """

    def __init__(self, before: Callable[[str], None] = lambda _: None) -> None:
        self.before = before
        self.looks: dict[tuple[str, int], PartitionLook | NotTold] = {}
        """What is answered about a user partition, by name of the topic and number."""
        self.configs: dict[str, CopyConfigs | NotTold] = {}
        """What is answered about the settings of a topic, where that is something else."""
        self.records: dict[TopicIdPartition, Mapping[int, int]] = {}
        """The records that are served: offset → leader epoch."""
        self.times_ms: dict[TopicIdPartition, Mapping[int, int] | NotTold] = {}
        """The times of records: offset → ms since the epoch; who has no entry has no record."""
        self.not_told: dict[str, str] = {}
        """Topics that may not be described, and why."""
        self.asked: list[TopicIdPartition] = []
        """Of whom records were asked for."""
        self.asked_times: list[TopicIdPartition] = []
        """Of whom times of records were asked for."""

    def lead(
        self, tip: TopicIdPartition, configs: CopyConfigs, start: int, end: int, leader_epoch: int | None = None
    ) -> None:
        """Lead a user partition from now on."""
        self.looks[tip.topic, tip.partition] = PartitionLook(tip, configs, start, end, leader_epoch, 7)

    def change(self, tip: TopicIdPartition, **fields: object) -> None:
        """Answer something else about a user partition."""
        look = self.looks[tip.topic, tip.partition]
        assert isinstance(look, PartitionLook)
        self.looks[tip.topic, tip.partition] = replace(look, **fields)  # type: ignore[arg-type]

    def topics(self, names: Collection[str] | None = None) -> Mapping[str, TopicLook | NotTold]:
        self.before("topics")
        found: dict[str, TopicLook | NotTold] = {name: NotTold(why) for name, why in self.not_told.items()}
        for (topic, _), look in self.looks.items():
            if isinstance(look, PartitionLook):
                count = 1 + max(partition for name, partition in self.looks if name == topic)
                configs = self.configs.get(topic, look.configs)
                found[topic] = TopicLook(look.topic_id_partition.topic_id, count, configs)
        return {name: one for name, one in found.items() if names is None or name in names}

    def look(self, partitions: Collection[TopicIdPartition]) -> Mapping[TopicIdPartition, PartitionLook | NotTold]:
        self.before("look")
        gone = NotTold("there is no such topic any more")
        return {tip: self.looks.get((tip.topic, tip.partition), gone) for tip in partitions}

    def newest_records(
        self, partitions: Collection[TopicIdPartition]
    ) -> Mapping[TopicIdPartition, NewestRecord | NotTold | None]:
        self.before("newest_records")
        self.asked_times += partitions
        return {tip: self._newest(self.times_ms.get(tip, {})) for tip in partitions}

    @staticmethod
    def _newest(times_ms: Mapping[int, int] | NotTold) -> NewestRecord | NotTold | None:
        if isinstance(times_ms, NotTold) or not times_ms:
            return times_ms if isinstance(times_ms, NotTold) else None
        return NewestRecord(*max(times_ms.items(), key=lambda item: (item[1], -item[0])))

    def first_since(self, times_ms: Mapping[TopicIdPartition, int]) -> Mapping[TopicIdPartition, int | NotTold | None]:
        self.before("first_since")
        self.asked_times += times_ms
        found: dict[TopicIdPartition, int | NotTold | None] = {}
        for tip, since_ms in times_ms.items():
            known = self.times_ms.get(tip, {})
            late = [] if isinstance(known, NotTold) else [o for o, time_ms in known.items() if time_ms >= since_ms]
            found[tip] = known if isinstance(known, NotTold) else min(late, default=None)
        return found

    def first_records(
        self, offsets: Mapping[TopicIdPartition, int]
    ) -> Mapping[TopicIdPartition, ServedRecord | NotTold | None]:
        self.before("first_records")
        self.asked += offsets
        found: dict[TopicIdPartition, ServedRecord | NotTold | None] = {}
        for tip, begin in offsets.items():
            served = sorted((o, e) for o, e in self.records.get(tip, {}).items() if o >= begin)
            found[tip] = ServedRecord(*served[0]) if served else None
        return found
