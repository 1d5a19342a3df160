# SPDX-License-Identifier: Apache-2.0
"""A clone of a cluster, started on a copy of its disks, writes to the same storage: a scrub of the other one is red."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_rlmm.cli import main as command
from airflow_provider_rlmm.cli.exit_codes import ExitCode
from dev import tiering
from dev.broker import LocalKafka
from dev.roots import expected_root_of

pytestmark = [pytest.mark.integration, pytest.mark.scenarios]

TOPIC = "living"
PARTITIONS = 2
SEGMENTS = 3
AT_ONCE = (
    "--min-unreferenced-ms", "0", "--override", "short_unreferenced_wait",
    "--min-absence-ms", "0", "--override", "short_min_absence", "--max-share", "1",
)  # fmt: skip


@pytest.fixture
def cluster_and_clone(tmp_path: Path) -> Iterator[tuple[LocalKafka, LocalKafka]]:
    """Two brokers with the same ids of cluster and topics, one remote storage, and a log each from the copy on."""
    with LocalKafka(tmp_path / "cluster") as kafka:
        tiering.create_tiered_topic(kafka, TOPIC, PARTITIONS)
        tiering.produce_until_remote(kafka, TOPIC, SEGMENTS)
        kafka.stop()
        shutil.copytree(kafka.log_dir, tmp_path / "clone" / "logs")
        kafka.start()
        clone = LocalKafka(tmp_path / "clone")
        clone.remote_dir, clone.remote_root = kafka.remote_dir, kafka.remote_root
        with clone:
            assert clone.cluster_id == kafka.cluster_id
            yield kafka, clone


def test_a_scrub_takes_nothing_that_a_clone_of_the_cluster_has_written(
    cluster_and_clone: tuple[LocalKafka, LocalKafka], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kafka, clone = cluster_and_clone
    where = (
        "--bootstrap-server", kafka.bootstrap_servers, "--storage", kafka.remote_dir.as_uri(),
        "--expected-root", expected_root_of(kafka.remote_dir),
    )  # fmt: skip
    before = set(kafka.remote_objects())
    tiering.produce_until_remote(clone, TOPIC, 2 * SEGMENTS)
    theirs = set(kafka.remote_objects()) - before
    assert len(theirs) >= PARTITIONS * SEGMENTS
    for _ in range(2):
        capsys.readouterr()
        work = ("--work-dir", str(tmp_path / "work"), "--cluster-id", kafka.cluster_id, "--json")
        assert command.run(["scrub", "--execute", *where, *work, *AT_ONCE]) == ExitCode.NEEDS_A_PERSON
        said = json.loads(capsys.readouterr().out)
        assert said["classes"]["UNREFERENCED"]["objects"] == len(theirs)
        assert (said["planned"]["objects"], said["deletion"]["deleted"]) == (0, {})
        (unnamed,) = said["unnamed"]
        assert (unnamed["topic"], unnamed["objects"], unnamed["bars"]) == (TOPIC, len(theirs), True)
        assert "exists in the cluster as 'living'" in unnamed["why"]
    assert theirs <= set(kafka.remote_objects())
    for broker in (kafka, clone):
        assert sorted(tiering.consume_from_beginning(broker, TOPIC)) == list(range(PARTITIONS))
