# SPDX-License-Identifier: Apache-2.0
"""What a walk through the storage has listed, as columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_rlmm.core.base.arrow_arrays import array_of, empty_table, is_among, schema_of
from airflow_provider_rlmm.core.base.arrow_ids import IdSet, folded_together
from airflow_provider_rlmm.core.base.spool import SPOOLED_ROWS, Spool
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentId, TopicIdPartition
from airflow_provider_rlmm.core.storage.layout import Layout
from airflow_provider_rlmm.core.storage.remote_storage import Folder, FolderState, StoredObject
from airflow_provider_rlmm.core.storage.root import Place
from airflow_provider_rlmm.core.storage.walk import named_id, spelled

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    import pyarrow as pa

_FOLDER_NAME: Final = "_$folder$"
"""How Hadoop's file systems end the name of an empty object that stands for a folder."""

_Reading = tuple[Place, RemoteLogSegmentId, str]
"""What a key can be: of which place, of which segment, with which suffix."""


LISTED_COLUMNS: tuple[tuple[str, str], ...] = (
    ("key", "string"),
    ("bytes", "int64"),
    ("last_modified_ms", "int64"),
    ("is_whole", "bool"),  # whether all of its folder was listed
    # name of the place; this and what follows is null where the key names no segment, but for the topic where the folder
    # names one that is known
    ("place", "string"),
    ("suffix", "string"),
    ("topic_id", "binary"),  # 16 bytes
    ("topic", "string"),
    ("partition", "int32"),
    ("segment_id", "binary"),  # 16 bytes
    ("home", "int32"),  # the metadata partition that holds the events of the user partition
    (
        "is_of_layout",
        "bool",
    ),  # whether the layout builds the key; false, too, for a file of an unknown suffix beside a segment
    ("is_folder", "bool"),  # whether it is empty and stands for a folder: by its name, or as others lie below it
)
"""Name and Arrow type of every column of a listing."""


def listed_schema() -> pa.Schema:
    """Return the Arrow schema of a listing."""
    return schema_of(LISTED_COLUMNS)


class ListedObjects:
    """
    Objects and folders as they are met: rows on the local disk, and in memory what tells of folders.

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
        self._spool = Spool(listed_schema())
        self._ambiguous: dict[str, tuple[StoredObject, list[_Reading]]] = {}
        self._empty: list[str] = []
        self._folders: set[str] = set()
        self._whole: set[str] = set()
        self._since_folder = 0
        self._again: list[_Again] = []
        self.segment_ids = IdSet()
        """The ids of all segments that a key names."""
        self.segments = 0
        """How many of these have an object, once the walk has ended."""
        self._stored = IdSet()
        self.broken: dict[str, str] = {}
        """Folder → why not all of it was listed."""
        self.foreign: list[str] = []
        """Folders of no topic, which were not looked into."""
        self.unseen: dict[str, str] = {}
        """Those of them of which it is not known whether they hold folders of topics → why."""

    def add(self, found: StoredObject | Folder) -> None:
        """
        Take note of an object or a folder.

        :param found: what the walk has met; an object may come twice.
        :raises RoomError: if the local disk has no room for the rows.
        """
        if isinstance(found, StoredObject):
            readings = self._readings(found.key)
            if len(readings) > 1:
                # A prefix that is no folder reads as a part of a topic's name, too: the log tells.
                self._ambiguous[found.key] = (found, readings)
            else:
                self._append(found, readings[0] if readings else None)
            return
        if found.state in (FolderState.FOREIGN, FolderState.UNSEEN):
            self.foreign.append(found.prefix)
            if found.state is FolderState.UNSEEN:
                self.unseen[found.prefix] = found.why
        elif found.state is FolderState.BROKEN:
            self.broken[found.prefix] = found.why
        elif found.state is FolderState.AGAIN:
            self._again.append(_Again(found.prefix, self._since_folder, self._met))
        else:
            self._whole.add(found.prefix)
        self._since_folder = self._met

    @property
    def _met(self) -> int:
        """Rows so far."""
        return self._spool.rows + len(self._rows)

    def _readings(self, key: str) -> list[_Reading]:
        parts = ((place, self._layout.parts(key, place)) for place in self._layout.places)
        found = [(place, *part) for place, part in parts if part is not None]
        # A file whose suffix the layout does not know lies beside its objects, and is none of them.
        return [reading for reading in found if self._is_of_layout(reading)] or found

    def _is_of_layout(self, reading: _Reading) -> bool:
        return reading[2] in self._layout.suffixes

    def _append(self, stored: StoredObject, reading: _Reading | None) -> None:
        self._rows.append(self._row(stored, reading))
        if stored.size == 0 and (reading is None or not self._is_of_layout(reading)):
            self._empty.append(stored.key)
        if len(self._rows) >= SPOOLED_ROWS:
            self._flush()

    def _row(self, stored: StoredObject, reading: _Reading | None) -> tuple[Any, ...]:
        is_of_layout = reading is not None and self._is_of_layout(reading)
        if reading is None:
            parts = self._parts_elsewhere(stored.key)
        else:
            place, segment, suffix = reading
            tip = segment.topic_id_partition
            parts = (
                place.name, suffix, tip.topic_id.bytes, tip.topic, tip.partition, segment.id.bytes, self._home(tip),
            )  # fmt: skip
        return stored.key, stored.size, stored.last_modified_ms, True, *parts, is_of_layout, False

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
        rows = _table(self._rows)
        self._note_segments(rows)
        self._spool.append(rows)
        self._rows = []

    def _note_segments(self, rows: pa.Table) -> None:
        self.segment_ids.add(rows.column("segment_id"))
        stored = rows.filter(rows.column("is_of_layout"))
        ids = [stored.column(name) for name in ("topic_id", "segment_id")]
        self._stored.add_folded(folded_together(ids, stored.column("partition")))

    def end(self) -> None:
        """Take note that the walk has ended: nothing is added after that."""
        self._flush()
        for stored, readings in self._ambiguous.values():
            self._note_segments(_table([self._row(stored, reading) for reading in readings]))
        # They are not asked for again: what remembers millions of them is let go.
        self.segments, self._stored = len(self._stored), IdSet()
        self._folders = self._folders_among(self._empty)
        self._empty = []

    def tables(self, names: Collection[tuple[bytes, str]]) -> Iterator[pa.Table]:
        """
        Yield all objects, each once, as tables of some ten thousands.

        :param names: topic ids with their names, as the log has them: they tell what a key is that can be several.
        :return: with :data:`~airflow_provider_rlmm.core.runs.listed_objects.LISTED_COLUMNS`.
        """
        doubled: set[int] = set()
        for first, rows in self._numbered():
            yield self._told(rows, first, doubled)
        chosen = []
        for stored, readings in self._ambiguous.values():
            named = [r for r in readings if (_tip(r).topic_id.bytes, _tip(r).topic) in names]
            chosen.append(self._row(stored, (named or readings)[0]))
        for at in range(0, len(chosen), SPOOLED_ROWS):
            yield self._told(_table(chosen[at : at + SPOOLED_ROWS]), None, doubled)

    def table(self, names: Collection[tuple[bytes, str]]) -> pa.Table:
        """
        Return all objects at once, where they are known to be few.

        :param names: as of :meth:`tables`.
        """
        import pyarrow as pa

        return pa.concat_tables([empty_table(listed_schema()), *self.tables(names)]).combine_chunks()

    def _numbered(self) -> Iterator[tuple[int, pa.Table]]:
        """Yield the rows with the number of the first one of each table."""
        first = 0
        for rows in self._spool.tables():
            yield first, rows
            first += rows.num_rows

    def _told(self, rows: pa.Table, first: int | None, doubled: set[int]) -> pa.Table:
        """Return rows with what the end of the walk tells of them, without those that came again."""
        import pyarrow as pa

        if self._folders:
            is_folder = is_among(rows.column("key"), sorted(self._folders))
            rows = rows.set_column(rows.schema.get_field_index("is_folder"), "is_folder", is_folder)
        if not self.broken and not self._again:
            return rows
        keys = rows.column("key").to_pylist()
        is_whole = [self.is_whole(key) for key in keys]
        kept = []
        for number, (key, whole) in enumerate(zip(keys, is_whole, strict=True)):
            # Of a folder that was listed whole at last, everything; of another one, all that was seen of it, once.
            again = first is not None and any(a.holds(first + number, key) for a in self._again)
            kept.append(not again if whole else hash(key) not in doubled)
            if not whole:
                doubled.add(hash(key))
        at = rows.schema.get_field_index("is_whole")
        return rows.set_column(at, "is_whole", array_of(is_whole, pa.bool_())).filter(array_of(kept, pa.bool_()))

    def _folders_among(self, keys: Collection[str]) -> set[str]:
        """Return those of some keys of empty objects that stand for folders."""
        import pyarrow.compute as pc

        named = {key for key in keys if key.endswith(_FOLDER_NAME)}
        wanted = set(keys) - named
        if not wanted:
            return named
        for _, rows in self._numbered():
            for parent in pc.unique(pc.replace_substring_regex(rows.column("key"), "(^|/)[^/]*$", "")).to_pylist():
                named.update(folder for folder in _folders_above(parent) if folder in wanted)
        return named

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


@dataclass(frozen=True, slots=True)
class _Again:
    """Rows that come again if their folder was listed whole at last."""

    prefix: str
    first: int
    end: int  # exclusive

    def holds(self, number: int, key: str) -> bool:
        return self.first <= number < self.end and key.startswith(self.prefix)


def _folders_above(folder: str) -> Iterator[str]:
    """Yield a folder and those that hold it, without trailing ``/``."""
    while folder:
        yield folder
        folder = folder.rpartition("/")[0]


def _table(rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    import pyarrow as pa

    schema = listed_schema()
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [array_of(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _tip(reading: _Reading) -> TopicIdPartition:
    return reading[1].topic_id_partition
