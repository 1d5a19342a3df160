# SPDX-License-Identifier: Apache-2.0
"""The rows of living topics that the job calls certain, beside what a real leader deletes when it passes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from airflow_provider_rlmm.cli.main import run
from airflow_provider_rlmm.core.plans.plan import PlanSummary
from airflow_provider_rlmm.core.plans.plan_files import read_plan
from airflow_provider_rlmm.features.retention.spark.leaders_again import BEGINS_ELSEWHERE, LEADS_ANEW
from airflow_provider_rlmm.features.retention.told_leaders import NOT_KEPT
from dev import tiering
from dev.broker import LocalKafka, await_condition
from tests.spark.judged_cluster import JOB
from tests.spark.test_segment_retention import submit

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.rare, pytest.mark.timeout(1800)]

HOUR_MS = 3_600_000
OLD, SEGMENTS = 3, 7
"""Those of the first leader, and all that are written: the last one is rolled for its age."""
TOPICS = ("timed", "trimmed", "sized")


@dataclass
class Leading:
    """A broker, what its metadata topic says, and its topics by name."""

    kafka: LocalKafka
    tail: tiering.MetadataTail
    topic_ids: dict[str, UUID]

    def segments(self, topic: str) -> dict[UUID, int]:
        """Segments that are copied and not deleted: id → end offset, inclusive."""
        self.tail.catch_up()
        return self.tail.finished(self.topic_ids[topic], 0)


@contextmanager
def broker(folder: Path, topic_ids: dict[str, UUID], pass_ms: int) -> Iterator[Leading]:
    """Return the broker of a folder, whose leaders pass every so often."""
    properties = {"remote.log.manager.task.interval.ms": str(pass_ms)}
    with LocalKafka(folder, properties=properties) as kafka, tiering.MetadataTail(kafka) as tail:
        yield Leading(kafka, tail, topic_ids)


def fill(folder: Path) -> tuple[dict[str, UUID], dict[str, dict[UUID, int]]]:
    """
    Copy what two leaders have written, the first hours ago; return the ids of the topics, and their segments.

    Nothing that the leaders know takes anything of it yet. The first one has copied all of its own before it is stopped: a
    copy that it does not finish leaves in doubt what a leader deletes.
    """
    with LocalKafka(folder) as kafka:
        topic_ids = {topic: tiering.create_tiered_topic(kafka, topic, 1) for topic in TOPICS}
        for topic in TOPICS:
            write(kafka, topic, [3 * HOUR_MS] * OLD)
        with tiering.MetadataTail(kafka) as tail:
            copied(Leading(kafka, tail, topic_ids), OLD)
    with broker(folder, topic_ids, 500) as leading:
        for topic in TOPICS:
            write(leading.kafka, topic, [0] * (SEGMENTS - OLD))
        return topic_ids, copied(leading, SEGMENTS)


def copied(leading: Leading, count: int) -> dict[str, dict[UUID, int]]:
    """Wait until so many segments of each topic are copied, and return them."""

    def found(topic: str) -> dict[UUID, int] | None:
        segments = leading.segments(topic)
        return segments if len(segments) >= count else None

    return {topic: await_condition(partial(found, topic), f"{topic} is copied", 90) for topic in TOPICS}


def limit(kafka: LocalKafka, before: dict[str, dict[UUID, int]]) -> None:
    """Let there be something to delete in each topic."""
    admin = AdminClient(kafka.client_config())
    for topic, name, value in (
        ("timed", "retention.ms", 2 * HOUR_MS),
        ("sized", "retention.bytes", 2 * tiering.SEGMENT_BYTES),
    ):
        entry = ConfigEntry(name, str(value), incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(30)
    cut = TopicPartition("trimmed", 0, sorted(before["trimmed"].values())[1] + 1)
    admin.delete_records([cut])[cut].result(30)


def write(kafka: LocalKafka, topic: str, ages_ms: list[int]) -> None:
    """Fill a segment for each age, with records that are that old."""
    now_ms = int(time.time() * 1000)
    producer = Producer(kafka.client_config(linger_ms=0, batch_num_messages=1))
    value = b"x" * (tiering.SEGMENT_BYTES // tiering.RECORDS_PER_SEGMENT - tiering.RECORD_OVERHEAD_BYTES)
    for age_ms in ages_ms:
        for _ in range(tiering.RECORDS_PER_SEGMENT):
            producer.produce(topic, value, b"0", 0, timestamp=now_ms - age_ms)
    assert producer.flush(60) == 0


def listing(folder: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    file = folder / "cluster-state.json"
    assert run(["cluster-state", "--output", str(file)]) == 0
    capsys.readouterr()
    return file


def planned(leading: Leading, folder: Path, name: str, listed: Path) -> tuple[PlanSummary, list[dict[str, Any]]]:
    output = folder / name
    arguments = {
        "bootstrap-servers": leading.kafka.bootstrap_servers, "cluster-state": str(listed), "output": output.as_uri(),
        "plan-id": name, "data-set": (folder / "data").as_uri(),
    }  # fmt: skip
    done = submit(JOB, folder, *(word for key, value in arguments.items() for word in (f"--{key}", value)))
    assert done.returncode == 0, done.stdout
    summary = read_plan(str(output))
    rows = [row for file in summary.files.values() for row in pq.read_table(output / file.name).to_pylist()]
    return summary, rows


def test_what_is_certain_goes_and_nothing_else_where_all_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "kafka"
    topic_ids, before = fill(folder)
    monkeypatch.setenv("RLMM_WORK_URI", str(tmp_path / "work"))
    # Its leaders do not pass again while they are asked.
    with broker(folder, topic_ids, HOUR_MS) as leading:
        monkeypatch.setenv("RLMM_BOOTSTRAP_SERVER", leading.kafka.bootstrap_servers)
        monkeypatch.setenv("RLMM_STORAGE_URI", leading.kafka.remote_dir.as_uri())
        limit(leading.kafka, before)
        # Nobody has ever asked for a lineage.
        summary, rows = planned(leading, tmp_path, "first", listing(tmp_path, capsys))
        assert summary.leaders is not None
        assert summary.leaders.why == {NOT_KEPT: len(TOPICS)}
        assert not any(row["exact"] for row in rows)

        assert run(["retention", "--json"]) in (0, 4)
        capsys.readouterr()
        listed = listing(tmp_path, capsys)
        summary, rows = planned(leading, tmp_path, "second", listed)
        assert before["timed"].keys() <= leading.segments("timed").keys()
    told = summary.leaders
    assert told is not None
    # A busy broker may have been stopped while it copied a segment once more: of that nobody can say "all".
    assert (told.all + told.at_least, told.unresolved) == (3, 0), told
    certain = {t: {UUID(bytes=r["segment_id"]) for r in rows if r["topic"] == t and r["exact"]} for t in TOPICS}
    assert {(row["topic"], row["reason"]) for row in rows} == {
        ("timed", "RETENTION_MS"), ("trimmed", "LOG_START_OFFSET"), ("sized", "RETENTION_BYTES"),
    }  # fmt: skip
    assert told.goes.segments == sum(map(len, certain.values())) == len(rows)
    assert (len(certain["timed"]), len(certain["trimmed"])) == (3, 2)

    with broker(folder, topic_ids, 500) as leading:

        def gone(topic: str) -> set[UUID] | None:
            found = before[topic].keys() - leading.segments(topic).keys()
            return set(found) if certain[topic] <= found else None

        went = {topic: await_condition(partial(gone, topic), f"{topic} is cleaned up", 60) for topic in TOPICS}
        if told.all == 2:
            assert {topic: went[topic] for topic in ("timed", "trimmed")} == {
                t: certain[t] for t in ("timed", "trimmed")
            }
        # What leaders said before they led anew is not believed.
        summary, rows = planned(leading, tmp_path, "third", listed)
        assert summary.leaders is not None
        assert set(summary.leaders.why) <= {LEADS_ANEW, BEGINS_ELSEWHERE}
        assert not any(row["exact"] for row in rows)
