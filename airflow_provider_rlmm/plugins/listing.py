# SPDX-License-Identifier: Apache-2.0
"""A page of a list: what was asked for, what is shown, and where the other pages are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlencode

PAGE_ROWS: Final = 100
"""Rows of a page, at most."""

MAX_PAGE: Final = 10**6
MAX_SEARCH: Final = 249
"""Characters of what is looked for: Kafka's names have no more."""


@dataclass(frozen=True, slots=True)
class Column:
    """
    A column of a list.

    :param name: its heading.
    :param key: by which it is sorted, empty where it is not.
    :param is_number: whether it stands at the right.
    """

    name: str
    key: str = ""
    is_number: bool = False

    @property
    def sorts(self) -> bool:
        """Whether the list can be sorted by it."""
        return bool(self.key)


@dataclass(frozen=True, slots=True)
class Listing:
    """
    A page of a list.

    :param address: of the list, without a query.
    :param rows: of this page.
    :param total: rows of all pages.
    :param page: which one it is, from 1.
    :param search: what the rows hold, empty for any.
    :param state: which state the rows have, empty for any.
    :param sort: key of the column by which they are sorted, empty for the list's own order.
    :param descending: whether the largest comes first.
    :param fixed: what else the address asks for, whichever page it is.
    """

    address: str
    rows: Sequence[Any]
    total: int
    page: int = 1
    search: str = ""
    state: str = ""
    sort: str = ""
    descending: bool = False
    fixed: tuple[tuple[str, str], ...] = ()
    size: int = field(default=PAGE_ROWS, kw_only=True)

    @property
    def first(self) -> int:
        """Number of the first row of this page, from 1."""
        return (self.page - 1) * self.size + 1

    @property
    def last(self) -> int:
        """Number of the last row of this page."""
        return min(self.page * self.size, self.total)

    @property
    def pages(self) -> int:
        """How many pages there are."""
        return max(1, -(-self.total // self.size))

    def at(self, page: int) -> str:
        """
        Return the address of another page of the same list.

        :param page: which one, from 1.
        """
        return self._address({**self._asked(), "page": str(page) if page > 1 else ""})

    def sorted_by(self, key: str) -> str:
        """Return the address of the list in another order; the same column again turns it round."""
        down = "" if key == self.sort and self.descending else "1"
        return self._address({**self._asked(), "sort": key, "down": down})

    def all(self) -> str:
        """Return the address of the list without a choice."""
        return self._address({**self._asked(), "search": "", "state": ""})

    def _asked(self) -> dict[str, str]:
        return {
            **dict(self.fixed),
            "search": self.search,
            "state": self.state,
            "sort": self.sort,
            "down": "1" if self.descending else "",
        }

    def _address(self, asked: Mapping[str, str]) -> str:
        query = urlencode({name: value for name, value in asked.items() if value})
        return f"{self.address}?{query}" if query else self.address
