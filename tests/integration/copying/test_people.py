# SPDX-License-Identifier: Apache-2.0
"""A disk of a real broker is copied by the command and by the operator, as people do it, and its broker goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_provider_rlmm.cli.exit_codes import ExitCode
from airflow_provider_rlmm.core.base.clock import system_clock
from airflow_provider_rlmm.operators.copying import CopyLogSegmentsOperator
from dev.broker import LocalKafka, await_condition
from dev.roots import expected_root_of
from tests.integration.copying.adopting import alter_of_the_how_to, await_all_remote, read_everything
from tests.integration.copying.copies import check_copies, segment_events
from tests.integration.copying.copy_command import CopyCommand
from tests.integration.copying.uncopied import Uncopied
from tests.integration.copying.writing import Writer, alter_topic, log_start_offset
from tests.integration.operators import connect, context

pytestmark = [pytest.mark.integration, pytest.mark.copying]


def test_the_command_says_what_it_would_copy_and_copies_it(uncopied: Uncopied, tmp_path: Path) -> None:
    command = CopyCommand(uncopied.kafka, tmp_path, uncopied.snapshot, uncopied.tip.topic)

    (planned,) = command.plan()["partitions"]
    assert [segment["start_offset"] for segment in planned["planned"]] == uncopied.expected
    assert segment_events(uncopied.kafka, uncopied.tip) == []
    said = command.copy()

    (copied,) = said["partitions"]
    assert (said["segments"], copied["stopped_by"]) == (len(uncopied.expected), None)
    assert copied["remote_end"] == planned["planned"][-1]["end_offset"] + 1
    assert said["bytes"] == sum(segment["segment_size_in_bytes"] for segment in planned["planned"])
    assert command.copy()["segments"] == 0
    assert list(uncopied.snapshot.parent.glob(".rlmm-snapshot-*")) == []
    uncopied.check_brokers_go_on(uncopied.check_all_copied())


def test_a_disk_that_its_broker_runs_on_is_refused(uncopied: Uncopied, tmp_path: Path) -> None:
    """The lock of a real JVM is seen."""
    running = CopyCommand(uncopied.kafka, tmp_path, uncopied.kafka.log_dir, uncopied.tip.topic)

    with running.start_copying() as process:
        _, errors = process.communicate(timeout=120)

    assert process.returncode == ExitCode.FAILED
    assert "is held by a running broker" in errors
    assert segment_events(uncopied.kafka, uncopied.tip) == []
    assert list(uncopied.kafka.log_dir.parent.glob(".rlmm-snapshot-*")) == []


def test_the_operator_copies_one_segment_first_and_then_the_rest(
    uncopied: Uncopied, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka, topic = uncopied.kafka, uncopied.tip.topic
    connect(monkeypatch, kafka, allow_copy=True, expected_root=expected_root_of(kafka.remote_dir))
    monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", (tmp_path / "work").as_uri())
    disk = str(uncopied.snapshot)

    canary = CopyLogSegmentsOperator(
        task_id="canary", dry_run_only=False, log_dir=disk, topic=topic, limits={"max_segments": 1}
    )
    copy = CopyLogSegmentsOperator(task_id="copy", dry_run_only=False, log_dir=disk, topic=topic, partitions=[0])
    first = canary.execute(context("canary"))
    told = copy.execute(context("all"))

    assert (first["segments"], told["segments"]) == (1, len(uncopied.expected) - 1)
    (document,) = [
        json.loads(path.read_text()) for path in (tmp_path / "work").rglob("copy.json") if "all" in str(path)
    ]
    assert document == {"cluster_id": kafka.cluster_id, **told}
    assert [p["stopped_by"] for p in told["partitions"]] == [None]
    uncopied.check_brokers_go_on(uncopied.check_all_copied())


def test_what_expires_is_waited_for_and_the_alter_that_raises_retention_loses_nothing(
    copying_kafka: LocalKafka, tmp_path: Path
) -> None:
    """Brokers would go on behind the last copy and delete what lies below it, raised retention or not."""
    servers, day_ms, soon_ms = copying_kafka.bootstrap_servers, 86_400_000, 3_000_000

    def write(topic: str) -> None:
        writer = Writer(servers, topic)
        writer.write(210, system_clock() - day_ms + soon_ms)
        writer.write(210)

    uncopied = Uncopied.of(copying_kafka, tmp_path, write, {"retention.ms": str(day_ms)})
    topic = uncopied.tip.topic
    command = CopyCommand(copying_kafka, tmp_path, uncopied.snapshot, topic)

    planned = command.plan(ExitCode.NEEDS_A_PERSON)
    said = command.copy(ExitCode.NEEDS_A_PERSON)
    (copied,) = said["partitions"]
    end = copied["expiring"][-1]["end_offset"] + 1
    assert planned["expiring"] == said["expiring"] == len(copied["expiring"]) >= 2
    assert [s["start_offset"] for s in copied["copied"]] == uncopied.expected[said["expiring"] :]
    waits = (
        "do not enable copying, and do not raise retention.ms or retention.bytes, before the log start offset of "
        f"{topic}-0 is at least {end}"
    )
    assert waits in copied["stopped_by"]
    assert waits in planned["partitions"][0]["stopped_by"]

    # Sooner than the hour that the margin has.
    alter_topic(servers, topic, **{"retention.ms": str(day_ms - 2 * soon_ms)})
    await_condition(lambda: log_start_offset(servers, topic) >= end, f"the leader deletes up to {end}", 60, 0.5)
    assert command.copy()["expiring"] == 0
    left = read_everything(copying_kafka, topic)
    assert {offset for offset, *_ in left["read_uncommitted"]} >= {
        offset for offset, *_ in uncopied.everything["read_uncommitted"] if offset >= end
    }

    alter_topic(servers, topic, **alter_of_the_how_to())
    await_all_remote(copying_kafka, uncopied.tip)
    assert read_everything(copying_kafka, topic) == left
    check_copies(copying_kafka, uncopied.tip)
    assert uncopied.complaints() == []
