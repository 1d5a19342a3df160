# SPDX-License-Identifier: Apache-2.0
"""
The files of the audit log: the last task of a run puts those of its batches into one per day, and people read them.

A file of a batch goes only after the file that has its rows was read back. A try that dies in between leaves rows twice for a
while: they name their batch and phase, so the next try, and each reader, takes them once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_provider_rlmm.core.base.arrow_arrays import array_of, at_least, empty_table, equals, filled, scalar_of
from airflow_provider_rlmm.core.base.arrow_groups import groups_of
from airflow_provider_rlmm.core.base.clock import DAY_MS
from airflow_provider_rlmm.core.base.errors import AuditError, ConfigurationError, DocumentError
from airflow_provider_rlmm.core.base.file_systems import create_file, list_files, list_folders, read_file, remove_file
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentId
from airflow_provider_rlmm.core.world.audit import (
    AUDIT_FOLDER,
    LAST_DAY_MS,
    AuditName,
    AuditPhase,
    AuditRow,
    DeletionRecord,
    SegmentKey,
    day_of,
    deleted_segments,
    is_day,
    segment_key,
)
from airflow_provider_rlmm.core.world.audit_columns import audit_bytes, audit_schema

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_rlmm.core.base.arrow_ids import IdSet

__all__ = ["AuditRows", "Wanted", "audit_rows"]

logger = logging.getLogger(__name__)

MAX_FILE_BYTES = 512 * 2**20
_PART_ROWS = 500_000
"""Rows of a file of several batches; what is more begins another one."""

_UNREADABLE = (OSError, ConfigurationError, AuditError)
_SHOWN_FILE_BYTES = 128 * 2**20
_SHOWN_TEXT_BYTES = 128 * 2**20
"""Of a file that is shown, and of the texts of all rows that are wanted."""

_reading = Lock()
_BATCH_ROWS = 65_536
"""Rows of a file that are in memory at a time where few of them are looked for."""

_LOOKS = 3
"""How often a day is looked at whose files another task puts together meanwhile."""


class Compacted(NamedTuple):
    """What became of the files of a run's batches."""

    rows: int  # that lie in files of several batches now and did not before
    removed: int  # files of one batch that are gone
    left: int  # files of one batch that are still there, as something was wrong; the log says what


def compact(cluster_uri: str, artifact: str, since_ms: int) -> Compacted:
    """
    Put the files of a run's batches into one per day. An error leaves files of one batch, which stay valid.

    :param cluster_uri: folder of the cluster.
    :param artifact: of the run.
    :param since_ms: it deleted nothing before this day, ms since the epoch.
    """
    done = [_compact_day(uri, artifact) for _, uri in _days(cluster_uri, since_ms, None)]
    return Compacted(*(sum(counts) for counts in zip(*done, strict=True))) if done else Compacted(0, 0, 0)


def _compact_day(uri: str, artifact: str) -> Compacted:
    names = [found for name in list_files(uri) if (found := AuditName.of(name)) and found.artifact == artifact]
    small = sorted((name for name in names if name.batch is not None), key=str)
    if not small:
        return Compacted(0, 0, 0)
    rows, kept = 0, []
    try:
        known = {key for name in names if name.batch is None for key in _batches_of(_read(uri, name))}
        part = max((name.part for name in names), default=0)
        for group in _groups(uri, [name for name in small if (name.batch, name.phase) not in known]):
            part += 1
            rows += _write_part(uri, artifact, part, [table for _, table in group])
            kept += [name for name, _ in group]
    except _UNREADABLE as e:
        logger.warning("the audit log's files of %s in %s stay as they are: %s", artifact, uri, e)
        known = set()
    safe = [name for name in small if name in kept or (name.batch, name.phase) in known]
    removed = sum(_remove(f"{uri}/{name}") for name in safe)
    return Compacted(rows, removed, len(small) - removed)


def _groups(uri: str, names: Sequence[AuditName]) -> Iterator[list[tuple[AuditName, pa.Table]]]:
    """Yield files and their rows, as many at a time as a file of several batches has; one that cannot be read stays alone."""
    group: list[tuple[AuditName, pa.Table]] = []
    rows = 0
    for name in names:
        try:
            table = _read(uri, name)
        except _UNREADABLE as e:
            logger.warning("a file of the audit log stays as it is: %s", e)
            continue
        group.append((name, table))
        rows += table.num_rows
        if rows >= _PART_ROWS:
            yield group
            group, rows = [], 0
    if group:
        yield group


def _write_part(uri: str, artifact: str, part: int, tables: Sequence[pa.Table]) -> int:
    """Write rows, and read them back: a caller that is asked to remove what they were made of must be able to."""
    import pyarrow as pa

    order = [
        ("topic_id", "ascending"),
        ("partition", "ascending"),
        ("start_offset", "ascending"),
        ("time_ms", "ascending"),
    ]
    rows = pa.concat_tables(tables).sort_by(order)
    name = AuditName(artifact, part=part)
    data = audit_bytes(rows)
    create_file(f"{uri}/{name}", [data])
    if read_file(f"{uri}/{name}", len(data)).to_pybytes() != bytes(data) or _read(uri, name).num_rows != rows.num_rows:
        raise AuditError(f"{uri}/{name} does not read back as it was written")
    return int(rows.num_rows)


def _remove(uri: str) -> bool:
    try:
        remove_file(uri)
    except _UNREADABLE as e:
        logger.warning("%s is left: %s", uri, e)
        return False
    return True


def _read(uri: str, name: AuditName) -> pa.Table:
    """
    Read a file.

    :raises AuditError: if it is none of the audit log's, or of another run or batch than its name says.
    :raises OSError: if it cannot be read.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    try:
        rows = pq.ParquetFile(pa.BufferReader(read_file(f"{uri}/{name}", MAX_FILE_BYTES))).read()
    except pa.ArrowException as e:
        raise AuditError(f"{uri}/{name} is no Parquet file that can be read: {type(e).__name__}") from e
    if not rows.schema.equals(audit_schema()):
        raise AuditError(f"{uri}/{name} has other columns than the audit log")
    says = {"artifact": name.artifact, "batch": name.batch, "phase": name.phase and name.phase.value}
    for column, value in says.items():
        if value is not None and pc.unique(rows[column]).to_pylist() != [value]:
            raise AuditError(f"{uri}/{name} has rows of another {column} than its name says")
    return rows


def _batches_of(rows: pa.Table) -> set[tuple[str, AuditPhase]]:
    names = ["batch", "phase"]
    found = groups_of(rows, names).keys(names)
    pairs = zip(found["batch"].to_pylist(), found["phase"].to_pylist(), strict=True)
    return {(batch, AuditPhase(phase)) for batch, phase in pairs}


def _days(cluster_uri: str, since_ms: int | None, until_ms: int | None) -> Iterator[tuple[str, str]]:
    """Yield day and URI of the folders whose batches can concern a time, the newest first."""
    # A batch lies in the folder of its beginning, its end may be a day later.
    first = "" if since_ms is None else day_of(max(0, since_ms - DAY_MS))
    last = "9999" if until_ms is None else day_of(until_ms)
    for day in sorted(filter(is_day, list_folders(f"{cluster_uri}/{AUDIT_FOLDER}")), reverse=True):
        if first <= day <= last:
            yield day, f"{cluster_uri}/{AUDIT_FOLDER}/{day}"


# --- reading ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Wanted:
    """
    Which deletions are asked for; ``None`` for all.

    :param since_ms: rows of this time and later, ms since the epoch.
    :param until_ms: rows before this time, ms since the epoch.
    :param artifact: of the run that deleted.
    :param topic_id: its 16 bytes.
    :param partition: the user partition.
    :param segment_id: its 16 bytes.
    """

    since_ms: int | None = None
    until_ms: int | None = None
    artifact: str | None = None
    topic_id: bytes | None = None
    partition: int | None = None
    segment_id: bytes | None = None


class AuditRows(NamedTuple):
    """What :func:`audit_rows` found."""

    rows: pa.Table  # the newest first
    more: bool  # whether there are others
    unreadable: tuple[str, ...]  # files that say nothing: what is in them is not among the rows


def audit_rows(cluster_uri: str, cluster_id: str, wanted: Wanted | None = None, *, limit: int = 1_000) -> AuditRows:
    """
    Return deletions, one row each: what became of a segment, or, where nothing says that, that it was to go: ``outcome`` is
    null then.

    Folders of other days are not looked into, files of other runs not opened, and of the others only the row groups that
    may hold what is wanted are decoded.

    :param cluster_uri: folder of the cluster.
    :param cluster_id: the cluster; rows of another one are left out, and their file is told as unreadable.
    :param wanted: which ones.
    :param limit: the most rows.
    :raises OSError: if a folder cannot be listed.
    """
    import pyarrow as pa

    wanted = wanted or Wanted()
    tables: list[pa.Table] = [empty_table(audit_schema())]
    unreadable: list[str] = []
    for day, uri in _days(cluster_uri, wanted.since_ms, wanted.until_ms):
        found = [_wanted_rows(uri, name, cluster_id, wanted, unreadable) for name in _named(uri, wanted)]
        tables.append(_one_per_deletion(pa.concat_tables([empty_table(audit_schema()), *found]), wanted))
        # The end of a batch of the day before may be of this day, so one more day may hold newer rows than these.
        if sum(table.num_rows for table in tables[:-1]) > limit:
            break
        logger.debug("audit log: %s has %d rows", day, tables[-1].num_rows)
    rows = pa.concat_tables(tables).sort_by(
        [("time_ms", "descending"), *((name, "ascending") for name in ("artifact", "batch", "segment_id"))]
    )
    return AuditRows(rows.slice(0, limit), rows.num_rows > limit, tuple(unreadable))


def _named(uri: str, wanted: Wanted) -> Iterator[AuditName]:
    for name in list_files(uri):
        found = AuditName.of(name)
        if found is not None and wanted.artifact in (None, found.artifact):
            yield found


def _wanted_rows(uri: str, name: AuditName, cluster_id: str, wanted: Wanted, unreadable: list[str]) -> pa.Table:
    try:
        # Pages of many users ask at once: one file is in memory at a time.
        with _reading:
            rows = _bounded_rows(uri, name, wanted)
        if not _is_all_of(rows, cluster_id):
            raise AuditError(f"it has rows of another cluster than {cluster_id}")
    except (*_UNREADABLE, DocumentError) as e:
        logger.warning("audit log: %s/%s is left out: %s", uri, name, e)
        unreadable.append(f"{uri}/{name}")
        return empty_table(audit_schema())
    return rows


def _bounded_rows(uri: str, name: AuditName, wanted: Wanted) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    from airflow_provider_rlmm.core.base.bounded_parquet import BoundedParquet, as_texts

    asked = ((column, getattr(wanted, column)) for column in ("topic_id", "partition", "segment_id"))
    key = [(column, value) for column, value in asked if value is not None]
    schema = audit_schema()
    source = pa.BufferReader(read_file(f"{uri}/{name}", _SHOWN_FILE_BYTES))
    file = BoundedParquet.of("it", source, schema)
    if len(file.columns) != len(schema.names):
        raise AuditError("it has other columns than the audit log")
    found = [empty_table(schema)]
    left = _SHOWN_TEXT_BYTES
    for rows in file.slices([number for number, _ in file.groups_with(key)], schema.names):
        mine = rows
        for column, value in key:
            mine = mine.filter(pc.equal(mine.column(column), scalar_of(value, schema.field(column).type)))
        texts = as_texts(mine, left).cast(schema)
        left -= texts.nbytes
        found.append(texts)
    return pa.concat_tables(found)


def _is_all_of(rows: pa.Table | pa.RecordBatch, cluster_id: str) -> bool:
    import pyarrow.compute as pc

    # Of no rows at all there is no answer.
    return pc.all(filled(equals(rows["cluster_id"], cluster_id), False)).as_py() is not False


def _one_per_deletion(rows: pa.Table, wanted: Wanted) -> pa.Table:
    """Keep of each segment of a batch the row after, of which there may be copies; where there is none, the row before."""
    import pyarrow.compute as pc

    keys = ["artifact", "batch", "topic_id", "partition", "segment_id"]
    ordered = rows.sort_by([("phase", "ascending")])  # AFTER comes first
    kept = ordered.take(array_of(groups_of(ordered, keys).first))
    if wanted.since_ms is not None:
        kept = kept.filter(at_least(kept["time_ms"], wanted.since_ms))
    if wanted.until_ms is not None:
        kept = kept.filter(pc.invert(at_least(kept["time_ms"], wanted.until_ms)))
    return kept


# --- what became of segments -----------------------------------------------------------------------------------------


def deletion_record(
    cluster_uri: str, cluster_id: str, segments: Collection[RemoteLogSegmentId], since_ms: int
) -> DeletionRecord:
    """
    Tell of segments whether runs have deleted, or may have deleted, objects of them.

    The newest day comes first, and it ends where all are found. Of a file a part at a time is in memory.

    :param cluster_uri: folder of the cluster.
    :param cluster_id: the cluster.
    :param segments: the segments.
    :param since_ms: none of them was deleted before this time, ms since the epoch.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    left = {segment_key(segment): segment for segment in segments}
    found: set[RemoteLogSegmentId] = set()
    unread: list[str] = []
    try:
        for _, uri in _days(cluster_uri, min(since_ms, LAST_DAY_MS), None):
            if not left:
                break
            ids = array_of(sorted({segment_id for _, _, segment_id in left}), pa.binary())
            rows, failed = _day_rows(uri, cluster_id, partial(pc.is_in, value_set=ids))
            found |= {left.pop(key) for key in deleted_segments((row for row in rows if row.key in left), failed)}
            unread += [f"{uri}/{name}: {why}" for name, why in failed.items()]
    except _UNREADABLE as e:
        unread.append(f"{cluster_uri}/{AUDIT_FOLDER}: {e}")
    for why in unread:
        logger.warning("audit log: it does not tell what was deleted: %s", why)
    return DeletionRecord(frozenset(found), tuple(unread))


def deleted_among(cluster_uri: str, ids: IdSet) -> tuple[set[SegmentKey], list[str]]:
    """
    Return those of some segments that runs have deleted, or may have deleted, of whichever cluster: an id has no second one.

    :param cluster_uri: folder that holds the audit log.
    :param ids: ids of the segments.
    :return: the segments, and why some of the audit log says nothing, by file or folder.
    """
    import pyarrow as pa

    found: set[SegmentKey] = set()
    unread: list[str] = []
    try:
        for _, uri in _days(cluster_uri, None, None):
            rows, failed = _day_rows(uri, None, lambda column: array_of(ids.holds(column), pa.bool_()))
            found |= deleted_segments(rows, failed)
            unread += [f"{uri}/{name}: {why}" for name, why in failed.items()]
    except _UNREADABLE as e:
        unread.append(f"{cluster_uri}/{AUDIT_FOLDER}: {e}")
    return found, unread


def _day_rows(
    uri: str, cluster_id: str | None, is_wanted: Callable[[Any], Any]
) -> tuple[list[AuditRow], dict[AuditName, Exception]]:
    """Return the rows of segments in a day's files, and the files that could not be read."""
    import pyarrow as pa

    for _ in range(_LOOKS):
        rows: list[AuditRow] = []
        failed: dict[AuditName, Exception] = {}
        for name in _named(uri, Wanted()):
            try:
                rows += _rows_of(f"{uri}/{name}", cluster_id, is_wanted)
            except (*_UNREADABLE, pa.ArrowException) as e:
                failed[name] = e
        # The last task of a run puts its files into one, and removes them then.
        if not any(isinstance(e, FileNotFoundError) for e in failed.values()):
            break
    return rows, failed


def _rows_of(uri: str, cluster_id: str | None, is_wanted: Callable[[Any], Any]) -> list[AuditRow]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    found: list[AuditRow] = []
    with pq.ParquetFile(pa.BufferReader(read_file(uri, MAX_FILE_BYTES))) as file:
        if not file.schema_arrow.equals(audit_schema()):
            raise AuditError("it has other columns than the audit log")
        for batch in file.iter_batches(_BATCH_ROWS, columns=["cluster_id", *AuditRow._fields]):
            if cluster_id is not None and not _is_all_of(batch, cluster_id):
                raise AuditError(f"it has rows of another cluster than {cluster_id}")
            rows = batch.filter(is_wanted(batch["segment_id"])).select(AuditRow._fields)
            found += [AuditRow(**row) for row in rows.to_pylist()]
    return found
