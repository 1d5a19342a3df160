# SPDX-License-Identifier: Apache-2.0
"""Since when scrubs have found an object that no record names: what the scrub before says of the very same object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from airflow_provider_rlmm.core.base.arrow_arrays import array_of
from airflow_provider_rlmm.features.scrub.unnamed import UNNAMED

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_rlmm.features.scrub.scrub_table import ScrubTable

_SAME: Final = ["key", "bytes", "last_modified_ms"]
"""What makes an object of one class the very same one in the next scrub."""


class FirstSeen:
    """
    What the scrub before says.

    :param earlier: the table of the scrub before this one, ``None`` where none counts.
    :param now_ms: time of this scrub, ms since the epoch; ``None`` where no wait may be measured by it.
    """

    def __init__(self, earlier: ScrubTable | None, now_ms: int | None) -> None:
        self._earlier = earlier
        self._now_ms = now_ms

    def added_to(self, kind: str, rows: pa.Table) -> pa.Table:
        """
        Return rows of one class with ``first_seen_ms``, null where a record names the segment.

        :param kind: the class.
        :param rows: in the order of their keys, where they have some.
        """
        import pyarrow as pa

        found: list[int | None] = [None] * rows.num_rows
        if kind in UNNAMED and rows.num_rows:
            keys = rows.column("key")
            known = self._known(kind, keys[0].as_py(), keys[-1].as_py())
            found = [known.get(row, self._now_ms) for row in _tuples(rows, _SAME)]
        return rows.append_column("first_seen_ms", array_of(found, pa.int64()))

    def _known(self, kind: str, first: str, last: str) -> dict[tuple[Any, ...], int]:
        """Return what the earlier scrub says of objects of some keys."""
        if self._earlier is None:
            return {}
        return {
            row[:-1]: row[-1]
            for table in self._earlier.of_class(kind, first, last)
            for row in _tuples(table, [*_SAME, "first_seen_ms"])
            if row[-1] is not None
        }


def _tuples(rows: pa.Table, names: list[str]) -> list[tuple[Any, ...]]:
    return list(zip(*(rows.column(name).to_pylist() for name in names), strict=True))
