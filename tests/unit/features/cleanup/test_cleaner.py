# SPDX-License-Identifier: Apache-2.0
"""The way from the marker to DELETE_PARTITION_FINISHED, and how it goes on after it was cut short."""

from __future__ import annotations

import json
from itertools import chain
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.base.errors import StorageRootError, StorageUnavailableError
from airflow_provider_rlmm.core.log.protocol import Failed, Unknown
from airflow_provider_rlmm.core.log.write_guard import GuardedPublisher
from airflow_provider_rlmm.core.records.records import OWN_BROKER_ID
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState as P
from airflow_provider_rlmm.features.cleanup.report_document import cleanup_report, read_report
from tests.builders import Cluster, add, deletion, on_nth_publish, once, reasons, tip, update

GONE = tip()
OTHER_ID = UUID(int=8)


@pytest.fixture
def cluster() -> Cluster:
    """A deleted topic with three segments, marked a day ago."""
    cluster = Cluster()
    cluster.segments(GONE, 3)
    cluster.mark_and_wait()
    return cluster


def test_a_run_goes_from_marked_to_finished(cluster: Cluster) -> None:
    living = cluster.keys_of(cluster.alive)
    report = cluster.clean(batch_segments=2)
    assert cluster.states() == [
        "DELETE_PARTITION_MARKED",
        "DELETE_PARTITION_STARTED",
        *["DELETE_SEGMENT_STARTED"] * 2,
        *["DELETE_SEGMENT_FINISHED"] * 2,
        "DELETE_SEGMENT_STARTED",
        "DELETE_SEGMENT_FINISHED",
        "DELETE_PARTITION_FINISHED",
    ]
    assert (cluster.keys_of(GONE), cluster.keys_of(cluster.alive)) == (set(), living)
    (partition,) = report.partitions
    assert (partition.outcome, partition.segments_deleted, partition.segments_left) == ("FINISHED", 3, 0)
    assert (partition.objects_deleted, partition.bytes_deleted) == (15, 150)
    assert partition.refusals == report.refusals == ()


def test_the_report_counts_its_events_and_becomes_a_document(cluster: Cluster) -> None:
    report = cluster.clean()
    assert report.events == {
        "DELETE_PARTITION_STARTED": 1,
        "DELETE_SEGMENT_STARTED": 3,
        "DELETE_SEGMENT_FINISHED": 3,
        "DELETE_PARTITION_FINISHED": 1,
    }
    whole = cleanup_report(report_id="r", plan_id="p", cluster_id="c", created_at_ms=1, parts=[report, report])
    assert whole.totals == {
        "segments_deleted": 6,
        "segments_left": 0,
        "objects_deleted": 30,
        "bytes_deleted": 300,
        "partitions_finished": 2,
        "partitions_incomplete": 0,
        "partitions_refused": 0,
        "partitions_waiting": 0,
        "partitions_marked": 0,
        "refusals": 0,
        "waiting_segments": 0,
        "waiting_bytes": 0,
        "needs_person": 0,
        "acknowledged": 0,
    }
    assert read_report(json.loads(json.dumps(whole.to_dict()))) == whole


def test_a_second_run_does_nothing(cluster: Cluster) -> None:
    cluster.clean()
    events = cluster.ours()
    report = cluster.clean()
    assert cluster.ours() == events
    assert (report.partitions, report.events) == ((), {})


def test_segments_that_are_not_in_the_plan_are_left(cluster: Cluster) -> None:
    (key, ids), *_ = [(k, v) for k, v in cluster.everything().items() if k[0] == GONE.topic_id]
    chosen = min(ids, key=lambda i: i.int)
    report = cluster.clean(planned={key: frozenset({chosen})})
    (partition,) = report.partitions
    assert (partition.outcome, partition.segments_deleted, partition.segments_left) == ("INCOMPLETE", 1, 2)
    assert "2 segments" in reasons(report)
    assert "not in the plan" in reasons(report)
    assert len(cluster.keys_of(GONE)) == 10


def test_a_plan_without_the_partition_writes_nothing_about_it(cluster: Cluster) -> None:
    report = cluster.clean(planned={})
    assert report.partitions[0].outcome == "REFUSED"
    assert cluster.states() == ["DELETE_PARTITION_MARKED"]


def test_objects_that_stay_leave_their_segment_for_the_next_run(cluster: Cluster) -> None:
    def refuse(effect: str, key: str) -> None:
        if effect == "delete" and "00000000000000000010" in key and key.endswith(".index"):
            raise StorageUnavailableError("slow down")

    cluster.storage.on_effect = refuse
    report = cluster.clean()
    (partition,) = report.partitions
    assert (partition.outcome, partition.segments_deleted, partition.segments_left) == ("INCOMPLETE", 2, 1)
    assert "present: slow down" in reasons(report)
    assert [r.kind.needs_person for r in partition.refusals if "slow down" in r.why] == [True]
    assert "DELETE_PARTITION_FINISHED" not in cluster.states()
    cluster.storage.on_effect = None
    assert cluster.clean().partitions[0].outcome == "FINISHED"
    assert cluster.states().count("DELETE_SEGMENT_STARTED") == 3
    assert cluster.keys_of(GONE) == set()


def test_only_what_was_read_back_as_started_is_deleted(cluster: Cluster) -> None:
    failing = iter([False, False, True])

    def refuse_third(name: str, detail: object) -> Failed | None:
        return Failed("too large") if name == "publish" and next(failing, False) else None

    cluster.log.on_effect = refuse_third  # the partition's start, then the segments of the highest offsets first
    report = cluster.clean()
    assert (report.partitions[0].segments_deleted, report.partitions[0].segments_left) == (2, 1)
    assert {key[-3:] for key in cluster.keys_of(GONE)} >= {"log"}
    assert len(cluster.keys_of(GONE)) == 5
    assert "DELETE_SEGMENT_STARTED was not acknowledged: too large" in reasons(report)


@pytest.mark.parametrize("landed", [True, False])
def test_after_an_unknown_outcome_nothing_is_declared_finished_in_that_run(cluster: Cluster, landed: bool) -> None:
    answers = chain([None, Unknown("timed out")])

    def doubt(name: str, detail: object) -> Unknown | None:
        return next(answers, None) if name == "publish" else None

    if landed:
        cluster.log.after_effect = doubt
    else:
        cluster.log.on_effect = doubt
    report = cluster.clean()
    assert report.partitions[0].outcome == "INCOMPLETE"
    assert "DELETE_PARTITION_FINISHED" not in cluster.states()
    assert len(cluster.keys_of(GONE)) == (0 if landed else 5)
    assert "timed out" in reasons(report)
    if landed:
        assert "the outcome of an earlier record of this run is unknown" in reasons(report)
    assert cluster.clean().partitions[0].outcome == "FINISHED"


def test_an_unknown_outcome_is_remembered_whatever_came_of_later_records(cluster: Cluster) -> None:
    """Both starts are lost, one of them perhaps on its way, and another run deletes the segments in the meantime."""
    answers = chain([None, None, Unknown("timed out"), Failed("not leader")])
    cluster.log.on_effect = lambda name, _: next(answers, None) if name == "publish" else None

    def delete_elsewhere() -> None:
        for number in (0, 1):
            for state in (S.DELETE_SEGMENT_STARTED, S.DELETE_SEGMENT_FINISHED):
                cluster.foreign(update(GONE, number, state, broker_id=OWN_BROKER_ID))

    cluster.log.after_effect = on_nth_publish(S.DELETE_SEGMENT_FINISHED, delete_elsewhere)
    report = cluster.clean()
    assert report.partitions[0].segments_left == 0
    assert "the outcome of an earlier record of this run is unknown" in reasons(report)
    assert "DELETE_PARTITION_FINISHED" not in cluster.states()


def test_a_start_that_fails_deletes_nothing(cluster: Cluster) -> None:
    cluster.log.on_effect = lambda name, _: Failed("not leader") if name == "publish" else None
    assert cluster.clean().partitions[0].outcome == "INCOMPLETE"
    assert len(cluster.keys_of(GONE)) == 15


def test_a_foreign_event_in_the_middle_stops_before_the_next_delete(cluster: Cluster) -> None:
    cluster.log.after_effect = on_nth_publish(S.DELETE_SEGMENT_STARTED, lambda: cluster.foreign(add(GONE, 9)), nth=1)
    report = cluster.clean(batch_segments=1)
    assert report.partitions[0].outcome == "INCOMPLETE"
    assert "foreign segment event" in reasons(report)
    assert len(cluster.keys_of(GONE)) == 15
    assert cluster.states().count("DELETE_SEGMENT_STARTED") == 1


def test_a_new_observation_in_the_middle_does_not_excuse_a_foreign_event(cluster: Cluster) -> None:
    def copy_and_mark() -> None:
        cluster.foreign(add(GONE, 9))
        cluster.foreign(deletion(GONE, P.DELETE_PARTITION_STARTED, cluster.now_ms))

    cluster.log.after_effect = on_nth_publish(S.DELETE_SEGMENT_STARTED, copy_and_mark)
    report = cluster.clean(batch_segments=1)
    assert "less than min_absence" in reasons(report)
    assert len(cluster.keys_of(GONE)) == 15


def test_a_topic_without_disks_that_gets_the_name_stops_before_the_next_batch(cluster: Cluster) -> None:
    cluster.topics.diskless = {GONE.topic}
    cluster.log.after_effect = on_nth_publish(
        S.DELETE_SEGMENT_FINISHED, lambda: cluster.topics.create(GONE.topic, OTHER_ID)
    )
    report = cluster.clean(batch_segments=1)
    assert report.partitions[0].segments_deleted == 1
    assert "topic 'gone' of the cluster is diskless" in reasons(report)
    assert len(cluster.keys_of(GONE)) == 10


def test_a_topic_with_disks_that_gets_the_name_stops_nothing(cluster: Cluster) -> None:
    cluster.topics.create(GONE.topic, OTHER_ID)
    assert cluster.clean().partitions[0].outcome == "FINISHED"


def test_a_topic_that_comes_back_stops_before_the_next_batch(cluster: Cluster) -> None:
    cluster.log.after_effect = on_nth_publish(
        S.DELETE_SEGMENT_FINISHED, lambda: cluster.topics.create(GONE.topic, GONE.topic_id)
    )
    report = cluster.clean(batch_segments=1)
    assert report.partitions[0].segments_deleted == 1
    assert "exists in the cluster as 'gone'" in reasons(report)
    assert len(cluster.keys_of(GONE)) == 10


def test_a_topic_that_comes_back_after_the_last_batch_is_not_declared_deleted(cluster: Cluster) -> None:
    cluster.log.after_effect = on_nth_publish(
        S.DELETE_SEGMENT_FINISHED, lambda: cluster.topics.create(GONE.topic, GONE.topic_id), nth=3
    )
    assert cluster.clean().partitions[0].outcome == "INCOMPLETE"
    assert "DELETE_PARTITION_FINISHED" not in cluster.states()


@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("state", [P.DELETE_PARTITION_STARTED, S.DELETE_SEGMENT_STARTED, S.DELETE_SEGMENT_FINISHED])
def test_another_run_that_overtakes_this_one_ends_in_the_same_state(cluster: Cluster, state: S | P, nth: int) -> None:
    planned = cluster.everything()
    other = cluster.cleaner()

    def overtake() -> None:
        cluster.log.after_effect = lambda name, detail: None
        assert other.clean(0, planned).partitions[0].outcome == "FINISHED"

    cluster.log.after_effect = on_nth_publish(state, overtake, nth)
    report = cluster.clean(planned=planned, batch_segments=1)
    assert cluster.keys_of(GONE) == set()
    assert cluster.states().count("DELETE_PARTITION_FINISHED") == 1
    if state is not P.DELETE_PARTITION_STARTED or nth == 1:
        assert "another run has finished it" in reasons(report)
    assert cluster.clean().partitions == ()


def test_segments_that_another_run_finished_meanwhile_are_left_to_it(cluster: Cluster) -> None:
    planned = cluster.everything()
    key = (GONE.topic_id, GONE.partition)
    other = cluster.cleaner()

    def overtake() -> None:
        cluster.log.after_effect = lambda name, detail: None
        other.clean(0, {key: frozenset(sorted(planned[key])[:1])})

    cluster.log.after_effect = on_nth_publish(S.DELETE_SEGMENT_FINISHED, overtake)
    report = cluster.clean(planned=planned, batch_segments=1)
    assert (report.partitions[0].outcome, report.partitions[0].segments_deleted) == ("FINISHED", 2)
    assert cluster.states().count("DELETE_SEGMENT_FINISHED") == 3


def test_resumed_after_the_last_delete_of_a_cluster_it_finishes(cluster: Cluster) -> None:
    class KilledError(Exception):
        pass

    def kill() -> None:
        raise KilledError

    lonely = Cluster(living_topic=False)
    lonely.segments(GONE, 2)
    lonely.mark_and_wait()
    lonely.log.on_effect = on_nth_publish(S.DELETE_SEGMENT_FINISHED, kill)
    with pytest.raises(StorageRootError, match="unproven_root"):
        lonely.clean()
    with pytest.raises(KilledError):
        lonely.clean(overrides=frozenset({"unproven_root"}))
    assert lonely.keys_of(GONE) == set()
    lonely.log.on_effect = lambda name, detail: None
    with pytest.raises(StorageRootError, match="no living topic"):
        lonely.clean()
    unrecorded = lonely.clean(overrides=frozenset({"unproven_root"}))
    assert unrecorded.partitions[0].outcome == "REFUSED", "a stamp that nobody has recorded may be a copy"
    lonely.record_root()
    assert lonely.clean().partitions[0].outcome == "FINISHED"


def test_the_committed_offset_stops_at_the_first_unsettled_marker(cluster: Cluster) -> None:
    marker = cluster.log.high_water_marks()[0] - 1
    cluster.topics.create(GONE.topic, GONE.topic_id)
    assert cluster.clean().committed_offset == marker
    assert cluster.offsets.committed() == {0: marker}
    cluster.topics.delete(GONE.topic)
    assert cluster.clean().committed_offset == cluster.log.high_water_marks()[0]


def test_a_topic_that_is_marked_during_a_run_holds_the_committed_offset_back(cluster: Cluster) -> None:
    later = tip("later", topic_id=8)
    cluster.segment(later, 20)
    planned, marker = cluster.everything(), cluster.log.high_water_marks()[0]
    cluster.log.after_effect = once("read", lambda: cluster.foreign(deletion(later, P.DELETE_PARTITION_MARKED)))
    report = cluster.clean(planned=planned)
    assert [(p.topic, p.outcome) for p in report.partitions] == [("gone", "FINISHED")]
    assert report.committed_offset == marker < cluster.log.high_water_marks()[0]


def test_lost_offsets_cost_nothing_but_a_replay(cluster: Cluster) -> None:
    cluster.clean()
    events = cluster.ours()
    cluster.offsets.lose()
    assert cluster.clean().committed_offset == cluster.log.high_water_marks()[0]
    assert cluster.ours() == events


def test_segments_that_appear_after_the_end_open_the_partition_again(cluster: Cluster) -> None:
    cluster.clean()
    cluster.segment(GONE, 5)
    assert cluster.clean().partitions == ()
    cluster.mark_and_wait()
    assert cluster.clean().partitions[0].outcome == "FINISHED"
    assert cluster.keys_of(GONE) == set()


def test_a_leader_that_finished_the_deletion_itself_leaves_a_partition_that_can_be_finished(cluster: Cluster) -> None:
    """The marker ran while the leader was still deleting."""
    for number in range(3):
        cluster.foreign(update(GONE, number, S.DELETE_SEGMENT_STARTED))
        cluster.foreign(update(GONE, number, S.DELETE_SEGMENT_FINISHED))
    assert "foreign segment event" in reasons(cluster.clean())
    cluster.mark_and_wait()
    assert cluster.clean().partitions[0].outcome == "FINISHED"


def test_dry_run_lists_exactly_the_events_of_a_real_run_and_does_nothing(cluster: Cluster) -> None:
    cluster.segment(tip("gone", 1), 4, S.DELETE_SEGMENT_STARTED)
    cluster.segment(tip("gone", 2), 5, S.COPY_SEGMENT_STARTED, objects=False)
    cluster.mark_and_wait()
    before, keys = cluster.ours(), cluster.storage.keys
    closed = GuardedPublisher(cluster.log, allow_writes=False)
    dry = cluster.clean(dry_run=True, batch_segments=2, publisher=closed)
    assert (cluster.ours(), cluster.storage.keys, cluster.offsets.committed()) == (before, keys, {})
    assert (dry.events, dry.committed_offset, dry.dry_run) == ({}, None, True)

    real = cluster.clean(batch_segments=2)
    assert list(dry.would_write) == cluster.ours()[len(before) :]
    assert dry.partitions == real.partitions
    assert [p.outcome for p in real.partitions] == ["FINISHED"] * 3
