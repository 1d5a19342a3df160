# SPDX-License-Identifier: Apache-2.0
"""A copier of living topics: what it copies, in which order, and when it does not."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.base.errors import (
    ClusterMismatchError,
    CopyRefusedError,
    EventLogUnavailableError,
    StorageAccessError,
    StorageError,
    StorageFullError,
    StorageRootError,
    StorageUnavailableError,
    TopicInDoubtError,
    WritesNotAllowedError,
)
from airflow_provider_rlmm.core.log.answers import LeaderOffsets
from airflow_provider_rlmm.core.log.copy_lag import CopyLag
from airflow_provider_rlmm.core.log.write_guard import GuardedPublisher
from airflow_provider_rlmm.core.records.keys import SegmentKey
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import (
    COPIER_BROKER_ID,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
)
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState as P
from airflow_provider_rlmm.core.segments.lineage import LeaderEpochCheckpoint
from airflow_provider_rlmm.core.segments.metrics import RemoteLogMetric, RemoteLogMetrics
from airflow_provider_rlmm.core.storage.in_memory import InMemoryRemoteStorageManager
from airflow_provider_rlmm.core.storage.index_type import IndexType
from airflow_provider_rlmm.core.storage.layouts import (
    AivenLayout,
    LayoutOptions,
    PlainPacker,
    TemplateLayout,
    layout_named,
)
from airflow_provider_rlmm.core.storage.root import UNKNOWN_ROOT
from airflow_provider_rlmm.core.world.hold import Hold
from airflow_provider_rlmm.features.copying.announcing import CustomMetadataLimit
from airflow_provider_rlmm.features.copying.rules import COPY_WITHOUT_LEADER, CopyLimits
from tests.unit.features.copying.copying import (
    HOUR_MS,
    LIVING,
    MAY_COPY,
    NOW_MS,
    CopyWorld,
    FakeSource,
)

STARTED, FINISHED = "COPY_SEGMENT_STARTED", "COPY_SEGMENT_FINISHED"
TAKEN_BACK = ["COPY_SEGMENT_STARTED", "DELETE_SEGMENT_STARTED", "DELETE_SEGMENT_FINISHED"]
SEGMENT_TAKEN_BACK = [(0, state) for state in TAKEN_BACK]


@pytest.fixture
def world(tmp_path: Path) -> CopyWorld:
    return CopyWorld(tmp_path)


def test_closed_segments_are_copied_one_after_the_other(world: CopyWorld) -> None:
    metrics = RemoteLogMetrics()
    world.options["metrics"] = metrics
    report = world.copy()
    assert (report.stopped_by, report.needs_person, report.remote_end) == (None, False, 40)
    assert [m.start_offset for m in report.copied] == [0, 10, 20, 30]
    assert world.said() == [(start, state) for start in (0, 10, 20, 30) for state in (STARTED, FINISHED)]
    world.check()
    assert world.objects_of_nobody() == set()
    assert report.copied_bytes == metrics.values()[RemoteLogMetric.COPY_BYTES] == 4000
    assert metrics.values()[RemoteLogMetric.COPY_LAG_SEGMENTS] == 0


def test_what_is_announced_is_what_a_broker_would_announce(world: CopyWorld) -> None:
    world.copy()
    announced = sorted(world.all_segments().values(), key=lambda metadata: metadata.start_offset)
    assert [m.segment_leader_epochs for m in announced] == [((0, 0),), ((0, 10), (3, 15)), ((3, 20),), ((3, 30),)]
    assert {(m.broker_id, m.event_timestamp_ms, m.custom_metadata) for m in announced} == {
        (COPIER_BROKER_ID, NOW_MS, None)
    }
    assert {(m.segment_size_in_bytes, m.max_timestamp_ms, m.txn_idx_empty) for m in announced} == {(1000, NOW_MS, True)}


def test_a_second_run_has_nothing_to_do(world: CopyWorld) -> None:
    world.copy()
    before = world.events()
    report = world.copy()
    assert (report.copied, report.stopped_by, report.remote_end) == ((), None, 40)
    assert world.events() == before


def test_it_goes_on_from_the_highest_remote_offset(world: CopyWorld) -> None:
    world.foreign_copy(0)
    world.foreign_copy(10)
    assert [m.start_offset for m in world.copy().copied] == [20, 30]
    world.check()


def test_a_plan_says_what_would_be_copied_and_changes_nothing(world: CopyWorld) -> None:
    world.foreign_copy(0)
    before, keys = world.events(), world.storage.keys
    assert [segment.base_offset for segment in world.preview().segments] == [10, 20, 30]
    assert (world.events(), world.storage.keys) == (before, keys)


# --- how far ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("stable", "copied"), [(45, 4), (40, 4), (39, 3), (30, 3), (29, 2), (0, 0)])
def test_nothing_is_copied_beyond_the_committed_end(world: CopyWorld, stable: int, copied: int) -> None:
    world.leads(stable=stable)
    report = world.copy()
    assert (len(report.copied), report.stopped_by) == (copied, None)


def test_a_run_may_be_limited(world: CopyWorld) -> None:
    world.limits = CopyLimits(max_segments=2)
    report = world.copy()
    assert (len(report.copied), report.needs_person) == (2, False)
    assert "the next run goes on" in str(report.stopped_by)
    assert [m.start_offset for m in world.copy().copied] == [20, 30]


def test_the_next_segment_is_expected_while_one_is_copied_and_none_behind_the_last(world: CopyWorld) -> None:
    world.limits = CopyLimits(max_segments=3)
    world.copy()
    assert world.source.expected == [10, 20]
    world.copy()
    assert world.source.expected == [10, 20], "the only one that is left has none behind it"


def test_a_damaged_segment_ends_the_run_and_nothing_behind_it_is_copied(world: CopyWorld) -> None:
    world.source.damaged.add(20)
    report = world.copy()
    assert ([m.start_offset for m in report.copied], report.needs_person) == ([0, 10], True)
    assert report.stopped_by == "DamagedObjectError: segment 20..29 is damaged"
    assert {start for start, _ in world.said()} == {0, 10}


def test_a_missing_segment_ends_the_run(world: CopyWorld) -> None:
    world.source.bases = [0, 10, 30]
    world.source.segment = lambda base: replace(FakeSource.segment(world.source, base), end_offset=base + 9)  # type: ignore[method-assign]
    report = world.copy()
    assert [m.start_offset for m in report.copied] == [0, 10]
    assert "offsets 20..29 are in the leader's log, and neither in remote storage nor in this log directory" in str(
        report.stopped_by
    )
    assert report.needs_person


def test_a_gap_above_the_leaders_log_start_is_refused(world: CopyWorld) -> None:
    world.source.bases = [20, 30]
    world.source.log_start_offset = 20
    report = world.copy()
    assert (report.copied, report.needs_person, world.said()) == ((), True, [])
    assert "offsets 0..19 are in the leader's log" in str(report.stopped_by)
    assert "another replica's directory" in str(report.stopped_by)


def test_a_gap_that_the_remote_log_fills_is_none(world: CopyWorld) -> None:
    world.source.bases = [20, 30]
    world.foreign_copy(0)
    world.foreign_copy(10)
    assert [m.start_offset for m in world.copy().copied] == [20, 30]


def test_what_lies_below_the_leaders_log_start_is_not_copied(world: CopyWorld) -> None:
    world.leads(log_start=13)
    assert [m.start_offset for m in world.copy().copied] == [10, 20, 30]


def test_offsets_that_the_lineage_of_the_directory_does_not_know_are_a_gap(world: CopyWorld) -> None:
    """Its log start has moved, and the leader's has not: brokers would not find what lies between in the copy."""
    world.source.log_start_offset = 5
    world.source.leader_epochs = world.source.leader_epochs.truncate_from_start(5)
    report = world.copy()
    assert (report.copied, world.said()) == ((), [])
    assert "offsets 0..4 are in the leader's log" in str(report.stopped_by)


def test_a_hole_that_others_have_left_is_copied_first(world: CopyWorld) -> None:
    world.foreign_copy(0)
    world.foreign_copy(20)
    assert [m.start_offset for m in world.copy().copied] == [10, 30]
    assert world.remote_end() == 40


# --- whether ----------------------------------------------------------------------------------------------------------

FORBIDDEN: dict[str, tuple[Any, str]] = {
    "not tiered": (replace(MAY_COPY, remote_storage_enable=False), "remote.storage.enable"),
    "without disks": (replace(MAY_COPY, diskless_enable=True), "topic 'living' is diskless"),
    "the broker copies": (replace(MAY_COPY, remote_log_copy_disable=False), "remote.log.copy.disable"),
    "compacted": (
        replace(MAY_COPY, cleanup_policy=frozenset({"compact"})),
        "cleanup.policy of topic 'living' is compact",
    ),
    "compacted and deleted": (
        replace(MAY_COPY, cleanup_policy=frozenset({"compact", "delete"})),
        "cleanup.policy of topic 'living' is compact,delete",
    ),
}


@pytest.mark.parametrize("name", FORBIDDEN)
def test_a_topic_that_must_not_be_copied_is_refused(world: CopyWorld, name: str) -> None:
    configs, message = FORBIDDEN[name]
    world.leads(configs)
    with pytest.raises(CopyRefusedError, match=message):
        world.copy()
    with pytest.raises(CopyRefusedError, match=message):
        world.preview()
    assert world.said() == []


def template(**files: str) -> TemplateLayout:
    known = {IndexType(name): suffix for name, suffix in files.items()}
    suffixes = {".log": True, **dict.fromkeys(files.values(), False)}
    return TemplateLayout(
        "template", "{topic}/{topic_id}/{partition}/{segment_id}", suffixes, files={None: ".log"} | known
    )


ALL_BUT_TRANSACTIONS = {t.value: f".{t.value}" for t in IndexType if t is not IndexType.TRANSACTION}
UNFIT = {
    "aiven": (AivenLayout("tiered/"), "layout aiven: no copy of a broker shows how its plugin is set"),
    "template": (template(), "layout template does not say which object holds index offset"),
    "no transactions": (template(**ALL_BUT_TRANSACTIONS), "which object holds index transaction of a segment"),
}


@pytest.mark.parametrize("name", UNFIT)
def test_a_layout_that_does_not_say_where_files_lie_is_refused_before_the_first_event(
    world: CopyWorld, name: str
) -> None:
    """A dry run must not promise what the copy cannot do, and nothing may be announced that is never copied."""
    layout, message = UNFIT[name]
    world.storage = InMemoryRemoteStorageManager(layout)
    for act in (world.copy, world.preview):
        with pytest.raises(CopyRefusedError, match=message) as refused:
            act()
        assert "nothing can be copied into the storage layout" in str(refused.value)
        assert "set remote.log.copy.disable of the topic to false" in str(refused.value)
    assert (world.said(), world.storage.keys) == ([], frozenset())


def test_a_layout_of_somebody_else_that_names_every_file_is_no_obstacle() -> None:
    layout = template(**ALL_BUT_TRANSACTIONS, transaction=".txn")
    assert InMemoryRemoteStorageManager(layout).obstacle_to_copies() is None


def test_a_template_of_the_connection_that_names_every_file_is_copied_into(world: CopyWorld) -> None:
    files = {"/log": "log"} | {f"/{kind.value}": kind.value for kind in IndexType}
    suffixes = {suffix: suffix != "/transaction" for suffix in files}
    pattern = "{md5(topic_id):2}/{topic}-{topic_id}/{partition}/{segment_id}"
    layout = layout_named("template", LayoutOptions(key_pattern=pattern, key_suffixes=suffixes, key_files=files))
    world.storage = InMemoryRemoteStorageManager(layout)
    assert world.storage.obstacle_to_copies() is None
    world.preview()
    for missing in files:
        named = {suffix: file for suffix, file in files.items() if suffix != missing}
        fewer = LayoutOptions(key_pattern=pattern, key_suffixes=suffixes, key_files=named)
        obstacle = InMemoryRemoteStorageManager(layout_named("template", fewer)).obstacle_to_copies()
        assert "does not say which object holds" in str(obstacle)


def answer(world: CopyWorld, **changes: Any) -> None:
    key = (LIVING.topic, 0)
    world.leader.answers[key] = replace(world.leader.answers[key], **changes)


def test_an_internal_topic_is_refused(world: CopyWorld) -> None:
    answer(world, is_internal=True)
    with pytest.raises(CopyRefusedError, match="is internal"):
        world.copy()


def test_a_topic_that_is_gone_is_archived_never_copied(world: CopyWorld) -> None:
    world.leader.answers.clear()
    with pytest.raises(CopyRefusedError, match="is archived, never copied"):
        world.copy()
    assert world.said() == []


def test_a_directory_of_another_topic_id_is_refused(world: CopyWorld) -> None:
    """The topic was deleted and created anew under its name."""
    world.leads(tip=TopicIdPartition(UUID(int=71), "living", 0))
    with pytest.raises(CopyRefusedError, match="segments of another topic are never copied"):
        world.copy()
    assert world.said() == []


def test_a_held_topic_is_refused(world: CopyWorld) -> None:
    world.options["hold"] = lambda: Hold(("liv*",))
    with pytest.raises(CopyRefusedError, match="held by the entry"):
        world.copy()


@pytest.mark.parametrize("rights", [{"allow_writes": True}, {"allow_writes": False, "allow_copy": True}])
def test_without_the_connections_leave_nothing_is_asked_or_copied(world: CopyWorld, rights: dict[str, bool]) -> None:
    world.publisher = GuardedPublisher(world.log, **rights)
    keys = world.storage.keys
    with pytest.raises(WritesNotAllowedError):
        world.copy()
    assert (world.said(), world.storage.keys) == ([], keys)


def test_a_leader_of_another_cluster_is_not_believed(world: CopyWorld) -> None:
    answer(world, metadata_topic_id=UUID(int=3))
    report = world.copy()
    assert str(report.stopped_by).startswith(ClusterMismatchError.__name__)
    assert (report.copied, world.said(), report.needs_person) == ((), [], True)


def test_a_deletion_that_was_ever_announced_forbids_every_event(world: CopyWorld) -> None:
    """Behind DELETE_PARTITION_FINISHED any event ends the consumer of the brokers that serve the partition."""
    world.foreign(RemotePartitionDeleteMetadata(LIVING, P.DELETE_PARTITION_MARKED, NOW_MS, 1))
    report = world.copy()
    assert (report.copied, world.said(), report.needs_person) == ((), [], True)
    assert "was declared deleted, or is about to be" in str(report.stopped_by)


def test_a_partition_without_a_leader_is_refused(world: CopyWorld) -> None:
    answer(world, offsets=None)
    with pytest.raises(CopyRefusedError, match="has no leader"):
        world.copy()


@pytest.mark.parametrize(("committed_end", "copied"), [(40, 4), (39, 3), (None, 0)])
def test_an_override_copies_without_a_leader_what_the_disk_calls_committed(
    world: CopyWorld, committed_end: int | None, copied: int
) -> None:
    answer(world, offsets=None)
    world.source.committed_end = committed_end
    world.limits = CopyLimits(overrides=frozenset({COPY_WITHOUT_LEADER}))
    assert len(world.copy().copied) == copied


def test_the_override_changes_nothing_where_there_is_a_leader(world: CopyWorld) -> None:
    world.limits = CopyLimits(overrides=frozenset({COPY_WITHOUT_LEADER}))
    world.source.diverged_from = 5
    world.leads(stable=20)
    assert world.copy().copied == ()


# --- whose lineage ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("diverged_from", "copied"), [(0, 0), (9, 0), (10, 1), (14, 1), (25, 2), (39, 3), (41, 4)])
def test_a_replica_that_was_cut_off_is_copied_up_to_the_last_common_segment(
    world: CopyWorld, diverged_from: int, copied: int
) -> None:
    world.source.diverged_from = diverged_from
    report = world.copy()
    assert len(report.copied) == copied
    if copied < 4:
        assert report.needs_person
        assert "was cut off from the leader" in str(report.stopped_by)


def test_another_leader_epoch_at_the_same_offset_is_another_log(world: CopyWorld) -> None:
    records = dict(world.leader.records[LIVING])
    records[19] = replace(records[19], leader_epoch=4)
    world.leader.records[LIVING] = records
    report = world.copy()
    assert [m.start_offset for m in report.copied] == [0]
    assert "the leader's is of epoch 4" in str(report.stopped_by)


def test_the_end_of_each_leader_epoch_is_compared(world: CopyWorld) -> None:
    """Epoch 0 ends at offset 14, in the middle of a segment whose end is equal."""
    records = dict(world.leader.records[LIVING])
    records[14] = replace(records[14], value=b"another")
    world.leader.records[LIVING] = records
    assert [m.start_offset for m in world.copy().copied] == [0]


def test_a_leader_that_serves_no_record_there_proves_nothing(world: CopyWorld) -> None:
    world.leader.records[LIVING] = {}
    report = world.copy()
    assert (report.copied, report.needs_person) == ((), True)
    assert "the leader serves none there" in str(report.stopped_by)


def test_a_segment_that_ends_in_a_marker_is_proven_by_the_record_behind_it(world: CopyWorld) -> None:
    world.source.control = {9, 10, 11}
    world.leads()
    assert len(world.copy().copied) == 4


def test_a_marker_at_the_end_that_is_not_the_leaders_is_noticed(world: CopyWorld) -> None:
    """Markers are served to nobody: only what lies behind one shows whose it is."""
    world.source.control = {19}
    world.leads()
    world.source.diverged_from = 19
    assert [m.start_offset for m in world.copy().copied] == [0]


def test_a_marker_with_nothing_behind_it_is_not_proven(world: CopyWorld) -> None:
    world.source.control = set(range(39, 45))
    world.leads()
    report = world.copy()
    assert len(report.copied) == 3
    assert "ends in control records" in str(report.stopped_by)


# --- retention --------------------------------------------------------------------------------------------------------


def leaves_out_two(world: CopyWorld, log_start: int = 0) -> None:
    """The first two of four segments are about to expire."""
    world.leads(replace(MAY_COPY, retention_ms=24 * HOUR_MS), log_start=log_start)
    world.source.timestamps_ms = {0: NOW_MS - 24 * HOUR_MS, 10: NOW_MS - 23 * HOUR_MS - 1}


HOLE_AHEAD = (
    "2 segments, offsets 0..19, are about to expire by retention.ms and are not copied: do not enable copying, and do not "
    "raise retention.ms or retention.bytes, before the log start offset of living-0 is at least 20"
)


def test_segments_that_are_about_to_expire_are_left_out_and_need_a_person(world: CopyWorld) -> None:
    """Brokers would go on behind the last copy, and local retention would delete them, however long they were to live."""
    leaves_out_two(world)
    report = world.copy()
    assert [m.start_offset for m in report.copied] == [20, 30]
    assert [segment.base_offset for segment in report.expiring] == [0, 10]
    assert report.needs_person
    assert HOLE_AHEAD in str(report.stopped_by)
    assert len(report.to_json()["expiring"]) == 2


def test_what_was_left_out_is_told_again_until_the_leaders_log_start_has_passed_it(world: CopyWorld) -> None:
    leaves_out_two(world)
    world.copy()
    events = world.events()
    for log_start, needs_person in [(0, True), (10, True), (19, True), (20, False), (25, False)]:
        leaves_out_two(world, log_start)
        report = world.copy()
        assert (report.needs_person, report.stopped_by is None) == (needs_person, not needs_person), log_start
        assert len(report.expiring) == (0 if log_start >= 20 else 1 if log_start >= 10 else 2)
    assert world.events() == events


def test_what_is_copied_and_expires_by_now_is_not_waited_for(world: CopyWorld) -> None:
    """The log start that is to be waited for does not run away while time passes."""
    leaves_out_two(world)
    world.copy()
    world.source.timestamps_ms[20] = 0
    report = world.copy()
    assert [segment.base_offset for segment in report.expiring] == [0, 10]
    assert "is at least 20 " in str(report.stopped_by)
    world.leads(replace(MAY_COPY, retention_ms=24 * HOUR_MS), log_start=20)
    assert (world.copy().stopped_by, world.copy().expiring) == (None, ())


def test_retention_that_was_raised_again_has_what_was_left_out_copied(world: CopyWorld) -> None:
    leaves_out_two(world)
    world.copy()
    world.leads()
    report = world.copy()
    assert ([m.start_offset for m in report.copied], report.needs_person) == ([0, 10], False)
    assert world.remote_end() == 40


def stop(world: CopyWorld) -> None:
    world.options["should_stop"] = lambda: "somebody said stop"


def is_limited(world: CopyWorld) -> None:
    world.limits = CopyLimits(max_segments=1)


def is_damaged(world: CopyWorld) -> None:
    world.source.damaged.add(20)


def is_leased(world: CopyWorld) -> None:
    segment, epochs = RemoteLogSegmentId(LIVING, UUID(int=8)), world.source.leader_epochs.in_range(20, 30).entries
    announced = (segment, 20, 29, NOW_MS, COPIER_BROKER_ID, NOW_MS, 1000, None, S.COPY_SEGMENT_STARTED, epochs)
    world.foreign(RemoteLogSegmentMetadata(*announced))


@pytest.mark.parametrize("ends", [stop, is_limited, is_damaged, is_leased])
def test_whatever_ends_a_run_what_it_leaves_to_expire_is_told(
    world: CopyWorld, ends: Callable[[CopyWorld], None]
) -> None:
    leaves_out_two(world)
    ends(world)
    report = world.copy()
    assert (len(report.expiring), report.needs_person) == (2, True)
    assert str(report.stopped_by).startswith(HOLE_AHEAD)
    assert "; " in str(report.stopped_by).removeprefix(HOLE_AHEAD)


def test_a_segment_expires_with_the_youngest_below_it(world: CopyWorld) -> None:
    """Leaders delete in order: a young segment keeps the old ones behind it."""
    world.leads(replace(MAY_COPY, retention_ms=24 * HOUR_MS))
    world.source.timestamps_ms = {10: 0, 20: 0}
    report = world.copy()
    assert ([m.start_offset for m in report.copied], report.expiring) == ([0, 10, 20, 30], ())


def test_a_copy_lag_is_told_and_not_waited_for(world: CopyWorld, caplog: pytest.LogCaptureFixture) -> None:
    world.leads(replace(MAY_COPY, copy_lag=CopyLag(86_400_000, -1)))
    with caplog.at_level("INFO"):
        assert [m.start_offset for m in world.copy().copied] == [0, 10, 20, 30]
    assert "once its leader copies, it is copied late: remote.copy.lag.ms=86400000" in caplog.text


def test_a_young_remote_segment_keeps_the_old_local_ones(world: CopyWorld) -> None:
    world.leads(replace(MAY_COPY, retention_ms=24 * HOUR_MS))
    world.source.timestamps_ms = {0: 0, 10: 0, 20: 0, 30: 0}
    world.foreign_copy(0)
    world.source.bases = [10, 20, 30]
    assert [m.start_offset for m in world.copy().copied] == [10, 20, 30]


def test_a_segment_that_is_about_to_expire_when_it_was_copied_is_taken_back(world: CopyWorld) -> None:
    world.leads(replace(MAY_COPY, retention_ms=24 * HOUR_MS))
    world.source.timestamps_ms = {0: NOW_MS - 22 * HOUR_MS - HOUR_MS + 60_000}
    at_the_first_log(world, lambda: setattr(world, "now_ms", NOW_MS + 120_000))
    report = world.copy()
    assert world.said()[:3] == SEGMENT_TAKEN_BACK
    assert "expire by retention.ms" in str(report.stopped_by)


@pytest.mark.parametrize(("local", "copied"), [(None, 0), (3_999, 1), (4_000, 0), (1_000, 4)])
def test_retention_bytes_must_have_room_for_what_is_counted_twice(
    world: CopyWorld, local: int | None, copied: int
) -> None:
    world.leads(replace(MAY_COPY, retention_bytes=5_001 if copied == 4 else 5_000))
    answer(world, local_size_in_bytes=local)
    report = world.copy()
    assert len(report.copied) == copied
    if copied < 4:
        assert "retention.bytes of topic 'living' is 5000" in str(report.stopped_by)
        assert report.needs_person


# --- in mid-copy ------------------------------------------------------------------------------------------------------


def at_the_first_log(world: CopyWorld, happens: Callable[[], object]) -> None:
    """Let something happen while the log of the first segment is copied."""
    left = [happens]

    def before(effect: str, key: str) -> None:
        if effect == "put" and key.endswith(".log") and left:
            left.pop()()

    world.storage.on_effect = before


CHANGES: dict[str, Callable[[CopyWorld], object]] = {
    "copying is enabled": lambda w: w.leads(replace(MAY_COPY, remote_log_copy_disable=False)),
    "tiering is disabled": lambda w: w.leads(replace(MAY_COPY, remote_storage_enable=False)),
    "it gives up its disks": lambda w: w.leads(replace(MAY_COPY, diskless_enable=True)),
    "compaction is enabled": lambda w: w.leads(replace(MAY_COPY, cleanup_policy=frozenset({"compact"}))),
    "it has no leader": lambda w: answer(w, offsets=None),
    "the log start moves past it": lambda w: w.leads(log_start=10),
    "the log ends before it": lambda w: w.leads(stable=5, high=5),
    "the leader has other records": lambda w: setattr(w.leader, "records", {}),
    "retention.bytes is set": lambda w: w.leads(replace(MAY_COPY, retention_bytes=10**9)),
    "it is held": lambda w: w.options.update(held=True),
    "a broker begins to copy": lambda w: w.foreign_started(0),
    "a broker has copied it": lambda w: w.foreign_copy(0),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_changes_while_a_segment_is_copied_has_it_taken_back(world: CopyWorld, change: str) -> None:
    world.options["hold"] = lambda: Hold(("living",)) if world.options.get("held") else Hold()
    at_the_first_log(world, lambda: CHANGES[change](world))
    report = world.copy()
    assert world.said() == SEGMENT_TAKEN_BACK
    assert (report.copied, len(report.taken_back), report.needs_person) == ((), 1, True)
    assert world.objects_of_nobody() == set()
    world.check()


@pytest.mark.parametrize("gone", [True, False])
def test_a_topic_that_is_deleted_meanwhile_is_left_to_the_cleaner(world: CopyWorld, gone: bool) -> None:
    def delete() -> None:
        world.leader.answers.clear()
        if not gone:
            world.leads(tip=TopicIdPartition(UUID(int=71), "living", 0))

    at_the_first_log(world, delete)
    report = world.copy()
    assert report.needs_person
    # Nobody serves the old id any more. Whoever can still be asked may take it back; else the cleaner finds it.
    assert world.said() == ([(0, STARTED)] if gone else SEGMENT_TAKEN_BACK)


def test_a_brokers_unfinished_copy_is_waited_for_and_never_touched(world: CopyWorld) -> None:
    segment = world.foreign_started(0)
    report = world.copy()
    assert (report.copied, world.said(), report.needs_person) == ((), [], True)
    assert "broker 1 has begun to copy 0..9" in str(report.stopped_by)
    world.foreign_update(segment, S.COPY_SEGMENT_FINISHED)
    for key in world.layout.required_keys(world.all_segments()[segment]):
        world.storage.put_object(key, b"the broker's")
    assert [m.start_offset for m in world.copy().copied] == [10, 20, 30]


def test_custom_metadata_that_brokers_do_not_take_has_the_copy_taken_back(
    world: CopyWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = type(world.storage).copy_log_segment_data
    monkeypatch.setattr(type(world.storage), "copy_log_segment_data", lambda *a: copy(*a) or b"x" * 129)
    report = world.copy()
    assert world.said() == SEGMENT_TAKEN_BACK
    assert (report.needs_person, world.objects_of_nobody()) == (True, set())
    assert "129 bytes of custom metadata" in str(report.stopped_by)


def test_custom_metadata_that_brokers_would_not_take_is_refused_before_the_first_event(
    world: CopyWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PlainPacker, "most_custom_metadata_bytes", lambda *_: 144)
    report = world.copy()
    assert (report.copied, world.said(), report.needs_person) == ((), [], True)
    said = (
        "up to 144 bytes of custom metadata of .* brokers take 128 at most .Kafka's default.: raise remote.log.metadata"
    )
    assert re.search(said, str(report.stopped_by))
    with pytest.raises(CopyRefusedError, match=said):
        world.preview()
    world.options["custom_metadata"] = CustomMetadataLimit(144, "said by the test")
    assert len(world.preview().segments) == 4
    assert len(world.copy().copied) == 4


@pytest.mark.parametrize("size", [0, 1, 128])
def test_custom_metadata_is_written_with_finished(world: CopyWorld, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    copy = type(world.storage).copy_log_segment_data
    monkeypatch.setattr(type(world.storage), "copy_log_segment_data", lambda *a: copy(*a) or b"x" * size)
    world.copy()
    known = world.history().cache.in_order_of_arrival()
    assert {m.custom_metadata for m in known} == {b"x" * size}
    assert len(known) == 4


@pytest.mark.parametrize(
    "error", [StorageUnavailableError("no answer"), StorageFullError("make room")], ids=["unavailable", "full"]
)
@pytest.mark.parametrize("number", range(5))
def test_a_storage_that_fails_has_the_copy_taken_back(world: CopyWorld, number: int, error: StorageError) -> None:
    puts: list[str] = []

    def fail(effect: str, key: str) -> None:
        if effect == "put":
            puts.append(key)
            if len(puts) == number + 1:
                raise error

    world.storage.on_effect = fail
    report = world.copy()
    # Whether it passes by itself decides whether a person is needed.
    assert (world.said(), report.needs_person) == (SEGMENT_TAKEN_BACK, not error.retriable)
    assert world.objects_of_nobody() == set()
    assert len(world.copy().copied) == 4
    world.check()


def test_an_object_that_is_not_seen_is_not_finished(world: CopyWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store answers that it has taken an object, and has not."""
    put = world.storage.put_object
    monkeypatch.setattr(world.storage, "put_object", lambda k, d: None if k.endswith(".timeindex") else put(k, d))
    report = world.copy()
    assert world.said() == SEGMENT_TAKEN_BACK
    assert ".timeindex was copied and is not in storage" in str(report.stopped_by)


def test_files_that_change_while_they_are_copied_have_the_copy_taken_back(world: CopyWorld) -> None:
    at_the_first_log(world, lambda: setattr(world.source, "changed", True))
    report = world.copy()
    assert (world.said(), report.needs_person) == (SEGMENT_TAKEN_BACK, True)


def test_the_kill_switch_ends_a_copy_within_a_segment(world: CopyWorld) -> None:
    switch: list[str] = []
    world.options["should_stop"] = lambda: switch[0] if switch else None
    at_the_first_log(world, lambda: switch.append("the kill switch is on"))
    report = world.copy()
    assert (world.said(), report.needs_person) == (SEGMENT_TAKEN_BACK, True)
    assert "the kill switch is on" in str(report.stopped_by)


def test_the_kill_switch_keeps_a_run_from_beginning(world: CopyWorld) -> None:
    world.options["should_stop"] = lambda: "the kill switch is on"
    report = world.copy()
    assert (world.said(), report.stopped_by, report.needs_person) == ([], "the kill switch is on", True)


def test_a_copy_that_takes_too_long_is_taken_back_before_its_lease_is_lost(world: CopyWorld) -> None:
    at_the_first_log(world, lambda: setattr(world, "now_ms", NOW_MS + HOUR_MS // 2))
    report = world.copy()
    assert (world.said(), report.needs_person) == (SEGMENT_TAKEN_BACK, True)
    assert "allow a longer lease or more bytes per second" in str(report.stopped_by)


def test_a_copy_that_is_seen_too_late_is_taken_back(world: CopyWorld) -> None:
    """All is copied, and the last look takes its time."""
    asked = [0]

    def slow(name: str) -> None:
        asked[0] += name == "ask"
        if asked[0] == 4 and name == "ask":
            world.now_ms += HOUR_MS // 2

    world.leader.before = slow
    report = world.copy()
    assert world.said()[:3] == SEGMENT_TAKEN_BACK
    assert "another run may take it back" in str(report.stopped_by)


@pytest.mark.parametrize("error", [StorageUnavailableError, StorageAccessError])
def test_objects_that_cannot_be_deleted_keep_a_roll_back_open(world: CopyWorld, error: type[Exception]) -> None:
    switch = ["the kill switch is on"]
    world.options["should_stop"] = lambda: switch[0] if switch and len(world.storage.keys) > 5 else None

    def fail(effect: str, key: str) -> None:
        if effect == "delete":
            raise error("not now")

    world.storage.on_effect = fail
    report = world.copy()
    assert (world.said(), report.needs_person) == (SEGMENT_TAKEN_BACK[:2], True)
    switch.clear()
    world.storage.on_effect = None
    world.now_ms += HOUR_MS
    assert world.copy().stopped_by is None
    assert world.said()[:3] == SEGMENT_TAKEN_BACK
    assert world.objects_of_nobody() == set()


def test_a_clock_that_is_set_back_does_not_lengthen_the_lease(world: CopyWorld) -> None:
    monotonic = [0]
    world.options["monotonic"] = lambda: monotonic[0]

    def a_long_pause_and_a_clock_that_was_set_back() -> None:
        monotonic[0] = HOUR_MS

    at_the_first_log(world, a_long_pause_and_a_clock_that_was_set_back)
    assert "another run may take it back" in str(world.copy().stopped_by)


# --- storage and log --------------------------------------------------------------------------------------------------


def test_a_storage_that_nothing_proves_is_not_written_to(world: CopyWorld) -> None:
    keys, world.root = world.storage.keys, UNKNOWN_ROOT
    with pytest.raises(StorageRootError, match="nothing shows that the brokers read this storage"):
        world.copy()
    assert (world.said(), world.storage.keys) == ([], keys)


def test_a_storage_that_lacks_the_newest_copy_is_not_the_brokers(world: CopyWorld) -> None:
    world.foreign_copy(0)
    newest = world.foreign_started(10)
    world.foreign_update(newest, S.COPY_SEGMENT_FINISHED)
    with pytest.raises(StorageRootError, match="the newest copy that the metadata topic names is not in this storage"):
        world.copy()
    assert world.said() == []


def test_a_storage_that_is_swapped_in_mid_copy_is_noticed(world: CopyWorld) -> None:
    world.storage.folders = {"": 1}
    at_the_first_log(world, lambda: world.storage.folders.update({"": 2}))
    report = world.copy()
    assert str(report.stopped_by).startswith("StorageRootError")
    assert FINISHED not in dict.fromkeys(state for _, state in world.said())


BAD = {"tombstone": None, "garbage": b"\x07garbage", "newer version": b"\x00\x09newer"}


@pytest.mark.parametrize("name", BAD)
def test_a_record_that_nobody_can_read_forbids_to_copy(world: CopyWorld, name: str) -> None:
    world.log.append(world.home, BAD[name])
    with pytest.raises(TopicInDoubtError, match="nothing of it is copied"):
        world.copy()


def test_a_log_that_has_lost_its_beginning_forbids_to_copy(world: CopyWorld) -> None:
    world.log.truncate(world.home, 1)
    with pytest.raises(TopicInDoubtError, match="begins at offset 1"):
        world.copy()


def test_an_update_without_its_announcement_forbids_to_copy(world: CopyWorld) -> None:
    segment = world.foreign_started(0)
    world.foreign_update(replace(segment, id=UUID(int=1234)), S.COPY_SEGMENT_FINISHED)
    with pytest.raises(TopicInDoubtError, match="never announced"):
        world.copy()


def test_a_segment_that_is_to_be_forgotten_and_was_not_finished_forbids_to_copy(world: CopyWorld) -> None:
    segment = world.foreign_copy(0)
    key = SegmentKey(LIVING.topic_id, LIVING.partition, segment.id, S.COPY_SEGMENT_STARTED)
    offset = world.log.append(world.home, None, bytes(key))
    with pytest.raises(TopicInDoubtError, match=rf"offset {offset}: .* is to be forgotten and was never finished"):
        world.copy()


def test_a_bad_record_in_mid_copy_ends_the_run_and_nothing_is_finished(world: CopyWorld) -> None:
    at_the_first_log(world, lambda: world.log.append(world.home, b"\x07garbage"))
    report = world.copy()
    assert (world_states(world), report.needs_person) == ([STARTED], True)
    assert "It is not taken back yet" not in str(report.stopped_by)


def world_states(world: CopyWorld) -> list[str]:
    """States that the copier has written, without reading what cannot be read."""
    world.log._partitions[world.home].values[:] = [
        value for value in world.log._partitions[world.home].values if value != b"\x07garbage"
    ]
    return [state for _, state in world.said()]


def test_a_partitioner_that_nothing_proves_writes_nothing(tmp_path: Path) -> None:
    world = CopyWorld(tmp_path)
    world.log.__init__(3, clock=lambda: NOW_MS)  # type: ignore[misc]
    report = world.copy()
    assert str(report.stopped_by).startswith("PartitionerMismatchError")
    assert world.said() == []


def test_records_of_other_metadata_partitions_prove_the_partitioner_too(tmp_path: Path) -> None:
    world = CopyWorld(tmp_path)
    world.log.__init__(3, clock=lambda: NOW_MS)  # type: ignore[misc]
    elsewhere = next(
        tip
        for tip in (TopicIdPartition(UUID(int=400 + n), "elsewhere", 0) for n in range(99))
        if metadata_partition_for(tip, 3) != world.home
    )
    world.foreign_started(0, elsewhere)
    assert len(world.copy().copied) == 4


def test_a_leader_that_does_not_answer_ends_the_run(world: CopyWorld) -> None:
    def silent(_: str) -> None:
        raise EventLogUnavailableError("no broker answers")

    world.leader.before = silent
    with pytest.raises(EventLogUnavailableError):
        world.copy()


def test_a_leader_that_falls_silent_in_mid_copy_leaves_the_segment_to_a_later_run(world: CopyWorld) -> None:
    def fall_silent() -> None:
        world.leader.before = silent

    def silent(_: str) -> None:
        raise EventLogUnavailableError("no broker answers")

    at_the_first_log(world, fall_silent)
    report = world.copy()
    assert (world.said(), report.needs_person) == ([(0, STARTED)], False)
    world.leader.before = lambda _: None
    assert "another run of the copier may be copying" in str(world.copy().stopped_by)
    world.now_ms += HOUR_MS
    assert [m.start_offset for m in world.copy().copied] == [0, 10, 20, 30]
    assert world.said()[:3] == SEGMENT_TAKEN_BACK


def test_an_empty_lineage_copies_nothing(tmp_path: Path) -> None:
    world = CopyWorld(tmp_path)
    world.source.bases = []
    world.source.leader_epochs = LeaderEpochCheckpoint(((3, 40),))
    world.leader.answers[LIVING.topic, 0] = replace(
        world.leader.answers[LIVING.topic, 0], offsets=LeaderOffsets(40, 45, 45)
    )
    assert (world.copy().copied, world.said()) == ((), [])
