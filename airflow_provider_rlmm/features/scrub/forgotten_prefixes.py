# SPDX-License-Identifier: Apache-2.0
"""
What lies below key prefixes that finished segments name and the connection does not: brokers delete below the prefix that is
configured now, so a changed one leaves everything behind, where no listing of the connection's places shows it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_rlmm.core.base.errors import ConfigurationError, StorageError, StorageRootError
from airflow_provider_rlmm.core.runs.listed_objects import ListedObjects
from airflow_provider_rlmm.core.storage.remote_storage import Folder, FolderState, RemoteStorageManager
from airflow_provider_rlmm.features.scrub.rules import ScrubClass
from airflow_provider_rlmm.features.scrub.scrub_summary import FORGOTTEN, ForgottenPrefix

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Below:
    """
    What was found.

    :param prefixes: each prefix, with how much lies there.
    :param tables: the objects, with the columns of a listing.
    """

    prefixes: tuple[ForgottenPrefix, ...]
    tables: tuple[pa.Table, ...]

    def names(self, folder: str) -> bool:
        """
        Tell whether a folder of no topic is one of these prefixes, or holds or begins one.

        :param folder: its prefix.
        """
        return any(p.prefix and (folder.startswith(p.prefix) or p.prefix.startswith(folder)) for p in self.prefixes)

    def added_to(self, classes: pa.Table) -> pa.Table:
        """
        Return objects with those below the prefixes, each once.

        :param classes: objects of the connection's places, with their classes.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        unknown = pc.equal(classes["class"], ScrubClass.UNKNOWN.value)
        for prefix, table in zip((p for p in self.prefixes if p.objects), self.tables, strict=True):
            # As keys of the connection's places they were read as another topic's, or not at all.
            found_again = pc.and_(unknown, pc.is_in(classes["key"], value_set=table["key"].unique()))
            classes = classes.filter(pc.invert(found_again))
            fresh = table.filter(pc.invert(pc.is_in(table["key"], value_set=classes["key"].unique())))
            told = {"class": ScrubClass.UNKNOWN.value, "why": f"{FORGOTTEN}: {prefix.prefix}"}
            columns = [
                fresh[field.name]
                if field.name in fresh.schema.names
                else pa.repeat(pa.scalar(told.get(field.name), field.type), fresh.num_rows)
                for field in classes.schema
            ]
            classes = pa.concat_tables([classes, pa.Table.from_arrays(columns, schema=classes.schema)]).combine_chunks()
            unknown = pc.equal(classes["class"], ScrubClass.UNKNOWN.value)
        return classes


def look_below(prefixes: Iterable[str], storage: RemoteStorageManager, partition_count: int) -> Below:
    """
    List what lies below key prefixes that the connection does not name. Nothing else is done there.

    :param prefixes: the prefixes.
    :param storage: remote storage, listed only.
    :param partition_count: number of metadata partitions.
    :raises StorageRootError: if the root is not the one that was proved, or is replaced meanwhile.
    """
    found, tables = [], []
    for prefix in prefixes:
        try:
            layout = storage.layout.below(prefix)
            listed, why = ListedObjects(layout, partition_count), ""
            for met in storage.walk((), layout=layout):
                if not isinstance(met, Folder):
                    listed.add(met)
                elif met.state is FolderState.BROKEN:
                    why = why or met.why
        except StorageRootError:
            raise
        except (ConfigurationError, StorageError) as e:
            found.append(ForgottenPrefix(prefix, 0, 0, str(e)))
            continue
        rows = _of_topics(listed.table(frozenset()))
        found.append(ForgottenPrefix(prefix, rows.num_rows, sum(rows["bytes"].to_pylist()), why))
        if rows.num_rows:
            tables.append(rows)
    return Below(tuple(found), tuple(tables))


def _of_topics(rows: pa.Table) -> pa.Table:
    """Return the objects of segments: what else lies beside them is none of ours."""
    import pyarrow.compute as pc

    return rows.filter(pc.is_valid(rows["topic_id"]))
