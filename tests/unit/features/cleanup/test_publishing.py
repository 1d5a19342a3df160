# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.base.errors import (
    ClusterMismatchError,
    ConfigurationError,
    EventByHandRefusedError,
    PublishFailedError,
    PublishOutcomeUnknownError,
    StorageRootError,
    UnsafeEventError,
    WritesNotAllowedError,
)
from airflow_provider_rlmm.core.log.protocol import Failed, Unknown
from airflow_provider_rlmm.core.log.write_guard import GuardedPublisher
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.core.records.records import (
    OWN_BROKER_ID,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    kafka_uuid_str,
)
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState as P
from airflow_provider_rlmm.core.storage.in_memory import InMemoryRemoteStorageManager
from airflow_provider_rlmm.core.world.audit import DeletionRecord, DeletionSource, nothing_on_record
from airflow_provider_rlmm.core.world.hold import Hold, HoldSource, nothing_held
from airflow_provider_rlmm.features.cleanup.publishing import parse_event, publish_events
from tests.builders import CLUSTER_ID, DAY_MS, Cluster, add, deletion, tip, update
from tests.roots import KNOWN_FROM_THE_BEGINNING

GONE = tip()
RAW = {
    "topic_id": kafka_uuid_str(GONE.topic_id),
    "topic": "gone",
    "partition": 0,
    "state": "DELETE_PARTITION_MARKED",
}
SEGMENT = {"segment_id": kafka_uuid_str(UUID(int=1000)), "state": "DELETE_SEGMENT_STARTED"}


def test_a_partition_event_is_read() -> None:
    expected = RemotePartitionDeleteMetadata(GONE, P.DELETE_PARTITION_MARKED, 5, -1)
    assert parse_event(RAW, 5) == parse_event({**RAW, "partition": "0"}, 5) == expected


@pytest.mark.parametrize(("text", "custom"), [("00ff", b"\x00\xff"), (None, None), ("", b"")])
def test_a_segment_event_is_read(text: str | None, custom: bytes | None) -> None:
    segment_id = RemoteLogSegmentId(GONE, UUID(int=1000))
    assert parse_event({**RAW, **SEGMENT, "custom_metadata": text}, 5) == RemoteLogSegmentMetadataUpdate(
        segment_id, 5, custom, S.DELETE_SEGMENT_STARTED, -1
    )


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({**RAW, "topicId": "x"}, "unknown fields ['topicId']"),
        ({k: v for k, v in RAW.items() if k != "topic"}, "it lacks ['topic']"),
        ({**RAW, "topic_id": "short"}, "not a Kafka id"),
        ({**RAW, "topic_id": None}, "cannot be read"),
        ({**RAW, "topic": None}, "topic must be a string"),
        ({**RAW, "partition": "first"}, "cannot be read"),
        ({**RAW, "partition": 1.5}, "partition must be an integer from 0 to 2147483647, not 1.5"),
        ({**RAW, "partition": True}, "partition must be an integer from 0 to 2147483647, not True"),
        ({**RAW, "partition": "1_0"}, "partition must be an integer from 0 to 2147483647, not '1_0'"),
        ({**RAW, "state": "MARKED"}, "state must be one of DELETE_PARTITION_MARKED, DELETE_PARTITION_STARTED, "),
        ({**RAW, "state": "DELETE_SEGMENT_STARTED"}, "DELETE_PARTITION_FINISHED, not 'DELETE_SEGMENT_STARTED'"),
        ({**RAW, **SEGMENT, "state": "DELETE_PARTITION_MARKED"}, "not 'DELETE_PARTITION_MARKED'"),
        ({**RAW, **SEGMENT, "custom_metadata": "xyz"}, "cannot be read"),
    ],
)
def test_an_event_that_cannot_be_read_is_a_configuration_error(raw: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        parse_event(raw, 5)
    assert message in str(error.value)


BY_HAND = frozenset({"events_by_hand"})


@pytest.fixture
def cluster() -> Cluster:
    """A deleted topic with one segment that was copied."""
    cluster = Cluster()
    cluster.segments(GONE, 1)
    return cluster


@pytest.fixture
def settled(cluster: Cluster) -> Cluster:
    """Marked a day ago."""
    cluster.mark_and_wait()
    return cluster


@pytest.fixture
def started(settled: Cluster) -> Cluster:
    """The deletion is started too."""
    publish(settled, event(P.DELETE_PARTITION_STARTED))
    return settled


def event(state: S | P) -> dict[str, Any]:
    if isinstance(state, P):
        return {**RAW, "state": state.name}
    return {**RAW, **SEGMENT, "state": state.name}


def publish(
    cluster: Cluster,
    *raw: dict[str, Any],
    overrides: frozenset[str] = BY_HAND,
    expected_cluster_id: str | None = CLUSTER_ID,
    storage: bool = True,
    hold: HoldSource = nothing_held,
    deletions: DeletionSource = nothing_on_record,
) -> list[int]:
    return publish_events(
        [parse_event(r, cluster.now_ms) for r in raw],
        log=cluster.log,
        publisher=cluster.publisher,
        topics=cluster.topics,
        limits=CleanerLimits(overrides=overrides),
        storage=cluster.storage if storage else None,
        hold=hold,
        expected_cluster_id=expected_cluster_id,
        ledger=KNOWN_FROM_THE_BEGINNING,
        clock=cluster.clock,
        deletions=deletions,
    )


def whole_deletion() -> list[dict[str, Any]]:
    return [
        event(state)
        for state in (
            P.DELETE_PARTITION_MARKED, P.DELETE_PARTITION_STARTED, S.DELETE_SEGMENT_STARTED, S.DELETE_SEGMENT_FINISHED,
            P.DELETE_PARTITION_FINISHED,
        )
    ]  # fmt: skip


# -- what by hand means, whatever the event --------------------------------------------------------------------------------


def test_a_whole_deletion_in_one_list_ends_at_the_marker_and_leaves_no_object_without_metadata(
    cluster: Cluster,
) -> None:
    objects = cluster.keys_of(GONE)
    with pytest.raises(EventByHandRefusedError, match=r"DELETE_PARTITION_STARTED of .*gone-0 .*marked 0 s ago"):
        publish(cluster, *whole_deletion())
    assert cluster.states() == ["DELETE_PARTITION_MARKED"]
    assert cluster.keys_of(GONE) == objects


@pytest.mark.parametrize("state", [P.DELETE_PARTITION_STARTED, P.DELETE_PARTITION_FINISHED, S.DELETE_SEGMENT_FINISHED])
def test_what_starts_or_finishes_needs_the_override_before_anything_is_written(cluster: Cluster, state: S | P) -> None:
    with pytest.raises(EventByHandRefusedError, match=rf"{state.name} .*needs the override 'events_by_hand'"):
        publish(cluster, RAW, event(state), overrides=frozenset())
    assert cluster.states() == []


def test_the_override_needs_the_expected_cluster(cluster: Cluster) -> None:
    with pytest.raises(ConfigurationError, match="expected_cluster_id"):
        publish(cluster, RAW, expected_cluster_id=None)
    with pytest.raises(ClusterMismatchError):
        publish(cluster, RAW, overrides=frozenset(), expected_cluster_id="another")
    assert cluster.states() == []


def test_a_living_topic_is_never_written_about(cluster: Cluster) -> None:
    raw = {**RAW, "topic": "alive", "topic_id": kafka_uuid_str(cluster.alive.topic_id)}
    with pytest.raises(EventByHandRefusedError, match="exists in the cluster as 'alive'"):
        publish(cluster, raw)
    cluster.foreign(deletion(cluster.alive, P.DELETE_PARTITION_MARKED))
    cluster.now_ms += DAY_MS
    segment = {**raw, **SEGMENT, "state": "DELETE_SEGMENT_STARTED"}
    for refused in ({**raw, "state": "DELETE_PARTITION_STARTED"}, segment):
        with pytest.raises(EventByHandRefusedError, match="a living topic is never cleaned"):
            publish(cluster, refused)


def test_another_name_for_a_known_id_is_refused(cluster: Cluster) -> None:
    with pytest.raises(EventByHandRefusedError, match="no segment of it is unfinished"):
        publish(cluster, {**RAW, "topic": "typo"})
    cluster.foreign(add(tip("typo"), 5))
    with pytest.raises(EventByHandRefusedError, match="2 names"):
        publish(cluster, {**RAW, "topic": "typo"})


def test_a_held_topic_is_not_touched(cluster: Cluster) -> None:
    with pytest.raises(EventByHandRefusedError, match=r"held by the entry 'go\*'"):
        publish(cluster, RAW, hold=lambda: Hold(("go*",)))
    assert cluster.states() == []


@pytest.mark.parametrize("comes", [serialize(add(GONE, 5)), None], ids=["a copy", "a record that cannot be applied"])
def test_what_comes_while_storage_is_listed_is_read_before_a_partition_is_finished(
    settled: Cluster, comes: bytes | None
) -> None:
    """A leader that is late announces a copy: its objects come behind the listing, and its record before the end."""
    publish(settled, event(P.DELETE_PARTITION_STARTED), event(S.DELETE_SEGMENT_STARTED))
    settled.foreign(update(GONE, 0, S.DELETE_SEGMENT_FINISHED, broker_id=OWN_BROKER_ID))
    take_away(settled, 0)

    def announce(name: str, _: object) -> None:
        if name == "list":
            settled.storage.after_effect = None
            settled.log.append(0, comes)

    settled.storage.after_effect = announce
    with pytest.raises(EventByHandRefusedError, match="DELETE_PARTITION_FINISHED of"):
        publish(settled, event(P.DELETE_PARTITION_FINISHED))
    assert "DELETE_PARTITION_FINISHED" not in settled.states()


def test_a_record_that_cannot_be_applied_leaves_what_log_and_storage_show_to_be_whole(settled: Cluster) -> None:
    settled.log.append(0, None)
    publish(settled, event(P.DELETE_PARTITION_STARTED), event(S.DELETE_SEGMENT_STARTED))
    settled.foreign(update(GONE, 0, S.DELETE_SEGMENT_FINISHED, broker_id=OWN_BROKER_ID))
    take_away(settled, 0)
    publish(settled, event(P.DELETE_PARTITION_FINISHED))
    assert settled.states()[-1] == "DELETE_PARTITION_FINISHED"


def test_a_record_that_cannot_be_applied_refuses_what_is_not_shown_to_be_whole(settled: Cluster) -> None:
    offset = settled.log.append(0, None)
    put_objects(settled, 7)
    for state in (P.DELETE_PARTITION_STARTED, S.DELETE_SEGMENT_STARTED):
        with pytest.raises(
            EventByHandRefusedError, match=rf"offset {offset}: TOMBSTONE.* 1 segment that the log does not"
        ):
            publish(settled, event(state))
    assert settled.states() == ["DELETE_PARTITION_MARKED"]


def test_allow_writes_off_writes_nothing(cluster: Cluster) -> None:
    cluster.publisher = GuardedPublisher(cluster.log, allow_writes=False)
    with pytest.raises(WritesNotAllowedError):
        publish(cluster, RAW)


@pytest.mark.parametrize(
    ("outcome", "error"),
    [(Failed("too large"), PublishFailedError), (Unknown("timed out"), PublishOutcomeUnknownError)],
)
def test_an_outcome_that_is_not_an_ack_is_an_error_with_its_reason(
    cluster: Cluster, outcome: Failed | Unknown, error: type[Exception]
) -> None:
    cluster.log.on_effect = lambda name, _: outcome if name == "publish" else None
    with pytest.raises(error, match=outcome.reason):
        publish(cluster, RAW)


# -- markers -----------------------------------------------------------------------------------------------------------


def test_a_marker_is_written_where_the_marker_would_write_it(cluster: Cluster) -> None:
    end = cluster.log.high_water_marks()[0]
    assert publish(cluster, RAW, overrides=frozenset(), expected_cluster_id=None, storage=False) == [end]
    with pytest.raises(EventByHandRefusedError, match="the observation stands"):
        publish(cluster, RAW)
    cluster.foreign(update(GONE, 0, S.COPY_SEGMENT_FINISHED))
    publish(cluster, RAW)
    assert cluster.states() == ["DELETE_PARTITION_MARKED"] * 2


def test_an_event_has_the_time_after_the_look_that_it_is_judged_by(cluster: Cluster) -> None:
    def look_takes_a_day(name: str, detail: Any) -> None:
        cluster.now_ms += DAY_MS if name == "list_topics" else 0

    cluster.topics.on_effect = look_takes_a_day
    publish(cluster, RAW, storage=False)
    [observation] = cluster.replay().histories[GONE].observations
    assert observation.time_ms == cluster.now_ms


def test_a_partition_without_unfinished_segments_is_not_marked(cluster: Cluster) -> None:
    for state in (S.DELETE_SEGMENT_STARTED, S.DELETE_SEGMENT_FINISHED):
        cluster.foreign(update(GONE, 0, state))
    with pytest.raises(EventByHandRefusedError, match="no segment of it is unfinished"):
        publish(cluster, RAW)
    assert cluster.states() == []


# -- starting ----------------------------------------------------------------------------------------------------------


def test_a_deletion_starts_once_it_is_settled(cluster: Cluster) -> None:
    cluster.mark()
    cluster.now_ms += DAY_MS - 1
    with pytest.raises(EventByHandRefusedError, match="less than min_absence"):
        publish(cluster, event(P.DELETE_PARTITION_STARTED))
    cluster.now_ms += 1
    publish(cluster, event(P.DELETE_PARTITION_STARTED))
    assert cluster.states() == ["DELETE_PARTITION_MARKED", "DELETE_PARTITION_STARTED"]


def test_a_deletion_that_nobody_marked_is_not_started(cluster: Cluster) -> None:
    with pytest.raises(EventByHandRefusedError, match="not under way"):
        publish(cluster, event(P.DELETE_PARTITION_STARTED))


def test_a_started_deletion_is_observed_anew_by_a_repeated_start_and_waits_again(started: Cluster) -> None:
    started.foreign(update(GONE, 0, S.COPY_SEGMENT_FINISHED))
    with pytest.raises(EventByHandRefusedError, match="a foreign segment event"):
        publish(started, event(S.DELETE_SEGMENT_STARTED))
    publish(started, event(P.DELETE_PARTITION_STARTED))
    with pytest.raises(EventByHandRefusedError, match="less than min_absence"):
        publish(started, event(S.DELETE_SEGMENT_STARTED))
    started.now_ms += DAY_MS
    publish(started, event(S.DELETE_SEGMENT_STARTED))


# -- segments ----------------------------------------------------------------------------------------------------------


def test_a_segment_is_started_where_storage_shows_it(started: Cluster) -> None:
    publish(started, event(S.DELETE_SEGMENT_STARTED), overrides=frozenset())
    assert started.states()[-1] == "DELETE_SEGMENT_STARTED"


def test_a_segment_is_not_started_before_its_partition(settled: Cluster) -> None:
    with pytest.raises(UnsafeEventError, match="has not been started"):
        publish(settled, event(S.DELETE_SEGMENT_STARTED))


def test_a_segment_that_storage_does_not_show_is_not_started(started: Cluster) -> None:
    started.segment(GONE, 1, objects=False)
    publish(started, event(P.DELETE_PARTITION_STARTED))
    started.now_ms += DAY_MS
    with pytest.raises(EventByHandRefusedError, match="storage lists no object of it"):
        publish(started, {**event(S.DELETE_SEGMENT_STARTED), "segment_id": kafka_uuid_str(UUID(int=1001))})


def test_a_segment_whose_objects_are_there_is_not_finished(started: Cluster) -> None:
    objects = started.keys_of(GONE)
    with pytest.raises(EventByHandRefusedError, match="storage still lists objects of it"):
        publish(started, event(S.DELETE_SEGMENT_STARTED), event(S.DELETE_SEGMENT_FINISHED))
    assert started.states()[-1] == "DELETE_SEGMENT_STARTED"
    assert started.keys_of(GONE) == objects


def test_a_segment_whose_objects_somebody_deleted_is_finished_where_a_person_says_so(started: Cluster) -> None:
    """Its folder may be away: that a deletion was begun by hand is no deletion."""
    publish(started, event(S.DELETE_SEGMENT_STARTED))
    take_away(started, 0)
    finished = event(S.DELETE_SEGMENT_FINISHED)
    with pytest.raises(
        EventByHandRefusedError, match=r"no deletion of it that found an object; the override 'settle_mi"
    ):
        publish(started, finished)
    publish(started, finished, event(P.DELETE_PARTITION_FINISHED), overrides=BY_HAND | {"settle_missing"})
    assert started.states()[-2:] == ["DELETE_SEGMENT_FINISHED", "DELETE_PARTITION_FINISHED"]


def test_a_segment_that_a_run_has_deleted_by_the_audit_log_is_finished_below_a_fresh_root(started: Cluster) -> None:
    publish(started, event(S.DELETE_SEGMENT_STARTED))
    take_away(started, 0)
    publish(started, event(S.DELETE_SEGMENT_FINISHED), deletions=lambda ids, since_ms: DeletionRecord(frozenset(ids)))
    assert started.states()[-1] == "DELETE_SEGMENT_FINISHED"


def test_a_segment_whose_copy_may_have_been_finished_in_a_hole_of_the_log_is_not_finished(started: Cluster) -> None:
    publish(started, event(S.DELETE_SEGMENT_STARTED))
    take_away(started, 0)
    copied = serialize(update(GONE, 0, S.COPY_SEGMENT_FINISHED))
    rows = [row for batch in started.log.read(0, 0, started.log.high_water_marks()[0]) for row in batch.to_pylist()]
    started.log.remove(0, [row["offset"] for row in rows if row["value"] == copied])
    with pytest.raises(EventByHandRefusedError, match="no deletion of it that found an object"):
        publish(started, event(S.DELETE_SEGMENT_FINISHED))
    assert started.states()[-1] == "DELETE_SEGMENT_STARTED"


def test_below_an_old_root_storage_shows_nothing(started: Cluster) -> None:
    publish(started, event(S.DELETE_SEGMENT_STARTED))
    # The newest copy of the living topic is missing, as in a copy of the root that was made before.
    started.storage.delete_log_segment_data(add(started.alive, 0))
    before = started.states()
    for state in (S.DELETE_SEGMENT_FINISHED, P.DELETE_PARTITION_FINISHED):
        finish = state is P.DELETE_PARTITION_FINISHED
        if finish:
            started.foreign(update(GONE, 0, S.DELETE_SEGMENT_FINISHED, broker_id=OWN_BROKER_ID))
        with pytest.raises(StorageRootError, match="1 is not at"):
            publish(started, event(state))
    assert started.states()[: len(before)] == before
    assert "DELETE_PARTITION_FINISHED" not in started.states()


def test_where_no_topic_lives_a_segment_without_objects_needs_its_own_override() -> None:
    cluster = Cluster(living_topic=False)
    cluster.segments(GONE, 2)
    cluster.mark_and_wait()
    publish(cluster, event(P.DELETE_PARTITION_STARTED))
    cluster.foreign(update(GONE, 0, S.DELETE_SEGMENT_STARTED, broker_id=OWN_BROKER_ID))
    take_away(cluster, 0)
    finished = event(S.DELETE_SEGMENT_FINISHED)
    with pytest.raises(StorageRootError, match="'unproven_root'"):
        publish(cluster, finished)
    unproven = BY_HAND | {"unproven_root"}
    with pytest.raises(EventByHandRefusedError, match=r"no deletion of it.*the override 'settle_missing' settles it"):
        publish(cluster, finished, overrides=unproven)
    publish(cluster, finished, overrides=unproven | {"settle_missing"})
    assert cluster.states()[-1] == "DELETE_SEGMENT_FINISHED"


def test_no_storage_and_an_unknown_root_show_nothing() -> None:
    cluster = Cluster(living_topic=False)
    cluster.segments(GONE, 1)
    cluster.mark_and_wait()
    publish(cluster, event(P.DELETE_PARTITION_STARTED))
    with pytest.raises(EventByHandRefusedError, match="no remote storage"):
        publish(cluster, event(S.DELETE_SEGMENT_STARTED), storage=False)
    finish_segment(cluster, 0)
    cluster.storage = InMemoryRemoteStorageManager(cluster.layout)
    with pytest.raises(EventByHandRefusedError, match="root is not verified"):
        publish(cluster, event(P.DELETE_PARTITION_FINISHED), overrides=BY_HAND | {"unproven_root"})
    assert "DELETE_PARTITION_FINISHED" not in cluster.states()


# -- finishing ---------------------------------------------------------------------------------------------------------


def take_away(cluster: Cluster, number: int) -> None:
    cluster.storage.delete_log_segment_data(add(GONE, number))


def put_objects(cluster: Cluster, number: int) -> None:
    for key in cluster.layout.required_keys(add(GONE, number)):
        cluster.storage.put_object(key, b"x")


def finish_segment(cluster: Cluster, number: int) -> None:
    for state in (S.DELETE_SEGMENT_STARTED, S.DELETE_SEGMENT_FINISHED):
        cluster.foreign(update(GONE, number, state, broker_id=OWN_BROKER_ID))


def test_a_partition_is_finished_where_log_and_storage_agree_that_nothing_is_left(started: Cluster) -> None:
    with pytest.raises(EventByHandRefusedError, match="1 segment is not finished"):
        publish(started, event(P.DELETE_PARTITION_FINISHED))
    finish_segment(started, 0)
    # Objects of a segment that the log calls finished belong to nobody any more: a scrub finds them.
    publish(started, event(P.DELETE_PARTITION_FINISHED))
    assert started.states()[-1] == "DELETE_PARTITION_FINISHED"


def test_a_partition_is_not_finished_while_storage_shows_a_segment_that_the_log_does_not_name(started: Cluster) -> None:
    finish_segment(started, 0)
    take_away(started, 0)
    put_objects(started, 7)
    with pytest.raises(EventByHandRefusedError, match="objects of 1 segment that the log does not call finished"):
        publish(started, event(P.DELETE_PARTITION_FINISHED))
    assert "DELETE_PARTITION_FINISHED" not in started.states()


def test_a_partition_is_not_finished_before_it_is_settled_again(started: Cluster) -> None:
    finish_segment(started, 0)
    started.foreign(update(GONE, 0, S.DELETE_SEGMENT_FINISHED))
    with pytest.raises(EventByHandRefusedError, match="a foreign segment event"):
        publish(started, event(P.DELETE_PARTITION_FINISHED))
    assert "DELETE_PARTITION_FINISHED" not in started.states()
