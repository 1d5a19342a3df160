# SPDX-License-Identifier: Apache-2.0
"""
A plan: which remote log segments are to go, and why, written down before anything is deleted.

The planner and the Spark job write it, the cleaner reads it; a human may read it in between. It is one Parquet data set
with the columns of :data:`PLAN_COLUMNS` and one JSON document, the :class:`PlanSummary`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any

from airflow_provider_rlmm.errors import PlanError

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


@dataclass(frozen=True, slots=True)
class Refusal:
    """
    Something that was refused or left, for reports.

    :param what: which partition, segment or record.
    :param why: the reason.
    :param what_to_do: what an operator can do about it.
    """

    what: str
    why: str
    what_to_do: str


@dataclass(frozen=True, slots=True)
class PlanSummary:
    """
    The small JSON document beside a plan.

    :param plan_id: names this plan in logs, reports and links.
    :param cluster_id: the cluster that it was made for; it is worth nothing on another.
    :param created_at_ms: when its reading began, ms since the epoch.
    :param expires_at_ms: when it may no longer be applied, ms since the epoch.
    :param read_until: metadata partition → offset, exclusive, up to which the topic was read.
    :param known: all segments not yet finished, whatever the plan says of them.
    :param by_reason: per :class:`Reason`.
    :param by_metadata_partition: planned segments per metadata partition.
    :param quarantined: metadata partition → number of records that could not be applied.
    :param unresolved: segments of incomplete history, reported and never planned.
    :param refusals: what was found and is not planned, and why.
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

    @property
    def planned(self) -> Count:
        """Segments and bytes of all reasons together."""
        counts = self.by_reason.values()
        return Count(sum(c.segments for c in counts), sum(c.bytes for c in counts))

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

    def to_json(self) -> str:
        """Return the document; keys of JSON objects are strings."""
        return json.dumps(asdict(self), indent=2, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> PlanSummary:
        """
        Read the document.

        :param text: what :meth:`to_json` returned.
        :raises PlanError: if a field is missing or of the wrong kind.
        """
        try:
            raw: dict[str, Any] = json.loads(text)
            values = {f.name: raw[f.name] for f in fields(cls)}
            values["read_until"] = {int(k): int(v) for k, v in raw["read_until"].items()}
            values["quarantined"] = {int(k): int(v) for k, v in raw["quarantined"].items()}
            values["refusals"] = tuple(Refusal(**r) for r in raw["refusals"])
            values["known"] = Count(**raw["known"])
            values["by_reason"] = {k: Count(**v) for k, v in raw["by_reason"].items()}
            values["by_metadata_partition"] = {int(k): Count(**v) for k, v in raw["by_metadata_partition"].items()}
        except (ValueError, KeyError, TypeError, AttributeError) as e:
            raise PlanError(f"plan summary cannot be read ({type(e).__name__}: {e}); make a new plan") from e
        return cls(**values)
