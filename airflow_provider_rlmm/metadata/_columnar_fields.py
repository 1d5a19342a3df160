# SPDX-License-Identifier: Apache-2.0
"""The fields of a batch of values, collected from canonical blocks and from single records, as Arrow columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_provider_rlmm.metadata._columnar_layout import Array, Block, Opening, taken, window
from airflow_provider_rlmm.metadata.records import (
    RemoteLogMetadata,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataSnapshot,
    RemotePartitionDeleteMetadata,
    topic_id_partition_of,
)
from airflow_provider_rlmm.metadata.serde import (
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

_EPOCH_FIELDS = [pa.field("leader_epoch", pa.int32(), False), pa.field("start_offset", pa.int64(), False)]
_EPOCHS_TYPE = pa.list_(pa.field("item", pa.struct(_EPOCH_FIELDS), False))

FIELDS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "api_key": (pa.int8(), _ALL),
    "topic_id": (pa.binary(), _OF_A_PARTITION),
    "topic": (pa.string(), _OF_A_PARTITION),
    "partition": (pa.int32(), _OF_A_PARTITION),
    "segment_id": (pa.binary(), _OF_A_SEGMENT),
    "start_offset": (pa.int64(), _OPENING_A_SEGMENT),
    "end_offset": (pa.int64(), _OPENING_A_SEGMENT),
    "max_timestamp_ms": (pa.int64(), _OPENING_A_SEGMENT),
    "broker_id": (pa.int32(), _ALL),
    "event_timestamp_ms": (pa.int64(), _ALL),
    "segment_size_in_bytes": (pa.int32(), _OPENING_A_SEGMENT),
    "custom_metadata": (pa.binary(), _OF_A_SEGMENT),
    "state": (pa.int8(), _ALL),
    "segment_leader_epochs": (_EPOCHS_TYPE, _OPENING_A_SEGMENT),
    "txn_idx_empty": (pa.bool_(), _OPENING_A_SEGMENT),
}
"""Arrow type of each field, and the kinds of record that have it. Ids are plain binary: Spark reads no fixed-size."""

_SCALARS = {
    "partition": np.int32,
    "start_offset": np.int64,
    "end_offset": np.int64,
    "max_timestamp_ms": np.int64,
    "broker_id": np.int32,
    "event_timestamp_ms": np.int64,
    "segment_size_in_bytes": np.int32,
    "state": np.int8,
    "txn_idx_empty": np.bool_,
}

# Arrow's "binary view": a length, then the bytes themselves if they fit, else their beginning, a buffer and a position.
_INLINE_BYTES = 12
_ID_BYTES = 16
_VIEW = np.dtype(
    {"names": ["length", "inline", "buffer", "at"], "formats": ["<i4", "V12", "<i4", "<i4"], "offsets": [0, 4, 8, 12]}
)


class Fields:
    """
    Collects the fields of a batch block by block and row by row, then hands them out as Arrow arrays.

    :param size: number of values.
    :param data: the bytes of all values.
    """

    def __init__(self, size: int, data: Array) -> None:
        self._size = size
        self.kind = np.full(size, NO_KIND, dtype=np.int8)
        self.scalars: dict[str, Array] = {name: np.zeros(size, dtype) for name, dtype in _SCALARS.items()}
        self.topic_id = np.zeros(size, dtype="V16")
        self._segment_id = np.zeros(size, dtype="V16")
        self._topics = _Strings(size, data)
        self._customs = _Strings(size, data)
        self._has_custom = np.zeros(size, dtype=bool)
        self._epoch_count = np.zeros(size, dtype=np.int32)
        self._openings: list[tuple[Array, Opening]] = []
        self._epoch_lists: list[tuple[int, Sequence[tuple[int, int]]]] = []

    def add_block(self, block: Block) -> None:
        """
        Take over the rows of a block.

        :param block: values in canonical layout.
        """
        rows, columns = block.rows, block.columns
        self.kind = _placed(self.kind, rows, columns["api_key"])
        for name, out in self.scalars.items():
            if name in columns:
                self.scalars[name] = _placed(out, rows, columns[name])
        if "topic_id" in columns:
            self.topic_id = _placed(self.topic_id, rows, columns["topic_id"])
            self._topics.set(rows, columns["topic_at"], columns["topic_length"])
        if block.opening is None:
            return
        self._segment_id = _placed(self._segment_id, rows, columns["segment_id"])
        given = np.flatnonzero(columns["custom_length"] >= 0)
        if given.size:
            self._has_custom[rows.take(given)] = True
            self._customs.set(rows.take(given), columns["custom_at"].take(given), columns["custom_length"].take(given))
        opening = rows.take(block.opening.index)
        for name, out in self.scalars.items():
            if name in block.opening.columns and name not in columns:
                out[opening] = block.opening.columns[name]
        self._epoch_count[opening] = block.opening.columns["epochs_count"]
        self._openings.append((opening, block.opening))

    def add_event(self, row: int, event: RemoteLogMetadata) -> None:
        """
        Take over one record.

        :param row: index of its value.
        :param event: the record.
        """
        self.kind[row] = api_key_of(event)
        for name, out in self.scalars.items():
            if hasattr(event, name):
                out[row] = getattr(event, name)
        if isinstance(event, RemoteLogSegmentMetadataSnapshot):
            self._segment_id[row] = event.segment_id.bytes
        else:
            topic_id_partition = topic_id_partition_of(event)
            self.topic_id[row] = topic_id_partition.topic_id.bytes
            self.scalars["partition"][row] = topic_id_partition.partition
            self._topics.set_bytes(row, topic_id_partition.topic.encode("utf-8"))
            if not isinstance(event, RemotePartitionDeleteMetadata):
                self._segment_id[row] = event.remote_log_segment_id.id.bytes
        if not isinstance(event, RemotePartitionDeleteMetadata) and event.custom_metadata is not None:
            self._has_custom[row] = True
            self._customs.set_bytes(row, event.custom_metadata)
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
            kinds: _among(self.kind, kinds) for kinds in (_ALL, _OF_A_PARTITION, _OF_A_SEGMENT, _OPENING_A_SEGMENT)
        }
        bitmaps = {kinds: _bitmap(truth) for kinds, truth in valid.items()}
        scalars = {"api_key": self.kind, **self.scalars}
        result: dict[str, Any] = {}
        for name, values in scalars.items():
            arrow_type, kinds = FIELDS[name]
            result[name] = _scalar_array(arrow_type, values, *bitmaps[kinds])
        result["segment_leader_epochs"] = self._epochs_array(*bitmaps[_OPENING_A_SEGMENT])
        result["topic_id"] = _ids_array(self.topic_id, valid[_OF_A_PARTITION])
        result["segment_id"] = _ids_array(self._segment_id, valid[_OF_A_SEGMENT])
        result["topic"] = self._topics.array(pa.string(), *bitmaps[_OF_A_PARTITION])
        result["custom_metadata"] = self._customs.array(pa.binary(), *_bitmap(self._has_custom))
        return {name: result[name] for name in FIELDS}

    def _epochs_array(self, validity: Any, nulls: int) -> Any:
        offsets = _offsets(self._epoch_count)
        if len(self._openings) == 1 and not self._epoch_lists:
            [(_, opening)] = self._openings
            leader_epoch, start_offset = opening.leader_epoch, opening.epoch_start
        else:
            leader_epoch, start_offset = self._epochs_of_all(offsets)
        items = pa.StructArray.from_arrays([pa.array(leader_epoch), pa.array(start_offset)], fields=_EPOCH_FIELDS)
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
    """
    Byte strings that lie scattered in the values, brought together by Arrow's own conversion from views.

    :param size: number of rows.
    :param data: the bytes of all values.
    """

    def __init__(self, size: int, data: Array) -> None:
        self._data = data
        self._views = np.zeros(size, dtype=_VIEW)
        self._extra = bytearray()
        self._copied: tuple[Array, Array] | None = None

    def set(self, rows: Array, at: Array, length: Array) -> None:
        """Let strings within the values be those of some rows."""
        views = self._views if rows.size == self._views.size else np.zeros(rows.size, dtype=_VIEW)
        # Arrow looks a long string up; only a short one lies in its view.
        views["length"], views["at"] = length, at
        short = np.flatnonzero(length <= _INLINE_BYTES)
        if short.size:
            views["inline"][short] = self._short(at.take(short))
        if views is not self._views:
            self._views.view("V16")[rows] = views.view("V16")
        self._copied = None

    def _short(self, at: Array) -> Array:
        """Return 12 bytes from each position on, zeros from the end of the data on."""
        width = f"V{_INLINE_BYTES}"
        whole = window(self._data, width)
        late = np.flatnonzero(at >= whole.size)
        if not late.size:
            return whole[at]
        strings = np.zeros(at.size, width)
        early = np.flatnonzero(at < whole.size)
        strings[early] = whole[at.take(early)]
        tail = self._data[int(at[late].min()) :].tobytes()
        for i in late.tolist():
            strings[i] = np.void(
                tail[int(at[i]) - self._data.size :].ljust(_INLINE_BYTES, b"\0")
                if at[i] < self._data.size
                else bytes(_INLINE_BYTES)
            )
        return strings

    def set_bytes(self, row: int, value: bytes) -> None:
        """Let ``value`` be the string of one row."""
        view = np.zeros(1, dtype=_VIEW)
        view["length"] = len(value)
        if len(value) <= _INLINE_BYTES:
            view["inline"] = np.void(value.ljust(_INLINE_BYTES, b"\0"))
        else:
            view["buffer"], view["at"] = 1, len(self._extra)
            self._extra += value
        self._views[row] = view[0]
        self._copied = None

    def offsets_and_bytes(self) -> tuple[Array, Array]:
        """Return the offsets and the bytes of all strings, one after the other."""
        if self._copied is None:
            length = self._views["length"]
            given = np.flatnonzero(length)
            views = taken(self._views.view("V16"), given)
            buffers = [None, pa.py_buffer(views), pa.py_buffer(self._data), pa.py_buffer(bytes(self._extra))]
            _, _, text = pa.Array.from_buffers(pa.binary_view(), given.size, buffers).cast(pa.binary()).buffers()
            self._copied = _offsets(length), np.empty(0, np.uint8) if text is None else np.frombuffer(text, np.uint8)
        return self._copied

    def array(self, arrow_type: Any, validity: Any, nulls: int) -> Any:
        """Return the strings as Arrow's type."""
        if nulls == self._views.size:
            return pa.nulls(nulls, arrow_type)
        offsets, text = self.offsets_and_bytes()
        buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(text)]
        return pa.Array.from_buffers(arrow_type, self._views.size, buffers, nulls)


def _placed(column: Array, rows: Array, values: Array) -> Array:
    """Return a column with the given rows changed; values of all rows are the column."""
    if rows.size == column.size:
        return np.ascontiguousarray(values, dtype=column.dtype)
    column[rows] = values
    return column


def _offsets(counts: Array) -> Array:
    offsets = np.zeros(counts.size + 1, dtype=np.int32)
    np.cumsum(counts, out=offsets[1:])
    return offsets


def _scalar_array(arrow_type: Any, values: Array, validity: Any, nulls: int) -> Any:
    data = pa.py_buffer(np.packbits(values, bitorder="little") if values.dtype == np.bool_ else values)
    return pa.Array.from_buffers(arrow_type, values.size, [validity, data], nulls)


def _ids_array(ids: Array, valid: Array) -> Any:
    validity, nulls = _bitmap(valid)
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
