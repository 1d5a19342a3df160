# SPDX-License-Identifier: Apache-2.0
"""
Secrets, hunted in a whole world: a scheduler, Spark, OpenLineage, StatsD, notifiers, in runs that work and in runs that fail.

Airflow's own masking of connections is off: what is told anywhere must be free of secrets without it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from airflow_provider_rlmm.resources import dags_folder
from dev import tiering
from dev.airflow import LocalAirflow
from dev.roots import expected_root_in_s3
from dev.secured import SecuredKafka
from dev.spark import local_spark_env
from tests.contracts.s3_server import BUCKET, FolderObjects, S3Server, running_s3_server
from tests.integration.acls import allow_each
from tests.system.receivers import StatsdListener, awaited
from tests.system.secret_hunt import CommandLines, Seen, find, in_database, in_files
from tests.system.secrets_world import BLIND, DECOY, USER, Planted, kafka_connections, stores

pytestmark = [pytest.mark.system, pytest.mark.integration, pytest.mark.scenarios, pytest.mark.timeout(1800)]

RETENTION, CLEANER, SCRUB = "remote_log_retention", "remote_log_cleaner", "remote_storage_scrub"
GOOD = {"rlmm_conn_id": "rlmm_good"}
REAL = {"dry_run": False, "min_absence_ms": 0, "overrides": ["short_min_absence"], "max_share": 1.0}


@dataclass(frozen=True)
class World:
    """
    :param folder: what Spark, OpenLineage, notifiers and tasks leave lies in folders of it, as does the work folder.
    """

    planted: Planted
    airflow: LocalAirflow
    statsd: StatsdListener
    command_lines: CommandLines
    folder: Path
    operators: int

    def run(self, dag_id: str, **conf: Any) -> dict[str, list[str]]:
        """Run a DAG; returns state → the tasks that ended so."""
        run_id = self.airflow.trigger(dag_id, conf)
        self.airflow.wait(dag_id, run_id, timeout=600)
        ended: dict[str, list[str]] = {}
        for task in self.airflow.task_instances(dag_id, run_id):
            ended.setdefault(str(task["state"]), []).append(task["task_id"])
        return ended

    def told(self) -> int:
        """Count the messages that have come."""
        return len(list((self.folder / "messages").iterdir()))

    def everything(self) -> Iterator[Seen]:
        """Give all that anything has left."""
        home = self.airflow.home
        yield from in_files("task logs", home / "logs")
        yield from in_files("components", home / "components")
        yield from in_database(home / "airflow.db")
        for place in ("work folder", "archives", "messages", "lineage", "event log", "temporary files"):
            yield from in_files(place, self.folder / place)
        yield Seen("metrics", "", "\n".join(self.statsd.names).encode())
        for line in self.command_lines.seen:
            yield Seen("command line", line.decode(errors="replace")[:200], line)


@pytest.fixture(scope="module")
def planted() -> Planted:
    return Planted()


@pytest.fixture(scope="module")
def kafka(planted: Planted) -> Iterator[SecuredKafka]:
    """A broker behind TLS with a living topic and what a deleted one has left."""
    with SecuredKafka(planted.users(), metadata_partitions=1) as broker:
        for topic, segments in (("living", 1), ("gone", 2)):
            tiering.create_tiered_topic(broker, topic, 1)
            tiering.produce_until_remote(broker, topic, segments)
        tiering.provoke_scenario_b(broker, "gone")
        everything = {(kind, "*", AclOperation.ALL) for kind in (ResourceType.TOPIC, ResourceType.GROUP)}
        # Enough for what the task asks before it starts Spark.
        looking = {(ResourceType.TOPIC, "*", right) for right in (AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS)}
        allow_each(broker, {USER: everything, BLIND: looking})
        yield broker


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, planted: Planted, kafka: SecuredKafka) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("world")
    for place in ("work folder", "archives", "messages", "lineage", "event log", "temporary files"):
        (folder / place).mkdir()
    dags = tmp_path_factory.mktemp("dags")
    shipped = [Path(dags_folder()) / f"{name}.py" for name in (RETENTION, CLEANER, SCRUB)]
    for file in [*shipped, *(Path(__file__).parent / "secrets_dags").glob("*.py")]:
        shutil.copy(file, dags)
    spark = local_spark_env(tmp_path_factory.mktemp("spark"))
    log_events(Path(spark["SPARK_CONF_DIR"]), folder / "event log", planted)
    with ExitStack() as opened:
        storage = opened.enter_context(running_s3_server(FolderObjects(kafka.remote_dir)))
        expired = opened.enter_context(running_s3_server())
        expired.expired = True
        statsd = opened.enter_context(StatsdListener())
        command_lines = opened.enter_context(CommandLines())
        connections, by_kafka, by_store = all_connections(planted, kafka, storage, expired, folder / "archives")
        airflow = opened.enter_context(
            LocalAirflow(
                tmp_path_factory.mktemp("airflow"),
                dags_folder=dags,
                connections={conn_id: json.dumps(document) for conn_id, document in connections.items()},
                env={
                    **planted.environment(expired),
                    **spark,
                    **settings(folder, statsd),
                    "RLMM_TEST_KAFKA": json.dumps(by_kafka),
                    "RLMM_TEST_STORES": json.dumps(by_store),
                    "RLMM_TEST_HOOK": f"http://127.0.0.1:1/services/{planted['address of the notifier']}",
                },
            )
        )
        yield World(planted, airflow, statsd, command_lines, folder, 2 * (len(by_kafka) + len(by_store)) + 1)


def settings(folder: Path, statsd: StatsdListener) -> dict[str, str]:
    """Return what has Airflow, Spark and this package tell as much as they can."""
    transport = {"type": "file", "log_file_path": str(folder / "lineage" / "events"), "append": True}
    return {
        "AIRFLOW__CORE__HIDE_SENSITIVE_VAR_CONN_FIELDS": "False",
        "AIRFLOW__CORE__DEFAULT_TASK_RETRIES": "0",
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "DEBUG",
        "AIRFLOW__RLMM__WORK_URI": str(folder / "work folder"),
        "AIRFLOW__RLMM__NOTIFIER": "rlmm_alarms.on_red",
        "RLMM_TEST_MESSAGES": str(folder / "messages"),
        "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(transport),
        "AIRFLOW__OPENLINEAGE__DEBUG_MODE": "True",
        "AIRFLOW__OPENLINEAGE__INCLUDE_FULL_TASK_INFO": "True",
        "AIRFLOW__METRICS__STATSD_ON": "True",
        "AIRFLOW__METRICS__STATSD_HOST": "127.0.0.1",
        "AIRFLOW__METRICS__STATSD_PORT": str(statsd.port),
        "TMPDIR": str(folder / "temporary files"),
    }


def log_events(spark_conf: Path, folder: Path, planted: Planted) -> None:
    """Have Spark keep its events, with a decoy among them."""
    with (spark_conf / "spark-defaults.conf").open("a") as defaults:
        defaults.write("spark.eventLog.enabled true\nspark.eventLog.compress false\n")
        defaults.write(f"spark.eventLog.dir {folder.as_uri()}\nspark.rlmm.decoy {planted[DECOY]}\n")


def all_connections(
    planted: Planted, kafka: SecuredKafka, storage: S3Server, expired: S3Server, archives: Path
) -> tuple[dict[str, Any], list[str], list[str]]:
    """Return the connections; and the ids of the ``rlmm`` ones: one for each of Kafka, one for each store."""
    found: dict[str, Any] = {"spark_default": {"conn_type": "spark", "host": "local[2]"}}
    common = {"expected_cluster_id": kafka.cluster_id, "allow_writes": True, "archive_uri": str(archives)}
    root = expected_root_in_s3(BUCKET, str(storage.options["aws_endpoint"]), ["kafka-tiered-storage"])
    good = {"storage_uri": f"s3://{BUCKET}", "storage_conn_id": "store_good", "expected_root": root}
    by_kafka = []
    for name, extra in kafka_connections(planted, kafka).items():
        found[f"kafka_{name}"] = {"conn_type": "kafka", "extra": extra}
        if name != "good":
            by_kafka.append(f"rlmm_by_{name}")
            found[by_kafka[-1]] = {"conn_type": "rlmm", "extra": common | good | {"kafka_conn_id": f"kafka_{name}"}}
    by_store = []
    for name, says in stores(planted, storage, expired).items():
        given = {field: value for field, value in says.items() if field not in ("options", "password")}
        extra = common | {"kafka_conn_id": "kafka_good"} | given | ({"expected_root": root} if name == "good" else {})
        if "options" in says:
            found[f"store_{name}"] = {"conn_type": "generic", "extra": says["options"]}
            extra["storage_conn_id"] = f"store_{name}"
        password = {"password": says["password"]} if "password" in says else {}
        found[f"rlmm_{name}"] = {"conn_type": "rlmm", "extra": extra, **password}
        if name != "good":
            by_store.append(f"rlmm_{name}")
    return found, by_kafka, by_store


def test_no_secret_is_told_anywhere(world: World) -> None:
    # What works: Spark's plan, a run that archives, a scrub.
    assert world.run(RETENTION, **GOOD).keys() == {"success"}
    assert world.run(CLEANER, **GOOD, **REAL, archive=True).keys() == {"success"}
    assert "failed" not in world.run(SCRUB, **GOOD)
    # What fails.
    assert len(world.run("every_connection")["failed"]) == world.operators
    assert world.run("tells_a_decoy") == {"failed": ["tell"]}
    assert awaited(lambda: world.told() >= 2)

    found = find(world.planted.texts, world.everything())
    decoy = found.pop(DECOY)
    assert decoy.keys() >= {
        "task logs", "table xcom", "table rendered_task_instance_fields", "work folder", "messages", "lineage",
        "event log", "metrics", "command line",
    }  # fmt: skip
    assert {name: places for name, places in found.items() if places} == {}
