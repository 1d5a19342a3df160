# SPDX-License-Identifier: Apache-2.0
"""The Spark job whose driver runs on a standalone cluster: what the master is asked, and what becomes of its answers."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred

from airflow_provider_rlmm import __version__
from airflow_provider_rlmm.core.base.errors import ConfigurationError, DocumentError, PlanError, SparkMasterError
from airflow_provider_rlmm.core.generations.manifest import Generation
from airflow_provider_rlmm.core.records.era import PLAIN_ERA
from airflow_provider_rlmm.core.world.cluster_state import ClusterState
from airflow_provider_rlmm.features.retention.spark.what_if import AS_LISTED, Scenario, WhatWouldGo
from airflow_provider_rlmm.features.retention.spark.what_if_document import WHAT_IF_DOCUMENT, WhatIfDocument
from airflow_provider_rlmm.hooks.spark_master import NOT_FOUND, SparkMaster
from airflow_provider_rlmm.operators.retention import SegmentRetentionOperator
from airflow_provider_rlmm.operators.spark_on_cluster import JobFolder
from airflow_provider_rlmm.triggers.spark_driver import SparkDriverTrigger
from tests.aws_server import BUCKET, REGION, AwsServer, running_aws_server
from tests.unit.airflow.operators.test_operators import SECRET, cluster, connect, context, observed, work  # noqa: F401  # fixtures

DRIVER = "driver-20261123062808-0000"
STORE_SECRET = "pl4nted/secret+value="


class Master:
    """A REST server that answers what a test wants, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, Any]] = []
        self.states: list[str] = ["RUNNING", "FINISHED"]
        self.refusal: str | None = None
        server = self

        class Handler(BaseHTTPRequestHandler):
            def _serve(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                document = json.loads(self.rfile.read(length)) if length else None
                server.asked.append((self.command, self.path, document))
                body = json.dumps(server.answer(self.path)).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = _serve  # noqa: N815

            def log_message(self, *_: Any) -> None:
                return

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def answer(self, path: str) -> dict[str, Any]:
        if self.refusal is not None:
            return {"success": False, "message": self.refusal}
        if path.endswith("/create"):
            return {"success": True, "submissionId": DRIVER}
        if "/status/" in path:
            state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
            return {"success": state != NOT_FOUND, "driverState": state}
        return {"success": True}

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def master() -> Iterator[Master]:
    server = Master()
    yield server
    server.close()


@pytest.fixture
def on_cluster(
    master: Master,
    observed: ClusterState,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> Master:
    """A Spark connection to the master, and a Kafka connection without secrets."""
    spark = {
        "conn_type": "spark",
        "host": "spark://127.0.0.1:7077",
        "extra": {"deploy-mode": "cluster", "rest-port": master.port},
    }
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(spark))
    plain = {"conn_type": "kafka", "extra": {"bootstrap.servers": "b:9092"}}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_PROD", json.dumps(plain))
    return master


def submitted(**arguments: Any) -> TaskDeferred:
    with pytest.raises(TaskDeferred) as caught:
        operator(**arguments).execute(context())
    return caught.value


def operator(**arguments: Any) -> SegmentRetentionOperator:
    return SegmentRetentionOperator(task_id="evaluate", **arguments)


def words_of(master: Master) -> list[str]:
    ((_, path, document),) = [asked for asked in master.asked if asked[1].endswith("/create")]
    assert path == "/v1/submissions/create"
    assert document["mainClass"] == "org.apache.spark.deploy.SparkSubmit"
    words: list[str] = document["appArgs"]
    return words


def test_a_driver_is_started_and_waited_for_in_the_triggerer(on_cluster: Master, work: Path) -> None:  # noqa: F811
    conf = {"spark.driver.memory": "1g", "spark.cores.max": ""}
    more = {"spark.driver.memory": "700m"}
    wait = submitted(jars="/opt/connector.jar", conf=conf, more_conf=more, archives="/opt/python.tar.gz#python")
    words = words_of(on_cluster)
    # Without it the driver would work alone, on one machine, and nobody would notice.
    assert words[words.index("--master") + 1] == "spark://127.0.0.1:7077"
    assert words[words.index("--jars") + 1] == "/opt/connector.jar"
    assert words[words.index("--archives") + 1] == "/opt/python.tar.gz#python"
    assert "spark.driver.memory=700m" in words
    assert not [word for word in words if word.startswith("spark.cores.max")]
    assert on_cluster.asked[-1][2]["sparkProperties"]["spark.driver.memory"] == "700m"
    (folder,) = (work / "dag.run").glob("job-*")
    assert words[words.index("--py-files") + 1] == str(folder / "airflow_provider_rlmm.zip")
    assert str(folder / "segment_retention.py") in words
    assert {path.name for path in folder.iterdir()} == {
        "segment_retention.py", "airflow_provider_rlmm.zip", "cluster_state.json", "client.properties", "driver",
    }  # fmt: skip
    trigger = wait.trigger
    assert isinstance(trigger, SparkDriverTrigger)
    assert (trigger.addresses, trigger.driver_id) == ([f"http://127.0.0.1:{on_cluster.port}"], DRIVER)
    assert wait.method_name == "take_plan"


def test_secrets_are_never_written_for_the_driver(on_cluster: Master, work: Path, monkeypatch: Any) -> None:  # noqa: F811
    connect(monkeypatch)
    with pytest.raises(ConfigurationError, match=r"holds secrets.*kafka_properties_file") as caught:
        operator(jars="x.jar").execute(context())
    assert SECRET not in str(caught.value)
    submitted(jars="x.jar", kafka_properties_file="/etc/kafka/client.properties")
    words = words_of(on_cluster)
    assert words[words.index("--kafka-properties") + 1] == "/etc/kafka/client.properties"
    written = b"".join(path.read_bytes() for path in work.rglob("*") if path.is_file())
    assert SECRET.encode() not in written
    assert SECRET not in json.dumps(on_cluster.asked)


def test_a_later_try_ends_the_driver_of_a_lost_one(on_cluster: Master, work: Path) -> None:  # noqa: F811
    on_cluster.states = ["RUNNING"]
    submitted(jars="x.jar")
    (lost,) = (work / "dag.run").glob("job-*")
    submitted(jars="x.jar")
    assert not lost.exists()
    assert [path.rpartition("/v1/submissions/")[2] for _, path, _ in on_cluster.asked] == [
        "create", f"status/{DRIVER}", f"kill/{DRIVER}", "create",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "arguments", "message"),
    [
        ({"host": "yarn"}, {}, "'spark_default': deploy-mode is cluster, and its master is 'yarn'"),
        ({"host": "local[2]"}, {}, "standalone clusters only"),
        ({}, {"kafka_properties_file": "client.properties"}, "give an absolute path"),
        ({}, {"store_options_file": "store.json"}, "store_options_file is 'store.json': give an absolute path"),
        ({}, {"spark_files_folder": "rlmm"}, "spark_files_folder is 'rlmm': give an absolute path"),
        ({"extra": {"deploy-mode": "client"}}, {"kafka_properties_file": "/x"}, "is for cluster mode"),
        ({"extra": {"deploy-mode": "client"}}, {"store_options_file": "/x"}, "store_options_file is for cluster mode"),
        ({"extra": {"deploy-mode": "client"}}, {"spark_files_folder": "/x"}, "spark_files_folder is for cluster mode"),
    ],
)
def test_what_was_not_seen_to_work_is_refused(
    on_cluster: Master, monkeypatch: Any, changes: dict[str, Any], arguments: dict[str, Any], message: str
) -> None:
    document = {"conn_type": "spark", "host": "spark://127.0.0.1:7077", "extra": {"deploy-mode": "cluster"}} | changes
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(document))
    with pytest.raises(ConfigurationError, match=message):
        operator(jars="x.jar", **arguments).execute(context())
    assert on_cluster.asked == []


@pytest.fixture
def in_a_bucket(on_cluster: Master, monkeypatch: pytest.MonkeyPatch) -> Iterator[AwsServer]:
    """The work folder is in a bucket that a connection with a secret opens."""
    with running_aws_server() as aws:
        extra = {"region_name": REGION, "endpoint_url": aws.url}
        document = {"conn_type": "aws", "login": "AKIAPLANTEDKEYID1234", "password": STORE_SECRET, "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_WORK", json.dumps(document))
        monkeypatch.setenv("AIRFLOW__RLMM__WORK_CONN_ID", "work")
        monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", f"s3://{BUCKET}/rlmm")
        yield aws


def test_a_driver_works_in_a_bucket_with_what_lies_on_its_machine(on_cluster: Master, in_a_bucket: AwsServer) -> None:
    wait = submitted(jars="x.jar", store_options_file="/etc/rlmm/store.json", spark_files_folder="/opt/rlmm/")
    words = words_of(on_cluster)
    told = {name: words[words.index(name) + 1] for name in words if name.startswith("--")}
    assert told["--py-files"] == "/opt/rlmm/airflow_provider_rlmm.zip"
    assert "/opt/rlmm/segment_retention.py" in words
    assert told["--store-options"] == "/etc/rlmm/store.json"
    assert told["--package-version"] == __version__
    folder = told["--cluster-state"].removesuffix("/cluster_state.json")
    assert folder.startswith(f"s3://{BUCKET}/rlmm/dag.run/job-")
    assert told["--last-word"] == f"{folder}/no-plan.txt"
    assert told["--kafka-properties"] == f"{folder}/client.properties"
    written = in_a_bucket.objects()
    names = {key.rpartition("/")[2] for key in written if "/job-" in key}
    assert names == {"cluster_state.json", "client.properties", "driver"}
    for text in (str(written), json.dumps(on_cluster.asked), str(wait.trigger.serialize()), str(wait.kwargs)):
        assert STORE_SECRET not in text
    # A later try finds it, and ends it.
    on_cluster.states = ["RUNNING"]
    on_cluster.asked.clear()
    submitted(jars="x.jar", spark_files_folder="/opt/rlmm")
    assert [path.rpartition("/v1/submissions/")[2] for _, path, _ in on_cluster.asked][:2] == [
        f"status/{DRIVER}", f"kill/{DRIVER}",
    ]  # fmt: skip
    assert not [key for key in in_a_bucket.objects() if key.startswith(f"{folder.partition(BUCKET)[2][1:]}/")]
    assert "--store-options" not in words_of(on_cluster)


def test_what_a_driver_in_a_bucket_left_is_read_there(in_a_bucket: AwsServer) -> None:
    task, ctx = operator(), context()
    for said, match in (
        ("no plan: topic 'x' does not exist", r"^no plan: topic 'x' does not exist \(Spark driver"),
        (None, r"left no word of its own, as it does where it cannot open the work folder \(Spark driver .* as FAILED"),
    ):
        folder = JobFolder.below(f"s3://{BUCKET}/rlmm/dag.run")
        if said is not None:
            folder.write("no-plan.txt", said)
        with pytest.raises(PlanError, match=match):
            task.resume_execution("take_plan", {"event": "FAILED", "driver_id": DRIVER, "folder": folder.uri}, ctx)
    assert in_a_bucket.keys() == set()


def test_without_its_code_on_the_machines_a_driver_does_not_work_in_a_bucket(
    on_cluster: Master, in_a_bucket: AwsServer
) -> None:
    with pytest.raises(ConfigurationError, match=r"'s3://.*rlmm spark-files .*name that in spark_files_folder"):
        operator(jars="x.jar").execute(context())
    assert (on_cluster.asked, in_a_bucket.keys()) == ([], set())


def test_a_master_that_does_not_answer_or_refuses_is_named(on_cluster: Master) -> None:
    on_cluster.refusal = "Current state is not alive: STANDBY."
    with pytest.raises(SparkMasterError, match="took no driver: Current state is not alive: STANDBY"):
        operator(jars="x.jar").execute(context())
    on_cluster.close()
    with pytest.raises(SparkMasterError, match=r"no Spark master answers.*spark\.master\.rest\.enabled.*rest-port"):
        operator(jars="x.jar").execute(context())
    on_cluster.close = lambda: None  # type: ignore[method-assign]


def test_of_several_masters_the_one_that_leads_answers(master: Master) -> None:
    standby = Master()
    standby.refusal = "STANDBY"
    both = SparkMaster(tuple(f"http://127.0.0.1:{m.port}" for m in (standby, master)))
    assert both.state(DRIVER) == "RUNNING"
    standby.close()
    assert both.state(DRIVER) == "FINISHED"


def test_a_master_that_stands_by_or_recovers_tells_nothing_of_a_driver(master: Master) -> None:
    """The one that leads does not answer: that the other knows no driver is no "it is not there"."""
    leads = Master()
    both = SparkMaster(tuple(f"http://127.0.0.1:{m.port}" for m in (leads, master)))
    leads.states = [NOT_FOUND]
    master.refusal = "Current state is not alive: STANDBY"
    assert both.state(DRIVER) == NOT_FOUND
    leads.close()
    with pytest.raises(SparkMasterError, match=r"what became of driver .*: Current state is not alive: STANDBY"):
        both.state(DRIVER)


def ended(event: str, **given: Any) -> Any:
    task, ctx = operator(), context()
    folder = JobFolder.below(str(given["work"] / "dag.run"))
    if given.get("said"):
        folder.write("no-plan.txt", given["said"])
    task.resume_execution("take_plan", {"event": event, "driver_id": DRIVER, "folder": folder.uri}, ctx)
    return ctx


def test_a_driver_that_failed_fails_the_task_in_the_jobs_own_words(work: Path, observed: Any) -> None:  # noqa: F811
    with pytest.raises(PlanError, match=r"^no plan: topic 'x' does not exist \(Spark driver .* ended as FAILED"):
        ended("FAILED", work=work, said="no plan: topic 'x' does not exist")
    for state in ("KILLED", "ERROR", NOT_FOUND):
        with pytest.raises(PlanError, match=f"left no word of its own .* ended as {state}"):
            ended(state, work=work)
    assert not list((work / "dag.run").glob("job-*"))


def test_a_driver_that_ended_well_without_a_plan_fails_the_task(work: Path, observed: Any) -> None:  # noqa: F811
    with pytest.raises(PlanError):
        ended("FINISHED", work=work)


def test_what_other_settings_come_to_is_told_when_the_driver_has_ended(
    on_cluster: Master,
    work: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = "alive:retention.ms=0"
    submitted(jars="x.jar", what_if=[settings])
    words = words_of(on_cluster)
    assert words[words.index("--what-if") :] == ["--what-if", settings]
    monkeypatch.setattr("airflow_provider_rlmm.operators.retention.read_plan", lambda uri: None)
    task, ctx = operator(what_if=[settings]), context()
    given = {"event": "FINISHED", "driver_id": DRIVER, "folder": JobFolder.below(str(work / "dag.run")).uri}
    with pytest.raises(PlanError, match=r"what-if\.json"):
        task.resume_execution("take_plan", given, ctx)
    generation = Generation(3, "cluster-1", "id", 1, 1, 1, {}, PLAIN_ERA.told())
    found = [WhatWouldGo(scenario, {}, {}) for scenario in (AS_LISTED, Scenario.parse(settings))]
    text = WhatIfDocument.of(generation, found, evaluated_at_ms=2).to_json()
    (work / "dag.run" / WHAT_IF_DOCUMENT).write_text(text)
    task.resume_execution("take_plan", given, ctx)
    assert [one["settings"] for one in ctx["ti"].pushed["what_if"]["tried"]] == ["as it is", settings]
    (work / "dag.run" / WHAT_IF_DOCUMENT).write_text(text.replace("cluster-1", "cluster-2"))
    with pytest.raises(DocumentError, match="sha256 differs"):
        task.resume_execution("take_plan", given, ctx)


def test_the_trigger_waits_for_the_end_of_the_driver(master: Master) -> None:
    async def fired() -> list[Any]:
        trigger = SparkDriverTrigger([f"http://127.0.0.1:{master.port}"], DRIVER, 0.01)
        path, arguments = trigger.serialize()
        assert path == "airflow_provider_rlmm.triggers.spark_driver.SparkDriverTrigger"
        async with asyncio.timeout(20):
            return [event.payload async for event in SparkDriverTrigger(**arguments).run()]

    master.states = ["SUBMITTED", "RUNNING", "UNKNOWN", "RELAUNCHING", "FAILED"]
    assert asyncio.run(fired()) == ["FAILED"]
    assert len(master.asked) == 5


def test_the_trigger_outlives_a_master_that_is_away(master: Master, caplog: pytest.LogCaptureFixture) -> None:
    gone = Master()
    port = gone.port
    gone.close()

    async def fired() -> list[Any]:
        trigger = SparkDriverTrigger([f"http://127.0.0.1:{port}"], DRIVER, 0.01)
        waiting = asyncio.ensure_future(_payloads(trigger))
        async with asyncio.timeout(20):
            while "is not known" not in caplog.text:
                await asyncio.sleep(0.01)
            assert not waiting.done()
            trigger.addresses[:] = []
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        return []

    asyncio.run(fired())


async def _payloads(trigger: SparkDriverTrigger) -> list[Any]:
    return [event.payload async for event in trigger.run()]


def test_whoever_ends_the_waiting_task_ends_the_driver(master: Master) -> None:
    asyncio.run(SparkDriverTrigger([f"http://127.0.0.1:{master.port}"], DRIVER, 1).on_kill())
    assert master.asked == [("POST", f"/v1/submissions/kill/{DRIVER}", None)]
