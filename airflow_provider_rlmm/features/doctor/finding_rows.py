# SPDX-License-Identifier: Apache-2.0
"""Rows of decoded records as findings, and a few ways to choose among rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from airflow_provider_rlmm.core.base.agreement import agreeing, number_of
from airflow_provider_rlmm.core.base.arrow_arrays import is_among
from airflow_provider_rlmm.core.base.quoting import human_bytes, name_in_text, printable
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.features.doctor.findings import EXPLANATIONS, Finding, FindingKind, Severity

USER_PARTITION = ["topic_id", "topic", "partition"]

MAX_DETAIL = 1_000
"""Characters of a finding's detail that are kept."""

PILLS = frozenset(
    {
        FindingKind.TOMBSTONE, FindingKind.MALFORMED, FindingKind.UNKNOWN_API_KEY, FindingKind.NEWER_VERSION,
        FindingKind.SNAPSHOT, FindingKind.BEYOND_LIMITS, FindingKind.ADD_IN_OTHER_STATE,
        FindingKind.UPDATE_TO_COPY_STARTED, FindingKind.EVENT_AFTER_FINISHED, FindingKind.LIVE_PARTITION_FINISHED,
        FindingKind.FORGOTTEN,
    }
)  # fmt: skip
"""Kinds that end brokers' consumers where they are critical: only a deletion of records gets past them."""


class FindingRows:
    """
    Keeps findings up to a limit per kind, counts all, and remembers the last poison pill of each metadata partition.

    :param limit_per_kind: findings of one kind that are kept, the first ones.
    """

    def __init__(self, limit_per_kind: int) -> None:
        self._limit = limit_per_kind
        self._kept: dict[FindingKind, list[Finding]] = {}
        self.counts: Counter[FindingKind] = Counter()
        self.critical = 0
        self.last_pill: dict[int, int] = {}

    def room(self, kind: FindingKind) -> int:
        """Return how many more findings of a kind are kept."""
        return max(0, self._limit - len(self._kept.get(kind, ())))

    def kept(self) -> tuple[Finding, ...]:
        """Return what was kept: the worst first, by kind, in the order of the topic."""
        kept = [finding for kind in FindingKind for finding in self._kept.get(kind, ())]
        return tuple(sorted(kept, key=lambda f: list(Severity).index(f.severity)))

    def count(self, kind: FindingKind, severity: Severity, number: int) -> None:
        """
        Count findings, whether they are kept or not.

        :param kind: of all of them.
        :param severity: of all of them.
        :param number: how many there are.
        """
        self.counts[kind] += number
        self.critical += number if severity is Severity.CRITICAL else 0

    def add(
        self, kind: FindingKind, rows: Any, severity: Severity | None = None, *, detail: str = "reason", more: str = ""
    ) -> None:
        """
        Add one finding per row.

        :param kind: of all of them.
        :param rows: by offset, with ``metadata_partition``, ``offset``, and columns of ``decode`` that say more.
        :param severity: of all of them, by default the kind's.
        :param detail: the column that says what each one is.
        :param more: what there is to say besides.
        """
        severity = severity or EXPLANATIONS[kind].severity
        kept = rows.slice(0, self.room(kind)).to_pylist()
        findings = (_finding(kind, severity, row, f"{row[detail]}{more}") for row in kept)
        self._kept.setdefault(kind, []).extend(findings)
        self.count(kind, severity, rows.num_rows)
        if severity is Severity.CRITICAL and rows.num_rows:
            last = rows.group_by("metadata_partition").aggregate([("offset", "max")])
            places = (last[name].to_pylist() for name in ("metadata_partition", "offset_max"))
            self._note_pills(kind, zip(*places, strict=True))

    def add_one(self, kind: FindingKind, row: Mapping[str, Any], detail: str, severity: Severity | None = None) -> None:
        """
        Add a finding.

        :param kind: what.
        :param row: as for :meth:`add`, a dictionary.
        :param detail: what this one is.
        :param severity: by default the kind's.
        """
        severity = severity or EXPLANATIONS[kind].severity
        if self.room(kind):
            self._kept.setdefault(kind, []).append(_finding(kind, severity, row, detail))
        self.count(kind, severity, 1)
        if severity is Severity.CRITICAL:
            self._note_pills(kind, [(row["metadata_partition"], row["offset"])])

    def _note_pills(self, kind: FindingKind, places: Iterable[tuple[int, int]]) -> None:
        for metadata_partition, offset in places if kind in PILLS else ():
            self.last_pill[metadata_partition] = max(offset, self.last_pill.get(metadata_partition, -1))


def _finding(kind: FindingKind, severity: Severity, row: Mapping[str, Any], detail: str) -> Finding:
    event_ms = row.get("event_timestamp_ms")
    return Finding(
        kind,
        severity,
        row["metadata_partition"],
        row["offset"],
        topic_id=_id(row.get("topic_id")),
        topic=name_in_text(row["topic"]) if row.get("topic") is not None else None,
        partition=row.get("partition"),
        segment_id=_id(row.get("segment_id")),
        since_ms=row.get("timestamp_ms") if event_ms is None else event_ms,
        detail=printable(detail, MAX_DETAIL),
    )


def user_partition_in_text(row: Mapping[str, Any]) -> str:
    """
    Return a user partition as ``topic id:topic-partition``.

    :param row: with ``topic_id``, ``topic`` and ``partition``.
    """
    return f"{_id(row['topic_id'])}:{name_in_text(row['topic'])}-{row['partition']}"


def _id(raw: bytes | None) -> str | None:
    return None if raw is None else kafka_uuid_str(UUID(bytes=raw))


def among(rows: Any, column: str, values: Iterable[int]) -> Any:
    """
    Tell which rows have one of some values.

    :param rows: a table or a batch.
    :param column: name of a column of numbers.
    :param values: the values.
    """
    return is_among(rows.column(column), [int(value) for value in values])


def of_topics(rows: Any, topic_ids: Iterable[UUID]) -> Any:
    """
    Tell which rows are of some topics.

    :param rows: a table or a batch.
    :param topic_ids: ids of the topics.
    """
    return is_among(rows.column("topic_id"), [topic_id.bytes for topic_id in topic_ids])


def topics_of(rows: Any) -> set[tuple[UUID, str]]:
    """
    Return the (topic id, topic) of rows.

    :param rows: a table.
    """
    found = rows.group_by(["topic_id", "topic"]).aggregate([]).to_pylist()
    return {(UUID(bytes=row["topic_id"]), row["topic"]) for row in found}


def concerned_in_text(segments: Any) -> str:
    """
    Say how many segments, bytes and user partitions something concerns.

    :param segments: rows of a state's table.
    """
    import pyarrow.compute as pc

    size = pc.sum(segments.column("segment_size_in_bytes")).as_py() or 0
    partitions = segments.group_by(USER_PARTITION).aggregate([]).num_rows
    return (
        f"{number_of(segments.num_rows, 'unfinished segment')} ({human_bytes(size)}) of "
        f"{number_of(partitions, 'user partition')} {agreeing(segments.num_rows, 'is', 'are')} concerned"
    )


def elsewhere_than(others: Any, rows: Any) -> Any:
    """
    Return the rows that lie at other places of the topic than some others.

    :param others: few, with ``metadata_partition`` and ``offset``.
    :param rows: a table or a batch.
    """
    import numpy as np

    if not others.num_rows or not rows.num_rows:
        return rows
    places = {tuple(row.values()) for row in others.select(["metadata_partition", "offset"]).to_pylist()}
    # An offset alone says nearly everything, and it is looked for in columns.
    suspects = np.flatnonzero(among(rows, "offset", {offset for _, offset in places}).to_numpy(zero_copy_only=False))
    columns = (rows.column(name).take(suspects).to_pylist() for name in ("metadata_partition", "offset"))
    kept = np.ones(rows.num_rows, dtype=bool)
    kept[[at for at, *place in zip(suspects.tolist(), *columns, strict=True) if tuple(place) in places]] = False
    return rows.filter(kept)
