# SPDX-License-Identifier: Apache-2.0
"""
What is wrong with the world rather than with a process: clocks, answers of another cluster, rights, a log that loses records,
records that nobody can read.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from uuid import UUID

from airflow_provider_rlmm.core.log.in_process import METADATA_TOPIC_ID
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.core.records.serde import serialize
from tests.simulation.content import GONE, Content
from tests.simulation.roots import CLUSTER_ID, STAMP_KEY

CLOCKS = "wrong clocks"
CLUSTER = "another cluster"
RIGHTS = "missing rights"
LOSS = "lost records"
RECORDS = "bad records"
NAMES = "several names"
ROOTS = "wrong roots"
KINDS = (CLOCKS, CLUSTER, RIGHTS, LOSS, RECORDS, NAMES, ROOTS)

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
CLOCKS_AHEAD_MS = [0, 0, 0, 4 * MINUTE_MS, -4 * MINUTE_MS, 25 * HOUR_MS, -25 * HOUR_MS, 87_600 * HOUR_MS]
"""A few minutes pass; who is further off than that is refused."""

ANOTHER_CLUSTER = "another-cluster-id-002"
ANOTHER_METADATA_TOPIC = UUID(int=2)
THEIR_TOPICS = {"alive": UUID(int=3), "theirs": UUID(int=4)}
UNREADABLE = {"tombstone": None, "garbage": b"\x07garbage", "newer version": b"\x00\x09newer"}


class Mistakes(Content):
    """
    The mistakes of a :class:`~tests.simulation.world.World`.

    :param kinds: which of :data:`KINDS` happen in it.
    """

    adversary: random.Random
    renamer: random.Random
    happened: Counter[str]
    metadata_topic_id = METADATA_TOPIC_ID

    def __init__(self, kinds: frozenset[str]) -> None:
        self.kinds = kinds
        self.keyed: set[TopicIdPartition] = set()
        self.unreadable: dict[int, set[int]] = defaultdict(set)
        self.denied: frozenset[str] = frozenset()
        self._answers_elsewhere = 0
        super().__init__()

    # --- answers of the topics client -------------------------------------------------------------------------------

    def answer_wrongly(self) -> None:
        """Let the next answer about topics be another cluster's, or one to somebody who may not ask."""
        self._answer_elsewhere()
        self.topics.denied = set(self.denied)
        if RIGHTS in self.kinds and self.adversary.random() < 0.05:
            self.happened["denied at a look"] += 1
            self.topics.denied |= {self.adversary.choice([GONE, *self.existing])}

    def _answer_elsewhere(self) -> None:
        if CLUSTER in self.kinds and not self._answers_elsewhere and self.adversary.random() < 0.06:
            self._answers_elsewhere = self.adversary.choice([1, 1, 2, 3, 6])
        if self._answers_elsewhere:
            self._answers_elsewhere -= 1
            self.happened["another cluster"] += 1
            self.topics.topics, self.topics.metadata_topic_id = dict(THEIR_TOPICS), ANOTHER_METADATA_TOPIC
            self.topics._cluster_id = ANOTHER_CLUSTER

    def answer_truly(self) -> None:
        """Let the topics client say what is."""
        self.topics.topics, self.topics.metadata_topic_id = self.existing, self.metadata_topic_id
        self.topics._cluster_id = CLUSTER_ID
        self.topics.denied = set(self.denied)

    def draw_rights(self) -> None:
        """Let a principal go without the right to describe some topics, for a whole run."""
        names = [GONE, *self.existing]
        denied = RIGHTS in self.kinds and self.adversary.random() < 0.3
        self.denied = frozenset(name for name in names if denied and self.adversary.random() < 0.5)
        self.happened["denied for a run"] += bool(self.denied)
        self.answer_truly()

    def clocks_ahead_ms(self) -> list[int]:
        """Return how far the clocks of a run's workers are ahead, one per task."""
        if CLOCKS not in self.kinds:
            return [0]
        wrong = self.adversary.choice(CLOCKS_AHEAD_MS)
        jumps = self.adversary.random() < 0.3
        return [self.adversary.choice(CLOCKS_AHEAD_MS) for _ in range(5)] if jumps else [wrong]

    # --- the storage root ---------------------------------------------------------------------------------------------

    def draw_root(self) -> None:
        """Mount a root for a whole run: the true one, or another one that can be told from it."""
        roots = [] if self.lonely else [self._strange_root]
        if ROOTS in self.kinds:
            # A current copy that holds no stamp of ours cannot be told from the root.
            roots += [self._copied_root] if STAMP_KEY in self.mounted or self.expected_root else []
            # What the log has lost it cannot tell of the newest copies.
            roots += [] if self.lonely or LOSS in self.kinds else [self._old_root]
            roots += [self._partial_root]
        if roots and self.adversary.random() < (0.3 if ROOTS in self.kinds else 0.05):
            self.adversary.choice(roots)()

    def _strange_root(self) -> None:
        self.happened["strange root"] += 1
        self.mount_strange()

    def _copied_root(self) -> None:
        self.happened["copied root"] += 1
        self.mount_instead(self.mounted, self.elsewhere)

    def _old_root(self) -> None:
        """A copy, or the root itself as it was, and a living topic was copied since."""
        self.happened["old root"] += 1
        old = dict(self.mounted)
        self.now_ms += MINUTE_MS
        self.copied(self.alive[0])  # the others may be deleted
        stamped_elsewhere = self.adversary.choice([self.here, self.elsewhere])
        self.mount_instead(old, stamped_elsewhere)

    def _partial_root(self) -> None:
        self.happened["partial root"] += 1
        for tip in self.adversary.sample(self.gone, self.adversary.randint(1, len(self.gone))):
            self.rename_folder(tip)

    def _swap_in_mid_run(self) -> None:
        if self.hidden is None and not self.renamed_prefixes:
            self.happened["root swapped in mid-run"] += 1
            self.swapped = True
            self.mount_strange()

    def _rename_in_mid_run(self) -> None:
        self.rename_folder(self.adversary.choice(self.gone))

    def rename_before_deletion(self, key: str) -> None:
        """Let the folder of an object go right before its deletion: a listing after it shows nothing of what is left."""
        segment = self.segment_of(key)
        there = ROOTS in self.kinds and self.hidden is None and key in self.mounted
        if there and segment is not None and segment.topic_id_partition in self.gone and self.renamer.random() < 0.05:
            self.happened["folder renamed before a deletion"] += 1
            self.rename_folder(segment.topic_id_partition)

    # --- the log ------------------------------------------------------------------------------------------------------

    def mistake(self) -> None:
        """Let something happen to the log, if it is that kind of world."""
        mistakes = [self._lose_beginning, self._lose_end] if LOSS in self.kinds else []
        mistakes += [self._append_unreadable, self._garble, self._misroute] if RECORDS in self.kinds else []
        mistakes += [self._name_otherwise] if NAMES in self.kinds else []
        mistakes += [self._swap_in_mid_run, self._rename_in_mid_run] if ROOTS in self.kinds else []
        if mistakes:
            self.adversary.choice(mistakes)()

    def _lose_beginning(self) -> None:
        number, begin, end = self._some_partition()
        before = self.adversary.choice([end, self.adversary.randint(begin, end)])
        self.happened["beginning lost"] += 1
        self.log.truncate(number, before)
        self.damaged |= self.model.truncate(number, before)

    def _lose_end(self) -> None:
        """An election of a replica that lacks the newest records; others may take their offsets."""
        number, begin, end = self._some_partition()
        new_end = max(begin, end - self.adversary.randint(1, 4))
        self.happened["end lost"] += 1
        self.log.cut_off(number, new_end)
        self.damaged |= self.model.cut_off(number, new_end)
        self._end_at(number, new_end)
        self.announced = {s: o for s, o in self.announced.items() if o < new_end or not self._lies_in(s, number)}
        tips = [tip for tip in (*self.gone, *self.alive) if self.home_of(tip) == number]
        for _ in range(self.adversary.choice([0, 1, 5]) if tips else 0):
            self.happened["regrown"] += 1
            self.announce(self.adversary.choice(tips))

    def _end_at(self, number: int, end: int) -> None:
        """Forget what could not be read from an offset on: others may take those offsets."""
        self.unreadable[number] = {offset for offset in self.unreadable[number] if offset < end}

    def _lies_in(self, segment: object, metadata_partition: int) -> bool:
        return self.home_of(segment.topic_id_partition) == metadata_partition  # type: ignore[attr-defined]

    def _some_partition(self) -> tuple[int, int, int]:
        number = self.adversary.randrange(self.log.partition_count)
        return number, self.model.begins[number], self.model.ends[number]

    def _append_unreadable(self) -> None:
        number, _, _ = self._some_partition()
        what, value = self.adversary.choice(list(UNREADABLE.items()))
        self.happened[what] += 1
        self._unreadable(number, value)

    def _unreadable(self, number: int, value: bytes | None) -> None:
        self.unreadable[number].add(self.model.ends[number])
        self.record(number, value, None, None, self.now_ms)

    def _garble(self) -> None:
        """A copy of which nobody can read that it began."""
        tip = self.adversary.choice(self.gone)
        metadata, number = self.new_segment(tip), self.home_of(tip)
        self.happened["garbled"] += 1
        self.announced[metadata.remote_log_segment_id] = self.model.ends[number]
        self.damaged.add(tip)
        for key in self.layout.required_keys(metadata):
            self.put(key)
        self._unreadable(number, UNREADABLE["garbage"])

    def _misroute(self) -> None:
        """A record that lies where no broker looks for it."""
        metadata = self.new_segment(self.adversary.choice(self.gone))
        number, _, end = self._some_partition()
        if number == self.home_of(metadata.remote_log_segment_id.topic_id_partition):
            return
        self.happened["misrouted"] += 1
        self.unreadable[number].add(end)
        self.record(number, serialize(metadata), None, None, self.now_ms)

    def _name_otherwise(self) -> None:
        """A record that gives the id of a deleted topic another name."""
        tip = self.adversary.choice(self.gone)
        alias = TopicIdPartition(tip.topic_id, "another-name", tip.partition)
        self.happened["another name"] += 1
        self.foreign(self.new_segment(alias))
        self.damaged |= {t for t in self.gone if t.topic_id == tip.topic_id and self.home_of(t) == self.home_of(alias)}

    def key_for(self, tip: TopicIdPartition) -> bytes | None:
        """Return the key of somebody else's next record: brokers ignore it."""
        if RECORDS not in self.kinds or self.adversary.random() >= 0.05:
            return None
        self.happened["keyed"] += 1
        self.keyed.add(tip)
        return b"key"

    def is_doubtful(self, tip: TopicIdPartition) -> bool:
        """Tell whether more may have been said about a partition than can be read."""
        number = self.home_of(tip)
        return bool(self.model.begins[number] or self.unreadable[number] or tip in self.keyed)

    def end_mistakes(self) -> None:
        """Let nothing more go wrong."""
        self.kinds, self._answers_elsewhere = frozenset(), 0
        self.mount_true()
        self.draw_rights()

    @property
    def losses(self) -> int:
        """How often the log has lost records."""
        return self.happened["beginning lost"] + self.happened["end lost"]

    def looks_denied(self) -> set[TopicIdPartition]:
        """Return the user partitions with work to do whose topics nobody may describe in this run."""
        known = (tip for tip in (*self.gone, *self.alive) if tip.topic in self.denied)
        return {tip for tip in known if self.model.readable(tip).unfinished}
