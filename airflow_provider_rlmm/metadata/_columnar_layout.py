# SPDX-License-Identifier: Apache-2.0
"""
Finds, without a loop over rows, the fields of all values that are laid out as Kafka writes them.

A value passes only if every byte of it that is not data was checked: header, lengths, tagged fields, state, the order
of the leader epochs, the offsets' signs, and that it ends where its last field does. Whatever does not pass is not
judged here: the scalar serde decodes or refuses it, so that both always agree.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from airflow_provider_rlmm.metadata.serde import (
    PARTITION_DELETE_API_KEY,
    SEGMENT_API_KEY,
    SEGMENT_UPDATE_API_KEY,
    SNAPSHOT_API_KEY,
)

Array = npt.NDArray[Any]

_HEADER_BYTES = 4  # frame version, api key, api version, and the first byte of the body
_TOPIC_ID_PARTITION = [("topic_id", "V16"), ("partition", ">i4"), ("partition_tags", "u1")]
_SEGMENT_ID = [*_TOPIC_ID_PARTITION, ("segment_id", "V16"), ("id_tags", "u1")]
_SEGMENT = [
    ("start_offset", ">i8"),
    ("end_offset", ">i8"),
    ("broker_id", ">i4"),
    ("max_timestamp_ms", ">i8"),
    ("event_timestamp_ms", ">i8"),
    ("epochs_plus_one", "u1"),
]
_EVENT = [("broker_id", ">i4"), ("event_timestamp_ms", ">i8")]
_BODIES = {
    SEGMENT_API_KEY: np.dtype(_SEGMENT_ID + _SEGMENT),
    SEGMENT_UPDATE_API_KEY: np.dtype([*_SEGMENT_ID, *_EVENT, ("custom_plus_one", "u1")]),
    PARTITION_DELETE_API_KEY: np.dtype([*_TOPIC_ID_PARTITION, *_EVENT, ("state", "u1"), ("tags", "u1")]),
    SNAPSHOT_API_KEY: np.dtype([("segment_id", "V16"), *_SEGMENT]),
}
_EPOCH = np.dtype([("leader_epoch", ">i4"), ("start_offset", ">i8"), ("tags", "u1")])
_TAIL = np.dtype([("segment_size_in_bytes", ">i4"), ("custom_plus_one", "u1")])
_LAST_SEGMENT_STATE = 3
_LAST_PARTITION_DELETE_STATE = 2
_STATE_AND_NO_TAGS = 2
_STATE_AND_TXN_TAG = 5
_TXN_TAG = 0x01010001  # one tagged field: tag 0 of 1 byte, 1; as a little-endian number
_BEYOND_ANY_ROW = 1 << 40


@dataclass
class Block:
    """
    The values of one kind that are laid out as Kafka writes them; every array has one element per row.

    :param kind: the api key.
    :param body: the fixed part after the topic, a structured array in network byte order.
    :param columns: ``row`` (index of the value), and where the kind has them ``topic_at`` and ``topic_length``,
        ``epochs_at`` and ``epochs_count``, ``custom_at`` and ``custom_length`` (-1 for null), ``tail``, ``state``,
        ``txn_idx_empty``.
    """

    kind: int
    body: Array
    columns: dict[str, Array] = field(default_factory=dict)
    _epochs: tuple[Array, Array, Array] | None = None

    @property
    def rows(self) -> Array:
        """Index of each value."""
        return self.columns["row"]

    def keep(self, ok: Array) -> None:
        """
        Drop all rows that are not ok.

        :param ok: one truth value per row.
        """
        if not ok.all():
            self.body = self.body[ok] if self.body.size else self.body
            self._epochs = None
            self.columns = {name: column[ok] for name, column in self.columns.items()}

    def epochs(self, data: Array) -> tuple[Array, Array, Array]:
        """
        Return all leader epochs of the rows, one after the other; for each the index of its row here, and its place
        there.

        :param data: the bytes of all values.
        """
        if self._epochs is None:
            count, at = self.columns["epochs_count"], self.columns["epochs_at"]
            owner = np.arange(count.size)
            nth = np.zeros(1, dtype=np.int64)
            if (count != 1).any():
                owner = np.repeat(owner, count)
                nth = np.arange(owner.size) - np.repeat(np.cumsum(count) - count, count)
                at = at[owner] + nth * _EPOCH.itemsize
            self._epochs = gather(data, _EPOCH, at), owner, nth
        return self._epochs


def window(data: Array, dtype: str) -> Array:
    """
    Return an array whose element ``i`` is the ``dtype`` that begins at byte ``i``, aligned or not.

    :param data: the bytes.
    :param dtype: any type; a plain void type is gathered by copying, the fastest way.
    """
    width = np.dtype(dtype).itemsize
    return np.ndarray((max(data.size - width + 1, 0),), dtype=dtype, buffer=data, strides=(1,))


def gather(data: Array, dtype: np.dtype[Any], at: Array) -> Array:
    """
    Return the structures that begin at the given bytes.

    :param data: the bytes.
    :param dtype: a structured type.
    :param at: positions, all within the data.
    """
    copied: Array = window(data, f"V{dtype.itemsize}")[at].view(dtype)
    return copied


def canonical_blocks(data: Array, start: Array, end: Array, present: Array) -> list[Block]:
    """
    Return one block per kind that occurs.

    :param data: the bytes of all values.
    :param start: first byte of each value.
    :param end: byte behind each value.
    :param present: false for the values that are null.
    """
    rows = np.flatnonzero(present & (end - start >= _HEADER_BYTES))
    header = window(data, "<u4")[start[rows]]
    first_byte = header >> 24
    header &= 0x00FFFFFF
    blocks = []
    for kind in _BODIES:
        mine = header == (1 | kind << 8)
        if mine.any():
            block = Block(kind, np.empty(0), {"row": rows[mine], "first_byte": first_byte[mine]})
            _parse(block, data, start, end)
            blocks.append(block)
    return blocks


def _parse(block: Block, data: Array, start: Array, end: Array) -> None:
    _find_body(block, data, start, end)
    if block.kind == PARTITION_DELETE_API_KEY:
        body = block.body
        block.columns["state"] = body["state"]
        block.keep((body["state"] <= _LAST_PARTITION_DELETE_STATE) & (body["tags"] == 0) & _ends(block, "body_end"))
    elif block.kind == SEGMENT_UPDATE_API_KEY:
        block.columns["custom_plus_one"] = block.body["custom_plus_one"]
        _find_custom_metadata(block, data, block.columns["body_end"] - 1)
        _check_state(block, data)
    else:
        _find_epochs_and_tail(block, data)
        _find_custom_metadata(block, data, block.columns["tail_at"] + _TAIL.itemsize - 1)
        _check_state(block, data)
        _check_constructor(block, data)


def _find_body(block: Block, data: Array, start: Array, end: Array) -> None:
    """Pass the topic, if there is one, and take the fixed part behind it."""
    columns = block.columns
    at = start[block.rows] + (_HEADER_BYTES - 1)
    columns["end"] = end[block.rows]
    first_byte = columns.pop("first_byte")
    if block.kind == SNAPSHOT_API_KEY:
        body_at = at
        ok = np.ones(at.size, dtype=bool)
    else:
        length, topic_at = _compact_length(data, first_byte, at)
        columns["topic_at"], columns["topic_length"] = topic_at, length
        body_at = topic_at + length
        ok = length >= 0
    dtype = _BODIES[block.kind]
    columns["body_at"] = body_at
    columns["body_end"] = body_at + dtype.itemsize
    block.keep(ok & (columns["body_end"] <= columns["end"]))
    body = block.body = gather(data, dtype, block.columns["body_at"])
    if block.kind != SNAPSHOT_API_KEY:
        tags = body["partition_tags"]
        block.keep((tags | body["id_tags"] if block.kind != PARTITION_DELETE_API_KEY else tags) == 0)


def _find_epochs_and_tail(block: Block, data: Array) -> None:
    columns = block.columns
    count = block.body["epochs_plus_one"].astype(np.int64) - 1
    columns["epochs_at"], columns["epochs_count"] = columns["body_end"], count
    columns["tail_at"] = columns["body_end"] + count * _EPOCH.itemsize
    # A count of 127 and more has a longer varint; none at all is refused by Kafka.
    block.keep((count >= 1) & (count < 0x7F) & (columns["tail_at"] + _TAIL.itemsize <= columns["end"]))
    tail = gather(data, _TAIL, block.columns["tail_at"])
    block.columns["segment_size_in_bytes"] = tail["segment_size_in_bytes"]
    block.columns["custom_plus_one"] = tail["custom_plus_one"]


def _find_custom_metadata(block: Block, data: Array, at: Array) -> None:
    length, custom_at = _compact_length(data, block.columns.pop("custom_plus_one"), at)
    block.columns["custom_at"], block.columns["custom_length"] = custom_at, length
    block.columns["state_at"] = custom_at + np.maximum(length, 0)


def _check_state(block: Block, data: Array) -> None:
    """Check the state and the closing tagged fields, which must end the value."""
    columns = block.columns
    left = columns["end"] - columns["state_at"]
    ok = left == _STATE_AND_NO_TAGS
    is_segment = block.kind != SEGMENT_UPDATE_API_KEY
    block.keep(ok | (left == _STATE_AND_TXN_TAG) if is_segment else ok)
    columns = block.columns
    columns["state"] = state = data[columns["state_at"]]
    last_bytes = window(data, "<u4")[columns["end"] - 4]
    ok = (last_bytes >> 24) == 0
    if is_segment:
        columns["txn_idx_empty"] = tagged = columns["end"] - columns["state_at"] == _STATE_AND_TXN_TAG
        ok = np.where(tagged, last_bytes == _TXN_TAG, ok)
    block.keep(ok & (state <= _LAST_SEGMENT_STATE))


def _check_constructor(block: Block, data: Array) -> None:
    """Check what Kafka's constructors check, and that the leader epochs need no sorting."""
    if block.kind == SEGMENT_API_KEY:
        start = block.body["start_offset"].astype(np.int64)
        block.keep((start >= 0) & (start <= block.body["end_offset"]))
    epochs, owner, _ = block.epochs(data)
    good = epochs["tags"] == 0
    if owner.size != block.rows.size:
        leader_epoch = epochs["leader_epoch"].astype(np.int64)
        good[1:] &= (leader_epoch[1:] > leader_epoch[:-1]) | (owner[1:] != owner[:-1])
    if not good.all():
        ok = np.ones(block.rows.size, dtype=bool)
        ok[owner[~good]] = False
        block.keep(ok)


def _ends(block: Block, last: str) -> Array:
    ends: Array = block.columns[last] == block.columns["end"]
    return ends


def _compact_length(data: Array, first: Array, at: Array) -> tuple[Array, Array]:
    """
    Read lengths of one or two bytes.

    :param data: the bytes of all values.
    :param first: their first bytes.
    :param at: where those are.
    :return: the lengths, -1 for null, larger than any value where the varint is longer; and the bytes behind them.
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
