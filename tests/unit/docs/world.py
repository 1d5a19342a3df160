# SPDX-License-Identifier: Apache-2.0
"""The cluster that the examples of the documentation run on: fakes behind the hooks, a deleted topic and a living one."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from airflow.sdk import DAG, Asset

from airflow_provider_rlmm.assets.by_connection import cleanup_asset
from airflow_provider_rlmm.core.base import file_systems
from airflow_provider_rlmm.core.log.answers import OffsetsByTime
from airflow_provider_rlmm.core.log.in_process import (
    METADATA_TOPIC_ID,
    InProcessMetadataEventLog,
    InProcessOffsetStore,
)
from airflow_provider_rlmm.core.log.kafka.admin import MetadataTopicDescription, PartitionReplicas
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import (
    OWN_BROKER_ID,
    RemoteLogMetadata,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
    topic_id_partition_of,
)
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState, RemotePartitionDeleteState
from airflow_provider_rlmm.core.storage.in_memory import InMemoryRemoteStorageManager
from airflow_provider_rlmm.core.storage.layouts import LocalTieredStorageLayout
from airflow_provider_rlmm.hooks.metadata import RemoteLogMetadataHook
from tests.archiving import files_of
from tests.kafka_log import Batch, Record
from tests.unit.airflow.operators.test_operators import connect, put_behind_the_hooks
from tests.unit.library.topics import TieredTopics

PARTITIONS = 3
DAY_MS = 86_400_000
NOW_MS = int(datetime(2025, 3, 1, 22, 30, tzinfo=UTC).timestamp() * 1000)
"""Within the deletion window that the pages name."""

ORDERS = TopicIdPartition(UUID(int=77), "orders", 0)
"""Deleted, marked ten days ago, and its two segments are left."""
FORGOTTEN = TopicIdPartition(UUID(int=77), "orders", 1)
"""Deleted; the log calls its segment finished, and the objects are left."""
UNMARKED = TopicIdPartition(UUID(int=77), "orders", 2)
"""Deleted, and nobody has looked at it yet; one segment is left."""
PAYMENTS = [TopicIdPartition(UUID(int=81), "payments", n) for n in range(2)]
"""Living, with ten segments each, of ten records: a new one each hour, the last one an hour ago."""
LIVING = {"billing": UUID(int=82)}
"""Living, without remote segments: the pages put it on hold."""
HOUR_MS = 3_600_000

MARKED = {"payload": {"topic_ids": []}}
"""What an event of the watcher holds besides; the pages know several assets, and the events here are of one."""

_S = RemoteLogSegmentState


class World:
    """What the hooks lead to."""

    def __init__(self) -> None:
        self.log = InProcessMetadataEventLog(PARTITIONS, clock=lambda: NOW_MS)
        self.layout = LocalTieredStorageLayout()
        self.storage = InMemoryRemoteStorageManager(self.layout)
        self.topics = TieredTopics({"payments": PAYMENTS[0].topic_id, **LIVING}, cluster_id="cluster-1")
        healthy = {"min.insync.replicas": 2, "cleanup.policy": "delete", "retention.ms": -1}
        replicas = tuple(PartitionReplicas(n, True, 3, 3) for n in range(PARTITIONS))
        described = MetadataTopicDescription(
            METADATA_TOPIC_ID, PARTITIONS, healthy, frozenset({"READ", "WRITE"}), replicas
        )
        self.topics.describe_metadata_topic = lambda topic: described  # type: ignore[attr-defined]
        self.topics.offsets_by_time = _offsets_by_time  # type: ignore[attr-defined]
        self.offsets = InProcessOffsetStore()
        for tip in PAYMENTS:
            for number in range(10):
                self._copy(tip, number, (_S.COPY_SEGMENT_FINISHED,))
        for number in range(2):
            self._copy(ORDERS, number, (_S.COPY_SEGMENT_FINISHED,))
        self._copy(UNMARKED, 0, (_S.COPY_SEGMENT_FINISHED,))
        self._copy(FORGOTTEN, 0, (_S.COPY_SEGMENT_FINISHED, _S.DELETE_SEGMENT_STARTED, _S.DELETE_SEGMENT_FINISHED))
        marked_ms = NOW_MS - 10 * DAY_MS
        marked = RemotePartitionDeleteState.DELETE_PARTITION_MARKED
        self._say(RemotePartitionDeleteMetadata(ORDERS, marked, marked_ms, OWN_BROKER_ID), marked_ms)

    def objects_of(self, tip: TopicIdPartition) -> int:
        """Return how many objects of a user partition are stored."""
        return sum(map(len, self.storage.list_log_segments(tip).values()))

    @property
    def events(self) -> int:
        """How many events the log holds."""
        return sum(self.log.high_water_marks().values())

    def _copy(self, tip: TopicIdPartition, number: int, then: tuple[RemoteLogSegmentState, ...]) -> None:
        copied_ms = NOW_MS - 20 * DAY_MS
        segment = RemoteLogSegmentId(tip, UUID(int=tip.topic_id.int * 1000 + tip.partition * 100 + number))
        start = number * 10
        records = tuple(_record(tip, offset, copied_ms) for offset in range(start, start + 10))
        files = files_of([Batch(records)])
        added = RemoteLogSegmentMetadata(
            segment, start, start + 9, records[-1].timestamp, 1, copied_ms, len(files[None]), None, _S.COPY_SEGMENT_STARTED,
            ((0, start),), True,
        )  # fmt: skip
        self._say(added, copied_ms)
        for state in then:
            self._say(RemoteLogSegmentMetadataUpdate(segment, copied_ms, None, state, 1), copied_ms)
        for kind, data in files.items():
            self.storage.put_object(self.layout.object_key(added, kind), data)

    def _say(self, event: RemoteLogMetadata, at_ms: int) -> None:
        tip = topic_id_partition_of(event)
        self.log.append(metadata_partition_for(tip, PARTITIONS), serialize(event), timestamp_ms=at_ms)


def _offsets_by_time(topic: str, timestamp_ms: int) -> dict[int, OffsetsByTime]:
    """Where the partitions of the living topic reach a time, as their leaders say."""
    first_ms = NOW_MS - 100 * HOUR_MS
    reached = max(0, -((first_ms - timestamp_ms) // HOUR_MS))
    return {tip.partition: OffsetsByTime(0, reached if reached < 100 else None, 100) for tip in PAYMENTS}


def _record(tip: TopicIdPartition, offset: int, copied_ms: int) -> Record:
    if tip not in PAYMENTS:
        return Record(offset, copied_ms)
    return Record(offset, NOW_MS - (100 - offset) * HOUR_MS, b"card", b"%d EUR" % offset)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> World:
    """A cluster behind the hooks, with a connection that allows everything."""
    fake = World()
    monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", str(tmp_path / "work"))
    connect(monkeypatch, storage_uri="s3://tiered/kafka", archive_uri=str(tmp_path / "archives"))
    monkeypatch.setattr(RemoteLogMetadataHook, "get_proven_clock", lambda self, log, **_: lambda: NOW_MS)
    monkeypatch.setattr(file_systems, "modified_ms", lambda uri: NOW_MS)
    put_behind_the_hooks(monkeypatch, fake)
    return fake


class TaskInstance:
    """What the operators ask of Airflow's."""

    def __init__(self, task_id: str, kept: dict[tuple[str, str], Any]) -> None:
        self.task_id = task_id
        self._kept = kept

    def xcom_push(self, key: str, value: Any) -> None:
        self._kept[self.task_id, key] = value

    def xcom_pull(self, task_ids: str, key: str = "return_value") -> Any:
        return self._kept[task_ids, key]

    def get_ti_count(self, **_: Any) -> int:
        return 0


class OutletEvents(dict[Asset, Any]):
    """Asset → what a task says of it."""

    def __missing__(self, asset: Asset) -> Any:
        return self.setdefault(asset, SimpleNamespace(extra=None))


def run_dag(dag: DAG, others: frozenset[str] = frozenset(), **params: Any) -> dict[str, Any]:
    """
    Run the tasks of a DAG one after the other, as a run that was triggered without any configuration.

    :param dag: the DAG.
    :param others: tasks that are taken for done, as they need what no fake gives.
    :param params: parameters that differ from the DAG's defaults.
    :return: what each task returned; a list of a mapped one.
    """
    kept: dict[tuple[str, str], Any] = {}
    run = SimpleNamespace(dag_id=dag.dag_id, run_id="run", conf={}, start_date=None)
    values = {name: dag.params.get_param(name).resolve() for name in dag.params} | params
    returned: dict[str, Any] = {}
    for declared in dag.topological_sort():
        if declared.task_id in others:
            continue
        context: Any = {
            "ti": TaskInstance(declared.task_id, kept), "dag_run": run, "dag": dag, "params": values,
            "outlet_events": OutletEvents(),
            "triggering_asset_events": {
                cleanup_asset("rlmm_default"): [SimpleNamespace(extra={"segments_deleted": 2, "bytes_deleted": 120} | MARKED)]
            },
        }  # fmt: skip
        answers = [_execute(task, context | {"task": task}, dag) for task in _instances(declared, kept)]
        returned[declared.task_id] = answers if declared.is_mapped else answers[0]
        kept[declared.task_id, "return_value"] = returned[declared.task_id]
    return returned


def _instances(declared: Any, kept: dict[tuple[str, str], Any]) -> list[Any]:
    if not declared.is_mapped:
        return [declared]
    planner = f"{declared.task_id.rpartition('clean')[0]}plan"
    return [declared.unmap({"metadata_partition": number}) for number in kept[planner, "return_value"]]


def _execute(declared: Any, context: Any, dag: DAG) -> Any:
    task = declared.prepare_for_execution()
    task.render_template_fields(context, dag.get_template_env())
    return task.execute(context)
