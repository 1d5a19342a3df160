# SPDX-License-Identifier: Apache-2.0
"""
What scrubs leave: ``scrub.parquet`` and ``scrub.json`` in the folder of their run, and the name of the latest one in the
folder of the cluster.

The table is the record of since when an object has been without a record in the log: each scrub takes it over from the one
before it, and an object that one of them did not find so begins anew.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from airflow_provider_rlmm.core.base.errors import ConfigurationError, PlanError
from airflow_provider_rlmm.core.base.file_systems import remove_file, replace_file
from airflow_provider_rlmm.core.plans.plan import PlanFile
from airflow_provider_rlmm.core.plans.plan_files import parquet_bytes, read_document, read_named, write_document
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.runs.attention import Attention
from airflow_provider_rlmm.features.scrub.comparison import Scrub
from airflow_provider_rlmm.features.scrub.rules import LOST, ScrubClass
from airflow_provider_rlmm.features.scrub.scrub_summary import (
    FORGOTTEN,
    MAX_KEYS,
    MAX_LISTED,
    SCRUB_AGAIN,
    SCRUB_COLUMNS,
    SCRUB_DOCUMENT,
    SCRUB_TABLE,
    Amount,
    ScrubSummary,
    Told,
    TopicAmount,
    UnnamedTopic,
    problems,
)
from airflow_provider_rlmm.features.scrub.unnamed import UNNAMED, Kept, are_unnamed, why_kept

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)

LATEST = "latest-scrub.json"
"""Names the latest scrub of a cluster."""

_ROW = ["class", "key", "bytes", "last_modified_ms"]


def scrub_schema() -> pa.Schema:
    """Return the Arrow schema of a scrub's table."""
    import pyarrow as pa

    types = {"binary": pa.binary(), "string": pa.string()}
    return pa.schema([pa.field(name, types.get(kind) or pa.type_for_alias(kind)) for name, kind in SCRUB_COLUMNS])


def rows_of(scrub: Scrub, *, time_is_proven: bool, earlier: pa.Table | None) -> pa.Table:
    """
    Return the table of a scrub.

    :param scrub: what it found.
    :param time_is_proven: whether a wait may be measured by the time of this scrub.
    :param earlier: the table of the scrub before it, ``None`` where none counts.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    schema = scrub_schema()
    objects = scrub.objects.filter(pc.not_equal(scrub.objects["class"], ScrubClass.IN_USE.value))
    where = pc.coalesce(objects["metadata_partition"], objects["home"])
    objects = objects.set_column(objects.schema.get_field_index("metadata_partition"), "metadata_partition", where)
    objects = objects.append_column("first_seen_ms", _first_seen(objects, scrub.began_at_ms, time_is_proven, earlier))
    missing = scrub.missing.rename_columns({"segment_size_in_bytes": "bytes", "event_offset": "offset"})
    folders = pa.table(
        {
            "class": pa.repeat(ScrubClass.NOT_OF_THIS_LAYOUT.value, len(scrub.foreign)),
            "key": pa.array(scrub.foreign, pa.string()),
            "why": pa.repeat("a folder of no topic, which was not looked into", len(scrub.foreign)),
        }
    )
    return pa.concat_tables([_with_all_columns(part, schema) for part in (objects, missing, folders)]).sort_by(
        [("class", "ascending"), ("key", "ascending")]
    )


def _first_seen(objects: pa.Table, now_ms: int, time_is_proven: bool, earlier: pa.Table | None) -> pa.ChunkedArray:
    """Return since when each object that no record names has been so: earlier only for the very same object."""
    import pyarrow as pa

    known: dict[tuple[Any, ...], int] = {}
    for row in (earlier.select([*_ROW, "first_seen_ms"]).to_pylist()) if earlier is not None else ():
        if row["first_seen_ms"] is not None and row["class"] in UNNAMED:
            known[tuple(row[name] for name in _ROW)] = row["first_seen_ms"]
    fresh = now_ms if time_is_proven else None
    found = [
        known.get(tuple(row[name] for name in _ROW), fresh) if row["class"] in UNNAMED else None
        for row in objects.select(_ROW).to_pylist()
    ]
    return pa.chunked_array([pa.array(found, pa.int64())])


def _with_all_columns(part: pa.Table, schema: pa.Schema) -> pa.Table:
    import pyarrow as pa

    names = part.schema.names
    columns = [
        part[field.name].cast(field.type) if field.name in names else pa.nulls(part.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


@dataclass(frozen=True, slots=True)
class ScrubOrigin:
    """Of what and by whose time a scrub was made."""

    scrub_id: str  # names it
    cluster_id: str  # the cluster
    metadata_topic_id: UUID  # of the log that was read
    clock: str  # which clock was used, in words
    time_is_proven: bool  # whether waits may be measured by it
    root: Mapping[str, Any]  # what was seen of the storage root
    price_micros: int | None  # what a gigabyte costs in a month, in millionths


def summary_of(scrub: Scrub, rows: pa.Table, origin: ScrubOrigin, file: PlanFile) -> ScrubSummary:
    """
    Return the document of a scrub.

    :param scrub: what it found.
    :param rows: its table.
    :param origin: of what it was made.
    :param file: the table as it is written.
    """
    import pyarrow.compute as pc

    topics, unnamed = _per_topic(rows), _unnamed(rows, scrub.unmarkable)
    in_use = scrub.objects.filter(pc.equal(scrub.objects["class"], ScrubClass.IN_USE.value))
    classes = {ScrubClass.IN_USE.value: _amount(in_use)} | {
        kind: _amount(rows.filter(pc.equal(rows["class"], kind))) for kind in pc.unique(rows["class"]).to_pylist()
    }
    incomplete = sorted(scrub.incomplete.items())
    segments = scrub.objects.select(["topic_id", "partition", "segment_id"]).drop_null()
    return ScrubSummary(
        scrub_id=origin.scrub_id,
        cluster_id=origin.cluster_id,
        metadata_topic_id=kafka_uuid_str(origin.metadata_topic_id),
        began_at_ms=scrub.began_at_ms,
        clock=origin.clock,
        time_is_proven=origin.time_is_proven,
        read_until=scrub.read_until,
        root=origin.root,
        listed=_amount(scrub.objects),
        listed_segments=segments.group_by(segments.schema.names).aggregate([]).num_rows,
        classes=classes,
        topics=topics[:MAX_LISTED],
        topics_left_out=max(0, len(topics) - MAX_LISTED),
        unnamed=unnamed[:MAX_LISTED],
        unnamed_left_out=max(0, len(unnamed) - MAX_LISTED),
        incomplete=tuple(Told(folder, why) for folder, why in incomplete[:MAX_LISTED]),
        incomplete_left_out=max(0, len(incomplete) - MAX_LISTED),
        doubtful=scrub.doubtful,
        lost=scrub.lost,
        forgotten=scrub.forgotten,
        forgotten_left_out=scrub.forgotten_left_out,
        foreign_folders=len(scrub.foreign),
        unseen_folders=len(scrub.unseen),
        unseen=tuple(Told(folder, why) for folder, why in list(scrub.unseen.items())[:MAX_KEYS]),
        price_micros=origin.price_micros,
        file=file,
        era=scrub.era.told(),
    )


def _amount(rows: pa.Table) -> Amount:
    import pyarrow.compute as pc

    return Amount(rows.num_rows, pc.sum(rows["bytes"]).as_py() or 0)


def _per_topic(rows: pa.Table) -> tuple[TopicAmount, ...]:
    import pyarrow.compute as pc

    named = rows.filter(pc.is_valid(rows["topic_id"])).group_by(["class", "topic_id", "topic"])
    sums = named.aggregate([("bytes", "sum"), ("why", "count"), ("last_modified_ms", "min")]).to_pylist()
    found = [
        TopicAmount(
            ScrubClass(row["class"]), row["topic"], kafka_uuid_str(UUID(bytes=row["topic_id"])), row["why_count"],
            row["bytes_sum"], row["last_modified_ms_min"],
        )
        for row in sums
    ]  # fmt: skip
    return tuple(sorted(found, key=lambda amount: (-amount.bytes, amount.topic_id, amount.kind)))


def _unnamed(rows: pa.Table, unmarkable: Collection[tuple[bytes, int]]) -> tuple[UnnamedTopic, ...]:
    """Return what no record names and must stay, whatever is waited for: the largest first."""
    found: dict[tuple[bytes, str, str], list[dict[str, Any]]] = {}
    for row in rows.filter(are_unnamed(rows)).to_pylist():
        # Of waits nobody needs to know here.
        kept = why_kept(
            row["class"],
            presence=row["presence"],
            marked_ms=row["marked_ms"],
            last_modified_ms=row["last_modified_ms"],
            now_ms=None,
            min_absence_ms=0,
        )
        if kept is Kept.UNMARKED and (row["topic_id"], row["partition"]) in unmarkable:
            kept = Kept.UNMARKABLE
        if kept in (Kept.NOT_ABSENT, Kept.YOUNGER, Kept.UNMARKABLE):
            why = row["why"] if kept is Kept.NOT_ABSENT else f"{row['why']}; {kept.value}"
            found.setdefault((row["topic_id"], row["topic"], why), []).append(row | {"bars": kept is Kept.NOT_ABSENT})
    topics = [
        UnnamedTopic(
            topic, kafka_uuid_str(UUID(bytes=topic_id)), why, objects[0]["bars"], len(objects),
            sum(row["bytes"] for row in objects), tuple(row["key"] for row in objects[:MAX_KEYS]),
        )
        for (topic_id, topic, why), objects in found.items()
    ]  # fmt: skip
    return tuple(sorted(topics, key=lambda topic: (-topic.bytes, topic.topic_id, topic.why)))


def problems_of(summary: ScrubSummary, rows: pa.Table) -> list[Attention]:
    """
    Return what needs a person.

    :param summary: of the scrub.
    :param rows: its table.
    """
    import pyarrow.compute as pc

    missing = rows.filter(pc.equal(rows["class"], ScrubClass.MISSING.value)).slice(0, MAX_LISTED).to_pylist()
    for row in missing:
        row["segment"] = kafka_uuid_str(UUID(bytes=row["segment_id"]))
    # Of a folder that was not listed whole the listing is the problem.
    incomplete = "the listing of its folder ended early"
    mask = pc.and_(pc.equal(rows["class"], ScrubClass.UNKNOWN.value), pc.not_equal(rows["why"], incomplete))
    # Of a metadata partition that has lost records the loss is.
    mask = pc.and_(mask, pc.not_equal(rows["why"], LOST))
    # Of a forgotten prefix the prefix is.
    mask = pc.and_(mask, pc.invert(pc.starts_with(rows["why"], FORGOTTEN)))
    groups = rows.filter(mask).group_by(["topic_id", "topic", "metadata_partition", "why"]).aggregate([])
    unknown = groups.slice(0, MAX_LISTED).to_pylist()
    for row in unknown:
        row["topic_id"] = kafka_uuid_str(UUID(bytes=row["topic_id"]))
    return list(problems(summary, missing, unknown))


def write_scrub(uri: str, scrub: Scrub, rows: pa.Table, origin: ScrubOrigin) -> ScrubSummary:
    """
    Write the table and then the document, in the place of older ones.

    :param uri: of the run's folder.
    :param scrub: what was found.
    :param rows: its table.
    :param origin: of what it was made.
    :raises PlanError: if the document does not read back.
    :raises OSError: if they cannot be written; there is no scrub then.
    """
    data = parquet_bytes(rows)
    summary = summary_of(scrub, rows, origin, PlanFile.of(SCRUB_TABLE, rows.num_rows, data))
    write_pair(uri, (SCRUB_DOCUMENT, summary.to_json()), (SCRUB_TABLE, data))
    return summary


def write_pair(uri: str, document: tuple[str, str], table: tuple[str, memoryview]) -> None:
    """
    Write a table and the document that names it: the older document goes first, the new one comes last.

    :param uri: of the folder.
    :param document: its name and text.
    :param table: its name and bytes.
    :raises OSError: if they cannot be written; there is no such document then.
    """
    try:
        remove_file(f"{uri}/{document[0]}")
        replace_file(f"{uri}/{table[0]}", [table[1]])
    except ConfigurationError as e:
        raise PlanError(str(e)) from e
    write_document(uri, *document)


def read_scrub(uri: str) -> tuple[ScrubSummary, pa.Table]:
    """
    Read a scrub.

    :param uri: of the run's folder.
    :raises PlanError: if there is none, or it is not as it was written.
    """
    summary = ScrubSummary.from_json(read_document(uri, SCRUB_DOCUMENT))
    return summary, read_table(uri, summary.file)


def read_table(uri: str, file: PlanFile) -> pa.Table:
    """
    Read the table of a scrub, or of a plan that was made from one.

    :param uri: of the folder.
    :param file: the table as its document knows it.
    :raises PlanError: if it is another one.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    name, data = f"{uri}/{file.name}", read_named(uri, file, SCRUB_AGAIN)
    try:
        rows = pq.read_table(pa.BufferReader(data))
    except (OSError, pa.ArrowException) as e:
        raise PlanError(f"{name} cannot be read ({e}); {SCRUB_AGAIN}") from e
    if rows.schema.remove_metadata() != scrub_schema() or rows.num_rows != file.rows:
        raise PlanError(f"{name} has other columns or rows than its document says; {SCRUB_AGAIN}")
    return rows


def latest_rows(
    cluster_uri: str, uri_of: Callable[[str], str], cluster_id: str, metadata_topic_id: UUID
) -> pa.Table | None:
    """
    Return the table of the latest scrub of a cluster, ``None`` where none counts: the wait of its objects begins anew then.

    :param cluster_uri: of the cluster's folder.
    :param uri_of: returns the folder of a run, and refuses what cannot be the name of one by ``ConfigurationError``.
    :param cluster_id: the cluster.
    :param metadata_topic_id: of the log: a scrub of another log proves nothing.
    """
    try:
        latest = json.loads(read_document(cluster_uri, LATEST, 2**16))
        summary, rows = read_scrub(uri_of(latest["scrub_id"]))
        if summary.file.sha256 != latest["sha256"]:
            raise PlanError(f"scrub {summary.scrub_id} is not the one that was recorded")
    except (PlanError, ValueError, LookupError, TypeError) as e:
        level = logging.INFO if isinstance(e.__cause__, FileNotFoundError) else logging.WARNING
        logger.log(level, "no earlier scrub counts, objects that no record names are waited for anew: %s", e)
        return None
    same_log = summary.cluster_id == cluster_id and summary.metadata_topic_id == kafka_uuid_str(metadata_topic_id)
    return rows if same_log else None


def record_latest(cluster_uri: str, summary: ScrubSummary) -> None:
    """
    Record a scrub as the latest one of its cluster.

    :param cluster_uri: of the cluster's folder.
    :param summary: what :func:`write_scrub` returned.
    :raises OSError: if it cannot be written.
    """
    write_document(
        cluster_uri, LATEST, json.dumps({"scrub_id": summary.scrub_id, "sha256": summary.file.sha256}, indent=2)
    )
