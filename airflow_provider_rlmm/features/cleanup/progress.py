# SPDX-License-Identifier: Apache-2.0
"""
Says how far the cleaning of a metadata partition is, for people who watch: a small document in the folder of the run.

It is written now and then and never waited for. Where it cannot be written the log says so, and the cleaning goes on.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Self

from airflow_provider_rlmm.core.base.clock import Clock, monotonic_clock, system_clock
from airflow_provider_rlmm.core.base.quoting import printable
from airflow_provider_rlmm.core.plans.plan_files import write_document
from airflow_provider_rlmm.core.plans.refusals import Refusal, RefusalKind
from airflow_provider_rlmm.features.cleanup.cleaning_progress import (
    MAX_PROGRESS_REFUSALS,
    CleaningProgress,
    Left,
    ProgressState,
    progress_name,
)
from airflow_provider_rlmm.features.cleanup.partition_work import UserPartitionWork

logger = logging.getLogger(__name__)

EVERY_MS = 2_000
"""How often the document is replaced, ms, at most."""

AFTER_A_FAILURE_MS = 60_000
"""For how long nothing is written after a try that failed, ms: a store that hangs must not slow the cleaning down."""

RATE_MS = 60_000
"""Over which time the rate is measured, ms."""

_MAX_TEXT = 500


class ProgressWriter:
    """
    Writes the document of one try.

    :param uri: of the folder of the run.
    :param artifact: name of the run.
    :param metadata_partition: which one is cleaned.
    :param dry_run: whether the task changes nothing.
    :param clock: time, for the document.
    :param monotonic: a clock that is never set, ms.
    :param write: writes a text document; by default into the folder.
    """

    def __init__(
        self,
        uri: str,
        artifact: str,
        metadata_partition: int,
        *,
        dry_run: bool,
        clock: Clock = system_clock,
        monotonic: Clock = monotonic_clock,
        write: Callable[[str, str, str], object] = write_document,
    ) -> None:
        self._uri = uri
        self._clock = clock
        self._monotonic = monotonic
        self._write = write
        self._works: Sequence[UserPartitionWork] = ()
        self._next_ms = 0
        self._objects: deque[tuple[int, int]] = deque()
        began_at_ms = clock()
        self._begun = CleaningProgress(
            artifact=artifact,
            metadata_partition=metadata_partition,
            dry_run=dry_run,
            began_at_ms=began_at_ms,
            updated_at_ms=began_at_ms,
            segments_total=0,
            segments_done=0,
            bytes_total=0,
            bytes_done=0,
            objects_per_second=0.0,
            partitions_total=0,
            partitions_done=0,
            refused=(),
            state=ProgressState.RUNNING,
        )

    def __call__(self, works: Sequence[UserPartitionWork]) -> None:
        """
        Note how far the work is, and write it where it is time to.

        :param works: on all user partitions.
        """
        now_ms, self._works = self._monotonic(), works
        self._note_objects(now_ms, sum(work.objects for work in works))
        if now_ms < self._next_ms:
            return
        self._keep(ProgressState.RUNNING)

    def __enter__(self) -> Self:
        """Say that the task works: to find out what is to be done may take a while."""
        if self._keep(ProgressState.RUNNING):
            # What is to be done is told as soon as it is known.
            self._next_ms = self._monotonic()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Say that the try has ended, and how; where it was interrupted from outside, nothing is written any more."""
        if kind is not None and not issubclass(kind, Exception):
            return
        self._keep(ProgressState.FAILED if kind else ProgressState.ENDED)

    def _note_objects(self, now_ms: int, objects: int) -> None:
        self._objects.append((now_ms, objects))
        while len(self._objects) > 2 and self._objects[1][0] <= now_ms - RATE_MS:
            self._objects.popleft()

    def _rate(self) -> float:
        if len(self._objects) < 2:
            return 0.0
        (first_ms, before), (last_ms, now) = self._objects[0], self._objects[-1]
        return (now - before) / max(1, last_ms - first_ms) * 1000

    def _keep(self, state: ProgressState) -> bool:
        number = self._begun.metadata_partition
        try:
            self._write(self._uri, progress_name(number), self._progress(state).to_json())
            self._next_ms = self._monotonic() + EVERY_MS
        except Exception as e:
            # Nothing that is for people only may end what deletes.
            logger.warning("metadata partition %d: how far it is cannot be written: %s", number, e)
            self._next_ms = self._monotonic() + AFTER_A_FAILURE_MS
            return False
        return True

    def _progress(self, state: ProgressState) -> CleaningProgress:
        works = self._works
        taken = [work for work in works if work.eligibility.refused is None]
        segments = [metadata for work in taken for metadata in work.eligibility.segments]
        refused = (r for work in works for r in work.refusals() if r.kind is not RefusalKind.WAITING)
        return replace(
            self._begun,
            updated_at_ms=max(self._begun.began_at_ms, self._clock()),
            segments_total=len(segments),
            segments_done=sum(work.segments for work in works),
            bytes_total=sum(metadata.segment_size_in_bytes for metadata in segments),
            bytes_done=sum(work.segment_bytes for work in works),
            objects_per_second=round(self._rate(), 3) if state is ProgressState.RUNNING else 0.0,
            partitions_total=len(taken),
            partitions_done=sum(work.finished for work in works),
            refused=tuple(map(_left, islice(refused, MAX_PROGRESS_REFUSALS))),
            state=state,
        )


def _left(refusal: Refusal) -> Left:
    return Left(
        printable(refusal.what, _MAX_TEXT), printable(refusal.why, _MAX_TEXT), printable(refusal.what_to_do, _MAX_TEXT)
    )
