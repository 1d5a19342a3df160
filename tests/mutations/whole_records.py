# SPDX-License-Identifier: Apache-2.0
"""Mutations that let damaged logs and indexes be believed, or a few bytes fill the memory."""

from __future__ import annotations

from tests.mutations.mutation import Mutation, switched_off

BATCH_SIZES = "core/segments/record_batches/batch_sizes.py"
BOUNDARIES = "core/segments/record_batches/boundaries.py"
CHECKSUMS = "core/segments/record_batches/checksums.py"
CODECS = "core/segments/record_batches/codecs.py"
CONTROL = "core/segments/record_batches/control.py"
HEADERS = "core/segments/record_batches/headers.py"
RECORD_HEADERS = "core/segments/record_batches/record_headers.py"
RECORDS = "core/segments/record_batches/records.py"
UNPACKING = "core/segments/record_batches/unpacking.py"
ENTRIES = "core/segments/indexes/entries.py"
OFFSET_INDEX = "core/segments/indexes/offset_index.py"
TIME_INDEX = "core/segments/indexes/time_index.py"
TRANSACTION_INDEX = "core/segments/indexes/transaction_index.py"
PRODUCER_SNAPSHOT = "core/segments/indexes/producer_snapshot.py"

_BATCHES = "core/segments/test_record_batches.py::"
_INDEXES = "core/segments/test_indexes.py::"
_RECORDS_THAT_CANNOT_BE = f"{_BATCHES}test_records_that_cannot_be"
_DAMAGED_INDEXES = f"{_INDEXES}test_damaged_ones_are_refused"


def _off(file: str, name: str, condition: str, test: str) -> Mutation:
    return switched_off(file, "whole records", name, condition, test)


def _without(file: str, name: str, old: str, new: str, test: str) -> Mutation:
    return Mutation("whole records", name, file, old, new, test)


WHOLE_RECORDS = [
    _without(
        HEADERS,
        "believes a batch whose checksum does not agree with its bytes",
        "wrong = computed != self.checksum",
        "wrong = computed != computed",
        f"{_BATCHES}test_every_flipped_bit_behind_the_checksum_is_seen",
    ),
    _without(
        HEADERS,
        "believes batches whose offsets do not ascend",
        "(self.base_offset <= before, ",
        "(self.base_offset < -1, ",
        f"{_BATCHES}test_offsets_must_ascend",
    ),
    _without(
        HEADERS,
        "makes room for as many records as a damaged header says",
        "(self.record_count < 0) | (self.record_count > room)",
        "self.record_count < 0",
        f"{_BATCHES}test_headers_that_cannot_be",
    ),
    _off(
        BATCH_SIZES,
        "takes batches of an earlier message format for damaged ones",
        "    if magic in (0, 1) and length >= _LEAST_LEGACY_BYTES:",
        f"{_BATCHES}test_earlier_message_formats",
    ),
    _without(
        BATCH_SIZES,
        "gives out a batch that is cut",
        "return found if at > len(data) else np.append(found, at)",
        "return np.append(found, at)",
        f"{_BATCHES}test_incomplete_last_batch_is_left_out",
    ),
    _without(
        CHECKSUMS,
        "believes many batches though their checksums do not agree with their bytes",
        "[int(begin[0]) : int(end[-1])]) == expected",
        "[int(begin[0]) : int(end[-1])]) >= 0",
        "core/segments/test_many_checksums.py::test_every_flipped_bit_is_seen",
    ),
    _without(
        BATCH_SIZES,
        "takes for a batch what only looks like one",
        "self._is_followed = np.zeros(len(places), bool)",
        "self._is_followed = np.ones(len(places), bool)",
        "core/segments/test_batch_sizes.py::test_all_are_found",
    ),
    _off(
        BOUNDARIES,
        "reads records one by one that do not fill their batch",
        "        if position != stop:",
        f"{_BATCHES}test_another_number_of_records_than_there_are",
    ),
    _off(
        BOUNDARIES,
        "reads records in step that do not fill their batch",
        "    if wrong.any():",
        _RECORDS_THAT_CANNOT_BE,
    ),
    _off(
        BOUNDARIES,
        "reads a record of a size below zero",
        "    if odd.any():",
        _RECORDS_THAT_CANNOT_BE,
    ),
    _without(
        RECORDS,
        "believes an offset that its batch does not have",
        "(delta >= 0) & (delta <= (headers.last_offset - headers.base_offset)[self._batch])",
        "delta >= delta",
        _RECORDS_THAT_CANNOT_BE,
    ),
    _without(
        RECORDS,
        "believes offsets within a batch that do not ascend",
        "np.diff(offset, prepend=-1) > 0",
        "offset >= offset",
        _RECORDS_THAT_CANNOT_BE,
    ),
    _without(
        RECORDS,
        "takes bytes of the next record for a key or a value",
        'self._require(self._at <= self._end, f"a {name}',
        'self._require(self._at == self._at, f"a {name}',
        _RECORDS_THAT_CANNOT_BE,
    ),
    _without(
        RECORDS,
        "passes over bytes behind the last header",
        "self._require(behind == self._end, ",
        "self._require(behind == behind, ",
        _RECORDS_THAT_CANNOT_BE,
    ),
    _off(
        RECORD_HEADERS,
        "takes bytes of the next record for a header, one by one",
        "            if key_at < 0 or key_length < 0 or value_at < 0 or position > stop:",
        _RECORDS_THAT_CANNOT_BE,
    ),
    _off(
        CODECS,
        "unpacks a stream without a limit",
        "    if not room:",
        f"{_BATCHES}test_a_bomb_does_not_go_off",
    ),
    _off(
        CODECS,
        "unpacks snappy blocks without a limit",
        "    if size > limit_bytes:",
        f"{_BATCHES}test_a_bomb_does_not_go_off",
    ),
    _without(
        UNPACKING,
        "takes a codec of a newer Kafka for a damaged batch",
        "        raise UnsupportedMessageFormatError(",
        "        raise headers.damaged(position, str(error)) if number else UnsupportedMessageFormatError(",
        f"{_BATCHES}test_a_codec_of_a_newer_kafka",
    ),
    _without(
        CONTROL,
        "takes anything in a control batch for an end marker",
        "key is None or len(key) < _KEY.size or (version_and_type := _KEY.unpack_from(key))[0] < 0",
        "(version_and_type := _KEY.unpack_from((key or b'').ljust(4, b'x')))[0] < -9",
        f"{_BATCHES}test_a_control_batch_without_a_control_record",
    ),
    _off(
        ENTRIES,
        "believes an index whose last entry is cut",
        "    if len(data) % size:",
        _DAMAGED_INDEXES,
    ),
    _without(
        OFFSET_INDEX,
        "believes an offset index that does not ascend",
        "np.diff(column, prepend=-1) > 0",
        "column > -9",
        _DAMAGED_INDEXES,
    ),
    _without(
        TIME_INDEX,
        "believes a time index whose timestamps do not ascend",
        "ascends & (timestamp_ms >= 0)",
        "timestamp_ms > -9",
        _DAMAGED_INDEXES,
    ),
    _without(
        TIME_INDEX,
        "believes a time index whose offsets descend",
        "np.diff(relative_offset, prepend=0) >= 0",
        "relative_offset > -9",
        _DAMAGED_INDEXES,
    ),
    _off(
        TRANSACTION_INDEX,
        "believes a transaction that ends before the segment or the one before",
        "    if entry.last_offset <= above:",
        _DAMAGED_INDEXES,
    ),
    _off(
        TRANSACTION_INDEX,
        "believes a last stable offset behind its transaction",
        "    if not 0 <= entry.last_stable_offset <= entry.last_offset + 1:",
        _DAMAGED_INDEXES,
    ),
    _off(
        PRODUCER_SNAPSHOT,
        "believes a producer snapshot whose checksum does not agree",
        "        if stored != computed:",
        f"{_INDEXES}test_every_flipped_bit_of_a_snapshot_is_seen",
    ),
]
