# SPDX-License-Identifier: Apache-2.0
"""
Arrow arrays from Python's and numpy's values, and numpy's of Arrow's, without pandas.

Whenever pyarrow is given such a value, it asks whether that is one of pandas', and imports pandas to know: half a second
of CPU time in each process that has it, and nothing here uses it. What is made of buffers asks nothing. So this is how
arrays are made, and the constants that columns are compared with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]


def array_of(values: Array | Sequence[Any], arrow_type: Any = None, nulls: Array | None = None) -> Any:
    """
    Return an Arrow array.

    :param values: numbers or booleans of numpy, or Python values, of which ``None`` is null.
    :param arrow_type: numbers, booleans, binary or string; that of numpy's values without it.
    :param nulls: which of numpy's values are null, none without it.
    :raises TypeError: if a value is of another type.
    :raises OverflowError: if a number does not fit the type.
    """
    import numpy as np
    import pyarrow as pa

    if isinstance(values, np.ndarray):
        made = _of_numpy(values, nulls)
        return made if arrow_type is None else made.cast(arrow_type)
    values = values if isinstance(values, list) else list(values)
    textual = pa.types.is_binary(arrow_type) or pa.types.is_string(arrow_type)
    # To count what is missing takes as long as to join, which tells it, too.
    if textual and values and (joined := _joined(values)) is not None:
        return _of_bytes(*joined, arrow_type)
    absent = values.count(None)
    if absent == len(values):
        return pa.nulls(absent, arrow_type)
    if textual:
        raw = [value.encode() if isinstance(value, str) else value or b"" for value in values]
        return _of_bytes(b"".join(raw), _lengths(raw), arrow_type, _missing(values) if absent else None)
    return _of_numpy(_numbers(values, arrow_type), _missing(values) if absent else None)


def scalar_of(value: Any, arrow_type: Any) -> Any:
    """
    Return a constant for Arrow's functions.

    :param value: a Python value.
    :param arrow_type: as of :func:`array_of`.
    """
    return array_of([value], arrow_type)[0]


def null_of(arrow_type: Any) -> Any:
    """
    Return a null for Arrow's functions.

    :param arrow_type: any.
    """
    import pyarrow as pa

    return pa.nulls(1, arrow_type)[0]


def equals(column: Any, value: Any) -> Any:
    """
    Compare each value of a column with a constant; null where the column is.

    :param column: array or chunked array.
    :param value: a Python value, which fits the column's type.
    """
    import pyarrow.compute as pc

    return pc.equal(column, scalar_of(value, column.type))


def at_least(column: Any, value: Any) -> Any:
    """
    Tell of each value of a column whether it is not less than a constant; null where the column is.

    :param column: array or chunked array.
    :param value: a Python value, which fits the column's type.
    """
    import pyarrow.compute as pc

    return pc.greater_equal(column, scalar_of(value, column.type))


def is_among(column: Any, values: Sequence[Any]) -> Any:
    """
    Tell of each value of a column whether it is one of several.

    :param column: array or chunked array.
    :param values: Python values, which fit the column's type.
    """
    import pyarrow.compute as pc

    return pc.is_in(column, value_set=array_of(values, column.type))


def filled(column: Any, value: Any) -> Any:
    """
    Return a column with a constant in the place of nulls.

    :param column: array or chunked array.
    :param value: a Python value, which fits the column's type.
    """
    return column.fill_null(scalar_of(value, column.type)) if column.null_count else column


def numpy_of(column: Any) -> Array:
    """
    Return numbers or truth values as a numpy array; where they are null, anything.

    :param column: array or chunked array.
    """
    import numpy as np
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        chunks = [numpy_of(chunk) for chunk in column.chunks]
        return np.concatenate(chunks) if chunks else np.empty(0, column.type.to_pandas_dtype())
    _, data = column.buffers()
    size = len(column)
    if pa.types.is_boolean(column.type):
        bits = np.frombuffer(data, np.uint8) if size else np.empty(0, np.uint8)
        unpacked = np.unpackbits(bits, bitorder="little")[column.offset : column.offset + size]
        return unpacked.view(np.bool_)
    dtype = column.type.to_pandas_dtype()
    if not size:
        return np.empty(0, dtype)
    return np.frombuffer(data, dtype)[column.offset : column.offset + size]


def binary_buffers(array: Any) -> tuple[Array, Array]:
    """
    Return the offsets and the bytes of a binary or string array.

    :param array: no chunked one.
    """
    import numpy as np

    _, offsets, data = array.buffers()
    if not len(array):
        return np.zeros(1, np.int32), np.empty(0, np.uint8)
    ends = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
    return ends, np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)


def schema_of(columns: Iterable[tuple[str, str]], *, nullable: bool = True, **nested: Any) -> Any:
    """
    Return an Arrow schema.

    :param columns: name and type of each: Arrow's name of it, or one of the others.
    :param nullable: whether there may be nulls.
    :param nested: name → Arrow type, of those that Arrow has no name for.
    """
    import pyarrow as pa

    return pa.schema([pa.field(name, nested.get(kind) or pa.type_for_alias(kind), nullable) for name, kind in columns])


def empty_table(schema: Any) -> Any:
    """
    Return a table without rows.

    :param schema: its columns.
    """
    import pyarrow as pa

    return pa.Table.from_batches([], schema=schema)


def table_of_rows(rows: Sequence[Mapping[str, Any]], schema: Any) -> Any:
    """
    Return a table.

    :param rows: column → value; all of the schema's columns in each.
    :param schema: whose types are those of :func:`array_of`.
    """
    import pyarrow as pa

    columns = [array_of([row[field.name] for row in rows], field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _of_numpy(values: Array, nulls: Array | None) -> Any:
    import numpy as np
    import pyarrow as pa

    count = 0 if nulls is None else int(np.count_nonzero(nulls))
    validity = None if nulls is None or not count else pa.py_buffer(np.packbits(~nulls, bitorder="little"))
    is_boolean = values.dtype == np.bool_
    data = np.packbits(values, bitorder="little") if is_boolean else np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), values.size, [validity, pa.py_buffer(data)], count)


def _numbers(values: list[Any], arrow_type: Any) -> Array:
    import numpy as np
    import pyarrow as pa

    kinds: dict[Any, tuple[Any, ...]] = {
        pa.types.is_boolean: (bool, np.bool_),
        pa.types.is_integer: (int, np.integer),
        pa.types.is_floating: (int, float, np.number),
    }
    of_type = next((kind for is_kind, kind in kinds.items() if is_kind(arrow_type)), ())
    # numpy takes what it is given for any type that is wanted: 1.5 for 1, "5" for 5.
    if odd := {type(value).__name__ for value in values if value is not None and not isinstance(value, of_type)}:
        raise TypeError(f"{sorted(odd)} are no values of an array of {arrow_type}")
    return np.array([0 if value is None else value for value in values], arrow_type.to_pandas_dtype())


def _joined(values: list[Any]) -> tuple[bytes, Array] | None:
    """Return the bytes of all values and the length of each, or ``None`` where one of them is null or a text."""
    try:
        lengths = _lengths(values)
        return b"".join(values), lengths
    except TypeError:
        return None


def _lengths(values: list[Any]) -> Array:
    import numpy as np

    lengths = np.fromiter(map(len, values), np.int64, len(values))
    if lengths.sum() > np.iinfo(np.int32).max:
        raise OverflowError(f"{lengths.sum()} bytes are too many for one array")
    return lengths


def _of_bytes(data: bytes, lengths: Array, arrow_type: Any, nulls: Array | None = None) -> Any:
    import numpy as np
    import pyarrow as pa

    offsets = np.zeros(lengths.size + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    validity = None if nulls is None else pa.py_buffer(np.packbits(~nulls, bitorder="little"))
    absent = 0 if nulls is None else int(np.count_nonzero(nulls))
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(arrow_type, lengths.size, buffers, absent)


def _missing(values: list[Any]) -> Array:
    import numpy as np

    return np.fromiter((value is None for value in values), bool, len(values))
