# SPDX-License-Identifier: Apache-2.0
"""Lost beginnings and records that cannot be applied: each user partition is judged by itself, storage is the witness."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.base.errors import PartitionerMismatchError, StorageAccessError, StorageUnavailableError
from airflow_provider_rlmm.core.log.write_guard import GuardedPublisher
from airflow_provider_rlmm.core.plans.refusals import RefusalKind
from airflow_provider_rlmm.core.records.era import PLAIN_ERA, LogEra, era_of_policy
from airflow_provider_rlmm.core.records.keys import OffsetKey, SegmentKey
from airflow_provider_rlmm.core.records.records import OWN_BROKER_ID, TopicIdPartition
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.storage.remote_storage import StoredObject
from airflow_provider_rlmm.core.world.replay import Belief, MetadataPartitionReplay
from tests.builders import Cluster, Memory, add, reasons, tip, update

GONE, OTHER = tip(), tip("other", 0, 10)


@pytest.fixture
def cluster() -> Cluster:
    """Two deleted topics in one metadata partition, marked a day ago."""
    cluster = Cluster()
    cluster.segments(GONE, 3)
    cluster.segment(OTHER, 4)
    cluster.mark_and_wait()
    return cluster


def outcomes(cluster: Cluster, **limits: frozenset[str]) -> dict[str, str]:
    return {p.topic: p.outcome.value for p in cluster.clean(**limits).partitions}


def unnamed_object(cluster: Cluster) -> None:
    """An object of the first deleted topic of which the log says nothing."""
    key = cluster.layout.object_key(add(GONE, 9), None)
    cluster.storage.put_object(key, b"x")


UNDECODABLE: dict[str, Callable[[Cluster], int]] = {
    "TOMBSTONE": lambda c: c.log.append(0, None),
    "MALFORMED": lambda c: c.log.append(0, b"\x01\x00\x00garbage"),
    "UNKNOWN_API_KEY": lambda c: c.log.append(0, b"\x01\x09\x00"),
}


@pytest.mark.parametrize("code", UNDECODABLE)
def test_a_record_that_cannot_be_decoded_puts_everybody_under_proof_and_stops_nobody_who_is_whole(
    cluster: Cluster, code: str
) -> None:
    offset = UNDECODABLE[code](cluster)
    unnamed_object(cluster)
    report = cluster.clean()
    assert {p.topic: p.outcome.value for p in report.partitions} == {"gone": "REFUSED", "other": "FINISHED"}
    (refusal,) = report.partitions[0].refusals
    assert f"metadata partition 0 offset {offset}: {code}" in refusal.why
    assert "storage holds 1 segment that the log does not name" in refusal.why
    assert (refusal.kind, refusal.metadata_partition, refusal.offset, refusal.topic) == (
        RefusalKind.INCOMPLETE_HISTORY,
        0,
        offset,
        "gone",
    )
    assert len(cluster.keys_of(GONE)) == 16


@pytest.mark.parametrize("code", UNDECODABLE)
def test_without_unnamed_objects_everything_is_cleaned_beside_a_bad_record(cluster: Cluster, code: str) -> None:
    UNDECODABLE[code](cluster)
    assert outcomes(cluster) == {"gone": "FINISHED", "other": "FINISHED"}
    assert cluster.keys_of(GONE) == cluster.keys_of(OTHER) == set()


def test_a_new_topic_in_a_poisoned_metadata_partition_is_marked_and_cleaned(cluster: Cluster) -> None:
    cluster.log.append(0, None)
    later = tip("later", 0, 11)
    cluster.segment(later, 5)
    marked = cluster.mark()
    assert marked.refusals == ()
    assert [line for line in marked.marked if "later" in line]
    cluster.mark_and_wait()
    assert outcomes(cluster)["later"] == "FINISHED"


def test_a_record_that_can_be_decoded_concerns_its_own_user_partition_only(cluster: Cluster) -> None:
    cluster.foreign(update(cluster.alive, 0, S.COPY_SEGMENT_FINISHED), key=b"k")
    unnamed_object(cluster)
    assert outcomes(cluster) == {"gone": "INCOMPLETE", "other": "FINISHED"}
    assert len(cluster.keys_of(GONE)) == 1, "what the log names is deleted, as nothing puts it in doubt"


def test_a_keyed_record_of_its_own_puts_a_partition_under_proof(cluster: Cluster) -> None:
    offset = cluster.foreign(add(GONE, 2), key=b"k")
    cluster.mark_and_wait()
    unnamed_object(cluster)
    report = cluster.clean()
    assert {p.topic: p.outcome.value for p in report.partitions} == {"gone": "REFUSED", "other": "FINISHED"}
    assert f"offset {offset}: KEYED" in reasons(report)
    assert len(cluster.keys_of(GONE)) == 16
    assert outcomes(cluster, allowed_quarantine=frozenset({"KEYED"}))["gone"] == "INCOMPLETE"
    assert len(cluster.keys_of(GONE)) == 1


def test_a_lost_beginning_stops_only_those_that_lost_something(cluster: Cluster) -> None:
    lost = cluster.log.high_water_marks()[0] - 4  # the other topic's segment and both markers are left
    cluster.log.truncate(0, lost)
    cluster.segment(cluster.alive, 7)
    report = cluster.clean()
    assert {p.topic: p.outcome.value for p in report.partitions} == {"gone": "REFUSED", "other": "FINISHED"}
    assert f"metadata partition 0 begins at offset {lost}" in reasons(report)
    assert "storage holds 3 segments that the log does not name" in reasons(report)
    assert len(cluster.keys_of(GONE)) == 15


def test_an_empty_storage_that_only_expected_root_names_shows_nobody_to_be_whole() -> None:
    """A mount that is missing lists nothing either."""
    cluster = Cluster(living_topic=False)
    cluster.segments(GONE, 3)
    marked_at = cluster.log.high_water_marks()[0]
    cluster.mark_and_wait()
    cluster.log.truncate(0, marked_at)
    cluster.expected_root = "memory://kafka-tiered-storage"
    mounted = {key: cluster.storage._objects.pop(key) for key in cluster.storage.keys}
    (refused,) = cluster.clean(planned={}).partitions
    assert refused.outcome == "REFUSED"
    assert "nothing of this cluster was seen in the storage that was listed" in refused.refusals[0].why
    cluster.storage._objects.update(mounted)
    (refused,) = cluster.clean(planned={}).partitions
    assert "storage holds 3 segments that the log does not name" in refused.refusals[0].why


def test_a_beginning_lost_in_the_middle_of_a_segment_is_an_incomplete_history() -> None:
    cluster = Cluster()
    cluster.segments(GONE, 1)
    cluster.log.truncate(0, 3)
    cluster.segment(cluster.alive, 7)
    cluster.segments(tip("other", 0, 10), 2)
    cluster.mark_and_wait()
    plan = cluster.plan()
    assert {row["topic"] for row in plan.rows.to_pylist()} == {"other"}
    lost, incomplete = plan.summary.refusals
    assert (lost.kind, lost.offset) == (RefusalKind.LOST_RECORDS, 3)
    assert (incomplete.kind, incomplete.topic, incomplete.offset) == (RefusalKind.INCOMPLETE_HISTORY, "gone", 3)
    assert "1 segment has an incomplete history, see offset 3" in incomplete.why
    assert outcomes(cluster) == {"other": "FINISHED"}
    assert len(cluster.keys_of(GONE)) == 5


def test_an_object_that_appears_before_the_end_keeps_the_partition_from_being_finished(cluster: Cluster) -> None:
    cluster.log.append(0, None)
    late = iter([unnamed_object])

    def copy(effect: str, key: str) -> None:
        if effect == "delete" and (appear := next(late, None)) is not None:
            appear(cluster)

    cluster.storage.after_effect = copy
    report = cluster.clean()
    assert {p.topic: p.outcome.value for p in report.partitions} == {"gone": "INCOMPLETE", "other": "FINISHED"}
    assert "storage holds 1 segment that the log does not name" in reasons(report)
    assert not [line for line in cluster.ours() if line.startswith("DELETE_PARTITION_FINISHED") and "gone" in line]


@pytest.fixture
def cut_off() -> Cluster:
    """Eight segments of a deleted topic, of which the log has lost the last three; marked a day ago."""
    cluster = Cluster()
    cluster.segments(GONE, 5)
    end = cluster.log.high_water_marks()[0]
    for number in range(5, 8):
        cluster.segment(GONE, number)
    cluster.log.cut_off(0, end)
    cluster.mark_and_wait()
    return cluster


@pytest.mark.parametrize("dry_run", [True, False])
def test_nothing_is_declared_deleted_of_which_storage_holds_what_the_log_does_not_name(
    cut_off: Cluster, dry_run: bool
) -> None:
    """Nothing puts it in doubt: the same topic id, a log that begins at 0, every record is good."""
    (partition,) = cut_off.clean(dry_run=dry_run).partitions
    assert partition.outcome == "INCOMPLETE"
    assert (partition.segments_deleted, partition.objects_deleted) == (5, 25)
    (refusal,) = partition.refusals
    assert refusal.why == (
        "not declared deleted: storage holds 3 segments that the log does not name, the first is AAAAAAAAAAAAAAAAAAAD7Q"
    )
    assert refusal.kind is RefusalKind.INCOMPLETE_HISTORY
    assert refusal.kind.needs_person
    assert (refusal.topic, refusal.metadata_partition) == ("gone", 0)
    assert len(cut_off.keys_of(GONE)) == (40 if dry_run else 15)
    assert not [line for line in cut_off.ours() if line.startswith("DELETE_PARTITION_FINISHED")]


def test_what_the_log_did_not_name_is_gone_and_the_next_run_finishes(cut_off: Cluster) -> None:
    cut_off.clean()
    cut_off.storage.delete_objects(cut_off.keys_of(GONE))
    (partition,) = cut_off.clean().partitions
    assert (partition.outcome, partition.refusals) == ("FINISHED", ())


def test_a_copy_that_comes_between_listing_and_reading_is_named_and_no_alarm(cluster: Cluster) -> None:
    """Listed first, read on then: whatever is listed was named in the log before."""
    listed: list[str] = []
    list_all = cluster.storage.list_log_segments

    def copied_just_before(tip: TopicIdPartition) -> Mapping[UUID, tuple[StoredObject, ...]]:
        listed.append(tip.topic)
        if listed.count("gone") == 2:
            cluster.segment(GONE, 9)
        return list_all(tip)

    cluster.storage.list_log_segments = copied_just_before  # type: ignore[method-assign]
    report = cluster.clean()
    assert {p.topic: p.outcome.value for p in report.partitions} == {"gone": "INCOMPLETE", "other": "FINISHED"}
    assert "does not name" not in reasons(report)
    assert not [refusal for p in report.partitions for refusal in p.refusals if refusal.kind.needs_person]


@pytest.mark.parametrize("code", UNDECODABLE)
def test_a_record_that_cannot_be_decoded_and_comes_after_the_listing_leaves_everybody_to_the_next_run(
    cluster: Cluster, code: str
) -> None:
    """It may announce a copy of which the objects come after the listing, too: found by the simulation, seed 17589."""
    listed: list[str] = []
    list_all = cluster.storage.list_log_segments

    def announced_just_afterwards(tip: TopicIdPartition) -> Mapping[UUID, tuple[StoredObject, ...]]:
        found = list_all(tip)
        listed.append(tip.topic)
        if listed.count("gone") == 2 and tip == GONE:
            UNDECODABLE[code](cluster)
            unnamed_object(cluster)
        return found

    cluster.storage.list_log_segments = announced_just_afterwards  # type: ignore[method-assign]
    report = cluster.clean()
    assert {p.topic: p.outcome.value for p in report.partitions} == {"gone": "INCOMPLETE", "other": "INCOMPLETE"}
    assert f"{code}" in reasons(report)
    assert "came while storage was listed" in reasons(report)
    assert outcomes(cluster) == {"gone": "REFUSED", "other": "FINISHED"}


@pytest.mark.parametrize(("topics", "unasked"), [(1, 0), (8, 3)])
def test_what_cannot_be_listed_again_is_not_finished(topics: int, unasked: int) -> None:
    """The listings before the deletion answered; those before DELETE_PARTITION_FINISHED do not."""
    cluster = Cluster()
    for number in range(topics):
        cluster.segment(tip(f"gone-{number}", 0, 20 + number), number)
    cluster.mark_and_wait()
    asked: list[TopicIdPartition] = []
    list_all = cluster.storage.list_log_segments

    def denied(tip: TopicIdPartition) -> Mapping[UUID, tuple[StoredObject, ...]]:
        asked.append(tip)
        if asked.count(tip) > 1:
            raise StorageUnavailableError("the store says nothing") if topics > 1 else StorageAccessError("denied")
        return list_all(tip)

    cluster.storage.list_log_segments = denied  # type: ignore[method-assign]
    report = cluster.clean()
    assert {p.outcome.value for p in report.partitions} == {"INCOMPLETE"}
    assert not [line for line in cluster.ours() if line.startswith("DELETE_PARTITION_FINISHED")]
    assert sum(p.segments_deleted for p in report.partitions) == topics
    assert reasons(report).count("has not answered 5 times in a row") == unasked
    if topics == 1:
        assert report.partitions[0].refusals[0].kind.needs_person


def test_a_bad_record_that_comes_during_the_run_demands_the_proof_at_its_end(cluster: Cluster) -> None:
    def poison(effect: str, key: str) -> None:
        if effect == "delete":
            cluster.storage.after_effect = None
            cluster.log.append(0, None)
            unnamed_object(cluster)

    cluster.storage.after_effect = poison
    assert outcomes(cluster) == {"gone": "INCOMPLETE", "other": "FINISHED"}


def test_a_misrouted_record_concerns_its_own_user_partition_only() -> None:
    cluster = Cluster(metadata_partitions=2)
    cluster.segments(GONE, 4)
    cluster.mark_and_wait()
    home = cluster.metadata_partition_of(GONE)
    stranger = next(t for i in range(99) if cluster.metadata_partition_of(t := tip("x", 0, 100 + i)) != home)
    cluster.log.append(home, serialize(add(stranger, 0)))
    unnamed_object(cluster)
    assert cluster.clean(home).partitions[0].outcome.value == "INCOMPLETE"
    assert len(cluster.keys_of(GONE)) == 1, "what the log names is deleted, as nothing puts it in doubt"


def test_many_misrouted_records_contradict_the_partitioner_and_forbid_every_write() -> None:
    cluster = Cluster(metadata_partitions=2)
    cluster.segments(GONE, 2)
    cluster.mark_and_wait()
    home = cluster.metadata_partition_of(GONE)
    strangers = [t for i in range(99) if cluster.metadata_partition_of(t := tip("x", 0, 100 + i)) != home]
    for stranger in strangers[:2]:
        cluster.log.append(home, serialize(add(stranger, 0)))
    with pytest.raises(PartitionerMismatchError):
        cluster.clean(home)
    assert len(cluster.keys_of(GONE)) == 10


@pytest.mark.parametrize(
    ("era", "proven"), [(PLAIN_ERA, True), (era_of_policy(["compact"]), False)], ids=["plain", "compacted"]
)
def test_one_misrouted_record_contradicts_the_partitioner_where_others_may_be_gone(era: LogEra, proven: bool) -> None:
    cluster = Cluster(metadata_partitions=2)
    cluster.segments(GONE, 5)
    home = cluster.metadata_partition_of(GONE)
    stranger = next(t for i in range(99) if cluster.metadata_partition_of(t := tip("x", 0, 100 + i)) != home)
    cluster.log.append(home, serialize(add(stranger, 0)))
    replay = MetadataPartitionReplay(cluster.log, home)
    replay.advance()
    replay.era = era
    assert Belief(replay).routing_verified() is proven


def test_the_guard_itself_refuses_to_finish_a_partition_without_the_proof(cluster: Cluster) -> None:
    """Whoever forgets to ask storage is stopped by the guard's own question."""
    replay = MetadataPartitionReplay(cluster.log, 0)
    replay.advance()
    assert "no listing has shown" in (Belief(replay).obstacle_to_finish(GONE) or "")
    shown = Belief(replay, shown_whole=frozenset({GONE}))
    assert "no listing has shown" not in (shown.obstacle_to_finish(GONE) or "")
    assert UUID(int=1000) in replay.histories[GONE].known_segments


def behind_a_hole(cluster: Cluster, *, hole: bool) -> Cluster:
    """
    A segment whose deletion a run of ours is said to have begun, whose objects are nowhere, and of which the log does not say
    that it was copied: as that record is gone, or as it never was.
    """
    cluster.foreign(add(GONE, 3))
    if hole:
        cluster.log.remove(0, [cluster.foreign(update(GONE, 3, S.COPY_SEGMENT_FINISHED))])
    cluster.foreign(replace(update(GONE, 3, S.DELETE_SEGMENT_STARTED), broker_id=OWN_BROKER_ID))
    cluster.mark_and_wait()
    return cluster


def test_a_segment_whose_copy_may_have_been_finished_in_a_hole_of_the_log_is_never_finished(cluster: Cluster) -> None:
    behind_a_hole(cluster, hole=True)
    (hole,) = [refusal for refusal in cluster.plan().summary.refusals if refusal.kind is RefusalKind.LOST_RECORDS]
    assert "has no record at offsets" in hole.why
    assert "confirm_lost_records" in hole.what_to_do
    report = cluster.clean(max_missing_segments=1)
    assert {p.topic: p.outcome.value for p in report.partitions} == {"gone": "INCOMPLETE", "other": "FINISHED"}
    assert "its copy was finished and a run began to delete it, storage lists no object of it" in reasons(report)


def test_without_a_hole_a_segment_that_was_never_copied_is_finished(cluster: Cluster) -> None:
    assert outcomes(behind_a_hole(cluster, hole=False)) == {"gone": "FINISHED", "other": "FINISHED"}


def test_in_a_compacted_log_nobody_knows_that_a_segment_was_never_copied(cluster: Cluster) -> None:
    """Of a compacted log every record may be gone, so nothing has to be missing from the offsets."""
    behind_a_hole(cluster, hole=False)
    cluster.log.policy = frozenset({"compact", "delete"})
    cluster.publisher = GuardedPublisher(cluster.log, allow_writes=True, memory=Memory())
    report = cluster.clean(max_missing_segments=1)
    assert {p.topic: p.outcome.value for p in report.partitions} == {"gone": "INCOMPLETE", "other": "FINISHED"}
    assert "its copy was finished and a run began to delete it, storage lists no object of it" in reasons(report)


def test_in_a_compacted_log_everybody_is_under_proof_and_no_gap_needs_a_reason(cluster: Cluster) -> None:
    cluster.log.remove(0, [cluster.log.append(0, b"a record that was compacted")])
    cluster.log.policy = frozenset({"compact"})
    cluster.publisher = GuardedPublisher(cluster.log, allow_writes=True, memory=Memory())
    unnamed_object(cluster)
    report = cluster.clean()
    assert {p.topic: p.outcome.value for p in report.partitions} == {"gone": "REFUSED", "other": "FINISHED"}
    assert "records may be gone from anywhere, as the metadata topic is compacted: its cleanup.policy is" in reasons(
        report
    )
    kinds = [refusal.kind for refusal in cluster.plan().summary.refusals]
    assert RefusalKind.LOST_RECORDS not in kinds
    assert kinds[0] is RefusalKind.LOG_ERA
    assert kinds[0].needs_person


def require_refused_for_its_history(cluster: Cluster, offset: int) -> None:
    """Plan and cleaner refuse the user partition of one segment for what an offset says, and finish the other one."""
    cluster.publisher = GuardedPublisher(cluster.log, allow_writes=True, memory=Memory())
    cluster.mark_and_wait()
    (refusal,) = [r for r in cluster.plan().summary.refusals if r.topic == GONE.topic]
    assert f"1 segment has an incomplete history, see offset {offset}" in refusal.why
    report = cluster.clean()
    assert {p.topic: p.outcome.value for p in report.partitions} == {"gone": "REFUSED", "other": "FINISHED"}


@pytest.mark.parametrize("form", ["segment and state", "end offset"])
def test_what_the_log_cleaner_was_asked_to_forget_is_not_finished_for_that(cluster: Cluster, form: str) -> None:
    event = add(GONE, 3)
    cluster.foreign(event)
    keys = {
        "segment and state": SegmentKey(GONE.topic_id, 0, event.remote_log_segment_id.id, S.COPY_SEGMENT_STARTED),
        "end offset": OffsetKey(GONE.topic_id, GONE.topic, 0, event.end_offset, 5, is_update=False),
    }
    require_refused_for_its_history(cluster, cluster.log.append(0, None, bytes(keys[form])))
    assert len(cluster.keys_of(GONE)) > 0


def test_a_segment_is_judged_by_what_was_said_before_it_was_to_be_forgotten(cluster: Cluster) -> None:
    event = add(GONE, 3)
    cluster.foreign(event)
    cluster.foreign(update(GONE, 3, S.DELETE_SEGMENT_STARTED))
    key = SegmentKey(GONE.topic_id, 0, event.remote_log_segment_id.id, S.DELETE_SEGMENT_STARTED)
    offset = cluster.log.append(0, None, bytes(key))
    cluster.foreign(update(GONE, 3, S.DELETE_SEGMENT_FINISHED))
    require_refused_for_its_history(cluster, offset)


def test_a_copy_that_follows_under_the_key_of_one_that_failed_is_not_what_was_to_be_forgotten(cluster: Cluster) -> None:
    failed, again = add(GONE, 3), replace(add(GONE, 4), start_offset=30, end_offset=39)
    cluster.foreign(failed)
    for state in (S.DELETE_SEGMENT_STARTED, S.DELETE_SEGMENT_FINISHED):
        cluster.foreign(update(GONE, 3, state))
    for is_update in (False, True):
        key = OffsetKey(GONE.topic_id, GONE.topic, 0, failed.end_offset, 5, is_update=is_update)
        cluster.log.append(0, None, bytes(key))
    cluster.foreign(again)
    cluster.foreign(update(GONE, 4, S.COPY_SEGMENT_FINISHED))
    for object_key in cluster.layout.required_keys(again):
        cluster.storage.put_object(object_key, b"x")
    cluster.publisher = GuardedPublisher(cluster.log, allow_writes=True, memory=Memory())
    cluster.mark_and_wait()
    assert cluster.plan().summary.refusals == ()
    assert outcomes(cluster) == {"gone": "FINISHED", "other": "FINISHED"}
    assert cluster.keys_of(GONE) == set()


@pytest.mark.parametrize("before", [S.COPY_SEGMENT_STARTED, S.COPY_SEGMENT_FINISHED])
def test_a_segment_that_was_finished_and_of_whose_deletion_nothing_else_is_left_is_uncertain(
    cluster: Cluster, before: S
) -> None:
    opened = replace(add(GONE, 3), broker_leader_epoch=5)
    said = {"end_offset": opened.end_offset, "broker_leader_epoch": 5}
    copied, finished = (
        replace(update(GONE, 3, state), **said) for state in (S.COPY_SEGMENT_FINISHED, S.DELETE_SEGMENT_FINISHED)
    )
    written = [opened, *[copied] * (before is S.COPY_SEGMENT_FINISHED), finished]
    for event in written:
        key = OffsetKey(GONE.topic_id, GONE.topic, 0, opened.end_offset, 5, is_update=event is not opened)
        offset = cluster.log.append(0, serialize(event), bytes(key))
    require_refused_for_its_history(cluster, offset)


def test_a_hole_puts_everybody_under_proof_and_its_cause_ends_that(cluster: Cluster) -> None:
    offset = cluster.log.append(0, b"the marker of a transaction")
    cluster.log.remove(0, [offset])
    unnamed_object(cluster)
    report = cluster.clean()
    assert {p.topic: p.outcome.value for p in report.partitions} == {"gone": "REFUSED", "other": "FINISHED"}
    assert f"has no record at offsets {offset} to {offset}" in reasons(report)
    cluster.log.explained_gaps = {0: [(offset, offset + 1)]}
    assert outcomes(cluster)["gone"] == "INCOMPLETE", "what the log names is deleted, as nothing puts it in doubt"
