# SPDX-License-Identifier: Apache-2.0
"""What is counted while remote logs are read and copied, under the names of Kafka's own metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from threading import Lock

__all__ = ["RemoteLogMetric", "RemoteLogMetrics"]


class RemoteLogMetric(StrEnum):
    """Names of ``kafka.server:type=BrokerTopicMetrics``; a broker tells rates, here it is the sum since the beginning."""

    FETCH_BYTES = "RemoteFetchBytesPerSec"
    """Bytes of logs that were fetched."""
    FETCH_REQUESTS = "RemoteFetchRequestsPerSec"
    """Requests for parts of logs, those that failed among them."""
    FETCH_ERRORS = "RemoteFetchErrorsPerSec"
    """Requests for parts of logs that failed."""
    COPY_BYTES = "RemoteCopyBytesPerSec"
    """Bytes of logs that were copied."""
    COPY_REQUESTS = "RemoteCopyRequestsPerSec"
    """Segments whose copy was begun."""
    COPY_ERRORS = "RemoteCopyErrorsPerSec"
    """Segments whose copy failed."""
    COPY_LAG_BYTES = "RemoteCopyLagBytes"
    """Bytes of logs that are still to be copied: a level, not a sum."""
    COPY_LAG_SEGMENTS = "RemoteCopyLagSegments"
    """Segments that are still to be copied: a level, not a sum."""


class RemoteLogMetrics:
    """Counts for one reader or copier, or for all of a process; safe under threads."""

    def __init__(self) -> None:
        self._values: Counter[RemoteLogMetric] = Counter()
        self._lock = Lock()

    def mark(self, metric: RemoteLogMetric, amount: int = 1) -> None:
        """
        Add to a sum.

        :param metric: which.
        :param amount: how much.
        """
        with self._lock:
            self._values[metric] += amount

    def set(self, metric: RemoteLogMetric, value: int) -> None:
        """
        Say what a level is now.

        :param metric: which.
        :param value: the level.
        """
        with self._lock:
            self._values[metric] = value

    def values(self) -> Mapping[RemoteLogMetric, int]:
        """Return all metrics as of now; what was never counted is 0."""
        with self._lock:
            return {metric: self._values[metric] for metric in RemoteLogMetric}
