# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from fastapi.testclient import TestClient

from airflow_provider_rlmm.core.base.documents import plain_of
from airflow_provider_rlmm.core.base.quoting import human_bytes
from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.core.plans.early_deletion import EarlyDeletion
from airflow_provider_rlmm.core.plans.guards import BlastRadius
from airflow_provider_rlmm.core.plans.plan import PlanFile, PlanSummary, first_refusals, plan_file_name
from airflow_provider_rlmm.core.plans.plan_archive import ArchivedUserPartition, PlanArchive
from airflow_provider_rlmm.core.plans.prices import StorageClass, StoragePrice
from airflow_provider_rlmm.core.plans.refusals import Refusal, RefusalKind
from airflow_provider_rlmm.core.records.records import TopicIdPartition, kafka_uuid_str
from airflow_provider_rlmm.core.records.told_era import EraName, ToldEra
from airflow_provider_rlmm.core.runs.attention import Acknowledgement, Attention, Judgement, judge
from airflow_provider_rlmm.features.cleanup.report_document import Stopped, cleanup_report
from airflow_provider_rlmm.features.cleanup.reports import (
    Marked,
    MarkedTopic,
    MetadataPartitionReport,
    PartitionOutcome,
    UserPartitionReport,
)
from airflow_provider_rlmm.features.doctor.diagnosis import ReportedDiagnosis
from airflow_provider_rlmm.features.doctor.findings import Diagnosis, Finding, FindingKind, Recovery, Severity
from airflow_provider_rlmm.features.scrub.rules import ScrubClass
from airflow_provider_rlmm.features.scrub.scrub_plan import ScrubPlan
from airflow_provider_rlmm.features.scrub.scrub_summary import (
    Amount,
    ForgottenPrefix,
    ScrubSummary,
    Told,
    TopicAmount,
    UnnamedTopic,
)
from airflow_provider_rlmm.plugins.pages import DOCUMENT_PAGES
from airflow_provider_rlmm.plugins.rendering import human_duration
from tests.unit.airflow.auth import Everybody, Nobody, log_in, only, pages, pages_without_a_login

EVIL = '<script>alert("x")</script>'
TOPIC_ID = kafka_uuid_str(UUID(int=7))


def plan(plan_id: str = "plan-1") -> PlanSummary:
    return PlanSummary(
        plan_id=plan_id,
        cluster_id="cluster-1",
        created_at_ms=1_700_000_000_000,
        expires_at_ms=1_700_086_400_000,
        read_until={0: 1200, 3: 40},
        known=Count(4321, 5 * 2**30),
        by_reason={"ORPHANED": Count(300, 3 * 2**20)},
        by_metadata_partition={3: Count(300, 3 * 2**20)},
        quarantined={0: 2},
        unresolved=5,
        files={3: PlanFile.of(plan_file_name(3), 300, b"rows")},
        refusals=(Refusal(f"topic id {TOPIC_ID}", "still exists", "nothing to do", RefusalKind.TOPIC_PRESENT),),
    )


def report(topic: str = "orders", **given: Any) -> dict[str, Any]:
    waits = Refusal(f"{topic}-7", "marked 5 ms ago", "nothing: it is eligible in 23 h 47 min", RefusalKind.WAITING, 3)
    done = UserPartitionReport(topic, TOPIC_ID, 0, PartitionOutcome.FINISHED, 1300, 0, 6500, 3 * 2**20)
    left = UserPartitionReport(
        topic, TOPIC_ID, 1, PartitionOutcome.INCOMPLETE, 2, 1, 10, 100,
        (Refusal("segment abc", "not acknowledged", "the next run goes on", RefusalKind.NEXT_RUN),),
    )  # fmt: skip
    young = UserPartitionReport.refused(TopicIdPartition(UUID(int=7), topic, 7), 4, waits)
    partitions = [
        MetadataPartitionReport(3, False, (done, left, young), (), {"DELETE_SEGMENT_STARTED": 1303}, (), 17, 90_500),
        MetadataPartitionReport(4, False, (), (), {}, ("MARKED orders-2",), None, 20),
    ]
    defaults: dict[str, Any] = {
        "report_id": "report-1",
        "plan_id": "plan-1",
        "cluster_id": "cluster-1",
        "created_at_ms": 1_700_000_000_000,
        "parts": partitions,
        "judgement": judgement(topic),
        "waiting": Count(4, 2**20),
        "not_planned": [waits, Refusal("orders-8", "left", "nothing", RefusalKind.NEXT_RUN)],
    }
    return cleanup_report(**(defaults | given)).to_dict()


def judgement(topic: str = "orders") -> Judgement:
    """A problem that fails, one whose acknowledgement has expired, and one that is acknowledged."""
    poison = Attention("QUARANTINED", "metadata partition 3", f"garbage {topic}", "look at it", None, 3, 1234)
    denied = Attention("ACCESS_DENIED", f"AAA:{topic}-0", "DESCRIBE is denied", "grant DESCRIBE", topic, 4)
    known = Attention("QUARANTINED", "metadata partition 5", "a keyed record", "find its writer", None, 5, 6)
    words = [
        Acknowledgement("cluster-1", denied.key, 1_699_000_000_000, f"Ada {topic}", "until the ACL is there"),
        Acknowledgement("cluster-1", known.key, 1_701_000_000_000, "Grace", "a test producer's"),
    ]
    return judge([poison, denied, known], words, "cluster-1", 1_700_000_000_000)


def diagnosis(topic: str = "orders") -> dict[str, Any]:
    pill = Finding(
        FindingKind.TOMBSTONE, Severity.CRITICAL, 3, 17, since_ms=1_700_000_000_000, detail="the value is null"
    )
    stuck = Finding(FindingKind.STUCK_SEGMENT, Severity.WARNING, 4, 12, TOPIC_ID, topic, 0, "seg", 2**62, EVIL)
    made = Diagnosis(
        cluster_id="cluster-1",
        examined_at_ms=1_700_000_000_000,
        read_until={3: 1200},
        records=1200,
        segments=4321,
        counts={FindingKind.TOMBSTONE: 1, FindingKind.STUCK_SEGMENT: 2345},
        critical=1,
        findings=(pill, stuck),
        recoveries=(Recovery(3, 18, 18, 5, 500, 2, (f"{TOPIC_ID}:t-0",), 4),),
    )
    return plain_of(ReportedDiagnosis.of(made))


def test_a_diagnosis_in_words() -> None:
    html = DOCUMENT_PAGES["doctor"].show("doctor-1", diagnosis())
    for words in (
        "cluster-1", "1 critical", "4,321", "Tombstone", "the value is null", "DeleteRecords before offset 18", "2,345",
        "The first 1 of 2,345.", "2023-11-14 22:13:20 UTC", f"{2**62} ms", TOPIC_ID, "its value is null", "What to do",
    ):  # fmt: skip
        assert words in html
    clean = Diagnosis("cluster-1", 1_700_000_000_000, {0: 5}, 5, 1, {})
    assert "nothing found" in DOCUMENT_PAGES["doctor"].show("doctor-2", plain_of(ReportedDiagnosis.of(clean)))


def test_every_kind_of_finding_has_its_place_on_the_page() -> None:
    """What concerns a topic as a whole lies in no metadata partition."""
    findings = tuple(
        Finding(kind, Severity.WARNING, None, None, TOPIC_ID, "orders", detail="x") for kind in FindingKind
    )
    counts = dict.fromkeys(FindingKind, 1)
    made = Diagnosis("cluster-1", 1_700_000_000_000, {3: 1200}, 1200, 1, counts, findings=findings)
    html = DOCUMENT_PAGES["doctor"].show("doctor-1", plain_of(ReportedDiagnosis.of(made)))
    assert html.count('class="badge') >= len(FindingKind)


def test_a_report_shows_what_was_not_planned_and_counts_it(client: TestClient) -> None:
    text = client.get("/reports/report-1").text
    assert "marked 5 ms ago" in text
    assert report()["totals"]["refusals"] == 2


@pytest.fixture
def work_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", str(tmp_path / "work"))
    documents = {
        "plan-1/summary.json": plan().to_json(),
        "report-1/report.json": json.dumps(report()),
        "doctor-1/doctor.json": json.dumps(diagnosis()),
        "broken/summary.json": "{}",
        "garbage/report.json": "{",
    }
    for name, text in documents.items():
        path = tmp_path / "work" / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
    (tmp_path / "summary.json").write_text('{"secret": true}')
    return tmp_path


@pytest.fixture
def client(work_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    app = pages()
    log_in(app, monkeypatch, Everybody)
    with TestClient(app) as test_client:
        yield test_client


PATHS = [
    "/plans/plan-1", "/plans/plan-1/json", "/reports/report-1", "/reports/report-1/json", "/doctor/doctor-1",
    "/doctor/doctor-1/json",
]  # fmt: skip


@pytest.mark.parametrize("path", [*PATHS, "/plans/missing"])
def test_nobody_sees_anything_without_a_login(work_dir: Path, path: str) -> None:
    with TestClient(pages_without_a_login()) as anonymous:
        assert anonymous.get(path).status_code == 401


@pytest.mark.parametrize("path", PATHS)
def test_nobody_sees_anything_without_the_permission(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr("airflow.api_fastapi.core_api.security.get_auth_manager", Nobody)
    assert client.get(path).status_code == 403


def test_a_document_is_for_those_who_may_read_its_dag(work_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__RLMM__CONNECTIONS", "rlmm_default,other")
    for name in ("remote_log_cleaner.run-1", "remote_log_cleaner__other.run-1"):
        (work_dir / "work" / "plan-1").with_name(name).mkdir()
        (work_dir / "work" / name / "summary.json").write_text(plan().to_json())
    app = pages()
    log_in(app, monkeypatch, only("remote_log_cleaner"))
    with TestClient(app) as test_client:
        names = ("remote_log_cleaner.run-1", "remote_log_cleaner__other.run-1", "plan-1")
        for end in ("", "/json"):
            assert [test_client.get(f"/plans/{name}{end}").status_code for name in names] == [200, 403, 403]


def test_every_route_of_the_application_is_guarded(work_dir: Path) -> None:
    app = pages_without_a_login()
    paths = {getattr(route, "path", "") for route in app.routes} - {"/static/{name}"}
    kinds = ("plans", "reports", "doctor", "scrubs", "scrub-plans")
    assert paths >= {f"/{kind}/{{name}}{end}" for kind in kinds for end in ("", "/json")}
    with TestClient(app) as anonymous:
        given = dict.fromkeys(("name", "cluster_id", "topic_id", "partition", "segment_id", "number", "artifact"), "1")
        assert {path: anonymous.get(path.format(**given)).status_code for path in paths} == dict.fromkeys(paths, 401)


def test_nothing_is_changed_by_whatever_is_asked_here() -> None:
    methods = {method for route in pages().routes for method in getattr(route, "methods", ())}
    assert methods <= {"GET", "HEAD"}


def test_pages_and_their_json(client: TestClient) -> None:
    page = client.get("/plans/plan-1")
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert client.get("/plans/plan-1/json").json() == json.loads(plan().to_json())
    assert "report-1" in client.get("/reports/report-1").text
    assert client.get("/reports/report-1/json").json() == report()
    assert "Tombstone" in client.get("/doctor/doctor-1").text
    assert client.get("/doctor/doctor-1/json").json() == diagnosis()


@pytest.mark.parametrize(
    "name", ["..", "%2e%2e", "..%2f..%2fetc", ".hidden", "a%00b", "plan-1%2f..", "-x", "%C3%A9", "a" * 129]
)
@pytest.mark.parametrize("kind", ["plans", "reports", "doctor", "scrubs", "scrub-plans"])
def test_a_name_never_walks(client: TestClient, kind: str, name: str) -> None:
    answer = client.get(f"/{kind}/{name}/json")
    assert answer.status_code == 404
    assert "secret" not in answer.text


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/plans/nothing", 404, "has no summary.json"),
        ("/plans/broken", 422, "does not have the expected form"),
        ("/reports/garbage", 422, "is not JSON"),
    ],
)
def test_documents_that_cannot_be_shown(client: TestClient, path: str, status: int, words: str) -> None:
    answer = client.get(path)
    assert (answer.status_code, words in answer.text) == (status, True)


def test_a_plan_in_words() -> None:
    html = DOCUMENT_PAGES["plans"].show("plan-1", json.loads(plan().to_json()))
    for words in (
        "cluster-1",
        "4,321",
        "5.0 GiB",
        "3.0 MiB",
        "the topic no longer exists",
        TOPIC_ID,
        "2023-11-14 22:13:20 UTC",
    ):
        assert words in html


def test_a_report_in_words() -> None:
    html = DOCUMENT_PAGES["reports"].show("report-1", report())
    for words in (
        "Metadata partition 3", "1,300", "1 min 30 s", "incomplete", "not acknowledged", "the next run goes on",
        "1,303 × DELETE_SEGMENT_STARTED", 'href="../plans/plan-1"', "MARKED orders-2", "waiting",
    ):  # fmt: skip
        assert words in html
    assert "dry run" not in html


def test_what_needs_a_person_stands_first_and_not_by_colour_alone() -> None:
    html = DOCUMENT_PAGES["reports"].show("report-1", report())
    alert = html[html.index('role="alert"') :]
    alert = alert[: alert.index("</section>")]
    for words in (
        "2 things need a person", "quarantined", "metadata partition 3", "offset 1,234", "garbage orders",
        "What to do: look at it", "access denied", "Topic orders", "What to do: grant DESCRIBE", "needs a person",
        "Its acknowledgement has expired: it was until 2023-11-03T08:26:40+00:00, by Ada orders: until the ACL is there",
        "rlmm_acknowledgements", "&#34;cluster_id&#34;: &#34;cluster-1&#34;", "&#34;offset&#34;: 1234",
    ):  # fmt: skip
        assert words in alert
    assert "a keyed record" not in alert
    headings = [
        'role="alert"',
        "Acknowledged for a while",
        "<dl",
        '<h2 id="waiting">Waiting</h2>',
        "<h2>Metadata partition 3</h2>",
    ]
    places = [html.index(heading) for heading in headings]
    assert places == sorted(places)
    for words in ("Acknowledged until 2023-11-26T12:00:00+00:00, by Grace: a test producer&#39;s", "find its writer"):
        assert words in html[places[1] : places[2]]


def test_a_report_that_needs_nobody_says_so_and_shouts_not() -> None:
    html = DOCUMENT_PAGES["reports"].show("report-1", report(judgement=judge([], [], "cluster-1", 1)))
    assert "nothing needs a person" in html
    assert "alert" not in html[html.index("<body>") :]


def test_a_wait_is_shown_apart_and_in_no_red() -> None:
    html = DOCUMENT_PAGES["reports"].show("report-1", report(judgement=judge([], [], "cluster-1", 1)))
    waiting = html[html.index('<h2 id="waiting">Waiting</h2>') :]
    assert "4 segments, 1.0 MiB, become eligible later" in waiting
    assert "eligible in 23 h 47 min" in waiting
    assert 'class="badge ok">waiting</span>' in waiting
    assert "bad-edge" not in waiting[: waiting.index("</ul>")]


@pytest.mark.parametrize("dry_run", [True, False])
def test_the_page_of_a_run_that_has_marked_10_000_topics_is_small(dry_run: bool) -> None:
    """Names as long as Kafka allows; each user partition waits now, and the planner says so."""
    names = [f"{number:05}" + "x" * 244 for number in range(10_000)]
    ids = [kafka_uuid_str(UUID(int=number)) for number in range(10_000)]
    topics = tuple(MarkedTopic(name, one, 1, 2, 300) for name, one in zip(names[:1_000], ids, strict=False))
    waits = [
        Refusal(f"{one}:{name}-0", "marked 5 s ago", "nothing: it is eligible in 23 h 59 min", RefusalKind.WAITING, 3)
        for name, one in zip(names, ids, strict=True)
    ]
    document = report(
        parts=[], judgement=judge([], [], "cluster-1", 1), not_planned=first_refusals(waits), partitions_marked=10_000,
        waiting=Count(20_000, 3_000_000), marked=Marked(topics, Count(20_000, 3_000_000), 2), dry_run=dry_run,
    )  # fmt: skip
    html = DOCUMENT_PAGES["reports"].show("report-1", document)
    assert len(html.encode()) <= 50 * 1024
    for words in ("20,000 segments, 2.9 MiB", names[0], names[49], "the others have 18,000 segments, 2.6 MiB"):
        assert words in html, words
    made = replace(plan(), refusals=first_refusals(waits), by_reason={}, by_metadata_partition={}, files={})
    assert len(DOCUMENT_PAGES["plans"].show("plan-1", json.loads(made.to_json())).encode()) <= 50 * 1024


def test_what_a_page_leaves_out_is_counted() -> None:
    lines = tuple(f"MARKED orders-{number}" for number in range(250))
    part = MetadataPartitionReport(4, True, (), (), {}, lines, None, 20)
    html = DOCUMENT_PAGES["reports"].show("report-1", report(parts=[part], dry_run=True))
    assert "MARKED orders-99" in html
    assert "MARKED orders-100" not in html
    assert "Cleanup report: dry run" in html
    assert "150 more events are in the JSON." in html


def test_a_dry_runs_page_says_what_would_be_done() -> None:
    html = DOCUMENT_PAGES["reports"].show("report-1", report(dry_run=True, partitions_marked=3))
    for words in (
        "dry run: nothing was written or deleted", "Would delete segments", "Would mark partitions", "Segments to delete",
    ):  # fmt: skip
        assert words in html
    assert "Segments deleted" not in html


def test_what_becomes_of_deleted_objects_is_said_below_the_figures() -> None:
    html = DOCUMENT_PAGES["reports"].show(
        "report-1", report(deletion="deleted objects are hidden, freed in 7 days: <why>")
    )
    assert "Deleted objects are hidden, freed in 7 days: &lt;why&gt;." in html


def test_a_run_that_was_stopped_shows_what_is_left_without_a_plan_it_shows_that() -> None:
    stopped = Stopped("w", "t", Count(1234, 2**20))
    html = DOCUMENT_PAGES["reports"].show("report-1", report(stopped=stopped))
    assert "stopped by its blast radius: 1,234 segments, 1.0 MiB, are left" in html
    assert "Cleanup report: stopped" in html
    assert 'href="../plans/plan-1#limits"' in html
    html = DOCUMENT_PAGES["reports"].show("report-1", report(plan_id=None, cluster_id=None))
    assert 'Cluster <span class="id">unknown</span>' in html
    assert "no plan" in html


@pytest.mark.parametrize(
    "changed",
    [
        {"format_version": 2}, {"format_version": True}, {"created_at_ms": "1"}, {"needs_person": None}, {"more": 1},
        {"needs_person": [{}]}, {"totals": {"a": "b"}}, {"metadata_partitions": [1]}, {"dry_run": 0},
    ],
)  # fmt: skip
def test_a_report_of_another_form_is_not_shown(client: TestClient, work_dir: Path, changed: dict[str, Any]) -> None:
    path = work_dir / "work" / "report-1" / "report.json"
    path.write_text(json.dumps(report() | changed))
    assert client.get("/reports/report-1").status_code == 422
    incomplete = report()
    del incomplete["totals"]
    path.write_text(json.dumps(incomplete))
    assert client.get("/reports/report-1").status_code == 422


FILE = PlanFile("scrub.parquet", 1, 2, "0" * 64)


def scrub() -> ScrubSummary:
    """A scrub in which every text is somebody else's."""
    return ScrubSummary(
        scrub_id=EVIL, cluster_id=EVIL, metadata_topic_id=EVIL, began_at_ms=1, clock=EVIL, time_is_proven=True,
        read_until={0: 1}, root={}, listed=Amount(5, 5 * 2**30), listed_segments=3,
        classes={kind.value: Amount(1, 2**30) for kind in ScrubClass},
        topics=(TopicAmount(ScrubClass.MISSING, EVIL, EVIL, 1, 2**30, None),), topics_left_out=4,
        forgotten=(ForgottenPrefix(EVIL, 7, 2**30, EVIL), ForgottenPrefix("old/", 0, 0, "")),
        unnamed=(UnnamedTopic(EVIL, EVIL, EVIL, True, 21, 2**30, (EVIL,)),), unnamed_left_out=6,
        incomplete=(Told(EVIL, EVIL),), incomplete_left_out=1, doubtful={0: EVIL}, lost={0: EVIL}, foreign_folders=0,
        unseen_folders=1, unseen=(Told(EVIL, EVIL),), forgotten_left_out=1,
        price_micros=23_000, file=FILE,
    )  # fmt: skip


def scrub_plan() -> ScrubPlan:
    nothing = Amount(0, 0)
    return ScrubPlan(
        plan_id=EVIL, scrub_sha256="", cluster_id=EVIL, metadata_topic_id=EVIL, created_at_ms=1, expires_at_ms=2, clock=EVIL,
        min_unreferenced_ms=259_200_000, sole_owner=True, classes={"FINISHED": Amount(1, 2)}, planned=Count(1, 2),
        known=Count(1, 2), waiting=nothing, barred=Amount(9, 9), held=nothing, elsewhere=nothing, left_for_later=nothing,
        hold=(EVIL,), root={},
        blast_radius=BlastRadius(), within_blast_radius=False, file=FILE,
    )  # fmt: skip


def test_a_scrub_in_words() -> None:
    html = DOCUMENT_PAGES["scrubs"].show("scrub-1", json.loads(scrub().to_json()))
    for words in ("5.0 GiB", "0.02", "2 folders not listed whole", "4 more are in the table", "Metadata partition 0",
        "storage holds what the log does not name", "21 objects", "6 more topics",
        "7 objects, 1.0 GiB, of segments that the log calls finished", "nothing lies there",
    ):  # fmt: skip
        assert words in html
    html = DOCUMENT_PAGES["scrub-plans"].show("plan-1", json.loads(scrub_plan().to_json()))
    for words in ("larger than allowed", "sole owner", "72 h 0 min", "deleted by the log"):
        assert words in html


IA = StorageClass("STANDARD_IA", 30, 131_072, 5_000)


def test_pages_of_a_scrub_say_by_which_class_costs_are_reckoned() -> None:
    html = DOCUMENT_PAGES["scrubs"].show("scrub-1", json.loads(replace(scrub(), storage_class=IA).to_json()))
    assert "reckoned as STANDARD_IA, the storage class that the connection names, at 0.023 for 2^30 bytes" in html
    assert "To list 5 objects costs &lt; 0.01 at least." in html
    # All classes but the missing, which nobody pays for.
    assert html.count('<td class="n">0.02</td>') == len(ScrubClass) - 1
    html = DOCUMENT_PAGES["scrubs"].show("scrub-1", json.loads(replace(scrub(), price_micros=None).to_json()))
    assert "Cost a month" not in html
    assert "No cost is told, as no price is set: set prices of the rlmm connection to" in html


@pytest.mark.parametrize("kind", ["plans", "reports", "scrub-plans"])
def test_pages_of_deletions_say_what_it_costs_that_they_come_early(kind: str) -> None:
    price, early = StoragePrice(12_500, IA), EarlyDeletion(2, 2**30, 3_210_000, 1, 5)

    def page(**cost: Any) -> str:
        made: dict[str, Any] = {
            "plans": lambda: json.loads(replace(plan(), **cost).to_json()),
            "reports": lambda: report(**cost),
            "scrub-plans": lambda: json.loads(replace(scrub_plan(), **cost).to_json()),
        }
        return DOCUMENT_PAGES[kind].show("name", made[kind]())

    html = page(price=price, early=early)
    what = "object" if kind == "scrub-plans" else "segment"
    assert f"2 {what}s, 1.0 GiB, go before the 30 days of STANDARD_IA are over: that costs 3.21." in html
    assert f"Cannot tell whether 1 {what}, 5 B, goes before" in html
    assert "Costs are reckoned as STANDARD_IA" in html
    assert "the connection names no storage_class" in page(price=StoragePrice(12_500))
    assert "No cost is told, as no price is set" in page()


def documents_of(era: ToldEra | None) -> dict[str, Any]:
    """Of each kind that tells an era."""
    return {
        "plans": json.loads(replace(plan(), era=era).to_json()),
        "reports": report(era=era),
        "scrubs": json.loads(replace(scrub(), era=era).to_json()),
        "scrub-plans": json.loads(replace(scrub_plan(), era=era).to_json()),
    }


@pytest.mark.parametrize("kind", ["plans", "reports", "scrubs", "scrub-plans"])
def test_the_era_of_the_log_is_a_line_where_it_was_told(kind: str) -> None:
    def page(era: ToldEra | None) -> str:
        return DOCUMENT_PAGES[kind].show("name", documents_of(era)[kind])

    alarm = "nothing may be deleted"
    plain, keyed = page(ToldEra(EraName.PLAIN, "no key")), page(ToldEra(EraName.KEYED, f"a key {EVIL}"))
    assert "The metadata topic is plain: no key." in plain
    assert alarm not in plain
    assert "The metadata topic is keyed: a key &lt;script&gt;" in keyed
    assert alarm in keyed
    assert "The metadata topic is" not in page(None)


def test_what_comes_from_outside_is_escaped() -> None:
    pages = [
        DOCUMENT_PAGES["plans"].show(EVIL, json.loads(plan(EVIL).to_json())),
        DOCUMENT_PAGES["reports"].show(EVIL, report(topic=EVIL)),
        DOCUMENT_PAGES["doctor"].show(EVIL, diagnosis(topic=EVIL)),
        DOCUMENT_PAGES["scrubs"].show(EVIL, json.loads(scrub().to_json())),
        DOCUMENT_PAGES["scrub-plans"].show(EVIL, json.loads(scrub_plan().to_json())),
    ]
    for html in pages:
        assert "&lt;script&gt;" in html
        assert html.count("<script") == html.count("<script src=") == 1


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (2**40, "1.0 TiB"), (2**60, "1024.0 PiB")]
)
def test_bytes_for_people(value: int, text: str) -> None:
    assert human_bytes(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0.0 s"), (59_900, "59.9 s"), (60_000, "1 min 0 s"), (7_260_000, "2 h 1 min")]
)
def test_durations_for_people(value: int, text: str) -> None:
    assert human_duration(value) == text


def test_a_report_shows_what_was_archived_and_one_of_before_archives_is_shown_as_well() -> None:
    found = ArchivedUserPartition(
        3,
        "<b>orders",
        "AAAAAAAAAAAAAAAAAAAABw",
        2,
        "/archives/x",
        "manifests/run.json",
        "a" * 64,
        4,
        1,
        2_048,
        1_234,
        "b" * 64,
    )
    archive = PlanArchive("run", "plan-1", "c" * 64, "cluster-1", "/archives", 1, (found,), {})
    html = DOCUMENT_PAGES["reports"].show("report-1", report(archive=archive))
    assert 'archived in <span class="id">/archives</span>' in html
    assert "1,234" in html
    assert "b" * 16 in html
    assert "<b>orders" not in html
    without = report()
    assert without.pop("archive") is None
    assert "archived in" not in DOCUMENT_PAGES["reports"].show("report-1", without)


@pytest.mark.parametrize("name", ["rlmm_stop", "rlmm_stop__rlmm_default"])
@pytest.mark.parametrize(
    "artifact", ["remote_log_cleaner.run-1", "a_dag_of_ours.run-1", "clean.2027-01-15T08-00-00Z.7"]
)
def test_every_document_says_that_the_kill_switch_is_on(
    client: TestClient, work_dir: Path, monkeypatch: pytest.MonkeyPatch, name: str, artifact: str
) -> None:
    documents = {
        "plans/summary.json": plan().to_json(), "reports/report.json": json.dumps(report()),
        "doctor/doctor.json": json.dumps(diagnosis()), "scrubs/scrub.json": scrub().to_json(),
        "scrub-plans/scrub-plan.json": scrub_plan().to_json(),
    }  # fmt: skip
    folder = work_dir / "work" / artifact
    folder.mkdir()
    for where, text in documents.items():
        page, file = where.split("/")
        (folder / file).write_text(text)
        assert "the kill switch is on" not in client.get(f"/{page}/{artifact}").text
    monkeypatch.setattr("airflow_provider_rlmm.plugins.switches._value_of", {name: ""}.get)
    for where in documents:
        answer = client.get(f"/{where.split('/')[0]}/{artifact}")
        assert answer.status_code == 200
        assert f"the kill switch is on: the Airflow variable {name} is set" in answer.text, where
