# SPDX-License-Identifier: Apache-2.0
"""Which rows of a table are shown, and in which order: what people look for is plain text, never a pattern."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def chosen(
    table: pa.Table,
    equal: Mapping[str, str],
    searched: str,
    search: str,
    wanted_id: bytes | None,
    sort: str,
    *,
    descending: bool,
) -> pa.Array:
    """
    Return the numbers of the rows that are as they were asked for, in their order.

    :param table: with texts as dictionaries, in one chunk.
    :param equal: column → the text that it has.
    :param searched: the column with names.
    :param search: a part of a name, in any case; empty for any.
    :param wanted_id: a topic id; rows that have it are chosen, too.
    :param sort: the column by which they are sorted, empty for the order of the table. What is not known comes last.
    :param descending: whether the largest comes first.
    """
    keep = np.ones(table.num_rows, bool)
    for name, text in equal.items():
        keep &= _per_row(table, name, lambda values, text=text: pc.equal(values, text))
    if search:
        found = _per_row(table, searched, lambda values: pc.match_substring(values, search, ignore_case=True))
        if wanted_id is not None:
            found |= _per_row(table, "topic_id", lambda values: pc.equal(values, pa.scalar(wanted_id, pa.binary())))
        keep &= found
    rows = np.flatnonzero(keep)
    if not sort:
        return pa.array(rows)
    keys = _sortable(table, sort).take(pa.array(rows))
    # Nulls come last in either direction.
    order = pc.array_sort_indices(keys, order="descending" if descending else "ascending")
    return pa.array(rows).take(order)


def _per_row(table: pa.Table, name: str, test: Any) -> Any:
    """Ask each different text once."""
    column = _one_chunk(table, name)
    if not pa.types.is_dictionary(column.type):
        return pc.fill_null(test(column), False).to_numpy(zero_copy_only=False)
    verdict = test(column.dictionary).take(column.indices)
    return pc.fill_null(verdict, False).to_numpy(zero_copy_only=False)


def _sortable(table: pa.Table, name: str) -> pa.Array:
    column = _one_chunk(table, name)
    if not pa.types.is_dictionary(column.type):
        return column
    ranks = pc.rank(column.dictionary, sort_keys="ascending", tiebreaker="dense")
    return ranks.take(column.indices)


def _one_chunk(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
