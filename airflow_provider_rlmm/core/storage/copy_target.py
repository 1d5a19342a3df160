# SPDX-License-Identifier: Apache-2.0
"""Whether segments can be copied into a layout at all: it has to say which object holds each of their files."""

from __future__ import annotations

from uuid import UUID

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.records.records import (
    COPIER_BROKER_ID,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    TopicIdPartition,
)
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.core.storage.index_type import IndexType
from airflow_provider_rlmm.core.storage.layout import Layout


def obstacle_to_copies(layout: Layout) -> str | None:
    """
    Tell why no segment can be copied into a layout, and what to do; ``None`` where it says which object holds each file.

    :param layout: of the storage. One that lacks the key of the transaction index alone is refused, too: the first segment
        with an aborted transaction would end the copy.
    """
    anyone = RemoteLogSegmentId(TopicIdPartition(UUID(int=1), "anyone", 0), UUID(int=1))
    state = RemoteLogSegmentState.COPY_SEGMENT_STARTED
    segment = RemoteLogSegmentMetadata(anyone, 0, 0, 0, COPIER_BROKER_ID, 0, 1, None, state, ((0, 0),))
    try:
        for index_type in (None, *IndexType):
            layout.object_key(segment, index_type)
    except ConfigurationError as e:
        return (
            f"nothing can be copied into the storage layout {layout.name}: {e}. Let brokers copy, whose plugin writes it: "
            "start one on this disk, then set remote.log.copy.disable of the topic to false, and remote.copy.lag.ms to 0 "
            "where it has a copy lag (Kafka 4.4)"
        )
    return None
