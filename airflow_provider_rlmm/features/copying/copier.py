# SPDX-License-Identifier: Apache-2.0
"""
Copies closed segments of a log directory into remote storage, as the leader would (Kafka: ``RemoteLogManager.RLMCopyTask``).

It is the one part of this package that writes about living topics. So it looks before every step and believes nothing for
long: the metadata topic is read up to its high watermark, *then* the leader is asked, and the write guard judges each event
by both. Segments are copied strictly ascending; the run ends at the first that is missing, damaged or failed.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from airflow_provider_rlmm.core.base.errors import (
    CopyRefusedError,
    PublishOutcomeUnknownError,
    RlmmError,
    StorageRootError,
)
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.core.segments.metrics import RemoteLogMetric
from airflow_provider_rlmm.features.copying.copy_context import CopyContext
from airflow_provider_rlmm.features.copying.copy_hole import hole_ahead
from airflow_provider_rlmm.features.copying.copy_report import CopyReport
from airflow_provider_rlmm.features.copying.copy_situation import CopySituation
from airflow_provider_rlmm.features.copying.copy_source import CopySource
from airflow_provider_rlmm.features.copying.copy_writer import CopyWriter
from airflow_provider_rlmm.features.copying.rules import lease_text
from airflow_provider_rlmm.features.copying.segment_copy import SegmentCopier

logger = logging.getLogger(__name__)


class RemoteLogCopier:
    """
    Copies the log directories of user partitions, one after the other.

    :param context: what it works with; used by one copier, in one thread.
    :param writer: what writes.
    """

    def __init__(self, context: CopyContext, writer: CopyWriter) -> None:
        self._context = context
        self._writer = writer

    def copy(self, source: CopySource) -> CopyReport:
        """
        Copy what may be copied of a log directory.

        :return: what was done. What ends the run after it began is told there, and nowhere raised.
        :raises WritesNotAllowedError: if ``allow_writes`` or ``allow_copy`` is off.
        :raises CopyRefusedError: if nothing of the user partition may be copied; the message says why.
        :raises TopicInDoubtError: if the metadata topic cannot tell what is copied already.
        :raises EventLogError: if metadata topic or leader cannot be asked.
        :raises StorageError: if the storage root is not proven to be the one that the brokers read.
        :raises LogDirectoryError: if the directory cannot be used.
        """
        self._writer.require_copying(f"copy segments of {source.topic_id_partition}")
        self._context.require_layout(source.topic_id_partition)
        work = _Work(SegmentCopier(self._context, source, self._writer))
        situation = work.copier.first_look()
        self._prove_root(situation)
        try:
            work.end = self._copy_all(work)
        except (RlmmError, OSError) as e:
            logger.warning("Copying %s ended: %s", source.topic_id_partition, e)
            passes = isinstance(e, PublishOutcomeUnknownError) or (isinstance(e, RlmmError) and e.retriable)
            work.end = _End(f"{type(e).__name__}: {e}", needs_person=not passes)
        return self._report(work, situation)

    def _copy_all(self, work: _Work) -> _End:
        for metadata in work.copier.replay.unsettled_copies():
            if not self._context.limits.is_abandoned(metadata.event_timestamp_ms, self._context.clock()):
                return _End(lease_text(metadata, self._context.limits), needs_person=False)
            work.copier.take_back(metadata)
        limit = self._context.limits.max_segments
        while limit is None or len(work.copied) < limit:
            if (why := self._context.gate.why_stopped()) is not None:
                return _End(why, needs_person=True)
            situation = work.copier.look()
            found = situation.candidates()
            self._note_lag(situation)
            if not found.segments:
                obstacle = situation.obstacle() or found.obstacle
                return _End(obstacle, needs_person=obstacle is not None)
            segment = found.segments[0]
            if work.copied and segment.base_offset <= work.copied[-1].start_offset:
                raise CopyRefusedError(
                    f"{segment} is not in remote storage though it was copied: look at its leader epochs"
                )
            is_last = len(found.segments) == 1 or len(work.copied) + 1 == limit
            work.copied.append(work.copier.copy(segment, situation, None if is_last else found.segments[1]))
        return _End(f"max_segments is {limit}: the next run goes on", needs_person=False)

    def _note_lag(self, situation: CopySituation) -> None:
        remote_end = situation.remote_end
        left = [s for s in situation.directory.segments if s.end_offset >= remote_end]
        self._context.metrics.set(RemoteLogMetric.COPY_LAG_SEGMENTS, len(left))
        self._context.metrics.set(RemoteLogMetric.COPY_LAG_BYTES, sum(segment.size_in_bytes for segment in left))

    def _prove_root(self, situation: CopySituation) -> None:
        """Refuse a storage of which nothing shows that the brokers read it: what is copied elsewhere is lost to them."""
        storage, tip = self._context.storage, situation.directory.topic_id_partition
        check = storage.check_root(frozenset({tip.topic_id}), self._context.cluster_id, self._context.root)
        if not check.verified:
            raise StorageRootError(
                f"{tip}: nothing shows that the brokers read this storage: {check.reason}; set expected_root of the rlmm "
                "connection to what its test prints, once it is certain that remote.log.storage.manager of the brokers has "
                "the same storage, prefix and layout"
            )
        copied = [
            metadata
            for metadata in situation.cache.list_remote_log_segments()
            if metadata.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED
        ]
        if not copied:
            return
        newest = max(copied, key=lambda metadata: metadata.end_offset)
        if missing := storage.missing_keys(storage.layout.required_keys(newest)):
            raise StorageRootError(
                f"{tip}: the newest copy that the metadata topic names is not in this storage, {min(missing)} is missing: "
                "it is not the one that the brokers read"
            )

    def _report(self, work: _Work, situation: CopySituation) -> CopyReport:
        tip, ends = situation.directory.topic_id_partition, [work.end]
        try:
            situation = work.copier.look()
        except RlmmError as e:
            logger.warning("How far %s is copied cannot be told: %s", tip, e)
            ends.append(_End(f"how far it is copied cannot be told: {e}", needs_person=not e.retriable))
        expiring, hole = situation.candidates().expiring, situation.hole()
        if (ahead := hole_ahead(tip.topic, tip.partition, expiring, hole)) is not None:
            ends.insert(0, _End(ahead, needs_person=True))
        return CopyReport(
            topic_id_partition=tip,
            copied=tuple(work.copied),
            taken_back=tuple(work.copier.taken_back),
            expiring=expiring,
            hole=hole,
            remote_end=situation.remote_end,
            stopped_by="; ".join(end.why for end in ends if end.why is not None) or None,
            needs_person=any(end.needs_person for end in ends),
        )


@dataclass(frozen=True, slots=True)
class _End:
    why: str | None
    needs_person: bool


@dataclass(slots=True)
class _Work:
    """The run on one user partition."""

    copier: SegmentCopier
    copied: list[RemoteLogSegmentMetadata] = field(default_factory=list)
    end: _End = field(default_factory=lambda: _End(None, needs_person=False))
