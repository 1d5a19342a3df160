# SPDX-License-Identifier: Apache-2.0
"""
Two clusters at once under a real scheduler: DAGs of their own, by schedule, by plan and by hand, and a person who is asked.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import UUID

import httpx
import pytest

from airflow_provider_rlmm.core.base.work_folder import cluster_folder
from airflow_provider_rlmm.resources import dags_folder
from dev import tiering
from dev.airflow import LocalAirflow
from dev.broker import LocalKafka
from dev.patience import Patience
from dev.roots import expected_root_of
from tests.scrub import scrub
from tests.system.test_dags import ends_of, kafka_id, page

pytestmark = [pytest.mark.system, pytest.mark.integration, pytest.mark.clusters, pytest.mark.timeout(1800)]

CLEANER = "remote_log_cleaner"
NOW: dict[str, Any] = {
    "dry_run": False,
    "min_absence_ms": 0,
    "overrides": ["short_min_absence"],
    "max_share": 1.0,
    "approve_above_segments": 0,
    "answer_within": "10 min",
}


@dataclass(frozen=True)
class Side:
    """One cluster, what lives there and what is gone."""

    name: str
    kafka: LocalKafka
    gone: str
    gone_id: UUID

    @property
    def dag_id(self) -> str:
        return f"{CLEANER}__{self.name}"

    @property
    def objects(self) -> set[str]:
        return {path for path in tiering.remote_listing(self.kafka) if kafka_id(self.gone_id) in path}

    def connection(self, **extra: Any) -> dict[str, Any]:
        values = {
            "kafka_conn_id": f"kafka_{self.name}",
            "storage_uri": self.kafka.remote_dir.as_uri(),
            "allow_writes": True,
            "expected_cluster_id": self.kafka.cluster_id,
            "expected_root": expected_root_of(self.kafka.remote_dir),
        }
        return {"conn_type": "rlmm", "extra": values | extra}


@dataclass(frozen=True)
class Scene:
    airflow: LocalAirflow
    work: Path
    east: Side
    west: Side

    def folder(self, dag_id: str, run_id: str) -> Path:
        """The folder of a run, which says itself whose it is."""
        for check in self.work.glob("*/check.json"):
            decision = json.loads(check.read_text()).get("decision", {})
            if (decision.get("dag_id"), decision.get("run_id")) == (dag_id, run_id):
                return check.parent
        raise AssertionError(f"no folder of {dag_id} {run_id} in {sorted(self.work.iterdir())}")

    def states(self, side: Side, run_id: str) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for instance in self.airflow.task_instances(side.dag_id, run_id):
            found.setdefault(instance["task_id"], set()).add(instance["state"])
        return found

    def needs(self, side: Side, run_id: str) -> list[dict[str, Any]]:
        document = json.loads((self.folder(side.dag_id, run_id) / "report.json").read_text())
        found: list[dict[str, Any]] = document["needs_person"]
        return found


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    dags, work = tmp_path_factory.mktemp("dags"), tmp_path_factory.mktemp("work")
    for folder in (Path(__file__).parent / "clusters_dags", Path(dags_folder())):
        for file in folder.glob("*.py"):
            shutil.copy(file, dags)
    env = {
        "AIRFLOW__RLMM__WORK_URI": str(work),
        "AIRFLOW__RLMM__CONNECTIONS": "east,west",
        "AIRFLOW__RLMM__CLEANER_SCHEDULE": "plan",
        "AIRFLOW__RLMM__SCRUB_SCHEDULE": "none",
        "AIRFLOW__RLMM__DOCTOR_SCHEDULE": "none",
    }
    with LocalKafka(metadata_partitions=2) as first, LocalKafka(metadata_partitions=2) as second:
        sides = []
        for name, kafka in (("east", first), ("west", second)):
            tiering.create_tiered_topic(kafka, "orders", 1)
            gone = tiering.create_tiered_topic(kafka, f"clicks-{name}", 2)
            tiering.produce_until_remote(kafka, "orders", 2)
            tiering.produce_until_remote(kafka, f"clicks-{name}", 3)
            tiering.provoke_scenario_b(kafka, f"clicks-{name}")
            sides.append(Side(name, kafka, f"clicks-{name}", gone))
        east, west = sides
        connections = {
            **{
                f"kafka_{side.name}": {
                    "conn_type": "kafka", "extra": {"bootstrap.servers": side.kafka.bootstrap_servers}
                }
                for side in sides
            },
            "east": east.connection(),
            "west": west.connection(),
            "east_dry": east.connection(),
            "west_real": west.connection(scheduled_runs="real"),
        }  # fmt: skip
        with LocalAirflow(
            tmp_path_factory.mktemp("airflow"),
            dags_folder=dags,
            connections={conn_id: json.dumps(document) for conn_id, document in connections.items()},
            env=env,
            scheduled=True,
        ) as airflow:
            yield Scene(airflow, work, east, west)
        for side in sides:
            assert scrub(side.kafka) == []


def first_run(airflow: LocalAirflow, dag_id: str, timeout: float = 200.0) -> str:
    """Wait until something other than this test has started a run, and return the first one."""
    until(lambda: bool(airflow.runs(dag_id)), f"nothing has started {dag_id}", timeout)
    return str(min(airflow.runs(dag_id), key=lambda run: run["run_after"])["dag_run_id"])


def until(done: Callable[[], bool], otherwise: str, timeout: float = 100.0) -> None:
    patience = Patience(timeout)
    while not done():
        assert not patience.over(), otherwise
        time.sleep(0.3)


def test_the_schedule_starts_dry_runs_until_a_connection_says_real(scene: Scene) -> None:
    airflow, dry, real = scene.airflow, f"{CLEANER}__east_dry", f"{CLEANER}__west_real"
    east, west = ends_of(scene.east.kafka), ends_of(scene.west.kafka)
    assert all(dag["is_paused"] for dag in airflow.get("/dags", limit=100)["dags"])
    for dag_id in (dry, real):
        airflow.unpause(dag_id)
    runs = {dag_id: first_run(airflow, dag_id) for dag_id in (dry, real)}
    ended = {dag_id: airflow.wait(dag_id, run_id) for dag_id, run_id in runs.items()}
    # Of a paused DAG no run goes on.
    for dag_id in runs:
        airflow.pause(dag_id)
    assert set(ended.values()) == {"success"}
    for dag_id, is_dry in ((dry, True), (real, False)):
        run_id = runs[dag_id]
        decision = json.loads((scene.folder(dag_id, run_id) / "check.json").read_text())["decision"]
        assert (decision["run_type"], decision["dry_run"], decision["by_connection"]) == ("scheduled", is_dry, True)
        marked = airflow.xcom(dag_id, run_id, "mark")
        assert marked["would_mark" if is_dry else "marked"] == 2
    assert ends_of(scene.east.kafka) == east
    assert ends_of(scene.west.kafka) != west


def test_two_clusters_are_cleaned_at_once_and_each_plan_waits_for_its_own_answer(scene: Scene) -> None:
    airflow, east, west = scene.airflow, scene.east, scene.west
    kept = west.objects
    runs = {side.name: airflow.trigger(side.dag_id, NOW) for side in (east, west)}
    asked = {side.name: airflow.wait_for_request(side.dag_id, runs[side.name], "approve") for side in (east, west)}
    for side, other in ((east, west), (west, east)):
        request = asked[side.name]
        assert request["subject"].startswith("Delete 6 segments, ")
        assert side.gone.replace("-", "\\-") in request["body"]
        assert other.gone.replace("-", "\\-") not in request["body"]
        assert request["options"] == ["Approve", "Reject"]
    airflow.answer(east.dag_id, runs["east"], "approve", "Approve")
    airflow.answer(west.dag_id, runs["west"], "approve", "Reject")
    assert airflow.wait(east.dag_id, runs["east"]) == "success"
    assert airflow.wait(west.dag_id, runs["west"]) == "failed"
    assert east.objects == set()
    assert west.objects == kept
    answers = {
        side.name: json.loads((scene.folder(side.dag_id, runs[side.name]) / "approval.json").read_text())
        for side in (east, west)
    }
    said = {name: (answer["decision"], answer["decided_by"]) for name, answer in answers.items()}
    assert said == {"east": ("Approve", "admin"), "west": ("Reject", "admin")}
    assert answers["east"]["plan_sha256"] != answers["west"]["plan_sha256"]
    # The rejection is the one thing that is said, and by whom.
    (entry,) = scene.needs(west, runs["west"])
    assert entry["kind"] == "NOT_APPROVED"
    assert "was rejected by 'admin'" in entry["why"]
    assert "6 segments" in entry["why"]
    assert scene.states(west, runs["west"])["clean"] == {"upstream_failed"}
    # Nothing of one cluster says anything of the other.
    for side, other in ((east, west), (west, east)):
        folder = scene.folder(side.dag_id, runs[side.name])
        summary = json.loads((folder / "summary.json").read_text())
        assert summary["cluster_id"] == side.kafka.cluster_id
        texts = [file.read_text() for file in folder.glob("*.json")]
        kept_of_cluster = scene.work / cluster_folder(side.kafka.cluster_id)
        texts += [file.read_text() for file in kept_of_cluster.rglob("*.json")]
        assert kept_of_cluster.is_dir()
        assert not [text for text in texts if other.kafka.cluster_id in text or other.gone in text]
    assets = {a["name"]: a["id"] for a in airflow.get("/assets", limit=100)["assets"]}
    events = {
        name: airflow.get("/assets/events", asset_id=assets[f"remote_log_cleanup__{name}"])["asset_events"]
        for name in ("east", "west")
    }
    assert [e["source_run_id"] for e in events["east"]] == [runs["east"]]
    assert events["west"] == []


def test_a_run_of_one_cluster_cannot_be_led_to_another(scene: Scene) -> None:
    airflow = scene.airflow
    with airflow.client() as client:
        answer = client.post(
            f"/api/v2/dags/{scene.east.dag_id}/dagRuns",
            json={"logical_date": None, "conf": NOW | {"rlmm_conn_id": "west"}},
        )
    assert answer.status_code == httpx.codes.BAD_REQUEST
    assert "'west' is not one of ['east']" in answer.text


def test_no_answer_in_time_is_a_rejection_that_is_red(scene: Scene) -> None:
    airflow, west = scene.airflow, scene.west
    kept, ends = west.objects, ends_of(west.kafka)
    run_id = airflow.trigger(west.dag_id, NOW | {"answer_within": "2 s"})
    assert airflow.wait(west.dag_id, run_id) == "failed"
    (entry,) = scene.needs(west, run_id)
    assert entry["kind"] == "NOT_APPROVED"
    assert "no answer came to the request" in entry["why"]
    assert scene.states(west, run_id)["approve"] == {"failed"}
    assert (west.objects, ends_of(west.kafka)) == (kept, ends)


def test_neither_marking_the_task_nor_an_answer_for_an_earlier_plan_approves_anything(scene: Scene) -> None:
    airflow, west = scene.airflow, scene.west
    kept, ends = west.objects, ends_of(west.kafka)
    run_id = airflow.trigger(west.dag_id, NOW)
    airflow.wait_for_request(west.dag_id, run_id, "approve")
    airflow.mark(west.dag_id, run_id, "approve", "success")
    assert airflow.wait(west.dag_id, run_id) == "failed"
    cleaning = [i for i in airflow.task_instances(west.dag_id, run_id) if i["task_id"] == "clean"]
    # A refusal: the retries were not spent.
    assert {(i["state"], i["try_number"]) for i in cleaning} == {("failed", 1)}
    log = airflow.task_log(west.dag_id, run_id, "clean", map_index=cleaning[0]["map_index"])
    assert "needs a person's approval, and no answer is recorded" in log
    assert [entry["kind"] for entry in scene.needs(west, run_id)] == ["TASK_FAILED"]
    # Asked again; meanwhile somebody has the plan made anew.
    airflow.clear(west.dag_id, run_id, "approve")
    airflow.wait_for_request(west.dag_id, run_id, "approve")
    folder = scene.folder(west.dag_id, run_id)
    before = (folder / "summary.json").read_text()
    airflow.clear(west.dag_id, run_id, "plan", downstream=False)
    until(lambda: read(folder / "summary.json") not in (before, ""), "the plan was not made anew")
    until(lambda: scene.states(west, run_id)["plan"] == {"success"}, "the planner has not ended")
    airflow.answer(west.dag_id, run_id, "approve", "Approve")
    assert airflow.wait(west.dag_id, run_id) == "failed"
    log = airflow.task_log(west.dag_id, run_id, "approve", try_number=try_of(scene, west, run_id, "approve"))
    assert "has changed since a person was asked to approve it" in log
    assert (west.objects, ends_of(west.kafka)) == (kept, ends)


def read(file: Path) -> str:
    """What is there now; a plan that is written anew is gone for a moment."""
    try:
        return file.read_text()
    except FileNotFoundError:
        return ""


def try_of(scene: Scene, side: Side, run_id: str, task_id: str) -> int:
    (found,) = [i for i in scene.airflow.task_instances(side.dag_id, run_id) if i["task_id"] == task_id]
    return int(found["try_number"])


def test_a_plan_starts_the_cleaner_of_its_own_cluster_and_of_no_other(scene: Scene) -> None:
    airflow, east, west = scene.airflow, scene.east, scene.west
    plans = {
        side.name: str(
            scene.folder(side.dag_id, min(airflow.runs(side.dag_id), key=lambda r: r["run_after"])["dag_run_id"])
        )
        for side in (east, west)
    }
    started = {side.name: {run["dag_run_id"] for run in airflow.runs(side.dag_id)} for side in (east, west)}
    airflow.emit("remote_log_plan__west", {"plan": plans["west"]})
    airflow.emit("remote_log_plan__east", {"plan": plans["west"]})
    runs = {}
    for side in (east, west):

        def new(of: Side = side) -> set[str]:
            return {run["dag_run_id"] for run in airflow.runs(of.dag_id)} - started[of.name]

        until(lambda: bool(new()), f"the plan has not started {side.dag_id}")
        (runs[side.name],) = new()
    # A plan of the other cluster: refused by the first task, in red.
    assert airflow.wait(east.dag_id, runs["east"]) == "failed"
    assert scene.states(east, runs["east"])["check"] == {"failed"}
    assert "was made for cluster" in airflow.task_log(east.dag_id, runs["east"], "check")
    assert airflow.wait(west.dag_id, runs["west"]) == "success"
    decision = json.loads((scene.folder(west.dag_id, runs["west"]) / "check.json").read_text())["decision"]
    assert (decision["run_type"], decision["dry_run"], decision["source_plan"]) == (
        "asset_triggered", True, plans["west"]
    )  # fmt: skip
    assert airflow.xcom(west.dag_id, runs["west"], "mark")["already_marked"] == 2


def test_a_dag_with_a_group_for_each_cluster_is_approved_group_by_group_on_the_pages(scene: Scene) -> None:
    airflow, east, west = scene.airflow, scene.east, scene.west
    assert (east.objects, len(west.objects) > 0) == (set(), True)
    run_id = airflow.trigger("nightly")
    airflow.wait_for_request("nightly", run_id, "west.approve")
    tab = page(airflow, f"/rlmm/dag-run?dag_id=nightly&run_id={quote(run_id)}")
    folders = dict(re.findall(r'<a href="/rlmm/runs/([^"]+)">(east|west)</a>', tab))
    assert set(folders.values()) == {"east", "west"}
    address = {group: f"/rlmm/runs/{folder}" for folder, group in folders.items()}
    with airflow.client() as admin:
        buttons = {
            group: re.findall(
                r'data-ask="([^"]+hitlDetails)" data-method="PATCH" data-body="([^"]+)"', admin.get(at).text
            )
            for group, at in address.items()
        }
        assert buttons["east"] == []
        address_of_answer, body = buttons["west"][0]
        answer = admin.patch(address_of_answer, json=json.loads(unescape(body)))
    assert answer.status_code == httpx.codes.OK, answer.text
    assert airflow.wait("nightly", run_id) == "success"
    assert west.objects == set()
    done = page(airflow, address["west"])
    assert "6 segments" in done
    assert "was approved by &#39;admin&#39;" in done
    message = scene.work / "messages" / f"{run_id}.txt".replace(":", "-")
    until(message.exists, "no message came about the run")
    text = message.read_text()
    assert text.startswith("[rlmm] nightly is green")
    for side in (east, west):
        assert side.kafka.cluster_id in text or f"{side.name}, done: " in text, text
