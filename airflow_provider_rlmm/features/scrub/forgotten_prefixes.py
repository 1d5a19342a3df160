# SPDX-License-Identifier: Apache-2.0
"""
What lies below key prefixes that finished segments name and the connection does not: brokers delete below the prefix that is
configured now, so a changed one leaves everything behind, where no listing of the connection's places shows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_rlmm.core.base.arrow_arrays import array_of, equals, numpy_of
from airflow_provider_rlmm.core.base.errors import ConfigurationError, StorageError, StorageRootError
from airflow_provider_rlmm.core.runs.listed_objects import ListedObjects
from airflow_provider_rlmm.core.storage.remote_storage import Folder, FolderState, RemoteStorageManager
from airflow_provider_rlmm.features.scrub.found import found_schema
from airflow_provider_rlmm.features.scrub.rules import ScrubClass
from airflow_provider_rlmm.features.scrub.scrub_summary import FORGOTTEN, ForgottenPrefix

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Below:
    """
    What was found.

    :param prefixes: each prefix, with how much lies there.
    :param tables: the objects of those that hold some; they are held in memory.
    """

    prefixes: tuple[ForgottenPrefix, ...]
    tables: tuple[_Below, ...]

    def names(self, folder: str) -> bool:
        """
        Tell whether a folder of no topic is one of these prefixes, or holds or begins one.

        :param folder: its prefix.
        """
        return any(p.prefix and (folder.startswith(p.prefix) or p.prefix.startswith(folder)) for p in self.prefixes)

    def without_found_again(self, classes: pa.Table) -> pa.Table:
        """
        Return objects without those that lie below one of the prefixes: as keys of the connection's places they were read as
        another topic's, or not at all. Those that are told as something else stay, and are not told twice.

        :param classes: objects of the connection's places, with their classes.
        """
        import pyarrow.compute as pc

        for below in self.tables:
            known = below.rows.column("key")
            unknown = equals(classes["class"], ScrubClass.UNKNOWN.value)
            found_again = pc.and_(unknown, pc.is_in(classes["key"], value_set=known))
            classes = classes.filter(pc.invert(found_again))
            if pc.any(pc.starts_with(classes["key"], below.prefix)).as_py():
                below.told |= numpy_of(pc.is_in(known, value_set=classes["key"].combine_chunks()))
        return classes

    def fresh(self) -> Iterator[pa.Table]:
        """Yield the objects below the prefixes, each once, with class and reason, once all others were seen."""
        import pyarrow.compute as pc

        before: list[Any] = []
        for below in self.tables:
            rows = below.rows.filter(array_of(~below.told))
            for known in before:
                rows = rows.filter(pc.invert(pc.is_in(rows["key"], value_set=known)))
            before.append(below.rows.column("key"))
            told = (
                ("class", ScrubClass.UNKNOWN.value),
                ("why", f"{FORGOTTEN}: {below.prefix}"),
                ("metadata_partition", None),
                ("offset", None),
            )
            for name, value in told:
                kind = found_schema().field(name).type
                rows = rows.append_column(name, array_of([value] * rows.num_rows, kind))
            yield rows


@dataclass(slots=True)
class _Below:
    """The objects below a prefix, and which of them are told as what the connection's places hold."""

    prefix: str
    rows: pa.Table  # with the columns of a listing
    told: NDArray[Any]


def look_below(prefixes: Iterable[str], storage: RemoteStorageManager, partition_count: int) -> Below:
    """
    List what lies below key prefixes that the connection does not name. Nothing else is done there.

    :param prefixes: the prefixes.
    :param storage: remote storage, listed only.
    :param partition_count: number of metadata partitions.
    :raises StorageRootError: if the root is not the one that was proved, or is replaced meanwhile.
    """
    import numpy as np

    found, tables = [], []
    for prefix in prefixes:
        try:
            layout = storage.layout.below(prefix)
            listed, why = ListedObjects(layout, partition_count), ""
            for met in storage.walk((), layout=layout):
                listed.add(met)
                if isinstance(met, Folder) and met.state is FolderState.BROKEN:
                    why = why or met.why
        except StorageRootError:
            raise
        except (ConfigurationError, StorageError) as e:
            found.append(ForgottenPrefix(prefix, 0, 0, str(e)))
            continue
        listed.end()
        rows = _of_topics(listed.table(frozenset()))
        found.append(ForgottenPrefix(prefix, rows.num_rows, sum(rows["bytes"].to_pylist()), why))
        if rows.num_rows:
            tables.append(_Below(prefix, rows, np.zeros(rows.num_rows, bool)))
    return Below(tuple(found), tuple(tables))


def _of_topics(rows: pa.Table) -> pa.Table:
    """Return the objects of segments: what else lies beside them is none of ours."""
    import pyarrow.compute as pc

    return rows.filter(pc.is_valid(rows["topic_id"]))
