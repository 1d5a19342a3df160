# SPDX-License-Identifier: Apache-2.0
"""
The document of how old the remote segments of a cluster are, by their newest records: for the pages.

It is bounded, for a cluster of any size: sums are of all topics, the list names the largest ones. Nothing that deletes
reads it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final
from uuid import UUID

from airflow_provider_rlmm.core.base import strict_json as strict
from airflow_provider_rlmm.core.base.clock import HOUR_MS
from airflow_provider_rlmm.core.base.documents import AtMost, LongText, Text, plain_of, reader_of
from airflow_provider_rlmm.core.base.errors import DocumentError
from airflow_provider_rlmm.core.plans.counts import NOTHING, Count, added_up
from airflow_provider_rlmm.core.records.records import kafka_uuid_str

AGES_DOCUMENT: Final = "record-ages.json"
"""In the folder of a run of the Spark job, and the newest one in that of the cluster."""

MAX_LISTED: Final = 1_000
"""Topics that are listed; all are counted."""

MAX_BYTES: Final = 16 * 2**20

_FORMAT: Final = 1


class AgeRange(StrEnum):
    """How old the newest record of a segment is, in days: the first inclusive, the last not."""

    BELOW_1 = "below 1"
    FROM_1 = "1 to 7"
    FROM_7 = "7 to 30"
    FROM_30 = "30 to 90"
    FROM_90 = "90 to 365"
    FROM_365 = "365 or more"
    UNKNOWN = "unknown"  # the segment says no time of a record


RANGES: Final = tuple(AgeRange)
"""In their order; tasks tell of a range by its number here."""

FIRST_MS: Final = tuple(days * 24 * HOUR_MS for days in (1, 7, 30, 90, 365))
"""Where each range but the first begins, inclusive, ms."""

Ages = Mapping[AgeRange, Count]
"""Segments and bytes of each range; what is not there is nothing."""


@dataclass(frozen=True, slots=True)
class ToldAge:
    """What a task tells of the segments of a topic that are in one range."""

    topic_id: bytes
    topic: str
    age: int  # number of the range in :data:`RANGES`
    segments: int
    bytes: int


@dataclass(frozen=True, slots=True)
class TopicAges:
    """How old the segments of one topic are."""

    topic: LongText
    topic_id: Text  # in Kafka's text form
    ages: Mapping[AgeRange, Count]

    @property
    def stored(self) -> Count:
        """All its segments."""
        return Count.sum(self.ages.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordAges:
    """
    How old the remote segments of a cluster are, by their newest records.

    :param cluster_id: the cluster.
    :param told_at_ms: when the ages were taken, ms since the epoch.
    :param topics: how many topic ids have segments, living or gone.
    :param ages: of all segments that are not finished.
    :param listed_topics: the largest ones.
    """

    cluster_id: Text
    told_at_ms: int
    topics: int
    ages: Mapping[AgeRange, Count]
    listed_topics: Annotated[tuple[TopicAges, ...], AtMost(MAX_LISTED)]

    @classmethod
    def of(cls, told: Iterable[ToldAge], *, cluster_id: str, told_at_ms: int) -> RecordAges:
        """
        Add up what tasks have told.

        :param told: rows of all metadata partitions.
        :param cluster_id: the cluster.
        :param told_at_ms: ms since the epoch.
        """
        counts = added_up(((one.topic_id, one.topic, one.age), Count(one.segments, one.bytes)) for one in told)
        by_topic: dict[tuple[bytes, str], dict[AgeRange, Count]] = {}
        for (topic_id, topic, age), count in sorted(counts.items()):
            by_topic.setdefault((topic_id, topic), {})[RANGES[age]] = count
        topics = [TopicAges(topic, kafka_uuid_str(UUID(bytes=i)), ages) for (i, topic), ages in by_topic.items()]
        topics.sort(key=lambda one: (-one.stored.bytes, one.topic, one.topic_id))
        total = added_up((RANGES[age], count) for (_, _, age), count in counts.items())
        return cls(
            cluster_id=cluster_id,
            told_at_ms=told_at_ms,
            topics=len(topics),
            ages={one: total[one] for one in RANGES if one in total},
            listed_topics=tuple(topics[:MAX_LISTED]),
        )

    def of_topic(self, topic_id: str) -> Ages | None:
        """
        Return the ages of a topic's segments, ``None`` where it is not listed.

        :param topic_id: in Kafka's text form.
        """
        found = [one.ages for one in self.listed_topics if one.topic_id == topic_id]
        # An id may stand beside two names.
        return added_up(item for ages in found for item in ages.items()) if found else None

    @property
    def lists_all(self) -> bool:
        """Whether no topic is left out of the list."""
        return len(self.listed_topics) == self.topics

    def to_json(self) -> str:
        """Return the document."""
        return json.dumps(strict.sealed(plain_of(self), _FORMAT), indent=1)

    @classmethod
    def from_json(cls, text: str) -> RecordAges:
        """
        Read the document.

        :param text: what :meth:`to_json` returned.
        :raises DocumentError: if it is not.
        """
        try:
            return _READ(strict.unsealed(text, _FORMAT), "record ages")
        except ValueError as e:
            raise DocumentError(f"how old the segments are cannot be read ({e}); run remote_log_retention") from e


def count_of(ages: Ages, one: AgeRange) -> Count:
    """Return what is in a range."""
    return ages.get(one, NOTHING)


_READ = reader_of(RecordAges)
