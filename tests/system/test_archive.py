# SPDX-License-Identifier: Apache-2.0
"""Archive, delete, restore under a real scheduler; and what is not archived is not deleted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from dev import tiering
from dev.airflow import LocalAirflow
from dev.broker import LocalKafka
from dev.roots import expected_root_of
from tests.integration.copying.writing import Record, Writer, read_records
from tests.scrub import scrub
from tests.system.test_dags import CLEANER, NOW, kafka_id
from tests.system.test_kill_switch import artifact_end

pytestmark = [pytest.mark.system, pytest.mark.integration, pytest.mark.timeout(900), pytest.mark.rare]

GONE, DAMAGED, RESTORED = "archived-gone", "archived-damaged", "archived-restored"


@dataclass(frozen=True)
class Scene:
    """Two deleted topics, one of which cannot be archived; and what a consumer had read of the other one."""

    airflow: LocalAirflow
    kafka: LocalKafka
    work: Path
    gone: UUID
    damaged: UUID
    committed: list[Record]
    all_records: int

    def clean(self, **conf: Any) -> tuple[str, str]:
        """Run the cleaner; returns the run and how it ended."""
        run_id = self.airflow.trigger(CLEANER, NOW | {"rlmm_conn_id": "rlmm_archiving"} | conf)
        return run_id, self.airflow.wait(CLEANER, run_id, timeout=240)

    def states(self, run_id: str) -> dict[str, str]:
        return {i["task_id"]: i["state"] for i in self.airflow.task_instances(CLEANER, run_id)}

    def report(self, run_id: str) -> dict[str, Any]:
        (file,) = [path for path in self.work.glob("*/report.json") if path.parent.name.endswith(artifact_end(run_id))]
        found: dict[str, Any] = json.loads(file.read_text())
        return found


@pytest.fixture
def scene(connected: LocalAirflow, broker: LocalKafka, work_dir: Path, tmp_path: Path) -> Iterator[Scene]:
    for topic in ("archived-kept", GONE, DAMAGED):
        tiering.create_tiered_topic(broker, topic, 1)
    writer = Writer(broker.bootstrap_servers, GONE)
    writer.write(30)
    writer.commit(10)
    writer.abort(7)
    for topic, segments in (("archived-kept", 1), (GONE, 10), (DAMAGED, 1)):
        tiering.produce_until_remote(broker, topic, segments)
    committed = read_records(broker.bootstrap_servers, GONE, 0, "read_committed")
    everything = len(read_records(broker.bootstrap_servers, GONE))
    gone, damaged = (tiering.provoke_scenario_b(broker, topic) for topic in (GONE, DAMAGED))
    (log, *_) = sorted(path for path in broker.remote_dir.rglob("*.log") if kafka_id(damaged) in str(path))
    log.write_bytes(log.read_bytes()[:-7] + b"damaged")
    settings = {
        "kafka_conn_id": "kafka_up",
        "storage_uri": broker.remote_dir.as_uri(),
        "allow_writes": True,
        "expected_cluster_id": broker.cluster_id,
        "expected_root": expected_root_of(broker.remote_dir),
    }
    (tmp_path / "file").touch()
    for name, more in {
        "rlmm_archiving": {"archive_uri": str(tmp_path / "archives")},
        # No folder can be made there.
        "rlmm_demanding": {"archive_uri": str(tmp_path / "file" / "archives"), "archive_before_deletion": True},
    }.items():
        connected.add_connection(name, {"conn_type": "rlmm", "extra": settings | more})
    yield Scene(connected, broker, work_dir, gone, damaged, committed, everything)
    assert scrub(broker) == []


def test_what_compares_is_deleted_and_restored_and_what_does_not_stays(scene: Scene) -> None:
    objects = {topic_id: tiering.remote_files(scene.kafka, topic_id) for topic_id in (scene.gone, scene.damaged)}

    # The connection asks for an archive that cannot be written: nothing is deleted, whatever the run is told.
    run_id, state = scene.clean(rlmm_conn_id="rlmm_demanding")
    states = scene.states(run_id)
    assert (state, states["archive"], states["clean"], states["report"]) == (
        "failed", "failed", "upstream_failed", "failed",
    )  # fmt: skip
    assert {i: tiering.remote_files(scene.kafka, i) for i in objects} == objects

    # A topic that does not compare stays, the other one goes, and the run is red.
    run_id, state = scene.clean(archive=True)
    assert (state, scene.states(run_id)["archive"], scene.states(run_id)["clean"]) == ("failed", "success", "success")
    assert tiering.remote_files(scene.kafka, scene.gone) == set()
    assert tiering.remote_files(scene.kafka, scene.damaged) == objects[scene.damaged]
    report = scene.report(run_id)
    assert [problem["kind"] for problem in report["needs_person"]] == ["ARCHIVE"]
    (archived,) = report["archive"]["partitions"]
    assert (archived["topic"], archived["records"], archived["not_whole"]) == (GONE, scene.all_records, 0)
    assert len(archived["records_sha256"]) == len(archived["manifest_sha256"]) == 64
    assert Path(archived["manifest"]).is_file()

    # What was archived is restored: every record as a consumer of committed records had read it.
    admin = AdminClient(scene.kafka.client_config())
    admin.create_topics([NewTopic(RESTORED, 1, 1, config={"retention.ms": "-1"})])[RESTORED].result(30)
    conf = {"topic_id": kafka_id(scene.gone), "topic": RESTORED, "rlmm_conn_id": "rlmm_archiving"}
    run_id = scene.airflow.trigger("restore_topic", conf)
    state = scene.airflow.wait("restore_topic", run_id, timeout=200)
    assert state == "success", scene.airflow.task_log("restore_topic", run_id, "restore")
    told = scene.airflow.xcom("restore_topic", run_id, "restore")
    assert (told["records"], told["left_out"]) == (len(scene.committed), 7)
    restored = read_records(scene.kafka.bootstrap_servers, RESTORED)
    assert [record[1:] for record in restored] == [record[1:] for record in scene.committed]

    # Archived by its id the damaged topic is refused, too; without an archive it goes for good.
    run_id = scene.airflow.trigger("archive_topic", conf | {"topic_id": kafka_id(scene.damaged)})
    assert scene.airflow.wait("archive_topic", run_id, timeout=200) == "failed"
    run_id, state = scene.clean()
    assert (state, tiering.remote_files(scene.kafka, scene.damaged)) == ("success", set())
