# SPDX-License-Identifier: Apache-2.0
"""What the simulated cluster holds: topics, the history of their segments, and objects; and how others change it."""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import replace
from uuid import UUID

from airflow_provider_rlmm.core.log.in_process import InProcessMetadataEventLog
from airflow_provider_rlmm.core.log.in_process_topics import InProcessClusterTopics
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    TopicIdPartition,
    topic_id_partition_of,
)
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from tests.simulation.actors import BROKER
from tests.simulation.model import FINISHED, OURS, Event, LogModel, View
from tests.simulation.roots import Roots

GONE = "gone"
_NOT_SHOWN = "storage lists no object of it below a root that nothing shows to be up to date"
"""Why nobody but a person can say what became of a segment."""


class Content(Roots):
    """The things of a :class:`~tests.simulation.world.World`."""

    random: random.Random
    log: InProcessMetadataEventLog
    topics: InProcessClusterTopics

    def __init__(self) -> None:
        self.now_ms = 1_800_000_000_000
        self.model = LogModel()
        super().__init__()
        self.existing: dict[str, UUID] = {}
        self.topics.topics = self.existing
        self.gone: list[TopicIdPartition] = []
        self.damaged: set[TopicIdPartition] = set()
        self.alive: list[TopicIdPartition] = []
        self.lost: set[RemoteLogSegmentId] = set()
        self.taken: set[RemoteLogSegmentId] = set()  # of which others have deleted objects
        self.being_copied: list[RemoteLogSegmentMetadata] = []
        self.announced: dict[RemoteLogSegmentId, int] = {}
        # In some worlds nothing else is left that could prove whose storage root this is.
        self.lonely = self.random.random() < 0.25
        # What a person has said of the root, where nothing lives that tells whether it is up to date.
        self.expected_root = (
            str(replace(self.here, prefix="kafka-tiered-storage")) if self.random.random() < 0.3 else None
        )
        self.overrides = frozenset(["unproven_root"] if self.lonely and self.expected_root is None else [])
        self._populate()
        self._living_objects = self._objects_of(self.alive)

    # --- the beginning -------------------------------------------------------------------------------------------

    def _populate(self) -> None:
        if not self.lonely:
            self.alive.append(self._create("alive"))
            for _ in range(self.random.randint(1, 3)):
                self._segment(self.alive[0], S.COPY_SEGMENT_FINISHED)
            if self.random.random() < 0.2:
                self._copied_again()
        for name in [GONE, "gone-too"][: 1 + (self.random.random() < 0.2)]:
            topic_id = self._uuid()
            for partition in range(self.random.randint(1, 2)):
                tip = TopicIdPartition(topic_id, name, partition)
                self.gone.append(tip)
                states = [S(self.random.randint(0, 3)) for _ in range(self.random.randint(1, 4))]
                for state in [S.COPY_SEGMENT_FINISHED, *states] if self.lonely else states:
                    self._segment(tip, state)
        if not self.lonely and self.random.random() < 0.1:
            self.lost.add(self._segment(self.gone[0], S.COPY_SEGMENT_FINISHED, with_objects=False))

    def _copied_again(self) -> None:
        self._segment(self.recreate(), S.COPY_SEGMENT_FINISHED)

    def _create(self, name: str) -> TopicIdPartition:
        self.existing[name] = self._uuid()
        return TopicIdPartition(self.existing[name], name, 0)

    def _uuid(self) -> UUID:
        return UUID(int=self.random.getrandbits(128))

    def _segment(self, tip: TopicIdPartition, state: S, *, with_objects: bool = True) -> RemoteLogSegmentId:
        """Write the history of one segment as a broker would, and put the objects that its state allows."""
        metadata = self.announce(tip)
        path = {0: [], 1: [1], 2: self.random.choice([[2], [1, 2]]), 3: [1, 2, 3]}[int(state)]
        for step in path:
            segment = metadata.remote_log_segment_id
            custom = self.custom_metadata_of(segment, S(step))
            self.foreign(RemoteLogSegmentMetadataUpdate(segment, self.now_ms, custom, S(step), BROKER))
        for key in self.layout.required_keys(metadata):
            whole = state is S.COPY_SEGMENT_FINISHED
            if with_objects and (whole or (state is not S.DELETE_SEGMENT_FINISHED and self.random.random() < 0.6)):
                self.put(key)
        if state is S.COPY_SEGMENT_STARTED:
            self.being_copied.append(metadata)
        return metadata.remote_log_segment_id

    # --- what others do ------------------------------------------------------------------------------------------

    def foreign(self, event: Event) -> None:
        """Append an event that somebody else wrote; the record has its time, too (CreateTime)."""
        tip = topic_id_partition_of(event)
        self.record(self.home_of(tip), serialize(event), event, self.key_for(tip), event.event_timestamp_ms)

    def home_of(self, tip: TopicIdPartition) -> int:
        return metadata_partition_for(tip, self.log.partition_count)

    def key_for(self, tip: TopicIdPartition) -> bytes | None:
        """Return the key of somebody else's next record."""
        return None

    def record(
        self, metadata_partition: int, value: bytes | None, event: Event | None, key: bytes | None, time_ms: int
    ) -> None:
        """Append any record; ``event`` is what it says to brokers."""
        self.log.append(metadata_partition, value, key, time_ms)
        self.model.append(metadata_partition, event, time_ms, self.now_ms)

    def custom_metadata_of(self, segment: RemoteLogSegmentId, state: S) -> bytes | None:
        """Return what the plugin of brokers says of a copy, which they keep in every later event of theirs."""
        return None

    def announce(self, tip: TopicIdPartition) -> RemoteLogSegmentMetadata:
        """Begin to copy one more segment of a partition."""
        metadata = self.new_segment(tip)
        self.announced[metadata.remote_log_segment_id] = self.model.ends[self.home_of(tip)]
        self.foreign(metadata)
        return metadata

    def new_segment(self, tip: TopicIdPartition) -> RemoteLogSegmentMetadata:
        """Return one more segment of a partition, of which nobody knows yet."""
        start = 10 * len(self.model.at(tip).segments)
        metadata = RemoteLogSegmentMetadata(
            RemoteLogSegmentId(tip, self._uuid()),
            start,
            start + 9,
            1,
            BROKER,
            self.now_ms,
            1000,
            None,
            S.COPY_SEGMENT_STARTED,
            ((0, start),),
            True,
        )
        self._segment_of_stem[self.layout.segment_stem(metadata)] = metadata.remote_log_segment_id
        return metadata

    def remove(self, key: str) -> None:
        """Somebody else deletes an object."""
        if (segment := self.segment_of(key)) is not None:
            self.taken.add(segment)
        super().remove(key)

    def copied(self, tip: TopicIdPartition) -> None:
        """A living topic grows by a segment, if it still lives."""
        if tip in self.alive:
            self._segment(tip, S.COPY_SEGMENT_FINISHED)
            self._living_objects = self._objects_of(self.alive)

    def recreate(self) -> TopicIdPartition:
        """Create a topic of the deleted one's name, or return the one that is there."""
        if GONE not in self.existing:
            self.alive.append(self._create(GONE))
        return next(tip for tip in self.alive if tip.topic == GONE)

    def delete_twin(self) -> TopicIdPartition | None:
        """Delete the re-created topic, if there is one and nobody has marked it before its time."""
        for tip in self.alive:
            if tip.topic == GONE and self.model.at(tip).deletion is None:
                del self.existing[GONE]
                self.alive.remove(tip)
                self.gone.append(tip)
                self._living_objects = self._objects_of(self.alive)
                return tip
        return None

    # --- what can be seen ------------------------------------------------------------------------------------------

    def living_ids(self) -> set[UUID]:
        return set(self.existing.values())

    def objects_unknown_to(self, view: View, tip: TopicIdPartition) -> list[str]:
        """Return the objects of a partition that somebody should know of who has read so much of the log."""
        segments = {key: self.segment_of(key) for key in self._objects_of([tip])}
        return [
            key for key, segment in segments.items() if segment and self.announced.get(segment, view.end) < view.end
        ]

    def _only_a_person_settles(self, segment: RemoteLogSegmentId, needs_person: Collection[str]) -> bool:
        """
        Tell whether others have deleted a segment's objects while the outcome of our start was not known, and a person was
        told of that very segment: nothing is on record then of what there was to delete.
        """
        left = segment.id in self.model.readable(segment.topic_id_partition).unfinished
        told = any(said.startswith(f"{segment}: ") for said in needs_person)
        return left and told and self._starters_of(segment)[:1] == [OURS]

    def _ended_by_a_leader(self, tip: TopicIdPartition, needs_person: Collection[str]) -> set[RemoteLogSegmentId]:
        """
        Return the segments whose deletion a leader has started, of which no object is left, and of which a person was told
        because nothing shows that the root is up to date: the records that name living copies are lost, or there is none.
        """
        if not (self.lonely or any(self.model.begins.values())):
            return set()
        left = (RemoteLogSegmentId(tip, segment) for segment in self.model.readable(tip).unfinished)
        begun = {segment for segment in left if self._starters_of(segment)[:1] not in ([], [OURS])}
        return {s for s in begun if any(said.startswith(f"{s}: ") and _NOT_SHOWN in said for said in needs_person)}

    def _starters_of(self, segment: RemoteLogSegmentId) -> list[int]:
        """Return who has written that the deletion of a segment is started, by offset."""
        return [
            event.broker_id
            for record in self.model.log_of(segment.topic_id_partition).records
            if isinstance(event := record.event, RemoteLogSegmentMetadataUpdate)
            and (event.remote_log_segment_id, event.state) == (segment, S.DELETE_SEGMENT_STARTED)
        ]

    def _objects_of(self, tips: list[TopicIdPartition]) -> set[str]:
        prefixes = tuple(self.layout.partition_prefix(tip) for tip in tips)
        return {key for key in self.keys if key.startswith(prefixes)}

    def check_end_state(self, needs_person: Collection[str] = ()) -> None:
        """
        Nothing of what is deleted is left but what a person was told of, and everything of what lives is there.

        :param needs_person: what the last run said that a person has to look at.
        """
        assert self._objects_of(self.alive) == self._living_objects, "objects of a living topic are gone"
        lost = {s for s in self.lost if self.model.at(s.topic_id_partition).segments.get(s.id) != 3}
        lost |= {s for s in self.taken if self._only_a_person_settles(s, needs_person)}
        for tip in self.gone:
            partition = self.model.readable(tip)
            if tip in self.damaged:
                told = needs_person or not (partition.unfinished or partition.without_add or partition.under_way)
                assert told, f"I12: nobody was told why {tip} is left: {partition}"
                continue
            assert not self._objects_of([tip]), f"I5: objects of {tip} are left"
            untold = lost | self._ended_by_a_leader(tip, needs_person)
            missing = {segment.id for segment in untold if segment.topic_id_partition == tip}
            assert set(partition.unfinished) == missing, f"I5: {tip} has unfinished segments: {partition}"
            # Where objects were lost, a human has to say so; where nothing was ever left to delete, nothing is marked.
            assert partition.deletion in ({0, 1} if missing else {FINISHED, None}), f"I5: {tip} is left {partition}"
            assert needs_person or not missing, f"I12: nobody was told that segments of {tip} are missing"
