# SPDX-License-Identifier: Apache-2.0
"""What Spark lacks is said in a line, before the cluster is asked and before Spark is started."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.features.retention.spark.package import (
    OF_ITS_OWN,
    kafka_connector_coordinates,
    pyspark_version,
)
from airflow_provider_rlmm.hooks.metadata import RemoteLogMetadataHook
from airflow_provider_rlmm.operators.retention import SegmentRetentionOperator
from airflow_provider_rlmm.operators.spark_readiness import SparkHere, why_not_fetched
from tests.spark_jars import connector_jar, jar_of

CONTEXT: Any = {"dag_run": SimpleNamespace(dag_id="dag", run_id="run")}
CONNECTOR = kafka_connector_coordinates()


def program(folder: Path, name: str, text: str = "exit 0") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def java(folder: Path, version: str) -> Path:
    return program(folder, "java", f"echo 'openjdk version \"{version}\" 2024-01-01' >&2")


class Worker:
    """A machine with Spark and Java 17, as far as a task can see; tests take something away."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bin, self.spark = folder / "bin", folder / "spark"
        self._monkeypatch = monkeypatch
        java(self.bin, "17.0.12")
        program(self.spark, "bin/spark-submit")
        jar_of(self.spark / f"jars/spark-core_2.13-{pyspark_version()}.jar", "x")
        self.set(PATH=f"{self.spark / 'bin'}{os.pathsep}{self.bin}", SPARK_HOME=str(self.spark), JAVA_HOME=None)
        self.connect("local[2]")

    def set(self, **variables: str | None) -> None:
        for name, value in variables.items():
            if value is None:
                self._monkeypatch.delenv(name, raising=False)
            else:
                self._monkeypatch.setenv(name, value)

    def connect(self, host: str, **extra: str) -> None:
        said = {"conn_type": "spark", "host": host, "extra": {"deploy-mode": "client", **extra}}
        self.set(AIRFLOW_CONN_SPARK_DEFAULT=json.dumps(said))

    def connector(self, version: str = pyspark_version()) -> None:
        connector_jar(self.spark / "jars", f"spark-sql-kafka-0-10_2.13-{version}.jar")


class ReachedError(Exception):
    """The task has gone on to the cluster."""


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Worker:
    def reach(*_: Any) -> None:
        raise ReachedError

    def start(*_: Any) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", str(tmp_path / "work"))
    monkeypatch.setattr(RemoteLogMetadataHook, "check_cluster", reach)
    monkeypatch.setattr(SparkSubmitHook, "submit", start)
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    return Worker(tmp_path, monkeypatch)


def run(**arguments: Any) -> SegmentRetentionOperator:
    """Run the task until it asks the cluster, and return it."""
    task = SegmentRetentionOperator(task_id="evaluate", **arguments)
    with pytest.raises(ReachedError):
        task.execute(CONTEXT)
    return task


def refusal(**arguments: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        SegmentRetentionOperator(task_id="evaluate", **arguments).execute(CONTEXT)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_where_nothing_is_missing_the_connector_is_fetched(worker: Worker) -> None:
    assert run().packages == CONNECTOR
    assert run(packages="org.example:mine:1").packages == f"org.example:mine:1,{CONNECTOR}"


def test_a_missing_connection_is_not_taken_for_yarn(worker: Worker) -> None:
    worker.set(AIRFLOW_CONN_SPARK_DEFAULT=None)
    assert re.match(
        r"connection 'spark_other' does not exist: create it with type Spark", refusal(conn_id="spark_other")
    )


@pytest.mark.parametrize("conn_id", ["", 5, None])
def test_a_connection_without_a_name_is_refused_when_the_file_is_parsed(conn_id: Any) -> None:
    with pytest.raises(ConfigurationError, match="conn_id must be a text"):
        SegmentRetentionOperator(task_id="evaluate", conn_id=conn_id)


@pytest.mark.parametrize("host", ["", "mesos://host:5050", "loca", "local[", "host"])
def test_a_master_that_spark_does_not_know(worker: Worker, host: str) -> None:
    worker.connect(host)
    assert re.match(
        r"connection 'spark_default': its master is '.*'; its host must be local, local\[2\], spark:", refusal()
    )


@pytest.mark.parametrize(
    "host",
    ["local", "local[*]", "local[2,3]", "local-cluster[1,1,1024]", "spark://a:7077,b:7077", "k8s://https://c:443"],
)
def test_masters_that_spark_knows(host: str, worker: Worker) -> None:
    SparkHere("spark_default", host, "spark-submit", dict(os.environ)).require_usable()


def test_yarn_needs_its_configuration(worker: Worker) -> None:
    worker.connect("yarn")
    assert "neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set" in refusal()
    run(env_vars={"HADOOP_CONF_DIR": "/etc/hadoop"})
    worker.set(YARN_CONF_DIR="/etc/hadoop")
    run()


def test_what_the_hook_does_not_take_names_the_connection(worker: Worker) -> None:
    worker.connect("local", **{"spark-home": "/opt/spark"})
    assert re.match("connection 'spark_default': The `spark-home` extra is not allowed", refusal())
    worker.connect("local", **{"rest-port": "many"})
    assert re.match("connection 'spark_default': .*many", refusal())


def test_spark_submit_is_missing(worker: Worker) -> None:
    worker.set(PATH=str(worker.bin))
    assert re.match("spark-submit is not found on the PATH of this task: add the bin folder", refusal())
    run(spark_binary=str(worker.spark / "bin/spark-submit"))


def test_a_home_that_holds_no_spark(worker: Worker, tmp_path: Path) -> None:
    worker.set(SPARK_HOME=str(tmp_path))
    assert re.match("SPARK_HOME is '.*', which has no folder jars: set it to the folder of a Spark", refusal())


def without_java(worker: Worker) -> None:
    (worker.bin / "java").unlink()


def with_a_wrong_home(worker: Worker) -> None:
    worker.set(JAVA_HOME="/opt/no-java")


def with_an_old_java(worker: Worker) -> None:
    java(worker.bin, "11.0.2")


def with_a_very_old_java(worker: Worker) -> None:
    java(worker.bin, "1.8.0_292")


def with_a_broken_java(worker: Worker) -> None:
    program(worker.bin, "java", "exit 3")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (without_java, "neither JAVA_HOME nor PATH has one: install it on the worker and set JAVA_HOME"),
        (with_a_wrong_home, "JAVA_HOME is '/opt/no-java', which has no bin/java: install it"),
        (with_an_old_java, "is Java 11: set JAVA_HOME to the folder of a newer one"),
        (with_a_very_old_java, "is Java 8: set JAVA_HOME"),
        (with_a_broken_java, r"is no Java that tells its version \(exit status 3\): set JAVA_HOME"),
    ],
)
def test_java_is_missing_or_too_old(worker: Worker, change: Callable[[Worker], None], said: str) -> None:
    change(worker)
    assert re.match(f"Spark needs Java 17 or newer, and .*{said}", refusal())


def test_the_java_home_of_the_job_counts(worker: Worker, tmp_path: Path) -> None:
    java(worker.bin, "11")
    java(tmp_path / "jdk/bin", "21.0.1")
    run(env_vars={"JAVA_HOME": str(tmp_path / "jdk")})


def test_what_sparks_own_script_may_set_is_not_missed(worker: Worker) -> None:
    worker.connect("yarn")
    without_java(worker)
    program(worker.spark, "conf/spark-env.sh")
    run()
    worker.set(SPARK_CONF_DIR=str(worker.bin))
    assert "neither HADOOP_CONF_DIR" in refusal()
    program(worker.bin, "spark-env.sh")
    run()


def test_a_spark_of_another_version(worker: Worker) -> None:
    (worker.spark / f"jars/spark-core_2.13-{pyspark_version()}.jar").unlink()
    jar_of(worker.spark / "jars/spark-core_2.12-3.5.1.jar", "x")
    said = refusal()
    assert re.match(rf".*/spark is Spark 3\.5\.1, and PySpark {pyspark_version()} is installed: set SPARK_HOME", said)
    assert said.endswith(f"for there is no pyspark-client 3.5.1; {OF_ITS_OWN}")
    (worker.spark / "jars/spark-core_2.12-3.5.1.jar").rename(worker.spark / "jars/spark-core_2.13-4.9.9.jar")
    assert refusal().endswith("or install pyspark and pyspark-client 4.9.9")


def test_a_vendors_spark_is_taken_by_its_numbers_and_its_scala(worker: Worker) -> None:
    jars = worker.spark / "jars"
    (jars / f"spark-core_2.13-{pyspark_version()}.jar").rename(jars / f"spark-core_2.14-{pyspark_version()}-amzn-1.jar")
    assert run().packages == f"org.apache.spark:spark-sql-kafka-0-10_2.14:{pyspark_version()}"


def test_pysparks_own_spark_is_found_without_a_home(worker: Worker) -> None:
    worker.set(PATH=f"{Path(sys.executable).parent}{os.pathsep}{worker.bin}", SPARK_HOME=None)
    here = SparkHere("spark_default", "local", "spark-submit", dict(os.environ))
    assert here.home is not None
    assert here.home.name == "pyspark"
    here.require_one_version()


def test_what_holds_the_connector_is_left_as_it_is(worker: Worker, tmp_path: Path) -> None:
    uber = connector_jar(tmp_path)
    other = jar_of(tmp_path / "other.jar", "x")
    for given in (uber, f"file://{uber}", f"{other}, {uber}", str(tmp_path / "*.jar"), "hdfs://cluster/unseen.jar"):
        task = run(jars=given)
        assert (task.jars, task.packages) == (given, None)
    assert run(jars=other, packages=CONNECTOR).packages == CONNECTOR
    assert run(conf={"spark.jars.packages": CONNECTOR}).packages is None
    assert run(conf={"spark.jars": uber}).packages is None
    worker.connector()
    assert (run(jars=other).packages, run().packages) == (None, None)


def test_jars_that_are_not_there(worker: Worker, tmp_path: Path) -> None:
    for missing in ("/opt/jars/a.jar", "file:///opt/jars/a.jar", f"{tmp_path}/jars/*.jar"):
        assert re.match(
            "jars names '.*', and there is no such file on this machine: .*correct it", refusal(jars=missing)
        )
    broken = tmp_path / "broken.jar"
    broken.write_bytes(b"no zip")
    assert re.match(
        r"jars names '.*broken.jar', which is no jar that can be read \(BadZipFile\)", refusal(jars=str(broken))
    )


def test_jars_without_the_connector(worker: Worker, tmp_path: Path) -> None:
    other = jar_of(tmp_path / "other.jar", "x")
    said = refusal(jars=other)
    assert said.startswith(f"jars '{other}' do not hold Spark's Kafka connector: add the jars of {CONNECTOR}")
    assert "rlmm_spark_jars" in said


def test_a_connector_of_another_version(worker: Worker, tmp_path: Path) -> None:
    name = "spark-sql-kafka-0-10_2.13-3.5.1.jar"
    wrong = f"{name} is of another version than PySpark {pyspark_version()}, and both must be of one: take {CONNECTOR}"
    assert refusal(jars=connector_jar(tmp_path, name)) == f"jars: {wrong}"
    old = "org.apache.spark:spark-sql-kafka-0-10_2.12:3.5.1"
    assert refusal(packages=f"org.example:mine:1,{old}").startswith(f"packages: {old} is of another version")
    worker.connector("3.5.1")
    assert refusal() == f"{worker.spark}/jars: {wrong}"


def test_what_no_repository_has_is_one_line_of_many() -> None:
    output = """
        :: problems summary ::
        ==== central: tried
          https://repo1.maven.org/maven2/org/apache/spark/spark-sql-kafka-0-10_2.13/4.0.0/x.jar
        Exception in thread "main" java.lang.RuntimeException: [unresolved dependency: org.apache.spark#x;4.0.0: not found]
        \tat org.apache.spark.deploy.SparkSubmitUtils
    """
    why = why_not_fetched(output)
    assert why is not None
    assert why.startswith(
        "Spark's packages cannot be fetched (unresolved dependency: org.apache.spark#x;4.0.0: not found): put"
    )
    assert "\n" not in why
    assert "(download failed: org.x#y;1!y.jar)" in str(
        why_not_fetched("RuntimeException: [download failed: org.x#y;1!y.jar]")
    )
    assert why_not_fetched("java.lang.OutOfMemoryError") is None
