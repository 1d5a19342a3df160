# SPDX-License-Identifier: Apache-2.0
"""
Rows on the local disk: as many as there are, while memory holds some thousands of them.

A spool is written once and then read as often as it is asked for. Its file has no name, so it is gone with its process,
however that ends. It lies where Python puts temporary files, which ``TMPDIR`` says.
"""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Iterator
from itertools import pairwise
from typing import IO, TYPE_CHECKING, Any, Final

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.arrow_arrays import at_least
from airflow_provider_rlmm.core.base.errors import RoomError
from airflow_provider_rlmm.core.base.local_writing import FULL_ERRNOS
from airflow_provider_rlmm.core.base.machine_room import free_disk, temporary_folder
from airflow_provider_rlmm.core.base.quoting import human_bytes

if TYPE_CHECKING:
    import pyarrow as pa

SPOOLED_ROWS: Final = 10_000
"""Rows that are written, read and judged together: a few megabytes of memory."""

KEPT_FREE: Final = 64 * 2**20
"""Bytes of the disk that a spool leaves to others."""

_IN_MEMORY: Final = 2 * 2**20
_SAMPLED: Final = 1_000
_BUCKET_ROWS: Final = 100_000


class Spool:
    """
    Rows in the order in which they came. The first megabytes stay in memory.

    :param schema: of the rows.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0
        self._file: IO[bytes] | None = None
        self._writer: Any = None
        self._reader: Any = None
        self.rows = 0
        """How many there are."""
        self.parts = 0
        """In how many parts they came."""

    def append(self, rows: pa.Table) -> None:
        """
        Add rows, as one part; none of them makes no part.

        :param rows: with the schema of the spool, in its order.
        :raises RoomError: if the disk has no room for them; the message says where, and what to do.
        """
        if not rows.num_rows:
            return
        (batch,) = rows.combine_chunks().to_batches()
        self.rows, self.parts = self.rows + batch.num_rows, self.parts + 1
        self._waiting.append(batch)
        self._waiting_bytes += batch.nbytes
        if self._writer is not None or self._waiting_bytes > _IN_MEMORY:
            self._spill()

    def _spill(self) -> None:
        """Write what waits in memory."""
        import pyarrow as pa

        folder = temporary_folder()
        if free_disk(folder) < self._waiting_bytes + KEPT_FREE:
            raise self._no_room(folder)
        try:
            if self._writer is None:
                self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 # it lives as long as the spool
                weakref.finalize(self, self._file.close)
                options = pa.ipc.IpcWriteOptions(compression="lz4")
                self._writer = pa.ipc.new_file(pa.PythonFile(self._file, "w"), self._schema, options=options)
            for batch in self._waiting:
                self._writer.write_batch(batch)
        except OSError as e:
            if e.errno in FULL_ERRNOS:
                raise self._no_room(folder) from e
            raise
        self._waiting, self._waiting_bytes = [], 0

    def _no_room(self, folder: str) -> RoomError:
        written = self._file.tell() if self._file is not None else 0
        return RoomError(
            f"the disk of {folder} is full: {number_of(self.rows, 'row takes', 'rows take')} {human_bytes(written)} of "
            "it so far; make room there, or set TMPDIR to a folder on a larger disk, then run again"
        )

    def part(self, number: int) -> pa.Table:
        """
        Return the rows that came together. Nothing is appended after that.

        :param number: from 0.
        """
        import pyarrow as pa

        if self._writer is None:
            return pa.Table.from_batches([self._waiting[number]], schema=self._schema)
        if self._reader is None:
            self._writer.close()
            self._reader = pa.ipc.open_file(pa.PythonFile(self._file, "r"))
        return pa.Table.from_batches([self._reader.get_batch(number)], schema=self._schema)

    def tables(self) -> Iterator[pa.Table]:
        """Yield all rows, part after part."""
        yield from map(self.part, range(self.parts))


class OrderedSpool:
    """
    Rows that are read in the order of a column of text, however many there are. Where they came in about that order each is
    read once, else once for every hundred thousand others, or as many as are ordered together.

    :param schema: of the rows.
    :param column: by which they are ordered; null in none of them.
    :param together: how many are ordered together, about, where they did not come in order: of wide rows memory holds few.
    """

    def __init__(self, schema: pa.Schema, column: str, together: int | None = None) -> None:
        self._together = together
        self._spool = Spool(schema)
        self._column = column
        self._ranges: list[tuple[str, str, int]] = []
        self._samples: set[str] = set()
        self._pending: list[pa.Table] = []
        self.rows = 0
        """How many there are."""

    def append(self, rows: pa.Table) -> None:
        """
        Add rows.

        :param rows: see :meth:`Spool.append`.
        :raises RoomError: as it does.
        """
        self._pending.append(rows)
        self.rows += rows.num_rows
        if self.rows - self._spool.rows >= SPOOLED_ROWS:
            self._flush()

    def _flush(self) -> None:
        """Put what waits into one part: where little comes at a time, parts are read one by one all the same."""
        import pyarrow as pa

        if self.rows == self._spool.rows:
            return
        rows, self._pending = pa.concat_tables(self._pending).sort_by(self._column), []
        column = rows.column(self._column)
        self._ranges.append((column[0].as_py(), column[-1].as_py(), self._spool.parts))
        self._samples.update(column[row].as_py() for row in range(0, rows.num_rows, _SAMPLED))
        self._spool.append(rows)

    def tables(self) -> Iterator[pa.Table]:
        """Yield all rows in their order, as tables of some tens of thousands. Nothing is appended after that."""
        self._flush()
        ranges = sorted(self._ranges)
        if all(last <= first for (_, last, _), (first, _, _) in pairwise(ranges)):
            yield from (self._spool.part(number) for _, _, number in ranges)
            return
        # A bucket begins with a row that is there, so none is empty.
        together = min(self._together or _BUCKET_ROWS, _BUCKET_ROWS)
        bounds: list[str | None] = [*sorted(self._samples)[:: max(1, together // _SAMPLED)], None]
        for low, high in pairwise(bounds):
            yield self._between(str(low), high)

    def _between(self, low: str, high: str | None) -> pa.Table:
        """Return the rows from one value on to before another one, ``None`` for all behind it."""
        import pyarrow as pa
        import pyarrow.compute as pc

        parts = []
        for first, last, number in self._ranges:
            if last < low or (high is not None and first >= high):
                continue
            part = self._spool.part(number)
            values = part.column(self._column)
            inside = at_least(values, low)
            if high is not None:
                inside = pc.and_(inside, pc.invert(at_least(values, high)))
            parts.append(part.filter(inside))
        return pa.concat_tables(parts).sort_by(self._column)
