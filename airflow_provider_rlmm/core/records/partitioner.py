# SPDX-License-Identifier: Apache-2.0
"""Which metadata partition holds the events of a user partition (Kafka: ``RemoteLogMetadataTopicPartitioner``)."""

from __future__ import annotations

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.records.records import TopicIdPartition

__all__ = ["metadata_partition_for"]

_MASK_32 = 0xFFFFFFFF
_MASK_64 = 0xFFFFFFFFFFFFFFFF
_MURMUR2_SEED = 0x9747B28C
_MURMUR2_MULTIPLIER = 0x5BD1E995


def metadata_partition_for(topic_id_partition: TopicIdPartition, num_partitions: int) -> int:
    """
    Return the metadata partition of a user partition: it depends on the topic's id, not on its name.

    :param topic_id_partition: the user partition.
    :param num_partitions: number of partitions of the metadata topic, at least 1.
    :return: 0 to ``num_partitions`` - 1.
    :raises ValueError: if ``num_partitions`` is less than 1.
    """
    if num_partitions < 1:
        raise ValueError(f"the metadata topic cannot have {number_of(num_partitions, 'partition')}")
    topic_id = topic_id_partition.topic_id.int
    java_hash = 1
    for part in (
        _java_long_hash(topic_id & _MASK_64),
        _java_long_hash(topic_id >> 64),
        topic_id_partition.partition,
    ):
        java_hash = (31 * java_hash + part) & _MASK_32
    return (_murmur2_of_int(java_hash) & 0x7FFFFFFF) % num_partitions


def _java_long_hash(value: int) -> int:
    return (value ^ (value >> 32)) & _MASK_32


def _murmur2_of_int(value: int) -> int:
    """Return Kafka's murmur2 of the four big-endian bytes of an unsigned 32-bit number."""
    # The hash reads its input as little-endian words.
    k = int.from_bytes(value.to_bytes(4, "big"), "little")
    k = (k * _MURMUR2_MULTIPLIER) & _MASK_32
    k ^= k >> 24
    k = (k * _MURMUR2_MULTIPLIER) & _MASK_32
    h = ((_MURMUR2_SEED ^ 4) * _MURMUR2_MULTIPLIER) & _MASK_32
    h ^= k
    h ^= h >> 13
    h = (h * _MURMUR2_MULTIPLIER) & _MASK_32
    return h ^ (h >> 15)
