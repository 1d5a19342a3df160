# SPDX-License-Identifier: Apache-2.0
"""The rows of the audit log as Arrow tables, and as the bytes of a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_rlmm.core.base.arrow_arrays import array_of, scalar_of, schema_of
from airflow_provider_rlmm.core.plans.plan import ROW_GROUP_ROWS
from airflow_provider_rlmm.core.world.audit import AUDIT_COLUMNS

if TYPE_CHECKING:
    import pyarrow as pa

Columns = Mapping[str, Any]
"""Name of a column → its values, one per segment, or one value for all."""


def audit_schema() -> pa.Schema:
    """Return the Arrow schema of every file."""
    return schema_of(AUDIT_COLUMNS)


def audit_table(columns: Columns) -> pa.Table:
    """
    Return rows of the audit log; a column that is not given is null.

    :param columns: at least one of them with a value per row.
    """
    import pyarrow as pa

    rows = next(len(values) for values in columns.values() if _is_column(values))
    empty = pa.table({name: pa.nulls(rows, kind) for name, kind in _types().items()}, schema=audit_schema())
    return with_columns(empty, columns)


def with_columns(table: pa.Table, columns: Columns) -> pa.Table:
    """
    Return rows of the audit log with other values.

    :param table: the rows.
    :param columns: these.
    """
    import pyarrow as pa

    types = _types()
    for name, values in columns.items():
        if _is_column(values):
            array = array_of(values, types[name])
        else:
            array = pa.repeat(scalar_of(values, types[name]), table.num_rows)
        table = table.set_column(table.schema.get_field_index(name), table.schema.field(name), array)
    return table


def _types() -> dict[str, pa.DataType]:
    return {column.name: column.type for column in audit_schema()}


def _is_column(values: object) -> bool:
    return isinstance(values, Sequence) and not isinstance(values, str | bytes)


def audit_bytes(rows: pa.Table) -> memoryview:
    """
    Return rows as the bytes of a Parquet file.

    :param rows: with the schema of the audit log.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, compression="zstd", row_group_size=ROW_GROUP_ROWS)
    return memoryview(sink.getvalue())
