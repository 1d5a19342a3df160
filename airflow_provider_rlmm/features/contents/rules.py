# SPDX-License-Identifier: Apache-2.0
"""Which segments are looked at, and what a look at one can say. Pure: nothing is asked here."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from uuid import UUID

from airflow_provider_rlmm.core.base.errors import ConfigurationError

AT_ONCE: Final = 4
"""Segments that are looked at at once: each holds a chunk of its log in memory."""


class Outcome(StrEnum):
    """What a look at one segment has said. Every chosen segment has exactly one."""

    RIGHT = "RIGHT"
    """Every byte of its log was read, and log, indexes and metadata agree."""

    DAMAGED = "DAMAGED"
    """Something is wrong, at two looks, and the log still calls it copied."""

    MISSING = "MISSING"
    """An object is not there, and the log, read again since, still calls it copied."""

    GONE = "GONE"
    """It was deleted meanwhile, as the log, read again since, says: no damage."""

    ENCRYPTED = "ENCRYPTED"
    """Its objects are encrypted: only brokers can read them, so it cannot be told."""

    ARCHIVED = "ARCHIVED"
    """Its objects are in an archive tier, and were not fetched."""

    OTHER_FORMAT = "OTHER_FORMAT"
    """Its records are older than message format v2, or packed in a way that is not known here, so it cannot be told."""

    UNREAD = "UNREAD"
    """The storage refused, or did not answer: it was not looked at whole."""

    @property
    def was_looked_at(self) -> bool:
        """Whether its contents were judged."""
        return self in (Outcome.RIGHT, Outcome.DAMAGED, Outcome.MISSING)

    @property
    def needs_person(self) -> bool:
        """Whether a person has to look at it."""
        return self in (Outcome.DAMAGED, Outcome.MISSING, Outcome.UNREAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """
    Which segments are looked at.

    :param topics: names and ids in Kafka's form; none for all.
    :param share: of each topic's segments, above 0 and at most 1; one segment at least.
    :param seed: decides between segments that were last looked at equally long ago.
    :raises ConfigurationError: if the share is none.
    """

    topics: Sequence[str] = ()
    share: float = 1.0
    seed: str = ""

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ConfigurationError(f"share is {self.share}: it is above 0, and 1 at most")

    def of_topic(self, segments: Sequence[UUID], looked_at_ms: Mapping[UUID, int]) -> frozenset[UUID]:
        """
        Choose from the segments of one topic: those first that were never looked at, then those of the oldest look.

        :param segments: all that it has.
        :param looked_at_ms: segment → when it was last looked at, ms since the epoch.
        """
        number = min(len(segments), max(1, math.ceil(self.share * len(segments))))
        if number == len(segments):
            return frozenset(segments)
        order = sorted(segments, key=lambda segment: (looked_at_ms.get(segment, 0), self._drawn(segment)))
        return frozenset(order[:number])

    def _drawn(self, segment: UUID) -> bytes:
        return hashlib.blake2b(segment.bytes, digest_size=16, key=self.seed.encode()[:64]).digest()
