# SPDX-License-Identifier: Apache-2.0
"""The pages of clusters: what they show of a work folder, to whom, and how they answer to what is not there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from airflow_provider_rlmm.metadata.records import kafka_uuid_str
from airflow_provider_rlmm.plugins import web
from tests.sample_work_folder import CLUSTER, NASTY_TOPIC, NOW_MS, Sample, sample_work_folder, topic_id
from tests.unit.airflow.auth import Everybody, Nobody, Viewer, log_in, only

HOUR_MS = 3_600_000
OTHER = "another-cluster-id-000"
PAGES = ["/", f"/clusters/{CLUSTER}", f"/clusters/{CLUSTER}/topics"]


@pytest.fixture
def sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sample:
    monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", str(tmp_path / "work"))
    monkeypatch.setattr("airflow_provider_rlmm.plugins.cluster_routes.system_clock", lambda: NOW_MS + HOUR_MS)
    return sample_work_folder(tmp_path / "work", topics=250)


@pytest.fixture
def app(sample: Sample, monkeypatch: pytest.MonkeyPatch) -> FastAPI:
    made = web.create_app()
    log_in(made, monkeypatch, Everybody)
    return made


@pytest.fixture
def client(app: FastAPI) -> Iterator[TestClient]:
    with TestClient(app, raise_server_exceptions=False) as test_client:
        yield test_client


def test_the_overview_of_a_cluster(client: TestClient, sample: Sample) -> None:
    html = client.get("/").text
    totals = sample.inventory.totals
    for words in (
        "rlmm_default", "Stored", f"{totals.stored.segments:,} segments of 250 topics", "Orphaned", "Waiting",
        "eligible in 11 h 0 min", "Being deleted", "Reclaimed", "Out of service", "metadata partition 0", "Quarantined",
        "1 critical", "1 h 0 min ago", "Latest runs", "Age of the oldest orphan", "<svg", "topic-000246",
    ):  # fmt: skip
        assert words in html, words
    assert client.get(f"/clusters/{CLUSTER}").text == html
    assert "Cost a month" not in html


def test_what_needs_a_person_stands_before_the_figures(client: TestClient) -> None:
    html = client.get("/").text
    alert = html[html.index('role="alert"') : html.index("</section>")]
    assert html.index('role="alert"') < html.index('<dl class="tiles">')
    assert "Metadata partitions out of service: 0" in alert


def test_figures_that_are_old_say_so_in_red(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "These figures are" not in client.get("/").text
    monkeypatch.setattr("airflow_provider_rlmm.plugins.cluster_routes.system_clock", lambda: NOW_MS + 73 * HOUR_MS)
    assert "These figures are 3 d 1 h old" in client.get("/").text


def test_what_it_costs_where_somebody_has_said_the_price(
    client: TestClient, sample: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__RLMM__PRICE_PER_GB_MONTH", "0.5")
    assert f"<dd>{sample.inventory.totals.stored.bytes / 2**30 * 0.5:,.2f}</dd>" in client.get("/").text
    monkeypatch.setenv("AIRFLOW__RLMM__PRICE_PER_GB_MONTH", "cheap")
    answer = client.get("/")
    assert (answer.status_code, "[rlmm] price_per_gb_month" in answer.text) == (422, True)


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
    assert (answer.status_code, "No run has told of a cluster yet" in answer.text) == (200, True)


def test_an_inventory_that_cannot_be_read_is_said_in_red(client: TestClient, sample: Sample) -> None:
    (sample.cluster / "inventory.json").write_text("{")
    answer = client.get(f"/clusters/{CLUSTER}")
    assert answer.status_code == 200
    assert "What runs have written cannot be read" in answer.text[answer.text.index('role="alert"') :]


def test_an_inventory_of_another_cluster_is_not_shown(client: TestClient, sample: Sample) -> None:
    other = sample_work_folder(sample.work, cluster_id=OTHER, connection="other", topics=3)
    (sample.cluster / "inventory.json").write_text((other.cluster / "inventory.json").read_text())
    html = client.get(f"/clusters/{CLUSTER}").text
    assert "What runs have written cannot be read" in html
    assert "3 topics" not in html


# -- rights --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PAGES)
def test_without_a_login_there_is_nothing(sample: Sample, path: str) -> None:
    with TestClient(web.create_app()) as anonymous:
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
