# SPDX-License-Identifier: Apache-2.0
"""
The key prefixes that records of the metadata topic name: brokers write below the one that is configured now, and custom
metadata tell which ones there were.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.storage.layout import Layout

if TYPE_CHECKING:
    import pyarrow as pa

MAX_PREFIXES: Final = 100
"""Key prefixes that are remembered: a writer that makes them up is not to keep us busy."""

_NOBODYS: Final = "no broker writes below this/"


class NamedPrefixes:
    """
    Collects key prefixes, at most :data:`MAX_PREFIXES` and those of the connection.

    :param layout: knows the key prefixes of the connection, and how custom metadata name one.
    :param found: those that are known already; further ones are added to it.
    """

    def __init__(self, layout: Layout, found: set[str]) -> None:
        self.layout = layout
        self.found = found
        self.left_out = 0
        """Records that name further key prefixes."""
        # The prefixes of the connection are to be remembered, too: another connection may not name them any more.
        self._of_nobody = layout.below(_NOBODYS)

    def note(self, decoded: Any) -> None:
        """Remember the key prefixes that records name."""
        import pyarrow as pa

        column = decoded.column("custom_metadata")
        custom = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
        # One after the other: of each there may be a million records, which one look at all of them puts aside.
        while (named := self._first_of(custom := self._without_known(custom))) is not None:
            if len(self.found) >= MAX_PREFIXES:
                named_by = (self.layout.recorded_prefix(value) for value in custom.to_pylist())
                self.left_out += sum(prefix is not None for prefix in named_by)
                return
            self.found.add(named)

    def _without_known(self, custom: pa.ChunkedArray) -> pa.ChunkedArray:
        import pyarrow.compute as pc

        return custom.filter(pc.invert(self._of_nobody.names_only(custom, tuple(self.found))))

    def _first_of(self, custom: pa.ChunkedArray) -> str | None:
        named = (self.layout.recorded_prefix(value.as_py()) for value in custom)
        return next((prefix for prefix in named if prefix is not None), None)

    def foreign(self, unfinished: pa.ChunkedArray) -> list[str]:
        """
        Return the key prefixes that the connection does not name, and no unfinished segment either, sorted.

        :param unfinished: custom metadata of the segments that are not finished.
        """
        import pyarrow.compute as pc

        others = unfinished.filter(pc.invert(self.layout.names_only(unfinished)))
        named = {self.layout.recorded_prefix(value) for value in pc.unique(others).to_pylist()}
        return sorted(prefix for prefix in self.found - named if not self._is_ours(prefix))

    def _is_ours(self, prefix: str) -> bool:
        try:
            return self.layout.below(prefix).places[0] in self.layout.places
        except ConfigurationError:
            # No store can address it, so it is none of the connection's.
            return False
