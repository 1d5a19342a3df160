# SPDX-License-Identifier: Apache-2.0
"""What became of the user partitions of a disk, or would: per partition, and of the topic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_rlmm.features.copying.copy_hole import hole_ahead
from airflow_provider_rlmm.features.copying.copy_report import CopyReport, expiring_json, hole_json
from airflow_provider_rlmm.features.copying.rules import Candidates, CopyHole, CopyLimits, LocalSegment


@dataclass(frozen=True, slots=True)
class PartitionCopy:
    """What became of one user partition of a disk."""

    topic: str  # its name
    partition: int  # of the topic
    report: CopyReport | None = None  # what was copied, ``None`` where nothing was begun
    planned: Candidates | None = None  # what a dry run would copy
    refused: str | None = None  # why nothing of it may be copied
    wrong_root: str | None = None  # in a dry run, why the storage root would be refused; ``None`` where it would not

    @property
    def segments(self) -> int:
        """How many segments were copied, or would be."""
        if self.report is not None:
            return len(self.report.copied)
        return 0 if self.planned is None else len(self.planned.segments)

    @property
    def bytes(self) -> int:
        """The bytes of their logs."""
        if self.report is not None:
            return self.report.copied_bytes
        return 0 if self.planned is None else sum(s.size_in_bytes for s in self.planned.segments)

    @property
    def expiring(self) -> Sequence[LocalSegment]:
        """The segments that were left out, or would be, as the leader is about to delete them."""
        found = self.report or self.planned
        return () if found is None else found.expiring

    @property
    def hole(self) -> CopyHole | None:
        """The offsets that brokers would pass over after this run, ``None`` where there are none."""
        found = self.report or self.planned
        return None if found is None else found.hole

    @property
    def hole_ahead(self) -> str | None:
        """What must not be done before the leader has deleted what is not copied, ``None`` where brokers may go on."""
        return hole_ahead(self.topic, self.partition, self.expiring, self.hole)

    @property
    def needs_person(self) -> bool:
        """Whether a person has to do something, or to leave something alone; a dry run says it as the copy would."""
        return self.stopped_by is not None if self.report is None else self.report.needs_person

    @property
    def stopped_by(self) -> str | None:
        """Why not all was copied that may be, and what must wait for the leader; ``None`` where nothing is left to do."""
        if self.report is not None:
            return self.report.stopped_by
        if self.planned is None:
            return self.refused
        reasons = (self.wrong_root, self.hole_ahead, self.planned.obstacle)
        return "; ".join(why for why in reasons if why is not None) or None

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON types."""
        found: dict[str, Any] = {"partition": self.partition, "refused": self.refused}
        if self.planned is not None:
            found["planned"] = [
                {"start_offset": s.base_offset, "end_offset": s.end_offset, "segment_size_in_bytes": s.size_in_bytes}
                for s in self.planned.segments
            ]
            found["expiring"] = expiring_json(self.expiring)
            found["hole"] = hole_json(self.hole)
            found |= {"stopped_by": self.stopped_by, "needs_person": self.needs_person}
        return {**found, **(self.report.to_json() if self.report else {})}


@dataclass(frozen=True, slots=True)
class TopicCopy:
    """What became of all user partitions of a topic that lie on a disk."""

    topic: str
    dry_run: bool  # whether nothing was changed
    partitions: tuple[PartitionCopy, ...]  # by number

    @property
    def segments(self) -> int:
        """How many segments were copied, or would be."""
        return sum(p.segments for p in self.partitions)

    @property
    def bytes(self) -> int:
        """The bytes of their logs."""
        return sum(p.bytes for p in self.partitions)

    @property
    def expiring(self) -> int:
        """How many segments were left out, or would be, as their leaders are about to delete them."""
        return sum(len(p.expiring) for p in self.partitions)

    def unfinished(self, limits: CopyLimits) -> list[PartitionCopy]:
        """Return the partitions of which a later run may copy more, those that ended at ``max_segments`` not among them."""
        return [
            p
            for p in self.partitions
            if p.report and p.stopped_by and not p.needs_person and len(p.report.copied) != limits.max_segments
        ]

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON types."""
        return {
            "topic": self.topic,
            "dry_run": self.dry_run,
            "segments": self.segments,
            "bytes": self.bytes,
            "expiring": self.expiring,
            "partitions": [p.to_json() for p in self.partitions],
        }
