# SPDX-License-Identifier: Apache-2.0
"""The fields of a batch of values, collected from canonical blocks and from single records, as Arrow columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_provider_rlmm.core.base.arrow_arrays import array_of
from airflow_provider_rlmm.core.records.decoding.layout import Array, Block, Opening, window
from airflow_provider_rlmm.core.records.records import (
    NOT_SAID,
    RemoteLogMetadata,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataSnapshot,
    RemotePartitionDeleteMetadata,
    topic_id_partition_of,
)
from airflow_provider_rlmm.core.records.serde import (
    PARTITION_DELETE_API_KEY,
    SEGMENT_API_KEY,
    SEGMENT_UPDATE_API_KEY,
    SNAPSHOT_API_KEY,
    api_key_of,
)

NO_KIND = -1
_ALL = (SEGMENT_API_KEY, SEGMENT_UPDATE_API_KEY, PARTITION_DELETE_API_KEY, SNAPSHOT_API_KEY)
_OF_A_PARTITION = (SEGMENT_API_KEY, SEGMENT_UPDATE_API_KEY, PARTITION_DELETE_API_KEY)
_OF_A_SEGMENT = (SEGMENT_API_KEY, SEGMENT_UPDATE_API_KEY, SNAPSHOT_API_KEY)
_OPENING_A_SEGMENT = (SEGMENT_API_KEY, SNAPSHOT_API_KEY)
_EVENTS_OF_A_SEGMENT = (SEGMENT_API_KEY, SEGMENT_UPDATE_API_KEY)

_EPOCH_FIELDS = [pa.field("leader_epoch", pa.int32(), False), pa.field("start_offset", pa.int64(), False)]
_EPOCHS_TYPE = pa.list_(pa.field("item", pa.struct(_EPOCH_FIELDS), False))

FIELDS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "api_key": (pa.int8(), _ALL),
    "topic_id": (pa.binary(), _OF_A_PARTITION),
    "topic": (pa.string(), _OF_A_PARTITION),
    "partition": (pa.int32(), _OF_A_PARTITION),
    "segment_id": (pa.binary(), _OF_A_SEGMENT),
    "start_offset": (pa.int64(), _OPENING_A_SEGMENT),
    "end_offset": (pa.int64(), _OF_A_SEGMENT),
    "max_timestamp_ms": (pa.int64(), _OPENING_A_SEGMENT),
    "broker_id": (pa.int32(), _ALL),
    "event_timestamp_ms": (pa.int64(), _ALL),
    "segment_size_in_bytes": (pa.int32(), _OPENING_A_SEGMENT),
    "custom_metadata": (pa.binary(), _OF_A_SEGMENT),
    "state": (pa.int8(), _ALL),
    "segment_leader_epochs": (_EPOCHS_TYPE, _OPENING_A_SEGMENT),
    "txn_idx_empty": (pa.bool_(), _OPENING_A_SEGMENT),
    "broker_leader_epoch": (pa.int32(), _EVENTS_OF_A_SEGMENT),
}
"""
Arrow type of each field, and the kinds of record that have it. Ids are plain binary: Spark reads no fixed-size.

Of :data:`SAID_BY_VERSION_1` a record of api version 0 has null.
"""

SAID_BY_VERSION_1 = {
    "end_offset": (SEGMENT_UPDATE_API_KEY,),
    "broker_leader_epoch": _EVENTS_OF_A_SEGMENT,
}
"""What records of these kinds say from api version 1 on only; others that have the field always do."""

_NUMBERS = {name: kind.to_pandas_dtype() for name, (kind, _) in FIELDS.items() if pa.types.is_primitive(kind)}
_DTYPES: dict[str, Any] = {"topic_id": "V16", "segment_id": "V16", **_NUMBERS}
_MINUS_ONE = frozenset({"api_key", *SAID_BY_VERSION_1})
"""What has :data:`NO_KIND` or ``NOT_SAID`` where nothing was put."""

# Arrow's "binary view" of a string has 16 bytes: its length and, up to this many, the string itself.
_INLINE_BYTES = 12
_INLINE = np.dtype([("length", "<i4"), ("string", "V12")])
_ID_BYTES = 16


class Fields:
    """
    Collects the fields of a batch block by block and row by row, then hands them out as Arrow arrays.

    :param size: number of values.
    :param data: the bytes of all values.
    """

    def __init__(self, size: int, data: Array) -> None:
        self._size = size
        # Most batches are one block: what covers all rows becomes the column, without another one to be filled.
        self._columns: dict[str, Array] = {}
        self._topics = _Strings(size, data)
        self._customs = _Strings(size, data)
        self._epoch_count = np.zeros(size, dtype=np.int32)
        self._openings: list[tuple[Array, Opening]] = []
        self._epoch_lists: list[tuple[int, Sequence[tuple[int, int]]]] = []

    def __getitem__(self, name: str) -> Array:
        """Return the column of a field, no strings or leader epochs; anything where the row's kind does not have it."""
        column = self._columns.get(name)
        if column is None:
            column = self._columns[name] = np.zeros(self._size, _DTYPES[name])
            if name in _MINUS_ONE:
                column -= 1
        return column

    def _put(self, name: str, rows: Array, values: Array) -> None:
        if rows.size == self._size:
            self._columns[name] = np.ascontiguousarray(values, dtype=_DTYPES[name])
        else:
            self[name][rows] = values

    def add_block(self, block: Block) -> None:
        """Take over the rows of a block of values in canonical layout."""
        rows, columns = block.rows, block.columns
        for name in _DTYPES.keys() & columns.keys():
            self._put(name, rows, columns[name])
        if "topic_at" in columns:
            self._topics.add(rows, columns["topic_at"], columns["topic_length"])
        if block.opening is None:
            return
        given = np.flatnonzero(columns["custom_length"] >= 0)
        if given.size:
            self._customs.add(rows.take(given), columns["custom_at"].take(given), columns["custom_length"].take(given))
        opening = rows.take(block.opening.index)
        for name in _DTYPES.keys() & block.opening.columns.keys() - columns.keys():
            self._put(name, opening, block.opening.columns[name])
        self._epoch_count[opening] = block.opening.columns["epochs_count"]
        self._openings.append((opening, block.opening))

    def add_event(self, row: int, event: RemoteLogMetadata) -> None:
        """Take over one record, the value of a row."""
        self["api_key"][row] = api_key_of(event)
        for name in _NUMBERS:
            if hasattr(event, name):
                self[name][row] = getattr(event, name)
        if isinstance(event, RemoteLogSegmentMetadataSnapshot):
            self["segment_id"][row] = event.segment_id.bytes
        else:
            topic_id_partition = topic_id_partition_of(event)
            self["topic_id"][row] = topic_id_partition.topic_id.bytes
            self["partition"][row] = topic_id_partition.partition
            self._topics.add_bytes(row, topic_id_partition.topic.encode("utf-8"))
            if not isinstance(event, RemotePartitionDeleteMetadata):
                self["segment_id"][row] = event.remote_log_segment_id.id.bytes
        if not isinstance(event, RemotePartitionDeleteMetadata) and event.custom_metadata is not None:
            self._customs.add_bytes(row, event.custom_metadata)
        if isinstance(event, RemoteLogSegmentMetadata | RemoteLogSegmentMetadataSnapshot):
            self._epoch_count[row] = len(event.segment_leader_epochs)
            self._epoch_lists.append((row, event.segment_leader_epochs))

    def rows_with_invalid_topic(self) -> list[int]:
        """Return the rows whose topic is not UTF-8: only blocks can hold one, the scalar serde refuses it."""
        offsets, text = self._topics.offsets_and_bytes()
        if text.size == 0 or text.max() < 0x80:
            return []
        rows = np.unique(np.searchsorted(offsets, np.flatnonzero(text >= 0x80), side="right") - 1)
        return [int(row) for row in rows if not _is_utf8(text[offsets[row] : offsets[row + 1]].tobytes())]

    def arrays(self) -> dict[str, Any]:
        """Return the columns of :data:`FIELDS`; a field is null where the row's kind does not have it."""
        valid: dict[tuple[int, ...], Array] = {
            kinds: _among(self["api_key"], kinds)
            for kinds in (_ALL, _OF_A_PARTITION, _OF_A_SEGMENT, _OPENING_A_SEGMENT)
        }
        bitmaps = {kinds: _bitmap(truth) for kinds, truth in valid.items()}
        result: dict[str, Any] = {}
        for name in _NUMBERS.keys() - SAID_BY_VERSION_1.keys():
            arrow_type, kinds = FIELDS[name]
            result[name] = _scalar_array(arrow_type, self[name], *bitmaps[kinds])
        for name, kinds in SAID_BY_VERSION_1.items():
            result[name] = self._said_array(name, kinds, valid[_OPENING_A_SEGMENT])
        result["segment_leader_epochs"] = self._epochs_array(*bitmaps[_OPENING_A_SEGMENT])
        for name in ("topic_id", "segment_id"):
            kinds = FIELDS[name][1]
            result[name] = _ids_array(self[name], valid[kinds], *bitmaps[kinds])
        result["topic"] = self._topics.array(pa.string())
        result["custom_metadata"] = self._customs.array(pa.binary())
        return {name: result[name] for name in FIELDS}

    def _said_array(self, name: str, kinds: tuple[int, ...], opening: Array) -> Any:
        """Return a column that is null where a record of these kinds does not say it."""
        arrow_type, all_kinds = FIELDS[name]
        if name not in self._columns:
            return pa.nulls(self._size, arrow_type)
        said = _among(self["api_key"], kinds) & (self[name] != NOT_SAID)
        always = opening if all_kinds != kinds else np.zeros(self._size, dtype=bool)
        return _scalar_array(arrow_type, self[name], *_bitmap(said | always))

    def _epochs_array(self, validity: Any, nulls: int) -> Any:
        offsets = _offsets(self._epoch_count)
        if len(self._openings) == 1 and not self._epoch_lists:
            [(_, opening)] = self._openings
            leader_epoch, start_offset = opening.leader_epoch, opening.epoch_start
        else:
            leader_epoch, start_offset = self._epochs_of_all(offsets)
        items = pa.StructArray.from_arrays([array_of(leader_epoch), array_of(start_offset)], fields=_EPOCH_FIELDS)
        buffers = [validity, pa.py_buffer(offsets)]
        return pa.Array.from_buffers(_EPOCHS_TYPE, self._size, buffers, nulls, children=[items])

    def _epochs_of_all(self, offsets: Array) -> tuple[Array, Array]:
        leader_epoch = np.empty(int(offsets[-1]), dtype=np.int32)
        start_offset = np.empty(leader_epoch.size, dtype=np.int64)
        for rows, opening in self._openings:
            count = opening.columns["epochs_count"]
            target = np.repeat(offsets.take(rows) - np.cumsum(count) + count, count) + np.arange(int(count.sum()))
            leader_epoch[target], start_offset[target] = opening.leader_epoch, opening.epoch_start
        for row, pairs in self._epoch_lists:
            leader_epoch[offsets[row] : offsets[row + 1]] = [epoch for epoch, _ in pairs]
            start_offset[offsets[row] : offsets[row + 1]] = [start for _, start in pairs]
        return leader_epoch, start_offset


class _Strings:
    """Byte strings that lie scattered in the values, brought together by Arrow's own conversion from views."""

    def __init__(self, size: int, data: Array) -> None:
        self._size = size
        self._data = data
        self._parts: list[tuple[Array, Array, Array]] = []
        self._single: dict[int, bytes] = {}
        self._copied: tuple[Array, Array] | None = None

    def add(self, rows: Array, at: Array, length: Array) -> None:
        """Let strings within the values be those of some rows, ascending ones."""
        self._parts.append((rows, at, length))
        self._copied = None

    def add_bytes(self, row: int, value: bytes) -> None:
        """Let ``value`` be the string of one row."""
        self._single[row] = value
        self._copied = None

    def offsets_and_bytes(self) -> tuple[Array, Array]:
        """Return the offsets and the bytes of all strings, one after the other."""
        if self._copied is None:
            rows, views, extra = self._rows_and_views()
            length = views[:, 0].astype(np.int32)
            offsets = _offsets(length if rows.size == self._size else _scattered(self._size, rows, length))
            buffers = [None, *(pa.py_buffer(buffer) for buffer in (views, self._data, extra))]
            _, _, text = pa.Array.from_buffers(pa.binary_view(), rows.size, buffers).cast(pa.binary()).buffers()
            self._copied = offsets, np.empty(0, np.uint8) if text is None else np.frombuffer(text, np.uint8)
        return self._copied

    def _rows_and_views(self) -> tuple[Array, Array, bytes]:
        """Return the rows that have a string, ascending, views of these, and the bytes that are not in the data."""
        extra = b"".join(self._single.values())
        parts = [(rows, _views(self._data, 0, at, length)) for rows, at, length in self._parts]
        if self._single:
            length = np.array([len(value) for value in self._single.values()])
            views = _views(np.frombuffer(extra, np.uint8), 1, np.cumsum(length) - length, length)
            parts.append((np.array(list(self._single)), views))
        if len(parts) == 1:
            return *parts[0], extra
        rows = np.concatenate([np.empty(0, np.int64), *(rows for rows, _ in parts)])
        order = np.argsort(rows)
        views = np.concatenate([np.empty((0, 2), np.int64), *(views for _, views in parts)])
        return rows.take(order), views[order], extra

    def array(self, arrow_type: Any) -> Any:
        """Return the strings as Arrow's type, null where a row has none."""
        if not self._parts and not self._single:
            return pa.nulls(self._size, arrow_type)
        given = np.zeros(self._size, dtype=bool)
        for rows, _, _ in self._parts:
            given[rows] = True
        given[list(self._single)] = True
        validity, nulls = _bitmap(given)
        offsets, text = self.offsets_and_bytes()
        buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(text)]
        return pa.Array.from_buffers(arrow_type, self._size, buffers, nulls)


def _views(data: Array, buffer: int, at: Array, length: Array) -> Array:
    """Return Arrow's views of strings that lie in ``data``, which is the given one of the buffers."""
    views = np.empty((length.size, 2), np.int64)
    # Arrow looks a long string up: 4 bytes each of length, of the string (not read there), buffer and position.
    views[:, 0], views[:, 1] = length, at << 32 | buffer
    short = np.flatnonzero(length <= _INLINE_BYTES)
    if short.size:
        views.view(_INLINE)["string"][short, 0] = _short(data, at.take(short), length.take(short))
    return views


def _short(data: Array, at: Array, length: Array) -> Array:
    """Return 12 bytes from each position on, those of the string at least."""
    width = f"V{_INLINE_BYTES}"
    whole = window(data, width)
    late = np.flatnonzero(at >= whole.size)
    if not late.size:
        return whole[at]
    strings = np.zeros(at.size, width)
    early = np.flatnonzero(at < whole.size)
    strings[early] = whole[at.take(early)]
    for i in late.tolist():
        string = data[at[i] : at[i] + length[i]].tobytes()
        strings[i] = np.void(string.ljust(_INLINE_BYTES, b"\0"))
    return strings


def _scattered(size: int, rows: Array, values: Array) -> Array:
    column = np.zeros(size, values.dtype)
    column[rows] = values
    return column


def _offsets(counts: Array) -> Array:
    offsets = np.zeros(counts.size + 1, dtype=np.int32)
    np.cumsum(counts, out=offsets[1:])
    return offsets


def _scalar_array(arrow_type: Any, values: Array, validity: Any, nulls: int) -> Any:
    data = pa.py_buffer(np.packbits(values, bitorder="little") if values.dtype == np.bool_ else values)
    return pa.Array.from_buffers(arrow_type, values.size, [validity, data], nulls)


def _ids_array(ids: Array, valid: Array, validity: Any, nulls: int) -> Any:
    if nulls:
        offsets = _offsets(valid)
        offsets *= _ID_BYTES
        ids = ids[valid]
    else:
        offsets = np.arange(0, _ID_BYTES * (ids.size + 1), _ID_BYTES, dtype=np.int32)
    return pa.Array.from_buffers(pa.binary(), valid.size, [validity, pa.py_buffer(offsets), pa.py_buffer(ids)], nulls)


def _bitmap(truth: Array) -> tuple[Any, int]:
    """Return Arrow's bitmap and the number of zeros in it; no bitmap where there is none."""
    nulls = truth.size - int(np.count_nonzero(truth))
    return (pa.py_buffer(np.packbits(truth, bitorder="little")) if nulls else None), nulls


def _among(kind: Array, kinds: tuple[int, ...]) -> Array:
    found = np.zeros(kind.size, dtype=bool)
    for one in kinds:
        found |= kind == one
    return found


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
