# SPDX-License-Identifier: Apache-2.0
"""
The operator of the Spark job with its work folder in a bucket: on a standalone cluster in cluster mode, and in the task.

The store takes one key. In cluster mode nothing of the connection that holds it goes to the cluster, whose machines share no
folder; what the driver finds there lies in a folder of its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred
from click.testing import CliRunner

from airflow_provider_rlmm.cli.main import rlmm
from airflow_provider_rlmm.core.base.errors import PlanError
from airflow_provider_rlmm.core.base.file_systems import list_files, list_folders
from airflow_provider_rlmm.core.plans.plan import PlanSummary
from airflow_provider_rlmm.core.plans.plan_files import read_named, read_plan
from airflow_provider_rlmm.operators.retention import SegmentRetentionOperator
from dev import ensure_spark_jars, tiering
from dev.broker import LocalKafka
from dev.spark import local_spark_env
from tests.aws_server import BUCKET, REGION, AwsServer, running_aws_server
from tests.integration.operators import connect, context
from tests.spark_scale.standalone import StandaloneSpark, lean_python

pytestmark = [
    pytest.mark.integration,
    pytest.mark.spark,
    pytest.mark.rare,
    pytest.mark.timeout(1200),
    # Airflow's Spark provider leaves the output of spark-submit to the garbage collector, which says so.
    pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning"),
]

KEY, SECRET = "AKIAPLANTEDKEYID1234", "pl4nted/secret+value="
OF_A_DRIVER = ("pandas", "pandas.libs", "dateutil", "pytz", "six.py", "tzdata")
FOR_STORES = ("obstore", "typing_extensions.py")
SMALL = {"spark.driver.memory": "600m", "spark.executor.memory": "600m", "spark.cores.max": "1"}
WORK = f"s3://{BUCKET}/rlmm"


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalKafka]:
    """A broker with two segments that a deleted topic has left, and a living topic."""
    with LocalKafka(metadata_partitions=3) as kafka:
        for topic, segments in (("orders", 1), ("clickstream", 2)):
            tiering.create_tiered_topic(kafka, topic, 1)
            tiering.produce_until_remote(kafka, topic, segments)
        tiering.provoke_scenario_b(kafka, "clickstream")
        yield kafka


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneSpark]:
    """A master and two workers, whose Python has what the driver of a job in a bucket needs, and nothing else."""
    python = lean_python(tmp_path_factory.mktemp("lean") / "python", (*OF_A_DRIVER, *FOR_STORES))
    with StandaloneSpark(tmp_path_factory.mktemp("standalone"), python, rest=True) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def server() -> Iterator[AwsServer]:
    with running_aws_server() as aws:
        yield aws


@pytest.fixture
def aws(server: AwsServer, broker: LocalKafka, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[AwsServer]:
    """The work folder is in a bucket, and a connection opens it; the environment knows nothing of it."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    connect(monkeypatch, broker)
    extra = {"region_name": REGION, "endpoint_url": server.url}
    document = {"conn_type": "aws", "login": KEY, "password": SECRET, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_WORK", json.dumps(document))
    monkeypatch.setenv("AIRFLOW__RLMM__WORK_CONN_ID", "work")
    monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", WORK)
    for name, value in local_spark_env(tmp_path / "spark").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    server.access_keys = {KEY, "the-test"}
    yield server
    server.access_keys = None


def connect_spark(monkeypatch: pytest.MonkeyPatch, host: str, **extra: Any) -> None:
    document = {"conn_type": "spark", "host": host, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(document))


def evaluate(**arguments: Any) -> SegmentRetentionOperator:
    jars = ",".join(str(jar) for jar in sorted(ensure_spark_jars().glob("*.jar")))
    conf = {**SMALL, **arguments.pop("conf", {})}
    return SegmentRetentionOperator(task_id="evaluate", jars=jars, conf=conf, **arguments)


def plan_by_cluster(run_id: str, **arguments: Any) -> None:
    """Do what Airflow does with a task that is deferred."""
    task, ctx = evaluate(**arguments), context(run_id)
    with pytest.raises(TaskDeferred) as deferred:
        task.execute(ctx)
    wait = deferred.value

    async def fired() -> Any:
        return await anext(event.payload async for event in wait.trigger.run())  # type: ignore[attr-defined]

    assert wait.kwargs is not None
    task.resume_execution(wait.method_name, {**wait.kwargs, "event": asyncio.run(fired())}, ctx)


def rows_of(run_id: str) -> tuple[PlanSummary, list[bytes]]:
    """Return what a plan says, but for its name, its time and its job's work, and the bytes of its files."""
    uri = f"{WORK}/remote_log_cleaner.{run_id}"
    summary = read_plan(uri)
    files = [read_named(uri, file).to_pybytes() for _, file in sorted(summary.files.items())]
    return replace(summary, job={}, plan_id="", created_at_ms=0, expires_at_ms=1), files


@pytest.fixture
def on_the_machines(spark: StandaloneSpark, aws: AwsServer, tmp_path: Path) -> dict[str, str]:
    """What somebody has put on the machines of the cluster."""
    folder, options = tmp_path / "opt-rlmm", tmp_path / "store.json"
    written = CliRunner().invoke(rlmm, ["spark-files", str(folder)])
    assert written.exit_code == 0, written.output
    address = {"aws_region": REGION, "aws_endpoint": aws.url, "allow_http": "true"}
    options.write_text(json.dumps({"options": {**address, "aws_access_key_id": KEY, "aws_secret_access_key": SECRET}}))
    options.chmod(0o600)
    return {"store_options_file": str(options), "spark_files_folder": str(folder)}


def test_a_driver_on_the_cluster_makes_the_plan_that_one_in_the_task_makes(
    spark: StandaloneSpark, aws: AwsServer, on_the_machines: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    connect_spark(monkeypatch, spark.url, **{"deploy-mode": "cluster", "rest-port": spark.rest_port})
    plan_by_cluster("on-the-cluster", **on_the_machines)
    summary, files = rows_of("on-the-cluster")
    assert (summary.by_reason["ORPHANED"].segments, len(files)) == (2, 1)
    assert list_folders(f"{WORK}/remote_log_cleaner.on-the-cluster") == [], "what the driver was given is gone"
    assert {asked.access_key for asked in aws.asked} <= {KEY, "the-test"}
    assert len([name for name in list_folders(WORK) if name.startswith("segments-")]) == 1

    # In the task: what opens the bucket goes through a pipe. It reads on from what the driver of the cluster has kept.
    connect_spark(monkeypatch, "local[2]", **{"deploy-mode": "client"})
    evaluate().execute(context("in-the-task"))
    assert rows_of("in-the-task") == (summary, files)
    assert read_plan(f"{WORK}/remote_log_cleaner.in-the-task").job["read_on_from"] == 1
    assert "summary.json" in list_files(f"{WORK}/remote_log_cleaner.in-the-task")


def test_no_secret_is_left_on_the_cluster_or_in_the_bucket(
    spark: StandaloneSpark, aws: AwsServer, on_the_machines: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers keep each driver's command line, what it and its executors say, and the code that it was given."""
    connect_spark(monkeypatch, spark.url, **{"deploy-mode": "cluster", "rest-port": spark.rest_port})
    plan_by_cluster("secrets", **on_the_machines)
    kept = [path for path in spark.folder.rglob("*") if path.is_file() and path.suffix != ".jar"]
    assert len(kept) > 5
    assert [path for path in kept if "--store-options" in path.read_text(errors="replace")], "command lines are kept"
    assert not [path for path in kept if SECRET.encode() in path.read_bytes()]
    assert not [key for key, data in aws.objects().items() if SECRET.encode() in data]


def test_executors_without_obstore_are_told_what_they_lack_before_they_read(
    spark: StandaloneSpark,
    aws: AwsServer,
    on_the_machines: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    python = lean_python(tmp_path_factory.mktemp("without") / "python", OF_A_DRIVER)
    pythons = {"spark.pyspark.driver.python": str(spark.python), "spark.pyspark.python": str(python)}
    connect_spark(monkeypatch, spark.url, **{"deploy-mode": "cluster", "rest-port": spark.rest_port})
    with pytest.raises(
        PlanError, match=r"no plan: .*/python has no obstore, which opens s3://.*: install obstore"
    ) as e:
        plan_by_cluster("without-obstore", **on_the_machines, conf=pythons)
    assert "\n" not in str(e.value)


def test_a_driver_that_cannot_open_the_bucket_says_nothing_and_that_is_said(
    spark: StandaloneSpark, aws: AwsServer, on_the_machines: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    connect_spark(monkeypatch, spark.url, **{"deploy-mode": "cluster", "rest-port": spark.rest_port})
    path = Path(on_the_machines["store_options_file"])
    path.write_text(path.read_text().replace(KEY, "AKIAANOTHERKEYID1234"))
    with pytest.raises(PlanError, match=r"left no word of its own, as it does where it cannot open the work folder"):
        plan_by_cluster("wrong-key", **on_the_machines)
