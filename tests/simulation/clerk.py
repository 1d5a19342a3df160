# SPDX-License-Identifier: Apache-2.0
"""
The kill switch and the audit log of a world: who switches, what cannot be written down, and the judge of both.

They have dice of their own, so that the stories without them stay what they were.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID

from airflow_provider_rlmm.core.base.errors import AuditError
from airflow_provider_rlmm.core.plans.refusals import RefusalKind
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentId
from airflow_provider_rlmm.features.cleanup.reports import MetadataPartitionReport

if TYPE_CHECKING:
    from tests.simulation.witness import Process

Segment = tuple[UUID, int, UUID]
"""Topic id, user partition, segment id."""


class CrashError(Exception):
    """The process is gone; nothing after this effect happens."""


@dataclass
class Trail:
    """
    What a task has written down about its present batch, and when it asked for the switch.

    :param stopped: whether it was told to stop.
    :param begun: segments of the batch that is written down and not ended.
    :param lacks_end: whether the end of a batch could not be written.
    :param since_asked: segments that were deleted from since it asked last.
    """

    stopped: bool = False
    begun: set[Segment] = field(default_factory=set)
    lacks_end: bool = False
    since_asked: set[RemoteLogSegmentId] = field(default_factory=set)

    def judge(self, name: str, detail: object) -> None:
        """Judge an effect that changes something."""
        assert name == "commit" or not self.stopped, f"I16: {name} {detail} though the switch is on"

    def judge_deletion(self, key: str, segment: RemoteLogSegmentId, most: int) -> None:
        """Judge that an object goes."""
        tip = segment.topic_id_partition
        written = (tip.topic_id, tip.partition, segment.id) in self.begun
        assert written, f"I15: {key} goes, and nothing was written down before"
        self.since_asked.add(segment)
        assert len(self.since_asked) <= most, "I16: more than a batch deleted since it asked for the switch"

    def check_ended(self, report: MetadataPartitionReport | None = None) -> None:
        """Judge the end of a task that did not crash."""
        assert not self.begun, f"I15: nothing says what became of {self.begun}"
        if report is not None:
            told = any(refusal.kind is RefusalKind.AUDIT for refusal in report.refusals)
            assert told == self.lacks_end, f"I15: {report.refusals}, and an end was not written: {self.lacks_end}"


class Clerk:
    """
    :param seed: of the world.
    :param happened: what has happened in it.
    :param calm: nothing goes wrong.
    """

    def __init__(self, seed: int, happened: Counter[str], *, calm: bool) -> None:
        self._random = random.Random(seed + 3_000_017)
        self._happened = happened
        used = not calm and self._random.random() < 0.25
        self._switch_rate = self._random.choice([0.0, 0.1, 0.3]) if used else 0.0
        self._fault_rate = self._random.choice([0.0, 0.05, 0.3]) if used else 0.0
        self._crash_rate = self._random.choice([0.0, 0.0, 0.1]) if used else 0.0
        self._on = False

    def end_trouble(self) -> None:
        """Let nothing go wrong any more; the switch is put back."""
        self._switch_rate = self._fault_rate = self._crash_rate = 0.0
        self._on = False

    def should_stop(self, process: Process) -> str | None:
        """Answer a task that asks; somebody may just have switched."""
        if self._switch_rate and self._random.random() < self._switch_rate:
            self._on = not self._on
            self._happened["switched on" if self._on else "switched off"] += 1
        process.trail.since_asked.clear()
        process.trail.stopped = self._on
        if not self._on:
            return None
        self._happened["stopped"] += 1
        return "the switch is on"

    def write_down(self, process: Process, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Keep what a task writes down, unless the disk is full or the task dies."""
        assert not process.dry_run, f"a dry run does {name}"
        trail = process.trail
        segments = {(UUID(bytes=r["topic_id"]), r["partition"], UUID(bytes=r["segment_id"])) for r in rows}
        assert len(segments) == len(rows), f"I15: a segment is written down twice: {rows}"
        self._crash(name)
        fails = self._random.random() < self._fault_rate if self._fault_rate else False
        if name == "audit after":
            assert segments == trail.begun, f"I15: {segments} end, {trail.begun} were begun"
            trail.begun = set()
            trail.lacks_end |= fails
        elif not fails:
            assert not trail.begun, f"I15: nothing says what became of {trail.begun}"
            assert all(row["started_offset"] is not None for row in rows), f"I15: no offset says who started {rows}"
            trail.begun = segments
        if fails:
            self._happened[f"fault at {name}"] += 1
            raise AuditError(f"{name}: the disk is full")
        self._crash(name)

    def _crash(self, name: str) -> None:
        if self._crash_rate and self._random.random() < self._crash_rate:
            self._happened[f"crash at {name}"] += 1
            raise CrashError(f"{name}")
