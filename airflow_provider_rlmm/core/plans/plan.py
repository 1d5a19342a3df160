# SPDX-License-Identifier: Apache-2.0
"""
A plan: which remote log segments are to go, and why, written down before anything is deleted.

The planner and the Spark job write it, the cleaner reads it; a human may read it in between. It is one Parquet file per
metadata partition with the columns of :data:`PLAN_COLUMNS`, and one JSON document, the :class:`PlanSummary`, which names
each file with its size, rows and SHA-256 and carries a SHA-256 of itself: no other bytes are ever taken for the plan.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated, Any, ClassVar
from uuid import UUID

from airflow_provider_rlmm.core.base.documents import AbsentAs, PlainJson, Text, reader_of, value_of
from airflow_provider_rlmm.core.base.errors import PlanError
from airflow_provider_rlmm.core.plans.certainty import LeadersTold
from airflow_provider_rlmm.core.plans.counts import NOTHING, Count
from airflow_provider_rlmm.core.plans.deletion_plan import DeletionPlan, PlanForm
from airflow_provider_rlmm.core.plans.refusals import Refusal, RefusalKind
from airflow_provider_rlmm.core.records.folded import Folded
from airflow_provider_rlmm.core.records.read_tail import ReadTail

PLAN_FORM = PlanForm(
    version=1,
    name="a plan summary",
    top="summary",
    max_bytes=64 * 2**20,
    what_goes="",
    again="make a new plan",
    goes_early="segment",
)
SUMMARY_NAME = "summary.json"
ROW_GROUP_ROWS = 20_000
"""Rows of a row group of plans and of the audit log: a page that shows a few of them reads no more than that at a time."""

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
    DELETION_RETRIED = "DELETION_RETRIED"  # its leader has started to delete it and tries again, however young that is
    LOG_START_OFFSET = "LOG_START_OFFSET"  # the whole segment lies below the log start offset
    RETENTION_MS = "RETENTION_MS"  # its newest record is older than ``retention.ms``
    RETENTION_BYTES = "RETENTION_BYTES"  # the partition is larger than ``retention.bytes`` without it
    UNREFERENCED_EPOCH = "UNREFERENCED_EPOCH"  # all its leader epochs lie below the earliest of its leader's lineage

    @property
    def is_of_leaders(self) -> bool:
        """Whether the leader of a living topic deletes it: for certain where its row is exact, else that is an estimate."""
        return self not in (Reason.ORPHANED, Reason.DANGLING)


def plan_file_name(metadata_partition: int) -> str:
    """
    Return the name of the file that holds the rows of a metadata partition.

    :param metadata_partition: which one.
    """
    return f"metadata-partition-{metadata_partition}.parquet"


@dataclass(frozen=True, slots=True)
class PlanFile:
    """One file of a plan, as its summary knows it."""

    name: Text  # of the file in the plan's folder
    rows: int  # its rows
    bytes: int  # its size
    sha256: Text  # of its bytes, lower-case hex

    @classmethod
    def of(cls, name: str, rows: int, data: Data) -> PlanFile:
        """
        Describe a file.

        :param name: its name.
        :param rows: how many it has.
        :param data: its bytes.
        """
        return cls(name, rows, len(data), hashlib.sha256(data).hexdigest())

    def check(self, data: Data) -> None:
        """
        Refuse bytes that are not this file.

        :param data: what was read.
        :raises PlanError: naming the file.
        """
        self.check_sums(len(data), hashlib.sha256(data).hexdigest())

    def check_sums(self, size: int, sha256: str) -> None:
        """
        Refuse what is not this file by its size and hash.

        :param size: bytes that were read; one more than there should be stands for any number of them.
        :param sha256: of these, lower-case hex.
        :raises PlanError: naming the file.
        """
        if size != self.bytes:
            raise PlanError(f"{self.name} has {size} bytes, its plan says {self.bytes}; make a new plan")
        if sha256 != self.sha256:
            raise PlanError(f"{self.name} is not the file that its plan was made with; make a new plan")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSummary(DeletionPlan):
    """
    The small JSON document beside a plan. It was made when its reading began; what it knows are all segments not yet
    finished, planned or not.

    :param read_until: metadata partition → offset, exclusive, up to which the topic was read.
    :param tails: metadata partition → the last records that were read there, where there were any.
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
    :param job: what the Spark job says of its own work, plain JSON; empty where another program made the plan.
    :param leaders: what the Spark job tells of the leaders of living topics; ``None`` where another program made the plan.
    :param folded: the generation of the Spark job that its reading began with; ``None`` where there was none.
    """

    read_until: Mapping[int, int]
    by_reason: Mapping[Annotated[str, value_of(Reason)], Count]
    by_metadata_partition: Mapping[int, Count]
    quarantined: Mapping[int, int]
    unresolved: int
    refusals: tuple[Refusal, ...] = ()
    waiting: Count = NOTHING
    files: Mapping[int, PlanFile] = field(default_factory=dict)
    tails: Mapping[int, ReadTail] = field(default_factory=dict)
    job: PlainJson = field(default_factory=dict)
    left: Annotated[Mapping[int, Count], AbsentAs({})] = field(default_factory=dict)
    leaders: Annotated[LeadersTold | None, AbsentAs(None)] = None
    folded: Annotated[Folded | None, AbsentAs(None)] = None

    FORM: ClassVar[PlanForm] = PLAN_FORM

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
        """Those of living topics that their leaders delete for certain, or are expected to."""
        return Count.sum(count for reason, count in self.by_reason.items() if Reason(reason).is_of_leaders)

    @property
    def estimated_of_leaders(self) -> Count:
        """Those of living topics of which it cannot be told whether their leaders delete them."""
        expected, certain = self.expected_of_leaders, NOTHING if self.leaders is None else self.leaders.goes
        return Count(expected.segments - certain.segments, expected.bytes - certain.bytes)

    def check_valid(self, cluster_id: str, now_ms: int) -> None:
        """
        Refuse a plan that may no longer be applied, or not here.

        :param cluster_id: id of the connected cluster.
        :param now_ms: ms since the epoch.
        :raises PlanError: naming the plan and what to do.
        """
        if cluster_id != self.cluster_id:
            raise PlanError(f"plan {self.plan_id} was made for cluster {self.cluster_id!r}, this is {cluster_id!r}")
        self.check_expiry(now_ms)

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

    @classmethod
    def from_json(cls, text: str) -> PlanSummary:
        """See :class:`~airflow_provider_rlmm.core.plans.deletion_plan.DeletionPlan`."""
        return PLAN_FORM.read(text, _READ)

    def _plain(self) -> dict[str, Any]:
        plain = DeletionPlan._plain(self)
        # Plans that say nothing of them are written as earlier releases did.
        return {name: value for name, value in plain.items() if name not in ("leaders", "folded") or value is not None}

    def check_numbers(self) -> None:
        """See :class:`~airflow_provider_rlmm.core.plans.deletion_plan.DeletionPlan`."""
        planned, parts = self.planned, self.by_metadata_partition
        if planned != Count.sum(parts.values()):
            raise ValueError("by_reason and by_metadata_partition add up differently")
        if planned.segments > self.known.segments or planned.bytes > self.known.bytes:
            raise ValueError("more is planned than known")
        if self.waiting.segments > self.known.segments or self.waiting.bytes > self.known.bytes:
            raise ValueError("more is waiting than known")
        told = NOTHING if self.leaders is None else self.leaders.goes
        if told.segments > self.expected_of_leaders.segments:
            raise ValueError("leaders delete more for certain than is planned")
        if self.files.keys() != parts.keys():
            raise ValueError(f"files are those of {sorted(self.files)}, planned is {sorted(parts)}")
        for metadata_partition, file in self.files.items():
            if file.name != plan_file_name(metadata_partition) or file.rows != parts[metadata_partition].segments:
                raise ValueError(f"file {file.name!r} is not that of metadata partition {metadata_partition}")
            if file.bytes > MAX_PLAN_FILE_BYTES:
                raise ValueError(f"file {file.name!r} has {file.bytes} bytes, more than {MAX_PLAN_FILE_BYTES}")


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
