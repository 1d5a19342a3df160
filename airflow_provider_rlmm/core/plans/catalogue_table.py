# SPDX-License-Identifier: Apache-2.0
"""Rows of a catalogue as Arrow tables, and back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from airflow_provider_rlmm.core.base.arrow_arrays import array_of, schema_of
from airflow_provider_rlmm.core.plans.catalogue_rows import (
    CATALOGUE_COLUMNS,
    CatalogueRow,
    ProvedBy,
    RowKind,
)

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_AS_OBJECTS: Final = 500
"""Rows that are Python's objects at a time: there they take many times as much as in a table."""

_IDS = ("topic_id", "segment_id")


def catalogue_schema() -> pa.Schema:
    """Return the Arrow schema of a catalogue."""
    import pyarrow as pa

    epoch = pa.struct([("leader_epoch", pa.int32()), ("start_offset", pa.int64())])
    return schema_of(CATALOGUE_COLUMNS, strings=pa.list_(pa.string()), epochs=pa.list_(epoch))


def table_of(rows: Sequence[CatalogueRow]) -> pa.Table:
    """
    Return rows as a table.

    :param rows: the rows.
    :return: with :func:`catalogue_schema`.
    """
    import pyarrow as pa

    schema = catalogue_schema()
    arrays = [
        _column([getattr(row, name) for row in rows], kind, schema.field(name).type) for name, kind in CATALOGUE_COLUMNS
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def _column(values: list[Any], kind: str, arrow_type: Any) -> Any:
    if kind == "strings":
        return _lists(values, lambda texts: array_of(texts, arrow_type.value_type))
    if kind == "epochs":
        return _lists(values, lambda pairs: _epochs(pairs, arrow_type.value_type))
    if kind == "binary":
        values = [value.bytes if isinstance(value, UUID) else value for value in values]
    return array_of(values, arrow_type)


def _lists(values: list[Any], joined: Any) -> Any:
    import pyarrow as pa

    ends = [0, *accumulate(len(value or ()) for value in values)]
    # What begins with null is null: of a list without elements an empty one would say that it is known.
    begins: list[int | None] = [None if value is None else begin for value, begin in zip(values, ends, strict=False)]
    offsets = array_of([*begins, ends[-1]], pa.int32())
    return pa.ListArray.from_arrays(offsets, joined([element for value in values for element in value or ()]))


def _epochs(pairs: list[tuple[int, int]], arrow_type: Any) -> Any:
    import pyarrow as pa

    columns = [array_of([pair[at] for pair in pairs], arrow_type.field(at).type) for at in range(2)]
    return pa.StructArray.from_arrays(columns, fields=list(arrow_type))


def rows_of(table: pa.Table) -> Iterator[CatalogueRow]:
    """
    Yield the rows of a table.

    :param table: as of :func:`table_of`; further columns are left out.
    """
    names = [name for name, _ in CATALOGUE_COLUMNS]
    few = table.select(names).to_batches(max_chunksize=ROWS_AS_OBJECTS)
    for found in (row for batch in few for row in batch.to_pylist()):
        found |= {name: None if found[name] is None else UUID(bytes=found[name]) for name in _IDS}
        epochs = found["segment_leader_epochs"]
        if epochs is not None:
            found["segment_leader_epochs"] = tuple((e["leader_epoch"], e["start_offset"]) for e in epochs)
        found |= {name: tuple(found[name] or ()) for name in ("keys", "partners", "bounds")}
        found |= {"kind": RowKind(found["kind"]), "proved_by": ProvedBy(found["proved_by"])}
        yield CatalogueRow(**found)
