# SPDX-License-Identifier: Apache-2.0
"""The time of day in which deletion may run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, time
from typing import Self
from zoneinfo import ZoneInfo

from airflow_provider_rlmm.core.base.values import refused

_TEXT = re.compile(r"([0-9]{2}):([0-9]{2})-([0-9]{2}):([0-9]{2}) ([A-Za-z0-9_+/-]{1,64})", re.ASCII)
_ALLOWED = "two times of a day and a time zone, such as '22:00-06:00 Europe/Berlin'"


@dataclass(frozen=True, slots=True)
class DeletionWindow:
    """
    :param begin: local time, inclusive.
    :param end: local time, exclusive; before ``begin`` it is that of the next day.
    :param zone: where it is that time.
    """

    begin: time
    end: time
    zone: ZoneInfo

    @classmethod
    def of(cls, name: str, text: object) -> Self:
        """
        Read a window.

        :param name: of the setting, for the error.
        :param text: such as ``22:00-06:00 Europe/Berlin``.
        :raises ConfigurationError: for anything else, a window of no length among it.
        """
        parts = _TEXT.fullmatch(text) if isinstance(text, str) else None
        if parts is None:
            raise refused(name, text, _ALLOWED)
        try:
            begin, end = time(int(parts[1]), int(parts[2])), time(int(parts[3]), int(parts[4]))
            zone = ZoneInfo(parts[5])
        except (ValueError, LookupError, OSError):
            raise refused(name, text, _ALLOWED) from None
        if begin == end:
            raise refused(name, text, _ALLOWED)
        return cls(begin, end, zone)

    def why_closed(self, now_ms: int) -> str | None:
        """
        Return why nothing may be deleted now, ``None`` where it may.

        :param now_ms: ms since the epoch, proven.
        """
        now = datetime.fromtimestamp(now_ms / 1000, UTC).astimezone(self.zone)
        local = now.time()
        over_midnight = self.end < self.begin
        is_open = local >= self.begin or local < self.end if over_midnight else self.begin <= local < self.end
        return None if is_open else f"it is {now:%H:%M} in {self.zone}, and deletion may run {self}"

    def __str__(self) -> str:
        """Return the window as it is read."""
        return f"{self.begin:%H:%M}-{self.end:%H:%M} {self.zone}"
