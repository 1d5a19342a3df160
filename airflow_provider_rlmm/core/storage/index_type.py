# SPDX-License-Identifier: Apache-2.0
"""The files that accompany a segment's log."""

from __future__ import annotations

from enum import StrEnum


class IndexType(StrEnum):
    """The files that accompany a segment's log (Kafka: ``RemoteStorageManager.IndexType``)."""

    OFFSET = "offset"
    TIMESTAMP = "timestamp"
    PRODUCER_SNAPSHOT = "producer_snapshot"
    TRANSACTION = "transaction"
    LEADER_EPOCH = "leader_epoch"
