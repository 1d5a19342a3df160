# SPDX-License-Identifier: Apache-2.0
"""Counts what looks have said, and keeps the first of what is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from uuid import UUID

from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata, kafka_uuid_str
from airflow_provider_rlmm.features.contents.report_document import (
    MAX_LISTED,
    ContentsAmount,
    ContentsFinding,
    ContentsSegment,
    ContentsTopic,
)
from airflow_provider_rlmm.features.contents.rules import Outcome

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.segments.proof.findings import Finding
    from airflow_provider_rlmm.features.contents.looking import Look

_LOG: Final = "log"

Topic = tuple[str, UUID]
"""Name and id."""


class ContentsTally:
    """
    Counts.

    :param copied: topic → all its copied segments.
    :param chosen: topic → those that are looked at.
    """

    def __init__(self, copied: Mapping[Topic, ContentsAmount], chosen: Mapping[Topic, ContentsAmount]) -> None:
        self._copied = copied
        self._chosen = chosen
        self._looked_at: Counter[tuple[Topic, str]] = Counter()
        self.outcomes: dict[str, ContentsAmount] = {outcome.value: ContentsAmount() for outcome in Outcome}
        self.not_compared: Counter[str] = Counter()
        self.segments: list[ContentsSegment] = []
        self.segments_left_out = 0
        self.findings: list[ContentsFinding] = []
        self.findings_left_out = 0

    def note(self, look: Look) -> None:
        """
        Count a look.

        :param look: as it was judged in the end.
        """
        metadata, outcome = look.metadata, look.outcome
        tip = metadata.remote_log_segment_id.topic_id_partition
        topic, size = (tip.topic, tip.topic_id), metadata.segment_size_in_bytes
        self.outcomes[outcome.value] += ContentsAmount(1, size)
        self.not_compared.update(index_type.value for index_type in look.not_compared)
        if outcome.was_looked_at:
            self._looked_at.update({(topic, "segments"): 1, (topic, "bytes"): size})
        self._looked_at[topic, "person"] += outcome.needs_person
        if outcome is Outcome.RIGHT:
            return
        if len(self.segments) < MAX_LISTED:
            self.segments.append(_segment(look))
        else:
            self.segments_left_out += 1
        kept = look.findings[: max(0, MAX_LISTED - len(self.findings))] if outcome.needs_person else ()
        self.findings += [_finding(metadata, finding) for finding in kept]
        self.findings_left_out += look.found - len(kept) if outcome.needs_person else 0

    def topics(self) -> list[ContentsTopic]:
        """Return what was looked at of each topic, by name."""
        return [
            ContentsTopic(
                name,
                kafka_uuid_str(topic_id),
                copied,
                self._chosen.get((name, topic_id), ContentsAmount()),
                ContentsAmount(
                    self._looked_at[(name, topic_id), "segments"], self._looked_at[(name, topic_id), "bytes"]
                ),
                self._looked_at[(name, topic_id), "person"],
            )
            for (name, topic_id), copied in sorted(self._copied.items())
        ]


def _segment(look: Look) -> ContentsSegment:
    metadata = look.metadata
    segment_id = metadata.remote_log_segment_id
    tip = segment_id.topic_id_partition
    return ContentsSegment(
        tip.topic, kafka_uuid_str(tip.topic_id), tip.partition, kafka_uuid_str(segment_id.id), metadata.start_offset,
        metadata.end_offset, look.outcome, look.why, look.found,
    )  # fmt: skip


def _finding(metadata: RemoteLogSegmentMetadata, finding: Finding) -> ContentsFinding:
    part = _LOG if finding.part is None else finding.part.value
    return ContentsFinding(
        kafka_uuid_str(metadata.remote_log_segment_id.id), finding.kind, part, finding.position,
        # A damaged offset may be any number.
        finding.offset if finding.offset is None or finding.offset >= 0 else None,
        finding.expected, finding.seen, finding.why,
    )  # fmt: skip
