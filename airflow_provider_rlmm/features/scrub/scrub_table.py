# SPDX-License-Identifier: Apache-2.0
"""
The table of a scrub and that of a plan made from one: Parquet, read and written some ten thousand rows at a time.

Rows are ordered by class and, within it, by key; so a few row groups tell all of one class, or of some keys of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from tempfile import SpooledTemporaryFile
from typing import IO, TYPE_CHECKING, Final

from airflow_provider_rlmm.core.base.arrow_arrays import at_least, equals, schema_of
from airflow_provider_rlmm.core.base.errors import ConfigurationError, PlanError
from airflow_provider_rlmm.core.base.file_systems import reading_in_order
from airflow_provider_rlmm.core.plans.plan import MAX_PLAN_FILE_BYTES, PlanFile
from airflow_provider_rlmm.features.scrub.scrub_summary import SCRUB_AGAIN, SCRUB_COLUMNS

if TYPE_CHECKING:
    import pyarrow as pa

_AT_ONCE: Final = 2**20
_IN_MEMORY: Final = 8 * 2**20


def scrub_schema() -> pa.Schema:
    """Return the Arrow schema of a scrub's table."""
    return schema_of(SCRUB_COLUMNS)


class ScrubTable:
    """
    A table that is read in parts.

    :param file: a Parquet file with the columns of a scrub, which is kept open as long as the table is.
    """

    def __init__(self, file: IO[bytes]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self._parquet = pq.ParquetFile(pa.PythonFile(file, "r"))
        self.schema: pa.Schema = self._parquet.schema_arrow.remove_metadata()
        """Its columns."""

    @property
    def rows(self) -> int:
        """How many there are."""
        return int(self._parquet.metadata.num_rows)

    def tables(self, *, backwards: bool = False) -> Iterator[pa.Table]:
        """
        Yield all rows, some ten thousand at a time.

        :param backwards: the last ones first; the order within them stays.
        """
        groups = range(self._parquet.num_row_groups)
        yield from map(self._group, reversed(groups) if backwards else groups)

    def of_class(self, kind: str, first: str | None = None, last: str | None = None) -> Iterator[pa.Table]:
        """
        Yield the rows of a class, those of some keys where these are said.

        :param kind: the class.
        :param first: the first key, ``None`` for any, and rows without a key.
        :param last: the last key, likewise.
        """
        import pyarrow.compute as pc

        for number in range(self._parquet.num_row_groups):
            if not self._may_hold(number, "class", kind, kind) or not self._may_hold(number, "key", first, last):
                continue
            rows = self._group(number)
            mask = equals(rows.column("class"), kind)
            if first is not None:
                mask = pc.and_(mask, at_least(rows.column("key"), first))
            if last is not None:
                mask = pc.and_(mask, pc.less_equal(rows.column("key"), last))
            yield rows.filter(mask)

    def _may_hold(self, number: int, column: str, first: str | None, last: str | None) -> bool:
        """Tell whether a row group may have values from a first one to a last one."""
        where = self.schema.get_field_index(column)
        known = self._parquet.metadata.row_group(number).column(where).statistics
        if known is None or not known.has_min_max:
            return True
        return (last is None or known.min <= last) and (first is None or known.max >= first)

    def _group(self, number: int) -> pa.Table:
        import pyarrow as pa

        try:
            return self._parquet.read_row_group(number).replace_schema_metadata(None)
        except (OSError, pa.ArrowException) as e:
            raise PlanError(f"the table of a scrub cannot be read ({e}); {SCRUB_AGAIN}") from e


@contextmanager
def open_table(uri: str, file: PlanFile) -> Iterator[ScrubTable]:
    """
    Read the table of a scrub, or of a plan that was made from one, onto the local disk, and open it there.

    :param uri: of the folder.
    :param file: the table as its document knows it.
    :raises PlanError: if it is another one.
    """
    import pyarrow as pa

    name = f"{uri}/{file.name}"
    with ExitStack() as opened:
        local = opened.enter_context(SpooledTemporaryFile(max_size=_IN_MEMORY))
        try:
            _copy(uri, file, local)
            table = ScrubTable(local)
        except ConfigurationError as e:
            raise PlanError(str(e)) from e
        except (OSError, pa.ArrowException) as e:
            raise PlanError(f"{name} cannot be read ({e}); {SCRUB_AGAIN}") from e
        if table.schema != scrub_schema() or table.rows != file.rows:
            raise PlanError(f"{name} has other columns or rows than its document says; {SCRUB_AGAIN}")
        yield table


def _copy(uri: str, file: PlanFile, target: IO[bytes]) -> None:
    """Copy a file, and refuse it where it is not the one that a document names."""
    from airflow_provider_rlmm.core.generations.files import HashedFile

    if file.bytes > MAX_PLAN_FILE_BYTES:
        raise PlanError(f"{file.name} has {file.bytes} bytes, more than {MAX_PLAN_FILE_BYTES}; {SCRUB_AGAIN}")
    copied = HashedFile(file.name, target)
    with reading_in_order(f"{uri}/{file.name}") as source:
        # One byte more tells of a file that is larger.
        left = file.bytes + 1
        while left and (data := source.read(min(_AT_ONCE, left))):
            left -= copied.write(data)
    found = copied.described()
    file.check_sums(found.bytes, found.sha256)
