# SPDX-License-Identifier: Apache-2.0
"""Records of the metadata topic as plain JSON types: one shape for all that print them."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from airflow_provider_rlmm.core.records.outcomes import ErrorCode
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.records.serde import (
    PARTITION_DELETE_API_KEY,
    SEGMENT_API_KEY,
    SEGMENT_UPDATE_API_KEY,
    SNAPSHOT_API_KEY,
)
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState, RemotePartitionDeleteState

KINDS: Final = {
    SEGMENT_API_KEY: "RemoteLogSegmentMetadata",
    SEGMENT_UPDATE_API_KEY: "RemoteLogSegmentMetadataUpdate",
    PARTITION_DELETE_API_KEY: "RemotePartitionDeleteMetadata",
    SNAPSHOT_API_KEY: "RemoteLogSegmentMetadataSnapshot",
}
"""Kind of record → the name of Kafka's class for it."""

_IDS: Final = ("topic_id", "segment_id")
_BYTES: Final = ("custom_metadata", "key")


def record_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return a record as plain JSON types; what it does not have is left out.

    :param row: of :func:`~airflow_provider_rlmm.core.records.columnar.decode`.
    :return: ``metadata_partition``, ``offset``, ``timestamp_ms``, ``event`` (the name of Kafka's class), ``state`` and the
        fields under the names of Kafka's schema in snake case; ``error`` where it cannot be applied as it is.
    """
    found: dict[str, Any] = {
        name: row[name] for name in ("metadata_partition", "offset", "timestamp_ms") if row.get(name) is not None
    }
    api_key = row.get("api_key")
    if api_key is not None and api_key in KINDS:
        found["event"] = KINDS[api_key]
    if row.get("state") is not None:
        states = RemotePartitionDeleteState if api_key == PARTITION_DELETE_API_KEY else RemoteLogSegmentState
        found["state"] = states(row["state"]).name
    for name, value in row.items():
        if value is None or name in found or name in ("api_key", "error", "error_code", "state"):
            continue
        found[name] = _plain(name, value)
    if row.get("error_code"):
        found["error"] = {"code": ErrorCode(row["error_code"]).name, "reason": row.get("error")}
    return found


def segment_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return a segment that is not finished as plain JSON types.

    :param row: of the table ``segments`` of the columnar state.
    """
    return {
        name: RemoteLogSegmentState(value).name if name == "state" else _plain(name, value)
        for name, value in row.items()
        if value is not None
    }


def _plain(name: str, value: Any) -> Any:
    if name in _IDS:
        return kafka_uuid_str(UUID(bytes=value))
    if name in _BYTES:
        return base64.b64encode(value).decode("ascii")
    if name == "segment_leader_epochs":
        return [[epoch["leader_epoch"], epoch["start_offset"]] for epoch in value]
    return value
