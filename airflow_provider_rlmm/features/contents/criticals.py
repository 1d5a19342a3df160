# SPDX-License-Identifier: Apache-2.0
"""What of a scrub of contents needs a person: a segment that is damaged or missing can be acknowledged, by its id. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from airflow_provider_rlmm.core.runs.attention import Attention
from airflow_provider_rlmm.features.contents.report_document import ADVICE, ContentsReport, ContentsSegment
from airflow_provider_rlmm.features.contents.rules import Outcome

_WHY: Final[Mapping[Outcome, str]] = {
    Outcome.DAMAGED: "its log, indexes and metadata do not agree",
    Outcome.MISSING: "an object is not there",
    Outcome.UNREAD: "the storage did not hand it out",
}
"""Outcomes that need a person → what they mean, where the segment itself says no more."""


def criticals_of(report: ContentsReport) -> Iterator[Attention]:
    """
    Yield what needs a person, segments first.

    :param report: of the scrub of contents.
    """
    listed = [one for one in report.segments if one.outcome.needs_person]
    for one in listed:
        yield _of_segment(one)
    if more := sum(map(report.segments_of, ADVICE)) - len(listed):
        yield Attention(
            "SEGMENTS_NOT_LISTED",
            "segments of this scrub of contents",
            f"{more:,} more than the report lists need a person",
            report.what_to_type,
            acknowledgeable=False,
            count=more,
        )
    for problem in report.problems_of_the_run():
        yield Attention(
            "CONTENTS_UNSEEN", "this scrub of contents", problem, report.what_to_type, acknowledgeable=False
        )


def _of_segment(one: ContentsSegment) -> Attention:
    return Attention(
        f"SEGMENT_{one.outcome}",
        f"segment {one.segment_id} of partition {one.partition}, offsets {one.start_offset} to {one.end_offset}",
        one.why or _WHY[one.outcome],
        ADVICE[one.outcome],
        topic=one.topic,
        # What the storage refused today it may hand out tomorrow.
        acknowledgeable=one.outcome is not Outcome.UNREAD,
    )
