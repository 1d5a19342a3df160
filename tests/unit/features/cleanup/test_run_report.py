# SPDX-License-Identifier: Apache-2.0
"""What the report of a run says, whatever its tasks left."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.base.clock import DAY_MS
from airflow_provider_rlmm.core.base.documents import plain_of
from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.core.plans.guards import BlastRadius
from airflow_provider_rlmm.core.plans.plan import MAX_REFUSALS, PlanFile, PlanSummary, first_refusals, plan_file_name
from airflow_provider_rlmm.core.plans.plan_files import read_plan
from airflow_provider_rlmm.core.plans.refusals import Refusal, RefusalKind
from airflow_provider_rlmm.core.records.records import TopicIdPartition, kafka_uuid_str
from airflow_provider_rlmm.core.records.told_era import EraName, ToldEra
from airflow_provider_rlmm.core.runs.attention import Acknowledgements, iso_time, read_acknowledgements
from airflow_provider_rlmm.core.runs.task_failure import FailedTask
from airflow_provider_rlmm.core.storage.hidden_copies import DeletionEffect, Freed
from airflow_provider_rlmm.features.cleanup.report_document import read_report
from airflow_provider_rlmm.features.cleanup.reports import (
    Marked,
    MarkedTopic,
    Marking,
    MetadataPartitionReport,
    PartitionOutcome,
    UserPartitionReport,
)
from airflow_provider_rlmm.features.cleanup.run_report import report_of_run
from airflow_provider_rlmm.features.doctor.diagnosis import ReportedDiagnosis
from airflow_provider_rlmm.features.doctor.findings import Diagnosis, Finding, FindingKind, Severity
from airflow_provider_rlmm.overview.run_summaries import RunFacts, cleaner_summary
from airflow_provider_rlmm.overview.run_summary import Done
from airflow_provider_rlmm.plugins.pages import DOCUMENT_PAGES

NOW = 1_800_000_000_000
TIP = TopicIdPartition(UUID(int=7), "orders", 2)
POISON = Refusal("metadata partition 3", "MALFORMED", "look at it", RefusalKind.QUARANTINED, 3, 17)
YOUNG = Refusal(str(TIP), "marked a minute ago", "nothing: it is eligible in 23 h 59 min", RefusalKind.WAITING, 3)
LATER = Refusal(str(TIP), "no acknowledgement", "nothing: the next run goes on", RefusalKind.NEXT_RUN, 3)
HELD = Refusal(str(TIP), "a hold names it", "nothing", RefusalKind.HELD, 3)
PRESENT = Refusal(str(TIP), "it exists", "find out who marked it", RefusalKind.TOPIC_PRESENT, 3, topic="orders")


def planned(
    parts: Mapping[int, Count], refusals: Iterable[Refusal] = (), radius: BlastRadius | None = None, **more: Any
) -> PlanSummary:
    """A plan of these metadata partitions."""
    total = Count.sum(parts.values())
    files = {p: PlanFile(plan_file_name(p), c.segments, 1, "0" * 64) for p, c in parts.items()}
    known = Count(total.segments + 10, total.bytes + 1000)
    summary = PlanSummary(
        plan_id="plan-1", cluster_id="cluster-1", created_at_ms=1, expires_at_ms=2, read_until={0: 1}, known=known,
        by_reason={"ORPHANED": total}, by_metadata_partition=parts, quarantined={}, unresolved=0,
        refusals=tuple(refusals), files=files,
    )  # fmt: skip
    return replace(summary, **more).judged_by(radius or BlastRadius(max_share=1.0))


def part(metadata_partition: int, *refusals: Refusal, dry_run: bool = False) -> MetadataPartitionReport:
    """The report of a metadata partition with one finished user partition, and one for each refusal."""
    done = UserPartitionReport("orders", "AAA", 0, PartitionOutcome.FINISHED, 4, 0, 20, 400)
    refused = [UserPartitionReport.refused(TIP, 5, r) for r in refusals]
    return MetadataPartitionReport(
        metadata_partition, dry_run, (done, *refused), (), {"DELETE_SEGMENT_STARTED": 4}, (), None, -1
    )


def cleaned(metadata_partition: int, *refusals: Refusal, dry_run: bool = False) -> dict[str, Any]:
    """The same as its document."""
    return plain_of(part(metadata_partition, *refusals, dry_run=dry_run))


@dataclass
class Folder:
    """The folder of a run."""

    path: Path

    def put(self, name: str, document: Mapping[str, Any] | str) -> None:
        text = document if isinstance(document, str) else json.dumps(document)
        (self.path / name).write_text(text)

    def plan(self, *args: Any, **given: Any) -> None:
        self.put("summary.json", planned(*args, **given).to_json())

    def clean(self, metadata_partition: int, *refusals: Refusal, dry_run: bool = False) -> None:
        self.put(f"clean-{metadata_partition}.json", cleaned(metadata_partition, *refusals, dry_run=dry_run))

    def mark(
        self, *refusals: Refusal, dry_run: bool = False, era: ToldEra | None = None, by_topic: Marked | None = None
    ) -> None:
        self.put("mark.json", plain_of(Marking("cluster-1", dry_run, 2, 3, refusals, era, None, by_topic)))

    def report(self, **given: Any) -> dict[str, Any]:
        """The document; it always has its form."""
        defaults: dict[str, Any] = {
            "failed_tasks": 0, "marked": False, "dry_run": False, "acknowledgements": Acknowledgements(), "now_ms": NOW
        }  # fmt: skip
        report = report_of_run(str(self.path), "report-1", **(defaults | given))
        document = report.document.to_dict()
        assert read_report(json.loads(json.dumps(document))) == report.document
        assert len(report.judgement.failing) == len(document["needs_person"])
        return document


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def kinds(entries: Iterable[Mapping[str, Any]]) -> list[str]:
    return [e["kind"] for e in entries]


def test_a_run_in_which_all_went_well_needs_nobody(folder: Folder) -> None:
    folder.plan({0: Count(4, 400), 3: Count(4, 400)})
    folder.clean(0)
    folder.clean(3)
    folder.mark()
    document = folder.report(marked=True)
    assert (document["needs_person"], document["stopped"], document["dry_run"]) == ([], None, False)
    assert document["totals"] == {
        "segments_deleted": 8, "objects_deleted": 40, "bytes_deleted": 800, "segments_left": 0, "partitions_finished": 2,
        "partitions_incomplete": 0, "partitions_refused": 0, "partitions_waiting": 0, "partitions_marked": 2,
        "refusals": 0, "waiting_segments": 0, "waiting_bytes": 0, "needs_person": 0, "acknowledged": 0,
    }  # fmt: skip


def test_a_report_says_the_era_of_the_log_as_the_last_task_has_seen_it(folder: Folder) -> None:
    assert folder.report()["era"] is None
    keyed, compacted = ToldEra(EraName.KEYED, "a key"), ToldEra(EraName.COMPACTED, "the policy")
    folder.mark(era=keyed)
    assert folder.report(marked=True)["era"] == {"name": "keyed", "why": "a key"}
    folder.plan({})
    assert folder.report(marked=True)["era"] == {"name": "keyed", "why": "a key"}
    folder.plan({}, era=compacted)
    assert folder.report(marked=True)["era"] == {"name": "compacted", "why": "the policy"}


def test_refusals_of_marker_planner_and_cleaner_need_a_person_each_once(folder: Folder) -> None:
    folder.plan({3: Count(4, 400)}, [POISON, LATER, HELD], quarantined={3: 1})
    folder.mark(POISON, replace(PRESENT, what="other-1"))
    folder.clean(3, PRESENT, LATER)
    document = folder.report(marked=True)
    assert [(e["kind"], e["what"]) for e in document["needs_person"]] == [
        ("QUARANTINED", "metadata partition 3"), ("TOPIC_PRESENT", "other-1"), ("TOPIC_PRESENT", str(TIP)),
    ]  # fmt: skip
    first = document["needs_person"][0]
    assert (first["metadata_partition"], first["offset"], first["what_to_do"]) == (3, 17, "look at it")
    assert kinds(document["not_planned"]) == ["NEXT_RUN", "HELD"]
    # POISON, LATER and HELD by the planner, the marker's of another user partition, PRESENT by the cleaner: each once.
    assert document["totals"]["refusals"] == 5
    assert document["totals"]["segments_deleted"] == 4


def test_the_same_problem_is_one_whoever_of_the_tasks_met_it(folder: Folder) -> None:
    # The cleaner's refusals do not say in which metadata partition: their report does.
    folder.plan({3: Count(4, 400)}, [PRESENT])
    folder.clean(3, replace(PRESENT, metadata_partition=None))
    assert len(folder.report()["needs_person"]) == 1


def test_what_is_acknowledged_is_shown_and_fails_nothing_and_a_new_problem_fails(folder: Folder) -> None:
    folder.plan({}, [POISON], quarantined={3: 1})
    (entry,) = folder.report()["needs_person"]
    assert entry["acknowledge_with"]["cluster_id"] == "cluster-1"
    words = read_acknowledgements(
        json.dumps([entry["acknowledge_with"] | {"by": "me", "why": "known"}]), NOW, "the variable"
    )
    document = folder.report(acknowledgements=words)
    assert (document["needs_person"], kinds(document["acknowledged"])) == ([], ["QUARANTINED"])
    assert document["acknowledged"][0]["acknowledgement"] == {
        "by": "me", "why": "known", "until": iso_time(NOW + 7 * DAY_MS), "expired": False
    }  # fmt: skip
    assert (document["totals"]["needs_person"], document["totals"]["acknowledged"]) == (0, 1)
    folder.plan({}, [POISON, replace(POISON, offset=18)], quarantined={3: 2})
    assert [e["offset"] for e in folder.report(acknowledgements=words)["needs_person"]] == [18]
    assert kinds(folder.report(acknowledgements=words, now_ms=NOW + 8 * DAY_MS)["needs_person"]) == ["QUARANTINED"] * 2


def test_an_acknowledgement_that_cannot_be_understood_is_an_entry(folder: Folder) -> None:
    folder.plan({})
    (entry,) = folder.report(acknowledgements=read_acknowledgements("{", NOW, "the variable"))["needs_person"]
    assert (entry["kind"], entry["what"], entry["acknowledge_with"]) == ("ACKNOWLEDGEMENT", "the variable", None)


def test_quarantined_records_beyond_those_that_are_listed_are_not_forgotten(folder: Folder) -> None:
    folder.plan({}, [POISON, replace(POISON, offset=18)], quarantined={3: 7, 4: 1})
    entries = folder.report()["needs_person"]
    assert [(e["kind"], e["what"]) for e in entries[2:]] == [
        ("QUARANTINED_NOT_LISTED", "5 more quarantined records of metadata partition 3"),
        ("QUARANTINED_NOT_LISTED", "1 more quarantined record of metadata partition 4"),
    ]
    known = [e["acknowledge_with"] | {"by": "me", "why": "known"} for e in entries]
    words = read_acknowledgements(json.dumps(known), NOW, "the variable")
    assert folder.report(acknowledgements=words)["needs_person"] == []
    folder.plan({}, [POISON, replace(POISON, offset=18)], quarantined={3: 8, 4: 1})
    assert kinds(folder.report(acknowledgements=words)["needs_person"]) == ["QUARANTINED_NOT_LISTED"]


def test_a_wait_is_neither_red_nor_a_refusal(folder: Folder) -> None:
    folder.plan({3: Count(4, 400)}, [YOUNG], waiting=Count(5, 500))
    folder.clean(3, replace(YOUNG, metadata_partition=None))
    document = folder.report()
    assert (document["needs_person"], document["not_planned"]) == ([], [])
    waiting = document["waiting"]
    assert (waiting["segments"], waiting["bytes"]) == (5, 500)
    assert [r["what_to_do"] for r in waiting["refusals"]] == ["nothing: it is eligible in 23 h 59 min"]
    totals = document["totals"]
    assert (totals["refusals"], totals["partitions_refused"], totals["partitions_waiting"]) == (0, 0, 1)
    assert (totals["waiting_segments"], totals["waiting_bytes"]) == (5, 500)


def test_what_becomes_of_deleted_objects_is_told_as_the_plan_has_it(folder: Folder) -> None:
    effect = DeletionEffect(Freed.LATER, "a rule expires versions", 7)
    folder.plan({}, root={"deletion": effect.to_dict()})
    assert folder.report()["deletion"] == "deleted objects are hidden, freed in 7 days: a rule expires versions"
    for root in ({}, {"deletion": 5}, {"deletion": {"sentence": 5}}):
        folder.plan({}, root=root)
        assert folder.report()["deletion"] is None


def test_a_run_stopped_by_its_blast_radius_says_so_and_counts_what_is_left(folder: Folder) -> None:
    folder.plan({0: Count(4, 400), 3: Count(6, 600)}, radius=BlastRadius(max_segments=9, max_share=1.0))
    # The task that made the plan failed, and with it those after it: that is no second problem.
    document = folder.report(failed_tasks=1)
    (entry,) = document["needs_person"]
    assert entry["kind"] == "BLAST_RADIUS"
    assert entry["why"] == (
        "stopped by its blast radius: 10 of 20 segments with 1000 B are planned, max_segments is 10, the limit 9; "
        "10 segments with 1000 B are left"
    )
    assert entry["acknowledge_with"] is None
    assert entry["what_to_do"] == (
        'look at the plan, then raise the limit for one run by the parameter "max_segments": 10 of the DAG'
    )
    assert document["stopped"]["left"] == {"segments": 10, "bytes": 1000}
    assert document["totals"]["segments_left"] == 10
    assert [p["refusals"][0]["why"] for p in document["metadata_partitions"]] == [
        f"it was not cleaned: the run was stopped by its blast radius; {n} segments were planned" for n in (4, 6)
    ]


def test_a_run_without_a_plan_has_a_report_that_says_so(folder: Folder) -> None:
    document = folder.report(failed_tasks=1, marked=True)
    (entry,) = document["needs_person"]
    assert entry["kind"] == "NO_PLAN"
    assert entry["why"].startswith("the run made no plan: see the tasks before this one (")
    assert (document["plan_id"], document["cluster_id"]) == (None, None)
    folder.mark(PRESENT)
    folder.put("summary.json", "{")
    document = folder.report(failed_tasks=1, marked=True)
    assert kinds(document["needs_person"]) == ["NO_PLAN", "TOPIC_PRESENT"]
    assert document["needs_person"][1]["acknowledge_with"]["cluster_id"] == "cluster-1"


def test_a_task_that_died_without_a_document_is_told_as_that(folder: Folder) -> None:
    said = FailedTask("plan", "the broker does not answer", "https://airflow/dags/d/runs/r/tasks/plan")
    (entry,) = folder.report(failed_tasks=3, failed=[said])["needs_person"]
    assert (entry["kind"], entry["why"]) == (
        "TASK_FAILED", "the run made no plan: the task plan failed: the broker does not answer"
    )  # fmt: skip
    assert entry["what_to_do"].startswith("look at the log of the task plan: https://airflow/dags/d/runs/r/tasks/plan")
    (entry,) = folder.report(failed_tasks=1, failed=[FailedTask("plan")])["needs_person"]
    assert entry["why"].startswith("the run made no plan: the task plan died without leaving a document")
    assert "Errno" not in json.dumps(entry)
    folder.plan({3: Count(6, 600)})
    (entry,) = folder.report(failed_tasks=1, failed=[FailedTask("clean[0]")])["needs_person"]
    assert "metadata partitions [3] left no report: the task clean[0] died without leaving a document" in entry["why"]


def test_every_figure_of_a_run_is_counted_once_whatever_the_lists_leave_out(folder: Folder) -> None:
    """More refusals than a plan lists, most of them in metadata partitions that no task has visited; holds and waits."""
    denied = [replace(PRESENT, what=f"denied-{n}", topic=f"denied-{n}") for n in range(MAX_REFUSALS + 500)]
    held = [replace(HELD, what=f"held-{n}", topic=f"held-{n}") for n in range(26)]
    folder.plan(
        {3: Count(4, 400), 5: Count(6, 600)},
        first_refusals([*denied, *held, YOUNG]),
        waiting=Count(7, 700),
        known=Count(10_000, 1_000_000),
        # 26 held ones nobody visits, 9 are refused beside planned ones, of which 4 are deleted.
        left={2: Count(26, 2_600), 3: Count(5, 500), 5: Count(4, 400)},
    )
    folder.mark(*denied[:3])
    # Of the cleaner, which meets a user partition that the planner has refused, and one that waits.
    folder.clean(3, denied[0], YOUNG)
    run = report_of_run(
        str(folder.path), "report-1", failed_tasks=0, marked=True, dry_run=False, acknowledgements=Acknowledgements(),
        now_ms=NOW,
    )  # fmt: skip
    totals = run.document.totals
    # 26 and 5 that were refused, 6 and 4 of the task that left no report.
    assert totals["segments_left"] == 26 + 5 + 6 + 4
    assert totals["waiting_segments"] == 7
    assert totals["refusals"] == len(denied) + len(held) + 1
    # All that are denied, and that a task left no report.
    assert totals["needs_person"] == run.judgement.things == len(denied) + 1
    assert run.judgement.headline().startswith("2,501 things need a person.")
    facts = RunFacts("rlmm_default", "dag", "run", "dag.run", 1, 2, {})
    plan = read_plan(str(folder.path))
    kept = cleaner_summary(facts, "cluster-1", run.document, run.judgement, plan=plan, inventory=None, diagnosis=None)
    assert (kept.needs_person, kept.refusals) == (totals["needs_person"], totals["refusals"])
    assert [(t.topic, t.topic_id, t.done, t.segments, t.bytes) for t in kept.topics] == [
        ("orders", "AAA", Done.DELETED, 4, 400),
        ("orders", kafka_uuid_str(TIP.topic_id), Done.REFUSED, 5, 0),
    ]
    html = DOCUMENT_PAGES["reports"].show("report-1", run.document.to_dict())
    assert "⚠ 2,501 things need a person" in html


def test_what_the_doctor_and_the_planner_count_is_counted_once(folder: Folder) -> None:
    bad = [replace(POISON, offset=n) for n in range(3)]
    folder.plan({}, bad, quarantined={3: 10})
    found = tuple(Finding(FindingKind.MALFORMED, Severity.CRITICAL, 3, n, detail="garbage") for n in range(2))
    diagnosis = Diagnosis(
        cluster_id="cluster-1", examined_at_ms=NOW, read_until={3: 30}, records=30, segments=5, critical=10,
        counts={FindingKind.MALFORMED: 10}, findings=found,
    )  # fmt: skip
    folder.put("doctor.json", plain_of(ReportedDiagnosis.of(diagnosis)))
    assert folder.report()["totals"]["needs_person"] == 10


def test_failed_tasks_and_missing_reports_are_one_entry(folder: Folder) -> None:
    folder.plan({0: Count(4, 400), 3: Count(6, 600)})
    folder.clean(0)
    document = folder.report(failed_tasks=1)
    (entry,) = document["needs_person"]
    assert (entry["kind"], entry["why"]) == (
        "TASK_FAILED", "1 task before this one failed, metadata partitions [3] left no report",
    )  # fmt: skip
    assert document["totals"]["segments_deleted"] == 4
    assert document["metadata_partitions"][1]["refusals"][0]["why"] == (
        "its cleaning task left no report; 6 segments were planned"
    )
    assert kinds(folder.report()["needs_person"]) == ["TASK_FAILED"]


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "null", "{}", "\udcff".encode("utf-8", "surrogateescape"), json.dumps(cleaned(0)),
        json.dumps(cleaned(3) | {"duration_ms": "1"}), json.dumps(cleaned(3) | {"more": 1}),
        json.dumps(cleaned(3) | {"dry_run": None}),
        json.dumps(cleaned(3))[:-20],
    ],
)  # fmt: skip
def test_a_part_that_cannot_be_read_is_an_entry_and_the_others_count(folder: Folder, text: str | bytes) -> None:
    folder.plan({0: Count(4, 400), 3: Count(6, 600)})
    folder.clean(0)
    (folder.path / "clean-3.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    document = folder.report()
    (entry,) = document["needs_person"]
    assert (entry["kind"], entry["what"], entry["metadata_partition"]) == ("UNREADABLE", "clean-3.json", 3)
    assert document["totals"]["segments_deleted"] == 4
    assert [p["metadata_partition"] for p in document["metadata_partitions"]] == [0, 3]


def test_the_markers_document_is_missed_where_there_was_a_marker(folder: Folder) -> None:
    folder.plan({})
    assert folder.report(marked=False)["needs_person"] == []
    (entry,) = folder.report(marked=True)["needs_person"]
    assert (entry["kind"], entry["what"]) == ("UNREADABLE", "mark.json")
    folder.put("mark.json", "{}")
    assert kinds(folder.report(marked=False)["needs_person"]) == ["UNREADABLE"]


# -- dry runs ----------------------------------------------------------------------------------------------------------


def test_a_dry_run_says_so_where_nothing_was_planned_and_names_its_counts(folder: Folder) -> None:
    folder.plan({})
    folder.mark(dry_run=True)
    document = folder.report(dry_run=True, marked=True)
    assert document["dry_run"] is True
    assert document["totals"]["would_mark_partitions"] == 2
    folder.plan({3: Count(4, 400)})
    folder.clean(3, dry_run=True)
    document = folder.report(dry_run=True, marked=True)
    assert document["needs_person"] == []
    counts = {name: n for name, n in document["totals"].items() if n}
    assert counts == {
        "would_mark_partitions": 2, "would_delete_segments": 4, "would_delete_objects": 20, "would_delete_bytes": 400,
        "would_finish_partitions": 1,
    }  # fmt: skip
    assert "would_leave_segments" in document["totals"]
    assert not [n for n in document["totals"] if n.endswith(("deleted", "left", "marked"))]


def test_a_report_says_what_was_marked_by_topic_and_from_when_it_may_go(folder: Folder) -> None:
    folder.plan({})
    folder.mark(dry_run=True)
    assert folder.report(marked=True)["marked"] is None, "an earlier release did not say it"
    told = Marked((MarkedTopic("orders", "id", 1, 4, 400),), Count(5, 500), NOW + 1)
    folder.mark(dry_run=True, by_topic=told)
    document = folder.report(marked=True)
    assert document["marked"] == {
        "topics": [{"topic": "orders", "topic_id": "id", "partitions": 1, "segments": 4, "bytes": 400}],
        "all": {"segments": 5, "bytes": 500}, "eligible_ms": NOW + 1,
    }  # fmt: skip
    assert read_report(document).marked == told
    assert told.more == Count(1, 100)


def test_without_any_document_the_run_is_what_it_was_told_to_be(folder: Folder) -> None:
    assert folder.report(dry_run=True)["dry_run"] is True
    assert folder.report(dry_run=False)["dry_run"] is False


@pytest.mark.parametrize(("told", "dry", "problems"), [(True, False, 1), (False, True, 0), (True, True, 0)])
def test_what_the_tasks_were_counts_more_than_what_the_report_was_told(
    folder: Folder, told: bool, dry: bool, problems: int
) -> None:
    folder.plan({3: Count(4, 400)})
    folder.clean(3, dry_run=dry)
    document = folder.report(dry_run=told)
    assert (document["dry_run"], kinds(document["needs_person"])) == (dry, ["MIXED_DRY_RUN"] * problems)


def test_where_the_tasks_disagree_something_was_done(folder: Folder) -> None:
    folder.plan({3: Count(4, 400)})
    folder.mark(dry_run=True)
    folder.clean(3)
    document = folder.report()
    assert (document["dry_run"], kinds(document["needs_person"])) == (False, ["MIXED_DRY_RUN"])
    assert document["totals"]["segments_deleted"] == 4


# -- the doctor and earlier tries --------------------------------------------------------------------------------------


def test_the_doctors_criticals_need_a_person_and_a_known_record_is_one_problem(folder: Folder) -> None:
    pill = Finding(FindingKind.MALFORMED, Severity.CRITICAL, 3, 17, detail="garbage")
    finished = Finding(FindingKind.LIVE_PARTITION_FINISHED, Severity.CRITICAL, 3, 20, "AAA", "orders", 2)
    stuck = Finding(FindingKind.STUCK_SEGMENT, Severity.WARNING, 3, 21)
    diagnosis = Diagnosis(
        cluster_id="cluster-1", examined_at_ms=NOW, read_until={3: 30}, records=30, segments=5, critical=3,
        counts={f.kind: 1 for f in (pill, finished, stuck)}, findings=(pill, finished, stuck),
    )  # fmt: skip
    folder.plan({}, [POISON], quarantined={3: 1})
    folder.put("doctor.json", plain_of(ReportedDiagnosis.of(diagnosis)))
    assert [(e["kind"], e["offset"]) for e in folder.report()["needs_person"]] == [
        ("QUARANTINED", 17), ("LIVE_PARTITION_FINISHED", 20), ("CRITICAL_NOT_LISTED", None),
    ]  # fmt: skip
    folder.put("doctor.json", {"findings": [{"severity": "CRITICAL"}]})
    assert kinds(folder.report()["needs_person"]) == ["UNREADABLE", "QUARANTINED"]


def test_that_an_earlier_trys_report_is_lost_stays_true() -> None:
    lost = Refusal("metadata partition 3", "cannot be read", "look at the log", RefusalKind.REPORT, 3)
    second = replace(part(3, LATER), refusals=(lost, YOUNG))
    third = part(3).with_earlier_try(second)
    assert [r.why for r in third.refusals] == ["cannot be read"]
