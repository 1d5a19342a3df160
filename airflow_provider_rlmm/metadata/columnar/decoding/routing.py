# SPDX-License-Identifier: Apache-2.0
"""The metadata partitions of many user partitions at once, as in :mod:`airflow_provider_rlmm.metadata.partitioner`."""

from __future__ import annotations

import numpy as np

from airflow_provider_rlmm.metadata.columnar.decoding.layout import Array

_MULTIPLIER = np.uint32(0x5BD1E995)
_START = np.uint32(((0x9747B28C ^ 4) * 0x5BD1E995) & 0xFFFFFFFF)
_JAVA = np.uint32(31)


def metadata_partitions(topic_id: Array, partition: Array, num_partitions: int) -> Array:
    """
    Return the metadata partition of each user partition.

    :param topic_id: 16 bytes each.
    :param partition: user partitions, as int32.
    :param num_partitions: number of partitions of the metadata topic.
    """
    words = np.frombuffer(np.ascontiguousarray(topic_id), dtype=">u4").reshape(-1, 4).astype(np.uint32)
    most, least = words[:, 0] ^ words[:, 1], words[:, 2] ^ words[:, 3]
    # Java's Objects.hash(least significant, most significant, partition), in wrapping 32-bit arithmetic.
    java_hash = ((_JAVA + least) * _JAVA + most) * _JAVA + partition.astype(np.uint32)
    # Kafka's murmur2 of its four big-endian bytes, which the hash reads as a little-endian word.
    k = java_hash.byteswap() * _MULTIPLIER
    k ^= k >> np.uint32(24)
    k *= _MULTIPLIER
    h = _START ^ k
    h ^= h >> np.uint32(13)
    h *= _MULTIPLIER
    h ^= h >> np.uint32(15)
    result: Array = ((h & np.uint32(0x7FFFFFFF)) % np.uint32(num_partitions)).astype(np.int32)
    return result
