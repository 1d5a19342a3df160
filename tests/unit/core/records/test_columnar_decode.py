# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import random
from dataclasses import replace
from unittest.mock import Mock

import pyarrow as pa
import pytest

from airflow_provider_rlmm.core.records.columnar import ErrorCode, decode, decoded_schema, iter_events
from airflow_provider_rlmm.core.records.decoding import decode as _columnar_decode
from airflow_provider_rlmm.core.records.decoding.decode import CARRIED
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadataSnapshot
from airflow_provider_rlmm.core.records.serde import deserialize, read_value, serialize
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState
from tests.record_limits import MOST_TAGS, NEGATIVE, SECTIONS, tags, with_section
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

UPDATE = serialize(events.copied(1))


def codes(batch):
    return [ErrorCode(code) for code in batch.column("error_code").to_pylist()]


@pytest.mark.parametrize("section", SECTIONS)
def test_limits_of_newer_kafkas(section):
    event, _ = SECTIONS[section]
    written = (tags(0), tags(1), tags(MOST_TAGS), tags(MOST_TAGS + 1), NEGATIVE)
    batch = decode([with_section(section, how) for how in written])
    assert codes(batch) == [ErrorCode.GOOD] * 3 + [ErrorCode.BEYOND_LIMITS] * 2
    assert list(iter_events(batch)) == [event] * 5
    assert batch.column("error").to_pylist()[3].startswith("10001 tagged fields of a")


@pytest.mark.slow
def test_all_golden_cases():
    batch = decode(GOLDEN_VALUES)
    batch.validate(full=True)
    assert list(iter_events(batch)) == [event_of(case) for case in GOLDEN]
    expected = [ErrorCode.SNAPSHOT if case["kind"] == "segment_snapshot" else ErrorCode.GOOD for case in GOLDEN]
    assert codes(batch) == expected
    assert batch.column("api_key").to_pylist() == [case["api_key"] for case in GOLDEN]


def test_real_records_are_what_kafka_printed():
    batch = decode(
        REAL_VALUES,
        metadata_partition=[record["partition"] for record in REAL],
        offset=[record["offset"] for record in REAL],
        timestamp_ms=[record["timestamp_ms"] for record in REAL],
        num_partitions=5,
    )
    rows = batch.to_pylist()
    assert len(rows) == len(FORMATTED) == 220
    for row, line, record in zip(rows, FORMATTED, REAL, strict=True):
        printed = parse_formatted(line)
        assert (
            row["api_key"] == {"RemoteLogSegmentMetadata": 0, "RemoteLogSegmentMetadataUpdate": 1}[printed.pop("kind")]
        )
        size = printed.pop("custom_metadata_size")
        assert (None if row["custom_metadata"] is None else len(row["custom_metadata"])) == size
        if row["segment_leader_epochs"] is not None:
            row["segment_leader_epochs"] = [tuple(epoch.values()) for epoch in row["segment_leader_epochs"]]
        fields = decoded_schema("metadata_partition", "offset").names
        expected = dict.fromkeys(fields) | printed
        for name in ("api_key", "custom_metadata", "error_code"):
            del expected[name]
        assert {name: row[name] for name in expected} == expected
        assert (row["error_code"], row["timestamp_ms"]) == (ErrorCode.GOOD, record["timestamp_ms"])


def test_kafkas_own_layout_never_needs_the_scalar_serde(monkeypatch):
    usual = [
        value
        for case, value in zip(GOLDEN + REAL, GOLDEN_VALUES + REAL_VALUES, strict=True)
        if len(case.get("leader_epochs", ())) < 127
    ]
    assert len(usual) > 450
    scalar = Mock(wraps=read_value)
    monkeypatch.setattr(_columnar_decode, "read_value", scalar)
    decode(usual)
    scalar.assert_not_called()


@pytest.mark.parametrize(
    "as_given",
    [
        list,
        tuple,
        lambda values: pa.array(values, pa.binary()),
        lambda values: pa.array(values, pa.large_binary()),
        lambda values: pa.array([b"before", *values, b"after"], pa.binary())[1:-1],
        lambda values: pa.array([b"before", *values, b"after"], pa.large_binary()).slice(1, len(values)),
        lambda values: pa.chunked_array([values[:7], [], values[7:]], pa.binary()),
        lambda values: pa.chunked_array([values[:7], values[7:]], pa.large_binary()),
    ],
    ids=["list", "tuple", "binary", "large binary", "slice", "large slice", "chunks", "large chunks"],
)
def test_values_come_in_many_forms(as_given):
    values = [*GOLDEN_VALUES[:20], None, b"", *REAL_VALUES[:20]]
    batch = decode(as_given(values))
    assert batch.equals(decode(values))
    assert codes(batch)[20:22] == [ErrorCode.TOMBSTONE, ErrorCode.MALFORMED]


@pytest.mark.parametrize("values", [[], pa.array([], pa.binary()), pa.chunked_array([], pa.large_binary())])
def test_nothing_becomes_an_empty_batch(values):
    batch = decode(values, offset=[], metadata_partition=3)
    assert batch.num_rows == 0
    assert batch.schema == decoded_schema("offset", "metadata_partition")


@pytest.mark.parametrize(
    "values", [[None, None], [b""], [b"\1"], [b"\1\0\0"], [b"\1\0\0\1"], [b"\1\3\0\0", b"\1\1\0\5a"]]
)
def test_batches_without_any_good_value(values):
    batch = decode(values)
    batch.validate(full=True)
    assert batch.column("api_key").null_count == batch.num_rows == len(values)
    assert set(codes(batch)) <= {ErrorCode.TOMBSTONE, ErrorCode.MALFORMED}
    assert all(batch.column("error").to_pylist())


def test_every_error_has_its_code_and_fields_are_kept_where_there_are_any():
    snapshot = GOLDEN_VALUES[[case["kind"] for case in GOLDEN].index("segment_snapshot")]
    home = metadata_partition_for(events.PARTITION, 5)
    values = [
        UPDATE,
        None,
        UPDATE,
        b"\1\1\1" + UPDATE[3:],
        b"\1\t\0",
        UPDATE[:-1],
        snapshot,
        UPDATE,
        None,
        snapshot,
        UPDATE,
    ]
    keys = [None, None, b"key", None, None, None, None, None, b"key", b"key", b"key"]
    partitions = [home, home, home, home, home, home, home, home + 1, home + 1, home + 1, home + 1]
    batch = decode(values, keys=keys, metadata_partition=partitions, num_partitions=5)
    assert codes(batch) == [
        ErrorCode.GOOD,
        ErrorCode.TOMBSTONE,
        ErrorCode.KEYED,
        ErrorCode.NEWER_VERSION,
        ErrorCode.UNKNOWN_API_KEY,
        ErrorCode.MALFORMED,
        ErrorCode.SNAPSHOT,
        ErrorCode.MISROUTED,
        ErrorCode.TOMBSTONE,
        ErrorCode.SNAPSHOT,
        ErrorCode.MISROUTED,
    ]
    update, kept = events.copied(1), deserialize(snapshot)
    assert isinstance(kept, RemoteLogSegmentMetadataSnapshot)
    assert list(iter_events(batch)) == [update, None, update, None, None, None, kept, update, None, kept, update]
    errors = batch.column("error").to_pylist()
    assert errors[0] is None
    assert all(errors[1:])
    assert errors[7] == f"belongs into metadata partition {home}, was read from {home + 1}"
    assert batch.column("key").to_pylist() == keys


def test_a_kind_has_only_its_own_fields():
    deletion = events.partition_delete(RemotePartitionDeleteState.DELETE_PARTITION_MARKED)
    [segment, update, delete] = decode(
        [serialize(e) for e in (events.started(1), events.copied(1), deletion)]
    ).to_pylist()
    not_said = {"broker_leader_epoch"}
    assert {name for name, value in segment.items() if value is None} == {"custom_metadata", "error"} | not_said
    opening = {"start_offset", "end_offset", "max_timestamp_ms", "segment_size_in_bytes", "segment_leader_epochs"}
    opening |= {"custom_metadata", "error", "txn_idx_empty"} | not_said
    assert {name for name, value in update.items() if value is None} == opening
    assert {name for name, value in delete.items() if value is None} == opening | {"segment_id"}
    assert (delete["topic_id"], delete["state"]) == (events.PARTITION.topic_id.bytes, 0)
    assert decode([UPDATE]).schema == decoded_schema()


def test_one_metadata_partition_may_be_given_for_all():
    batch = decode([UPDATE, None], metadata_partition=3, keys=pa.array([None, b"k"], pa.binary()))
    assert batch.column("metadata_partition").to_pylist() == [3, 3]
    assert batch.schema == decoded_schema("key", "metadata_partition")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"offset": [1, 2]}, "2 elements of offset for 1 value"),
        ({"keys": []}, "0 elements of key for 1 value"),
        ({"num_partitions": 5}, "needs metadata_partition"),
        ({"num_partitions": 0, "metadata_partition": 0}, "must be positive"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(arguments, why):
    with pytest.raises(ValueError, match=why):
        decode([UPDATE], **arguments)


def test_the_schema_knows_what_is_carried():
    assert decoded_schema(*CARRIED).names[:4] == ["metadata_partition", "offset", "timestamp_ms", "key"]
    with pytest.raises(ValueError, match="value"):
        decoded_schema("value")


@pytest.mark.parametrize("length", [0, 1, 11, 12, 13, 126, 127, 128, 249, 16_382, 16_383, 32_767])
def test_lengths_at_which_encodings_change(length):
    custom = bytes(index % 256 for index in range(length))
    partition = replace(events.PARTITION, topic="t" * length)
    some = [
        replace(events.started(1, partition=partition), custom_metadata=custom, txn_idx_empty=True),
        replace(events.copied(1), custom_metadata=custom),
        events.copied(2, partition),
        events.partition_delete(RemotePartitionDeleteState.DELETE_PARTITION_MARKED, partition),
        replace(events.copied(1), custom_metadata=custom),
    ]
    # The last value ends the buffer: nothing may be read behind it.
    batch = decode([serialize(event) for event in some])
    assert list(iter_events(batch)) == some
    for event in some:
        assert list(iter_events(decode([serialize(event)]))) == [event]


def test_a_varint_of_three_bytes_is_not_taken_for_one_of_two():
    head = UPDATE.removesuffix(b"\0\1\0")
    # Custom metadata of 16,383 bytes after a length of two bytes, or null after one of three, and then garbage.
    batch = decode([head + b"\x80\x80" + bytes(16_383) + b"\1\0"])
    assert codes(batch) == [ErrorCode.MALFORMED]
    assert "left over" in batch.column("error")[0].as_py()


@pytest.mark.parametrize("count", [1, 2, 5, 126, 127, 128, 300])
def test_numbers_of_leader_epochs(count):
    many = events.started(1, epochs=tuple((epoch * 3, epoch * 7) for epoch in range(count)))
    some = [events.started(2), many, events.copied(1), many, events.started(3, epochs=((1, 1), (2, 2)))]
    assert list(iter_events(decode([serialize(event) for event in some]))) == some


def test_topics_that_are_not_ascii():
    good = [
        serialize(events.copied(n, replace(events.PARTITION, topic=t)))
        for n, t in enumerate(["größe", "x", "日本語" * 9])
    ]
    bad = UPDATE.replace(b"orders", b"order\xe9")
    batch = decode([good[0], bad, good[1], bad, good[2]])
    batch.validate(full=True)
    assert codes(batch) == [0, ErrorCode.MALFORMED, 0, ErrorCode.MALFORMED, 0]
    assert batch.column("topic").to_pylist() == ["größe", None, "x", None, "日本語" * 9]
    assert "UTF-8" in batch.column("error")[1].as_py()


@pytest.mark.slow
def test_canonical_and_other_values_mixed_in_any_order():
    shuffle = random.Random(7).shuffle
    values = [*GOLDEN_VALUES, *REAL_VALUES, None, b"", b"garbage", UPDATE + b"\0", UPDATE[:-1] + b"\1\7\2ab"]
    expected = {}
    for value in values:
        [expected[value]] = decode([value]).to_pylist()
    for _ in range(3):
        shuffle(values)
        assert decode(values).to_pylist() == [expected[value] for value in values]
