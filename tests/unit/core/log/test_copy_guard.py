# SPDX-License-Identifier: Apache-2.0
"""What the write guard lets a copier say about a living topic, and what it never does."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.base.errors import (
    ClusterMismatchError,
    PartitionerMismatchError,
    UnsafeEventError,
    WritesNotAllowedError,
)
from airflow_provider_rlmm.core.log.in_process import METADATA_TOPIC_ID, InProcessMetadataEventLog
from airflow_provider_rlmm.core.log.protocol import Acked
from airflow_provider_rlmm.core.log.write_guard import GuardedPublisher
from airflow_provider_rlmm.core.records import wire
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import (
    COPIER_BROKER_ID,
    OWN_BROKER_ID,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    TopicIdPartition,
)
from airflow_provider_rlmm.core.records.serde import deserialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S

LIVING = TopicIdPartition(UUID(int=8), "living", 0)
ID = RemoteLogSegmentId(LIVING, UUID(int=1))
ADD = RemoteLogSegmentMetadata(
    ID, 10, 19, 1, COPIER_BROKER_ID, 5, 100, None, S.COPY_SEGMENT_STARTED, ((3, 10), (5, 15)), True
)


@dataclass
class Copies:
    """A replayed state that a test puts together: by default our segment was announced."""

    state: S | None = S.COPY_SEGMENT_STARTED
    ours: bool = True
    copied: bool = False
    deleted: bool = False
    obstacle: str | None = None
    asked: UUID | None = METADATA_TOPIC_ID
    verified: bool = True
    judged: list[RemoteLogSegmentMetadata] = field(default_factory=list)
    most_custom_metadata: int = 128

    def segment(self, segment_id: RemoteLogSegmentId) -> RemoteLogSegmentMetadata | None:
        return replace(ADD, state=self.state) if self.state is not None else None

    def was_announced(self, segment_id: RemoteLogSegmentId) -> bool:
        return self.state is not None

    def was_copied(self, segment_id: RemoteLogSegmentId) -> bool:
        return self.copied

    def is_ours(self, segment_id: RemoteLogSegmentId) -> bool:
        return self.ours

    def was_deleted(self, topic_id_partition: TopicIdPartition) -> bool:
        return self.deleted

    def obstacle_to_copy(self, metadata: RemoteLogSegmentMetadata) -> str | None:
        self.judged.append(metadata)
        return self.obstacle

    def cluster_asked(self) -> UUID | None:
        return self.asked

    def routing_verified(self) -> bool:
        return self.verified


def step(state: S, **changes: Any) -> RemoteLogSegmentMetadataUpdate:
    return replace(RemoteLogSegmentMetadataUpdate(ID, 6, None, state, COPIER_BROKER_ID), **changes)


@pytest.fixture
def log() -> InProcessMetadataEventLog:
    return InProcessMetadataEventLog(5)


def publisher(log: InProcessMetadataEventLog) -> GuardedPublisher:
    return GuardedPublisher(log, allow_writes=True, allow_copy=True)


def written(log: InProcessMetadataEventLog) -> int:
    return sum(log.high_water_marks().values())


ACCEPTED: list[tuple[Any, Copies]] = [
    (ADD, Copies(None)),
    (step(S.COPY_SEGMENT_FINISHED), Copies()),
    (step(S.COPY_SEGMENT_FINISHED, custom_metadata=b"x" * 128), Copies()),
    (step(S.COPY_SEGMENT_FINISHED, custom_metadata=b"x" * 144), Copies(most_custom_metadata=144)),
    (step(S.DELETE_SEGMENT_STARTED), Copies()),
    (step(S.DELETE_SEGMENT_FINISHED), Copies(S.DELETE_SEGMENT_STARTED)),
]


@pytest.mark.parametrize(("event", "state"), ACCEPTED)
def test_what_a_copier_says_is_written_where_it_belongs(
    log: InProcessMetadataEventLog, event: Any, state: Copies
) -> None:
    assert publisher(log).publish_copy(event, state) == Acked(0)
    home = metadata_partition_for(LIVING, 5)
    (batch,) = log.read(home, 0, 1)
    assert batch.column("key").to_pylist() == [None]
    assert deserialize(batch.column("value")[0].as_py()) == event


@pytest.mark.parametrize(("event", "state"), ACCEPTED)
@pytest.mark.parametrize("rights", [(True, False), (False, True), (False, False)])
def test_without_both_rights_nothing_is_written(
    log: InProcessMetadataEventLog, event: Any, state: Copies, rights: tuple[bool, bool]
) -> None:
    allow_writes, allow_copy = rights
    missing = "allow_copy" if allow_writes else "allow_writes"
    with pytest.raises(WritesNotAllowedError, match=f"{missing} is off"):
        GuardedPublisher(log, allow_writes=allow_writes, allow_copy=allow_copy).publish_copy(event, state)
    assert written(log) == 0


def test_a_copier_is_off_by_default(log: InProcessMetadataEventLog) -> None:
    with pytest.raises(WritesNotAllowedError, match="allow_copy is off"):
        GuardedPublisher(log, allow_writes=True).publish_copy(ADD, Copies(None))


@pytest.mark.parametrize(("event", "state"), ACCEPTED)
def test_the_cleaners_way_in_stays_closed_to_a_copier(log: InProcessMetadataEventLog, event: Any, state: Any) -> None:
    state.look_at = lambda _: None
    with pytest.raises(UnsafeEventError, match=r"never written by this package|claims broker id -2"):
        publisher(log).publish([event], state)
    assert written(log) == 0


REFUSED: dict[str, tuple[Any, Copies, str]] = {
    "a broker's id": (replace(ADD, broker_id=1), Copies(None), "claims broker id 1, a copier's is -2"),
    "the cleaner's id": (replace(ADD, broker_id=OWN_BROKER_ID), Copies(None), "a copier's is -2"),
    "a broker's id, update": (step(S.COPY_SEGMENT_FINISHED, broker_id=0), Copies(), "a copier's is -2"),
    "declared deleted": (ADD, Copies(None, deleted=True), "declared deleted"),
    "declared deleted, roll-back": (step(S.DELETE_SEGMENT_STARTED), Copies(deleted=True), "declared deleted"),
    "first event not STARTED": (
        replace(ADD, state=S.COPY_SEGMENT_FINISHED),
        Copies(None),
        "it ends every broker's consumer",
    ),
    "known segment": (ADD, Copies(), "is known already"),
    "custom metadata too early": (replace(ADD, custom_metadata=b"x"), Copies(None), "which no copier can know yet"),
    "negative start": (replace(ADD, start_offset=-1), Copies(None), "that is no segment"),
    "end below start": (replace(ADD, end_offset=9), Copies(None), "that is no segment"),
    "no bytes": (replace(ADD, segment_size_in_bytes=0), Copies(None), "that is no segment"),
    "no epochs": (replace(ADD, segment_leader_epochs=()), Copies(None), "they must ascend"),
    "negative epoch": (replace(ADD, segment_leader_epochs=((-1, 10),)), Copies(None), "they must ascend"),
    "epoch twice": (replace(ADD, segment_leader_epochs=((3, 10), (3, 15))), Copies(None), "they must ascend"),
    "offset twice": (replace(ADD, segment_leader_epochs=((3, 10), (4, 10))), Copies(None), "they must ascend"),
    "epoch before the segment": (replace(ADD, segment_leader_epochs=((3, 9),)), Copies(None), "not within 10..19"),
    "epoch behind the segment": (
        replace(ADD, segment_leader_epochs=((3, 10), (5, 20))),
        Copies(None),
        "not within 10..19",
    ),
    "the leader says no": (ADD, Copies(None, obstacle="it copies itself"), "is not written: it copies itself"),
    "the leader says no to FINISHED": (
        step(S.COPY_SEGMENT_FINISHED),
        Copies(obstacle="it copies itself"),
        "is not written: it copies itself",
    ),
    "update to STARTED": (step(S.COPY_SEGMENT_STARTED), Copies(), "ends every broker's consumer"),
    "unknown segment": (step(S.COPY_SEGMENT_FINISHED), Copies(None), "not in the replayed state"),
    "somebody else's": (step(S.DELETE_SEGMENT_STARTED), Copies(ours=False), "belongs to another writer"),
    "finished is taken back": (step(S.DELETE_SEGMENT_STARTED), Copies(S.COPY_SEGMENT_FINISHED), "does not follow"),
    "finished twice": (step(S.COPY_SEGMENT_FINISHED), Copies(S.COPY_SEGMENT_FINISHED), "does not follow"),
    "finished behind its deletion": (
        step(S.COPY_SEGMENT_FINISHED),
        Copies(S.DELETE_SEGMENT_STARTED),
        "does not follow",
    ),
    "finished once, deletion under way": (
        step(S.DELETE_SEGMENT_FINISHED),
        Copies(S.DELETE_SEGMENT_STARTED, copied=True),
        "never takes it back",
    ),
    "deleted without a start": (step(S.DELETE_SEGMENT_FINISHED), Copies(), "does not follow"),
    "much custom metadata": (
        step(S.COPY_SEGMENT_FINISHED, custom_metadata=b"x" * 129),
        Copies(),
        "129 bytes of custom metadata",
    ),
    "custom metadata of a roll-back": (step(S.DELETE_SEGMENT_STARTED, custom_metadata=b"x"), Copies(), "would replace"),
    "does not fit the wire": (replace(ADD, segment_size_in_bytes=2**31), Copies(None), "cannot be encoded"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_could_harm_a_broker_or_lose_data_is_not_written(log: InProcessMetadataEventLog, name: str) -> None:
    event, state, message = REFUSED[name]
    with pytest.raises(UnsafeEventError, match=message):
        publisher(log).publish_copy(event, state)
    assert written(log) == 0


def test_more_leader_epochs_than_newer_brokers_read_are_not_written(
    log: InProcessMetadataEventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert wire.MAX_ELEMENTS == 1_000_000
    monkeypatch.setattr(wire, "MAX_ELEMENTS", 2)
    assert publisher(log).publish_copy(ADD, Copies(None)) == Acked(0)
    many = replace(ADD, segment_leader_epochs=((3, 10), (4, 12), (5, 15)))
    with pytest.raises(
        UnsafeEventError, match=r"is not written: 3 leader epochs; Kafka 4\.4 and newer read 0 to 2 of them"
    ):
        publisher(log).publish_copy(many, Copies(None))
    assert written(log) == 1


@pytest.mark.parametrize("asked", [UUID(int=3), None])
@pytest.mark.parametrize(("event", "state"), ACCEPTED)
def test_a_leader_of_another_cluster_allows_nothing(
    log: InProcessMetadataEventLog, event: Any, state: Copies, asked: UUID | None
) -> None:
    with pytest.raises(ClusterMismatchError, match="name the brokers of one cluster only"):
        publisher(log).publish_copy(event, replace(state, asked=asked))
    assert written(log) == 0


def test_a_partitioner_that_nothing_proves_writes_nothing(log: InProcessMetadataEventLog) -> None:
    with pytest.raises(PartitionerMismatchError, match="nothing is copied"):
        publisher(log).publish_copy(ADD, Copies(None, verified=False))
    assert written(log) == 0


def test_the_leader_judges_the_segment_as_it_will_be(log: InProcessMetadataEventLog) -> None:
    state = Copies()
    publisher(log).publish_copy(step(S.COPY_SEGMENT_FINISHED, custom_metadata=b"where"), state)
    assert [(m.state, m.custom_metadata) for m in state.judged] == [(S.COPY_SEGMENT_FINISHED, b"where")]


@pytest.mark.parametrize("state", [S.DELETE_SEGMENT_STARTED, S.DELETE_SEGMENT_FINISHED])
def test_a_roll_back_needs_no_leave_of_the_leader(log: InProcessMetadataEventLog, state: S) -> None:
    """What was begun is taken back when the leader copies itself again, too."""
    before = S.COPY_SEGMENT_STARTED if state is S.DELETE_SEGMENT_STARTED else S.DELETE_SEGMENT_STARTED
    copies = Copies(before, obstacle="it copies itself")
    assert publisher(log).publish_copy(step(state), copies) == Acked(0)
