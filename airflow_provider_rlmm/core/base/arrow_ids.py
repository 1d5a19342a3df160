# SPDX-License-Identifier: Apache-2.0
"""
Ids of 16 bytes by the million: which of them are known, and in which rows of a table they are.

Both remember 8 bytes of each id, the exclusive or of its halves. So two ids may be taken for one another, once in 10^12
looks at ten million of them: what is found this way is a hint, and a caller that needs to be sure compares the ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_rlmm.core.base.arrow_arrays import binary_buffers, numpy_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_ID_BYTES: Final = 16
_PARTS: Final = 64
_MIX: Final = 0x9E3779B97F4A7C15


class IdSet:
    """A set of ids that only grows: 8 bytes each."""

    def __init__(self) -> None:
        self._parts: list[Array] = []

    def add(self, ids: Any) -> None:
        """
        Add ids.

        :param ids: binary array or chunked array, of 16 bytes each; nulls are left out.
        """
        self.add_folded(folded(ids))

    def add_folded(self, keys: Array) -> None:
        """
        Add what stands for ids, or for several together.

        :param keys: what :func:`folded` or :func:`folded_together` returned.
        """
        import numpy as np

        self._parts.append(np.unique(keys))
        if len(self._parts) >= _PARTS:
            self._parts = [self._known()]

    def holds(self, ids: Any) -> Array:
        """
        Tell of each id whether it was added; null never was.

        :param ids: as of :meth:`add`.
        """
        import numpy as np

        known, wanted, found = self._known(), folded(ids), np.zeros(len(ids), bool)
        self._parts = [known]
        if known.size:
            at = np.minimum(np.searchsorted(known, wanted), known.size - 1)
            found[numpy_of(ids.is_valid())] = known.take(at) == wanted
        return found

    def __len__(self) -> int:
        return int(self._known().size)

    def _known(self) -> Array:
        import numpy as np

        if len(self._parts) == 1:
            return self._parts[0]
        return np.unique(np.concatenate(self._parts)) if self._parts else np.empty(0, np.uint64)


class RowsOfIds:
    """
    Finds the rows of a table by their ids: 12 bytes of memory for each row.

    :param folded: what :func:`folded` returned of the ids of its rows.
    """

    def __init__(self, folded: Array) -> None:
        import numpy as np

        self._rows = np.argsort(folded, kind="stable").astype(np.int32)
        self._folded = folded.take(self._rows)

    def candidates(self, ids: Any) -> tuple[Array, Array]:
        """
        Return pairs that may have the same id.

        :param ids: as of :meth:`IdSet.add`, none of them null.
        :return: positions in the ids, ascending, and for each a row of the table.
        """
        import numpy as np

        wanted = folded(ids)
        first = np.searchsorted(self._folded, wanted, "left")
        counts = np.searchsorted(self._folded, wanted, "right") - first
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return np.repeat(np.arange(wanted.size), counts), self._rows.take(np.repeat(first, counts) + within)


def folded(ids: Any) -> Array:
    """
    Return of each id the exclusive or of its halves.

    :param ids: as of :meth:`IdSet.add`.
    :raises ValueError: if one has another length.
    """
    import numpy as np
    import pyarrow as pa

    if isinstance(ids, pa.ChunkedArray):
        found = [folded(chunk) for chunk in ids.chunks]
        return np.concatenate(found) if found else np.empty(0, np.uint64)
    ends, data = binary_buffers(ids.drop_null())
    if (np.diff(ends) != _ID_BYTES).any():
        raise ValueError(f"an id has {_ID_BYTES} bytes")
    pairs = data[ends[0] : ends[-1]].reshape(-1, _ID_BYTES).copy().view(np.uint64)
    return pairs[:, 0] ^ pairs[:, 1]


def folded_together(ids: Sequence[Any], number: Any) -> Array:
    """
    Return one number for several ids and a number of each row: such as topic id, segment id and partition.

    :param ids: columns, each as of :meth:`IdSet.add`, without null.
    :param number: a column of integers, without null.
    """
    import numpy as np

    mixed = numpy_of(number).astype(np.uint64)
    for column in ids:
        mixed = (mixed * np.uint64(_MIX)) ^ folded(column)
    return mixed
