# SPDX-License-Identifier: Apache-2.0
"""Rows of a table that are the same in some columns, without pandas: pyarrow's own grouping imports it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_rlmm.core.base.arrow_arrays import array_of, filled, numpy_of

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Groups:
    """
    The groups of a table's rows, in the order in which they come.

    :param table: the rows.
    :param first: of each group the row that comes first.
    :param of_row: of each row the number of its group.
    """

    table: pa.Table
    first: Array
    of_row: Array

    def keys(self, names: Sequence[str]) -> pa.Table:
        """
        Return some columns, a row for each group.

        :param names: of columns whose values are the same within each group; of others it is the first row's.
        """
        return self.table.select(list(names)).take(array_of(self.first))

    def rows(self) -> Array:
        """Return how many rows each group has."""
        import numpy as np

        return np.bincount(self.of_row, minlength=self.first.size)

    def total(self, name: str) -> Array:
        """
        Return the sum of a column in each group.

        :param name: of a column of integers; null counts as 0.
        """
        import numpy as np

        found = np.zeros(self.first.size, np.int64)
        np.add.at(found, self.of_row, numpy_of(filled(self.table.column(name), 0)))
        return found

    def least(self, name: str) -> Array:
        """
        Return the smallest number of a column in each group.

        :param name: of a column of integers without null.
        """
        import numpy as np

        column = numpy_of(self.table.column(name))
        found = column.take(self.first)
        np.minimum.at(found, self.of_row, column)
        return found

    def last(self) -> Array:
        """Return of each group the row that comes last."""
        import numpy as np

        found = np.zeros(self.first.size, np.int64)
        np.maximum.at(found, self.of_row, np.arange(self.of_row.size))
        return found


def groups_of(table: pa.Table, names: Sequence[str]) -> Groups:
    """
    Return the groups of rows that are the same in some columns; null is the same as null.

    :param table: the rows.
    :param names: of these columns, one or more.
    """
    import numpy as np

    codes, first = np.zeros(table.num_rows, np.int64), np.empty(0, np.int64)
    for name in names:
        column = table.column(name).combine_chunks().dictionary_encode(null_encoding="encode")
        # Numbers stay small: there are never more different ones than rows.
        which, first = told_apart(codes * (len(column.dictionary) + 1) + numpy_of(column.indices))
        codes = numpy_of(which).astype(np.int64)
    return Groups(table, first, codes)


def told_apart(numbers: Array) -> tuple[Any, Array]:
    """
    Return for each number which of the different ones it is, as an Arrow array, and for each of these where it is first.

    :param numbers: of a type that Arrow has; the different ones are numbered in the order in which they come.
    """
    import numpy as np

    codes = array_of(numbers).dictionary_encode()
    first = np.empty(len(codes.dictionary), np.int64)
    # Of several values for one place the last one stays.
    first[numpy_of(codes.indices)[::-1]] = np.arange(numbers.size)[::-1]
    return codes.indices, first
