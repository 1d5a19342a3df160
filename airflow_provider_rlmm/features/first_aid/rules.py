# SPDX-License-Identifier: Apache-2.0
"""
What the brokers' disks must hold while copying is off. Pure, and nothing is guessed: what cannot be told says why.

While ``remote.log.copy.disable`` is on, a leader keeps its local log as long as ``retention.ms`` and ``retention.bytes`` say
(Kafka: ``UnifiedLog.localRetentionMs``, ``UnifiedLog.localRetentionSize``), of what comes and of what lies there already.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from airflow_provider_rlmm.core.log.tiered_topics import ToldSetting
from airflow_provider_rlmm.features.first_aid.commands import LOCAL_RETENTION_BYTES, LOCAL_RETENTION_MS

RETENTION_MS: Final = "retention.ms"
RETENTION_BYTES: Final = "retention.bytes"
SEGMENT_BYTES: Final = "segment.bytes"
_AS_THE_TOPIC: Final = -2
_DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class Disk:
    """
    The disk that a topic takes while copying is off, all replicas together.

    :param now_bytes: what lies there now, ``None`` where it is not known.
    :param at_most_bytes: what ``retention.bytes`` allows, a segment per replica included; what is written between two
        checks of the brokers comes on top. ``None`` where it is unlimited or not known.
    :param about_bytes: what ``retention.ms`` comes to, if records keep coming as they did; ``None`` where it is not known.
    :param bytes_per_day: what comes in a day, likewise.
    :param endless: whether it grows without end: neither limit is set.
    :param cannot_tell: why something of these is not known, empty where all is.
    """

    now_bytes: int | None
    at_most_bytes: int | None
    about_bytes: int | None
    bytes_per_day: int | None
    endless: bool
    cannot_tell: str

    @property
    def needed_bytes(self) -> int | None:
        """The smaller one of what the two limits come to; ``None`` where neither is known."""
        known = [amount for amount in (self.at_most_bytes, self.about_bytes) if amount is not None]
        return min(known) if known else None

    @property
    def more_bytes(self) -> int | None:
        """What comes on top of what lies there; ``None`` where either is not known."""
        if self.needed_bytes is None or self.now_bytes is None:
            return None
        return max(0, self.needed_bytes - self.now_bytes)


def disk_of(settings: Mapping[str, ToldSetting], replicas: int, now: int | str) -> Disk:
    """
    Tell which disk a topic takes while copying is off.

    :param settings: Kafka's name → setting of the topic as it is today.
    :param replicas: replicas of all its partitions together.
    :param now: bytes of all of them, or why that is not known.
    """
    limits = {name: _whole(settings, name) for name in (RETENTION_MS, RETENTION_BYTES, SEGMENT_BYTES)}
    if None in limits.values():
        withheld = next(name for name, value in limits.items() if value is None)
        now_bytes = now if isinstance(now, int) else None
        return Disk(now_bytes, None, None, None, endless=False, cannot_tell=f"the brokers do not tell {withheld}")
    retention_ms, retention_bytes, segment_bytes = (value or 0 for value in limits.values())
    at_most = replicas * (retention_bytes + segment_bytes) if retention_bytes >= 0 else None
    endless = retention_ms < 0 and retention_bytes < 0
    if not isinstance(now, int):
        return Disk(None, at_most, None, None, endless, now)
    span = _span_ms(settings, retention_ms, retention_bytes)
    if not isinstance(span, int):
        return Disk(now, at_most, None, None, endless, span)
    about = max(now, now * retention_ms // span) if retention_ms >= 0 else None
    return Disk(now, at_most, about, now * _DAY_MS // span, endless, "")


def _span_ms(settings: Mapping[str, ToldSetting], retention_ms: int, retention_bytes: int) -> int | str:
    """Return which time the local log covers, ms, or why it cannot be told."""
    local_ms, local_bytes = (_whole(settings, name) for name in (LOCAL_RETENTION_MS, LOCAL_RETENTION_BYTES))
    if local_ms is None or local_bytes is None:
        return f"the brokers do not tell {LOCAL_RETENTION_MS} or {LOCAL_RETENTION_BYTES}"
    if (retention_bytes if local_bytes == _AS_THE_TOPIC else local_bytes) >= 0:
        return f"{LOCAL_RETENTION_BYTES} bounds what is on the disks, so it is not known which time that covers"
    span_ms = retention_ms if local_ms == _AS_THE_TOPIC else local_ms
    if span_ms < 0:
        return f"{LOCAL_RETENTION_MS} is unlimited, so it is not known which time covers what is on the disks"
    if span_ms == 0:
        return f"{LOCAL_RETENTION_MS} is 0, so what is on the disks says nothing of how much comes"
    return span_ms


def _whole(settings: Mapping[str, ToldSetting], name: str) -> int | None:
    value = settings[name].value if name in settings else None
    return None if value is None else int(value)
