# SPDX-License-Identifier: Apache-2.0
"""Clusters, and what was surveyed of them: topics, user partitions, segments."""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from airflow_provider_rlmm.core.base.errors import DocumentError
from airflow_provider_rlmm.core.base.file_systems import list_folders
from airflow_provider_rlmm.core.base.work_folder import is_cluster_folder
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.world.absence import Presence
from airflow_provider_rlmm.features.survey.inventory import (
    INVENTORY_DOCUMENT,
    MAX_INVENTORY_BYTES,
    PARTITION_COLUMNS,
    PARTITIONS_FILE,
    SEGMENT_COLUMNS,
    TOPIC_COLUMNS,
    TOPICS_FILE,
    Inventory,
    segments_file,
)
from airflow_provider_rlmm.overview.documents import document_of_cluster

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_rlmm.overview.tables import Expected, Rows

MAX_CLUSTERS = 1_000
MAX_SEARCHED_SEGMENTS = 2_000_000
"""Of more segments none is looked for by its id alone: the files are not sorted by it, so all of them are read."""

MAX_FOUND = 5
"""Segments of one id that are told of, at most: an id is one segment's, unless a record was made up."""

GONE = "GONE"
"""What is asked for in the place of a state: every topic that the cluster lacks, however far its deletion is."""

_TRIES = 3
_ID_TEXT = 22
T = TypeVar("T")

SORTS = (
    "topic",
    "state",
    "partitions",
    "segments",
    "bytes",
    "oldest_ms",
    "newest_ms",
    "first_absent_ms",
    "eligible_ms",
)
"""Columns by which topics can be sorted."""


@dataclass(frozen=True, slots=True)
class TopicRow:
    """A topic of an inventory; the fields are those of its file, the id is in Kafka's text form."""

    topic: str
    topic_id: str
    state: str
    presence: str
    partitions: int
    segments: int
    bytes: int
    oldest_ms: int | None
    newest_ms: int | None
    first_absent_ms: int | None
    eligible_ms: int | None
    why: str


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """A user partition of an inventory; the fields are those of its file, the id is in Kafka's text form."""

    topic_id: str
    topic: str
    partition: int
    metadata_partition: int
    state: str
    segments: int
    bytes: int
    start_offset: int | None
    end_offset: int | None
    deletion: str | None
    first_absent_ms: int | None
    eligible_ms: int | None
    why: str


@dataclass(frozen=True, slots=True)
class SegmentRow:
    """A segment of an inventory; the fields are those of its file, ids are in Kafka's text form."""

    topic_id: str
    topic: str
    partition: int
    segment_id: str
    state: str
    start_offset: int
    end_offset: int
    bytes: int
    max_timestamp_ms: int
    event_timestamp_ms: int
    broker_id: int
    leader_epochs: tuple[tuple[int, int], ...]  # leader epoch and its first offset in the segment
    added_offset: int
    event_offset: int


def clusters(work_uri: str) -> list[str]:
    """
    Return the names of the folders of clusters, sorted.

    :raises OSError: if it cannot be listed.
    """
    return [name for name in list_folders(work_uri) if is_cluster_folder(name)][:MAX_CLUSTERS]


def inventory(work_uri: str, folder: str) -> Inventory | None:
    """
    Return what was surveyed last of a cluster, ``None`` if nothing ever was.

    :raises DocumentError: if it cannot be read, or is of another cluster.
    """
    return document_of_cluster(
        work_uri,
        folder,
        INVENTORY_DOCUMENT,
        Inventory.from_json,
        max_bytes=MAX_INVENTORY_BYTES,
        what_to_do="the next run surveys anew",
    )


def topics(
    work_uri: str,
    folder: str,
    *,
    search: str = "",
    state: str = "",
    sort: str = "",
    descending: bool = False,
    start: int = 0,
    rows: int = 100,
) -> Rows:
    """
    Return some topics of a cluster (:class:`TopicRow`), and how many there are in all that are as they were asked for.

    :param work_uri: the work folder.
    :param folder: of the cluster.
    :param search: part of a name as it is written, in any case, or a whole topic id; empty for any.
    :param state: which state they have, or :data:`GONE`; empty for any.
    :param sort: one of :data:`SORTS`; empty for the largest first. What is not known comes last.
    :param descending: whether the largest comes first.
    :param start: how many are left out before.
    :param rows: how many are returned, at most 1,000.
    :raises DocumentError: if the inventory cannot be read.
    """
    from airflow_provider_rlmm.overview.choosing import chosen
    from airflow_provider_rlmm.overview.tables import Rows, plain, whole_table

    def read(found: Inventory) -> Rows:
        schema = _schema(TOPIC_COLUMNS)
        expected = _expected(found, TOPICS_FILE)
        table = whole_table(work_uri, folder, found.generation, TOPICS_FILE, schema=schema, expected=expected)
        wanted = {"presence": Presence.ABSENT.value} if state == GONE else {"state": state} if state else {}
        order = chosen(
            table, wanted, "topic", search, id_of(search), sort if sort in SORTS else "", descending=descending
        )
        page = table.take(order.slice(start, rows))
        return Rows(tuple(map(_topic_row, plain(page))), len(order))

    return _of_newest(work_uri, folder, read)


def topic(work_uri: str, folder: str, topic_id: str) -> TopicRow | None:
    """
    Return a topic of a cluster, ``None`` where the inventory has none with this id.

    :param work_uri: the work folder.
    :param folder: of the cluster.
    :param topic_id: in Kafka's text form.
    :raises DocumentError: if the inventory cannot be read.
    """
    wanted = id_of(topic_id)
    found = topics(work_uri, folder, search=topic_id).rows if wanted else ()
    return next((row for row in found if row.topic_id == topic_id), None)


def partitions(work_uri: str, folder: str, topic_id: str, *, start: int = 0, rows: int = 100) -> Rows:
    """
    Return some user partitions of a topic (:class:`PartitionRow`), by number, and how many there are in all.

    :param work_uri: the work folder.
    :param folder: of the cluster.
    :param topic_id: in Kafka's text form.
    :param start: how many are left out before.
    :param rows: how many are returned, at most 1,000.
    :raises DocumentError: if the inventory cannot be read.
    """
    wanted = id_of(topic_id)
    key: list[tuple[str, Any]] = [("topic_id", wanted)]

    def read(found: Inventory) -> Rows:
        return _rows_with(work_uri, folder, found, PARTITIONS_FILE, PARTITION_COLUMNS, key, start, rows, _partition_row)

    return _of_newest(work_uri, folder, read) if wanted else _no_rows()


def partition(work_uri: str, folder: str, topic_id: str, number: int) -> PartitionRow | None:
    """
    Return a user partition, ``None`` where the inventory has none of this number.

    :param work_uri: the work folder.
    :param folder: of the cluster.
    :param topic_id: in Kafka's text form.
    :param number: of the user partition.
    :raises DocumentError: if the inventory cannot be read.
    """
    wanted = id_of(topic_id)
    key: list[tuple[str, Any]] = [("topic_id", wanted), ("partition", number)]

    def read(found: Inventory) -> Rows:
        return _rows_with(work_uri, folder, found, PARTITIONS_FILE, PARTITION_COLUMNS, key, 0, 1, _partition_row)

    rows = _of_newest(work_uri, folder, read).rows if wanted else ()
    return rows[0] if rows else None


def segments(work_uri: str, folder: str, topic_id: str, number: int, *, start: int = 0, rows: int = 100) -> Rows:
    """
    Return some segments of a user partition (:class:`SegmentRow`), by start offset, and how many there are in all.

    Only the file of its metadata partition is opened, and of that only what may hold them is read.

    :param work_uri: the work folder.
    :param folder: of the cluster.
    :param topic_id: in Kafka's text form.
    :param number: of the user partition.
    :param start: how many are left out before.
    :param rows: how many are returned, at most 1,000.
    :raises DocumentError: if the inventory cannot be read.
    """
    wanted = id_of(topic_id)
    key: list[tuple[str, Any]] = [("topic_id", wanted), ("partition", number)]

    def read(found: Inventory) -> Rows:
        mine = _rows_with(work_uri, folder, found, PARTITIONS_FILE, PARTITION_COLUMNS, key, 0, 1, _partition_row).rows
        name = segments_file(mine[0].metadata_partition) if mine else ""
        if name not in found.files:
            return _no_rows()
        return _rows_with(work_uri, folder, found, name, SEGMENT_COLUMNS, key, start, rows, _segment_row)

    return _of_newest(work_uri, folder, read) if wanted else _no_rows()


def segments_with_id(work_uri: str, folder: str, segment_id: bytes, topic_id: bytes | None = None) -> Rows:
    """
    Return the segments that have an id (:class:`SegmentRow`), :data:`MAX_FOUND` at most, and how many there are in all.

    Without a topic id all files are read, so of many segments none should be asked for: see :data:`MAX_SEARCHED_SEGMENTS`.

    :param work_uri: the work folder.
    :param folder: of the cluster.
    :param segment_id: its 16 bytes.
    :param topic_id: of its topic, where that is known: then only what may hold segments of the topic is read.
    :raises DocumentError: if the inventory cannot be read.
    """
    from airflow_provider_rlmm.overview.tables import Rows

    key: list[tuple[str, Any]] = [("segment_id", segment_id)]
    if topic_id is not None:
        key.insert(0, ("topic_id", topic_id))

    def read(found: Inventory) -> Rows:
        pages = [
            _rows_with(work_uri, folder, found, name, SEGMENT_COLUMNS, key, 0, MAX_FOUND, _segment_row)
            for name in sorted(_segment_files(found))
        ]
        rows = [row for page in pages for row in page.rows]
        return Rows(tuple(rows[:MAX_FOUND]), sum(page.total for page in pages))

    return _of_newest(work_uri, folder, read)


def surveyed_segments(work_uri: str, folder: str) -> int:
    """
    Return how many segments the newest survey names, 0 where there is none.

    :param work_uri: the work folder.
    :param folder: of the cluster.
    :raises DocumentError: if the inventory cannot be read.
    """
    found = inventory(work_uri, folder)
    return sum(found.files[name].rows for name in _segment_files(found)) if found else 0


def _segment_files(found: Inventory) -> set[str]:
    return found.files.keys() - {TOPICS_FILE, PARTITIONS_FILE}


def id_of(text: str) -> bytes | None:
    """
    Return the bytes of an id, ``None`` where a text is none.

    :param text: an id in Kafka's text form, or anything else.
    """
    if len(text) != _ID_TEXT or not text.isascii():
        return None
    try:
        found = urlsafe_b64decode(f"{text}==")
    except (binascii.Error, ValueError):
        return None
    # Characters that mean nothing are left out by the decoder: only the one spelling that Kafka writes is an id.
    return found if len(found) == 16 and kafka_uuid_str(UUID(bytes=found)) == text else None


def _of_newest(work_uri: str, folder: str, read: Callable[[Inventory], Rows]) -> Rows:
    """Read of the newest inventory; when its files are removed meanwhile, of the one that came after."""
    for _ in range(_TRIES):
        found = inventory(work_uri, folder)
        if found is None:
            return _no_rows()
        try:
            return read(found)
        except FileNotFoundError:
            continue
    raise DocumentError(f"files of the inventory of {folder} are gone; the next run surveys anew")


def _rows_with(
    work_uri: str,
    folder: str,
    found: Inventory,
    name: str,
    columns: Sequence[tuple[str, str]],
    key: Sequence[tuple[str, Any]],
    start: int,
    rows: int,
    row_of: Callable[[Mapping[str, Any]], object],
) -> Rows:
    from airflow_provider_rlmm.overview.tables import MAX_ROWS, Rows, parquet, rows_with

    schema = _schema(columns)
    with parquet(work_uri, folder, found.generation, name, schema=schema, expected=_expected(found, name)) as file:
        page, total = rows_with(file, key, schema.names, start, min(rows, MAX_ROWS))
    return Rows(tuple(map(row_of, page)), total)


def _schema(columns: Sequence[tuple[str, str]]) -> pa.Schema:
    from airflow_provider_rlmm.features.survey.inventory_files import schema_of

    return schema_of(columns)


def _expected(found: Inventory, name: str) -> Expected:
    from airflow_provider_rlmm.overview.tables import Expected

    file = found.files[name]
    return Expected(file.rows, file.bytes, file.sha256)


def _no_rows() -> Rows:
    from airflow_provider_rlmm.overview.tables import Rows

    return Rows((), 0)


def _id_text(value: object) -> str:
    if not isinstance(value, bytes) or len(value) != 16:
        raise DocumentError("an inventory holds what is no id of 16 bytes; the next run surveys anew")
    return kafka_uuid_str(UUID(bytes=value))


def _topic_row(row: Mapping[str, Any]) -> TopicRow:
    return TopicRow(**{**row, "topic_id": _id_text(row["topic_id"])})


def _partition_row(row: Mapping[str, Any]) -> PartitionRow:
    return PartitionRow(**{**row, "topic_id": _id_text(row["topic_id"])})


def _segment_row(row: Mapping[str, Any]) -> SegmentRow:
    ids = {name: _id_text(row[name]) for name in ("topic_id", "segment_id")}
    epochs = tuple((epoch["leader_epoch"], epoch["start_offset"]) for epoch in row["leader_epochs"] or ())
    return SegmentRow(**{**row, **ids, "leader_epochs": epochs})
