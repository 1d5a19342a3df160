# SPDX-License-Identifier: Apache-2.0
"""Segments whose objects were never seen (I2): a wrong bucket must not look clean."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest

from airflow_provider_rlmm.errors import StorageRootError
from airflow_provider_rlmm.metadata.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.policy.refusals import RefusalKind
from airflow_provider_rlmm.storage.root import Location, Stamp
from tests.unit.lifecycle.builders import CLUSTER_ID, Cluster, on_nth_publish, reasons, tip

GONE = tip()
SETTLE = frozenset({"settle_missing"})


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
    with pytest.raises(StorageRootError, match=r"newest copied segments of 1 living topics 1 are not at"):
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
    assert "somebody else began to delete it" in reasons(report)


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
    """Another run may have deleted them, or their folder was renamed: a new look at the root tells more."""
    cluster = cluster_with(seen=1)

    def vanish() -> None:
        for key in cluster.keys_of(GONE):
            cluster.storage._objects.pop(key)

    cluster.log.after_effect = on_nth_publish(S.DELETE_SEGMENT_STARTED, vanish)
    report = cluster.clean()
    assert (report.partitions[0].outcome, report.partitions[0].segments_left) == ("INCOMPLETE", 1)
    assert "DELETE_SEGMENT_FINISHED" not in cluster.states()
    assert cluster.clean().partitions[0].outcome == "FINISHED"


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
