# SPDX-License-Identifier: Apache-2.0
"""A segment is verified before it is copied: what a broker wrote passes, anything else is refused by file and position."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

from airflow_provider_rlmm.core.base.errors import (
    DamagedObjectError,
    LogDirectoryError,
    RemoteLogError,
    UnsupportedMessageFormatError,
)
from airflow_provider_rlmm.core.segments.indexes.offset_index import OffsetIndex
from airflow_provider_rlmm.core.segments.indexes.time_index import TimeIndex
from airflow_provider_rlmm.core.segments.record_batches.headers import Codec
from airflow_provider_rlmm.features.copying.log_directory.batch_reading import CHUNK_BYTES, read_batches
from airflow_provider_rlmm.features.copying.log_directory.disk import LogDisk
from airflow_provider_rlmm.features.copying.log_directory.names import TopicPartition
from airflow_provider_rlmm.features.copying.log_directory.partition import LogDirectory
from airflow_provider_rlmm.features.copying.log_directory.verification import VerifiedSegment, verify_segment
from airflow_provider_rlmm.features.copying.rules import LocalSegment
from tests.examples import some
from tests.kafka_log import TRANSACTIONAL, Batch, Record, control_batch, transaction_index
from tests.log_directories import HandmadeDisk, checkpoint

ORDERS = TopicPartition("orders", 0)
T0 = 1_700_000_000_000
SECOND = f"{9:020d}"
"""Stem of the files of the second of the two closed segments of :func:`directory`."""


def batch(
    first: int, count: int = 1, *, at: int = T0, epoch: int = 0, producer: int = -1, codec: Codec = Codec.NONE
) -> Batch:
    records = tuple(Record(first + n, at + n, value=b"%d" % (first + n)) for n in range(count))
    return Batch(records, codec, TRANSACTIONAL if producer >= 0 else 0, epoch, producer)


SEGMENTS: Sequence[Sequence[Batch]] = (
    (
        batch(0, 2),
        batch(2, producer=7, at=T0 + 90),
        batch(3, 2, codec=Codec.ZSTD),
        control_batch(5, 7, commit=True),
        batch(6, producer=8, at=T0 + 40),
        batch(7, 2, epoch=2),
    ),
    (
        batch(9, 3, epoch=2, at=T0 + 100, codec=Codec.GZIP),
        batch(12, producer=9, epoch=2, at=T0 + 50),
        control_batch(13, 8, commit=False, leader_epoch=2),
        batch(14, 4, epoch=2, at=T0 + 200),
        batch(18, producer=10, epoch=2, at=T0 + 150),
        control_batch(19, 9, commit=False, leader_epoch=2),
        batch(20, 2, epoch=5, at=T0 + 300),
    ),
)
EPOCHS = ((0, 0), (2, 7), (5, 20))


@pytest.fixture
def disk(tmp_path: Path) -> HandmadeDisk:
    return HandmadeDisk(tmp_path / "data")


@pytest.fixture
def folder(disk: HandmadeDisk) -> Path:
    return disk.write("orders-0", SEGMENTS, epochs=EPOCHS)


def verified(folder: Path, number: int = 1, chunk_bytes: int = CHUNK_BYTES) -> VerifiedSegment:
    directory = LogDirectory.open(LogDisk.open(folder.parent), ORDERS)
    return verify_segment(directory, directory.closed_segments[number], chunk_bytes=chunk_bytes)


@pytest.mark.parametrize("chunk_bytes", [1, 100, CHUNK_BYTES])
def test_what_a_broker_wrote_is_ready_to_copy(folder: Path, chunk_bytes: int) -> None:
    first = verified(folder, 0, chunk_bytes)
    log = folder / f"{0:020d}.log"
    assert first.local_segment == LocalSegment(
        0, 8, log.stat().st_size, T0 + 90, ((0, 0), (2, 7)), txn_index_empty=True
    )
    assert first.data.transaction_index is None
    assert first.data.producer_snapshot_index == folder / f"{9:020d}.snapshot"

    second = verified(folder, 1, chunk_bytes)
    size = (folder / f"{SECOND}.log").stat().st_size
    expected = LocalSegment(9, 21, size, T0 + 301, ((2, 9), (5, 20)), txn_index_empty=False)
    assert second.local_segment == expected
    assert second.data.transaction_index == folder / f"{SECOND}.txnindex"
    assert second.data.leader_epoch_index == b"0\n3\n0 0\n2 7\n5 20\n"


def test_the_indexes_of_the_test_have_several_entries(folder: Path) -> None:
    for suffix, entry_bytes in ((".index", 8), (".timeindex", 12), (".txnindex", 34)):
        assert (folder / f"{SECOND}{suffix}").stat().st_size >= 2 * entry_bytes


def flipped(file: Path, step: int = 1) -> list[tuple[int, bytes]]:
    """Contents that differ from a file's in one bit, each or every so many of them, with the byte that it is in."""
    data = file.read_bytes()
    made = []
    for bit in range(0, len(data) * 8, step):
        position = bit // 8
        changed = bytearray(data)
        changed[position] ^= 1 << bit % 8
        made.append((position, bytes(changed)))
    return made


def refusal(folder: Path) -> RemoteLogError | None:
    try:
        verified(folder)
    except RemoteLogError as e:
        return e
    return None


@pytest.mark.slow
@pytest.mark.parametrize("name", [f"{SECOND}.log", f"{SECOND}.txnindex", f"{22:020d}.snapshot"])
def test_a_flipped_bit_is_refused(folder: Path, name: str) -> None:
    file = folder / name
    for position, changed in some(flipped(file, step=7)):
        file.write_bytes(changed)
        error = refusal(folder)
        assert error is not None, f"{name}: byte {position}"
        assert str(file) in str(error)


@pytest.mark.slow
def test_a_flipped_bit_of_an_offset_index_is_refused_or_does_no_harm(folder: Path) -> None:
    file = folder / f"{SECOND}.index"
    log = folder / f"{SECOND}.log"
    batches = [
        (int(base), int(position) + chunk.position)
        for chunk in read_batches(log)
        for base, position in zip(chunk.headers.base_offset, chunk.headers.position, strict=True)
    ]
    harmless = 0
    for _, changed in some(flipped(file)):
        file.write_bytes(changed)
        if refusal(folder) is not None:
            continue
        harmless += 1
        index = OffsetIndex.parse(changed, base_offset=9, location="")
        for offset in range(9, 22):
            holder = max(position for base, position in batches if base <= offset)
            assert index.lookup(offset) <= holder
    assert harmless < len(file.read_bytes()) * 8 // 10


@pytest.mark.slow
def test_a_flipped_bit_of_a_time_index_is_refused_or_does_no_harm(folder: Path) -> None:
    file = folder / f"{SECOND}.timeindex"
    batches = SEGMENTS[1]
    harmless = 0
    for _, changed in some(flipped(file)):
        file.write_bytes(changed)
        if refusal(folder) is not None:
            continue
        harmless += 1
        index = TimeIndex.parse(changed, base_offset=9, location="")
        assert index.last().timestamp_ms == T0 + 301
        for timestamp in range(T0 - 1, T0 + 302):
            entry = index.lookup(timestamp)
            # Nothing before the batch where the search begins may have that timestamp or a later one.
            skipped = [r for b in batches if b.records[-1].offset < entry.offset for r in b.records]
            assert all(record.timestamp <= timestamp for record in skipped)
    assert harmless < len(file.read_bytes()) * 8 // 10


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex", ".txnindex"])
def test_a_cut_is_refused_or_only_makes_a_reader_begin_earlier(folder: Path, suffix: str) -> None:
    file = folder / f"{SECOND}{suffix}"
    data = file.read_bytes()
    accepted = []
    for size in range(0, len(data), 4 if suffix == ".log" else 1):
        file.write_bytes(data[:size])
        if refusal(folder) is None:
            accepted.append(size)
    # An offset index without its last entries only makes a reader begin earlier.
    assert accepted == (list(range(0, len(data), 8)) if suffix == ".index" else [])


@pytest.mark.parametrize("size", range(0, 60, 7))
def test_a_producer_snapshot_that_is_cut_is_refused(folder: Path, size: int) -> None:
    file = folder / f"{22:020d}.snapshot"
    file.write_bytes(file.read_bytes()[:size])
    with pytest.raises(DamagedObjectError, match=r"\.snapshot"):
        verified(folder)


def test_a_damaged_log_is_named_with_its_position(folder: Path) -> None:
    file = folder / f"{SECOND}.log"
    (chunk,) = read_batches(file)
    at = int(chunk.headers.position[3])
    data = bytearray(file.read_bytes())
    data[at + 70] ^= 1
    file.write_bytes(data)
    with pytest.raises(DamagedObjectError, match="checksum") as damaged:
        verified(folder)
    assert (damaged.value.location, damaged.value.position) == (str(file), at)


def test_a_batch_that_claims_two_gigabytes_is_cut(folder: Path) -> None:
    file = folder / f"{SECOND}.log"
    data = bytearray(file.read_bytes())
    data[8:12] = struct.pack(">i", 2**31 - 1)
    file.write_bytes(data)
    with pytest.raises(DamagedObjectError, match=f"byte 0 is cut: the file ends {len(data)} bytes"):
        verified(folder)


def test_an_old_message_format_is_refused(folder: Path) -> None:
    file = folder / f"{SECOND}.log"
    data = bytearray(file.read_bytes())
    data[16] = 1
    file.write_bytes(data)
    with pytest.raises(UnsupportedMessageFormatError):
        verified(folder)


def test_a_lost_segment_file_is_a_gap(folder: Path) -> None:
    for suffix in (".log", ".index", ".timeindex", ".txnindex"):
        (folder / f"{SECOND}{suffix}").unlink()
    (folder / f"{9:020d}.snapshot").unlink()
    with pytest.raises(DamagedObjectError, match="records end before offset 9, and the next segment begins with 22"):
        verified(folder, 0)


def test_lost_batches_are_a_gap(disk: HandmadeDisk) -> None:
    folder = disk.write("orders-0", [SEGMENTS[0], [*SEGMENTS[1][:3], *SEGMENTS[1][4:]]], epochs=EPOCHS)
    with pytest.raises(DamagedObjectError, match="begins with offset 18 where 14 must follow"):
        verified(folder)


def test_records_of_the_next_segment_are_refused(folder: Path) -> None:
    for suffix in (".log", ".index", ".timeindex"):
        (folder / f"{22:020d}{suffix}").rename(folder / f"{21:020d}{suffix}")
    (folder / f"{22:020d}.snapshot").rename(folder / f"{21:020d}.snapshot")
    with pytest.raises(DamagedObjectError, match="reaches to offset 21, into the next segment"):
        verified(folder)


def test_an_empty_log_is_refused(folder: Path) -> None:
    (folder / f"{SECOND}.log").write_bytes(b"")
    with pytest.raises(DamagedObjectError, match="records end before offset 9"):
        verified(folder)


@pytest.mark.parametrize(
    "epochs", [((0, 0), (2, 7), (5, 19)), ((0, 0), (2, 7), (5, 21)), ((0, 0), (2, 7), (6, 20)), ((0, 0), (2, 7))]
)
def test_another_lineage_is_refused(folder: Path, epochs: Sequence[tuple[int, int]]) -> None:
    (folder / "leader-epoch-checkpoint").write_text(checkpoint(*(f"{e} {o}" for e, o in epochs)))
    with pytest.raises(DamagedObjectError, match="leader-epoch-checkpoint says"):
        verified(folder)


def test_below_the_log_start_offset_the_lineage_may_be_gone(disk: HandmadeDisk, folder: Path) -> None:
    (folder / "leader-epoch-checkpoint").write_text(checkpoint("2 10", "5 20"))
    (disk.path / "log-start-offset-checkpoint").write_text(checkpoint("orders 0 10"))
    assert verified(folder, 0).local_segment.leader_epochs == ((2, 10), (5, 20))


def test_a_transaction_index_that_is_lost_is_refused(folder: Path) -> None:
    (folder / f"{SECOND}.txnindex").unlink()
    with pytest.raises(
        DamagedObjectError, match="does not name the transaction that producer 8 has aborted at offset 13"
    ):
        verified(folder)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([(8, 6, 13, 12), (9, 12, 19, 18), (11, 20, 21, 18)], "producer 11 has aborted no transaction at offset 21"),
        ([(8, 5, 13, 12), (9, 12, 19, 18)], "has begun the transaction at offset 6, not 5"),
        ([(8, 6, 13, 14), (9, 12, 19, 18)], "has left the last stable offset 12, not 14"),
    ],
)
def test_a_transaction_index_that_tells_something_else_is_refused(
    folder: Path, entries: Sequence[tuple[int, int, int, int]], message: str
) -> None:
    assert (folder / f"{SECOND}.txnindex").read_bytes() == transaction_index([(8, 6, 13, 12), (9, 12, 19, 18)])
    (folder / f"{SECOND}.txnindex").write_bytes(transaction_index(entries))
    with pytest.raises(DamagedObjectError, match=message):
        verified(folder)


def test_of_transactions_that_began_before_all_that_is_known_less_can_be_told(folder: Path) -> None:
    (folder / f"{9:020d}.snapshot").unlink()
    file = folder / f"{SECOND}.txnindex"
    file.write_bytes(transaction_index([(9, 1, 19, 17)]))
    assert not verified(folder).local_segment.txn_index_empty
    file.unlink()
    with pytest.raises(DamagedObjectError, match="producer 9 has aborted at offset 19"):
        verified(folder)


def test_a_snapshot_of_another_segment_is_refused(folder: Path) -> None:
    (folder / f"{22:020d}.snapshot").replace(folder / f"{9:020d}.snapshot")
    with pytest.raises(LogDirectoryError, match="it is another segment's"):
        verified(folder, 0)


def test_a_file_that_changes_while_it_is_read_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = LogDirectory.open(LogDisk.open(folder.parent), ORDERS)
    (folder / f"{SECOND}.log").touch()
    with pytest.raises(LogDirectoryError, match=r"\.log has changed"):
        verify_segment(directory, directory.closed_segments[1])


def test_a_topic_without_timestamps_has_the_file_s_time(disk: HandmadeDisk) -> None:
    records = tuple(Record(offset, -1) for offset in range(3))
    folder = disk.write("orders-0", [[Batch(records)]], modified_ms=T0 + 5)
    assert verified(folder, 0).local_segment.max_timestamp_ms == T0 + 5
