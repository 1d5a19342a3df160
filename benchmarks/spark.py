# SPDX-License-Identifier: Apache-2.0
"""The Spark job in a warm session with Spark's default settings, and bare scans of the same topic."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from airflow_provider_rlmm.core.base.clock import system_clock
from airflow_provider_rlmm.core.log.kafka.admin import KafkaClusterTopics
from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
from airflow_provider_rlmm.core.world.cluster_look import observe_cluster
from airflow_provider_rlmm.features.retention.rules import EvaluationLimits
from airflow_provider_rlmm.features.retention.spark.cluster import verify_spark_cluster
from airflow_provider_rlmm.features.retention.spark.generations import tasks_for
from airflow_provider_rlmm.features.retention.spark.java_client import BOOTSTRAP_SERVERS
from airflow_provider_rlmm.features.retention.spark.package import build_py_files
from airflow_provider_rlmm.features.retention.spark.source import MetadataReader, find_range
from benchmarks.measuring import Effort, effort
from dev import ensure_spark_jars
from dev.spark_job import load_job

CORES = 2


class SparkJob:
    """
    The job on one topic.

    :param spark: the session.
    :param config: clients' properties.
    :param topic: the metadata topic.
    :param folder: for plans and data sets.
    """

    def __init__(self, spark: Any, config: KafkaClientConfig, topic: str, folder: Path) -> None:
        self._spark, self._config, self._topic, self._folder = spark, config, topic, folder
        self._properties = {BOOTSTRAP_SERVERS: str(config.properties["bootstrap.servers"])}
        self._job = load_job()
        self._plans = 0
        folder.mkdir()

    def data_set(self, name: str) -> Path:
        """Return the folder of a data set."""
        return self._folder / name

    def run(self, data_set: Path) -> tuple[Effort, int]:
        """
        Make a plan, from the listing of the cluster to the written summary, as the DAG's task does.

        :param data_set: folder of the generations: what an earlier run has left there is not read again.
        :return: what it took, and the records that were read.
        """
        self._plans += 1
        plan = self._folder / f"plan-{self._plans}"
        records = 0

        def work() -> None:
            nonlocal records
            with closing(KafkaClusterTopics(self._config, self._topic)) as topics:
                state = observe_cluster(topics, self._topic, system_clock)
            words = {
                "--bootstrap-servers": self._properties[BOOTSTRAP_SERVERS],
                "--topic": self._topic,
                "--cluster-state": "",
                "--output": plan.as_uri(),
                "--data-set": data_set.as_uri(),
                "--plan-id": plan.name,
            }
            arguments = self._job.parse_arguments([word for pair in words.items() for word in pair])
            limits = EvaluationLimits(system_clock())
            summary = self._job.make_plan(self._spark, arguments, state, limits, self._properties)
            records = summary.job["records"]

        return self._effort(work), records

    def scan(self) -> Effort:
        """Read the topic with the connector's defaults, and throw it away."""
        options = {"kafka.bootstrap.servers": self._properties[BOOTSTRAP_SERVERS], "subscribe": self._topic}
        frame = self._spark.read.format("kafka").options(**options, startingOffsets="earliest").load()
        return self._effort(lambda: _throw_away(frame))

    def tuned_scan(self) -> Effort:
        """Read the topic with the consumers' settings that the job has, and throw it away."""
        reader = self._reader()
        frame = reader.read(reader.topic_range.begin)
        return self._effort(lambda: _throw_away(frame))

    def python_scan(self) -> Effort:
        """Read the topic as the job does, and hand each record to Python and back: what that costs at least."""
        reader = self._reader()
        records = reader.read(reader.topic_range.begin)
        frame = records.coalesce(tasks_for(reader, reader.topic_range.begin)).mapInArrow(_unchanged, records.schema)
        return self._effort(lambda: _throw_away(frame))

    def _reader(self) -> MetadataReader:
        with closing(KafkaClusterTopics(self._config, self._topic)) as topics:
            cluster = verify_spark_cluster(self._spark, self._properties, self._topic, topics.cluster_id())
        return MetadataReader(self._spark, cluster, find_range(self._spark, cluster, self._topic))

    def _effort(self, work: Callable[[], object]) -> Effort:
        return effort(work, lambda: _cpu_seconds(self._spark))


def _unchanged(batches: Iterator[Any]) -> Iterator[Any]:
    yield from batches


def _cpu_seconds(spark: Any) -> float:
    """Return the processor time that this process, the session's JVM and its Python workers have taken, s."""
    jvm = psutil.Process(spark.sparkContext._gateway.proc.pid)
    taken = time.process_time()
    for process in (jvm, *jvm.children(recursive=True)):
        # What a worker that has just ended took is its parent's by then.
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            taken += times.user + times.system + times.children_user + times.children_system
    return taken


def _throw_away(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


@contextmanager
def session(folder: Path) -> Iterator[Any]:
    """
    Open a session on this machine; nothing is set but what ``spark-submit`` gives the job, and that consumers go with it.

    :param folder: for the package's zip.
    """
    os.environ |= {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    from pyspark.sql import SparkSession

    # A submitted job ends with its consumers. Here dozens follow each other, and Spark keeps those of each for five minutes,
    # with what they have read: together they fill the heap.
    kept = {
        f"spark.kafka.consumer.{cache}.{name}": "5s"
        for cache in ("cache", "fetchedData.cache")
        for name in ("timeout", "evictorThreadRunInterval")
    }
    jars = ",".join(str(jar) for jar in sorted(ensure_spark_jars().glob("*.jar")))
    (
        SparkSession.builder.master(f"local[{CORES}]")
        .config("spark.ui.enabled", "false")
        .config("spark.submit.pyFiles", str(build_py_files(folder)))
        .config("spark.jars", jars)
        .config(map=kept)
        .getOrCreate()
    )
    spark = load_job().open_session()
    logging.getLogger("py4j").setLevel(logging.ERROR)
    try:
        yield spark
    finally:
        spark.stop()
