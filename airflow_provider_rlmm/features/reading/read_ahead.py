# SPDX-License-Identifier: Apache-2.0
"""
Fetches the next part of a remote log while the part before it is read: of the same segment, or of the one that follows.

One part is fetched ahead and no more, of at most as many bytes as are fetched at once. What goes wrong with it is raised
where it is taken, as an error of the segment that it belongs to; of what is not taken nothing is said.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from airflow_provider_rlmm.core.base.background import begun
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata


@dataclass(frozen=True, slots=True)
class LogPart:
    """Some bytes of a log."""

    start: int  # position of the first one
    data: bytes  # they


class ReadAhead:
    """Holds the part that is fetched ahead; for one read, in one thread. Each part is fetched in a thread of its own."""

    def __init__(self) -> None:
        self._segment: RemoteLogSegmentMetadata | None = None
        self._part: Future[LogPart] = Future()
        self.has_begun = False
        """Whether a part was ever fetched ahead: who reads on that far wants all that there is."""

    def begin(self, metadata: RemoteLogSegmentMetadata, fetch: Callable[[], LogPart]) -> None:
        """
        Begin to fetch a part. One that was not taken is let go.

        :param metadata: the segment that it belongs to.
        :param fetch: fetches it, in another thread; within the quota, and again where the storage does not answer.
        """
        self._segment, self._part, self.has_begun = metadata, begun(fetch, "rlmm read-ahead"), True

    def await_part(self, metadata: RemoteLogSegmentMetadata) -> None:
        """
        Wait for the part that is fetched ahead, if it is of a segment; another one's is let go.

        :param metadata: the segment that is read now.
        :raises RlmmError: what was raised while it was fetched; it is forgotten then.
        """
        if self._segment == metadata:
            try:
                self._part.result()
            except BaseException:
                self._segment = None
                raise
        else:
            self._segment = None

    def take(self, metadata: RemoteLogSegmentMetadata, start: int) -> LogPart | None:
        """
        Return the part that was fetched ahead, ``None`` where that is another one.

        :param metadata: the segment that is read now.
        :param start: the position at which its next part begins.
        :raises RlmmError: what was raised while it was fetched.
        """
        self.await_part(metadata)
        if self._segment is None:
            return None
        self._segment = None
        part = self._part.result()
        return part if part.start == start else None
