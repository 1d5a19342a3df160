# SPDX-License-Identifier: Apache-2.0
"""What a copier copies from: the closed segments of a log directory, and single records that a leader must have, too."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from airflow_provider_rlmm.core.base.background import begun
from airflow_provider_rlmm.core.base.errors import DamagedObjectError, LogDirectoryError
from airflow_provider_rlmm.core.log.answers import LeaderRecord
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.core.storage.segment_files import LogSegmentData
from airflow_provider_rlmm.features.copying.copy_situation import DirectoryFacts
from airflow_provider_rlmm.features.copying.log_directory.lineage_records import last_records_of_epochs
from airflow_provider_rlmm.features.copying.log_directory.log_end import end_without_leader
from airflow_provider_rlmm.features.copying.log_directory.partition import LogDirectory
from airflow_provider_rlmm.features.copying.log_directory.verification import verify_segment
from airflow_provider_rlmm.features.copying.rules import LocalSegment


@dataclass(frozen=True, slots=True)
class ReadyCopy:
    """
    A segment that was verified, ready to be copied.

    :param segment: what its announcement says.
    :param data: its files.
    :param check_unchanged: raises a :class:`~airflow_provider_rlmm.core.base.errors.LogDirectoryError` if they have
        changed since.
    """

    segment: LocalSegment
    data: LogSegmentData
    check_unchanged: Callable[[], object]


class CopySource(Protocol):
    """
    A log directory as a copier sees it.

    Its methods raise :class:`~airflow_provider_rlmm.core.base.errors.LogDirectoryError` where a file is missing or has
    changed, and :class:`~airflow_provider_rlmm.core.base.errors.DamagedObjectError` where one is damaged.
    """

    @property
    def topic_id_partition(self) -> TopicIdPartition:
        """Whose directory it is."""

    def facts(self) -> DirectoryFacts:
        """Return what the directory says of its user partition."""

    def verify(self, segment: LocalSegment) -> ReadyCopy:
        """
        Read a segment whole and compare its files with each other.

        :param segment: one of the closed segments.
        """

    def expect(self, segment: LocalSegment) -> None:
        """
        Say which segment is likely to be verified next, so that it may be begun while another one is copied.

        It raises nothing: what goes wrong is raised by :meth:`verify` of that segment.

        :param segment: one of the closed segments.
        """

    def last_records(self, start_offset: int, end_offset: int) -> tuple[LeaderRecord, ...]:
        """
        Return the last record of each leader epoch between two offsets, ascending; control records do not count.

        :param start_offset: first offset, inclusive.
        :param end_offset: last offset, exclusive; the active segment counts, too.
        """


class DirectorySource:
    """
    A :class:`CopySource` of a broker's log directory.

    :param directory: the directory, of a snapshot that no broker changes.
    """

    def __init__(self, directory: LogDirectory) -> None:
        self._directory = directory
        self._segments = {segment.base_offset: segment for segment in directory.closed_segments}
        self._expected: tuple[LocalSegment, Future[ReadyCopy]] | None = None

    @property
    def topic_id_partition(self) -> TopicIdPartition:
        """See :class:`CopySource`."""
        return self._directory.topic_id_partition

    def facts(self) -> DirectoryFacts:
        """See :class:`CopySource`."""
        directory = self._directory
        wanted = [s for s in directory.closed_segments if s.end_offset >= directory.log_start_offset]
        return DirectoryFacts(
            topic_id_partition=directory.topic_id_partition,
            leader_epochs=directory.leader_epochs,
            segments=tuple(directory.local_segment(segment) for segment in wanted),
            log_start_offset=directory.log_start_offset,
            active_base_offset=directory.active_base_offset,
            committed_end=self._committed_end(),
        )

    def _committed_end(self) -> int | None:
        try:
            return end_without_leader(self._directory)
        except (LogDirectoryError, DamagedObjectError):
            return None  # it matters only where no leader can be asked, and then nothing is copied

    def verify(self, segment: LocalSegment) -> ReadyCopy:
        """See :class:`CopySource`."""
        expected, self._expected = self._expected, None
        if expected is not None and expected[0] == segment:
            return expected[1].result()
        return self._verified(segment)

    def expect(self, segment: LocalSegment) -> None:
        """See :class:`CopySource`; no call waits for what is not asked for any more."""
        self._expected = segment, begun(partial(self._verified, segment), "rlmm verification")

    def _verified(self, segment: LocalSegment) -> ReadyCopy:
        verified = verify_segment(self._directory, self._segments[segment.base_offset])
        if verified.local_segment != segment:
            raise LogDirectoryError(
                f"{self._directory.path}: {segment} is not what it was: a program changes the directory; begin again with "
                "a new snapshot"
            )
        return ReadyCopy(verified.local_segment, verified.data, verified.segment.check_unchanged)

    def last_records(self, start_offset: int, end_offset: int) -> tuple[LeaderRecord, ...]:
        """See :class:`CopySource`."""
        return last_records_of_epochs(self._directory, log_start_offset=start_offset, end_offset=end_offset)
