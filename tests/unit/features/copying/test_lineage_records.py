# SPDX-License-Identifier: Apache-2.0
"""What proves a directory's lineage, and how far it may be copied where no leader can be asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_rlmm.core.base.errors import DamagedObjectError, LogDirectoryError
from airflow_provider_rlmm.core.log.answers import LeaderRecord
from airflow_provider_rlmm.features.copying.log_directory.disk import LogDisk
from airflow_provider_rlmm.features.copying.log_directory.lineage_records import last_records_of_epochs
from airflow_provider_rlmm.features.copying.log_directory.log_end import end_without_leader
from airflow_provider_rlmm.features.copying.log_directory.names import TopicPartition
from airflow_provider_rlmm.features.copying.log_directory.partition import LogDirectory
from tests.kafka_log import Batch, Record, control_batch, log_of, offset_index
from tests.log_directories import HandmadeDisk, checkpoint
from tests.unit.features.copying.test_segment_verification import EPOCHS, SEGMENTS, batch

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def disk(tmp_path: Path) -> HandmadeDisk:
    made = HandmadeDisk(tmp_path / "data")
    folder = made.write("orders-0", SEGMENTS, epochs=EPOCHS)
    active = [batch(22, 2, epoch=5), Batch((Record(24, 5, b"k", None, (("h", None), ("h", b"1"))),), leader_epoch=5)]
    (folder / f"{22:020d}.log").write_bytes(log_of(active))
    # A broker gives the index of an open segment its full size, and fills the room with zeros.
    index = offset_index(22, [(24, len(active[0].to_bytes()))])
    (folder / f"{22:020d}.index").write_bytes(index + bytes(4096))
    return made


def opened(disk: HandmadeDisk) -> LogDirectory:
    return LogDirectory.open(LogDisk.open(disk.path), ORDERS)


def offsets(disk: HandmadeDisk, log_start_offset: int, end_offset: int) -> list[tuple[int, int]]:
    """Leader epochs and offsets of what is found, checked to be what was written."""
    found = last_records_of_epochs(opened(disk), log_start_offset=log_start_offset, end_offset=end_offset)
    written = {record.offset: record for part in SEGMENTS for one in part for record in one.records}
    for record in found:
        if record.offset in written:
            assert (record.timestamp_ms, record.value) == (
                written[record.offset].timestamp,
                written[record.offset].value,
            )
    return [(record.leader_epoch, record.offset) for record in found]


def test_the_last_record_of_each_epoch(disk: HandmadeDisk) -> None:
    assert offsets(disk, 0, 22) == [(0, 6), (2, 18), (5, 21)]
    assert last_records_of_epochs(opened(disk), log_start_offset=0, end_offset=99)[-1] == LeaderRecord(
        24, 5, 5, b"k", None, (("h", None), ("h", b"1"))
    )


@pytest.mark.parametrize(
    ("log_start_offset", "end_offset", "expected"),
    [
        (0, 21, [(0, 6), (2, 18), (5, 20)]),  # within a batch
        (0, 20, [(0, 6), (2, 18)]),
        (0, 18, [(0, 6), (2, 17)]),
        (0, 14, [(0, 6), (2, 12)]),  # a marker before it
        (7, 9, [(2, 8)]),
        (13, 14, []),  # nothing but a marker
        (19, 20, []),
        (22, 22, []),
        (0, 0, []),
        (23, 24, [(5, 23)]),
        (0, 6, [(0, 4)]),
    ],
)
def test_between_two_offsets(
    disk: HandmadeDisk, log_start_offset: int, end_offset: int, expected: list[tuple[int, int]]
) -> None:
    assert offsets(disk, log_start_offset, end_offset) == expected


def test_an_epoch_whose_last_batches_are_markers_is_found_before_the_index_s_entry(tmp_path: Path) -> None:
    disk = HandmadeDisk(tmp_path)
    markers = [batch(0, 2), *(_marker(offset) for offset in range(2, 12))]
    disk.write("orders-0", [markers, [batch(12)]])
    assert offsets(disk, 0, 12) == [(0, 1)]


def _marker(offset: int) -> Batch:
    return control_batch(offset, 7, commit=True)


@pytest.mark.parametrize("changed", [slice(-1, None), slice(-30, -20)])
def test_a_damaged_open_segment_proves_nothing_and_a_damaged_closed_one_is_refused(
    disk: HandmadeDisk, changed: slice
) -> None:
    log = disk.path / "orders-0" / f"{22:020d}.log"
    data = bytearray(log.read_bytes())
    data[changed] = b"" if changed.stop is None else bytes(10)
    log.write_bytes(data)
    assert offsets(disk, 0, 99)[-1] == (5, 21)
    closed = log.with_name(f"{9:020d}.log")
    data = bytearray(closed.read_bytes())
    data[changed] = b"" if changed.stop is None else bytes(10)
    closed.write_bytes(data)
    with pytest.raises(DamagedObjectError):
        offsets(disk, 0, 99)


def test_a_record_of_another_epoch_than_the_checkpoint_s_is_refused(disk: HandmadeDisk) -> None:
    (disk.path / "orders-0" / "leader-epoch-checkpoint").write_text(checkpoint("0 0", "3 7", "5 20"))
    with pytest.raises(DamagedObjectError, match=r"offset 18 was written in leader epoch 2, .* says 3"):
        offsets(disk, 0, 22)


def test_the_open_segment_is_read_from_where_its_index_leads(disk: HandmadeDisk) -> None:
    log = disk.path / "orders-0" / f"{22:020d}.log"
    data = bytearray(log.read_bytes())
    data[65] ^= 1  # within the first batch, which nobody needs
    log.write_bytes(data)
    assert offsets(disk, 0, 99)[-1] == (5, 24)


def test_a_later_segment_that_is_incomplete_stands_against_itself_alone(disk: HandmadeDisk) -> None:
    (disk.path / "orders-0" / f"{22:020d}.snapshot").unlink()
    assert offsets(disk, 0, 9) == [(0, 6), (2, 8)]


@pytest.mark.parametrize(
    ("high_watermark", "end"),
    [
        (99, 18),  # producer 10's transaction is open from there on
        (22, 18),
        (21, 6),  # producer 8's was open where the first segment ends; the second is not replicated
        (9, 6),
        (8, 8),
        (0, 0),
    ],
)
def test_without_a_leader_it_ends_where_something_is_undecided(
    disk: HandmadeDisk, high_watermark: int, end: int
) -> None:
    (disk.path / "replication-offset-checkpoint").write_text(checkpoint(f"orders 0 {high_watermark}"))
    assert end_without_leader(opened(disk)) == end


def test_without_a_leader_and_a_checkpoint_it_has_no_end(disk: HandmadeDisk) -> None:
    (disk.path / "replication-offset-checkpoint").write_text(checkpoint("others 0 5"))
    (disk.path / "recovery-point-offset-checkpoint").write_text(checkpoint("orders 0 22"))
    with pytest.raises(LogDirectoryError, match="replication-offset-checkpoint does not name orders-0"):
        end_without_leader(opened(disk))
