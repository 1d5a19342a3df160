# SPDX-License-Identifier: Apache-2.0
"""Which segment lies before another one, what they tell of the lineage, and a report that was changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from airflow_provider_rlmm.core.base.errors import DocumentError
from airflow_provider_rlmm.core.records.columnar import ColumnarState, decode
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata, RemoteLogSegmentMetadataUpdate
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.features.contents.chosen import CopiedSegment, CopiedSegments
from airflow_provider_rlmm.features.contents.foretold import foretell
from airflow_provider_rlmm.features.contents.report_document import ContentsAmount, ContentsReport
from airflow_provider_rlmm.features.contents.rules import Outcome
from tests.recovery import partition, segment


def chosen(segments: Sequence[RemoteLogSegmentMetadata], *, copied: bool = True) -> dict[int, CopiedSegment]:
    """Number of a segment → what the log says of it once their copies are finished."""
    events: list[RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate] = [*segments]
    if copied:
        events += [
            RemoteLogSegmentMetadataUpdate(s.remote_log_segment_id, 5, None, S.COPY_SEGMENT_FINISHED, 3)
            for s in segments
        ]
    state, _ = ColumnarState.empty().apply(decode([serialize(event) for event in events]))
    found = CopiedSegments(state.segments)
    ids = [segment_id for rows in found.by_topic().values() for segment_id, _ in rows]
    return {one.metadata.remote_log_segment_id.id.int - 1_000: one for one in found.chosen(ids)}


def test_each_segment_knows_the_one_before_and_the_lineage_so_far() -> None:
    found = chosen([segment(1, 0, 9), segment(2, 10, 19, ((0, 10), (2, 15))), segment(3, 20, 29, ((4, 20),))])
    assert [one.before and one.before.start_offset for one in found.values()] == [None, 0, 10]
    assert found[3].lineage == ((0, 0), (2, 15), (4, 20))
    assert found[2].metadata.segment_leader_epochs == ((0, 10), (2, 15))


def test_of_two_that_may_be_the_one_before_none_is() -> None:
    found = chosen([segment(1, 0, 9), segment(2, 5, 9, ((0, 5),)), segment(3, 10, 19)])
    assert found[3].before is None
    assert found[3].lineage == ((0, 10),)


def test_one_of_a_later_leader_is_not_before() -> None:
    found = chosen([segment(1, 0, 9), segment(2, 5, 9, ((3, 5),)), segment(3, 10, 19, ((1, 10),))])
    assert found[3].lineage == ((0, 0), (1, 10))


def test_where_the_log_began_within_a_segment_nothing_before_is_known() -> None:
    found = chosen([segment(1, 0, 9), segment(2, 10, 19, ((0, 14),))])
    assert found[2].lineage == ((0, 14),)


def test_user_partitions_are_apart_and_what_is_not_copied_is_left_out() -> None:
    found = chosen([segment(1, 0, 9), segment(2, 10, 19, of=partition(1))])
    assert found[2].before is None
    assert chosen([segment(1, 0, 9)], copied=False) == {}


def test_a_report_that_was_changed_is_refused() -> None:
    report = ContentsReport(
        cluster_id="c", artifact="verify.1", began_at_ms=1, clock="proven", layout="aiven", asked_for=(), not_found=(),
        share=0.5, seed="s", may_have_gaps=False, copied=ContentsAmount(2, 20), chosen=ContentsAmount(1, 10),
        outcomes={o.value: ContentsAmount() for o in Outcome} | {"RIGHT": ContentsAmount(1, 10)},
        foretold=foretell([10], manifests=True, price=None), requests=9, fetched_bytes=12, not_compared={"offset": 1},
        log_in_doubt="", topics=(), topics_left_out=0, segments=(), segments_left_out=0, findings=(), findings_left_out=0,
    )  # fmt: skip
    text = report.to_json()
    assert ContentsReport.from_json(text) == report
    assert report.share_in_words == "1 of 2 copied segments was looked at, 10 B of 20 B (50.0 % of the bytes)"
    with pytest.raises(DocumentError, match="verify again"):
        ContentsReport.from_json(text.replace('"share": 0.5', '"share": 0.6'))
    assert list(replace(report, outcomes={o.value: ContentsAmount() for o in Outcome}).problems())
