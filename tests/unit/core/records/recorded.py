# SPDX-License-Identifier: Apache-2.0
"""What Kafka's own classes wrote and printed, from ``tests/data``; reads it without the package's codecs."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any
from uuid import UUID

from airflow_provider_rlmm.core.records.records import (
    RemoteLogMetadata,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataSnapshot,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
)
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState, RemotePartitionDeleteState

DATA = Path(__file__).parents[3] / "data"


def json_lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]


GOLDEN = json_lines("golden_serde.jsonl")
REAL = json_lines("real_metadata.jsonl")
FORMATTED = (DATA / "real_metadata.txt").read_text(encoding="utf-8").splitlines()
GOLDEN_VALUES = [bytes.fromhex(case["value_hex"]) for case in GOLDEN]
REAL_VALUES = [bytes.fromhex(record["value_hex"]) for record in REAL]


def event_of(case: dict[str, Any]) -> RemoteLogMetadata:
    """Return the record that a golden case describes."""
    if case["kind"] == "segment_snapshot":
        return RemoteLogSegmentMetadataSnapshot(segment_id=_id(case["segment_id"]), **_segment_fields(case))
    topic_id_partition = TopicIdPartition(UUID(hex=case["topic_id_hex"]), case["topic"], case["partition"])
    event = {"event_timestamp_ms": case["event_timestamp_ms"], "broker_id": case["broker_id"]}
    if case["kind"] == "partition_delete":
        return RemotePartitionDeleteMetadata(topic_id_partition, RemotePartitionDeleteState[case["state"]], **event)
    segment_id = RemoteLogSegmentId(topic_id_partition, _id(case["segment_id"]))
    if case["kind"] == "segment":
        return RemoteLogSegmentMetadata(segment_id, **_segment_fields(case))
    state = RemoteLogSegmentState[case["state"]]
    return RemoteLogSegmentMetadataUpdate(segment_id, custom_metadata=_custom(case), state=state, **event)


def _segment_fields(case: dict[str, Any]) -> dict[str, Any]:
    same = ("start_offset", "end_offset", "max_timestamp_ms", "broker_id", "event_timestamp_ms", "txn_idx_empty")
    return {
        **{name: case[name] for name in same},
        "segment_size_in_bytes": case["segment_size"],
        "custom_metadata": _custom(case),
        "state": RemoteLogSegmentState[case["state"]],
        "segment_leader_epochs": tuple((epoch, offset) for epoch, offset in case["leader_epochs"]),
    }


def _custom(case: dict[str, Any]) -> bytes | None:
    return None if case["custom_metadata_hex"] is None else bytes.fromhex(case["custom_metadata_hex"])


def _id(text: str) -> UUID:
    return UUID(bytes=base64.urlsafe_b64decode(text + "=="))


_RECORD = re.compile(r"partition: (\d+), offset: (\d+), value: (\w+)\{(.*)\}")
_SEGMENT_ID = re.compile(
    r"remoteLogSegmentId=RemoteLogSegmentId\{topicIdPartition=([\w-]{22}):([\w.-]+)-(\d+), id=([\w-]{22})\}, (.*)"
)
_FIELD = re.compile(r"(\w+)=(Optional\[CustomMetadata\{\d+ bytes\}\]|\{[^}]*\}|[^,{]+)")


def parse_formatted(line: str) -> dict[str, Any]:
    """Return what a line of Kafka's ``RemoteLogMetadataFormatter`` says, under the names of our columns."""
    record = _RECORD.fullmatch(line)
    assert record is not None, line
    segment = _SEGMENT_ID.fullmatch(record[4])
    assert segment is not None, line
    fields = dict(_FIELD.findall(segment[5]))
    parsed = {
        "metadata_partition": int(record[1]),
        "offset": int(record[2]),
        "kind": record[3],
        "topic_id": _id(segment[1]).bytes,
        "topic": segment[2],
        "partition": int(segment[3]),
        "segment_id": _id(segment[4]).bytes,
        "state": int(RemoteLogSegmentState[fields["state"]]),
        "broker_id": int(fields["brokerId"]),
        "event_timestamp_ms": int(fields["eventTimestampMs"]),
        "custom_metadata_size": _custom_size(fields["customMetadata"]),
    }
    if record[3] == "RemoteLogSegmentMetadata":
        epochs = [pair.split("=") for pair in fields["segmentLeaderEpochs"].strip("{}").split(", ")]
        parsed.update(
            start_offset=int(fields["startOffset"]),
            end_offset=int(fields["endOffset"]),
            max_timestamp_ms=int(fields["maxTimestampMs"]),
            segment_size_in_bytes=int(fields["segmentSizeInBytes"]),
            txn_idx_empty={"true": True, "false": False}[fields["txnIdxEmpty"]],
            segment_leader_epochs=[(int(epoch), int(offset)) for epoch, offset in epochs],
        )
    return parsed


def _custom_size(text: str) -> int | None:
    return None if text == "Optional.empty" else int(text.removeprefix("Optional[CustomMetadata{").split()[0])
