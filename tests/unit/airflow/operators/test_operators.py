# SPDX-License-Identifier: Apache-2.0
"""The operators over the in-process log, an in-memory store and a listing of topics: what they pass on, keep and refuse."""

from __future__ import annotations

import json
import re
import stat
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.sdk import DAG, Asset, BaseHook
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from airflow_provider_rlmm.core.base.clock import system_clock
from airflow_provider_rlmm.core.base.errors import (
    BlastRadiusError,
    ClusterMismatchError,
    ConfigurationError,
    EventByHandRefusedError,
    EventLogUnavailableError,
    LostRecordsError,
    PlanError,
    StorageRootError,
    WriteRefusedError,
)
from airflow_provider_rlmm.core.base.work_folder import cluster_folder
from airflow_provider_rlmm.core.generations.manifest import Anchor, Generation, GenerationFile, GenerationPart
from airflow_provider_rlmm.core.generations.store import GenerationStore
from airflow_provider_rlmm.core.log import floored_log
from airflow_provider_rlmm.core.log.floors import ExplainedGap, FloorFiles
from airflow_provider_rlmm.core.log.in_process import InProcessMetadataEventLog, InProcessOffsetStore
from airflow_provider_rlmm.core.log.in_process_topics import InProcessClusterTopics
from airflow_provider_rlmm.core.plans.early_deletion import EarlyDeletion
from airflow_provider_rlmm.core.plans.plan_files import read_document, read_plan, write_document, write_plan
from airflow_provider_rlmm.core.plans.prices import StorageClass, StoragePrice
from airflow_provider_rlmm.core.plans.refusals import Refusal, RefusalKind
from airflow_provider_rlmm.core.records.era import PLAIN_ERA
from airflow_provider_rlmm.core.records.lost_records import HistoryGap
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    TopicIdPartition,
    kafka_uuid_str,
)
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.core.runs.steps import seconds_of_steps
from airflow_provider_rlmm.core.runs.task_failure import TaskFailure
from airflow_provider_rlmm.core.storage.in_memory import InMemoryRemoteStorageManager
from airflow_provider_rlmm.core.storage.layouts import LocalTieredStorageLayout
from airflow_provider_rlmm.core.storage.stamps import Location
from airflow_provider_rlmm.core.world.cluster_state import ClusterState, ListedTopic
from airflow_provider_rlmm.features.cleanup import steps as cleanup_steps
from airflow_provider_rlmm.features.cleanup.report_document import read_report
from airflow_provider_rlmm.features.survey.inventory import Inventory
from airflow_provider_rlmm.hooks.metadata import RemoteLogMetadataHook
from airflow_provider_rlmm.hooks.storage import RemoteStorageHook
from airflow_provider_rlmm.operators.check import CheckRemoteLogCleanupOperator
from airflow_provider_rlmm.operators.cleaner import (
    CleanMetadataPartitionOperator,
    MarkDeletedPartitionsOperator,
    PlanRemoteLogCleanupOperator,
    ReportRemoteLogCleanupOperator,
)
from airflow_provider_rlmm.operators.metadata import PublishRemoteLogMetadataOperator, ReadRemoteLogMetadataOperator
from airflow_provider_rlmm.operators.retention import PublishRetentionPlanOperator, SegmentRetentionOperator
from airflow_provider_rlmm.operators.survey import SurveyRemoteLogOperator
from airflow_provider_rlmm.settings import artifact_uri
from tests.generations import written
from tests.spark_jars import connector_jar

PARTITIONS = 2
SECRET = "correct-horse-battery-staple"
NOW: dict[str, Any] = {"min_absence_ms": 0, "overrides": ["short_min_absence"]}
GONE = [TopicIdPartition(UUID(int=77), "gone", n) for n in range(3)]
ALIVE = TopicIdPartition(UUID(int=78), "alive", 0)


class Cluster:
    """Two segments in each partition of a deleted topic, and two of a living one."""

    def __init__(self) -> None:
        self.log = InProcessMetadataEventLog(PARTITIONS)
        self.layout = LocalTieredStorageLayout()
        self.storage = InMemoryRemoteStorageManager(self.layout)
        self.topics = InProcessClusterTopics({"alive": ALIVE.topic_id}, cluster_id="cluster-1")
        self.offsets = InProcessOffsetStore()
        for number, tip in enumerate([ALIVE, *GONE]):
            for segment in range(2):
                self.copy(tip, UUID(int=1000 + 10 * number + segment), segment * 10)

    def copy(self, tip: TopicIdPartition, segment: UUID, start: int) -> None:
        segment_id = RemoteLogSegmentId(tip, segment)
        added = RemoteLogSegmentMetadata(
            segment_id, start, start + 9, 1, 1, 1, 100, None, RemoteLogSegmentState.COPY_SEGMENT_STARTED, ((0, start),)
        )
        state = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
        for event in (added, RemoteLogSegmentMetadataUpdate(segment_id, 2, None, state, 1)):
            self.log.append(metadata_partition_for(tip, PARTITIONS), serialize(event))
        for key in self.layout.required_keys(added):
            self.storage.put_object(key, b"x" * 10)

    @property
    def events(self) -> int:
        return sum(self.log.high_water_marks().values())


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", str(tmp_path / "work"))
    return tmp_path / "work"


def connect(monkeypatch: pytest.MonkeyPatch, **extra: Any) -> None:
    """Connect to the cluster; who takes the wait away names the root, where it is that of the fake."""
    named = {} if "storage_uri" in extra else {"expected_root": "memory://kafka-tiered-storage"}
    values = {"kafka_conn_id": "kafka_prod", "allow_writes": True, "expected_cluster_id": "cluster-1"} | named | extra
    document = {"conn_type": "rlmm", "extra": {k: v for k, v in values.items() if v is not None}}
    monkeypatch.setenv("AIRFLOW_CONN_RLMM_DEFAULT", json.dumps(document))
    kafka = {
        "bootstrap.servers": "b:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "u",
    }
    kafka["sasl.password"] = SECRET
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_PROD", json.dumps({"conn_type": "kafka", "extra": kafka}))


def put_behind_the_hooks(monkeypatch: pytest.MonkeyPatch, fake: Any) -> None:
    """Have the hooks open the fakes of a cluster."""
    for hook, name, value in (
        (RemoteLogMetadataHook, "get_event_log", nullcontext(fake.log)),
        (RemoteLogMetadataHook, "get_cluster_topics", fake.topics),
        (RemoteLogMetadataHook, "get_offset_store", fake.offsets),
        (RemoteStorageHook, "get_storage_manager", fake.storage),
    ):
        monkeypatch.setattr(hook, name, lambda self, value=value: value)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, work: Path) -> Cluster:
    """A cluster behind the hooks, with connections that allow everything."""
    fake = Cluster()
    connect(monkeypatch)
    monkeypatch.setattr(RemoteLogMetadataHook, "get_proven_clock", lambda self, log, **_: system_clock)
    put_behind_the_hooks(monkeypatch, fake)
    return fake


class TaskInstance:
    def __init__(self, failed: int = 0) -> None:
        self.pushed: dict[str, Any] = {}
        self.failed = failed

    def xcom_push(self, key: str, value: Any) -> None:
        self.pushed[key] = value

    def get_ti_count(self, **given: Any) -> int:
        assert given == {
            "dag_id": "dag",
            "run_ids": ["run"],
            "task_ids": ["clean"],
            "states": ["failed", "upstream_failed"],
        }
        return self.failed


class OutletEvents(dict[Asset, Any]):
    def __missing__(self, asset: Asset) -> Any:
        return self.setdefault(asset, SimpleNamespace(extra=None))


def context(run_id: str = "run", failed: int = 0) -> Any:
    run = SimpleNamespace(dag_id="dag", run_id=run_id)
    return {"ti": TaskInstance(failed), "dag_run": run, "outlet_events": OutletEvents()}


def mark_and_plan(**arguments: Any) -> list[int]:
    MarkDeletedPartitionsOperator(task_id="mark", dry_run_only=False).execute(context())
    return plan(**arguments)


def become_dry(work: Path) -> None:
    """Have the run whose plan was made be a dry run, as if its marker had been one, too."""
    folder = work / "dag.run"
    (folder / "summary.json").write_text(replace(read_plan(str(folder)), dry_run=True).to_json())
    (folder / "mark.json").unlink()


def plan(**arguments: Any) -> list[int]:
    given = {"limits": NOW, "blast_radius": {"max_share": 1.0}} | arguments
    return PlanRemoteLogCleanupOperator(task_id="plan", **given).execute(context())


def clean(metadata_partition: int, ctx: Any = None, **arguments: Any) -> dict[str, Any]:
    operator = CleanMetadataPartitionOperator(
        task_id="clean", metadata_partition=metadata_partition, **({"limits": NOW, "dry_run_only": False} | arguments)
    )
    return operator.execute(ctx or context())


def test_the_four_steps_delete_what_is_gone_and_nothing_else(cluster: Cluster, work: Path) -> None:
    alive = {key for key in cluster.storage.keys if kafka_uuid_str(ALIVE.topic_id) in key}
    metadata_partitions = mark_and_plan()
    assert metadata_partitions == sorted({metadata_partition_for(tip, PARTITIONS) for tip in GONE})
    for metadata_partition in metadata_partitions:
        ctx = context()
        counts = clean(metadata_partition, ctx)
        assert ctx["rlmm_counts"] == f": {counts['segments_deleted']} segments deleted, 0 left"
        assert ctx["ti"].pushed == {"rlmm_plan": "dag.run", "rlmm_report": "dag.run"}
    asset, ctx = Asset("done"), context()
    totals = ReportRemoteLogCleanupOperator(task_id="report", outlets=[asset]).execute(ctx)
    assert (totals["segments_deleted"], totals["partitions_finished"], totals["refusals"]) == (6, 3, 0)
    assert ctx["outlet_events"][asset].extra == totals
    assert ctx["ti"].pushed == {"rlmm_plan": "dag.run", "rlmm_report": "dag.run"}
    assert json.loads(Path(totals["report"]).read_text())["totals"]["segments_deleted"] == 6
    assert {key for key in cluster.storage.keys if key.startswith("kafka-tiered-storage/")} == alive


def test_a_run_whose_time_is_over_is_green_and_says_what_is_left(cluster: Cluster, work: Path) -> None:
    metadata_partitions, folder = mark_and_plan(), work / "dag.run"
    (folder / "cleaning.json").write_text(json.dumps({"plan_sha256": read_plan(str(folder)).sha256, "began_at_ms": 1}))
    keys = cluster.storage.keys
    left = [clean(number, limits=NOW | {"max_minutes": 1})["segments_left"] for number in metadata_partitions]
    assert (sum(left), cluster.storage.keys) == (6, keys)
    assert ReportRemoteLogCleanupOperator(task_id="report").execute(context())["needs_person"] == 0
    said = json.loads((folder / "report.json").read_text())["out_of_time"]
    assert (
        said
        == "the time of the run is over (1 min, by max_minutes): 6 segments are left, and the next run goes on with them"
    )
    assert [clean(number)["segments_left"] for number in metadata_partitions] == [0] * len(metadata_partitions)


@pytest.mark.parametrize(
    ("bounds", "of_dag", "at_once"),
    [({}, {}, 2), ({"max_active_tis_per_dagrun": 1}, {}, 1), ({"max_active_tis_per_dag": 1}, {}, 1),
     ({"max_active_tis_per_dagrun": 9}, {"max_active_tasks": 1}, 1), ({"max_active_tis_per_dagrun": 9}, {}, 2)],
)  # fmt: skip
def test_the_tasks_that_clean_at_once_share_the_rate_of_the_run(
    cluster: Cluster, work: Path, monkeypatch: pytest.MonkeyPatch, bounds: Any, of_dag: Any, at_once: int
) -> None:
    metadata_partition, *others = mark_and_plan()
    assert len(others) == 1
    told: list[Any] = []
    cleaned = cleanup_steps.clean

    def listening(*given: Any, **named: Any) -> Any:
        told.append(named["at_once"])
        return cleaned(*given, **named)

    monkeypatch.setattr(cleanup_steps, "clean", listening)
    with DAG("dag", **of_dag):
        clean(metadata_partition, **bounds)
    assert told == [at_once]


def test_a_task_reads_its_connection_once_and_the_hold_anew(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    metadata_partition, *_ = mark_and_plan()
    read: list[str] = []
    get_connection = BaseHook.get_connection

    def counted(conn_id: str) -> Any:
        read.append(conn_id)
        return get_connection(conn_id)

    monkeypatch.setattr(BaseHook, "get_connection", staticmethod(counted))
    clean(metadata_partition)
    # The settings, and the hold as it is now.
    assert sorted(read) == ["kafka_prod", "rlmm_default", "rlmm_default"]


def test_a_dry_run_does_nothing_at_any_step(cluster: Cluster, work: Path) -> None:
    keys, events = cluster.storage.keys, cluster.events
    counts = MarkDeletedPartitionsOperator(task_id="mark", dry_run_only="True").execute(context("look"))
    said = {"would_mark": 3, "already_marked": 0, "refused": 0, "dry_run": True, "records_read": events}
    assert (counts, cluster.events) == (said, events)
    mark_and_plan()
    events = cluster.events
    MarkDeletedPartitionsOperator(task_id="mark", dry_run_only=True).execute(context())
    metadata_partitions = plan()
    for metadata_partition in metadata_partitions:
        ctx = context()
        counts = clean(metadata_partition, ctx, dry_run_only=True)
        assert counts["dry_run"] is True
        assert ctx["rlmm_counts"] == f": {counts['would_delete_segments']} segments would be deleted, 0 left"
        assert not [name for name in counts if "deleted" in name]
        part = json.loads(read_document(str(work / "dag.run"), f"clean-{metadata_partition}.json"))
        assert part["dry_run"] is True
        assert part["would_write"]
    totals = ReportRemoteLogCleanupOperator(task_id="report", dry_run_only=True).execute(context())
    assert (totals["dry_run"], totals["would_delete_segments"]) == (True, 6)
    assert (cluster.storage.keys, cluster.events) == (keys, events)
    assert cluster.offsets.committed() == {}


def test_what_a_dry_pass_of_a_run_would_have_deleted_is_not_added_to_the_real_one(cluster: Cluster, work: Path) -> None:
    """The run was cleared after its dry run was over, and decides anew."""
    parts = mark_and_plan()
    plan_of_it = (work / "dag.run" / "summary.json").read_text()
    become_dry(work)
    for part in parts:
        assert clean(part, dry_run_only=True)["dry_run"] is True
    (work / "dag.run" / "summary.json").write_text(plan_of_it)
    counts = [clean(part) for part in parts]
    assert sum(count["segments_deleted"] for count in counts) == 6


def test_only_what_the_source_plan_names_is_worked_on(cluster: Cluster, work: Path) -> None:
    mark_and_plan()
    source = str(work / "dag.run")
    cluster.copy(TopicIdPartition(UUID(int=99), "later", 0), UUID(int=5), 0)
    counts = MarkDeletedPartitionsOperator(task_id="mark", dry_run_only=False, source_plan=source).execute(context())
    # What was written since: the rest is known from the snapshot of the plan before.
    assert counts == {"marked": 0, "already_marked": 3, "refused": 0, "dry_run": False, "records_read": 2}
    assert MarkDeletedPartitionsOperator(task_id="mark", dry_run_only=False).execute(context())["marked"] == 1
    for plan, segments in ((source, 6), (None, 7)):
        operator = PlanRemoteLogCleanupOperator(
            task_id="plan", limits=NOW, source_plan=plan, blast_radius={"max_share": 1.0}
        )
        operator.execute(context("again"))
        assert read_plan(str(work / "dag.again")).planned.segments == segments
    with pytest.raises(PlanError, match="nowhere"):
        MarkDeletedPartitionsOperator(task_id="mark", dry_run_only=False, source_plan=str(work / "nowhere")).execute(
            context()
        )


@pytest.mark.parametrize("operator", [MarkDeletedPartitionsOperator, PlanRemoteLogCleanupOperator])
def test_a_source_plan_is_named_or_lies_below_an_allowed_root(
    cluster: Cluster, work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operator: Any
) -> None:
    mark_and_plan()
    for place in ("dag.run", str(work / "dag.run")):
        step = operator(task_id="step", source_plan=place, dry_run_only=False)
        if isinstance(step, PlanRemoteLogCleanupOperator):
            step.limits, step.blast_radius = NOW, {"max_share": 1.0}
        step.execute(context("later"))
    elsewhere = tmp_path / "elsewhere"
    (work / "dag.run").rename(elsewhere)
    step.source_plan = str(elsewhere)
    with pytest.raises(ConfigurationError, match="neither the name of a plan below"):
        step.execute(context("later"))
    monkeypatch.setenv("AIRFLOW__RLMM__ALLOWED_PLAN_ROOTS", str(tmp_path))
    step.execute(context("later"))


@pytest.mark.parametrize(
    ("changed", "message"), [({"cluster_id": "another"}, "for cluster 'another'"), ({"expires_at_ms": 1}, "expired")]
)
@pytest.mark.parametrize("operator", [MarkDeletedPartitionsOperator, PlanRemoteLogCleanupOperator])
def test_a_source_plan_that_is_not_valid_here_is_refused(
    cluster: Cluster, work: Path, operator: Any, changed: dict[str, Any], message: str
) -> None:
    mark_and_plan()
    source = work / "dag.run"
    (source / "summary.json").write_text(replace(read_plan(str(source)), **changed).to_json())
    with pytest.raises(PlanError, match=message):
        operator(task_id="step", source_plan=str(source), dry_run_only=False).execute(context("later"))


def test_a_plan_that_is_too_large_is_written_and_refused(cluster: Cluster, work: Path) -> None:
    with pytest.raises(BlastRadiusError, match=r"max_share is 75 %, the limit 50 %"):
        mark_and_plan(blast_radius={})
    summary = read_plan(str(work / "dag.run"))
    assert (summary.planned.segments, summary.within_blast_radius) == (6, False)


def test_a_plan_that_was_refused_is_not_applied(cluster: Cluster, work: Path) -> None:
    with pytest.raises(BlastRadiusError):
        mark_and_plan(blast_radius={})
    keys, events = cluster.storage.keys, cluster.events
    summary = read_plan(str(work / "dag.run"))
    for metadata_partition in summary.files:
        with pytest.raises(BlastRadiusError, match=r"max_share is 75 %, the limit 50 %"):
            clean(metadata_partition)
    (work / "dag.run/summary.json").write_text(replace(summary, blast_radius=None, within_blast_radius=False).to_json())
    with pytest.raises(PlanError, match="not judged by a blast radius"):
        clean(next(iter(summary.files)))
    assert (cluster.storage.keys, cluster.events) == (keys, events)


def test_a_plan_that_was_changed_is_not_applied(cluster: Cluster, work: Path) -> None:
    first, *_ = mark_and_plan()
    keys, events = cluster.storage.keys, cluster.events
    path = work / "dag.run" / read_plan(str(work / "dag.run")).files[first].name
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(PlanError, match="not the file that its plan was made with"):
        clean(first)
    with pytest.raises(PlanError, match="has no metadata partition 77"):
        clean(77)
    with pytest.raises(PlanError, match="not the file that its plan was made with"):
        MarkDeletedPartitionsOperator(task_id="mark", dry_run_only=False, source_plan=str(work / "dag.run")).execute(
            context("later")
        )
    assert (cluster.storage.keys, cluster.events) == (keys, events)


def test_nothing_happens_on_another_cluster(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    metadata_partitions = mark_and_plan()
    keys, events = cluster.storage.keys, cluster.events
    connect(monkeypatch, expected_cluster_id="cluster-2")
    operators: list[Any] = [
        MarkDeletedPartitionsOperator(task_id="mark", dry_run_only=False),
        PlanRemoteLogCleanupOperator(task_id="plan", limits=NOW),
        CleanMetadataPartitionOperator(
            task_id="clean", dry_run_only=False, metadata_partition=metadata_partitions[0], limits=NOW
        ),
        PublishRemoteLogMetadataOperator(task_id="publish", events=[]),
        SegmentRetentionOperator(task_id="evaluate"),
    ]
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[2]"}))
    for operator in operators:
        with pytest.raises(ClusterMismatchError, match="expected 'cluster-2'"):
            operator.execute(context())
    connect(monkeypatch, expected_cluster_id=None)
    with pytest.raises(ConfigurationError, match="expected_cluster_id"):
        clean(metadata_partitions[0])
    assert (cluster.storage.keys, cluster.events) == (keys, events)


def test_nothing_is_deleted_below_another_root_than_the_expected_one(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *_ = mark_and_plan()
    keys, events = cluster.storage.keys, cluster.events
    connect(monkeypatch, expected_root=str(UUID(int=5)))
    with pytest.raises(StorageRootError, match="expected_root of the rlmm connection is"):
        clean(first)
    assert (cluster.storage.keys, cluster.events) == (keys, events)
    connect(monkeypatch, expected_root="memory://kafka-tiered-storage")
    assert clean(first)["segments_deleted"] > 0


def test_a_copy_of_the_root_is_refused_until_its_stamp_is_moved(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, *_ = mark_and_plan()
    clean(first)
    keys, events = cluster.storage.keys, cluster.events
    cluster.storage.where = Location("memory", bucket="copy")
    with pytest.raises(StorageRootError, match=r"memory://copy/kafka-tiered-storage.*'move_stamp'"):
        clean(second)
    assert (cluster.storage.keys, cluster.events) == (keys, events)
    connect(monkeypatch, expected_root="memory://copy/kafka-tiered-storage")
    clean(second, limits=NOW | {"overrides": ["short_min_absence", "move_stamp"]})
    assert cluster.storage.check_root(frozenset(), "cluster-1").places[0].stamped


@pytest.mark.parametrize("effect", ["read", "publish", "list_topics"])
def test_errors_of_the_cluster_name_the_connection(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, effect: str
) -> None:
    def fail(name: str, detail: Any) -> None:
        if name == effect:
            raise EventLogUnavailableError("no answer")

    for part in (cluster.log, cluster.topics):
        monkeypatch.setattr(part, "on_effect", fail)
    with pytest.raises(EventLogUnavailableError, match=r"^connection 'kafka_prod': no answer$"):
        MarkDeletedPartitionsOperator(task_id="mark", dry_run_only=False).execute(context())


def test_reading_names_the_connection_too(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(name: str, detail: Any) -> None:
        raise EventLogUnavailableError("no answer")

    operator = ReadRemoteLogMetadataOperator(task_id="read", output_uri=str(tmp_path / "out"))
    read = operator.execute(context())
    assert read["rows"] == cluster.events
    again = ReadRemoteLogMetadataOperator(
        task_id="read", output_uri=str(tmp_path / "again"), start_offsets=read["next_offsets"]
    )
    assert again.execute(context())["rows"] == 0
    monkeypatch.setattr(cluster.log, "on_effect", fail)
    with pytest.raises(EventLogUnavailableError, match=r"^connection 'kafka_prod': no answer$"):
        operator.execute(context())


def read_all(uri: Path) -> dict[str, Any]:
    return ReadRemoteLogMetadataOperator(task_id="read", output_uri=str(uri)).execute(context())


def test_a_topic_that_has_lost_what_was_read_of_it_is_read_in_red(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(floored_log, "CATCH_UP_S", 0.0)
    read = read_all(tmp_path / "whole")
    read_until = cluster.log.high_water_marks()[0]
    cluster.log.cut_off(0, 2)
    with pytest.raises(LostRecordsError, match=f'"confirm_lost_records": "0@{read_until}"'):
        read_all(tmp_path / "cut")
    assert pq.read_metadata(tmp_path / "cut" / "metadata-partition-0.parquet").num_rows == 2
    assert read["rows"] > 2


def test_a_plan_of_spark_is_red_where_the_topic_has_lost_what_earlier_runs_have_read(
    cluster: Cluster, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(floored_log, "CATCH_UP_S", 0.0)
    mark_and_plan()
    read_until = cluster.log.high_water_marks()[1]
    cluster.log.cut_off(1, 1)
    with pytest.raises(AirflowFailException, match=rf"LOST_RECORDS.*read up to offset {read_until} by an earlier run"):
        PublishRetentionPlanOperator(task_id="publish").execute(context())


def test_a_topic_that_was_made_anew_is_read_in_red_and_said_once(cluster: Cluster, work: Path, tmp_path: Path) -> None:
    mark_and_plan()
    cluster.log.topic_id = cluster.topics.metadata_topic_id = UUID(int=99)
    for number in range(PARTITIONS):
        cluster.log.cut_off(number, 0)
    with pytest.raises(LostRecordsError, match="it was deleted and made anew") as refused:
        read_all(tmp_path / "anew")
    assert str(refused.value).count("made anew") == 1
    with pytest.raises(AirflowFailException, match=r"1 thing needs a person.*it was deleted and made anew"):
        PublishRetentionPlanOperator(task_id="publish").execute(context())


def test_publishing_goes_through_the_guard(cluster: Cluster) -> None:
    event = {"topic_id": kafka_uuid_str(GONE[0].topic_id), "topic": "gone", "partition": 0}
    marked = {**event, "state": "DELETE_PARTITION_MARKED"}
    (offset,) = PublishRemoteLogMetadataOperator(task_id="publish", events=[marked]).execute(context())
    assert offset == cluster.log.high_water_marks()[metadata_partition_for(GONE[0], PARTITIONS)] - 1
    alive = {**marked, "topic_id": kafka_uuid_str(ALIVE.topic_id), "topic": "alive"}
    events = cluster.events
    with pytest.raises(WriteRefusedError):
        PublishRemoteLogMetadataOperator(task_id="publish", events=[alive]).execute(context())
    assert cluster.events == events


def test_publishing_asks_for_the_override_for_absence_and_storage(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = {"topic_id": kafka_uuid_str(GONE[0].topic_id), "topic": "gone", "partition": 0}
    states = ["MARKED", "STARTED", "FINISHED"]
    deletion = [{**event, "state": f"DELETE_PARTITION_{state}"} for state in states]
    events, by_hand = cluster.events, ["events_by_hand"]
    with pytest.raises(EventByHandRefusedError, match="needs the override 'events_by_hand'"):
        PublishRemoteLogMetadataOperator(task_id="publish", events=deletion).execute(context())
    assert cluster.events == events
    with pytest.raises(EventByHandRefusedError, match="less than min_absence"):
        PublishRemoteLogMetadataOperator(task_id="publish", events=deletion, limits={"overrides": by_hand}).execute(
            context()
        )
    assert cluster.events == events + 1
    limits = {**NOW, "overrides": [*NOW["overrides"], *by_hand]}
    with pytest.raises(EventByHandRefusedError, match="2 segments are not finished"):
        PublishRemoteLogMetadataOperator(task_id="publish", events=deletion[1:], limits=limits).execute(context())
    connect(monkeypatch, hold="others, go*")
    with pytest.raises(EventByHandRefusedError, match=r"held by the entry 'go\*'"):
        PublishRemoteLogMetadataOperator(task_id="publish", events=deletion[1:], limits=limits).execute(context())
    connect(monkeypatch, expected_cluster_id=None)
    with pytest.raises(ConfigurationError, match="expected_cluster_id"):
        PublishRemoteLogMetadataOperator(task_id="publish", events=deletion, limits=limits).execute(context())
    assert cluster.events == events + 2


# -- report ------------------------------------------------------------------------------------------------------------


def report_after(failed: int) -> tuple[Any, Any]:
    with DAG("dag"):
        before = CleanMetadataPartitionOperator(task_id="clean", dry_run_only=False, metadata_partition=0)
        report = ReportRemoteLogCleanupOperator(task_id="report", outlets=[Asset("done")])
        before >> report
    return report, context(failed=failed)


def test_the_report_fails_after_a_failed_task_even_if_all_reports_are_there(cluster: Cluster, work: Path) -> None:
    for metadata_partition in mark_and_plan():
        clean(metadata_partition)
    report, ctx = report_after(failed=1)
    with pytest.raises(AirflowFailException, match="1 task before this one failed"):
        report.execute(ctx)
    assert json.loads(read_document(str(work / "dag.run"), "report.json"))["totals"]["segments_deleted"] == 6
    report, ctx = report_after(failed=0)
    assert report.execute(ctx)["segments_deleted"] == 6


def test_the_report_shows_a_metadata_partition_whose_task_left_none(cluster: Cluster, work: Path) -> None:
    first, *others = mark_and_plan()
    for metadata_partition in others:
        clean(metadata_partition)
    report, ctx = report_after(failed=0)
    with pytest.raises(AirflowFailException, match=rf"metadata partitions \[{first}\] were planned and not cleaned"):
        report.execute(ctx)
    document = json.loads(read_document(str(work / "dag.run"), "report.json"))
    (part,) = [p for p in document["metadata_partitions"] if p["metadata_partition"] == first]
    planned = read_plan(str(work / "dag.run")).by_metadata_partition[first].segments
    assert part["refusals"][0]["why"] == f"its cleaning task left no report; {planned} segments were planned"
    assert document["totals"]["refusals"] == 1


def test_the_report_shows_what_was_done_before_an_error_ended_a_task(cluster: Cluster, work: Path) -> None:
    first, *others = mark_and_plan()

    def unmount(effect: str, key: str) -> None:
        if effect == "delete":
            cluster.storage.root_exists = False

    cluster.storage.after_effect = unmount
    with pytest.raises(StorageRootError):
        clean(first)
    part = json.loads(read_document(str(work / "dag.run"), f"clean-{first}.json"))
    assert part["events"] == {"DELETE_PARTITION_STARTED": 2, "DELETE_SEGMENT_STARTED": 4}
    cluster.storage.after_effect, cluster.storage.root_exists = None, True
    for metadata_partition in others:
        clean(metadata_partition)
    report, ctx = report_after(failed=1)
    with pytest.raises(AirflowFailException, match="1 task before this one failed"):
        report.execute(ctx)
    totals = json.loads(read_document(str(work / "dag.run"), "report.json"))["totals"]
    assert (totals["segments_deleted"], totals["segments_left"], totals["partitions_incomplete"]) == (2, 4, 2)


def test_a_retried_task_reports_what_its_earlier_try_did_too(cluster: Cluster, work: Path) -> None:
    metadata_partition = max(
        mark_and_plan(), key=lambda p: sum(metadata_partition_for(tip, PARTITIONS) == p for tip in GONE)
    )

    def unmount(effect: str, key: str) -> None:
        if effect == "delete" and "gone-1" in key:
            cluster.storage.root_exists = False

    cluster.storage.after_effect = unmount
    limits = NOW | {"batch_segments": 1}
    with pytest.raises(StorageRootError):
        clean(metadata_partition, limits=limits)
    cluster.storage.after_effect, cluster.storage.root_exists = None, True
    counts = clean(metadata_partition)
    part = json.loads(read_document(str(work / "dag.run"), f"clean-{metadata_partition}.json"))
    assert (counts["segments_deleted"], counts["segments_left"], counts["partitions_finished"]) == (4, 0, 2)
    assert part["events"]["DELETE_SEGMENT_FINISHED"] == 4
    assert [p["segments_left"] for p in part["partitions"]] == [0, 0]


def test_without_a_plan_the_report_points_to_the_tasks_before_it(cluster: Cluster, work: Path) -> None:
    report, ctx = report_after(failed=1)
    with pytest.raises(AirflowFailException, match="the run made no plan: see the tasks before this one"):
        report.execute(ctx)
    assert kinds_in(work) == ["NO_PLAN"]


def test_the_report_names_the_task_that_died_what_others_said_and_where_their_logs_are(
    cluster: Cluster, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example/")
    with DAG("dag"):
        before = CleanMetadataPartitionOperator(task_id="clean", dry_run_only=False, metadata_partition=0)
        plan = PlanRemoteLogCleanupOperator(task_id="plan")
        report = ReportRemoteLogCleanupOperator(task_id="report")
        plan >> before >> report
    ctx = context(failed=1)
    states = {"plan": "failed", "clean_3": "failed", "clean": "upstream_failed"}
    ctx["ti"].get_task_states = lambda **given: {given["run_ids"][0]: states}
    said = TaskFailure("dag", "run", "plan", None, 1, "the broker does not answer")
    write_document(str(work / "dag.run"), said.file_name, said.to_json())
    with pytest.raises(AirflowFailException, match="the task plan failed: the broker does not answer"):
        report.execute(ctx)
    (entry,) = json.loads(read_document(str(work / "dag.run"), "report.json"))["needs_person"]
    assert entry["kind"] == "TASK_FAILED"
    assert "the task clean[3] died without leaving a document" in entry["why"]
    for task in ("plan", "clean/mapped/3"):
        assert f"https://airflow.example/dags/dag/runs/run/tasks/{task}" in entry["what_to_do"]


def kinds_in(work: Path, entries: str = "needs_person") -> list[str]:
    return [e["kind"] for e in json.loads(read_document(str(work / "dag.run"), "report.json"))[entries]]


@pytest.fixture
def poisoned(cluster: Cluster) -> tuple[int, int]:
    """Metadata partition and offset of a record that nobody can read, beside healthy metadata partitions with work."""
    (other,) = {0, 1} - {metadata_partition_for(GONE[0], PARTITIONS)}
    return other, cluster.log.append(other, b"garbage")


def run_all(**report: Any) -> dict[str, Any]:
    """All steps of a run; its report has a marker before it."""
    for metadata_partition in mark_and_plan():
        clean(metadata_partition)
    with DAG("dag"):
        last = ReportRemoteLogCleanupOperator(task_id="report", **report)
        MarkDeletedPartitionsOperator(task_id="clean", dry_run_only=False) >> last
    return last.execute(context())


def test_a_problem_fails_the_run_after_the_healthy_rest_is_done_until_it_is_acknowledged(
    cluster: Cluster,
    work: Path,
    poisoned: tuple[int, int],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(AirflowFailException, match=r"^1 thing needs a person\. The first: QUARANTINED ") as failed:
        run_all()
    assert len(str(failed.value)) < 1_000
    document = json.loads(read_document(str(work / "dag.run"), "report.json"))
    assert document["totals"]["partitions_finished"] == len(GONE), "those beside the bad record are whole, too"
    (entry,) = document["needs_person"]
    assert (entry["metadata_partition"], entry["offset"]) == poisoned
    assert f"To acknowledge it: {json.dumps(entry['acknowledge_with'])}" in capsys.readouterr().out

    signed = entry["acknowledge_with"] | {"by": "me", "why": "known"}
    monkeypatch.setenv("AIRFLOW_VAR_RLMM_ACKNOWLEDGEMENTS", json.dumps([signed]))
    totals = run_all()
    assert (totals["needs_person"], totals["acknowledged"]) == (0, 1)
    assert "acknowledged: QUARANTINED" in capsys.readouterr().out
    cluster.log.append(poisoned[0], b"garbage, too")
    with pytest.raises(AirflowFailException, match="1 thing needs a person"):
        run_all()
    assert (kinds_in(work), kinds_in(work, "acknowledged")) == (["QUARANTINED"], ["QUARANTINED"])


@pytest.mark.parametrize("text", ["{", "[{}]", '[{"kind": "QUARANTINED", "untill": "x"}]'])
def test_a_variable_that_cannot_be_understood_fails_an_otherwise_healthy_run(
    cluster: Cluster, work: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("AIRFLOW_VAR_RLMM_ACKNOWLEDGEMENTS", text)
    with pytest.raises(AirflowFailException, match="Airflow variable rlmm_acknowledgements"):
        run_all()
    assert kinds_in(work) == ["ACKNOWLEDGEMENT"]


def test_a_variable_that_cannot_be_read_fails_the_run_and_tells_no_secret(
    cluster: Cluster, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(key: str, *args: Any, **kwargs: Any) -> None:
        if key == "rlmm_acknowledgements":
            raise PermissionError(f"the vault says no to {SECRET}")

    monkeypatch.setattr("airflow.sdk.Variable.get", refuse)
    with pytest.raises(AirflowFailException, match="PermissionError") as failed:
        run_all()
    assert SECRET not in str(failed.value) + read_document(str(work / "dag.run"), "report.json")


def test_the_markers_refusals_reach_the_report_though_the_task_after_it_failed(cluster: Cluster, work: Path) -> None:
    cluster.topics.denied.add(GONE[0].topic)
    MarkDeletedPartitionsOperator(task_id="mark", dry_run_only=False).execute(context())
    report, ctx = report_after(failed=1)
    with pytest.raises(AirflowFailException, match=r"things need a person\. The first: NO_PLAN"):
        report.execute(ctx)
    assert set(kinds_in(work)) == {"NO_PLAN", "ACCESS_DENIED"}
    assert "DESCRIBE on every topic" in Path(work / "dag.run" / "report.json").read_text()


def test_where_the_report_cannot_be_written_the_log_says_what_needs_a_person(
    cluster: Cluster, work: Path, poisoned: tuple[int, int], capsys: pytest.CaptureFixture[str]
) -> None:
    for metadata_partition in mark_and_plan():
        clean(metadata_partition)
    # Nothing replaces a directory, as nothing is written to a full disk.
    (work / "dag.run" / "report.json" / "x").mkdir(parents=True)
    with pytest.raises(OSError, match=r"report\.json"):
        ReportRemoteLogCleanupOperator(task_id="report").execute(context())
    assert "needs a person: QUARANTINED" in capsys.readouterr().out


def test_a_run_that_is_too_large_says_what_is_left(cluster: Cluster, work: Path) -> None:
    with pytest.raises(BlastRadiusError):
        mark_and_plan(blast_radius={})
    report, ctx = report_after(failed=1)
    with pytest.raises(AirflowFailException, match=r"^1 thing needs a person.* 6 segments with 600 B are left"):
        report.execute(ctx)
    document = json.loads(read_document(str(work / "dag.run"), "report.json"))
    assert (document["stopped"]["left"], document["totals"]["segments_left"]) == ({"segments": 6, "bytes": 600}, 6)


def test_a_young_marker_waits_in_green(cluster: Cluster, work: Path) -> None:
    MarkDeletedPartitionsOperator(task_id="mark", dry_run_only=False).execute(context())
    assert plan(limits={}) == []
    totals = ReportRemoteLogCleanupOperator(task_id="report").execute(context())
    assert (totals["refusals"], totals["waiting_segments"], totals["waiting_bytes"]) == (0, 6, 600)
    waiting = json.loads(Path(totals["report"]).read_text())["waiting"]["refusals"]
    assert {r["what_to_do"] for r in waiting} == {"nothing: it is eligible in 24 h 0 min"}


def test_a_green_dry_run_says_so_first_and_a_real_one_never(
    cluster: Cluster, work: Path, caplog: pytest.LogCaptureFixture
) -> None:
    parts = mark_and_plan()
    become_dry(work)
    for part in parts:
        clean(part, dry_run_only=True)
    caplog.clear()
    said = "DRY RUN: it ended well, and nothing was written or deleted. 6 segments, 300 B would be deleted now"
    ReportRemoteLogCleanupOperator(task_id="report").execute(context())
    assert caplog.records[0].getMessage() == said
    for part in mark_and_plan():
        clean(part)
    caplog.clear()
    ReportRemoteLogCleanupOperator(task_id="report").execute(context())
    assert "DRY RUN" not in caplog.text


def test_a_red_dry_run_is_not_said_to_have_ended_well(
    cluster: Cluster, work: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.log.append(0, b"\x01\x00\x00garbage")
    mark_and_plan()
    become_dry(work)
    with pytest.raises(AirflowFailException):
        ReportRemoteLogCleanupOperator(task_id="report").execute(context())
    assert "DRY RUN" not in caplog.text


def test_a_dry_run_emits_no_asset_event_even_where_nothing_was_marked(cluster: Cluster, work: Path) -> None:
    MarkDeletedPartitionsOperator(task_id="mark", dry_run_only=True).execute(context())
    assert plan() == []
    report, ctx = (
        ReportRemoteLogCleanupOperator(task_id="report", dry_run_only=True, outlets=[Asset("done")]),
        context(),
    )
    totals = report.execute(ctx)
    assert (totals["dry_run"], totals["would_mark_partitions"]) == (True, 3)
    assert not [name for name in totals if "deleted" in name]
    assert (report.outlets, ctx["outlet_events"]) == ([], {})
    assert json.loads(Path(totals["report"]).read_text())["dry_run"] is True


def test_a_retry_that_cannot_read_what_its_earlier_try_did_says_so(cluster: Cluster, work: Path) -> None:
    first, *others = mark_and_plan()
    (work / "dag.run" / f"clean-{first}.json").write_text('{"metadata_partition": ')
    for metadata_partition in (first, *others):
        clean(metadata_partition)
    report, ctx = report_after(failed=0)
    with pytest.raises(AirflowFailException, match="what an earlier try of its task did is not in this report"):
        report.execute(ctx)
    assert json.loads(read_document(str(work / "dag.run"), "report.json"))["totals"]["segments_deleted"] == 6
    assert kinds_in(work) == ["REPORT"]


def test_a_full_disk_keeps_neither_the_deletion_nor_its_error_from_being_told(
    cluster: Cluster, work: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: Any) -> None:
        raise OSError("no space left")

    first, *others = mark_and_plan()
    monkeypatch.setattr("airflow_provider_rlmm.features.cleanup.steps.write_document", full)
    with pytest.raises(OSError, match="no space left"):
        clean(others[0])
    assert re.search(r"the report cannot be written; this try did: .*'segments_deleted': [24]", caplog.text)
    cluster.storage.after_effect = lambda effect, key: setattr(cluster.storage, "root_exists", effect != "delete")
    with pytest.raises(StorageRootError):
        clean(first)
    assert "no report of this try: no space left" in caplog.text


# -- Spark -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def observed(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> ClusterState:
    metadata_topic = ListedTopic(UUID(int=99), "__remote_log_metadata", -1, -1, {})
    state = ClusterState("cluster-1", 1, (ListedTopic(ALIVE.topic_id, "alive", -1, -1, {0: 0}), metadata_topic))
    monkeypatch.setattr(
        "airflow_provider_rlmm.core.world.cluster_look.observe_cluster", lambda topics, metadata_topic, clock: state
    )

    def refuse(*_: object) -> None:
        raise EventLogUnavailableError("no leader answers")

    monkeypatch.setattr(RemoteLogMetadataHook, "open_leaders", refuse)
    monkeypatch.setenv(
        "AIRFLOW_CONN_SPARK_DEFAULT",
        json.dumps({"conn_type": "spark", "host": "local[2]", "extra": {"deploy-mode": "client"}}),
    )
    return state


def test_the_spark_command_holds_paths_and_no_secret(
    observed: ClusterState,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
    work: Path,
) -> None:
    seen: dict[str, Any] = {}
    gap = HistoryGap(3, 17, 19)
    FloorFiles(f"{work}/{cluster_folder('cluster-1')}").explain(ExplainedGap(UUID(int=99), gap, "a marker", 1, "me"))

    def submit(self: Any, application: str) -> None:
        seen["command"] = command = self._build_spark_submit_command(application)
        folder = Path(command[command.index("--kafka-properties") + 1]).parent
        seen["folder"], seen["mode"] = folder, folder.stat().st_mode & 0o777
        seen["secret"] = (folder / "client.properties").stat().st_mode
        seen["files"] = {file.name: file.read_bytes() for file in folder.iterdir()}

    monkeypatch.setattr(SparkSubmitHook, "submit", submit)
    jars, ctx = f"{connector_jar(tmp_path)},hdfs://cluster/b.jar", context()
    with caplog.at_level("INFO"):
        SegmentRetentionOperator(task_id="evaluate", jars=jars, min_age_ms="90000000").execute(ctx)
    assert SECRET.encode() in seen["files"]["client.properties"]
    told = ClusterState.from_json(seen["files"]["cluster_state.json"].decode())
    assert told == replace(observed, explained_gaps=(gap,))
    assert "airflow_provider_rlmm.zip" in seen["files"]
    assert SECRET not in " ".join(seen["command"]) + caplog.text
    assert seen["mode"] == 0o700
    assert stat.filemode(seen["secret"]) == "prw-------", "the secret is in no file"
    assert not seen["folder"].exists()
    command = seen["command"]
    assert command[command.index("--jars") + 1] == jars
    assert "--packages" not in command
    assert command[command.index("--min-age-ms") + 1] == "90000000"
    assert command[command.index("--plan-id") + 1] == "dag.run"
    assert command[command.index("--data-set") + 1].endswith("/segments-cluster-1"), "the next run reads on from there"
    assert ctx["ti"].pushed == {"rlmm_plan": "dag.run"}
    assert set(seconds_of_steps(artifact_uri("dag.run"))) == {"evaluate"}


def test_the_spark_command_names_archives_queue_and_the_properties_that_win(
    observed: ClusterState, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    commands: list[list[str]] = []
    monkeypatch.setattr(
        SparkSubmitHook, "submit", lambda self, app: commands.append(self._build_spark_submit_command(app))
    )
    conf = {"spark.executor.memory": "1g", "spark.kubernetes.container.image": ""}
    more = '{"spark.executor.memory": "2g", "spark.pyspark.python": "./environment/bin/python"}'
    named = {"archives": "/opt/environment.tar.gz#environment", "yarn_queue": "etl", "jars": connector_jar(tmp_path)}
    SegmentRetentionOperator(task_id="evaluate", conf=conf, more_conf=more, **named).execute(context())
    SegmentRetentionOperator(task_id="evaluate", jars=named["jars"]).execute(context())
    command, plain = commands
    told = [command[i + 1] for i, word in enumerate(command) if word == "--conf"]
    assert {"spark.executor.memory=2g", "spark.pyspark.python=./environment/bin/python"} <= set(told)
    assert not [word for word in told if word == "spark.executor.memory=1g" or "image" in word]
    assert command[command.index("--archives") + 1] == named["archives"]
    assert command[command.index("--queue") + 1] == "etl"
    assert not {"--archives", "--queue"} & set(plain)


def test_executors_of_yarn_get_the_memory_that_their_python_needs_unless_somebody_says_how_much(
    observed: ClusterState, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[set[str]] = []

    def submit(hook: Any, application: str) -> None:
        command = hook._build_spark_submit_command(application)
        asked.append({word for word in command if word.startswith("spark.executor.memoryOverhead")})

    monkeypatch.setattr(SparkSubmitHook, "submit", submit)
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    spark = {"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "client"}}
    jars = connector_jar(tmp_path)

    def run(**arguments: Any) -> set[str]:
        SegmentRetentionOperator(task_id="evaluate", jars=jars, **arguments).execute(context())
        return asked.pop()

    data_set = GenerationStore(artifact_uri("segments-cluster-1"))
    state = GenerationFile("generation=1/metadata_partition=0/_a.state", 400 * 2**20, "ab")
    rows = replace(state, name="generation=1/metadata_partition=0/a.parquet")
    parts = {number: GenerationPart(0) for number in cluster.log.high_water_marks()}
    parts[0] = GenerationPart(9, 1_000_000, anchors=(Anchor(8, "x"),), rows=rows, state=state)
    data_set.create(Generation(1, "cluster-1", "AAAAAAAAAAAAAAAAAAAACA", 1, 1, 1, parts, PLAIN_ERA.told()))
    assert run() == set(), "in local mode there is nothing to ask"
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(spark))
    assert run() == {"spark.executor.memoryOverhead=1600m"}
    assert run(executor_cores=2) == {"spark.executor.memoryOverhead=3008m"}
    assert run(conf={"spark.executor.memoryOverhead": "1g"}) == {"spark.executor.memoryOverhead=1g"}
    assert run(conf={"spark.executor.memoryOverhead": ""}) == {"spark.executor.memoryOverhead=1600m"}
    (tmp_path / "spark-defaults.conf").write_text("spark.executor.memoryOverhead  2g\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert run() == set(), "Spark's own file says it"


def test_without_jars_the_connector_comes_by_its_coordinates_beside_other_packages(
    observed: ClusterState, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []
    monkeypatch.setattr(
        SparkSubmitHook, "submit", lambda self, app: commands.append(self._build_spark_submit_command(app))
    )
    SegmentRetentionOperator(task_id="evaluate", packages="org.example:mine:1").execute(context())
    packages = commands[0][commands[0].index("--packages") + 1]
    assert re.fullmatch(r"org\.example:mine:1,org\.apache\.spark:spark-sql-kafka-0-10_2\.13:4\.[0-9.]+", packages)
    assert "--jars" not in commands[0]


def failing_job(monkeypatch: pytest.MonkeyPatch, output: str) -> None:
    def submit(self: Any, application: str) -> None:
        raise AirflowException(f"Cannot execute: spark-submit. Error code is: 1.\nLast spark-submit output:\n{output}")

    monkeypatch.setattr(SparkSubmitHook, "submit", submit)


def test_a_job_without_a_plan_fails_in_its_own_words(
    observed: ClusterState, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    jars = connector_jar(tmp_path)
    failing_job(monkeypatch, "noise\n12:00:00 segment_retention ERROR no plan: topic 'x' does not exist\nnoise")
    ctx = context()
    with pytest.raises(PlanError, match=r"^no plan: topic 'x' does not exist \(the Spark job's log is above\)$"):
        SegmentRetentionOperator(task_id="evaluate", jars=jars).execute(ctx)
    assert ctx["ti"].pushed == {}
    failing_job(monkeypatch, "java.lang.OutOfMemoryError")
    with pytest.raises(AirflowException, match="OutOfMemoryError"):
        SegmentRetentionOperator(task_id="evaluate", jars=jars).execute(ctx)
    failing_job(
        monkeypatch,
        'Exception in thread "main" java.lang.RuntimeException: [unresolved dependency: '
        "org.apache.spark#spark-sql-kafka-0-10_2.13;4.0.0: not found]\n\tat org.apache.spark",
    )
    with pytest.raises(
        ConfigurationError, match=r"cannot be fetched \(unresolved dependency: .*;4.0.0: not found\).*rlmm_spark_jars"
    ):
        SegmentRetentionOperator(task_id="evaluate").execute(ctx)


def test_cluster_mode_is_refused_before_anything_is_done(
    observed: ClusterState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "AIRFLOW_CONN_SPARK_DEFAULT",
        json.dumps({"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster"}}),
    )
    with pytest.raises(ConfigurationError, match="'spark_default': deploy-mode is cluster"):
        SegmentRetentionOperator(task_id="evaluate").execute(context())


def test_the_counts_of_a_plan_are_published(cluster: Cluster, work: Path) -> None:
    mark_and_plan()
    asset, ctx = Asset("plan"), context()
    counts = PublishRetentionPlanOperator(task_id="publish", outlets=[asset]).execute(ctx)
    assert counts == {
        "orphaned": 6, "to_delete": 6, "expected_of_leaders_estimated": 0,
        "expected_of_leaders": 0, "known": 8, "unresolved": 0,
        "plan": str(work / "dag.run"),
    }  # fmt: skip
    assert ctx["outlet_events"][asset].extra == counts
    with pytest.raises(PlanError):
        PublishRetentionPlanOperator(task_id="publish").execute(context("another"))


def test_what_a_spark_job_has_read_is_published_with_its_counts(cluster: Cluster, work: Path) -> None:
    mark_and_plan()
    uri = str(work / "dag.run")
    found = read_plan(uri)
    rows = pa.concat_tables(pq.read_table(f"{uri}/{file.name}") for file in found.files.values())
    job = {"records": 3, "read_on_from": 4, "records_read": {"0": 3}, "stage_milliseconds": {}}
    write_plan(uri, rows, replace(found, files={}, job=job))
    counts = PublishRetentionPlanOperator(task_id="publish").execute(context())
    assert (counts["records"], counts["read_on_from"], counts["orphaned"]) == (3, 4, 6)


def test_a_plan_with_something_for_a_person_is_published_and_fails_until_it_is_acknowledged(
    cluster: Cluster, work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def publish(*refusals: Refusal) -> TaskInstance:
        write_plan(uri, rows, replace(found, files={}, refusals=refusals))
        ctx = context()
        try:
            PublishRetentionPlanOperator(task_id="publish").execute(ctx)
        finally:
            published.append(ctx["ti"].pushed)
        return ctx["ti"]

    published: list[dict[str, Any]] = []
    mark_and_plan()
    uri = str(work / "dag.run")
    found = read_plan(uri)
    rows = pa.concat_tables(pq.read_table(f"{uri}/{file.name}") for file in found.files.values())
    waits = Refusal("topic b", "it waits", "nothing", RefusalKind.WAITING)
    publish(waits)

    denied = Refusal(
        "topic hidden, id x", "it may not be described", "give DESCRIBE", RefusalKind.ACCESS_DENIED, topic="hidden"
    )
    with pytest.raises(
        AirflowFailException, match=r"^plan dag.run is published. 1 thing needs a person.*ACCESS_DENIED.*hidden"
    ):
        publish(waits, denied)
    assert published == [{"plan": uri, "rlmm_plan": "dag.run"}] * 2, "the plan is there in either case"

    suggested = re.search(r"What to do: give DESCRIBE. To acknowledge it: (\{.*?\})", capsys.readouterr().out)
    assert suggested is not None
    signed = json.loads(suggested[1]) | {"by": "me", "why": "known"}
    monkeypatch.setenv("AIRFLOW_VAR_RLMM_ACKNOWLEDGEMENTS", json.dumps([signed]))
    publish(waits, denied)
    assert "acknowledged: ACCESS_DENIED" in capsys.readouterr().out
    with pytest.raises(AirflowFailException, match="1 thing needs a person"):
        publish(denied, replace(denied, what="topic other, id y", topic="other"))


def test_a_plan_of_a_log_that_may_lack_records_is_published_and_fails_also_where_the_job_did_not_see_it(
    cluster: Cluster, work: Path
) -> None:
    mark_and_plan()
    cluster.log.policy = frozenset({"compact"})
    for _ in range(2):
        with pytest.raises(AirflowFailException, match=r"1 thing needs a person.*LOG_ERA.*cleanup.policy is compact"):
            PublishRetentionPlanOperator(task_id="publish").execute(context())
        # What one run has seen holds for all that come after it.
        cluster.log.policy = frozenset({"delete"})


def test_a_survey_leaves_an_inventory_of_the_cluster(cluster: Cluster, work: Path) -> None:
    mark_and_plan()
    keys, events = cluster.storage.keys, cluster.events
    counts = SurveyRemoteLogOperator(task_id="survey", limits=NOW).execute(context())
    assert (counts["topics"], counts["orphaned_topics"], counts["stored_segments"]) == (2, 1, 8)
    assert (counts["orphaned_segments"], counts["eligible_segments"], counts["eligible_bytes"]) == (6, 6, 600)
    folder = work / "cluster-cluster-1"
    inventory = Inventory.from_json((folder / "inventory.json").read_text())
    assert (inventory.cluster_id, inventory.connection, inventory.artifact) == ("cluster-1", "rlmm_default", "dag.run")
    assert str(folder / inventory.generation) == counts["inventory"]
    assert pq.read_table(folder / inventory.generation / "topics.parquet").column("topic").to_pylist() == [
        "gone",
        "alive",
    ]
    assert (cluster.storage.keys, cluster.events) == (keys, events)


def test_costs_are_reckoned_by_the_prices_of_the_connection(
    cluster: Cluster, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def inventory() -> Inventory:
        SurveyRemoteLogOperator(task_id="survey", limits=NOW).execute(context())
        return Inventory.from_json((work / "cluster-cluster-1" / "inventory.json").read_text())

    mark_and_plan()
    assert read_plan(str(work / "dag.run")).price is inventory().price is None
    monkeypatch.setenv("AIRFLOW__RLMM__PRICE_PER_GB_MONTH", "0.023")
    plan()
    assert read_plan(str(work / "dag.run")).price == inventory().price == StoragePrice(23_000)
    connect(monkeypatch, prices={"Cool": {"per_gb_month": 1000}})
    for metadata_partition in plan():
        clean(metadata_partition)
    made = read_plan(str(work / "dag.run"))
    assert made.price == inventory().price == StoragePrice(10**9, StorageClass("Cool", 30))
    # Their copies ended in 1970.
    assert made.early == EarlyDeletion(0, 0, 0, 0, 0)
    totals = ReportRemoteLogCleanupOperator(task_id="report").execute(context())
    report = read_report(json.loads(Path(totals["report"]).read_text()))
    assert (report.price, report.early) == (made.price, made.early)
    assert report.cost_in_words == (
        "What was deleted cost < 0.01 a month. By the plan: Nothing goes before the 30 days of Cool are over."
    )


def test_what_the_spark_job_has_folded_is_begun_with_and_named(cluster: Cluster, work: Path) -> None:
    """Where it knows more than an earlier task: mark, plan and survey begin there, and leave no snapshot."""
    generation, _ = written(str(work / "segments-cluster-1"), cluster.log, system_clock())
    counts = SurveyRemoteLogOperator(task_id="survey", limits=NOW).execute(context())
    assert (counts["orphaned_segments"], counts["topics"]) == (6, 2)
    inventory = Inventory.from_json((work / "cluster-cluster-1" / "inventory.json").read_text())
    assert inventory.folded == generation.folded
    marked = MarkDeletedPartitionsOperator(task_id="mark", dry_run_only=False).execute(context())
    assert marked["marked"] == len(GONE)
    said = json.loads((work / "dag.run" / "mark.json").read_text())
    assert said["folded"] == asdict(generation.folded)
    assert generation.folded.offsets == cluster.events - len(GONE)
    plan()
    assert read_plan(str(work / "dag.run")).folded == generation.folded
    assert not list((work / "cluster-cluster-1").glob("*.snapshot"))


def test_a_held_topic_is_surveyed_as_one(cluster: Cluster) -> None:
    mark_and_plan()
    counts = SurveyRemoteLogOperator(task_id="survey", limits=NOW, hold=["gone"]).execute(context())
    assert (counts["orphaned_segments"], counts["eligible_segments"]) == (6, 0)


def test_a_run_that_was_refused_is_not_surveyed(cluster: Cluster, work: Path) -> None:
    with DAG("dag"):
        check = CheckRemoteLogCleanupOperator(task_id="check")
        survey = SurveyRemoteLogOperator(task_id="survey", limits=NOW)
        check >> survey
    with pytest.raises(AirflowSkipException, match="it has refused the run, or died"):
        survey.execute(context())
    assert not (work / "cluster-cluster-1").exists()
    (work / "dag.run").mkdir(parents=True)
    (work / "dag.run" / "check.json").write_text("{}")
    assert survey.execute(context())["topics"] == 2
