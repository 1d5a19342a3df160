# SPDX-License-Identifier: Apache-2.0
"""
How long the leaders of a topic wait before they copy a closed segment (KIP-1241, Kafka 4.4 and newer), and when a copy hangs.

A leader copies it at once where either setting is 0, which is the default. Else it copies it when one of the two is reached;
-1 stands for local retention, and where that is unlimited nothing is reached by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from airflow_provider_rlmm.core.base.clock import HOUR_MS

LAG_MS: Final = "remote.copy.lag.ms"
LAG_BYTES: Final = "remote.copy.lag.bytes"
LOCAL_RETENTION_MS: Final = "local.retention.ms"
LONGEST_HANG_MS: Final = 4 * HOUR_MS
"""After that time a copy hangs, however long local segments are kept."""

AS_REMOTE: Final = -2
"""Of ``local.retention.ms``: local segments are kept as long as remote ones."""

_SHORTEST_HANG_MS: Final = HOUR_MS // 4
_AT_LOCAL_RETENTION: Final = -1


@dataclass(frozen=True, slots=True)
class CopyLag:
    """
    The copy lag of a topic.

    :param ms: ``remote.copy.lag.ms``, ms since a segment's latest record.
    :param size_in_bytes: ``remote.copy.lag.bytes``, bytes of newer local log behind a segment.
    :param why_unknown: why the two cannot be told, empty where they are known.
    """

    ms: int = 0
    size_in_bytes: int = _AT_LOCAL_RETENTION
    why_unknown: str = ""

    @property
    def copies_at_once(self) -> bool:
        """Whether a segment is surely copied as soon as it is closed."""
        return not self.why_unknown and 0 in (self.ms, self.size_in_bytes)

    def __str__(self) -> str:
        if self.why_unknown:
            return f"whether it has a copy lag is not known: {self.why_unknown}"
        if self.copies_at_once:
            return "copied as soon as a segment is closed"
        settings = f"{LAG_MS}={self.ms}, {LAG_BYTES}={self.size_in_bytes}"
        if (self.ms, self.size_in_bytes) == (_AT_LOCAL_RETENTION, _AT_LOCAL_RETENTION):
            return f"copied only when local retention is reached: {settings}"
        return f"copied late: {settings}"


NO_LAG: Final = CopyLag()
"""What brokers have that do not know the settings, and others unless they were set."""


def copy_lag_of(settings: Mapping[str, int | bool | str | None]) -> CopyLag:
    """
    Return the copy lag that the settings of a topic say.

    :param settings: Kafka's name of a setting → its effective value, of all that the broker lists: one that it does not list
        it does not know, and it has no lag then.
    """
    if LAG_MS not in settings and LAG_BYTES not in settings:
        return NO_LAG
    ms, size_in_bytes = settings.get(LAG_MS), settings.get(LAG_BYTES)
    if ms is None or size_in_bytes is None:
        return CopyLag(why_unknown=f"the brokers withhold {LAG_MS} or {LAG_BYTES}")
    return CopyLag(int(ms), int(size_in_bytes))


def hangs_after_ms(local_retention_ms: int, retention_ms: int | None) -> int | None:
    """
    Return after how long a copy hangs, ms: a quarter of the time for which local segments stay, 15 minutes to 4 hours.

    What is not copied is kept beyond that time, and the disk of a broker has room for little more. So a topic with a short
    local retention is told of before its disk is full.

    :param local_retention_ms: ``local.retention.ms``.
    :param retention_ms: ``retention.ms``, ``None`` where it is not known.
    :return: ``None`` where the time is unlimited, or not known.
    """
    kept = kept_ms(local_retention_ms, retention_ms)
    return None if kept is None else min(max(kept // 4, _SHORTEST_HANG_MS), LONGEST_HANG_MS)


def due_after_ms(lag: CopyLag, local_retention_ms: int, retention_ms: int | None) -> int | None:
    """
    Return how long after its latest record a closed segment is copied at the latest, ms.

    :param lag: of the topic.
    :param local_retention_ms: ``local.retention.ms``.
    :param retention_ms: ``retention.ms``, ``None`` where it is not known.
    :return: ``None`` where time alone makes no copy due, or that is not known.
    """
    if lag.why_unknown:
        return None
    if lag.copies_at_once:
        return 0
    return kept_ms(local_retention_ms, retention_ms) if lag.ms == _AT_LOCAL_RETENTION else lag.ms


def kept_ms(local_retention_ms: int, retention_ms: int | None) -> int | None:
    """
    Return for how long local segments stay, ms.

    :param local_retention_ms: ``local.retention.ms``.
    :param retention_ms: ``retention.ms``, ``None`` where it is not known.
    :return: ``None`` where the time is unlimited, or not known.
    """
    kept = retention_ms if local_retention_ms == AS_REMOTE else local_retention_ms
    return None if kept is None or kept < 0 else kept
