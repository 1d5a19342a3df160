# SPDX-License-Identifier: Apache-2.0
"""Segments whose objects were never seen (I2): a wrong bucket must not look clean."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.base.errors import EventLogUnavailableError, StorageRootError
from airflow_provider_rlmm.core.log.in_process import no_effect_hook
from airflow_provider_rlmm.core.plans.refusals import RefusalKind
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentId, TopicIdPartition
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.storage.remote_storage import StoredObject
from airflow_provider_rlmm.core.storage.stamps import Location, Stamp
from airflow_provider_rlmm.core.world.audit import DeletionRecord
from airflow_provider_rlmm.core.world.audit_in_memory import InMemoryAuditLog
from tests.builders import CLUSTER_ID, Cluster, on_nth_publish, reasons, tip

GONE = tip()
SETTLE = frozenset({"settle_missing"})


def unavailable() -> None:
    raise EventLogUnavailableError("no broker answers")


def cluster_with(*states: S, living_topic: bool = True, seen: int = 0) -> Cluster:
    """A deleted topic: a segment without objects per state, then ``seen`` with all of them; marked a day ago."""
    cluster = Cluster(living_topic=living_topic)
    for number, state in enumerate(states):
        cluster.segment(GONE, number, state, objects=False)
    for number in range(seen):
        cluster.segment(GONE, 50 + number)
    cluster.mark_and_wait()
    return cluster


def test_a_copied_segment_without_objects_stays_unfinished_and_is_reported() -> None:
    cluster = cluster_with(S.COPY_SEGMENT_FINISHED, seen=2)
    report = cluster.clean()
    (partition,) = report.partitions
    assert (partition.outcome, partition.segments_deleted, partition.segments_left) == ("INCOMPLETE", 2, 1)
    assert "its copy was finished, and storage lists no object of it" in reasons(report)
    assert "DELETE_PARTITION_FINISHED" not in cluster.states()
    assert cluster.states().count("DELETE_SEGMENT_STARTED") == 2


def test_where_everything_is_missing_not_even_the_start_is_written() -> None:
    cluster = cluster_with(S.COPY_SEGMENT_FINISHED)
    assert cluster.clean().partitions[0].outcome == "REFUSED"
    assert cluster.states() == ["DELETE_PARTITION_MARKED"]


def test_two_sets_of_missing_segments_never_have_the_same_name() -> None:
    """An acknowledgement of one must not cover the other."""
    names = set()
    for missing in ((0, 1), (0, 2)):
        cluster = Cluster()
        for number in range(3):
            cluster.segment(GONE, number, objects=number not in missing)
        cluster.mark_and_wait()
        found = cluster.clean().partitions[0].refusals
        names |= {refusal.what for refusal in found if refusal.kind is RefusalKind.MISSING_OBJECTS}
    assert len(names) == 2
    assert all(name.startswith("2 segments, the first is ") for name in names), names


def test_too_many_missing_segments_stop_the_run_before_anything_is_deleted() -> None:
    cluster = cluster_with(*[S.COPY_SEGMENT_FINISHED] * 3, seen=2)
    with pytest.raises(StorageRootError, match=r"3 segments, .*gone-0 among them, have no object in storage"):
        cluster.clean(max_missing_segments=2)
    assert len(cluster.keys_of(GONE)) == 10
    assert cluster.states() == ["DELETE_PARTITION_MARKED"]


def test_missing_segments_are_counted_over_the_whole_run() -> None:
    cluster = cluster_with(S.COPY_SEGMENT_FINISHED)
    cluster.segment(tip("gone", 1), 7, objects=False)
    cluster.mark_and_wait()
    assert [p.outcome for p in cluster.clean(max_missing_segments=2).partitions] == ["REFUSED", "REFUSED"]
    with pytest.raises(StorageRootError, match="2 segments"):
        cluster.clean(max_missing_segments=1)


def test_a_later_partition_that_misses_too_much_saves_the_earlier_ones() -> None:
    cluster = cluster_with(seen=2)
    for number in range(3):
        cluster.segment(tip("gone", 1), number, objects=False)
    cluster.mark_and_wait()
    with pytest.raises(StorageRootError, match="3 segments"):
        cluster.clean(max_missing_segments=2)
    assert len(cluster.keys_of(GONE)) == 10
    assert set(cluster.states()) == {"DELETE_PARTITION_MARKED"}


def test_the_override_settles_what_is_missing() -> None:
    cluster = cluster_with(S.COPY_SEGMENT_FINISHED, seen=1)
    report = cluster.clean(overrides=SETTLE)
    assert (report.partitions[0].outcome, report.partitions[0].segments_deleted) == ("FINISHED", 2)
    assert report.partitions[0].objects_deleted == 5


@pytest.mark.parametrize("state", [S.COPY_SEGMENT_STARTED, S.DELETE_SEGMENT_STARTED])
def test_having_no_objects_is_legitimate_in_mid_copy_and_mid_deletion(state: S) -> None:
    cluster = cluster_with(state)
    assert cluster.clean().partitions[0].outcome == "FINISHED"


def empty_root(cluster: Cluster) -> None:
    """Nothing lies there."""


def root_of_strangers(cluster: Cluster) -> None:
    cluster.storage.put_object("backup/2024.tar", b"x")
    cluster.storage.put_object("kafka-tiered-storage/x-0-AAAAAAAAAAAAAAAAAAAAYw/00000000000000000000-a.log", b"x")


def root_of_another_cluster(cluster: Cluster) -> None:
    where = Location("memory", prefix="kafka-tiered-storage")
    stamp = Stamp("other", "local-tiered-storage", "kafka-tiered-storage", str(UUID(int=5)), where)
    cluster.storage.put_object(stamp.key, stamp.to_json())


def root_with_an_old_stamp(cluster: Cluster) -> None:
    stamp = {"cluster_id": CLUSTER_ID, "layout": "local-tiered-storage"}
    cluster.storage.put_object("airflow-provider-rlmm.json", json.dumps(stamp).encode())


def root_with_a_stamp_that_nobody_recorded(cluster: Cluster) -> None:
    where = Location("memory", prefix="kafka-tiered-storage")
    stamp = Stamp(CLUSTER_ID, "local-tiered-storage", "kafka-tiered-storage", str(UUID(int=5)), where)
    cluster.storage.put_object(stamp.key, stamp.to_json())


UNVERIFIED = pytest.mark.parametrize(
    "root",
    [
        empty_root,
        root_of_strangers,
        root_of_another_cluster,
        root_with_an_old_stamp,
        root_with_a_stamp_that_nobody_recorded,
    ],
)


UNPROVEN = frozenset({"unproven_root"})


@UNVERIFIED
def test_where_nothing_lives_and_no_stamp_was_expected_nothing_is_done(root: Any) -> None:
    cluster = cluster_with(S.COPY_SEGMENT_STARTED, seen=1, living_topic=False)
    root(cluster)
    keys = cluster.storage.keys
    with pytest.raises(StorageRootError, match=r"no living topic has a copied segment.*expected_root.*unproven_root"):
        cluster.clean()
    assert (cluster.storage.keys, cluster.states()) == (keys, ["DELETE_PARTITION_MARKED"])


def test_an_old_copy_of_the_root_is_refused_before_anything_is_done() -> None:
    """It holds objects of this cluster, but not the newest copy of the living topic."""
    cluster = cluster_with(seen=2, living_topic=False)
    cluster.topics.create("alive", cluster.alive.topic_id)
    cluster.segment(cluster.alive, 9, objects=False)
    keys = cluster.storage.keys
    with pytest.raises(StorageRootError, match=r"newest copied segments of 1 living topic 1 is not at"):
        cluster.clean()
    assert (cluster.storage.keys, cluster.states()) == (keys, ["DELETE_PARTITION_MARKED"])


def test_single_newest_copies_that_are_missing_need_their_override() -> None:
    cluster = cluster_with(seen=2)
    cluster.topics.create("living", tip("living", 0, 30).topic_id)
    cluster.segment(tip("living", 0, 30), 9, objects=False)
    with pytest.raises(StorageRootError, match="missing_living_segments"):
        cluster.clean()
    report = cluster.clean(overrides=frozenset({"missing_living_segments"}))
    assert report.partitions[0].outcome == "FINISHED"


def test_what_a_broker_began_to_delete_is_not_finished_unseen_below_a_root_that_is_not_up_to_date() -> None:
    cluster = cluster_with(S.DELETE_SEGMENT_STARTED, seen=1)
    cluster.topics.create("living", tip("living", 0, 30).topic_id)
    cluster.segment(tip("living", 0, 30), 9, objects=False)
    report = cluster.clean(overrides=frozenset({"missing_living_segments"}))
    assert (report.partitions[0].outcome, report.partitions[0].segments_left) == ("INCOMPLETE", 1)
    assert "another program began to delete it" in reasons(report)


@UNVERIFIED
@pytest.mark.parametrize("overrides", [UNPROVEN, SETTLE | UNPROVEN], ids=["plain", "settle_missing"])
def test_below_a_root_that_is_not_verified_one_missing_segment_stops_the_run(root: Any, overrides: Any) -> None:
    cluster = cluster_with(S.COPY_SEGMENT_FINISHED, living_topic=False)
    root(cluster)
    keys = cluster.storage.keys
    with pytest.raises(StorageRootError, match="nothing more is deleted"):
        cluster.clean(overrides=overrides)
    assert cluster.storage.keys == keys
    assert cluster.states() == ["DELETE_PARTITION_MARKED"]


@pytest.mark.parametrize("state", [S.COPY_SEGMENT_STARTED, S.DELETE_SEGMENT_STARTED])
def test_a_place_that_only_expected_root_names_proves_nothing_by_being_empty(state: S) -> None:
    """A mount that is missing looks like this."""
    cluster = cluster_with(state, living_topic=False)
    cluster.expected_root = "memory://kafka-tiered-storage"
    report = cluster.clean()
    assert "which only expected_root names" in reasons(report)
    assert (report.partitions[0].outcome, cluster.storage.keys) == ("REFUSED", frozenset())
    assert cluster.clean(overrides=SETTLE).partitions[0].outcome == "FINISHED"


@pytest.mark.parametrize("state", [S.COPY_SEGMENT_STARTED, S.DELETE_SEGMENT_STARTED])
def test_where_an_object_of_the_cluster_lies_below_expected_root_what_has_none_may_be_finished(state: S) -> None:
    cluster = cluster_with(state, living_topic=False)
    cluster.segment(tip("other", 0, 10), 5)
    cluster.expected_root = "memory://kafka-tiered-storage"
    report = cluster.clean()
    assert {p.topic: p.outcome.value for p in report.partitions}["gone"] == "FINISHED"


@UNVERIFIED
@pytest.mark.parametrize("state", [S.COPY_SEGMENT_STARTED, S.DELETE_SEGMENT_STARTED])
def test_below_a_root_that_is_not_verified_nothing_unseen_is_finished(root: Any, state: S) -> None:
    cluster = cluster_with(state, living_topic=False)
    root(cluster)
    keys = cluster.storage.keys
    report = cluster.clean(overrides=UNPROVEN)
    assert report.partitions[0].outcome == "REFUSED"
    assert "it has no object, and " in reasons(report)
    assert cluster.storage.keys == keys
    assert cluster.states() == ["DELETE_PARTITION_MARKED"]


def test_a_root_that_does_not_exist_stops_the_run() -> None:
    cluster = cluster_with(S.COPY_SEGMENT_FINISHED, seen=1)
    cluster.storage.root_exists = False
    with pytest.raises(StorageRootError):
        cluster.clean()
    assert cluster.states() == ["DELETE_PARTITION_MARKED"]


def test_objects_that_vanish_between_listing_and_deletion_are_left_to_the_next_run() -> None:
    """Another run may have deleted them, which the audit log tells then, or their folder was renamed: nobody knows."""
    cluster = cluster_with(seen=1)

    def vanish() -> None:
        for key in cluster.keys_of(GONE):
            cluster.storage._objects.pop(key)

    cluster.log.after_effect = on_nth_publish(S.DELETE_SEGMENT_STARTED, vanish)
    report = cluster.clean()
    assert (report.partitions[0].outcome, report.partitions[0].segments_left) == ("INCOMPLETE", 1)
    assert cluster.clean().partitions[0].outcome == "REFUSED"
    assert "DELETE_SEGMENT_FINISHED" not in cluster.states()
    assert cluster.clean(overrides=SETTLE).partitions[0].outcome == "FINISHED"


def test_objects_that_lie_where_the_metadata_does_not_say_are_not_gone() -> None:
    """They carry the segment's id under another start offset: nothing was deleted, so nothing is finished."""
    cluster = cluster_with(S.COPY_SEGMENT_FINISHED)
    (history,) = [h for h in cluster.replay().histories.values() if h.topic_id_partition == GONE]
    (metadata,) = history.unfinished()
    misplaced = cluster.layout.segment_stem(metadata).replace("00000000000000000000-", "00000000000000000005-")
    cluster.storage.put_object(f"{misplaced}.log", b"x")
    report = cluster.clean()
    assert report.partitions[0].outcome == "INCOMPLETE"
    assert "no object with this key was listed" in reasons(report)
    assert "DELETE_SEGMENT_FINISHED" not in cluster.states()
    assert f"{misplaced}.log" in cluster.storage.keys


def test_a_file_of_a_kind_that_the_layout_does_not_know_keeps_the_segment() -> None:
    cluster = cluster_with(seen=1)
    (log,) = [key for key in cluster.keys_of(GONE) if key.endswith(".log")]
    cluster.storage.put_object(log.removesuffix(".log") + ".backup", b"x")
    report = cluster.clean()
    assert report.partitions[0].outcome == "INCOMPLETE"
    assert "knows no file of this kind" in reasons(report)
    assert {key.rpartition(".")[2] for key in cluster.keys_of(GONE)} == {"backup"}


# --- what a run of ours had started, and what the audit log says of it ---------------------------------------------------


def hide(cluster: Cluster, of: TopicIdPartition = GONE) -> dict[str, tuple[bytes, int]]:
    """Somebody renames the folder of a user partition: what lies there is listed no more."""
    objects = cluster.storage._objects
    return {key: objects.pop(key) for key in cluster.keys_of(of)}


def hidden_in_mid_run(cluster: Cluster) -> dict[str, tuple[bytes, int]]:
    """A run lists all, starts the deletion of two segments, and the folder is away before the first object goes."""
    away: dict[str, tuple[bytes, int]] = {}
    cluster.segments(GONE, 2)
    cluster.mark_and_wait()
    cluster.audit = InMemoryAuditLog(lambda name, _: away.update(hide(cluster)) if name == "audit before" else None)
    report = cluster.clean()
    cluster.audit = InMemoryAuditLog(beside=cluster.audit)
    assert (report.partitions[0].outcome, len(away)) == ("INCOMPLETE", 10)
    assert [row["outcome"] for row in cluster.audit.rows] == [None, None, "NEVER_SEEN", "NEVER_SEEN"]
    return away


def test_a_folder_that_stays_away_over_two_runs_is_not_taken_for_deleted() -> None:
    cluster = Cluster()
    away = hidden_in_mid_run(cluster)
    cluster.stamp_root()
    cluster.record_root()
    events = cluster.states()
    report = cluster.clean()
    (partition,) = report.partitions
    assert (partition.outcome, partition.segments_left) == ("REFUSED", 2)
    assert {r.kind for r in partition.refusals} == {RefusalKind.MISSING_OBJECTS}
    assert "the audit log has no deletion of it that found an object" in reasons(report)
    assert cluster.states() == events, "nothing is said about what nobody has seen go"
    with pytest.raises(StorageRootError, match="2 segments"):
        cluster.clean(max_missing_segments=1)
    cluster.storage._objects.update(away)
    assert cluster.clean().partitions[0].outcome == "FINISHED"
    assert cluster.keys_of(GONE) == set()


def killed_after(effects: int, name: str) -> tuple[Cluster, int]:
    """A run that was killed after so many effects of a kind; ten objects of two segments were there."""
    cluster = Cluster()
    cluster.segments(GONE, 2)
    cluster.mark_and_wait()
    seen = 0

    def kill(effect: str, _: object) -> None:
        nonlocal seen
        seen += effect == name
        if seen > effects:
            raise KeyboardInterrupt

    cluster.storage.after_effect = kill
    with suppress(KeyboardInterrupt):
        cluster.clean()
    cluster.storage.after_effect = None
    cluster.record_root()
    return cluster, len(cluster.keys_of(GONE))


@pytest.mark.parametrize("deletes", range(10))
def test_a_run_that_was_killed_at_any_deletion_stays_green(deletes: int) -> None:
    cluster, left = killed_after(deletes, "delete")
    assert left < 10
    report = cluster.clean()
    assert report.partitions[0].outcome == "FINISHED"
    assert not report.refusals


def test_a_deletion_that_was_done_and_not_said_counts() -> None:
    """Its objects are gone, and DELETE_SEGMENT_FINISHED was never acknowledged."""
    cluster = Cluster()
    cluster.segments(GONE, 2)
    cluster.mark_and_wait()
    cluster.log.on_effect = on_nth_publish(S.DELETE_SEGMENT_FINISHED, unavailable)
    with suppress(EventLogUnavailableError):
        cluster.clean()
    cluster.log.on_effect = no_effect_hook
    cluster.record_root()
    assert {row["outcome"] for row in cluster.audit.rows} == {None, "GONE"}
    assert cluster.keys_of(GONE) == set()
    assert cluster.clean().partitions[0].outcome == "FINISHED"


@pytest.mark.parametrize(
    ("outcome", "ends"),
    [
        ("GONE", "FINISHED"),
        ("PRESENT", "FINISHED"),
        ("UNKNOWN", "FINISHED"),
        ("NEVER_SEEN", "REFUSED"),
        (None, "FINISHED"),
    ],
)
def test_how_a_batch_ended_says_whether_its_segments_are_gone(outcome: str | None, ends: str) -> None:
    cluster = Cluster()
    hidden_in_mid_run(cluster)
    cluster.record_root()
    rows = cluster.audit.rows
    rows[:] = [{**row, "outcome": outcome} for row in rows if outcome or row["phase"] == "BEFORE"]
    assert cluster.clean().partitions[0].outcome == ends


def test_without_an_audit_log_a_segment_that_we_had_started_is_missing() -> None:
    """It was removed, or is in another work folder."""
    cluster, left = killed_after(9, "delete")
    assert left == 0
    cluster.audit = InMemoryAuditLog()
    assert cluster.clean().partitions[0].outcome == "REFUSED"


def deletes_and_dies(cluster: Cluster, of: TopicIdPartition) -> None:
    """Another cleaner deletes all of a user partition, and DELETE_SEGMENT_FINISHED is never acknowledged."""
    cluster.log.on_effect = on_nth_publish(S.DELETE_SEGMENT_FINISHED, unavailable)
    planned = {(of.topic_id, of.partition): cluster.everything()[of.topic_id, of.partition]}
    with suppress(EventLogUnavailableError):
        cluster.clean(planned=planned)
    cluster.log.on_effect = no_effect_hook
    assert cluster.keys_of(of) == set()


def before_listing(cluster: Cluster, of: TopicIdPartition, action: Callable[[], object]) -> None:
    """Have something happen right before a user partition is listed for the first time."""
    listing = cluster.storage.list_log_segments

    def acting(listed: TopicIdPartition) -> Mapping[UUID, tuple[StoredObject, ...]]:
        if listed == of:
            cluster.storage.list_log_segments = listing  # type: ignore[method-assign]
            action()
        return listing(listed)

    cluster.storage.list_log_segments = acting  # type: ignore[method-assign]


def test_another_cleaner_of_the_same_work_folder_counts() -> None:
    """It has deleted between this one's read of the log and its listing, and said so in the audit log before it did."""
    cluster = Cluster()
    cluster.segments(GONE, 2)
    cluster.stamp_root()
    cluster.record_root()
    cluster.mark_and_wait()
    before_listing(cluster, GONE, lambda: deletes_and_dies(cluster, GONE))
    assert cluster.clean().partitions[0].outcome == "FINISHED"


def test_another_cleaner_that_goes_on_after_the_audit_log_was_read_counts() -> None:
    cluster, other = Cluster(), tip("gone", 1)
    cluster.segments(GONE, 2)
    cluster.segments(other, 2)
    cluster.mark_and_wait()
    deletes_and_dies(cluster, GONE)
    cluster.record_root()

    def killed(name: str, rows: object) -> None:
        raise KeyboardInterrupt

    writing, cluster.audit = cluster.audit, InMemoryAuditLog(killed, beside=cluster.audit)
    with suppress(KeyboardInterrupt):
        cluster.clean(planned={(other.topic_id, 1): cluster.everything()[other.topic_id, 1]})
    cluster.audit = writing
    assert len(cluster.keys_of(other)) == 10
    before_listing(cluster, other, lambda: deletes_and_dies(cluster, other))
    assert [p.outcome for p in cluster.clean().partitions] == ["FINISHED", "FINISHED"]


def test_an_audit_log_that_cannot_be_read_says_nothing_and_that_is_said() -> None:
    cluster, _ = killed_after(9, "delete")
    broken = DeletionRecord(frozenset(), ("audit/2026-11-23/run.parquet: no right to read it",))
    cluster.audit.deletions = lambda segments, since_ms: broken  # type: ignore[method-assign]
    report = cluster.clean()
    assert report.partitions[0].outcome == "REFUSED"
    assert "of the audit log this cannot be read: audit/2026-11-23/run.parquet: no right to read it" in reasons(report)


def test_the_audit_log_is_read_once_and_only_where_it_decides() -> None:
    cluster, _ = killed_after(9, "delete")
    cluster.segments(tip("gone", 1), 2)
    cluster.segment(tip("gone", 1), 7, S.DELETE_SEGMENT_STARTED, objects=False)
    cluster.mark_and_wait()
    asked: list[int] = []
    read = cluster.audit.deletions

    def counted(segments: Collection[RemoteLogSegmentId], since_ms: int) -> DeletionRecord:
        asked.append(len(segments))
        return read(segments, since_ms)

    cluster.audit.deletions = counted  # type: ignore[method-assign]
    assert {p.outcome for p in cluster.clean().partitions} == {"FINISHED"}
    assert asked == [2]
    cluster.segments(tip("gone", 2), 2)
    cluster.mark_and_wait()
    cluster.clean()
    assert asked == [2]


def test_what_is_really_lost_is_settled_by_its_override() -> None:
    cluster = Cluster()
    hidden_in_mid_run(cluster)
    assert cluster.clean(overrides=SETTLE).partitions[0].outcome == "FINISHED"
