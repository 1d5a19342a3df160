# SPDX-License-Identifier: Apache-2.0
"""
Rows as lines of text: in columns, none of a cell left out, each line as soon as its row is known.

A library of tables formats all rows before it prints one, and cuts or pads cells: ten thousand rows took it seven seconds.
Here the first rows say how wide columns are, and names and ids stay whole on one line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from textwrap import wrap
from typing import Any, Final

from airflow_provider_rlmm.core.base.quoting import human_bytes, printable
from airflow_provider_rlmm.core.plans.prices import money

MAX_CELL: Final = 2_000
_MEASURED: Final = 500
_LEAST_WRAPPED: Final = 24
_GAP: Final = "  "
_NAMES: Final = ("offset", "partition", "id", "epochs", "value")


def lines_of(rows: Iterable[Mapping[str, Any]], columns: Mapping[str, str], width: int | None) -> Iterator[str]:
    """
    Yield a table, line by line: headings, unless all are empty, then each row.

    :param rows: what was found.
    :param columns: field → heading.
    :param width: of the terminal; sentences in the last column are wrapped to it. ``None`` wraps nothing, as a pipe has none.
    """
    found = iter(rows)
    first = list(islice(found, _MEASURED))
    if not first:
        return
    headings, measured = list(columns.values()), [_cells(row, columns) for row in first]
    form = _Form.of(
        [max(map(len, column)) for column in zip(headings, *measured, strict=True)],
        [isinstance(first[0].get(field), int) for field in columns],
        width,
    )
    if any(headings):
        yield from form.lines(headings)
    for cells in chain(measured, (_cells(row, columns) for row in found)):
        yield from form.lines(cells)


@dataclass(frozen=True, slots=True)
class _Form:
    """How rows become lines."""

    widths: Sequence[int]  # of the columns
    right: Sequence[bool]  # whether a column is aligned to the right
    wrapped: int | None  # how wide a sentence in the last column may be, ``None`` where it is not wrapped
    beside: bool  # whether it goes on beside the other columns; else it has lines of its own below them

    @classmethod
    def of(cls, widths: Sequence[int], right: Sequence[bool], width: int | None) -> _Form:
        before = sum(widths[:-1]) + len(_GAP) * (len(widths) - 1)
        if width is None or before + widths[-1] <= width:
            return cls(widths, right, None, beside=True)
        beside = width - before >= _LEAST_WRAPPED
        return cls(widths, right, width - before if beside else max(width - len(_GAP), _LEAST_WRAPPED), beside)

    def lines(self, cells: Sequence[str]) -> Iterator[str]:
        """Yield the lines of a row; only a sentence, which has spaces, is broken into several."""
        *others, last = cells
        placed = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(others, self.widths, self.right, strict=False)
        )
        before = "".join(f"{cell}{_GAP}" for cell in placed)
        if self.wrapped is None or (self.beside and len(last) <= self.wrapped):
            yield f"{before}{last.rjust(self.widths[-1]) if self.right[-1] else last}".rstrip()
            return
        first, *more = wrap(last, self.wrapped, break_long_words=False, break_on_hyphens=False) or [""]
        if self.beside:
            yield f"{before}{first}".rstrip()
            yield from (f"{' ' * len(before)}{part}" for part in more)
        else:
            yield before.rstrip()
            yield from (f"{_GAP}{part}" for part in (first, *more))


def _cells(row: Mapping[str, Any], columns: Iterable[str]) -> list[str]:
    return [_cell(field, row.get(field)) for field in columns]


def _cell(field: str, value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_cell(name, amount)}" for name, amount in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(_cell(field, element) for element in value)
    if not isinstance(value, int) or isinstance(value, bool):
        return printable(str(value), MAX_CELL)
    if field.endswith("bytes"):
        return human_bytes(value)
    if field.endswith("micros"):
        return money(value)
    # Numbers that name something are not counted.
    return str(value) if field.endswith(_NAMES) else f"{value:,}"
