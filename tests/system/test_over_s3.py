# SPDX-License-Identifier: Apache-2.0
"""All that a real broker leaves behind in S3 under Aiven's keys, cleaned by the DAGs under a real scheduler."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest

from airflow_provider_rlmm.features.scrub.rules import ScrubClass
from dev import formatter, tiering
from dev.airflow import LocalAirflow
from dev.roots import expected_root_in_s3
from dev.s3 import ACCESS_KEY, BUCKET, REGION, SECRET_KEY, MotoServer
from dev.s3_proxy import S3Proxy
from dev.s3_tiering import S3Kafka
from tests.integration.kafka_topics import delete_topic
from tests.integration.scenarios.over_s3 import (
    OBJECTS,
    deleted_and_killed,
    forgotten_objects,
    killed_between_two_objects,
    s3_down_while_a_topic_is_deleted,
    storage_of,
)
from tests.integration.scenarios.provoke import LIVING, await_deletions_done, make_living_topic, tiered_topic
from tests.scrub import scrub

pytestmark = [pytest.mark.system, pytest.mark.integration, pytest.mark.scenarios, pytest.mark.timeout(1800)]

BEFORE, NOW = "kafka/before/", "flat"
SCRUB = "remote_storage_scrub"
SEGMENTS = {"cut-short": 6, "s3-down": 9, "in-mid-copy": 4, "moved": 4}
"""What is left of each topic; of one of those in mid-copy there is only the log."""


@dataclass(frozen=True)
class Scene:
    """What is left of four topics, what the broker forgot of a fifth, and a living one."""

    kafka: S3Kafka
    gone: dict[str, UUID]
    forgotten: set[str]  # keys


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with (
        MotoServer(tmp_path_factory.mktemp("s3")) as server,
        S3Proxy(server.port) as proxy,
        S3Kafka(server, endpoint=proxy.endpoint, key_prefix=BEFORE, metadata_partitions=3) as kafka,
    ):
        moved, forgotten = (tiered_topic(kafka, name, 2, 2) for name in ("moved", "forgotten"))
        kafka.change_key_prefix(NOW)
        make_living_topic(kafka)
        delete_topic(kafka, "forgotten")
        await_deletions_done(kafka)
        gone = {
            "cut-short": tiered_topic(kafka, "cut-short", 2, 3),
            "s3-down": s3_down_while_a_topic_is_deleted(kafka, proxy, "s3-down"),
            "in-mid-copy": killed_between_two_objects(kafka, "in-mid-copy", "log", 1),
            "moved": moved,
        }
        for topic in ("cut-short", "in-mid-copy", "moved"):
            deleted_and_killed(kafka, proxy, topic)
        yield Scene(kafka, gone, tiering.remote_files(kafka, forgotten))


@pytest.fixture(scope="module")
def airflow(local_airflow: LocalAirflow, scene: Scene) -> LocalAirflow:
    """Airflow with connections as an operator would enter them."""
    rlmm = {
        "kafka_conn_id": "kafka_s3",
        "storage_conn_id": "s3_store",
        "storage_uri": f"s3://{BUCKET}",
        "layout": "aiven",
        "key_prefix": NOW,
        "former_key_prefixes": BEFORE,
        "allow_writes": True,
        "expected_cluster_id": scene.kafka.cluster_id,
        # The place of a prefix without a / at its end is the folder above it.
        "expected_root": expected_root_in_s3(BUCKET, scene.kafka.endpoint, ["", "kafka/before"]),
    }
    bootstrap = {"bootstrap.servers": scene.kafka.bootstrap_servers}
    local_airflow.add_connection("kafka_s3", {"conn_type": "kafka", "extra": bootstrap})
    store = {"region_name": REGION, "endpoint_url": scene.kafka.endpoint}
    local_airflow.add_connection(
        "s3_store", {"conn_type": "aws", "login": ACCESS_KEY, "password": SECRET_KEY, "extra": store}
    )
    local_airflow.add_connection("rlmm_s3", {"conn_type": "rlmm", "extra": rlmm})
    return local_airflow


def run(
    airflow: LocalAirflow, dag_id: str, meanwhile: Callable[[str], None] | None = None, **more: Any
) -> dict[str, Any]:
    """Run a DAG to its success, do something in the meantime with its run; returns what its last task says."""
    conf = {
        "rlmm_conn_id": "rlmm_s3",
        "dry_run": False,
        "overrides": ["short_min_absence"],
        "max_share": 1.0,
        "batch_segments": 3,
    }
    run_id = airflow.trigger(dag_id, conf | more)
    if meanwhile is not None:
        meanwhile(run_id)
    state = airflow.wait(dag_id, run_id, timeout=300)
    tasks = airflow.task_instances(dag_id, run_id)
    failed = [(t["task_id"], t["map_index"], t["try_number"]) for t in tasks if t["state"] == "failed"]
    logs = [airflow.task_log(dag_id, run_id, name, map_index=index, try_number=n) for name, index, n in failed]
    assert state == "success", "\n".join(logs)
    said: dict[str, Any] = airflow.xcom(dag_id, run_id, "report")
    return said


def test_one_run_cleans_what_was_left_behind_and_a_scrub_what_was_forgotten(
    airflow: LocalAirflow, scene: Scene
) -> None:
    kafka, storage = scene.kafka, storage_of(scene.kafka, [BEFORE])
    there = {topic: tiering.remote_files(kafka, topic_id) for topic, topic_id in scene.gone.items()}
    objects = {topic: count * OBJECTS for topic, count in SEGMENTS.items()} | {"in-mid-copy": 3 * OBJECTS + 1}
    assert {topic: len(keys) for topic, keys in there.items()} == objects
    everything = kafka.remote_objects().keys()

    totals = run(airflow, "remote_log_cleaner", min_absence_ms=0)
    assert totals["segments_deleted"] == sum(SEGMENTS.values())
    assert totals["objects_deleted"] == sum(objects.values())
    assert (totals["segments_left"], totals["refusals"]) == (0, 0)
    assert kafka.remote_objects().keys() == everything - set().union(*there.values())

    kafka.restart()
    tiering.tiering_alive(kafka, LIVING)
    assert formatter.formatter_lines(kafka)
    assert len(scene.forgotten) == 4 * OBJECTS
    assert forgotten_objects(kafka, storage) == dict.fromkeys(scene.forgotten, ScrubClass.FINISHED)
    assert scrub(kafka, layout=storage.layout) == [f"unreferenced object {key}" for key in sorted(scene.forgotten)]

    def approve(run_id: str) -> None:
        asked = airflow.wait_for_request(SCRUB, run_id, "approve")
        assert f"{len(scene.forgotten)} objects" in asked["subject"], asked
        assert forgotten_objects(kafka, storage), "nothing goes before somebody has answered"
        airflow.answer(SCRUB, run_id, "approve", "Approve")

    scrubbed = run(airflow, SCRUB, approve, approve_above_segments=0)
    assert scrubbed["deleted"].keys() == {ScrubClass.FINISHED}
    assert scrubbed["deleted"][ScrubClass.FINISHED]["objects"] == len(scene.forgotten)
    assert scrub(kafka, layout=storage.layout) == []
    tiering.tiering_alive(kafka, LIVING)
    assert SECRET_KEY not in json.dumps([totals, scrubbed])
    # Logs, the work folder with plans and reports, the database with its XComs: connections lie there encrypted.
    files = [file for file in airflow.home.rglob("*") if file.is_file()]
    assert any(file.suffix == ".db" for file in files)
    assert [file for file in files if SECRET_KEY.encode() in file.read_bytes()] == []
