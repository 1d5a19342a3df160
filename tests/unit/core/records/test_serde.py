# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_rlmm.core.base.errors import MalformedMetadataError, NewerVersionError, UnknownApiKeyError
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata, RemoteLogSegmentMetadataUpdate
from airflow_provider_rlmm.core.records.serde import deserialize, serialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from tests.unit.core.records import events
from tests.unit.core.records.recorded import (
    FORMATTED,
    GOLDEN,
    GOLDEN_VALUES,
    REAL,
    REAL_VALUES,
    event_of,
    parse_formatted,
)

# One record of each kind, field by field, as Kafka's own classes wrote it.
SEGMENT = (
    "01"  # frame version
    "00"  # api key: segment
    "00"  # api version
    "02 7a"  # topic: one byte, "z"
    "9e0ff85484d05346adecf26a22884f09"  # topic id
    "7fffffff"  # partition
    "00"  # no tagged fields: topic id partition
    "ef58e6c7723b7dcb6c0f86d5113d019e"  # segment id
    "00"  # no tagged fields: segment id
    "00000000054f658e"  # start offset
    "00000000054f7164"  # end offset
    "00000045"  # broker id
    "7fffffffffffffff"  # max timestamp
    "000001b7a9c77bcc"  # event timestamp
    "02"  # one leader epoch
    "00000005 00000000054f658e 00"  # epoch, its start offset, no tagged fields
    "7fffffff"  # segment size
    "00"  # custom metadata: null
    "00"  # COPY_SEGMENT_STARTED
    "00"  # no tagged fields: the transaction index is not empty
).replace(" ", "")
UPDATE = (
    "01 01 00"  # frame version, api key: segment update, api version
    "02 6b"  # topic: "k"
    "211459c8bd6aa5b22d32a50272ac9a3e"  # topic id
    "00000156"  # partition
    "00"  # no tagged fields
    "e489b7e470785d8a15a61a18ab97c9ab"  # segment id
    "00"  # no tagged fields
    "ffffffff"  # broker id -1
    "000001cf593b2967"  # event timestamp
    "00"  # custom metadata: null
    "00"  # COPY_SEGMENT_STARTED
    "00"  # no tagged fields
).replace(" ", "")
PARTITION_DELETE = (
    "01 02 00"  # frame version, api key: partition delete, api version
    "02 63"  # topic: "c"
    "a72500d299f4ff09d2cc993844f8d7d8"  # topic id
    "00000194"  # partition
    "00"  # no tagged fields
    "00000000"  # broker id
    "ffffffffffffffff"  # event timestamp -1
    "01"  # DELETE_PARTITION_STARTED
    "00"  # no tagged fields
).replace(" ", "")
SNAPSHOT = (
    "01 03 00"  # frame version, api key: snapshot, api version
    "40bf43f7f620100b8000000000000000"  # segment id; there is no topic partition
    "24b1e26de9f0c800"  # start offset
    "24b1e26de9f0d23c"  # end offset
    "00000f82"  # broker id
    "0000019a4f4523f3"  # max timestamp
    "0000019165acb801"  # event timestamp
    "02"  # one leader epoch
    "00000018 24b1e26de9f0c800 00"  # epoch, its start offset, no tagged fields
    "2d28482e"  # segment size
    "00"  # custom metadata: null
    "01"  # COPY_SEGMENT_FINISHED
    "00"  # no tagged fields
).replace(" ", "")
KINDS = {
    "segment": SEGMENT,
    "segment_update": UPDATE,
    "partition_delete": PARTITION_DELETE,
    "segment_snapshot": SNAPSHOT,
}


@pytest.mark.parametrize("kind", KINDS)
def test_golden_bytes_field_by_field(kind):
    case = next(case for case in GOLDEN if case["value_hex"] == KINDS[kind])
    assert case["kind"] == kind
    assert deserialize(bytes.fromhex(KINDS[kind])) == event_of(case)


def test_all_golden_cases_both_ways():
    assert len(GOLDEN) == 320
    assert {case["kind"] for case in GOLDEN} == set(KINDS)
    for case, value in zip(GOLDEN, GOLDEN_VALUES, strict=True):
        event = event_of(case)
        assert serialize(event) == value, case
        assert deserialize(value) == event, case


def test_real_records_are_what_kafka_printed_and_are_written_back_as_they_were():
    assert len(REAL) == len(FORMATTED) == 220
    for record, value, line in zip(REAL, REAL_VALUES, FORMATTED, strict=True):
        printed = parse_formatted(line)
        event = deserialize(value)
        assert isinstance(event, RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate)
        partition = event.remote_log_segment_id.topic_id_partition
        found = {
            "metadata_partition": record["partition"],
            "offset": record["offset"],
            "kind": type(event).__name__,
            "topic_id": partition.topic_id.bytes,
            "topic": partition.topic,
            "partition": partition.partition,
            "segment_id": event.remote_log_segment_id.id.bytes,
            "state": event.state,
            "broker_id": event.broker_id,
            "event_timestamp_ms": event.event_timestamp_ms,
            "custom_metadata_size": None if event.custom_metadata is None else len(event.custom_metadata),
        }
        if isinstance(event, RemoteLogSegmentMetadata):
            found.update(
                start_offset=event.start_offset,
                end_offset=event.end_offset,
                max_timestamp_ms=event.max_timestamp_ms,
                segment_size_in_bytes=event.segment_size_in_bytes,
                txn_idx_empty=event.txn_idx_empty,
                segment_leader_epochs=list(event.segment_leader_epochs),
            )
        assert found == printed
        assert serialize(event) == value


def changed(kind: str, old: str, new: str) -> bytes:
    """Return the bytes of a kind with the last occurrence of ``old`` replaced."""
    before, found, after = KINDS[kind].rpartition(old)
    assert found, f"{old} is not in {kind}"
    return bytes.fromhex(before + new + after)


REFUSED = {
    "nothing": (b"", MalformedMetadataError, "frame version"),
    "frame version 0": (b"\0" + bytes.fromhex(UPDATE)[1:], MalformedMetadataError, "frame version 0"),
    "garbage": (b"garbage", MalformedMetadataError, "frame version 103"),
    "frame version too large": (b"\xff\xff\x7f" + bytes.fromhex(UPDATE)[1:], MalformedMetadataError, "too large"),
    "unknown api key": (b"\1\4\0", UnknownApiKeyError, "api key 4"),
    "negative api key": (bytes.fromhex("01ffffffff0f00"), UnknownApiKeyError, "api key -1"),
    "unknown api key, truncated": (b"\1\4", MalformedMetadataError, "api version"),
    "newer version": (b"\1\1\1" + bytes.fromhex(UPDATE)[3:], NewerVersionError, "api version 1 of api key 1"),
    "newer snapshot": (b"\1\3\1" + bytes.fromhex(SNAPSHOT)[3:], NewerVersionError, "api version 1 of api key 3"),
    "left over": (bytes.fromhex(UPDATE + "00"), MalformedMetadataError, "1 bytes are left over"),
    "segment state 4": (changed("segment_update", "000000", "000400"), MalformedMetadataError, "segment state 4"),
    "segment state -1": (changed("segment_update", "000000", "00ff00"), MalformedMetadataError, "segment state -1"),
    "delete state 3": (changed("partition_delete", "0100", "0300"), MalformedMetadataError, "delete state 3"),
    "null topic": (changed("segment_update", "026b", "00"), MalformedMetadataError, "topic .* null"),
    "topic beyond the end": (changed("segment_update", "026b", "7f6b"), MalformedMetadataError, "topic .* claims 126"),
    "topic in Latin-1": (changed("segment_update", "026b", "02e9"), MalformedMetadataError, "UTF-8"),
    "null epochs": (changed("segment", "020000000500000000054f658e00", "00"), MalformedMetadataError, "-1 entries"),
    "no epochs": (changed("segment", "020000000500000000054f658e00", "01"), MalformedMetadataError, "without leader"),
    "no epochs in a snapshot": (
        changed("segment_snapshot", "020000001824b1e26de9f0c80000", "01"),
        MalformedMetadataError,
        "without leader epochs",
    ),
    "epochs beyond the end": (
        changed("segment", "0200000005", "ff0700000005"),
        MalformedMetadataError,
        "1,022 entries",
    ),
    "negative start": (
        changed("segment", "00000000054f658e00000000054f7164", "ffffffffffffffff00000000054f7164"),
        MalformedMetadataError,
        "start offset -1",
    ),
    "end before start": (
        changed("segment", "00000000054f7164", "00000000054f658d"),
        MalformedMetadataError,
        "end offset 89089421 .* below",
    ),
    "custom metadata beyond the end": (
        changed("segment_update", "000000", "050000"),
        MalformedMetadataError,
        "custom metadata .* claims 4 bytes",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_kafka_refuses_is_refused(case):
    value, error, why = REFUSED[case]
    with pytest.raises(error, match=why) as caught:
        deserialize(value)
    assert type(caught.value) is error


@pytest.mark.parametrize("kind", KINDS)
def test_every_truncation_is_refused(kind):
    value = bytes.fromhex(KINDS[kind])
    for size in range(len(value)):
        with pytest.raises(MalformedMetadataError):
            deserialize(value[:size])


def test_a_user_partition_that_is_known_from_other_records_is_read_by_its_own_bytes():
    value = bytes.fromhex(UPDATE)
    before = deserialize(value)
    behind = value.index(bytes.fromhex("0000015600")) + 5
    for at in range(3, behind):
        damaged = bytearray(value)
        damaged[at] ^= 1
        try:
            after = deserialize(bytes(damaged))
        except MalformedMetadataError:
            continue
        assert after != before
        assert serialize(after) == damaged
        assert deserialize(value) == before


def test_unknown_tagged_fields_are_skipped_everywhere():
    value = bytes.fromhex(
        UPDATE.replace("0000015600", "00000156 01 0702abcd")  # topic id partition
        .replace("c9ab00", "c9ab 02 0101ff 0900")  # segment id
        .removesuffix("00")
        + "01 0000"  # the update itself: tag 0 without data, known in other kinds only
    )
    assert deserialize(value) == deserialize(bytes.fromhex(UPDATE))


@pytest.mark.parametrize(
    ("tags", "txn_idx_empty"),
    [
        ("00", False),
        ("01000101", True),
        ("01000100", False),
        ("01000102", True),
        ("01000501", True),  # Kafka ignores the size of a field that it knows
        ("0200010105017f", True),
        ("020001010000 00", False),  # of repeated fields the last one counts
        ("ffffffff0f", False),
    ],
)
def test_the_tagged_field_of_a_segment(tags, txn_idx_empty):
    event = deserialize(bytes.fromhex(SEGMENT.removesuffix("00") + tags))
    assert event == replace(deserialize(bytes.fromhex(SEGMENT)), txn_idx_empty=txn_idx_empty)


def test_superfluous_varint_bytes_are_tolerated():
    value = bytes.fromhex("8180808008810000" + UPDATE[6:].replace("026b", "82006b", 1))
    assert deserialize(value) == deserialize(bytes.fromhex(UPDATE))


def test_leader_epochs_are_sorted_and_of_repeated_ones_the_last_counts():
    entries = "05 00000005000000000000000900 ffffffff000000000000000100 00000005000000000000000a00"
    value = changed("segment", "020000000500000000054f658e00", entries + "00000006000000000000000c00")
    event = deserialize(value)
    assert isinstance(event, RemoteLogSegmentMetadata)
    assert event.segment_leader_epochs == ((-1, 1), (5, 10), (6, 12))


@pytest.mark.parametrize(
    "event",
    [
        events.started(1, start=-1),
        events.started(1, start=5, end=4),
        events.started(1, epochs=()),
        events.started(1, epochs=((1, 0), (0, 5))),
        events.started(1, epochs=((1, 0), (1, 5))),
        events.started(1, epochs=((2**31, 0),)),
        replace(events.started(1), end_offset=2**63),
        replace(events.started(1), segment_size_in_bytes=2**31),
        replace(events.started(1), state=4),
        replace(events.started(1), custom_metadata="text"),
        replace(events.started(1), state=None),
        events.copied(1, replace(events.PARTITION, topic="x" * 32768)),
        events.copied(1, replace(events.PARTITION, topic="\ud800")),
        events.copied(1, replace(events.PARTITION, topic=None)),
        events.copied(1, replace(events.PARTITION, topic_id="id")),
        "no record",
    ],
    ids=lambda event: str(event)[:40],
)
def test_what_could_not_be_read_back_is_not_written(event):
    with pytest.raises(MalformedMetadataError):
        serialize(event)


def test_edges_are_written_and_read_back():
    segment = events.started(1, start=0, end=0, epochs=((-(2**31), -(2**63)), (2**31 - 1, 2**63 - 1)))
    for event in (
        replace(segment, custom_metadata=b"", state=RemoteLogSegmentState.DELETE_SEGMENT_FINISHED),
        replace(segment, custom_metadata=bytes(40_000), txn_idx_empty=True),
        events.started(1, partition=replace(events.PARTITION, topic="", partition=-1)),
        events.started(1, partition=replace(events.PARTITION, topic="ü" * 16_000)),
        events.started(1, epochs=tuple((epoch, epoch) for epoch in range(1_000))),
    ):
        assert deserialize(serialize(event)) == event
