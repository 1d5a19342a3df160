# SPDX-License-Identifier: Apache-2.0
"""What the proof of a segment says of each kind of damage, and of what it was not told."""

from __future__ import annotations

import struct
import zlib
from dataclasses import replace

import pytest

from airflow_provider_rlmm.core.base.errors import (
    ConfigurationError,
    DamagedObjectError,
    StorageUnavailableError,
    UnsupportedMessageFormatError,
)
from airflow_provider_rlmm.core.segments.proof import log_walk
from airflow_provider_rlmm.core.segments.proof.fields import SegmentFields, Surroundings
from airflow_provider_rlmm.core.segments.proof.findings import MAX_FINDINGS, DamageKind
from airflow_provider_rlmm.core.segments.proof.proving import SegmentProof, prove_segment
from airflow_provider_rlmm.core.storage.index_type import IndexType
from tests.kafka_log import (
    TRANSACTIONAL,
    Batch,
    Record,
    control_batch,
    log_of,
    offset_index,
    producer_snapshot,
    time_index,
    transaction_index,
)
from tests.segment_damage import Contents, flipped, headers_of

T0 = 1_700_000_000_000
BATCHES = (
    Batch((Record(10, T0), Record(11, T0 + 5)), leader_epoch=2),
    Batch((Record(12, T0 + 20),), attributes=TRANSACTIONAL, leader_epoch=2, producer_id=7),
    control_batch(13, 7, commit=False, leader_epoch=2),
    Batch((Record(14, T0 + 10), Record(15, T0 + 40)), leader_epoch=4),
    Batch((Record(16, T0 + 30),), leader_epoch=4, attributes=TRANSACTIONAL, producer_id=8),
)
LOG = log_of(BATCHES)
AT = [int(at) for at in headers_of(LOG).position]
FIELDS = SegmentFields(
    start_offset=10,
    end_offset=16,
    size_in_bytes=len(LOG),
    max_timestamp_ms=T0 + 40,
    leader_epochs=((2, 10), (4, 14)),
    txn_index_empty=False,
)
INDEXES = {
    IndexType.OFFSET: offset_index(10, [(12, AT[1]), (15, AT[3])]),
    IndexType.TIMESTAMP: time_index(10, [(T0 + 20, 12), (T0 + 40, 15)]),
    IndexType.PRODUCER_SNAPSHOT: producer_snapshot([(7, -1), (8, 16)], last_offsets={7: 12, 8: 16}),
    IndexType.TRANSACTION: transaction_index([(7, 12, 13, 14)]),
    IndexType.LEADER_EPOCH: b"0\n3\n0 0\n2 9\n4 14\n",
}


def contents(part: IndexType | None = None, data: bytes | None = None) -> Contents:
    found = Contents(LOG, dict(INDEXES))
    return found if data is None else found.with_part(part, data)


def proved(source: Contents, fields: SegmentFields = FIELDS, around: Surroundings | None = None) -> SegmentProof:
    return prove_segment(fields, source, around)


def kinds(proof: SegmentProof) -> set[tuple[DamageKind, IndexType | None]]:
    return {(finding.kind, finding.part) for finding in proof.findings.kept}


def test_a_whole_segment_is_right_and_tells_its_fields() -> None:
    proof = proved(contents())
    assert proof.is_right
    seen = proof.seen
    assert (seen.first_offset, seen.last_offset, seen.batches, seen.size_in_bytes) == (10, 16, 5, len(LOG))
    assert (seen.max_timestamp_ms, seen.leader_epochs) == (T0 + 40, ((2, 10), (4, 14)))
    assert (seen.aborted_transactions, proof.log_bytes, proof.lost_bytes) == (1, len(LOG), 0)


def test_what_is_not_known_is_not_compared_and_told() -> None:
    source = Contents(LOG, {})
    source.indexes[IndexType.LEADER_EPOCH] = INDEXES[IndexType.LEADER_EPOCH]
    proof = proved(source, SegmentFields(start_offset=10))
    missing = {IndexType.OFFSET, IndexType.TIMESTAMP, IndexType.PRODUCER_SNAPSHOT}
    # A transaction was aborted, and no transaction index names it.
    assert kinds(proof) == {(DamageKind.MISSING, part) for part in missing} | {
        (DamageKind.INDEX, IndexType.TRANSACTION)
    }
    assert (proof.seen.last_offset, proof.seen.size_in_bytes) == (16, len(LOG))


@pytest.mark.parametrize(
    ("fields", "kind", "said"),
    [
        ({"end_offset": 17}, DamageKind.OFFSETS, "end before offset 17, and the next segment begins with 18"),
        ({"end_offset": 15}, DamageKind.OFFSETS, "reaches to offset 16"),
        ({"start_offset": 9}, DamageKind.OFFSETS, "begins with offset 10 where 9 must follow"),
        ({"size_in_bytes": len(LOG) + 1}, DamageKind.SIZE, f"{len(LOG)} bytes, and the metadata say {len(LOG) + 1}"),
        ({"size_in_bytes": len(LOG) - 1}, DamageKind.SIZE, f"more than {len(LOG) - 1} bytes"),
        ({"max_timestamp_ms": T0 + 41}, DamageKind.METADATA, "max_timestamp_ms"),
        ({"txn_index_empty": True}, DamageKind.METADATA, "txn_idx_empty true"),
        ({"leader_epochs": ((2, 10), (5, 14))}, DamageKind.LEADER_EPOCH, "written in leader epoch 4"),
        ({"leader_epochs": ((2, 10), (4, 15))}, DamageKind.LEADER_EPOCH, "another lineage"),
    ],
)
def test_metadata_that_say_something_else_are_found(fields: dict[str, object], kind: DamageKind, said: str) -> None:
    proof = proved(contents(), replace(FIELDS, **fields))  # type: ignore[arg-type]
    assert kind in proof.findings.counts
    assert any(said in finding.why for finding in proof.findings.kept), proof.findings.kept


@pytest.mark.parametrize(
    ("at", "kind"),
    [
        (7, DamageKind.OFFSETS),
        (15, DamageKind.LEADER_EPOCH),
        (16, DamageKind.BATCH),
        (17, DamageKind.CHECKSUM),
        (65, DamageKind.CHECKSUM),
    ],
)
def test_a_flipped_bit_is_found_in_its_batch(at: int, kind: DamageKind) -> None:
    proof = proved(contents(None, flipped(LOG, (AT[1] + at) * 8)))
    first = proof.findings.kept[0]
    assert (first.kind, first.part, first.position) == (kind, None, AT[1])


def test_behind_a_damaged_length_the_walk_goes_on_where_the_index_says() -> None:
    damaged = bytearray(LOG)
    damaged[AT[1] + 8 : AT[1] + 12] = struct.pack(">i", 2**31 - 1)
    proof = proved(contents(None, bytes(damaged)))
    assert [f.position for f in proof.findings.kept] == [AT[1]]
    assert proof.seen.last_offset == 16
    assert proof.lost_bytes == AT[3] - AT[1]


def test_a_batch_that_claims_too_much_is_not_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_walk, "MOST_BATCH_BYTES", 1_000)
    large = Batch((Record(17, T0, value=b"x" * 5_000),), leader_epoch=4)
    log = LOG + large.to_bytes()
    source = Contents(log, {})
    proof = prove_segment(replace(FIELDS, end_offset=17, size_in_bytes=len(log)), source, chunk_bytes=300)
    assert (DamageKind.BATCH, None) in kinds(proof)
    assert max(end - start for start, end in source.asked) <= 1_000


def test_memory_holds_a_chunk() -> None:
    source = contents()
    prove_segment(FIELDS, source, chunk_bytes=100)
    assert max(end - start for start, end in source.asked) <= 100 + 61
    assert source.asked[-1][1] == len(LOG) + 1


def test_an_older_message_format_that_is_whole_is_not_called_damage() -> None:
    body = b"\x01\x00" + struct.pack(">q", T0) + struct.pack(">ii", -1, 3) + b"abc"
    legacy = struct.pack(">qiI", 10, len(body) + 4, zlib.crc32(body)) + body
    with pytest.raises(UnsupportedMessageFormatError):
        proved(contents(None, legacy + LOG))
    assert (DamageKind.BATCH, None) in kinds(proved(contents(None, flipped(legacy, 200) + LOG)))


class Packed(Contents):
    """Its first chunk cannot be unpacked."""

    def log(self, start: int, end: int) -> bytes:
        if start == 0:
            raise DamagedObjectError("the chunk at byte 0 of x.log is no zstd frame", "x.log", 0)
        return super().log(start, end)


def test_behind_a_chunk_that_cannot_be_unpacked_the_walk_goes_on() -> None:
    proof = prove_segment(FIELDS, Packed(LOG, dict(INDEXES)), chunk_bytes=AT[2])
    assert kinds(proof) == {(DamageKind.PACKING, None)}
    assert (proof.seen.first_offset, proof.seen.last_offset) == (14, 16)


class Unanswered(Contents):
    def index(self, index_type: IndexType) -> bytes | None:
        if index_type is IndexType.OFFSET:
            raise ConfigurationError("nobody says which object has it")
        if index_type is IndexType.TIMESTAMP:
            raise DamagedObjectError("its manifest ends too early", "x.rsm-manifest", 5)
        return super().index(index_type)


def test_an_index_of_which_nobody_says_where_it_is_is_not_compared() -> None:
    proof = prove_segment(FIELDS, Unanswered(LOG, dict(INDEXES)))
    assert proof.not_compared == {IndexType.OFFSET: "nobody says which object has it"}
    assert kinds(proof) == {(DamageKind.PACKING, IndexType.TIMESTAMP)}


class Silent(Contents):
    def log(self, start: int, end: int) -> bytes:
        raise StorageUnavailableError("no answer")


def test_a_source_that_does_not_answer_is_no_damage() -> None:
    with pytest.raises(StorageUnavailableError):
        prove_segment(FIELDS, Silent(LOG, dict(INDEXES)))


@pytest.mark.parametrize(
    ("part", "data", "said"),
    [
        (IndexType.OFFSET, offset_index(10, [(12, AT[1]), (15, AT[3] + 1)]), "no batch begins at its position"),
        (IndexType.OFFSET, offset_index(10, [(11, AT[1])]), "begins above its offset"),
        (IndexType.OFFSET, offset_index(10, [(14, AT[1])]), "no batch ends with its offset"),
        (IndexType.OFFSET, offset_index(10, [(15, AT[1]), (16, AT[3])]), "behind its position"),
        (IndexType.OFFSET, offset_index(10, [(16, AT[4]), (17, len(LOG))]), "behind the last batch"),
        (IndexType.OFFSET, offset_index(10, [(99, AT[4])]), "not of this segment"),
        (IndexType.TIMESTAMP, time_index(10, [(T0 + 20, 12)]), "ends with timestamp"),
        (IndexType.TIMESTAMP, time_index(10, [(T0 + 20, 13), (T0 + 40, 15)]), "has no timestamp above"),
        (IndexType.TIMESTAMP, time_index(10, [(T0 + 19, 12), (T0 + 40, 15)]), "the highest timestamp up to there"),
        (IndexType.TIMESTAMP, time_index(10, [(T0 + 40, 99)]), "not of this segment"),
        (IndexType.TRANSACTION, b"", "does not name the transaction that producer 7 has aborted"),
        (IndexType.TRANSACTION, transaction_index([(7, 13, 13, 14)]), "has written in the transaction at offset 12"),
        (IndexType.PRODUCER_SNAPSHOT, producer_snapshot([]), "does not name producer 8"),
        (
            IndexType.PRODUCER_SNAPSHOT,
            producer_snapshot([(8, 16), (9, 20)], last_offsets={8: 16, 9: -1}),
            "is to tell of what lies below 17",
        ),
        (IndexType.PRODUCER_SNAPSHOT, producer_snapshot([(8, -1)], last_offset=16), "is open since"),
        (IndexType.PRODUCER_SNAPSHOT, producer_snapshot([(8, 16), (7, 12)], last_offset=16), "another segment's"),
        (IndexType.PRODUCER_SNAPSHOT, producer_snapshot([(8, 16), (9, -1)], last_offset=16), "written nothing in this"),
        (IndexType.LEADER_EPOCH, b"0\n3\n0 0\n2 9\n4 13\n", "another lineage"),
        (IndexType.LEADER_EPOCH, b"0\n4\n0 0\n2 9\n4 14\n5 17\n", "knows of offset 17"),
        (IndexType.LEADER_EPOCH, b"0\n2\n2 11\n4 14\n", "begins with offset 11"),
        (IndexType.LEADER_EPOCH, b"", "names no leader epoch"),
    ],
)
def test_an_index_that_says_something_else_is_found(part: IndexType, data: bytes, said: str) -> None:
    proof = proved(contents(part, data))
    assert {finding.part for finding in proof.findings.kept} == {part}
    assert any(said in finding.why for finding in proof.findings.kept), proof.findings.kept


def test_earlier_epochs_are_compared_with_what_other_segments_say() -> None:
    source = contents(IndexType.LEADER_EPOCH, b"0\n3\n0 0\n2 8\n4 14\n")
    assert proved(source).is_right
    known = Surroundings(lineage=((0, 3), (2, 9), (4, 14)))
    assert kinds(proved(source, around=known)) == {(DamageKind.LEADER_EPOCH, IndexType.LEADER_EPOCH)}
    assert proved(contents(), around=known).is_right


def test_below_the_log_start_offset_only_the_order_of_epochs_is_known() -> None:
    fields = replace(FIELDS, leader_epochs=((4, 14),))
    checkpoint = b"0\n1\n4 14\n"
    assert proved(contents(IndexType.LEADER_EPOCH, checkpoint), fields).is_right
    ahead = contents(None, flipped(LOG, (AT[1] + 15) * 8 + 3)).with_part(IndexType.LEADER_EPOCH, checkpoint)
    assert (DamageKind.LEADER_EPOCH, None) in kinds(proved(ahead, fields))


def test_many_findings_are_counted_and_the_first_are_kept() -> None:
    log = log_of([Batch((Record(n),)) for n in range(100)])
    damaged = bytearray(log)
    for at in headers_of(log).position.tolist():
        damaged[at + 70] ^= 1
    proof = prove_segment(SegmentFields(start_offset=0), Contents(bytes(damaged), {}))
    assert proof.findings.counts[DamageKind.CHECKSUM] == 100
    assert len(proof.findings.kept) == MAX_FINDINGS
