# SPDX-License-Identifier: Apache-2.0
"""Rows of the table of segments as records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from airflow_provider_rlmm.core.records.records import RemoteLogSegmentId, RemoteLogSegmentMetadata, TopicIdPartition
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState

_PLAIN = (
    "start_offset", "end_offset", "max_timestamp_ms", "broker_id", "event_timestamp_ms", "segment_size_in_bytes",
    "custom_metadata", "txn_idx_empty",
)  # fmt: skip

OF_METADATA = ("topic_id", "topic", "partition", "segment_id", *_PLAIN)
"""The columns that :func:`metadata_of` needs."""


def metadata_of(row: Mapping[str, Any]) -> RemoteLogSegmentMetadata:
    """
    Return a copied segment as far as it is needed to tell where it lies.

    :param row: of the table ``segments``, with :data:`OF_METADATA` at least.
    """
    tip = TopicIdPartition(UUID(bytes=row["topic_id"]), row["topic"], row["partition"])
    return RemoteLogSegmentMetadata(
        RemoteLogSegmentId(tip, UUID(bytes=row["segment_id"])),
        segment_leader_epochs=((0, row["start_offset"]),),
        state=RemoteLogSegmentState.COPY_SEGMENT_FINISHED,
        **{name: row[name] for name in _PLAIN},
    )
