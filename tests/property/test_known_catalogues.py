# SPDX-License-Identifier: Apache-2.0
"""Catalogues beside snapshots and audit logs of any history, and an oracle that goes through the history event by event."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_rlmm.core.plans.catalogue_rows import CatalogueRow, ProvedBy, RowKind
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata, RemotePartitionDeleteMetadata
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState as P
from tests.examples import examples
from tests.recovery import Bucket, partition, segment
from tests.recovery_sources import audited, keep, update

PARTITIONS = [partition(), partition(1), partition(topic="payments", topic_id=9)]


@dataclass
class History:
    """Segments in a bucket, what the log said of them, and when a snapshot was made."""

    segments: list[RemoteLogSegmentMetadata] = field(default_factory=list)
    events: list[Any] = field(default_factory=list)
    made_at: list[int] = field(default_factory=list)  # number of events that each snapshot has read, ascending
    audited: list[tuple[RemoteLogSegmentMetadata, str]] = field(default_factory=list)  # segment and outcome


@st.composite
def histories(draw: st.DrawFn) -> History:
    history, under_way = History(), list[list[Any]]()
    for number in range(draw(st.integers(1, 6))):
        of = segment(number, 10 * number, 10 * number + 9, of=draw(st.sampled_from(PARTITIONS)))
        history.segments.append(of)
        last = draw(st.sampled_from([None, *S]))
        steps = [] if last is None else [of, *(update(of, S(state)) for state in range(1, last + 1))]
        under_way.append(steps)
        if draw(st.integers(0, 4)) == 0:
            history.audited.append((of, draw(st.sampled_from(("GONE", "PRESENT", "UNKNOWN", "NEVER_SEEN")))))
    if draw(st.integers(0, 3)) == 0:
        gone = draw(st.sampled_from(PARTITIONS))
        last_step = draw(st.integers(0, 2))
        under_way.append([RemotePartitionDeleteMetadata(gone, P(step), 1, -1) for step in range(last_step + 1)])
    while any(under_way):
        history.events.append(draw(st.sampled_from([steps for steps in under_way if steps])).pop(0))
    if history.events:
        history.made_at = sorted(draw(st.sets(st.integers(1, len(history.events)), max_size=4)))
    return history


def state_after(events: list[Any], of: RemoteLogSegmentMetadata) -> S | None:
    """Return the state of a segment after some events, ``None`` where none was about it."""
    mine = [e for e in events if getattr(e, "remote_log_segment_id", None) == of.remote_log_segment_id]
    return mine[-1].state if mine else None


def is_deleted(history: History, of: RemoteLogSegmentMetadata) -> bool:
    """Tell whether any snapshot, two of them together, or the audit log call a segment deleted."""
    states = [state_after(history.events[:end], of) for end in history.made_at]
    tip = of.remote_log_segment_id.topic_id_partition
    seen = history.events[: history.made_at[-1]] if history.made_at else []
    return (
        S.DELETE_SEGMENT_STARTED in states
        # A snapshot forgets what is finished: only one that had it as copied tells that from one that never knew it.
        or (S.DELETE_SEGMENT_FINISHED in states and S.COPY_SEGMENT_FINISHED in states)
        or any(isinstance(e, RemotePartitionDeleteMetadata) and e.topic_id_partition == tip for e in seen)
        or any(one == of and outcome != "NEVER_SEEN" for one, outcome in history.audited)
    )


def check(row: CatalogueRow, history: History, of: RemoteLogSegmentMetadata) -> None:
    newest = state_after(history.events[: history.made_at[-1]], of) if history.made_at else None
    if is_deleted(history, of):
        assert row.kind is RowKind.DELETED
        assert row.why
        return
    assert (row.kind, row.start_offset, row.end_offset) == (RowKind.COPIED, of.start_offset, of.end_offset)
    is_known = newest is S.COPY_SEGMENT_FINISHED
    assert row.proved_by is (ProvedBy.SNAPSHOT if is_known else ProvedBy.MANIFEST)
    assert (row.state, row.custom_metadata) == (("COPY_SEGMENT_FINISHED", b"custom") if is_known else (None, None))
    assert row.broker_id == (4 if is_known else of.broker_id)


@pytest.mark.slow
@settings(max_examples=examples(150), deadline=None)
@given(history=histories())
def test_what_is_known_is_told_and_what_is_deleted_is_named(history: History) -> None:
    bucket = Bucket()
    for of in history.segments:
        bucket.copy(of)
    with TemporaryDirectory() as name:
        folder = Path(name)
        for end in history.made_at:
            place = f"topic-x{end}.snapshot" if end % 2 else f"snapshots/{end}.snapshot"
            keep(folder, history.events[:end], at_ms=end, offset=end, name=place)
        for of, outcome in history.audited:
            audited(folder, of, outcome=outcome)
        made, rows = bucket.catalogue(work_uri=str(folder))
    by_id = {row.segment_id: row for row in rows if row.kind is not RowKind.HOLE}
    assert len(by_id) == len(history.segments)
    for of in history.segments:
        check(by_id[of.remote_log_segment_id.id], history, of)
    # A hole is where no whole segment is: what is deleted covers none.
    whole = [(row.topic_id, row.partition, row.start_offset) for row in rows if row.kind.is_whole]
    for hole in (row for row in rows if row.kind is RowKind.HOLE):
        inside = range(hole.start_offset or 0, (hole.end_offset or 0) + 1)
        assert not any(where[:2] == (hole.topic_id, hole.partition) and where[2] in inside for where in whole)
    assert [source.made_at_ms for source in made.earlier if source.sha256] == history.made_at[::-1]
