# SPDX-License-Identifier: Apache-2.0
"""Calls of Kafka's Admin API that describe topics and ask for offsets, each of many topics or partitions at once."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar
from uuid import UUID

from airflow_provider_rlmm.errors import MetadataTopicNotFoundError, TopicIdMissingError
from airflow_provider_rlmm.kafka.client import KafkaAdmin, is_unknown_topic

CHUNK = 500
"""Topics per request: far below what a broker refuses, few round trips for a large cluster."""

T = TypeVar("T")

_RETRY_S = 0.1
_NO_ID = UUID(int=0)


def topic_id_of(admin: KafkaAdmin, name: str, outcome: Any) -> UUID:
    """
    Return the id of a described topic.

    :param admin: the client that described it.
    :param name: the topic's name.
    :param outcome: the description, or the ``KafkaError`` where that failed.
    :raises TopicIdMissingError: if it has none.
    :raises EventLogAccessError: if it may not be described.
    """
    # str() of librdkafka's id is standard base64 with padding; its int() is a hash.
    description = admin.checked(f"describing topic {name!r}", outcome)
    topic_id = UUID(bytes=base64.b64decode(str(description.topic_id) + "=="))
    if topic_id == _NO_ID:
        raise TopicIdMissingError(
            f"describing topic {name!r}, brokers {admin.config.bootstrap_servers}: the cluster gives no topic id; everything "
            "here goes by ids, and tiered storage has them on every broker"
        )
    return topic_id


def list_offsets(admin: KafkaAdmin, partitions: Sequence[tuple[str, int]], spec: Any) -> dict[tuple[str, int], Any]:
    """
    Ask for one offset per partition, of all partitions in one request; wait out a change of leaders.

    :param admin: the client.
    :param partitions: (topic, partition) pairs.
    :param spec: an ``OffsetSpec``.
    :return: per pair an answer with an ``offset``, or the ``KafkaError`` where that one failed.
    """
    from confluent_kafka import TopicPartition

    specs = {TopicPartition(topic, partition): spec for topic, partition in partitions}
    deadline = time.monotonic() + admin.request_timeout_s
    while True:
        outcomes = admin.results(
            f"asking for offsets of {len(partitions)} partitions",
            lambda client: client.list_offsets(specs, request_timeout=max(deadline - time.monotonic(), _RETRY_S)),
        )
        if time.monotonic() + _RETRY_S >= deadline or not any(map(_is_leaderless, outcomes.values())):
            return {(key.topic, key.partition): outcome for key, outcome in outcomes.items()}
        time.sleep(_RETRY_S)
        # A client goes on asking the leader that it knows, with the epoch that it knows.
        admin.close()


def _is_leaderless(outcome: Any) -> bool:
    """Say whether a partition was between two leaders: brokers restart, and a moment later there is one."""
    from confluent_kafka import KafkaError

    return isinstance(outcome, KafkaError) and outcome.code() in {
        KafkaError._NOENT,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.UNKNOWN_LEADER_EPOCH,
    }


def metadata_topic_description(admin: KafkaAdmin, topic: str, *, operations: bool = False) -> Any:
    """
    Describe the metadata topic, which must exist.

    :param admin: the client.
    :param topic: its name.
    :param operations: ask for the operations that the principal may use.
    :return: confluent-kafka's ``TopicDescription``.
    :raises MetadataTopicNotFoundError: if it does not exist.
    """
    outcome = describe_topics(admin, [topic], operations=operations)[topic]
    if is_unknown_topic(outcome):
        raise MetadataTopicNotFoundError(no_metadata_topic(admin, topic))
    return admin.checked(f"describing topic {topic!r}", outcome)


def no_metadata_topic(admin: KafkaAdmin, topic: str) -> str:
    """
    Say that the metadata topic does not exist.

    :param admin: the client that asked for it.
    :param topic: its name.
    """
    return (
        f"topic {topic!r} does not exist on the cluster at {admin.config.bootstrap_servers}: it appears with the first "
        "tiered topic; it is never created here"
    )


def describe_topics(admin: KafkaAdmin, names: Sequence[str], *, operations: bool) -> dict[str, Any]:
    """
    Describe topics in one request.

    :param admin: the client.
    :param names: the topics.
    :param operations: ask for the operations that the principal may use.
    :return: per topic its description, or the ``KafkaError`` where that failed.
    """
    from confluent_kafka import TopicCollection

    return admin.results(
        f"describing topic {names[0]!r}" if len(names) == 1 else f"describing {len(names)} topics",
        lambda client: client.describe_topics(
            TopicCollection(list(names)),
            include_authorized_operations=operations,
            request_timeout=admin.request_timeout_s,
        ),
    )


def chunks(items: Iterable[T]) -> Iterator[list[T]]:
    """
    Yield topics or partitions in lists that one request may name.

    :param items: all of them.
    """
    iterator = iter(items)
    while chunk := list(islice(iterator, CHUNK)):
        yield chunk
