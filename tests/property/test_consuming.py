# SPDX-License-Identifier: Apache-2.0
"""Whatever happens in whatever order: every followed user partition gets each of its events once, and the right state."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_rlmm.core.base.errors import EventLogUnavailableError
from airflow_provider_rlmm.core.log import in_process
from airflow_provider_rlmm.core.log.in_process import InProcessMetadataEventLog
from airflow_provider_rlmm.core.records.history import UserPartitionHistory
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from tests.builders import add, tip, update
from tests.contracts.consuming import Consuming
from tests.examples import examples

PARTITIONS = [tip(f"topic-{n}", topic_id=n) for n in range(1, 5)]
METADATA_PARTITIONS = 2
STATES = [S.COPY_SEGMENT_FINISHED, S.DELETE_SEGMENT_STARTED, S.DELETE_SEGMENT_FINISHED]

which = st.integers(0, len(PARTITIONS) - 1)
actions = st.lists(
    st.one_of(
        st.tuples(st.just("add"), which, st.integers(0, 3)),
        st.tuples(st.just("update"), which, st.tuples(st.integers(0, 3), st.sampled_from(STATES))),
        st.tuples(st.just("assign"), which, st.none()),
        st.tuples(st.just("unassign"), which, st.none()),
        st.tuples(st.just("step"), st.none(), st.none()),
        st.tuples(
            st.just("fault"),
            st.sampled_from(["poll", "read", "beginning_offsets", "high_water_marks", "apply"]),
            st.sampled_from([EventLogUnavailableError, RuntimeError]),
        ),
    ),
    max_size=60,
)


class World(Consuming):
    def __init__(self) -> None:
        self.memory = InProcessMetadataEventLog(METADATA_PARTITIONS)
        super().__init__(self.memory, self._append, self.memory.truncate)
        self.faults: list[tuple[str, type[Exception]]] = []
        self.memory.on_effect = self._fail

    def _append(self, records: Any) -> None:
        for metadata_partition, value, key in records:
            self.memory.append(metadata_partition, value, key)

    def _fail(self, name: str, detail: Any) -> None:
        if self.faults and self.faults[0][0] == name:
            raise self.faults.pop(0)[1]("a fault")

    def act(self, name: str, subject: Any, detail: Any) -> None:
        if name == "add":
            self.write(add(PARTITIONS[subject], detail))
        elif name == "update":
            self.write(update(PARTITIONS[subject], *detail))
        elif name == "assign":
            self.store.assign([PARTITIONS[subject]])
        elif name == "unassign":
            self.store.unassign([PARTITIONS[subject]])
        elif name == "fault":
            self.faults.append((subject, detail))
        else:
            self.task.step(0)


@settings(max_examples=examples(), deadline=None)
@given(actions)
def test_each_event_is_delivered_once_and_the_state_is_that_of_a_replay(history):
    delivered: dict[int, list[int]] = {}
    apply = UserPartitionHistory.apply_segment_event

    def watched(self: UserPartitionHistory, event: Any, offset: int) -> None:
        world._fail("apply", None)
        delivered.setdefault(id(self), []).append(offset)
        apply(self, event, offset)

    world = World()
    with (
        patch.object(in_process, "BATCH_ROWS", 2),
        patch.object(UserPartitionHistory, "apply_segment_event", watched),
    ):
        keep: list[UserPartitionHistory] = []
        for action in history:
            world.act(*action)
            # Kept, so that no other one gets the same id.
            keep += [view.history for view in world.store.views.values()]
        world.faults.clear()
        world.settle()
        seen = {p: (view.history, delivered.get(id(view.history), [])) for p, view in world.store.views.items()}
        fresh = World()
        fresh.task._log = fresh.log = world.memory
        fresh.task._stream, fresh.task._handle = world.memory.subscribe({})
        fresh.follow(*world.store.assignments)

    assert set(seen) == set(world.store.assignments)
    assert set(world.followed) == {metadata_partition_for(p, METADATA_PARTITIONS) for p in seen}
    for partition, (state, offsets) in seen.items():
        replayed = fresh.store.views[partition].history
        assert offsets == delivered.get(id(replayed), [])
        assert state.unfinished() == replayed.unfinished()
        assert state.without_add == replayed.without_add
    for offsets in delivered.values():
        assert offsets == sorted(set(offsets))
