# SPDX-License-Identifier: Apache-2.0
"""What one batch of a scrub's deletion leaves in the audit log: it knows objects, so offsets and events stay empty."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from airflow_provider_rlmm.core.storage.remote_storage import DeleteOutcome
from airflow_provider_rlmm.core.world.audit_columns import Columns
from airflow_provider_rlmm.core.world.deletion_trail import NOTHING_SAID, Fate

Objects = Sequence[Mapping[str, Any]]
"""Rows of a scrub's plan, of one segment."""


class Doomed(NamedTuple):
    """What is kept of an object from its deletion to the listing that confirms it."""

    key: str
    bytes: int
    kind: str  # its class
    topic: str
    metadata_partition: int | None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Doomed:
        """
        Take it from a row of a scrub's plan.

        :param row: the row.
        """
        return cls(row["key"], row["bytes"], row["class"], row["topic"], row["metadata_partition"])


def by_segment(rows: Iterable[Mapping[str, Any]]) -> list[Objects]:
    """
    Return objects segment by segment, as the audit log names them.

    :param rows: of a scrub's plan.
    """
    grouped: dict[tuple[bytes, int, bytes], list[Mapping[str, Any]]] = {}
    for row in rows:
        grouped.setdefault((row["topic_id"], row["partition"], row["segment_id"]), []).append(row)
    return list(grouped.values())


def columns_of(segments: Sequence[Objects]) -> Columns:
    """
    Return what is about to be deleted, and as what the scrub has found it.

    :param segments: what :func:`by_segment` returned.
    """
    names = ("metadata_partition", "topic", "topic_id", "partition", "segment_id")
    columns: dict[str, Any] = {name: [objects[0][name] for objects in segments] for name in names}
    columns["why"] = [", ".join(sorted({row["class"] for row in objects})) for objects in segments]
    return columns


def fates_of(segments: Sequence[Sequence[Doomed]], left: Mapping[str, str] | None) -> list[Fate]:
    """
    Return what became of each segment.

    :param segments: what was to be deleted of each.
    :param left: key → why it is still there; ``None`` where storage did not say.
    """
    return [NOTHING_SAID if left is None else _fate(objects, left) for objects in segments]


def _fate(objects: Sequence[Doomed], left: Mapping[str, str]) -> Fate:
    gone = [doomed for doomed in objects if doomed.key not in left]
    kept = [left[doomed.key] for doomed in objects if doomed.key in left]
    outcome = DeleteOutcome.PRESENT if kept else DeleteOutcome.GONE
    return Fate(outcome, len(gone), sum(doomed.bytes for doomed in gone), kept)
