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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from airflow_provider_rlmm.errors import PlanError
from airflow_provider_rlmm.metadata.read_tail import ReadTail
from airflow_provider_rlmm.policy import strict_json
from airflow_provider_rlmm.policy.blast_radius import BlastRadius
from airflow_provider_rlmm.policy.refusals import Refusal, RefusalKind

__all__ = [
    "MAX_QUARANTINED_LISTED",
    "MAX_SUMMARY_BYTES",
    "PLAN_COLUMNS",
    "PLAN_FORMAT",
    "SUMMARY_NAME",
    "Count",
    "PlanFile",
    "PlanSummary",
    "Reason",
    "Refusal",
    "RefusalKind",
    "first_refusals",
    "plan_file_name",
]

PLAN_FORMAT = 1
"""Version of the layout; a plan of another one is refused."""

SUMMARY_NAME = "summary.json"
MAX_SUMMARY_BYTES = 64 * 2**20
MAX_PLAN_FILE_BYTES = 2 * 2**30
MAX_REFUSALS = 2_000
MAX_QUARANTINED_LISTED = 1_000
MAX_REFUSAL_TEXT = 1_000

Data = bytes | memoryview

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

    ORPHANED = "ORPHANED"
    """Its topic id is absent from the cluster."""

    DANGLING = "DANGLING"
    """Copy or deletion was started long ago and never finished, and the topic lives."""

    LOG_START_OFFSET = "LOG_START_OFFSET"
    """The whole segment lies below the log start offset."""

    RETENTION_MS = "RETENTION_MS"
    """Its newest record is older than ``retention.ms``."""

    RETENTION_BYTES = "RETENTION_BYTES"
    """The partition is larger than ``retention.bytes`` without it."""


@dataclass(frozen=True, slots=True)
class Count:
    """
    :param segments: number of segments.
    :param bytes: their ``segment_size_in_bytes``, summed.
    """

    segments: int
    bytes: int

    @classmethod
    def sum(cls, counts: Iterable[Count]) -> Count:
        """
        Add counts up.

        :param counts: any number of them.
        """
        segments = size = 0
        for count in counts:
            segments, size = segments + count.segments, size + count.bytes
        return cls(segments, size)


def plan_file_name(metadata_partition: int) -> str:
    """
    Return the name of the file that holds the rows of a metadata partition.

    :param metadata_partition: which one.
    """
    return f"metadata-partition-{metadata_partition}.parquet"


@dataclass(frozen=True, slots=True)
class PlanFile:
    """
    One file of a plan, as its summary knows it.

    :param name: :func:`plan_file_name` of its metadata partition.
    :param rows: its rows.
    :param bytes: its size.
    :param sha256: of its bytes, lower-case hex.
    """

    name: str
    rows: int
    bytes: int
    sha256: str

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
    :param files: metadata partition → its file, for exactly those of ``by_metadata_partition``.
    :param blast_radius: the limit that the plan was judged by, ``None`` where it was not: then it is no plan to apply.
    :param within_blast_radius: the verdict.
    :param root: what was seen of the storage root, plain JSON.
    :param clock: which clock was used and how it was proven, in words.
    :param hold: topic names, patterns and ids that were not to be touched.
    :param job: what the Spark job says of its own work, plain JSON; empty where another program made the plan.
    """

    plan_id: str
    cluster_id: str
    created_at_ms: int
    expires_at_ms: int
    read_until: Mapping[int, int]
    known: Count
    by_reason: Mapping[str, Count]
    by_metadata_partition: Mapping[int, Count]
    quarantined: Mapping[int, int]
    unresolved: int
    refusals: tuple[Refusal, ...] = ()
    waiting: Count = Count(0, 0)
    files: Mapping[int, PlanFile] = field(default_factory=dict)
    blast_radius: BlastRadius | None = None
    within_blast_radius: bool = False
    root: Mapping[str, Any] = field(default_factory=dict)
    clock: str = ""
    hold: tuple[str, ...] = ()
    tails: Mapping[int, ReadTail] = field(default_factory=dict)
    job: Mapping[str, Any] = field(default_factory=dict)

    @property
    def planned(self) -> Count:
        """Segments and bytes of all reasons together."""
        return Count.sum(self.by_reason.values())

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

        :raises BlastRadiusError: if it is too large.
        :raises PlanError: if there is no verdict.
        """
        if self.blast_radius is None:
            raise PlanError(
                f"plan {self.plan_id} was not judged by a blast radius: it is none to apply, only to look at"
            )
        self.blast_radius.check(self)

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
        text = json.dumps(strict_json.sealed(asdict(self), PLAN_FORMAT), indent=2, sort_keys=True)
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
            document = strict_json.unsealed(text, PLAN_FORMAT)
            summary: PlanSummary = strict_json.record(cls, _FIELDS)(document, "summary")
            summary._check_consistent()
        except ValueError as e:
            raise PlanError(f"plan summary cannot be read ({e}); make a new plan") from e
        return summary

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
    Return what a summary has room for: those that need a person first, texts cut, and a last one that counts the rest.

    :param refusals: all of them.
    """
    ordered = sorted(refusals, key=lambda r: not r.kind.needs_person)
    first, rest = ordered[:MAX_REFUSALS], ordered[MAX_REFUSALS:]
    kept = [replace(r, what=_cut(r.what), why=_cut(r.why), what_to_do=_cut(r.what_to_do)) for r in first]
    if rest:
        kind = RefusalKind.OTHER if rest[0].kind.needs_person else RefusalKind.NEXT_RUN
        kept.append(Refusal(f"{len(rest)} more", "a plan names the first ones only", "settle these first", kind))
    return tuple(kept)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_REFUSAL_TEXT else f"{text[: MAX_REFUSAL_TEXT - 1]}…"


def _by_reason(value: object, what: str) -> dict[str, Count]:
    found = strict_json.by_name(_COUNT)(value, what)
    return {strict_json.one_of(Reason)(name, what).value: count for name, count in found.items()}


_Reader = Callable[[object, str], Any]
_COUNT: Callable[[object, str], Count] = strict_json.record(
    Count, {"segments": strict_json.integer, "bytes": strict_json.integer}
)
_FILE: Mapping[str, _Reader] = {
    "name": strict_json.string,
    "rows": strict_json.integer,
    "bytes": strict_json.integer,
    "sha256": strict_json.string,
}
_BLAST_RADIUS: Mapping[str, _Reader] = {
    "max_segments": strict_json.integer,
    "max_bytes": strict_json.integer,
    "max_share": strict_json.share,
}
_TAIL: Mapping[str, _Reader] = {"begin": strict_json.integer, "end": strict_json.integer, "sha256": strict_json.string}
_REFUSAL: Mapping[str, _Reader] = {
    "what": strict_json.string,
    "why": strict_json.string,
    "what_to_do": strict_json.string,
    "kind": strict_json.one_of(RefusalKind),
    "metadata_partition": strict_json.optional(strict_json.integer),
    "offset": strict_json.optional(strict_json.integer),
    "topic": strict_json.optional(strict_json.string),
}
_FIELDS: Mapping[str, _Reader] = {
    "plan_id": strict_json.string,
    "cluster_id": strict_json.string,
    "created_at_ms": strict_json.integer,
    "expires_at_ms": strict_json.integer,
    "read_until": strict_json.by_partition(strict_json.integer),
    "known": _COUNT,
    "by_reason": _by_reason,
    "by_metadata_partition": strict_json.by_partition(_COUNT),
    "quarantined": strict_json.by_partition(strict_json.integer),
    "unresolved": strict_json.integer,
    "refusals": strict_json.array(strict_json.record(Refusal, _REFUSAL)),
    "waiting": _COUNT,
    "files": strict_json.by_partition(strict_json.record(PlanFile, _FILE)),
    "blast_radius": strict_json.optional(strict_json.record(BlastRadius, _BLAST_RADIUS)),
    "within_blast_radius": strict_json.boolean,
    "root": strict_json.by_name(strict_json.any_json),
    "clock": strict_json.string,
    "hold": strict_json.array(strict_json.string),
    "tails": strict_json.by_partition(strict_json.record(ReadTail, _TAIL)),
    "job": strict_json.by_name(strict_json.any_json),
}
"""Each field of a summary and how it is read; a new one is added here and to :class:`PlanSummary`."""
