# SPDX-License-Identifier: Apache-2.0
"""What the pages of clusters show, from the folders of the clusters below the work folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_rlmm.errors import DocumentError
from airflow_provider_rlmm.file_systems import list_files, list_folders, read_file
from airflow_provider_rlmm.metadata.records import kafka_uuid_str
from airflow_provider_rlmm.policy.inventory import INVENTORY_DOCUMENT, MAX_INVENTORY_BYTES, TOPICS_FILE, Inventory
from airflow_provider_rlmm.policy.run_summary import MAX_RUN_SUMMARY_BYTES, RUNS_FOLDER, RunSummary, run_of_file
from airflow_provider_rlmm.policy.work_folder import cluster_folder, is_cluster_folder


def inventory(work_uri: str, folder: str) -> Inventory | None:
    """
    Return what was surveyed last of a cluster, ``None`` if nothing ever was.

    :param work_uri: the work folder.
    :param folder: name of the cluster's folder.
    :raises DocumentError: if it cannot be read, or is of another cluster.
    """
    try:
        data = read_file(f"{work_uri}/{folder}/{INVENTORY_DOCUMENT}", MAX_INVENTORY_BYTES).to_pybytes()
    except FileNotFoundError:
        return None
    found = Inventory.from_json(data.decode())
    if cluster_folder(found.cluster_id) != folder:
        raise DocumentError(f"{INVENTORY_DOCUMENT} in {folder} is of cluster {found.cluster_id}")
    return found


def clusters(work_uri: str) -> list[str]:
    """
    Return the names of the folders of clusters.

    :param work_uri: the work folder.
    """
    return [folder for folder in list_folders(work_uri) if is_cluster_folder(folder)]


def history(work_uri: str, folder: str, newest: int) -> list[RunSummary]:
    """
    Return past runs of a cluster, the oldest first.

    :param work_uri: the work folder.
    :param folder: name of the cluster's folder.
    :param newest: how many, at most.
    :raises DocumentError: if one cannot be read.
    """
    uri = f"{work_uri}/{folder}/{RUNS_FOLDER}"
    names = sorted(name for name in list_files(uri) if run_of_file(name))[-newest:]
    return [
        RunSummary.from_json(read_file(f"{uri}/{name}", MAX_RUN_SUMMARY_BYTES).to_pybytes().decode()) for name in names
    ]


@dataclass(frozen=True, slots=True)
class TopicRow:
    """A topic of an inventory; its columns are those of the file."""

    topic: str
    topic_id: str
    state: str
    partitions: int
    segments: int
    bytes: int
    oldest_ms: int | None
    first_absent_ms: int | None
    eligible_ms: int | None
    why: str


def topics(
    work_uri: str, found: Inventory, search: str, state: str, sort: str, descending: bool, start: int, rows: int
) -> tuple[Sequence[TopicRow], int]:
    """
    Return some topics of an inventory, and how many there are in all that are as they were asked for.

    :param work_uri: the work folder.
    :param found: the inventory.
    :param search: a part of the name, empty for any.
    :param state: which state they have, empty for any.
    :param sort: the column by which they are sorted, empty for the file's own order.
    :param descending: whether the largest comes first.
    :param start: how many are left out before.
    :param rows: how many are returned, at most.
    """
    from uuid import UUID

    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    uri = f"{work_uri}/{cluster_folder(found.cluster_id)}/{found.generation}/{TOPICS_FILE}"
    table: Any = pq.read_table(pa.BufferReader(read_file(uri)))
    if state:
        table = table.filter(pc.equal(table["state"], state))
    if search:
        table = table.filter(pc.match_substring(table["topic"], search, ignore_case=True))
    if sort:
        table = table.sort_by([(sort, "descending" if descending else "ascending")])
    return [
        TopicRow(
            topic_id=kafka_uuid_str(UUID(bytes=row.pop("topic_id"))),
            **{name: row[name] for name in TopicRow.__slots__ if name in row and name != "topic_id"},
        )
        for row in table.slice(start, rows).to_pylist()
    ], table.num_rows
