# SPDX-License-Identifier: Apache-2.0
"""
Which segments are still there long after their leader should have deleted them: its expiration is stuck. And which leaders
have stopped copying.

A leader whose expiration task has ended with an error says so in its log only, and its topic grows for good. What goes for
certain in one run and is still there in a run some hours later, under the same settings, shows it. So each run remembers
since when segments are due.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final

from airflow_provider_rlmm.core.base import strict_json
from airflow_provider_rlmm.core.base.clock import HOUR_MS
from airflow_provider_rlmm.core.base.documents import AbsentAs, Text, plain_of, reader_of
from airflow_provider_rlmm.core.base.errors import PlanError
from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.features.retention.hanging_copies import (
    HangingCopies,
    WaitingCopies,
    away_from,
    patience_ms,
    waiting_now,
)
from airflow_provider_rlmm.features.retention.leader_pass import PartitionPass

LATE_MS: Final = 6 * HOUR_MS
"""A segment that was due so long ago, and is there, is overdue."""

LATE_PASSES: Final = 3
"""Not before its leader has had time for so many passes, though."""

TASK_INTERVAL: Final = "remote.log.manager.task.interval.ms"
"""Kafka's name of the broker setting that says how often a leader passes."""

_FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class DuePartition:
    """What is remembered of one user partition."""

    retention_ms: Annotated[int, strict_json.signed]  # of its topic, negative for unlimited
    retention_bytes: Annotated[int, strict_json.signed]  # likewise
    since_ms: Mapping[Text, int] = field(default_factory=dict)  # segment id → when it was first seen to be due
    # Of its leader, where it is behind with copying.
    waiting: Annotated[WaitingCopies | None, AbsentAs(None)] = None


@dataclass(frozen=True, slots=True)
class DueSegments:
    """What runs remember of one topic."""

    topic_id: Text  # in Kafka's text form
    partitions: Mapping[int, DuePartition] = field(default_factory=dict)  # by user partition

    def to_json(self) -> str:
        """Return the document."""
        return json.dumps(strict_json.sealed(plain_of(self), _FORMAT), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> DueSegments:
        """
        Read the document.

        :param text: what :meth:`to_json` returned.
        :raises PlanError: if it is not.
        """
        try:
            return _READ(strict_json.unsealed(text, _FORMAT), "due segments")
        except ValueError as e:
            raise PlanError(f"what earlier runs have seen to be due cannot be read ({e}); remove the file") from e


@dataclass(frozen=True, slots=True)
class Overdue:
    """
    Segments that a leader should have deleted.

    :param partition: the user partition.
    :param count: how many, and their bytes.
    :param since_ms: when the first of them was seen to be due, ms since the epoch.
    :param leader: id of the broker that leads the partition, ``None`` where it was not told.
    """

    partition: int
    count: Count
    since_ms: int
    leader: int | None

    @property
    def what_to_do(self) -> str:
        """What a person can do about it."""
        return f"{away_from(self.leader)}, which begins its task anew"


def remembered(found: PartitionPass, before: DuePartition | None, now_ms: int) -> DuePartition | None:
    """
    Return what is to be remembered of a user partition: since when each segment is due that goes for certain, and since when
    its leader is behind with copying.

    Of what is due other settings begin anew. ``None`` where nothing is told of it now: what was known stays.

    :param found: what its leader deletes now.
    :param before: what is remembered.
    :param now_ms: the time, ms since the epoch.
    """
    if found.expired is None or found.configs is None:
        return None
    retention_ms, retention_bytes = found.configs.retention_ms, found.configs.retention_bytes
    same = before is not None and (before.retention_ms, before.retention_bytes) == (retention_ms, retention_bytes)
    known = before.since_ms if before is not None and same else {}
    due = (str(one.segment.remote_log_segment_id.id) for one in found.expired if one.exact)
    return DuePartition(
        retention_ms,
        retention_bytes,
        {segment: min(known.get(segment, now_ms), now_ms) for segment in due},
        waiting_now(found.copies, None if before is None else before.waiting, now_ms),
    )


def overdue_of(found: PartitionPass, known: DuePartition | None, passed_ms: int, interval_ms: int) -> Overdue | None:
    """
    Return what a leader should have deleted long ago, ``None`` where there is nothing.

    :param found: what it deletes now.
    :param known: what is remembered, this run's included.
    :param passed_ms: a time that has passed for certain, ms since the epoch.
    :param interval_ms: between two passes of a leader, ms.
    """
    if found.expired is None or known is None:
        return None
    late_ms = passed_ms - max(LATE_MS, LATE_PASSES * interval_ms)
    late = [
        (since_ms, one.segment.segment_size_in_bytes)
        for one in found.expired
        if (since_ms := known.since_ms.get(str(one.segment.remote_log_segment_id.id))) is not None
        and since_ms <= late_ms
    ]
    if not late:
        return None
    count = Count(len(late), sum(size for _, size in late))
    return Overdue(found.topic_id_partition.partition, count, min(since for since, _ in late), found.leader)


def hanging_of(found: PartitionPass, known: DuePartition | None, passed_ms: int) -> HangingCopies | None:
    """
    Return since when a leader has stopped copying; ``None`` where it has not, or it cannot be told when a copy is due.

    :param found: how far it has copied now.
    :param known: what is remembered, this run's included.
    :param passed_ms: a time that has passed for certain, ms since the epoch.
    """
    if found.copies is None or found.configs is None:
        return None
    waiting, patience = known.waiting if known is not None else None, patience_ms(found.configs)
    # What is remembered of this run says that it is behind, or was and it is not told that this has ended.
    if waiting is None or waiting.copied_to != found.copies.copied_to:
        return None
    if patience is None or passed_ms - waiting.since_ms < patience:
        return None
    return HangingCopies(found.topic_id_partition.partition, found.copies, waiting.since_ms, found.leader)


_READ = reader_of(DueSegments)
