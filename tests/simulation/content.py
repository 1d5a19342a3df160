# SPDX-License-Identifier: Apache-2.0
"""What the simulated cluster holds: topics, the history of their segments, and objects; and how others change it."""

from __future__ import annotations

import random
from uuid import UUID

from airflow_provider_rlmm.manager.in_process import InProcessClusterTopics, InProcessMetadataEventLog
from airflow_provider_rlmm.metadata.partitioner import metadata_partition_for
from airflow_provider_rlmm.metadata.records import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    TopicIdPartition,
    topic_id_partition_of,
)
from airflow_provider_rlmm.metadata.serde import serialize
from airflow_provider_rlmm.metadata.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.storage.in_memory import InMemoryRemoteStorageManager
from airflow_provider_rlmm.storage.layouts import LocalTieredStorageLayout
from airflow_provider_rlmm.storage.root import OLD_STAMP_KEY, Stamp, stamp_key
from tests.simulation.actors import BROKER
from tests.simulation.model import FINISHED, Event, LogModel

METADATA_PARTITIONS = 2
CLUSTER_ID = "simulated-cluster-id-1"
GONE = "gone"
STAMP_KEY = stamp_key(CLUSTER_ID, LocalTieredStorageLayout.places[0].name)
STRANGE_STAMP = b'{"cluster_id": "another-cluster", "layout": "local-tiered-storage"}'


class Content:
    """The things of a :class:`~tests.simulation.world.World`."""

    random: random.Random
    log: InProcessMetadataEventLog
    topics: InProcessClusterTopics

    def __init__(self) -> None:
        self.now_ms = 1_800_000_000_000
        self.model = LogModel()
        self.layout = LocalTieredStorageLayout()
        self.storage = InMemoryRemoteStorageManager(self.layout)
        self.existing: dict[str, UUID] = {}
        self.topics.topics = self.existing
        self.gone: list[TopicIdPartition] = []
        self.alive: list[TopicIdPartition] = []
        self.lost: set[RemoteLogSegmentId] = set()
        self.hidden: dict[str, tuple[bytes, int]] = {}
        self.being_copied: list[RemoteLogSegmentMetadata] = []
        self._segment_of_stem: dict[str, RemoteLogSegmentId] = {}
        # In some worlds nothing else is left that could prove whose storage root this is.
        self.lonely = self.random.random() < 0.25
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
        topic_id = self._uuid()
        for partition in range(self.random.randint(1, 2)):
            tip = TopicIdPartition(topic_id, GONE, partition)
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
            self.foreign(
                RemoteLogSegmentMetadataUpdate(metadata.remote_log_segment_id, self.now_ms, None, S(step), BROKER)
            )
        for key in self.layout.segment_keys(metadata).required:
            whole = state is S.COPY_SEGMENT_FINISHED
            if with_objects and (whole or (state is not S.DELETE_SEGMENT_FINISHED and self.random.random() < 0.6)):
                self.put(key)
        if state is S.COPY_SEGMENT_STARTED:
            self.being_copied.append(metadata)
        return metadata.remote_log_segment_id

    # --- what others do ------------------------------------------------------------------------------------------

    def foreign(self, event: Event) -> None:
        """Append an event that somebody else wrote; the record has its time, too (CreateTime)."""
        metadata_partition = metadata_partition_for(topic_id_partition_of(event), METADATA_PARTITIONS)
        self.log.append(metadata_partition, serialize(event), timestamp_ms=event.event_timestamp_ms)
        self.model.append(metadata_partition, event, event.event_timestamp_ms)

    def announce(self, tip: TopicIdPartition) -> RemoteLogSegmentMetadata:
        """Begin to copy one more segment of a partition."""
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
        self.foreign(metadata)
        return metadata

    def put(self, key: str) -> None:
        """Put an object into the true store, whatever stands in for it."""
        if self.hidden:
            self.hidden[key] = b"x" * 10, self.now_ms
        else:
            self.storage.put_object(key, b"x" * 10)

    def remove(self, key: str) -> None:
        """Delete an object from the true store."""
        self._true_objects().pop(key, None)

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

    def hide_storage(self) -> None:
        """Mount another root: empty, or another cluster's."""
        self.hidden = dict(self._objects())
        self._objects().clear()
        if self.random.random() < 0.5:
            strange = TopicIdPartition(self._uuid(), "strange", 0)
            self.storage.put_object(f"{self.layout.partition_prefix(strange)}{0:020d}-{'A' * 21}Q.log", b"x")
            if self.random.random() < 0.5:
                self.storage.put_object(OLD_STAMP_KEY, STRANGE_STAMP)

    def show_storage(self) -> None:
        """Mount the true root again."""
        self._objects().clear()
        self._objects().update(self.hidden)
        self.hidden = {}

    # --- what can be seen ------------------------------------------------------------------------------------------

    def _objects(self) -> dict[str, tuple[bytes, int]]:
        return self.storage._objects

    def _true_objects(self) -> dict[str, tuple[bytes, int]]:
        return self.hidden or self._objects()

    def recorded_roots(self) -> frozenset[str]:
        """Return the root ids that plans and reports have recorded: of all stamps that were ever written."""
        stamps = [data for key, (data, _) in self._true_objects().items() if key == STAMP_KEY]
        return frozenset(Stamp.from_json(data).root_id for data in stamps)

    def living_ids(self) -> set[UUID]:
        return set(self.existing.values())

    def segment_of(self, key: str) -> RemoteLogSegmentId | None:
        return self._segment_of_stem.get(key.rsplit(".", 1)[0])

    def objects_of_segment(self, segment: RemoteLogSegmentId) -> list[str]:
        return [key for key in self._true_objects() if self.segment_of(key) == segment]

    def _objects_of(self, tips: list[TopicIdPartition]) -> set[str]:
        prefixes = tuple(self.layout.partition_prefix(tip) for tip in tips)
        return {key for key in self._true_objects() if key.startswith(prefixes)}

    def check_end_state(self) -> None:
        """Nothing of what is deleted is left, and everything of what lives is there."""
        assert not self._objects_of(self.gone), "I5: objects of a deleted topic are left"
        assert self._objects_of(self.alive) == self._living_objects, "objects of a living topic are gone"
        lost = {segment for segment in self.lost if self.model.at(segment.topic_id_partition).segments[segment.id] != 3}
        for tip in self.gone:
            partition = self.model.at(tip)
            missing = {segment.id for segment in lost if segment.topic_id_partition == tip}
            assert set(partition.unfinished) == missing, f"I5: {tip} has unfinished segments: {partition}"
            # Where objects were lost, a human has to say so; where nothing was ever left to delete, nothing is marked.
            assert partition.deletion in ({0, 1} if missing else {FINISHED, None}), f"I5: {tip} is left {partition}"
