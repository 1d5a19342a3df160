# SPDX-License-Identifier: Apache-2.0
"""What the cleaner must not touch, and how it says so."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.base.errors import (
    ClusterMismatchError,
    ConfigurationError,
    EventLogAccessError,
    LogReplacedError,
    PartitionerMismatchError,
    StorageAccessError,
    StorageRootError,
    StorageUnavailableError,
    WritesNotAllowedError,
)
from airflow_provider_rlmm.core.log.write_guard import GuardedPublisher
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState as P
from airflow_provider_rlmm.core.world.effects import RealEffects
from airflow_provider_rlmm.features.cleanup.cleaner import RemoteLogCleaner
from airflow_provider_rlmm.features.cleanup.reports import MetadataPartitionReport
from tests.builders import CLUSTER_ID, DAY_MS, STAMP_KEY, Cluster, add, deletion, reasons, tip, update
from tests.roots import KNOWN_FROM_THE_BEGINNING

GONE = tip()


@pytest.fixture
def cluster() -> Cluster:
    """A deleted topic with three segments, marked a day ago."""
    cluster = Cluster()
    cluster.segments(GONE, 3)
    cluster.mark_and_wait()
    return cluster


def assert_untouched(cluster: Cluster, keys: frozenset[str]) -> None:
    """Nothing was written about the deleted topic, and no object of a segment was touched."""
    assert cluster.states() == ["DELETE_PARTITION_MARKED"]
    assert cluster.storage.keys - {STAMP_KEY} == keys


def test_a_misrouted_record_that_is_allowed_still_forbids_every_write() -> None:
    cluster = Cluster(metadata_partitions=2)
    cluster.segments(GONE, 1)
    cluster.mark_and_wait()
    home = cluster.metadata_partition_of(GONE)
    cluster.log.append(1 - home, serialize(deletion(GONE, P.DELETE_PARTITION_MARKED)))
    cluster.log.append(1 - home, serialize(add(GONE, 8)))
    stranger = next(t for i in range(99) if cluster.metadata_partition_of(t := tip("x", 0, 100 + i)) != home)
    cluster.log.append(home, serialize(add(stranger, 0)))
    with pytest.raises(PartitionerMismatchError):
        cluster.clean(home, allowed_quarantine=frozenset({"MISROUTED"}))
    assert len(cluster.keys_of(GONE)) == 5


def test_an_allowed_keyed_record_lets_the_work_pass(cluster: Cluster) -> None:
    cluster.foreign(update(cluster.alive, 0, S.COPY_SEGMENT_FINISHED), key=b"k")
    report = cluster.clean(allowed_quarantine=frozenset({"KEYED"}))
    assert report.partitions[0].outcome == "FINISHED"
    assert cluster.keys_of(GONE) == set()


def test_an_allowed_keyed_record_counts_as_what_it_says(cluster: Cluster) -> None:
    """Brokers apply it, so a leader that writes keyed events is at work here."""
    cluster.foreign(add(GONE, 9), key=b"k")
    report = cluster.clean(allowed_quarantine=frozenset({"KEYED"}))
    assert report.partitions[0].outcome == "REFUSED"
    assert "foreign segment event" in reasons(report)
    assert len(cluster.keys_of(GONE)) == 15


def test_a_keyed_marker_holds_the_committed_offset_back() -> None:
    cluster = Cluster()
    cluster.segments(GONE, 1)
    offset = cluster.foreign(deletion(GONE, P.DELETE_PARTITION_MARKED), key=b"k")
    assert cluster.clean().committed_offset == offset


def test_an_update_without_its_add_is_refused(cluster: Cluster) -> None:
    offset = cluster.foreign(update(GONE, 8, S.COPY_SEGMENT_FINISHED))
    cluster.mark_and_wait()
    report = cluster.clean()
    assert report.partitions[0].outcome == "REFUSED"
    assert f"1 segment has an incomplete history, see offset {offset}" in reasons(report)
    assert len(cluster.keys_of(GONE)) == 15


def test_a_marker_for_a_living_topic_is_refused_loudly(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    keys = cluster.storage.keys
    cluster.topics.create("renamed", GONE.topic_id)
    report = cluster.clean()
    assert report.partitions[0].outcome == "REFUSED"
    assert "exists in the cluster as 'renamed'" in reasons(report)
    assert "find out who wrote this marker" in report.partitions[0].refusals[0].what_to_do
    assert [r.levelname for r in caplog.records if "refused" in r.message] == ["WARNING"]
    assert_untouched(cluster, keys)


def test_a_marker_younger_than_min_absence_is_refused(cluster: Cluster) -> None:
    keys = cluster.storage.keys
    cluster.now_ms -= 1
    report = cluster.clean()
    assert "marked 23 h 59 min ago, less than min_absence of 24 h" in reasons(report)
    assert_untouched(cluster, keys)
    cluster.now_ms += 1
    assert cluster.clean().partitions[0].outcome == "FINISHED"


def test_a_foreign_event_after_the_marker_is_refused_until_it_is_marked_anew(cluster: Cluster) -> None:
    offset = cluster.foreign(update(GONE, 0, S.DELETE_SEGMENT_STARTED))
    report = cluster.clean()
    assert f"a foreign segment event at offset {offset} came after the marker" in reasons(report)
    cluster.mark()
    assert "less than min_absence" in reasons(cluster.clean())
    cluster.now_ms += DAY_MS
    assert cluster.clean().partitions[0].outcome == "FINISHED"


def test_two_names_for_one_topic_id_are_refused(cluster: Cluster) -> None:
    keys = cluster.storage.keys
    cluster.foreign(add(tip("other", 3), 8))
    report = cluster.clean()
    assert "has 2 names in the metadata topic: ['gone', 'other']" in reasons(report)
    assert_untouched(cluster, keys)


def as_a_broker_describes(name: str, detail: Any) -> None:
    if name == "describe_topics" and any("/" in asked for asked in detail):
        raise EventLogAccessError(f"topic {detail!r} cannot be described: no topic can have this name")


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_topic_name_that_walks_a_path_is_refused_and_the_others_go_on(cluster: Cluster, dry_run: bool) -> None:
    walker = tip("../../alive", 0, 9)
    cluster.foreign(add(walker, 0))
    cluster.foreign(update(walker, 0, S.COPY_SEGMENT_FINISHED))
    cluster.topics.on_effect = as_a_broker_describes
    marked = cluster.mark()
    assert "'../../alive' was not described: no topic can have this name" in marked.refusals[0].why
    cluster.foreign(deletion(walker, P.DELETE_PARTITION_MARKED))  # as if somebody else had marked it
    later = tip("later", 0, 10)
    cluster.segment(later, 1)
    cluster.mark_and_wait()

    plan = cluster.plan()
    assert plan.summary.planned.segments == 4
    report = cluster.clean(dry_run=dry_run)
    assert {p.topic: p.outcome.value for p in report.partitions} == {
        "gone": "FINISHED",
        "../../alive": "REFUSED",
        "later": "FINISHED",
    }
    assert "'../../alive' was not described: no topic can have this name" in reasons(report)
    assert len(cluster.keys_of(cluster.alive)) == 5
    assert [line.split()[0] for line in cluster.ours() if "alive" in line] == ["DELETE_PARTITION_MARKED"]


def test_a_partition_that_makes_no_key_is_refused_and_the_others_go_on(cluster: Cluster) -> None:
    broken = tip("broken", -4, 9)
    cluster.foreign(add(broken, 0))
    cluster.mark_and_wait()
    report = cluster.clean()
    assert [p.outcome for p in report.partitions] == ["FINISHED", "REFUSED"]
    assert "user partition -4 of topic 'broken' is not in" in reasons(report)
    assert not any("SEGMENT" in line or "STARTED" in line for line in cluster.ours() if "broken" in line)


@pytest.mark.parametrize("error", [StorageUnavailableError("slow down"), StorageAccessError("forbidden")])
def test_storage_that_fails_for_one_partition_does_not_stop_the_others(cluster: Cluster, error: Exception) -> None:
    later = tip("later", 0, 10)
    cluster.segment(later, 1)
    cluster.mark_and_wait()

    def fail(effect: str, key: str) -> None:
        if effect == "list" and "gone-0" in key and key.endswith("/"):
            raise error

    cluster.storage.on_effect = fail
    report = cluster.clean()
    assert [p.outcome for p in report.partitions] == ["REFUSED", "FINISHED"]
    assert str(error) in reasons(report)
    assert len(cluster.keys_of(GONE)) == 15
    assert report.committed_offset is not None
    assert report.committed_offset < cluster.log.high_water_marks()[0] - 1


def test_storage_that_fails_midway_leaves_the_partition_for_the_next_run(cluster: Cluster) -> None:
    listings = iter(range(100))

    def fail(effect: str, key: str) -> None:
        if effect == "list" and "gone-0" in key and next(listings) == 3:
            raise StorageUnavailableError("slow down")

    cluster.storage.on_effect = fail
    report = cluster.clean(batch_segments=1)
    (partition,) = report.partitions
    assert (partition.outcome, partition.segments_deleted, partition.segments_left) == ("INCOMPLETE", 1, 2)
    cluster.storage.on_effect = None
    assert cluster.clean().partitions[0].outcome == "FINISHED"


def test_a_root_that_goes_away_stops_the_run(cluster: Cluster) -> None:
    later = tip("later", 0, 10)
    cluster.segment(later, 1)
    cluster.mark_and_wait()

    def unmount(effect: str, key: str) -> None:
        if effect == "list" and "gone-0" in key:
            cluster.storage.root_exists = False

    cluster.storage.after_effect = unmount
    with pytest.raises(StorageRootError, match="taken away"):
        cluster.clean()
    assert len(cluster.keys_of(GONE)) + len(cluster.keys_of(later)) == 20


def test_a_segment_that_appears_while_another_partition_is_cleaned_is_left_with_a_reason(cluster: Cluster) -> None:
    empty = tip("empty", 0, 10)
    cluster.foreign(deletion(empty, P.DELETE_PARTITION_MARKED))
    cluster.mark_and_wait()
    late = iter([add(empty, 0)])

    def copy(effect: str, detail: object) -> None:
        if effect == "publish" and (event := next(late, None)) is not None:
            cluster.foreign(event)

    cluster.log.on_effect = copy
    report = cluster.clean()
    assert [(p.topic, p.outcome, p.segments_left) for p in report.partitions] == [
        ("gone", "FINISHED", 0),
        ("empty", "INCOMPLETE", 1),
    ]
    assert report.partitions[1].refusals


def test_an_error_that_ends_the_run_does_not_lose_the_report_of_what_was_done(cluster: Cluster) -> None:
    for number, topic in enumerate(["doubtful", "interrupted", "untouched"]):
        cluster.segment(tip(topic, 0, 10 + number), 1)
    cluster.mark_and_wait()

    def unmount(effect: str, key: str) -> None:
        if effect == "delete" and "doubtful" in key:
            cluster.storage.root_exists = False

    cluster.storage.after_effect = unmount
    kept: list[MetadataPartitionReport] = []
    with pytest.raises(StorageRootError) as error:
        cluster.clean(on_interrupted=kept.append, batch_segments=1)
    (report,) = kept
    assert [(p.topic, p.outcome, p.segments_deleted, p.segments_left) for p in report.partitions] == [
        ("gone", "FINISHED", 3, 0),
        ("doubtful", "INCOMPLETE", 0, 1),
        ("interrupted", "REFUSED", 0, 1),
        ("untouched", "REFUSED", 0, 1),
    ]
    assert report.committed_offset is None
    assert report.events["DELETE_SEGMENT_FINISHED"] == 3
    for partition in report.partitions[2:]:
        assert f"the run was ended by StorageRootError: {error.value}" in partition.refusals[-1].why


def test_nothing_is_deleted_while_writes_are_not_allowed(cluster: Cluster) -> None:
    keys = cluster.storage.keys
    with pytest.raises(WritesNotAllowedError):
        cluster.clean(publisher=GuardedPublisher(cluster.log, allow_writes=False))
    assert cluster.storage.keys == keys, "not even the stamp may be written"


def test_a_resumed_run_that_has_nothing_to_publish_before_it_deletes_needs_leave_too() -> None:
    cluster = Cluster(living_topic=False)
    cluster.segment(GONE, 0, S.DELETE_SEGMENT_STARTED)
    cluster.stamp_root()  # so that none is to be written either
    cluster.record_root()
    cluster.mark_and_wait()
    cluster.foreign(deletion(GONE, P.DELETE_PARTITION_STARTED))
    with pytest.raises(WritesNotAllowedError, match="delete the objects of 1 segment"):
        cluster.clean(publisher=GuardedPublisher(cluster.log, allow_writes=False))
    assert len(cluster.keys_of(GONE)) == 5
    assert cluster.clean().partitions[0].outcome == "FINISHED"


@pytest.mark.parametrize(("expected", "error"), [("another", ClusterMismatchError), (None, ConfigurationError)])
def test_another_cluster_or_an_override_without_a_name_for_it_is_refused(
    cluster: Cluster, expected: str | None, error: type[Exception]
) -> None:
    keys = cluster.storage.keys
    limits = CleanerLimits(min_absence_ms=0, overrides=frozenset({"short_min_absence"}))
    cleaner = RemoteLogCleaner(
        cluster.log,
        RealEffects(cluster.publisher, cluster.storage, cluster.offsets, cluster.audit),
        cluster.offsets,
        cluster.topics,
        cluster.storage,
        limits=limits,
        audit=cluster.audit,
        expected_cluster_id=expected,
        clock=cluster.clock,
        ledger=KNOWN_FROM_THE_BEGINNING,
    )
    with pytest.raises(error, match=CLUSTER_ID if expected else "expected_cluster_id"):
        cleaner.clean(0, cluster.everything())
    assert_untouched(cluster, keys)


def test_a_topic_listing_that_fails_stops_the_run_before_anything_is_done(cluster: Cluster) -> None:
    keys = cluster.storage.keys

    def forbid(name: str, detail: Any) -> None:
        if name == "list_topics":
            raise EventLogAccessError("topic 'secret' may not be described")

    cluster.topics.on_effect = forbid
    with pytest.raises(EventLogAccessError):
        cluster.clean()
    assert_untouched(cluster, keys)


def test_a_topic_created_again_under_the_same_name_is_not_touched(cluster: Cluster) -> None:
    twin = tip(GONE.topic, 0, 8)
    cluster.topics.create(GONE.topic, twin.topic_id)
    cluster.segment(twin, 6)
    report = cluster.clean()
    assert [(p.outcome.value, p.segments_deleted) for p in report.partitions] == [("FINISHED", 3)]
    assert (cluster.keys_of(GONE), len(cluster.keys_of(twin))) == (set(), 5)
    assert UUID(int=8) in cluster.topics.topics.values()


def test_a_plan_that_was_made_from_another_log_is_not_applied(cluster: Cluster) -> None:
    other = Cluster()
    for number in (0, 1, 3):
        other.segment(GONE, number)
    other.mark_and_wait()
    keys = frozenset(cluster.storage.keys - {STAMP_KEY})
    with pytest.raises(LogReplacedError, match="other records than when the plan was made"):
        cluster.cleaner().clean(0, cluster.everything(), other.plan().summary.tail_of(0))
    assert_untouched(cluster, keys)
    assert cluster.cleaner().clean(0, cluster.everything(), cluster.plan().summary.tail_of(0)).partitions
