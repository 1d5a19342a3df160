# SPDX-License-Identifier: Apache-2.0
"""
The checksum of records: of their content, column by column, however they were cut into batches.

Each column goes into digests of its own: what is null, how long each value is, and the bytes. So the checksums of a Parquet
file, of a stream from a broker and of a stream from remote storage are equal if, and only if, the records are.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

WITH_OFFSETS: Final = ("offset", "timestamp", "key", "value", "headers")
WITHOUT_OFFSETS: Final = WITH_OFFSETS[1:]


class ContentDigest:
    """
    Takes records in order.

    :param columns: the columns that count.
    """

    def __init__(self, columns: tuple[str, ...]) -> None:
        self._columns = columns
        self._digests: dict[str, Any] = {}
        self.count = 0

    def update(self, batch: pa.RecordBatch) -> None:
        """
        Take more records.

        :param batch: with the columns that count, and any others.
        """
        self.count += batch.num_rows
        for name in self._columns:
            self._add(name, batch.column(name))

    def hexdigest(self) -> str:
        """Return the checksum of all records up to now, lower-case hex."""
        parts = [f"{name}={digest.hexdigest()}" for name, digest in sorted(self._digests.items())]
        return hashlib.sha256("\n".join([*self._columns, str(self.count), *parts]).encode()).hexdigest()

    def _add(self, name: str, values: pa.Array) -> None:
        if len(values) == 0:
            return
        if pa.types.is_list(values.type):
            self._into(f"{name}.lengths", _lengths(pc.list_value_length(values)))
            entries = values.flatten()
            for field in ("key", "value"):
                self._add(f"{name}.{field}", entries.field(field))
        elif pa.types.is_binary(values.type) or pa.types.is_string(values.type):
            self._into(f"{name}.lengths", _lengths(pc.binary_length(values)))
            self._into(name, _bytes_of(values))
        else:
            self._into(name, np.asarray(values.cast(pa.int64())).astype("<i8"))

    def _into(self, name: str, data: Any) -> None:
        self._digests.setdefault(name, hashlib.sha256()).update(data)


def _lengths(lengths: pa.Array) -> Any:
    """Return lengths with -1 for null: an empty value is another one."""
    return np.asarray(lengths.fill_null(-1)).astype("<i4")


def _bytes_of(values: pa.Array) -> memoryview:
    """Return the bytes of all values, one after the other; what lies between them in memory does not count."""
    compact = pa.concat_arrays([values.drop_null(), pa.array([], values.type)])
    offsets = np.frombuffer(compact.buffers()[1], "<i4")[compact.offset : compact.offset + len(compact) + 1]
    data = compact.buffers()[2]
    return memoryview(data)[int(offsets[0]) : int(offsets[-1])] if data is not None else memoryview(b"")
