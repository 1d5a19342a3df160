# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811  # fixtures are imported by their names
"""Approval of a plan: asked where it is large, for exactly that plan, and demanded by whoever deletes."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from airflow.providers.standard.operators import hitl
from airflow.sdk.exceptions import AirflowFailException, TaskAwaitingInput

from airflow_provider_rlmm.core.base.errors import NotApprovedError, PlanError
from airflow_provider_rlmm.core.plans.approval import Approval, ApprovalLimits
from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.core.plans.early_deletion import EarlyDeletion
from airflow_provider_rlmm.core.plans.plan import PlanSummary
from airflow_provider_rlmm.core.plans.plan_files import PlannedTopic, read_plan
from airflow_provider_rlmm.core.plans.prices import StorageClass, StoragePrice
from airflow_provider_rlmm.core.runs import approving
from airflow_provider_rlmm.hooks.metadata import RemoteLogMetadataHook
from airflow_provider_rlmm.operators.approval import ApproveRemoteLogCleanupOperator
from airflow_provider_rlmm.operators.archive import ArchivePlannedSegmentsOperator
from airflow_provider_rlmm.operators.cleaner import (
    CleanMetadataPartitionOperator,
    PlanRemoteLogCleanupOperator,
    ReportRemoteLogCleanupOperator,
)
from tests.unit.airflow.operators.test_operators import (
    NOW,
    Cluster,
    become_dry,
    clean,
    cluster,  # noqa: F401  # a fixture
    context,
    mark_and_plan,
    plan,
    work,  # noqa: F401  # a fixture
)

ALWAYS = {"approve_above_segments": 0, "approve_above_bytes": 0}
ADA = {"id": "7", "name": "ada"}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What Airflow was told to ask."""
    requests: list[dict[str, Any]] = []
    monkeypatch.setattr(hitl, "upsert_hitl_detail", lambda **request: requests.append(request))
    return requests


def approve(**arguments: Any) -> Any:
    ctx = context()
    ctx["task_instance"] = ctx["ti"]
    ctx["ti"].id = "ti"
    return ApproveRemoteLogCleanupOperator(task_id="approve", **({"approve_above": ALWAYS} | arguments)).execute(ctx)


def ask(**arguments: Any) -> TaskAwaitingInput:
    with pytest.raises(TaskAwaitingInput) as waiting:
        approve(**arguments)
    return waiting.value


def answer(*chosen: str, user: Any = ADA, shown: Any = None) -> Any:
    event = {
        "chosen_options": list(chosen), "params_input": {"plan_sha256": shown} if shown else {}, "responded_by_user": user,
        "responded_at": datetime(2026, 3, 1, tzinfo=UTC), "timedout": user is None,
    }  # fmt: skip
    return ApproveRemoteLogCleanupOperator(task_id="approve").execute_complete(context(), event)


def report(failed: int = 0) -> tuple[str, dict[str, Any]]:
    """What the report says, and its document."""
    with pytest.raises(AirflowFailException) as red:
        ReportRemoteLogCleanupOperator(task_id="report").execute(context(failed=failed))
    path = str(red.value).split("The report is ")[1].split(" ")[0].rstrip(".")
    return str(red.value), json.loads(Path(path).read_text())


def refused(cluster: Cluster, parts: list[int], words: str) -> None:
    """No cleaning task writes an event or deletes an object."""
    events, keys = cluster.events, cluster.storage.keys
    for part in parts:
        with pytest.raises(NotApprovedError, match=words):
            clean(part, approve_above=ALWAYS)
    assert (cluster.events, cluster.storage.keys) == (events, keys)


# -- when somebody is asked ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("segments", "size", "asks"),
    [(0, 0, False), (10, 100, False), (11, 100, True), (10, 101, True), (11, 101, True), (1, 0, False)],
)
def test_a_larger_plan_asks(segments: int, size: int, asks: bool) -> None:
    assert ApprovalLimits(10, 100).ask_for(Count(segments, size)) is asks


def test_an_empty_plan_asks_nobody_whatever_the_limits() -> None:
    assert ApprovalLimits(0, 0).ask_for(Count(0, 0)) is False


def test_the_defaults_are_a_tenth_of_the_blast_radius() -> None:
    assert (ApprovalLimits().approve_above_segments, ApprovalLimits().approve_above_bytes) == (10_000, 2**40)


def test_a_dry_run_and_a_small_plan_pass_without_a_question(
    cluster: Cluster, work: Path, asked: list[dict[str, Any]]
) -> None:
    parts = mark_and_plan()
    assert approve(approve_above=None) == {"asked": False}
    assert approve(approve_above={"approve_above_segments": 6}) == {"asked": False}
    assert asked == []
    for part in parts:
        assert clean(part, approve_above={})["segments_left"] == 0
    become_dry(work)
    assert approve(dry_run_only=True) == approve() == {"asked": False}
    assert asked == []


def test_a_task_that_asks_nobody_has_its_link_too(cluster: Cluster, work: Path) -> None:
    """Airflow asks for the link of every task that has ended, and logs an error where none is there: the run is green."""
    mark_and_plan()
    become_dry(work)
    ctx = context()
    ApproveRemoteLogCleanupOperator(task_id="approve", dry_run_only=True).execute(ctx)
    assert ctx["ti"].pushed["rlmm_plan"] == "dag.run"
    ctx = context()
    assert ArchivePlannedSegmentsOperator(task_id="archive", dry_run_only=True).execute(ctx) == {"archived": False}
    assert ctx["ti"].pushed["rlmm_plan"] == "dag.run"


def test_the_request_shows_what_would_go(cluster: Cluster, work: Path, asked: list[dict[str, Any]]) -> None:
    mark_and_plan()
    waiting = ask(answer_within="2 h")
    (request,) = asked
    assert request["options"] == ["Approve", "Reject"]
    assert request["defaults"] == ["Reject"]
    assert request["subject"] == "Delete 6 segments, 600 B of 1 deleted topic?"
    assert "- **gone** (" in request["body"]
    assert "within 2 h 0 min, deletes nothing" in request["body"]
    assert "/rlmm/plans/dag.run)" in request["body"]
    assert read_plan(str(work / "dag.run")).sha256[:12] in request["body"]
    assert waiting.timeout is not None
    assert 7_190 < waiting.timeout.total_seconds() <= 7_200


def test_nobody_is_asked_beyond_the_expiry_of_the_plan(
    cluster: Cluster, work: Path, asked: list[dict[str, Any]]
) -> None:
    mark_and_plan(expires_in_ms=60_000)
    waiting = ask()
    assert waiting.timeout is not None
    assert waiting.timeout.total_seconds() <= 60
    plan(expires_in_ms=1)
    with pytest.raises(PlanError, match="has expired and cannot be approved"):
        approve()
    assert len(asked) == 1


def test_names_in_a_request_are_data() -> None:
    evil = "<img src=x onerror=alert(1)>\n# [here](http://x) | `y` *z* www.evil.example"
    topics = [PlannedTopic(evil, "id", 1, 2, 0)]
    body = approving.body_of(summary(), topics, "conn_x", "http://a/rlmm/plans/p", 60_000)
    (line,) = [line for line in body.splitlines() if "onerror" in line]
    assert line.startswith(r"- **\'\<img src\=x onerror\=alert\(1\)\>")
    assert r"\[here\]\(http\:\/\/x\)" in line
    assert r"www\.evil\.example" in line
    assert "connection conn\\_x" in body


def test_a_request_says_what_it_costs_that_it_comes_early() -> None:
    price, early = StoragePrice(10_000, StorageClass("Cool", 30)), EarlyDeletion(1, 5, 2_340_000, 0, 0)
    body = approving.body_of(replace(summary(), price=price, early=early), [], "conn", "http://a", 60_000)
    (line,) = [line for line in body.splitlines() if "early" in line or "days of Cool" in line]
    assert r"that costs 2\.34" in line
    assert "Cool" not in approving.body_of(summary(), [], "conn", "http://a", 60_000)


def test_a_request_names_the_largest_topics_and_counts_the_others() -> None:
    topics = [PlannedTopic(f"t{n}", "id", 1, 1000 - n, 1_700_000_000_000) for n in range(50)]
    body = approving.body_of(summary(), topics, "conn", "http://a", 60_000)
    assert body.count("- **t") == 20
    assert "- and 30 more topics with 30 segments, " in body
    assert "the oldest of 2023-11-14" in body


def summary() -> PlanSummary:
    return PlanSummary(
        plan_id="plan",
        cluster_id="cluster-1",
        created_at_ms=0,
        expires_at_ms=86_400_000,
        read_until={},
        known=Count(0, 0),
        by_reason={},
        by_metadata_partition={},
        quarantined={},
        unresolved=0,
    )


# -- what an answer is worth -----------------------------------------------------------------------------------------------


def test_what_was_approved_is_deleted(cluster: Cluster, work: Path, asked: list[dict[str, Any]]) -> None:
    parts = mark_and_plan()
    ask()
    refused(cluster, parts, "no answer is recorded")
    assert answer("Approve") == {"asked": True, "decision": "Approve", "decided_by": "ada"}
    document = json.loads((work / "dag.run/approval.json").read_text())
    sha256 = read_plan(str(work / "dag.run")).sha256
    assert document.pop("asked_at_ms") > 0
    assert document == {
        "format_version": 1, "plan_id": "dag.run", "plan_sha256": sha256, "decision": "Approve", "decided_by": "ada",
        "decided_at_ms": 1_772_323_200_000,
    }  # fmt: skip
    for part in parts:
        assert clean(part, approve_above=ALWAYS)["segments_left"] == 0
    written = [row for file in work.rglob("*.before.parquet") for row in pq.read_table(file).to_pylist()]
    assert {(row["approved_by"], row["plan_sha256"]) for row in written} == {("ada", sha256)}
    assert len(written) == 6
    totals = ReportRemoteLogCleanupOperator(task_id="report").execute(context())
    assert totals["segments_deleted"] == 6


def test_a_task_that_was_marked_as_successful_or_skipped_has_approved_nothing(cluster: Cluster, work: Path) -> None:
    parts = mark_and_plan()
    refused(
        cluster, parts, "no answer is recorded: a task that was skipped or marked as successful has approved nothing"
    )


def test_a_plan_that_was_made_anew_needs_an_answer_of_its_own(
    cluster: Cluster, work: Path, asked: list[dict[str, Any]]
) -> None:
    parts = mark_and_plan()
    ask()
    answer("Approve")
    plan()
    refused(cluster, parts, "the recorded answer is for another plan")


def test_an_answer_by_a_page_that_showed_an_earlier_plan_is_refused(
    cluster: Cluster, work: Path, asked: list[dict[str, Any]]
) -> None:
    """It was open since the first request; the run was planned anew and asks again."""
    mark_and_plan()
    ask()
    shown = read_plan(str(work / "dag.run")).sha256
    parts = plan(max_segments_this_run=2)
    ask()
    for other in (shown, 7, ["x"]):
        with pytest.raises(NotApprovedError, match="answered showed another plan"):
            answer("Approve", shown=other)
        refused(cluster, parts, "no answer is recorded")
    assert answer("Approve", shown=read_plan(str(work / "dag.run")).sha256)["decision"] == "Approve"


def test_an_answer_for_a_plan_that_has_changed_meanwhile_is_refused(
    cluster: Cluster, work: Path, asked: list[dict[str, Any]]
) -> None:
    parts = mark_and_plan()
    ask()
    plan()
    with pytest.raises(NotApprovedError, match="has changed since a person was asked to approve it"):
        answer("Approve")
    refused(cluster, parts, "the recorded answer is for another plan")


def test_an_approved_plan_expires_as_any_other(
    cluster: Cluster, work: Path, asked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = mark_and_plan(expires_in_ms=60_000)
    ask()
    answer("Approve")
    expires = read_plan(str(work / "dag.run")).expires_at_ms
    monkeypatch.setattr(RemoteLogMetadataHook, "get_proven_clock", lambda *_, **__: lambda: expires)
    keys = cluster.storage.keys
    for part in parts:
        with pytest.raises(PlanError, match="expired 0 s ago"):
            clean(part, approve_above=ALWAYS)
    assert cluster.storage.keys == keys


def test_a_dry_run_needs_no_answer(cluster: Cluster, work: Path) -> None:
    parts = mark_and_plan()
    become_dry(work)
    for part in parts:
        assert clean(part, approve_above=ALWAYS, dry_run_only=True)["would_leave_segments"] == 0


@pytest.mark.parametrize(
    ("user", "words"),
    [
        (ADA, "was rejected by 'ada' at 2026-03-01"),
        (None, "was not approved: no answer came to the request of "),
    ],
)
def test_what_was_not_approved_is_left_and_the_report_says_who_rejected_it(
    cluster: Cluster, work: Path, asked: list[dict[str, Any]], user: Any, words: str
) -> None:
    parts = mark_and_plan()
    ask()
    with pytest.raises(AirflowFailException, match=f"plan dag.run {words}.*6 segments, 600 bytes are left"):
        answer("Reject", user=user)
    refused(cluster, parts, f"plan dag.run .* {words}")
    said, document = report(failed=1)
    assert words in said
    (entry,) = document["needs_person"]
    assert (entry["kind"], entry["acknowledge_with"]) == ("NOT_APPROVED", None)
    assert entry["why"].endswith("6 segments with 600 B are left")
    assert "left no report" not in json.dumps(document)


def test_a_default_that_approves_is_no_person(cluster: Cluster, work: Path, asked: list[dict[str, Any]]) -> None:
    mark_and_plan()
    ask()
    with pytest.raises(AirflowFailException, match="no answer came to the request of"):
        answer("Approve", user=None)


@pytest.mark.parametrize(
    "change",
    [
        {"decision": "Reject"},
        {"decision": "approve"},
        {"decision": None},
        {"decided_by": None},
        {"plan_id": "another"},
        {"plan_sha256": "0" * 64},
        {"format_version": 2},
        {"asked_at_ms": -1},
        {"unknown": 1},
    ],
)
def test_a_changed_answer_approves_nothing(
    cluster: Cluster, work: Path, asked: list[dict[str, Any]], change: dict[str, Any]
) -> None:
    parts = mark_and_plan()
    ask()
    answer("Approve")
    file = work / "dag.run/approval.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    events, keys = cluster.events, cluster.storage.keys
    for part in parts:
        with pytest.raises((NotApprovedError, PlanError)):
            clean(part, approve_above=ALWAYS)
    assert (cluster.events, cluster.storage.keys) == (events, keys)


def test_an_answer_without_a_question_is_refused(cluster: Cluster, work: Path) -> None:
    mark_and_plan()
    with pytest.raises(NotApprovedError, match="does not say which plan was to be approved"):
        answer("Approve")


def test_the_answer_of_another_run_approves_nothing(cluster: Cluster, work: Path, asked: list[dict[str, Any]]) -> None:
    parts = mark_and_plan()
    ask()
    answer("Approve")
    copied = (work / "dag.run/approval.json").read_text()
    PlanRemoteLogCleanupOperator(task_id="plan", limits=NOW, blast_radius={"max_share": 1.0}).execute(context("other"))
    (work / "dag.other/approval.json").write_text(copied)
    keys = cluster.storage.keys
    with pytest.raises(NotApprovedError, match="the recorded answer is for another plan"):
        CleanMetadataPartitionOperator(
            task_id="clean", dry_run_only=False, metadata_partition=parts[0], limits=NOW, approve_above=ALWAYS
        ).execute(context("other"))
    assert cluster.storage.keys == keys


def test_tasks_that_were_skipped_are_told_from_tasks_that_failed(cluster: Cluster, work: Path) -> None:
    parts = mark_and_plan()
    said, _ = report()
    assert (
        f"metadata partitions {parts} were planned and not cleaned: their tasks were skipped, or marked by hand" in said
    )
    assert "0 tasks" not in said


def test_an_answer_that_cannot_be_read_is_red_and_approves_nothing(
    cluster: Cluster, work: Path, asked: list[dict[str, Any]]
) -> None:
    parts = mark_and_plan()
    (work / "dag.run/approval.json").write_text("{")
    keys = cluster.storage.keys
    for part in parts:
        with pytest.raises(PlanError, match=r"approval\.json does not have the expected form"):
            clean(part, approve_above=ALWAYS)
    assert cluster.storage.keys == keys
    _, document = report(failed=1)
    assert "UNREADABLE" in {entry["kind"] for entry in document["needs_person"]}


def test_an_approval_reads_back_as_it_was_written() -> None:
    made = Approval("plan", "0" * 64, "Reject", None, 5, 1)
    assert Approval.of_json(json.dumps(made.to_dict())) == made
