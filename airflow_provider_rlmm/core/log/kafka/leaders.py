# SPDX-License-Identifier: Apache-2.0
"""The living leaders of many user partitions, asked through Kafka in few requests."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from confluent_kafka import Message, TopicPartition

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.errors import ClusterMismatchError, EventLogAccessError, EventLogUnavailableError
from airflow_provider_rlmm.core.log.answers import (
    CopyConfigs,
    NewestRecord,
    NotTold,
    PartitionLook,
    ServedRecord,
    TopicLook,
)
from airflow_provider_rlmm.core.log.kafka.admin import settings_of
from airflow_provider_rlmm.core.log.kafka.client import (
    METADATA_TOPIC,
    REQUEST_TIMEOUT_S,
    UNKNOWN_TOPIC,
    admin_api,
    chunks,
    is_error,
)
from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
from airflow_provider_rlmm.core.log.kafka.leader import NOT_SERVED, copy_configs_of
from airflow_provider_rlmm.core.log.kafka.leader_clients import LeaderClients
from airflow_provider_rlmm.core.records.records import TopicIdPartition

ASSIGNED_AT_ONCE: Final = 1_000
"""User partitions whose records one assignment asks for."""

_ONE_OF_MANY = {"fetch.message.max.bytes": 4_096}
"""
Of the consumer: bytes of a user partition in one fetch. A leader puts those of many into one answer, and what does not fit
comes alone.
"""

_FAILED_IN_ROW = 3
"""Requests without any answer, one after the other, that end the look: the brokers are away, and not a few leaders."""

_POLL_S = 0.1
_RETRY_S = 0.2


class KafkaLeaders(LeaderClients):
    """
    :class:`~airflow_provider_rlmm.core.log.living_leader.LivingLeaders` on confluent-kafka.

    :param config: the clients' properties.
    :param cluster_id: the cluster that is worked on.
    :param metadata_topic_id: id of its metadata topic, which every describe must show.
    :param metadata_topic: its name.
    :param request_timeout_s: seconds for one request, for the next record to come, and for leaders to be elected.
    """

    def __init__(
        self,
        config: KafkaClientConfig,
        cluster_id: str,
        metadata_topic_id: UUID,
        metadata_topic: str = METADATA_TOPIC,
        *,
        request_timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> None:
        super().__init__(config, cluster_id, metadata_topic, request_timeout_s, "leaders", _ONE_OF_MANY)
        self._metadata_topic_id = metadata_topic_id

    def topics(self, names: Collection[str] | None = None) -> Mapping[str, TopicLook | NotTold]:
        """See :class:`~airflow_provider_rlmm.core.log.living_leader.LivingLeaders`."""
        asked = self._topics.topic_names() - {self._metadata_topic} if names is None else names
        described = self._describe(asked)
        configs = self._configs([name for name, found in described.items() if not isinstance(found, NotTold)])
        return {
            name: found
            if isinstance(found, NotTold)
            else TopicLook(self._admin.topic_id(name, found), len(found.partitions), configs[name])
            for name, found in described.items()
            if isinstance(found, NotTold) or name in configs
        }

    def look(self, partitions: Collection[TopicIdPartition]) -> Mapping[TopicIdPartition, PartitionLook | NotTold]:
        """See :class:`~airflow_provider_rlmm.core.log.living_leader.LivingLeaders`."""
        names = sorted({tip.topic for tip in partitions})
        wanted = {(tip.topic, tip.partition) for tip in partitions}
        described = self._with_leaders(names, wanted)
        configs = self._configs([name for name in names if not isinstance(described.get(name), NotTold | None)])
        leaders = {
            (name, one.id): int(one.leader.id)
            for name, found in described.items()
            if not isinstance(found, NotTold)
            for one in found.partitions
            if one.leader is not None and (name, one.id) in wanted
        }
        offsets = self._offsets(sorted(leaders))
        ids = {n: self._admin.topic_id(n, found) for n, found in described.items() if not isinstance(found, NotTold)}

        def answer(tip: TopicIdPartition) -> PartitionLook | NotTold:
            key, found, told = (tip.topic, tip.partition), described.get(tip.topic), configs.get(tip.topic)
            if isinstance(found, NotTold):
                return found
            if found is None or told is None:
                return NotTold("there is no such topic any more")
            if isinstance(told, NotTold):
                return told
            if key not in leaders:
                return NotTold("it has no leader")
            if isinstance(reached := offsets[key], NotTold):
                return reached
            start, end, epoch = reached
            now = TopicIdPartition(ids[tip.topic], *key)
            return PartitionLook(now, told, start, end, epoch, leaders[key])

        return {tip: answer(tip) for tip in partitions}

    def _with_leaders(self, names: Collection[str], wanted: Collection[tuple[str, int]]) -> dict[str, Any]:
        """Describe topics; between two leaders there is none for a moment, which is waited out."""
        deadline, pause_s = time.monotonic() + self._admin.request_timeout_s, _RETRY_S
        described = self._describe(names)
        while True:
            leaderless = sorted(
                name
                for name, found in described.items()
                if not isinstance(found, NotTold)
                and any(one.leader is None and (name, one.id) in wanted for one in found.partitions)
            )
            if not leaderless or time.monotonic() + pause_s >= deadline:
                return described
            time.sleep(pause_s)
            pause_s *= 2
            again = self._describe(leaderless)
            described = {name: found for name, found in described.items() if name not in leaderless} | again

    def _describe(self, names: Collection[str]) -> dict[str, Any]:
        """Return confluent-kafka's descriptions by name, or why there is none; unknown topics are left out."""
        found: dict[str, Any] = {}
        for chunk in chunks(sorted(names)):
            described = self._admin.describe_topics([self._metadata_topic, *chunk])
            self._require_metadata_topic(described.pop(self._metadata_topic))
            found |= self._told(described)
        return found

    def _require_metadata_topic(self, outcome: Any) -> None:
        shown = self._admin.topic_id(self._metadata_topic, self._admin.metadata_topic(self._metadata_topic, outcome))
        if shown != self._metadata_topic_id:
            raise ClusterMismatchError(
                f"topic {self._metadata_topic!r} has id {shown} where leaders are asked, brokers "
                f"{self._config.bootstrap_servers}, and the one that is read has {self._metadata_topic_id}: these are two "
                "clusters, or the topic was replaced; name the brokers of one cluster only, then run again"
            )

    def _told(self, outcomes: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answers about topics that exist."""
        return {
            name: NotTold(self._admin.watch.text_of(outcome)) if is_error(outcome) else outcome
            for name, outcome in outcomes.items()
            if not is_error(outcome, UNKNOWN_TOPIC)
        }

    def _configs(self, names: Iterable[str]) -> dict[str, CopyConfigs | NotTold]:
        """Return the settings of topics; those that do not exist are left out."""
        found: dict[str, CopyConfigs | NotTold] = {}
        for chunk in chunks(names):
            for name, told in self._told(self._admin.describe_configs(chunk)).items():
                if isinstance(told, NotTold):
                    found[name] = NotTold(f"its settings may not be described: {told.why}")
                    continue
                try:
                    found[name] = copy_configs_of(name, settings_of(told))
                except EventLogAccessError as e:
                    found[name] = NotTold(str(e))
        return found

    def _offsets(
        self, partitions: Sequence[tuple[str, int]]
    ) -> dict[tuple[str, int], tuple[int, int, int | None] | NotTold]:
        """Return log start offset, high watermark and leader epoch of user partitions."""
        found: dict[tuple[str, int], tuple[int, int, int | None] | NotTold] = {}
        failed = 0
        for chunk in chunks(partitions):
            try:
                # In this order: each may only grow meanwhile, so the start is never above what is said to be the end.
                starts = self._admin.list_offsets(chunk, admin_api.OffsetSpec.earliest())
                ends = self._admin.list_offsets(chunk, admin_api.OffsetSpec.latest())
            except EventLogUnavailableError as e:
                if (failed := failed + 1) == _FAILED_IN_ROW:
                    raise
                found |= dict.fromkeys(chunk, NotTold(str(e)))
                continue
            failed = 0
            for key in chunk:
                outcomes = starts[key], ends[key]
                error = next((outcome for outcome in outcomes if is_error(outcome)), None)
                if error is not None:
                    found[key] = NotTold(f"its leader does not tell its offsets: {self._admin.watch.text_of(error)}")
                else:
                    # The epoch with the end is the leader's own, whether or not it has written anything yet.
                    found[key] = int(outcomes[0].offset), int(outcomes[1].offset), outcomes[1].leader_epoch
        return found

    def newest_records(
        self, partitions: Collection[TopicIdPartition]
    ) -> Mapping[TopicIdPartition, NewestRecord | NotTold | None]:
        """See :class:`~airflow_provider_rlmm.core.log.living_leader.LivingLeaders`."""
        newest = admin_api.OffsetSpec.max_timestamp()
        return {
            tip: one
            if isinstance(one, NotTold)
            else NewestRecord(one.offset, one.timestamp)
            if one.offset >= 0
            else None
            for tip, one in self._timed(dict.fromkeys(partitions, newest)).items()
        }

    def first_since(self, times_ms: Mapping[TopicIdPartition, int]) -> Mapping[TopicIdPartition, int | NotTold | None]:
        """See :class:`~airflow_provider_rlmm.core.log.living_leader.LivingLeaders`."""
        specs = {tip: admin_api.OffsetSpec.for_timestamp(time_ms) for tip, time_ms in times_ms.items()}
        return {
            tip: one if isinstance(one, NotTold) else int(one.offset) if one.offset >= 0 else None
            for tip, one in self._timed(specs).items()
        }

    def _timed(self, specs: Mapping[TopicIdPartition, Any]) -> dict[TopicIdPartition, Any]:
        """Return what leaders answer about times; brokers that are away are not asked for each thousand anew."""
        tips = {(tip.topic, tip.partition): tip for tip in specs}
        found: dict[TopicIdPartition, Any] = {}
        failed, silence = 0, ""
        for chunk in chunks(sorted(tips)):
            if failed < _FAILED_IN_ROW:
                try:
                    outcomes = self._admin.list_offsets(chunk, {key: specs[tips[key]] for key in chunk})
                except EventLogUnavailableError as e:
                    failed, silence = failed + 1, str(e)
                else:
                    failed = 0
                    found |= {tips[key]: self._time_of(outcome) for key, outcome in outcomes.items()}
                    continue
            found |= {tips[key]: NotTold(silence) for key in chunk}
        return found

    def _time_of(self, outcome: Any) -> Any:
        if is_error(outcome):
            return NotTold(f"its leader does not tell the times of records: {self._admin.watch.text_of(outcome)}")
        return outcome

    def first_records(
        self, offsets: Mapping[TopicIdPartition, int]
    ) -> Mapping[TopicIdPartition, ServedRecord | NotTold | None]:
        """See :class:`~airflow_provider_rlmm.core.log.living_leader.LivingLeaders`; some thousand at a time."""
        found: dict[TopicIdPartition, ServedRecord | NotTold | None] = {}
        for some in _parts(sorted(offsets, key=lambda tip: (tip.topic, tip.partition))):
            found |= self._first_records({(tip.topic, tip.partition): tip for tip in some}, offsets)
        return found

    def _first_records(
        self, waiting: dict[tuple[str, int], TopicIdPartition], offsets: Mapping[TopicIdPartition, int]
    ) -> dict[TopicIdPartition, ServedRecord | NotTold | None]:
        found: dict[TopicIdPartition, ServedRecord | NotTold | None] = {}
        what = f"reading one record of each of {number_of(len(waiting), 'user partition')}"
        consumer = self._open_consumer()
        self._watch.forget()
        consumer.assign([TopicPartition(*key, offsets[tip]) for key, tip in waiting.items()])
        heard = time.monotonic()
        while waiting and time.monotonic() - heard < self._admin.request_timeout_s:
            # Asked for many, the client waits until it has all of them; asked for one, it returns as soon as it has that.
            messages = consumer.consume(1, _POLL_S)
            if messages:
                messages += consumer.consume(ASSIGNED_AT_ONCE, 0)
            self._watch.raise_if_denied(what)
            answered = []
            for message in messages:
                # Errors of the client itself are of no user partition.
                if (tip := waiting.pop(_place(message), None)) is not None:
                    found[tip] = self._answer(message)
                    answered.append(tip)
            if answered:
                heard = time.monotonic()
                consumer.incremental_unassign([TopicPartition(tip.topic, tip.partition) for tip in answered])
        consumer.unassign()
        silent = NotTold(f"its leader has sent no record and no end within {self._admin.request_timeout_s:g} s")
        return found | dict.fromkeys(waiting.values(), silent)

    def _answer(self, message: Message) -> ServedRecord | NotTold | None:
        error = message.error()
        if error is not None:
            if error.name() in NOT_SERVED:
                return None
            return NotTold(f"its leader serves no records: {self._watch.text_of(error)}")
        epoch, offset = message.leader_epoch(), message.offset()
        if epoch is None or offset is None:
            return NotTold("its leader does not say in which leader epoch a record was written")
        return ServedRecord(offset, epoch)


def _place(message: Message) -> tuple[str, int]:
    topic, partition = message.topic(), message.partition()
    return topic or "", -1 if partition is None else partition


def _parts(tips: Sequence[TopicIdPartition]) -> Iterator[Sequence[TopicIdPartition]]:
    return (tips[begin : begin + ASSIGNED_AT_ONCE] for begin in range(0, len(tips), ASSIGNED_AT_ONCE))
