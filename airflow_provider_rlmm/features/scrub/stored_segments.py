# SPDX-License-Identifier: Apache-2.0
"""
What lies of each copied segment, at each place: noted a part of the listing at a time, in some bytes for each segment.

A segment's objects may lie far apart in the listing, at several places. So what of them is missing, or is not as large as
recorded, is known once all of the listing was noted.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_rlmm.core.base.arrow_arrays import array_of, equals, numpy_of
from airflow_provider_rlmm.core.base.spool import SPOOLED_ROWS
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.core.storage.layout import Layout
from airflow_provider_rlmm.features.scrub.log_view import LogView

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    Array = NDArray[Any]

_COPIED: Final = int(RemoteLogSegmentState.COPY_SEGMENT_FINISHED)
_SIZES: Final = ("segment_size_in_bytes", "custom_metadata")


class StoredSegments:
    """
    The objects that were noted so far.

    :param view: what the log says.
    :param layout: knows the objects of a segment, and how large they are.
    """

    def __init__(self, view: LogView, layout: Layout) -> None:
        self._layout = layout
        self._bits = {suffix: 1 << number for number, suffix in enumerate(sorted(layout.suffixes))}
        self._copied = _settled_copies(view)
        self._said, self._said_bytes = self._recorded(view)
        self._seen: dict[str, Array] = {}
        self._bytes: dict[str, Array] = {}

    def _recorded(self, view: LogView) -> tuple[Array, Array]:
        """Return of each copied segment of which objects the log says how large they are, as bits, and their bytes."""
        import numpy as np

        said, sizes = np.zeros(self._copied.size, np.uint16), np.zeros(self._copied.size, np.int64)
        copied = np.flatnonzero(self._copied)
        for first in range(0, copied.size, SPOOLED_ROWS):
            rows = copied[first : first + SPOOLED_ROWS]
            part = view.segments.table(rows, _SIZES)
            columns = (part.column(name).to_pylist() for name in _SIZES)
            for row, size, custom in zip(rows.tolist(), *columns, strict=True):
                if (found := self._layout.recorded_size(size, custom)) is not None:
                    said[row], sizes[row] = self._all_of(found[0]), found[1]
        return said, sizes

    def _all_of(self, suffixes: Collection[str]) -> int:
        return sum(self._bits[suffix] for suffix in suffixes)

    def note(self, listed: pa.Table, segments: Array) -> None:
        """
        Note objects, each once.

        :param listed: with :data:`~airflow_provider_rlmm.core.runs.listed_objects.LISTED_COLUMNS`.
        :param segments: as :meth:`~airflow_provider_rlmm.features.scrub.log_view.LogIndex.rows_of` returned it.
        """
        import numpy as np

        at = np.flatnonzero((segments >= 0) & numpy_of(listed.column("is_of_layout")))
        objects, rows = listed.select(["place", "suffix", "bytes"]).take(array_of(at)), segments.take(at)
        sizes, bits = numpy_of(objects.column("bytes")), self._bits_of(objects.column("suffix"))
        counted = (self._said.take(rows) & bits) != 0
        for place in objects.column("place").unique().to_pylist():
            here = numpy_of(equals(objects.column("place"), place))
            seen = self._seen.setdefault(place, np.zeros(self._said.size, np.uint16))
            stored = self._bytes.setdefault(place, np.zeros(self._said.size, np.int64))
            np.bitwise_or.at(seen, rows[here], bits[here])
            np.add.at(stored, rows[here & counted], sizes[here & counted])

    def _bits_of(self, suffixes: Any) -> Array:
        import numpy as np

        encoded = suffixes.combine_chunks().dictionary_encode()
        bits = np.array([self._bits[suffix] for suffix in encoded.dictionary.to_pylist()], np.uint16)
        return bits.take(numpy_of(encoded.indices))

    def are_wrong(self, segments: Array) -> Array:
        """
        Tell of segments whether their objects are larger or smaller together than their metadata says, at every place where
        some lie, once all objects were noted. That cannot be told where not all are there, and missing ones are told apart.

        :param segments: their numbers in the view, -1 for none.
        """
        known: Array = segments >= 0
        known[known] = self._wrong_sizes.take(segments[known])
        return known

    @cached_property
    def _wrong_sizes(self) -> Array:
        import numpy as np

        found = np.zeros(self._said.size, bool)
        as_said = ~self._copied | (self._said == 0)
        for place, seen in self._seen.items():
            found |= seen != 0
            lacking = (seen & self._said) != self._said
            as_said |= (seen != 0) & (lacking | (self._bytes[place] == self._said_bytes))
        wrong: Array = found & ~as_said
        return wrong

    def lacking(self, required: Collection[str]) -> tuple[Array, Array]:
        """
        Return the segments that must have objects and lack one at every place: their rows in the view, ascending, and of each
        how many objects are there, 0 or more.

        :param required: suffixes of the objects that every copied segment has.
        """
        import numpy as np

        wanted = self._all_of(required)
        most = np.zeros(self._said.size, np.uint8)
        for seen in self._seen.values():
            there = np.zeros(self._said.size, np.uint8)
            for bit in self._bits.values():
                if bit & wanted:
                    there += (seen & bit) != 0
            np.maximum(most, there, out=most)
        rows = np.flatnonzero(self._copied & (most < len(required)))
        return rows, most.take(rows)


def _settled_copies(view: LogView) -> Array:
    """Return of each segment whether it was copied before anything was listed, and nothing came after that."""
    import numpy as np

    every, segments = slice(None), view.segments
    homes = segments.partitions.column("metadata_partition").to_pylist()
    watermarks = np.repeat(np.array([view.before.get(home, 0) for home in homes], np.int64), segments.sizes)
    settled: Array = (segments.numbers("state", every) == _COPIED) & (
        segments.numbers("event_offset", every) < watermarks
    )
    return settled
