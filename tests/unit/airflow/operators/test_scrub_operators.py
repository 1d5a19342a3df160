# SPDX-License-Identifier: Apache-2.0
"""The operators of the scrub over the in-process log and an in-memory store: what they find, plan, delete and fail on."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pyarrow.parquet as pq
import pytest
from airflow.providers.standard.operators import hitl
from airflow.sdk.exceptions import AirflowFailException, TaskAwaitingInput

from airflow_provider_rlmm.core.base.clock import HOUR_MS, ProvenClock, TimeProof, system_clock
from airflow_provider_rlmm.core.base.errors import (
    BlastRadiusError,
    ConfigurationError,
    HiddenCopiesError,
    MetadataTopicReplacedError,
    NotApprovedError,
    PlanError,
    StorageError,
    StorageRootError,
    WritesNotAllowedError,
)
from airflow_provider_rlmm.core.log.in_process_topics import InProcessClusterTopics
from airflow_provider_rlmm.core.plans.prices import StorageClass, StoragePrice
from airflow_provider_rlmm.core.plans.refusals import Refusal, RefusalKind
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.runs.attention import SUGGESTED_MS, iso_time
from airflow_provider_rlmm.core.storage.hidden_copies import DeletionEffect, Freed
from airflow_provider_rlmm.core.storage.layouts import AivenLayout
from airflow_provider_rlmm.features.scrub.scrub_plan import ScrubPlan
from airflow_provider_rlmm.features.scrub.scrub_summary import ScrubSummary
from airflow_provider_rlmm.hooks.metadata import RemoteLogMetadataHook
from airflow_provider_rlmm.hooks.storage import RemoteStorageHook
from airflow_provider_rlmm.operators.approval import ApproveRemoteStorageScrubOperator
from airflow_provider_rlmm.operators.check import CheckRemoteLogCleanupOperator
from airflow_provider_rlmm.operators.cleaner import (
    CleanMetadataPartitionOperator,
    MarkDeletedPartitionsOperator,
    PlanRemoteLogCleanupOperator,
)
from airflow_provider_rlmm.operators.scrub import (
    DeleteScrubbedObjectsOperator,
    PlanRemoteStorageScrubOperator,
    RemoteStorageScrubOperator,
    ReportRemoteStorageScrubOperator,
)
from airflow_provider_rlmm.plugins.pages import DOCUMENT_PAGES
from tests.builders import START_MS, Cluster, add, tip, update
from tests.unit.core.storage.test_aiven import custom_prefix

TOPIC = tip("orders", 0, 7)
GONE = tip("gone", 0, 9)


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", str(tmp_path / "work"))
    return tmp_path / "work"


def connect(monkeypatch: pytest.MonkeyPatch, **extra: Any) -> None:
    fields = {"allow_writes": True, "expected_cluster_id": "cluster-1"} | extra
    monkeypatch.setenv("AIRFLOW_CONN_RLMM_DEFAULT", json.dumps({"conn_type": "rlmm", "extra": fields}))
    kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": "b:9092"}}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(kafka))


def open_without_offsets(monkeypatch: pytest.MonkeyPatch, fake: Cluster) -> None:
    """Have the hooks open a cluster, whose clock is proven, but no offset store: nobody commits here."""

    def proven(self: Any, log: Any, **_: Any) -> ProvenClock:
        return ProvenClock(lambda: TimeProof(fake.now_ms, system_clock(), "a test", proven=True))

    connect(monkeypatch)
    monkeypatch.setattr(RemoteLogMetadataHook, "get_proven_clock", proven)
    for hook, name, value in (
        (RemoteLogMetadataHook, "get_event_log", nullcontext(fake.log)),
        (RemoteLogMetadataHook, "get_cluster_topics", fake.topics),
        (RemoteStorageHook, "get_storage_manager", fake.storage),
    ):
        monkeypatch.setattr(hook, name, lambda self, value=value: value)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, work: Path) -> Cluster:
    """A living topic, and one with a segment that is finished and still has its objects; the test turns the proven clock."""
    fake = Cluster(2, layout=AivenLayout("kafka/"))
    fake.topics = InProcessClusterTopics({"alive": fake.alive.topic_id}, cluster_id="cluster-1")
    fake.segment(TOPIC, 0, S.DELETE_SEGMENT_FINISHED)

    open_without_offsets(monkeypatch, fake)
    return fake


def test_the_price_of_the_run_counts_before_that_of_the_connection_and_that_before_all_others(
    cluster: Cluster, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def price(**arguments: Any) -> StoragePrice | None:
        Run().scrub(**arguments)
        return ScrubSummary.from_json((work / "dag.run" / "scrub.json").read_text()).price

    assert price() is None
    monkeypatch.setenv("AIRFLOW__RLMM__PRICE_PER_GB_MONTH", "0.02")
    assert price() == StoragePrice(20_000)
    connect(monkeypatch, prices={"Cool": {"per_gb_month": "0.01"}})
    assert price() == StoragePrice(10_000, StorageClass("Cool", 30))
    assert price(price_per_gb_month=0.5) == StoragePrice(500_000, StorageClass("Cool", 30))
    # Uploaded on this day, by the store's clock.
    assert Run().plan()["objects"] == 3
    early = ScrubPlan.from_json((work / "dag.run" / "scrub-plan.json").read_text()).early
    assert early is not None
    assert early.unknown == 0


def test_a_living_copy_below_a_prefix_that_the_connection_does_not_name_refuses_every_step(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is written, deleted or promised before a person has named it: by no step, whatever the one before said."""
    connect(monkeypatch, storage_uri="memory:///", layout="aiven", key_prefix="kafka/")
    monkeypatch.setattr(RemoteLogMetadataHook, "get_offset_store", lambda self: cluster.offsets)
    cluster.topics.describe_metadata_topic = lambda topic: SimpleNamespace(authorized_operations=None)  # type: ignore[attr-defined]
    cluster.segments(GONE, 5)
    run = Run()

    def elsewhere() -> None:
        cluster.foreign(add(cluster.alive, 500))
        event = update(cluster.alive, 500, S.COPY_SEGMENT_FINISHED, custom_metadata=custom_prefix("two/"))
        cluster.foreign(event)

    MarkDeletedPartitionsOperator(task_id="mark", dry_run_only=False).execute(Run("clean").context)
    cluster.now_ms += 30 * HOUR_MS
    [planned] = PlanRemoteLogCleanupOperator(task_id="plan", blast_radius={"max_share": 1.0}).execute(
        Run("clean").context
    )
    run.scrub()
    run.plan()
    elsewhere()
    before = (set(cluster.storage.keys), dict(cluster.log.high_water_marks()))
    for step in (
        lambda: CheckRemoteLogCleanupOperator(task_id="check", dry_run_only=True).execute(run.context),
        lambda: CheckRemoteLogCleanupOperator(task_id="check").execute(run.context),
        lambda: MarkDeletedPartitionsOperator(task_id="mark", dry_run_only=False).execute(run.context),
        lambda: PlanRemoteLogCleanupOperator(task_id="plan").execute(run.context),
        run.scrub,
        run.delete,
    ):
        with pytest.raises(StorageRootError, match=r"below the key prefix 'two/'.*\(alive; see metadata partition"):
            step()
    connect(monkeypatch, storage_uri="memory:///", layout="aiven", key_prefix="kafka/", former_key_prefixes="two/")
    named = Cluster(2, layout=AivenLayout("kafka/", ["two/"]), living_topic=False)
    named.storage._objects.update(cluster.storage._objects)
    monkeypatch.setattr(RemoteStorageHook, "get_storage_manager", lambda self: named.storage)
    with pytest.raises(PlanError, match=r"made for the places kafka, .* names kafka, two now"):
        CleanMetadataPartitionOperator(task_id="clean", dry_run_only=False, metadata_partition=planned).execute(
            Run("clean").context
        )
    assert (set(cluster.storage.keys), dict(cluster.log.high_water_marks())) == before
    MarkDeletedPartitionsOperator(task_id="mark", dry_run_only=False).execute(run.context)
    run.scrub(fail_on_problems=False)


class Run:
    """One run of the DAG."""

    def __init__(self, run_id: str = "run", failed: int = 0) -> None:
        self.pushed: dict[str, Any] = {}
        ti = SimpleNamespace(
            id="ti", xcom_push=lambda key, value: self.pushed.update({key: value}), get_ti_count=lambda **_: failed
        )
        self.context: Any = {"ti": ti, "task_instance": ti, "dag_run": SimpleNamespace(dag_id="dag", run_id=run_id)}

    def scrub(self, **arguments: Any) -> dict[str, Any]:
        return RemoteStorageScrubOperator(task_id="scrub", **arguments).execute(self.context)

    def plan(self, **arguments: Any) -> dict[str, int]:
        given = {"blast_radius": {"max_share": 1.0}} | arguments
        return PlanRemoteStorageScrubOperator(task_id="plan", **given).execute(self.context)

    def delete(self, **arguments: Any) -> dict[str, Any]:
        given = {"dry_run_only": False} | arguments
        return DeleteScrubbedObjectsOperator(task_id="delete", **given).execute(self.context)

    def approve(self, **arguments: Any) -> Any:
        given = {"approve_above": ALWAYS} | arguments
        return ApproveRemoteStorageScrubOperator(task_id="approve", **given).execute(self.context)

    def answer(self, *chosen: str) -> Any:
        event = {
            "chosen_options": list(chosen), "params_input": {}, "responded_by_user": {"id": "7", "name": "ada"},
            "responded_at": datetime(2026, 3, 1, tzinfo=UTC), "timedout": False,
        }  # fmt: skip
        return ApproveRemoteStorageScrubOperator(task_id="approve").execute_complete(self.context, event)

    def report(self) -> dict[str, Any]:
        task = ReportRemoteStorageScrubOperator(task_id="report")
        task.upstream_task_ids = {"delete"}
        return task.execute(self.context)


ALWAYS = {"approve_above_segments": 0, "approve_above_bytes": 0}
FINISHED = {"FINISHED": {"objects": 3, "bytes": 30}}


def test_the_four_steps_delete_what_is_finished_and_nothing_else(cluster: Cluster, work: Path) -> None:
    before, run = set(cluster.storage.keys), Run()
    assert run.scrub(price_per_gb_month="0.023") == {
        "IN_USE": {"objects": 3, "bytes": 30}, **FINISHED, "scrub": str(work / "dag.run"),
    }  # fmt: skip
    rows = pq.read_table(work / "dag.run" / "scrub.parquet").to_pylist()
    assert {row["class"] for row in rows} == {"FINISHED"}
    assert run.plan() == {
        "objects": 3, "segments": 1, "bytes": 30, "waiting": 0, "barred": 0, "held": 0, "elsewhere": 0, "left_for_later": 0,
    }  # fmt: skip
    assert run.plan(dry_run_only=True)["objects"] == 3
    assert run.delete(dry_run_only="True")["would_delete"] == FINISHED
    assert set(cluster.storage.keys) == before
    with pytest.raises(ConfigurationError, match="a dry run by its plan, a real run by task delete"):
        run.delete()
    assert run.plan()["objects"] == 3
    assert run.delete()["deleted"] == FINISHED
    assert run.report()["deleted"] == FINISHED
    assert run.pushed == {"rlmm_scrub": "dag.run", "rlmm_scrub_plan": "dag.run"}
    assert {key.split("/")[1].split("-")[0] for key in cluster.storage.keys} == {"alive"}
    document = json.loads((work / "dag.run" / "scrub.json").read_text())
    assert "0.00" in DOCUMENT_PAGES["scrubs"].show("dag.run", document)
    assert "finished" in DOCUMENT_PAGES["scrubs"].show("dag.run", document)
    plan = json.loads((work / "dag.run" / "scrub-plan.json").read_text())
    assert "Objects to delete" in DOCUMENT_PAGES["scrub-plans"].show("dag.run", plan)


def test_a_second_try_adds_up_with_the_first_and_keeps_what_the_audit_log_lacks(cluster: Cluster, work: Path) -> None:
    run = Run()
    run.scrub()
    run.plan(dry_run_only=False)
    assert run.delete()["deleted"] == FINISHED
    document = work / "dag.run" / "scrub-deletion.json"
    told = json.loads(document.read_text())
    told["left"] = [asdict(Refusal("a batch", "it has no end in the audit log", "look", RefusalKind.AUDIT))]
    document.write_text(json.dumps(told))
    again = run.delete()
    assert (again["deleted"], again["gone_before"]) == (FINISHED, 0)
    with pytest.raises(AirflowFailException, match="it has no end in the audit log"):
        run.report()
    document.write_text("{")
    assert run.delete()["gone_before"] == 3
    with pytest.raises(AirflowFailException, match="what an earlier try of its task did is not in this report"):
        run.report()


def test_a_deletion_that_was_skipped_or_marked_by_hand_is_red_and_no_dry_run(cluster: Cluster, work: Path) -> None:
    run = Run()
    run.scrub()
    run.plan(dry_run_only=False)
    with pytest.raises(
        AirflowFailException, match="3 objects planned and not deleted: the task was skipped, or marked"
    ):
        run.report()
    (file,) = (work / "cluster-cluster-1" / "runs").glob("*.json")
    assert json.loads(file.read_text())["dry_run"] is False
    assert run.delete()["deleted"] == FINISHED
    assert run.report()["deleted"] == FINISHED


def test_a_metadata_topic_that_was_made_anew_is_confirmed_by_the_run_of_a_scrub(cluster: Cluster) -> None:
    first, second = Run("first"), Run("second")
    first.scrub()
    first.plan(dry_run_only=False)
    cluster.log.topic_id = cluster.topics.metadata_topic_id = UUID(int=99)
    anew = {"confirm_metadata_topic_id": kafka_uuid_str(UUID(int=99))}
    second.scrub(**anew)
    with pytest.raises(MetadataTopicReplacedError, match="made anew"):
        second.plan(dry_run_only=False)
    assert second.plan(dry_run_only=False, **anew)["objects"] == 3
    assert second.delete(**anew)["deleted"] == FINISHED


def test_two_scrubs_of_two_runs_make_a_plan(cluster: Cluster) -> None:
    cluster.segment(TOPIC, 2)
    for key in cluster.layout.required_keys(add(TOPIC, 1)):
        cluster.storage.put_object(key, b"x", START_MS)
    Run("first").scrub()
    cluster.mark()
    cluster.now_ms += 73 * HOUR_MS
    run = Run("second")
    run.scrub()
    assert run.plan(limits={"min_absence_ms": "74 h"})["objects"] == 3
    assert run.plan()["objects"] == 6
    assert run.delete(limits={"min_absence_ms": "74 h"})["left"] == 3
    assert run.delete()["deleted"].keys() == {"FINISHED", "UNREFERENCED"}, "with what the try before has deleted"


def test_what_no_record_names_under_a_living_topic_fails_the_run_until_somebody_has_seen_it(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clone of the cluster writes here, or the log has lost records."""
    for number in range(10, 30):
        for key in cluster.layout.required_keys(add(cluster.alive, number)):
            cluster.storage.put_object(key, b"x", START_MS)
    Run("first").scrub(fail_on_problems=False)
    cluster.now_ms += 73 * HOUR_MS
    run = Run("second")
    with pytest.raises(AirflowFailException, match="UNNAMED_OBJECTS storage holds what the log does not name"):
        run.scrub()
    assert run.plan()["barred"] == 60
    assert run.delete()["deleted"] == FINISHED
    with pytest.raises(AirflowFailException, match="UNNAMED_OBJECTS"):
        run.report()
    assert len(cluster.storage.keys) == 63
    what = f"storage holds what the log does not name: 60 objects of topic id {kafka_uuid_str(cluster.alive.topic_id)}"
    said = {"cluster_id": "cluster-1", "by": "me", "why": "known", "until": _in_a_week(), "topic": "alive"}
    known = json.dumps([said | {"kind": "UNNAMED_OBJECTS", "what": what}])
    monkeypatch.setenv("AIRFLOW_VAR_RLMM_ACKNOWLEDGEMENTS", known)
    run.report()


def test_what_needs_a_person_fails_the_run_after_the_healthy_rest(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.segment(TOPIC, 1, objects=False)
    run = Run()
    with pytest.raises(
        AirflowFailException, match=r"1 thing needs a person\. The first: MISSING_OBJECTS segment .*orders"
    ):
        run.scrub()
    run.scrub(fail_on_problems="False")
    run.plan()
    assert run.delete()["deleted"] == FINISHED
    with pytest.raises(AirflowFailException, match="MISSING_OBJECTS"):
        run.report()
    offset = cluster.log.high_water_marks()[cluster.metadata_partition_of(TOPIC)] - 1
    where = {"metadata_partition": cluster.metadata_partition_of(TOPIC), "offset": offset, "topic": "orders"}
    [row] = pq.read_table(f"{run.scrub(fail_on_problems=False)['scrub']}/scrub.parquet").to_pylist()
    what = f"segment {kafka_uuid_str(UUID(bytes=row['segment_id']))} of orders-0"
    said = {"cluster_id": "cluster-1", "by": "me", "why": "known", "until": _in_a_week(), "kind": "MISSING_OBJECTS"}
    monkeypatch.setenv("AIRFLOW_VAR_RLMM_ACKNOWLEDGEMENTS", json.dumps([said | where | {"what": what}]))
    run.scrub()


def _in_a_week() -> str:
    return iso_time(system_clock() + SUGGESTED_MS)


def test_a_task_that_failed_fails_the_report(cluster: Cluster) -> None:
    run = Run(failed=1)
    run.scrub()
    with pytest.raises(AirflowFailException, match="1 task before this one failed"):
        run.report()


def test_a_store_that_refuses_needs_a_person(cluster: Cluster) -> None:
    def refuse(effect: str, _: str) -> None:
        if effect == "delete":
            raise StorageError("access denied")

    run = Run()
    run.scrub()
    run.plan()
    cluster.storage.on_effect = refuse
    assert run.delete()["left"] == 3
    with pytest.raises(AirflowFailException, match=r"3 things need a person.*access denied"):
        run.report()


def test_a_plan_that_is_too_large_is_written_and_never_applied(cluster: Cluster, work: Path) -> None:
    run = Run()
    run.scrub()
    with pytest.raises(BlastRadiusError, match="max_segments is 1"):
        run.plan(blast_radius={"max_segments": 0, "max_share": 1.0})
    assert (work / "dag.run" / "scrub-plan.json").exists()
    with pytest.raises(BlastRadiusError, match="max_segments is 1"):
        run.delete()


def test_a_run_without_scrub_or_plan_deletes_nothing(cluster: Cluster) -> None:
    before, run = set(cluster.storage.keys), Run()
    for step in (run.plan, run.delete, run.report):
        with pytest.raises(PlanError):
            step()
    assert set(cluster.storage.keys) == before


def test_the_connection_decides(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, work: Path) -> None:
    stray = tip("stray", 0, 50)
    for key in cluster.layout.required_keys(add(stray, 1)):
        cluster.storage.put_object(key, b"x", START_MS)
    Run("first").scrub()
    cluster.now_ms += 73 * HOUR_MS
    run = Run()
    run.scrub()
    assert run.plan()["objects"] == 3
    connect(monkeypatch, sole_owner=True, hold="orders")
    assert (run.plan()["objects"], run.plan()["held"]) == (3, 3)
    connect(monkeypatch, sole_owner="false")
    assert run.delete()["left"] == 3
    connect(monkeypatch, sole_owner=True, allow_writes=False)
    with pytest.raises(WritesNotAllowedError):
        run.delete()
    report = json.loads((work / "dag.run" / "scrub-deletion.json").read_text())
    assert (report["deleted"], report["dry_run"]) == ({}, False)
    connect(monkeypatch, sole_owner=True)
    assert run.delete()["deleted"].keys() == {"UNKNOWN_TOPIC_ID"}


def test_a_bucket_that_keeps_what_is_deleted_is_reported_on_and_nothing_goes(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, run = set(cluster.storage.keys), Run()
    effect = DeletionEffect(Freed.NEVER, "versions are kept", rule="set a rule")
    monkeypatch.setattr(cluster.storage, "deletion_effect", lambda keys=(): effect)
    run.scrub()
    run.plan()
    with pytest.raises(HiddenCopiesError, match="versions are kept"):
        run.delete()
    assert set(cluster.storage.keys) == before
    assert run.delete(limits={"overrides": ["versioned_bucket"]})["deleted"] == FINISHED


# --- approval -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What Airflow was told to ask."""
    requests: list[dict[str, Any]] = []
    monkeypatch.setattr(hitl, "upsert_hitl_detail", lambda **request: requests.append(request))
    return requests


def planned_run(**context: Any) -> Run:
    run = Run(**context)
    run.scrub()
    run.plan()
    return run


def test_a_large_plan_of_a_scrub_is_asked_for_with_its_classes(cluster: Cluster, asked: list[dict[str, Any]]) -> None:
    run = planned_run()
    assert run.approve(approve_above=None) == {"asked": False}
    run.plan(dry_run_only=True)
    assert run.approve(dry_run_only=True) == run.approve() == {"asked": False}
    run.plan()
    with pytest.raises(TaskAwaitingInput):
        run.approve()
    (request,) = asked
    assert request["subject"] == "Delete 3 objects of 1 segment, 30 B, which a scrub has found?"
    for words in ("FINISHED: 3 objects, 30 B", "- **orders** (", "/rlmm/scrub-plans/dag.run)", "deletes nothing"):
        assert words in request["body"]


def test_what_a_person_has_approved_of_a_scrub_is_deleted_and_nothing_before(
    cluster: Cluster, asked: list[dict[str, Any]], work: Path
) -> None:
    run, before = planned_run(), set(cluster.storage.keys)
    with pytest.raises(TaskAwaitingInput):
        run.approve()
    with pytest.raises(NotApprovedError, match="no answer is recorded"):
        run.delete(approve_above=ALWAYS)
    assert set(cluster.storage.keys) == before
    assert run.answer("Approve") == {"asked": True, "decision": "Approve", "decided_by": "ada"}
    assert run.delete(approve_above=ALWAYS)["deleted"] == FINISHED
    written = [row for file in work.rglob("*.before.parquet") for row in pq.read_table(file).to_pylist()]
    assert {row["approved_by"] for row in written} == {"ada"}


def test_an_answer_is_for_one_plan_of_a_scrub(cluster: Cluster, asked: list[dict[str, Any]]) -> None:
    run, before = planned_run(), set(cluster.storage.keys)
    with pytest.raises(TaskAwaitingInput):
        run.approve()
    run.answer("Approve")
    cluster.now_ms += 1
    run.plan()
    with pytest.raises(NotApprovedError, match="the recorded answer is for another plan"):
        run.delete(approve_above=ALWAYS)
    assert set(cluster.storage.keys) == before


def test_a_rejected_plan_of_a_scrub_is_red_and_says_who(cluster: Cluster, asked: list[dict[str, Any]]) -> None:
    run, before = planned_run(failed=1), set(cluster.storage.keys)
    with pytest.raises(TaskAwaitingInput):
        run.approve()
    with pytest.raises(AirflowFailException, match="was rejected by 'ada'"):
        run.answer("Reject")
    with pytest.raises(NotApprovedError, match="was rejected by 'ada'"):
        run.delete(approve_above=ALWAYS)
    with pytest.raises(
        AirflowFailException, match=r"1 thing needs a person.*NOT_APPROVED.*3 objects with 30 B are left"
    ):
        run.report()
    assert set(cluster.storage.keys) == before


def test_a_dry_run_of_a_scrub_needs_no_answer_and_says_what_it_was(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    run = planned_run()
    run.plan(dry_run_only=True)
    assert run.delete(approve_above=ALWAYS, dry_run_only=True)["would_delete"] == FINISHED
    run.report()
    assert "DRY RUN: it ended well, and nothing was written or deleted. 3 objects, 30 B would be" in caplog.text
