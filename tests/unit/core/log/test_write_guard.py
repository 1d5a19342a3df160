# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.base.errors import (
    ClusterMismatchError,
    LogEraError,
    LostRecordsError,
    PartitionerMismatchError,
    UnsafeEventError,
    WritesNotAllowedError,
)
from airflow_provider_rlmm.core.log.in_process import METADATA_TOPIC_ID, InProcessMetadataEventLog, PublishEffect
from airflow_provider_rlmm.core.log.protocol import Acked, Failed, ProvenLook, Unknown
from airflow_provider_rlmm.core.log.write_guard import GuardedPublisher, check_events
from airflow_provider_rlmm.core.records.era import PLAIN_ERA, Era, LogEra
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataSnapshot,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
)
from airflow_provider_rlmm.core.records.serde import deserialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState as P

GONE = TopicIdPartition(UUID(int=7), "gone", 0)
SEGMENT = RemoteLogSegmentMetadata(
    RemoteLogSegmentId(GONE, UUID(int=1)), 0, 9, 1, 3, 5, 100, b"custom", S.COPY_SEGMENT_FINISHED, ((0, 0),)
)


@dataclass
class State:
    """A replayed state that a test puts together."""

    segments: dict[RemoteLogSegmentId, RemoteLogSegmentMetadata] = field(
        default_factory=lambda: {SEGMENT.remote_log_segment_id: SEGMENT}
    )
    deletion: P | None = P.DELETE_PARTITION_STARTED
    obstacle: str | None = None
    absent: bool = True
    asked: UUID = METADATA_TOPIC_ID
    verified: bool = True

    def segment(self, segment_id: RemoteLogSegmentId) -> RemoteLogSegmentMetadata | None:
        return self.segments.get(segment_id)

    def partition_delete_state(self, topic_id_partition: TopicIdPartition) -> P | None:
        return self.deletion

    def obstacle_to_finish(self, topic_id_partition: TopicIdPartition) -> str | None:
        return self.obstacle

    def look_at(self, topic_id: UUID) -> ProvenLook | None:
        return ProvenLook(self.asked, frozenset({topic_id} if self.absent else ()))

    def routing_verified(self) -> bool:
        return self.verified


def in_state(state: S) -> State:
    return State({SEGMENT.remote_log_segment_id: replace(SEGMENT, state=state)})


def segment_event(state: S = S.DELETE_SEGMENT_STARTED, **changes: Any) -> RemoteLogSegmentMetadataUpdate:
    event = RemoteLogSegmentMetadataUpdate(SEGMENT.remote_log_segment_id, 6, SEGMENT.custom_metadata, state, -1)
    return replace(event, **changes)


def partition_event(state: P = P.DELETE_PARTITION_STARTED, **changes: Any) -> RemotePartitionDeleteMetadata:
    return replace(RemotePartitionDeleteMetadata(GONE, state, 6, -1), **changes)


@pytest.fixture
def log() -> InProcessMetadataEventLog:
    return InProcessMetadataEventLog(5)


def written(log: InProcessMetadataEventLog) -> int:
    return sum(log.high_water_marks().values())


ACCEPTED: list[tuple[Any, State]] = [
    (segment_event(S.DELETE_SEGMENT_STARTED), in_state(S.COPY_SEGMENT_STARTED)),
    (segment_event(S.DELETE_SEGMENT_STARTED), in_state(S.COPY_SEGMENT_FINISHED)),
    (segment_event(S.DELETE_SEGMENT_STARTED), in_state(S.DELETE_SEGMENT_STARTED)),
    (segment_event(S.DELETE_SEGMENT_FINISHED), in_state(S.DELETE_SEGMENT_STARTED)),
    (partition_event(P.DELETE_PARTITION_MARKED), State(deletion=None)),
    (partition_event(P.DELETE_PARTITION_MARKED), State(deletion=P.DELETE_PARTITION_MARKED)),
    (partition_event(P.DELETE_PARTITION_STARTED), State(deletion=P.DELETE_PARTITION_MARKED)),
    (partition_event(P.DELETE_PARTITION_STARTED), State(deletion=P.DELETE_PARTITION_STARTED)),
    (partition_event(P.DELETE_PARTITION_FINISHED), State(deletion=P.DELETE_PARTITION_STARTED)),
]


@pytest.mark.parametrize(("event", "state"), ACCEPTED)
def test_an_event_that_follows_is_written_where_it_belongs(
    log: InProcessMetadataEventLog, event: Any, state: State
) -> None:
    assert GuardedPublisher(log, allow_writes=True).publish([event], state) == [Acked(0)]
    home = metadata_partition_for(GONE, 5)
    assert log.high_water_marks()[home] == written(log) == 1
    (batch,) = log.read(home, 0, 1)
    assert batch.column("key").to_pylist() == [None]
    assert deserialize(batch.column("value")[0].as_py()) == event


SNAPSHOT = RemoteLogSegmentMetadataSnapshot(UUID(int=1), 0, 9, 1, -1, 5, 100, None, S.COPY_SEGMENT_STARTED, ((0, 0),))
UNKNOWN_SEGMENT = RemoteLogSegmentId(GONE, UUID(int=99))

REFUSED: dict[str, tuple[Any, State, str]] = {
    "snapshot record": (SNAPSHOT, State(), "RemoteLogSegmentMetadataSnapshot is never written"),
    "add record": (replace(SEGMENT, broker_id=-1), State(), "RemoteLogSegmentMetadata is never written"),
    "bytes": (b"\x01\x02", State(), "bytes is never written"),
    "COPY_SEGMENT_STARTED": (
        segment_event(S.COPY_SEGMENT_STARTED),
        in_state(S.COPY_SEGMENT_STARTED),
        "only a copier may write this",
    ),
    "COPY_SEGMENT_FINISHED": (
        segment_event(S.COPY_SEGMENT_FINISHED),
        in_state(S.COPY_SEGMENT_STARTED),
        "only a copier may write this",
    ),
    "unknown segment": (segment_event(remote_log_segment_id=UNKNOWN_SEGMENT), State(), "not in the replayed state"),
    "COPY_FINISHED to DELETE_FINISHED": (
        segment_event(S.DELETE_SEGMENT_FINISHED),
        in_state(S.COPY_SEGMENT_FINISHED),
        "is in COPY_SEGMENT_FINISHED, DELETE_SEGMENT_FINISHED does not follow",
    ),
    "COPY_STARTED to DELETE_FINISHED": (
        segment_event(S.DELETE_SEGMENT_FINISHED),
        in_state(S.COPY_SEGMENT_STARTED),
        "does not follow",
    ),
    "custom metadata lost": (segment_event(custom_metadata=None), State(), "replace its custom metadata"),
    "custom metadata changed": (segment_event(custom_metadata=b"other"), State(), "replace its custom metadata"),
    "a broker's id": (segment_event(broker_id=1), State(), "claims broker id 1, ours is -1"),
    "a broker's id, partition": (partition_event(broker_id=0), State(), "claims broker id 0, ours is -1"),
    "living topic": (segment_event(), State(absent=False), "not found absent"),
    "living topic, partition": (partition_event(), State(absent=False), "not found absent"),
    "partition not marked": (segment_event(), State(deletion=None), "has not been started"),
    "partition only marked": (segment_event(), State(deletion=P.DELETE_PARTITION_MARKED), "has not been started"),
    "STARTED without MARKED": (partition_event(), State(deletion=None), "is in no state, DELETE_PARTITION_STARTED"),
    "MARKED after STARTED": (partition_event(P.DELETE_PARTITION_MARKED), State(), "does not follow"),
    "FINISHED without STARTED": (
        partition_event(P.DELETE_PARTITION_FINISHED),
        State(deletion=P.DELETE_PARTITION_MARKED),
        "is in DELETE_PARTITION_MARKED, DELETE_PARTITION_FINISHED does not follow",
    ),
    "FINISHED twice": (partition_event(P.DELETE_PARTITION_FINISHED), State(deletion=None), "does not follow"),
    "FINISHED with an obstacle": (
        partition_event(P.DELETE_PARTITION_FINISHED),
        State(obstacle="2 segments are not finished"),
        "must not be declared deleted: 2 segments are not finished",
    ),
    "does not fit the wire": (
        partition_event(topic_id_partition=replace(GONE, partition=2**31)),
        State(),
        "cannot be encoded",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_event_keeps_its_whole_batch_from_being_written(log: InProcessMetadataEventLog, name: str) -> None:
    event, state, message = REFUSED[name]
    other = TopicIdPartition(UUID(int=8), "also-gone", 0)
    good = partition_event(state.deletion or P.DELETE_PARTITION_MARKED, topic_id_partition=other)
    with pytest.raises(UnsafeEventError, match=message):
        GuardedPublisher(log, allow_writes=True).publish([good, event], state)
    if state.absent:
        assert GuardedPublisher(log, allow_writes=True).publish([good], state) == [Acked(0)]
    assert written(log) == state.absent


@pytest.mark.parametrize(
    "events",
    [
        [segment_event(), segment_event(event_timestamp_ms=7)],
        [partition_event(), partition_event(P.DELETE_PARTITION_FINISHED)],
    ],
    ids=["segment", "partition"],
)
def test_two_events_for_one_subject_in_a_batch_are_refused(log: InProcessMetadataEventLog, events: list[Any]) -> None:
    with pytest.raises(UnsafeEventError, match="publish them one after the other"):
        GuardedPublisher(log, allow_writes=True).publish(events, State())
    assert written(log) == 0


def test_a_partition_that_is_not_verified_by_observed_records_gets_nothing(log: InProcessMetadataEventLog) -> None:
    with pytest.raises(PartitionerMismatchError, match="nothing is written"):
        GuardedPublisher(log, allow_writes=True).publish([partition_event()], State(verified=False))
    assert written(log) == 0


def test_allow_writes_off_writes_nothing_and_names_the_switch(log: InProcessMetadataEventLog) -> None:
    with pytest.raises(WritesNotAllowedError, match=r"2 events, the first about .*gone-0.* allow_writes is off"):
        GuardedPublisher(log, allow_writes=False).publish([partition_event(), segment_event()], State())
    assert written(log) == 0


def test_other_changes_need_the_same_leave(log: InProcessMetadataEventLog) -> None:
    with pytest.raises(WritesNotAllowedError, match="not allowed to delete everything: allow_writes is off"):
        GuardedPublisher(log, allow_writes=False).require_writes("delete everything")
    GuardedPublisher(log, allow_writes=True).require_writes("delete everything")


@dataclass
class Memory:
    """What runs remember of the log: ``broken`` metadata partitions have lost something."""

    log: InProcessMetadataEventLog
    broken: frozenset[int] = frozenset()
    written_before: list[int] = field(default_factory=list)
    era: LogEra = PLAIN_ERA

    def keep(self) -> None:
        self.written_before.append(written(self.log))

    def require_unbroken(self, metadata_partitions: Collection[int]) -> None:
        if self.broken & set(metadata_partitions):
            raise LostRecordsError("lost")


def test_what_was_read_is_written_down_before_anything_is_changed(log: InProcessMetadataEventLog) -> None:
    memory = Memory(log)
    publisher = GuardedPublisher(log, allow_writes=True, memory=memory)
    publisher.publish([partition_event()], State())
    publisher.require_writes("delete everything")
    assert memory.written_before == [0, 1]


@pytest.mark.parametrize("era", [Era.KEYED, Era.COMPACTED])
def test_nothing_is_changed_where_records_have_keys_or_may_be_compacted(
    log: InProcessMetadataEventLog, era: Era
) -> None:
    memory = Memory(log, era=LogEra(era, "somebody has seen it"))
    publisher = GuardedPublisher(log, allow_writes=True, allow_copy=True, memory=memory)
    shown = f"the metadata topic is {era.name.lower()}: somebody has seen it.*What to do: wait for a version"
    for change in (
        lambda: publisher.publish([partition_event()], State()),
        lambda: publisher.require_writes("delete everything"),
        lambda: publisher.require_copying("copy everything"),
    ):
        with pytest.raises(LogEraError, match=shown):
            change()
    assert written(log) == 0
    assert memory.written_before, "what was read is written down all the same"


def test_where_nobody_remembers_the_log_its_configuration_is_asked_each_time(log: InProcessMetadataEventLog) -> None:
    publisher = GuardedPublisher(log, allow_writes=True)
    publisher.require_writes("delete everything")
    log.policy = frozenset({"compact", "delete"})
    with pytest.raises(LogEraError, match=r"the metadata topic is compacted: its cleanup\.policy is compact,delete\."):
        publisher.publish([partition_event()], State())
    assert written(log) == 0


def test_nothing_is_written_where_the_log_has_lost_what_was_read(log: InProcessMetadataEventLog) -> None:
    memory = Memory(log, frozenset({metadata_partition_for(GONE, 5)}))
    with pytest.raises(LostRecordsError):
        GuardedPublisher(log, allow_writes=True, memory=memory).publish([partition_event()], State())
    assert written(log) == 0


@pytest.mark.parametrize("allow_writes", [True, False])
def test_no_events_are_no_outcomes(log: InProcessMetadataEventLog, allow_writes: bool) -> None:
    assert GuardedPublisher(log, allow_writes=allow_writes).publish([], State(verified=False)) == []


def test_outcomes_pass_through_one_per_event(log: InProcessMetadataEventLog) -> None:
    answers = [None, Failed("too large"), Unknown("timed out")]

    def answer(name: str, detail: Any) -> Any:
        return answers[detail.index] if isinstance(detail, PublishEffect) else None

    log.on_effect = answer
    partitions = [replace(GONE, partition=n) for n in range(3)]
    events = [partition_event(topic_id_partition=p) for p in partitions]
    outcomes = GuardedPublisher(log, allow_writes=True).publish(events, State())
    assert outcomes == [Acked(0), Failed("too large"), Unknown("timed out")]


def test_records_keep_the_order_of_their_events() -> None:
    partitions = [replace(GONE, partition=n) for n in range(4)]
    events = [partition_event(topic_id_partition=p) for p in partitions]
    records = check_events(events, State(), InProcessMetadataEventLog(3))
    assert [p for p, _ in records] == [metadata_partition_for(p, 3) for p in partitions]
    assert [deserialize(value) for _, value in records] == events


@pytest.mark.parametrize("event", [segment_event(), partition_event()])
def test_a_look_at_another_cluster_allows_nothing(log: InProcessMetadataEventLog, event: Any) -> None:
    """Its metadata topic has another id than the one that is written to."""
    state = replace(in_state(S.COPY_SEGMENT_FINISHED), asked=UUID(int=3))
    with pytest.raises(ClusterMismatchError, match="name the brokers of one cluster only"):
        GuardedPublisher(log, allow_writes=True).publish([event], state)
    assert set(log.high_water_marks().values()) == {0}


def test_without_a_look_nothing_is_written(log: InProcessMetadataEventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(State, "look_at", lambda *_: None)
    with pytest.raises(UnsafeEventError, match="was not found absent"):
        GuardedPublisher(log, allow_writes=True).publish([partition_event()], State())


def test_an_event_that_only_version_1_can_say_is_not_written(log: InProcessMetadataEventLog) -> None:
    """Without a key it would end the consumer of every broker that reads it."""
    with pytest.raises(UnsafeEventError, match="cannot be encoded: api version 1 of api key 1 is newer than 0"):
        GuardedPublisher(log, allow_writes=True).publish([segment_event(broker_leader_epoch=3)], State())


def test_an_event_that_reads_back_differently_is_refused(
    log: InProcessMetadataEventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = segment_event(event_timestamp_ms=99)
    monkeypatch.setattr("airflow_provider_rlmm.core.log.event_encoding.read_value", lambda reader: other)
    with pytest.raises(UnsafeEventError, match="reads back differently"):
        GuardedPublisher(log, allow_writes=True).publish([segment_event()], State())
    assert written(log) == 0
