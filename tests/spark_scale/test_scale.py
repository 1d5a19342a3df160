# SPDX-License-Identifier: Apache-2.0
"""
The job as it is really run, at the size of life and with Spark's default settings.

Its rows are those of the scalar rules, which go record by record: on this machine alone, and on a cluster that loses a
worker in the middle of the job.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from airflow_provider_rlmm.core.generations.manifest import Generation
from airflow_provider_rlmm.core.generations.store import GenerationStore
from airflow_provider_rlmm.core.plans.plan import PLAN_COLUMNS, PlanSummary
from airflow_provider_rlmm.core.plans.plan_files import read_plan
from airflow_provider_rlmm.core.world.cluster_state import ClusterState, ListedTopic
from airflow_provider_rlmm.features.retention.rules import EvaluationLimits
from airflow_provider_rlmm.features.retention.spark.columns import KINDS
from airflow_provider_rlmm.features.retention.spark.executor.frame_rows import segment_rows
from airflow_provider_rlmm.features.retention.spark.package import build_py_files
from dev import ensure_spark_jars, tiering
from dev.broker import LocalKafka, await_condition
from tests.spark_scale.standalone import StandaloneSpark, lean_python
from tests.spark_scale.topics import MIN_AGE, NOW, LargeTopic, mixed_topic, skewed_topic
from tests.unit.features.retention.reference import Expected, expected_rows, in_order

pytestmark = [pytest.mark.scale, pytest.mark.spark, pytest.mark.integration, pytest.mark.timeout(7200)]

JOB = Path(__file__).parents[2] / "spark_jobs" / "segment_retention.py"
PARTITIONS = 50
"""What Kafka makes of a metadata topic where nobody names a number."""
RECORDS, LARGEST_USER_PARTITION = 1_250_000, 500_000
UNFINISHED = 0.8
SECONDS = 3_000


@dataclass
class Scene:
    """A large topic on a real broker, of which the broker itself knows nothing."""

    kafka: LocalKafka
    name: str
    topic: LargeTopic
    written: LargeTopic

    @property
    def state(self) -> ClusterState:
        (topic_id,) = [i for name, i in tiering.topic_ids(self.kafka).items() if name == self.name]
        metadata_topic = ListedTopic(topic_id, self.name, -1, -1, {})
        return ClusterState(self.kafka.cluster_id, NOW - 600, (*self.topic.listed, metadata_topic))

    @cached_property
    def expected(self) -> Expected:
        """What there must be, by the scalar serde, histories and rules."""
        return self.expected_of(self.topic)

    def expected_of(self, topic: LargeTopic) -> Expected:
        return expected_rows(topic.with_offsets(), PARTITIONS, self.state, EvaluationLimits(NOW, MIN_AGE))

    def produce(self, until: LargeTopic) -> None:
        """Write what was not written yet."""
        # A request that a busy broker answers too late is sent again: a whole metadata partition was there three times.
        settings = {"linger.ms": "50", "queue.buffering.max.messages": "1000000", "enable.idempotence": "true"}
        producer = Producer(self.kafka.client_config(**settings))
        for partition, values in enumerate(until.records):
            for key, value in values[len(self.written.records[partition]) :]:
                while True:
                    try:
                        producer.produce(self.name, value=value, key=key, partition=partition)
                        break
                    except BufferError:
                        producer.poll(0.1)
            producer.poll(0)
        assert producer.flush(300) == 0
        self.written = until

    def arguments(self, folder: Path, output: Path, data_set: Path) -> list[str]:
        (folder / "cluster_state.json").write_text(self.state.to_json())
        given = {
            "--bootstrap-servers": self.kafka.bootstrap_servers,
            "--topic": self.name,
            "--cluster-state": str(folder / "cluster_state.json"),
            "--output": str(output),
            "--data-set": str(data_set),
            "--plan-id": output.name,
            "--now-ms": str(NOW),
        }
        return [word for pair in given.items() for word in pair]


@pytest.fixture(scope="module")
def kafka() -> Iterator[LocalKafka]:
    with LocalKafka() as kafka:
        yield kafka


def scene_of(kafka: LocalKafka, name: str, topic: LargeTopic) -> Scene:
    new = NewTopic(name, PARTITIONS, 1, config={"retention.ms": "-1"})
    admin = AdminClient(kafka.client_config())
    admin.create_topics([new])[name].result(30)
    await_condition(lambda: name in tiering.topic_ids(kafka), f"{name} is there", 30)
    nothing = LargeTopic([[] for _ in range(PARTITIONS)], ())
    return Scene(kafka, name, topic, nothing)


@pytest.fixture(scope="module")
def mixed(kafka: LocalKafka, scale: float) -> Scene:
    """Bad, keyed and misrouted records among those of forty topics."""
    return scene_of(kafka, "mixed", mixed_topic(int(RECORDS * scale), PARTITIONS))


@pytest.fixture(scope="module")
def skewed(kafka: LocalKafka, scale: float) -> Scene:
    """One user partition with almost all segments."""
    return scene_of(kafka, "skewed", skewed_topic(int(LARGEST_USER_PARTITION / UNFINISHED * scale), PARTITIONS))


def start(folder: Path, arguments: list[str], *options: str) -> subprocess.Popen[bytes]:
    jars = ",".join(str(jar) for jar in sorted(ensure_spark_jars().glob("*.jar")))
    command = [
        str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
        *("--py-files", str(build_py_files(folder / "py")), "--jars", jars, "--conf", "spark.ui.enabled=false"),
        # As the operator does: the driver runs what Airflow's task runs.
        *("--conf", f"spark.pyspark.driver.python={sys.executable}"),
        *options,
        *(str(JOB), *arguments),
    ]
    # Neither the working directory nor PYTHONPATH leads to the package: the zip is all that the job has.
    settings = {"SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": ""}
    with (folder / "job.log").open("ab") as out:
        return subprocess.Popen(command, cwd=folder, env=os.environ | settings, stdout=out, stderr=out)


def run_locally(folder: Path, arguments: list[str]) -> str:
    process = start(folder, arguments, "--master", "local[2]", "--conf", f"spark.pyspark.python={sys.executable}")
    try:
        status = process.wait(SECONDS)
    finally:
        process.kill()
    log = (folder / "job.log").read_text()
    assert status == 0, log[-5_000:]
    return log


def require_equal(scene: Scene, expected: Expected, output: Path, data_set: Path) -> tuple[PlanSummary, Generation]:
    """Compare each row of the data set and of the plan with what must be there."""
    store = GenerationStore(str(data_set))
    generation = store.read(store.numbers()[0])
    batches = (segment_rows(store.root, numbered, len(generation.parts), KINDS) for numbered in generation.known)
    found = pa.Table.from_batches([batch for some in batches for batch in some])
    rows = {
        kind: found.filter(pa.compute.equal(found["kind"], kind)) for kind in ("segment", "unresolved", "quarantined")
    }
    segments = in_order(expected.segments)
    require_same_rows(rows["segment"], segments)
    key = ("metadata_partition", "topic_id", "topic", "partition", "segment_id", "event_offset")
    assert sorted(zip(*(rows["unresolved"][name].to_pylist() for name in key), strict=True)) == sorted(
        expected.unresolved
    )
    places = (rows["quarantined"][name].to_pylist() for name in ("metadata_partition", "event_offset"))
    assert sorted(zip(*places, strict=True)) == expected.quarantined

    summary = read_plan(str(output))
    due = [row | {"reason": row["reason"] or "ORPHANED"} for row in segments if row["reason"] or row["may_be_orphaned"]]
    names = [name for name, _ in PLAN_COLUMNS]
    planned = [pq.read_table(output / file.name) for _, file in sorted(summary.files.items())]
    require_same_rows(pa.concat_tables(planned).select(names), due)
    assert summary.known.segments == len(segments)
    return summary, generation


def require_same_rows(found: pa.Table, expected: list[dict[str, Any]]) -> None:
    """Compare by columns, each with what the same column of the found ones may hold."""
    assert found.num_rows == len(expected)
    for name in found.schema.names:
        if name in expected[0]:
            column = pa.chunked_array([pa.array([row[name] for row in expected], found.schema.field(name).type)])
            assert found[name].equals(column), name


def test_a_mixed_topic_and_then_what_is_new_of_it(mixed: Scene, tmp_path: Path, scale: float) -> None:
    """The second run reads a hundredth, and comes to the same as one that reads all."""
    output, data_set = tmp_path / "plan", tmp_path / "data"
    arguments = mixed.arguments(tmp_path, output, data_set)
    first = mixed.topic.until(0.99)
    mixed.produce(first)
    run_locally(tmp_path, arguments)
    expected = mixed.expected_of(first)
    assert {row["reason"] for row in expected.segments} == {
        None, "DANGLING", "LOG_START_OFFSET", "RETENTION_MS", "RETENTION_BYTES"
    }  # fmt: skip
    assert {row["exact"] for row in expected.segments if row["may_be_orphaned"]} == {True, False}
    assert expected.unresolved
    assert expected.quarantined
    summary, _ = require_equal(mixed, expected, output, data_set)
    assert (summary.job["records"], summary.job["read_on_from"]) == (first.size, None)
    mixed.produce(mixed.topic)
    log = run_locally(tmp_path, arguments)
    summary, generation = require_equal(mixed, mixed.expected, output, data_set)
    assert (generation.number, summary.job["records"]) == (2, mixed.topic.size - first.size)
    assert "since generation 1" in log
    say(tmp_path)


def test_one_user_partition_with_almost_all_segments(skewed: Scene, tmp_path: Path, scale: float) -> None:
    output, data_set = tmp_path / "plan", tmp_path / "data"
    skewed.produce(skewed.topic)
    run_locally(tmp_path, skewed.arguments(tmp_path, output, data_set))
    summary, _ = require_equal(skewed, skewed.expected, output, data_set)
    largest = summary.job["skew"]["user_partition"]["segments"]
    assert largest >= 0.95 * LARGEST_USER_PARTITION * scale
    assert {"LOG_START_OFFSET", "RETENTION_BYTES", "DANGLING"} <= set(summary.by_reason)
    say(tmp_path)


def test_a_cluster_that_loses_a_worker_in_mid_job(mixed: Scene, tmp_path: Path) -> None:
    mixed.produce(mixed.topic)
    output, data_set = tmp_path / "plan", tmp_path / "data"
    arguments = mixed.arguments(tmp_path, output, data_set)
    python = lean_python(tmp_path / "python")
    with StandaloneSpark(tmp_path, python) as cluster:
        options = ("--master", cluster.url, "--conf", f"spark.pyspark.python={python}", "--executor-memory", "2g")
        job = start(tmp_path, arguments, *options)
        try:
            await_condition(lambda: job.poll() is not None or files_in(data_set), "a task has written its file", 600)
            cluster.kill(0)
            assert job.poll() is None, (tmp_path / "job.log").read_text()[-5_000:]
            written = len(files_in(data_set))
            assert job.wait(SECONDS) == 0, (tmp_path / "job.log").read_text()[-5_000:]
        finally:
            job.kill()
    assert written < PARTITIONS, "tasks were still to run"
    log = (tmp_path / "job.log").read_text()
    assert "Lost executor" in log
    _, generation = require_equal(mixed, mixed.expected, output, data_set)
    assert (generation.number, len(generation.parts)) == (1, PARTITIONS)
    assert "executors and driver differ" not in log
    say(tmp_path)


def files_in(data_set: Path) -> list[Path]:
    return list(data_set.glob("segments/generation=1/metadata_partition=*/*.parquet"))


def say(folder: Path) -> None:
    """Print what the job said of its own work."""
    lines = (folder / "job.log").read_text().splitlines()
    print("\n", *(line for line in lines if "segment_retention INFO" in line), sep="\n")  # noqa: T201
