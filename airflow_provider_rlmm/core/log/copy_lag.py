# SPDX-License-Identifier: Apache-2.0
"""
How long the leaders of a topic wait before they copy a closed segment (KIP-1241, Kafka 4.4 and newer).

A leader copies it at once where either setting is 0, which is the default. Else it copies it when one of the two is reached;
-1 stands for local retention, and where that is unlimited nothing is reached by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

LAG_MS: Final = "remote.copy.lag.ms"
LAG_BYTES: Final = "remote.copy.lag.bytes"
_AT_LOCAL_RETENTION: Final = -1


@dataclass(frozen=True, slots=True)
class CopyLag:
    """
    The copy lag of a topic.

    :param ms: ``remote.copy.lag.ms``, ms since a segment's latest record.
    :param size_in_bytes: ``remote.copy.lag.bytes``, bytes of newer local log behind a segment.
    :param why_unknown: why nobody can tell the two, empty where they are known.
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
"""What brokers have that do not know the settings, and others unless somebody has set them."""


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
