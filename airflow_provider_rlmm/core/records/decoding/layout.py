# SPDX-License-Identifier: Apache-2.0
"""
Finds, without a loop over rows, the fields of all values that are laid out as Kafka writes them.

A value passes only if every byte of it that is not data was checked: header, lengths, tagged fields, state, the order
of the leader epochs, the offsets' signs, and that it ends where its last field does. What does not pass is not
judged here: the scalar serde decodes or refuses it, so that both always agree.

What costs time is a look at the scattered values, at any width; what follows in contiguous columns is cheap.
Therefore: few looks, each as wide as the layout allows, and no rows are moved unless one of them is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from airflow_provider_rlmm.core.records.serde import (
    PARTITION_DELETE_API_KEY,
    SEGMENT_API_KEY,
    SEGMENT_UPDATE_API_KEY,
    SNAPSHOT_API_KEY,
)

Array = npt.NDArray[Any]

_KINDS = (SEGMENT_API_KEY, SEGMENT_UPDATE_API_KEY, PARTITION_DELETE_API_KEY, SNAPSHOT_API_KEY)
_HEADER_BYTES = 4  # frame version, api key, api version, and the first byte of the body
_TOPIC_ID_PARTITION = [("topic_id", "V16"), ("partition", ">i4"), ("partition_tags", "u1")]
_EVENT = [("broker_id", ">i4"), ("event_timestamp_ms", ">i8")]
_SEGMENT_ID = [*_TOPIC_ID_PARTITION, ("segment_id", "V16"), ("id_tags", "u1")]
_SEGMENT_ID_BYTES = np.dtype(_SEGMENT_ID).itemsize
_ID = np.dtype([("segment_id", "V16")])
# What an update is up to the length of its custom metadata; of other events the ids only.
_UPDATE = np.dtype([*_SEGMENT_ID, *_EVENT, ("custom_plus_one", "u1")])
_DELETION = np.dtype([*_TOPIC_ID_PARTITION, *_EVENT, ("state", "u1"), ("tags", "u1")])
_EPOCH = np.dtype([("leader_epoch", ">i4"), ("epoch_start", ">i8"), ("tags", "u1")])
_SIZE = np.dtype([("segment_size_in_bytes", ">i4"), ("custom_plus_one", "u1")])
_OPENED = np.dtype(
    [
        ("start_offset", ">i8"),
        ("end_offset", ">i8"),
        ("broker_id", ">i4"),
        ("max_timestamp_ms", ">i8"),
        ("event_timestamp_ms", ">i8"),
    ]
)
# What opens a segment's life, with one leader epoch: the first of several, the size comes later then.
_SEGMENT = np.dtype([*_OPENED.descr, ("epochs_plus_one", "u1"), *_EPOCH.descr, *_SIZE.descr])
_LAST_SEGMENT_STATE = 3
_LAST_PARTITION_DELETE_STATE = 2
# The end of a value: the state and its tagged fields, of which there are none, or one: tag 0 of 1 byte, 1.
_END = np.dtype([("state", "u1"), ("tags", "<u4")])
_STATE_AND_NO_TAGS = 2
_STATE_AND_TXN_TAG = _END.itemsize
_TXN_TAG = 0x01010001  # as a little-endian number
# The end of a value of api version 1, the state and its tagged fields, seen from behind. Of an update tag 0 is a leader epoch
# and tag 1 an end offset, of an add tag 1 is a leader epoch, perhaps behind tag 0 of 1 byte, 1.
_KEYED_ENDS: dict[str, tuple[int, str]] = {
    "updated": (18, "<u4"),  # state, number of fields, tag and size
    "updated_epoch": (14, ">i4"),
    "end_offset_tag": (10, "<u2"),  # with its size
    "end_offset": (8, ">i8"),
    "txn_state": (11, "u1"),
    "txn_tag": (10, "<u4"),  # with the number of fields and its size and value
    "epoch_tag": (6, "<u2"),
    "added": (8, "<u4"),
    "added_epoch": (4, ">i4"),
}
_UPDATED_BYTES, _ADDED_TXN_BYTES, _ADDED_BYTES = 18, 11, 8
_KEYED_END = np.dtype(
    {
        "names": list(_KEYED_ENDS),
        "formats": [kind for _, kind in _KEYED_ENDS.values()],
        "offsets": [_UPDATED_BYTES - behind for behind, _ in _KEYED_ENDS.values()],
        "itemsize": _UPDATED_BYTES,
    }
)
# As little-endian numbers, the first two behind the state.
_UPDATED, _ADDED = 0x040002, 0x040101
_TXN_TAG_OF_TWO, _EPOCH_TAG, _END_OFFSET_TAG = 0x01010002, 0x0401, 0x0801
_KEYED_HEADER = 1 | SEGMENT_API_KEY << 8 | 1 << 16
_BEYOND_ANY_ROW = 1 << 40


@dataclass(slots=True)
class Opening:
    """What only the events have that open a segment's life."""

    index: Array  # which values of their block they are
    columns: dict[str, Array]  # the fields, and ``epochs_count``
    leader_epoch: Array  # their leader epochs, those of one value after those of the other
    epoch_start: Array  # where these start
    custom_at: Array  # where the length of the custom metadata is


@dataclass(slots=True)
class Block:
    """Values that are laid out as Kafka writes them."""

    rows: Array  # index of each value, ascending
    # one element per value: ``api_key`` and the fields' numbers, ``topic_id``, ``topic_at`` and ``topic_length`` (not
    # for snapshots), ``segment_id``, ``custom_at`` and ``custom_length`` (-1 for null; none of these for deletions).
    columns: dict[str, Array]
    opening: Opening | None  # further fields of some of them; not for deletions


def window(data: Array, dtype: str) -> Array:
    """Return an array whose element ``i`` begins at byte ``i``, aligned or not; plain void types are gathered fastest."""
    width = np.dtype(dtype).itemsize
    return np.ndarray((max(data.size - width + 1, 0),), dtype=dtype, buffer=data, strides=(1,))


def gather(data: Array, dtype: np.dtype[Any], at: Array) -> Array:
    """Return the structures of a type that begin at the given bytes, all within the data."""
    copied: Array = window(data, f"V{dtype.itemsize}")[at].view(dtype)
    return copied


class _NotCanonicalError(Exception):
    """Some values are laid out in another way: ``ok`` tells the others."""

    def __init__(self, ok: Array) -> None:
        self.ok = ok


def _require(ok: Array) -> None:
    if not ok.all():
        raise _NotCanonicalError(ok)


@dataclass(slots=True)
class _Values:
    """Where some values lie; one element per value."""

    data: Array  # the bytes of all values
    row: Array  # index of each
    start: Array  # its first byte
    end: Array  # the byte behind it
    first_byte: Array  # the first byte of its body
    kind: Array  # its api key
    version: int = 0  # their api version

    def take(self, index: Array, version: int = 0) -> _Values:
        return _Values(
            self.data,
            taken(self.row, index),
            taken(self.start, index),
            taken(self.end, index),
            taken(self.first_byte, index),
            taken(self.kind, index),
            self.version or version,
        )

    def pass_topic(self, least: int) -> tuple[Array, Array, Array]:
        """Return where the topics are, their lengths, and where the least bytes begin that must follow."""
        length, topic_at = _compact_length(self.data, self.first_byte, self.start + (_HEADER_BYTES - 1))
        behind = topic_at + length
        _require((length >= 0) & (behind + least <= self.end))
        return topic_at, length, behind


def taken(column: Array, index: Array) -> Array:
    """Return some elements, in ascending order; nothing is copied if they are all."""
    return column if index.size == column.size else column.take(index)


def canonical_blocks(data: Array, start: Array, end: Array, present: Array, keyed: Array | None) -> list[Block]:
    """
    Return a block of the segments' events of each api version, one of the deletions and one of snapshots, as far as there are
    any.

    :param data: the bytes of all values.
    :param start: first byte of each value.
    :param end: byte behind each value.
    :param present: false for the values that are null.
    :param keyed: true for the values whose records have a key, which may be of api version 1; ``None`` where none has.
    """
    rows = np.flatnonzero(present & (end - start >= _HEADER_BYTES))
    begin = taken(start, rows)
    header = window(data, "<u4")[begin]
    first_byte = (header >> 24).astype(np.uint8)
    header &= 0x00FFFFFF
    is_kind = {api_key: header == (1 | api_key << 8) for api_key in _KINDS}
    every = _Values(data, rows, begin, taken(end, rows), first_byte, (header >> 8).astype(np.int8))
    of_a_segment = is_kind[SEGMENT_API_KEY] | is_kind[SEGMENT_UPDATE_API_KEY]
    parts = [
        (_segment_events, every.take(np.flatnonzero(of_a_segment))),
        (_deletions, every.take(np.flatnonzero(is_kind[PARTITION_DELETE_API_KEY]))),
        (_snapshots, every.take(np.flatnonzero(is_kind[SNAPSHOT_API_KEY]))),
    ]
    if keyed is not None:
        later = (header == _KEYED_HEADER) | (header == (_KEYED_HEADER | SEGMENT_UPDATE_API_KEY << 8))
        parts.append((_segment_events, every.take(np.flatnonzero(later & keyed.take(rows)), version=1)))
    return [block for parse, values in parts for block in _parsed(parse, values)]


def _parsed(parse: Callable[[_Values], Block], values: _Values) -> list[Block]:
    """Return the block of the values that are laid out as Kafka writes them."""
    while values.row.size:
        # Once more without those that are laid out in another way: as often as there are checks, at most.
        try:
            return [parse(values)]
        except _NotCanonicalError as e:
            values = values.take(np.flatnonzero(e.ok))
    return []


def _deletions(values: _Values) -> Block:
    topic_at, topic_length, at = values.pass_topic(_DELETION.itemsize)
    _require(at + _DELETION.itemsize == values.end)
    body = gather(values.data, _DELETION, at)
    _require(((body["partition_tags"] | body["tags"]) == 0) & (body["state"] <= _LAST_PARTITION_DELETE_STATE))
    columns = {"topic_at": topic_at, "topic_length": topic_length, "topic_id": body["topic_id"], "state": body["state"]}
    columns |= {name: _native(body[name]) for name in ("partition", "broker_id", "event_timestamp_ms")}
    return Block(values.row, {"api_key": values.kind, **columns}, None)


def _segment_events(values: _Values) -> Block:
    data = values.data
    topic_at, topic_length, at = values.pass_topic(_UPDATE.itemsize)
    update = gather(data, _UPDATE, at)
    _require((update["partition_tags"] | update["id_tags"]) == 0)
    added = np.flatnonzero(values.kind == SEGMENT_API_KEY)
    opening = _opening(values, added, at.take(added) + _SEGMENT_ID_BYTES)

    def both(name: str) -> Array:
        column = _native(update[name])
        column[added] = opening.columns[name]
        return column

    custom_at = at + (_UPDATE.itemsize - 1)
    custom_at[added] = opening.custom_at
    custom_length, custom_at = _compact_length(data, both("custom_plus_one"), custom_at)
    behind = custom_at + np.maximum(custom_length, 0)
    state, txn_idx_empty, *said = _keyed_state(values, behind, added) if values.version else _state(values, behind)
    opening.columns["txn_idx_empty"] = txn_idx_empty.take(added)
    columns = {
        "api_key": values.kind,
        "topic_at": topic_at,
        "topic_length": topic_length,
        "topic_id": update["topic_id"],
        "partition": _native(update["partition"]),
        "segment_id": update["segment_id"],
        "broker_id": both("broker_id"),
        "event_timestamp_ms": both("event_timestamp_ms"),
        "custom_at": custom_at,
        "custom_length": custom_length,
        "state": state,
    }
    if said:
        columns["broker_leader_epoch"], end_offset = said
        end_offset[added] = opening.columns["end_offset"]
        columns["end_offset"] = end_offset
    return Block(values.row, columns, opening)


def _snapshots(values: _Values) -> Block:
    at = values.start + (_HEADER_BYTES - 1)
    _require(at + _ID.itemsize <= values.end)
    ids = gather(values.data, _ID, at)
    opening = _opening(values, np.arange(at.size), at + _ID.itemsize)
    custom_length, custom_at = _compact_length(values.data, opening.columns["custom_plus_one"], opening.custom_at)
    state, opening.columns["txn_idx_empty"] = _state(values, custom_at + np.maximum(custom_length, 0))
    columns = {
        "api_key": values.kind,
        "segment_id": ids["segment_id"],
        "custom_at": custom_at,
        "custom_length": custom_length,
        "state": state,
    }
    return Block(values.row, columns, opening)


def _opening(values: _Values, added: Array, at: Array) -> Opening:
    """Take what only the event that opens a segment's life has, up to the size."""
    data, end = values.data, values.end.take(added)
    ok = np.ones(values.row.size, dtype=bool)
    _require_of(ok, added, at + _SEGMENT.itemsize <= end)
    body = gather(data, _SEGMENT, at)
    columns = {name: _native(body[name]) for name in (*(_OPENED.fields or ()), *(_SIZE.fields or ()))}
    count = body["epochs_plus_one"].astype(np.int64) - 1
    size_at = at + (_SEGMENT.itemsize - _SIZE.itemsize - _EPOCH.itemsize) + count * _EPOCH.itemsize
    start = columns["start_offset"]
    # A count of 127 and more has a longer varint; none at all is refused by Kafka, and so are such offsets.
    _require_of(
        ok, added, (count >= 1) & (count < 0x7F) & (size_at + _SIZE.itemsize <= end)
        & (start >= 0) & (start <= columns["end_offset"]),
    )  # fmt: skip
    several = np.flatnonzero(count > 1)
    size = gather(data, _SIZE, size_at.take(several))
    for name in _SIZE.fields or ():
        columns[name][several] = size[name]
    columns["epochs_count"] = count
    epochs, good = _epochs(data, body, at + (_SEGMENT.itemsize - _SIZE.itemsize), count, several)
    _require_of(ok, added, good)
    return Opening(added, columns, *epochs, size_at + (_SIZE.itemsize - 1))


def _require_of(ok: Array, index: Array, good: Array) -> None:
    if not good.all():
        ok[index] = good
        raise _NotCanonicalError(ok)


def _epochs(data: Array, body: Array, behind: Array, count: Array, several: Array) -> tuple[tuple[Array, Array], Array]:
    """Return all leader epochs and their starts, one value's after the other's, and for each value whether they are ok."""
    leader_epoch, epoch_start = _native(body["leader_epoch"]), _native(body["epoch_start"])
    good = body["tags"] == 0
    if not several.size:
        return (leader_epoch, epoch_start), good
    more = count.take(several) - 1
    owner = several.repeat(more)
    nth = np.arange(owner.size) - (np.cumsum(more) - more).repeat(more)
    others = gather(data, _EPOCH, behind.take(owner) + nth * _EPOCH.itemsize)
    at = np.cumsum(count)
    at -= count
    place = at.take(owner) + nth + 1
    every_epoch, every_start = np.empty(count.size + owner.size, np.int32), np.empty(count.size + owner.size, np.int64)
    every_epoch[at], every_start[at] = leader_epoch, epoch_start
    every_epoch[place], every_start[place] = others["leader_epoch"], others["epoch_start"]
    # Kafka sorts them: those that need no sorting only.
    rising = every_epoch.take(place) > every_epoch.take(place - 1)
    good[owner[(others["tags"] != 0) | ~rising]] = False
    return (every_epoch, every_start), good


def _state(values: _Values, at: Array) -> tuple[Array, Array]:
    """Return the states, which closing tagged fields follow that end the value; and whether these are the known one."""
    left = values.end - at
    tagged = left == _STATE_AND_TXN_TAG
    tagged &= values.kind != SEGMENT_UPDATE_API_KEY
    _require(tagged | (left == _STATE_AND_NO_TAGS))
    closing = gather(values.data, _END, values.end - _END.itemsize)
    tags = _native(closing["tags"])
    # Without a tagged field these are some bytes before, the state, and the number of tagged fields.
    state = (tags >> 16).astype(np.uint8)
    ok = tags < 1 << 24
    with_tag = np.flatnonzero(tagged)
    state[with_tag] = closing["state"][with_tag]
    ok[with_tag] = tags.take(with_tag) == _TXN_TAG
    ok &= state <= _LAST_SEGMENT_STATE
    _require(ok)
    return state, tagged


def _keyed_state(values: _Values, at: Array, added: Array) -> tuple[Array, Array, Array, Array]:
    """
    Return what :func:`_state` does of values of api version 1, and the leader epochs and end offsets behind it.

    The end offsets of those that were ``added`` are anything.
    """
    left = values.end - at
    closing = gather(values.data, _KEYED_END, values.end - _UPDATED_BYTES)
    opened, epoch, end_offset = (_native(closing[name]) for name in ("updated", "updated_epoch", "end_offset"))
    ok = (left == _UPDATED_BYTES) & (opened >> 8 == _UPDATED) & (closing["end_offset_tag"] == _END_OFFSET_TAG)
    state, tagged = opened.astype(np.uint8), np.zeros(left.size, dtype=bool)
    left, closing = left.take(added), gather(values.data, _KEYED_END, values.end.take(added) - _UPDATED_BYTES)
    with_txn, opened = left == _ADDED_TXN_BYTES, _native(closing["added"])
    tags_of_two = (closing["txn_tag"] == _TXN_TAG_OF_TWO) & (closing["epoch_tag"] == _EPOCH_TAG)
    ok[added] = (with_txn & tags_of_two) | ((left == _ADDED_BYTES) & (opened >> 8 == _ADDED))
    state[added] = np.where(with_txn, closing["txn_state"], opened.astype(np.uint8))
    epoch[added], tagged[added] = closing["added_epoch"], with_txn
    _require(ok & (state <= _LAST_SEGMENT_STATE))
    return state, tagged, epoch, end_offset


def _native(column: Array) -> Array:
    """Return numbers in the machine's byte order, side by side."""
    return column.astype(column.dtype.newbyteorder("="))


def _compact_length(data: Array, first: Array, at: Array) -> tuple[Array, Array]:
    """
    Read lengths of one or two bytes, whose first bytes are known; return them, and where the bytes behind them are.

    A length is -1 for null, and larger than any value where the varint is longer.
    """
    length = first.astype(np.int64) - 1
    behind = at + 1
    longer = np.flatnonzero(first >= 0x80)
    if longer.size:
        second = data[np.minimum(behind[longer], data.size - 1)].astype(np.int64)
        length[longer] = (length[longer] + 1 - 0x80 | second << 7) - 1
        length[longer[second >= 0x80]] = _BEYOND_ANY_ROW
        behind[longer] += 1
    return length, behind
