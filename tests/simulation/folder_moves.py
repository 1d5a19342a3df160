# SPDX-License-Identifier: Apache-2.0
"""What becomes of the world between two runs of one work folder: the second could know, if it remembered the first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from airflow_provider_rlmm.core.log.in_process import METADATA_TOPIC_ID, InProcessMetadataEventLog
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentId,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
    kafka_uuid_str,
)
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState as P
from airflow_provider_rlmm.core.storage.layouts import AivenLayout
from tests.simulation.model import OURS, LogModel
from tests.simulation.witness import MIN_ABSENCE_MS
from tests.simulation.world import World
from tests.unit.core.storage.test_aiven import custom_prefix

CUT = "a log that lost its end"
REMADE = "a metadata topic made anew"
CLONE = "a second writer"
PREFIX = "a prefix that nobody named"
AWAY = "a folder that stays away"
COPY = "a copy of the root at the first run"
HELD = "a topic under a hold"
FIRST, SECOND = "one/", "two/"
COPIED = 1
MOVES = (CUT, REMADE, CLONE, PREFIX, AWAY, COPY, HELD)
PLAYED: tuple[str, ...] = MOVES
"""Those that seeds draw from."""


class Moves(World):
    """The moves of a :class:`~tests.simulation.folder_world.FolderWorld`."""

    moves: frozenset[str]
    prefixes: dict[RemoteLogSegmentId, bytes]
    """What brokers say of their copies."""
    cloned: set[str]
    """Objects that another cluster has written."""
    held: str = ""
    """The topic id that the connection's hold names, in Kafka's form; empty where it names none."""
    metadata_topic_id: UUID = METADATA_TOPIC_ID

    def move(self, run: int) -> None:
        """
        Let something happen before a run.

        :param run: its number, from 0.
        """
        if CUT in self.moves and run and self.adversary.random() < 0.5:
            self.lose_end()
        if (
            REMADE in self.moves
            and run
            and self.metadata_topic_id == METADATA_TOPIC_ID
            and self.adversary.random() < 0.5
        ):
            self.make_topic_anew()
        if PREFIX in self.moves and run and self.layout is self.known_layout and self.adversary.random() < 0.5:
            self.change_prefix()
        if CLONE in self.moves and self.adversary.random() < 0.6:
            self.clone_writes()
        if COPY in self.moves and not run:
            self.copy_root()
        if HELD in self.moves:
            self.draw_hold()
        if AWAY in self.moves and self.renamed_prefixes and self.adversary.random() < 0.2:
            self.happened["folder back"] += 1
            self.mount_true()

    def _before(self, part: object) -> Callable[[str, Any], Any]:
        act = super()._before(part)

        def hook(name: str, detail: Any) -> Any:
            # Between two looks at storage, not within one: what goes in the middle of a deletion looks deleted.
            if AWAY in self.moves and name == "publish" and self.adversary.random() < 0.1:
                self.happened[AWAY] += 1
                self._rename_in_mid_run()
            return act(name, detail)

        return hook

    def draw_hold(self) -> None:
        """Somebody writes a deleted topic into the hold of the connection, or takes it out again."""
        self.held = kafka_uuid_str(self.adversary.choice(self.gone).topic_id) if self.adversary.random() < 0.35 else ""
        self.happened[HELD] += bool(self.held)

    def lose_end(self) -> None:
        """The newest records of a metadata partition are gone; other ones may take their offsets."""
        number = self.adversary.randrange(self.log.partition_count)
        end = self.model.ends[number]
        if not end:
            return
        lost = self.adversary.choice([1, 2, 4, end // 3 + 1, end // 2 + 1])
        new_end = max(0, end - lost)
        self.happened[CUT] += 1
        self.log.cut_off(number, new_end)
        self.damaged |= self.model.cut_off(number, new_end)
        self.announced = {
            s: o for s, o in self.announced.items() if o < new_end or self.home_of(s.topic_id_partition) != number
        }
        tips = [tip for tip in (*self.gone, *self.alive) if self.home_of(tip) == number]
        for _ in range(self.adversary.choice([0, 1, lost, lost + 5]) if tips else 0):
            self.happened["grown again"] += 1
            self.grow(self.adversary.choice(tips))

    def make_topic_anew(self) -> None:
        """The metadata topic is deleted, and made again by the brokers: with another id, and empty."""
        self.happened[REMADE] += 1
        self.metadata_topic_id = UUID(int=self.adversary.getrandbits(128))
        anew = InProcessMetadataEventLog(self.log.partition_count, topic_id=self.metadata_topic_id)
        self.log.topic_id, self.log._partitions = anew.topic_id, anew._partitions
        finished = self.model.finished
        self.model = LogModel(finished=finished)
        self.announced.clear()
        self.answer_truly()
        self.offsets.lose()
        for tip in self.alive:
            if self.adversary.random() < 0.7:
                self.copied(tip)

    def knows_another_prefix(self) -> bool:
        """Tell whether the log says that something which lives was copied to where the connection does not look."""
        states = {tip: self.model.at(tip).segments for tip in self.alive}
        named = {(s.topic_id_partition, s.id) for s, custom in self.prefixes.items() if custom == custom_prefix(SECOND)}
        return any((tip, s) in named and state == COPIED for tip in states for s, state in states[tip].items())

    def clone_writes(self) -> None:
        """A clone of the cluster copies into the same storage: topics that live here, and such as are deleted here."""
        self.happened[CLONE] += 1
        tips = [self.adversary.choice(self.alive), *self.adversary.sample(self.gone, 1)]
        for tip in tips:
            for key in self.layout.required_keys(self.new_segment(tip)):
                self.put(key)
                self.cloned.add(key)

    def copy_root(self) -> None:
        """Another work folder had marked what is deleted; this one begins below a copy of the root that is up to date."""
        self.happened[COPY] += 1
        for tip in self.gone:
            if self.model.at(tip).unfinished:
                self.foreign(RemotePartitionDeleteMetadata(tip, P.DELETE_PARTITION_MARKED, self.now_ms, OURS))
        self.now_ms += 2 * MIN_ABSENCE_MS
        self.mount_instead(self.mounted, self.elsewhere)

    def change_prefix(self) -> None:
        """Brokers copy to another prefix from now on, and the connection is not told."""
        self.happened[PREFIX] += 1
        self.layout = AivenLayout(SECOND, [FIRST])
        for tip in (*self.alive, *self.gone):
            self.grow(tip)

    def written_by_another(self) -> bool:
        """Tell whether objects lie under a living topic id that no record here names, and never did."""
        return not self.cloned.isdisjoint(self._objects_of(self.alive))

    def grow(self, tip: TopicIdPartition) -> None:
        """Something is copied: whole where the topic lives; where it does not, its leader dies in the middle."""
        if tip in self.alive:
            self.copied(tip)
        else:
            for key in self.layout.required_keys(self.announce(tip)):
                if self.adversary.random() < 0.6:
                    self.put(key)
