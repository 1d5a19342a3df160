# SPDX-License-Identifier: Apache-2.0
"""
Inventories in storage: a folder of files for each generation, and ``inventory.json``, which names one and comes last.

Surveys that work at once write into folders of their own. A generation is whole once its own copy of the document is
there; of whole ones the newest two stay, so a reader of the one that was named a moment ago still finds it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from airflow_provider_rlmm.core.base.clock import HOUR_MS, time_text
from airflow_provider_rlmm.core.base.errors import DocumentError
from airflow_provider_rlmm.core.base.file_systems import (
    create_file,
    list_files,
    list_folders,
    read_file,
    remove_folder,
    replace_file,
)
from airflow_provider_rlmm.core.plans.prices import StoragePrice
from airflow_provider_rlmm.core.records.folded import Folded
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.features.survey.inventory import (
    INVENTORY_DOCUMENT,
    MAX_INVENTORY_BYTES,
    PARTITION_COLUMNS,
    PARTITIONS_FILE,
    ROW_GROUP_ROWS,
    SEGMENT_COLUMNS,
    TOPIC_COLUMNS,
    TOPICS_FILE,
    Inventory,
    InventoryFile,
    Totals,
    generation_name,
    generation_time,
    segments_file,
)

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)

KEPT_GENERATIONS = 2
_UNFINISHED_FOR_MS = HOUR_MS
"""For how long a generation that is not whole may be under way, ms; then its survey was killed."""

_TRIES = 10


def schema_of(columns: Sequence[tuple[str, str]]) -> pa.Schema:
    """
    Return the Arrow schema of a file of an inventory.

    :param columns: name and type of each column.
    """
    import pyarrow as pa

    epoch = [pa.field("leader_epoch", pa.int32(), False), pa.field("start_offset", pa.int64(), False)]
    epochs = pa.list_(pa.field("item", pa.struct(epoch), False))
    types = {"binary": pa.binary(), "string": pa.string(), "epochs": epochs}
    return pa.schema([(name, types.get(kind) or pa.type_for_alias(kind)) for name, kind in columns])


def topics_schema() -> pa.Schema:
    """Return the schema of the file of topics."""
    return schema_of(TOPIC_COLUMNS)


def partitions_schema() -> pa.Schema:
    """Return the schema of the file of user partitions."""
    return schema_of(PARTITION_COLUMNS)


def segments_schema() -> pa.Schema:
    """Return the schema of a file of segments."""
    return schema_of(SEGMENT_COLUMNS)


def write_inventory(
    cluster_uri: str,
    *,
    cluster_id: str,
    connection: str,
    artifact: str,
    created_at_ms: int,
    topics: pa.Table,
    partitions: pa.Table,
    segments: Iterable[tuple[int, pa.Table]],
    totals: Totals,
    folded: Folded | None = None,
    price: StoragePrice | None = None,
) -> Inventory:
    """
    Write a generation, and name it in ``inventory.json`` unless a newer one is named there by then.

    :param cluster_uri: folder of the cluster.
    :param cluster_id: the cluster.
    :param connection: by which it was reached.
    :param artifact: the run that surveyed.
    :param created_at_ms: when the survey looked, ms since the epoch; another survey of the same moment moves it on.
    :param topics: rows of the file of topics.
    :param partitions: rows of the file of user partitions.
    :param segments: metadata partition and its rows, one after the other; read once.
    :param totals: summed up.
    :param folded: the generation of the Spark job that the reading began with.
    :param price: by which costs are reckoned, ``None`` where none is set.
    :return: the document.
    :raises DocumentError: if the document contradicts itself.
    :raises OSError: if it cannot be written; an older inventory is still there, whole.
    """
    created_at_ms, files = _claim(cluster_uri, created_at_ms, topics)
    generation = generation_name(created_at_ms)
    folder = f"{cluster_uri}/{generation}"
    files[PARTITIONS_FILE] = _write(f"{folder}/{PARTITIONS_FILE}", partitions)
    for metadata_partition, rows in segments:
        name = segments_file(metadata_partition)
        files[name] = _write(f"{folder}/{name}", rows)
    inventory = Inventory(cluster_id, connection, created_at_ms, artifact, generation, files, totals, folded, price)
    document = [inventory.to_json().encode()]
    create_file(f"{folder}/{INVENTORY_DOCUMENT}", document)
    named = _named(cluster_uri)
    # Another survey may have been faster; one from the future was made by a clock that was wrong.
    if named is None or not created_at_ms <= named < created_at_ms + _UNFINISHED_FOR_MS:
        replace_file(f"{cluster_uri}/{INVENTORY_DOCUMENT}", document)
    _remove_older(cluster_uri, generation, created_at_ms)
    return inventory


def largest_topics(uri: str, found: Inventory, count: int) -> list[dict[str, Any]]:
    """
    Return the first rows of the file of topics, whose order is from the largest to the smallest.

    :param uri: of the folder that :func:`write_inventory` was given.
    :param found: what it returned.
    :param count: how many, at most.
    :return: rows of :data:`~airflow_provider_rlmm.features.survey.inventory.TOPIC_COLUMNS`, ids in Kafka's text form.
    :raises OSError: if it cannot be read.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    data = read_file(f"{uri}/{found.generation}/{TOPICS_FILE}", found.files[TOPICS_FILE].bytes)
    rows = pq.ParquetFile(pa.BufferReader(data)).read().slice(0, count).to_pylist()
    return [{**row, "topic_id": kafka_uuid_str(UUID(bytes=row["topic_id"]))} for row in rows]


def _claim(cluster_uri: str, created_at_ms: int, topics: pa.Table) -> tuple[int, dict[str, InventoryFile]]:
    """Write the first file of a generation, whose folder no other survey takes then."""
    taken = set(list_folders(cluster_uri))
    for moment in range(created_at_ms, created_at_ms + _TRIES):
        generation = generation_name(moment)
        if generation not in taken:
            try:
                return moment, {TOPICS_FILE: _write(f"{cluster_uri}/{generation}/{TOPICS_FILE}", topics)}
            except FileExistsError:
                continue
    raise FileExistsError(
        f"{cluster_uri}: {_TRIES} surveys have taken place at {time_text(created_at_ms)}; survey again later"
    )


def _write(uri: str, rows: pa.Table) -> InventoryFile:
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, row_group_size=ROW_GROUP_ROWS)
    data = memoryview(sink.getvalue())
    create_file(uri, [data])
    return InventoryFile.of(rows.num_rows, data)


def read_inventory(cluster_uri: str) -> Inventory:
    """
    Read the document of the newest inventory.

    :param cluster_uri: folder of the cluster.
    :raises FileNotFoundError: if there is none.
    :raises DocumentError: if it is not as it was written.
    :raises OSError: if it cannot be read.
    """
    data = read_file(f"{cluster_uri}/{INVENTORY_DOCUMENT}", MAX_INVENTORY_BYTES).to_pybytes()
    try:
        return Inventory.from_json(data.decode())
    except UnicodeDecodeError:
        raise DocumentError(f"{INVENTORY_DOCUMENT} is no text; the next run surveys anew") from None


def _named(cluster_uri: str) -> int | None:
    """Return when the inventory that is named now was made; ``None`` where there is none that can be read."""
    try:
        return read_inventory(cluster_uri).created_at_ms
    except FileNotFoundError:
        return None
    except (OSError, DocumentError) as e:
        logger.warning("%s of %s is replaced: %s", INVENTORY_DOCUMENT, cluster_uri, e)
        return None


def _remove_older(cluster_uri: str, generation: str, now_ms: int) -> None:
    """Remove generations that are needed no more; where that fails they take up room, nothing worse."""
    try:
        found = {name: time for name in list_folders(cluster_uri) if (time := generation_time(name)) is not None}
        whole = [name for name in found if INVENTORY_DOCUMENT in list_files(f"{cluster_uri}/{name}")]
        kept = {generation, *sorted(whole, key=found.__getitem__)[-KEPT_GENERATIONS:]}
        for name, time in found.items():
            is_under_way = name not in whole and time > now_ms - _UNFINISHED_FOR_MS
            if name not in kept and not is_under_way:
                remove_folder(f"{cluster_uri}/{name}")
    except OSError as e:
        logger.warning("older inventories of %s are still there: %s", cluster_uri, e)
