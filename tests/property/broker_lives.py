# SPDX-License-Identifier: Apache-2.0
"""
The life of a small cluster, told by those who write its metadata topic.

Leaders copy and delete segments and die in between. Elections are clean or not. Topics are deleted, by leaders and cleaners
that may die too, and made again under their names. Every writer is a story of its own that tells one event after the other;
what a cache would make of them is nobody's business here. What was sent reaches the log through the writers' queues, where a
retry lets a record arrive twice, or behind the next one. At last the topic is damaged.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from random import Random
from uuid import UUID

from airflow_provider_rlmm.core.records.keys import OffsetKey, RecordKey, SegmentKey
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import (
    NOT_SAID,
    OWN_BROKER_ID,
    RemoteLogMetadata,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataSnapshot,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    SegmentEvent,
    TopicIdPartition,
)
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState as P
from tests.property.record_keys import offset_key, segment_key
from tests.property.written_topics import NOW_MS, PARTITION_COUNT, Forgets, Record, WrittenTopic, lose_beginnings

BROKERS = (1, 2, 3)
CONTROLLER = 100
TICK_MS = 60_000
NAMES = ("orders", "payments", "päd", "z" * 249)

Story = Iterator[RemoteLogMetadata | RecordKey | None]
"""
Tells its events, and by their keys what the log cleaner is to forget; ``None`` lets time pass. Whoever stops listening has
killed its writer.
"""


@dataclass
class Copy:
    """A segment as its leader believes it to be in storage."""

    id: RemoteLogSegmentId
    start: int
    end: int
    leader_epoch: int


@dataclass
class Replica:
    """What whoever leads a user partition knows of its log."""

    tip: TopicIdPartition
    leader: int
    epochs: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])
    log_start: int = 0
    log_end: int = 0
    next_to_copy: int = 0
    copies: list[Copy] = field(default_factory=list)
    exists: bool = True

    def epochs_of(self, start: int, end: int) -> tuple[tuple[int, int], ...]:
        """As the leader epoch cache is cut for a segment."""
        ends = [*(first for _, first in self.epochs[1:]), self.log_end + 1]
        return tuple(
            (e, max(f, start)) for (e, f), behind in zip(self.epochs, ends, strict=True) if f <= end and behind > start
        )


class ClusterLife:
    """
    A cluster and its metadata topic.

    :param seed: decides everything.
    :param ticks: for how long it lives.
    """

    def __init__(self, seed: int, ticks: int) -> None:
        self.random = Random(f"life {seed}")
        # Brokers of today write no keys; those to come write them by one of two designs (KIP-1266).
        self._design: type[RecordKey] | None = Random(f"keys {seed}").choice([None, None, None, SegmentKey, OffsetKey])
        self.topic = WrittenTopic()
        self._now = 0
        self._replicas = [r for _ in range(self.random.randint(1, 3)) for r in self._created(self.random.choice(NAMES))]
        self._stories: list[tuple[int, Story, Replica]] = []
        self._queue: list[tuple[int, int, int, Record]] = []
        self._last_due: dict[tuple[int, int], int] = {}
        self._sent = count()
        self._skew_ms = {
            broker: self.random.choice([0, 0, -90_000, 240_000, 10**10]) for broker in (*BROKERS, CONTROLLER)
        }
        self._lossy = self.random.choice([0, 0.02, 0.1])
        for self._now in range(ticks):
            self._tick()
        self._arrive(until=10**9)

    # -- time ----------------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        for replica in list(self._replicas):
            self._live(replica)
        going_on = []
        for writer, story, replica in self._stories:
            if self.random.random() < 0.5:
                going_on.append((writer, story, replica))
                continue
            try:
                event = next(story)
            except StopIteration:
                continue
            if event is not None:
                self._send(writer, event, replica.tip)
            going_on.append((writer, story, replica))
        self._stories = going_on
        self._arrive(self._now)

    def _live(self, replica: Replica) -> None:
        random = self.random
        if not replica.exists:
            return
        replica.log_end += random.randrange(8)
        happens: list[tuple[float, Callable[[Replica], None]]] = [
            (0.35, self._copies), (0.1, self._expires), (0.05, self._elected), (0.015, self._deleted),
        ]  # fmt: skip
        for chance, what in happens:
            if random.random() < chance:
                what(replica)

    def _tell(self, writer: int, story: Story, replica: Replica) -> None:
        self._stories.append((writer, story, replica))

    def _kill(self, writer: int, replica: Replica) -> None:
        """The writer dies; sometimes it only seems so, and what it had begun comes late."""
        if self.random.random() < 0.6:
            self._stories = [s for s in self._stories if not (s[0] == writer and s[2] is replica)]

    # -- leaders -------------------------------------------------------------------------------------------------------

    def _copies(self, replica: Replica) -> None:
        if replica.next_to_copy < replica.log_end:
            self._tell(replica.leader, self._copy(replica, replica.leader), replica)

    def _copy(self, replica: Replica, broker: int) -> Story:
        random = self.random
        start = replica.next_to_copy
        end = min(replica.log_end, start + random.randrange(1, 12)) - 1
        epochs = replica.epochs_of(start, end)
        if end < start or not epochs:
            return
        replica.next_to_copy = end + 1
        copy = Copy(
            RemoteLogSegmentId(replica.tip, UUID(int=random.getrandbits(128))), start, end, replica.epochs[-1][0]
        )
        yield RemoteLogSegmentMetadata(
            copy.id, start, end, self._ms(broker), broker, self._ms(broker), random.randrange(1, 5_000),
            random.choice([None, b"", random.randbytes(9)]), S.COPY_SEGMENT_STARTED, epochs, random.random() < 0.5,
            copy.leader_epoch if self._design is OffsetKey else NOT_SAID,
        )  # fmt: skip
        yield from [None] * random.randrange(3)
        if random.random() < 0.1:
            # The upload failed: newer brokers clean up, older ones leave it as it is.
            replica.next_to_copy = min(replica.next_to_copy, start)
            if random.random() < 0.5:
                yield from self._delete(copy, broker)
            return
        replica.copies.append(copy)
        yield self._update(copy, S.COPY_SEGMENT_FINISHED, broker, random.choice([None, None, random.randbytes(5)]))

    def _expires(self, replica: Replica) -> None:
        for copy in replica.copies[: self.random.randrange(1, 3)]:
            replica.log_start = max(replica.log_start, copy.end + 1)
            self._tell(replica.leader, self._delete_and_forget(replica, copy), replica)

    def _delete_and_forget(self, replica: Replica, copy: Copy) -> Story:
        yield from self._delete(copy, replica.leader)
        # A leader that dies before that leaves it to the next one, which begins again.
        if copy in replica.copies:
            replica.copies.remove(copy)

    def _delete(self, copy: Copy, writer: int) -> Story:
        yield self._update(copy, S.DELETE_SEGMENT_STARTED, writer)
        yield from [None] * self.random.randrange(3)
        yield self._update(copy, S.DELETE_SEGMENT_FINISHED, writer)
        yield from self._keys_of(copy)

    def _keys_of(self, copy: Copy) -> Iterator[RecordKey]:
        """All keys of the records about a copy."""
        tip = copy.id.topic_id_partition
        if self._design is SegmentKey:
            yield from (SegmentKey(tip.topic_id, tip.partition, copy.id.id, state) for state in S)
        elif self._design is OffsetKey:
            for is_update in (False, True):
                yield OffsetKey(tip.topic_id, tip.topic, tip.partition, copy.end, copy.leader_epoch, is_update)

    def _elected(self, replica: Replica) -> None:
        random = self.random
        self._kill(replica.leader, replica)
        replica.leader = random.choice(BROKERS)
        epoch = replica.epochs[-1][0] + random.choice([1, 1, 2])
        if random.random() < 0.3:
            # Unclean: what the new leader lacks is gone, and its offsets are given anew in another epoch.
            replica.log_end = random.randint(replica.log_start, max(replica.log_start, replica.log_end))
            replica.epochs = [(e, first) for e, first in replica.epochs if first < replica.log_end] or replica.epochs[
                :1
            ]
        replica.epochs.append((epoch, replica.log_end))
        known = max((copy.end + 1 for copy in replica.copies), default=replica.log_start)
        # It looks for the highest offset that was copied; what was under way when it looked it copies again.
        replica.next_to_copy = min(known if random.random() < 0.8 else replica.log_start, replica.log_end)

    # -- the end of topics ---------------------------------------------------------------------------------------------

    def _deleted(self, replica: Replica) -> None:
        random = self.random
        mine = [r for r in self._replicas if r.tip.topic_id == replica.tip.topic_id]
        for r in mine:
            r.exists = False
            for copy in r.copies[: random.randrange(len(r.copies) + 1)]:
                self._tell(r.leader, self._delete(copy, r.leader), r)
            self._tell(
                OWN_BROKER_ID, self._cleaning(r, by=random.choice([OWN_BROKER_ID, OWN_BROKER_ID, CONTROLLER])), r
            )
            if random.random() < 0.3:
                self._tell(OWN_BROKER_ID, self._cleaning(r, by=OWN_BROKER_ID), r)
        if random.random() < 0.5:
            self._replicas += self._created(replica.tip.topic)

    def _cleaning(self, replica: Replica, by: int) -> Story:
        """A cleaner's runs; each may end anywhere, and the next one begins again."""
        random = self.random
        for _ in range(random.randint(1, 3)):
            if random.random() < 0.9:
                yield self._deletion(replica, P.DELETE_PARTITION_MARKED, by)
            yield from [None] * random.randrange(4)
            if random.random() < 0.3:
                continue
            yield self._deletion(replica, P.DELETE_PARTITION_STARTED, by)
            for copy in list(replica.copies):
                if random.random() < 0.05:
                    break
                yield from self._delete(copy, by)
            else:
                if random.random() < 0.8:
                    yield self._deletion(replica, P.DELETE_PARTITION_FINISHED, by)

    # -- words ---------------------------------------------------------------------------------------------------------

    def _created(self, name: str) -> list[Replica]:
        topic_id = UUID(int=self.random.getrandbits(128))
        numbers = range(self.random.randint(1, 3))
        return [Replica(TopicIdPartition(topic_id, name, n), self.random.choice(BROKERS)) for n in numbers]

    def _update(
        self, copy: Copy, state: S, writer: int, custom_metadata: bytes | None = None
    ) -> RemoteLogSegmentMetadataUpdate:
        names = (copy.end, copy.leader_epoch) if self._design is OffsetKey else (NOT_SAID, NOT_SAID)
        return RemoteLogSegmentMetadataUpdate(copy.id, self._ms(writer), custom_metadata, state, writer, *names)

    def _deletion(self, replica: Replica, state: P, writer: int) -> RemotePartitionDeleteMetadata:
        return RemotePartitionDeleteMetadata(replica.tip, state, self._ms(writer), writer)

    def _ms(self, writer: int) -> int:
        return NOW_MS - 10**9 + self._now * TICK_MS + self._skew_ms.get(writer, 0)

    # -- the way to the log --------------------------------------------------------------------------------------------

    def _record(self, said: RemoteLogMetadata | RecordKey) -> Record:
        if isinstance(said, RecordKey):
            return Record(None, bytes(said), self._ms(OWN_BROKER_ID))
        key = None
        if isinstance(said, SegmentEvent) and self._design is not None:
            key = segment_key(said) if self._design is SegmentKey else offset_key(said, NOT_SAID, NOT_SAID)
        return Record(serialize(said), key, self._ms(OWN_BROKER_ID))

    def _send(self, writer: int, said: RemoteLogMetadata | RecordKey, tip: TopicIdPartition) -> None:
        home, record = metadata_partition_for(tip, PARTITION_COUNT), self._record(said)
        due = max(self._now + self.random.randrange(2), self._last_due.get((writer, home), 0))
        self._last_due[writer, home] = due
        if self.random.random() < self._lossy:
            # The answer was lost, so it is sent again; or it was not there, and the next one overtakes it.
            heapq.heappush(self._queue, (due + self.random.randrange(4), next(self._sent), home, record))
            if self.random.random() < 0.5:
                return
        heapq.heappush(self._queue, (due, next(self._sent), home, record))

    def _arrive(self, until: int) -> None:
        while self._queue and self._queue[0][0] <= until:
            _, _, home, record = heapq.heappop(self._queue)
            self.topic.partitions[home].append(record)


# -- damage ------------------------------------------------------------------------------------------------------------


def damage(topic: WrittenTopic, random: Random) -> None:
    """Do something to the records of a topic that no writer of events does."""
    number = random.randrange(topic.partition_count)
    records = topic.partitions[number]
    at = random.randrange(len(records) + 1)
    before = records[at - 1] if at else Record(None)
    value = before.value or b""
    what = random.randrange(13)
    if what < 5:
        odd = (None, b"", value[: random.randrange(len(value) + 1)], b"\1\0\7" + value[3:], _snapshot(random))[what]
        records.insert(at, Record(odd, None, before.timestamp_ms))
    elif what == 5 and value:
        flipped = bytearray(value)
        flipped[random.randrange(len(value))] ^= 1 << random.randrange(8)
        records[at - 1] = Record(bytes(flipped), before.key, before.timestamp_ms)
    elif what == 6 and at:
        records[at - 1] = Record(before.value, random.choice([b"", b"k"]), before.timestamp_ms)
    elif what == 7 and at:
        # Somebody's tool copies records, into whatever metadata partition.
        random.choice(topic.partitions).append(before)
    elif what == 8 and at:
        del records[at - 1]
    elif what == 9 and at > 1:
        records[at - 2], records[at - 1] = records[at - 1], records[at - 2]
    elif what == 10 and value[:2] == b"\1\1":
        # The state is the byte before the tagged fields.
        records.insert(at, Record(value[:-2] + bytes([S.COPY_SEGMENT_STARTED, 0]), None, before.timestamp_ms))
    elif what == 11 and value[:2] == b"\1\0":
        records.insert(at, Record(value[:-2] + bytes([random.randrange(4), 0]), None, before.timestamp_ms))
    elif what == 12:
        records[at:at] = Forgets(random, 1).after(before.value)


def _snapshot(random: Random) -> bytes:
    segment_id = UUID(int=random.getrandbits(128))
    return serialize(
        RemoteLogSegmentMetadataSnapshot(segment_id, 0, 9, 1, 1, 2, 3, None, S.COPY_SEGMENT_STARTED, ((0, 0),), False)
    )


def broker_lives(seed: int) -> WrittenTopic:
    """The life of a cluster; in every other one the topic is damaged at last."""
    random = Random(f"damage {seed}")
    topic = ClusterLife(seed, random.choice([10, 40, 80])).topic
    if random.random() < 0.5:
        for _ in range(random.choice([1, 3, 12])):
            damage(topic, random)
        lose_beginnings(topic, random)
    return topic
