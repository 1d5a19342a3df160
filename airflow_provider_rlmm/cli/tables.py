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

from airflow_provider_rlmm.cli.face import in_terminal
from airflow_provider_rlmm.core.base.quoting import human_bytes, printable
from airflow_provider_rlmm.core.plans.prices import money

MAX_CELL: Final = 2_000
_MEASURED: Final = 500
_LEAST_WRAPPED: Final = 24
_MOST_PADDED: Final = 64
"""How wide a column is padded: a single long value would push the others of all rows off the screen."""
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
        [min(_MOST_PADDED, max(map(len, column))) for column in zip(headings, *measured, strict=True)],
        max(len(cells[-1]) for cells in (headings, *measured)),
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

    widths: Sequence[int]  # of the columns, as far as they are padded
    right: Sequence[bool]  # whether a column is aligned to the right
    width: int | None  # of the terminal, to which a sentence in the last column is wrapped; ``None`` where it is not

    @classmethod
    def of(cls, widths: Sequence[int], last: int, right: Sequence[bool], width: int | None) -> _Form:
        """Return the form of a table; ``last`` is how long the longest cell of its last column is."""
        fits = width is None or _before(widths) + last <= width
        return cls(widths, right, None if fits else width)

    def lines(self, cells: Sequence[str]) -> Iterator[str]:
        """Yield the lines of a row; only a sentence, which has spaces, is broken into several."""
        *others, last = cells
        placed = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(others, self.widths, self.right, strict=False)
        )
        before = "".join(f"{cell}{_GAP}" for cell in placed)
        left = None if self.width is None else self.width - len(before)
        if left is None or len(last) <= left:
            yield f"{before}{last.rjust(self.widths[-1]) if self.right[-1] else last}".rstrip()
            return
        # Where nothing is left beside the other columns it has lines of its own below them.
        beside = left >= _LEAST_WRAPPED
        wrapped = left if beside else max(left + len(before) - len(_GAP), _LEAST_WRAPPED)
        first, *more = wrap(last, wrapped, break_long_words=False, break_on_hyphens=False) or [""]
        if beside:
            yield f"{before}{first}".rstrip()
            yield from (f"{' ' * len(before)}{part}" for part in more)
        else:
            yield before.rstrip()
            yield from (f"{_GAP}{part}" for part in (first, *more))


def _before(widths: Sequence[int]) -> int:
    return sum(widths[:-1]) + len(_GAP) * (len(widths) - 1)


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
        text = str(value)
        # A sentence may name settings; a name of one word is that of something else.
        return printable(in_terminal(text) if " " in text else text, MAX_CELL)
    if field.endswith("bytes"):
        return human_bytes(value)
    if field.endswith("micros"):
        return money(value)
    # Numbers that name something are not counted.
    return str(value) if field.endswith(_NAMES) else f"{value:,}"
