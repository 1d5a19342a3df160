# SPDX-License-Identifier: Apache-2.0
"""What a plan names, on its page and as files; and a report by topic."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.core.plans.guards import BlastRadius
from airflow_provider_rlmm.core.plans.plan import PLAN_COLUMNS, PlanSummary, Reason
from airflow_provider_rlmm.core.plans.plan_files import plan_schema, write_plan
from airflow_provider_rlmm.core.plans.refusals import Refusal, RefusalKind
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.features.cleanup.report_document import cleanup_report
from airflow_provider_rlmm.features.cleanup.reports import (
    MetadataPartitionReport,
    PartitionOutcome,
    UserPartitionReport,
)
from airflow_provider_rlmm.plugins.pages import REASONS
from airflow_provider_rlmm.plugins.report_view import by_topic
from tests.sample_work_folder import topic_id
from tests.unit.airflow.auth import Everybody, Viewer, log_in, only, pages, pages_without_a_login

NAME = "remote_log_retention.manual__1"
FORMULA = "=HYPERLINK(1)"
TOPICS = [*(f"topic-{n:03}" for n in range(149)), FORMULA]
PATH = f"/plans/{NAME}"


def plan_of(topics: list[str]) -> tuple[pa.Table, PlanSummary]:
    """Two user partitions with two segments each of every topic; the n-th has n + 1 KB in each segment."""
    rows = [
        {
            "metadata_partition": number % 3,
            "topic_id": topic_id(number).bytes,
            "topic": name,
            "partition": partition,
            "segment_id": (number * 4 + partition * 2 + i).to_bytes(16, "big"),
            "state": 1,
            "start_offset": i * 100,
            "end_offset": i * 100 + 99,
            "max_timestamp_ms": 1_700_000_000_000 + number,
            "event_timestamp_ms": 1_700_000_000_000,
            "segment_size_in_bytes": (number + 1) * 1_000,
            "reason": (Reason.RETENTION_MS if number % 2 else Reason.ORPHANED).value,
            "exact": number % 4 != 1,
        }
        for number, name in enumerate(topics)
        for partition in range(2)
        for i in range(2)
    ]
    rows.sort(key=lambda row: (row["metadata_partition"], row["topic_id"], row["partition"], row["start_offset"]))

    def count(key: str) -> dict[Any, Count]:
        return {
            value: Count(len(mine), sum(row["segment_size_in_bytes"] for row in mine))
            for value in sorted({row[key] for row in rows})
            if (mine := [row for row in rows if row[key] == value])
        }

    summary = PlanSummary(
        plan_id=NAME, cluster_id="cluster-1", created_at_ms=1, expires_at_ms=2, read_until=dict.fromkeys(range(3), 10_000),
        known=Count(10_000, 10**9), by_reason=count("reason"), by_metadata_partition=count("metadata_partition"),
        quarantined={}, unresolved=0,
    )  # fmt: skip
    return pa.Table.from_pylist(rows, plan_schema()), summary.judged_by(BlastRadius(max_share=1.0))


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PlanSummary:
    monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", str(tmp_path))
    return write_plan(str(tmp_path / NAME), *plan_of(TOPICS))


@pytest.fixture
def app(plan: PlanSummary, monkeypatch: pytest.MonkeyPatch) -> FastAPI:
    made = pages()
    log_in(made, monkeypatch, Everybody)
    return made


@pytest.fixture
def client(app: FastAPI) -> Iterator[TestClient]:
    with TestClient(app, raise_server_exceptions=False) as test_client:
        yield test_client


def topics(html: str) -> list[str]:
    return re.findall(r'/topics/([A-Za-z0-9_-]{22})"', html)


def ids(*numbers: int) -> list[str]:
    return [kafka_uuid_str(topic_id(number)) for number in numbers]


def test_topics_the_largest_first_with_what_goes_and_why(client: TestClient) -> None:
    html = client.get(PATH).text
    assert topics(html) == ids(*range(149, 49, -1))
    row = html[html.index(ids(148)[0]) : html.index(ids(147)[0])]
    for words in ("topic-148", "the topic no longer exists", '<td class="n">2</td><td class="n">4</td>', "582.0 KiB"):
        assert words in row, words
    assert "1–100 of 150" in html


def test_every_reason_has_words_that_say_whether_leaders_delete_it() -> None:
    assert {reason: "its leader" in words for reason, words in REASONS.items()} == {r: r.is_of_leaders for r in Reason}


def test_what_is_an_estimate_says_so(client: TestClient) -> None:
    for by in ("topic", "segment"):
        html = client.get(PATH, params={"by": by, "search": "topic-005"}).text
        assert "older than retention.ms, its leader deletes it (estimated)" in html
        html = client.get(PATH, params={"by": by, "search": "topic-007"}).text
        assert "older than retention.ms, its leader deletes it</td>" in html


def test_a_plan_is_searched_sorted_and_filtered(client: TestClient) -> None:
    found = client.get(PATH, params={"search": "TOPIC-01", "sort": "topic"}).text
    assert topics(found) == ids(*range(10, 20))
    assert topics(client.get(PATH, params={"search": ids(7)[0]}).text) == ids(7)
    old = client.get(PATH, params={"state": "RETENTION_MS", "sort": "bytes", "page": 1}).text
    assert topics(old) == ids(*range(1, 151, 2))
    assert "Nothing of the plan is like that." in client.get(PATH, params={"search": "nothing"}).text
    for query in ("by=row", "state=LAZINESS", "page=0", "search=" + "x" * 250):
        assert client.get(f"{PATH}?{query}").status_code == 422


def test_segment_by_segment(client: TestClient) -> None:
    html = client.get(PATH, params={"by": "segment", "search": "topic-003", "sort": "start_offset", "down": "1"}).text
    assert re.findall(r'<td class="n">([\d–]+)</td><td class="n">3.9 KiB', html) == [
        "100–199",
        "100–199",
        "0–99",
        "0–99",
    ]
    assert "copy segment finished" in html
    assert "by=segment" in html[html.index("aria-sort") :]
    assert "1–100 of 600" in client.get(PATH, params={"by": "segment"}).text


def test_all_rows_as_csv(client: TestClient) -> None:
    answer = client.get(f"{PATH}/rows.csv")
    assert answer.headers["content-type"].startswith("text/csv")
    assert answer.headers["content-disposition"] == f'attachment; filename="{NAME}.csv"'
    assert answer.headers["cache-control"] == "no-store"
    rows = list(csv.DictReader(StringIO(answer.text)))
    assert [*rows[0]] == [*(name for name, _ in PLAN_COLUMNS), "estimated"]
    # What a leader deletes is an estimate where nobody could tell.
    assert {(row["reason"], row["exact"]): row["estimated"] for row in rows} == {
        ("ORPHANED", "true"): "false",
        ("RETENTION_MS", "true"): "false",
        ("RETENTION_MS", "false"): "true",
    }
    assert len(rows) == 600
    assert sum(int(row["segment_size_in_bytes"]) for row in rows) == 4_000 * sum(range(1, 151))
    assert {row["topic_id"] for row in rows} == set(ids(*range(150)))
    # A spreadsheet would calculate it.
    assert [row["topic"] for row in rows if "HYPERLINK" in row["topic"]] == [f"'{FORMULA}"] * 4


def test_the_files_of_a_plan_as_they_were_written(client: TestClient, plan: PlanSummary, tmp_path: Path) -> None:
    for number, file in plan.files.items():
        answer = client.get(f"{PATH}/files/{number}")
        assert answer.content == (tmp_path / NAME / file.name).read_bytes()
        assert pq.read_table(BytesIO(answer.content)).num_rows == file.rows
    assert client.get(f"{PATH}/files/7").status_code == 404
    assert client.get(f"{PATH}/files/..%2fsummary.json").status_code in (404, 422)


def test_rows_that_are_not_those_of_the_summary_are_not_shown(
    client: TestClient, plan: PlanSummary, tmp_path: Path
) -> None:
    rows, _ = plan_of(["swapped", *TOPICS[1:]])
    other = tmp_path / "other"
    write_plan(str(other), *plan_of(["swapped", *TOPICS[1:]]))
    name = plan.files[0].name
    (tmp_path / NAME / name).write_bytes((other / name).read_bytes())
    html = client.get(PATH).text
    assert "cannot be shown" in html
    assert "swapped" not in html
    (tmp_path / NAME / name).unlink()
    assert "a file of the plan is gone" in client.get(PATH).text
    assert client.get(f"{PATH}/files/0").status_code == 404
    assert rows.num_rows == 600


def test_buttons_of_a_plan_and_none_for_a_viewer(
    app: FastAPI, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    html = client.get(PATH).text
    assert html.count('data-ask="/api/v2/dags/remote_log_cleaner/dagRuns"') == 2
    assert f"&#34;dry_run&#34;: false, &#34;source_plan&#34;: &#34;{NAME}&#34;" in html
    log_in(app, monkeypatch, Viewer)
    assert "data-ask" not in client.get(PATH).text


def test_a_plan_is_for_those_who_may_read_its_dag(
    app: FastAPI, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = (PATH, f"{PATH}/json", f"{PATH}/rows.csv", f"{PATH}/files/0")
    for dag_id, status in (("remote_log_retention", 200), ("remote_log_cleaner", 403)):
        log_in(app, monkeypatch, only(dag_id))
        assert [client.get(path).status_code for path in paths] == [status] * 4
    with TestClient(pages_without_a_login()) as anonymous:
        assert [anonymous.get(path).status_code for path in paths] == [401] * 4


def partition(topic: str, number: int, outcome: PartitionOutcome, size: int, *why: str) -> UserPartitionReport:
    refusals = tuple(Refusal("w", reason, "t", RefusalKind.NEXT_RUN) for reason in why)
    return UserPartitionReport(topic, topic, number, outcome, 1, 2, 3, size, refusals)


def test_a_report_by_topic_what_needs_to_be_seen_first() -> None:
    refused, finished = PartitionOutcome.REFUSED, PartitionOutcome.FINISHED
    scattered = [
        (partition("small", 0, finished, 1), partition("bad", 0, refused, 5, "x", "y")),
        (partition("large", 0, finished, 9), partition("bad", 1, finished, 5, "x")),
    ]
    parts = [MetadataPartitionReport(n, False, each, (), {}, (), None, 1) for n, each in enumerate(scattered)]
    found = by_topic(cleanup_report(report_id="r", plan_id="p", cluster_id="c", created_at_ms=1, parts=parts))
    assert [t.topic for t in found] == ["bad", "large", "small"]
    bad = found[0]
    assert (bad.outcome, bad.partitions) == ("REFUSED", {"REFUSED": 1, "FINISHED": 1})
    assert list(bad.partitions) == ["REFUSED", "FINISHED"]
    assert (bad.segments_deleted, bad.segments_left, bad.objects_deleted, bad.bytes_deleted) == (2, 4, 6, 10)
    assert [refusal.why for refusal in bad.refusals] == ["x", "y"]
