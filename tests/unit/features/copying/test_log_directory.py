# SPDX-License-Identifier: Apache-2.0
"""The directory of a user partition: its topic id, its lineage, its closed segments."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from airflow_provider_rlmm.core.base.errors import LogDirectoryError
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.core.segments.lineage import LeaderEpochCheckpoint
from airflow_provider_rlmm.features.copying.log_directory.disk import LogDisk
from airflow_provider_rlmm.features.copying.log_directory.names import TopicPartition
from airflow_provider_rlmm.features.copying.log_directory.partition import LogDirectory
from airflow_provider_rlmm.features.copying.rules import LocalSegment
from tests.log_directories import TOPIC_ID, HandmadeDisk, checkpoint

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def disk(tmp_path: Path) -> HandmadeDisk:
    return HandmadeDisk(tmp_path / "data")


def opened(disk: HandmadeDisk) -> LogDirectory:
    return LogDirectory.open(LogDisk.open(disk.path), ORDERS)


def test_it_knows_its_topic_id_its_lineage_and_its_closed_segments(disk: HandmadeDisk) -> None:
    folder = disk.add("orders-0", (0, 100, 250), epochs=((2, 0), (5, 120)))
    (folder / f"{100:020d}.txnindex").write_bytes(bytes(34))
    (folder / f"{0:020d}.txnindex").touch()
    (folder / f"{0:020d}.log.deleted").touch()
    (folder / "notes").touch()

    directory = opened(disk)

    assert directory.topic_id_partition == TopicIdPartition(TOPIC_ID, "orders", 0)
    assert directory.leader_epochs == LeaderEpochCheckpoint(((2, 0), (5, 120)))
    assert (directory.log_start_offset, directory.high_watermark, directory.active_base_offset) == (0, None, 250)
    first, second = directory.closed_segments
    assert (first.base_offset, first.end_offset, second.base_offset, second.end_offset) == (0, 99, 100, 249)
    assert directory.segment_leader_epochs(first) == ((2, 0),)
    assert directory.segment_leader_epochs(second) == ((2, 100), (5, 120))

    data = directory.log_segment_data(first)
    assert data.log_segment.name == f"{0:020d}.log"
    assert data.offset_index.name == f"{0:020d}.index"
    assert data.time_index.name == f"{0:020d}.timeindex"
    assert data.transaction_index is None
    assert data.producer_snapshot_index.name == f"{100:020d}.snapshot"
    assert data.leader_epoch_index == b"0\n1\n2 0\n"
    later = directory.log_segment_data(second)
    assert later.transaction_index == folder / f"{100:020d}.txnindex"
    assert later.leader_epoch_index == b"0\n2\n2 0\n5 120\n"


def test_the_log_start_offset_cuts_the_lineage_and_what_lies_below_it(disk: HandmadeDisk) -> None:
    disk.add("orders-0", (0, 100, 200, 300), epochs=((0, 0), (1, 90), (4, 130)))
    (disk.path / "log-start-offset-checkpoint").write_text(checkpoint("orders 0 140"))
    (disk.path / "replication-offset-checkpoint").write_text(checkpoint("orders 0 290"))

    directory = opened(disk)

    assert (directory.log_start_offset, directory.high_watermark) == (140, 290)
    assert directory.leader_epochs.entries == ((4, 140),)
    assert [segment.base_offset for segment in directory.closed_segments] == [100, 200]
    assert directory.segment_leader_epochs(directory.closed_segments[0]) == ((4, 140),)


@pytest.mark.parametrize(
    ("time_index", "highest_ms"),
    [
        (b"", 1_234),
        (struct.pack(">qi", -1, 0), 1_234),
        (struct.pack(">qi", 0, 0), 0),
        (struct.pack(">qiqi", 5_000, 3, 6_000, 9), 6_000),
    ],
)
def test_the_highest_timestamp_is_the_time_index_s_or_the_file_s(
    disk: HandmadeDisk, time_index: bytes, highest_ms: int
) -> None:
    folder = disk.add("orders-0", (0, 10))
    (folder / f"{0:020d}.timeindex").write_bytes(time_index)
    os.utime(folder / f"{0:020d}.log", ns=(0, 1_234_999_999))
    directory = opened(disk)
    assert directory.local_segment(directory.closed_segments[0]) == LocalSegment(
        base_offset=0,
        end_offset=9,
        size_in_bytes=len("orders-00.log"),
        max_timestamp_ms=highest_ms,
        leader_epochs=((0, 0),),
        txn_index_empty=True,
    )


@pytest.mark.parametrize("size", [1, 11])
def test_a_time_index_that_is_cut_within_its_only_entry_is_refused(disk: HandmadeDisk, size: int) -> None:
    folder = disk.add("orders-0", (0, 10))
    (folder / f"{0:020d}.timeindex").write_bytes(bytes(size))
    directory = opened(disk)
    with pytest.raises(LogDirectoryError, match="is cut"):
        directory.local_segment(directory.closed_segments[0])


@pytest.mark.parametrize("missing", [f"{0:020d}.index", f"{0:020d}.timeindex", f"{10:020d}.snapshot"])
def test_a_segment_without_one_of_its_files_is_not_ready(disk: HandmadeDisk, missing: str) -> None:
    folder = disk.add("orders-0", (0, 10))
    (folder / missing).unlink()
    directory = opened(disk)
    with pytest.raises(LogDirectoryError, match=f"{missing} is missing"):
        directory.log_segment_data(directory.closed_segments[0])


@pytest.mark.parametrize("suffix", ["delete", "future", "stray"])
def test_a_marked_directory_is_refused(disk: HandmadeDisk, suffix: str) -> None:
    disk.add(f"orders-0.0123-{suffix}")
    with pytest.raises(LogDirectoryError, match=f"has no directory of orders-0, only such a one: .*-{suffix}"):
        opened(disk)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("partition.metadata", None, "nothing says which topic id"),
        ("partition.metadata", "version: 0\n", "no line with a topic id"),
        ("partition.metadata", "topic_id: AAAAAAAAAAAAAAAAAAAAAA\n", "no line with its version"),
        ("partition.metadata", "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA\n", "id of zeros"),
        ("leader-epoch-checkpoint", None, "missing or empty"),
        ("leader-epoch-checkpoint", "", "missing or empty"),
        ("leader-epoch-checkpoint", "0\n2\n0 0\n", "leader-epoch-checkpoint"),
        (f"{0:020d}.log.swap", "", "compacted segment"),
        (f"{0:020d}.index.cleaned", "", "compacted segment"),
        (f"{0:020d}.log.bak", "", "'.bak'"),
    ],
)
def test_a_directory_in_doubt_is_refused(disk: HandmadeDisk, file: str, content: str | None, message: str) -> None:
    folder = disk.add("orders-0", (0, 10))
    (folder / file).unlink(missing_ok=True)
    if content is not None:
        (folder / file).write_text(content)
    with pytest.raises(LogDirectoryError, match=message) as refused:
        opened(disk)
    assert file in str(refused.value)


def test_a_link_in_the_place_of_a_segment_is_refused(disk: HandmadeDisk) -> None:
    folder = disk.add("orders-0", (0, 10))
    (folder / f"{0:020d}.log").rename(disk.path / "elsewhere")
    (folder / f"{0:020d}.log").symlink_to(disk.path / "elsewhere")
    with pytest.raises(LogDirectoryError, match="no regular file"):
        opened(disk)


def test_a_directory_without_a_segment_is_refused(disk: HandmadeDisk) -> None:
    disk.add("orders-0", ())
    with pytest.raises(LogDirectoryError, match="holds no segment"):
        opened(disk)


def test_the_lineage_must_reach_the_segment(disk: HandmadeDisk) -> None:
    disk.add("orders-0", (0, 10, 20), epochs=((3, 10),))
    directory = opened(disk)
    with pytest.raises(LogDirectoryError, match="knows no leader epoch of the offsets 0 to 9"):
        directory.segment_leader_epochs(directory.closed_segments[0])


def test_a_file_that_changes_or_goes_is_noticed(disk: HandmadeDisk) -> None:
    folder = disk.add("orders-0", (0, 10))
    segment = opened(disk).closed_segments[0]
    segment.check_unchanged()
    index = folder / f"{0:020d}.index"
    modified_ns = index.stat().st_mtime_ns
    os.utime(index, ns=(modified_ns, modified_ns + 1))
    with pytest.raises(LogDirectoryError, match=r"\.index has changed"):
        segment.check_unchanged()
    (folder / f"{10:020d}.snapshot").unlink()
    os.utime(index, ns=(modified_ns, modified_ns))
    with pytest.raises(LogDirectoryError, match=r"\.snapshot cannot be read any more"):
        segment.check_unchanged()
