# SPDX-License-Identifier: Apache-2.0
"""What runs of this package leave in a work folder, as catalogues ask it: snapshots and audit logs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from airflow_provider_rlmm.core.base.work_folder import cluster_folder
from airflow_provider_rlmm.core.log.snapshot import Snapshot, TopicIdentity
from airflow_provider_rlmm.core.log.snapshot_file import SnapshotFile
from airflow_provider_rlmm.core.records.columnar import ColumnarState, decode
from airflow_provider_rlmm.core.records.lost_records import HistoryGap
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata, RemoteLogSegmentMetadataUpdate
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.world.audit_log import AuditFiles
from airflow_provider_rlmm.core.world.run_identity import RunIdentity
from tests.recovery import segment

CLUSTER_ID = "lost-cluster"
METADATA_TOPIC = UUID(int=500)


def update(of: RemoteLogSegmentMetadata, state: S) -> RemoteLogSegmentMetadataUpdate:
    custom = b"custom" if state is S.COPY_SEGMENT_FINISHED else None
    return RemoteLogSegmentMetadataUpdate(of.remote_log_segment_id, 20_000 + state, custom, state, 4)


def copied(*segments: RemoteLogSegmentMetadata, up_to: S = S.COPY_SEGMENT_FINISHED) -> list[Any]:
    """Events of segments up to a state."""
    return [e for of in segments for e in (of, *(update(of, S(state)) for state in range(1, up_to + 1)))]


def keep(
    folder: Path,
    events: Sequence[Any],
    *,
    at_ms: int = 50_000,
    offset: int | None = None,
    topic_id: UUID = METADATA_TOPIC,
    cluster_id: str = CLUSTER_ID,
    name: str = "",
    gaps: tuple[HistoryGap, ...] = (),
) -> Path:
    """A snapshot in the folder of a cluster, as a run leaves it."""
    state, _ = ColumnarState.empty().apply(decode([serialize(event) for event in events]))
    identity = TopicIdentity(cluster_id, topic_id, 1)
    end = len(events) if offset is None else offset
    path = folder / cluster_folder(cluster_id) / (name or f"topic-{topic_id}.snapshot")
    path.parent.mkdir(parents=True, exist_ok=True)
    SnapshotFile(str(path)).write(Snapshot(identity, {0: end}, gaps, at_ms, state))
    return path


def audited(folder: Path, *segments: RemoteLogSegmentMetadata, outcome: str = "GONE") -> Path:
    """The audit log of a run that has deleted some segments."""
    cluster = folder / cluster_folder(CLUSTER_ID)
    log = AuditFiles(str(cluster), CLUSTER_ID, RunIdentity("dag", "r", "dag.1", "ada"), 0, lambda: 1_000)
    tip = segments[0].remote_log_segment_id.topic_id_partition
    ids = [of.remote_log_segment_id.id.bytes for of in segments]
    written = log.before(
        {"topic": tip.topic, "topic_id": tip.topic_id.bytes, "partition": tip.partition, "metadata_partition": 0,
         "segment_id": ids, "started_offset": list(range(len(ids)))}
    )  # fmt: skip
    log.after(written, {"outcome": [outcome] * len(ids), "objects": [3] * len(ids)})
    return cluster


FIRST, SECOND = segment(1, 0, 9), segment(2, 10, 19)
