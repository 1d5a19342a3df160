# SPDX-License-Identifier: Apache-2.0
"""When was somebody else's marker written? The records around it tell, whatever topic they are about."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.base.clock import HOUR_MS
from airflow_provider_rlmm.core.log import in_process
from airflow_provider_rlmm.core.plans.refusals import RefusalKind
from airflow_provider_rlmm.core.records.records import OWN_BROKER_ID
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState as P
from airflow_provider_rlmm.core.world.replay import MetadataPartitionReplay
from tests.builders import BROKER, DAY_MS, START_MS, Cluster, add, deletion, tip, update

GONE = tip()
LATER_MS = START_MS + HOUR_MS
LONG_AGO_MS = START_MS - 10 * DAY_MS


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.segments(GONE, 2)
    return cluster


def foreign_marker(cluster: Cluster, at_ms: int, partition: int = 0) -> None:
    """A marker whose writer claims to be a broker, and gives both times of its record."""
    marker = replace(deletion(tip(partition=partition), P.DELETE_PARTITION_MARKED, at_ms), broker_id=BROKER)
    cluster.log.append(0, serialize(marker), timestamp_ms=at_ms)


def observed(cluster: Cluster, *topic_ids: UUID) -> list[tuple[int, bool]]:
    replay = MetadataPartitionReplay(cluster.log, 0, frozenset(topic_ids) or None)
    replay.advance()
    return [(o.time_ms, o.bounded) for o in replay.histories[GONE].observations]


@pytest.mark.parametrize("batch_rows", [1, 2, 1_000])
@pytest.mark.parametrize("only", [(), (GONE.topic_id,)], ids=["all topics", "its topic only"])
def test_the_next_record_of_a_broker_about_any_topic_bounds_it(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, batch_rows: int, only: tuple[UUID, ...]
) -> None:
    monkeypatch.setattr(in_process, "BATCH_ROWS", batch_rows)
    foreign_marker(cluster, LONG_AGO_MS)
    assert observed(cluster, *only) == [(LONG_AGO_MS, False)]
    for at_ms in (LATER_MS, LATER_MS + 1):
        cluster.log.append(0, serialize(add(cluster.alive, 7)), timestamp_ms=at_ms)
    assert observed(cluster, *only) == [(LATER_MS, True)]


def test_a_record_that_is_read_later_bounds_it(cluster: Cluster) -> None:
    foreign_marker(cluster, LONG_AGO_MS)
    replay = MetadataPartitionReplay(cluster.log, 0)
    replay.advance()
    cluster.log.append(0, serialize(add(cluster.alive, 7)), timestamp_ms=LATER_MS)
    replay.advance()
    assert [o.time_ms for o in replay.histories[GONE].observations] == [LATER_MS]


def test_the_later_of_the_times_of_the_record_that_bounds_counts(cluster: Cluster) -> None:
    foreign_marker(cluster, LONG_AGO_MS)
    cluster.log.append(0, serialize(add(cluster.alive, 7)), timestamp_ms=LONG_AGO_MS)  # its event is of START_MS
    assert observed(cluster) == [(START_MS, True)]


def test_an_event_of_ours_about_another_topic_bounds_it(cluster: Cluster) -> None:
    foreign_marker(cluster, LONG_AGO_MS)
    cluster.foreign(deletion(tip("other", 0, 9), P.DELETE_PARTITION_MARKED, LATER_MS))
    assert observed(cluster) == [(LATER_MS, True)]


@pytest.mark.parametrize(
    "record",
    [
        (b"garbage", None),
        (serialize(replace(deletion(tip("other"), P.DELETE_PARTITION_MARKED, LATER_MS), broker_id=BROKER)), None),
        (serialize(update(tip("other"), 1, S.COPY_SEGMENT_FINISHED, broker_id=-2)), None),
        (serialize(replace(update(tip("other"), 1, S.COPY_SEGMENT_FINISHED), event_timestamp_ms=-1)), -1),
    ],
    ids=["unreadable", "another foreign marker", "a copier that is no broker", "a record without a time"],
)
def test_what_nobody_can_rely_on_bounds_nothing(cluster: Cluster, record: tuple[bytes, int | None]) -> None:
    foreign_marker(cluster, LONG_AGO_MS)
    cluster.log.append(0, record[0], timestamp_ms=record[1])
    assert observed(cluster) == [(LONG_AGO_MS, False)]


def test_a_segment_event_about_the_partition_voids_it_instead(cluster: Cluster) -> None:
    foreign_marker(cluster, LONG_AGO_MS)
    cluster.foreign(add(GONE, 7))
    assert observed(cluster) == []


def test_a_marker_of_a_writer_that_is_behind_is_observed_anew_and_waited_for(cluster: Cluster) -> None:
    foreign_marker(cluster, LONG_AGO_MS)
    (refusal,) = cluster.plan().summary.refusals
    assert "is somebody else's, and no record of a broker or of ours has followed" in refusal.why
    assert refusal.kind is RefusalKind.NEXT_RUN
    assert len(cluster.mark().marked) == 1
    assert cluster.mark().already_marked == 1
    (refusal,) = cluster.plan().summary.refusals
    assert "marked 0 s ago" in refusal.why
    assert refusal.kind is RefusalKind.WAITING
    cluster.now_ms += DAY_MS
    assert cluster.plan().summary.planned.segments == 2


def test_a_marker_from_the_future_is_observed_anew_and_waited_for(cluster: Cluster) -> None:
    foreign_marker(cluster, START_MS + 3650 * DAY_MS)
    cluster.foreign(add(cluster.alive, 7))
    (refusal,) = cluster.plan().summary.refusals
    assert "is from the future" in refusal.why
    assert refusal.kind is RefusalKind.NEXT_RUN
    cluster.mark_and_wait()
    assert cluster.plan().summary.planned.segments == 2


def test_our_own_marker_from_the_future_is_observed_anew_by_a_repeated_start(cluster: Cluster) -> None:
    for state in (P.DELETE_PARTITION_MARKED, P.DELETE_PARTITION_STARTED):
        cluster.foreign(deletion(GONE, state, START_MS + 3650 * DAY_MS))
    report = cluster.mark()
    assert report.marked == (f"DELETE_PARTITION_STARTED {GONE}",)
    assert cluster.mark().already_marked == 1
    cluster.now_ms += DAY_MS
    assert cluster.plan().summary.planned.segments == 2


def test_a_record_of_ours_is_no_bound_of_itself_twice(cluster: Cluster) -> None:
    """Our own markers carry proven times: what follows them does not make them younger."""
    cluster.foreign(replace(deletion(GONE, P.DELETE_PARTITION_MARKED, START_MS), broker_id=OWN_BROKER_ID))
    cluster.log.append(0, serialize(add(cluster.alive, 7)), timestamp_ms=LATER_MS)
    assert observed(cluster) == [(START_MS, True)]
