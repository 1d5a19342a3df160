# SPDX-License-Identifier: Apache-2.0
"""Puts the stores of disjoint user partitions together."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from airflow_provider_rlmm.errors import MetadataError
from airflow_provider_rlmm.metadata.columnar.fold.batch import append_partitions, partition_of
from airflow_provider_rlmm.metadata.columnar.fold.caches import topic_id_partition_at
from airflow_provider_rlmm.metadata.columnar.fold.store import TABLES, Store


def merged(mine: Store, theirs: Store) -> Store:
    """
    Return the first store with the contents of the other one.

    :param mine: a store without dead rows; it is changed.
    :param theirs: another one.
    :raises MetadataError: if a user partition is in both.
    """
    _check_disjoint(mine, theirs)
    partitions, epochs = mine.partitions.size, mine.epochs.size
    segments, entries, custom = mine.segments.size, mine.entries.size, mine.tables["custom"].size
    table = theirs.partitions
    topics = theirs.topics.take(pa.array(table["topic"]))
    rows = append_partitions(mine, table["high"], table["low"], table["partition"], topics)
    for column in TABLES["partitions"].keys() - {"high", "low", "partition", "topic"}:
        mine.partitions.write(column, rows, table[column])
    for name, changes in (
        ("epochs", {"key": partitions << 32}),
        ("entries", {"epoch": epochs, "segment": segments}),
        ("custom", {}),
        ("segments", {"user_partition": partitions, "entries_at": entries, "custom_at": custom}),
    ):
        columns = {column: theirs.tables[name][column] for column in TABLES[name]}
        for column, shift in changes.items():
            columns[column] = (columns[column].astype(np.int64) + shift).astype(columns[column].dtype)
        count = theirs.tables[name].size
        if name in ("epochs", "segments"):
            mine.append(name, count, columns)
        else:
            mine.tables[name].append(count, columns)
    mine.stale = mine.stale | {(row + epochs, high, low): order for (row, high, low), order in theirs.stale.items()}
    mine.live = segments + theirs.segments.size
    mine.next_order = max(mine.next_order, theirs.next_order)
    return mine


def _check_disjoint(mine: Store, theirs: Store) -> None:
    """Look the smaller store's user partitions up in the other one."""
    few, many = sorted((mine, theirs), key=lambda store: store.partitions.size)
    both = []
    for row in range(few.partitions.size):
        name = topic_id_partition_at(few, row)
        table = few.partitions
        key = int(table["high"][row]), int(table["low"][row]), name.partition, name.topic
        if partition_of(many, *key) >= 0:
            both.append(str(name))
    if both:
        raise MetadataError(f"{min(both)} is in both states: merge those of disjoint metadata partitions")
