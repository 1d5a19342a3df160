# SPDX-License-Identifier: Apache-2.0
"""The pages of clusters: what they show of a work folder, to whom, and how they answer to what is not there."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from airflow_provider_rlmm.core.base.clock import time_text
from airflow_provider_rlmm.core.base.quoting import human_bytes
from airflow_provider_rlmm.core.base.work_folder import cluster_folder
from airflow_provider_rlmm.core.plans.approval import Approval, ApprovalRequest
from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.core.plans.guards import BlastRadius
from airflow_provider_rlmm.core.plans.plan import PlanFile, PlanSummary
from airflow_provider_rlmm.core.plans.plan_files import write_plan
from airflow_provider_rlmm.core.plans.prices import StorageClass, StoragePrice, money
from airflow_provider_rlmm.core.records.folded import Folded
from airflow_provider_rlmm.core.records.records import kafka_uuid_str, parse_kafka_uuid
from airflow_provider_rlmm.core.runs.table_pairs import write_pair
from airflow_provider_rlmm.core.runs.task_failure import TaskFailure
from airflow_provider_rlmm.core.world.audit_log import AuditFiles
from airflow_provider_rlmm.core.world.run_identity import RunIdentity
from airflow_provider_rlmm.features.retention.leader_document import LEADER_RETENTION_DOCUMENT
from airflow_provider_rlmm.features.retention.record_ages import AGES_DOCUMENT, MAX_LISTED, RecordAges, ToldAge
from airflow_provider_rlmm.features.scrub.scrub_plan import SCRUB_PLAN_DOCUMENT, SCRUB_PLAN_TABLE, ScrubPlan
from airflow_provider_rlmm.features.scrub.scrub_summary import Amount
from airflow_provider_rlmm.features.scrub.scrub_table import scrub_schema
from airflow_provider_rlmm.features.survey.inventory import INVENTORY_DOCUMENT
from airflow_provider_rlmm.overview.inventories import topics
from airflow_provider_rlmm.overview.run_summary import RUNS_FOLDER, Done, RunKind, TouchedTopic
from airflow_provider_rlmm.overview.runs import _kept
from airflow_provider_rlmm.plugins.dag_runs import DagRunUnderWay, Scheduled
from airflow_provider_rlmm.plugins.overview import price_of
from airflow_provider_rlmm.settings import artifact_name_of
from tests.sample_leaders import reported_leaders
from tests.sample_work_folder import (
    CLUSTER,
    NASTY_TOPIC,
    NOW_MS,
    Sample,
    sample_work_folder,
    topic_id,
    write_document,
    write_progress,
)
from tests.unit.airflow.auth import Everybody, Nobody, Viewer, log_in, only, pages, pages_without_a_login
from tests.unit.airflow.plugins.test_plan_rows import plan_of

HOUR_MS = 3_600_000
EVIL = "<script>alert(1)</script>"
OTHER = "another-cluster-id-000"
TOPIC = f"/clusters/{CLUSTER}/topics/{kafka_uuid_str(topic_id(247))}"
SEARCH = f"/clusters/{CLUSTER}/search"
PAGES = [
    SEARCH, f"{SEARCH}?text=topic-000001",
    "/", f"/clusters/{CLUSTER}", f"/clusters/{CLUSTER}/topics", f"/clusters/{CLUSTER}/leaders", f"/clusters/{CLUSTER}/runs",
    TOPIC, f"{TOPIC}/0",
    "/runs/remote_log_cleaner.manual__running", "/runs/remote_log_cleaner.manual__running/now/json",
    "/dag-run?dag_id=remote_log_cleaner&run_id=manual__running",
]  # fmt: skip


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    return sample_work_folder(tmp_path_factory.mktemp("filled"), topics=250)


@pytest.fixture
def sample(filled: Sample, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sample:
    monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", str(tmp_path / "work"))
    for module in ("cluster_routes", "topic_routes", "search_routes", "run_routes"):
        monkeypatch.setattr(f"airflow_provider_rlmm.plugins.{module}.system_clock", lambda: NOW_MS + HOUR_MS)
    return filled.copied_to(tmp_path / "work")


@pytest.fixture
def app(sample: Sample, monkeypatch: pytest.MonkeyPatch) -> FastAPI:
    made = pages()
    log_in(made, monkeypatch, Everybody)
    return made


@pytest.fixture
def switches(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The variables of Airflow's database."""
    variables: dict[str, str] = {}
    monkeypatch.setattr("airflow_provider_rlmm.plugins.switches._value_of", variables.get)
    return variables


@pytest.fixture
def task_ids(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tasks that each run has by Airflow's database."""
    found: list[str] = []
    monkeypatch.setattr("airflow_provider_rlmm.plugins.dag_runs._task_ids", lambda dag_id, run_id: found)
    return found


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch, task_ids: list[str]) -> list[DagRunUnderWay]:
    """The runs that Airflow's database calls under way."""
    runs: list[DagRunUnderWay] = []
    monkeypatch.setattr(
        "airflow_provider_rlmm.plugins.dag_runs._of", lambda dag_ids: [run for run in runs if run.dag_id in dag_ids]
    )
    return runs


@pytest.fixture
def client(app: FastAPI, running: list[DagRunUnderWay], switches: dict[str, str]) -> Iterator[TestClient]:
    with TestClient(app, raise_server_exceptions=False) as test_client:
        yield test_client


def test_the_overview_of_a_cluster(client: TestClient, sample: Sample) -> None:
    html = client.get("/").text
    totals = sample.inventory.totals
    for words in (
        "rlmm_default", "Stored", f"{totals.stored.segments:,} segments of 250 topics", "Orphaned", "Waiting",
        "the first may go Fri 08:26 UTC, in 11 h 0 min", "Being deleted", "Reclaimed", "Out of service",
            "metadata partition 0", "Quarantined",
        "1 critical", "1 h 0 min ago", "Latest runs", "Age of the oldest orphan", "<svg", "topic-000246",
    ):  # fmt: skip
        assert words in html, words
    assert client.get(f"/clusters/{CLUSTER}").text == html
    assert "Cost a month" not in html
    assert html.count("No cost is told, as no price is set: set prices of the rlmm connection to") == 1


def test_what_needs_a_person_stands_before_the_figures(client: TestClient, sample: Sample) -> None:
    html = client.get("/").text
    alert = html[html.index('role="alert"') : html.index("</section>")]
    assert html.index('role="alert"') < html.index('<dl class="tiles">')
    totals = sample.inventory.totals
    # Neither figure says that there is nothing more.
    assert f"{human_bytes(totals.orphaned.bytes)} + {human_bytes(totals.unseen.bytes)} cannot tell" in html
    assert f"{human_bytes(totals.unseen.bytes)} cannot tell + 3 segments of unknown size" in html
    assert f"{human_bytes(totals.stored.bytes)} + 7 segments of unknown size" in html
    assert "It cannot be told whether these are orphaned" in html
    links = dict(re.findall(r'<dt>(Orphaned|Unseen)</dt><dd[^>]*><a href="[^"?]*\?state=(\w+)"', html))
    assert links == {"Orphaned": "GONE", "Unseen": "UNSEEN"}
    assert "Metadata partitions out of service: 0" in alert


def test_figures_that_are_old_say_so_in_red(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "These figures are" not in client.get("/").text
    monkeypatch.setattr("airflow_provider_rlmm.plugins.cluster_routes.system_clock", lambda: NOW_MS + 73 * HOUR_MS)
    assert "These figures are 3 d 1 h old" in client.get("/").text


def test_what_it_costs_where_somebody_has_said_the_price(
    client: TestClient, sample: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__RLMM__PRICE_PER_GB_MONTH", "0.5")
    assert f">{sample.inventory.totals.stored.bytes / 2**30 * 0.5:,.2f}</a></dd>" in client.get("/").text
    monkeypatch.setenv("AIRFLOW__RLMM__PRICE_PER_GB_MONTH", "0.00001")
    assert ">&lt; 0.01</a></dd>" in client.get("/").text
    monkeypatch.setenv("AIRFLOW__RLMM__PRICE_PER_GB_MONTH", "cheap")
    answer = client.get("/")
    assert (answer.status_code, "[rlmm] price_per_gb_month" in answer.text) == (422, True)


def test_what_a_topic_costs(client: TestClient, sample: Sample, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = ("", "/topics", f"/topics/{kafka_uuid_str(topic_id(248))}")
    for page in pages:
        html = client.get(f"/clusters/{CLUSTER}{page}").text
        assert ("Cost a month" in html, "No cost is told" in html) == (False, True), page
    monkeypatch.setenv("AIRFLOW__RLMM__PRICE_PER_GB_MONTH", "1000")
    (found,) = topics(str(sample.work), f"cluster-{CLUSTER}", search=kafka_uuid_str(topic_id(248))).rows
    cost = money(StoragePrice(1_000_000_000).month(found.bytes))
    for page in pages:
        html = client.get(f"/clusters/{CLUSTER}{page}").text
        assert ("Cost a month" in html, "No cost is told" in html) == (True, False), page
        assert f">{cost}<" in html, page
        assert "reckoned at 1000 for 2^30 bytes in a month for every storage class" in html


def test_the_price_of_the_survey_counts_before_that_of_the_installation(sample: Sample) -> None:
    told = StoragePrice(12_500, StorageClass("STANDARD_IA", 30, 131_072))
    assert price_of(replace(sample.inventory, price=told), 23_000) == told
    assert price_of(sample.inventory, 23_000) == price_of(None, 23_000) == StoragePrice(23_000)
    assert price_of(sample.inventory, None) is None


def rows(html: str) -> list[str]:
    return re.findall(r'topics/([A-Za-z0-9_-]{22})"', html)


def name_of(number: int) -> str:
    return kafka_uuid_str(topic_id(number))


def test_topics_are_paged_the_largest_first(client: TestClient) -> None:
    path = f"/clusters/{CLUSTER}/topics"
    first, third = client.get(path).text, client.get(path, params={"page": 3}).text
    assert rows(first) == [name_of(n) for n in range(249, 149, -1)]
    assert rows(third) == [name_of(n) for n in range(49, -1, -1)]
    assert "1–100 of 250" in first
    assert "201–250 of 250" in third
    assert 'rel="next"' in first
    assert 'rel="next"' not in third


def test_topics_are_searched_sorted_and_filtered(client: TestClient) -> None:
    path = f"/clusters/{CLUSTER}/topics"
    found = client.get(path, params={"search": "TOPIC-00001", "sort": "topic", "down": "1"}).text
    assert rows(found) == [name_of(n) for n in range(19, 9, -1)]
    assert 'value="TOPIC-00001"' in found
    assert 'aria-sort="descending"' in found
    orphans = client.get(path, params={"state": "ORPHANED"}).text
    assert rows(orphans) == [name_of(n) for n in range(249, -1, -1) if n % 7 == 1]
    assert "No topic is like that" in client.get(path, params={"search": "nothing"}).text


def test_a_topic_of_a_nasty_name_is_shown_and_harmless(client: TestClient) -> None:
    html = client.get(f"/clusters/{CLUSTER}/topics", params={"search": "onerror"}).text
    assert rows(html) == [name_of(249)]
    assert NASTY_TOPIC not in html
    assert "&lt;img src=x onerror=alert(1)&gt;" in html
    searched = client.get(f"/clusters/{CLUSTER}/topics", params={"search": NASTY_TOPIC}).text
    assert rows(searched) == [name_of(249)]
    assert "<img" not in searched


@pytest.mark.parametrize(
    "query", ["page=0", "page=x", "page=99999999", "state=NOTHING", "search=" + "x" * 250, "down=perhaps"]
)
def test_what_cannot_be_asked_is_refused_on_a_page(client: TestClient, query: str) -> None:
    answer = client.get(f"/clusters/{CLUSTER}/topics?{query}")
    assert answer.status_code == 422
    assert answer.headers["content-type"].startswith("text/html")
    assert "What to do" in answer.text


@pytest.mark.parametrize("cluster", ["unknown", "..%2f..%2fetc", "%2e%2e", "a%00b", "x" * 5_000])
def test_a_cluster_of_which_nobody_has_told(client: TestClient, cluster: str) -> None:
    assert client.get(f"/clusters/{cluster}").status_code == 404
    assert client.get(f"/clusters/{cluster}/topics").status_code == 404


def test_before_the_first_run_there_is_a_page_too(
    client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", str(tmp_path / "nothing"))
    answer = client.get("/")
    assert (answer.status_code, "No run has told of a cluster in the work folder" in answer.text) == (200, True)
    assert f"{tmp_path}/nothing, which does not exist" in answer.text
    missing = client.get("/runs/remote_log_cleaner.manual__gone")
    assert (missing.status_code, f"{tmp_path}/nothing, which does not exist" in missing.text) == (404, True)


def test_a_task_that_failed_leads_to_its_log(client: TestClient, sample: Sample) -> None:
    failure = TaskFailure("remote_log_cleaner", "manual__died", "plan", None, NOW_MS, "the broker does not answer")
    folder = sample.work / "remote_log_cleaner.manual__died"
    folder.mkdir()
    (folder / failure.file_name).write_text(failure.to_json())
    html = client.get("/runs/remote_log_cleaner.manual__died").text
    assert "The task plan failed" in html
    assert "the broker does not answer" in html
    assert 'href="/dags/remote_log_cleaner/runs/manual__died/tasks/plan"' in html


def test_an_inventory_that_cannot_be_read_is_said_in_red(client: TestClient, sample: Sample) -> None:
    (sample.cluster / "inventory.json").write_text("{")
    answer = client.get(f"/clusters/{CLUSTER}")
    assert answer.status_code == 200
    assert "What was surveyed last cannot be read" in answer.text[answer.text.index('role="alert"') :]


def test_a_survey_that_began_with_a_generation_says_so(client: TestClient, sample: Sample) -> None:
    assert "of the Spark job" not in client.get(f"/clusters/{CLUSTER}").text
    begun = replace(sample.inventory, folded=Folded(1_012, NOW_MS - HOUR_MS, NOW_MS - 5 * HOUR_MS, 7))
    (sample.cluster / "inventory.json").write_text(begun.to_json())
    html = client.get(f"/clusters/{CLUSTER}").text
    assert f"begun with generation 1,012 of the Spark job, of {time_text(NOW_MS - HOUR_MS)[:10]}" in html


def test_an_inventory_of_another_cluster_is_not_shown(client: TestClient, sample: Sample) -> None:
    other = sample_work_folder(sample.work, cluster_id=OTHER, connection="other", topics=3)
    (sample.cluster / "inventory.json").write_text((other.cluster / "inventory.json").read_text())
    html = client.get(f"/clusters/{CLUSTER}").text
    assert "What was surveyed last cannot be read" in html
    assert "3 topics" not in html


# -- leaders ---------------------------------------------------------------------------------------------------------------


def test_what_leaders_delete_next(client: TestClient) -> None:
    html = client.get(f"/clusters/{CLUSTER}/leaders").text
    for words in (
        "2.9 MiB", "3 segments", "<dt>All</dt>", "At least", "Unresolved", "Overdue", "2 segments of 1 user partition",
        "&lt;img src=x", "retention ms", "older than retention.ms", "7 h 0 min", "in the log of broker 4, its leader",
        "move the leadership to", "Leaked", "the leader serves no record &lt;b&gt;there&lt;/b&gt;", "Dangling",
    ):  # fmt: skip
        assert words in html, words
    assert NASTY_TOPIC not in html


def test_a_leader_that_is_stuck_stands_before_the_figures(client: TestClient, sample: Sample) -> None:
    html = client.get("/").text
    alert = html[html.index('role="alert"') : html.index("</section>")]
    assert "Leaders are stuck: 2 segments, 1.9 MiB of 1 user partition should have been deleted hours ago" in alert
    assert "in the log of broker 4, its leader" in alert
    assert "Kafka has leaked 1 segment" in alert
    assert "1.9 MiB overdue" in html
    replace_leaders(sample, overdue=False)
    html = client.get("/").text
    assert "Leaders are stuck" not in html
    assert "nothing seen overdue" in html
    assert "1 user partition unresolved" in html


def test_leaders_that_have_stopped_copying(client: TestClient, sample: Sample) -> None:
    assert "stopped copying" not in client.get("/").text
    replace_leaders(sample, hanging=True)
    html = client.get("/").text
    assert "The leaders of 1 user partition have stopped copying: local segments are not purged" in html
    assert "12,351 offsets wait behind offset 450" in html
    html = client.get(f"/clusters/{CLUSTER}/leaders").text
    assert "Copying has stopped" in html
    assert "move the leadership to another broker, or restart it" in html


def replace_leaders(sample: Sample, *, now_ms: int = NOW_MS, **more: bool) -> None:
    report = reported_leaders(CLUSTER, "orders", topic_id(3), now_ms=now_ms, **more)
    (sample.cluster / LEADER_RETENTION_DOCUMENT).write_text(report.to_json())


def test_what_nobody_can_tell_of_leaders_is_no_zero(client: TestClient, sample: Sample) -> None:
    replace_leaders(sample, overdue=False, judged=False)
    for address in ("/", f"/clusters/{CLUSTER}/leaders"):
        html = client.get(address).text
        assert "nothing overdue" not in html
        assert "cannot tell" in html
    assert "whether anything is overdue, 20" in client.get("/").text
    assert "Of 3 user partitions it cannot be told whether anything is overdue: no broker tells the interval" in html
    replace_leaders(sample, overdue=False, now_ms=NOW_MS - 80 * HOUR_MS)
    assert "What leaders delete next was told 3 d 9 h ago" in client.get("/").text
    (sample.cluster / LEADER_RETENTION_DOCUMENT).unlink()
    assert "not asked" in client.get("/").text
    assert "not known whether one of them is stuck" in client.get(f"/clusters/{CLUSTER}/leaders").text


def test_what_was_told_of_leaders_and_cannot_be_read_is_said(client: TestClient, sample: Sample) -> None:
    document = sample.cluster / LEADER_RETENTION_DOCUMENT
    good = document.read_text()
    other = reported_leaders(OTHER, "orders", topic_id(3), now_ms=NOW_MS).to_json()
    for text in ("{", "\udcff", good.replace('"overdue_partitions": 1', '"overdue_partitions": 0'), other):
        document.write_bytes(text.encode(errors="surrogateescape"))
        assert "What leaders delete next cannot be read" in client.get("/").text
        assert client.get(f"/clusters/{CLUSTER}/leaders").status_code == 422


# -- ages ------------------------------------------------------------------------------------------------------------------

NOBODY = "How old the segments of this cluster are is not written down yet: each run of remote_log_retention does it."


def told_ages(cluster_id: str = CLUSTER, topics: int = 2) -> RecordAges:
    told = [ToldAge(topic_id(247 - n).bytes, f"{EVIL}{n}", n % 7, 3, (5 + n) * 2**20) for n in range(topics)]
    return RecordAges.of(told, cluster_id=cluster_id, told_at_ms=NOW_MS)


def test_bytes_by_the_age_of_the_newest_record(client: TestClient, sample: Sample) -> None:
    document = sample.cluster / AGES_DOCUMENT
    for address in (f"/clusters/{CLUSTER}", TOPIC):
        html = client.get(address).text
        assert NOBODY in html
        assert "Bytes by age of the newest record" not in html
    document.write_text(told_ages().to_json())
    html = client.get(f"/clusters/{CLUSTER}").text
    assert NOBODY not in html
    assert "<b>11.0 MiB</b>" in html
    for words in ("&lt; 1 d: 5.0 MiB, 3 segments", "1–7 d: 6.0 MiB, 3 segments", "unknown: 0 B, 0 segments"):
        assert f"<title>{words}</title>" in html, words
    html = client.get(TOPIC).text
    assert "<title>&lt; 1 d: 5.0 MiB, 3 segments</title>" in html
    assert "<title>1–7 d: 0 B, 0 segments</title>" in html, "of this topic alone"


def test_ages_that_nobody_can_show_are_no_zero(client: TestClient, sample: Sample) -> None:
    document = sample.cluster / AGES_DOCUMENT
    good = told_ages().to_json()
    for text in ("{", good.replace('"topics": 2', '"topics": 1'), told_ages(OTHER).to_json()):
        document.write_text(text)
        for address in (f"/clusters/{CLUSTER}", TOPIC):
            answer = client.get(address)
            assert answer.status_code == 200
            assert "How old the remote segments are cannot be shown" in answer.text
    document.write_text(told_ages(topics=0).to_json())
    assert "it had no remote segment then" in client.get(TOPIC).text
    many = [ToldAge(UUID(int=n + 1).bytes, "big", 0, 1, 2**30) for n in range(MAX_LISTED)]
    small = ToldAge(topic_id(247).bytes, "small", 0, 1, 1)
    document.write_text(RecordAges.of([*many, small], cluster_id=CLUSTER, told_at_ms=NOW_MS).to_json())
    assert "the 1,000 largest topics of 1,001 are listed, and this is none of them" in client.get(TOPIC).text


# -- topics, their partitions and segments ---------------------------------------------------------------------------------


def test_a_topic_and_its_user_partitions(client: TestClient) -> None:
    html = client.get(TOPIC).text
    for words in (
        "topic-000247",
        "waiting",
        "May go Fri 08:26 UTC, in 11 h 0 min: no run comes by itself, as the DAG remote_log_cleaner is not there.",
        "First seen absent",
        "delete partition marked",
        "0–299",
    ):
        assert words in html, words
    assert [f'topics/{name_of(247)}/{n}"' in html for n in range(3)] == [True, True, False]


def test_a_user_partition_and_its_segments(client: TestClient) -> None:
    html = client.get(f"{TOPIC}/1").text
    for words in (
        "topic-000247, partition 1", "0–99", "100–199", "200–299", "<svg", "epoch 0", "epoch 1", "copy segment finished",
        "delete segment started", "It was copied, says broker 0.", "Its deletion had begun, says broker 2.",
        "Its first record.", f"rlmm trail {name_of(247)} 1",
    ):  # fmt: skip
        assert words in html, words
    assert html.count("<tr><td") == 3


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"/clusters/{CLUSTER}/topics/AAAAAAAAAAAAAAAAAAAAAA", 404),
        (f"/clusters/{CLUSTER}/topics/x", 404),
        (f"/clusters/{CLUSTER}/topics/AAAAAAAAAAAAAAAAAAAAAA/0", 404),
        (f"{TOPIC}/2", 404),
        (f"{TOPIC}/-1", 422),
        (f"{TOPIC}/2147483648", 422),
        (f"{TOPIC}/x", 422),
    ],
)
def test_topics_and_partitions_that_nobody_knows(client: TestClient, path: str, status: int) -> None:
    assert client.get(path).status_code == status


def audited(sample: Sample, segment_id: bytes, when_ms: int, outcomes: dict[str, Any] | None, **others: Any) -> None:
    """Have the audit log say that a run deleted a segment of the user partition of TOPIC."""
    run = RunIdentity("remote_log_cleaner", "manual__7", "remote_log_cleaner.manual__7", "ada", approved_by="grace")
    log = AuditFiles(str(sample.cluster), CLUSTER, run, 1, lambda: when_ms)
    segment = {
        "metadata_partition": 1, "topic": "topic-000247", "topic_id": [topic_id(247).bytes], "partition": 1,
        "segment_id": [segment_id], "start_offset": 0, "end_offset": 99, "segment_bytes": 1_000, "started_offset": 5,
    } | others  # fmt: skip
    batch = log.before(segment)
    if outcomes is not None:
        log.after(batch, outcomes)


def test_what_runs_have_deleted_stands_on_the_page_of_the_user_partition(client: TestClient, sample: Sample) -> None:
    known = client.get(f"{TOPIC}/1").text
    gone, left = b"g" * 16, parse_kafka_uuid(re.findall(r'class="id">([A-Za-z0-9_-]{22})</summary>', known)[0]).bytes
    assert "Deleted by runs" not in known
    audited(sample, gone, NOW_MS, {"outcome": "GONE", "objects": 6, "bytes": 2**20})
    audited(sample, left, NOW_MS - 1_000, {"outcome": "PRESENT", "objects": 1, "bytes": 10, "why": EVIL})
    audited(sample, b"h" * 16, NOW_MS - 2_000, None)
    audited(sample, b"o" * 16, NOW_MS - 15 * 24 * HOUR_MS, {"outcome": "GONE", "objects": 6, "bytes": 5})
    html = client.get(f"{TOPIC}/1").text
    deleted = html[html.index("Deleted by runs") :]
    for words in (
        "all its objects are gone", "started by ada, approved by grace", "6 objects, 1.0 MiB", "objects are left",
        "the run ended in between", kafka_uuid_str(UUID(bytes=gone)),
    ):  # fmt: skip
        assert words in deleted, words
    assert kafka_uuid_str(UUID(bytes=b"o" * 16)) not in html
    assert html.count("A run deleted it: objects are left.") == 1
    assert "&lt;script&gt;" in html
    # Of one that is gone from the newest survey, the audit log alone tells.
    (sample.cluster / "inventory.json").unlink()
    assert "The newest survey has nothing of it any more" in client.get(f"{TOPIC}/1").text


# -- when it goes ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Daily:
    """A run each day at 00:00 UTC, as Airflow's timetables tell it."""

    def __call__(self, last: datetime) -> Any:
        return SimpleNamespace(run_after=last + timedelta(days=1), data_interval=last + timedelta(days=1))


MIDNIGHT = datetime(2026, 5, 29, tzinfo=UTC)  # the first after NOW_MS, Thu 2026-05-28 20:26 UTC
DAILY = Scheduled(False, MIDNIGHT, MIDNIGHT, Daily())


@pytest.fixture
def schedules(monkeypatch: pytest.MonkeyPatch) -> dict[str, Scheduled]:
    """The DAGs of Airflow's database, and when their next runs come."""
    found: dict[str, Scheduled] = {}
    monkeypatch.setattr("airflow_provider_rlmm.plugins.dag_runs._scheduled", found.get)
    return found


def real_runs_alone(sample: Sample) -> None:
    """Have every run of the schedule have deleted."""
    for run in sample.runs:
        path = sample.cluster / RUNS_FOLDER / run.file_name
        path.write_text(replace(run, dry_run=False).to_json())
    _kept._read.clear()


def test_when_a_topic_is_deleted_by_the_schedule(
    client: TestClient, sample: Sample, schedules: dict[str, Scheduled]
) -> None:
    """It may go at 08:26, and the run of midnight before that is too early."""
    schedules["remote_log_cleaner"] = DAILY
    real_runs_alone(sample)
    words = "eleted Sat 00:00 UTC, in 26 h 34 min"
    assert f"D{words} by the run of the schedule, if the topic stays absent." in client.get(TOPIC).text
    assert f"D{words}" in client.get(f"{TOPIC}/0").text
    topics = f"/clusters/{CLUSTER}/topics"
    assert f"d{words}" in client.get(topics, params={"search": "topic-000247"}).text
    assert f"the first d{words}" in client.get("/").text
    eligible = client.get(topics, params={"state": "ELIGIBLE"}).text
    assert "deleted Fri 00:00 UTC, in 2 h 34 min by the run of the schedule" in eligible
    refused = client.get(topics, params={"state": "REFUSED"}).text
    assert "as the sample has it: REFUSED" in refused
    assert "by the run of the schedule" not in refused


@pytest.mark.parametrize(
    ("scheduled", "why"),
    [
        (Scheduled(True), "no run comes by itself, as the DAG remote_log_cleaner is paused"),
        (Scheduled(False), "no run comes at a time of its own, as the DAG remote_log_cleaner has no such schedule"),
        (replace(DAILY, following=lambda _: None), "with the next real run"),
        (None, "no run comes by itself, as the DAG remote_log_cleaner is not there"),
    ],
)
def test_where_no_run_comes_that_is_said(
    client: TestClient, sample: Sample, schedules: dict[str, Scheduled], scheduled: Scheduled | None, why: str
) -> None:
    real_runs_alone(sample)
    if scheduled is not None:
        schedules["remote_log_cleaner"] = scheduled
    assert f"May go Fri 08:26 UTC, in 11 h 0 min: {why}" in client.get(TOPIC).text


def test_dry_runs_of_the_schedule_delete_nothing(
    client: TestClient, sample: Sample, schedules: dict[str, Scheduled]
) -> None:
    schedules["remote_log_cleaner"] = DAILY
    last = next(run for run in reversed(sample.runs) if run.dag_id == "remote_log_cleaner")
    path = sample.cluster / RUNS_FOLDER / last.file_name
    path.write_text(replace(last, dry_run=True).to_json())
    _kept._read.clear()
    assert (
        "the runs of the schedule are dry (scheduled_runs of the connection): start a real run"
        in client.get(TOPIC).text
    )


def test_every_tile_is_a_link(client: TestClient) -> None:
    for path in ("/", TOPIC, f"{TOPIC}/0", f"/clusters/{CLUSTER}/leaders", "/runs/remote_log_cleaner.manual__running"):
        tiles = re.findall(r"<dt>.*?</dt><dd[^>]*>(.*?)</dd>", client.get(path).text)
        assert tiles, path
        assert [tile for tile in tiles if not tile.startswith("<a href=")] == [], path


def test_links_of_the_tiles_lead_to_pages(client: TestClient) -> None:
    tiles = re.findall(r'<dd><a href="([^"#]+)"', client.get("/").text)
    assert len(tiles) >= 12
    for address in tiles:
        # The sample has no documents of its past runs.
        assert client.get(address).status_code == (404 if address.startswith("/doctor/") else 200), address
    gone = client.get(f"/clusters/{CLUSTER}/topics?state=GONE").text
    assert "topic-000000" not in gone
    assert ">living</span>" not in gone


@pytest.mark.parametrize("path", PAGES)
def test_every_page_has_the_navigation_and_the_search(client: TestClient, path: str) -> None:
    html = client.get(path).text
    if not path.endswith("json"):
        for words in (
            '<nav aria-label="Pages of the cluster">',
            f'action="{SEARCH}"',
            f'href="/clusters/{CLUSTER}/runs"',
        ):
            assert words in html, words


def test_a_page_that_is_refused_leads_back(client: TestClient) -> None:
    assert '<nav aria-label="Pages"><a href="/">Clusters</a></nav>' in client.get("/runs/bakery.manual__1").text


# -- search ----------------------------------------------------------------------------------------------------------------


def found(client: TestClient, text: str) -> str:
    answer = client.get(SEARCH, params={"text": text})
    assert answer.status_code == 200
    return answer.text


def segment_of(client: TestClient, path: str) -> str:
    return re.findall(r'class="id">([A-Za-z0-9_-]{22})</summary>', client.get(path).text)[0]


def test_a_topic_is_found_by_name_and_by_id(client: TestClient) -> None:
    for text in ("topic-000247", name_of(247), str(topic_id(247))):
        html = found(client, f" {text} ")
        for words in (
            f"The topic &#39;topic-000247&#39;, id {name_of(247)}: 2 user partitions.", ">waiting</span>",
            "6 segments, 1.4 GiB", "as the sample has it: WAITING", "this package&#39;s: a run that may write",
            "may go Fri 08:26 UTC",
            f"rlmm why {text}", "As of the survey of 2026-05-28 20:26:40 UTC", f'href="{TOPIC}"',
        ):  # fmt: skip
            assert words in html, (text, words)


def test_a_segment_is_found_by_its_id_and_by_a_key(client: TestClient) -> None:
    segment = segment_of(client, f"{TOPIC}/1")
    for text in (segment, str(parse_kafka_uuid(segment))):
        html = found(client, text)
        for words in (
            f"Segment {segment} of &#39;topic-000247&#39;", "partition 1, offsets 0 to 99", "1 segment, ",
            f'href="{TOPIC}/1"', "What happened to it", "It was copied, says broker 0.",
        ):  # fmt: skip
            assert words in html, (text, words)
    for key in (
        f"tiered/topic-000247-{name_of(247)}/1/00000000000000000000-{segment}.log",
        f"s3://bucket/topic-000247-1-{name_of(247)}/00000000000000000000-{segment}.indexes",
    ):
        html = found(client, key)
        assert f"The object &#39;{key}&#39;: segment {segment} of &#39;topic-000247&#39;" in html


def test_a_key_that_nothing_names_leads_to_its_topic(client: TestClient) -> None:
    stranger = kafka_uuid_str(UUID(bytes=b"s" * 16))
    html = found(client, f"topic-000247-{name_of(247)}/1/00000000000000000000-{stranger}.log")
    assert "Nothing that runs have written down names this object. Its key holds the id of this topic" in html
    assert f'href="{TOPIC}"' in html
    for text in (stranger, f"nobody-{stranger}/0/1-{stranger}.log", "nobody"):
        html = found(client, text)
        # No answer is no "it is not there".
        assert "cannot tell" in html or "0 topics have it in the name" in html
        assert "rlmm why " in html


def test_a_part_of_a_name_lists_topics(client: TestClient) -> None:
    html = found(client, "TOPIC-00000")
    assert "10 topics have it in the name" in html
    assert "topic-000009" in html
    assert "The largest" not in found(client, "topic-000009")


def test_what_a_run_has_deleted_is_found(client: TestClient, sample: Sample) -> None:
    gone = b"g" * 16
    audited(sample, gone, NOW_MS, {"outcome": "GONE", "objects": 6, "bytes": 2**20, "finished_offset": 6})
    for text in (kafka_uuid_str(UUID(bytes=gone)), f"t-{name_of(247)}/1/0-{kafka_uuid_str(UUID(bytes=gone))}.log"):
        html = found(client, text)
        for words in (">finished</span>", "approved by grace", "its deletion finished, since 2026-05-28 20:26:40 UTC"):
            assert words in html, (text, words)


def test_what_the_audit_log_alone_has_deleted_is_not_called_finished_by_the_log(
    client: TestClient, sample: Sample
) -> None:
    """DELETE_SEGMENT_FINISHED was not acknowledged, or a scrub has deleted an object, which writes no event."""
    unfinished, scrubbed = b"u" * 16, b"s" * 16
    deleted = {"outcome": "GONE", "objects": 6, "bytes": 2**20}
    audited(sample, unfinished, NOW_MS, deleted)
    audited(sample, scrubbed, NOW_MS, deleted, metadata_partition=None, started_offset=None)
    for segment, said in ((unfinished, "rlmm why "), (scrubbed, "A scrub has deleted objects of segment")):
        html = found(client, kafka_uuid_str(UUID(bytes=segment)))
        assert said in html
        assert ">finished</span>" not in html


def test_among_too_many_segments_none_is_looked_for_by_its_id(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    segment = segment_of(client, f"{TOPIC}/1")
    monkeypatch.setattr("airflow_provider_rlmm.overview.inventories.MAX_SEARCHED_SEGMENTS", 1_499)
    html = found(client, segment)
    assert "no page looks through more than 1,499 for an id: ask by the key of an object." in html
    assert "What happened" not in html
    assert "What happened" in found(client, f"t-{name_of(247)}/1/0-{segment}.log")


def test_what_is_looked_for_is_data(client: TestClient) -> None:
    html = found(client, EVIL)
    assert EVIL not in html
    assert "rlmm why &#39;&lt;script&gt;" in html
    assert client.get(SEARCH, params={"text": "x" * 2_049}).status_code == 422
    assert found(client, "x" * 2_048)


# -- runs ------------------------------------------------------------------------------------------------------------------

RUNNING = DagRunUnderWay("remote_log_cleaner", "manual__running", "remote_log_cleaner.manual__running", "running")


def test_past_runs_the_newest_first(client: TestClient, sample: Sample, running: list[DagRunUnderWay]) -> None:
    running.append(RUNNING)
    html = client.get(f"/clusters/{CLUSTER}/runs").text
    places = [html.index(f'runs/{run.artifact}"') for run in reversed(sample.runs)]
    assert places == sorted(places)
    for words in ("needs a person", "dry run", "would be 0", f'runs/{RUNNING.artifact}"', "1–12 of 12"):
        assert words in html, words
    doctors = client.get(f"/clusters/{CLUSTER}/runs", params={"state": "doctor"}).text
    assert "Doctor</a>" in doctors
    assert "Cleaner</a>" not in doctors
    assert client.get(f"/clusters/{CLUSTER}/runs", params={"state": "baker"}).status_code == 422


def test_the_list_of_runs_says_what_was_done_to_which_topics_and_who_approved(
    client: TestClient, sample: Sample
) -> None:
    topics = [TouchedTopic(f"gone-{n}", name_of(n), Done.DELETED, 1_000 + n, 2**20) for n in range(4)]
    topics += [
        TouchedTopic(EVIL, name_of(9), Done.MARKED, 7, 2**10),
        TouchedTopic("held", name_of(8), Done.REFUSED, 3, 0),
    ]
    told = replace(
        sample.runs[7],
        topics=tuple(topics),
        more_topics=5,
        approved="Approve",
        approved_by="grace",
        kind=RunKind.CLEANER,
    )
    path = sample.cluster / RUNS_FOLDER / told.file_name
    path.write_text(told.to_json())
    _kept._read.clear()
    for address in (f"/clusters/{CLUSTER}/runs", "/", f"/runs/{told.artifact}"):
        html = client.get(address).text
        for words in (
            "deleted: <a", ">gone-0</a> (1,000 segments, 1.0 MiB)", "refused: <a", ">held</a> (3 segments)", "marked: <a",
            "and 5 topics besides", "&lt;script&gt;", f'href="/reports/{told.artifact}#topics"',
        ):  # fmt: skip
            assert words in html, (address, words)
        assert ("and 1 more" in html) is (not address.startswith("/runs/"))
    assert "approved by &#39;grace&#39;" in client.get(f"/clusters/{CLUSTER}/runs").text
    path.write_text(replace(told, dry_run=True, approved="Reject", approved_by=None).to_json())
    _kept._read.clear()
    html = client.get("/").text
    assert "would be deleted: <a" in html
    assert "no answer in time" in html


def test_a_run_that_has_ended(client: TestClient, sample: Sample) -> None:
    run = sample.runs[4]
    html = client.get(f"/runs/{run.artifact}").text
    for words in (run.artifact, "needs a person", run.headline, "1 min 0 s", "12.2 s", "4 segments"):
        assert words in html, words
    assert "data-poll" not in html
    same = client.get("/dag-run", params={"dag_id": run.dag_id, "run_id": run.run_id}).text
    assert same == html


def test_a_run_under_way_is_kept_current(
    client: TestClient, sample: Sample, running: list[DagRunUnderWay], monkeypatch: pytest.MonkeyPatch
) -> None:
    running.append(RUNNING)
    monkeypatch.setattr("airflow_provider_rlmm.plugins.run_routes.system_clock", lambda: NOW_MS + 1_000)
    address = f"/runs/{sample.running}"
    html = client.get(address).text
    assert f'data-poll="{address}/now/json"' in html
    for words in ("under way", "at work", "40 of 100", "of 600", "1 min 30 s", "Objects a second", "gone-3"):
        assert words in html, words
    assert "the store refuses to delete: &lt;b&gt;no right&lt;/b&gt;" in html
    now = client.get(f"{address}/now/json").json()
    assert now["under_way"] is True
    assert now["html"].strip() in html
    write_progress(sample.work, sample.running, 0, NOW_MS, done=1)
    running.clear()
    now = client.get(f"{address}/now/json").json()
    assert now["under_way"] is False
    assert "100 of 100" in now["html"]
    assert "did not say that it ended" in now["html"]


def test_a_task_that_says_nothing_for_a_while_is_seen(
    client: TestClient, sample: Sample, running: list[DagRunUnderWay]
) -> None:
    running.append(RUNNING)
    assert "silent for 1 h 0 min" in client.get(f"/runs/{sample.running}").text


def test_progress_of_another_run_is_not_believed(client: TestClient, sample: Sample) -> None:
    folder = sample.work / sample.running
    (folder / "progress-7.json").write_text((folder / "progress-0.json").read_text())
    html = client.get(f"/runs/{sample.running}").text
    assert "It cannot be told how far metadata partition 7 is" in html[html.index('role="alert"') :]


def ask(sample: Sample, radius: BlastRadius | None = None, artifact: str | None = None) -> PlanSummary:
    """Have the run in progress, or another one, ask a person to approve a plan of 12 topics; return the plan."""
    run = artifact or sample.running
    table, summary = plan_of([f"gone-{number:02}" for number in range(23)])
    summary = replace(summary, plan_id=run, cluster_id=CLUSTER).judged_by(radius or BlastRadius())
    written = write_plan(str(sample.work / run), table, summary)
    asked = ApprovalRequest(written.plan_id, written.sha256, NOW_MS)
    write_document(sample.work, run, "approval-request.json", asked.to_dict())
    return written


def test_an_answer_to_an_earlier_request_hides_no_request(
    client: TestClient, sample: Sample, running: list[DagRunUnderWay]
) -> None:
    """The task was cleared, to ask again."""
    running.append(RUNNING)
    plan = ask(sample)
    answered = Approval(plan.plan_id, plan.sha256, "Reject", "ada", NOW_MS, NOW_MS - 1)
    write_document(sample.work, sample.running, "approval.json", answered.to_dict())
    html = client.get(f"/runs/{sample.running}").text
    assert "A person is asked to approve the plan" in html
    assert "not approved" not in html
    write_document(sample.work, sample.running, "approval.json", replace(answered, asked_at_ms=NOW_MS).to_dict())
    html = client.get(f"/runs/{sample.running}").text
    assert "A person is asked to approve the plan" not in html
    assert "not approved" in html


def test_an_approval_shows_topics_segments_bytes_and_one_button(
    client: TestClient, sample: Sample, running: list[DagRunUnderWay]
) -> None:
    running.append(RUNNING)
    plan = ask(sample, BlastRadius(max_segments=250_000, max_share=0.75))
    html = client.get(f"/runs/{sample.running}").text
    request = html[html.index("A person is asked to approve the plan") : html.index("</section>")]
    for words in (
        f"<strong>92 segments, {human_bytes(plan.planned.bytes)}</strong> would be deleted for good, of 12 topics",
        ">gone-22", '<td class="n">4</td><td class="n">89.8 KiB</td>', "and 2 topics besides",
        "Most segments: 250,000 in the place of 100,000", "Largest share: 75 % in the place of 50 %",
        f">Approve: delete 92 segments, {human_bytes(plan.planned.bytes)}</button>",
        "{&#34;chosen_options&#34;: [&#34;Approve&#34;], &#34;params_input&#34;: ",
        f"{{&#34;plan_sha256&#34;: &#34;{plan.sha256}&#34;}}}}",
    ):  # fmt: skip
        assert words in request, words
    # What is not deleted by the package is no part of the question; one button is to be seen, the other is folded away.
    assert "gone-21" not in request
    assert request.count("<button") == 2
    assert request.index("<details") < request.index(">Reject</button>")
    assert request.index(">Approve: delete") < request.index("<details")


@pytest.mark.parametrize("run_id", ["manual__1", "manual__1_" + "x" * 140])
def test_the_tab_of_a_run_leads_to_its_groups_and_each_has_the_button_of_its_own_approval(
    client: TestClient, sample: Sample, running: list[DagRunUnderWay], task_ids: list[str], run_id: str
) -> None:
    run = DagRunUnderWay("own_dag", run_id, artifact_name_of("own_dag", run_id), "running")
    running += [RUNNING, run]
    task_ids += ["before", "west.check", "west.approve", "team.east.approve", "waiting.check"]
    west, east = (artifact_name_of("own_dag", run_id, group) for group in ("west", "team.east"))
    plan = ask(sample, artifact=west)
    failure = TaskFailure("own_dag", run_id, "team.east.check", None, NOW_MS, "the root is missing")
    write_document(sample.work, east, failure.file_name, json.loads(failure.to_json()))
    ids = {"dag_id": "own_dag", "run_id": run_id}
    html = client.get("/dag-run", params=ids).text
    assert f'<a href="/runs/{west}">west</a>' in html
    assert f'<a href="/runs/{east}">team.east</a>' in html
    assert ">waiting</a>" not in html
    assert "hitlDetails" not in html
    html = client.get(f"/runs/{west}").text
    assert f"/dags/own_dag/dagRuns/{run_id}/taskInstances/west.approve/-1/hitlDetails" in html
    assert f">Approve: delete 92 segments, {human_bytes(plan.planned.bytes)}</button>" in html
    assert "under way" in html
    assert "The task team.east.check failed" not in html
    html = client.get(f"/runs/{east}").text
    assert "The task team.east.check failed" in html
    assert "the root is missing" in html
    running.remove(run)
    assert ">west</a>" in client.get("/dag-run", params=ids).text
    assert "hitlDetails" not in client.get(f"/runs/{west}").text


@pytest.mark.parametrize("what", ["gone", "changed", "damaged"])
def test_what_cannot_be_shown_cannot_be_approved_here(
    client: TestClient, sample: Sample, running: list[DagRunUnderWay], what: str
) -> None:
    running.append(RUNNING)
    plan = ask(sample)
    folder = sample.work / sample.running
    if what == "gone":
        (folder / "summary.json").unlink()
    elif what == "changed":
        (folder / "summary.json").write_text(replace(plan, unresolved=1).to_json())
    else:
        (folder / plan.files[0].name).write_bytes(b"x" * plan.files[0].bytes)
    html = client.get(f"/runs/{sample.running}").text
    assert "What a person is asked to approve cannot be shown, so this page has no button for it" in html
    assert "hitlDetails" not in html


def ask_of_scrub(sample: Sample, topics: int = 12, kinds: tuple[str, ...] = ("FINISHED", "FINISHED")) -> ScrubPlan:
    """
    Have the run in progress ask a person to approve the plan of a scrub; return the plan.

    Topic n has n + 1 segments; each has one object for each of the classes.
    """
    rows = [
        {
            "class": kind, "key": f"kafka/{topic:03}/{segment:03}.{at}", "bytes": 1_000, "last_modified_ms": NOW_MS,
            "place": "kafka", "suffix": "log", "topic_id": UUID(int=topic + 1).bytes, "topic": f"gone-{topic:02}",
            "partition": 0, "segment_id": UUID(int=1000 * topic + segment + 1).bytes, "metadata_partition": 0, "why": "",
        }
        for topic in range(topics) for segment in range(topic + 1) for at, kind in enumerate(kinds)
    ]  # fmt: skip
    rows.sort(key=lambda row: (row["class"], row["key"]))
    table = pa.Table.from_pylist(rows, scrub_schema())
    segments = topics * (topics + 1) // 2
    classes = {kind: Amount(segments * kinds.count(kind), 1_000 * segments * kinds.count(kind)) for kind in set(kinds)}
    nothing, size = Amount(0, 0), 1_000 * segments * len(kinds)

    def document(file: PlanFile) -> ScrubPlan:
        return ScrubPlan(
            plan_id=sample.running, scrub_sha256="0" * 64, cluster_id=CLUSTER, metadata_topic_id="topic",
            created_at_ms=NOW_MS, expires_at_ms=NOW_MS + HOUR_MS, clock="proven", min_unreferenced_ms=1, sole_owner=False,
            classes=classes, planned=Count(segments, size), known=Count(20_000, 10**9), waiting=nothing, barred=nothing,
            held=nothing, elsewhere=nothing, left_for_later=nothing, hold=(), root={}, blast_radius=BlastRadius(),
            within_blast_radius=True, file=file,
        )  # fmt: skip

    folder = str(sample.work / sample.running)
    written: ScrubPlan = write_pair(
        folder, (SCRUB_PLAN_TABLE, scrub_schema()), [table], (SCRUB_PLAN_DOCUMENT, document)
    )
    asked = ApprovalRequest(written.plan_id, written.sha256, NOW_MS)
    write_document(sample.work, sample.running, "approval-request.json", asked.to_dict())
    return written


def test_an_approval_of_a_scrub_shows_topics_objects_bytes_and_classes(
    client: TestClient, sample: Sample, running: list[DagRunUnderWay]
) -> None:
    running.append(RUNNING)
    ask_of_scrub(sample, kinds=("FINISHED", "FINISHED", "UNREFERENCED"))
    html = client.get(f"/runs/{sample.running}").text
    request = html[html.index("A person is asked to approve the plan") : html.index("</section>")]
    numbers = "".join(f'<td class="n">{number}</td>' for number in ("12", "36", "35.2 KiB"))
    for words in (
        "<strong>234 objects of 78 segments, 228.5 KiB</strong> would be deleted for good, of 12 topics",
        f"{numbers}<td>finished 24, unreferenced 12</td>", "and 2 topics besides",
        "<p>finished: 156 objects</p>", "<p>unreferenced: 78 objects</p>",
        ">Approve: delete 234 objects of 78 segments, 228.5 KiB</button>",
    ):  # fmt: skip
        assert words in request, words
    # The largest first, and no more than ten of them.
    assert [request.index(f">gone-{topic:02}") for topic in range(11, 1, -1)] == sorted(
        request.index(f">gone-{topic:02}") for topic in range(2, 12)
    )
    assert "gone-01" not in request
    assert request.count("<button") == 2


def test_the_plan_of_a_scrub_shows_its_topics(client: TestClient, sample: Sample) -> None:
    ask_of_scrub(sample, topics=1)
    html = client.get(f"/scrub-plans/{sample.running}").text
    assert ">gone-00" in html
    assert '<td class="n">1</td><td class="n">2</td><td class="n">2.0 KiB</td><td>finished</td>' in html
    assert "besides" not in html
    ask_of_scrub(sample, topics=101)
    html = client.get(f"/scrub-plans/{sample.running}").text
    assert "Topics, the largest" in html
    assert "and 1 topic besides" in html


@pytest.mark.parametrize("what", ["gone", "damaged", "too many"])
def test_topics_of_a_scrub_that_cannot_be_told_are_said(
    client: TestClient, sample: Sample, running: list[DagRunUnderWay], monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    running.append(RUNNING)
    plan = ask_of_scrub(sample)
    file = sample.work / sample.running / plan.file.name
    if what == "gone":
        file.unlink()
    elif what == "damaged":
        file.write_bytes(b"x" * plan.file.bytes)
    else:
        for module in ("asked_plan", "scrub_plan_topics"):
            monkeypatch.setattr(f"airflow_provider_rlmm.plugins.{module}.MAX_ROWS", 100)
    page = client.get(f"/scrub-plans/{sample.running}")
    assert page.status_code == 200
    assert "topics not shown" in page.text
    html = client.get(f"/runs/{sample.running}").text
    request = html[html.index("A person is asked to approve the plan") : html.index("</section>")]
    if what == "too many":
        assert "The plan names more than 100 objects; the request in Airflow names the largest topics." in request
        assert ">Approve: delete 156 objects of 78 segments" in request
    else:
        assert "hitlDetails" not in html


def limited(sample: Sample, radius: BlastRadius, **run: Any) -> str:
    """Have a run of the cleaner have made a plan that was judged by a limit; return the plan's address."""
    told = replace(sample.runs[-1], kind=RunKind.CLEANER, dag_id="remote_log_cleaner", **run)
    (sample.cluster / RUNS_FOLDER / told.file_name).write_text(told.to_json())
    _kept._read.clear()
    table, summary = plan_of([f"gone-{number:02}" for number in range(23)])
    judged = replace(summary, plan_id=told.artifact, cluster_id=CLUSTER).judged_by(radius)
    write_plan(str(sample.work / told.artifact), table, judged)
    return f"/plans/{told.artifact}"


def test_a_plan_that_is_too_large_has_a_form_for_a_dry_run(
    app: FastAPI, client: TestClient, sample: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {"dry_run": False, "min_absence_ms": "2 d", "max_segments": 10}
    monkeypatch.setattr("airflow_provider_rlmm.plugins.dag_runs._conf", lambda *_: asked)
    address = limited(sample, BlastRadius(max_segments=10, max_share=0.001), dry_run=False)
    html = client.get(address).text
    alert = html[html.index('id="limits"') : html.index("</section>")]
    for words in (
        "This is more than one run may delete", "Most segments: 92 would go, and the limit is 10.",
        "Largest share: 1 % would go, and the limit is 0.1 %.",
        'name="max_segments" type="number"', 'data-into="conf" value="92"', 'name="max_share" type="number"', 'value="0.01"',
        f'name="source_plan" data-before="" data-into="conf" value="{address.removeprefix("/plans/")}"',
        "&#34;dry_run&#34;: true", "&#34;min_absence_ms&#34;: &#34;2 d&#34;", ">Dry run with these limits</button>",
    ):  # fmt: skip
        assert words in alert, words
    assert "&#34;dry_run&#34;: false" not in html
    log_in(app, monkeypatch, Viewer)
    assert "data-ask" not in client.get(address).text


def test_a_dry_run_with_raised_limits_leads_to_a_real_run_that_asks(
    client: TestClient, sample: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {"dry_run": True, "max_segments": 200_000, "approve_above_segments": 10**9}
    monkeypatch.setattr("airflow_provider_rlmm.plugins.dag_runs._conf", lambda *_: asked)
    html = client.get(limited(sample, BlastRadius(max_segments=200_000), dry_run=True)).text
    for words in (
        "Real run with these limits: a person is asked before anything is deleted", "&#34;dry_run&#34;: false",
        "&#34;approve_above_segments&#34;: 0", "&#34;approve_above_bytes&#34;: 0", "&#34;max_segments&#34;: 200000",
    ):  # fmt: skip
        assert words in html, words
    assert "more than one run may delete" not in html
    for radius, is_dry in ((BlastRadius(), True), (BlastRadius(max_segments=200_000), False)):
        assert "Real run with these limits" not in client.get(limited(sample, radius, dry_run=is_dry)).text


def test_a_request_for_approval_stands_first(client: TestClient, sample: Sample) -> None:
    plan = ask(sample)
    html = client.get(f"/runs/{sample.running}").text
    assert "A person is asked to approve the plan" in html
    answer = Approval(plan.plan_id, plan.sha256, "Reject", EVIL, NOW_MS, NOW_MS)
    write_document(sample.work, sample.running, "approval.json", answer.to_dict())
    html = client.get(f"/runs/{sample.running}").text
    assert "A person is asked" not in html
    assert "was rejected by &#39;&lt;script&gt;" in html
    write_document(sample.work, sample.running, "approval.json", answer.to_dict() | {"decision": "Perhaps"})
    html = client.get(f"/runs/{sample.running}").text
    assert "The approval of the plan cannot be read" in html[html.index('role="alert"') :]


def test_a_run_of_another_dag_has_a_page_that_says_so(client: TestClient) -> None:
    answer = client.get("/dag-run", params={"dag_id": "bakery", "run_id": "manual__1"})
    assert (answer.status_code, "This run has written nothing for this page" in answer.text) == (200, True)
    assert client.get("/runs/bakery.manual__1").status_code == 404
    assert client.get("/runs/..%2f..").status_code == 404
    assert client.get("/dag-run").status_code == 422


# -- buttons ---------------------------------------------------------------------------------------------------------------


def test_who_may_start_runs_has_buttons_and_a_viewer_none(
    app: FastAPI, client: TestClient, sample: Sample, running: list[DagRunUnderWay], monkeypatch: pytest.MonkeyPatch
) -> None:
    running.append(RUNNING)
    ask(sample)
    overview, run = client.get("/").text, client.get(f"/runs/{sample.running}").text
    assert 'data-ask="/api/v2/dags/remote_log_cleaner/dagRuns"' in overview
    assert "{&#34;logical_date&#34;: null, &#34;conf&#34;: {&#34;dry_run&#34;: true}}" in overview
    assert 'data-ask="/api/v2/variables"' in overview
    answer = "remote_log_cleaner/dagRuns/manual__running/taskInstances/approve/-1/hitlDetails"
    assert run.count(f'data-ask="/api/v2/dags/{answer}" data-method="PATCH"') == 2
    log_in(app, monkeypatch, Viewer)
    for path in ("/", f"/runs/{sample.running}", *PAGES):
        html = client.get(path).text
        assert "data-ask" not in html
        assert 'class="button"' not in html


def test_the_kill_switch_is_seen_and_can_be_switched_off(client: TestClient, switches: dict[str, str]) -> None:
    switches["rlmm_stop"] = "the store moves"
    html = client.get("/").text
    alert = html[html.index('role="alert"') : html.index("</section>")]
    assert "the kill switch is on: the Airflow variable rlmm_stop is set, it says &#39;the store moves&#39;" in alert
    assert 'data-ask="/api/v2/variables/rlmm_stop" data-method="DELETE"' in html
    switches["rlmm_stop"] = "off"
    assert "is set, it says &#39;off&#39;" in client.get("/").text
    del switches["rlmm_stop"]
    assert "kill switch" not in client.get("/").text


def test_the_button_says_who_has_stopped(client: TestClient) -> None:
    html = client.get("/").text
    assert 'data-before="stopped by Ada: "' in html
    assert "It stops the runs of this Airflow, after the batch under way. A run of the command rlmm goes on" in html
    assert "rlmm_stop__rlmm_default" in html


@pytest.mark.parametrize("name", ["rlmm_stop", "rlmm_stop__rlmm_default"])
def test_a_survey_of_the_command_hides_neither_switch_nor_buttons(
    client: TestClient, sample: Sample, switches: dict[str, str], name: str
) -> None:
    before = client.get("/").text
    survey_by_the_command(sample)
    assert client.get("/").text == before
    switches[name] = "no"
    for path in ("/", f"/clusters/{CLUSTER}"):
        html = client.get(path).text
        assert f"the kill switch is on: the Airflow variable {name} is set" in html
        assert f'data-ask="/api/v2/variables/{name}" data-method="DELETE"' in html
        assert "<h1>rlmm_default</h1>" in html
    for path in (*PAGES, f"/runs/{sample.runs[-1].artifact}"):
        if not path.endswith("/json"):
            assert f"the kill switch is on: the Airflow variable {name} is set" in client.get(path).text, path


def test_where_only_the_command_has_told_of_a_cluster_the_switch_of_any_connection_is_shown(
    client: TestClient, sample: Sample, switches: dict[str, str]
) -> None:
    survey_by_the_command(sample)
    shutil.rmtree(sample.work / cluster_folder(CLUSTER) / RUNS_FOLDER)
    (sample.cluster / LEADER_RETENTION_DOCUMENT).unlink()
    switches["rlmm_stop__rlmm_default"] = ""
    html = client.get(f"/clusters/{CLUSTER}").text
    assert "the kill switch is on: the Airflow variable rlmm_stop__rlmm_default is set, it says nothing more" in html


def survey_by_the_command(sample: Sample) -> None:
    """Have the inventory say what the command writes where Airflow names its connection."""
    document = sample.work / cluster_folder(CLUSTER) / INVENTORY_DOCUMENT
    document.write_text(replace(sample.inventory, connection="rlmm").to_json())


# -- rights --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PAGES)
def test_without_a_login_there_is_nothing(sample: Sample, path: str) -> None:
    with TestClient(pages_without_a_login()) as anonymous:
        answer = anonymous.get(path)
    assert answer.status_code == 401
    assert CLUSTER not in answer.text.replace(path, "")


@pytest.mark.parametrize("path", PAGES)
def test_who_may_read_the_dags_reads(
    app: FastAPI, client: TestClient, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    for manager, status in ((Viewer, 200), (only("remote_log_cleaner"), 200), (Nobody, 403), (only("other"), 403)):
        log_in(app, monkeypatch, manager)
        assert client.get(path).status_code == status


def test_who_may_read_the_dags_of_one_cluster_sees_that_cluster_alone(
    app: FastAPI, client: TestClient, sample: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__RLMM__CONNECTIONS", "rlmm_default,other")
    sample_work_folder(sample.work, cluster_id=OTHER, connection="other", topics=3)
    both = client.get("/").text
    assert CLUSTER in both
    assert OTHER in both
    log_in(app, monkeypatch, only("remote_log_cleaner__other"))
    one = client.get("/").text
    assert CLUSTER not in one
    assert OTHER in one
    assert client.get(f"/clusters/{CLUSTER}").status_code == 403
    assert client.get(f"/clusters/{CLUSTER}/topics").status_code == 403
    assert client.get(f"/clusters/{OTHER}/topics").status_code == 200


def test_an_odd_id_of_a_dag_opens_no_run_of_another(
    app: FastAPI, client: TestClient, sample: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ids of DAG and run become the name of a folder, in which other characters are dashes and none come first."""
    run = next(run for run in sample.runs if run.dag_id == "remote_log_cleaner")
    odd = f"-{run.dag_id}"
    log_in(app, monkeypatch, only("remote_log_retention", odd, "bakery"), ["bakery"])
    asked = {"dag_id": odd, "run_id": run.run_id}
    # The other one has left no summary that would name its DAG.
    for run_id in (run.run_id, "manual__running"):
        assert client.get("/dag-run", params=asked | {"run_id": run_id}).status_code == 403
    assert client.get("/dag-run", params={"dag_id": "bakery", "run_id": "1"}).status_code == 200
    log_in(app, monkeypatch, Everybody)
    assert client.get("/dag-run", params=asked).status_code == 200
