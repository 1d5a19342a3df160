# SPDX-License-Identifier: Apache-2.0
"""The bytes of an event that is to be written, proven to say the same when they are read back."""

from __future__ import annotations

from airflow_provider_rlmm.core.base.errors import MalformedMetadataError, UnsafeEventError
from airflow_provider_rlmm.core.records.records import (
    RemotePartitionDeleteMetadata,
    SegmentEvent,
    topic_id_partition_of,
)
from airflow_provider_rlmm.core.records.serde import deserialize, serialize


def encode(event: SegmentEvent | RemotePartitionDeleteMetadata) -> bytes:
    """
    Return the value of the record of an event.

    :param event: any event that may be written.
    :raises UnsafeEventError: if it cannot be encoded, or reads back differently.
    """
    try:
        value = serialize(event)
        read_back = deserialize(value)
    except MalformedMetadataError as e:
        raise UnsafeEventError(f"event about {topic_id_partition_of(event)} cannot be encoded: {e}") from e
    if read_back != event:
        raise UnsafeEventError(f"event about {topic_id_partition_of(event)} reads back differently: not written")
    return value
