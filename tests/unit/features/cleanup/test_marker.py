# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from uuid import UUID

import pytest

from airflow_provider_rlmm.core.base.errors import EventLogAccessError, WritesNotAllowedError
from airflow_provider_rlmm.core.log.protocol import Unknown
from airflow_provider_rlmm.core.log.write_guard import GuardedPublisher
from airflow_provider_rlmm.core.plans.refusals import RefusalKind
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState as P
from airflow_provider_rlmm.core.world.only import Chosen
from airflow_provider_rlmm.features.cleanup.marker import DeletedPartitionMarker, RealMarkerEffects
from tests.builders import Cluster, add, deletion, tip, update

GONE = tip()


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.segments(GONE, 2)
    return cluster


def test_only_absent_ids_with_unfinished_segments_are_marked(cluster: Cluster) -> None:
    cluster.segment(tip("clean", 0, 8), 5, S.DELETE_SEGMENT_FINISHED, objects=False)
    report = cluster.mark()
    assert cluster.ours() == [f"DELETE_PARTITION_MARKED {GONE}"]
    assert (report.marked, report.already_marked, report.refusals) == (tuple(cluster.ours()), 0, ())


def test_a_partition_without_segments_is_not_marked_beside_one_that_has_some(cluster: Cluster) -> None:
    cluster.segment(tip("gone", 1), 5, S.DELETE_SEGMENT_FINISHED, objects=False)
    cluster.mark()
    assert cluster.ours() == [f"DELETE_PARTITION_MARKED {GONE}"]


def test_every_partition_is_marked_in_its_metadata_partition() -> None:
    cluster = Cluster(metadata_partitions=3)
    partitions = [tip("gone", n) for n in range(6)]
    for partition in partitions:
        cluster.segment(partition, 0)
    assert len(cluster.mark().marked) == 6
    for partition in partitions:
        assert f"DELETE_PARTITION_MARKED {partition}" in cluster.ours(cluster.metadata_partition_of(partition))


def test_what_is_marked_is_not_marked_again(cluster: Cluster) -> None:
    cluster.mark()
    report = cluster.mark()
    assert (report.marked, report.already_marked) == ((), 1)
    assert len(cluster.ours()) == 1


def test_a_foreign_event_calls_for_a_new_marker(cluster: Cluster) -> None:
    cluster.mark()
    cluster.foreign(add(GONE, 5))
    assert cluster.mark().already_marked == 0
    assert cluster.states() == ["DELETE_PARTITION_MARKED"] * 2


def test_a_deletion_that_was_started_is_observed_anew_by_a_repeated_start(cluster: Cluster) -> None:
    cluster.mark()
    cluster.foreign(deletion(GONE, P.DELETE_PARTITION_STARTED))
    cluster.foreign(add(GONE, 5))
    cluster.mark()
    assert cluster.states()[-1] == "DELETE_PARTITION_STARTED"
    assert cluster.mark().already_marked == 1


def test_a_marked_partition_whose_leader_deleted_the_rest_is_observed_anew(cluster: Cluster) -> None:
    cluster.mark()
    for number in range(2):
        cluster.foreign(update(GONE, number, S.DELETE_SEGMENT_STARTED))
        cluster.foreign(update(GONE, number, S.DELETE_SEGMENT_FINISHED))
    assert cluster.mark().marked == (f"DELETE_PARTITION_MARKED {GONE}",)
    assert cluster.mark().marked == ()


def test_a_finished_partition_is_left_alone_until_segments_appear(cluster: Cluster) -> None:
    cluster.mark_and_wait()
    cluster.clean()
    assert cluster.mark().marked == ()
    cluster.segment(GONE, 7)
    assert len(cluster.mark().marked) == 1


def test_two_names_for_one_id_are_refused_as_ambiguous(cluster: Cluster) -> None:
    cluster.foreign(add(tip("other", 1), 5))
    report = cluster.mark()
    assert (report.marked, cluster.ours()) == ((), [])
    assert {r.what for r in report.refusals} == {str(GONE), str(tip("other", 1))}
    assert all("has 2 names in the metadata topic: ['gone', 'other']" in r.why for r in report.refusals)
    assert {r.metadata_partition for r in report.refusals} == {0}


def test_a_topic_created_again_keeps_its_new_id_unmarked(cluster: Cluster) -> None:
    twin = tip("gone", 0, 8)
    cluster.topics.create("gone", twin.topic_id)
    cluster.segment(twin, 6)
    cluster.mark()
    assert cluster.ours() == [f"DELETE_PARTITION_MARKED {GONE}"]


def test_an_id_whose_name_a_topic_without_disks_has_now_is_refused_by_name(cluster: Cluster) -> None:
    cluster.topics.create("gone")
    cluster.topics.diskless = {"gone"}
    report = cluster.mark()
    assert (report.marked, cluster.ours()) == ((), [])
    (refusal,) = report.refusals
    assert (refusal.kind, refusal.topic, refusal.what) == (RefusalKind.DISKLESS, "gone", str(GONE))
    assert "topic 'gone' of the cluster is diskless (diskless.enable is true)" in refusal.why


def test_a_topic_that_only_describing_finds_is_not_marked(cluster: Cluster) -> None:
    """A listing that lags behind."""

    listings = iter(range(2))

    def appear(name: str, detail: object) -> None:
        if name == "list_topics" and next(listings) == 1:
            cluster.topics.after_effect = lambda *_: cluster.topics.topics.update(gone=GONE.topic_id)

    cluster.topics.on_effect = appear
    report = cluster.mark()
    assert (report.marked, cluster.ours()) == ((), [])
    assert "though no listing had it" in report.refusals[0].why


def test_dry_run_says_the_same_and_writes_nothing(cluster: Cluster) -> None:
    cluster.publisher = GuardedPublisher(cluster.log, allow_writes=False)
    dry = cluster.mark(dry_run=True)
    assert (dry.marked, dry.dry_run, cluster.ours()) == ((f"DELETE_PARTITION_MARKED {GONE}",), True, [])
    with pytest.raises(WritesNotAllowedError):
        cluster.mark()


def test_only_names_the_partitions_to_mark(cluster: Cluster) -> None:
    other = tip("gone", 1)
    cluster.segment(other, 5)
    cluster.segment(tip("elsewhere", 0, 9), 6)
    cluster.mark(chosen=Chosen(planned=frozenset({(GONE.topic_id, 1)})))
    assert cluster.ours() == [f"DELETE_PARTITION_MARKED {other}"]
    assert cluster.mark(chosen=Chosen(planned=frozenset())).marked == ()


def test_a_quarantined_record_and_a_lost_beginning_keep_nothing_from_being_marked(cluster: Cluster) -> None:
    """A marker deletes nothing, and the wait is long: what is whole is found out before anything is."""
    cluster.log.truncate(0, 1)
    cluster.log.append(0, b"garbage")
    report = cluster.mark()
    assert (report.marked, report.refusals) == ((f"DELETE_PARTITION_MARKED {GONE}",), ())


def test_an_outcome_that_is_not_an_ack_is_reported(cluster: Cluster) -> None:
    cluster.log.on_effect = lambda name, _: Unknown("timed out") if name == "publish" else None
    report = cluster.mark()
    assert report.marked == ()
    assert [(r.why, r.what_to_do) for r in report.refusals] == [("timed out", "run the marker again")]


def test_a_topic_that_may_not_be_described_stops_everything(cluster: Cluster) -> None:
    def forbid(name: str, detail: object) -> None:
        raise EventLogAccessError("topic 'gone' may not be described")

    cluster.topics.on_effect = forbid
    with pytest.raises(EventLogAccessError):
        cluster.mark()
    assert cluster.ours() == []


def test_a_metadata_partition_of_strangers_keeps_no_other_from_being_marked() -> None:
    cluster = Cluster(metadata_partitions=2)
    deleted = [tip("gone", 0, 100 + i) for i in range(9)]
    misled = cluster.metadata_partition_of(deleted[0])
    for each in deleted:
        cluster.segment(each, 0)
    strangers = [t for i in range(99) if cluster.metadata_partition_of(t := tip("x", 0, 200 + i)) != misled]
    for stranger in strangers[:9]:
        cluster.log.append(misled, serialize(add(stranger, 0)))
    report = cluster.mark()
    assert len(report.marked) == sum(cluster.metadata_partition_of(each) != misled for each in deleted) > 0
    (refusal,) = (r for r in report.refusals if r.kind is RefusalKind.MISROUTED)
    assert (refusal.what, refusal.metadata_partition) == (f"metadata partition {misled}", misled)


def test_one_look_serves_all_metadata_partitions_where_nothing_is_due() -> None:
    cluster = Cluster(metadata_partitions=8)
    for number in range(12):
        cluster.segment(tip("gone", number), 0)
    assert len(cluster.mark().marked) == 12
    asked: list[object] = []
    cluster.topics.on_effect = lambda name, detail: asked.append(detail) if name == "describe_topics" else None
    opened = DeletedPartitionMarker(cluster.topic(), RealMarkerEffects(cluster.publisher), clock=cluster.clock)
    before = len(asked)
    report = opened.mark()
    assert (report.marked, report.already_marked) == ((), 12)
    assert len(asked) - before == 1
    assert "gone" in asked[-1]  # type: ignore[operator]


def test_a_topic_that_comes_back_behind_the_look_of_all_is_not_marked() -> None:
    cluster = Cluster(metadata_partitions=8)
    partitions = [tip(f"gone-{number}", 0, 300 + number) for number in range(4)]
    for partition in partitions:
        cluster.segment(partition, 0)
    marker = DeletedPartitionMarker(cluster.topic(), RealMarkerEffects(cluster.publisher), clock=cluster.clock)
    back = partitions[-1]

    def comes_back(name: str, detail: object) -> None:
        if name == "describe_topics" and back.topic not in cluster.topics.topics:
            cluster.topics.create(back.topic, back.topic_id)

    cluster.topics.after_effect = comes_back
    report = marker.mark()
    assert len(report.marked) == 3
    assert not any(str(back) in line for line in report.marked)


def test_what_is_marked_is_told_by_topic_the_largest_first() -> None:
    cluster = Cluster()
    cluster.segment(GONE, 20)
    for number in (21, 22):
        cluster.segment(tip("gone", 1), number)
    for number in (23, 24, 25, 26):
        cluster.segment(tip("larger", 0, 9), number)
    dry = cluster.mark(dry_run=True).topics
    assert [(t.topic, t.topic_id, t.partitions, t.segments, t.bytes) for t in dry] == [
        ("larger", kafka_uuid_str(UUID(int=9)), 1, 4, 4_000),
        ("gone", kafka_uuid_str(GONE.topic_id), 2, 3, 3_000),
    ]
    assert cluster.mark().topics == dry
    assert cluster.mark().topics == ()
