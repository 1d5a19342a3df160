# SPDX-License-Identifier: Apache-2.0
"""What a walk through the storage has listed, as columns."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from airflow_provider_rlmm.core.base.arrow_arrays import array_of
from airflow_provider_rlmm.core.base.arrow_groups import groups_of
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentId, TopicIdPartition
from airflow_provider_rlmm.core.storage.layout import Layout
from airflow_provider_rlmm.core.storage.remote_storage import Folder, FolderState, StoredObject
from airflow_provider_rlmm.core.storage.root import Place
from airflow_provider_rlmm.core.storage.walk import named_id, spelled

if TYPE_CHECKING:
    from collections.abc import Collection

    import pyarrow as pa

_CHUNK_ROWS = 100_000

_Reading = tuple[Place, RemoteLogSegmentId, str]
"""What a key can be: of which place, of which segment, with which suffix."""


LISTED_COLUMNS: tuple[tuple[str, str], ...] = (
    ("key", "string"),
    ("bytes", "int64"),
    ("last_modified_ms", "int64"),
    ("is_whole", "bool"),  # whether all of its folder was listed
    # name of the place; this and what follows is null where the layout would never build the key, but for the topic where the
    # folder names one that is known
    ("place", "string"),
    ("suffix", "string"),
    ("topic_id", "binary"),  # 16 bytes
    ("topic", "string"),
    ("partition", "int32"),
    ("segment_id", "binary"),  # 16 bytes
    ("home", "int32"),  # the metadata partition that holds the events of the user partition
)
"""Name and Arrow type of every column of a listing."""


def listed_schema() -> pa.Schema:
    """Return the Arrow schema of a listing."""
    import pyarrow as pa

    types = {"bool": pa.bool_(), "binary": pa.binary(), "string": pa.string()}
    return pa.schema([pa.field(name, types.get(kind) or pa.type_for_alias(kind)) for name, kind in LISTED_COLUMNS])


class ListedObjects:
    """
    Objects and folders as they are met.

    :param layout: where the objects of a segment lie.
    :param partition_count: number of metadata partitions.
    :param known: user partitions that the log names: a folder with the id of one of their topics is never "of no topic".
    """

    def __init__(self, layout: Layout, partition_count: int, known: Collection[TopicIdPartition] = ()) -> None:
        self._layout = layout
        named = known if layout.folders_name_topics else ()
        self._topics = {text: tip for tip in named for text in spelled(tip.topic_id)}
        self._home = lru_cache(maxsize=1 << 16)(lambda tip: metadata_partition_for(tip, partition_count))
        self._rows: list[tuple[Any, ...]] = []
        self._chunks: list[pa.Table] = []
        self._ambiguous: dict[str, tuple[StoredObject, list[_Reading]]] = {}
        self._whole: set[str] = set()
        self.broken: dict[str, str] = {}
        """Folder → why not all of it was listed."""
        self.foreign: list[str] = []
        """Folders of no topic, which were not looked into."""
        self.unseen: dict[str, str] = {}
        """Those of them of which nobody knows whether they hold folders of topics → why."""

    def add(self, found: StoredObject | Folder) -> None:
        """
        Take note of an object or a folder.

        :param found: what the walk has met; an object may come twice.
        """
        if isinstance(found, StoredObject):
            readings = self._readings(found.key)
            if len(readings) > 1:
                # A prefix that is no folder reads as a part of a topic's name, too: the log tells.
                self._ambiguous[found.key] = (found, readings)
            else:
                self._append(found, readings[0] if readings else None)
        elif found.state is FolderState.FOREIGN:
            self.foreign.append(found.prefix)
        elif found.state is FolderState.UNSEEN:
            self.foreign.append(found.prefix)
            self.unseen[found.prefix] = found.why
        elif found.state is FolderState.BROKEN:
            self.broken[found.prefix] = found.why
        else:
            self._whole.add(found.prefix)

    def _readings(self, key: str) -> list[_Reading]:
        parts = ((place, self._layout.parts(key, place)) for place in self._layout.places)
        # A file whose suffix the layout does not know is none of its objects, whatever the rest of its name says.
        return [(place, *found) for place, found in parts if found is not None and found[1] in self._layout.suffixes]

    def _append(self, stored: StoredObject, reading: _Reading | None) -> None:
        if reading is None:
            parts = self._parts_elsewhere(stored.key)
        else:
            place, segment, suffix = reading
            tip = segment.topic_id_partition
            parts = (
                place.name, suffix, tip.topic_id.bytes, tip.topic, tip.partition, segment.id.bytes, self._home(tip),
            )  # fmt: skip
        self._rows.append((stored.key, stored.size, stored.last_modified_ms, True, *parts))
        if len(self._rows) >= _CHUNK_ROWS:
            self._flush()

    def _parts_elsewhere(self, key: str) -> tuple[Any, ...]:
        """Return what is known of a key that the layout would not build: a topic, where it lies in a folder of one."""
        folder = key.rpartition("/")[0]
        if self._topics and (text := named_id(folder, self._topics)) is not None and not self._is_at_a_place(key):
            tip = self._topics[text]
            return None, None, tip.topic_id.bytes, tip.topic, None, None, None
        return (None,) * 7

    def _is_at_a_place(self, key: str) -> bool:
        """Tell whether a key lies in the folder of a topic, as the layout builds it."""
        ends = (key.find("/", len(place.prefix)) for place in self._layout.places if key.startswith(place.prefix))
        return any(end >= 0 and self._layout.topic_id_of_directory(key[:end]) is not None for end in ends)

    def _flush(self) -> None:
        import pyarrow as pa

        schema = listed_schema()
        columns = list(zip(*self._rows, strict=True)) or [()] * len(schema)
        arrays = [array_of(column, field.type) for column, field in zip(columns, schema, strict=True)]
        self._chunks.append(pa.Table.from_arrays(arrays, schema=schema))
        self._rows = []

    def segment_ids(self) -> pa.Array:
        """Return the ids of all segments of which an object was listed, each once."""
        import pyarrow as pa
        import pyarrow.compute as pc

        self._flush()
        ids = [pc.unique(chunk["segment_id"]) for chunk in self._chunks]
        ids.append(
            array_of([s.id.bytes for _, readings in self._ambiguous.values() for _, s, _ in readings], pa.binary())
        )
        return pc.drop_null(pc.unique(pa.chunked_array(ids, pa.binary())))

    def table(self, names: Collection[tuple[bytes, str]]) -> pa.Table:
        """
        Return all objects, each once.

        :param names: topic ids with their names, as the log has them: they tell what a key is that can be several.
        :return: with :data:`~airflow_provider_rlmm.core.runs.listed_objects.LISTED_COLUMNS`.
        """
        import pyarrow as pa

        for stored, readings in self._ambiguous.values():
            named = [r for r in readings if (_tip(r).topic_id.bytes, _tip(r).topic) in names]
            self._append(stored, (named or readings)[0])
        self._ambiguous = {}
        self._flush()
        rows = pa.concat_tables(self._chunks)
        if self.broken:
            rows = self._each_once(rows)
        return rows.combine_chunks()

    def _each_once(self, rows: pa.Table) -> pa.Table:
        """Return each object once, of folders that broke off marked as such."""
        import pyarrow as pa

        rows = rows.take(array_of(groups_of(rows, ["key"]).first))
        is_whole = array_of([self.is_whole(key) for key in rows["key"].to_pylist()], pa.bool_())
        return rows.set_column(rows.schema.get_field_index("is_whole"), "is_whole", is_whole)

    def is_whole(self, key: str) -> bool:
        """
        Tell whether all that lies beside an object or below a folder was listed.

        :param key: a key, or a prefix that ends in ``/``.
        """
        if not self.broken:
            return True
        if any(folder.startswith(key) for folder in self.broken):
            return False
        end = len(key)
        while (end := key.rfind("/", 0, end)) >= 0:
            folder = key[: end + 1]
            if folder in self.broken:
                return False
            if folder in self._whole:
                return True
        return "" not in self.broken


def _tip(reading: _Reading) -> TopicIdPartition:
    return reading[1].topic_id_partition
