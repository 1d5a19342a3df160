# SPDX-License-Identifier: Apache-2.0
"""Records as Arrow columns: byte strings that lie scattered in the data are brought together by Arrow's own conversion."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from airflow_provider_rlmm.core.base.arrow_arrays import array_of
from airflow_provider_rlmm.core.segments.record_batches.record_headers import HeaderSlices, Slices

Array = npt.NDArray[Any]

_HEADER_FIELDS: Final = [pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())]
_HEADERS: Final = pa.list_(pa.field("item", pa.struct(_HEADER_FIELDS), nullable=False))

SCHEMA: Final = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.int64(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", _HEADERS, nullable=False),
    ]
)
"""Columns of records: offset, timestamp (ms since 1970), key and value (each may be null), headers (mostly an empty list)."""

# Arrow's "binary view" has 16 bytes: length, the first four bytes of the string, which buffer, and where; or, up to
# this many bytes, the string itself behind its length.
_INLINE_BYTES: Final = 12
_VIEW: Final = np.dtype([("length", "<i4"), ("first", "V4"), ("buffer", "<i4"), ("at", "<i4")])


def records_to_arrow(
    data: Any, offset: Array, timestamp: Array, key: Slices, value: Slices, headers: HeaderSlices
) -> Any:
    """
    Return records as a ``pyarrow.RecordBatch`` of :data:`SCHEMA`; nothing in it refers to the data any more.

    :param data: a buffer that keys, values and headers lie in.
    :param offset: of each record.
    :param timestamp: of each record, in ms.
    :param key: of each record.
    :param value: of each record.
    :param headers: of each record.
    """
    columns = [
        array_of(offset),
        array_of(timestamp),
        _binary(data, key),
        _binary(data, value),
        _headers(data, headers),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _headers(data: Any, headers: HeaderSlices) -> Any:
    offsets = np.zeros(headers.count.size + 1, np.int32)
    np.cumsum(headers.count, out=offsets[1:])
    pairs = [_text(_binary(data, headers.key)), _binary(data, headers.value)]
    items = pa.StructArray.from_arrays(pairs, fields=_HEADER_FIELDS)
    return pa.Array.from_buffers(_HEADERS, headers.count.size, [None, pa.py_buffer(offsets)], 0, children=[items])


def _text(column: Any) -> Any:
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        # Kafka takes all that is no UTF-8 for the replacement character.
        return array_of([key.decode("utf-8", "replace") for key in column.to_pylist()], pa.string())


def _binary(data: Any, slices: Slices) -> Any:
    size = slices.length.size
    null = slices.length < 0
    nulls = int(np.count_nonzero(null))
    if nulls == size:
        return pa.nulls(size, pa.binary())
    validity = pa.py_buffer(np.packbits(~null, bitorder="little")) if nulls else None
    length = np.where(null, 0, slices.length) if nulls else slices.length
    views = pa.py_buffer(_views(data, slices.at, length))
    column = pa.Array.from_buffers(pa.binary_view(), size, [validity, views, pa.py_buffer(data)], nulls)
    return column.cast(pa.binary())


def _views(data: Any, at: Array, length: Array) -> Array:
    views = np.zeros(length.size, _VIEW)
    views["length"] = length
    views["at"] = at
    short = np.flatnonzero(length <= _INLINE_BYTES)
    if short.size:
        strings = _inline(np.frombuffer(data, np.uint8), at[short], length[short])
        words = views.view(np.uint8).reshape(-1, _VIEW.itemsize)
        words[short, -_INLINE_BYTES:] = strings
    return views


def _inline(data: Array, at: Array, length: Array) -> Array:
    """Return strings of up to 12 bytes, followed by zeros, as Arrow wants it."""
    column = np.arange(_INLINE_BYTES)
    strings: Array = data.take(at[:, None] + column, mode="clip")
    strings[column >= length[:, None]] = 0
    return strings
