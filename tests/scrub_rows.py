# SPDX-License-Identifier: Apache-2.0
"""The rows of a scrub and of its table, all at once: in tests there are few."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_rlmm.features.scrub.comparison import Scrub
from airflow_provider_rlmm.features.scrub.rules import ScrubClass
from airflow_provider_rlmm.features.scrub.scrub_table import ScrubTable

if TYPE_CHECKING:
    import pyarrow as pa


def objects_of(found: Scrub) -> list[dict[str, Any]]:
    """Return the objects of a scrub that are not in use."""
    return [row for row in _rows(found) if row["key"] is not None and row["bytes"] is not None]


def missing_of(found: Scrub) -> list[dict[str, Any]]:
    """Return the segments of a scrub that lack an object."""
    return [row for row in _rows(found) if row["class"] == ScrubClass.MISSING]


def whole(table: ScrubTable) -> pa.Table:
    """Return a table at once."""
    import pyarrow as pa

    return pa.concat_tables([*table.tables(), table.schema.empty_table()])


def opened(path: Path) -> ScrubTable:
    """Open a table."""
    return ScrubTable(path.open("rb"))


def _rows(found: Scrub) -> list[dict[str, Any]]:
    return [row for _, rows in found.tables() for row in rows.to_pylist()]
