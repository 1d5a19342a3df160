# SPDX-License-Identifier: Apache-2.0
"""The stores of several metadata partitions as one."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from airflow_provider_rlmm.core.base.errors import MetadataError
from airflow_provider_rlmm.core.records.fold.histories import user_partition
from airflow_provider_rlmm.core.records.fold.store import NO_METADATA_PARTITION, Store

_REFERENCES = {"segments.user_partition": "partitions", "segments.epochs_at": "epochs", "segments.custom_at": "custom"}
"""Columns that refer to rows, and the table that these are of."""


def merged_store(stores: Iterable[Store]) -> Store:
    """
    Return one store of what several hold; these are spent.

    One of them at a time is in memory beside what was merged so far, if the caller that hands them out keeps none.

    :param stores: the stores, no two of which know the same user partition.
    :return: of none, the empty store that keeps finished segments.
    :raises MetadataError: if two of them know the same user partition, or only some keep finished segments.
    """
    merged: Store | None = None
    for store in stores:
        if merged is None:
            merged = Store(keep_finished=store.keep_finished)
        elif merged.keep_finished != store.keep_finished:
            raise MetadataError("some states keep finished segments and others do not: they cannot be one state")
        _add(merged, store)
        # The next one is loaded before the name is bound again.
        del store
    if merged is None:
        return Store(keep_finished=True)
    _require_different_partitions(merged)
    return merged


def _add(merged: Store, store: Store) -> None:
    first = {name: table.size for name, table in merged.tables.items()}
    _add_columns(merged, store, first)
    merged.next_event = max(merged.next_event, store.next_event)
    merged.live += store.live
    shift = first["partitions"]
    merged.deletions |= {shift + row: deletion for row, deletion in store.deletions.items()}
    merged.unresolved |= {(shift + row, high, low): why for (row, high, low), why in store.unresolved.items()}


def _add_columns(merged: Store, store: Store, first: dict[str, int]) -> None:
    """Copy a store's columns, one at a time, behind rows that are there; of these there were so many before."""
    topics, rows = merged.topic_numbers(store.topics), dict[str, slice]()
    for name, values in store.columns(keep_finished=store.keep_finished):
        table, column = name.split(".")
        if table not in rows:
            rows[table] = merged.tables[table].grow(values.size)
        if name == "partitions.topic":
            renumbered = topics.take(values)
        else:
            renumbered = values + first[_REFERENCES[name]] if name in _REFERENCES else values
        merged.tables[table].write(column, rows[table], renumbered)


def _require_different_partitions(store: Store) -> None:
    table = store.partitions
    keys = [table[name] for name in ("topic", "partition", "low", "high")]
    order = np.lexsort(keys)
    same = np.all([key.take(order[1:]) == key.take(order[:-1]) for key in keys], axis=0)
    for at in np.flatnonzero(same)[:1].tolist():
        row, other = order[at : at + 2].tolist()
        raise MetadataError(
            f"{user_partition(store, row)} stands in the states of metadata partitions {_place(store, row)} and "
            f"{_place(store, other)}: the events of a user partition lie in one"
        )


def _place(store: Store, row: int) -> str:
    metadata_partition = int(store.partitions["metadata_partition"][row])
    return "unknown" if metadata_partition == NO_METADATA_PARTITION else str(metadata_partition)
