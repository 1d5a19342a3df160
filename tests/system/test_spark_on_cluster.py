# SPDX-License-Identifier: Apache-2.0
"""The retention DAG under a real scheduler, its driver on a real standalone Spark cluster: no worker slot is kept."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_rlmm.resources import dags_folder
from dev import tiering
from dev.airflow import LocalAirflow
from dev.broker import LocalKafka
from dev.patience import Patience
from dev.spark import local_spark_env
from tests.spark_scale.standalone import StandaloneSpark, lean_python

pytestmark = [
    pytest.mark.system,
    pytest.mark.integration,
    pytest.mark.spark,
    pytest.mark.timeout(900),
    pytest.mark.rare,
]

OF_A_DRIVER = ("pandas", "pandas.libs", "dateutil", "pytz", "six.py", "tzdata")
RETENTION = "remote_log_retention"
SMALL = {"driver_memory": "600m", "executor_memory": "600m", "max_cores": 1}


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalKafka]:
    """A broker of its own: others leave topics and orphans on theirs."""
    with LocalKafka(metadata_partitions=3) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneSpark]:
    """A master and two workers, whose Python has what executors need and, as a driver does, pandas; and nothing else."""
    python = lean_python(tmp_path_factory.mktemp("lean") / "python", OF_A_DRIVER)
    with StandaloneSpark(tmp_path_factory.mktemp("standalone"), python, rest=True) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def airflow(
    tmp_path_factory: pytest.TempPathFactory, broker: LocalKafka, spark: StandaloneSpark
) -> Iterator[LocalAirflow]:
    dags = tmp_path_factory.mktemp("dags")
    shutil.copy(Path(dags_folder()) / "remote_log_retention.py", dags)
    kafka = {"bootstrap.servers": broker.bootstrap_servers}
    # Nobody asks for it here; it is a secret all the same.
    login = {
        "security.protocol": "PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "u",
        "sasl.password": "s3cr3t",
    }
    rlmm = {"storage_uri": broker.remote_dir.as_uri(), "expected_cluster_id": broker.cluster_id}
    connections: dict[str, Any] = {
        "kafka_default": {"conn_type": "kafka", "extra": kafka},
        "kafka_secret": {"conn_type": "kafka", "extra": kafka | login},
        "rlmm_default": {"conn_type": "rlmm", "extra": rlmm},
        "rlmm_secret": {"conn_type": "rlmm", "extra": rlmm | {"kafka_conn_id": "kafka_secret"}},
        "spark_default": {
            "conn_type": "spark",
            "host": spark.url,
            "extra": {"deploy-mode": "cluster", "rest-port": spark.rest_port},
        },
    }
    with LocalAirflow(
        tmp_path_factory.mktemp("airflow"),
        dags_folder=dags,
        connections={conn_id: json.dumps(document) for conn_id, document in connections.items()},
        env={
            "AIRFLOW__RLMM__WORK_URI": str(tmp_path_factory.mktemp("work")),
            **local_spark_env(tmp_path_factory.mktemp("spark")),
        },
    ) as local:
        yield local


@pytest.fixture(scope="module")
def orphans(broker: LocalKafka) -> int:
    """Segments that a deleted topic has left behind."""
    tiering.create_tiered_topic(broker, "orders", 1)
    tiering.create_tiered_topic(broker, "clickstream", 1)
    tiering.produce_until_remote(broker, "orders", 1)
    tiering.produce_until_remote(broker, "clickstream", 2)
    tiering.provoke_scenario_b(broker, "clickstream")
    return 2


def evaluate_of(airflow: LocalAirflow, run_id: str) -> dict[str, Any]:
    return next(i for i in airflow.task_instances(RETENTION, run_id) if i["task_id"] == "evaluate")


def test_the_driver_runs_on_the_cluster_and_no_slot_is_kept(airflow: LocalAirflow, orphans: int) -> None:
    run_id = airflow.trigger(RETENTION, SMALL)
    patience = Patience(120)
    while evaluate_of(airflow, run_id)["state"] != "deferred":
        assert not patience.over(), airflow.task_log(RETENTION, run_id, "evaluate")
        time.sleep(0.2)
    state = airflow.wait(RETENTION, run_id, timeout=400)
    assert state == "success", airflow.task_log(RETENTION, run_id, "evaluate")
    counts = airflow.xcom(RETENTION, run_id, "publish")
    assert counts["orphaned"] == orphans
    assert not list(Path(counts["plan"]).glob("job-*")), "what the driver was given is gone"


def test_a_driver_that_makes_no_plan_says_why(airflow: LocalAirflow, orphans: int) -> None:
    run_id = airflow.trigger(RETENTION, SMALL | {"rlmm_conn_id": "rlmm_secret", "kafka_properties_file": "/nowhere"})
    assert airflow.wait(RETENTION, run_id, timeout=400) == "failed"
    log = airflow.task_log(RETENTION, run_id, "evaluate")
    assert "no plan: " in log
    assert "/nowhere" in log
    assert "ended as FAILED" in log


def test_secrets_are_not_handed_to_a_cluster(airflow: LocalAirflow, orphans: int) -> None:
    run_id = airflow.trigger(RETENTION, SMALL | {"rlmm_conn_id": "rlmm_secret"})
    assert airflow.wait(RETENTION, run_id, timeout=200) == "failed"
    log = airflow.task_log(RETENTION, run_id, "evaluate")
    assert "in cluster mode they are not handed over" in log
    assert "s3cr3t" not in log
