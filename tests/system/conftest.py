# SPDX-License-Identifier: Apache-2.0
"""One real Airflow and one real broker for all system tests."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_rlmm.resources import dags_folder
from dev.airflow import LocalAirflow
from dev.broker import LocalKafka
from dev.roots import expected_root_of
from dev.spark import local_spark_env
from tests.system.receivers import StatsdListener

SECRET = "correct-horse-battery-staple"


@pytest.fixture(scope="session")
def work_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``[rlmm] work_uri`` of the Airflow under test."""
    return tmp_path_factory.mktemp("work")


@pytest.fixture(scope="session")
def temporary_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the tasks of the Airflow under test put their temporary files."""
    return tmp_path_factory.mktemp("temporary")


@pytest.fixture(scope="session")
def alarm_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the messages about red runs arrive."""
    return tmp_path_factory.mktemp("alarms")


@pytest.fixture(scope="session")
def lineage_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where OpenLineage's events arrive, one a line."""
    return tmp_path_factory.mktemp("lineage") / "events.json"


@pytest.fixture(scope="session")
def statsd() -> Iterator[StatsdListener]:
    """Who receives Airflow's metrics."""
    with StatsdListener() as listener:
        yield listener


@pytest.fixture(scope="session")
def told_around(alarm_folder: Path, lineage_file: Path, statsd: StatsdListener) -> dict[str, str]:
    """Settings by which Airflow tells all these."""
    transport = {"type": "file", "log_file_path": str(lineage_file), "append": True}
    return {
        "AIRFLOW__RLMM__NOTIFIER": "rlmm_alarms.on_red",
        "RLMM_TEST_MESSAGES": str(alarm_folder),
        "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(transport),
        "AIRFLOW__METRICS__STATSD_ON": "True",
        "AIRFLOW__METRICS__STATSD_HOST": "127.0.0.1",
        "AIRFLOW__METRICS__STATSD_PORT": str(statsd.port),
    }


@pytest.fixture(scope="session")
def local_airflow(
    tmp_path_factory: pytest.TempPathFactory, work_dir: Path, temporary_files: Path, told_around: dict[str, str]
) -> Iterator[LocalAirflow]:
    """Airflow with the package's DAGs and the tests' own, and connections that lead nowhere."""
    dags = tmp_path_factory.mktemp("dags")
    for folder in (Path(__file__).parent / "dags", Path(dags_folder())):
        for file in folder.glob("*.py"):
            shutil.copy(file, dags)
    with socket.socket() as nobody:
        # Bound and not listening: a port that certainly refuses.
        nobody.bind(("127.0.0.1", 0))
        broker = f"127.0.0.1:{nobody.getsockname()[1]}"
        connections = {
            "kafka_down": {"conn_type": "kafka", "extra": {"bootstrap.servers": broker}},
            "rlmm_down": {
                "conn_type": "rlmm",
                "extra": {"kafka_conn_id": "kafka_down", "storage_uri": f"file://{work_dir}/missing"},
            },
        }
        with LocalAirflow(
            tmp_path_factory.mktemp("airflow"),
            dags_folder=dags,
            connections={conn_id: json.dumps(document) for conn_id, document in connections.items()},
            env={
                # No file changes, and every look at one is a process.
                "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",
                "AIRFLOW__RLMM__WORK_URI": str(work_dir),
                "TMPDIR": str(temporary_files),
                **told_around,
                **local_spark_env(tmp_path_factory.mktemp("spark")),
            },
        ) as airflow:
            yield airflow


@pytest.fixture(scope="session")
def broker() -> Iterator[LocalKafka]:
    """The broker; a test that kills it starts it again."""
    with LocalKafka(metadata_partitions=3) as kafka:
        yield kafka


@pytest.fixture(scope="session")
def connected(local_airflow: LocalAirflow, broker: LocalKafka, work_dir: Path) -> LocalAirflow:
    """Airflow with connections to the broker: ``rlmm_up``, and ``rlmm_lost`` whose storage is not there."""
    # The broker asks for no login; one is given all the same, to see that it stays where it belongs.
    login = {
        "security.protocol": "PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "nobody",
        "sasl.password": SECRET,
    }
    kafka = {"bootstrap.servers": broker.bootstrap_servers, **login}
    rlmm: dict[str, Any] = {
        "kafka_conn_id": "kafka_up",
        "storage_uri": broker.remote_dir.as_uri(),
        "allow_writes": True,
        "expected_cluster_id": broker.cluster_id,
        "expected_root": expected_root_of(broker.remote_dir),
    }
    local_airflow.add_connection("kafka_up", {"conn_type": "kafka", "extra": kafka})
    local_airflow.add_connection("rlmm_up", {"conn_type": "rlmm", "extra": rlmm})
    lost = {**rlmm, "storage_uri": f"file://{work_dir}/missing"}
    del lost["expected_root"]
    local_airflow.add_connection("rlmm_lost", {"conn_type": "rlmm", "extra": lost})
    local_airflow.add_connection(
        "spark_default", {"conn_type": "spark", "host": "local[2]", "extra": {"deploy-mode": "client"}}
    )
    return local_airflow
