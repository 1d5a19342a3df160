# SPDX-License-Identifier: Apache-2.0
"""
The records of many batches as columns, without a Python object per record.

Where the records begin is found first; then each field is read of all records at once. The source: Kafka's ``DefaultRecord``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from airflow_provider_rlmm.core.base.errors import DamagedObjectError, RecordsTooLargeError
from airflow_provider_rlmm.core.segments.record_batches.arrow_columns import SCHEMA, records_to_arrow
from airflow_provider_rlmm.core.segments.record_batches.batch_sizes import Data
from airflow_provider_rlmm.core.segments.record_batches.boundaries import RecordsDoNotFitError, find_records
from airflow_provider_rlmm.core.segments.record_batches.headers import BatchHeaders
from airflow_provider_rlmm.core.segments.record_batches.record_headers import RecordHeadersError, Slices, read_headers
from airflow_provider_rlmm.core.segments.record_batches.unpacking import Unpacked, unpack
from airflow_provider_rlmm.core.segments.record_batches.varints import read_varints, read_varlongs

Array = npt.NDArray[Any]

_ATTRIBUTES_BYTES: Final = 1  # no bit of a record's attributes is in use
_PART_BYTES: Final = 8 << 20  # the columns of as many bytes of records fit into a processor's cache


def to_arrow(data: Data, headers: BatchHeaders, *, max_decompressed_bytes: int) -> Any:
    """
    Return the records of batches as one ``pyarrow.RecordBatch`` of :data:`SCHEMA`.

    The records of control batches are records like others here: leave these batches out before,
    ``headers[~headers.is_control]``. No checksum is compared: see :meth:`BatchHeaders.verify_checksums`.

    :param data: what the headers were found in.
    :param headers: the batches.
    :param max_decompressed_bytes: how many bytes all their records together may have, unpacked.
    :raises DamagedObjectError: a batch cannot be unpacked, or holds other records than its header says.
    :raises UnsupportedMessageFormatError: a batch has a codec that Kafka 4.3 does not know.
    :raises RecordsTooLargeError: the records have more bytes.
    """
    parts = unpack(data, headers, max_decompressed_bytes, max_decompressed_bytes)
    part = next(parts, None)
    if part is None:
        return pa.RecordBatch.from_pylist([], schema=SCHEMA)
    if len(part.headers) < np.count_nonzero(headers.record_count):
        raise RecordsTooLargeError(
            f"{headers.location}: the records from offset {headers.base_offset[0]} to {headers.last_offset[-1]} have more "
            f"than max_decompressed_bytes = {max_decompressed_bytes:,} bytes: read fewer at a time, or allow more"
        )
    return _Records(part).to_arrow()


def to_arrow_batches(data: Data, headers: BatchHeaders, *, max_decompressed_bytes: int) -> Iterator[Any]:
    """
    Yield the records of batches, as :func:`to_arrow` returns them, 8 MB of unpacked records at a time, or those of one batch.

    :param data: what the headers were found in.
    :param headers: the batches.
    :param max_decompressed_bytes: how many bytes the records of a single batch may have, unpacked.
    :raises DamagedObjectError: a batch cannot be unpacked, or holds other records than its header says.
    :raises UnsupportedMessageFormatError: a batch has a codec that Kafka 4.3 does not know.
    :raises RecordsTooLargeError: the records of a single batch have more bytes.
    """
    for part in unpack(data, headers, max_decompressed_bytes, _PART_BYTES):
        yield _Records(part).to_arrow()


class _Records:
    """
    Reads the fields of all records, one field after the other.

    :param part: the batches and their unpacked records.
    """

    def __init__(self, part: Unpacked) -> None:
        self._headers = part.headers
        self._buffer = part.data
        self._data = np.frombuffer(part.data, np.uint8)
        try:
            self._at, self._end = find_records(self._data, part.at, part.end, part.headers.record_count)
        except RecordsDoNotFitError as error:
            raise self._damaged(error.row, str(error)) from error
        self._batch = np.repeat(np.arange(len(part.headers)), part.headers.record_count)

    def to_arrow(self) -> Any:
        """Return the records."""
        self._at = self._at + _ATTRIBUTES_BYTES
        timestamp = self._timestamps()
        offset = self._offsets()
        key = self._bytes("key")
        value = self._bytes("value")
        count = self._number("number of headers")
        self._require((count >= 0) & (count <= self._end - self._at), "a number of headers that cannot be")
        try:
            headers, behind = read_headers(self._data, self._at, self._end, count)
        except RecordHeadersError as error:
            raise self._damaged(int(self._batch[error.row]), f"it holds {error}") from error
        self._require(behind == self._end, "a record that does not end where its last header does")
        return records_to_arrow(self._buffer, offset, timestamp, key, value, headers)

    def _timestamps(self) -> Array:
        headers = self._headers
        delta, self._at = read_varlongs(self._data, self._at)
        self._require_within("timestamp")
        appended = headers.log_append_time
        base: Array = np.where(appended, headers.max_timestamp_ms, headers.base_timestamp_ms)
        if appended.any():
            delta[appended[self._batch]] = 0
        return base[self._batch] + delta

    def _offsets(self) -> Array:
        headers = self._headers
        delta = self._number("offset")
        offset: Array = headers.base_offset[self._batch] + delta
        self._require(
            (delta >= 0) & (delta <= (headers.last_offset - headers.base_offset)[self._batch]),
            "an offset that is not one of the batch's",
        )
        # Those of one batch lie behind those of the batch before: find() refuses others.
        self._require(np.diff(offset, prepend=-1) > 0, "an offset that is not above the one before")
        return offset

    def _number(self, name: str) -> Array:
        number, self._at = read_varints(self._data, self._at)
        self._require_within(name)
        return number

    def _bytes(self, name: str) -> Slices:
        length = self._number(f"{name}'s size")
        slices = Slices(self._at, length)
        self._at = self._at + np.maximum(length, 0)
        self._require(self._at <= self._end, f"a {name} that ends behind its record")
        return slices

    def _require_within(self, name: str) -> None:
        # The position behind a number without an end is -1.
        self._require((self._at >= 0) & (self._at <= self._end), f"a record that ends within its {name}")

    def _require(self, ok: Array, reason: str) -> None:
        if not ok.all():
            raise self._damaged(int(self._batch[np.argmin(ok)]), f"it holds {reason}")

    def _damaged(self, row: int, reason: str) -> DamagedObjectError:
        return self._headers.damaged(int(self._headers.position[row]), reason)
