# SPDX-License-Identifier: Apache-2.0
"""The bytes of an event that is to be written, proven to say the same when they are read back."""

from __future__ import annotations

from airflow_provider_rlmm.core.base.errors import MalformedMetadataError, UnsafeEventError
from airflow_provider_rlmm.core.records.records import (
    RemotePartitionDeleteMetadata,
    SegmentEvent,
    topic_id_partition_of,
)
from airflow_provider_rlmm.core.records.serde import read_value, serialize
from airflow_provider_rlmm.core.records.wire import Reader


def encode(event: SegmentEvent | RemotePartitionDeleteMetadata) -> bytes:
    """
    Return the value of the record of an event.

    :param event: any event that may be written.
    :raises UnsafeEventError: if it cannot be encoded, reads back differently, or newer brokers than those of today refuse it.
    """
    try:
        value = serialize(event)
        reader = Reader(value)
        read_back = read_value(reader)
    except MalformedMetadataError as e:
        raise UnsafeEventError(f"event about {topic_id_partition_of(event)} cannot be encoded: {e}") from e
    if read_back != event:
        raise UnsafeEventError(f"event about {topic_id_partition_of(event)} reads back differently: not written")
    if reader.beyond_limits is not None:
        raise UnsafeEventError(f"event about {topic_id_partition_of(event)} is not written: {reader.beyond_limits}")
    return value
