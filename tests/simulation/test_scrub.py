# SPDX-License-Identifier: Apache-2.0
"""
Scrubs of what a simulated story has left, with a plan and its deletion, beside others and under faults.

The judge knows the whole log, lost records too: what goes was finished, or nobody ever wrote a record about it, it lay there
for as long as it must and was there when the topic was marked, the topic is absent by the full rule, and nothing that nobody
wrote a record about lies under a living topic.
"""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from airflow_provider_rlmm.core.base.clock import HOUR_MS
from airflow_provider_rlmm.core.base.errors import AuditError, RlmmError, StorageUnavailableError
from airflow_provider_rlmm.core.log.in_process import no_effect_hook
from airflow_provider_rlmm.core.log.write_guard import GuardedPublisher
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadataUpdate, TopicIdPartition
from airflow_provider_rlmm.core.records.serde import deserialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.world.audit_in_memory import InMemoryAuditLog
from airflow_provider_rlmm.core.world.topic_view import TopicReplay
from airflow_provider_rlmm.features.cleanup.marker import DeletedPartitionMarker, RealMarkerEffects
from tests.simulation import actors
from tests.simulation.model import View
from tests.simulation.runs import play, remembered_decoding
from tests.simulation.witness import MIN_ABSENCE_MS
from tests.simulation.world import World
from tests.unit.features.scrub.test_scrub_plan import WAIT_MS, Scrubs

SEEDS = 20


class Remains:
    """What a story has left, as scrubs see it; whoever lists meets others at work, and a store that may not answer."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.random = random.Random(seed)
        self.log, self.topics, self.layout = world.log, world.topics, world.layout
        for part in (self.log, self.topics):
            part.on_effect = part.after_effect = no_effect_hook
        self.storage = world.mount(lambda storage: (self.effect, lambda name, detail: None))
        self.happened: Counter[str] = Counter()
        self.scripts: list[actors.Script] = []
        self.forgotten_alive: set[str] = set()
        self.audit = InMemoryAuditLog(self.write_down)

    def write_down(self, name: str, rows: object) -> None:
        if self.random.random() < 0.1:
            self.happened[f"fault at {name}"] += 1
            raise AuditError("the disk is full")

    @property
    def now_ms(self) -> int:
        return self.world.now_ms

    @now_ms.setter
    def now_ms(self, now_ms: int) -> None:
        for script in self.scripts:
            for _ in script:
                pass
        self.scripts.clear()
        self.world.now_ms = now_ms

    def clock(self) -> int:
        return self.world.now_ms

    def topic(self) -> TopicReplay:
        return TopicReplay(self.log, self.topics, self.clock)

    def begin(self) -> None:
        """Let somebody leave something behind, or begin something."""
        tip = self.random.choice([*self.world.gone, *self.world.alive])
        choice = self.random.randrange(6)
        if choice == 0:
            self.leak(tip)
        elif choice == 1:
            # Under a living topic they bar all that comes after them.
            self.forget(tip if self.random.random() < 0.3 else self.random.choice(self.world.gone))
        elif choice == 2:
            self.scripts.append(actors.zombie_copies(self.world, tip))
        elif choice == 3:
            self.scripts.append(actors.leader_deletes(self.world, tip))
        elif choice == 4:
            self.world.copied(self.random.choice(self.world.gone))
        else:
            self.scripts.append(actors.owner_recreates(self.world))

    def leak(self, tip: TopicIdPartition) -> None:
        """A leader deletes below another prefix: all is finished, and the objects stay."""
        metadata = self.world.announce(tip)
        for key in self.layout.required_keys(metadata):
            self.world.put(key)
        for state in (S.COPY_SEGMENT_FINISHED, S.DELETE_SEGMENT_STARTED, S.DELETE_SEGMENT_FINISHED):
            self.world.foreign(
                RemoteLogSegmentMetadataUpdate(metadata.remote_log_segment_id, self.now_ms, None, state, actors.BROKER)
            )

    def forget(self, tip: TopicIdPartition) -> None:
        """Objects of which no record was ever written: of a living topic, a clone of the cluster has written them."""
        for key in self.layout.required_keys(self.world.new_segment(tip)):
            self.world.put(key)
            if tip in self.world.alive:
                self.forgotten_alive.add(key)

    def mark(self) -> None:
        """Let the marker observe which topics are deleted."""
        publisher = GuardedPublisher(self.log, allow_writes=True)
        try:
            DeletedPartitionMarker(self.topic(), RealMarkerEffects(publisher), clock=self.clock).mark()
        finally:
            for number, end in self.log.high_water_marks().items():
                for batch in self.log.read(number, self.world.model.ends[number], end):
                    for value in batch.column("value").to_pylist():
                        event: Any = deserialize(value)
                        self.world.model.append(number, event, self.now_ms, self.now_ms)

    def effect(self, name: str, key: str) -> Any:
        if name == "delete":
            self.judge(key)
        if self.random.random() < 0.03:
            raise StorageUnavailableError(f"{name} refused")
        if name == "list" and self.scripts and self.random.random() < 0.5:
            next(self.random.choice(self.scripts), None)

    def judge(self, key: str) -> None:
        segment = self.world.segment_of(key)
        assert segment is not None, key
        phases = [row["phase"] for row in self.audit.rows if row["segment_id"] == segment.id.bytes]
        assert phases[-1:] == ["BEFORE"], f"I15: {key} goes, and nothing was written down before"
        state = self.world.model.at(segment.topic_id_partition).segments.get(segment.id)
        if state != S.DELETE_SEGMENT_FINISHED:
            assert state is None, f"{key} goes in state {state}"
            self.judge_unnamed(key, segment.topic_id_partition)
        self.happened[f"deleted in state {state}"] += 1

    def judge_unnamed(self, key: str, tip: TopicIdPartition) -> None:
        """Judge the deletion of an object that no record names."""
        written_ms, model = self.storage._objects[key][1], self.world.model
        assert self.now_ms - written_ms >= WAIT_MS, key
        number = model.metadata_partition_of[tip]
        view = View(model.log_of(tip), model.begins[number], model.ends[number])
        assert tip.topic_id not in self.topics.topics.values(), f"{key} of a living topic goes"
        assert view.is_settled(tip, self.now_ms, MIN_ABSENCE_MS), (
            f"{key} goes, and its topic is not absent by the full rule"
        )
        marked_ms = view.observed_ms(tip, self.now_ms)
        assert marked_ms is not None, key
        assert written_ms <= marked_ms, f"{key} is younger than the marker of its topic"
        bars = self.forgotten_alive & self.storage.keys
        assert not bars, f"{key} goes, though no record names {min(bars)} of a living topic"


def scrub_after(seed: int, folder: Path) -> Counter[str]:
    with remembered_decoding():
        world = play(seed)
    remains = Remains(world, seed)
    scrubs = Scrubs(folder, remains)  # type: ignore[arg-type]
    scrubs.audit = remains.audit
    try:
        for _ in range(4):
            for _ in range(remains.random.randrange(4)):
                remains.begin()
            with suppress(RlmmError):
                remains.mark()
            with suppress(RlmmError):
                scrubs.scrub()
                scrubs.plan()
                scrubs.delete()
            scrubs.wait(remains.random.choice([HOUR_MS, WAIT_MS, WAIT_MS]))
    except Exception as e:
        raise AssertionError(f"seed {seed}: {type(e).__name__}: {e}") from e
    return remains.happened


def test_whatever_a_story_has_left_only_what_may_go_goes(tmp_path: Path) -> None:
    happened: Counter[str] = Counter()
    for seed in range(SEEDS):
        happened += scrub_after(seed, tmp_path / str(seed))
    expected = {"deleted in state 3", "deleted in state None", "fault at audit before", "fault at audit after"}
    assert expected <= happened.keys(), happened
