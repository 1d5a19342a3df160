# SPDX-License-Identifier: Apache-2.0
"""What one task has read the next one need not read again, and must not trust."""

from __future__ import annotations

import errno
import random
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_rlmm.core.base.errors import EventLogUnavailableError
from airflow_provider_rlmm.core.log.in_process import no_effect_hook
from airflow_provider_rlmm.core.log.snapshot import Snapshot
from airflow_provider_rlmm.core.log.topic_state import TopicState
from airflow_provider_rlmm.core.plans.refusals import RefusalKind
from airflow_provider_rlmm.core.records.records import COPIER_BROKER_ID, OWN_BROKER_ID
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState as P
from airflow_provider_rlmm.core.world.replay import MetadataPartitionReplay
from airflow_provider_rlmm.core.world.topic_view import TopicReplay
from airflow_provider_rlmm.features.cleanup.marker import DeletedPartitionMarker, RealMarkerEffects
from tests.builders import Cluster, SnapshotInMemory, add, deletion, reasons, tip, update
from tests.examples import examples

GONE = tip()


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.snapshots = SnapshotInMemory()
    cluster.segments(GONE, 4)
    return cluster


def read_and_keep(cluster: Cluster) -> TopicReplay:
    topic = cluster.topic()
    topic.advance()
    topic.keep()
    return topic


def test_the_next_task_reads_what_is_new(cluster: Cluster) -> None:
    first = read_and_keep(cluster)
    assert first.records_read == cluster.log.high_water_marks()[0]
    assert first.resumed_at == {0: 0}
    cluster.segment(GONE, 9)
    second = read_and_keep(cluster)
    assert (second.records_read, second.resumed_at) == (2, {0: first.end(0)})
    assert second.segments.num_rows == 6
    assert read_and_keep(cluster).records_read == 0


def test_it_says_where_it_knows_from_what_it_has_not_read(cluster: Cluster) -> None:
    assert read_and_keep(cluster).known_from is None, "there was no snapshot yet"
    assert cluster.topic().known_from == str(cluster.snapshots)
    cluster.log.truncate(0, cluster.log.high_water_marks()[0])
    cluster.segment(GONE, 9)
    cluster.log.truncate(0, cluster.log.high_water_marks()[0])
    assert cluster.topic().known_from is None, "the snapshot does not fit the log"
    cluster.snapshots = None
    assert cluster.topic().known_from is None


def test_a_whole_run_deletes_the_same_with_snapshots(cluster: Cluster) -> None:
    cluster.mark_and_wait()
    read_and_keep(cluster)
    plan = cluster.plan()
    assert plan.rows.num_rows == 4
    report = cluster.clean()
    assert (report.partitions[0].outcome, cluster.keys_of(GONE)) == ("FINISHED", set())
    read_and_keep(cluster)
    assert cluster.plan().rows.num_rows == 0
    assert cluster.clean().partitions == ()


@pytest.mark.slow
@settings(max_examples=examples(80), deadline=None)
@given(seed=st.integers(0, 100_000))
def test_marker_and_planner_see_the_same_with_and_without_a_snapshot(seed: int) -> None:
    chance = random.Random(seed)
    cluster = Cluster(metadata_partitions=2)
    kept = SnapshotInMemory()
    tips = [tip("gone", p, 7) for p in range(2)] + [tip("lost", 0, 8)]
    for _ in range(chance.randrange(5, 40)):
        of, number = chance.choice(tips), chance.randrange(4)
        roll = chance.random()
        if roll < 0.4:
            cluster.foreign(add(of, number))
        elif roll < 0.75:
            cluster.foreign(update(of, number, chance.choice(list(S)[1:])))
        elif roll < 0.9:
            cluster.foreign(deletion(of, chance.choice(list(P))))
        elif roll < 0.95:
            cluster.log.append(cluster.metadata_partition_of(of), chance.choice([None, b"\x01\x00\x00garbage"]))
        else:
            cluster.snapshots = kept
            read_and_keep(cluster)
            cluster.snapshots = None
    cluster.now_ms += 25 * 3_600_000

    def told() -> tuple[object, ...]:
        plan = cluster.plan()
        marking = cluster.mark(dry_run=True)
        summary = plan.summary
        marks = frozenset(marking.marked), marking.already_marked, frozenset(marking.refusals)
        return (
            sorted(plan.rows.to_pylist(), key=repr), frozenset(summary.refusals), summary.known, summary.waiting,
            summary.tails, summary.quarantined, summary.unresolved, summary.by_metadata_partition, marks,
        )  # fmt: skip

    without = told()
    cluster.snapshots = kept
    assert told() == without


@pytest.mark.parametrize("broker_id", [OWN_BROKER_ID, COPIER_BROKER_ID])
def test_whoever_copies_is_somebody_else_to_the_fold_too(cluster: Cluster, broker_id: int) -> None:
    """A copy shows that the topic lives, or did: the observation of its absence does not stand any more."""
    cluster.segment(GONE, 7)
    cluster.foreign(deletion(GONE, P.DELETE_PARTITION_MARKED, 0))
    cluster.foreign(add(GONE, 8, broker_id=broker_id))
    topic = cluster.topic()
    topic.advance()
    history = topic.view(0, {GONE.topic_id}).histories[GONE]
    assert (history.observations, history.last_foreign_offset) == ([], topic.end(0) - 1)


@pytest.mark.parametrize("behind_a_snapshot", [True, False])
def test_what_came_too_late_is_looked_up_once_and_behind_a_snapshot_only(
    cluster: Cluster, behind_a_snapshot: bool
) -> None:
    """Both look alike in its columns: an update of a finished segment, and one whose add nobody ever wrote."""
    other = tip("other", 0, 12)
    for of in (GONE, other):
        cluster.segment(of, 7, S.DELETE_SEGMENT_FINISHED, objects=False)
    if behind_a_snapshot:
        read_and_keep(cluster)
    cluster.foreign(update(GONE, 7, S.DELETE_SEGMENT_STARTED, broker_id=OWN_BROKER_ID))
    cluster.foreign(update(other, 8, S.COPY_SEGMENT_FINISHED))
    ids = frozenset({GONE.topic_id, other.topic_id})

    def looked_up() -> tuple[dict[str, list[UUID]], int, int]:
        topic, reads = cluster.topic(), len(read_from_the_beginning)
        topic.advance()
        known_from_the_log = len(read_from_the_beginning) - reads
        histories = topic.view(0, ids).histories
        topic.keep()
        without = {of.topic: list(histories[of].without_add) for of in (GONE, other)}
        return without, topic.count_unresolved(0), len(read_from_the_beginning) - reads - known_from_the_log

    read_from_the_beginning: list[int] = []

    def note(name: str, detail: Any) -> None:
        if name == "read" and detail.start == 0:
            read_from_the_beginning.append(detail.end)

    cluster.log.on_effect = note
    expected = {"gone": [], "other": [UUID(int=1008)]}
    assert looked_up() == (expected, 1, int(behind_a_snapshot))
    cluster.segments(tip("more", 0, 9), 20)
    assert looked_up() == (expected, 1, 0)
    cluster.foreign(update(other, 8, S.DELETE_SEGMENT_FINISHED))
    assert looked_up() == ({"gone": [], "other": []}, 0, 0)


class Full(SnapshotInMemory):
    def write(self, snapshot: Snapshot) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")


def test_a_snapshot_that_cannot_be_written_is_said_and_stops_nothing(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.snapshots = Full()
    assert read_and_keep(cluster).records_read == cluster.log.high_water_marks()[0]
    assert "no space left on device" in caplog.text
    assert read_and_keep(cluster).records_read == cluster.log.high_water_marks()[0]


def test_a_cluster_that_does_not_answer_at_the_end_hides_no_other_error(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(name: str, _: object) -> None:
        raise EventLogUnavailableError(f"{name}: nobody answers")

    topic = cluster.topic()
    topic.advance()
    cluster.topics.on_effect = refuse
    topic.keep()
    assert "nobody answers" in caplog.text


def test_without_a_place_to_keep_it_nothing_is_kept(cluster: Cluster) -> None:
    cluster.snapshots = None
    read_and_keep(cluster)
    assert cluster.topic().resumed_at == {0: 0}


def lie(cluster: Cluster, *without: int) -> None:
    """Leave a snapshot that fits the log in everything that can be checked, and does not know some of its records."""
    truth = TopicState(cluster.log, cluster.topics, clock=cluster.clock)
    truth.advance()
    (batch,) = cluster.log.read(0, 0, truth.next_offsets[0])
    poorer = Cluster(living_topic=False)
    for offset, value in enumerate(batch.column("value").to_pylist()):
        if offset not in without:
            poorer.log.append(0, value)
    told = TopicState(poorer.log, poorer.topics, clock=cluster.clock)
    told.advance()
    assert cluster.snapshots is not None
    cluster.snapshots.write(replace(truth.snapshot(), state=told.state))


def test_what_a_snapshot_leaves_out_is_not_declared_deleted(cluster: Cluster) -> None:
    cluster.mark_and_wait()
    lie(cluster, 2, 3)  # the first of the four segments
    planned = {key: ids for key, ids in cluster.everything().items() if key[0] == GONE.topic_id}
    seen = {row["segment_id"] for row in cluster.plan().rows.to_pylist()}
    assert len(seen) == 3
    planned = {key: frozenset(i for i in ids if i.bytes in seen) for key, ids in planned.items()}
    (partition,) = cluster.clean(planned=planned).partitions
    assert (partition.outcome, partition.segments_deleted, partition.segments_left) == ("INCOMPLETE", 3, 1)
    assert len(cluster.keys_of(GONE)) == 5
    assert "DELETE_PARTITION_FINISHED" not in cluster.states()


def test_a_marker_that_a_snapshot_makes_up_deletes_nothing(cluster: Cluster) -> None:
    """The log it was made of had a marker; this one has another record in its place."""
    before = Cluster()
    before.segments(GONE, 4)
    before.mark()
    told = TopicState(before.log, before.topics, clock=before.clock)
    told.advance()
    cluster.log.append(0, b"\x01\x00\x00garbage")
    truth = TopicState(cluster.log, cluster.topics, clock=cluster.clock)
    truth.advance()
    assert cluster.snapshots is not None
    cluster.snapshots.write(replace(truth.snapshot(), state=told.state))
    cluster.now_ms += 25 * 3_600_000
    keys = cluster.storage.keys
    assert cluster.topic().resumed_at == truth.next_offsets
    assert cluster.clean(planned=before.everything()).partitions == ()
    assert cluster.storage.keys == keys


def test_a_log_that_has_lost_its_beginning_since_is_not_whole_whatever_was_read_before(cluster: Cluster) -> None:
    cluster.log.append(0, b"\x01\x00\x00garbage")
    cluster.segments(tip("more", 0, 9), 20)
    cluster.mark_and_wait()
    read_and_keep(cluster)
    assert cluster.plan().summary.quarantined == {0: 1}
    cluster.log.truncate(0, 2)
    assert cluster.topic().resumed_at != {0: 0}
    summary = cluster.plan().summary
    assert [r.kind for r in summary.refusals if r.kind is RefusalKind.LOST_RECORDS] == [RefusalKind.LOST_RECORDS]
    assert summary.quarantined == {0: 1}
    cluster.log.truncate(0, 20)
    assert cluster.topic().resumed_at != {0: 0}
    assert cluster.plan().summary.quarantined == {}, "nobody can look at a record that is gone"


def test_a_finished_deletion_does_not_hold_back_the_committed_offset(cluster: Cluster) -> None:
    cluster.mark_and_wait()
    cluster.clean()
    cluster.segment(cluster.alive, 3)
    assert cluster.clean().committed_offset == cluster.log.high_water_marks()[0]


def test_a_marker_that_comes_while_the_log_is_read_holds_back_the_committed_offset(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = tip("late", 0, 77)
    read_and_keep(cluster)
    written: list[int] = []

    def begun(*args: Any) -> MetadataPartitionReplay:
        # The topics whose deletion is under way were chosen by then; their replay has yet to begin.
        written.append(cluster.foreign(deletion(late, P.DELETE_PARTITION_MARKED)))
        return MetadataPartitionReplay(*args)

    monkeypatch.setattr("airflow_provider_rlmm.features.cleanup.cleaner.MetadataPartitionReplay", begun)
    assert cluster.clean().committed_offset == written[0]
    monkeypatch.undo()
    assert "marked 0 s ago" in reasons(cluster.clean())


def test_who_names_a_topic_id_otherwise_while_a_marker_is_written_is_seen_by_the_next_run(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The marker looks once more before it writes; whoever names the topic id otherwise while it does comes too late."""
    cluster.segment(GONE, 7, S.DELETE_SEGMENT_FINISHED, objects=False)
    cluster.foreign(update(GONE, 7, S.DELETE_SEGMENT_STARTED, broker_id=OWN_BROKER_ID))
    names_of, looks = TopicReplay.names_of, 0

    def taken(topic: TopicReplay, *args: Any) -> frozenset[str]:
        nonlocal looks
        looks += 1
        if looks == 2:
            cluster.log.on_effect = name_it_otherwise
        return names_of(topic, *args)

    def name_it_otherwise(*_: object) -> None:
        cluster.log.on_effect = no_effect_hook
        cluster.foreign(add(tip("other-name", 0, 7), 3))

    monkeypatch.setattr(TopicReplay, "names_of", taken)
    (marked,) = cluster.mark().marked
    assert "gone-0" in marked
    monkeypatch.undo()
    assert cluster.mark().refusals[0].kind is RefusalKind.AMBIGUOUS


def test_nothing_is_marked_by_a_name_that_came_behind_the_look_of_all(cluster: Cluster) -> None:
    """Somebody names the topic id otherwise behind the look that all share: the marker reads on and sees it."""

    def name_it_otherwise(name: str, _: object) -> None:
        if name == "describe_topics":
            cluster.topics.after_effect = no_effect_hook
            cluster.foreign(add(tip("other-name", 0, 7), 3))

    marker = DeletedPartitionMarker(cluster.topic(), RealMarkerEffects(cluster.publisher), clock=cluster.clock)
    cluster.topics.after_effect = name_it_otherwise
    report = marker.mark()
    assert report.marked == ()
    assert report.refusals[0].kind is RefusalKind.AMBIGUOUS
