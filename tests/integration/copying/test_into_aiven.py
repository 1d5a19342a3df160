# SPDX-License-Identifier: Apache-2.0
"""
A disk copied into the layout of Aiven's plugin over S3, by the command, and handed to a broker with the tests' plugin.

The broker keeps nothing of it on its own disk, is restarted, and serves all records out of our objects.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_rlmm.core.records.records import COPIER_BROKER_ID, TopicIdPartition, kafka_uuid_str
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.storage.aiven_metadata import read_custom_metadata
from airflow_provider_rlmm.core.storage.layouts import AivenLayout
from dev import tiering
from dev.broker import await_condition
from dev.s3 import MotoServer
from dev.s3_tiering import S3Kafka
from tests.integration.copying.adopting import await_all_remote, enable_copying, read_everything
from tests.integration.copying.copies import segments_of
from tests.integration.copying.copy_command import CopyCommand
from tests.integration.copying.world import World, living_topic, make_world, not_copied_topic, snapshot_of
from tests.integration.copying.writing import TIMEOUT_S
from tests.integration.s3_environment import environment_of
from tests.scrub import scrub

pytestmark = [pytest.mark.integration, pytest.mark.copying]

TOPIC = "uncopied"
PREFIX = "kafka/prod-"
LEASE_MS = 4_000
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {"properties": {"rsm.config.chunk.size": "4096"}},
    "zstd": {
        "properties": {"rsm.config.chunk.size": "1500", "rsm.config.compression.enabled": "true"},
        "custom_metadata": ("REMOTE_SIZE", "OBJECT_PREFIX", "OBJECT_KEY"),
    },
}
"""How the plugin is set; brokers tell nobody."""


@dataclass(frozen=True)
class Disk:
    """A broker over S3 with a topic that nobody copies, and a snapshot of its disk."""

    kafka: S3Kafka
    world: World
    snapshot: Path
    home: Path

    @property
    def tip(self) -> TopicIdPartition:
        """What is copied."""
        return self.world.tip

    @property
    def command(self) -> CopyCommand:
        """What copies it into the bucket."""
        return CopyCommand(
            self.kafka, self.home, self.snapshot, TOPIC, ("--lease-ms", str(LEASE_MS)), environment_of(self.kafka)
        )

    def objects(self, segment_id: str) -> set[str]:
        """Return what lies there of a segment: the ends of its keys."""
        return {key.rpartition(".")[2] for key in self.kafka.remote_objects() if segment_id in key}


@contextmanager
def disk_of(tmp_path: Path, **settings: Any) -> Iterator[Disk]:
    with MotoServer(tmp_path / "s3") as server, S3Kafka(server, key_prefix=PREFIX, **settings) as kafka:
        living_topic(kafka)
        not_copied_topic(kafka, TOPIC)
        world = make_world(kafka, TOPIC, kafka.restart)
        yield Disk(kafka, world, snapshot_of(kafka, TOPIC, tmp_path / "snapshot"), tmp_path)


def check_served(disk: Disk, before: dict[str, Any]) -> None:
    """Hand the topic to its broker, take its own segments away, restart it, and see it serve all records from our objects."""
    kafka, tip = disk.kafka, disk.tip
    ours = {s.remote_log_segment_id.id for s in segments_of(kafka, tip) if s.state is S.COPY_SEGMENT_FINISHED}
    enable_copying(kafka, TOPIC)
    disk.world.open_transaction.commit_transaction(TIMEOUT_S)
    disk.world.writer.write(90)
    await_all_remote(kafka, tip)
    kafka.restart()
    after = read_everything(kafka, TOPIC)
    for level, records in before.items():
        assert after[level][: len(records)] == records
    left = {s.remote_log_segment_id.id: s for s in segments_of(kafka, tip) if s.state is S.COPY_SEGMENT_FINISHED}
    assert ours <= left.keys()
    assert {left[i].broker_id for i in ours} == {COPIER_BROKER_ID}
    assert scrub(kafka, layout=AivenLayout(PREFIX)) == []
    tiering.tiering_alive(kafka, "living")


@pytest.mark.parametrize("name", SETTINGS)
def test_a_broker_serves_our_objects_after_its_own_are_gone(tmp_path: Path, name: str) -> None:
    with disk_of(tmp_path, **SETTINGS[name]) as disk:
        before = read_everything(disk.kafka, TOPIC)
        said = disk.command.copy()
        assert (said["segments"] >= 5, said["partitions"][0]["stopped_by"]) == (True, None)
        copied = [s for s in segments_of(disk.kafka, disk.tip) if s.state is S.COPY_SEGMENT_FINISHED]
        for segment in copied:
            assert len(disk.objects(kafka_uuid_str(segment.remote_log_segment_id.id))) == 3
            custom = read_custom_metadata(segment.custom_metadata)
            kept = SETTINGS[name].get("custom_metadata", ())
            assert {f for f in ("remote_size", "object_prefix", "object_key") if getattr(custom, f) is not None} == {
                f.lower() for f in kept
            }
        check_served(disk, before)


@pytest.mark.parametrize("objects", [0, 1, 2, 3])
def test_a_command_that_is_killed_between_two_objects_is_taken_back_and_goes_on(tmp_path: Path, objects: int) -> None:
    with disk_of(tmp_path, **SETTINGS["zstd"]) as disk:
        before = read_everything(disk.kafka, TOPIC)
        known = disk.kafka.remote_objects().keys()
        command = replace(disk.command, options=(*disk.command.options, "--bytes-per-second", "20000"))
        process = command.start_copying()
        await_condition(
            lambda: len(disk.kafka.remote_objects().keys() - known) >= objects, "objects are there", 120, 0.01
        )
        process.send_signal(signal.SIGKILL)
        process.communicate()
        disk.command.copy_after_the_lease()
        states = {s.state for s in segments_of(disk.kafka, disk.tip)}
        assert states <= {S.COPY_SEGMENT_FINISHED, S.DELETE_SEGMENT_FINISHED}
        check_served(disk, before)
