# SPDX-License-Identifier: Apache-2.0
"""What happens between two runs of the job and within one: killed drivers, brokers that restart, a topic that grows."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from airflow_provider_rlmm.features.retention.rules import EvaluationLimits
from dev.broker import LocalKafka, await_condition
from tests.spark_scale.test_scale import (
    PARTITIONS,
    RECORDS,
    SECONDS,
    Scene,
    require_equal,
    run_locally,
    scene_of,
    start,
)
from tests.spark_scale.topics import MIN_AGE, NOW, mixed_topic
from tests.unit.features.retention.reference import expected_rows

pytestmark = [pytest.mark.scale, pytest.mark.spark, pytest.mark.integration, pytest.mark.timeout(7200)]

ROUNDS = 10
COMPARED = (1, 5, 10)
"""Rounds whose rows are compared: to say by the scalar rules what there must be takes longer than the run."""
SMALL = 20_000
"""Records of the topic that gets more partitions."""
LOCAL = ("--master", "local[2]", "--conf", f"spark.pyspark.python={sys.executable}")


@pytest.fixture(scope="module")
def kafka() -> Iterator[LocalKafka]:
    with LocalKafka() as kafka:
        yield kafka


@pytest.fixture(scope="module")
def mixed(kafka: LocalKafka, scale: float) -> Scene:
    """Bad, keyed and misrouted records among those of forty topics."""
    return scene_of(kafka, "mixed", mixed_topic(int(RECORDS * scale), PARTITIONS))


def files_in(data_set: Path) -> set[Path]:
    """Return what tasks of the first generation have written so far."""
    return set(data_set.glob("segments/generation=1/metadata_partition=*/*"))


def said(folder: Path) -> str:
    """Return what the job has said so far."""
    return (folder / "job.log").read_text()


def test_ten_rounds_of_news_come_to_what_one_reading_does(mixed: Scene, tmp_path: Path) -> None:
    output, data_set = tmp_path / "plan", tmp_path / "data"
    arguments = mixed.arguments(tmp_path, output, data_set)
    before = 0
    for number in range(1, ROUNDS + 1):
        topic = mixed.topic.until(number / ROUNDS)
        mixed.produce(topic)
        run_locally(tmp_path, arguments)
        if number in COMPARED:
            summary, generation = require_equal(mixed, mixed.expected_of(topic), output, data_set)
            assert generation.number == number
            read = mixed.topic.until((number - 1) / ROUNDS).size
            assert summary.job["records"] == topic.size - read
        assert topic.size > before
        before = topic.size


def test_a_driver_that_is_killed_leaves_nothing_that_counts(mixed: Scene, tmp_path: Path) -> None:
    mixed.produce(mixed.topic)
    output, data_set = tmp_path / "plan", tmp_path / "data"
    arguments = mixed.arguments(tmp_path, output, data_set)
    job = start(tmp_path, arguments, *LOCAL)
    try:
        await_condition(lambda: job.poll() is not None or files_in(data_set), "a task has written its file", 600)
        assert job.poll() is None, said(tmp_path)[-5_000:]
    finally:
        job.kill()
    job.wait(60)
    left = files_in(data_set)
    assert left
    assert not (output / "summary.json").exists()
    run_locally(tmp_path, arguments)
    _, generation = require_equal(mixed, mixed.expected, output, data_set)
    named = {data_set / "segments" / file.name for part in generation.parts.values() for file in part.files}
    assert all(file.exists() for file in named)
    assert not left & named


def test_a_broker_that_restarts_in_mid_scan_costs_time_and_nothing_else(mixed: Scene, tmp_path: Path) -> None:
    mixed.produce(mixed.topic)
    output, data_set = tmp_path / "plan", tmp_path / "data"
    job = start(tmp_path, mixed.arguments(tmp_path, output, data_set), *LOCAL)
    try:
        await_condition(lambda: job.poll() is not None or files_in(data_set), "a task has written its file", 600)
        read = {file.parent for file in files_in(data_set)}
        mixed.kafka.restart()
        assert job.wait(SECONDS) == 0, said(tmp_path)[-5_000:]
    finally:
        job.kill()
    assert 0 < len(read) < PARTITIONS, "metadata partitions were still to be read"
    require_equal(mixed, mixed.expected, output, data_set)


def test_a_topic_with_more_partitions_than_before_is_read_anew(kafka: LocalKafka, tmp_path: Path) -> None:
    """Where records lie was decided by the number before, so most of them lie elsewhere now: nobody believes those."""
    scene = scene_of(kafka, "grown", mixed_topic(SMALL, PARTITIONS))
    scene.produce(scene.topic)
    output, data_set = tmp_path / "plan", tmp_path / "data"
    arguments = scene.arguments(tmp_path, output, data_set)
    run_locally(tmp_path, arguments)
    require_equal(scene, scene.expected, output, data_set)
    admin = AdminClient(kafka.client_config())
    admin.create_partitions([NewPartitions(scene.name, PARTITIONS + 1)])[scene.name].result(30)
    await_condition(lambda: partitions_of(kafka, scene.name) == PARTITIONS + 1, "the topic has one more", 30)
    log = run_locally(tmp_path, arguments)
    assert "generation 1 is not used: its metadata partitions is" in log
    grown = replace(scene.topic, records=[*scene.topic.records, []])
    limits = EvaluationLimits(NOW, MIN_AGE)
    expected = expected_rows(grown.with_offsets(), PARTITIONS + 1, scene.state, limits)
    assert len(expected.quarantined) > SMALL / 2
    summary, _ = require_equal(scene, expected, output, data_set)
    assert {refusal.kind for refusal in summary.refusals} >= {"QUARANTINED"}


def partitions_of(kafka: LocalKafka, topic: str) -> int:
    """Return how many partitions a topic has."""
    return len(AdminClient(kafka.client_config()).list_topics(topic, timeout=30).topics[topic].partitions)
