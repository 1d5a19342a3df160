# SPDX-License-Identifier: Apache-2.0
"""What a scrub has found, class by class, on the local disk: the rows of its table before it is written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from airflow_provider_rlmm.core.base.arrow_arrays import equals
from airflow_provider_rlmm.core.base.spool import OrderedSpool, Spool
from airflow_provider_rlmm.features.scrub.scrub_table import scrub_schema
from airflow_provider_rlmm.features.scrub.unnamed import OBSERVED_COLUMNS

if TYPE_CHECKING:
    import pyarrow as pa

_ADDED_LATER: Final = {"first_seen_ms", *(name for name, _ in OBSERVED_COLUMNS)}
"""What earlier scrubs and the cluster say of a row: it is asked for once everything was found."""


def found_schema() -> pa.Schema:
    """Return the Arrow schema of what is found: a scrub's table without what is asked for later."""
    import pyarrow as pa

    return pa.schema([field for field in scrub_schema() if field.name not in _ADDED_LATER])


class Found:
    """Rows of all classes, each class in the order of its keys."""

    def __init__(self) -> None:
        self._with_key: dict[str, OrderedSpool] = {}
        self._without_key: dict[str, Spool] = {}

    def add(self, rows: pa.Table) -> None:
        """
        Add rows.

        :param rows: with ``class``, and any of the columns of :func:`found_schema`: what is lacking is null.
        :raises RoomError: if the local disk has no room for them.
        """
        import pyarrow.compute as pc

        rows = _with_all_columns(rows)
        for kind in pc.unique(rows.column("class")).to_pylist():
            mine = rows.filter(equals(rows.column("class"), kind))
            has_key = pc.is_valid(mine.column("key"))
            self._with_key.setdefault(kind, OrderedSpool(rows.schema, "key")).append(mine.filter(has_key))
            self._without_key.setdefault(kind, Spool(rows.schema)).append(mine.filter(pc.invert(has_key)))

    def tables(self) -> Iterator[tuple[str, pa.Table]]:
        """Yield each class with rows of it, some ten thousand at a time: by class, then by key, those without one last."""
        for kind in sorted(self._with_key):
            for spool in (self._with_key[kind], self._without_key[kind]):
                yield from ((kind, rows) for rows in spool.tables())


def _with_all_columns(rows: pa.Table) -> pa.Table:
    import pyarrow as pa

    names, schema = rows.schema.names, found_schema()
    columns = [
        rows[field.name].cast(field.type) if field.name in names else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)
