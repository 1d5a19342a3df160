# SPDX-License-Identifier: Apache-2.0
"""How much of a list a command prints, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

import click

from airflow_provider_rlmm.cli.options import Command
from airflow_provider_rlmm.core.base.agreement import number_of


@dataclass(frozen=True, slots=True)
class Listing:
    """
    What a person wants to see of a list.

    :param sort: field to sort by: numbers from the most, texts from A; ``None`` leaves the order.
    :param limit: print no more than these rows, ``None`` for all.
    """

    sort: str | None = None
    limit: int | None = None

    def of(self, rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """
        Return the rows that are printed, in their order.

        :param rows: all of them.
        """
        found = list(rows)
        if self.sort is not None:
            found.sort(key=self._key)
        return found[: self.limit]

    def left_out(self, rows: Sequence[object]) -> str:
        """
        Say how many rows are not printed; empty where all are.

        :param rows: all of them.
        """
        more = 0 if self.limit is None else len(rows) - self.limit
        return f"{number_of(more, 'more is', 'more are')} not shown: --limit says how many are" if more > 0 else ""

    def _key(self, row: Mapping[str, Any]) -> tuple[bool, Any]:
        value = row.get(str(self.sort))
        return value is None, -value if isinstance(value, int) else value or ""


def with_listing(*fields: str) -> Callable[[Command], Command]:
    """
    Give a command the options of a list, as ``listing``.

    :param fields: by which it can be sorted.
    """

    def decorate(command: Command) -> Command:
        @click.option("--limit", type=click.IntRange(1), help="Print no more than these.")
        @click.option("--sort", type=click.Choice(fields), help="Sort by this: numbers from the most, names from A.")
        @wraps(command)
        def listed(*args: Any, sort: str | None, limit: int | None, **given: Any) -> Any:
            return command(*args, listing=Listing(sort, limit), **given)

        return listed

    return decorate
