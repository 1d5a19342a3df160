# SPDX-License-Identifier: Apache-2.0
"""
Tells of many records at once whether their keys name what their values name.

A record that was written by one of KIP-1266's designs has the one key that follows from its value: that is built and
compared. Only a key that differs is judged one by one, by :func:`~airflow_provider_rlmm.core.records.keys.parse_key`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_rlmm.core.base.arrow_arrays import array_of, filled, null_of, numpy_of, scalar_of
from airflow_provider_rlmm.core.base.arrow_groups import told_apart
from airflow_provider_rlmm.core.records.decoding.fields import NO_KIND
from airflow_provider_rlmm.core.records.decoding.layout import Array, gather, taken
from airflow_provider_rlmm.core.records.keys import SEGMENT_KEY_BYTES, UPDATE_SUFFIX
from airflow_provider_rlmm.core.records.records import NOT_SAID, kafka_uuid_str
from airflow_provider_rlmm.core.records.serde import SEGMENT_UPDATE_API_KEY

_ID = [("first", "<u8"), ("last", "<u8")]
_SEGMENT_KEY = np.dtype([("topic_id", _ID), ("partition", ">i4"), ("segment_id", _ID), ("state", "i1")])
_OF_TEXTS = ("key", "api_key", "topic_id", "topic", "partition", "end_offset", "broker_leader_epoch")
_MIX = np.uint64(0x9E3779B97F4A7C15)
"""Any odd number of many bits spreads ids that count up."""


def are_named(columns: Mapping[str, Any], rows: Array) -> Array:
    """
    Tell of records whether their keys are the ones that follow from their values, in either design.

    :param columns: keys and fields of a batch: name → array.
    :param rows: which of its records, ascending; all of them have a key and are about a segment.
    :return: one boolean for each of these. A key that is none of the two may still name what the value names: see the
        module.
    """
    named = _by_state(columns, rows)
    rest = np.flatnonzero(~named)
    if rest.size:
        named[rest] = _by_end_offset(columns, rows.take(rest))
    return named


def _by_state(columns: Mapping[str, Any], rows: Array) -> Array:
    """Compare with keys of 37 bytes: topic id, partition, segment id, state."""
    named: Array = taken(np.diff(_offsets(columns["key"])) == SEGMENT_KEY_BYTES, rows)
    index = np.flatnonzero(named)
    if not index.size:
        return named
    rows = taken(rows, index)
    key = _structures(columns["key"], _SEGMENT_KEY, rows)
    equal = np.ones(rows.size, dtype=bool)
    for name in ("topic_id", "segment_id"):
        ids = _structures(columns[name], np.dtype(_ID), rows)
        for half, _ in _ID:
            equal &= key[name][half] == ids[half]
    for name in ("partition", "state"):
        equal &= key[name] == taken(numpy_of(columns[name]), rows)
    named[index] = equal
    return named


def _offsets(column: Any) -> Array:
    return np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]


def _structures(column: Any, dtype: np.dtype[Any], rows: Array) -> Array:
    """Return some binary values as numpy structures: none of them is null, and all have their length."""
    data, offsets = column.buffers()[2], _offsets(column)
    if offsets[-1] - offsets[0] == rows.size * dtype.itemsize:
        # All others are null or empty: these lie side by side.
        return np.frombuffer(data, dtype, count=rows.size, offset=int(offsets[0]))
    return gather(np.frombuffer(data, np.uint8), dtype, offsets.take(rows))


def _by_end_offset(columns: Mapping[str, Any], rows: Array) -> Array:
    """Compare with keys of text: topic id, topic, partition, end offset, leader epoch, and whether it is an update."""
    if columns["topic_id"].null_count or 2 * rows.size < len(columns["key"]):
        return _are_texts({name: columns[name].take(array_of(rows)) for name in _OF_TEXTS})
    # To copy the others' columns would cost more than to look at some records too many.
    return taken(_are_texts(columns), rows)


def _are_texts(columns: Mapping[str, Any]) -> Array:
    """
    Tell of all records of some columns whether their key is the text that follows from their value.

    What a record does not say is ``NOT_SAID``: a key of these words names it, any other one has to be looked at. Of a record
    that says nothing of a segment, or has no key, the answer is anything; all of them have a user partition.
    """
    end_offset, epoch = (filled(columns[name], NOT_SAID) for name in ("end_offset", "broker_leader_epoch"))
    updates = numpy_of(filled(columns["api_key"], NO_KIND)) == SEGMENT_UPDATE_API_KEY
    # Only end offsets are many: of all else each text is made once.
    beginnings, of_one = _user_partitions(columns)
    parts = (beginnings, end_offset.cast(pa.string()), _endings(numpy_of(epoch), updates))
    expected = pc.binary_join_element_wise(*parts, _text("")).cast(pa.binary())
    return _are_equal(columns["key"], expected) & of_one


def _user_partitions(columns: Mapping[str, Any]) -> tuple[Any, Array]:
    """
    Return the beginnings of the keys, null for a name with a colon: it could be cut in another way, no topic has one.

    And of which rows this is their own user partition's: numbers that are the same for two of them are told apart by that.
    """
    topics, partition = columns["topic"], numpy_of(columns["partition"])
    ids = _structures(columns["topic_id"], np.dtype(_ID), np.arange(partition.size))
    high = np.ascontiguousarray(ids["first"])
    numbers = (high * _MIX ^ ids["last"]) * _MIX + partition.astype(np.uint64)
    codes, first = told_apart(numbers.view(np.int64))
    names = topics.take(array_of(first))
    texts = _beginnings(ids.take(first), names, partition.take(first))
    of_one = _are_equal(topics, names.take(codes))
    at = first.take(numpy_of(codes))
    # An odd factor loses nothing: where these two are the same, so is what else the number was made of.
    of_one &= (high.take(at) == high) & (partition.take(at) == partition)
    return texts.take(codes), of_one


def _beginnings(ids: Array, topics: Any, partitions: Array) -> Any:
    texts = array_of([kafka_uuid_str(UUID(bytes=raw.tobytes())) for raw in ids], pa.string())
    text = pc.binary_join_element_wise(texts, topics, array_of(partitions).cast(pa.string()), _text(""), _text(":"))
    return pc.if_else(pc.match_substring(topics, ":"), null_of(pa.string()), text)


def _endings(epoch: Array, updates: Array) -> Any:
    """Return what is behind the end offsets."""
    codes = array_of(epoch.astype(np.int64) * 2 + updates).dictionary_encode()
    both = numpy_of(codes.dictionary)
    suffixes = pc.if_else(array_of(both & 1 == 1), _text(f":{UPDATE_SUFFIX}"), _text(""))
    return pc.binary_join_element_wise(_text(":"), array_of(both >> 1).cast(pa.string()), suffixes, _text("")).take(
        codes.indices
    )


def _text(text: str) -> Any:
    return scalar_of(text, pa.string())


def _are_equal(column: Any, other: Any) -> Array:
    """Tell of each value of a column whether it is the other one's, which no null is."""
    if column.null_count == 0 and column.equals(other):
        # The most frequent case by far, at half the price.
        return np.ones(len(column), dtype=bool)
    return numpy_of(filled(pc.equal(column, other), False))
