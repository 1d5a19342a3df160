# SPDX-License-Identifier: Apache-2.0
"""What the newest copies of living topics say about a storage root: whether it is up to date."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Self
from uuid import UUID

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.errors import StorageRootError
from airflow_provider_rlmm.core.base.quoting import name_in_text
from airflow_provider_rlmm.core.records.records import TopicIdPartition, kafka_uuid_str, parse_kafka_uuid

MISSING_LIVING_SEGMENTS: Final = "missing_living_segments"
UNPROVEN_ROOT: Final = "unproven_root"

_ADVICE: Final = "check storage URI, layout and mount: this may be a copy of the root, or an old one"
_NAMED: Final = 3


class FreshnessVerdict(StrEnum):
    """What is known about one place."""

    FRESH = "fresh"  # all samples are there
    PARTLY_MISSING = "partly missing"  # some are, some are not: brokers have lost segments, or this is a partial copy
    STALE = "stale"  # none is
    NOTHING_LIVES = "nothing lives"  # no living topic has a copied segment here, so nothing can tell
    UNKNOWN = "unknown"  # the log knows of none, and has lost records that might have told of one


@dataclass(frozen=True, slots=True)
class Sample:
    """The newest copied segment of a living topic at a place."""

    metadata_partition: int  # where its events lie
    topic_id_partition: TopicIdPartition  # its user partition
    segment_id: UUID  # the segment
    place: str  # name of the place of its copy
    keys: tuple[str, ...]  # the keys that a complete copy has
    copied_at_ms: int  # time of its COPY_SEGMENT_FINISHED, ms since the epoch
    broker_id: int = -1  # who copied it, negative for us
    added_offset: int | None = None  # where its COPY_SEGMENT_STARTED lies, ``None`` where that is not known

    def __str__(self) -> str:
        return f"segment {kafka_uuid_str(self.segment_id)} of {self.topic_id_partition}"

    def to_dict(self) -> dict[str, Any]:
        """Return the sample as plain JSON types."""
        tip = self.topic_id_partition
        return {
            "metadata_partition": self.metadata_partition,
            "topic": tip.topic,
            "topic_id": kafka_uuid_str(tip.topic_id),
            "partition": tip.partition,
            "segment_id": kafka_uuid_str(self.segment_id),
            "place": self.place,
            "keys": list(self.keys),
            "copied_at_ms": self.copied_at_ms,
            "broker_id": self.broker_id,
            "added_offset": self.added_offset,
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """
        Read what :meth:`to_dict` returned.

        :param plain: plain JSON types.
        :raises ValueError: if it is something else.
        """
        try:
            return cls(
                metadata_partition=int(plain["metadata_partition"]),
                topic_id_partition=TopicIdPartition(
                    parse_kafka_uuid(plain["topic_id"]), str(plain["topic"]), int(plain["partition"])
                ),
                segment_id=parse_kafka_uuid(plain["segment_id"]),
                place=str(plain["place"]),
                keys=tuple(str(key) for key in plain["keys"]),
                copied_at_ms=int(plain["copied_at_ms"]),
                broker_id=int(plain["broker_id"]),
                added_offset=None if plain["added_offset"] is None else int(plain["added_offset"]),
            )
        except (KeyError, TypeError, AttributeError) as e:
            raise ValueError(f"no sample of a storage root: {type(e).__name__} {e}") from e


@dataclass(frozen=True, slots=True)
class Freshness:
    """
    Which samples were looked for, and which were not there.

    :param samples: what counts: segments that were COPY_SEGMENT_FINISHED before and after storage was listed.
    :param missing: those of them of which an object was not listed.
    :param lost: metadata partitions that have lost their first records while topics live that may have had copies there.
    :param late: which living topics are copied late, in words, where that may be why there are no samples.
    :param hidden: names of topics that may not be described, whose newest copies are missing.
    """

    samples: tuple[Sample, ...]
    missing: tuple[Sample, ...] = ()
    lost: tuple[int, ...] = ()
    late: str = ""
    hidden: tuple[str, ...] = ()

    def verdict(self, place: str) -> FreshnessVerdict:
        """Return what is known about a place."""
        samples, missing = (sum(sample.place == place for sample in some) for some in (self.samples, self.missing))
        if not samples:
            return FreshnessVerdict.UNKNOWN if self.lost else FreshnessVerdict.NOTHING_LIVES
        if not missing:
            return FreshnessVerdict.FRESH
        return FreshnessVerdict.STALE if missing == samples else FreshnessVerdict.PARTLY_MISSING

    def is_fresh(self, place: str, expected: Collection[str] = ()) -> bool:
        """
        Tell whether a place is up to date. Overrides do not make it so.

        :param place: its name.
        :param expected: names of the places whose stamp or location was expected: they count where no topic lives.
        """
        verdict = self.verdict(place)
        return verdict is FreshnessVerdict.FRESH or (verdict is FreshnessVerdict.NOTHING_LIVES and place in expected)

    def require(
        self,
        places: Collection[str],
        expected: Collection[str],
        overrides: Collection[str] = (),
        *,
        nothing: str = "nothing is deleted",
        hint: str = "",
        to_paste: str = "expected_root",
    ) -> None:
        """
        Refuse to work below a root that is not up to date.

        :param places: names of all places of the layout.
        :param expected: names of the places whose stamp or location was expected.
        :param overrides: overrides in force.
        :param nothing: what a refusal prevents, for the message.
        :param to_paste: what pins the places, as a person may copy it.
        :param hint: what may be the cause where nothing is there, empty where it is not known.
        :raises StorageRootError: naming the place, what is missing and what to do.
        """
        for place in places:
            verdict, refused = self.verdict(place), f"{self.sentence(place)}: {nothing}"
            if verdict is FreshnessVerdict.STALE:
                raise StorageRootError(f"{refused}; {hint or _ADVICE}")
            if verdict is FreshnessVerdict.PARTLY_MISSING and MISSING_LIVING_SEGMENTS not in overrides:
                raise StorageRootError(
                    f"{refused}; {_ADVICE}; if the brokers have lost them, which their consumers will see, the override "
                    f"{MISSING_LIVING_SEGMENTS!r} lets the run go on"
                )
            if verdict is FreshnessVerdict.UNKNOWN and UNPROVEN_ROOT not in overrides:
                raise StorageRootError(
                    f"{refused}; see that a living topic's segment is copied there, then run again, or let the run go on by "
                    f"the override {UNPROVEN_ROOT!r}"
                )
            if verdict is FreshnessVerdict.NOTHING_LIVES and place not in expected and UNPROVEN_ROOT not in overrides:
                raise StorageRootError(
                    f"{refused}. Set {to_paste} in the rlmm connection if brokers write there, or let the run go on by the "
                    f"override {UNPROVEN_ROOT!r}"
                )

    @property
    def sentences(self) -> tuple[str, ...]:
        """One sentence per place that has samples, for people."""
        return tuple(self.sentence(place) for place in sorted({sample.place for sample in self.samples}))

    def sentence(self, place: str) -> str:
        """Say what is known about a place."""
        samples = sum(sample.place == place for sample in self.samples)
        missing = [str(sample) for sample in self.missing if sample.place == place]
        if not samples and self.lost:
            return (
                f"metadata partitions {list(self.lost)} have lost their first records, and no other record tells of a copied "
                f"segment of a living topic at {place}: nothing can tell whether it is up to date{self._may_be_late}"
            )
        if not samples:
            return (
                f"no living topic has a copied segment at {place}, so nothing there can tell whether it is up to "
                f"date{self._may_be_late}"
            )
        if not missing:
            return f"the newest copied segments of {number_of(samples, 'living topic')} are at {place}"
        more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        return (
            f"of the newest copied segments of {number_of(samples, 'living topic')} "
            f"{number_of(len(missing), 'is', 'are')} not at {place}: "
            f"{', '.join(missing[:_NAMED])}{more}{self._may_be_gone}"
        )

    @property
    def _may_be_gone(self) -> str:
        if not self.hidden:
            return ""
        names = ", ".join(map(name_in_text, self.hidden[:_NAMED]))
        more = f" and {len(self.hidden) - _NAMED} more" if len(self.hidden) > _NAMED else ""
        return f"; it cannot be told whether {names}{more} lives without DESCRIBE on it"

    @property
    def _may_be_late(self) -> str:
        return f"; {self.late}" if self.late else ""

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain JSON types, for plans and reports."""
        return {
            "samples": [sample.to_dict() for sample in self.samples],
            "missing": [kafka_uuid_str(sample.segment_id) for sample in self.missing],
            "sentences": list(self.sentences),
        }
