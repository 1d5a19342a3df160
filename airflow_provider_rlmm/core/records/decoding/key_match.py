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

from airflow_provider_rlmm.core.records.decoding.layout import Array, gather
from airflow_provider_rlmm.core.records.keys import SEGMENT_KEY_BYTES, UPDATE_SUFFIX
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.records.serde import SEGMENT_UPDATE_API_KEY

_SEGMENT_KEY = np.dtype([("topic_id", "V16"), ("partition", ">i4"), ("segment_id", "V16"), ("state", "i1")])
_KEY = f"V{SEGMENT_KEY_BYTES}"
_ID = "V16"


def are_named(keys: Any, events: Mapping[str, Any]) -> Array:
    """
    Tell of each record whether its key is the one that follows from its value, in either design.

    :param keys: the keys, a binary array without nulls.
    :param events: the fields of the records, all of them about a segment: name → array.
    :return: one boolean per record. A key that is none of the two may still name what the value names: see the module.
    """
    named = _by_state(keys, events)
    rest = np.flatnonzero(~named)
    if rest.size:
        index = pa.array(rest)
        named[rest] = _by_end_offset(keys.take(index), {name: column.take(index) for name, column in events.items()})
    return named


def _by_state(keys: Any, events: Mapping[str, Any]) -> Array:
    """Compare with keys of 37 bytes: topic id, partition, segment id, state."""
    _, offsets_buffer, data_buffer = keys.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[keys.offset : keys.offset + len(keys) + 1]
    named: Array = np.diff(offsets) == SEGMENT_KEY_BYTES
    rows = np.flatnonzero(named)
    if not rows.size:
        return named
    expected = np.empty(rows.size, _SEGMENT_KEY)
    for name in ("topic_id", "segment_id"):
        expected[name] = _ids(events[name]).take(rows)
    for name in ("partition", "state"):
        expected[name] = events[name].to_numpy(zero_copy_only=False).take(rows)
    actual = gather(np.frombuffer(data_buffer, np.uint8), np.dtype(_KEY), offsets.take(rows))
    named[rows] = actual == expected.view(_KEY)
    return named


def _ids(column: Any) -> Array:
    """Return ids as numpy structures; none of them is null."""
    _, offsets, data = column.buffers()
    first = np.frombuffer(offsets, np.int32)[column.offset]
    return np.frombuffer(data, _ID, count=len(column), offset=int(first))


def _by_end_offset(keys: Any, events: Mapping[str, Any]) -> Array:
    """Compare with keys of text, where the value says all of it: topic id, topic, partition, end offset, leader epoch."""
    ids = events["topic_id"].dictionary_encode()
    texts = pa.array([kafka_uuid_str(UUID(bytes=topic_id)) for topic_id in ids.dictionary.to_pylist()], pa.string())
    numbers = (events[name].cast(pa.string()) for name in ("partition", "end_offset", "broker_leader_epoch"))
    is_update = pc.equal(events["api_key"], SEGMENT_UPDATE_API_KEY)
    text = pc.binary_join_element_wise(texts.take(ids.indices), events["topic"], *numbers, ":")
    expected = pc.binary_join_element_wise(text, pc.if_else(is_update, f":{UPDATE_SUFFIX}", ""), "")
    equal = pc.equal(keys, expected.cast(pa.binary())).fill_null(False)
    # No topic has such a name, and a key with one could be cut in another way.
    ambiguous = pc.match_substring(events["topic"], ":")
    result: Array = pc.and_not(equal, ambiguous).to_numpy(zero_copy_only=False)
    return result
