# SPDX-License-Identifier: Apache-2.0
"""
A living topic's segments are never touched, and nothing is declared deleted that was not seen to be.

Each case is one that makes the living look dead: a principal that may not see a topic, a new topic of an old name, records
that lie, another cluster, storage that is gone.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from airflow_provider_rlmm.core.base.clock import system_clock
from airflow_provider_rlmm.core.base.errors import ClusterMismatchError, EventLogAccessError, StorageRootError
from airflow_provider_rlmm.core.log.kafka.event_log import KafkaMetadataEventLog
from airflow_provider_rlmm.core.plans.refusals import RefusalKind
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
)
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState, RemotePartitionDeleteState
from airflow_provider_rlmm.core.storage.layouts import LocalTieredStorageLayout
from airflow_provider_rlmm.core.storage.object_store import ObjectStoreRemoteStorageManager
from airflow_provider_rlmm.core.storage.remote_storage import RemoteStorageManager
from airflow_provider_rlmm.core.world.freshness import FreshnessVerdict
from airflow_provider_rlmm.core.world.root_proof import look_for_freshness
from airflow_provider_rlmm.features.cleanup.reports import PartitionOutcome
from dev import formatter, tiering
from dev.authorized import AuthorizedKafka
from dev.broker import METADATA_TOPIC, LocalKafka
from tests.integration.acls import allow_exactly
from tests.integration.lifecycle_runs import (
    GROUP_ID,
    NO_WAIT,
    Runs,
    check_health,
    everything_planned,
    nothing_is_touched,
    objects_of,
    our_events,
    planned_of,
    write_event,
)
from tests.scrub import unfinished_segments

pytestmark = pytest.mark.integration

USER = "cleaner"
PLACE = "kafka-tiered-storage"
LIVE = ("orders", "payments")
BATCH = NO_WAIT.batch_segments
FOREIGN_BROKER_ID = 7


@pytest.fixture(scope="module")
def kafka() -> Iterator[AuthorizedKafka]:
    """A broker with an authorizer and two living topics."""
    with AuthorizedKafka({USER: "not-secret"}) as broker:
        for topic in LIVE:
            tiering.create_tiered_topic(broker, topic, 1)
            tiering.produce_until_remote(broker, topic, 3)
        yield broker


@pytest.fixture
def runs(kafka: AuthorizedKafka) -> Runs:
    return Runs(kafka)


def restricted(kafka: AuthorizedKafka, *visible: str) -> Runs:
    """Return the runs of a principal that has what the README asks for, but may describe these topics only."""
    allowed = [
        (ResourceType.TOPIC, METADATA_TOPIC, AclOperation.READ),
        (ResourceType.TOPIC, METADATA_TOPIC, AclOperation.WRITE),
        (ResourceType.GROUP, GROUP_ID, AclOperation.READ),
        *((ResourceType.TOPIC, topic, AclOperation.DESCRIBE) for topic in visible),
    ]
    allow_exactly(kafka, USER, allowed)
    return Runs(kafka, kafka.login(USER))


def marker_of(topic_id: UUID, topic: str, partition: int = 0) -> RemotePartitionDeleteMetadata:
    """Return a marker that somebody else wrote."""
    tip = TopicIdPartition(topic_id, topic, partition)
    state = RemotePartitionDeleteState.DELETE_PARTITION_MARKED
    return RemotePartitionDeleteMetadata(tip, state, system_clock(), FOREIGN_BROKER_ID)


def orphan(kafka: LocalKafka, topic: str, segments: int) -> UUID:
    """Make a topic that is gone while its segments are not."""
    tiering.create_tiered_topic(kafka, topic, 1)
    tiering.produce_until_remote(kafka, topic, segments)
    return tiering.provoke_scenario_b(kafka, topic)


# -- a principal that may not see a topic --------------------------------------------------------------------------------


@pytest.mark.parametrize("visible", [(), ("orders", "__consumer_offsets")], ids=["none", "all-but-one"])
def test_a_topic_that_may_not_be_described_never_looks_deleted(
    kafka: AuthorizedKafka, runs: Runs, visible: Sequence[str]
) -> None:
    planned = everything_planned(kafka)
    blind = restricted(kafka, *visible)
    hidden = set(LIVE) - set(visible)

    with nothing_is_touched(kafka):
        report = blind.mark()
    assert report.marked == ()
    assert {r.topic for r in report.refusals if r.kind is RefusalKind.ACCESS_DENIED} == hidden
    assert all("DESCRIBE on every topic" in r.why for r in report.refusals)

    # Somebody's marker takes the marker's word out of the chain: now planner and cleaner have to see for themselves.
    metadata_partition = write_event(kafka, marker_of(tiering.topic_ids(kafka)["payments"], "payments"))
    with nothing_is_touched(kafka):
        assert blind.mark().marked == ()
        plan = blind.plan()
        assert plan.rows.num_rows == 0
        assert ("payments", RefusalKind.ACCESS_DENIED) in {(r.topic, r.kind) for r in plan.summary.refusals}
        if visible:
            (seen,) = (r for r in blind.clean(metadata_partition, planned).partitions if r.topic == "payments")
            assert (seen.outcome, seen.refusals[0].kind) == (PartitionOutcome.REFUSED, RefusalKind.ACCESS_DENIED)
        else:
            with pytest.raises(EventLogAccessError, match=r"orders, payments may not be described: nothing is done"):
                blind.clean(metadata_partition, planned)

    with nothing_is_touched(kafka):
        (report,) = (r for r in runs.clean(metadata_partition, planned).partitions if r.topic == "payments")
    assert [r.why for r in report.refusals] == [
        f"topic id {report.topic_id} exists in the cluster as 'payments'",
    ], "who may see it refuses by name"
    assert report.refusals[0].what_to_do == "a living topic is never cleaned: find out who wrote this marker"
    check_health(kafka, LIVE)


# -- names and ids -------------------------------------------------------------------------------------------------------


def test_a_new_topic_of_an_old_name_is_another_topic(kafka: AuthorizedKafka, runs: Runs) -> None:
    old_id = orphan(kafka, "recreated", 4)
    new_id = tiering.create_tiered_topic(kafka, "recreated", 1)
    tiering.produce_until_remote(kafka, "recreated", 3)
    old, new = objects_of(kafka, old_id), objects_of(kafka, new_id)
    assert len(old) == 4 * 5
    assert len(new) == 3 * 5
    assert new_id != old_id

    assert [line.split()[0] for line in runs.mark().marked] == ["DELETE_PARTITION_MARKED"]
    (report,) = (r for r in runs.clean_all() if r.topic == "recreated")

    assert (report.outcome, report.segments_deleted, report.objects_deleted) == (PartitionOutcome.FINISHED, 4, len(old))
    assert objects_of(kafka, old_id) == set()
    assert new <= objects_of(kafka, new_id)
    check_health(kafka, [*LIVE, "recreated"])


@pytest.mark.parametrize("sees_it", [True, False], ids=["sees-it", "may-not-see-it"])
def test_a_wrong_name_with_a_living_id_is_refused(kafka: AuthorizedKafka, runs: Runs, sees_it: bool) -> None:
    topic_id, wrong = tiering.topic_ids(kafka)["orders"], "orders-by-mistake"
    planned = everything_planned(kafka)
    add = RemoteLogSegmentMetadata(
        remote_log_segment_id=RemoteLogSegmentId(TopicIdPartition(topic_id, wrong, 0), uuid4()),
        start_offset=0,
        end_offset=3,
        max_timestamp_ms=system_clock(),
        broker_id=FOREIGN_BROKER_ID,
        event_timestamp_ms=system_clock(),
        segment_size_in_bytes=100,
        custom_metadata=None,
        state=RemoteLogSegmentState.COPY_SEGMENT_STARTED,
        segment_leader_epochs=((0, 0),),
        txn_idx_empty=True,
    )
    write_event(kafka, add)
    metadata_partition = write_event(kafka, marker_of(topic_id, wrong))
    runs = runs if sees_it else restricted(kafka, wrong, *(set(tiering.topic_ids(kafka)) - {"orders"}))

    with nothing_is_touched(kafka):
        if sees_it:
            assert runs.mark().marked == ()
            reports = {r.topic: r for r in runs.clean(metadata_partition, planned).partitions}
            assert {r.outcome for r in reports.values()} == {PartitionOutcome.REFUSED}
            assert "exists in the cluster as 'orders'" in reports[wrong].refusals[0].why
        else:
            assert runs.mark().marked == ()
            assert runs.plan().rows.num_rows == 0
            for report in runs.clean(metadata_partition, planned).partitions:
                assert report.outcome is PartitionOutcome.REFUSED
    check_health(kafka, LIVE)


def test_another_cluster_than_the_expected_one_is_left_alone(kafka: AuthorizedKafka) -> None:
    metadata_partition = write_event(kafka, marker_of(tiering.topic_ids(kafka)["orders"], "orders"))
    elsewhere = Runs(kafka, expected_cluster_id="another-cluster")
    with (
        nothing_is_touched(kafka),
        pytest.raises(ClusterMismatchError, match=f"{kafka.cluster_id}.*another-cluster"),
    ):
        elsewhere.clean(metadata_partition, everything_planned(kafka))
    check_health(kafka, LIVE)


# -- storage that is gone ------------------------------------------------------------------------------------------------

Fault = Callable[[LocalKafka], Callable[[], None]]


def moved(folder: Path, *, empty_folder_stays: bool) -> Callable[[], None]:
    """Take a folder away as an unmount does, with or without a mount point that stays; return how to bring it back."""
    aside = folder.with_name(f"{folder.name}.moved")
    folder.rename(aside)
    if empty_folder_stays:
        folder.mkdir()

    def bring_back() -> None:
        if empty_folder_stays:
            folder.rmdir()
        aside.rename(folder)

    return bring_back


FAULTS = {
    "root-gone": lambda kafka: moved(kafka.remote_dir, empty_folder_stays=False),
    "root-unmounted": lambda kafka: moved(kafka.remote_dir, empty_folder_stays=True),
    "prefix-gone": lambda kafka: moved(kafka.remote_root, empty_folder_stays=False),
    "prefix-unmounted": lambda kafka: moved(kafka.remote_root, empty_folder_stays=True),
}


class FailingBetweenBatches:
    """Remote storage that is taken away after the first batch was deleted."""

    def __init__(self, storage: Any, fail: Callable[[], None]) -> None:
        self._storage = storage
        self._fail = fail
        self._batches = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    def delete_log_segments(self, metadatas: Any, others: Any = None) -> Any:
        report = self._storage.delete_log_segments(metadatas, others)
        self._batches += 1
        if self._batches == 1:
            self._fail()
        return report


def test_a_copy_of_the_storage_root_is_refused(kafka: AuthorizedKafka, runs: Runs, tmp_path: Path) -> None:
    """The first copy is old and without a stamp, the second one as new as the root, with its stamp."""
    old = Path(shutil.copytree(kafka.remote_root, tmp_path / "old" / PLACE)).parent
    topic_id = orphan(kafka, "copied", 3)
    for topic in LIVE:
        tiering.produce_until_remote(kafka, topic, len(unfinished(kafka, tiering.topic_ids(kafka)[topic])) + 1)
    runs.mark()
    plan = runs.plan()
    (metadata_partition,) = plan.summary.by_metadata_partition

    living = frozenset(tiering.topic_ids(kafka)[topic] for topic in LIVE)
    with KafkaMetadataEventLog(runs.config) as log:
        assert look_for_freshness(runs.open_topic(log), living, runs.open_storage()).is_fresh(PLACE)
        assert opened(old).check_root(living, kafka.cluster_id).verified, "by objects, which are not enough"
        assert look_for_freshness(runs.open_topic(log), living, opened(old)).verdict(PLACE) is FreshnessVerdict.STALE

    storage = runs.open_storage()
    storage.stamp_root(storage.check_root(living, kafka.cluster_id))
    copy = shutil.copytree(kafka.remote_dir, tmp_path / "stamped")
    with nothing_is_touched(kafka), pytest.raises(StorageRootError, match=r"may be a copy.*'move_stamp'"):
        runs.clean(metadata_partition, planned_of(plan), opened(copy))

    (report,) = (r for r in runs.clean_all() if r.topic == "copied")
    assert (report.outcome, report.segments_deleted) == (PartitionOutcome.FINISHED, 3)
    assert objects_of(kafka, topic_id) == set()
    check_health(kafka, LIVE)


def opened(root: Path) -> RemoteStorageManager:
    return ObjectStoreRemoteStorageManager(root.as_uri(), LocalTieredStorageLayout())


SEGMENTS_IN_DOUBT = (len(FAULTS) * 2 + 2) * BATCH


@pytest.fixture(scope="module")
def doomed(kafka: AuthorizedKafka) -> UUID:
    """Orphans enough for every fault to leave some."""
    return orphan(kafka, "doomed", SEGMENTS_IN_DOUBT)


def unfinished(kafka: LocalKafka, topic_id: UUID) -> dict[UUID, RemoteLogSegmentState]:
    return {
        m.remote_log_segment_id.id: m.state
        for m in unfinished_segments(kafka)
        if m.remote_log_segment_id.topic_id_partition.topic_id == topic_id
    }


MOMENTS = {"before-the-cleaner": False, "between-two-batches": True}
IN_EVERY_RUN = ["before-the-cleaner-root-gone", "between-two-batches-prefix-unmounted"]
FAULTS_AT_MOMENTS = [
    pytest.param(fault, in_mid_run, id=name, marks=() if name in IN_EVERY_RUN else pytest.mark.scenarios)
    for moment, in_mid_run in MOMENTS.items()
    for fault in FAULTS
    for name in [f"{moment}-{fault}"]
]


@pytest.mark.parametrize(("fault", "in_mid_run"), FAULTS_AT_MOMENTS)
def test_storage_that_is_taken_away_proves_nothing(
    kafka: AuthorizedKafka, runs: Runs, doomed: UUID, fault: str, in_mid_run: bool
) -> None:
    runs.mark()
    plan = runs.plan()
    (metadata_partition,) = plan.summary.by_metadata_partition
    planned, storage = planned_of(plan), runs.open_storage()
    before = unfinished(kafka, doomed)
    restore: list[Callable[[], None]] = []

    def take_away() -> None:
        restore.append(FAULTS[fault](kafka))

    try:
        if not in_mid_run:
            take_away()
        with pytest.raises(StorageRootError):
            runs.clean(
                metadata_partition, planned, FailingBetweenBatches(storage, take_away) if in_mid_run else storage
            )
        after = unfinished(kafka, doomed)
        assert len(before) - len(after) == (BATCH if in_mid_run else 0)
        # What was started when storage went away is what a later run might take for deleted.
        with pytest.raises(StorageRootError):
            runs.clean(metadata_partition, planned)
        assert unfinished(kafka, doomed) == after
    finally:
        for bring_back in restore:
            bring_back()
    assert len(restore) == 1
    check_health(kafka, LIVE[:1])


def test_storage_that_came_back_is_cleaned_to_its_end(kafka: AuthorizedKafka, runs: Runs, doomed: UUID) -> None:
    runs.mark()
    left, objects = unfinished(kafka, doomed), objects_of(kafka, doomed)
    (report,) = (r for r in runs.clean_all() if r.topic == "doomed")
    assert (report.outcome, report.segments_deleted, report.objects_deleted) == (
        PartitionOutcome.FINISHED,
        len(left),
        len(objects),
    )
    assert objects_of(kafka, doomed) == set()
    kafka.restart()
    lines = check_health(kafka, LIVE)
    assert len(our_events(lines)) >= 2 * SEGMENTS_IN_DOUBT
    assert formatter.formatter_lines(kafka) == lines
