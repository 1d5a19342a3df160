# SPDX-License-Identifier: Apache-2.0
"""Random histories of Kafka's own log: of the directory that it leaves, what its copier would say is said here, too."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_rlmm.core.segments.lineage import LeaderEpochCheckpoint
from airflow_provider_rlmm.features.copying.log_directory.disk import LogDisk
from airflow_provider_rlmm.features.copying.log_directory.log_end import end_without_leader
from airflow_provider_rlmm.features.copying.log_directory.names import TopicPartition
from airflow_provider_rlmm.features.copying.log_directory.partition import LogDirectory
from airflow_provider_rlmm.features.copying.log_directory.verification import verify_segment
from dev.peers import SHORT_LIFE, peer_command
from tests.examples import examples
from tests.log_directories import TOPIC_ID, HandmadeDisk, checkpoint

HISTORIES = examples(100)
ORDERS = TopicPartition("orders", 0)


@pytest.fixture(scope="module")
def peer() -> Iterator[subprocess.Popen[str]]:
    command = peer_command("LogDirectoryPeer", options=SHORT_LIFE)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.communicate()


def live(peer: subprocess.Popen[str], seed: int, disk: HandmadeDisk) -> dict[str, Any]:
    """Let a log live, and write the checkpoints of its disk as a broker does."""
    assert peer.stdin
    assert peer.stdout
    peer.stdin.write(json.dumps({"seed": seed, "directory": str(disk.path / "orders-0")}) + "\n")
    peer.stdin.flush()
    told: dict[str, Any] = json.loads(peer.stdout.readline())
    start, end = told["log_start_offset"], told["high_watermark"]
    (disk.path / "log-start-offset-checkpoint").write_text(checkpoint(f"orders 0 {start}"))
    (disk.path / "replication-offset-checkpoint").write_text(checkpoint(f"orders 0 {end}"))
    return told


def test_every_segment_is_verified_and_told_as_kafkas_copier_tells_it(
    peer: subprocess.Popen[str], differential_seed: int, tmp_path: Path
) -> None:
    seen = dict.fromkeys(("aborted", "several epochs", "moved start", "open", "without a time"), 0)
    compared = 0
    for number in range(HISTORIES):
        seed = differential_seed + number
        disk = HandmadeDisk(tmp_path / str(number))
        told = live(peer, seed, disk)
        directory = LogDirectory.open(LogDisk.open(disk.path), ORDERS)
        assert directory.topic_id_partition.topic_id == TOPIC_ID, f"seed {seed}"
        expected = [s for s in told["segments"] if s["end_offset"] >= told["log_start_offset"]]
        assert [s.base_offset for s in directory.closed_segments] == [s["base_offset"] for s in expected], (
            f"seed {seed}"
        )
        for segment, theirs in zip(directory.closed_segments, expected, strict=True):
            ours = verify_segment(directory, segment)
            where = f"seed {seed}, segment {segment.base_offset}"
            assert theirs.pop("has_snapshot"), where
            to_copy = LeaderEpochCheckpoint(tuple((e, o) for e, o in theirs.pop("epochs_to_copy")))
            assert ours.data.leader_epoch_index == to_copy.to_text().encode(), where
            theirs["leader_epochs"] = tuple((e, o) for e, o in theirs["leader_epochs"])
            assert {name: getattr(ours.local_segment, name) for name in theirs} == theirs, where
            compared += 1
            seen["aborted"] += not theirs["txn_index_empty"]
            seen["several epochs"] += len(theirs["leader_epochs"]) > 1
            seen["without a time"] += theirs["max_timestamp_ms"] == segment.modified_ms
        end = end_without_leader(directory)
        assert end <= told["high_watermark"], f"seed {seed}"
        # What is copied below it, Kafka's copier would copy too.
        closed = [s.next_offset for s in directory.closed_segments if s.next_offset <= end]
        assert all(next_offset <= told["last_stable_offset"] for next_offset in closed), f"seed {seed}"
        seen["moved start"] += told["log_start_offset"] > 0
        seen["open"] += told["last_stable_offset"] < told["high_watermark"]
    assert compared > HISTORIES
    assert all(seen.values()), seen
