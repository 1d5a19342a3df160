# SPDX-License-Identifier: Apache-2.0
"""
A plan: which remote log segments are to go, and why, written down before anything is deleted.

The planner and the Spark job write it, the cleaner reads it; a human may read it in between. It is one Parquet file per
metadata partition with the columns of :data:`PLAN_COLUMNS`, and one JSON document, the :class:`PlanSummary`, which names
each file with its size, rows and SHA-256 and carries a SHA-256 of itself: no other bytes are ever taken for the plan.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

from airflow_provider_rlmm.core.base import strict_json as strict
from airflow_provider_rlmm.core.base.documents import AbsentAs, PlainJson, Text, plain_of, reader_of, value_of
from airflow_provider_rlmm.core.base.errors import BlastRadiusError, PlanError
from airflow_provider_rlmm.core.plans.counts import NOTHING, Count
from airflow_provider_rlmm.core.plans.guards import BlastRadius
from airflow_provider_rlmm.core.plans.refusals import Refusal, RefusalKind
from airflow_provider_rlmm.core.records.read_tail import ReadTail

PLAN_FORMAT = 1
"""Version of the layout; a plan of another one is refused."""

SUMMARY_NAME = "summary.json"
MAX_SUMMARY_BYTES = 64 * 2**20
ROW_GROUP_ROWS = 20_000
"""Rows of a row group of plans and of the audit log: whoever shows a few of them reads no more than that at a time."""

MAX_PLAN_FILE_BYTES = 2 * 2**30
MAX_REFUSALS = 2_000
MAX_QUARANTINED_LISTED = 1_000
MAX_REFUSAL_TEXT = 1_000

Data = bytes | memoryview

PlannedSegments = Mapping[tuple[UUID, int], frozenset[UUID]]
"""(topic id, user partition) → segment ids that the plan allows to delete."""

PLAN_COLUMNS: tuple[tuple[str, str], ...] = (
    ("metadata_partition", "int32"),
    ("topic_id", "binary"),  # 16 bytes
    ("topic", "string"),
    ("partition", "int32"),
    ("segment_id", "binary"),  # 16 bytes
    ("state", "int8"),
    ("start_offset", "int64"),  # inclusive
    ("end_offset", "int64"),  # inclusive
    ("max_timestamp_ms", "int64"),
    ("event_timestamp_ms", "int64"),
    ("segment_size_in_bytes", "int64"),
    ("reason", "string"),  # a Reason
    ("exact", "bool"),
)
"""Name and Arrow type of every column; none is null. One row per segment, with the first reason that applies."""


class Reason(StrEnum):
    """Why a segment is in a plan; where several apply, the first in this order is given."""

    ORPHANED = "ORPHANED"  # its topic id is absent from the cluster
    DANGLING = "DANGLING"  # copy or deletion was started long ago and never finished, and the topic lives
    LOG_START_OFFSET = "LOG_START_OFFSET"  # the whole segment lies below the log start offset
    RETENTION_MS = "RETENTION_MS"  # its newest record is older than ``retention.ms``
    RETENTION_BYTES = "RETENTION_BYTES"  # the partition is larger than ``retention.bytes`` without it

    @property
    def is_estimated(self) -> bool:
        """Whether the leader of a living topic is expected to delete it: brokers know more, so that is an estimate."""
        return self in (Reason.LOG_START_OFFSET, Reason.RETENTION_MS, Reason.RETENTION_BYTES)


def plan_file_name(metadata_partition: int) -> str:
    """
    Return the name of the file that holds the rows of a metadata partition.

    :param metadata_partition: which one.
    """
    return f"metadata-partition-{metadata_partition}.parquet"


@dataclass(frozen=True, slots=True)
class PlanFile:
    """One file of a plan, as its summary knows it."""

    name: Text  # :func:`plan_file_name` of its metadata partition
    rows: int  # its rows
    bytes: int  # its size
    sha256: Text  # of its bytes, lower-case hex

    @classmethod
    def of(cls, metadata_partition: int, rows: int, data: Data) -> PlanFile:
        """
        Describe a file.

        :param metadata_partition: of all its rows.
        :param rows: how many.
        :param data: its bytes.
        """
        return cls(plan_file_name(metadata_partition), rows, len(data), hashlib.sha256(data).hexdigest())

    def check(self, data: Data) -> None:
        """
        Refuse bytes that are not this file.

        :param data: what was read.
        :raises PlanError: naming the file.
        """
        if len(data) != self.bytes:
            raise PlanError(f"{self.name} has {len(data)} bytes, its plan says {self.bytes}; make a new plan")
        if hashlib.sha256(data).hexdigest() != self.sha256:
            raise PlanError(f"{self.name} is not the file that its plan was made with; make a new plan")


@dataclass(frozen=True, slots=True)
class PlanSummary:
    """
    The small JSON document beside a plan.

    :param plan_id: names this plan in logs, reports and links.
    :param cluster_id: the cluster that it was made for; it is worth nothing on another.
    :param created_at_ms: when its reading began, ms since the epoch.
    :param expires_at_ms: when it may no longer be applied, ms since the epoch.
    :param read_until: metadata partition → offset, exclusive, up to which the topic was read.
    :param tails: metadata partition → the last records that were read there, where there were any.
    :param known: all segments not yet finished, whatever the plan says of them.
    :param by_reason: per :class:`Reason`.
    :param by_metadata_partition: planned segments per metadata partition.
    :param quarantined: metadata partition → number of records that could not be applied.
    :param unresolved: segments of incomplete history, reported and never planned.
    :param refusals: what was found and is not planned, and why; of quarantined records the first
        :data:`MAX_QUARANTINED_LISTED`.
    :param waiting: segments that will be eligible without anybody doing anything.
    :param left: metadata partition → segments of user partitions whose deletion is under way that are neither planned nor
        waiting: refused, held, or left for later runs.
    :param files: metadata partition → its file, for exactly those of ``by_metadata_partition``.
    :param blast_radius: the limit that the plan was judged by, ``None`` where it was not: then it is no plan to apply.
    :param within_blast_radius: the verdict.
    :param root: what was seen of the storage root, plain JSON.
    :param clock: which clock was used and how it was proven, in words.
    :param hold: topic names, patterns and ids that were not to be touched.
    :param job: what the Spark job says of its own work, plain JSON; empty where another program made the plan.
    """

    plan_id: Text
    cluster_id: Text
    created_at_ms: int
    expires_at_ms: int
    read_until: Mapping[int, int]
    known: Count
    by_reason: Mapping[Annotated[str, value_of(Reason)], Count]
    by_metadata_partition: Mapping[int, Count]
    quarantined: Mapping[int, int]
    unresolved: int
    refusals: tuple[Refusal, ...] = ()
    waiting: Count = NOTHING
    files: Mapping[int, PlanFile] = field(default_factory=dict)
    blast_radius: BlastRadius | None = None
    within_blast_radius: bool = False
    root: PlainJson = field(default_factory=dict)
    clock: Text = ""
    hold: tuple[Text, ...] = ()
    tails: Mapping[int, ReadTail] = field(default_factory=dict)
    job: PlainJson = field(default_factory=dict)
    left: Annotated[Mapping[int, Count], AbsentAs({})] = field(default_factory=dict)

    @property
    def planned(self) -> Count:
        """Segments and bytes of all reasons together."""
        return Count.sum(self.by_reason.values())

    @property
    def to_delete(self) -> Count:
        """Those of deleted topics: what this package may delete."""
        return self.by_reason.get(Reason.ORPHANED.value, Count(0, 0))

    @property
    def expected_of_leaders(self) -> Count:
        """Those of living topics that their leaders are expected to delete: an estimate."""
        return Count.sum(count for reason, count in self.by_reason.items() if Reason(reason).is_estimated)

    @property
    def sha256(self) -> str:
        """What the document says its bytes are, lower-case hex: it names this very plan, and its files by their hashes."""
        return str(self._sealed()["sha256"])

    def check_valid(self, cluster_id: str, now_ms: int) -> None:
        """
        Refuse a plan that may no longer be applied, or not here.

        :param cluster_id: id of the connected cluster.
        :param now_ms: ms since the epoch.
        :raises PlanError: naming the plan and what to do.
        """
        if cluster_id != self.cluster_id:
            raise PlanError(f"plan {self.plan_id} was made for cluster {self.cluster_id!r}, this is {cluster_id!r}")
        if now_ms >= self.expires_at_ms:
            raise PlanError(f"plan {self.plan_id} expired {now_ms - self.expires_at_ms} ms ago; make a new plan")

    def judged_by(self, blast_radius: BlastRadius) -> PlanSummary:
        """
        Return the summary with a limit and the verdict on it.

        :param blast_radius: the limit.
        """
        within = blast_radius.excess(self.planned, self.known) is None
        return replace(self, blast_radius=blast_radius, within_blast_radius=within)

    def check_blast_radius(self) -> None:
        """
        Refuse a plan that is larger than the limit that it was judged by, or was never judged.

        :raises BlastRadiusError: naming the limit, what was planned and what to do.
        :raises PlanError: if there is no verdict.
        """
        if self.blast_radius is None:
            raise PlanError(
                f"plan {self.plan_id} was not judged by a blast radius: it is none to apply, only to look at"
            )
        planned, known = self.planned, self.known
        if excess := self.blast_radius.excess(planned, known):
            raise BlastRadiusError(
                f"plan {self.plan_id} would delete {planned.segments} of {known.segments} segments, "
                f"{planned.bytes} bytes: {excess}; {self.blast_radius.remedy(planned, known)}"
            )

    def tail_of(self, metadata_partition: int) -> ReadTail:
        """
        Return the last records of a metadata partition that the plan was made from.

        :param metadata_partition: one that it has work for.
        :raises PlanError: if it does not say.
        """
        if metadata_partition not in self.tails:
            raise PlanError(
                f"plan {self.plan_id} does not say which records of metadata partition {metadata_partition} were read last, "
                "so nothing ties it to the log; make a new plan"
            )
        return self.tails[metadata_partition]

    def to_json(self) -> str:
        """
        Return the document; keys of JSON objects are strings.

        :raises PlanError: if it contradicts itself or is too large: nobody would read it.
        """
        text = json.dumps(self._sealed(), indent=2, sort_keys=True)
        if self.from_json(text) != self:
            raise PlanError(f"the summary of plan {self.plan_id} does not read back as it was written")
        return text

    @classmethod
    def from_json(cls, text: str) -> PlanSummary:
        """
        Read the document.

        :param text: what :meth:`to_json` returned.
        :raises PlanError: if it is not, to the letter.
        """
        if len(text) > MAX_SUMMARY_BYTES:
            raise PlanError(f"a plan summary has at most {MAX_SUMMARY_BYTES} bytes; make a new plan")
        try:
            document = strict.unsealed(text, PLAN_FORMAT)
            summary = _READ(document, "summary")
            summary._check_consistent()
        except ValueError as e:
            raise PlanError(f"plan summary cannot be read ({e}); make a new plan") from e
        return summary

    def _sealed(self) -> dict[str, Any]:
        return strict.sealed(plain_of(self), PLAN_FORMAT)

    def _check_consistent(self) -> None:
        """Refuse numbers that cannot belong to one plan; a checksum does not say who computed it."""
        planned, parts = self.planned, self.by_metadata_partition
        if planned != Count.sum(parts.values()):
            raise ValueError("by_reason and by_metadata_partition add up differently")
        if planned.segments > self.known.segments or planned.bytes > self.known.bytes:
            raise ValueError("more is planned than known")
        if self.waiting.segments > self.known.segments or self.waiting.bytes > self.known.bytes:
            raise ValueError("more is waiting than known")
        if self.files.keys() != parts.keys():
            raise ValueError(f"files are those of {sorted(self.files)}, planned is {sorted(parts)}")
        for metadata_partition, file in self.files.items():
            if file.name != plan_file_name(metadata_partition) or file.rows != parts[metadata_partition].segments:
                raise ValueError(f"file {file.name!r} is not that of metadata partition {metadata_partition}")
            if file.bytes > MAX_PLAN_FILE_BYTES:
                raise ValueError(f"file {file.name!r} has {file.bytes} bytes, more than {MAX_PLAN_FILE_BYTES}")
        within = self.blast_radius is not None and self.blast_radius.excess(planned, self.known) is None
        if within != self.within_blast_radius:
            raise ValueError("the verdict on the blast radius is not that of its numbers")


def first_refusals(refusals: Sequence[Refusal]) -> tuple[Refusal, ...]:
    """
    Return what a summary has room for: those that need a person first, texts cut, and last ones that count the rest.

    :param refusals: all of them.
    """
    ordered = sorted(refusals, key=lambda r: not r.kind.needs_person)
    first, rest = ordered[:MAX_REFUSALS], ordered[MAX_REFUSALS:]
    kept = [replace(r, what=_cut(r.what), why=_cut(r.why), what_to_do=_cut(r.what_to_do)) for r in first]
    why = "a plan names the first ones only"
    counts = {
        kind: sum(r.count for r in rest if _stands_for(kind, r.kind))
        for kind in (RefusalKind.OTHER, RefusalKind.NEXT_RUN, RefusalKind.WAITING)
    }
    kept += [Refusal(f"{n} more", why, "settle these first", kind, count=n) for kind, n in counts.items() if n]
    return tuple(kept)


def _stands_for(kind: RefusalKind, left_out: RefusalKind) -> bool:
    """Tell by which of three kinds a refusal that is not listed is counted: who needs a person, who is left, who waits."""
    if left_out.needs_person or left_out is RefusalKind.WAITING:
        return kind is (RefusalKind.OTHER if left_out.needs_person else RefusalKind.WAITING)
    return kind is RefusalKind.NEXT_RUN


def _cut(text: str) -> str:
    return text if len(text) <= MAX_REFUSAL_TEXT else f"{text[: MAX_REFUSAL_TEXT - 1]}…"


_READ = reader_of(PlanSummary)
