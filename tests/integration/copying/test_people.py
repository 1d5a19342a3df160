# SPDX-License-Identifier: Apache-2.0
"""A disk of a real broker is copied by the command and by the operator, as people do it, and its broker goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_rlmm.operators.copying import CopyLogSegmentsOperator
from dev.broker import LocalKafka
from tests.integration.copying.copies import segment_events
from tests.integration.copying.copy_command import CopyCommand
from tests.integration.copying.our_copier import expected_root_of
from tests.integration.copying.uncopied import Uncopied
from tests.integration.copying.world import living_topic
from tests.integration.copying.writing import Writer
from tests.integration.operators import connect, context

pytestmark = [pytest.mark.integration, pytest.mark.copying]


@pytest.fixture(scope="module")
def kafka() -> Iterator[LocalKafka]:
    with LocalKafka() as broker:
        living_topic(broker)
        yield broker


@pytest.fixture
def uncopied(kafka: LocalKafka, tmp_path: Path) -> Uncopied:
    return Uncopied.of(kafka, tmp_path, lambda topic: Writer(kafka.bootstrap_servers, topic).write(420))


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


def test_the_operator_copies_one_segment_first_and_then_the_rest(
    uncopied: Uncopied, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka, topic = uncopied.kafka, uncopied.tip.topic
    connect(monkeypatch, kafka, allow_copy=True, expected_root=expected_root_of(kafka.remote_dir))
    monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", (tmp_path / "work").as_uri())
    disk = str(uncopied.snapshot)

    canary = CopyLogSegmentsOperator(task_id="canary", log_dir=disk, topic=topic, limits={"max_segments": 1})
    copy = CopyLogSegmentsOperator(task_id="copy", log_dir=disk, topic=topic, partitions=[0])
    first = canary.execute(context("canary"))
    told = copy.execute(context("all"))

    assert (first["segments"], told["segments"]) == (1, len(uncopied.expected) - 1)
    (document,) = [
        json.loads(path.read_text()) for path in (tmp_path / "work").rglob("copy.json") if "all" in str(path)
    ]
    assert document == {"cluster_id": kafka.cluster_id, **told}
    assert [p["stopped_by"] for p in told["partitions"]] == [None]
    uncopied.check_brokers_go_on(uncopied.check_all_copied())
